#!/usr/bin/env python3
"""Lists a million chunks of each kind of HDF5 chunk index, references only: H5Dchunk_iter from C, h5py, hdf5-reader.

usage: index.py [CHUNKS]

One thread, warm cache, medians.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))

# What makes each kind of index: the versions of the format, the largest shape.
KINDS = {
    "v1 B-tree": (("earliest", "v108"), (None, None)),
    "v2 B-tree": (("v110", "v110"), (None, None)),
    "fixed array": (("v110", "v110"), None),
    "extensible array": (("v110", "v110"), (None, 4)),
}


def make(path, libver, largest, chunks):
    """Write a file with an array of `chunks` chunks of 4 bytes."""
    with h5py.File(path + ".new", "w", libver=libver) as f:
        data = np.arange(chunks * 4, dtype="i1").reshape(chunks, 4)
        f.create_dataset("v", data=data, chunks=(1, 4), maxshape=largest)
    os.rename(path + ".new", path)


def chunk_iter(path, rounds=5):
    """Seconds of h5py's own listing."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        found = []
        with h5py.File(path) as f:
            f["v"].id.chunk_iter(found.append)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    chunks = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    folder = os.path.join(tempfile.gettempdir(), "mdimrefs-bench")
    os.makedirs(folder, exist_ok=True)
    program = os.path.join(folder, "chunk_iter")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "hdf5"], check=True, capture_output=True, text=True)
    source = os.path.join(HERE, "chunk_iter.c")
    subprocess.run(["gcc", "-O3", "-o", program, source, *flags.stdout.split()], check=True)
    print(f"{chunks} chunks, microseconds a chunk")
    for kind, (libver, largest) in KINDS.items():
        path = os.path.join(folder, f"index-{kind.replace(' ', '-')}-{chunks}.h5")
        if not os.path.exists(path):
            make(path, libver, largest, chunks)
        bench = ["cargo", "bench", "-q", "--no-default-features", "--bench", "scan", "--", "--peer", path]
        out = subprocess.run(bench, check=True, capture_output=True, text=True, cwd=os.path.dirname(HERE)).stdout
        ours, reader = (float(n) for n in re.findall(r"([\d.]+) µs a chunk", out))
        count, seconds = subprocess.run(
            [program, "v", "7", path], check=True, capture_output=True, text=True
        ).stdout.split()
        assert int(count) == chunks, count
        print(f"{kind}: {ours:.3f}")
        peers = {
            "H5Dchunk_iter": float(seconds),
            "h5py chunk_iter": chunk_iter(path),
            "hdf5-reader": reader * chunks / 1e6,
        }
        for name, seconds in peers.items():
            mine = seconds / chunks * 1e6
            print(f"  {name:16} {mine:6.3f}   {mine / ours:5.1f} times")


if __name__ == "__main__":
    main()
