"""Jobs on a Ray cluster that loses nodes and drivers, or has a node that cannot write.

The cluster has three nodes. Every row is there once, or the run says why not.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from ray_nodes import Driver, Nodes, another, read_only
from resume_process import Case, hidden

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PLUG_IN = Path(__file__).with_name("ray_checkpoint_job.py")
ROWS_IN_FILE = 5
#: Of a row of Ray Data; a job of hundreds of files fits on any disk.
BLOB_BYTES = 1 << 17


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    nodes = Nodes()
    yield nodes
    nodes.close()


class Pipelines:
    """A job with or without a checkpoint."""

    def __init__(
        self, directory: Path, files: int, pace: float = 0.02, checkpoint: bool = True
    ) -> None:
        self.case, self.directory, self.runs = Case(directory, "explode", files=files), directory, 0
        self.options = {"executor": "ray", "workers": 6, "pace": pace} | (
            {} if checkpoint else {"checkpoint": ""}
        )

    def start(self, nodes: Nodes, **options: str) -> Driver:
        self.runs += 1
        arguments = self.case.arguments(**self.options, **options)
        return Driver(nodes, arguments, self.directory / f"log{self.runs}")

    def start_on_all_nodes(self, nodes: Nodes) -> Driver:
        """A job that does not end before each node, and one more, has got a task."""
        seen = self.directory / "seen"
        seen.mkdir()
        return self.start(nodes, gather=f"{len(nodes.workers) + 2}:{self.case.rows}:{seen}")

    def done(self) -> int:
        return (
            sum(1 for path in self.case.out.iterdir() if not path.name.startswith("."))
            if self.case.out.exists()
            else 0
        )

    def is_writing(self) -> bool:
        return bool(hidden(self.case.out))

    def assert_exact(self) -> None:
        self.case.assert_exact()


class PlugIns:
    """A job of Ray Data with our checkpoint."""

    def __init__(self, directory: Path, files: int) -> None:
        self.directory, self.runs = directory, 0
        (directory / "in").mkdir(parents=True)
        self.expected = Counter(
            f"{number}-{row}" for number in range(files) for row in range(ROWS_IN_FILE)
        )
        for number in range(files):
            ids = pa.array([f"{number}-{row}" for row in range(ROWS_IN_FILE)])
            pq.write_table(pa.table({"id": ids}), directory / "in" / f"{number}.parquet")

    def start(self, nodes: Nodes) -> Driver:
        self.runs += 1
        paths = [str(self.directory / name) for name in ("in", "checkpoint", "out")]
        cache = str(self.directory / "cache")
        return Driver(
            nodes,
            [str(PLUG_IN), *paths, str(BLOB_BYTES)],
            self.directory / f"log{self.runs}",
            XDG_CACHE_HOME=cache,
        )

    def _records(self) -> list[str]:
        return [path.name for path in (self.directory / "checkpoint").glob("*.parquet")]

    def done(self) -> int:
        return sum(not name.endswith(".pending.parquet") for name in self._records())

    def is_writing(self) -> bool:
        return any(name.endswith(".pending.parquet") for name in self._records())

    def assert_exact(self) -> None:
        out = self.directory / "out"
        rows = Counter(
            row
            for path in out.iterdir()
            for row in pq.read_table(path, columns=["id"])["id"].to_pylist()
        )
        assert rows == self.expected, (
            list((self.expected - rows).items())[:3],
            list((rows - self.expected).items())[:3],
        )


Job = Pipelines | PlugIns


def wait_for_a_moment(job: Job, driver: Driver, rng: random.Random) -> bool:
    """Until one to three more files are done, and every other time a file is being written then."""
    aim = job.done() + rng.randrange(1, 4)
    is_there = driver.wait_for(lambda: job.done() >= aim)
    if is_there and rng.random() < 0.5:
        is_there = driver.wait_for(job.is_writing)
    return is_there


def lose_nodes(job: Job, nodes: Nodes, rng: random.Random, kills: int) -> int:
    """Loses nodes in one run; returns how many."""
    driver, lost = job.start(nodes), 0
    while lost < kills and wait_for_a_moment(job, driver, rng):
        nodes.lose(rng.randrange(len(nodes.workers)))
        lost += 1
        nodes.replace()
    assert driver.finish() == 0, driver.log()
    job.assert_exact()
    return lost


def lose_drivers(job: Job, nodes: Nodes, rng: random.Random, kills: int) -> int:
    """Loses drivers, and resumes each time; returns how many were lost at work."""
    lost = 0
    for _ in range(kills):
        driver = job.start(nodes)
        lost += wait_for_a_moment(job, driver, rng)
        driver.kill()
    last = job.start(nodes)
    assert last.finish() == 0, last.log()
    job.assert_exact()
    return lost


def test_pipeline_that_loses_a_node_writes_every_row_once(nodes, tmp_path) -> None:
    assert lose_nodes(Pipelines(tmp_path, files=16), nodes, random.Random(1), kills=1) == 1


def test_pipeline_that_loses_its_driver_is_resumed_on_the_same_cluster(nodes, tmp_path) -> None:
    assert lose_drivers(Pipelines(tmp_path, files=16), nodes, random.Random(2), kills=1) == 1


def test_job_of_ray_data_that_loses_a_node_writes_every_row_once(nodes, tmp_path) -> None:
    assert lose_nodes(PlugIns(tmp_path, files=16), nodes, random.Random(3), kills=1) == 1


@pytest.mark.slow
def test_job_of_ray_data_that_loses_its_driver_is_resumed_on_the_same_cluster(
    nodes, tmp_path
) -> None:
    assert lose_drivers(PlugIns(tmp_path, files=16), nodes, random.Random(4), kills=1) == 1


@pytest.mark.slow
def test_pipeline_without_a_checkpoint_that_loses_a_node_writes_the_bytes_of_a_local_run(
    nodes, tmp_path
) -> None:
    job = Pipelines(tmp_path, files=16, checkpoint=False)

    assert lose_nodes(job, nodes, random.Random(5), kills=1) == 1

    files = {path.name: path.read_bytes() for path in job.case.out.iterdir()}
    shutil.rmtree(job.case.out)
    job.case.finish_here(checkpoint="")
    assert {path.name: path.read_bytes() for path in job.case.out.iterdir()} == files


@pytest.mark.parametrize("has_checkpoint", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_node_that_cannot_write_the_output_is_named_with_the_reason_and_the_job_goes_on_without_it(
    nodes, tmp_path, has_checkpoint
) -> None:
    job = Pipelines(tmp_path, files=16, checkpoint=has_checkpoint)
    job.case.out.mkdir()
    with nodes.apart(read_only(job.case.out)):
        driver = job.start_on_all_nodes(nodes)
        assert driver.finish() == 1
    log = driver.log()

    assert "StorageError" in log
    assert f"`{job.case.out}/" in log
    assert "Read-only file system" in log
    assert re.search(r"on node \S+ \(id [0-9a-f]{56}\)\nhint: ", log), log
    job.case.assert_nothing_twice()
    assert job.start(nodes).finish() == 0
    job.assert_exact()


@pytest.mark.parametrize(
    "what", ["output directory", pytest.param("checkpoint", marks=pytest.mark.slow)]
)
def test_node_with_other_files_at_a_path_of_the_driver_is_named_before_it_writes(
    nodes, tmp_path, what
) -> None:
    job = Pipelines(tmp_path, files=16)
    directory = job.case.out if what == "output directory" else job.case.checkpoint
    directory.mkdir()
    with nodes.apart(another(directory)):
        driver = job.start_on_all_nodes(nodes)
        assert driver.finish() == 1
    log = driver.log()

    assert re.search(
        rf"The {what} `{directory}` of the driver is not visible on node \S+ \(id [0-9a-f]{{56}}\)",
        log,
    ), log
    assert "hint: use a path that all nodes share" in log
    assert job.start(nodes).finish() == 0
    job.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mount", "words"),
    [
        (
            read_only,
            r"Failed to write to `{out}`: .*Read-only file system"
            r".*on node \S+ \(id [0-9a-f]{{56}}\)",
        ),
        (
            another,
            r"The output directory `{out}` of the driver is not visible "
            r"on node \S+ \(id [0-9a-f]{{56}}\)",
        ),
    ],
    ids=["read_only", "another"],
)
def test_job_of_ray_data_names_the_node_that_cannot_write_and_goes_on_without_it(
    nodes, tmp_path, mount, words
) -> None:
    job = PlugIns(tmp_path, files=16)
    (tmp_path / "out").mkdir()
    with nodes.apart(mount(tmp_path / "out")):
        driver = job.start(nodes)
        assert driver.finish() == 1
    log = driver.log()

    assert re.search(words.format(out=tmp_path / "out"), log), log
    assert "hint: " in log
    assert job.start(nodes).finish() == 0
    job.assert_exact()


LONG: list[tuple[Callable[..., int], type[Job], dict[str, int]]] = [
    (lose_nodes, Pipelines, {"files": 400}),
    (lose_drivers, Pipelines, {"files": 120}),
    (lose_nodes, PlugIns, {"files": 120}),
    (lose_drivers, PlugIns, {"files": 120}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lose", "kind", "size"), LONG, ids=["nodes", "drivers", "ray_data_nodes", "ray_data_drivers"]
)
def test_job_survives_thirty_losses(nodes, tmp_path, lose, kind, size) -> None:
    start, rng, lost, jobs = time.monotonic(), random.Random(30), 0, 0
    # A fast job may end before all of its losses.
    while lost < 30:
        directory = tmp_path / str(jobs)
        directory.mkdir()
        lost_of_job = lose(kind(directory, **size), nodes, rng, kills=30 - lost)
        assert lost_of_job, "a job ended before anything was lost"
        lost, jobs = lost + lost_of_job, jobs + 1
    print(
        f"{lose.__name__} {kind.__name__}: {lost} losses at work, "
        f"{jobs} jobs, {time.monotonic() - start:.0f} s"
    )
