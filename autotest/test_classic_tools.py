"""GDAL's raster programs on a slice: the same result as on the netCDF file that it came from."""

import random
import subprocess

import netCDF4
import numpy as np
import pytest
from conftest import get_refs
from osgeo import gdal

gdal.UseExceptions()

DAYS = 3


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    """Days of a global quarter-degree grid, packed as OISST is, with values below `valid_min` too."""
    folder = tmp_path_factory.mktemp("month")
    rng = np.random.default_rng(1981)
    files = []
    for day in range(DAYS):
        files.append(folder / f"day{day}.nc")
        with netCDF4.Dataset(files[-1], "w") as d:
            for name, values, units in (
                ("time", [day + 0.5], "days since 1981-09-01"),
                ("lat", np.arange(720) * 0.25 - 89.875, "degrees_north"),
                ("lon", np.arange(1440) * 0.25 + 0.125, "degrees_east"),
            ):
                d.createDimension(name, len(values))
                c = d.createVariable(name, "f4", (name,))
                c.units = units
                c[:] = values
            v = d.createVariable("sst", "i2", ("time", "lat", "lon"), zlib=True, shuffle=True, fill_value=-999)
            v.set_auto_maskandscale(False)
            packing = {"scale_factor": np.float32(0.01), "add_offset": np.float32(0), "units": "Celsius"}
            v.setncatts(packing | {"valid_min": np.int16(-300), "valid_max": np.int16(4500)})
            values = rng.integers(-600, 3500, (720, 1440)).astype("i2")
            values[rng.random((720, 1440)) < 0.3] = -999
            v[0] = values
    gdal.Run("mdim", "mosaic", input=[str(f) for f in files], output=str(folder / "all.vrt"), quiet=True)
    get_refs(folder / "all.vrt", folder / "all.sqlite")
    return f'MDIMREFS:"{folder}/all.sqlite":/sst:{DAYS - 1}', f"NETCDF:{files[-1]}:sst"


def opened(month):
    """The slice and its source. The source is opened without the netCDF driver's habit of turning values outside
    `valid_min` and `valid_max` into no-data; the slice has the file's own values."""
    return gdal.Open(month[0]), gdal.OpenEx(month[1], gdal.OF_RASTER, open_options=["HONOUR_VALID_RANGE=NO"])


def test_values_outside_the_valid_range_are_kept(month):
    plain, (ours, theirs) = gdal.Open(month[1]).ReadAsArray(), opened(month)
    values = ours.ReadAsArray()
    assert np.array_equal(values, theirs.ReadAsArray())
    differ = values != plain
    assert differ.any() and np.array_equal(differ, (values != -999) & (values < -300))


def test_information(month):
    ours, theirs = (gdal.Info(d, format="json", computeChecksum=True) for d in opened(month))
    for key in ("size", "geoTransform", "cornerCoordinates"):
        assert ours[key] == theirs[key], key
    for key in ("type", "noDataValue", "scale", "offset", "unit", "checksum"):
        assert ours["bands"][0][key] == theirs["bands"][0][key], key
    info = gdal.Run("raster", "info", input=month[0], format="json").Output()
    assert info["geoTransform"] == ours["geoTransform"]


def test_warp_to_the_pole(month):
    box = {"outputBounds": (-4e6, -4e6, 4e6, 4e6), "width": 400, "height": 400, "resampleAlg": "near"}
    polar = {"srcSRS": "EPSG:4326", "dstSRS": "EPSG:3031", "format": "MEM"} | box
    ours, theirs = (gdal.Warp("", d, **polar).ReadAsArray() for d in opened(month))
    assert ours.size == 160000 and (ours != -999).sum() > 50000
    assert np.array_equal(ours, theirs)


def test_locationinfo_at_ten_places(month):
    rng = random.Random(3)
    places = "".join(f"{rng.uniform(0.2, 359.8):.4f} {rng.uniform(-89.8, 89.8):.4f}\n" for _ in range(10))

    def values(*source):
        command = ["gdallocationinfo", "-valonly", "-geoloc", *source]
        return subprocess.run(command, input=places, capture_output=True, text=True, check=True).stdout.split()

    ours = values(month[0])
    assert len(ours) == 10 and ours == values("-oo", "HONOUR_VALID_RANGE=NO", month[1])


def test_translate_and_buildvrt(month, tmp_path):
    want = opened(month)[1].ReadAsArray()
    assert np.array_equal(gdal.Translate(str(tmp_path / "t.tif"), month[0]).ReadAsArray(), want)
    gdal.BuildVRT(str(tmp_path / "b.vrt"), [month[0]]).Close()
    vrt = gdal.Open(str(tmp_path / "b.vrt"))
    assert np.array_equal(vrt.ReadAsArray(), want) and vrt.GetGeoTransform() == (0, 0.25, 0, 90, 0, -0.25)
