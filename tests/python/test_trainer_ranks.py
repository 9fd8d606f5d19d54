"""Trainers on several ranks, which continue on another number of ranks."""

from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("torch")

from mesh_ranks import Ranks

ROWS = 120
OPTIONS: dict[str, Any] = {
    "columns": ["id"],
    "shuffle": True,
    "lanes": 6,
    "seed": 2,
    "tail": "drop",
}

# Each rank imports a trainer.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table({"id": range(ROWS)}), path, row_group_size=10)
    return str(path)


def options_of(size: int) -> dict[str, Any]:
    return OPTIONS | {"batch_size": 6 // size}


def expected_of(rows: str, steps: int) -> list[list[int]]:
    whole = sm.Loader(rows, rank=0, world_size=1, **options_of(1))
    return [batch["id"].tolist() for batch in whole.steps(steps)]


def global_batches(ranks: list[Any]) -> list[list[int]]:
    return [list(chain(*parts)) for parts in zip(*ranks, strict=True)]


def test_trainer_of_transformers_continues_on_more_ranks(rows: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    scene, where = "trainer_scenes.trained_by_transformers", str(tmp_path)
    expected = expected_of(rows, 24)
    with Ranks(2) as two:
        found = two.run(scene, rows, options_of(2), where, max_steps=9, step=None)
    assert global_batches(found) == expected[:9]
    with Ranks(3) as three:
        found = three.run(scene, rows, options_of(3), where, max_steps=24, step=5)
        assert global_batches(found) == expected[5:24]
        alone = options_of(1) | {"rank": 0, "world_size": 1}
        [error] = set(three.run(scene, rows, alone, where, max_steps=2, step=None))
    assert error.startswith("OptionError: the loader has world_size=1, but the trainer has 3 proc")


def test_lightning_continues_on_more_ranks(rows: str, tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    scene, where = "trainer_scenes.trained_by_lightning", str(tmp_path)
    expected = expected_of(rows, 24)
    with Ranks(2) as two:
        found = two.run(scene, rows, options_of(2), where, max_steps=7, is_resumed=False)
    assert global_batches(found) == expected[:7]
    with Ranks(3) as three:
        found = three.run(scene, rows, options_of(3), where, max_steps=24, is_resumed=True)
    assert global_batches(found) == expected[7:24]
