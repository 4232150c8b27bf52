"""Data of the benchmarks: daily files like NOAA's OISST, four int16 arrays of 720 × 1440 in one chunk each."""

import datetime
import os

import netCDF4
import numpy as np


def make_days(folder, days):
    """Write the files and return their names."""
    os.makedirs(folder, exist_ok=True)
    lat = np.arange(720, dtype="f4") * 0.25 - 89.875
    lon = np.arange(1440, dtype="f4") * 0.25 + 0.125
    noise = np.random.default_rng(1)
    waves = sum(
        np.sin(np.deg2rad(lon[None, :] * k) + k) * np.cos(np.deg2rad(lat[:, None] * k)) / k for k in range(1, 12)
    )
    names = []
    for day in range(days):
        date = datetime.date(1981, 9, 1) + datetime.timedelta(days=day)
        name = os.path.join(folder, f"day.{date:%Y%m%d}.nc")
        names.append(name)
        if os.path.exists(name):
            continue
        with netCDF4.Dataset(name, "w") as f:
            for dim, size in (("time", None), ("zlev", 1), ("lat", 720), ("lon", 1440)):
                f.createDimension(dim, size)
            for dim, values, units in (
                ("time", [1339.0 + day], "days since 1978-01-01 12:00:00"),
                ("zlev", [0.0], "meters"),
                ("lat", lat, "degrees_north"),
                ("lon", lon, "degrees_east"),
            ):
                f.createVariable(dim, "f4", (dim,))[:] = values
                f[dim].units = units
            for variable in ("sst", "anom", "err", "ice"):
                v = f.createVariable(
                    variable,
                    "i2",
                    ("time", "zlev", "lat", "lon"),
                    zlib=True,
                    complevel=4,
                    shuffle=True,
                    fill_value=-999,
                    chunksizes=(1, 1, 720, 1440),
                )
                v.set_auto_maskandscale(False)
                field = 1000 * np.roll(waves, day, axis=1) + noise.integers(-2, 3, waves.shape)
                v[0, 0] = np.where(waves > 1.2, -999, field).astype("i2")
                v.scale_factor = np.float32(0.01)
                v.units = "Celsius"
    return names
