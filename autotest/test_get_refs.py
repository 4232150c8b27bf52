"""`gdal mdim get-refs` as a user meets it: a month of daily files, updates, bad files, kills, names, conversions.

Expected values come from GDAL, h5py and netCDF4 on the sources.
"""

import datetime
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import h5py
import netCDF4
import numpy as np
import pytest
from conftest import get_refs, open_root
from osgeo import gdal

gdal.UseExceptions()

ARRAYS = ["sst", "anom", "err", "ice"]
UNITS = "days since 1978-01-01 12:00:00"
LAT = np.arange(72, dtype="f4") * 2.5 - 88.75
LON = np.arange(144, dtype="f4") * 2.5 + 1.25


def make_day(path, day, seed=None):
    """One day of an archive like NOAA's OISST, coarser: four packed arrays, one chunk each."""
    rng = np.random.default_rng(day if seed is None else seed)
    with netCDF4.Dataset(path, "w") as f:
        f.title = "daily"
        f.id = os.path.basename(path)
        for dim, size in (("time", None), ("zlev", 1), ("lat", 72), ("lon", 144)):
            f.createDimension(dim, size)
        for dim, values, units in (
            ("time", [1339.0 + day], UNITS),
            ("zlev", [0.0], "meters"),
            ("lat", LAT, "degrees_north"),
            ("lon", LON, "degrees_east"),
        ):
            v = f.createVariable(dim, "f4", (dim,))
            v.units = units
            v[:] = values
        for name in ARRAYS:
            v = f.createVariable(
                name,
                "i2",
                ("time", "zlev", "lat", "lon"),
                zlib=True,
                complevel=4,
                shuffle=True,
                fill_value=-999,
                chunksizes=(1, 1, 72, 144),
            )
            v.set_auto_maskandscale(False)
            v.long_name = f"the {name}"
            v.units = "Celsius"
            v.scale_factor = np.float32(0.01)
            v.add_offset = np.float32(0)
            v.valid_min = np.int16(-300)
            v[:] = rng.integers(-999, 4000, (1, 1, 72, 144))
    return str(path)


def mosaic(sources, vrt):
    gdal.Run("mdim mosaic", input=[str(s) for s in sources], output=str(vrt), overwrite=True)
    return str(vrt)


def dump(store):
    """All of a store but what changes at every write."""
    db = sqlite3.connect(store)
    lines = [line for line in db.iterdump() if "'generation'" not in line]
    db.close()
    return lines


def query(store, sql, *values):
    db = sqlite3.connect(store)
    rows = db.execute(sql, values).fetchall()
    db.close()
    return rows


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    """30 daily files, their VRT and their store."""
    folder = tmp_path_factory.mktemp("month")
    days = [make_day(folder / f"day.{d:02}.nc", d) for d in range(30)]
    vrt = mosaic(days, folder / "month.vrt")
    store = str(folder / "month.sqlite")
    output = get_refs(vrt, store)
    assert "30 of 30 sources scanned, 120 chunks" in output
    return folder, days, vrt, store


def test_every_value_equals_the_sources(month):
    _, days, _, store = month
    root = open_root(store)
    for name in ARRAYS:
        got = root.OpenMDArray(name).ReadAsArray()
        assert got.dtype == np.int16 and got.shape == (30, 1, 72, 144)
        for i, day in enumerate(days):
            assert np.array_equal(got[i : i + 1], open_root(day).OpenMDArray(name).ReadAsArray())
    for name in ("zlev", "lat", "lon", "time"):
        got = root.OpenMDArray(name)
        want = [open_root(day).OpenMDArray(name) for day in days]
        values = [w.ReadAsArray() for w in want]
        expected = np.concatenate(values) if name == "time" else values[0]
        assert got.ReadAsArray().dtype == expected.dtype and np.array_equal(got.ReadAsArray(), expected)
        assert got.GetUnit() == want[0].GetUnit()


