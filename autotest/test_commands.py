"""`gdal driver mdimrefs remap | sql | publish | check`, as a user meets them.

Expected values come from GDAL on the sources, and from plain SQL.
"""

import json
import os
import shutil
import sqlite3
import subprocess

import netCDF4
import numpy as np
import pytest
from conftest import get_refs, open_root
from osgeo import gdal

gdal.UseExceptions()


def run(command, *positional, **arguments):
    names = {"remap": ["store"], "sql": ["store"], "publish": ["store", "output"], "check": ["store"]}[command]
    given = {name: str(value) for name, value in zip(names, positional, strict=False)}
    return gdal.Run(["driver", "mdimrefs", command], **given, **arguments)["output-string"]


@pytest.fixture()
def month(tmp_path):
    """Three files of one time step each, and a store of them."""
    folder = tmp_path / "data"
    folder.mkdir()
    for day in range(3):
        with netCDF4.Dataset(folder / f"{day}.nc", "w") as f:
            for name, size in (("time", None), ("y", 4), ("x", 6)):
                f.createDimension(name, size)
            for name, values in (("time", [day]), ("y", np.arange(4)), ("x", np.arange(6))):
                v = f.createVariable(name, "f4", (name,))
                v[:] = values
            f["time"].units = "days since 2000-01-01"
            v = f.createVariable("v", "i2", ("time", "y", "x"), zlib=True, shuffle=True, chunksizes=(1, 2, 3))
            v[:] = day * 100 + np.arange(24).reshape(1, 4, 6)
    files = [str(folder / f"{day}.nc") for day in range(3)]
    gdal.Run("mdim mosaic", input=files, output=str(tmp_path / "m.vrt"))
    get_refs(tmp_path / "m.vrt", tmp_path / "s.sqlite")
    return tmp_path


VALUES = np.stack([day * 100 + np.arange(24).reshape(4, 6) for day in range(3)]).astype("i2")


def values(store, **options):
    root = open_root(store, [f"{k}={v}" for k, v in options.items()])
    return root.OpenMDArray("v").ReadAsArray()


def test_store_and_files_travel_together(month, tmp_path):
    run("remap", month / "s.sqlite", target="here", prefix=f"{month}/", replacement="./")
    assert run("remap", month / "s.sqlite", list=True) == f'here: "{month}/" -> "./"\n'
    for options in ({}, {"materialize": True}):
        run("publish", month / "s.sqlite", month / "p.sqlite", target="here", overwrite=True, **options)
        elsewhere = tmp_path / f"elsewhere{len(options)}"
        elsewhere.mkdir()
        shutil.copytree(month / "data", elsewhere / "data")
        shutil.copy(month / "p.sqlite", elsewhere)
        os.rename(month / "data", month / "gone")
        assert np.array_equal(values(elsewhere / "p.sqlite"), VALUES)
        os.rename(month / "gone", month / "data")


@pytest.mark.parametrize("materialize", [False, True])
def test_publish_is_one_file_and_repeatable(month, materialize):
    run("publish", month / "s.sqlite", month / "p.sqlite", materialize=materialize)
    run("publish", month / "p.sqlite", month / "q.sqlite")
    assert (month / "p.sqlite").read_bytes() == (month / "q.sqlite").read_bytes()
    assert np.array_equal(values(month / "p.sqlite"), VALUES)
    assert sorted(f.name for f in month.glob("p.sqlite*")) == ["p.sqlite"]
    with sqlite3.connect(month / "p.sqlite") as db:
        kind = db.execute("SELECT type FROM sqlite_master WHERE name='refs_v'").fetchone()[0]
        assert kind == ("table" if materialize else "view")
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    with pytest.raises(RuntimeError, match="--overwrite"):
        run("publish", month / "s.sqlite", month / "p.sqlite")


def test_sql_gives_what_the_sources_hold(month):
    run("remap", month / "s.sqlite", target="web", prefix=f"{month}/data/", replacement="https://e.org/")
    sql = run("sql", month / "s.sqlite", array="v", target="web")
    with sqlite3.connect(month / "s.sqlite") as db:
        rows = {tuple(r[:3]): r[3:] for r in db.execute(sql.rstrip().rstrip(";"))}
    assert len(rows) == 12
    for day in range(3):
        source = open_root(month / f"data/{day}.nc").OpenMDArray("v")
        for y in range(2):
            for x in range(2):
                info = source.GetRawBlockInfo([0, y, x])
                present, path, offset, size, _info, data = rows[day, y, x]
                assert (present, path, data) == (1, f"https://e.org/{day}.nc", None)
                assert (offset, size) == (info.GetOffset(), info.GetSize())
    with pytest.raises(RuntimeError, match="no remap target"):
        run("sql", month / "s.sqlite", array="v", target="nowhere")


def test_check(month):
    text = run("check", month / "s.sqlite", sources=True, decode=12)
    assert text.endswith("0 errors, 0 warnings, 3 sources looked at, 12 chunks decoded\n")
    with open(month / "data/1.nc", "r+b") as f:
        f.truncate(3000)
    command = ["gdal", "driver", "mdimrefs", "check", str(month / "s.sqlite"), "--sources", "--format", "json", "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    report = json.loads(done.stdout)
    assert not report["ok"] and report["sources_checked"] == 3
    assert all("1.nc" in f["what"] for f in report["findings"])
    assert {f["rule"] for f in report["findings"]} == {"source", "ranges"}


def test_check_of_a_foreign_store(foreign_store):
    """What other software leaves out is a warning, not an error."""
    report = json.loads(run("check", foreign_store, target="here", sources=True, decode=3, format="json"))
    assert report["ok"] and report["chunks_decoded"] == 3
    assert {f["rule"] for f in report["findings"]} == {"tables"}
