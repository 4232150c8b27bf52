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
