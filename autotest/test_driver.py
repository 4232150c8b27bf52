"""The driver: registration, names, open options, refusals, commands."""

import functools
import http.server
import os
import re
import sqlite3
import subprocess
import threading

import h5py
import numpy as np
import pytest
from conftest import FOREIGN_VALUES, ForeignStore, get_refs, open_root
from osgeo import gdal, ogr


@pytest.fixture()
def store(tmp_path):
    """A store of this project, of one small file with two arrays."""
    with h5py.File(tmp_path / "source.h5", "w") as f:
        f["v"] = np.arange(12, dtype="i2").reshape(3, 4)
        f["grp/w"] = np.arange(6, dtype="f4").reshape(2, 3)
    get_refs(tmp_path / "source.h5", tmp_path / "store.sqlite")
    return str(tmp_path / "store.sqlite")


def fails(name, flags=gdal.OF_RASTER, options=()):
    with pytest.raises(RuntimeError) as error:
        gdal.OpenEx(name, flags, open_options=list(options))
    return str(error.value)


def test_registered_once():
    gdal.AllRegister()
    names = [gdal.GetDriver(i).ShortName for i in range(gdal.GetDriverCount())]
    assert names.count("MDIMREFS") == 1
    driver = gdal.GetDriverByName("MDIMREFS")
    for item in ("DCAP_RASTER", "DCAP_MULTIDIM_RASTER", "DCAP_OPEN", "DCAP_VIRTUALIO", "DMD_SUBDATASETS"):
        assert driver.GetMetadataItem(item) == "YES", item
    # It writes nothing.
    for item in ("DCAP_CREATE", "DCAP_CREATECOPY"):
        assert driver.GetMetadataItem(item) is None, item
    assert driver.GetMetadataItem("DMD_CONNECTION_PREFIX") == "MDIMREFS:"
    assert "TARGET" in driver.GetMetadataItem("DMD_OPENOPTIONLIST")


def test_bare_file_of_ours(store):
    for flags in (gdal.OF_RASTER, gdal.OF_MULTIDIM_RASTER, gdal.OF_RASTER | gdal.OF_VECTOR):
        assert gdal.OpenEx(store, flags).GetDriver().ShortName == "MDIMREFS", flags
    # Its tables stay readable as tables.
    tables = gdal.OpenEx(store, gdal.OF_VECTOR)
    assert tables.GetDriver().ShortName == "SQLite"
    assert tables.GetLayerByName("sources").GetFeatureCount() == 1
    assert gdal.OpenEx(store, gdal.OF_VECTOR | gdal.OF_UPDATE).GetDriver().ShortName == "SQLite"


def test_other_sqlite_files_stay_with_sqlite(tmp_path, foreign_store):
    path = str(tmp_path / "other.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t(a INTEGER)")
    assert gdal.OpenEx(path, gdal.OF_VECTOR).GetDriver().ShortName == "SQLite"
    for name in (path, foreign_store):
        assert gdal.IdentifyDriverEx(name, gdal.OF_RASTER | gdal.OF_MULTIDIM_RASTER) is None or (
            gdal.IdentifyDriverEx(name, gdal.OF_RASTER | gdal.OF_MULTIDIM_RASTER).ShortName != "MDIMREFS"
        )
    # With the prefix, a store of any maker.
    assert open_root(f"MDIMREFS:{foreign_store}").GetMDArrayNames() == ["v", "x", "y"]


@pytest.mark.parametrize("form", ["MDIMREFS:{}", "mdimrefs:{}", 'MDIMREFS:"{}"', "{}"])
def test_names_of_the_store(store, form):
    assert open_root(form.format(store)).GetMDArrayNames() == ["v"]


