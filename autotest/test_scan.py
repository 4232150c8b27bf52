"""Generated HDF5 files: every kind of chunk index, sparse and grown, with random shapes and filters, read through a
store and compared with h5py. MDIMREFS_CASES=5000 runs more cases than the usual hundred."""

import os

import h5py
import numpy as np
import pytest
from make_cases import make_case
from osgeo import gdal

gdal.UseExceptions()

pytestmark = pytest.mark.skipif(gdal.GetDriverByName("MDIMREFS") is None, reason="the plugin is not loaded")


def read_all(source, folder):
    """Every array of the file through a new store, and as h5py has it."""
    store = os.path.join(folder, "s.sqlite")
    gdal.Run(["mdim", "get-refs"], {"input": [source], "output": store, "overwrite": True, "masked-chunks": "inline"})
    group = gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER).GetRootGroup()
    with h5py.File(source) as f:
        for name in f:
            want = f[name][()]
            got = np.empty_like(want) if want.size == 0 else group.OpenMDArray(name).ReadAsArray()
            yield name, got, want


@pytest.mark.parametrize("block", range(10))
def test_random_datasets(tmp_path, block):
    cases = int(os.environ.get("MDIMREFS_CASES", "100"))
    for case in range(block, cases, 10):
        source = str(tmp_path / "case.h5")
        what = make_case(source, np.random.default_rng(case))
        for name, got, want in read_all(source, tmp_path):
            assert got.dtype.newbyteorder("=") == want.dtype.newbyteorder("=") or want.dtype == "f2", (case, what)
            assert np.array_equal(got, want), (case, what, name)


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("maxshape", [(None, 3), (3, None), (None, None), (70_000, 3), (80_000, 7)])
def test_indexes_of_many_pages(tmp_path, maxshape, filtered):
    """Arrays so large that their index has pages, of which some were never written."""
    long_axis = 1 if maxshape[0] == 3 else 0
    shape = (3, 70_000) if long_axis else (70_000, 3)
    chunks = (3, 1) if long_axis else (1, 3)
    source = str(tmp_path / "a.h5")
    rng = np.random.default_rng(1)
    with h5py.File(source, "w", libver=("v110", "v110")) as f:
        v = f.create_dataset(
            "v", shape, "u1", chunks=chunks, maxshape=maxshape, fillvalue=9, compression=1 if filtered else None
        )
        for start in (0, 100, 1023, 1500, 5000, 16_000, 33_333, 60_000, 69_900):
            part = rng.integers(0, 200, (3, 90) if long_axis else (90, 3), "u1")
            if long_axis:
                v[:, start : start + 90] = part
            else:
                v[start : start + 90] = part
    ((_, got, want),) = read_all(source, tmp_path)
    assert np.array_equal(got, want)


def test_every_page_written(tmp_path):
    source = str(tmp_path / "a.h5")
    with h5py.File(source, "w", libver=("v110", "v110")) as f:
        for name, maxshape in (("extensible", (None,)), ("fixed", (90_000,))):
            f.create_dataset(name, data=np.arange(90_000, dtype="<u4"), chunks=(1,), maxshape=maxshape)
    for name, got, want in read_all(source, tmp_path):
        assert np.array_equal(got, want), name


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_links(tmp_path, libver):
    """A link within the file is another name for an array; one to another file says which file to name."""
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    with h5py.File(source, "w", libver=libver) as f:
        f["g/data"] = values
        f["soft"] = h5py.SoftLink("/g/data")
        f["g/beside"] = h5py.SoftLink("./data")
        f["group"] = h5py.SoftLink("/g")
        f["far"] = h5py.SoftLink("group/beside")
        f["elsewhere"] = h5py.ExternalLink("other.h5", "/there")
        f["loop"], f["loop2"] = h5py.SoftLink("/loop2"), h5py.SoftLink("/loop")
        f["nowhere"] = h5py.SoftLink("/not/there")

    def run(*arrays):
        gdal.Run("mdim get-refs", input=[source], output=store, overwrite=True, array=list(arrays))
        return gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER).GetRootGroup()

    for name in ("g/data", "soft", "g/beside", "group/data", "far"):
        assert np.array_equal(run(name).OpenMDArrayFromFullname("/" + name).ReadAsArray(), values), name
    root = run("soft=renamed", "far")
    assert np.array_equal(root.OpenMDArray("renamed").ReadAsArray(), values)
    assert np.array_equal(root.OpenMDArray("far").ReadAsArray(), values)
    for name in ("loop", "nowhere", "group/nothing"):
        with pytest.raises(RuntimeError, match=name):
            run(name)
    with pytest.raises(RuntimeError, match='"/there" in the file "other.h5"'):
        run("elsewhere")
    # Without a choice: each array once, by the name of its own, as GDAL's HDF5 driver lists them.
    gdal.Run("mdim get-refs", input=[source], output=store, overwrite=True)
    root = gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER).GetRootGroup()
    assert root.GetMDArrayNames() in (None, []) and root.OpenGroup("g").GetMDArrayNames() == ["data"]


