"""Classic rasters: bands, subdatasets, slices, geotransform, statistics."""

import os

import h5py
import netCDF4
import numpy as np
import pytest
from conftest import ForeignStore, get_refs, open_root
from osgeo import gdal, osr


def write_grid(path, arrays, lat=(-15, -5, 5, 15), lon=(5, 15, 25, 35, 45, 55), times=3, scale=None):
    """A netCDF file with arrays of the given dimensions, counting up."""
    with netCDF4.Dataset(path, "w") as d:
        for name, values, units in (
            ("time", np.arange(times), "days since 2000-01-01"),
            ("lat", np.array(lat), "degrees_north"),
            ("lon", np.array(lon), "degrees_east"),
        ):
            d.createDimension(name, len(values))
            c = d.createVariable(name, "f4" if scale is None else "i2", (name,))
            c.set_auto_maskandscale(False)
            c.units = units
            if scale is not None:
                c.setncatts({"scale_factor": scale, "add_offset": 100.0})
            c[:] = values
        for name, dims in arrays.items():
            v = d.createVariable(name, "i2", dims, fill_value=-1)
            v.set_auto_maskandscale(False)
            v.setncatts({"units": "K", "scale_factor": 0.5, "add_offset": 10.0})
            v[...] = np.arange(np.prod(v.shape)).reshape(v.shape)


def refs_of(tmp_path, arrays, **options):
    write_grid(tmp_path / "s.nc", arrays, **options)
    get_refs(tmp_path / "s.nc", tmp_path / "s.sqlite")
    return str(tmp_path / "s.sqlite")


CUBE = np.arange(72).reshape(3, 4, 6)


