"""References of other software as a store: values are those of the sources; exports come back as they were."""

import base64
import json
import os
import sqlite3

import h5py
import numpy as np
import pytest
from conftest import open_root
from osgeo import gdal
from test_exchange import ARRAYS, export, make_file, native, same, series  # noqa: F401

gdal.UseExceptions()


def import_(source, store, **arguments):
    return gdal.Run(["driver", "mdimrefs", "import"], input=str(source), output=str(store), **arguments)[
        "output-string"
    ]


def check(store, **arguments):
    text = gdal.Run(["driver", "mdimrefs", "check"], store=str(store), sources=True, decode=50, **arguments)
    assert "0 errors, 0 warnings" in text["output-string"], text["output-string"]


def rows(store, array):
    with sqlite3.connect(store) as db:
        return sorted(
            db.execute(f'SELECT dim_0, dim_1, dim_2, present, path, "offset", size, data FROM "refs_{array}"'), key=str
        )


@pytest.mark.parametrize("form", ["kerchunk-json", "kerchunk-parquet"])
@pytest.mark.parametrize("record_size", [5, 10000])
def test_round_trip(series, form, record_size):  # noqa: F811
    folder, expected = series
    export(folder / "s.sqlite", folder / "refs", format=form, record_size=record_size)
    import_(folder / "refs", folder / "back.sqlite")
    ours, theirs = open_root(folder / "s.sqlite"), open_root(folder / "back.sqlite")
    for name in ARRAYS:
        assert rows(folder / "back.sqlite", name) == rows(folder / "s.sqlite", name), name
        assert same(theirs.OpenMDArray(name).ReadAsArray(), expected[name]), name
    for name in ("time", "y", "x"):
        assert same(theirs.OpenMDArray(name).ReadAsArray(), ours.OpenMDArray(name).ReadAsArray()), name
    assert theirs.GetAttribute("title").Read() == "exchange"
    assert [d.GetName() for d in theirs.OpenMDArray("packed").GetDimensions()] == ["time", "y", "x"]
    check(folder / "back.sqlite")
    # Again from there: the same references.
    export(folder / "back.sqlite", folder / "again", format=form, record_size=record_size)
    import_(folder / "again", folder / "twice.sqlite")
    for name in ARRAYS:
        assert rows(folder / "twice.sqlite", name) == rows(folder / "s.sqlite", name), name


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_kerchunk_wrote_it(series):  # noqa: F811
    hdf = pytest.importorskip("kerchunk.hdf")
    combine = pytest.importorskip("kerchunk.combine")
    folder, expected = series
    files = [str(folder / f"{day}.nc") for day in range(3)]
    single = [hdf.SingleHdf5ToZarr(f, inline_threshold=0).translate() for f in files]
    arrays = [name for name in ARRAYS if name != "checked"]  # kerchunk refuses fletcher32.
    whole = combine.MultiZarrToZarr(
        single, concat_dims=["time"], identical_dims=["y", "x"], inline_threshold=0
    ).translate()
    (folder / "k.json").write_text(json.dumps(whole))
    import_(folder / "k.json", folder / "k.sqlite")
    root = open_root(folder / "k.sqlite")
    for name in arrays:
        assert same(root.OpenMDArray(name).ReadAsArray(), expected[name]), name
    assert np.array_equal(root.OpenMDArray("time").ReadAsArray(), [0, 1, 2])
    # The same by fsspec's writer of Parquet.
    reference = pytest.importorskip("fsspec.implementations.reference")
    import fsspec

    (folder / "k.parq").mkdir()
    out = reference.LazyReferenceMapper.create(root=str(folder / "k.parq"), fs=fsspec.filesystem("file"), record_size=4)
    for key, value in sorted(whole["refs"].items(), key=lambda kv: "/." not in kv[0]):
        out[key] = value
    out.flush()
    import_(folder / "k.parq", folder / "p.sqlite")
    for name in arrays:
        assert rows(folder / "p.sqlite", name) == rows(folder / "k.sqlite", name), name


ZARRAY = {
    "zarr_format": 2, "shape": [4, 5], "chunks": [2, 3], "dtype": ">i2", "compressor": None, "filters": None,
    "fill_value": -7, "order": "C",
}  # fmt: skip


