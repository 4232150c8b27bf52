#!/usr/bin/env python3
"""Makes mosaic.vrt, groups.vrt and what GDAL itself says of them, mosaic.json: the reference of src/vrt/tests.rs.

usage: scripts/with-gdal python3 tests/data/make_mosaic.py     (GDAL >= 3.12 with the netCDF driver, netCDF4)

mosaic.vrt is the output of `gdal mdim mosaic` over three small files; groups.vrt is written by GDAL's VRT driver
through its API, with what a mosaic has not: nested groups, strings, every numeric type.
"""

import json
import math
import os
import shutil
import tempfile

import netCDF4
import numpy as np
from osgeo import gdal, osr

gdal.UseExceptions()
HERE = os.path.dirname(os.path.abspath(__file__))


def make_source(path, time, offset):
    with netCDF4.Dataset(path, "w") as nc:
        nc.title = 'a "b" & <c>'
        for name, size in (("time", None), ("depth", 2), ("lat", 3), ("lon", 4)):
            nc.createDimension(name, size)
        crs = nc.createVariable("crs", "i4", ())
        crs.grid_mapping_name = "latitude_longitude"
        crs.semi_major_axis = 6378137.0
        crs.inverse_flattening = 298.257223563
        v = nc.createVariable("time", "f8", ("time",))
        v.units, v.calendar, v.long_name = "days since 2000-01-01", "noleap", "time é 日"
        v[:] = time
        v = nc.createVariable("depth", "f4", ("depth",))
        v.units, v.positive = "m", "down"
        v[:] = [0.1, 7]
        v = nc.createVariable("lat", "f4", ("lat",))
        v.units = "degrees_north"
        v[:] = [50, 49, 48]
        v = nc.createVariable("lon", "f8", ("lon",))
        v.units = "degrees_east"
        v[:] = [0, 0.25, 0.5, 0.75]
        shape = (len(time), 2, 3, 4)
        dims = ("time", "depth", "lat", "lon")
        v = nc.createVariable("sst", "i2", dims, zlib=True, chunksizes=(1, 1, 3, 4), fill_value=-999)
        v.set_auto_maskandscale(False)
        v.scale_factor, v.add_offset, v.units = np.float32(0.01), np.float32(273.15), "degC"
        v.valid_range = np.array([-300, 4500], "i2")
        v.weights = np.array([0.1, -1e30, np.inf], "f4")
        v.comment, v.grid_mapping = " 1 < 2 & 3 > 2\n'two' \"lines\" ", "crs"
        v[:] = np.arange(math.prod(shape)).reshape(shape) + offset
        v = nc.createVariable("speed", "f8", ("time", "lat", "lon"), chunksizes=(1, 3, 4), fill_value=np.nan)
        v.big = np.array([2**63 - 1], "i8")
        v[:] = offset + 0.5
        v = nc.createVariable("time_bnds", "u8", ("time", "depth"), fill_value=np.uint64(2**53))
        v[:] = offset


def make_groups(path):
    ds = gdal.GetDriverByName("VRT").CreateMultiDimensional(path)
    root = ds.GetRootGroup()
    root.CreateAttribute("title", [], gdal.ExtendedDataType.CreateString()).Write('a "b" & <c>')
    y = root.CreateDimension("y", "HORIZONTAL_Y", "SOUTH", 2)
    one = root.CreateGroup("g one")
    one.CreateAttribute("n", [], gdal.ExtendedDataType.Create(gdal.GDT_Int32)).Write(-7)
    x = one.CreateDimension("x", "", "", 3)
    two = one.CreateGroup("two")
    types = ["UInt8", "Int8", "UInt16", "Int16", "UInt32", "Int32", "UInt64", "Int64", "Float16", "Float32", "Float64"]
    for name in types:
        data_type = gdal.ExtendedDataType.Create(gdal.GetDataTypeByName(name))
        a = two.CreateMDArray(name, [y, x], data_type)
        a.SetNoDataValueDouble(1)
        value = a.CreateAttribute("v", [3], data_type)
        value.Write([0, 1, 100])
    a = one.CreateMDArray("x", [x], gdal.ExtendedDataType.Create(gdal.GDT_Float64))
    x.SetIndexingVariable(a)
    a.SetUnit("m")
    a = root.CreateMDArray("scalar", [], gdal.ExtendedDataType.Create(gdal.GDT_Float32))
    srs = osr.SpatialReference()
    srs.ImportFromEPSG(32633)
    srs.SetDataAxisToSRSAxisMapping([2, 1])
    a = root.CreateMDArray("names", [y], gdal.ExtendedDataType.CreateString())
    a.SetSpatialRef(srs)
    a.SetOffset(-0.1)
    a.SetScale(1e-300)
    del a, x, y, one, two, root, ds


