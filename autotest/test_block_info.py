"""`gdal mdim get-refs --of DRIVER`: the block-info layer of one array, in a format of GDAL's own."""

import h5py
import numpy as np
import pytest
from conftest import get_refs
from osgeo import gdal, ogr

gdal.UseExceptions()


@pytest.fixture()
def source(tmp_path):
    path = str(tmp_path / "a.h5")
    with h5py.File(path, "w") as f:
        v = f.create_dataset("v", (5, 6), "<i2", chunks=(2, 3), fillvalue=-9, shuffle=True, compression=4)
        v[2:4] = np.arange(12).reshape(2, 6)
        f["other"] = np.arange(3)
    return path


def h5py_chunks(path, name):
    """Key of each chunk that was written: offset and size."""
    with h5py.File(path) as f:
        found = []
        f[name].id.chunk_iter(found.append)
        chunks = f[name].chunks
        return {
            tuple(o // c for o, c in zip(i.chunk_offset, chunks, strict=True)): (i.byte_offset, i.size) for i in found
        }


@pytest.mark.parametrize("driver, name", [("GPKG", "x.gpkg"), ("CSV", "x.csv"), ("GeoJSON", "x.json")])
def test_rows(tmp_path, source, driver, name):
    output = str(tmp_path / name)
    get_refs(source, output, array=["v"], of=driver)
    data = gdal.OpenEx(output, gdal.OF_VECTOR)
    layer = data.GetLayer(0)
    want = h5py_chunks(source, "v")
    rows = {}
    for row in layer:
        item = row.items()
        key = (int(item["dim_0"]), int(item["dim_1"]))
        assert key not in rows
        rows[key] = item
    assert set(rows) == {(i, j) for i in range(3) for j in range(2)}
    for key, item in rows.items():
        if key in want:
            assert (int(item["offset"]), int(item["size"])) == want[key]
            assert int(item["present"]) == 1 and item["path"] == source
            assert item["info"] == "COMPRESSION=DEFLATE; FILTER=SHUFFLE; ENDIANNESS=LITTLE"
        else:
            assert int(item["present"]) == 0 and item.get("offset") in (None, "")


def test_layer_metadata(tmp_path, source):
    output = str(tmp_path / "x.gpkg")
    get_refs(source, output, array=["v"], of="GPKG")
    data = gdal.OpenEx(output, gdal.OF_VECTOR)
    metadata = data.GetLayer("refs_v").GetMetadata()
    assert metadata["ARRAY_NAME"] == "/v" and metadata["DTYPE"] == "<i2"
    assert [metadata[f"DIM_{i}_{key}"] for i in (0, 1) for key in ("SIZE", "BLOCK", "CHUNKS")] == list("523632")
    assert "shuffle" in metadata["CODEC_0"] and "zlib" in metadata["CODEC_1"]


def test_one_array_only(tmp_path, source):
    with pytest.raises(RuntimeError, match="--array, of other, v"):
        get_refs(source, tmp_path / "x.csv", of="CSV")
    assert not (tmp_path / "x.csv").exists()


def test_output_is_kept(tmp_path, source):
    output = tmp_path / "x.csv"
    get_refs(source, output, array=["v"], of="CSV")
    with pytest.raises(RuntimeError, match="--overwrite"):
        get_refs(source, output, array=["v"], of="CSV")
    get_refs(source, output, array=["other"], of="CSV", overwrite=True)
    assert ogr.Open(str(output)).GetLayer(0).GetFeatureCount() == 1
    # What another driver would have written is not replaced: least of all a source.
    with pytest.raises(RuntimeError, match="not replaced"):
        get_refs(source, source, array=["v"], of="GPKG", overwrite=True)
    assert h5py_chunks(source, "v")


@pytest.mark.parametrize("driver, what", [("GTiff", "not a driver that writes tables"), ("Nonsense", "no such driver")])
def test_wrong_driver(tmp_path, source, driver, what):
    with pytest.raises(RuntimeError, match=what):
        get_refs(source, tmp_path / "x", array=["v"], of=driver)
