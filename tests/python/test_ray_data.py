"""Rows that Ray Data reads and writes with us are those of the files, each once and in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.csv as csv
import pyarrow.orc as orc
import pyarrow.parquet as pq
import ray
import shardmill as sm
from breadth import beginning, examples
from byte_tokenizer import write_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.data.expressions import col
from shardmill import errors
from shardmill.data._dataset import opened_files
from shardmill.integrations._landmark import Landmark
from shardmill.integrations.ray import checkpoint_config, read, write
from shardmill.integrations.ray_data import _parts as parts
from shardmill.integrations.ray_data._nodes import check_nodes
from shardmill.integrations.ray_data._parts import File, divided
from shardmill.integrations.ray_data._read import ShardmillDatasource
from shardmill.integrations.ray_data._write import WriteTask

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

ROWS = 1000


@pytest.fixture(scope="module")
def cluster():
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def table_of(rows=ROWS, first=0):
    numbers = range(first, first + rows)
    return pa.table({"x": list(numbers), "text": [f"row {number}" for number in numbers]})


@pytest.fixture
def tiny_ranges(monkeypatch):
    """Files of tests are smaller than what is worth a task."""
    monkeypatch.setattr(parts, "RANGE_BYTES", 1)


def write_files(directory, kind, files=3):
    """A data set of some files, written by us or by pyarrow."""
    directory.mkdir()
    for number in range(files):
        table = table_of(ROWS + number, number * 10_000)
        if kind == "orc":
            orc.write_table(table, directory / f"{number}.orc")
        elif kind == "csv":
            csv.write_csv(table, directory / f"{number}.csv")
        elif kind == "parquet":
            pq.write_table(table, directory / f"{number}.parquet", row_group_size=100)
        else:
            table = table.select(["text"]) if kind == "arrayrecord" else table
            options = {"compression": "gz"} if kind == "jsonl.gz" else {}
            part = directory / f"{number}"
            with sm.Writer(part, format=kind.removesuffix(".gz"), **options) as writer:
                writer.write_batch(table)
    if kind == "mds":
        sm.merge(directory)
    return directory


def source_of(path, ids=None, **options):
    dataset = sm.Dataset(path, **options)
    files = [File(path, size, rows) for path, _, size, rows in opened_files(dataset).native.files]
    return ShardmillDatasource(dataset, files, ids)


def tables_of(source, tasks):
    """The rows of each task, which comes here as it comes to a worker."""
    sent = [ray.cloudpickle.dumps(task) for task in source.get_read_tasks(tasks)]
    found = [list(ray.cloudpickle.loads(task)()) for task in sent]
    return [pa.concat_tables(tables) for tables in found]


@pytest.mark.parametrize(
    "kind",
    ["parquet", "orc", "csv", "jsonl", "jsonl.gz", "arrayrecord", "mds", "webdataset"],
)
def test_tasks_read_the_rows_of_the_data_set_however_they_are_divided(tmp_path, kind, tiny_ranges):
    directory = write_files(tmp_path / "in", kind)
    expected = pa.table(sm.Dataset(directory))
    for tasks in (1, 2, 7):
        source = source_of(directory)
        found = tables_of(source, tasks)
        assert pa.concat_tables(found).equals(expected)
        most = min(tasks, 3) if kind in ("csv", "jsonl", "jsonl.gz") else tasks
        assert most - 1 <= len(found) <= most
        metadata = [task.metadata.num_rows for task in source.get_read_tasks(tasks)]
        assert metadata == [len(table) for table in found]


@settings(max_examples=examples(300, 50), deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 1000)), max_size=12),
    tasks=st.integers(1, 20),
    by_file=st.booleans(),
    least=st.sampled_from([1, 100, 700]),
)
def test_each_row_of_each_file_is_in_one_task(sizes, tasks, by_file, least):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "RANGE_BYTES", least)
        check_division(sizes, tasks, by_file)


def check_division(sizes, tasks, by_file):
    files = [File(str(number), size, rows) for number, (rows, size) in enumerate(sizes)]
    found = divided(files, tasks, "parquet", by_file=by_file)
    assert len(found) <= tasks and all(found)
    rows = []
    for part in (part for task in found for part in task):
        assert part.rows > 0 and not (by_file and part.stop is not None)
        every = [
            (part.first + place, row)
            for place, file in enumerate(part.files)
            for row in range(file.rows)
        ]
        assert list(part.files) == files[part.first : part.first + len(part.files)]
        rows += every[part.start : part.stop]
    assert rows == [(n, row) for n, file in enumerate(files) for row in range(file.rows)]


def test_one_file_is_divided_into_tasks_of_equal_sizes(monkeypatch):
    [file] = files = [File("a", 1000, 1000)]
    assert len(divided(files, 4, "mds", by_file=False)) == 1
    monkeypatch.setattr(parts, "RANGE_BYTES", 250)
    assert len(divided(files, 9, "mds", by_file=False)) <= 4
    assert [part.rows for [part] in divided(files, 4, "mds", by_file=False)] == [250] * 4
    assert divided(files, 4, "jsonl", by_file=False) == divided([file], 1, "mds", by_file=False)


def bytes_read():
    return int(Path("/proc/self/io").read_text().split()[1])


def bytes_of(function):
    before = bytes_read()
    function()
    return bytes_read() - before


@pytest.fixture
def wide(tmp_path):
    """Ten row groups of 100 kB, of which one column is nearly all."""
    table = pa.table({"x": list(range(ROWS)), "blob": [os.urandom(1000) for _ in range(ROWS)]})
    pq.write_table(table, tmp_path / "wide.parquet", row_group_size=100, compression="none")
    return tmp_path / "wide.parquet"


def test_columns_and_rows_that_are_not_asked_for_are_not_read(wide, tiny_ranges):
    source = source_of(wide)
    size = wide.stat().st_size
    assert bytes_of(lambda: tables_of(source, 1)) > size * 0.95
    narrow = source.apply_projection({"x": "x"})
    assert bytes_of(lambda: tables_of(narrow, 1)) < size * 0.1
    few = source.apply_predicate((col("x") >= 200) & (col("x") < 300))
    assert [table["x"].to_pylist() for table in tables_of(few, 1)] == [list(range(200, 300))]
    assert bytes_of(lambda: tables_of(few, 1)) < size * 0.2
    [_, second, *_] = source.get_read_tasks(5)
    assert bytes_of(lambda: list(second())) < size * 0.3


def test_size_is_that_of_the_selected_columns(wide):
    source = source_of(wide)
    narrow = source.apply_projection({"x": "x"})
    assert source.estimate_inmemory_data_size() == pytest.approx(1008 * ROWS, rel=0.1)
    assert narrow.estimate_inmemory_data_size() == pytest.approx(8 * ROWS, rel=0.3)
    sizes = [task.metadata.size_bytes for task in narrow.get_read_tasks(4)]
    assert sum(sizes) == pytest.approx(narrow.estimate_inmemory_data_size(), abs=4)


def test_task_describes_only_its_own_files(tmp_path):
    for number in range(200):
        (tmp_path / f"{number:04}.csv").write_text(f"x\n{number}\n")
    source = source_of(tmp_path)
    tasks = source.get_read_tasks(100)
    assert len(tasks) == 100
    sent = ray.cloudpickle.loads(ray.cloudpickle.dumps(source))
    assert sent.get_read_tasks(100)[7].metadata == tasks[7].metadata
    assert max(len(ray.cloudpickle.dumps(task)) for task in tasks) < 8_000


def test_files_with_other_types_and_columns_have_the_schema_of_all(tmp_path):
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [2**40], "y": ["b"]}), tmp_path / "b.parquet")
    expected = pa.table(sm.Dataset(tmp_path))
    assert pa.concat_tables(tables_of(source_of(tmp_path), 2)).equals(expected)
    for condition in (col("y").is_null(), col("y") == "b", col("x") > 1):
        source = source_of(tmp_path).apply_predicate(condition)
        kept = expected.filter(condition.to_pyarrow())
        assert pa.concat_tables(tables_of(source, 2)).equals(kept)


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "webdataset"])
def test_ids_are_the_file_and_the_row(tmp_path, kind, tiny_ranges):
    source = source_of(write_files(tmp_path / "in", kind), ids="_row")
    expected = [(file << 40) + row for file in range(3) for row in range(ROWS + file)]
    for tasks in (1, 7):
        found = pa.concat_tables(tables_of(source, tasks))
        assert found["_row"].to_pylist() == expected
    only = source.apply_projection({"_row": "_row"})
    assert pa.concat_tables(tables_of(only, 2)).to_pydict() == {"_row": expected}
    # Their numbers are those of all rows, so Ray filters them.
    assert not source.supports_predicate_pushdown()


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_data_set_with_tokens_a_filter_and_keys_of_paths_is_read_as_it_is(tmp_path, kind):
    (tmp_path / "in").mkdir()
    for number in range(2):
        files = write_files(tmp_path / "in" / f"part={number}a", kind, files=2)
    options = {
        "tokenize": sm.Tokenize("text", tokenizer=write_tokenizer(tmp_path / "tokenizer")),
        "partitioning": "hive",
        "filter": sm.col("x") >= 500,
        "columns": ["tokens", "part", "x"],
    }
    expected = pa.table(sm.Dataset(files.parent, **options))
    assert set(expected["part"].to_pylist()) == {"0a", "1a"}
    for tasks in (1, 3):
        source = source_of(files.parent, **options)
        assert pa.concat_tables(tables_of(source, tasks)).equals(expected)
        assert [task.metadata.num_rows for task in source.get_read_tasks(1)] == [None]


def test_filter_that_we_cannot_express_is_left_to_ray(wide):
    source = source_of(wide)
    assert source.apply_predicate((col("x") + 1) * 2 > 4) is source
    assert source.apply_predicate(col("missing") > 4) is source
    assert source.apply_predicate(col("x") > "text") is source


def test_file_that_changed_after_it_was_listed_is_an_error(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(table_of(), path)
    [task] = source_of(path).get_read_tasks(1)
    pq.write_table(table_of(10), path)
    with pytest.raises(errors.FormatError, match="call read again"):
        list(task())


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ids": 5}, "name of a column"),
        ({"ids": "x"}, "already"),
        ({"columns": ["x"]}, "option of"),
    ],
)
def test_option_that_does_not_fit_is_an_error(wide, options, match):
    with pytest.raises(errors.OptionError, match=match):
        read(sm.Dataset(wide), **options)


def test_read_has_the_order_and_the_rows_of_the_files(cluster, tmp_path):
    directory = write_files(tmp_path / "in", "parquet")
    expected = pa.table(sm.Dataset(directory))
    ds = read(directory, ray_options={"override_num_blocks": 7})
    assert ds.count() == len(expected)
    assert ds.schema().names == ["x", "text"]
    assert not ray.data.DataContext.get_current().execution_options.preserve_order
    found = ds.map_batches(lambda table: table, batch_format="pyarrow")
    assert [row["x"] for row in found.iter_rows()] == expected["x"].to_pylist()


def test_selection_and_filter_of_ray_are_those_of_its_own_reader(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = write_files(Path("in"), "parquet")
    ds = read(directory).filter(expr=col("x") % 3 == 0).filter(expr=col("x") > 10_100)
    expected = pa.table(sm.Dataset(directory))["x"].to_pylist()
    expected = [x for x in expected if x % 3 == 0 and x > 10_100]
    assert list(ds.select_columns(["x"]).iter_rows()) == [{"x": x} for x in expected]
    assert ds.count() == len(expected)


@pytest.mark.slow
def test_ids_of_files_are_those_of_a_checkpoint_of_ray(cluster, tmp_path):
    directory = write_files(tmp_path / "in", "webdataset", files=2)
    config = checkpoint_config(id_column="_row", checkpoint_path=tmp_path / "checkpoint")
    context = ray.data.DataContext.get_current()
    context.checkpoint_config = config
    try:
        for files in (2, 3):
            if files == 3:
                with sm.Writer(directory / "2", format="webdataset") as writer:
                    writer.write_batch(table_of(ROWS, 20_000))
            read(directory, ids="_row").write_parquet(str(tmp_path / "out"))
        with pytest.raises(Exception, match="_row"):
            read(directory, ids="_row").drop_columns(["_row"]).write_parquet(str(tmp_path / "two"))
    finally:
        context.checkpoint_config = None
    found = sorted(pq.read_table(tmp_path / "out")["_row"].to_pylist())
    assert found == [(file << 40) + row for file in range(3) for row in range(ROWS + file % 2)]


def test_blocks_have_the_size_that_is_asked_for(cluster, wide):
    context = ray.data.DataContext.get_current()
    before, context.target_max_block_size = context.target_max_block_size, 200_000
    try:
        batches = read(wide).iter_batches(batch_size=None, batch_format="pyarrow")
        blocks = [batch.select(["x", "blob"]) for batch in batches]
    finally:
        context.target_max_block_size = before
    assert len(blocks) >= 5 and max(block.nbytes for block in blocks) < 400_000
    assert pa.concat_tables(blocks)["x"].to_pylist() == list(range(ROWS))


def test_no_files_are_no_rows(cluster, tmp_path):
    (tmp_path / "in").mkdir()
    assert read(tmp_path / "in").count() == 0


def members_of(path):
    with tarfile.open(path) as tar:
        return tar.getnames()


@pytest.mark.parametrize(
    "format", beginning(2, ["parquet", "mds", "webdataset", "jsonl", "arrayrecord"])
)
def test_rows_that_are_written_are_those_of_the_data_set(cluster, tmp_path, format):
    directory = write_files(
        tmp_path / "in", "arrayrecord" if format == "arrayrecord" else "parquet"
    )
    ds = read(directory, ids="_row", ray_options={"override_num_blocks": 4})
    files = write(ds, tmp_path / "out", format=format, ids="_row")
    assert sorted(os.listdir(tmp_path / "out")) == sorted(
        [Path(file).name for file in files] + (["index.json"] if format == "mds" else [])
    )
    expected = pa.table(sm.Dataset(directory)).to_pylist()
    found = list(sm.Dataset(tmp_path / "out"))
    if format == "webdataset":
        members = [name for file in files for name in members_of(file)]
        assert len(set(members)) == len(members) == 2 * len(expected)
        found = [{"x": int(row["x"]), "text": row["text"]} for row in found]
    assert found == expected


def test_shards_are_appended_and_replaced(cluster, tmp_path):
    out = tmp_path / "out"
    for mode in ("append", "append"):
        write(ray.data.range(10), out, format="mds", mode=mode, columns={"id": "int"})
    assert [row["id"] for row in sm.Dataset(out)] == [*range(10), *range(10)]
    with pytest.raises(errors.OutputExistsError, match="already"):
        write(ray.data.range(10), out, format="mds")
    write(ray.data.range(5), out, format="mds", mode="overwrite")
    assert [row["id"] for row in sm.Dataset(out)] == [*range(5)]
    listed = json.loads((out / "index.json").read_bytes())["shards"]
    assert sorted(os.listdir(out)) == [
        "index.json",
        *(one["raw_data"]["basename"] for one in listed),
    ]


def test_task_that_fails_leaves_nothing(cluster, tmp_path):
    out = tmp_path / "out"

    def fails(row):
        if row["id"] == 9:
            raise ValueError("of the user")
        return row

    with pytest.raises(Exception, match="of the user"):
        write(ray.data.range(10).map(fails), out, mode="append")
    assert not out.exists()


@pytest.mark.slow
def test_task_that_is_repeated_leaves_nothing(cluster, tmp_path):
    marker, out = tmp_path / "died", tmp_path / "out"

    def dies_once(blocks):
        if blocks["id"][-1] == 9 and not marker.exists():
            marker.touch()
            time.sleep(0.3)
            os._exit(1)
        return blocks

    files = write(ray.data.range(10).map_batches(dies_once), out)
    assert sorted(os.listdir(out)) == sorted(Path(file).name for file in files)
    assert sorted(row["id"] for row in sm.Dataset(out)) == list(range(10))


def test_tasks_with_other_columns_are_an_error(cluster, tmp_path):
    ds = ray.data.range(10, override_num_blocks=2).map(
        lambda row: {"x": row["id"] if row["id"] < 5 else str(row["id"])}
    )
    with pytest.raises(errors.PlanError, match="x: int64.*x: string"):
        write(ds, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write(ray.data.range(3), tmp_path / "out")
    with pytest.raises(errors.PlanError, match="do not fit"):
        write(read(tmp_path / "out").rename_columns({"id": "y"}), tmp_path / "out", mode="append")


def test_operator_that_drops_the_ids_is_an_error(cluster, tmp_path):
    with pytest.raises(Exception, match="keep the column of ids"):
        write(ray.data.range(3), tmp_path / "out", ids="_row")


def test_node_that_does_not_see_a_path_is_an_error(cluster, tmp_path):
    with pytest.raises(errors.StorageError, match="is not visible on node"):
        check_nodes([str(tmp_path / "elsewhere")])


def test_file_that_a_node_cannot_read_is_an_error_that_names_the_node(cluster, tmp_path):
    directory = write_files(tmp_path / "in", "parquet")
    [task] = source_of(directory).get_read_tasks(1)
    (directory / "1.parquet").unlink()
    with pytest.raises(errors.NotFoundError, match=r"(?s)1.parquet.*, on node .*hint: "):
        list(task())


@pytest.mark.slow
def test_node_without_shardmill_is_an_error(cluster, tmp_path):
    (tmp_path / "shardmill.py").write_text("raise ImportError(\"No module named 'shardmill'\")")
    with pytest.raises(errors.EngineError, match=r"(?s)No module named.*hint: install it"):
        check_nodes([], runtime_env={"env_vars": {"PYTHONPATH": str(tmp_path)}})


#: Ends in the first step that moves a file, or stays in a task for ever.
DRIVER = """
import os, sys, time
import ray
from shardmill._native import storage
from shardmill.integrations.ray import write