def test_layout_of_the_table(month):
    _, days, _, store = month
    assert os.path.getsize(store) < 200_000
    rows = {
        r[0]: r[1:]
        for r in query(store, 'SELECT "array", kind, storage, dims, shape, chunks, dtype, fill, codec FROM arrays')
    }
    dims, shape, chunks = '["time","zlev","lat","lon"]', "[30,1,72,144]", "[1,1,72,144]"
    for name in ARRAYS:
        kind, storage, *rest, fill, codec = rows[name]
        assert (kind, storage, *rest, fill) == ("data", "referenced", dims, shape, chunks, "<i2", "-999")
        codec = json.loads(codec)
        assert [f["id"] for f in codec["filters"]] == ["shuffle"] and codec["compressor"]["id"] == "zlib"
    assert rows["lat"][:2] == rows["lon"][:2] == ("coord", "affine")
    assert rows["time"][:2] == rows["zlev"][:2] == ("coord", "inline")
    ((attrs, values),) = query(store, 'SELECT attrs, "values" FROM arrays WHERE "array"=\'time\'')
    assert json.loads(attrs)["units"] == UNITS
    assert np.array_equal(np.frombuffer(values, "<f4"), 1339 + np.arange(30, dtype="f4"))
    ((affine,),) = query(store, "SELECT affine FROM arrays WHERE \"array\"='lat'")
    assert json.loads(affine) == {"start": -88.75, "step": 2.5}
    assert query(store, "PRAGMA journal_mode") == [("delete",)]
    assert query(store, "PRAGMA application_id") == [(0x4D524546,)]
    assert [r[0] for r in query(store, "SELECT source FROM sources ORDER BY source_id")] == days
    # The view is what h5py says of each file.
    for i, path, offset, size in query(store, "SELECT dim_0, path, offset, size FROM refs_sst ORDER BY dim_0"):
        with h5py.File(days[i]) as f:
            chunk = f["sst"].id.get_chunk_info(0)
        assert (path, offset, size) == (days[i], chunk.byte_offset, chunk.size)


def test_daily_update_scans_one_file(month, tmp_path):
    folder, days, _, store = month
    updated, fresh = str(tmp_path / "updated.sqlite"), str(tmp_path / "fresh.sqlite")
    shutil.copy(store, updated)
    days = [*days, make_day(folder / "day.30.nc", 30)]
    vrt = mosaic(days, folder / "31.vrt")
    output = get_refs(vrt, updated, append=True)
    assert "1 of 31 sources scanned, 4 chunks" in output and "30 sources were in the store already" in output
    get_refs(vrt, fresh)
    assert dump(updated) == dump(fresh)


def test_a_preliminary_day_is_replaced(month, tmp_path):
    folder, days, _, _ = month
    preliminary = make_day(folder / "day.29.preliminary.nc", 29, seed=777)
    store = str(tmp_path / "s.sqlite")
    get_refs(mosaic([*days[:29], preliminary], tmp_path / "a.vrt"), store)
    final = [*days[:29], days[29]]
    assert "1 of 30 sources scanned" in get_refs(mosaic(final, tmp_path / "b.vrt"), store, append=True)
    got = open_root(store).OpenMDArray("sst").ReadAsArray([29, 0, 0, 0], [1, 1, 72, 144])
    assert np.array_equal(got, open_root(days[29]).OpenMDArray("sst").ReadAsArray())


def test_a_file_that_changed_is_scanned_again(month, tmp_path):
    days = [shutil.copy(d, tmp_path) for d in month[1][:3]]
    vrt, store = mosaic(days, tmp_path / "v.vrt"), str(tmp_path / "s.sqlite")
    get_refs(vrt, store)
    make_day(days[1], 1, seed=99)
    os.utime(days[1], (1, 1))
    assert "1 of 3 sources scanned" in get_refs(vrt, store, append=True)
    got = open_root(store).OpenMDArray("ice").ReadAsArray([1, 0, 0, 0], [1, 1, 72, 144])
    assert np.array_equal(got, open_root(days[1]).OpenMDArray("ice").ReadAsArray())
    assert "3 of 3 sources scanned" in get_refs(vrt, store, append=True, rescan=True)


def test_an_existing_store(month, tmp_path):
    _, days, vrt, _ = month
    store = str(tmp_path / "s.sqlite")
    get_refs(vrt, store)
    before = open(store, "rb").read()
    with pytest.raises(RuntimeError, match="--append.*--overwrite"):
        get_refs(vrt, store)
    assert open(store, "rb").read() == before
    get_refs(vrt, store, overwrite=True, array=["sst"])
    assert [r[0] for r in query(store, "SELECT \"array\" FROM arrays WHERE kind='data'")] == ["sst"]
    other = tmp_path / "precious.txt"
    other.write_text("not a store")
    with pytest.raises(RuntimeError, match="not an mdim-refs store"):
        get_refs(vrt, other, overwrite=True)
    assert other.read_text() == "not a store"
    assert sorted(os.listdir(tmp_path)) == ["precious.txt", "s.sqlite"]


