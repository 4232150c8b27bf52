"""Groups, dimensions, arrays, attributes and values through the multidimensional API, against what numpy, h5py or
GDAL's netCDF driver say of the source."""

import os
import sqlite3
import zlib

import h5py
import netCDF4
import numpy as np
import pytest
from conftest import FOREIGN_VALUES, ForeignStore, get_refs, open_root
from osgeo import gdal

TYPES = {
    "|i1": gdal.GDT_Int8,
    "|u1": gdal.GDT_Byte,
    "<i2": gdal.GDT_Int16,
    ">i2": gdal.GDT_Int16,
    "<u2": gdal.GDT_UInt16,
    "<i4": gdal.GDT_Int32,
    ">u4": gdal.GDT_UInt32,
    "<i8": gdal.GDT_Int64,
    ">u8": gdal.GDT_UInt64,
    "<f2": gdal.GDT_Float16,
    "<f4": gdal.GDT_Float32,
    ">f4": gdal.GDT_Float32,
    "<f8": gdal.GDT_Float64,
}


def refs_of(tmp_path, datasets):
    """A store of a file with `datasets`: {name: (values, options of create_dataset)}."""
    with h5py.File(tmp_path / "source.h5", "w") as f:
        for name, (values, options) in datasets.items():
            f.create_dataset(name, data=values, **options)
    get_refs(tmp_path / "source.h5", tmp_path / "store.sqlite")
    return open_root(tmp_path / "store.sqlite")


# ---- a store of another maker ----


def test_foreign_store(foreign_store):
    root = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"])
    v = root.OpenMDArray("v")
    assert v.GetDataType().GetNumericDataType() == gdal.GDT_Int32
    assert v.GetBlockSize() == [2, 2]
    assert [d.GetFullName() for d in v.GetDimensions()] == ["/y", "/x"]
    assert np.array_equal(v.ReadAsArray(), FOREIGN_VALUES)
    x, y = (d.GetIndexingVariable() for d in reversed(v.GetDimensions()))
    assert np.array_equal(x.ReadAsArray(), 10.5 + 0.25 * np.arange(6))
    assert x.GetUnit() == "degrees_east" and x.GetDataType().GetNumericDataType() == gdal.GDT_Float64
    assert np.array_equal(y.ReadAsArray(), np.array([-5, 5], "f4"))
    assert [(d.GetType(), d.GetDirection()) for d in v.GetDimensions()] == [
        ("HORIZONTAL_Y", "NORTH"),
        ("HORIZONTAL_X", "EAST"),
    ]
    # fill is what an absent chunk reads as; no attribute says that it means no data.
    assert v.GetNoDataValue() is None


def test_raw_blocks(foreign_store):
    v = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"]).OpenMDArray("v")
    for i in range(2):
        block = v.GetRawBlockInfo([0, i])
        with open(block.GetFilename(), "rb") as f:
            f.seek(block.GetOffset())
            data = zlib.decompress(f.read(block.GetSize()))
        assert np.array_equal(np.frombuffer(data, "<i4").reshape(2, 2), FOREIGN_VALUES[:, 2 * i : 2 * i + 2])
        assert block.GetInfo() in (
            ["COMPRESSION=DEFLATE", "ENDIANNESS=LITTLE"],
            {"COMPRESSION": "DEFLATE", "ENDIANNESS": "LITTLE"},
        )
    absent = v.GetRawBlockInfo([0, 2])
    assert (absent.GetFilename(), absent.GetOffset(), absent.GetSize()) == (None, 0, 0)
    for outside in ([0, 3], [1, 0]):
        with pytest.raises(RuntimeError):
            v.GetRawBlockInfo(outside)


