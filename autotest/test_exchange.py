"""Exports read back by other software: values equal, bit for bit, to what MDIMREFS and the sources give.

GDAL's Zarr driver always; xarray with fsspec and zarr where they are installed.
"""

import json

import h5py
import numpy as np
import pytest
from conftest import get_refs, open_root
from osgeo import gdal

gdal.UseExceptions()


def export(store, output, **arguments):
    arguments.setdefault("format", "kerchunk-json")
    return gdal.Run(["driver", "mdimrefs", "export"], store=str(store), output=str(output), **arguments)[
        "output-string"
    ]


def make_file(path, day=0):
    """Arrays that differ in what an exchange may get wrong."""
    rng = np.random.default_rng(day)
    with h5py.File(path, "w") as f:
        f.attrs["title"] = "exchange"

        def scale(name, values):
            f[name] = np.asarray(values, "f8")
            f[name].make_scale(name)

        scale("time", [float(day)])
        f["time"].attrs["units"] = "days since 2000-01-01"
        scale("y", np.arange(5))
        scale("x", np.arange(7) * 0.25)

        def add(name, dtype, **options):
            v = f.create_dataset(name, (1, 5, 7), dtype, **options)
            for i, dim in enumerate(("time", "y", "x")):
                v.dims[i].attach_scale(f[dim])
            return v

        numbers = rng.integers(-900, 900, (1, 5, 7))
        add("packed", "<i2", chunks=(1, 2, 3), shuffle=True, compression="gzip", fillvalue=-999)[:] = numbers
        add("big", ">f4", chunks=(1, 5, 7), compression="gzip")[:] = rng.random((1, 5, 7))
        add("checked", "<i4", chunks=(1, 3, 7), shuffle=True, compression="gzip", fletcher32=True)[:] = numbers
        add("plain", "<f8")[:] = rng.random((1, 5, 7))
        sparse = add("sparse", "<i2", chunks=(1, 2, 3), compression="gzip", fillvalue=7)
        sparse[0, 0:2, 3:6] = numbers[0, 0:2, 3:6]
        f["sparse"].attrs["long_name"] = "mostly never written"


ARRAYS = ["packed", "big", "checked", "plain", "sparse"]


@pytest.fixture()
def series(tmp_path):
    files = [tmp_path / f"{day}.nc" for day in range(3)]
    for day, file in enumerate(files):
        make_file(file, day)
    gdal.Run("mdim mosaic", input=[str(f) for f in files], output=str(tmp_path / "m.vrt"))
    get_refs(tmp_path / "m.vrt", tmp_path / "s.sqlite")
    expected = {}
    for name in ARRAYS:
        expected[name] = np.concatenate([h5py.File(f)[name][:] for f in files])
    return tmp_path, expected


def native(array):
    return array.astype(array.dtype.newbyteorder("="))


def same(a, b):
    return a.shape == b.shape and native(a).tobytes() == native(b).tobytes()


@pytest.mark.parametrize("leave_out", [False, True])
def test_gdal_zarr_reads_kerchunk_json(series, leave_out):
    folder, expected = series
    arrays = [a for a in ARRAYS if a != "checked"]
    export(folder / "s.sqlite", folder / "refs.json", array=arrays + ["time", "y", "x"], leave_out_absent=leave_out)
    ours = open_root(folder / "s.sqlite")
    zarr = open_root(f'ZARR:"/vsikerchunk_json_ref/{{{folder}/refs.json}}"')
    for name in arrays:
        theirs = zarr.OpenMDArray(name).ReadAsArray()
        assert same(theirs, expected[name]), name
        assert same(ours.OpenMDArray(name).ReadAsArray(), theirs), name
    for name, values in (("time", [0, 1, 2]), ("y", range(5)), ("x", np.arange(7) * 0.25)):
        assert np.array_equal(zarr.OpenMDArray(name).ReadAsArray(), values)
    assert [d.GetName() for d in zarr.OpenMDArray("packed").GetDimensions()] == ["time", "y", "x"]


