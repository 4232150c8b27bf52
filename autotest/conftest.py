"""What all tests share: the plugin must be loaded; a store made without any of the project's own code."""

import json
import os
import sqlite3
import zlib

import numpy as np
import pytest
from osgeo import gdal

gdal.UseExceptions()


def pytest_sessionstart(session):
    if gdal.GetDriverByName("MDIMREFS") is None:
        where = os.environ.get("GDAL_DRIVER_PATH", "(not set)")
        pytest.exit(f"GDAL {gdal.__version__} has no driver MDIMREFS; GDAL_DRIVER_PATH is {where}", returncode=3)


@pytest.fixture(scope="session")
def real_data():
    """The folder of real files."""
    here = os.path.join(os.environ.get("MDIMREFS_TEST_DATA", "../shared/data"), "real")
    if not os.path.isdir(here):
        pytest.skip(f"MDIMREFS_TEST_DATA: there is no folder {here}: REAL FILES ARE NOT TESTED")
    return here


@pytest.fixture()
def errors():
    """GDAL's messages, as (class, text)."""
    messages = []

    def handler(error_class, _number, text):
        messages.append((error_class, text))

    gdal.PushErrorHandler(handler)
    yield messages
    gdal.PopErrorHandler()


def get_refs(sources, store, **arguments):
    """Runs `gdal mdim get-refs`; returns what it printed."""
    sources = [sources] if isinstance(sources, (str, os.PathLike)) else sources
    return gdal.Run("mdim get-refs", input=[str(s) for s in sources], output=str(store), **arguments)["output-string"]


def open_root(name, options=()):
    return gdal.OpenEx(str(name), gdal.OF_MULTIDIM_RASTER, open_options=list(options)).GetRootGroup()


class ForeignStore:
    """A store as other software makes it, by SQL alone: few tables, a chunk table with a rowid, a hand-written view."""

    def __init__(self, path):
        self.path = str(path)
        self.sql = sqlite3.connect(self.path)
        self.sql.executescript(
            """
            CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
            INSERT INTO meta VALUES ('format_version', 'mdim-refs/0.2');
            CREATE TABLE sources(source_id INTEGER PRIMARY KEY, source TEXT UNIQUE);
            CREATE TABLE remap(target TEXT, prefix TEXT, replacement TEXT);
            CREATE TABLE arrays("array" TEXT PRIMARY KEY, kind TEXT, storage TEXT, dims TEXT, shape TEXT, chunks TEXT,
                                dtype TEXT, fill TEXT, codec TEXT, attrs TEXT, affine TEXT, "values" BLOB);
            """
        )

    def add_array(self, name, dims, shape, chunks, dtype, fill=None, codec=None, attrs=None, **more):
        row = {
            "array": name,
            "kind": "data",
            "storage": "referenced",
            "dims": json.dumps(dims),
            "shape": json.dumps(shape),
            "chunks": json.dumps(chunks),
            "dtype": dtype,
            "fill": None if fill is None else json.dumps(fill),
            "codec": json.dumps(codec or {"compressor": None, "filters": None}),
            "attrs": json.dumps(attrs or {}),
            **more,
        }
        names, marks = ", ".join(f'"{k}"' for k in row), ", ".join("?" for _ in row)
        self.sql.execute(f"INSERT INTO arrays({names}) VALUES ({marks})", list(row.values()))

    def add_chunks(self, name, rank, rows):
        """`rows`: (source_id, dim_0, …, present, offset, size, info, data)."""
        dims = [f"dim_{i}" for i in range(rank)]
        quoted = '"' + name.replace('"', '""') + '"'
        view = '"refs_' + name.replace('"', '""') + '"'
        columns = ", ".join(f"{d} BIGINT" for d in dims)
        self.sql.execute(
            f"CREATE TABLE {quoted}(source_id INTEGER, {columns}, "
            'present INTEGER, "offset" BIGINT, size BIGINT, info TEXT, data BLOB)'
        )
        self.sql.executemany(f"INSERT INTO {quoted} VALUES ({', '.join('?' * (rank + 6))})", rows)
        self.sql.execute(
            f"CREATE VIEW {view} AS SELECT {', '.join('c.' + d for d in dims)}, c.present, s.source AS path, "
            f'c."offset", c.size, c.info, c.data FROM {quoted} c JOIN sources s ON s.source_id = c.source_id'
        )

    def close(self):
        self.sql.commit()
        self.sql.close()
        return self.path


#: The array of the fixture below: its third chunk is nowhere.
FOREIGN_VALUES = np.array([[0, 1, 2, 3, -1, -1], [6, 7, 8, 9, -1, -1]], dtype="<i4")


def write_foreign(folder):
    """7 bytes of something else, then two zlib chunks of a 2 × 6 array in chunks of 2 × 2. The source is recorded under
    a path that is not there, and the remap target `here` puts that right."""
    chunks = [zlib.compress(FOREIGN_VALUES[:, 2 * i : 2 * i + 2].tobytes()) for i in range(2)]
    (folder / "data.bin").write_bytes(b"\x00junk!\xff" + b"".join(chunks))
    store = ForeignStore(folder / "foreign.sqlite")
    store.sql.execute("INSERT INTO sources VALUES (1, '/not/there/data.bin')")
    store.sql.execute("INSERT INTO remap VALUES ('here', '/not/there/', ?)", [f"{folder}/"])
    store.add_array(
        "v", ["y", "x"], [2, 6], [2, 2], "<i4", -1, {"compressor": {"id": "zlib", "level": 6}, "filters": None}
    )
    info = "COMPRESSION=DEFLATE; ENDIANNESS=LITTLE"
    store.add_chunks(
        "v",
        2,
        [
            (1, 0, 0, 1, 7, len(chunks[0]), info, None),
            (1, 0, 1, 1, 7 + len(chunks[0]), len(chunks[1]), info, None),
            (1, 0, 2, 0, None, None, None, None),
        ],
    )
    store.add_array(
        "x",
        ["x"],
        [6],
        [6],
        "<f8",
        kind="coord",
        storage="affine",
        affine='{"start": 10.5, "step": 0.25}',
        attrs={"units": "degrees_east", "standard_name": "longitude"},
    )
    store.add_array(
        "y",
        ["y"],
        [2],
        [2],
        "<f4",
        kind="coord",
        storage="inline",
        values=np.array([-5, 5], "<f4").tobytes(),
        attrs={"units": "degrees_north", "standard_name": "latitude"},
    )
    return store.close()


@pytest.fixture()
def foreign_store(tmp_path):
    return write_foreign(tmp_path)
