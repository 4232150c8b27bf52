"""Writes the small files of corpus/netcdf3, corpus/tiff, corpus/zarr and corpus/kerchunk. Needs netCDF4, GDAL, numpy.

scripts/with-gdal python3 fuzz/make_corpus_formats.py
"""

import json
import os

import netCDF4
import numpy as np
from osgeo import gdal

gdal.UseExceptions()
CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
for folder in ("netcdf3", "tiff", "zarr", "kerchunk"):
    os.makedirs(os.path.join(CORPUS, folder), exist_ok=True)

for kind in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"):
    with netCDF4.Dataset(os.path.join(CORPUS, "netcdf3", kind.lower() + ".nc"), "w", format=kind) as f:
        f.createDimension("time", None)
        f.createDimension("x", 3)
        f.title = "some text"
        for code in ("i1", "i2", "i4", "f4", "f8", "S1"):
            f.createVariable(f"f_{code}", code, ("x",)).numbers = np.arange(3, dtype="i4")
            f.createVariable(f"r_{code}", code, ("time", "x"))
        f["r_i2"][:] = np.arange(6).reshape(2, 3)

VALUES = np.arange(3 * 20 * 20, dtype="u2").reshape(3, 20, 20)
OPTIONS = {
    "strips": ["BLOCKYSIZE=8", "COMPRESS=LZW", "PREDICTOR=2"],
    "planes": ["INTERLEAVE=BAND", "COMPRESS=DEFLATE", "TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=16"],
    "big": ["BIGTIFF=YES", "ENDIANNESS=BIG", "BLOCKYSIZE=8"],
    "zstd": ["COMPRESS=ZSTD", "TILED=YES", "BLOCKXSIZE=16", "BLOCKYSIZE=16"],
}
for name, options in OPTIONS.items():
    path = os.path.join(CORPUS, "tiff", name + ".tif")
    with gdal.GetDriverByName("GTiff").Create(path, 20, 20, 3, gdal.GDT_UInt16, options) as ds:
        ds.WriteArray(VALUES)
        ds.SetGeoTransform([10, 1, 0, 20, 0, -1])
        ds.GetRasterBand(1).SetNoDataValue(7)

V2 = {"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "<i2", "order": "C", "filters": None, "fill_value": 1,
      "compressor": {"id": "zlib", "level": 1}}  # fmt: skip
V3 = {
    "zarr_format": 3, "node_type": "array", "shape": [4, 4], "data_type": "uint16", "fill_value": 0,
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 4]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "sharding_indexed", "configuration": {
        "chunk_shape": [2, 2], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "index_codecs": [{"name": "bytes"}], "index_location": "end"}}],
    "dimension_names": ["y", "x"], "attributes": {"units": "m"},
}  # fmt: skip
ALL = {"metadata": {"a/.zarray": V2, "a/.zattrs": {"_ARRAY_DIMENSIONS": ["x"]}, ".zgroup": {"zarr_format": 2}}}
# The length, modulo 3, says which file it is: see src/targets.rs.
for remainder, (name, value) in enumerate([("consolidated", ALL), ("v2", V2), ("v3", V3)]):
    text = json.dumps(value)
    text += " " * ((remainder - len(text)) % 3)
    with open(os.path.join(CORPUS, "zarr", name), "w", encoding="utf8") as f:
        f.write(text)

V2_TEXT = json.dumps(V2 | {"shape": [3, 3], "chunks": [2, 2]})
REFS = {".zgroup": '{"zarr_format":2}', "g/a/.zarray": V2_TEXT, "g/a/.zattrs": '{"_ARRAY_DIMENSIONS":["y","x"]}'}
CHUNKS = {
    "g/a/0.0": ["s3://b/c", 0, 9],
    "g/a/0.1": ["u", 9, 9],
    "g/a/1.0": "base64:eJxjZGJmYQUAAB4AFA==",
    "g/a/1.1": ["f"],
}
DOCUMENTS = {
    "version0": {**REFS, **CHUNKS},
    "version1": {"version": 1, "templates": {"u": "http://{{v(i=1)}}", "v": "h{{i+1}}"}, "refs": {**CHUNKS, **REFS}},
    "generators": {"version": 1, "templates": {"u": "h"}, "refs": REFS, "gen": [
        {"key": "g/a/{{y}}.{{x}}", "url": "http://{{u}}_{{y}}", "offset": "{{(x + 1) * 10}}", "length": "10",
         "dimensions": {"y": {"stop": 2}, "x": [0, 1]}}]},
}  # fmt: skip
for name, value in DOCUMENTS.items():
    with open(os.path.join(CORPUS, "kerchunk", name), "w", encoding="utf8") as f:
        json.dump(value, f)