def test_external_links(tmp_path):
    """What is behind a link to another file reads as h5py reads it, and that file is a source."""
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    values = np.arange(12, dtype="<i4").reshape(3, 4)
    with h5py.File(tmp_path / "b.h5", "w") as f:
        # As chunks: what is stored within an object header is no range of bytes to refer to.
        f.create_dataset("data", data=values, chunks=(3, 4))
        f["contiguous"] = values * 3
        f.create_dataset("g/chunked", data=values * 2, chunks=(2, 2), compression="gzip")
        sparse = f.create_dataset("g/sparse", (3, 4), "<i4", chunks=(2, 2), fillvalue=-1)
        sparse[:2, :2] = 5
        f.create_dataset("g/none", (3, 4), "<i4", chunks=(2, 2), fillvalue=-7)
        f["taken"], f["other"] = values + 1, values + 2
    with h5py.File(tmp_path / "c.h5", "w") as f:
        f["deep"] = h5py.ExternalLink("b.h5", "/data")
    with h5py.File(source, "w") as f:
        f["own"] = values - 1
        f["data"] = h5py.ExternalLink("b.h5", "/data")
        f["renamed"] = h5py.ExternalLink(str(tmp_path / "b.h5"), "/contiguous")
        f["group"] = h5py.ExternalLink("b.h5", "/g")
        f["taken"] = h5py.ExternalLink("b.h5", "/other")
        f["deep"] = h5py.ExternalLink("c.h5", "/deep")
        f["lost"] = h5py.ExternalLink("nowhere.h5", "/data")
        f["nothing"] = h5py.ExternalLink("b.h5", "/not/there")
        f["itself"] = h5py.ExternalLink("a.h5", "/itself")

    def run(name):
        gdal.Run("mdim get-refs", input=[source], output=store, overwrite=True, array=[name])
        return gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER).GetRootGroup().OpenMDArrayFromFullname("/" + name)

    for name in ("own", "data", "renamed", "group/chunked", "group/sparse", "group/none"):
        with h5py.File(source) as f:
            expected = f[name][()]
        assert np.array_equal(run(name).ReadAsArray(), expected), name
    for name, what in (
        ("taken", "another array of the link's name"),
        ("deep", "a link to another file again"),
        ("lost", "can't be read"),
        ("nothing", "no such object"),
        ("itself", "a link to another file again"),
    ):
        with pytest.raises(RuntimeError, match=what):
            run(name)
    # All together: the file behind the links is a source beside the one that has them.
    gdal.Run("mdim get-refs", input=[source], output=store, overwrite=True)
    root = gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER).GetRootGroup()
    with h5py.File(source) as f:
        for name in ("own", "data", "renamed"):
            assert np.array_equal(root.OpenMDArray(name).ReadAsArray(), f[name][()]), name
    data = gdal.OpenEx(store, gdal.OF_VECTOR)
    assert sorted(os.path.basename(f["source"]) for f in data.GetLayerByName("sources")) == ["a.h5", "b.h5"]