def test_inline_chunks(tmp_path):
    store = ForeignStore(tmp_path / "s.sqlite")
    store.sql.execute("INSERT INTO sources VALUES (1, 'none')")
    store.add_array("v", ["x"], [5], [3], ">i2", 7)
    data = np.array([1, 2, 3], ">i2").tobytes()
    store.add_chunks("v", 1, [(1, 0, 1, None, None, None, data), (1, 1, 0, None, None, None, None)])
    v = open_root(f"MDIMREFS:{store.close()}").OpenMDArray("v")
    assert v.ReadAsArray().tolist() == [1, 2, 3, 7, 7]
    block = v.GetRawBlockInfo([0])
    assert bytes(block.GetInlineData()) == data and block.GetFilename() is None


def test_a_broken_array_does_not_hide_the_others(tmp_path, foreign_store):
    with sqlite3.connect(foreign_store) as db:
        db.execute(
            'INSERT INTO arrays("array", kind, storage, dims, shape, chunks, dtype, codec) VALUES '
            "('bad', 'data', 'referenced', '[\"y\"]', '[2]', '[2]', '<q9', '{}')"
        )
    root = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"])
    assert "bad" in root.GetMDArrayNames()
    with pytest.raises(RuntimeError, match="bad.*q9"):
        root.OpenMDArray("bad")
    assert np.array_equal(root.OpenMDArray("v").ReadAsArray(), FOREIGN_VALUES)


@pytest.mark.parametrize(
    "codec",
    [
        '{"compressor": {"id": "nonsense"}, "filters": null}',
        '{"compressor": null, "filters": [{"id": "zlib"}, {"id": "nonsense"}]}',
    ],
)
def test_an_unknown_codec_is_named(foreign_store, codec):
    with sqlite3.connect(foreign_store) as db:
        db.execute("UPDATE arrays SET codec = ? WHERE \"array\" = 'v'", [codec])
    root = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"])
    with pytest.raises(RuntimeError, match="nonsense"):
        root.OpenMDArray("v").ReadAsArray()


def test_damage_is_an_error_of_that_chunk_alone(tmp_path, foreign_store):
    data = bytearray((tmp_path / "data.bin").read_bytes())
    data[12] ^= 0xFF
    (tmp_path / "data.bin").write_bytes(data)
    v = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"]).OpenMDArray("v")
    with pytest.raises(RuntimeError) as error:
        v.ReadAsArray()
    for word in ("v", "data.bin", "7"):
        assert word in str(error.value)
    assert np.array_equal(v.ReadAsArray([0, 2], [2, 4]), FOREIGN_VALUES[:, 2:])
    (tmp_path / "data.bin").write_bytes(data[:20])
    v = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"]).OpenMDArray("v")
    with pytest.raises(RuntimeError, match="data.bin"):
        v.ReadAsArray([0, 2], [2, 2])


# ---- types and windows ----


@pytest.mark.parametrize("dtype", TYPES)
def test_types(tmp_path, dtype):
    kind = np.dtype(dtype).kind
    if kind == "f":
        values = np.array([0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 6e-5], dtype)
    else:
        info = np.iinfo(dtype)
        values = np.array([info.min, info.max, 0, 1, 2, 3, 100, 42], dtype)
    v = refs_of(tmp_path, {"v": (values.reshape(2, 4), {"chunks": (1, 3)})}).OpenMDArray("v")
    assert v.GetDataType().GetNumericDataType() == TYPES[dtype]
    # Bit for bit; Python gets half floats as single ones.
    seen = np.dtype("f4") if dtype == "<f2" else np.dtype(dtype).newbyteorder("=")
    assert v.Read() == values.astype(seen).tobytes()


