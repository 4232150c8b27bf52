"""`export --format parquet`, read by pyarrow and DuckDB: rows are those of the store's views, in order."""

import base64
import json
import sqlite3

import numpy as np
import pytest
from conftest import open_root
from osgeo import gdal
from test_exchange import ARRAYS, export, series  # noqa: F401

gdal.UseExceptions()
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = ["dim_0", "dim_1", "dim_2", "present", "path", "offset", "size", "info", "data"]


def view(store, array, where="1"):
    names = ", ".join(f'"{c}"' for c in COLUMNS)
    with sqlite3.connect(store) as db:
        return db.execute(f'SELECT {names} FROM "refs_{array}" WHERE {where} ORDER BY 1, 2, 3').fetchall()


def test_rows_are_the_views(series):  # noqa: F811
    folder, _ = series
    store, out = folder / "s.sqlite", folder / "flat"
    export(store, out, format="parquet")
    assert sorted(f.name for f in out.iterdir()) == sorted(
        ["arrays.json", "sources.parquet"] + [f"refs_{a}.parquet" for a in ARRAYS]
    )
    for name in ARRAYS:
        table = pq.read_table(out / f"refs_{name}.parquet")
        assert table.column_names == COLUMNS
        assert [tuple(r.values()) for r in table.to_pylist()] == view(store, name), name
    with sqlite3.connect(store) as db:
        sources = db.execute("SELECT source_id, source, source, size, mtime, etag FROM sources ORDER BY 1").fetchall()
    assert [tuple(r.values()) for r in pq.read_table(out / "sources.parquet").to_pylist()] == sources


def test_files_say_what_they_are(series):  # noqa: F811
    folder, _ = series
    store, out = folder / "s.sqlite", folder / "flat"
    gdal.Run(
        ["driver", "mdimrefs", "remap"],
        store=str(store),
        target="web",
        prefix=f"{folder}/",
        replacement="https://e.org/",
    )
    export(store, out, format="parquet", target="web")
    metadata = pq.read_metadata(out / "refs_packed.parquet").metadata
    assert metadata[b"format_version"] == b"mdim-refs/0.2"
    (row,) = json.loads(metadata[b"arrays"])
    with sqlite3.connect(store) as db:
        db.row_factory = sqlite3.Row
        stored = dict(db.execute("SELECT * FROM arrays WHERE \"array\"='packed'").fetchone())
    for column in ("array", "kind", "storage", "dtype", "fill"):
        assert row[column] == stored[column]
    for column in ("dims", "shape", "chunks", "codec", "attrs"):
        assert row[column] == json.loads(stored[column])
    rules = [{"target": "web", "prefix": f"{folder}/", "replacement": "https://e.org/"}]
    assert json.loads(metadata[b"remap"]) == rules
    assert set(pq.read_table(out / "refs_packed.parquet").column("path").to_pylist()) == {
        f"https://e.org/{day}.nc" for day in range(3)
    }
    paths = pq.read_table(out / "sources.parquet").to_pylist()
    assert [(r["source"], r["path"]) for r in paths] == [
        (f"{folder}/{day}.nc", f"https://e.org/{day}.nc") for day in range(3)
    ]
    arrays = {a["array"]: a for a in json.loads((out / "arrays.json").read_text())}
    assert arrays["packed"] == row
    # Coordinates are values, or start and step.
    x = arrays["x"]
    if x["values"] is None:
        values = x["affine"]["start"] + np.arange(7) * x["affine"]["step"]
    else:
        values = np.frombuffer(base64.b64decode(x["values"]), x["dtype"])
    assert np.array_equal(values, open_root(store).OpenMDArray("x").ReadAsArray())


