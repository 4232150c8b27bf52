#!/usr/bin/env python3
"""Scans the chunk indexes of many small files and of one file with many chunks, against GDAL and h5py.

usage: scan.py [DAYS]
"""

import os
import statistics
import sys
import tempfile
import time

import h5py
import numpy as np
from data import make_days
from osgeo import gdal

gdal.UseExceptions()


def get_refs(inputs, store):
    """Scan into a new store."""
    gdal.Run(["mdim", "get-refs"], {"input": inputs, "output": store, "overwrite": True, "num-threads": 1})


def raw_block_info(names, arrays, limit=None):
    """GDAL's own block info of every chunk."""
    n = 0
    for name in names:
        group = gdal.OpenEx(name, gdal.OF_MULTIDIM_RASTER).GetRootGroup()
        for array in (group.OpenMDArray(a) for a in arrays):
            grid = [-(-d.GetSize() // b) for d, b in zip(array.GetDimensions(), array.GetBlockSize(), strict=True)]
            for key in np.ndindex(*grid):
                array.GetRawBlockInfo(list(key))
                n += 1
                if limit and n == limit:
                    return n
    return n


def chunk_iter(names, arrays):
    """The chunks of every array, by h5py."""
    n = 0
    for name in names:
        with h5py.File(name) as f:
            for array in arrays:
                found = []
                f[array].id.chunk_iter(found.append)
                n += len(found)
    return n


def measure(title, ways, rounds=5):
    """Time each way in turn; print the medians by chunk."""
    times = {name: [] for name in ways}
    counts = {}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            counts[name] = way()
            times[name].append(time.perf_counter() - start)
    print(title)
    ours = None
    for name, list_ in times.items():
        each = statistics.median(list_) / counts[name] * 1e6
        ours = ours or each
        print(f"  {name:34} {each:10.2f} µs a chunk   {each / ours:8.2f} × get-refs")


def main():
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    folder = os.path.join(tempfile.gettempdir(), "mdimrefs-bench")
    names = make_days(folder, days)[:days]
    arrays = ["sst", "anom", "err", "ice"]
    store = os.path.join(folder, "scan.sqlite")

    def ours(inputs, count):
        get_refs(inputs, store)
        return count

    measure(
        f"{days} files of 4 arrays of 1 chunk",
        {
            "get-refs (store written)": lambda: ours(names, days * 4),
            "h5py chunk_iter": lambda: chunk_iter(names, arrays),
            "GDAL GetRawBlockInfo": lambda: raw_block_info(names, arrays),
        },
    )
    deep = os.path.join(folder, "deep.h5")
    chunks = 200_000
    if not os.path.exists(deep):
        with h5py.File(deep, "w") as f:
            f.create_dataset("v", data=np.arange(chunks * 4, dtype="i2"), chunks=(4,), compression=1, shuffle=True)
    measure(
        f"one file of {chunks} chunks",
        {
            "get-refs (store written)": lambda: ours([deep], chunks),
            "h5py chunk_iter": lambda: chunk_iter([deep], ["v"]),
            "GDAL GetRawBlockInfo, first 1000": lambda: raw_block_info([deep], ["v"], 1000),
        },
        rounds=3,
    )


if __name__ == "__main__":
    main()
