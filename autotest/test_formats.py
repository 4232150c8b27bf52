"""Sources that are not HDF5, through a store, equal what other software reads from them."""

import os

import netCDF4
import numpy as np
import pytest
from conftest import get_refs, open_root
from osgeo import gdal, osr

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


TIFF = list(files_that_begin(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"))


def assert_equals_gdal(source, store):
    """The image of a TIFF file, by GDAL, equals the array `data` of the store: values, place and attributes."""
    root = open_root(store)
    array = root.OpenMDArray("data")
    with gdal.Open(str(source)) as ds:
        want = ds.ReadAsArray()
        dims = {d.GetName(): d.GetSize() for d in array.GetDimensions()}
        assert (dims["y"], dims["x"], dims.get("band", 1)) == (ds.RasterYSize, ds.RasterXSize, ds.RasterCount)
        band = ds.GetRasterBand(1)
        no_data = band.GetNoDataValue()
        if not gdal.DataTypeIsComplex(band.DataType):
            np.testing.assert_equal(array.GetNoDataValueAsDouble(), no_data)
        assert (array.GetScale() or 1, array.GetOffset() or 0) == (band.GetScale() or 1, band.GetOffset() or 0)
        transform, srs = ds.GetGeoTransform(can_return_null=True), ds.GetSpatialRef()
    got = array.ReadAsArray()
    if array.GetDimensions()[-1].GetName() == "band":
        got = np.moveaxis(got, -1, 0)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if transform is not None:
        x, y = (root.OpenMDArray(name).ReadAsArray() for name in "xy")
        gx, gy = transform[1], transform[5]
        np.testing.assert_allclose(x, transform[0] + (np.arange(len(x)) + 0.5) * gx, rtol=1e-13)
        np.testing.assert_allclose(y, transform[3] + (np.arange(len(y)) + 0.5) * gy, rtol=1e-13)
    return array.GetSpatialRef(), srs


@pytest.mark.parametrize("name", TIFF)
def test_tiff(tmp_path, name):
    source, store = os.path.join(REAL, name), tmp_path / "s.sqlite"
    get_refs(source, store)
    if name == "rasterio/cogeo.tif":
        with pytest.raises(RuntimeError, match="imagecodecs_jpeg"):
            open_root(store).OpenMDArray("data").ReadAsArray()
        return
    got, want = assert_equals_gdal(source, store)
    if want is not None:
        assert got.IsProjected() == want.IsProjected()
        if want.GetAuthorityCode(None):
            assert got.IsSame(want, ["IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES"])


def make_tiff(path, dtype="u1", bands=1, shape=(70, 90), options=(), no_data=None, epsg=32633):
    rng = np.random.default_rng(2)
    values = rng.integers(0, 200, (bands, *shape)).astype(dtype)
    kind = {
        "u1": gdal.GDT_Byte, "i1": gdal.GDT_Int8, "u2": gdal.GDT_UInt16, "i2": gdal.GDT_Int16, "u4": gdal.GDT_UInt32,
        "i4": gdal.GDT_Int32, "f4": gdal.GDT_Float32, "f8": gdal.GDT_Float64, "i8": gdal.GDT_Int64,
        "c8": gdal.GDT_CFloat32,
    }[dtype]  # fmt: skip
    with gdal.GetDriverByName("GTiff").Create(str(path), shape[1], shape[0], bands, kind, list(options)) as ds:
        srs = osr.SpatialReference()
        srs.ImportFromEPSG(epsg)
        ds.SetSpatialRef(srs)
        ds.SetGeoTransform([400000, 30, 0, 5000000, 0, -30])
        if no_data is not None:
            ds.GetRasterBand(1).SetNoDataValue(no_data)
        ds.WriteArray(values)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "i8", "f4", "f8", "c8"])
@pytest.mark.parametrize("layout", ["TILED=YES", "TILED=NO"])
@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_tiff_types(tmp_path, dtype, layout, order):
    source, store = tmp_path / "a.tif", tmp_path / "s.sqlite"
    blocks = ["BLOCKXSIZE=32", "BLOCKYSIZE=16"] if layout == "TILED=YES" else ["BLOCKYSIZE=16"]
    big = "BIGTIFF=YES" if order == "BIG" else "BIGTIFF=NO"
    make_tiff(source, dtype, 1, options=[layout, f"ENDIANNESS={order}", big, *blocks], no_data=7)
    got, want = assert_equals_gdal(source, store) if get_refs(source, store) else None
    assert got.IsSame(want, ["IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES"])