@pytest.mark.parametrize("buffer", [t for t in set(TYPES.values())] + [gdal.GDT_CFloat32, gdal.GDT_CFloat64])
@pytest.mark.parametrize("dtype", ["|u1", ">i2", "<i8", "<f4"])
def test_buffer_types(tmp_path, dtype, buffer):
    values = np.arange(60).astype(dtype).reshape(5, 12)
    v = refs_of(tmp_path, {"v": (values, {"chunks": (2, 5)})}).OpenMDArray("v")
    kind = gdal.ExtendedDataType.Create(buffer)
    data = np.frombuffer(v.Read(buffer_datatype=kind), np.uint8)
    # What GDAL's own in-memory array gives.
    mem = gdal.GetDriverByName("MEM").CreateMultiDimensional("").GetRootGroup()
    dims = [mem.CreateDimension("y", None, None, 5), mem.CreateDimension("x", None, None, 12)]
    other = mem.CreateMDArray("v", dims, v.GetDataType())
    other.Write(np.ascontiguousarray(values.astype(np.dtype(dtype).newbyteorder("="))))
    assert np.array_equal(data, np.frombuffer(other.Read(buffer_datatype=kind), np.uint8))


WINDOWS = [
    (slice(None), slice(None), slice(None)),
    (slice(1, 2), slice(3, 5), slice(7, 8)),
    (slice(None, None, -1), slice(None), slice(None)),
    (slice(None), slice(None, None, -1), slice(None, None, -1)),
    (slice(4, 0, -2), slice(1, None, 3), slice(10, 2, -3)),
    (slice(None, None, 2), slice(None, None, 4), slice(None, None, 5)),
]


