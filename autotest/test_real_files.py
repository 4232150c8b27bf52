"""Every array of every real HDF5 file, through a store, equals what h5py reads."""

import os

import h5py
import numpy as np
import pytest
from conftest import get_refs
from osgeo import gdal

gdal.UseExceptions()

REAL = os.path.join(os.environ.get("MDIMREFS_TEST_DATA", "../shared/data"), "real")

#: Why an array can't be carried: part of the message.
REASONS = (
    "null dataspace",
    "type compound",
    "type reference",
    "type region reference",
    "type opaque",
    "type array",
    "variable-length values that are not text",
    "HDF5 filter",
)


def hdf5_files():
    for folder, _, names in sorted(os.walk(REAL)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if h5py.is_hdf5(path):
                yield os.path.relpath(path, REAL)


FILES = list(hdf5_files())


def test_there_are_real_files():
    if not FILES:
        pytest.skip(f"MDIMREFS_TEST_DATA: there is no folder {REAL}: REAL FILES ARE NOT TESTED")


def datasets(file):
    found = {}
    file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def is_dimension_alone(dataset):
    name = dataset.attrs.get("NAME", b"")
    return isinstance(name, bytes) and name.startswith(b"This is a netCDF dimension but not a netCDF variable")


def strings(values):
    return [v.decode("utf8", "replace").rstrip("\0") if isinstance(v, bytes) else v for v in np.ravel(values)]


@pytest.mark.parametrize("name", FILES)
def test_equals_h5py(tmp_path, name, errors):
    source, store = os.path.join(REAL, name), str(tmp_path / "s.sqlite")
    try:
        f = h5py.File(source)
    except OSError as error:
        pytest.skip(f"libhdf5 rejects it: {error}")
    with f:
        want = {n.replace("_nc4_non_coord_", ""): d for n, d in datasets(f).items() if not is_dimension_alone(d)}
        if not want:
            return
        try:
            get_refs(source, store, **{"masked-chunks": "inline"})
        except RuntimeError as error:
            reasons = str(error).split("\n")[2:]
            assert "no array that can be carried" in str(error) and len(reasons) == len(want)
            assert all(any(part in reason for part in REASONS) for reason in reasons)
            return
        refused = {text.split('array "')[1].split('"')[0]: text for _, text in errors if "is left out" in text}
        ds = gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER)
        root = ds.GetRootGroup()
        arrays = {n.lstrip("/") for n in root.GetMDArrayFullNamesRecursive() or []}
        for array_name, dataset in want.items():
            if array_name in refused:
                assert any(reason in refused[array_name] for reason in REASONS), refused[array_name]
                continue
            assert array_name in arrays
            array = root.OpenMDArrayFromFullname("/" + array_name)
            values = dataset[()]
            if dataset.attrs.get("_Unsigned") in (b"true", "true"):
                values = values.view(values.dtype.str.replace("i", "u"))
            if array.GetDataType().GetClass() == gdal.GEDTC_STRING:
                got = array.Read() if 0 not in np.shape(values) else []
                assert strings(got) == strings(values), array_name
            elif 0 not in np.shape(values):
                got = array.ReadAsArray()
                assert np.shape(got) == np.shape(values)
                assert np.array_equal(got, values, equal_nan=values.dtype.kind in "fc"), array_name