@pytest.mark.parametrize("leave_out", [False, True])
def test_xarray_reads_kerchunk_json(series, leave_out):
    xarray = pytest.importorskip("xarray")
    zarr = pytest.importorskip("zarr")
    fsspec = pytest.importorskip("fsspec")
    folder, expected = series
    export(folder / "s.sqlite", folder / "refs.json", leave_out_absent=leave_out)
    references = fsspec.filesystem(
        "reference",
        fo=str(folder / "refs.json"),
        remote_protocol="file",
        asynchronous=True,
        remote_options={"asynchronous": True},
    )
    store = zarr.storage.FsspecStore(references)
    options = {"consolidated": False, "zarr_format": 2, "chunks": None}
    with xarray.open_zarr(store, **options, mask_and_scale=False, decode_times=False) as data:
        assert data.attrs["title"] == "exchange"
        for name in ARRAYS:
            assert same(data[name].values, expected[name]), name
        assert np.array_equal(data["time"].values, [0, 1, 2])
    with xarray.open_zarr(store, **options) as data:
        # Never written is not missing: nothing of the source says so.
        if not leave_out:
            assert not np.isnan(data["sparse"].values.astype("f8")).any()


def open_references(folder, engine):
    """References in Parquet, by fsspec and zarr."""
    xarray = pytest.importorskip("xarray")
    zarr = pytest.importorskip("zarr")
    pytest.importorskip(engine)
    fsspec = pytest.importorskip("fsspec")
    reference = pytest.importorskip("fsspec.implementations.reference")
    mapper = reference.LazyReferenceMapper(str(folder), fs=fsspec.filesystem("file"), engine=engine)
    references = fsspec.filesystem(
        "reference",
        fo=mapper,
        remote_protocol="file",
        asynchronous=True,
        remote_options={"asynchronous": True},
    )
    store = zarr.storage.FsspecStore(references)
    return xarray.open_zarr(
        store, consolidated=False, zarr_format=2, chunks=None, mask_and_scale=False, decode_times=False
    )


@pytest.mark.parametrize("engine", ["pyarrow", "fastparquet"])
@pytest.mark.parametrize("record_size", [4, 10000])
def test_xarray_reads_kerchunk_parquet(series, record_size, engine):
    folder, expected = series
    export(folder / "s.sqlite", folder / "refs.parq", format="kerchunk-parquet", record_size=record_size)
    with open_references(folder / "refs.parq", engine) as data:
        assert data.attrs["title"] == "exchange"
        for name in ARRAYS:
            assert same(data[name].values, expected[name]), name
        assert np.array_equal(data["time"].values, [0, 1, 2])
        assert data["sparse"].attrs["long_name"] == "mostly never written"
    with pytest.raises(RuntimeError, match="--overwrite"):
        export(folder / "s.sqlite", folder / "refs.parq", format="kerchunk-parquet")
    # What a killed process left is no hindrance.
    (folder / "refs.parq.partial").mkdir()
    (folder / "refs.parq.partial" / "x").write_text("x")
    export(folder / "s.sqlite", folder / "refs.parq", format="kerchunk-parquet", overwrite=True, array=["packed"])
    assert sorted(f.name for f in (folder / "refs.parq").iterdir()) == [".zmetadata", "packed"]
    assert not list(folder.glob("*.partial")) + list(folder.glob("*.old"))
    other = folder / "other"
    other.mkdir()
    with pytest.raises(RuntimeError, match="not what this command writes"):
        export(folder / "s.sqlite", other, format="kerchunk-parquet", overwrite=True)


def test_refusals(series):
    folder, _ = series
    with pytest.raises(RuntimeError, match="--overwrite"):
        (folder / "refs.json").write_text(json.dumps({"version": 1, "refs": {}}))
        export(folder / "s.sqlite", folder / "refs.json")
    with pytest.raises(RuntimeError, match="no remap target"):
        export(folder / "s.sqlite", folder / "other.json", target="nowhere")
    assert not list(folder.glob("*.partial"))