def test_a_relative_name(store):
    folder = os.getcwd()
    os.chdir(os.path.dirname(store))
    try:
        for name in ("MDIMREFS:store.sqlite", 'MDIMREFS:"store.sqlite"', "store.sqlite", "MDIMREFS:./store.sqlite"):
            assert open_root(name).GetMDArrayNames() == ["v"]
        dataset = gdal.Open("MDIMREFS:store.sqlite:/v")
        assert dataset.GetDescription() == "MDIMREFS:store.sqlite:/v"
        assert np.array_equal(gdal.Open(dataset.GetDescription()).ReadAsArray(), dataset.ReadAsArray())
    finally:
        os.chdir(folder)


@pytest.mark.parametrize("name", ["a b.sqlite", "é ü.sqlite", "with:colon.sqlite", "it's.sqlite", "100%.sqlite"])
def test_odd_file_names(store, name):
    path = os.path.join(os.path.dirname(store), name)
    os.rename(store, path)
    for form in ("MDIMREFS:{}:/v", 'MDIMREFS:"{}":/v'):
        assert gdal.Open(form.format(path)).RasterXSize == 4
    subdatasets = gdal.OpenEx(f"MDIMREFS:{path}", gdal.OF_RASTER).GetSubDatasets()
    assert sorted(gdal.Open(s[0]).RasterXSize for s in subdatasets) == [3, 4]


def test_array_names_with_colons(tmp_path):
    path = str(tmp_path / "s.sqlite")
    store = ForeignStore(path)
    for name, columns in (("a", 2), ("a:1", 3), ("a:1:b", 4)):
        store.add_array(name, ["y", f"x{columns}"], [2, columns], [2, columns], "<i2", 5)
        store.add_chunks(name, 2, [])
    store.close()
    # The longest name that fits wins.
    for name, columns in (("/a", 2), ("/a:1", 3), ("/a:1:b", 4)):
        assert gdal.Open(f'MDIMREFS:"{path}":{name}').RasterXSize == columns
    assert 'more dimensions than the 2 of the array "/a"' in fails(f'MDIMREFS:"{path}":/a:2:0:0')


def test_what_is_no_store(tmp_path, store):
    (tmp_path / "text.sqlite").write_text("this is text " * 100)
    (tmp_path / "empty.sqlite").write_bytes(b"")
    with open(store, "rb") as f:
        (tmp_path / "short.sqlite").write_bytes(f.read(3000))
    with sqlite3.connect(tmp_path / "other.sqlite") as db:
        db.execute("CREATE TABLE t(a INTEGER)")
    for name in ("text", "empty", "short", "other", "absent"):
        for flags in (gdal.OF_RASTER, gdal.OF_MULTIDIM_RASTER):
            message = fails(f"MDIMREFS:{tmp_path}/{name}.sqlite", flags)
            assert f"{name}.sqlite" in message, message
    assert not (tmp_path / "absent.sqlite").exists()


@pytest.mark.parametrize("version", ["mdim-refs/1.0", "something", ""])
def test_another_format_is_refused_by_name(tmp_path, foreign_store, version):
    with sqlite3.connect(foreign_store) as db:
        db.execute("UPDATE meta SET value = ? WHERE key = 'format_version'", [version])
    message = fails(f"MDIMREFS:{foreign_store}", gdal.OF_MULTIDIM_RASTER)
    assert "foreign.sqlite" in message and version in message


def test_a_store_in_a_virtual_file_system(store):
    with open(store, "rb") as f:
        gdal.FileFromMemBuffer("/vsimem/folder/s.sqlite", f.read())
    try:
        path = "/vsimem/folder/s.sqlite"
        for name in (f"MDIMREFS:{path}:/v", f'MDIMREFS:"{path}":/v', f"MDIMREFS:{path}:/v:0"):
            assert gdal.Open(name).RasterXSize == 4
        for name in (path, f"MDIMREFS:{path}"):
            assert open_root(name).OpenMDArray("v").ReadAsArray().tolist() == np.arange(12).reshape(3, 4).tolist()
    finally:
        gdal.Unlink("/vsimem/folder/s.sqlite")
    for path in ("/vsimem/folder/s.sqlite", "/vsizip/absent.zip/s.sqlite", "/vsicurl/http://127.0.0.1:9/s.sqlite"):
        for name in (f"MDIMREFS:{path}", f"MDIMREFS:{path}:/v"):
            with gdal.quiet_errors():
                assert path in fails(name, gdal.OF_MULTIDIM_RASTER)


