"""A batch that does not come is warned of, with the stage that it waits for."""

import random
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from fsspec.implementations.memory import MemoryFileSystem
from row_files import numpy_loader, write_files


def late(batch: object) -> object:
    """A transform that takes its time."""
    time.sleep(1.5)
    return batch


def briefly_late(batch: object) -> object:
    """A transform that has not returned when its result is waited for."""
    time.sleep(0.3)
    return batch


def test_block_that_takes_long_is_named() -> None:
    class Late(MemoryFileSystem):
        """Answers at once until the data set is open."""

        # A scheme has one file system a process.
        protocol, cachable, is_late = "late", False, False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return "/" + path.removeprefix("late://").strip("/")

        def cat_file(self, path: str, *given: Any, **more: Any) -> bytes:
            if self.is_late:
                time.sleep(2.5)
            return super().cat_file(path, *given, **more)

    # Larger than what is fetched whole when it is opened.
    numbers = pa.array(random.Random(1).sample(range(1 << 60), 50_000))
    system = Late()
    with system.open("/directory/slow.parquet", "wb") as file:
        pq.write_table(pa.table({"number": numbers}), file)
    loader = sm.Loader(
        "late://directory/slow.parquet",
        storage_options=system,
        output="arrow",
        runtime=sm.Runtime(stall_seconds=0.5),
    )
    system.is_late = True
    with pytest.warns(
        sm.StallWarning, match=r"s: read or decode of block 0 of `.*slow\.parquet` for"
    ):
        assert sum(batch.num_rows for batch in loader) == len(numbers)


def test_batches_in_time_are_not_warned_of(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(numpy_loader(write_files(tmp_path, [10])))) == 1


def test_transform_in_another_process_is_named(tmp_path: Path) -> None:
    directory = write_files(tmp_path, [10])
    loader = numpy_loader(directory, transform=late, transform_workers=1, stall_seconds=0.5)
    with pytest.warns(sm.StallWarning, match="the transform has not returned"):
        assert len(list(loader)) == 1


@pytest.mark.parametrize("seconds", [0, -1, "1", True])
def test_time_that_means_nothing_is_refused(tmp_path: Path, seconds: object) -> None:
    with pytest.raises(sm.OptionError, match="stall_seconds"):
        numpy_loader(write_files(tmp_path, [1]), stall_seconds=seconds)


@pytest.mark.parametrize(
    "seconds", [1e30, pytest.param(10**400, id="more than a float"), float("inf")]
)
def test_time_longer_than_locks_can_wait_means_never(tmp_path: Path, seconds: float) -> None:
    loader = numpy_loader(
        write_files(tmp_path, [10]),
        transform=briefly_late,
        transform_workers=1,
        stall_seconds=seconds,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", sm.StallWarning)
        assert len(list(loader)) == 1


def test_transform_in_this_process_is_named_when_it_returns(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [10]), transform=late, stall_seconds=0.5)
    with pytest.warns(sm.StallWarning, match=r"no batch for \d+ s: the transform was running"):
        assert len(list(loader)) == 1
