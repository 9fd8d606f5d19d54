"""Small jobs with a checkpoint, and their oracle: the ids of the input, counted by plain Python."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from promptness import HANGS_S
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
from shardmill.resume import Checkpoint


class Stop(Exception):
    """What the function of an interrupted job raises."""


class Work:
    """The function of a job.

    Raises at the call of a number, when all before it are committed; notes the ids that it gets.
    """

    def __init__(
        self, out: Path, stop_at: int | None = None, on_call: Callable[[], object] = lambda: None
    ) -> None:
        self.out, self.stop_at = out, stop_at
        self.known = len(list(out.glob("*.parquet")))
        self.calls = 0
        self.on_call = on_call
        self.seen: list[Any] = []

    def __call__(self, table):
        self.calls += 1
        if self.stop_at is not None and self.calls >= self.stop_at:
            deadline = time.monotonic() + HANGS_S
            while (
                len(list(self.out.glob("*.parquet"))) < self.known + self.stop_at - 1
                and time.monotonic() < deadline
            ):
                time.sleep(0.002)
            raise Stop
        self.on_call()
        self.seen.extend(table["id"].to_pylist())
        return table


class Job:
    """One job in a directory.

    Each run of it makes a new pipeline, as a script that is started again does.
    """

    def __init__(self, directory: Path) -> None:
        self.source, self.out, self.state = directory / "in", directory / "out", directory / "state"
        self.source.mkdir(parents=True, exist_ok=True)
        self.work = Work(self.out)

    def write(
        self, name: str, ids: list[Any], kind: pa.DataType | None = None, **columns: Any
    ) -> Path:
        path = self.source / f"{name}.parquet"
        pq.write_table(pa.table({"id": pa.array(ids, kind), **columns}), path)
        return path

    def write_numbers(self, files: int = 5, rows: int = 10) -> Counter:
        for file in range(files):
            self.write(
                f"{file:03}", [str(number) for number in range(file * rows, (file + 1) * rows)]
            )
        return Counter(str(number) for number in range(files * rows))

    def pipeline(
        self,
        *,
        stop_at: int | None = None,
        on_call: Callable[[], object] = lambda: None,
        source: dict | None = None,
        sink: dict | None = None,
        stages=None,
        **options: Any,
    ) -> Pipeline:
        self.work = Work(self.out, stop_at, on_call)
        named = {"path": self.state, "id_column": "id"} | options
        return Pipeline(
            source=TableSource(self.source, **({"files_per_partition": 1} | (source or {}))),
            stages=[Map(self.work, name="work", batch_size=1000)] if stages is None else stages,
            sink=ParquetSink(**({"path": self.out} | (sink or {}))),
            checkpoint=Checkpoint(**named),
        )

    def run(self, **options: Any):
        return self.pipeline(**options).run(threads=1, progress=False)

    def stop(self, at: int, **options: Any) -> None:
        """A run whose function raises at this call."""
        try:
            self.run(stop_at=at, **options)
        except Exception as error:
            assert isinstance(error.__cause__, Stop), error
        else:
            raise AssertionError("the job was not interrupted")

    def ids(self) -> Counter:
        tables = [pq.read_table(path) for path in sorted(self.out.glob("*.parquet"))]
        return Counter(
            hashable(id)
            for table in tables
            for id in zip(
                *(table[name].to_pylist() for name in table.column_names if name.startswith("id"))
            )
        )

    def done_file(self) -> Path:
        """A file that is committed.

        Splits may be committed in another order than that of their files.
        """
        done = self.ids()
        return next(
            path
            for path in sorted(self.source.iterdir())
            if all((id,) in done for id in pq.read_table(path)["id"].to_pylist())
        )

    def assert_ids(self, expected: Counter) -> None:
        found = self.ids()
        wanted = Counter(
            {id if isinstance(id, tuple) else (id,): count for id, count in expected.items()}
        )
        assert found == wanted, (
            f"lost {list((wanted - found).items())[:3]}, "
            f"too many {list((found - wanted).items())[:3]}"
        )
        assert [path for path in self.out.iterdir() if path.name.startswith(".")] == []

    def directory(self) -> Path:
        return (
            self.state
            / json.loads((self.state / "checkpoint.json").read_text().split("\n")[0])["job"]
        )


def stopped_twice(job: Job, ids_of: Callable[[int], list], **options: Any) -> Job:
    """Stops a job twice, with files added in between: its checkpoint has an object of each kind."""
    for number in range(1, 12, 2):
        job.write(f"{number:03}", ids_of(number))
    job.stop(3, **options)
    for number in (0, 2):
        job.write(f"{number:03}", ids_of(number))
    job.stop(2, **options)
    return job


def hashable(id: tuple) -> tuple:
    return tuple(tuple(value) if isinstance(value, list) else value for value in id)