def test_one_array_opens_as_bands(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")})
    for name in (store, f"MDIMREFS:{store}", f'MDIMREFS:"{store}":/v'):
        dataset = gdal.Open(name)
        assert (dataset.RasterCount, dataset.RasterYSize, dataset.RasterXSize) == (3, 4, 6)
        # North up, although latitudes ascend.
        assert np.array_equal(dataset.ReadAsArray(), CUBE[:, ::-1])
        assert dataset.GetGeoTransform() == (0, 10, 0, 20, 0, -10)
        assert not dataset.GetSubDatasets()
    band = dataset.GetRasterBand(2)
    assert (band.DataType, band.GetNoDataValue(), band.GetUnitType()) == (gdal.GDT_Int16, -1, "K")
    assert (band.GetScale(), band.GetOffset()) == (0.5, 10)
    assert band.GetMetadataItem("DIM_time_INDEX") == "1" and float(band.GetMetadataItem("DIM_time_VALUE")) == 1


def test_it_equals_the_netcdf_driver(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")})
    source, dataset = gdal.Open(f"NETCDF:{tmp_path}/s.nc:v"), gdal.Open(f"MDIMREFS:{store}")
    assert source.GetGeoTransform() == dataset.GetGeoTransform()
    assert np.array_equal(source.ReadAsArray(), dataset.ReadAsArray())
    statistics = [d.GetRasterBand(1).ComputeStatistics(False) for d in (source, dataset)]
    assert np.allclose(statistics[0], statistics[1], rtol=1e-12)


def test_descending_latitudes_stay(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")}, lat=(15, 5, -5, -15))
    dataset = gdal.Open(f"MDIMREFS:{store}")
    assert np.array_equal(dataset.ReadAsArray(), CUBE)
    assert dataset.GetGeoTransform() == (0, 10, 0, 20, 0, -10)


def test_latitudes_that_are_not_regular_are_turned_too(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")}, lat=(-15, -4, 5, 15))
    assert np.array_equal(gdal.Open(f"MDIMREFS:{store}").ReadAsArray(), CUBE[:, ::-1])


def test_rows_that_are_no_latitudes_stay(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lon")})
    assert np.array_equal(gdal.Open(f"MDIMREFS:{store}").ReadAsArray(), np.arange(18).reshape(3, 6))


def test_packed_coordinates(tmp_path):
    """Coordinates with scale and offset: the geotransform is of what they mean."""
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")}, scale=0.1)
    dataset = gdal.Open(f"MDIMREFS:{store}")
    assert np.allclose(dataset.GetGeoTransform(), (100, 1, 0, 102, 0, -1))
    assert np.array_equal(dataset.ReadAsArray(), CUBE[:, ::-1])
    # As arrays they stay packed.
    lat = open_root(f"MDIMREFS:{tmp_path}/s.sqlite").OpenMDArray("lat")
    assert lat.ReadAsArray().tolist() == [-15, -5, 5, 15] and lat.GetScale() == 0.1


def test_several_arrays_are_subdatasets(tmp_path):
    store = refs_of(
        tmp_path, {"v": ("time", "lat", "lon"), "w": ("lat", "lon"), "one": ("time",), "grp/u": ("lat", "lon")}
    )
    dataset = gdal.Open(f"MDIMREFS:{store}")
    assert dataset.RasterCount == 0
    names = dict(dataset.GetSubDatasets())
    assert {n.rsplit(":", 1)[1] for n in names} == {"/v", "/w", "/grp/u"}
    assert names[f'MDIMREFS:"{store}":/v'] == "[3x4x6] /v (Int16)"
    for name in names:
        assert gdal.Open(name).RasterXSize == 6
        assert gdal.OpenEx(name, gdal.OF_RASTER | gdal.OF_VECTOR).RasterXSize == 6
    # Not a map, but it can be asked for.
    assert gdal.Open(f'MDIMREFS:"{store}":/one').ReadAsArray().tolist() == [[0, 1, 2]]


def test_bounds_are_no_maps(tmp_path):
    write_grid(tmp_path / "s.nc", {"v": ("time", "lat", "lon")})
    with netCDF4.Dataset(tmp_path / "s.nc", "a") as d:
        d.createDimension("nv", 2)
        d.createVariable("time_bnds", "f4", ("time", "nv"))[:] = 0
        d["time"].bounds = "time_bnds"
    get_refs(tmp_path / "s.nc", tmp_path / "s.sqlite")
    assert gdal.Open(f"MDIMREFS:{tmp_path}/s.sqlite").RasterCount == 3


def test_slices(tmp_path):
    values = np.arange(2 * 3 * 4 * 5, dtype="i2").reshape(2, 3, 4, 5)
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f.create_dataset("grp/v", data=values, chunks=(1, 1, 3, 4))
    get_refs(tmp_path / "s.h5", tmp_path / "s.sqlite")
    name = f'MDIMREFS:"{tmp_path}/s.sqlite":/grp/v'
    assert np.array_equal(gdal.Open(name).ReadAsArray(), values.reshape(6, 4, 5))
    assert np.array_equal(gdal.Open(f"{name}:1").ReadAsArray(), values[1])
    dataset = gdal.Open(f"{name}:1:2")
    assert np.array_equal(dataset.ReadAsArray(), values[1, 2])
    assert dataset.GetRasterBand(1).GetBlockSize() == [4, 3]
    assert np.array_equal(gdal.Open(f"{name}:1:2:3").ReadAsArray(), values[1, 2, 3:4])
    for bad in (":2", ":0:3", ":0:0:0:0", ":0:0:4"):
        with pytest.raises(RuntimeError):
            gdal.Open(name + bad)


def test_slices_by_value(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")})
    name = f'MDIMREFS:"{store}":/v'
    for value in ("time=2000-01-02", "time=2000-01-02T00:00", "time=2000-01-02T00:00:00:", "time=1", "/time=1.0", "1"):
        dataset = gdal.Open(f"{name}:{value}".rstrip(":"))
        assert np.array_equal(dataset.ReadAsArray(), CUBE[1, ::-1]), value
    # Any dimension, in any order, with indices for the first that are left.
    assert np.array_equal(gdal.Open(f"{name}:lat=-5").ReadAsArray(), CUBE[:, 1])
    assert np.array_equal(gdal.Open(f"{name}:lon=25:time=2000-01-03").ReadAsArray(), CUBE[2, :, 2:3].T)
    assert np.array_equal(gdal.Open(f"{name}:lat=15:2").ReadAsArray(), CUBE[2, 3][None])
    for value, word in (
        ("time=2000-01-04", "no such time"),
        ("time=2000-01", "3 such times"),
        ("time=2000-02-30", "calendar"),
        ("time=yesterday", "not a number"),
        ("lat=-4", "nearest is -5"),
        ("depth=3", "time, lat, lon"),
        ("time=0:time=1", "once"),
        ("time=0:0:0:0", "more dimensions"),
    ):
        with pytest.raises(RuntimeError, match=word):
            gdal.Open(f"{name}:{value}")


def test_windows_and_resampling(tmp_path):
    values = (np.arange(200 * 300) % 1000).astype("i2").reshape(200, 300)
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f.create_dataset("v", data=values, chunks=(64, 100), compression="gzip", shuffle=True)
    get_refs(tmp_path / "s.h5", tmp_path / "s.sqlite")
    dataset = gdal.Open(f"MDIMREFS:{tmp_path}/s.sqlite")
    band = dataset.GetRasterBand(1)
    assert np.array_equal(band.ReadAsArray(33, 44, 123, 99), values[44:143, 33:156])
    mem = gdal.GetDriverByName("MEM").Create("", 300, 200, 1, gdal.GDT_Int16)
    mem.WriteArray(values)
    for size in ((30, 20), (75, 50)):
        for method in (gdal.GRIORA_NearestNeighbour, gdal.GRIORA_Average, gdal.GRIORA_Bilinear):
            options = {"buf_xsize": size[0], "buf_ysize": size[1], "resample_alg": method}
            assert np.array_equal(band.ReadAsArray(**options), mem.GetRasterBand(1).ReadAsArray(**options))


def test_translate_and_warp(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")})
    made = []
    for name in (f"NETCDF:{tmp_path}/s.nc:v", f"MDIMREFS:{store}"):
        tif = gdal.Translate("", name, format="MEM", bandList=[2], projWin=[10, 10, 50, -10])
        warped = gdal.Warp("", name, format="MEM", srcSRS="EPSG:4326", dstSRS="EPSG:3857", width=20, height=20)
        made.append((tif.ReadAsArray(), tif.GetGeoTransform(), warped.ReadAsArray()))
    for a, b in zip(*made, strict=True):
        assert np.array_equal(a, b)


def test_too_many_bands(tmp_path):
    store = ForeignStore(tmp_path / "s.sqlite")
    store.add_array("v", ["t", "y", "x"], [65537, 2, 2], [1, 2, 2], "<i2", 3)
    store.add_chunks("v", 3, [])
    path = store.close()
    with pytest.raises(RuntimeError, match=r"65536.*:0"):
        gdal.Open(f"MDIMREFS:{path}")
    assert gdal.Open(f'MDIMREFS:"{path}":/v:65536').ReadAsArray().tolist() == [[3, 3], [3, 3]]


def test_many_bands_open_quickly(tmp_path):
    store = ForeignStore(tmp_path / "s.sqlite")
    store.add_array("v", ["t", "y", "x"], [16000, 2, 2], [1, 2, 2], "<i2", 3)
    store.add_chunks("v", 3, [])
    dataset = gdal.Open(f"MDIMREFS:{store.close()}")
    assert dataset.RasterCount == 16000
    assert dataset.GetRasterBand(16000).ReadAsArray().tolist() == [[3, 3], [3, 3]]


def maximum(name):
    dataset = gdal.Open(name)
    return dataset.GetRasterBand(1).GetStatistics(False, True)[1]


def test_statistics_do_not_outlive_a_changed_store(tmp_path):
    store = refs_of(tmp_path, {"v": ("lat", "lon")})
    assert maximum(store) == 23
    aux = store + ".aux.xml"
    assert os.path.exists(aux)
    # Kept for the same store: no source is read.
    os.rename(tmp_path / "s.nc", tmp_path / "away.nc")
    assert maximum(store) == 23
    with netCDF4.Dataset(tmp_path / "away.nc", "a") as d:
        d["v"].set_auto_maskandscale(False)
        d["v"][...] = 500
    os.rename(tmp_path / "away.nc", tmp_path / "s.nc")
    get_refs(tmp_path / "s.nc", store, append=True, rescan=True)
    assert maximum(store) == 500


def test_reading_writes_no_file_beside_the_store(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")})
    before = sorted(os.listdir(tmp_path))
    dataset = gdal.Open(store)
    gdal.Info(dataset)
    dataset.ReadAsArray()
    dataset = None
    open_root(store).OpenMDArray("v").ReadAsArray()
    assert sorted(os.listdir(tmp_path)) == before


def test_an_unreadable_source_is_an_error_with_its_name(tmp_path):
    store = refs_of(tmp_path, {"v": ("time", "lat", "lon")})
    os.remove(tmp_path / "s.nc")
    dataset = gdal.Open(store)
    with pytest.raises(RuntimeError, match="s.nc"):
        dataset.ReadAsArray()


def test_strings_are_no_bands(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f["v"] = np.array([[b"a", b"b"]])
    get_refs(tmp_path / "s.h5", tmp_path / "s.sqlite")
    with pytest.raises(RuntimeError, match="/v"):
        gdal.Open(f'MDIMREFS:"{tmp_path}/s.sqlite":/v')


def test_band_names(tmp_path):
    """A band says which time and level it is, as the metadata that GDAL makes of the coordinates does."""
    source, store = str(tmp_path / "a.nc"), str(tmp_path / "s.sqlite")
    with netCDF4.Dataset(source, "w") as d:
        for name, size in (("time", 3), ("lev", 2), ("run", 2), ("lat", 4), ("lon", 5)):
            d.createDimension(name, size)
        time = d.createVariable("time", "f8", ("time",))
        time.units, time[:] = "hours since 2000-02-28 12:00", [0, 12, 24]
        lev = d.createVariable("lev", "i2", ("lev",))
        lev.scale_factor, lev.units = 0.5, "m"
        lev[:] = [10, 20]
        lat, lon = (d.createVariable(n, "f4", (n,)) for n in ("lat", "lon"))
        lat.units, lat[:] = "degrees_north", [3, 2, 1, 0]
        lon.units, lon[:] = "degrees_east", range(5)
        d.createVariable("v", "i2", ("time", "lev", "run", "lat", "lon"))[:] = 1
    get_refs(source, store)
    ds = gdal.Open(f"MDIMREFS:{store}")
    dates = ["2000-02-28T12:00:00", "2000-02-29T00:00:00", "2000-02-29T12:00:00"]
    want = [(t, z, r) for t in range(3) for z in range(2) for r in range(2)]
    assert ds.RasterCount == len(want)
    for number, (t, z, r) in enumerate(want):
        band = ds.GetRasterBand(number + 1)
        assert band.GetDescription() == f"v time={dates[t]} lev={[10, 20][z]} run:{r}"
        items = band.GetMetadata()
        assert (items["time"], items["lev"]) == (dates[t], str([10, 20][z]))
        assert (int(items["DIM_time_INDEX"]), int(items["DIM_lev_INDEX"])) == (t, z)
    ds = gdal.Open(f'MDIMREFS:"{store}":/v:lev=10:2:0')
    assert ds.GetRasterBand(1).GetDescription() == f"v time={dates[2]} lev=10 run:0"
    del ds
    assert sorted(os.listdir(tmp_path)) == ["a.nc", "s.sqlite"]


def test_longitudes_and_latitudes_are_wgs84_on_a_map(tmp_path):
    """GDAL's netCDF driver has no SRS for them; told that it is EPSG:4326, it makes the same map of the source."""
    source, store = str(tmp_path / "a.nc"), str(tmp_path / "s.sqlite")
    with netCDF4.Dataset(source, "w") as d:
        for name, size in (("time", 2), ("lat", 36), ("lon", 72)):
            d.createDimension(name, size)
        lat, lon = (d.createVariable(n, "f4", (n,)) for n in ("lat", "lon"))
        lat.units, lat[:] = "degrees_north", np.arange(36) * 5 - 87.5
        lon.units, lon[:] = "degrees_east", np.arange(72) * 5 + 2.5
        v = d.createVariable("v", "i2", ("time", "lat", "lon"), fill_value=-1)
        v[:] = np.arange(2 * 36 * 72).reshape(2, 36, 72)
        d.createVariable("plain", "i2", ("time", "lat"))[:] = 1
    get_refs(source, store)
    ours = gdal.Open(f'MDIMREFS:"{store}":/v')
    wgs84 = osr.SpatialReference()
    wgs84.ImportFromEPSG(4326)
    assert ours.GetSpatialRef().IsSame(wgs84, ["IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES"])
    assert ours.GetSpatialRef().GetDataAxisToSRSAxisMapping() == [2, 1]
    assert gdal.Open(f'MDIMREFS:"{store}":/plain').GetSpatialRef() is None
    box = {"dstSRS": "EPSG:3031", "outputBounds": (-4e6, -4e6, 4e6, 4e6), "width": 400, "height": 400, "format": "MEM"}
    theirs = gdal.Warp("", f"NETCDF:{source}:v", srcSRS="EPSG:4326", **box).ReadAsArray()
    assert np.array_equal(gdal.Warp("", ours, **box).ReadAsArray(), theirs) and (theirs >= 0).any()
