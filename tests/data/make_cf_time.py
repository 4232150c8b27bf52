#!/usr/bin/env python3
"""Makes cf_time.tsv: conversions between CF time units, the reference of src/plan/time.rs.

usage: scripts/with-gdal python3 tests/data/make_cf_time.py     (cftime)

cftime reads the epochs and tells the time between them; the rest is exact arithmetic of Python's fractions.
Columns: value, units, calendar, other units, value in other units ("inexact" where no float64 is exactly that).
"""

import os
import random
from datetime import timedelta
from fractions import Fraction

import cftime
from cftime._cftime import _dateparse

MICROSECONDS = {
    "days": 86_400_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "hours": 3_600_000_000,
    "hr": 3_600_000_000,
    "h": 3_600_000_000,
    "minutes": 60_000_000,
    "min": 60_000_000,
    "seconds": 1_000_000,
    "sec": 1_000_000,
    "s": 1_000_000,
    "milliseconds": 1_000,
    "msec": 1_000,
    "microseconds": 1,
}
EPOCHS = [
    "1978-01-01",
    "1978-1-1",
    "1978-01-01 12:00:00",
    "1978-01-01T12:00:00Z",
    "1978-01-01 00:00:0.0",
    "1978-01-01 12:00:00 UTC",
    "1978-01-01 12:00:00 +10:00",
    "1978-01-01 12:00:00 -03:30",
    "1978-01-01 23:59:59.75",
    "1970-01-01 00:00",
    "2000-02-28",
    "2000-03-01",
    "1900-02-28",
    "1900-03-01 06:00:00",
    "1800-1-1 00:00:0.0",
    "1-1-1 00:00:00",
    "0001-01-01",
    "1582-10-04",
    "1582-10-15",
    "1582-10-15 06:00:00",
    "0004-02-29",
    "1500-03-01",
    "2100-01-01",
]
CALENDARS = [
    "",
    "standard",
    "gregorian",
    "proleptic_gregorian",
    "julian",
    "noleap",
    "365_day",
    "all_leap",
    "366_day",
    "360_day",
]
VALUES = [0, 1, -1, 0.5, 0.25, 0.1, 15537, 24, 36, 1440, 86400, -719162, 1e9, 3.75, 9007199254740993, 1e-3]


def exact(value):
    """The float64 that is `value`, or None."""
    try:
        f = float(value)
    except OverflowError:
        return None
    return f if Fraction(f) == value else None


def main():
    rng = random.Random(1978)
    rows = set()
    while len(rows) < 1200:
        calendar = rng.choice(CALENDARS)
        (a, b), (u, v) = rng.sample(EPOCHS, 2), rng.choices(list(MICROSECONDS), k=2)
        if rng.random() < 0.3:
            b = a
        try:
            ours, theirs = (_dateparse(f"{x} since {e}", calendar or "standard") for x, e in ((u, a), (v, b)))
        except ValueError:
            continue
        between = (theirs - ours) // timedelta(microseconds=1)
        value = float(rng.choice(VALUES))
        result = exact((Fraction(value) * MICROSECONDS[u] - between) / MICROSECONDS[v])
        text = "inexact" if result is None else repr(result)
        rows.add("\t".join([repr(value), f"{u} since {a}", calendar, f"{v} since {b}", text]))
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cf_time.tsv"), "w") as f:
        f.write(f"# tests/data/make_cf_time.py, cftime {cftime.__version__}\n")
        f.writelines(row + "\n" for row in sorted(rows))


main()
