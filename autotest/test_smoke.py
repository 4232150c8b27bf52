"""One small file through the whole: made by h5py, scanned, read by GDAL."""

import h5py
import numpy as np
import pytest
from osgeo import gdal

gdal.UseExceptions()

pytestmark = pytest.mark.skipif(gdal.GetDriverByName("MDIMREFS") is None, reason="the plugin is not loaded")


def test_one_file(tmp_path):
    source, store = str(tmp_path / "a b.h5"), str(tmp_path / "é store.sqlite")
    values = np.arange(7 * 5, dtype=">i2").reshape(7, 5)
    with h5py.File(source, "w") as f:
        f.create_dataset("grp/v", data=values, chunks=(3, 2), shuffle=True, compression="gzip", fletcher32=True)
    assert gdal.Run(["mdim", "get-refs"], {"input": [source], "output": store})
    for name in (store, f"MDIMREFS:{store}", f'MDIMREFS:"{store}"'):
        array = gdal.OpenEx(name, gdal.OF_MULTIDIM_RASTER).GetRootGroup().OpenMDArrayFromFullname("/grp/v")
        assert array.GetBlockSize() == [3, 2]
        assert np.array_equal(array.ReadAsArray(), values)
        assert np.array_equal(array.ReadAsArray([6, 4], [4, 3], [-2, -2]), values[::-2, ::-2][:4, :3])
    band = gdal.Open(f'MDIMREFS:"{store}":/grp/v')
    assert np.array_equal(band.ReadAsArray(), values)


def test_contiguous_in_pieces(tmp_path):
    source, store = str(tmp_path / "a.h5"), str(tmp_path / "s.sqlite")
    values = np.arange(30 * 4 * 5, dtype="<f4").reshape(30, 4, 5)
    with h5py.File(source, "w") as f:
        f["v"] = values
        offset = f["v"].id.get_offset()
    gdal.Run(["mdim", "get-refs"], {"input": [source], "output": store, "split-contiguous": "700"})
    array = gdal.OpenEx(store, gdal.OF_MULTIDIM_RASTER).GetRootGroup().OpenMDArray("v")
    assert array.GetBlockSize() == [6, 4, 5]
    assert np.array_equal(array.ReadAsArray(), values)
    info = array.GetRawBlockInfo([2, 0, 0])
    assert (info.GetOffset(), info.GetSize()) == (offset + 2 * 480, 480)
    with pytest.raises(RuntimeError, match="split-contiguous"):
        gdal.Run(["mdim", "get-refs"], {"input": [source], "output": store + "2", "split-contiguous": "x"})
