"""Stores and sources that are not files of this machine: /vsimem/, /vsizip/, and a web server of the test's own."""

import functools
import http.server
import os
import re
import sqlite3
import threading
import zipfile

import h5py
import numpy as np
import pytest
from osgeo import gdal

gdal.UseExceptions()

pytestmark = pytest.mark.skipif(gdal.GetDriverByName("MDIMREFS") is None, reason="the plugin is not loaded")

VALUES = np.arange(40 * 50, dtype="<i4").reshape(40, 50)


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder with byte ranges, and notes what was asked."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        self.server.asked.append((self.command, self.path, self.headers.get("Range")))
        path = self.translate_path(self.path)
        if not os.path.isfile(path):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        data = open(path, "rb").read()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        size = len(data)
        if wanted:
            first, last = int(wanted[1]), min(int(wanted[2] or size - 1), size - 1)
            data = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if with_body:
            self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture()
def server(tmp_path):
    handler = functools.partial(RangeHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.asked = []
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
    gdal.VSICurlClearCache()


def make_store(folder, source=None):
    """A store whose source is given relative to it by the target `here`."""
    name, store = str(folder / "data.h5"), str(folder / "store.sqlite")
    with h5py.File(name, "w") as f:
        f.create_dataset("v", data=VALUES, chunks=(10, 50), compression=4, shuffle=True)
        f["x"] = np.arange(50.0)
    gdal.Run(["mdim", "get-refs"], {"input": [name], "output": store})
    db = sqlite3.connect(store)
    db.execute("INSERT INTO remap VALUES ('here', ?, ?)", [f"{folder}/", source or "./"])
    db.execute("INSERT INTO meta VALUES ('target', 'here')")
    db.commit()
    db.close()
    return store


def values(name, **options):
    root = gdal.OpenEx(name, gdal.OF_MULTIDIM_RASTER, **options).GetRootGroup()
    return root.OpenMDArray("v").ReadAsArray()


def test_in_memory(tmp_path):
    store = make_store(tmp_path)
    for file in ("store.sqlite", "data.h5"):
        gdal.FileFromMemBuffer(f"/vsimem/remote/{file}", (tmp_path / file).read_bytes())
    try:
        os.remove(store)
        os.remove(tmp_path / "data.h5")
        assert np.array_equal(values("MDIMREFS:/vsimem/remote/store.sqlite"), VALUES)
        assert np.array_equal(values("/vsimem/remote/store.sqlite"), VALUES)
        assert np.array_equal(gdal.Open('MDIMREFS:"/vsimem/remote/store.sqlite":/v').ReadAsArray(), VALUES)
        ds = gdal.OpenEx("MDIMREFS:/vsimem/remote/store.sqlite", gdal.OF_VECTOR)
        assert ds.GetLayerByName("refs_v").GetFeatureCount() == 4
        assert sorted(gdal.ReadDir("/vsimem/remote")) == ["data.h5", "store.sqlite"]
    finally:
        gdal.RmdirRecursive("/vsimem/remote")


def test_in_a_zip_file(tmp_path):
    make_store(tmp_path)
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_STORED) as z:
        z.write(tmp_path / "store.sqlite", "store.sqlite")
        z.write(tmp_path / "data.h5", "data.h5")
    os.remove(tmp_path / "data.h5")
    assert np.array_equal(values(f"MDIMREFS:/vsizip/{tmp_path}/all.zip/store.sqlite"), VALUES)


def test_on_a_web_server(tmp_path, server):
    make_store(tmp_path)
    url = f"/vsicurl/http://127.0.0.1:{server.server_port}"
    assert np.array_equal(values(f"MDIMREFS:{url}/store.sqlite"), VALUES)
    ranges = [r for method, path, r in server.asked if method == "GET" and path == "/data.h5"]
    # The four chunks are neighbours: one request.
    assert len(ranges) == 1 and ranges[0]
    with pytest.raises(RuntimeError, match="nothing.sqlite"):
        gdal.OpenEx(f"MDIMREFS:{url}/nothing.sqlite", gdal.OF_MULTIDIM_RASTER)


def test_sources_on_a_web_server(tmp_path, server):
    url = f"/vsicurl/http://127.0.0.1:{server.server_port}/"
    store = make_store(tmp_path, url)
    assert np.array_equal(values(store), VALUES)
    gdal.VSICurlClearCache()
    os.rename(tmp_path / "data.h5", tmp_path / "away.h5")
    with pytest.raises(RuntimeError, match=r'array "v", chunk \[0, 0\], /vsicurl/http://127.0.0.1:\d+/data.h5'):
        values(store)
    assert (values(store, open_options=["MISSING_SOURCE=FILL"]) == 0).all()
    # Without a target the sources are where they were scanned.
    os.rename(tmp_path / "away.h5", tmp_path / "data.h5")


def test_scan_over_http(tmp_path, server):
    make_store(tmp_path)
    url = f"/vsicurl/http://127.0.0.1:{server.server_port}/data.h5"
    server.asked.clear()
    store = str(tmp_path / "other.sqlite")
    gdal.Run(["mdim", "get-refs"], {"input": [url], "output": store})
    assert sum(method == "GET" for method, _, _ in server.asked) <= 4
    assert np.array_equal(values(store), VALUES)