@pytest.mark.parametrize(
    "name",
    [
        'MDIMREFS:"{}',
        'MDIMREFS:"{}"x',
        "MDIMREFS:",
        'MDIMREFS:""',
        'MDIMREFS:"{}":/absent',
        'MDIMREFS:"{}":/v:x',
        'MDIMREFS:"{}":/v:99',
        'MDIMREFS:"{}":/v:-1',
        'MDIMREFS:"{}":/v:0:0:0',
        'MDIMREFS:"{}":/v:time=3',
        'MDIMREFS:"{}":/v:99999999999999999999',
    ],
)
def test_wrong_names(store, name):
    assert "MDIMREFS" in fails(name.format(store))


def test_an_absent_array_is_told_with_those_that_are_there(store):
    message = fails(f'MDIMREFS:"{store}":/absent')
    assert "/absent" in message and "/v" in message and "/grp/w" in message


def test_update_is_refused(store):
    message = fails(f"MDIMREFS:{store}", gdal.OF_RASTER | gdal.OF_UPDATE)
    assert "update is not supported" in message


@pytest.mark.parametrize(
    "option",
    ["NUM_THREADS=0", "NUM_THREADS=many", "CACHE_SIZE=big", "VERIFY=MAYBE", "MISSING_SOURCE=SKIP", "VERIFY_CHECKSUM=2"],
)
def test_wrong_open_options(store, option):
    with gdal.quiet_errors():
        message = fails(f"MDIMREFS:{store}", gdal.OF_MULTIDIM_RASTER, [option])
    assert option in message


@pytest.mark.parametrize(
    "option",
    ["NUM_THREADS=1", "NUM_THREADS=ALL_CPUS", "CACHE_SIZE=0", "CACHE_SIZE=1MB", "VERIFY=full", "MISSING_SOURCE=fill"],
)
def test_open_options(store, option):
    array = open_root(f"MDIMREFS:{store}", [option]).OpenMDArray("v")
    assert np.array_equal(array.ReadAsArray(), np.arange(12).reshape(3, 4))


def test_target(foreign_store):
    array = open_root(f"MDIMREFS:{foreign_store}", ["TARGET=here"]).OpenMDArray("v")
    assert np.array_equal(array.ReadAsArray(), FOREIGN_VALUES)
    # Without it, the path that was recorded, which is not there.
    array = open_root(f"MDIMREFS:{foreign_store}").OpenMDArray("v")
    with pytest.raises(RuntimeError) as error:
        array.ReadAsArray()
    for word in ("v", "/not/there/data.bin", "7"):
        assert word in str(error.value)
    message = fails(f"MDIMREFS:{foreign_store}", gdal.OF_MULTIDIM_RASTER, ["TARGET=absent"])
    assert "absent" in message


def test_missing_source_as_fill(foreign_store):
    array = open_root(f"MDIMREFS:{foreign_store}", ["MISSING_SOURCE=FILL"]).OpenMDArray("v")
    assert np.array_equal(array.ReadAsArray(), np.full((2, 6), -1))


def test_delete_is_refused(store):
    with pytest.raises(RuntimeError, match="by hand"):
        gdal.GetDriverByName("MDIMREFS").Delete(f"MDIMREFS:{store}")
    assert os.path.exists(store) and os.path.exists(os.path.dirname(store) + "/source.h5")


def test_files_are_the_store_alone(store):
    for name in (f"MDIMREFS:{store}", f'MDIMREFS:"{store}":/v', store):
        assert gdal.OpenEx(name, gdal.OF_RASTER).GetFileList() == [store]


