"""Jobs of Ray Data with our checkpoint, whose processes are killed at each step of the protocol.

Every row is there once when a run has ended. ``tests/python/test_ray_data_checkpoint.py`` has the
short form, without a cluster.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from ray_nodes import Driver, Nodes
from remote.binary import UnavailableError, gateway_path
from remote.server import Server, serving

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

JOB = Path(__file__).with_name("ray_data_job.py")
ROWS = 32

#: Who is killed before which step, counted from the beginning of `write`, or of a task. The driver
#: renames a probe and its run, and moves the files of four tasks.
MOMENTS = [
    *(("driver", "rename", number) for number in range(2)),
    *(("driver", "move", number) for number in range(4)),
    ("driver", "published", 0),
    ("driver", "identity", 0),
    ("driver", "manifest", 0),
    ("driver", "mkdir", 2),
    *(("worker", step, 0) for step in ("mkdir", "ids", "record", "sync", "rename")),
    # After the commit: the task runs twice.
    ("worker", "sync", 3),
    *(("driver-of", step, 0) for step in ("map", "ids", "rename")),
    ("driver-of", "sync", 3),
]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    nodes = Nodes(workers=0)
    yield nodes
    nodes.close()


@pytest.fixture
def source(tmp_path) -> str:
    (tmp_path / "in").mkdir()
    table = pa.table({"x": list(range(ROWS))})
    pq.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=2)
    return str(tmp_path / "in")


@pytest.mark.parametrize(("who", "step", "number"), MOMENTS)
def test_row_is_written_once_whatever_is_killed(nodes, tmp_path, source, who, step, number) -> None:
    paths = [source, str(tmp_path / "checkpoint"), str(tmp_path / "out")]
    run_twice(nodes, paths, tmp_path, (who, step, number))
    assert_exact(tmp_path / "out")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    try:
        gateway_path()
    except UnavailableError as error:
        pytest.skip(str(error))
    with serving() as server:
        yield server


#: The driver claims the output, records the write, moves the files of four tasks, and claims the
#: output again until it has ended.
MOMENTS_OF_A_STORE = [
    *(("driver", "claim", number) for number in range(4)),
    *(("driver", "move", number) for number in range(4)),
    ("worker", "close", 0),
    ("driver-of", "close", 0),
]


@pytest.mark.parametrize("has_checkpoint", [False, True])
@pytest.mark.parametrize(("who", "step", "number"), MOMENTS_OF_A_STORE)
def test_row_is_once_in_a_store_whatever_is_killed(
    nodes, tmp_path, source, server, has_checkpoint, who, step, number
) -> None:
    bucket = server.bucket(f"{who}-{step}-{number}-{has_checkpoint}".lower())
    checkpoint = str(tmp_path / "checkpoint") if has_checkpoint else ""
    paths = [source, checkpoint, f"s3://{bucket.name}/out"]
    options = json.dumps(server.storage_options())
    run_twice(nodes, paths, tmp_path, (who, step, number), STORE=options)
    assert_exact(bucket / "out")


def run_twice(nodes, paths, directory, moment, **environment) -> None:
    arguments = [str(JOB), *paths]
    killing = [*arguments, *map(str, moment)]
    first = Driver(nodes, killing, directory / "log1", **environment)
    code = first.finish()
    assert Path(paths[0] + ".killed").exists(), first.log()
    assert code == (0 if moment[0] == "worker" else -9), first.log()
    again = Driver(nodes, arguments, directory / "log2", **environment)
    assert again.finish() == 0, again.log()


def assert_exact(out: Path) -> None:
    rows = Counter(y for path in out.iterdir() for y in pq.read_table(path)["y"].to_pylist())
    assert rows == Counter(range(0, 2 * ROWS, 2))
