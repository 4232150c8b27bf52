"""What a mosaic VRT hides: sources that disagree are refused with both values, or joined exactly. Cases like those of
public bug reports; expected values by hand or from h5py.
"""

import json
import os
import sqlite3

import h5py
import numpy as np
import pytest
from conftest import get_refs, open_root
from osgeo import gdal

gdal.UseExceptions()


def make(path, time, units, value=0, **changes):
    """A small packed file: v(time, lat, lon)."""
    options = {
        "dtype": "i2",
        "time_type": "f8",
        "chunks": (1, 2, 3),
        "fill": -999,
        "scale": None,
        "offset": None,
        "calendar": None,
        "lat": [10.0, 20.0],
        "storage_fill": 0,
        "level": 4,
        "data_units": None,
        "compression": "gzip",
        "scale_type": "f8",
    } | changes
    with h5py.File(path, "w") as f:
        f["time"] = np.array(time, options["time_type"])
        f["time"].attrs["units"] = np.bytes_(units)
        if options["calendar"]:
            f["time"].attrs["calendar"] = np.bytes_(options["calendar"])
        f["lat"] = np.array(options["lat"])
        f["lat"].attrs["units"] = np.bytes_("degrees_north")
        f["lon"] = np.array([0.0, 1.0, 2.0])
        f["lon"].attrs["units"] = np.bytes_("degrees_east")
        for name in ("time", "lat", "lon"):
            f[name].make_scale(name)
        filters = {"compression": options["compression"]}
        if options["compression"]:
            filters["compression_opts"] = options["level"]
        v = f.create_dataset(
            "v",
            data=np.full((len(time), len(options["lat"]), 3), value, options["dtype"]),
            chunks=options["chunks"],
            fillvalue=options["storage_fill"],
            **filters,
        )
        v.attrs["_FillValue"] = np.array([options["fill"]], options["dtype"])
        if options["scale"] is not None:
            v.attrs["scale_factor"] = np.array([options["scale"]], options["scale_type"])
        if options["offset"] is not None:
            v.attrs["add_offset"] = np.array([options["offset"]])
        if options["data_units"]:
            v.attrs["units"] = np.bytes_(options["data_units"])
        for axis, name in enumerate(("time", "lat", "lon")):
            v.dims[axis].attach_scale(f[name])
    return str(path)


def join(folder, *sources, **arguments):
    vrt = str(folder / "m.vrt")
    gdal.Run("mdim mosaic", input=list(sources), output=vrt, overwrite=True)
    store = str(folder / "m.sqlite")
    get_refs(vrt, store, overwrite=True, **arguments)
    return store


D = "days since 2000-01-01"

