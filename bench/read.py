#!/usr/bin/env python3
"""Reads all of an array through a store, and from the same files by GDAL's netCDF driver; one thread each.

usage: read.py [DAYS]
"""

import os
import statistics
import sys
import tempfile
import time

import numpy as np
from data import make_days
from osgeo import gdal

gdal.UseExceptions()


def main():
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    folder = os.path.join(tempfile.gettempdir(), "mdimrefs-bench")
    names = make_days(folder, days)[:days]
    vrt, store = os.path.join(folder, f"{days}.vrt"), os.path.join(folder, f"{days}.sqlite")
    gdal.Run(["mdim", "mosaic"], {"input": names, "output": vrt, "overwrite": True})
    gdal.Run(["mdim", "get-refs"], {"input": [vrt], "output": store, "overwrite": True})
    out = np.full((days, 1, 720, 1440), 1, "i2")
    megabytes = out.nbytes / 1e6

    def through_store(threads):
        ds = gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER, open_options=[f"NUM_THREADS={threads}", "CACHE_SIZE=0"])
        array = ds.GetRootGroup().OpenMDArray("sst")
        read_into(array, out)

    def netcdf():
        for i, name in enumerate(names):
            array = gdal.OpenEx(name, gdal.OF_MULTIDIM_RASTER).GetRootGroup().OpenMDArray("sst")
            read_into(array, out[i : i + 1])

    def mosaic():
        array = gdal.OpenEx(vrt, gdal.OF_MULTIDIM_RASTER).GetRootGroup().OpenMDArray("sst")
        read_into(array, out)

    ways = {
        "MDIMREFS, 1 thread": lambda: through_store(1),
        "MDIMREFS, 2 threads": lambda: through_store(2),
        "GDAL netCDF, 1 thread": netcdf,
        "GDAL on the mosaic VRT": mosaic,
    }
    times = {name: [] for name in ways}
    for _ in range(5):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    base = statistics.median(times["GDAL netCDF, 1 thread"])
    for name, list_ in times.items():
        median = statistics.median(list_)
        print(f"{name:24} {megabytes / median:8.0f} MB/s   {base / median:5.2f} × GDAL netCDF")


def read_into(array, buffer):
    """All of an array into a buffer that has been touched."""
    data = array.Read(buffer_datatype=array.GetDataType())
    buffer.reshape(-1).view("u1")[:] = np.frombuffer(data, "u1")


if __name__ == "__main__":
    main()