@pytest.mark.parametrize("compress", ["LZW", "DEFLATE", "ZSTD", "LZMA"])
@pytest.mark.parametrize("predictor", [1, 2, 3])
@pytest.mark.parametrize("interleave", ["PIXEL", "BAND"])
@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
@pytest.mark.parametrize("tiled", ["YES", "NO"])
def test_tiff_compressions(tmp_path, compress, predictor, interleave, order, tiled):
    source, store = tmp_path / "a.tif", tmp_path / "s.sqlite"
    options = [f"COMPRESS={compress}", f"INTERLEAVE={interleave}", f"ENDIANNESS={order}", f"TILED={tiled}"]
    options += ["BLOCKXSIZE=32", "BLOCKYSIZE=32"] if tiled == "YES" else ["BLOCKYSIZE=32"]
    if compress != "LZMA":
        options.append(f"PREDICTOR={predictor}")
    elif predictor > 1:
        return
    for dtype in ["f4", "f8"] if predictor == 3 else ["u1", "i2", "u4", "f4"]:
        make_tiff(source, dtype, 3, options=options)
        get_refs(source, store, overwrite=True)
        assert_equals_gdal(source, store)


@pytest.mark.parametrize("no_data", [None, 9])
def test_tiff_sparse(tmp_path, no_data):
    source, store = tmp_path / "a.tif", tmp_path / "s.sqlite"
    options = ["TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=16", "SPARSE_OK=TRUE", "COMPRESS=DEFLATE"]
    with gdal.GetDriverByName("GTiff").Create(str(source), 64, 64, 1, gdal.GDT_Int16, options) as ds:
        if no_data is not None:
            ds.GetRasterBand(1).SetNoDataValue(no_data)
        ds.WriteArray(np.full((16, 16), 3, "i2"), 16, 16)
    get_refs(source, store)
    assert_equals_gdal(source, store)
    with gdal.OpenEx(str(store), gdal.OF_VECTOR) as ds, ds.ExecuteSQL("SELECT present FROM refs_data") as rows:
        assert sum(f.GetField(0) for f in rows) == 1


def test_tiff_overviews_and_masks_are_no_data(tmp_path):
    source, store, cog = tmp_path / "a.tif", tmp_path / "s.sqlite", tmp_path / "cog.tif"
    make_tiff(source, "u1", 3, (1200, 1300))
    with gdal.Open(str(source), gdal.GA_Update) as ds:
        ds.CreateMaskBand(gdal.GMF_PER_DATASET)
    gdal.Translate(str(cog), str(source), format="COG", creationOptions=["COMPRESS=LZW", "BLOCKSIZE=256"])
    get_refs(cog, store)
    assert [n for n in open_root(store).GetMDArrayNames() if n.startswith("data")] == ["data"]
    assert_equals_gdal(cog, store)


def test_tiff_pages(tmp_path):
    source, store = tmp_path / "a.tif", tmp_path / "s.sqlite"
    for page in range(3):
        with gdal.GetDriverByName("MEM").Create("", 20, 10 + 5 * (page == 2), 1, gdal.GDT_Byte) as ds:
            ds.WriteArray(np.full((ds.RasterYSize, 20), page, "u1"))
            options = ["APPEND_SUBDATASET=YES"] if page else []
            gdal.GetDriverByName("GTiff").CreateCopy(str(source), ds, options=options)
    get_refs(source, store)
    root = open_root(store)
    for page, name in enumerate(["data", "data_2", "data_3"]):
        with gdal.Open(f"GTIFF_DIR:{page + 1}:{source}") as ds:
            np.testing.assert_array_equal(root.OpenMDArray(name).ReadAsArray(), ds.ReadAsArray())


def test_tiff_pixel_is_point(tmp_path):
    source, store = tmp_path / "a.tif", tmp_path / "s.sqlite"
    make_tiff(source)
    with gdal.Open(str(source), gdal.GA_Update) as ds:
        ds.SetMetadataItem("AREA_OR_POINT", "Point")
    get_refs(source, store)
    assert_equals_gdal(source, store)


@pytest.mark.parametrize("epsg", [4326, 3857, 3035, 3031, 5070, 2154])
def test_tiff_reference_systems(tmp_path, epsg):
    source, store = tmp_path / "a.tif", tmp_path / "s.sqlite"
    make_tiff(source, epsg=epsg)
    get_refs(source, store)
    got, want = assert_equals_gdal(source, store)
    assert got.IsSame(want, ["IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES"])


@pytest.mark.parametrize("options", [["NBITS=1"], ["COMPRESS=CCITTFAX4", "NBITS=1"], ["NBITS=12"]])
def test_tiff_refused_by_name(tmp_path, options):
    source = tmp_path / "a.tif"
    make_tiff(source, "u2" if "NBITS=12" in options else "u1", options=options)
    with pytest.raises(RuntimeError, match="samples of (1|12) bits"):
        get_refs(source, tmp_path / "s.sqlite")


def test_tiff_damage(tmp_path):
    source, store = tmp_path / "a.tif", tmp_path / "s.sqlite"
    make_tiff(source, options=["COMPRESS=LZW"])
    whole = source.read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(300):
        bad = bytearray(whole[: rng.integers(0, len(whole)) if rng.random() < 0.3 else None])
        for at in rng.integers(0, max(len(bad), 1), 3):
            if at < len(bad):
                bad[at] = rng.integers(0, 256)
        source.write_bytes(bad)
        try:
            get_refs(source, store, overwrite=True)
            open_root(store).OpenMDArray("data").ReadAsArray()
        except (RuntimeError, ValueError, AttributeError, MemoryError) as error:
            assert "internal error" not in str(error)