def write_plain(folder):
    """Four chunks of numbers one after the other in a file, and the array that they are."""
    values = np.arange(20, dtype=">i2").reshape(4, 5)
    padded = np.full((4, 6), 99, ">i2")
    padded[:, :5] = values
    chunks = [padded[y : y + 2, x : x + 3].tobytes() for y in (0, 2) for x in (0, 3)]
    (folder / "a.bin").write_bytes(b"".join(chunks))
    for number, chunk in enumerate(chunks):
        (folder / f"{number}.bin").write_bytes(chunk)
    return values, chunks


def read_json(folder, document, **arguments):
    (folder / "r.json").write_text(json.dumps(document))
    import_(folder / "r.json", folder / "r.sqlite", overwrite=True, **arguments)
    return open_root(folder / "r.sqlite")


def refs(**more):
    return {".zgroup": '{"zarr_format":2}', "v/.zarray": json.dumps(ZARRAY), "v/.zattrs": '{"units":"K"}', **more}


def test_versions_and_ways_to_write(tmp_path):
    values, chunks = write_plain(tmp_path)
    plain = {f"v/{i // 2}.{i % 2}": [f"{tmp_path}/a.bin", i * 12, 12] for i in range(4)}
    ways = {
        "version 0": refs(**plain),
        "version 1": {"version": 1, "refs": refs(**plain)},
        "objects": {"version": 1, "refs": refs(**plain) | {"v/.zarray": ZARRAY}},
        "templates": {
            "version": 1,
            "templates": {"u": str(tmp_path), "f": "{{u}}/{{c}}.bin"},
            "refs": refs(**{k: ["{{f(c='a')}}", *v[1:]] for k, v in plain.items()}),
        },
        "a template alone": {
            "version": 1,
            "templates": {"u": f"{tmp_path}/a.bin"},
            "refs": refs(**{k: ["u", *v[1:]] for k, v in plain.items()}),
        },
        "generators": {
            "version": 1,
            "templates": {"u": str(tmp_path)},
            "gen": [
                {
                    "key": "v/{{y}}.{{x}}",
                    "url": "{{u}}/a.bin",
                    "offset": "{{(y * 2 + x) * 12}}",
                    "length": "12",
                    "dimensions": {"y": {"stop": 2}, "x": [0, 1]},
                }
            ],
            "refs": refs(),
        },
        "relative": {"version": 1, "refs": refs(**{k: ["./a.bin", *v[1:]] for k, v in plain.items()})},
        "file URLs": {"version": 1, "refs": refs(**{k: ["file://" + v[0], *v[1:]] for k, v in plain.items()})},
        "whole files": refs(**{k: [f"{tmp_path}/{i}.bin"] for i, k in enumerate(plain)}),
        "inline": refs(**{k: "base64:" + base64.b64encode(chunks[i]).decode() for i, k in enumerate(plain)}),
        "mixed": refs(**plain) | {"v/1.0": "base64:" + base64.b64encode(chunks[2]).decode()},
        "order": {"refs": {**plain, **refs()}, "version": 1},
    }
    for way, document in ways.items():
        array = read_json(tmp_path, document).OpenMDArray("v")
        assert same(array.ReadAsArray(), values), way
        assert array.GetUnit() == "K" and array.GetNoDataValueAsInt64() == -7
    check(tmp_path / "r.sqlite")
    # Never written.
    del plain["v/1.1"]
    expected = native(values)
    expected[2:, 3:] = -7
    assert same(read_json(tmp_path, refs(**plain)).OpenMDArray("v").ReadAsArray(), expected)


def test_sources_that_interlock(tmp_path):
    """Chunks of two files by turns: no box is one file's alone."""
    values, _ = write_plain(tmp_path)
    os.link(tmp_path / "a.bin", tmp_path / "b.bin")
    plain = {f"v/{y}.{x}": [f"{tmp_path}/{'ab'[x ^ y]}.bin", (y * 2 + x) * 12, 12] for y in (0, 1) for x in (0, 1)}
    assert same(read_json(tmp_path, refs(**plain)).OpenMDArray("v").ReadAsArray(), values)
    check(tmp_path / "r.sqlite")
    with sqlite3.connect(tmp_path / "r.sqlite") as db:
        assert db.execute("SELECT count(*) FROM placements").fetchone() == (4,)
        found = db.execute('SELECT dim_0, dim_1, path, "offset" FROM refs_v ORDER BY 1, 2').fetchall()
    assert found == [(y, x, *plain[f"v/{y}.{x}"][:2]) for y in (0, 1) for x in (0, 1)]