def test_subdataset_names():
    info = gdal.GetSubdatasetInfo('MDIMREFS:"/a b/s.sqlite":/grp/v:29:0')
    assert info.GetPathComponent() == "/a b/s.sqlite"
    assert info.GetSubdatasetComponent() == "/grp/v:29:0"
    assert info.ModifyPathComponent("new.sqlite") == 'MDIMREFS:"new.sqlite":/grp/v:29:0'
    assert gdal.GetSubdatasetInfo("MDIMREFS:s.sqlite") is None
    assert gdal.GetSubdatasetInfo("other") is None


def test_a_vrt_beside_the_store_travels_with_it(tmp_path, store):
    vrt = str(tmp_path / "v.vrt")
    gdal.Translate(vrt, f'MDIMREFS:"{store}":/v', format="VRT")
    with open(vrt) as f:
        assert 'relativeToVRT="1"' in f.read()


def test_threads(store):
    failures = []

    def work():
        for _ in range(20):
            array = open_root(f"MDIMREFS:{store}").OpenMDArray("v")
            if not np.array_equal(array.ReadAsArray(), np.arange(12).reshape(3, 4)):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_a_forked_child_reads(store):
    array = open_root(f"MDIMREFS:{store}").OpenMDArray("v")
    array.ReadAsArray()
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(array.ReadAsArray(), np.arange(12).reshape(3, 4)) else 1)
    assert os.waitpid(child, 0)[1] == 0


class KeyedFiles(http.server.SimpleHTTPRequestHandler):
    """Byte ranges of files, for those who send the header `X-Key: yes`."""

    protocol_version = "HTTP/1.1"

    def do_GET(self, body=True):
        path = self.translate_path(self.path)
        if self.headers.get("X-Key") != "yes":
            self.send_error(403)
        elif not os.path.isfile(path):
            self.send_error(404)
        else:
            with open(path, "rb") as f:
                data = f.read()
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            first, last = (int(wanted[1]), int(wanted[2] or len(data))) if wanted else (0, len(data))
            part = data[first : last + 1]
            self.send_response(206 if wanted else 200)
            if wanted:
                self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            if body:
                self.wfile.write(part)

    def do_HEAD(self):
        self.do_GET(body=False)

    def log_message(self, *_):
        pass


def test_options_of_the_calling_thread_reach_the_threads_that_read(tmp_path):
    values = np.arange(4096, dtype="i4").reshape(64, 64)
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f.create_dataset("v", data=values, chunks=(1, 64), compression="gzip")
    handler = functools.partial(KeyedFiles, directory=tmp_path)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    source = f"/vsicurl/http://127.0.0.1:{server.server_port}/s.h5"
    try:
        key = {"GDAL_HTTP_HEADERS": "X-Key: yes"}
        with gdal.config_options(key, thread_local=True):
            get_refs(source, tmp_path / "s.sqlite")
        gdal.VSICurlClearCache()
        array = open_root(f"MDIMREFS:{tmp_path}/s.sqlite", ["NUM_THREADS=4"]).OpenMDArray("v")
        with gdal.config_options(key, thread_local=True):
            assert np.array_equal(array.ReadAsArray(), values)
        gdal.VSICurlClearCache()
        array = open_root(f"MDIMREFS:{tmp_path}/s.sqlite", ["NUM_THREADS=4"]).OpenMDArray("v")
        with pytest.raises(RuntimeError, match="s.h5"):
            array.ReadAsArray()
    finally:
        server.shutdown()
        server.server_close()


# ---- commands ----


