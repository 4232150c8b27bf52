"""Sources that are not HDF5, through a store, equal what other software reads from them."""

import os
import shutil

import netCDF4
import numpy as np
import pytest
import zarr
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


ZARR = ["earthkit-data/test_zarr", "titiler/dataset_3d.zarr", "zarrs/v2_array_blosc_C.zarr"]
ZARR += ["zarrs/array_write_read.zarr", "zarrs/sharded_array_write_read.zarr"]


def zarr_arrays(source):
    """All arrays of a Zarr by their full name; one without a root is opened folder by folder."""
    for folder, _, files in os.walk(source):
        if {".zarray", "zarr.json"} & set(files):
            node = zarr.open(folder, mode="r")
            if isinstance(node, zarr.Array):
                name = os.path.relpath(folder, source)
                yield name if name != "." else os.path.basename(source).removesuffix(".zarr"), node


def assert_equals_zarr(source, store):
    root = open_root(store)
    names = []
    for name, node in zarr_arrays(str(source)):
        array = root.OpenMDArrayFromFullname("/" + name)
        assert array is not None, name
        np.testing.assert_array_equal(array.ReadAsArray(), node[...], err_msg=name)
        names.append(name)
    assert names
    return names


@pytest.mark.parametrize("name", ZARR)
def test_zarr(tmp_path, name):
    source, store = os.path.join(REAL, name), tmp_path / "s.sqlite"
    if not os.path.exists(source):
        pytest.skip("no real files")
    get_refs(source, store)
    assert_equals_zarr(source, store)
    gdal.Run(["driver", "mdimrefs", "check"], store=str(store), sources=True)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("dtype", ["i2", ">f4", "f8", "u1"])
def test_zarr_kinds(tmp_path, version, separator, consolidated, dtype):
    source, store = tmp_path / "a.zarr", tmp_path / "s.sqlite"
    rng = np.random.default_rng(4)
    key = {"name": "v2" if version == 2 else "default", "separator": separator}
    root = zarr.open_group(str(source), mode="w", zarr_format=version)
    for name, data in [("x", np.arange(13.0)), ("g/v", rng.integers(0, 99, (7, 9, 13)))]:
        array = root.create_array(
            name, shape=data.shape, chunks=(13,) if data.ndim == 1 else (2, 4, 5), dtype=dtype if name != "x" else "f8",
            fill_value=9, chunk_key_encoding=key,
            dimension_names=["z", "y", "x"][-data.ndim :] if version == 3 else None,
        )  # fmt: skip
        if version == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = ["z", "y", "x"][-data.ndim :]
        array.attrs["units"] = "m"
        if name == "x":
            array[...] = data
        else:
            # The rest was never written.
            array[2:5, 1:9, 2:] = data[2:5, 1:9, 2:]
    root.create_array("one", shape=(), dtype="f8")[...] = 7
    if consolidated:
        zarr.consolidate_metadata(str(source))
    get_refs(source, store)
    assert sorted(assert_equals_zarr(source, store)) == ["g/v", "one", "x"]
    array = open_root(store).OpenMDArrayFromFullname("/g/v")
    assert array.GetUnit() == "m" and array.GetBlockSize() == [2, 4, 5]
    assert array.GetDimensions()[2].GetFullName() == "/x"


@pytest.mark.parametrize("codec", ["blosc", "gzip", "zstd", "none", "crc32c"])
@pytest.mark.parametrize("where", ["start", "end"])
def test_zarr_shards(tmp_path, codec, where):
    source, store = tmp_path / "a.zarr", tmp_path / "s.sqlite"
    codecs = {
        "blosc": [zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle", typesize=4)],
        "gzip": [zarr.codecs.GzipCodec()], "zstd": [zarr.codecs.ZstdCodec()], "none": [],
        "crc32c": [zarr.codecs.Crc32cCodec()],
    }[codec]  # fmt: skip
    root = zarr.open_group(str(source), mode="w", zarr_format=3)
    array = root.create_array(
        "v", shape=(11, 17), chunks=(2, 3), shards={"shape": (4, 6), "index_location": where}, dtype="i4",
        fill_value=5, compressors=codecs or None, dimension_names=["y", "x"],
    )  # fmt: skip
    array[1:9, 4:] = np.arange(8 * 13).reshape(8, 13)
    get_refs(source, store)
    assert_equals_zarr(source, store)
    assert open_root(store).OpenMDArray("v").GetBlockSize() == [2, 3]
    gdal.Run(["driver", "mdimrefs", "check"], store=str(store), sources=True)


def test_zarr_damaged_shard(tmp_path):
    source, store = tmp_path / "a.zarr", tmp_path / "s.sqlite"
    root = zarr.open_group(str(source), mode="w", zarr_format=3)
    root.create_array("v", shape=(8, 8), chunks=(2, 2), shards=(8, 8), dtype="i4")[...] = 1
    shard = next(p for p in (source / "v").rglob("0") if p.is_file())
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)
    with pytest.raises(RuntimeError, match="CRC-32C"):
        get_refs(source, store)


def test_zarr_through_vsi(tmp_path):
    source, store = os.path.join(REAL, "titiler/dataset_3d.zarr"), tmp_path / "s.sqlite"
    if not os.path.exists(source):
        pytest.skip("no real files")
    shutil.make_archive(str(tmp_path / "z"), "zip", os.path.dirname(source), os.path.basename(source))
    get_refs(f"/vsizip/{tmp_path}/z.zip/dataset_3d.zarr", store)
    want = zarr.open(source, mode="r")["dataset"][...]
    np.testing.assert_array_equal(open_root(store).OpenMDArray("dataset").ReadAsArray(), want)


def test_zarr_in_a_mosaic(tmp_path):
    values = np.arange(6 * 4, dtype="f4").reshape(6, 4)
    for number in range(3):
        root = zarr.open_group(str(tmp_path / f"{number}.zarr"), mode="w", zarr_format=2)
        for name, data, dims in [
            ("t", np.arange(2.0) + 2 * number, ["t"]),
            ("x", np.arange(4.0), ["x"]),
            ("v", values[2 * number : 2 * number + 2], ["t", "x"]),
        ]:
            array = root.create_array(
                name, shape=data.shape, chunks=(1, 2) if data.ndim == 2 else data.shape, dtype=data.dtype
            )
            array[...] = data
            array.attrs["_ARRAY_DIMENSIONS"] = dims
        zarr.consolidate_metadata(str(tmp_path / f"{number}.zarr"))
    vrt, store = tmp_path / "m.vrt", tmp_path / "s.sqlite"
    gdal.Run("mdim mosaic", input=[str(tmp_path / f"{n}.zarr") for n in range(3)], output=str(vrt))
    get_refs(vrt, store)
    root = open_root(store)
    np.testing.assert_array_equal(root.OpenMDArray("v").ReadAsArray(), values)
    np.testing.assert_array_equal(root.OpenMDArray("t").ReadAsArray(), np.arange(6.0))
    # Again, with a chunk that has changed.
    zarr.open(str(tmp_path / "1.zarr"), mode="a")["v"][0, 0] = -1
    get_refs(vrt, store, append=True)
    values[2, 0] = -1
    np.testing.assert_array_equal(open_root(store).OpenMDArray("v").ReadAsArray(), values)


def test_a_folder_that_is_no_zarr(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(RuntimeError, match="no Zarr"):
        get_refs(tmp_path / "a", tmp_path / "s.sqlite")