def test_row_groups_are_pruned(tmp_path):
    """Many chunks: sorted, with statistics, and a query for some reads a few row groups."""
    duckdb = pytest.importorskip("duckdb")
    shape = (300, 20, 100)
    with sqlite3.connect(tmp_path / "s.sqlite") as db:
        db.executescript(
            """
            CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
            INSERT INTO meta VALUES ('format_version', 'mdim-refs/0.2');
            CREATE TABLE sources(source_id INTEGER PRIMARY KEY, source TEXT UNIQUE);
            INSERT INTO sources VALUES (1, '/a'), (2, '/b');
            CREATE TABLE arrays("array", kind, storage, dims, shape, chunks, dtype, fill, codec, attrs,
                affine, "values");
            INSERT INTO arrays VALUES ('g/v', 'data', 'referenced', '["t","y","x"]', '[300,20,100]', '[1,1,1]', '<i2',
                NULL, NULL, '{}', NULL, NULL);
            CREATE TABLE "g/v"(source_id, dim_0 BIGINT, dim_1 BIGINT, dim_2 BIGINT, present, "offset" BIGINT,
                size BIGINT, info, data, PRIMARY KEY(source_id, dim_0, dim_1, dim_2)) WITHOUT ROWID;
            CREATE TABLE placements("array", dest, source_id, source_array, src_offset, "count");
            INSERT INTO placements VALUES ('g/v', '[150,0,0]', 1, 'v', '[0,0,0]', '[150,20,100]'),
                ('g/v', '[0,0,0]', 2, 'v', '[0,0,0]', '[150,20,100]');
            """
        )
        keys = np.indices((150, 20, 100)).reshape(3, -1).T.tolist()
        rows = ((s, *k, 1, i * 10 + s, 10, None, None) for s in (1, 2) for i, k in enumerate(keys))
        db.executemany('INSERT INTO "g/v" VALUES (?,?,?,?,?,?,?,?,?)', rows)
    db.close()
    export(tmp_path / "s.sqlite", tmp_path / "flat", format="parquet")
    file = tmp_path / "flat" / "refs_g%2Fv.parquet"
    metadata = pq.read_metadata(file)
    assert metadata.num_rows == np.prod(shape)
    groups = [metadata.row_group(i).column(0).statistics for i in range(metadata.num_row_groups)]
    assert len(groups) > 5
    assert all(a.max < b.min for a, b in zip(groups, groups[1:], strict=False))
    assert [c.column_index for c in metadata.row_group(0).sorting_columns] == [0, 1, 2]
    places = np.ravel_multi_index([pq.read_table(file).column(f"dim_{i}").to_numpy() for i in range(3)], shape)
    assert np.array_equal(places, np.arange(np.prod(shape)))
    with duckdb.connect() as db:
        found = db.execute(
            'SELECT path, "offset" FROM read_parquet(?) WHERE dim_0 = 200 AND dim_1 = 3 AND dim_2 = 7', [str(file)]
        ).fetchall()
        assert found == [("/a", (50 * 2000 + 3 * 100 + 7) * 10 + 1)]
        sums = db.execute("SELECT path, count(*), sum(size) FROM read_parquet(?) GROUP BY 1 ORDER BY 1", [str(file)])
        assert sums.fetchall() == [("/a", 300_000, 3_000_000), ("/b", 300_000, 3_000_000)]
        kv = dict(db.execute("SELECT decode(key), decode(value) FROM parquet_kv_metadata(?)", [str(file)]).fetchall())
        assert json.loads(kv["arrays"])[0]["array"] == "g/v"


def test_replaced_only_if_asked(series):  # noqa: F811
    folder, _ = series
    export(folder / "s.sqlite", folder / "flat", format="parquet")
    with pytest.raises(RuntimeError, match="--overwrite"):
        export(folder / "s.sqlite", folder / "flat", format="parquet")
    export(folder / "s.sqlite", folder / "flat", format="parquet", overwrite=True, array=["packed"])
    assert len(list((folder / "flat").iterdir())) == 3
    (folder / "own").mkdir()
    with pytest.raises(RuntimeError, match="not what this command writes"):
        export(folder / "s.sqlite", folder / "own", format="parquet", overwrite=True)
