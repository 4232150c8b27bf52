"""The store's tables as vector layers: rows, filters, SQL, Arrow."""

import sqlite3

import h5py
import numpy as np
import pytest
from osgeo import gdal, ogr

gdal.UseExceptions()
ogr.UseExceptions()

pytestmark = pytest.mark.skipif(gdal.GetDriverByName("MDIMREFS") is None, reason="the plugin is not loaded")

BIG = 5_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One file of 3 × 4 chunks, of which one was never written."""
    folder = tmp_path_factory.mktemp("layers")
    source, name = str(folder / "a.h5"), str(folder / "s.sqlite")
    with h5py.File(source, "w") as f:
        v = f.create_dataset("v", shape=(6, 8), dtype="<i4", chunks=(2, 2), fillvalue=-1, compression=1)
        values = np.arange(48).reshape(6, 8)
        v[:] = values
        w = f.create_dataset("it's", shape=(4,), dtype="u1", chunks=(2,))
        w[:2] = [1, 2]
    with h5py.File(source, "r") as f:
        chunks = []
        f["v"].id.chunk_iter(chunks.append)
    assert gdal.Run(["mdim", "get-refs"], {"input": [source], "output": name})
    return name, source, {tuple(o // 2 for o in c.chunk_offset): (c.byte_offset, c.size) for c in chunks}


def test_rows(store):
    name, source, chunks = store
    ds = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    names = [ds.GetLayer(i).GetName() for i in range(ds.GetLayerCount())]
    assert names == ["refs_it's", "refs_v", "sources", "arrays", "placements", "remap", "meta"]
    layer = ds.GetLayerByName("refs_v")
    assert layer.GetMetadataItem("DIM_1_CHUNKS") == "4" and layer.GetMetadataItem("DTYPE") == "<i4"
    rows = {(f["dim_0"], f["dim_1"]): (f["offset"], f["size"]) for f in layer}
    assert rows == chunks and layer.GetFeatureCount() == 12
    assert {f["path"] for f in layer} == {source}
    definition = layer.GetLayerDefn()
    types = {definition.GetFieldDefn(i).GetName(): definition.GetFieldDefn(i).GetTypeName() for i in range(8)}
    assert types["offset"] == types["size"] == types["dim_0"] == "Integer64"
    absent = [f for f in ds.GetLayerByName("refs_it's") if not f["present"]]
    assert len(absent) == 1 and absent[0]["dim_0"] == 1 and absent[0]["path"] is None


@pytest.mark.parametrize(
    "where,keep",
    [
        ("dim_0 = 1", lambda y, x: y == 1),
        ("dim_0 >= 1 AND dim_1 < 3", lambda y, x: y >= 1 and x < 3),
        ("1 < dim_1", lambda y, x: x > 1),
        ("dim_1 BETWEEN 1 AND 2 AND dim_0 <> 0", lambda y, x: 1 <= x <= 2 and y != 0),
        ("dim_0 = 0 OR dim_1 = 3", lambda y, x: y == 0 or x == 3),
        ("NOT dim_0 = 0", lambda y, x: y != 0),
        ("dim_0 = -1", lambda y, x: False),
        ("dim_0 > -1 AND dim_0 = 2", lambda y, x: y == 2),
        ("dim_0 = 99", lambda y, x: False),
    ],
)
def test_filters(store, where, keep):
    name, _, chunks = store
    ds = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    layer = ds.GetLayerByName("refs_v")
    layer.SetAttributeFilter(where)
    want = {k for k in chunks if keep(*k)}
    assert {(f["dim_0"], f["dim_1"]) for f in layer} == want
    assert layer.GetFeatureCount() == len(want)


def test_a_chunk_by_its_number(store):
    name, _, chunks = store
    ds = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    layer = ds.GetLayerByName("refs_v")
    feature = layer.GetFeature(6)
    assert (feature["dim_0"], feature["dim_1"], feature["offset"]) == (1, 2, chunks[1, 2][0])
    assert layer.GetFeature(12) is None and layer.GetFeature(-1) is None


def test_sql(store):
    name, source, chunks = store
    ds = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    with ds.ExecuteSQL(
        'SELECT path, count(*) AS n, max("offset") + 5000000000 AS far FROM refs_v '
        "JOIN sources ON path = source GROUP BY path"
    ) as result:
        feature = result.GetNextFeature()
        assert (feature["path"], feature["n"]) == (source, 12)
        assert feature["far"] == max(o for o, _ in chunks.values()) + BIG
    for dialect in ("OGRSQL", "SQLITE"):
        with ds.ExecuteSQL("SELECT count(*) AS n FROM refs_v WHERE dim_0 = 1", dialect=dialect) as result:
            assert result.GetNextFeature()["n"] == 4
    for bad in ("DROP TABLE refs_v", "DELETE FROM sources", "SELECT nothing FROM refs_v", "PRAGMA journal_mode=WAL"):
        with pytest.raises(RuntimeError):
            ds.ExecuteSQL(bad)
    assert sqlite3.connect(name).execute("SELECT count(*) FROM sources").fetchone() == (1,)


def test_arrow(store):
    name, _, chunks = store
    ds = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    layer = ds.GetLayerByName("refs_v")
    seen = {}
    for batch in layer.GetArrowStreamAsNumPy(options=["MAX_FEATURES_IN_BATCH=5", "USE_MASKED_ARRAYS=NO"]):
        for i in range(len(batch["dim_0"])):
            seen[int(batch["dim_0"][i]), int(batch["dim_1"][i])] = (int(batch["offset"][i]), int(batch["size"][i]))
            assert batch["OGC_FID"][i] == batch["dim_0"][i] * 4 + batch["dim_1"][i]
    assert seen == chunks
    layer.SetIgnoredFields(["path", "info", "data"])
    batch = next(iter(layer.GetArrowStreamAsNumPy(options=["INCLUDE_FID=NO", "USE_MASKED_ARRAYS=NO"])))
    assert sorted(batch) == ["dim_0", "dim_1", "offset", "present", "size"]
    layer.SetIgnoredFields([])
    layer.SetAttributeFilter("dim_1 = 2")
    stream = layer.GetArrowStreamAsNumPy(options=["USE_MASKED_ARRAYS=NO"])
    assert [int(k) for batch in stream for k in batch["dim_0"]] == [0, 1, 2]


def test_targets(store, tmp_path):
    name, source, _ = store
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(open(name, "rb").read())
    db = sqlite3.connect(copy)
    db.execute("INSERT INTO remap VALUES('public', ?, 'https://example.org/')", [source[: -len("a.h5")]])
    db.commit()
    db.close()
    ds = gdal.OpenEx(f"MDIMREFS:{copy}", gdal.OF_VECTOR, open_options=["TARGET=public"])
    assert ds.GetLayerByName("refs_v").GetNextFeature()["path"] == "https://example.org/a.h5"


def test_vector_only_when_asked(store):
    name, _, _ = store
    assert gdal.OpenEx(name, gdal.OF_VECTOR).GetDriver().ShortName == "SQLite"
    with pytest.raises(RuntimeError, match="update is not supported"):
        gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR | gdal.OF_UPDATE)