def test_arrays_are_chosen_and_renamed(month, tmp_path):
    _, days, vrt, _ = month
    store = str(tmp_path / "s.sqlite")
    get_refs(vrt, store, array=["sst=ocean/temperature", "/ice"])
    root = open_root(store)
    assert root.GetMDArrayNames() == ["ice", "lat", "lon", "time", "zlev"]
    got = root.OpenMDArrayFromFullname("/ocean/temperature").ReadAsArray([3, 0, 0, 0], [1, 1, 72, 144])
    assert np.array_equal(got, open_root(days[3]).OpenMDArray("sst").ReadAsArray())
    with pytest.raises(RuntimeError, match="nothing.*there are: .*sst"):
        get_refs(vrt, tmp_path / "t.sqlite", array=["nothing"])
    assert not (tmp_path / "t.sqlite").exists()


@pytest.mark.parametrize("name", ["meta", "Sources", "refs_x", "sqlite_x", "REMAP"])
def test_reserved_names(tmp_path, name):
    source, store = tmp_path / "a.h5", tmp_path / "s.sqlite"
    with h5py.File(source, "w") as f:
        f[name] = np.arange(4.0)
    with pytest.raises(RuntimeError, match=f'"{name}" is reserved.*--array'):
        get_refs(source, store)
    assert not store.exists()
    get_refs(source, store, array=[f"{name}=good"])
    assert np.array_equal(open_root(store).OpenMDArray("good").ReadAsArray(), np.arange(4.0))


def test_names_that_differ_by_case(tmp_path):
    source = tmp_path / "a.h5"
    with h5py.File(source, "w") as f:
        f["SST"] = f["sst"] = np.arange(4.0)
    with h5py.File(source, "w") as f:
        f["SST"], f["sst"] = np.arange(4.0), np.arange(5.0)
    with pytest.raises(RuntimeError, match="differ only by case"):
        get_refs(source, tmp_path / "s.sqlite")


@pytest.mark.parametrize("name", ["a b", "it's", 'say "x"', "été", "50%", "a.b", "x;DROP TABLE meta", "VAR:NAME"])
def test_odd_names(tmp_path, name):
    source = tmp_path / f"RGB 2026-01-01T00:00:00 {name}.nc"
    store = tmp_path / f"store {name}.sqlite"
    values = np.arange(12, dtype="i2").reshape(3, 4)
    with h5py.File(source, "w") as f:
        f.create_dataset(name, data=values, chunks=(2, 2))
    get_refs(source, store)
    assert np.array_equal(open_root(store).OpenMDArray(name).ReadAsArray(), values)
    escaped = str(store).replace('"', '\\"')
    assert np.array_equal(gdal.Open(f'MDIMREFS:"{escaped}":/{name}').ReadAsArray(), values)
    assert len(query(str(store), f'SELECT * FROM "refs_{name.replace(chr(34), chr(34) * 2)}"')) == 4


def test_several_files_and_lists(month, tmp_path):
    _, days, _, _ = month
    listed = tmp_path / "list.txt"
    listed.write_text("# three\n" + "\n".join(days[1:3]) + "\n\n")
    store = str(tmp_path / "s.sqlite")
    output = get_refs([days[0], f"@{listed}"], store, **{"num-threads": 2})
    assert "3 of 3 sources scanned, 12 chunks" in output and "plan" in output
    with pytest.raises(RuntimeError, match="no place in a whole yet"):
        open_root(store).OpenMDArray("sst")
    with pytest.raises(RuntimeError, match="twice"):
        get_refs([days[0], days[0]], tmp_path / "t.sqlite")
    # A VRT makes a plan over what was scanned already.
    vrt = mosaic(days[:3], tmp_path / "v.vrt")
    assert "0 of 3 sources scanned" in get_refs(vrt, store, append=True)
    assert open_root(store).OpenMDArray("sst").ReadAsArray().shape == (3, 1, 72, 144)


def test_relative_sources_are_made_absolute(month, tmp_path):
    shutil.copy(month[1][0], tmp_path / "a.nc")
    here = os.getcwd()
    os.chdir(tmp_path)
    try:
        get_refs("./a.nc", "s.sqlite")
    finally:
        os.chdir(here)
    assert query(str(tmp_path / "s.sqlite"), "SELECT source FROM sources") == [(str(tmp_path / "a.nc"),)]
    assert open_root(tmp_path / "s.sqlite").OpenMDArray("sst").ReadAsArray().shape == (1, 1, 72, 144)


def run(*arguments):
    return subprocess.run(["gdal", *map(str, arguments)], capture_output=True, text=True)


