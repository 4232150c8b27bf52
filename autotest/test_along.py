"""`plan`: sources put together by their own coordinates, equal to what other software reads from them."""

import glob
import json
import os
import sqlite3

import netCDF4
import numpy as np
import pytest
from conftest import get_refs, open_root
from osgeo import gdal

gdal.UseExceptions()


def plan(store, **arguments):
    return gdal.Run(["driver", "mdimrefs", "plan"], store=str(store), **arguments)["output-string"]


def write(path, times, units="days since 2000-01-01", base=0, time_type="i4", **options):
    """Values say when and where: base + time step · 12 + place."""
    kind = options.pop("format", "NETCDF4")
    n = len(times)
    with netCDF4.Dataset(path, "w", format=kind) as f:
        for name, size in (("time", n), ("y", 3), ("x", 4)):
            f.createDimension(name, size)
            if name != "time":
                f.createVariable(name, "f4", (name,))[:] = np.arange(size)
        time = f.createVariable("time", time_type, ("time",))
        time.units = units
        time[:] = times
        v = f.createVariable("v", "f4", ("time", "y", "x"), **options)
        v[:] = base + np.arange(n * 12).reshape(n, 3, 4)
    return str(path)


def tables(store):
    db = sqlite3.connect(store)
    names = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table','view')")]
    quoted = {n: f'SELECT * FROM "{n}"' for n in names}
    rows = {n: sorted(db.execute(sql).fetchall(), key=repr) for n, sql in quoted.items()}
    # The order of the members of a JSON object says nothing.
    meta = {key: value for key, value in rows["meta"] if key not in ("generation", "plan")}
    rows["meta"] = {k: json.loads(v) if v.startswith("{") else v for k, v in meta.items()}
    return rows


def series(folder):
    return [write(folder / f"{i}.nc", [i], base=100 * i, chunksizes=(1, 3, 4), zlib=True) for i in (2, 0, 1)]


def test_same_store_as_the_vrt(tmp_path):
    files = series(tmp_path)
    gdal.Run("mdim mosaic", input=sorted(files), output=str(tmp_path / "m.vrt"))
    get_refs(tmp_path / "m.vrt", tmp_path / "vrt.sqlite")
    for name in ("vrt2", "along"):
        get_refs(sorted(files), tmp_path / f"{name}.sqlite")
    plan(tmp_path / "vrt2.sqlite", vrt=str(tmp_path / "m.vrt"))
    plan(tmp_path / "along.sqlite", along="time")
    assert tables(tmp_path / "vrt2.sqlite") == tables(tmp_path / "vrt.sqlite")
    assert tables(tmp_path / "along.sqlite") == tables(tmp_path / "vrt.sqlite")


def test_order_by_dates_in_other_units(tmp_path):
    a = write(tmp_path / "a.nc", [48.0], "hours since 2000-01-01", 200, "f8")
    b = write(tmp_path / "b.nc", [0.0], "days since 2000-01-02", 100, "f8")
    c = write(tmp_path / "c.nc", [0.0], "days since 2000-01-01", 0, "f8")
    store = tmp_path / "s.sqlite"
    get_refs([a, b, c], store)
    plan(store, along="time")
    root = open_root(store)
    assert root.OpenMDArray("time").ReadAsArray().tolist() == [0, 1, 2]
    assert root.OpenMDArray("v").ReadAsArray()[:, 0, 0].tolist() == [0, 100, 200]


def test_overlap_names_both(tmp_path):
    files = [write(tmp_path / "a.nc", [0, 2]), write(tmp_path / "b.nc", [1, 3])]
    get_refs(files, tmp_path / "s.sqlite")
    with pytest.raises(RuntimeError, match=r"a\.nc and .*b\.nc overlap .*2 days since .*1 days since"):
        plan(tmp_path / "s.sqlite", along="time")


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_months_of_31_and_28(tmp_path, kind):
    files = [
        write(tmp_path / "jan.nc", range(31), format=kind),
        write(tmp_path / "feb.nc", range(31, 59), base=31 * 12, format=kind),
    ]
    for store, order in (("a", files), ("b", files[::-1])):
        get_refs(order, tmp_path / f"{store}.sqlite")
        plan(tmp_path / f"{store}.sqlite", along="time")
        v = open_root(tmp_path / f"{store}.sqlite").OpenMDArray("v")
        assert v.GetBlockSize() == [1, 3, 4]
        np.testing.assert_array_equal(v.ReadAsArray(), np.arange(59 * 12).reshape(59, 3, 4))