def test_commands_are_there():
    mdim = gdal.GetGlobalAlgorithmRegistry()["mdim"]
    assert "get-refs" in mdim.GetSubAlgorithmNames()
    assert {"info", "convert", "mosaic"} <= set(mdim.GetSubAlgorithmNames())
    names = gdal.GetGlobalAlgorithmRegistry().GetAlgNames()
    assert names.count("mdim") == 1
    driver = gdal.GetGlobalAlgorithmRegistry()["driver"]
    assert "mdimrefs" in driver.GetSubAlgorithmNames()
    assert "get-refs" in driver["mdimrefs"].GetSubAlgorithmNames()


@pytest.mark.parametrize("path", [["mdim", "get-refs"], ["driver", "mdimrefs", "get-refs"]])
def test_command_from_python(tmp_path, path):
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f["a"], f["b"] = np.arange(3), np.arange(4)
    out = str(tmp_path / "s.sqlite")
    alg = gdal.Run(path, {"input": [str(tmp_path / "s.h5")], "output": out, "array": ["a"]})
    assert "1 of 1 sources" in alg["output-string"]
    assert open_root(f"MDIMREFS:{out}").GetMDArrayNames() == ["a"]


def test_command_errors_are_exceptions(tmp_path):
    (tmp_path / "text.nc").write_text("this is no netCDF file")
    out = str(tmp_path / "s.sqlite")
    for inputs, word in (([str(tmp_path / "absent.nc")], "absent.nc"), ([str(tmp_path / "text.nc")], "text.nc")):
        with pytest.raises(RuntimeError, match=word):
            gdal.Run(["mdim", "get-refs"], {"input": inputs, "output": out})
        assert not os.path.exists(out)
    for arguments in ({"output": out}, {"input": [], "output": out}, {"input": ["a"]}):
        with pytest.raises(RuntimeError):
            gdal.Run(["mdim", "get-refs"], arguments)
    with pytest.raises(RuntimeError, match="masked-chunks"):
        gdal.Run(["mdim", "get-refs"], {"input": ["a"], "output": out, "masked-chunks": "maybe"})


def test_command_can_be_stopped(tmp_path):
    sources = []
    for i in range(5):
        sources.append(str(tmp_path / f"s{i}.h5"))
        with h5py.File(sources[-1], "w") as f:
            f["a"] = np.arange(3) + i
    calls = []

    def progress(share, _message, _data):
        calls.append(share)
        return 0

    with pytest.raises(RuntimeError):
        gdal.Run(["mdim", "get-refs"], {"input": sources, "output": str(tmp_path / "s.sqlite")}, progress=progress)
    assert calls
    assert not os.path.exists(tmp_path / "s.sqlite")


def test_command_line(tmp_path):
    with h5py.File(tmp_path / "s.h5", "w") as f:
        f["a"] = np.arange(3)

    def run(*arguments):
        return subprocess.run(["gdal", *arguments], cwd=tmp_path, capture_output=True, text=True)

    done = run("mdim", "get-refs", "s.h5", "s.sqlite")
    assert done.returncode == 0 and "100" in done.stdout and "1 of 1 sources" in done.stdout, done
    done = run("mdim", "get-refs", "-q", "s.h5", "q.sqlite")
    assert done.returncode == 0 and "100 - done" not in done.stdout, done
    done = run("mdim", "get-refs", "s.h5", "s.sqlite")
    assert done.returncode != 0 and "--append" in done.stderr and len(done.stderr.strip().splitlines()) <= 2, done
    done = run("mdim", "info", "MDIMREFS:s.sqlite")
    assert done.returncode == 0 and '"MDIMREFS"' in done.stdout, done
    done = run("mdim", "get-refs", "--help")
    assert done.returncode == 0 and "--overwrite" in done.stdout, done


def test_layers_are_read_by_the_sqlite_driver(store):
    dataset = ogr.Open(store)
    layer = dataset.GetLayerByName("refs_v")
    assert [layer.GetLayerDefn().GetFieldDefn(i).GetName() for i in range(layer.GetLayerDefn().GetFieldCount())] == [
        "dim_0",
        "dim_1",
        "present",
        "path",
        "offset",
        "size",
        "info",
        "data",
    ]
