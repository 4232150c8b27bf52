"""Stores and sources that are not files of this machine: /vsimem/, /vsizip/, and a web server of the test's own."""

import functools
import http.server
import os
import re
import socket
import sqlite3
import threading
import zipfile

import h5py
import netCDF4
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
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
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


def days(folder, count=6):
    """Daily files of four arrays of 60 × 90, one chunk each, that do not compress; names."""
    names = []
    rng = np.random.default_rng(0)
    for i in range(count):
        name = str(folder / f"day{i:02}.h5")
        names.append(name)
        with netCDF4.Dataset(name, "w") as d:
            for dim, size in (("time", None), ("lat", 60), ("lon", 90)):
                d.createDimension(dim, size)
            time, lat, lon = (d.createVariable(n, "f4", (n,)) for n in ("time", "lat", "lon"))
            time.units, time[:] = "days since 2000-01-01", [i]
            lat[:], lon[:] = np.arange(60), np.arange(90)
            for array in ("sst", "anom", "err", "ice"):
                v = d.createVariable(array, "i2", ("time", "lat", "lon"), zlib=True, chunksizes=(1, 60, 90))
                v.long_name = "x" * 100
                v[:] = rng.integers(0, 30_000, (1, 60, 90))
    return names


def test_requests_of_a_scan(tmp_path, server):
    """A few requests for ranges: none whether the file is there, how large it is, or what lies beside it."""
    for i, name in enumerate(days(tmp_path)):
        server.asked.clear()
        url = f"http://127.0.0.1:{server.server_port}/{os.path.basename(name)}"
        # With and without GDAL's prefix.
        store = str(tmp_path / "s.sqlite")
        gdal.Run("mdim get-refs", input=[("/vsicurl/" if i % 2 else "") + url], output=store, overwrite=True)
        assert {method for method, _, _ in server.asked} == {"GET"}
        assert {path for _, path, _ in server.asked} == {"/" + os.path.basename(name)}
        assert len(server.asked) <= 4 and all(r for _, _, r in server.asked)
        asked = [re.fullmatch(r"bytes=(\d+)-(\d+)", r) for _, _, r in server.asked]
        assert sum(int(r[2]) - int(r[1]) + 1 for r in asked) <= 512 << 10


def test_one_request_a_chunk(tmp_path, server):
    names = days(tmp_path)
    store = str(tmp_path / "s.sqlite")
    gdal.Run("mdim mosaic", input=names, output=str(tmp_path / "all.vrt"))
    gdal.Run("mdim get-refs", input=[str(tmp_path / "all.vrt")], output=store)
    db = sqlite3.connect(store)
    rules = [("a", "/vsicurl/http://127.0.0.1:{}/"), ("b", "http://127.0.0.1:{}/")]
    for target, url in rules:
        db.execute("INSERT INTO remap VALUES (?, ?, ?)", [target, f"{tmp_path}/", url.format(server.server_port)])
    where = db.execute('SELECT path, "offset", size FROM refs_sst').fetchall()
    db.commit()
    db.close()
    want = values_of(store, "sst")
    for target, threads in (("a", "ALL_CPUS"), ("b", "1")):
        server.asked.clear()
        got = values_of(store, "sst", [f"TARGET={target}", f"NUM_THREADS={threads}"])
        assert np.array_equal(got, want)
        ranges = {("GET", "/" + os.path.basename(p), f"bytes={o}-{o + n - 1}") for p, o, n in where}
        assert len(server.asked) == len(where) and set(server.asked) == ranges


def values_of(store, array, options=()):
    ds = gdal.OpenEx(f"MDIMREFS:{store}", gdal.OF_MULTIDIM_RASTER, open_options=list(options))
    return ds.GetRootGroup().OpenMDArray(array).ReadAsArray()


