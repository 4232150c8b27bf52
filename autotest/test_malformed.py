"""Stores with nonsense in them: an error that says what, or the other arrays read; never a crash, a hang, or memory
that the nonsense asks for."""

import resource
import sqlite3

import numpy as np
import pytest
from conftest import FOREIGN_VALUES, open_root
from osgeo import gdal

COLUMNS = ["kind", "storage", "dims", "shape", "chunks", "dtype", "fill", "codec", "attrs", "affine", "values"]

NONSENSE = [
    None,
    "",
    "x",
    "[]",
    "{}",
    "[1]",
    "[0, 0]",
    "[-1, 2]",
    "[2, 1e99]",
    "[2, 99999999999999999999]",
    "[9223372036854775807, 9223372036854775807]",
    "[1, 2, 3]",
    "[null, null]",
    '["y", "y"]',
    '["y", "\\u0000"]',
    '{"compressor": {"id": "zlib", "level": 1e99}, "filters": [null]}',
    '{"compressor": 3, "filters": "x"}',
    '{"compressor": null, "filters": [{"id": "shuffle", "elementsize": 0}]}',
    '{"compressor": null, "filters": [{"id": "shuffle", "elementsize": 4000000000}]}',
    '{"units": 3, "scale_factor": "x", "_FillValue": [1, 2], "coordinates": ["v"], "grid_mapping": "v"}',
    '{"start": "x", "step": null}',
    "<i3",
    "|S16777216",
    "|O",
    "<c16",
    "NaN",
    "1e400",
    5,
    -1.5,
    b"\x00\xff\xfe",
    "[" * 100000,
    '{"a":' * 100000,
]


def read_all(name, options):
    """Everything that GDAL asks of a store."""
    seen = {}
    for flags in (gdal.OF_MULTIDIM_RASTER, gdal.OF_RASTER):
        try:
            dataset = gdal.OpenEx(name, flags, open_options=options)
        except RuntimeError as error:
            seen[flags] = str(error)
            continue
        if flags == gdal.OF_RASTER:
            if dataset.RasterCount and dataset.RasterXSize * dataset.RasterYSize < 10**6:
                try:
                    dataset.ReadAsArray(0, 0, min(dataset.RasterXSize, 9), min(dataset.RasterYSize, 9))
                except RuntimeError:
                    pass
            continue
        root = dataset.GetRootGroup()
        for array_name in root.GetMDArrayNames():
            try:
                array = root.OpenMDArray(array_name)
                [a.Read() for a in array.GetAttributes()]
                array.GetCoordinateVariables()
                array.GetSpatialRef()
                array.GetStructuralInfo()
                sizes = [d.GetSize() for d in array.GetDimensions()]
                for d in array.GetDimensions():
                    d.GetIndexingVariable()
                seen[array_name] = array.ReadAsArray([0] * len(sizes), [min(s, 9) for s in sizes])
                array.GetRawBlockInfo([0] * len(sizes))
            except (RuntimeError, ValueError, SystemError, TypeError) as error:
                seen.setdefault(array_name, str(error))
    return seen


@pytest.fixture(autouse=True)
def bounded_memory():
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("column", COLUMNS)
def test_arrays(foreign_store, column):
    for nonsense in NONSENSE:
        for array in ("v", "x", "y"):
            with sqlite3.connect(foreign_store) as db:
                before = db.execute(f'SELECT "{column}" FROM arrays WHERE "array" = \'{array}\'').fetchone()[0]
                db.execute(f'UPDATE arrays SET "{column}" = ? WHERE "array" = \'{array}\'', [nonsense])
            db.close()
            with gdal.quiet_errors():
                seen = read_all(f"MDIMREFS:{foreign_store}", ["TARGET=here"])
            if array != "v":
                assert np.array_equal(seen["v"], FOREIGN_VALUES), (nonsense, array, seen)
            with sqlite3.connect(foreign_store) as db:
                db.execute(f'UPDATE arrays SET "{column}" = ? WHERE "array" = \'{array}\'', [before])
            db.close()
    seen = read_all(f"MDIMREFS:{foreign_store}", ["TARGET=here"])
    assert np.array_equal(seen["v"], FOREIGN_VALUES)


@pytest.mark.parametrize("column", ["source_id", "dim_0", "dim_1", "present", "offset", "size", "info", "data"])
def test_chunks(foreign_store, column):
    for nonsense in (None, "", "x", -1, 0, 3, 2**31, 2**62, 2**63 - 1, -(2**63), 1.5, 1e99, b"", b"\x00\x01"):
        with sqlite3.connect(foreign_store) as db:
            before = db.execute(f'SELECT "{column}" FROM v WHERE dim_1 = 1').fetchone()[0]
            rowid = db.execute("SELECT rowid FROM v WHERE dim_1 = 1").fetchone()[0]
            db.execute(f'UPDATE v SET "{column}" = ? WHERE rowid = ?', [nonsense, rowid])
        db.close()
        with gdal.quiet_errors():
            try:
                v = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"]).OpenMDArray("v")
                # The other chunk is there, or the nonsense is named; never other values.
                first = v.ReadAsArray([0, 0], [2, 2])
                assert np.array_equal(first, FOREIGN_VALUES[:, :2]) or (column == "dim_1" and nonsense == 0)
            except RuntimeError as error:
                assert "v" in str(error)
            try:
                second = v.ReadAsArray([0, 2], [2, 2])
                # What there is reads right; what is now absent, as fill.
                assert np.array_equal(second, FOREIGN_VALUES[:, 2:4]) or (second == -1).all(), (nonsense, second)
            except RuntimeError as error:
                assert "v" in str(error)
        with sqlite3.connect(foreign_store) as db:
            db.execute(f'UPDATE v SET "{column}" = ? WHERE rowid = ?', [before, rowid])
        db.close()


@pytest.mark.parametrize("what", ["meta", "sources", "arrays", "remap", "v", "refs_v"])
def test_missing_tables(foreign_store, what):
    with sqlite3.connect(foreign_store) as db:
        db.execute(f'DROP {"VIEW" if what.startswith("refs") else "TABLE"} "{what}"')
    db.close()
    with gdal.quiet_errors():
        seen = read_all(f"MDIMREFS:{foreign_store}", ["TARGET=here"] if what != "remap" else [])
    if what in ("v", "refs_v"):
        assert isinstance(seen["v"], str) or np.array_equal(seen["v"], FOREIGN_VALUES)
        assert np.array_equal(seen["y"], [-5, 5])


def test_any_byte_of_the_file(foreign_store):
    with open(foreign_store, "rb") as f:
        good = f.read()
    random = np.random.default_rng(1)
    for _ in range(300):
        data = bytearray(good)
        for at in random.integers(16, len(data), 8):
            data[at] = random.integers(0, 256)
        with open(foreign_store, "wb") as f:
            f.write(data)
        with gdal.quiet_errors():
            read_all(f"MDIMREFS:{foreign_store}", ["TARGET=here"])
