"""Finished tasks of a write outlive their run: each row is there once, whatever is killed.

Without a cluster: tasks run one after another in this process, which is "killed" by an exception.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import ray
import shardmill as sm
from breadth import IS_WHOLE, beginning
from ray.data import DataContext
from ray.data.datasource import WriteResult
from shardmill import errors
from shardmill._native import storage
from shardmill.integrations.ray import read, write
from shardmill.integrations.ray_data import _journal as journal
from shardmill.integrations.ray_data import _parts, _place, _read, _staging, _write
from shardmill.integrations.ray_data._place import LocalPlace
from shardmill.integrations.ray_data._staging import Staging

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

TASKS = 2
ROWS = 6 * TASKS


class KilledError(BaseException):
    pass


class Rows:
    """A data set of Ray, whose tasks run in this process."""

    def __init__(self, source, function=lambda table: table, tasks=TASKS):
        self.source, self.function, self.tasks = source, function, tasks
        self.context = DataContext()

    def map(self, function):
        self.function = function
        return self

    def sent(self, sink):
        """The tasks, as they come to workers."""
        return ray.cloudpickle.dumps((self.source.get_read_tasks(self.tasks), sink))

    def run_task(self, number, sent):
        tasks, sink = ray.cloudpickle.loads(sent)
        blocks = map(self.function, tasks[number]())
        return sink.write(blocks, SimpleNamespace(task_idx=number))

    def write_datasink(self, sink, **_options):
        sent = self.sent(sink)
        found = [self.run_task(number, sent) for number in range(self.tasks)]
        sink.on_write_complete(WriteResult(0, 0, found))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_read, "check_nodes", lambda _paths: None)
    monkeypatch.setattr(_write, "check_nodes", lambda _paths, **_options: None)
    monkeypatch.setattr(ray.data, "read_datasource", lambda source, **_options: Rows(source))
    monkeypatch.setattr(_parts, "RANGE_BYTES", 1)
    monkeypatch.chdir(tmp_path)
    add_file("a", 0)


def add_file(name, first, rows=ROWS):
    Path("in").mkdir(exist_ok=True)
    numbers = list(range(first, first + rows))
    pq.write_table(pa.table({"x": numbers}), f"in/{name}.parquet", row_group_size=2)


def rows(**options):
    return read("in", ids="_row", checkpoint="checkpoint", **options)


def run(ds=None, out="out", **options):
    return write(rows() if ds is None else ds, out, checkpoint="checkpoint", **options)


def found(out="out", rows=ROWS):
    assert not Path(out, ".shardmill-ray").exists()
    return [row["x"] for row in sm.Dataset(out)]


#: Functions that change what is on the disk.
STEPS = [
    (Path, "rename"),
    (Path, "unlink"),
    (Path, "mkdir"),
    (Path, "write_text"),
    (shutil, "rmtree"),
    (pq, "write_table"),
    (journal, "sync"),
    (journal, "publish_bytes"),
    (storage, "move_file"),
    (storage, "remove"),
    (_place, "publish_bytes"),
    (_staging, "sync"),
    (_staging, "publish_bytes"),
    (_staging, "write_index"),
]


def kill_before(stop, patch, meanwhile=None):
    """Before a step, this process is killed, or others run. It does nothing after it was killed."""
    steps, is_killed = iter(range(10_000)), []

    def counted(function):
        def call(*arguments, **options):
            if is_killed:
                raise KilledError
            if next(steps) == stop:
                if meanwhile is None:
                    is_killed.append(True)
                    raise KilledError
                with pytest.MonkeyPatch.context() as others:
                    for (owner, name), original in originals.items():
                        others.setattr(owner, name, original)
                    meanwhile()
            return function(*arguments, **options)

        return call

    originals = {(owner, name): getattr(owner, name) for owner, name in STEPS}
    for (owner, name), original in originals.items():
        patch.setattr(owner, name, counted(original))
    if meanwhile is None:
        end = LocalPlace.end

        def ended(self):
            try:
                if not is_killed:
                    end(self)
            finally:
                if is_killed and self._lock is not None:
                    os.close(self._lock)

        patch.setattr(LocalPlace, "end", ended)


def killed_before(stop, run):
    """Whether it was killed: there may be fewer steps."""
    with pytest.MonkeyPatch.context() as patch:
        kill_before(stop, patch)
        try:
            run()
        except KilledError:
            return True
    return False


def again():
    for name in ("out", "checkpoint"):
        shutil.rmtree(name, ignore_errors=True)


def some(table):
    """An operator that drops every third row."""
    return table.filter(pa.array([x % 3 != 1 for x in table["x"].to_pylist()], pa.bool_()))


KEPT = [x for x in range(ROWS) if x % 3 != 1]


@pytest.mark.parametrize("format", beginning(1, ["parquet", "mds", "webdataset"]))
def test_job_that_is_killed_before_each_step_has_each_row_once(format):
    def job():
        run(rows().map(some), format=format)

    stop = 0
    while killed_before(stop, job):
        if IS_WHOLE:
            # And once more, elsewhere.
            killed_before((7 * stop) % 40, job)
        job()
        assert [int(x) for x in found()] == KEPT, stop
        again()
        stop += 1
    assert stop > 30


class Interrupted(Rows):
    """Its driver is killed after some of its tasks."""

    def __init__(self, ds, ended):
        super().__init__(ds.source, ds.function, ds.tasks)
        self.context, self.ended = ds.context, ended

    def write_datasink(self, sink, **_options):
        self.left = self.sent(sink)
        for number in range(self.ended):
            self.run_task(number, self.left)
        raise KilledError


def interrupted(ended, ds=None):
    ds = Interrupted(ds or rows(), ended)
    with pytest.raises(KilledError):
        run(ds)
    return ds


@pytest.mark.parametrize("stop", [*range(0, 12, 1 if IS_WHOLE else 3)])
def test_task_that_outlives_its_run_changes_nothing(stop):
    ds = interrupted(ended=1)
    with pytest.MonkeyPatch.context() as patch:
        # It stays at a step, while another run does all.
        kill_before(stop, patch, meanwhile=run)
        with suppress(OSError):
            ds.run_task(1, ds.left)
    # It may have ended before that step.
    run()
    assert found() == list(range(ROWS))
    run()
    assert found() == list(range(ROWS))


def test_task_that_runs_twice_commits_once():
    ds = interrupted(ended=1)
    ds.run_task(0, ds.left)
    ds.run_task(0, ds.left)
    run()
    assert found() == list(range(ROWS))


def test_task_that_is_repeated_with_other_rows_is_an_error():
    ds = interrupted(ended=1)
    ds.function = some
    with pytest.raises(errors.FormatError, match="other rows than when it ran first"):
        ds.run_task(0, ds.left)
    run()
    assert found() == list(range(ROWS))


def test_finished_tasks_are_not_read_again():
    interrupted(ended=TASKS)
    ds = rows()
    shutil.rmtree("in")
    assert len(run(ds)) == TASKS
    assert found() == list(range(ROWS))


def test_rows_that_are_done_are_left_out_of_any_columns():
    interrupted(ended=1)
    # This run closes the earlier one.
    interrupted(ended=0)
    for names in (["x"], ["_row"], []):
        source = rows().source.apply_projection({name: name for name in names})
        tasks = source.get_read_tasks(TASKS)
        assert all(task.metadata.num_rows is None for task in tasks)
        tables = [table for task in tasks for table in task()]
        assert sum(ray.data.block.BlockAccessor.for_block(one).num_rows() for one in tables) == 6
        if names == ["x"]:
            assert [x for one in tables for x in one["x"].to_pylist()] == list(range(6, ROWS))


def test_types_that_differ_between_runs_are_an_error():
    interrupted(ended=1)

    def texts(table):
        return table.set_column(0, "x", table["x"].cast("string"))

    with pytest.raises(errors.PlanError, match="(?s)x: int64.*x: string.*another checkpoint"):
        run(rows().map(texts))


def test_run_that_has_ended_is_continued_by_files_that_were_added():
    first = run()
    assert first == ["out/part-00000.parquet", "out/part-00001.parquet"]
    assert run() == [] and run(mode="append") == []
    add_file("b", ROWS)
    assert run() == ["out/part-00002.parquet"]
    assert found() == list(range(2 * ROWS))
    os.unlink("out/part-00001.parquet")
    with pytest.raises(errors.CheckpointDamagedError, match=r"part-00001.parquet' is missing"):
        run()


def test_rows_that_were_read_before_a_run_failed_are_not_doubled():
    ds = rows()
    tables = [list(task()) for task in ds.source.get_read_tasks(TASKS)]
    interrupted(ended=1)

    class Kept(Rows):
        def sent(self, sink):
            return ray.cloudpickle.dumps(([lambda one=one: one for one in tables], sink))

    kept = Kept(ds.source)
    kept.context = ds.context
    run(kept)
    assert found() == list(range(ROWS))


def test_earlier_files_are_replaced_once():
    with sm.Writer("out") as writer:
        writer.write({"x": -1})
    with pytest.raises(errors.OutputExistsError, match="already"):
        run()
    with pytest.raises(KilledError):
        run(Interrupted(rows(), 1), mode="overwrite")
    assert [row["x"] for row in sm.Dataset("out")] == [-1]
    run(mode="overwrite")
    add_file("b", ROWS)
    run(mode="overwrite")
    assert found() == list(range(2 * ROWS))


def test_write_without_the_checkpoint_leaves_finished_tasks():
    interrupted(ended=1)
    write(Rows(read("in").source), "out")
    run(mode="append")
    assert found() == [*range(ROWS), *range(ROWS)]


def killed(*_arguments):
    raise KilledError


def test_write_without_the_checkpoint_completes_one_with_it(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Staging, "_complete", killed)
        patch.setattr(LocalPlace, "end", lambda self: os.close(self._lock))
        with pytest.raises(KilledError):
            run()
    assert not [*Path("out").glob("*.parquet")]
    write(Rows(read("in").source), "out", mode="append")
    assert found() == [*range(ROWS), *range(ROWS)]
    assert run() == []
    assert found() == [*range(ROWS), *range(ROWS)]


def test_attempt_that_makes_its_directory_again_cannot_commit():
    ds = interrupted(ended=1)
    [closed] = Path("checkpoint").glob("run-*")
    run()
    late = closed / "000001-late"
    late.mkdir(parents=True)
    (late / "part-00000.parquet").touch()
    with pytest.raises(OSError, match=r"a later run|not visible"):
        ds.run_task(1, ds.left)
    assert run() == [] and not closed.exists()
    assert found() == list(range(ROWS))


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda t: t.drop_columns(["_row"]), errors.MissingColumnError, "keep the column of ids"),
        (lambda t: pa.concat_tables([t, t]), errors.FormatError, "is that of two rows"),
        (
            lambda t: t.set_column(1, "_row", t["_row"].cast("double")),
            errors.IdTypeError,
            "double, but read made int64",
        ),
    ],
)
def test_operator_that_does_not_keep_the_ids_is_an_error(function, error, match):
    with pytest.raises(error, match=match):
        run(rows().map(function))
    run()
    assert found() == list(range(ROWS))


def test_id_in_the_rows_of_two_tasks_is_an_error():
    ds = rows()
    one = ds.source.get_read_tasks(1)[0]
    ds.sent = lambda sink: ray.cloudpickle.dumps(([one, one], sink))
    with pytest.raises(errors.FormatError, match=r"(?s)an id of 12 rows .*then remove"):
        run(ds)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"out": "other"}, r"output was \".*/out\" and is \".*/other\""),
        ({"format": "jsonl"}, 'format was "parquet" and is "jsonl"'),
        ({"compression": "zstd"}, "option compression was null and is \"'zstd'\""),
    ],
)
def test_write_of_another_job_is_an_error(change, match):
    interrupted(ended=1)
    with pytest.raises(errors.CheckpointMismatchError, match=match):
        run(**change)
    run()
    assert found() == list(range(ROWS))


@pytest.mark.parametrize("change", ["columns", "file", "ids"])
def test_input_of_another_job_is_an_error(change):
    interrupted(ended=1)
    if change == "file":
        os.rename("in/a.parquet", "in/b.parquet")
        add_file("a", 100)
    options = {"columns": ["x"]} if change == "columns" else {}
    ids = "_id" if change == "ids" else "_row"
    if change == "columns":
        table = pq.read_table("in/a.parquet").append_column("y", pa.nulls(ROWS, "int64"))
        pq.write_table(table, "in/a.parquet")
    with pytest.raises(errors.CheckpointMismatchError, match="belongs to another job"):
        read("in", ids=ids, checkpoint="checkpoint", **options)


def test_option_that_is_not_valid_leaves_the_checkpoint_as_it_was():
    with pytest.raises(errors.OptionError, match="compression"):
        run(compression="rar")
    run()
    assert found() == list(range(ROWS))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: read("in", checkpoint="c"), "needs ids"),
        (lambda: read("in", ids="_row", checkpoint="s3://bucket/c"), "file system"),
        (lambda: write(rows(), "out"), "the same checkpoint"),
        (lambda: write(Rows(read("in").source), "out", checkpoint="c"), "the same checkpoint"),
        (lambda: write(rows(), "out", checkpoint="c"), "the same checkpoint"),
        (lambda: run(ids="x"), "differ from"),
        (lambda: run(out="."), "is in the output"),
        (lambda: run(out="checkpoint"), "is in the output"),
    ],
)
def test_checkpoint_that_does_not_fit_is_an_error(call, match):
    with pytest.raises(errors.OptionError, match=match):
        call()


@pytest.mark.skipif(
    os.stat("/dev/shm").st_dev == os.stat("/tmp").st_dev, reason="needs two file systems"
)
def test_checkpoint_on_another_file_system_is_an_error(tmp_path_factory):
    elsewhere = "/tmp" if os.stat(".").st_dev == os.stat("/dev/shm").st_dev else "/dev/shm"
    with tempfile.TemporaryDirectory(dir=elsewhere) as directory:
        with pytest.raises(errors.OptionError, match="on the file system of the output"):
            ds = read("in", ids="_row", checkpoint=directory)
            write(ds, "out", checkpoint=directory)
        assert sorted(os.listdir(directory)) == ["input.json"]


def test_finished_task_whose_file_is_missing_is_an_error():
    interrupted(ended=1)
    [path] = Path("checkpoint").glob("*/done/*/part-*.parquet")
    path.unlink()
    with pytest.raises(errors.CheckpointDamagedError, match="is missing or changed") as caught:
        run()
    shutil.rmtree(str(caught.value).split("remove '")[1].split("'")[0])
    run()
    assert found() == list(range(ROWS))


def test_no_rows_are_no_files():
    ds = rows().map(lambda table: table.slice(0, 0))
    assert run(ds) == [] and run() != []
    assert found() == list(range(ROWS))
