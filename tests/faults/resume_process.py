"""Jobs with a checkpoint in processes of their own, and what has become of each row."""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from job_process import Job, write_shard
from promptness import HANGS_S
from resume_job import DOCUMENTS, made_of, pipeline_of

ROWS = 40
SAMPLES = 6


class ResumeJob(Job):
    script = Path(__file__).with_name("resume_job.py")


class Case:
    """The directories of one job, and its oracle.

    Attributes:
        runs: how many runs were started; each notes the rows that its function gets in a directory
            of its own.
    """

    def __init__(self, directory: Path, kind: str, files: int = 8, rows: int = ROWS) -> None:
        self.kind, self.source = kind, directory / f"in-{kind}"
        self.out, self.checkpoint, self.calls = (
            directory / "out",
            directory / "state",
            directory / "calls",
        )
        self.rows, self.runs = rows, 0
        self.source.mkdir(parents=True)
        self.expected = (
            write_documents(self.source, kind, files)
            if kind in DOCUMENTS
            else self._write_tables(files)
        )

    def _write_tables(self, files: int) -> Counter:
        for file in range(files):
            numbers = range(file * self.rows, (file + 1) * self.rows)
            table = pa.table(
                {"id": [id_of(n) for n in numbers], "n": pa.array(numbers, pa.int64())}
            )
            pq.write_table(table, self.source / f"{file:03}.parquet")
        every = range(files * self.rows)
        return Counter(row for n in every for row in made_of(self.kind, id_of(n), n))

    def start(self, **options: object) -> ResumeJob:
        return ResumeJob(self.kind, self.source, self.out, **self._named(options))

    def arguments(self, **options: object) -> list[str]:
        """For a command that starts the script itself."""
        named = (f"{name}={value}" for name, value in self._named(options).items())
        return [str(ResumeJob.script), self.kind, str(self.source), str(self.out), *named]

    def finish(self, **options: object) -> dict:
        """A run in a separate process, without faults."""
        code, outcome = self.start(**options).finish()
        assert code == 0, outcome
        return outcome

    def finish_here(self, **options: str):
        """The same in this process, which saves its start."""
        named = {name: str(value) for name, value in self._named(options).items()}
        return pipeline_of(self.kind, str(self.source), str(self.out), **named).run(
            threads=2, progress=False
        )

    def _named(self, options: dict) -> dict:
        self.runs += 1
        if self.kind not in DOCUMENTS:
            directory = self.calls / str(self.runs)
            directory.mkdir(parents=True)
            options = {"calls": directory} | options
        return {"checkpoint": self.checkpoint} | options

    def forget(self) -> None:
        for directory in (self.out, self.checkpoint, self.calls):
            shutil.rmtree(directory, ignore_errors=True)

    def called(self) -> set[int]:
        """The rows that the function of the last run got."""
        directory = self.calls / str(self.runs)
        return (
            {int(line) for file in directory.iterdir() for line in file.read_text().split()}
            if directory.is_dir()
            else set()
        )

    def processes(self) -> list[int]:
        directory = self.calls / str(self.runs)
        return [int(file.name) for file in directory.iterdir()] if directory.is_dir() else []

    def files_done(self) -> set[int]:
        """Numbers of the input files whose rows can be seen in the output."""
        return {
            row[1] // (2 * self.rows if self.kind == "double" else self.rows)
            for row in self.visible()
        }

    def visible(self) -> Counter:
        """Everything under final names; each file must be whole."""
        rows: Counter = Counter()
        for path in self.out.iterdir() if self.out.exists() else ():
            if path.name.startswith("."):
                continue
            # A job that was overtaken may still rename what it has committed.
            table = pq.read_table(path)
            table.validate(full=True)
            if self.kind in DOCUMENTS:
                rows.update(text for text in table["text_content"].to_pylist() if text is not None)
            else:
                rows.update(zip(*(table[name].to_pylist() for name in ("id", "n", "copy"))))
        return rows

    def assert_nothing_twice(self) -> None:
        surplus = self.visible() - self.expected
        assert not surplus, f"{len(surplus)} rows too many, such as {list(surplus)[:3]}"

    def assert_exact(self) -> None:
        visible = self.visible()
        assert visible == self.expected, (
            list((self.expected - visible).items())[:3],
            list((visible - self.expected).items())[:3],
        )
        assert hidden(self.out) == []

    def job_directory(self) -> Path | None:
        file = self.checkpoint / "checkpoint.json"
        return (
            self.checkpoint / json.loads(file.read_text().split("\n")[0])["job"]
            if file.exists()
            else None
        )

    def units(self) -> list[Path]:
        """Records of the run that is at work."""
        directory = self.job_directory()
        try:
            return list(directory.glob("units-*/[!.]*")) if directory else []
        except FileNotFoundError:
            # The directory of a term was removed meanwhile.
            return []

    def leases(self) -> list[Path]:
        directory = self.job_directory()
        return (
            sorted(path for path in directory.glob("lease/*") if path.name.isdigit())
            if directory
            else []
        )

    def is_released(self) -> bool:
        """Whether the last run is over, if not its process."""
        return self.leases()[-1].with_suffix(".released").exists()

    def break_locks(self) -> None:
        """Puts a copy in the place of the lease.

        Locks on the open file then have no effect, as on a file system without locks.
        """
        for lease in self.leases():
            copy = lease.with_name("copy")
            shutil.copy2(lease, copy)
            os.replace(copy, lease)


def id_of(number: int) -> str:
    """Ids of several classes, and such that begin with one another."""
    return str(number) if number % 3 else f"https://example.com/{number}"


def write_documents(directory: Path, kind: str, files: int) -> Counter:
    """Shards, as Parquet when the kind says so; returns their texts."""
    from shardmill.curate import ParquetSink, Pipeline, WebDatasetSource

    shards = directory if kind == "wds" else directory.parent / "shards"
    shards.mkdir(exist_ok=True)
    for number in range(files):
        write_shard(shards / f"shard{number}.tar", SAMPLES, lambda _: ("jpg", os.urandom(3000)))
    if kind == "parquet":
        Pipeline(
            source=WebDatasetSource(shards, files_per_partition=1), sink=ParquetSink(directory)
        ).run(progress=False)
    return Counter(
        f"text of shard{number}-{sample:04}" for number in range(files) for sample in range(SAMPLES)
    )


def hidden(out: Path) -> list[Path]:
    return [path for path in out.iterdir() if path.name.startswith(".")] if out.exists() else []


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], object], job: Job, timeout: float = HANGS_S) -> None:
    """Until it holds, or the job is over."""
    deadline = time.monotonic() + timeout
    while job.process.poll() is None and not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(0.0005)
