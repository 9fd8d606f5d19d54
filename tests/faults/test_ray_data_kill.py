"""Jobs of Ray Data with our checkpoint, whose processes are killed at each step of the protocol.

Every row is there once when a run has ended. ``tests/python/test_ray_data_checkpoint.py`` has the
short form, without a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from ray_nodes import Driver, Nodes

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


@pytest.mark.parametrize(("who", "step", "number"), MOMENTS)
def test_row_is_written_once_whatever_is_killed(nodes, tmp_path, who, step, number) -> None:
    (tmp_path / "in").mkdir()
    table = pa.table({"x": list(range(ROWS))})
    pq.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=2)
    paths = [str(tmp_path / name) for name in ("in", "checkpoint", "out")]

    first = Driver(nodes, [str(JOB), *paths, who, step, str(number)], tmp_path / "log1")
    code = first.finish()
    assert Path(paths[1] + ".killed").exists(), first.log()
    assert code == (0 if who == "worker" else -9), first.log()
    again = Driver(nodes, [str(JOB), *paths], tmp_path / "log2")
    assert again.finish() == 0, again.log()
    files = [*(tmp_path / "out").iterdir()]
    rows = Counter(y for path in files for y in pq.read_table(path)["y"].to_pylist())
    assert rows == Counter(range(0, 2 * ROWS, 2))
