"""The layers of chunks in pyogrio, geopandas, Arrow and DuckDB, and the view in plain SQLite: the same rows in all."""

import sqlite3

import h5py
import numpy as np
import pytest
from conftest import get_refs
from osgeo import gdal, ogr

gdal.UseExceptions()
ogr.UseExceptions()

pyogrio = pytest.importorskip("pyogrio")
geopandas = pytest.importorskip("geopandas")
duckdb = pytest.importorskip("duckdb")
duckdb_extensions = pytest.importorskip("duckdb_extensions")

COLUMNS = ["dim_0", "dim_1", "present", "path", "offset", "size", "info"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The name of a store of one array of 5 × 4 chunks, of which some were never written; and h5py's rows."""
    folder = tmp_path_factory.mktemp("clients")
    source, name = str(folder / "a.h5"), str(folder / "s.sqlite")
    with h5py.File(source, "w") as f:
        v = f.create_dataset("v", (10, 8), "<i2", chunks=(2, 2), compression=1)
        v[3:7] = np.arange(32).reshape(4, 8)
    with h5py.File(source) as f:
        found = []
        f["v"].id.chunk_iter(found.append)
    get_refs(source, name)
    info = "COMPRESSION=DEFLATE; ENDIANNESS=LITTLE"
    rows = {(i, j): (False, None, None, None) for i in range(5) for j in range(4)}
    rows |= {tuple(o // 2 for o in c.chunk_offset): (True, source, c.byte_offset, c.size) for c in found}
    return name, {(*k, *v, info if v[0] else None) for k, v in rows.items()}


def frame_rows(frame):
    """Rows of a data frame as plain Python values."""
    rows = frame[COLUMNS].astype(object)
    return {tuple(None if v is None or v != v else v for v in row) for row in rows.itertuples(index=False)}


@pytest.mark.parametrize("use_arrow", [False, True])
def test_data_frames(store, use_arrow):
    name, want = store
    frame = pyogrio.read_dataframe(f"MDIMREFS:{name}", layer="refs_v", use_arrow=use_arrow)
    assert frame_rows(frame) == want
    frame = geopandas.read_file(f"MDIMREFS:{name}", layer="refs_v", use_arrow=use_arrow, where="dim_0 = 2 AND size > 1")
    assert frame_rows(frame) == {r for r in want if r[0] == 2 and r[2]}
    frame = pyogrio.read_dataframe(
        f"MDIMREFS:{name}", layer="refs_v", columns=["size"], skip_features=3, max_features=9
    )
    assert list(frame.columns) == ["size"] and len(frame) == 9
    assert len(pyogrio.list_layers(f"MDIMREFS:{name}")) == 6


def test_sql(store):
    name, want = store
    frame = pyogrio.read_dataframe(
        f"MDIMREFS:{name}", sql="SELECT path, count(*) AS n, sum(size) AS bytes FROM refs_v WHERE present GROUP BY path"
    )
    written = [r for r in want if r[2]]
    assert frame.values.tolist() == [[written[0][3], len(written), sum(r[5] for r in written)]]


def test_arrow(store):
    name, want = store
    _, table = pyogrio.read_arrow(f"MDIMREFS:{name}", layer="refs_v")
    assert {tuple(r[c] for c in COLUMNS) for r in table.to_pylist()} == want
    data = ogr.Open(f"MDIMREFS:{name}")
    stream = data.GetLayer("refs_v").GetArrowStreamAsPyArrow()
    rows = [row for batch in stream for row in batch.to_pylist()]
    assert {tuple(bool(r[c]) if c == "present" else r[c] for c in COLUMNS) for r in rows} == want


def test_streams_ended_early(store):
    name, _ = store
    data = ogr.Open(f"MDIMREFS:{name}")
    for _ in range(20):
        stream = data.GetLayer("refs_v").GetArrowStreamAsPyArrow(["MAX_FEATURES_IN_BATCH=1"])
        next(iter(stream))
        del stream


def test_duckdb(store, tmp_path):
    name, want = store
    _, refs = pyogrio.read_arrow(f"MDIMREFS:{name}", layer="refs_v")
    found = duckdb.sql(f"SELECT {', '.join(f'{chr(34)}{c}{chr(34)}' for c in COLUMNS)} FROM refs").fetchall()
    assert {tuple(r) for r in found} == want
    query = gdal.Run(["driver", "mdimrefs", "sql"], {"store": name, "array": "v"})["output-string"]
    connection = duckdb.connect(config={"extension_directory": str(tmp_path)})
    # From PyPI, not DuckDB's own server.
    duckdb_extensions.import_extension("sqlite_scanner", con=connection)
    connection.execute(f"LOAD sqlite_scanner; ATTACH '{name}' AS store (TYPE sqlite)")

    # DuckDB takes columns without a declared type for text, or for bytes.
    def number(v):
        return None if v is None else int(v)

    def text_of(v):
        return v.decode() if isinstance(v, bytes) else v

    for text in (f"SELECT * FROM sqlite_query('store', $${query}$$)", f"SELECT * FROM sqlite_scan('{name}', 'refs_v')"):
        found = connection.execute(text).fetchall()
        rows = [(int(r[0]), int(r[1]), int(r[2]) == 1, text_of(r[3]), number(r[4]), number(r[5]), r[6]) for r in found]
        assert set(rows) == want and len(rows) == len(want)


def test_the_view_in_sqlite(store):
    name, want = store
    sql = sqlite3.connect(name)
    query = gdal.Run(["driver", "mdimrefs", "sql"], {"store": name, "array": "v"})["output-string"]
    for text in ("SELECT * FROM refs_v", query):
        found = sql.execute(text).fetchall()
        assert {(r[0], r[1], bool(r[2]), *r[3:7]) for r in found} == want
