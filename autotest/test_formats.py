"""Sources that are not HDF5, through a store, equal what other software reads from them."""

import os

import netCDF4
import numpy as np
import pytest
from conftest import get_refs, open_root
from osgeo import gdal

gdal.UseExceptions()

REAL = os.path.join(os.environ.get("MDIMREFS_TEST_DATA", "../shared/data"), "real")


def files_that_begin(*heads):
    for folder, _, names in sorted(os.walk(REAL)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                if f.read(4).startswith(heads):
                    yield os.path.relpath(path, REAL)


CLASSIC = list(files_that_begin(b"CDF\x01", b"CDF\x02", b"CDF\x05"))


def raw(variable):
    """All values as they are in the file, in this machine's byte order."""
    values = np.ma.getdata(variable[...])
    return values.astype(values.dtype.newbyteorder("="))


def assert_equals_netcdf(source, store):
    """Every variable of a netCDF file, by libnetcdf, equals the same array of the store."""
    root = open_root(store)
    with netCDF4.Dataset(source) as f:
        f.set_auto_maskandscale(False)
        f.set_auto_chartostring(False)
        for name, variable in f.variables.items():
            array = root.OpenMDArray(name)
            assert array is not None, name
            want = raw(variable)
            assert [d.GetSize() for d in array.GetDimensions()] == list(want.shape), name
            if want.size == 0:
                continue
            if variable.dtype == "S1":
                # Bytes that are no UTF-8 are shown as Latin-1.
                got = np.array([text.encode("latin-1") for text in array.Read()], dtype="S1").reshape(want.shape)
            else:
                got = array.ReadAsArray()
                if getattr(variable, "_Unsigned", "") == "true":
                    want = want.view(want.dtype.str.replace("i", "u"))
                assert got.dtype == want.dtype, name
            np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("name", CLASSIC)
def test_netcdf_classic(tmp_path, name):
    source, store = os.path.join(REAL, name), tmp_path / "s.sqlite"
    if "bad_cdf5_begin" in name:
        with pytest.raises(RuntimeError, match="begins before byte"):
            get_refs(source, store)
        return
    if "dims_only" in name:
        with pytest.raises(RuntimeError, match="no array"):
            get_refs(source, store)
        return
    get_refs(source, store)
    assert_equals_netcdf(source, store)


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("records", ["none", "alone", "several"])
def test_netcdf_classic_kinds(tmp_path, kind, records):
    source, store = str(tmp_path / "a.nc"), tmp_path / "s.sqlite"
    rng = np.random.default_rng(1)
    types = ["i1", "i2", "i4", "f4", "f8"]
    if kind == "NETCDF3_64BIT_DATA":
        types += ["u1", "u2", "u4", "i8", "u8"]
    with netCDF4.Dataset(source, "w", format=kind) as f:
        f.createDimension("time", None)
        f.createDimension("x", 3)
        for number, code in enumerate(types):
            fixed = f.createVariable(f"fixed_{code}", code, ("x",), fill_value=7 if number % 2 else None)
            fixed[:] = rng.integers(0, 100, 3)
            fixed.setncattr("list", np.arange(3, dtype=code))
        if records == "alone":
            f.createVariable("alone", "i2", ("time", "x"))[:] = rng.integers(0, 100, (5, 3))
        if records == "several":
            for code in types:
                f.createVariable(f"record_{code}", code, ("time", "x"))[:] = rng.integers(0, 100, (5, 3))
            f.createVariable("text", "S1", ("time", "x"))[:] = np.frombuffer(b"abcdefghijklmno", "S1").reshape(5, 3)
    get_refs(source, store)
    assert_equals_netcdf(source, store)
    attribute = open_root(store).OpenMDArray("fixed_i2").GetAttribute("list")
    assert list(attribute.Read()) == [0, 1, 2] and attribute.GetDataType().GetNumericDataType() == gdal.GDT_Int16


def test_netcdf_classic_in_pieces(tmp_path):
    source, store = str(tmp_path / "a.nc"), tmp_path / "s.sqlite"
    values = np.arange(6 * 50 * 40, dtype="f4").reshape(6, 50, 40)
    with netCDF4.Dataset(source, "w", format="NETCDF3_CLASSIC") as f:
        for name, size in zip("tyx", values.shape, strict=True):
            f.createDimension(name, size)
        f.createVariable("v", "f4", tuple("tyx"))[:] = values
    get_refs(source, store, **{"split-contiguous": "8000"})
    array = open_root(store).OpenMDArray("v")
    assert array.GetBlockSize() == [1, 50, 40]
    np.testing.assert_array_equal(array.ReadAsArray(), values)


@pytest.mark.parametrize("name", ["kerchunk/tinygrib.grb2", "xarray-data/era5-2mt-2019-03-uk.grib"])
def test_grib_is_refused_by_name(tmp_path, name):
    source = os.path.join(REAL, name)
    if not os.path.exists(source):
        pytest.skip("no real files")
    with pytest.raises(RuntimeError, match="GRIB.*convert it"):
        get_refs(source, tmp_path / "s.sqlite")