REFUSED = {
    "scale": (dict(scale=0.1, offset=5), dict(scale=0.5, offset=5), ["scale_factor", "0.1", "0.5"]),
    "offset": (dict(scale=0.1, offset=5), dict(scale=0.1, offset=100), ["add_offset is 100,", "but 5 "]),
    "scale in one": (dict(), dict(scale=0.5), ["scale_factor", "0.5", "not set"]),
    "chunk shape": (dict(), dict(chunks=(1, 1, 3)), ["chunk shape", "[1, 2, 3]", "[1, 1, 3]"]),
    "codec": (dict(), dict(compression=None), ["codec", "zlib", "null"]),
    "storage fill": (dict(storage_fill=1), dict(storage_fill=2), ["storage fill value", "1", "2"]),
    "unit": (dict(data_units="K"), dict(data_units="degC"), ["units", "K", "degC"]),
    "byte order": (dict(dtype="<i2"), dict(dtype=">i2"), ["data type", "<i2", ">i2"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_disagreement_is_refused_with_both_values(tmp_path, case):
    first, second, parts = REFUSED[case]
    a, b = make(tmp_path / "a.nc", [0], D, **first), make(tmp_path / "b.nc", [1], D, **second)
    with pytest.raises(RuntimeError) as error:
        join(tmp_path, a, b)
    for part in [*parts, a, b, '"v"']:
        assert part in str(error.value)
    assert not os.path.exists(tmp_path / "m.sqlite")
    with gdal.quiet_errors():
        store = join(tmp_path, a, b, **{"skip-errors": True})
    with pytest.raises(RuntimeError, match="b.nc"):
        open_root(store).OpenMDArray("v").ReadAsArray()


def test_the_deflate_level_does_not_matter(tmp_path):
    store = join(tmp_path, make(tmp_path / "a.nc", [0], D, 1, level=1), make(tmp_path / "b.nc", [1], D, 2, level=9))
    assert open_root(store).OpenMDArray("v").ReadAsArray()[:, 0, 0].tolist() == [1, 2]


def test_row_02_packing_of_one_meaning(tmp_path):
    """The same scale as float32 and float64 is two values; as one value of two types it is one."""
    a = make(tmp_path / "a.nc", [0], D, 10, scale=0.5, scale_type="f4")
    b = make(tmp_path / "b.nc", [1], D, 10, scale=0.5, scale_type="f8")
    assert open_root(join(tmp_path, a, b)).OpenMDArray("v").GetScale() == 0.5
    b = make(tmp_path / "b.nc", [1], D, 10, scale=0.1, scale_type="f8")
    a = make(tmp_path / "a.nc", [0], D, 10, scale=0.1, scale_type="f4")
    with pytest.raises(RuntimeError, match="scale_factor"):
        join(tmp_path, a, b)


def test_row_04_epochs(tmp_path):
    a = make(tmp_path / "a.nc", [0], "days since 1998-01-16")
    b = make(tmp_path / "b.nc", [0], "days since 1998-02-16")
    with pytest.raises(RuntimeError, match="31.*1998-02-16.*1998-01-16"):
        join(tmp_path, a, b)
    # The epoch moves by half a day, as in a real series.
    a = make(tmp_path / "a.nc", [15536], "days since 1978-01-01 00:00:00", 1)
    b = make(tmp_path / "b.nc", [15537], "days since 1978-01-01 12:00:00", 2)
    root = open_root(join(tmp_path, a, b))
    assert root.OpenMDArray("time").ReadAsArray().tolist() == [15536, 15537.5]
    assert root.OpenMDArray("time").GetUnit() == "days since 1978-01-01 00:00:00"
    assert root.OpenMDArray("v").ReadAsArray()[:, 0, 0].tolist() == [1, 2]
    # Order by number is not order in time.
    a = make(tmp_path / "a.nc", [0], D)
    b = make(tmp_path / "b.nc", [1], "days since 1999-01-01")
    with pytest.raises(RuntimeError, match="order"):
        join(tmp_path, a, b)
    # An hour is no exact number of days.
    b = make(tmp_path / "b.nc", [1], "hours since 2000-01-01")
    with pytest.raises(RuntimeError, match="hours since.*days since"):
        join(tmp_path, a, b)
    # One meaning, two spellings.
    b = make(tmp_path / "b.nc", [1], "days since 2000-1-1 00:00:00")
    assert open_root(join(tmp_path, a, b)).OpenMDArray("time").ReadAsArray().tolist() == [0, 1]


def test_row_05_types_of_coordinates(tmp_path):
    a = make(tmp_path / "a.nc", [0], D, time_type="f8")
    b = make(tmp_path / "b.nc", [1.5], D, time_type="f4")
    time = open_root(join(tmp_path, a, b)).OpenMDArray("time").ReadAsArray()
    assert time.dtype == np.float64 and time.tolist() == [0, 1.5]
    a, b = make(tmp_path / "a.nc", [0], D, time_type="i4"), make(tmp_path / "b.nc", [1], D, time_type="i4")
    time = open_root(join(tmp_path, a, b)).OpenMDArray("time").ReadAsArray()
    assert time.dtype == np.int32 and time.tolist() == [0, 1]


def test_row_06_a_short_last_chunk_in_the_middle(tmp_path):
    a = make(tmp_path / "a.nc", [0, 1, 2], D, 1, chunks=(2, 2, 3))
    b = make(tmp_path / "b.nc", [3, 4, 5], D, 2, chunks=(2, 2, 3))
    with pytest.raises(RuntimeError, match="a.nc.*inside a chunk"):
        join(tmp_path, a, b)
    # At the end it may be short.
    c = make(tmp_path / "c.nc", [-4, -3, -2, -1], D, 3, chunks=(2, 2, 3))
    got = open_root(join(tmp_path, c, a)).OpenMDArray("v").ReadAsArray()
    assert got[:, 0, 0].tolist() == [3, 3, 3, 3, 1, 1, 1]


def test_row_10_fill_and_no_data(tmp_path):
    source, store = tmp_path / "a.h5", str(tmp_path / "s.sqlite")
    fills = {"a": 1e37, "b": 1e20, "c": -9999.9, "d": np.nan, "e": -1e34}
    with h5py.File(source, "w") as f:
        for name, fill in fills.items():
            v = f.create_dataset(name, (4,), "<f4", chunks=(2,), fillvalue=np.float32(fill))
            v[:2] = [1, 2]
            v.attrs["_FillValue"] = np.array([-5], "f4")
    get_refs(source, store)
    root = open_root(store)
    for name, fill in fills.items():
        array = root.OpenMDArray(name)
        assert array.ReadAsArray().tobytes() == np.array([1, 2, fill, fill], "f4").tobytes() or np.isnan(fill)
        assert array.GetNoDataValue() == -5
    assert np.isnan(root.OpenMDArray("d").ReadAsArray()[2:]).all()


def test_row_12_what_is_missing(tmp_path):
    """A variable that was declared and never written reads as its fill; a file without it leaves the step out."""
    source, store = tmp_path / "a.h5", str(tmp_path / "s.sqlite")
    with h5py.File(source, "w") as f:
        f.create_dataset("never", (4, 4), "i2", chunks=(2, 2), fillvalue=7)
        f.create_dataset("contiguous", (3,), "f4", fillvalue=2.5)
        f.create_dataset("crs", data=np.int32(3))
    get_refs(source, store)
    root = open_root(store)
    assert (root.OpenMDArray("never").ReadAsArray() == 7).all()
    assert root.OpenMDArray("contiguous").ReadAsArray().tolist() == [2.5] * 3
    assert root.OpenMDArray("crs").ReadAsArray() == 3


def test_row_53_calendars(tmp_path):
    a = make(tmp_path / "a.nc", [0], D, calendar="noleap")
    b = make(tmp_path / "b.nc", [1], D, calendar="standard")
    with pytest.raises(RuntimeError, match="standard.*noleap"):
        join(tmp_path, a, b)
    b = make(tmp_path / "b.nc", [1], D, calendar="365_day")
    time = open_root(join(tmp_path, a, b)).OpenMDArray("time")
    assert time.GetAttribute("calendar").Read() == "noleap"


def test_row_56_coordinates_of_one_grid(tmp_path):
    a = make(tmp_path / "a.nc", [0], D, 1, lat=[10.0, 20.0])
    join(tmp_path, a, make(tmp_path / "b.nc", [1], D, 2))
    # The second file is written again, with a coordinate that was computed in another way.
    make(tmp_path / "b.nc", [1], D, 2, lat=[10.0, 20.000001])
    get_refs(tmp_path / "m.vrt", tmp_path / "near.sqlite")
    root = open_root(tmp_path / "near.sqlite")
    assert root.OpenMDArray("lat").ReadAsArray().tolist() == [10, 20]
    assert root.OpenMDArray("v").ReadAsArray().shape == (2, 2, 3)
    make(tmp_path / "b.nc", [1], D, 2, lat=[10.0, 20.0001])
    with pytest.raises(RuntimeError, match="lat.*20.0001.*20"):
        get_refs(tmp_path / "m.vrt", tmp_path / "again.sqlite")


def test_row_58_an_array_that_is_not_there(tmp_path):
    store = tmp_path / "s.sqlite"
    get_refs(make(tmp_path / "a.nc", [0], D), store)
    with pytest.raises(RuntimeError, match='no array "/nothing"; there are: /v, /lat'):
        gdal.OpenEx(f'MDIMREFS:"{store}":/nothing', gdal.OF_MULTIDIM_RASTER)
    with pytest.raises(RuntimeError, match="nothing"):
        open_root(store).OpenMDArray("nothing")
    with h5py.File(tmp_path / "none.h5", "w") as f:
        f.create_group("g")
    with pytest.raises(RuntimeError, match="none.h5.*no array"):
        get_refs(tmp_path / "none.h5", tmp_path / "none.sqlite")


def test_coordinates_that_differ(tmp_path):
    a = make(tmp_path / "a.nc", [0], D, 1, lat=[10.0, 20.0])
    b = make(tmp_path / "b.nc", [1], D, 2, lat=[10.0, 20.1])
    try:
        store = join(tmp_path, a, b)
    except RuntimeError as error:
        assert "lat" in str(error)
    else:
        assert open_root(store).OpenMDArray("v").ReadAsArray().shape != (2, 2, 3)


def test_overlap(tmp_path):
    a, b = make(tmp_path / "a.nc", [0], D, 1), make(tmp_path / "b.nc", [0], D, 2)
    with pytest.raises(RuntimeError) as error:
        join(tmp_path, a, b)
    assert a in str(error.value) and b in str(error.value)


def test_gaps_and_order(tmp_path):
    sources = [make(tmp_path / f"{i}.nc", [t], D, i) for i, t in enumerate((6, 0, 5))]
    root = open_root(join(tmp_path, *sources))
    assert root.OpenMDArray("time").ReadAsArray().tolist() == [0, 5, 6]
    assert root.OpenMDArray("v").ReadAsArray()[:, 0, 0].tolist() == [1, 2, 0]


def test_a_stale_vrt(tmp_path):
    a, b = make(tmp_path / "a.nc", [0], D), make(tmp_path / "b.nc", [1], D)
    join(tmp_path, a, b)
    make(tmp_path / "b.nc", [9], D)
    with pytest.raises(RuntimeError, match="b.nc.*VRT"):
        get_refs(tmp_path / "m.vrt", tmp_path / "again.sqlite")


def test_a_slab_that_starts_inside_a_source(tmp_path):
    """By hand: two steps of the first file, then the second file twice over different places."""
    a = make(tmp_path / "a.nc", [0, 1, 2], D, 1)
    with h5py.File(a, "r+") as f:
        f["v"][:] = np.arange(18).reshape(3, 2, 3)
        want = f["v"][()]
    store = join(tmp_path, a)
    text = (tmp_path / "m.vrt").read_text()
    text = text.replace('size="3" indexingVariable="time"', 'size="2" indexingVariable="time"')
    text = text.replace('offset="0,0,0" count="3,2,3"', 'offset="1,0,0" count="2,2,3"')
    text = text.replace('count="3">0 1 2<', 'count="2">1 2<').replace(
        '<RegularlySpacedValues start="0" increment="1" />\n    </Array>\n    <Array name="lat"',
        '<RegularlySpacedValues start="1" increment="1" />\n    </Array>\n    <Array name="lat"',
    )
    (tmp_path / "m.vrt").write_text(text)
    get_refs(tmp_path / "m.vrt", store, overwrite=True)
    root = open_root(store)
    assert root.OpenMDArray("time").ReadAsArray().tolist() == [1, 2]
    assert np.array_equal(root.OpenMDArray("v").ReadAsArray(), want[1:])
    rows = sqlite3.connect(store).execute("SELECT dim_0, offset FROM refs_v ORDER BY 1").fetchall()
    with h5py.File(a) as f:
        assert rows == [(i, f["v"].id.get_chunk_info(i + 1).byte_offset) for i in range(2)]


@pytest.mark.parametrize("masks", [(0, 1, 2, 3), (1, 0, 0, 0), (3, 3, 3, 3)])
def test_row_08_chunks_that_skipped_a_filter(tmp_path, masks):
    import zlib

    source, store = tmp_path / "a.h5", tmp_path / "s.sqlite"
    values = np.arange(16, dtype="<i4").reshape(4, 4) * 1000
    with h5py.File(source, "w") as f:
        d = f.create_dataset("d", (16,), "<i4", chunks=(4,), shuffle=True, compression="gzip")
        for i, mask in enumerate(masks):
            data = values[i].tobytes()
            if not mask & 1:
                data = np.frombuffer(data, "u1").reshape(4, 4).T.tobytes()
            if not mask & 2:
                data = zlib.compress(data)
            d.id.write_direct_chunk((i * 4,), data, filter_mask=mask)
    first = next(i for i, m in enumerate(masks) if m)
    with pytest.raises(RuntimeError) as error:
        get_refs(source, store)
    for part in ('"d"', f"chunk [{first}]", f"filter mask {masks[first]:#x}", "--masked-chunks inline"):
        assert part in str(error.value)
    assert not store.exists()
    get_refs(source, store, **{"masked-chunks": "inline"})
    assert np.array_equal(open_root(store).OpenMDArray("d").ReadAsArray(), values.ravel())
    db = sqlite3.connect(store)
    states = db.execute('SELECT "offset" IS NULL, data IS NULL FROM d ORDER BY dim_0').fetchall()
    assert states == [(int(m != 0), int(m == 0)) for m in masks]
    ((codec,),) = db.execute("SELECT codec FROM arrays WHERE \"array\"='d'").fetchall()
    assert json.loads(codec)["compressor"]["id"] == "zlib"


def test_rows_14_and_39_names_and_units_from_the_source(tmp_path):
    a, b = make(tmp_path / "a.nc", [0], D), make(tmp_path / "b.nc", [1], D)
    assert open_root(join(tmp_path, a, b)).OpenMDArray("time").GetUnit() == D
    source, store = tmp_path / "phony.h5", tmp_path / "p.sqlite"
    with h5py.File(source, "w") as f:
        f["a"], f["b"] = np.zeros((3, 3)), np.zeros((3, 4))
    get_refs(source, store)
    root = open_root(store)
    names = {n: [d.GetName() for d in root.OpenMDArray(n).GetDimensions()] for n in ("a", "b")}
    assert len(set(names["a"])) == 2
    sizes = {d.GetName(): d.GetSize() for n in ("a", "b") for d in root.OpenMDArray(n).GetDimensions()}
    assert all(sizes[d.GetName()] == d.GetSize() for n in ("a", "b") for d in root.OpenMDArray(n).GetDimensions())


def test_rows_35_46_48_storage_and_byte_order(tmp_path):
    source, store = tmp_path / "a.h5", tmp_path / "s.sqlite"
    values = np.arange(10, dtype=">i4")
    with h5py.File(source, "w", userblock_size=1024) as f:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((10,))
        compact = h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I32BE, space, plist)
        compact.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
        f.create_dataset("big", data=values, chunks=(3,), shuffle=True, compression=4)
        f.create_dataset("contiguous", data=values)
        f.create_dataset("partly", (6,), "i4", chunks=(3,), fillvalue=7)[:3] = [1, 2, 3]
    get_refs(source, store)
    root = open_root(store)
    for name in ("compact", "big", "contiguous"):
        assert np.array_equal(root.OpenMDArray(name).ReadAsArray(), values)
    assert root.OpenMDArray("partly").ReadAsArray().tolist() == [1, 2, 3, 7, 7, 7]


def test_row_41_and_40_a_store_that_moves(tmp_path):
    (tmp_path / "one").mkdir()
    source = make(tmp_path / "one" / "a b:c.nc", [0], D, 5)
    store = str(tmp_path / "one" / "s.sqlite")
    get_refs(source, store)
    db = sqlite3.connect(store)
    db.execute("INSERT INTO remap VALUES('here', ?, './')", [f"{tmp_path}/one/"])
    db.commit()
    db.close()
    os.rename(tmp_path / "one", tmp_path / "two")
    moved = str(tmp_path / "two" / "s.sqlite")
    got = open_root(moved, ["TARGET=here"]).OpenMDArray("v").ReadAsArray()
    assert (got == 5).all()
    with pytest.raises(RuntimeError, match=r"one/a b:c.nc"):
        open_root(moved).OpenMDArray("v").ReadAsArray()
    with pytest.raises(RuntimeError, match="there are: here"):
        gdal.OpenEx(moved, gdal.OF_MULTIDIM_RASTER, open_options=["TARGET=nowhere"])
    os.rename(moved, tmp_path / "alone.sqlite")
    with pytest.raises(RuntimeError, match=f"{tmp_path}/a b:c.nc"):
        open_root(tmp_path / "alone.sqlite", ["TARGET=here"]).OpenMDArray("v").ReadAsArray()
