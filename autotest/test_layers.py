"""The store's tables as vector layers: rows, filters, SQL, Arrow."""

import sqlite3

import h5py
import numpy as np
import pytest
from conftest import ForeignStore
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
    with ds.ExecuteSQL("SELECT DISTINCT path, count(*) AS n FROM refs_v") as result:
        feature = result.GetNextFeature()
        assert (feature["path"], feature["n"]) == ("https://example.org/a.h5", 12)


def test_vector_only_when_asked(store):
    name, _, _ = store
    assert gdal.OpenEx(name, gdal.OF_VECTOR).GetDriver().ShortName == "SQLite"
    with pytest.raises(RuntimeError, match="update is not supported"):
        gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR | gdal.OF_UPDATE)


def test_next_by_index(store):
    name, _, _ = store
    layer = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    layer, keep = layer.GetLayerByName("refs_v"), layer
    for where in (None, "dim_1 >= 1", "size > 0"):
        layer.SetAttributeFilter(where)
        want = [f.GetFID() for f in layer]
        for i in (0, 3, len(want) - 1):
            assert layer.SetNextByIndex(i) == ogr.OGRERR_NONE
            assert [f.GetFID() for f in iter(layer.GetNextFeature, None)] == want[i:], (where, i)
    layer.SetAttributeFilter(None)
    with pytest.raises(RuntimeError):
        layer.SetNextByIndex(13)
    del keep


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    """Three days, two chunks along latitude and two along an axis whose last value is missing."""
    folder = tmp_path_factory.mktemp("days")
    source, name = str(folder / "a.nc"), str(folder / "s.sqlite")
    with h5py.File(source, "w") as f:
        f["time"] = np.array([0.5, 1.25, 2.5])
        f["time"].attrs["units"] = "days since 1995-03-16"
        f["lat"] = np.array([60, 30, 0, -30], "f4")
        f["lat"].attrs["units"] = "degrees_north"
        f["x"] = np.array([1, 2, np.nan])
        v = f.create_dataset("v", (3, 4, 3, 2), "<i2", chunks=(1, 2, 2, 2))
        v[:] = 1
        for i, n in enumerate(("time", "lat", "x")):
            f[n].make_scale(n)
            v.dims[i].attach_scale(f[n])
    gdal.Run("mdim get-refs", input=[source], output=name)
    return name


def bounds(key):
    """Where a chunk is."""
    time = ["1995-03-16T12:00:00", "1995-03-17T06:00:00", "1995-03-18T12:00:00"][key[0]]
    return (time, time, *[(30.0, 60.0), (-30.0, 0.0)][key[1]], *[(1.0, 2.0), (None, None)][key[2]])


COLUMNS = ["time_min", "time_max", "lat_min", "lat_max", "x_min", "x_max"]


def test_bounds_of_chunks(days):
    ds = gdal.OpenEx(f"MDIMREFS:{days}", gdal.OF_VECTOR, open_options=["COORDS=YES"])
    layer = ds.GetLayerByName("refs_v")
    names = [layer.GetLayerDefn().GetFieldDefn(i).GetName() for i in range(layer.GetLayerDefn().GetFieldCount())]
    assert names[-6:] == COLUMNS
    rows = {tuple(f[f"dim_{i}"] for i in range(4)): tuple(f[c] for c in COLUMNS) for f in layer}
    assert rows == {(t, y, x, 0): bounds((t, y, x)) for t in range(3) for y in range(2) for x in range(2)}
    for batch in layer.GetArrowStreamAsNumPy(options=["USE_MASKED_ARRAYS=NO"]):
        assert [t.decode() for t in batch["time_min"]] == [bounds((t, 0, 0))[0] for t in batch["dim_0"]]
    sql = (
        'SELECT path, "offset", dim_1, lat_max FROM refs_v '
        "WHERE time_min >= '1995-03-17' AND time_min < '1995-03-18' AND lat_min < 45 AND lat_max >= 45 AND x_min = 1"
    )
    for dialect in ("", "SQLITE"):
        with ds.ExecuteSQL(sql, dialect=dialect) as result:
            found = list(result)
            assert [(f["dim_1"], f["lat_max"]) for f in found] == [(0, 60.0)]
    layer.SetAttributeFilter("time_min LIKE '1995-03-17%' AND dim_1 = 1")
    assert layer.GetFeatureCount() == 2
    # Without the option nothing is read for it.
    plain = gdal.OpenEx(f"MDIMREFS:{days}", gdal.OF_VECTOR).GetLayerByName("refs_v")
    assert plain is not None
    with pytest.raises(RuntimeError, match="COORDS"):
        gdal.OpenEx(f"MDIMREFS:{days}", gdal.OF_VECTOR, open_options=["COORDS=PERHAPS"])


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH 'other.sqlite' AS other",
        "VACUUM INTO 'copy.sqlite'",
        "PRAGMA query_only=OFF",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM sources",
        "WITH a AS (SELECT 1) DELETE FROM sources",
        "CREATE TEMP TABLE t(x)",
        "BEGIN IMMEDIATE",
    ],
)
def test_only_reading_sql(store, sql, tmp_path, monkeypatch):
    name, _, _ = store
    monkeypatch.chdir(tmp_path)
    before = open(name, "rb").read()
    ds = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    with pytest.raises(RuntimeError):
        with ds.ExecuteSQL(sql) as result:
            list(result)
    assert open(name, "rb").read() == before and list(tmp_path.iterdir()) == []


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) "


@pytest.mark.parametrize(
    "view",
    [
        # never a row
        ENDLESS + "SELECT i AS dim_0, 1 AS present, 'p' AS path, 0 AS \"offset\", 1 AS size, '' AS info, NULL AS data "
        "FROM n WHERE i < 0",
        # rows without end
        ENDLESS + "SELECT i % 4 AS dim_0, 1 AS present, 'p' AS path, 0 AS \"offset\", 1 AS size, '' AS info, "
        "NULL AS data FROM n",
        # a blob of 1 GB
        "SELECT 0 AS dim_0, 1 AS present, 'p' AS path, NULL AS \"offset\", NULL AS size, '' AS info, "
        "zeroblob(1000000000) AS data",
        # a function that does something
        "SELECT 0 AS dim_0, 1 AS present, load_extension('x') AS path, 0 AS \"offset\", 1 AS size, '' AS info, "
        "NULL AS data",
    ],
)
def test_hostile_views(tmp_path, view):
    """An error, and soon."""
    store = ForeignStore(tmp_path / "h.sqlite")
    store.add_array("v", ["x"], [8], [2], "<i4", 0)
    store.sql.execute(f"CREATE VIEW refs_v AS {view}")
    name = store.close()
    array = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_MULTIDIM_RASTER).GetRootGroup().OpenMDArray("v")
    with pytest.raises(RuntimeError):
        array.ReadAsArray()
    if "i < 0" in view:
        # It takes seconds to give up: once is enough.
        return
    ds = gdal.OpenEx(f"MDIMREFS:{name}", gdal.OF_VECTOR)
    with pytest.raises(RuntimeError):
        list(ds.GetLayerByName("refs_v"))
    if view.startswith(ENDLESS):
        return
    with pytest.raises(RuntimeError):
        with ds.ExecuteSQL("SELECT count(*), max(length(data)), max(path) FROM refs_v") as result:
            list(result)
