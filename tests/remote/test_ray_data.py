"""Rows that Ray Data writes to a bucket are complete and there once, whatever is killed.

Without a cluster: tasks run one after another in this process, which is "killed" by an exception.
``tests/faults/test_ray_data_kill.py`` has a job on a cluster.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import ray
import shardmill as sm
from breadth import beginning
from ray.data import DataContext
from ray.data.datasource import WriteResult
from shardmill import errors
from shardmill._native import storage
from shardmill.integrations.ray import read, write
from shardmill.integrations.ray_data import _parts, _read, _write
from shardmill.integrations.ray_data._place import StorePlace

from .fault_proxy import Fault, mix

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

TASKS, ROWS = 3, 5
ALL = list(range(TASKS * ROWS))
#: Functions that change what is in a bucket.
STEPS = ("replace_object", "move_file", "remove", "remove_directory")


class KilledError(BaseException):
    pass


def killed(*_arguments):
    raise KilledError


class Rows:
    """A data set of Ray, whose tasks run in this process, the first of them twice."""

    def __init__(self, first=0, source=None, meanwhile=lambda: None):
        self.context, self.first = DataContext(), first
        self.source, self.meanwhile = source, meanwhile

    def run_task(self, number, sent):
        tasks, sink = ray.cloudpickle.loads(sent)
        return sink.write(tasks[number](), SimpleNamespace(task_idx=number))

    def write_datasink(self, sink, **_options):
        starts = [self.first + number * ROWS for number in range(TASKS)]
        tasks = (
            [lambda start=start: [table_of(start)] for start in starts]
            if self.source is None
            else self.source.get_read_tasks(TASKS)
        )
        self.sent = ray.cloudpickle.dumps((tasks, sink))
        self.run_task(0, self.sent)
        found = [self.run_task(number, self.sent) for number in range(TASKS)]
        self.meanwhile()
        sink.on_write_complete(WriteResult(0, 0, found))


def table_of(start):
    numbers = range(start, start + ROWS)
    return pa.table({"x": list(numbers), "txt": [f"row {number}" for number in numbers]})


@pytest.fixture
def out(bucket, server, monkeypatch):
    monkeypatch.setattr(_write, "check_nodes", lambda _paths, **_options: None)
    sm.storage.configure(f"s3://{bucket.name}", server.storage_options())
    return f"s3://{bucket.name}/out"


def found(out, bucket):
    """The rows; nothing else is in the bucket."""
    assert not [*bucket.directory.rglob(".shardmill-ray/*")]
    return [int(row["x"]) for row in sm.Dataset(out)]


@pytest.mark.parametrize("kind", ["parquet", "mds", "webdataset", "jsonl", "arrayrecord"])
def test_rows_in_a_bucket_are_the_files_of_a_directory(kind, bucket, out, server, tmp_path):
    columns = {"x": "int", "txt": "str"} if kind == "mds" else None
    options = {"format": kind, "columns": columns}
    if kind == "webdataset":
        options["modified"] = 0
    if kind == "arrayrecord":
        options["columns"] = ["txt"]
    given = {"storage_options": server.storage_options()}
    files = write(Rows(), out + "/", **options, **given)
    write(Rows(), tmp_path / "out", **options)
    assert files == [f"{out}/{Path(file).name}" for file in files] and len(files) == TASKS
    assert {path.name: path.read_bytes() for path in (bucket.directory / "out").iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()
    }


def kill_before(stop, patch):
    """A killed process does nothing afterwards."""
    steps, is_killed = iter(range(10_000)), []

    def counted(function):
        def call(*arguments):
            if is_killed or next(steps) == stop:
                is_killed.append(True)
                raise KilledError
            return function(*arguments)

        return call

    for name in STEPS:
        patch.setattr(storage, name, counted(getattr(storage, name)))


def killed_before(stop, run):
    """Whether it was killed: there may be fewer steps."""
    with pytest.MonkeyPatch.context() as patch:
        kill_before(stop, patch)
        try:
            run()
        except KilledError:
            return True
    return False


@pytest.mark.parametrize(("mode", "kind"), [("append", "mds"), ("overwrite", "parquet")])
def test_driver_that_is_killed_before_each_step_is_completed_by_the_next_write(
    mode, kind, bucket, out
):
    columns = {"x": "int"} if kind == "mds" else ["x"]
    stop, outcomes = 0, set()
    while True:
        one = f"{out}{stop}"
        if mode == "overwrite":
            write(Rows(100), one, format=kind, columns=columns)
        options = {"format": kind, "mode": mode, "columns": columns}
        if not killed_before(stop, partial(write, Rows(), one, **options)):
            break
        write(Rows(500), one, format=kind, mode="append", columns=columns)
        earlier = [100 + x for x in ALL] if mode == "overwrite" else []
        last = [500 + x for x in ALL]
        rows = found(one, bucket)
        assert rows in (earlier + last, ALL + last), stop
        outcomes.add(len(rows) + (rows[0] == 0))
        stop += 1
    assert stop > 6 and len(outcomes) == 2


def test_driver_that_is_killed_between_a_copy_and_its_removal_is_completed(bucket, out):
    moved = []

    def copied(source, target):
        key = target.removeprefix(f"s3://{bucket.name}/")
        bucket.publish(key, bucket.directory / source.removeprefix(f"s3://{bucket.name}/"))
        moved.append(target)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "move_file", copied)
        with pytest.raises(KilledError):
            write(Rows(), out)
    assert len(moved) == 1
    write(Rows(500), out, mode="append")
    assert found(out, bucket) == [*ALL, *(500 + x for x in ALL)]


def test_name_that_another_writer_took_meanwhile_is_not_replaced(bucket, out):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "move_file", killed)
        with pytest.raises(KilledError):
            write(Rows(), out)
    with sm.Writer(f"{out}/part-00001.parquet") as writer:
        writer.write({"x": -1})
    for _ in range(2):
        with pytest.raises(errors.StorageError, match=r"taken the name 'part-00001.parquet'"):
            write(Rows(), out, mode="append")
    storage.remove(f"{out}/part-00001.parquet")
    write(Rows(500), out, mode="append")
    assert found(out, bucket) == [*ALL, *(500 + x for x in ALL)]


def test_of_two_writes_at_once_the_earlier_one_fails_and_leaves_nothing(bucket, out):
    first = Rows(meanwhile=lambda: write(Rows(500), out))
    with pytest.raises(errors.StorageError, match=r"another write to 's3://.*/out' has begun"):
        write(first, out, mode="append")
    assert found(out, bucket) == [500 + x for x in ALL]
    # A task of the first write ends late.
    with pytest.raises(errors.StorageError, match="has begun"):
        first.run_task(1, first.sent)
    assert found(out, bucket) == [500 + x for x in ALL]


def test_task_that_ends_after_another_write_has_begun_leaves_nothing(bucket, out):
    first = Rows()
    with pytest.raises(KilledError), pytest.MonkeyPatch.context() as patch:
        patch.setattr(StorePlace, "end", lambda _self: None)
        first.meanwhile = killed
        write(first, out)

    close = sm.Writer.close

    def late(writer):
        sm.Writer.close = close
        write(Rows(500), out)
        close(writer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sm.Writer, "close", late)
        with pytest.raises(errors.StorageError, match="has begun"):
            first.run_task(1, first.sent)
    assert found(out, bucket) == [500 + x for x in ALL]


def test_driver_that_sleeps_while_another_one_completes_its_write_changes_nothing(bucket, out):
    move, moved = storage.move_file, []

    def sleeps(*arguments):
        moved.append(arguments)
        if len(moved) == 2:
            write(Rows(500), out, mode="overwrite", columns=["x"])
        move(*arguments)

    write(Rows(100), out, columns=["x"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "move_file", sleeps)
        files = write(Rows(), out, mode="overwrite", columns=["x"])
    assert len(files) == TASKS
    assert found(out, bucket) == [500 + x for x in ALL]


def test_write_that_fails_leaves_nothing(bucket, out):
    def fail():
        raise ValueError("of a test")

    with pytest.raises(ValueError, match="of a test"):
        write(Rows(meanwhile=fail), out)
    assert not [path for path in bucket.directory.rglob("*") if path.is_file()]
    write(Rows(), out)
    with pytest.raises(errors.OutputExistsError, match="data files already"):
        write(Rows(), out)
    assert found(out, bucket) == ALL


@pytest.mark.parametrize("seed", beginning(1, range(10)))
def test_faults_of_a_store_change_nothing(seed, bucket, out, server, proxy):
    options = server.storage_options(endpoint=proxy.endpoint)
    sm.storage.configure(f"s3://{bucket.name}", options)
    # Lost answers make a request happen twice.
    lost = Fault(kind="lost", applied=True, probability=0.2, count=20, seed=seed)
    proxy.faults(lost, mix(probability=0.1, count=20, seed=seed))
    write(Rows(), out, format="mds", columns={"x": "int"})
    assert sum(proxy.given()) > 0
    proxy.reset()
    assert found(out, bucket) == ALL


def test_finished_tasks_outlive_their_run_in_a_checkpoint_on_a_disk(
    bucket, out, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_read, "check_nodes", lambda _paths: None)
    monkeypatch.setattr(_parts, "RANGE_BYTES", 1)
    monkeypatch.setattr(ray.data, "read_datasource", lambda source, **_options: Rows(source=source))
    (tmp_path / "in").mkdir()
    tables = [table_of(number * ROWS) for number in range(TASKS)]
    for number, table in enumerate(tables):
        pq.write_table(table, tmp_path / "in" / f"{number}.parquet")
    checkpoint = tmp_path / "state"

    def job():
        ds = read(tmp_path / "in", ids="_row", checkpoint=checkpoint)
        return write(ds, out, checkpoint=checkpoint)

    stop = 0
    while killed_before(stop, job):
        files = job()
        assert sorted(found(out, bucket)) == ALL, stop
        assert files in ([], [f"{out}/part-{number:05}.parquet" for number in range(TASKS)])
        assert job() == []
        shutil.rmtree(checkpoint)
        shutil.rmtree(bucket.directory / "out")
        stop += 1
    assert stop > 4
    storage.remove(f"{out}/part-00001.parquet")
    with pytest.raises(errors.CheckpointDamagedError, match=r"part-00001.parquet' is missing"):
        job()
