#!/usr/bin/env python3
"""Make daily sea surface temperature files that look like NOAA's OISST, with invented values.

usage: make_demo_data.py FOLDER DAYS [FIRST_DAY]

Each file holds one day on the quarter-degree grid: four int16 arrays (sst, anom, err, ice) of 1 x 1 x 720 x 1440 in one
chunk, shuffled and deflated, scaled by 0.01, with -999 for no data. The same arguments make the same values.
"""

import datetime
import sys
from pathlib import Path

import netCDF4
import numpy as np

EPOCH = datetime.date(1978, 1, 1)
LAT = np.arange(-89.875, 90, 0.25)
LON = np.arange(0.125, 360, 0.25)
FILL = -999

ARRAYS = {
    "sst": ("Daily sea surface temperature", "Celsius", -300, 4500),
    "anom": ("Daily sea surface temperature anomalies", "Celsius", -1200, 1200),
    "err": ("Estimated error standard deviation of analysed_sst", "Celsius", 0, 1000),
    "ice": ("Sea ice concentration", "%", 0, 100),
}


def waves(rng, count, shortest):
    """A sum of waves round the globe, none shorter than 360/`shortest` degrees; standard deviation about 1."""
    field = np.zeros((LAT.size, LON.size))
    for _ in range(count):
        k, m = rng.integers(1, shortest, 2)
        across, along = rng.uniform(0, 2 * np.pi, 2)
        field += np.outer(np.sin(np.deg2rad(LAT * m) + across), np.sin(np.deg2rad(LON * k) + along))
    return field * 2 / np.sqrt(count)


def one_day(day, land, climate, eddies):
    """The four arrays of one day, unpacked."""
    rng = np.random.default_rng(day.toordinal())
    drift = 2 * np.pi * day.toordinal() / 30
    anomaly = 0.8 * (np.cos(drift) * eddies[0] + np.sin(drift) * eddies[1])
    season = 2.5 * np.cos(2 * np.pi * (day.timetuple().tm_yday - 45) / 365.25)
    sst = np.maximum(climate - season * np.sin(np.deg2rad(LAT))[:, None] + anomaly, -1.8)
    err = 0.2 + 0.05 * np.abs(eddies[1]) + rng.normal(0, 0.005, sst.shape)
    ice = np.clip((-1.0 - sst) / 0.8, 0, 1)
    return {
        "sst": np.where(land, np.nan, sst),
        "anom": np.where(land, np.nan, anomaly),
        "err": np.where(land, np.nan, err),
        "ice": np.where(land | (ice == 0), np.nan, ice),
    }


def write(path, day, fields):
    """Write one day's file."""
    with netCDF4.Dataset(path, "w", format="NETCDF4") as nc:
        nc.setncatts({"Conventions": "CF-1.6", "title": "Invented daily sea surface temperature", "id": path.name})
        nc.createDimension("time", None)
        nc.createDimension("zlev", 1)
        nc.createDimension("lat", LAT.size)
        nc.createDimension("lon", LON.size)
        for name, values, attributes in (
            ("time", [(day - EPOCH).days], {"units": "days since 1978-01-01 12:00:00", "axis": "T"}),
            ("zlev", [0], {"units": "meters", "positive": "down", "axis": "Z"}),
            ("lat", LAT, {"units": "degrees_north", "long_name": "Latitude", "axis": "Y"}),
            ("lon", LON, {"units": "degrees_east", "long_name": "Longitude", "axis": "X"}),
        ):
            variable = nc.createVariable(name, "f4", (name,))
            variable.setncatts(attributes)
            variable[:] = values
        for name, (long_name, units, low, high) in ARRAYS.items():
            variable = nc.createVariable(
                name,
                "i2",
                ("time", "zlev", "lat", "lon"),
                compression="zlib",
                complevel=4,
                shuffle=True,
                fill_value=FILL,
                chunksizes=(1, 1, LAT.size, LON.size),
            )
            variable.setncatts(
                {
                    "long_name": long_name,
                    "units": units,
                    "add_offset": np.float32(0),
                    "scale_factor": np.float32(0.01),
                    "valid_min": np.int16(low),
                    "valid_max": np.int16(high),
                }
            )
            variable.set_auto_maskandscale(False)
            packed = np.round(fields[name] * 100)
            variable[:] = np.where(np.isnan(packed), FILL, packed).astype("i2")[None, None]


def main():
    """Read the command line and make the files."""
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    folder, days = Path(sys.argv[1]), int(sys.argv[2])
    first = datetime.date.fromisoformat(sys.argv[3] if len(sys.argv) == 4 else "1981-09-01")
    folder.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(1981)
    land = waves(rng, 40, 7) > 0.75
    climate = 31 * np.cos(np.deg2rad(LAT))[:, None] ** 1.4 - 2 + 1.5 * waves(rng, 30, 12)
    eddies = [waves(rng, 60, 40) for _ in range(2)]
    for i in range(days):
        day = first + datetime.timedelta(days=i)
        write(folder / f"oisst-like.{day:%Y%m%d}.nc", day, one_day(day, land, climate, eddies))


if __name__ == "__main__":
    main()