def test_what_is_not_carried_is_listed(tmp_path, errors):
    values, _ = write_plain(tmp_path)
    plain = {f"v/{i // 2}.{i % 2}": [f"{tmp_path}/a.bin", i * 12, 12] for i in range(4)}
    more = {
        "v/2.0": ["/x", 0, 1],
        "stray/0": "x",
        "w/.zarray": json.dumps(ZARRAY | {"order": "F"}),
        "r/.zarray": json.dumps(ZARRAY | {"dtype": [["a", "<i2"]]}),
        "z/zarr.json": "{}",
    }
    root = read_json(tmp_path, refs(**plain, **more))
    assert same(root.OpenMDArray("v").ReadAsArray(), values)
    said = "\n".join(text for _, text in errors)
    for part in ("v/2.0", "stray/0", "Fortran", 'array "r"', "Zarr 3"):
        assert part in said, said
    assert root.GetMDArrayNames() == ["v"]
    assert read_json(tmp_path, refs(**plain), array=["v=new"]).GetMDArrayNames() == ["new"]


@pytest.mark.parametrize(
    "document, what",
    [
        ("[]", "kerchunk JSON"),
        ("{", "kerchunk JSON"),
        ("{}", "no array"),
        ({"version": 2, "refs": {}}, "version 2"),
        (refs(**{"v/0.0": ["/a", 1]}), "no size"),
        (refs(**{"v/0.0": ["/a", -1, 1]}), "v/0.0"),
        (refs(**{"v/0.0": ["zip://a::s3://b/c", 0, 1]}), "chained"),
        (refs(**{"v/0.0": ["/not/there"]}), "/not/there"),
        ({"version": 1, "refs": refs(**{"v/0.0": ["{{x.y}}", 0, 1]})}, "simple"),
        ({"version": 1, "gen": [{"key": "v/{% x %}", "url": "u", "dimensions": {"i": {"stop": 2}}}], "refs": refs()},
         "generator 0"),
        ({"version": 1, "gen": [{"key": "v/{{i}}", "url": "u", "dimensions": {"i": {"stop": 10**12}}}], "refs": refs()},
         "too many"),
    ],
)  # fmt: skip
def test_refusals(tmp_path, document, what):
    text = document if isinstance(document, str) else json.dumps(document)
    (tmp_path / "r.json").write_text(text)
    (tmp_path / "r.sqlite").write_bytes(b"")
    with pytest.raises(RuntimeError, match=what):
        import_(tmp_path / "r.json", tmp_path / "r.sqlite", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["r.json", "r.sqlite"]
    assert (tmp_path / "r.sqlite").read_bytes() == b""


def test_strings_and_scalars(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f["number"] = np.float32(1.5)
        f["names"] = np.array([b"a", b"bcd"], "S3")
        f.create_dataset("words", data=["x", "yz", "ü"], dtype=h5py.string_dtype())
    gdal.Run("mdim get-refs", input=[str(tmp_path / "s.h5")], output=str(tmp_path / "s.sqlite"))
    ours = open_root(tmp_path / "s.sqlite")
    names = ours.GetMDArrayNames()
    assert "number" in names
    export(tmp_path / "s.sqlite", tmp_path / "s.json", array=names)
    import_(tmp_path / "s.json", tmp_path / "t.sqlite")
    theirs = open_root(tmp_path / "t.sqlite")
    for name in names:
        assert theirs.OpenMDArray(name).Read() == ours.OpenMDArray(name).Read(), name


@pytest.fixture
def daily(tmp_path):
    """Three daily files, their mosaic, and where h5py says that their chunks are."""
    expected, chunks, names = {"sst": [], "ice": []}, [], []
    for day in range(3):
        names.append(str(tmp_path / f"{day}.nc"))
        with h5py.File(names[-1], "w") as f:
            for dim, values in (
                ("time", np.array([day + 100.0])),
                ("y", np.arange(4.0)),
                ("x", np.arange(6.0)),
            ):
                f[dim] = values
                f[dim].make_scale(dim)
            f["time"].attrs["units"] = "days since 1990-01-01"
            for name in expected:
                values = (np.arange(24).reshape(1, 4, 6) * (7 if name == "sst" else -3) + day).astype("<i2")
                expected[name].append(values)
                data = f.create_dataset(name, data=values, chunks=(1, 2, 6), compression="gzip", shuffle=True)
                for axis, dim in enumerate(("time", "y", "x")):
                    data.dims[axis].attach_scale(f[dim])
        with h5py.File(names[-1]) as f:
            for name in expected:
                for n in range(f[name].id.get_num_chunks()):
                    info = f[name].id.get_chunk_info(n)
                    key = [at // size for at, size in zip(info.chunk_offset, (1, 2, 6), strict=True)]
                    chunks.append((name, day, key, info.byte_offset, info.size))
    gdal.Run(["mdim", "mosaic"], input=names, output=str(tmp_path / "all.vrt"))
    return tmp_path, names, chunks, {name: np.concatenate(list_) for name, list_ in expected.items()}


def earlier(path, chunks, files, place):
    """The tables of chunks of a store of an earlier format."""
    with sqlite3.connect(path) as db:
        db.execute(files)
        for name in ("sst", "ice"):
            db.execute(
                f'CREATE TABLE "{name}"(file_id INTEGER, idx0 INTEGER, idx1 INTEGER, idx2 INTEGER, "offset" INTEGER,'
                " size INTEGER)"
            )
        for name, day, key, offset, size in chunks:
            row = (day + 1, *place(day, key), offset, size)
            db.execute(f'INSERT INTO "{name}" VALUES(?,?,?,?,?,?)', row)
    return db


def test_store_0_1(daily):
    folder, names, chunks, expected = daily
    files = "CREATE TABLE sources(file_id INTEGER PRIMARY KEY, access TEXT, public TEXT)"
    with earlier(folder / "old.sqlite", chunks, files, lambda day, key: (day, *key[1:])) as db:
        public = [name.replace(str(folder), "https://example.org/days") for name in names]
        db.executemany("INSERT INTO sources VALUES(?,?,?)", list(zip((1, 2, 3), names, public, strict=True)))
        db.executescript(
            "CREATE TABLE meta(key, value); INSERT INTO meta VALUES('format_version', 'mdim-refs/0.1');"
            'CREATE TABLE arrays("array" TEXT PRIMARY KEY, kind, storage, dims, shape, chunks, dtype, fill, codec,'
            ' attrs, affine, "values" BLOB)'
        )
        codec = {"compressor": {"id": "zlib", "level": 4}, "filters": [{"id": "shuffle", "elementsize": 2}]}
        for name in expected:
            row = (name, "data", "referenced", '["time", "y", "x"]', "[3, 4, 6]", "[1, 2, 6]", "<i2", None)
            db.execute(
                "INSERT INTO arrays VALUES(?,?,?,?,?,?,?,?,?,?,?,?)",
                (*row, json.dumps(codec), '{"units": "K"}', None, None),
            )
    import_(folder / "old.sqlite", folder / "new.sqlite")
    root = open_root(folder / "new.sqlite")
    for name, values in expected.items():
        assert same(root.OpenMDArray(name).ReadAsArray(), values), name
        assert root.OpenMDArray(name).GetUnit() == "K"
    check(folder / "new.sqlite")
    with sqlite3.connect(folder / "new.sqlite") as db:
        assert db.execute("SELECT count(*) FROM refs_sst").fetchone() == (6,)
    layers = gdal.OpenEx(f"MDIMREFS:{folder / 'new.sqlite'}", gdal.OF_VECTOR, open_options=["TARGET=public"])
    assert {f["path"] for f in layers.GetLayerByName("refs_ice")} == set(public)
    with pytest.raises(RuntimeError, match="leave --vrt out"):
        import_(folder / "old.sqlite", folder / "no.sqlite", vrt=str(folder / "all.vrt"))


def test_raad_virtualize(daily):
    folder, names, chunks, expected = daily
    files = "CREATE TABLE files(file_id INTEGER PRIMARY KEY, source TEXT)"
    with earlier(folder / "old.sqlite", chunks, files, lambda day, key: key) as db:
        db.executemany("INSERT INTO files VALUES(?,?)", list(zip((1, 2, 3), names, strict=True)))
    with pytest.raises(RuntimeError, match="--vrt"):
        import_(folder / "old.sqlite", folder / "no.sqlite")
    import_(folder / "old.sqlite", folder / "new.sqlite", vrt=str(folder / "all.vrt"))
    root = open_root(folder / "new.sqlite")
    for name, values in expected.items():
        assert same(root.OpenMDArray(name).ReadAsArray(), values), name
    assert list(root.OpenMDArray("time").ReadAsArray()) == [100, 101, 102]
    check(folder / "new.sqlite")
