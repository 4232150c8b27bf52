#!/usr/bin/env python3
"""Scans sources that aren't HDF5: many netCDF classic files, a large tiled TIFF, a Zarr folder with many chunks.

usage: formats.py [FILES [TILES [CHUNKS]]]

Peers: netCDF4 opening each netCDF classic file, GDAL's TIFF metadata of each tile, a look at each file of the folder.
"""

import json
import os
import statistics
import sys
import tempfile
import time

import netCDF4
import numpy as np
from osgeo import gdal

gdal.UseExceptions()


def get_refs(inputs, store):
    """Scan into a new store."""
    gdal.Run(["mdim", "get-refs"], {"input": inputs, "output": store, "overwrite": True, "num-threads": 1})


def look_into(names):
    """Only the metadata of each file, by netCDF4."""
    for name in names:
        with netCDF4.Dataset(name) as f:
            for variable in f.variables.values():
                assert variable.shape is not None and variable.ncattrs() is not None


def tile_offsets(name, across):
    """Offset and size of every tile, as GDAL's TIFF driver tells them."""
    data = gdal.Open(name)
    band = data.GetRasterBand(1)
    for y in range(across):
        for x in range(across):
            band.GetMetadataItem(f"BLOCK_OFFSET_{x}_{y}", "TIFF")
            band.GetMetadataItem(f"BLOCK_SIZE_{x}_{y}", "TIFF")


def look_at_each(folder, chunks):
    """The size of each chunk's file."""
    for n in range(chunks):
        os.stat(f"{folder}/v/{n // 1000}.{n % 1000}")


def make_classic(folder, files):
    os.makedirs(folder, exist_ok=True)
    names = [os.path.join(folder, f"{n}.nc") for n in range(files)]
    for n, name in enumerate(names):
        if os.path.exists(name):
            continue
        with netCDF4.Dataset(name, "w", format="NETCDF3_CLASSIC") as f:
            for dim, size in (("time", None), ("y", 18), ("x", 36)):
                f.createDimension(dim, size)
            f.createVariable("time", "f8", ("time",))[:] = [2 * n, 2 * n + 1]
            for variable in ("u", "v"):
                f.createVariable(variable, "f4", ("time", "y", "x"))[:] = np.full((2, 18, 36), n, "f4")
    return names


def make_tiff(name, across):
    if not os.path.exists(name):
        options = ["TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=16", "COMPRESS=DEFLATE"]
        data = gdal.GetDriverByName("GTiff").Create(name + ".new", across * 16, across * 16, options=options)
        row = np.arange(across * 16 * 16, dtype="u1").reshape(16, -1)
        for y in range(across):
            data.GetRasterBand(1).WriteArray(row + np.uint8(y % 256), 0, y * 16)
        data = None
        os.rename(name + ".new", name)


def make_zarr(folder, chunks):
    if os.path.exists(folder):
        return
    os.makedirs(folder + ".new/v")
    shape = [-(-chunks // 1000), 1000]
    with open(folder + ".new/.zgroup", "w") as f:
        f.write('{"zarr_format": 2}')
    with open(folder + ".new/v/.zarray", "w") as f:
        meta = {"zarr_format": 2, "shape": shape, "chunks": [1, 1], "dtype": "<i4", "order": "C", "fill_value": 0}
        json.dump(meta | {"compressor": None, "filters": None, "dimension_separator": "."}, f)
    for n in range(chunks):
        with open(f"{folder}.new/v/{n // 1000}.{n % 1000}", "wb") as f:
            f.write(n.to_bytes(4, "little"))
    os.rename(folder + ".new", folder)


def measure(title, number, ours, peer_name, peer, rounds=3):
    """Time both in turn; print medians of microseconds a chunk."""
    times = {"get-refs": [], peer_name: []}
    for _ in range(rounds):
        for name, way in (("get-refs", ours), (peer_name, peer)):
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    print(title)
    base = statistics.median(times["get-refs"])
    for name, list_ in times.items():
        median = statistics.median(list_)
        print(f"  {name:28} {median:8.3f} s {median / number * 1e6:9.2f} µs each   {median / base:6.2f}")


def main():
    files, tiles, chunks = (int(a) for a in (sys.argv[1:] + ["1000", "100000", "1000000"][len(sys.argv) - 1 :]))
    folder = os.path.join(tempfile.gettempdir(), "mdimrefs-bench")
    os.makedirs(folder, exist_ok=True)
    store = os.path.join(folder, "formats.sqlite")
    names = make_classic(os.path.join(folder, "classic"), files)
    measure(
        f"{files} netCDF classic files",
        files,
        lambda: get_refs(names, store),
        "netCDF4, metadata alone",
        lambda: look_into(names),
    )
    across = round(tiles**0.5)
    tiff = os.path.join(folder, f"tiles{across}.tif")
    make_tiff(tiff, across)
    measure(
        f"a TIFF of {across * across} tiles",
        across * across,
        lambda: get_refs([tiff], store),
        "GDAL's TIFF metadata",
        lambda: tile_offsets(tiff, across),
    )
    zarr = os.path.join(folder, f"chunks{chunks}.zarr")
    make_zarr(zarr, chunks)
    measure(
        f"a Zarr folder of {chunks} chunks",
        chunks,
        lambda: get_refs([zarr], store),
        "os.stat of each file",
        lambda: look_at_each(zarr, chunks),
        1,
    )


if __name__ == "__main__":
    main()