def test_compressed_months_are_refused(tmp_path, real_data):
    jan = os.path.join(real_data, "hidefix", "jan.nc4")
    with netCDF4.Dataset(jan) as src, netCDF4.Dataset(tmp_path / "feb.nc", "w") as f:
        for name, d in src.dimensions.items():
            f.createDimension(name, 28 if name == "time" else d.size)
        for name, v in src.variables.items():
            w = f.createVariable(
                name, v.dtype, v.dimensions, zlib=True, complevel=v.filters()["complevel"], shuffle=True
            )
            w.setncatts(v.__dict__)
            w[:] = v[:28] + 31 if name == "time" else v[: w.shape[0]]
    with pytest.raises(RuntimeError, match=r"chunk shape is \[28, 3, 4\], but \[31, 3, 4\]"):
        get_refs([jan, tmp_path / "feb.nc"], tmp_path / "s.sqlite")


def test_july_means(tmp_path, real_data):
    files = sorted(glob.glob(os.path.join(real_data, "myoisst", "m07_201[0-4].nc")))
    assert len(files) == 5
    store = tmp_path / "s.sqlite"
    get_refs(files[::-1], store)
    plan(store, along="time")
    root = open_root(store)
    for name in ("time", "sst", "ice", "anom", "err"):
        want = []
        for file in files:
            with netCDF4.Dataset(file) as f:
                f.set_auto_mask(False)
                want.append(f[name][:])
        np.testing.assert_array_equal(root.OpenMDArray(name).ReadAsArray(), np.concatenate(want))
    with pytest.raises(RuntimeError, match=r"m07_2019\.nc.*(data type|units|codec)"):
        get_refs([*files, os.path.join(real_data, "myoisst", "m07_2019.nc")], tmp_path / "t.sqlite")


def test_nemo_months(tmp_path, real_data):
    files = sorted(glob.glob(os.path.join(real_data, "iris-sample-data", "nemo_1m_*.nc")))
    assert len(files) == 3
    store = tmp_path / "s.sqlite"
    get_refs(files[::-1], store)
    with pytest.raises(RuntimeError, match='overlap along "time_counter"'):
        plan(store, along="time_counter")
    plan(store, along="time_counter", order_by="time_centered")
    root = open_root(store)
    sources = [netCDF4.Dataset(f) for f in files]
    for f in sources:
        f.set_auto_mask(False)
    for name in ("tos", "time_centered"):
        want = np.concatenate([f[name][:] for f in sources])
        np.testing.assert_array_equal(root.OpenMDArray(name).ReadAsArray(), want)
    for name in ("nav_lat", "nav_lon"):
        np.testing.assert_array_equal(root.OpenMDArray(name).ReadAsArray(), sources[0][name][:])


def test_tiff_stack(tmp_path, real_data):
    # A COG with overviews, and one of another year with other values.
    first = os.path.join(real_data, "kerchunk", "lcmap_tiny_cog_2019.tif")
    second = str(tmp_path / "lcmap_tiny_cog_2020.tif")
    with gdal.Open(first) as f:
        size = f.GetRasterBand(1).GetBlockSize()[0]
    options = ["TILED=YES", "COMPRESS=DEFLATE", f"BLOCKXSIZE={size}", f"BLOCKYSIZE={size}"]
    gdal.Translate(second, first, format="GTiff", creationOptions=options)
    with gdal.Open(second, gdal.GA_Update) as f:
        f.WriteArray(np.ascontiguousarray(f.ReadAsArray()[::-1]))
    files = [first, second]
    want = np.stack([gdal.Open(f).ReadAsArray() for f in files])
    store = tmp_path / "s.sqlite"
    get_refs(files[::-1], store)
    plan(store, along="time", new_dim=True, pattern="lcmap_tiny_cog_%Y.tif")
    root = open_root(store)
    np.testing.assert_array_equal(root.OpenMDArray("data").ReadAsArray(), want)
    days = (np.array(["2019-01-01", "2020-01-01"], "M8[D]") - np.datetime64("1970-01-01")).astype(int)
    assert root.OpenMDArray("time").ReadAsArray().tolist() == days.tolist()
    # Again, by values in the order of the scan.
    plan(store, along="time", new_dim=True, values=["2", "1"])
    root = open_root(store)
    np.testing.assert_array_equal(root.OpenMDArray("data").ReadAsArray(), want)
    assert root.OpenMDArray("time").ReadAsArray().tolist() == [1, 2]


def test_usage(tmp_path):
    files = series(tmp_path)
    store = tmp_path / "s.sqlite"
    get_refs(files[:2], store)
    before = tables(store)
    for arguments, message in (
        ({}, "what is the plan"),
        ({"along": "level"}, "no array has the dimension"),
        ({"along": "time", "pattern": "%Y"}, "for --new-dim"),
        ({"along": "time", "new_dim": True, "values": ["1"]}, "but 2 sources"),
    ):
        with pytest.raises(RuntimeError, match=message):
            plan(store, **arguments)
    gdal.Run("mdim mosaic", input=sorted(files), output=str(tmp_path / "m.vrt"))
    with pytest.raises(RuntimeError, match="not in the store"):
        plan(store, vrt=str(tmp_path / "m.vrt"))
    assert tables(store) == before