def number(v):
    if isinstance(v, float) and not math.isfinite(v):
        return "NaN" if v != v else ("Infinity" if v > 0 else "-Infinity")
    return v


def attributes(owner):
    out = {}
    for a in owner.GetAttributes():
        # A list for each: src/vrt keeps one value bare.
        value = a.Read()
        if a.GetDataType().GetNumericDataType() == gdal.GDT_Float32:
            # GDAL's VRT reads the text as a float64, though the attribute says float32.
            value = np.float32(value).tolist()
        if a.GetDataType().GetNumericDataType() == gdal.GDT_UInt64:
            # GDAL's Python gives floats.
            value = np.uint64(value).tolist()
        out[a.GetName()] = [number(v) for v in value] if isinstance(value, (list, tuple)) else [number(value)]
    return out


def describe(path):
    ds = gdal.OpenEx(path, gdal.OF_MULTIDIM_RASTER)
    out = {"dimensions": {}, "arrays": {}, "groups": {}}

    def walk(group):
        out["groups"][group.GetFullName().lstrip("/")] = attributes(group)
        for d in group.GetDimensions():
            v = d.GetIndexingVariable()
            out["dimensions"][d.GetFullName().lstrip("/")] = {
                "kind": d.GetType(),
                "direction": d.GetDirection(),
                "size": d.GetSize(),
                "variable": v.GetFullName().lstrip("/") if v else None,
            }
        for name in group.GetMDArrayNames():
            a = group.OpenMDArray(name)
            srs = a.GetSpatialRef()
            data_type = a.GetDataType()
            is_text = data_type.GetClass() == gdal.GEDTC_STRING
            dims = a.GetDimensions()
            entry = {
                "dims": [d.GetFullName().lstrip("/") for d in dims],
                "dtype": "String" if is_text else gdal.GetDataTypeName(data_type.GetNumericDataType()),
                "block_size": list(a.GetBlockSize()),
                "unit": a.GetUnit(),
                "nodata": None if is_text else number(a.GetNoDataValue()),
                "offset": a.GetOffset(),
                "scale": a.GetScale(),
                "mapping": list(srs.GetDataAxisToSRSAxisMapping()) if srs else None,
                "epsg": srs.GetAuthorityCode(None) if srs else None,
                "attributes": attributes(a),
            }
            if len(dims) == 1 and not is_text:
                entry["values"] = [number(v) for v in a.ReadAsArray().tolist()]
            out["arrays"][a.GetFullName().lstrip("/")] = entry
        for name in group.GetGroupNames():
            walk(group.OpenGroup(name))

    walk(ds.GetRootGroup())
    return out


def main():
    folder = tempfile.mkdtemp()
    try:
        os.chdir(folder)
        os.mkdir("day é")
        files = ["day é/1 & 2.nc", "day é/3.nc", "day é/4.nc"]
        times = [0.5, 1.25], [3.0, 4.0], [7.0, 9.5]
        for name, time, offset in zip(files, times, (0, 1000, 2000), strict=True):
            make_source(name, time, offset)
        gdal.Run("mdim", "mosaic", input=files, output="mosaic.vrt")
        make_groups("groups.vrt")
        reference = {name: describe(name) for name in ("mosaic.vrt", "groups.vrt")}
        for name in reference:
            shutil.copy(name, HERE)
        with open(os.path.join(HERE, "mosaic.json"), "w") as f:
            json.dump(reference, f, indent=1, ensure_ascii=False, sort_keys=True)
            f.write("\n")
    finally:
        shutil.rmtree(folder)


main()