def test_from_the_command_line(month, tmp_path):
    _, _, vrt, _ = month
    for i, command in enumerate((["mdim", "get-refs"], ["driver", "mdimrefs", "get-refs"])):
        done = run(*command, vrt, tmp_path / f"{i}.sqlite")
        assert done.returncode == 0, done.stderr
        assert "120 chunks" in done.stdout and "100 - done" in done.stdout
    assert dump(tmp_path / "0.sqlite") == dump(tmp_path / "1.sqlite")
    assert "--masked-chunks" in run("mdim", "get-refs", "--help").stdout
    failed = run("mdim", "get-refs", tmp_path / "nothing.nc", tmp_path / "x.sqlite")
    assert failed.returncode != 0 and "nothing.nc" in failed.stderr
    assert not (tmp_path / "x.sqlite").exists()


def test_conversion_equals_that_of_the_sources(month, tmp_path):
    _, days, _, store = month
    for form in ("nc", "zarr"):
        out = tmp_path / f"all.{form}"
        gdal.Run("mdim convert", input=store, output=str(out))
        for name in ARRAYS:
            got = open_root(out).OpenMDArray(name)
            want = np.concatenate([open_root(d).OpenMDArray(name).ReadAsArray() for d in days])
            assert np.array_equal(got.ReadAsArray(), want)
            assert got.GetNoDataValue() == -999 and got.GetUnit() == "Celsius"
    out = tmp_path / "part.nc"
    gdal.Run("mdim convert", input=store, output=str(out), array=["name=sst,view=[3:6,0,::2,10:20]"])
    want = np.concatenate([open_root(d).OpenMDArray("sst").ReadAsArray() for d in days])[3:6, 0, ::2, 10:20]
    assert np.array_equal(open_root(out).OpenMDArray("sst").ReadAsArray(), want)


def test_windows_steps_and_types(month):
    _, days, _, store = month
    array = open_root(store).OpenMDArray("anom")
    want = np.concatenate([open_root(d).OpenMDArray("anom").ReadAsArray() for d in days])
    got = array.ReadAsArray([29, 0, 71, 5], [10, 1, 30, 40], [-3, 1, -2, 3])
    assert np.array_equal(got, want[29::-3, :, 71::-2, 5::3][:10, :, :30, :40])
    view = array.GetView("[::-1,0,...,3]")
    assert np.array_equal(view.ReadAsArray(), want[::-1, 0, :, 3])
    assert np.array_equal(array.Transpose([3, 2, 0, 1]).ReadAsArray(), want.transpose(3, 2, 0, 1))
    for kind, dtype in ((gdal.GDT_Float64, "f8"), (gdal.GDT_Int32, "i4"), (gdal.GDT_Float32, "f4")):
        data = array.Read(buffer_datatype=gdal.ExtendedDataType.Create(kind))
        assert np.array_equal(np.frombuffer(data, dtype).reshape(want.shape), want)
    repeated = array.ReadAsArray([2, 0, 0, 0], [4, 1, 5, 6], [0, 1, 0, 1])
    assert np.array_equal(repeated, np.broadcast_to(want[2:3, :, :1, :6], (4, 1, 5, 6)))


