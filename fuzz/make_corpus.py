"""Writes the small HDF5 files of corpus/hdf5: every kind of chunk index, group, attribute and type. Needs h5py.

scripts/with-gdal python3 fuzz/make_corpus.py
"""

import os

import h5py
import numpy as np

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "hdf5")


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