def moved(*_): os._exit(9)

def stays(batch):
    time.sleep(600)
    return batch

ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
rows = ray.data.range(8, override_num_blocks=2)
if sys.argv[2] == "move":
    storage.move_file = moved
else:
    rows = rows.map_batches(lambda batch: stays(batch) if 7 in batch["id"] else batch)
write(rows, sys.argv[1], mode="append")
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["move", "task"])
def test_driver_of_ray_that_is_killed_loses_and_repeats_nothing(cluster, tmp_path, moment):
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, out, moment], env=os.environ | {"RAY_ADDRESS": "local"}
    ) as driver:
        while moment == "task" and not [*out.glob(".shardmill-ray/*/*/*.parquet")]:
            assert driver.poll() is None
            time.sleep(0.1)
        if moment == "task":
            driver.kill()
        assert driver.wait() in (9, -9)
    assert not [*out.glob("*.parquet")]
    write(ray.data.range(3), out, mode="append")
    assert [row["id"] for row in sm.Dataset(out)] == [
        *(range(8) if moment == "move" else ()),
        0,
        1,
        2,
    ]
    assert not (out / ".shardmill-ray").exists()


def test_task_of_an_earlier_run_fails(cluster, tmp_path):
    run = str(tmp_path / "gone")
    landmark = Landmark(run, "output directory")
    task = WriteTask(run, "parquet", {}, landmark=landmark, ids=None, first=0)
    with pytest.raises(errors.StorageError, match="a later run has started"):
        task([table_of()], 0)
