#!/usr/bin/env python3
"""Lists a million chunks: the driver's layer, GDAL's SQLite driver on the store's view, a GeoPackage of the rows.

usage: layers.py [CHUNKS]
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np
from osgeo import gdal

gdal.UseExceptions()


def stream(name):
    """Rows of an Arrow stream, batch by batch, not turned into anything else."""
    data = gdal.OpenEx(name, gdal.OF_VECTOR)
    rows = 0
    for batch in data.GetLayer("refs_v").GetArrowStreamAsPyArrow():
        rows += len(batch)
        del batch
    return rows


def pyogrio(name):
    """The same by pyogrio."""
    import pyogrio

    return pyogrio.read_arrow(name, layer="refs_v")[1].num_rows


def count(name):
    data = gdal.OpenEx(name, gdal.OF_VECTOR)
    return data.GetLayer("refs_v").GetFeatureCount()


def one(name, key):
    """One chunk by its key."""
    data = gdal.OpenEx(name, gdal.OF_VECTOR)
    layer = data.GetLayer("refs_v")
    layer.SetAttributeFilter(f"dim_0 = {key} AND dim_1 = 7 AND dim_2 = 9")
    start = time.perf_counter()
    assert layer.GetNextFeature()["dim_0"] == key
    return time.perf_counter() - start


def measure(title, ways, rows, rounds=5):
    """Time each way in turn; print medians, and ratios to the first."""
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            assert way() == rows, name
            times[name].append(time.perf_counter() - start)
    print(title)
    ours = None
    for name, list_ in times.items():
        median = statistics.median(list_)
        ours = ours or median
        print(f"  {name:44} {median:8.3f} s   {median / ours:6.2f}")


def main():
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    # As long a path as an archive's.
    archive = "www.ncei.noaa.gov/data/sea-surface-temperature-optimum-interpolation/v2.1/access/avhrr"
    folder = os.path.join(tempfile.gettempdir(), "mdimrefs-bench", archive)
    os.makedirs(folder, exist_ok=True)
    source, store, gpkg = (os.path.join(folder, f"layer{chunks}.{end}") for end in ("h5", "sqlite", "gpkg"))
    if not os.path.exists(gpkg):
        with h5py.File(source, "w", libver=("v110", "v110")) as f:
            f.create_dataset(
                "v", data=np.arange(chunks * 4, dtype="i1").reshape(chunks // 1000, 80, 50), chunks=(1, 2, 2)
            )
        gdal.Run("mdim get-refs", input=[source], output=store, overwrite=True)
        gdal.Run("mdim get-refs", input=[source], output=gpkg, of="GPKG", overwrite=os.path.exists(gpkg))
    if len(sys.argv) > 2:
        # Not getrusage's: that begins with the peak of the process that started this one.
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
        stream(f"MDIMREFS:{store}")
        with open("/proc/self/status") as f:
            peak = next(int(line.split()[1]) >> 10 for line in f if line.startswith("VmHWM:"))
        print(f"  peak of memory of a process that lists all: {peak} MB")
        return
    ours = f"MDIMREFS:{store}"
    measure(
        f"{chunks} rows as an Arrow stream",
        {
            "the driver": lambda: stream(ours),
            "GDAL's SQLite driver on the view": lambda: stream(store),
            "GDAL's GPKG driver on the same rows": lambda: stream(gpkg),
        },
        chunks,
    )
    measure(
        "the same by pyogrio",
        {"the driver": lambda: pyogrio(ours), "GPKG": lambda: pyogrio(gpkg)},
        chunks,
    )
    measure("their number", {"the driver": lambda: count(ours), "GPKG": lambda: count(gpkg)}, chunks)
    seconds = statistics.median(one(ours, k) for k in range(1, chunks // 1000, chunks // 20_000))
    print(f"one chunk by its key: {seconds * 1e3:.3f} ms")
    subprocess.run([sys.executable, __file__, str(chunks), "memory"], check=True)


if __name__ == "__main__":
    main()