@pytest.mark.parametrize("layout", ["chunked", "contiguous", "compressed"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(tmp_path, layout, window):
    values = np.arange(5 * 7 * 11, dtype=">i4").reshape(5, 7, 11)
    options = {
        "chunked": {"chunks": (2, 3, 4)},
        "contiguous": {},
        "compressed": {"chunks": (2, 3, 4), "compression": "gzip", "shuffle": True, "fletcher32": True},
    }[layout]
    v = refs_of(tmp_path, {"v": (values, options)}).OpenMDArray("v")
    ranges = [range(*s.indices(n)) for s, n in zip(window, values.shape, strict=True)]
    start, count, step = [r.start for r in ranges], [len(r) for r in ranges], [r.step for r in ranges]
    expected = values[window]
    assert np.array_equal(v.ReadAsArray(start, count, step), expected)
    # Another type, so that it goes through a buffer.
    kind = gdal.ExtendedDataType.Create(gdal.GDT_Float64)
    assert np.array_equal(v.ReadAsArray(start, count, step, buffer_datatype=kind), expected.astype("f8"))
    # Transposed in the buffer.
    stride = [1, count[0], count[0] * count[1]]
    data = np.frombuffer(v.Read(start, count, step, stride), "i4").reshape(count[::-1])
    assert np.array_equal(data.transpose(), expected)


def test_step_zero(tmp_path):
    values = np.arange(12, dtype="i2").reshape(3, 4)
    v = refs_of(tmp_path, {"v": (values, {"chunks": (2, 2)})}).OpenMDArray("v")
    # GDAL's `at(i)` of a view has count 1 and step 0.
    assert v.GetView("[1]").ReadAsArray().tolist() == values[1].tolist()
    assert v.GetView("[:,2]").ReadAsArray().tolist() == values[:, 2].tolist()
    assert v.ReadAsArray([1, 3], [1, 1], [0, 0]).tolist() == [[7]]


def test_a_window_outside_is_refused(tmp_path):
    v = refs_of(tmp_path, {"v": (np.arange(12, dtype="i2").reshape(3, 4), {})}).OpenMDArray("v")
    for start, count, step in (([0, 3], [3, 2], [1, 1]), ([3, 0], [1, 1], [1, 1]), ([1, 0], [3, 1], [-1, 1])):
        with pytest.raises(RuntimeError):
            v.ReadAsArray(start, count, step)


def test_views_of_views(tmp_path):
    values = np.arange(5 * 7, dtype="f4").reshape(5, 7)
    v = refs_of(tmp_path, {"v": (values, {"chunks": (2, 3)})}).OpenMDArray("v")
    assert np.array_equal(v.GetView("[::-1,1::2]").ReadAsArray(), values[::-1, 1::2])
    assert np.array_equal(v.Transpose([1, 0]).ReadAsArray(), values.T)
    assert np.array_equal(v.Transpose([1, 0]).GetView("[::-2,...]").ReadAsArray(), values.T[::-2])
    assert np.array_equal(v.AdviseRead() == gdal.CE_None and v.ReadAsArray(), values)


def test_large_windows_of_another_type_are_read_in_parts(tmp_path):
    """More elements than one part has (4 Mi), in chunks that do not divide it."""
    values = (np.arange(3 * 1500 * 1700) % 30000).astype("i2").reshape(3, 1500, 1700)
    v = refs_of(tmp_path, {"v": (values, {"chunks": (2, 700, 900), "compression": "gzip"})}).OpenMDArray("v")
    kind = gdal.ExtendedDataType.Create(gdal.GDT_Float32)
    assert np.array_equal(v.ReadAsArray(buffer_datatype=kind), values.astype("f4"))
    flipped = v.ReadAsArray([2, 1499, 1699], [3, 1500, 1700], [-1, -1, -1], buffer_datatype=kind)
    assert np.array_equal(flipped, values[::-1, ::-1, ::-1].astype("f4"))


def test_scalars_and_empty_arrays(tmp_path):
    datasets = {"scalar": (np.float32(2.5), {}), "empty": (np.zeros((0, 3), "i2"), {}), "v": (np.arange(3), {})}
    root = refs_of(tmp_path, datasets)
    scalar = root.OpenMDArray("scalar")
    assert scalar.GetDimensionCount() == 0 and scalar.ReadAsArray() == 2.5
    empty = root.OpenMDArray("empty")
    assert [d.GetSize() for d in empty.GetDimensions()] == [0, 3]
    assert root.OpenMDArray("v").ReadAsArray().tolist() == [0, 1, 2]


def test_never_written_chunks_read_as_fill(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as f:
        v = f.create_dataset("v", shape=(6, 6), dtype="f4", chunks=(2, 2), fillvalue=-3.5)
        v[2:4, 2:4] = 1
        f.create_dataset("never", shape=(4,), dtype="i2", fillvalue=9)
        expected = {"v": v[...], "never": f["never"][...]}
    get_refs(tmp_path / "s.h5", tmp_path / "s.sqlite")
    root = open_root(tmp_path / "s.sqlite")
    for name, values in expected.items():
        assert np.array_equal(root.OpenMDArray(name).ReadAsArray(), values)
    v = root.OpenMDArray("v")
    assert v.GetRawBlockInfo([0, 0]).GetSize() == 0 and v.GetRawBlockInfo([1, 1]).GetSize() == 16


def test_strings(tmp_path):
    texts = ["a", "é", "", "a longer one"]
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f["fixed"] = np.array([t.encode() for t in texts], "S12").reshape(2, 2)
        f.create_dataset("vlen", data=np.array(texts, object), dtype=h5py.string_dtype())
    get_refs(tmp_path / "s.h5", tmp_path / "s.sqlite")
    root = open_root(tmp_path / "s.sqlite")
    for name, shape in (("fixed", [2, 2]), ("vlen", [4])):
        array = root.OpenMDArray(name)
        assert array.GetDataType().GetClass() == gdal.GEDTC_STRING
        assert array.Read() == texts
        assert [d.GetSize() for d in array.GetDimensions()] == shape
    assert root.OpenMDArray("vlen").Read([3], [2], [-2]) == [texts[3], texts[1]]


# ---- metadata, as GDAL's netCDF driver has it ----


def write_netcdf(path):
    with netCDF4.Dataset(path, "w") as d:
        d.title = "a title"
        d.setncattr("empty", "")
        d.setncattr("f4", np.float32(1.5))
        d.setncattr("list", np.array([1, 2, 3], "i2"))
        d.setncattr("u8", np.uint64(2**64 - 1))
        d.setncattr("i8", np.int64(-(2**62)))
        d.setncattr_string("strings", ["a", "bc"])
        for name, size in (("time", None), ("lat", 4), ("lon", 6), ("nv", 2)):
            d.createDimension(name, size)
        t = d.createVariable("time", "f8", ("time",), chunksizes=(3,))
        t.setncatts({"units": "days since 2000-01-01", "calendar": "standard", "standard_name": "time"})
        t.bounds = "time_bnds"
        t[:] = [0, 1, 2]
        d.createVariable("time_bnds", "f8", ("time", "nv"), chunksizes=(1, 2))[:] = [[0, 1], [1, 2], [2, 3]]
        lat = d.createVariable("lat", "f4", ("lat",))
        lat.setncatts({"units": "degrees_north", "standard_name": "latitude"})
        lat[:] = [-15, -5, 5, 15]
        lon = d.createVariable("lon", "f4", ("lon",))
        lon.setncatts({"units": "degrees_east", "standard_name": "longitude"})
        lon[:] = np.arange(6) * 10 + 5
        crs = d.createVariable("crs", "i4", ())
        crs.setncatts({"grid_mapping_name": "latitude_longitude", "semi_major_axis": 6378137.0})
        crs.inverse_flattening = 298.257223563
        crs[...] = 7
        v = d.createVariable(
            "v", "i2", ("time", "lat", "lon"), zlib=True, shuffle=True, chunksizes=(1, 4, 6), fill_value=-999
        )
        v.set_auto_maskandscale(False)
        v.setncatts({"units": "Celsius", "scale_factor": np.float32(0.01), "add_offset": 5.0, "long_name": "V"})
        v.setncatts({"missing_value": np.int16(-999), "valid_min": np.int16(-300), "grid_mapping": "crs"})
        v.setncatts({"coordinates": "depth", "flag_values": np.array([1, 2, 4], "u1")})
        v[:] = np.arange(72).reshape(3, 4, 6)
        d.createVariable("depth", "f4", ("lat", "lon"))[:] = 1
        g = d.createGroup("grp")
        g.note = "x"
        g.createDimension("k", 2)
        g.createVariable("gv", "f4", ("k", "lat"), fill_value=np.float32(1e20))[:] = 3
        g.createGroup("sub").createVariable("w", "u8", ("k",))[:] = [1, 2**63]


@pytest.fixture()
def pair(tmp_path):
    """A netCDF file, and the store of it."""
    write_netcdf(tmp_path / "s.nc")
    get_refs(tmp_path / "s.nc", tmp_path / "s.sqlite")
    return str(tmp_path / "s.nc"), f"MDIMREFS:{tmp_path}/s.sqlite"


def each_group(group):
    yield group
    for name in group.GetGroupNames() or []:
        yield from each_group(group.OpenGroup(name))


def describe_attributes(item, options=()):
    return {
        a.GetName(): (a.GetDataType().GetClass(), a.GetDataType().GetNumericDataType(), a.GetDimensionsSize(), a.Read())
        for a in item.GetAttributes(list(options))
    }


def describe(name):
    """All that GDAL tells of a dataset."""
    out = {}
    for group in each_group(open_root(name)):
        out[group.GetFullName()] = (describe_attributes(group), sorted(group.GetGroupNames() or []))
        for array_name in group.GetMDArrayNames(["SHOW_ALL=YES"]):
            array = group.OpenMDArray(array_name)
            srs = array.GetSpatialRef()
            out[array.GetFullName()] = {
                "type": array.GetDataType().GetNumericDataType(),
                "dimensions": [
                    (d.GetFullName(), d.GetSize(), d.GetType(), d.GetDirection()) for d in array.GetDimensions()
                ],
                "variables": [
                    d.GetIndexingVariable() and d.GetIndexingVariable().GetFullName() for d in array.GetDimensions()
                ],
                "attributes": describe_attributes(array),
                "all attributes": describe_attributes(array, ["SHOW_ALL=YES"]),
                "no data": array.GetNoDataValue(),
                "scale": (array.GetScale(), array.GetScaleStorageType()),
                "offset": (array.GetOffset(), array.GetOffsetStorageType()),
                "unit": array.GetUnit(),
                "coordinates": [c.GetFullName() for c in array.GetCoordinateVariables()],
                "srs": srs and (srs.ExportToWkt(), srs.GetDataAxisToSRSAxisMapping()),
                "values": array.Read(),
            }
    return out


def test_everything_is_as_the_netcdf_driver_says(pair):
    source, store = (describe(name) for name in pair)
    assert store.keys() == source.keys()
    for key, expected in source.items():
        if isinstance(expected, dict):
            for what, value in expected.items():
                assert store[key][what] == value, (key, what)
        else:
            assert store[key] == expected, key


def test_attributes_by_name(pair):
    v = open_root(pair[1]).OpenMDArray("v")
    # Those that are not listed, since GDAL has functions for them, are there.
    assert v.GetAttribute("units").Read() == "Celsius"
    assert v.GetAttribute("_FillValue").Read() == -999
    assert v.GetAttribute("grid_mapping").Read() == "crs"
    with pytest.raises(RuntimeError, match="absent"):
        v.GetAttribute("absent")
    values = open_root(pair[1]).GetAttribute("list")
    assert values.Read() == (1, 2, 3)
    assert values.GetDataType().GetNumericDataType() == gdal.GDT_Int16


def test_structural_info(pair):
    v = open_root(pair[1]).OpenMDArray("v")
    assert v.GetBlockSize() == [1, 4, 6]
    assert v.GetStructuralInfo() == {"COMPRESSION": "DEFLATE", "FILTER": "SHUFFLE", "ENDIANNESS": "LITTLE"}


def test_dimensions_are_shared(pair):
    root = open_root(pair[1])
    names = [d.GetFullName() for d in root.GetDimensions()]
    assert sorted(names) == ["/lat", "/lon", "/nv", "/time"]
    assert [d.GetFullName() for d in root.OpenGroup("grp").GetDimensions()] == ["/grp/k"]
    # The variable of a dimension outlives group and dataset.
    lat = open_root(pair[1]).OpenMDArray("v").GetDimensions()[1].GetIndexingVariable()
    assert lat.ReadAsArray().tolist() == [-15, -5, 5, 15]


def test_lookup_by_full_name(pair):
    root = open_root(pair[1])
    assert root.OpenMDArrayFromFullname("/grp/sub/w").ReadAsArray().tolist() == [1, 2**63]
    assert root.OpenGroup("grp").OpenGroup("sub").GetFullName() == "/grp/sub"
    assert root.ResolveMDArray("w", "/").GetFullName() == "/grp/sub/w"
    with gdal.ExceptionMgr(False), gdal.quiet_errors():
        assert root.OpenMDArray("absent") is None
        assert root.OpenGroup("absent") is None


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_convert_equals_the_conversion_of_the_source(tmp_path, kind):
    """Without an unlimited dimension, which GDAL's netCDF driver does not write (block size 512)."""
    values = np.arange(72, dtype="i2").reshape(3, 4, 6)
    with netCDF4.Dataset(tmp_path / "s.nc", "w") as d:
        for name, size in (("time", 3), ("lat", 4), ("lon", 6)):
            d.createDimension(name, size)
            c = d.createVariable(name, "f8", (name,))
            c.units = {"time": "days since 2000-01-01", "lat": "degrees_north", "lon": "degrees_east"}[name]
            c[:] = np.arange(size)
        v = d.createVariable("v", "i2", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 4, 6), fill_value=-999)
        v.set_auto_maskandscale(False)
        v.setncatts({"units": "K", "scale_factor": 0.01, "add_offset": 273.15, "long_name": "V"})
        v[:] = values
    get_refs(tmp_path / "s.nc", tmp_path / "s.sqlite")
    for arguments in ({}, {"array": ["name=v,view=[::2,1:3,::-1]"]}):
        made = []
        for i, name in enumerate((tmp_path / "s.nc", f"MDIMREFS:{tmp_path}/s.sqlite")):
            out = str(tmp_path / f"{i}{len(arguments)}.{kind}")
            gdal.Run("mdim convert", input=str(name), output=out, **arguments)
            made.append(describe(out))
        assert made[0] == made[1]
        assert "/v" in made[1]


def test_it_can_be_a_source_of_gdals_own_mosaic(tmp_path):
    """`gdal mdim mosaic` of two stores."""
    for i in range(2):
        with netCDF4.Dataset(tmp_path / f"{i}.nc", "w") as d:
            d.createDimension("time", 2)
            d.createDimension("x", 3)
            d.createVariable("time", "f8", ("time",))[:] = [2 * i, 2 * i + 1]
            d.createVariable("v", "i4", ("time", "x"))[:] = np.arange(6).reshape(2, 3) + 10 * i
        get_refs(tmp_path / f"{i}.nc", tmp_path / f"{i}.sqlite")
    out = str(tmp_path / "m.vrt")
    gdal.Run("mdim mosaic", input=[f"MDIMREFS:{tmp_path}/{i}.sqlite" for i in range(2)], output=out)
    values = open_root(out).OpenMDArray("v").ReadAsArray()
    assert np.array_equal(values, np.concatenate([np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3) + 10]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e20, -9999])
def test_no_data_of_floats(tmp_path, value):
    with netCDF4.Dataset(tmp_path / "s.nc", "w") as d:
        d.createDimension("x", 3)
        d.createVariable("v", "f4", ("x",), fill_value=np.float32(value))[:] = [1, 2, 3]
    get_refs(tmp_path / "s.nc", tmp_path / "s.sqlite")
    found = open_root(tmp_path / "s.sqlite").OpenMDArray("v").GetNoDataValue()
    assert found == float(np.float32(value)) or (np.isnan(value) and np.isnan(found))


def test_no_data_of_64_bit_integers(tmp_path):
    with netCDF4.Dataset(tmp_path / "s.nc", "w") as d:
        d.createDimension("x", 3)
        d.createVariable("i", "i8", ("x",), fill_value=np.int64(-(2**63) + 1))[:] = [1, 2, 3]
        d.createVariable("u", "u8", ("x",), fill_value=np.uint64(2**64 - 2))[:] = [1, 2, 3]
    get_refs(tmp_path / "s.nc", tmp_path / "s.sqlite")
    root = open_root(tmp_path / "s.sqlite")
    assert root.OpenMDArray("i").GetNoDataValue() == -(2**63) + 1
    assert root.OpenMDArray("u").GetNoDataValue() == 2**64 - 2


def test_a_projected_srs(tmp_path):
    with netCDF4.Dataset(tmp_path / "s.nc", "w") as d:
        for name, size in (("y", 4), ("x", 6)):
            d.createDimension(name, size)
            c = d.createVariable(name, "f8", (name,))
            c.setncatts({"units": "m", "standard_name": f"projection_{name}_coordinate"})
            c[:] = 1000.0 * np.arange(size)
        crs = d.createVariable("polar", "i4", ())
        crs.setncatts({"grid_mapping_name": "polar_stereographic", "latitude_of_projection_origin": -90.0})
        crs.setncatts({"straight_vertical_longitude_from_pole": 0.0, "standard_parallel": -71.0})
        crs.setncatts({"false_easting": 0.0, "false_northing": 0.0, "semi_major_axis": 6378137.0})
        crs.inverse_flattening = 298.257223563
        d.createVariable("v", "f4", ("y", "x")).grid_mapping = "polar"
        d["v"][:] = 1
    get_refs(tmp_path / "s.nc", tmp_path / "s.sqlite")
    srs = [open_root(n).OpenMDArray("v").GetSpatialRef() for n in (tmp_path / "s.nc", tmp_path / "s.sqlite")]
    assert srs[1].GetName() == srs[0].GetName()
    # The multidimensional netCDF driver forgets the unit of the axes; the classic one does not.
    classic = gdal.Open(f"NETCDF:{tmp_path}/s.nc:v").GetSpatialRef()
    assert srs[1].IsSame(classic, ["IGNORE_DATA_AXIS_TO_SRS_AXIS_MAPPING=YES", "CRITERION=EQUIVALENT"])
    assert srs[1].GetLinearUnits() == classic.GetLinearUnits() == 1
    assert srs[0].GetDataAxisToSRSAxisMapping() == srs[1].GetDataAxisToSRSAxisMapping()


# Folders whose files GDAL's netCDF driver reads without aborting the process.
REAL = """argopy concise glmtools hidefix hoss intake-esm iris-sample-data l2ss-py MDAL myoisst ncmeta oisst21 rasterio
stars stitchee tidync titiler uxarray xarray-data""".split()


@pytest.mark.parametrize("folder", REAL)
def test_real_files_are_as_the_netcdf_driver_says(real_data, tmp_path, folder):
    """Each array of each file that can be scanned: type, sizes, no-data, unit, scale, SRS, attributes, a window."""
    seen, number = 0, 0
    for place, _, files in os.walk(os.path.join(real_data, folder)):
        for name in sorted(files):
            source = os.path.join(place, name)
            number += 1
            store = str(tmp_path / f"{number}.sqlite")
            try:
                get_refs(source, store)
                theirs = gdal.OpenEx(source, gdal.OF_MULTIDIM_RASTER, allowed_drivers=["netCDF"]).GetRootGroup()
            except RuntimeError:
                continue  # What can be scanned is tested elsewhere.
            for group in each_group(open_root(store)):
                for array_name in group.GetMDArrayNames():
                    mine = group.OpenMDArray(array_name)
                    what = (source, mine.GetFullName())
                    other = theirs.OpenMDArrayFromFullname(mine.GetFullName())
                    differences = compare(mine, other)
                    assert not differences, (what, differences)
                    seen += 1
    if seen == 0:
        pytest.skip(f"{folder}: no file that can be scanned")


def compare(mine, other):
    def of(array):
        srs = array.GetSpatialRef()
        sizes = [d.GetSize() for d in array.GetDimensions()]
        return {
            "type": (array.GetDataType().GetClass(), array.GetDataType().GetNumericDataType()),
            "sizes": sizes,
            "no data": repr(array.GetNoDataValue()),
            "unit": array.GetUnit(),
            "scale": (array.GetScale(), array.GetOffset()),
            "srs": srs and (srs.GetName(), srs.GetDataAxisToSRSAxisMapping()),
            "attributes": repr(sorted(describe_attributes(array, ["SHOW_ALL=YES"]).items())),
            "values": repr(array.Read([0] * len(sizes), [min(s, 30) for s in sizes])) if 0 not in sizes else "",
        }

    a, b = of(mine), of(other)
    if mine.GetDataType().GetClass() == gdal.GEDTC_STRING:
        # The netCDF driver joins characters along the last dimension, and has a single one as a number. Here they stay
        # characters, as other readers of the format have them.
        if len(a["sizes"]) == len(b["sizes"]) + 1:
            count = [min(s, 30) for s in b["sizes"]] + a["sizes"][-1:]
            text = np.array(mine.Read([0] * len(count), count)).reshape(count)
            joined = ["".join(row) for row in text.reshape(-1, count[-1])]
            a["sizes"], a["values"] = a["sizes"][:-1], repr(joined)
            b["values"] = repr(list(other.Read([0] * len(count[:-1]), count[:-1])))
        elif a["sizes"] == b["sizes"] and other.GetDataType().GetClass() == gdal.GEDTC_NUMERIC:
            count = [min(s, 30) for s in a["sizes"]]
            characters = np.array(mine.Read([0] * len(count), count)).ravel()
            a["type"], a["values"] = b["type"], repr(bytearray(b"".join(c.encode() or b"\0" for c in characters)))
    return {k: (str(a[k])[:3000], str(b[k])[:3000]) for k in a if a[k] != b[k]}