def test_bad_sources_are_all_named(month, tmp_path):
    _, days, _, _ = month
    for name in ("empty.nc", "text.nc", "half.nc"):
        shutil.copy(days[0], tmp_path / name)
    sources = [*days[:3], *(str(tmp_path / n) for n in ("empty.nc", "text.nc", "half.nc"))]
    (tmp_path / "empty.nc").write_bytes(b"")
    (tmp_path / "text.nc").write_text("<!DOCTYPE html><html>404 not found</html>")
    half = open(days[0], "rb").read()
    (tmp_path / "half.nc").write_bytes(half[: len(half) // 2])
    store = tmp_path / "s.sqlite"
    with pytest.raises(RuntimeError) as error:
        get_refs(sources, store)
    for part in ("3 of 6", "empty.nc", "it is empty", "text.nc", "it is text", "half.nc", "truncated"):
        assert part in str(error.value)
    assert not store.exists() and not list(tmp_path.glob("s.sqlite*"))
    with gdal.quiet_errors():
        output = get_refs(sources, store, **{"skip-errors": True})
    assert "3 of 6 sources scanned" in output
    skipped = json.loads(query(str(store), "SELECT value FROM meta WHERE key='skipped'")[0][0])
    assert sorted(os.path.basename(s) for s in skipped) == ["empty.nc", "half.nc", "text.nc"]


def test_a_skipped_source_is_an_error_where_it_lies(month, tmp_path):
    days = [shutil.copy(d, tmp_path) for d in month[1][:3]]
    vrt, store = mosaic(days, tmp_path / "v.vrt"), str(tmp_path / "s.sqlite")
    open(days[1], "wb").close()
    with gdal.quiet_errors():
        get_refs(vrt, store, **{"skip-errors": True})
    array = open_root(store).OpenMDArray("sst")
    assert np.array_equal(
        array.ReadAsArray([2, 0, 0, 0], [1, 1, 72, 144]), open_root(days[2]).OpenMDArray("sst").ReadAsArray()
    )
    with pytest.raises(RuntimeError, match=os.path.basename(days[1])):
        array.ReadAsArray([1, 0, 0, 0], [1, 1, 72, 144])
    shutil.copy(month[1][1], days[1])
    get_refs(vrt, store, append=True)
    assert open_root(store).OpenMDArray("sst").ReadAsArray().shape == (3, 1, 72, 144)


@pytest.mark.parametrize("harm", ["deleted", "truncated", "text"])
def test_a_source_harmed_after_the_scan(month, tmp_path, harm):
    days = [shutil.copy(d, tmp_path) for d in month[1][:3]]
    store = str(tmp_path / "s.sqlite")
    get_refs(mosaic(days, tmp_path / "v.vrt"), store)
    if harm == "deleted":
        os.remove(days[1])
    elif harm == "truncated":
        os.truncate(days[1], 5000)
    else:
        size = os.path.getsize(days[1])
        open(days[1], "w").write("x" * size)
    array = open_root(store).OpenMDArray("sst")
    with pytest.raises(RuntimeError) as error:
        array.ReadAsArray()
    for part in ('"sst"', "[1, 0, 0, 0]", days[1], "offset", "size"):
        assert part in str(error.value), str(error.value)
    for i in (0, 2):
        want = open_root(days[i]).OpenMDArray("sst").ReadAsArray()
        assert np.array_equal(array.ReadAsArray([i, 0, 0, 0], [1, 1, 72, 144]), want)


KILLED = """
import os, signal, sys
from osgeo import gdal
gdal.UseExceptions()
count = 0
def progress(share, message, data):
    global count
    count += share > 0.5
    if count:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1
gdal.Run("mdim get-refs", input=[sys.argv[1]], output=sys.argv[2], progress=progress)
"""


def test_a_killed_scan_is_finished_by_append(month, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    days = [make_day(folder / f"{d:03}.nc", d) for d in range(100)]
    vrt = mosaic(days, tmp_path / "v.vrt")
    killed, whole = str(tmp_path / "killed.sqlite"), str(tmp_path / "whole.sqlite")
    done = subprocess.run([sys.executable, "-c", KILLED, vrt, killed])
    assert done.returncode == -signal.SIGKILL
    per_source = query(killed, "SELECT count(*) FROM sst GROUP BY source_id")
    assert 0 < len(per_source) < 100 and set(per_source) == {(1,)}
    for name in ARRAYS:
        assert query(killed, f"SELECT source_id FROM {name}") == query(killed, "SELECT source_id FROM sources")
    assert gdal.OpenEx(killed, gdal.OF_MULTIDIM_RASTER) is not None
    output = get_refs(vrt, killed, append=True)
    assert f"{100 - len(per_source)} of 100 sources scanned" in output
    get_refs(vrt, whole)
    assert dump(killed) == dump(whole)


def test_a_second_writer_is_refused(month, tmp_path):
    _, _, vrt, _ = month
    store = str(tmp_path / "s.sqlite")
    refused = []

    def progress(share, message, data):
        if not refused:
            with pytest.raises(RuntimeError, match="another process is writing"):
                get_refs(vrt, store, append=True)
            refused.append(share)
        return 1

    gdal.Run("mdim get-refs", input=[vrt], output=store, progress=progress)
    assert refused


def test_interrupted_by_the_user(month, tmp_path):
    _, _, vrt, _ = month
    store = tmp_path / "s.sqlite"
    with pytest.raises(RuntimeError, match="interrupted"):
        gdal.Run("mdim get-refs", input=[vrt], output=str(store), progress=lambda *_: 0)
    assert not store.exists()


def test_dates(month):
    _, _, _, store = month
    time = open_root(store).OpenMDArray("time")
    dates = netCDF4.num2date(time.ReadAsArray(), time.GetUnit())
    first = datetime.datetime(1978, 1, 1, 12) + datetime.timedelta(days=1339)
    assert [d.isoformat() for d in dates] == [(first + datetime.timedelta(days=i)).isoformat() for i in range(30)]
