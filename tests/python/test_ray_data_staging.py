"""Files of a write of Ray Data become visible together, whatever is killed; without a cluster."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import shardmill as sm
from ray.data import DataContext
from ray.data.datasource import WriteResult
from shardmill import errors
from shardmill._native import storage
from shardmill.integrations.ray import write
from shardmill.integrations.ray_data import _place, _staging
from shardmill.integrations.ray_data._place import LocalPlace
from shardmill.integrations.ray_data._staging import Staging
from shardmill.integrations.ray_data._write import ShardmillDatasink, WriteTask
from shardmill.write._earlier_shards import EarlierShards

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

NO_ROWS = SimpleNamespace(context=DataContext())


def staged(out, mode="append", stop=None, monkeypatch=None):
    """Publishes three shards of MDS; is killed before step ``stop``."""
    with monkeypatch.context() as patch:
        if stop is not None:
            kill_before(stop, patch)
        with Staging(str(out), mode=mode, prefix="shard.", has_index=True) as run:
            found = []
            for number in range(3):
                with sm.Writer(f"{run.run}/{number}", format="mds", columns={"x": "int"}) as writer:
                    writer.write({"x": number})
                found += writer.files
            run.publish(found)


class KilledError(BaseException):
    pass


#: Functions that change what is on the disk.
STEPS = [
    (storage, "move_file"),
    (storage, "remove"),
    (_staging, "write_index"),
    (_place, "publish_bytes"),
    (LocalPlace, "complete"),
]


def kill_before(stop, patch):
    """A killed process does nothing afterwards: its lock ends with it."""
    steps = iter(range(100))

    def counted(function):
        def call(*arguments, **options):
            if next(steps) == stop:
                raise KilledError
            return function(*arguments, **options)

        return call

    for owner, name in STEPS:
        patch.setattr(owner, name, counted(getattr(owner, name)))
    patch.setattr(LocalPlace, "end", lambda self: os.close(self._lock))


@pytest.mark.parametrize(
    ("mode", "stop"), [*(("append", n) for n in range(6)), *(("overwrite", n) for n in range(7))]
)
def test_driver_that_is_killed_is_completed_by_the_next_write(tmp_path, monkeypatch, mode, stop):
    out = tmp_path / "out"
    if mode == "overwrite":
        staged(out, monkeypatch=monkeypatch)
    with pytest.raises(KilledError):
        staged(out, mode, stop=stop, monkeypatch=monkeypatch)
    staged(out, monkeypatch=monkeypatch)
    # Before the manifest, which is the first step, nothing of the interrupted write exists.
    rows = [0, 1, 2] * (1 if mode == "append" and stop == 0 else 2)
    assert [row["x"] for row in sm.Dataset(out)] == rows
    assert len(os.listdir(out)) == len(rows) + 1


def test_task_that_runs_twice_is_written_once(tmp_path):
    out = tmp_path / "out"
    with Staging(str(out), mode="error", prefix="part-", has_index=False) as run:
        task = WriteTask(run.run, "parquet", {}, landmark=run.landmark, ids=None, first=0)
        table = pa.table({"x": list(range(1000))})
        _, second = task([table], 0), task([table], 0)
        sink = ShardmillDatasink(task, run, EarlierShards(str(out), "parquet", "error", []))
        sink.on_write_complete(WriteResult(1000, 0, [second]))
    assert os.listdir(out) == ["part-00000.parquet"]
    assert pq.read_table(out).equals(table)


def test_two_writes_to_a_directory_at_once_are_an_error(tmp_path, monkeypatch):
    with (
        Staging(str(tmp_path / "out"), mode="error", prefix="part-", has_index=False),
        pytest.raises(errors.OutputExistsError, match="is running"),
    ):
        staged(tmp_path / "out", monkeypatch=monkeypatch)
    assert not (tmp_path / "out").exists()


def test_name_that_another_writer_took_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(KilledError):
        staged(out, stop=2, monkeypatch=monkeypatch)
    (out / "shard.00001.mds").write_bytes(b"theirs")
    with pytest.raises(errors.StorageError, match="taken the name"):
        staged(out, monkeypatch=monkeypatch)
    assert (out / "shard.00001.mds").read_bytes() == b"theirs"


def test_output_that_is_a_file_is_an_error(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(errors.OutputExistsError, match="is a file"):
        write(NO_ROWS, tmp_path / "out")
    assert (tmp_path / "out").is_file()


def test_file_of_an_interrupted_write_that_is_missing_is_an_error(tmp_path, monkeypatch):
    out = tmp_path / "out"
    with pytest.raises(KilledError):
        staged(out, stop=2, monkeypatch=monkeypatch)
    next(out.glob(".shardmill-ray/*/1/*.mds")).unlink()
    with pytest.raises(errors.StorageError, match="is missing"):
        staged(out, monkeypatch=monkeypatch)


@pytest.mark.parametrize(
    ("path", "match"), [("hf://datasets/a/b", "read only"), ("out.parquet", "name of a file")]
)
def test_output_that_is_not_a_directory_is_an_error(path, match):
    with pytest.raises((errors.OptionError, errors.StorageError), match=match):
        write(NO_ROWS, path)


def test_option_of_the_writer_is_checked_before_anything_runs(tmp_path):
    with pytest.raises(errors.OptionError, match="compression"):
        write(NO_ROWS, tmp_path / "out", compression="rar")
    assert not (tmp_path / "out").exists()
