"""Accelerate over loaders: nothing is shared out twice, and saved states lose no batch."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("accelerate")

from mesh_ranks import Ranks

ROWS = 44
OPTIONS: dict[str, Any] = {"columns": ["id"], "shuffle": True, "lanes": 4, "batch_size": 4}

# Each rank imports Accelerate.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table({"id": range(ROWS)}), path, row_group_size=10)
    return str(path)


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    with Ranks(2) as ranks:
        yield ranks


def expected_of(path: str, rank: int, *, is_dispatched: bool) -> list[list[int]]:
    """What a rank gets in two epochs of 11 batches."""
    if not is_dispatched:
        loader = sm.Loader(path, rank=rank, world_size=2, **OPTIONS)
        return [batch["id"].tolist() for _ in range(2) for batch in loader]
    loader = sm.Loader(path, rank=0, world_size=1, **OPTIONS)
    found: list[list[int]] = []
    for _ in range(2):
        *batches, last = [batch["id"].tolist() for batch in loader]
        found += [*batches[rank::2], last[2 * rank : 2 * rank + 2]]
    return found


@pytest.mark.parametrize("is_dispatched", [False, True])
def test_saved_state_continues_with_the_batches_without_interruption(
    two: Ranks, rows: str, tmp_path: Path, is_dispatched: bool
) -> None:
    expected = [expected_of(rows, rank, is_dispatched=is_dispatched) for rank in range(2)]
    for stop in (1, 4, 6, 8):
        given = "trainer_scenes.accelerated", rows, OPTIONS, str(tmp_path / str(stop))
        before = two.run(*given, is_dispatched=is_dispatched, stop=stop)
        after = two.run(*given, is_dispatched=is_dispatched, stop=None)
        for rank in range(2):
            assert before[rank] == expected[rank][:stop]
            assert after[rank][: 12 - stop] == expected[rank][stop:]


def test_batches_of_a_rank_are_not_shared_out_again(two: Ranks, rows: str) -> None:
    for prepared, dispatched in two.run("trainer_scenes.shared_out_twice", rows, OPTIONS):
        assert "would share out the batches of rank" in prepared
        assert dispatched.startswith("rows would not be shared out once: the accelerator")