class Misbehaving(RangeHandler):
    """Answers as `server.mood` says, every time or every third."""

    def answer(self, with_body):
        mood = self.server.mood
        self.server.count += 1
        if mood.startswith("sometimes "):
            mood = mood.removeprefix("sometimes ") if self.server.count % 3 == 0 else ""
        data = open(self.translate_path(self.path), "rb").read()
        first, last = (int(n) for n in re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        status, headers, body = 206, {}, data[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(body) - 1}/{len(data)}"
        if mood == "whole":
            status, headers, body = 200, {}, data
        elif mood == "short":
            body = body[:-10]
            headers["Content-Range"] = f"bytes {first}-{first + len(body) - 1}/{len(data)}"
        elif mood == "another range":
            body = data[first - 1 : last]
            headers["Content-Range"] = f"bytes {first - 1}-{last - 1}/{len(data)}"
        elif mood == "a range that is not there":
            status, headers, body = 416, {"Content-Range": f"bytes */{len(data)}"}, b""
        elif mood == "a page of text":
            status, headers, body = 200, {"Content-Type": "text/html"}, b"<html>please log in</html>"
        elif mood == "compressed":
            headers["Content-Encoding"] = "gzip"
        elif mood == "expired":
            status, headers, body = 403, {}, b"<Error><Code>ExpiredToken</Code></Error>"
        elif mood == "busy":
            status, headers, body = 503, {}, b"busy"
        elif mood == "moved" and "moved" not in self.path:
            status, headers, body = 302, {"Location": self.path + "?moved"}, b""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if mood == "dropped":
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            self.wfile.write(body)


@pytest.fixture()
def misbehaving(tmp_path):
    handler = functools.partial(Misbehaving, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.asked, server.mood, server.count, server.daemon_threads = [], "", 0, True
    server.handle_error = lambda *args: None
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    names = days(tmp_path)
    store = str(tmp_path / "s.sqlite")
    gdal.Run("mdim mosaic", input=names, output=str(tmp_path / "all.vrt"))
    gdal.Run("mdim get-refs", input=[str(tmp_path / "all.vrt")], output=store)
    db = sqlite3.connect(store)
    db.execute("INSERT INTO remap VALUES ('web', ?, ?)", [f"{tmp_path}/", f"http://127.0.0.1:{server.server_port}/"])
    db.commit()
    db.close()
    yield server, store
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("threads", ["1", "8"])
@pytest.mark.parametrize("mood", ["", "whole", "moved", "sometimes whole", "sometimes moved"])
def test_servers_that_answer_otherwise(misbehaving, mood, threads):
    server, store = misbehaving
    server.mood = mood
    got = values_of(store, "sst", ["TARGET=web", f"NUM_THREADS={threads}"])
    assert np.array_equal(got, values_of(store, "sst"))


FAULTS = [
    "short",
    "another range",
    "a range that is not there",
    "a page of text",
    "compressed",
    "expired",
    "busy",
    "dropped",
]


@pytest.mark.parametrize("threads", ["1", "8"])
@pytest.mark.parametrize("mood", FAULTS + [f"sometimes {m}" for m in FAULTS])
def test_servers_that_fail(misbehaving, mood, threads):
    """An error that names array, chunk and path, never wrong values."""
    server, store = misbehaving
    server.mood = mood
    with pytest.raises(RuntimeError, match=r'array "sst", chunk \[\d, 0, 0\], (/vsicurl/)?http://127.0.0.1'):
        values_of(store, "sst", ["TARGET=web", f"NUM_THREADS={threads}"])


@pytest.mark.parametrize("threads", ["1", "8"])
def test_retries(misbehaving, threads):
    server, store = misbehaving
    server.mood = "sometimes busy"
    with gdal.config_options({"GDAL_HTTP_MAX_RETRY": "5", "GDAL_HTTP_RETRY_DELAY": "0.01"}):
        got = values_of(store, "sst", ["TARGET=web", f"NUM_THREADS={threads}"])
    assert np.array_equal(got, values_of(store, "sst"))


def test_headers_of_the_user(misbehaving, monkeypatch):
    server, store = misbehaving
    seen = []
    answer = Misbehaving.answer
    monkeypatch.setattr(Misbehaving, "answer", lambda h, b: (seen.append(h.headers.get("X-Key")), answer(h, b)))
    with gdal.config_options({"GDAL_HTTP_HEADERS": "X-Key: open sesame"}):
        values_of(store, "sst", ["TARGET=web"])
    assert seen == ["open sesame"] * 6
