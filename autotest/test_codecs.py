"""Chunks that other software encoded: HDF5 filters (h5py, hdf5plugin), numcodecs, read through a store."""

import json

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import pytest
from conftest import ForeignStore, get_refs, open_root
from osgeo import gdal

gdal.UseExceptions()

NUMBERS = ["i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", ">u4", "<i8", ">u8", "<f4", ">f4", "<f8", ">f8"]
SHAPES = [((37, 50), (16, 16)), ((1000,), (300,)), ((5, 3, 7), (2, 3, 4)), ((4,), (9,))]

FILTERS = {
    "lzf": {"compression": "lzf"},
    "lzf shuffled": {"compression": "lzf", "shuffle": True, "fletcher32": True},
    "szip nn": {"compression": "szip", "compression_opts": ("nn", 8)},
    "szip ec": {"compression": "szip", "compression_opts": ("ec", 16)},
    "zstd": dict(hdf5plugin.Zstd(5)),
    "lz4": dict(hdf5plugin.LZ4()),
    "lz4 blocks": dict(hdf5plugin.LZ4(nbytes=64)),
    "bzip2": dict(hdf5plugin.BZip2()),
    "bitshuffle": dict(hdf5plugin.Bitshuffle(cname="none")),
    "bitshuffle lz4": dict(hdf5plugin.Bitshuffle(cname="lz4")),
    "bitshuffle zstd": dict(hdf5plugin.Bitshuffle(nelems=64, cname="zstd")),
    **{
        f"blosc {name} {shuffle}": dict(hdf5plugin.Blosc(cname=name, clevel=7, shuffle=shuffle))
        for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
        for shuffle in (0, 1, 2)
    },
}


def values(dtype, shape, seed=0):
    """Some of it smooth, some random, some constant."""
    rng = np.random.default_rng(seed)
    v = np.cumsum(rng.integers(-2, 4, int(np.prod(shape)))) % 120
    v[len(v) // 2 :] = np.where(rng.random(len(v) - len(v) // 2) < 0.5, 7, rng.integers(0, 120, len(v) - len(v) // 2))
    return v.reshape(shape).astype(dtype)


@pytest.mark.parametrize("name", FILTERS)
def test_hdf5_filters(tmp_path, name):
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    want = {}
    with h5py.File(source, "w") as f:
        for number, dtype in enumerate(NUMBERS):
            for i, (shape, chunks) in enumerate(SHAPES):
                if i and number % 4:
                    continue
                key = f"v{number}_{i}"
                maxshape = tuple(max(s, c) for s, c in zip(shape, chunks, strict=True))
                want[key] = values(dtype, shape, number)
                try:
                    f.create_dataset(key, data=want[key], chunks=chunks, maxshape=maxshape, **FILTERS[name])
                except (ValueError, OSError):
                    # szip refuses chunks that are too small for it
                    assert "szip" in name
                    del want[key]
    assert len(want) > 10
    # Most filters leave a chunk alone that would not shrink.
    get_refs(source, store, **{"masked-chunks": "inline"})
    root = open_root(store)
    for key, expected in want.items():
        got = root.OpenMDArray(key).ReadAsArray()
        assert got.dtype == expected.dtype.newbyteorder("="), key
        assert np.array_equal(got, expected), key


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("method", ["nn", "ec"])
def test_szip(tmp_path, method, dtype):
    """Numbers of all kinds: constant, smooth, noisy, at the ends of their type; rows that end within a block."""
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    rng = np.random.default_rng(3)
    want = {}
    with h5py.File(source, "w") as f:
        for block in (2, 4, 8, 16, 32):
            for number, scale in enumerate([0, 1, 3, 40, 1000, 1e9]):
                name = f"v{block}_{number}"
                noise = rng.normal(0, 1, (41, 300)) * scale * (rng.random((41, 300)) < [0.02, 0.5, 1][number % 3])
                want[name] = noise.astype(dtype) if "f" in dtype else noise.astype("i8").astype(dtype)
                opts = {"compression": "szip", "compression_opts": (method, block)}
                f.create_dataset(name, data=want[name], chunks=(20, [100, 133][number % 2]), **opts)
    get_refs(source, store, **{"masked-chunks": "inline"})
    root = open_root(store)
    for name, expected in want.items():
        assert np.array_equal(root.OpenMDArray(name).ReadAsArray(), expected), name


@pytest.mark.parametrize("dtype", ["<i1", "<u2", ">i2", "<i4", ">u4", "<i8"])
@pytest.mark.parametrize("fill", [None, 5])
def test_scaleoffset_of_integers(tmp_path, dtype, fill):
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    expected = {
        "narrow": values(dtype, (30, 20)),
        "constant": np.full((30, 20), 9, dtype),
        "whole": np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (30, 20)).astype(dtype),
        "with fill": np.where(np.arange(600).reshape(30, 20) % 3 == 0, 5, values(dtype, (30, 20))).astype(dtype),
    }
    with h5py.File(source, "w") as f:
        for name, v in expected.items():
            f.create_dataset(name, data=v, chunks=(7, 9), scaleoffset=0, fillvalue=fill)
        expected = {name: f[name][()] for name in expected}
    get_refs(source, store)
    for name, v in expected.items():
        assert np.array_equal(open_root(store).OpenMDArray(name).ReadAsArray(), v), name


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8"])
@pytest.mark.parametrize("decimals", [0, 1, 3])
@pytest.mark.parametrize("fill", [None, -99.5])
def test_scaleoffset_of_floats(tmp_path, dtype, decimals, fill):
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    v = np.random.default_rng(1).normal(100, 30, (30, 20)).astype(dtype)
    if fill is not None:
        v[::3] = fill
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=v, chunks=(7, 9), scaleoffset=decimals, fillvalue=fill)
        expected = f["v"][()]
    get_refs(source, store)
    assert np.array_equal(open_root(store).OpenMDArray("v").ReadAsArray(), expected)


