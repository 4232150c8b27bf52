#!/usr/bin/env python3
"""What `make demo` shows of a table of references.

usage: demo_check.py summary STORE
       demo_check.py compare STORE INDEX SOURCE

`summary` counts its chunks, by SQL alone. `compare` reads one day of /sst through the table and the same day from its
own file, and ends with an error unless both are equal, bit for bit.
"""

import os
import sqlite3
import sys

import numpy as np
from osgeo import gdal

gdal.UseExceptions()


def summary(store):
    """Print the sources and the chunks of each array that has any."""
    db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    (sources, size) = db.execute("SELECT count(*), sum(size) FROM sources").fetchone()
    print(f"{store}: {os.path.getsize(store) / 1e3:.0f} KB for {sources} files of {size / 1e6:.1f} MB together")
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for array, shape, dtype in db.execute('SELECT "array", shape, dtype FROM arrays ORDER BY 1').fetchall():
        if shape is None or array not in tables:
            continue
        quoted = array.replace('"', '""')
        count, stored = db.execute(f'SELECT count(*), sum(size) FROM "{quoted}" WHERE present').fetchone()
        print(f"  {array:6} {dtype}  {shape:16} {count:4} chunks, {(stored or 0) / 1e6:.1f} MB")


def read_day(name, index):
    """One time step of /sst, packed as stored, and the array that it is of."""
    array = gdal.OpenEx(name, gdal.OF_MULTIDIM_RASTER).GetRootGroup().OpenMDArrayFromFullname("/sst")
    ones = [1] * (array.GetDimensionCount() - 3)
    lat, lon = (dimension.GetSize() for dimension in array.GetDimensions()[-2:])
    return array.ReadAsArray([index, *[0] * len(ones), 0, 0], [1, *ones, lat, lon]), array


def compare(store, index, source):
    """Print the day's statistics from both sides; exit with an error where they differ."""
    sides = {f"MDIMREFS:{store}": int(index), source: 0}
    days = []
    for name, i in sides.items():
        day, array = read_day(name, i)
        sea = day[day != array.GetNoDataValue()] * array.GetScale() + (array.GetOffset() or 0)
        print(
            f"{name + ', step ' + str(i):38} mean {sea.mean():.6f}  min {sea.min():.2f}  max {sea.max():.2f} "
            f"{array.GetUnit()}, {sea.size} of {day.size} values"
        )
        days.append(day)
    if days[0].dtype != days[1].dtype or not np.array_equal(*days):
        sys.exit("demo: the two differ")
    print("equal, bit for bit")


def main():
    """Read the command line."""
    commands = {("summary", 3): summary, ("compare", 5): compare}
    command = commands.get((sys.argv[1] if len(sys.argv) > 1 else "", len(sys.argv)))
    if command is None:
        sys.exit(__doc__)
    command(*sys.argv[2:])


if __name__ == "__main__":
    main()
