"""Writes the small HDF5 files of corpus/hdf5, every kind of chunk index, group, attribute and type, and the chunks of
corpus/codec. Needs h5py, hdf5plugin, numcodecs.

scripts/with-gdal python3 fuzz/make_corpus.py
"""

import os

import h5py
import hdf5plugin
import numcodecs
import numpy as np

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
HERE = os.path.join(CORPUS, "hdf5")


def create(name, libver="earliest", **options):
    return h5py.File(os.path.join(HERE, name + ".h5"), "w", libver=libver, **options)


def indexes(name, libver):
    with create(name, libver) as f:
        for i, maxshape in enumerate([(8, 6), (None, 6), (8, None), (None, None), (20, 9)]):
            for filters in ({}, {"compression": 1, "shuffle": True}, {"fletcher32": True}):
                v = f.create_dataset(f"{i}{len(filters)}", (8, 6), "<i2", maxshape=maxshape, chunks=(2, 3), **filters)
                v[2:5] = np.arange(18).reshape(3, 6)
        f.create_dataset("single", (4, 4), ">f4", chunks=(4, 4), compression=1)[...] = 1
        early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        early.set_chunk((2, 2))
        early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        h5py.h5d.create(f.id, b"implicit", h5py.h5t.STD_I16BE, h5py.h5s.create_simple((4, 4)), early)


def pages(name, maxshape):
    with create(name, ("v110", "v110")) as f:
        v = f.create_dataset("v", (2200,), "u1", chunks=(1,), maxshape=maxshape)
        v[5], v[1030], v[2190] = 1, 2, 3


def types(name, libver):
    with create(name, libver) as f:
        f.attrs["text"] = "some text"
        f.attrs["numbers"] = np.arange(3, dtype="<f8")
        f.attrs.create("strings", ["a", "bc"], dtype=h5py.string_dtype())
        f["contiguous"] = np.arange(4, dtype="<u8")
        f["scalar"] = np.float32(3)
        f.create_dataset("strings", data=["x", "yz"], dtype=h5py.string_dtype())
        f["fixed"] = np.array([b"ab", b"c"])
        f.create_dataset("enum", (2,), h5py.enum_dtype({"A": 1, "B": 2}, "u1"))
        f.create_dataset("compound", (2,), np.dtype([("a", "i4"), ("b", "f8")]))
        f.create_dataset("reference", (1,), h5py.ref_dtype)
        f["named"] = np.dtype("<f4")
        f.create_dataset("of_named", (2,), f["named"])
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I16LE, h5py.h5s.create_simple((3,)), compact)
        f["x"] = np.arange(3.0)
        f["x"].make_scale("x")
        f["y"] = np.arange(3.0)
        f["y"].dims[0].attach_scale(f["x"])
        f["soft"], f["far"] = h5py.SoftLink("/x"), h5py.ExternalLink("b.h5", "/x")


def many(name):
    """Dense links and attributes, a fractal heap with indirect blocks."""
    with create(name, "latest", track_order=True) as f:
        g = f.create_group("g", track_order=True)
        for i in range(24):
            g.create_group(f"group {i}")
            g.attrs[f"attribute {i}"] = "x" * 40


for version, libver in (("1", "earliest"), ("2", "latest"), ("3", ("v110", "v110"))):
    indexes("index" + version, libver)
    types("types" + version, libver)
pages("extensible_pages", (None,))
pages("fixed_pages", (2300,))
many("dense")
with create("user_block", userblock_size=512) as f:
    f["v"] = np.arange(3)
for entry in sorted(os.listdir(HERE)):
    print(os.path.getsize(os.path.join(HERE, entry)), entry)

# The first two bytes choose codecs of `CODECS` in src/targets.rs.
VALUES = (np.arange(1000) % 77).astype("<i4")
CHUNKS = {0: numcodecs.Zlib(), 1: numcodecs.Zstd(), 2: numcodecs.LZ4(), 4: numcodecs.BZ2(), 5: numcodecs.LZMA()}
os.makedirs(os.path.join(CORPUS, "codec"), exist_ok=True)


def write(number, name, encoded):
    with open(os.path.join(CORPUS, "codec", name), "wb") as f:
        f.write(bytes([number, 255]) + bytes(encoded))


for number, codec in CHUNKS.items():
    write(number, codec.codec_id, codec.encode(VALUES))
for i, cname in enumerate(("blosclz", "lz4", "zlib", "zstd")):
    write(3, f"blosc_{cname}", numcodecs.Blosc(cname, 5, i % 3).encode(VALUES))
FILTERS = {
    16: {"compression": "szip", "compression_opts": ("nn", 8)},
    19: {"scaleoffset": 0},
    21: {"compression": "lzf"},
    22: dict(hdf5plugin.LZ4()),
    23: dict(hdf5plugin.Bitshuffle()),
    24: dict(hdf5plugin.Bitshuffle(nelems=8, cname="zstd")),
}
for number, options in FILTERS.items():
    with h5py.File("memory", "w", driver="core", backing_store=False) as f:
        v = f.create_dataset("v", data=VALUES, chunks=(1000,), **options)
        write(number, f"hdf5_{number}", v.id.read_direct_chunk((0,))[1])
