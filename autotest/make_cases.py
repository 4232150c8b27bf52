"""Writes HDF5 files with one random dataset `v` each: FOLDER, first and last number. A number always gives one file.

The cases of test_scan.py, for tests/test_hdf5_peer.rs too.
"""

import os
import sys

import h5py
import numpy as np

TYPES = ["<i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">u8", "<f2", "<f4", ">f4", "<f8", ">f8"]


def make_case(path, rng):
    """A file with one random dataset `v`; returns what was chosen, for messages."""
    rank = int(rng.integers(1, 5))
    shape = [int(n) for n in rng.integers(1, [60, 20, 9, 6][rank - 1] + 1, rank)]
    chunks = [int(rng.integers(1, n + 3)) for n in shape]
    unlimited = [bool(b) for b in rng.random(rank) < 0.3]
    room = [int(n) for n in rng.integers(0, 7, rank)]
    maxshape = [None if u else s + r for s, r, u in zip(shape, room, unlimited, strict=True)]
    chunks = [c if m is None else min(c, m) for c, m in zip(chunks, maxshape, strict=True)]
    libver = [("earliest", "v108"), ("v110", "v110"), "latest"][int(rng.integers(3))]
    dtype = TYPES[int(rng.integers(len(TYPES)))]
    options = {}
    if rng.random() < 0.6:
        options["compression"] = int(rng.integers(0, 7))
    if rng.random() < 0.4:
        options["shuffle"] = True
    if rng.random() < 0.3:
        options["fletcher32"] = True
    grown = rng.random() < 0.3
    start = [max(1, s // 2) for s in shape] if grown else shape
    with h5py.File(path, "w", libver=libver) as f:
        v = f.create_dataset(
            "v",
            shape=start,
            maxshape=maxshape,
            chunks=tuple(chunks),
            dtype=dtype,
            fillvalue=int(rng.integers(0, 100)),
            **options,
        )
        for step in range(2):
            for _ in range(int(rng.integers(0, 6))):
                corner = [int(rng.integers(0, n)) for n in v.shape]
                box = tuple(slice(c, c + int(rng.integers(1, 8))) for c in corner)
                values = rng.integers(0, 100, v[box].shape)
                v[box] = values.astype(dtype)
            if step == 0 and grown:
                v.resize(shape)
        if rng.random() < 0.2:
            v[...] = rng.integers(0, 100, v.shape).astype(dtype)
    return f"shape {shape} max {maxshape} chunks {chunks} {dtype} {libver} {options} grown {grown}"


def main():
    folder, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, last):
        make_case(os.path.join(folder, f"{number}.h5"), np.random.default_rng(number))


if __name__ == "__main__":
    main()