def test_nbit_of_whole_numbers(tmp_path):
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((7,))
    plist.set_filter(5)
    with h5py.File(source, "w") as f:
        h5py.h5d.create(f.id, b"v", h5py.h5t.STD_I16BE, h5py.h5s.create_simple((20,)), plist)
        f["v"][:] = np.arange(20) * 300 - 2000
    get_refs(source, store)
    assert np.array_equal(open_root(store).OpenMDArray("v").ReadAsArray(), np.arange(20) * 300 - 2000)


def test_unknown_filters_are_kept_by_number(tmp_path):
    """The chunks are listed; reading says which filter is missing."""
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    with h5py.File(source, "w") as f:
        f.create_dataset("v", data=values("<f4", (30, 20)), chunks=(10, 10), **hdf5plugin.Zfp(rate=8))
        f["plain"] = np.arange(3)
    get_refs(source, store)
    array = open_root(store).OpenMDArray("v")
    assert array.GetStructuralInfo() is not None and array.GetShape() == (30, 20)
    with pytest.raises(RuntimeError, match="32013.*zfp"):
        array.ReadAsArray()
    assert open_root(store).OpenMDArray("plain").ReadAsArray().tolist() == [0, 1, 2]


def codecs():
    """(name, compressor, filters, dtype)"""
    n = numcodecs
    for dtype in ("<i2", ">f4", "<f8", "u1"):
        for name, compressor in {
            "zstd": n.Zstd(3),
            "lz4": n.LZ4(),
            "bz2": n.BZ2(5),
            "lzma": n.LZMA(),
            "lzma alone": n.LZMA(format=2),
            "gzip": n.GZip(4),
            "zlib": n.Zlib(4),
            **{f"blosc {c} {s}": n.Blosc(c, 5, s) for c in ("blosclz", "lz4", "zlib", "zstd") for s in (0, 1, 2)},
            "blosc blocks": n.Blosc("lz4", 5, 1, blocksize=1000),
        }.items():
            yield f"{name} {dtype}", compressor, [], dtype
        for name, filters in {
            "shuffle": [n.Shuffle(np.dtype(dtype).itemsize)],
            "fletcher32": [n.Fletcher32()],
            "crc32": [n.CRC32()],
            "crc32c": [n.CRC32(location="end"), n.Adler32()],
            "delta": [n.Delta(dtype)],
        }.items():
            yield f"{name} {dtype}", n.Zlib(1), filters, dtype
    yield "delta to i1", None, [n.Delta("<i4", "i1")], "<i4"
    yield "astype", n.Zlib(1), [n.AsType("<i2", "<i4")], "<i4"
    yield "astype of floats", n.Zlib(1), [n.AsType("<f4", "<f8")], "<f8"
    yield "quantize", n.Zlib(1), [n.Quantize(2, "<f8", "<f4")], "<f8"
    yield "packbits", None, [n.PackBits()], "|b1"
    for dtype, astype in (("<f8", "<i2"), ("<f4", "u1"), ("<f4", "<f4")):
        yield f"fixedscaleoffset {dtype} {astype}", None, [n.FixedScaleOffset(3, 2, dtype, astype)], dtype


CODECS = list(codecs())


@pytest.mark.parametrize("case", CODECS, ids=[c[0] for c in CODECS])
def test_numcodecs(tmp_path, case):
    _, compressor, filters, dtype = case
    whole = values("f8" if dtype[-2] == "f" else "i8", (1003,)) % 60
    whole = (whole / 4 if dtype[-2] == "f" else whole).astype(dtype)
    data, rows, decoded = b"", [], []
    for i in range(0, 1003, 501):
        chunk = np.zeros(501, dtype)
        chunk[: len(whole[i : i + 501])] = whole[i : i + 501]
        encoded = chunk
        for codec in [*filters, *([compressor] if compressor else [])]:
            encoded = codec.encode(encoded)
        encoded = bytes(np.ascontiguousarray(encoded).view("u1")) if isinstance(encoded, np.ndarray) else bytes(encoded)
        rows.append((1, i // 501, 1, len(data), len(encoded), "", None))
        data += encoded
        for codec in [*([compressor] if compressor else []), *filters[::-1]]:
            encoded = codec.decode(encoded)
        decoded.append(np.frombuffer(encoded, dtype))
    (tmp_path / "data.bin").write_bytes(data)
    store = ForeignStore(tmp_path / "s.sqlite")
    store.sql.execute("INSERT INTO sources VALUES (1, ?)", [str(tmp_path / "data.bin")])
    codec = {
        "compressor": compressor.get_config() if compressor else None,
        "filters": [f.get_config() for f in filters] or None,
    }
    store.add_array("v", ["x"], [1003], [501], dtype, 0, json.loads(json.dumps(codec)))
    store.add_chunks("v", 1, rows)
    got = open_root("MDIMREFS:" + store.close()).OpenMDArray("v").ReadAsArray()
    want = np.concatenate(decoded)[:1003]
    assert np.array_equal(got, want.astype(want.dtype.newbyteorder("=")) if dtype != "|b1" else want.view("u1"))
