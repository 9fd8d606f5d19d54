"""Megatron's external data loaders: any file of a checkpoint continues on other groups."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("torch")

from environment import python_of_trainers
from mesh_ranks import Ranks
from mesh_scenes import taken

OPTIONS: dict[str, Any] = {"batch_size": 6, "shuffle": True, "lanes": 12, "tail": "drop"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    tokens = [[1 + row] * (row % 30 + 2) for row in range(200)]
    pq.write_table(pa.table({"input_ids": tokens}), path, row_group_size=20)
    return path


def global_batches(found: list[tuple[int, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Those of all data ranks; the ranks of a replica have equal batches."""
    of_ranks = dict(found)
    assert all(batches == of_ranks[rank] for rank, batches in found)
    return [
        {name: list(chain(*(part[name] for part in parts))) for name in parts[0]}
        for parts in zip(*(of_ranks[rank] for rank in sorted(of_ranks)))
    ]


@pytest.mark.slow
def test_any_file_of_a_checkpoint_continues_on_other_groups(rows: Path, tmp_path: Path) -> None:
    trainers: Any = python_of_trainers(), "megatron.training.checkpointing"
    scene = "megatron_scenes.run"
    packing = sm.Packing("input_ids", length=64, next_token=True)
    given: dict[str, Any] = OPTIONS | {"batch_size": 12, "rank": 0, "world_size": 1}
    whole = [*sm.Loader(str(rows), packing=packing, **given).steps(15)]
    saved, directory = tmp_path / "saved", str(rows.parent)
    with Ranks(4, *trainers) as four:
        found = global_batches(four.run(scene, directory, (2, 1), str(saved), range(5)))
    names = [path.relative_to(saved) for path in sorted(saved.rglob("*.pt"))]
    assert [name.name for name in names] == [f"train_dataloader_dprank00{n}.pt" for n in (0, 1)]
    for number, (size, groups, name) in enumerate(
        [(4, (1, 1), names[1]), (4, (2, 2), names[0]), (3, (1, 1), names[1])]
    ):
        below = tmp_path / str(number)
        (below / name.parent).mkdir(parents=True)
        (below / name).write_bytes((saved / name).read_bytes())
        with Ranks(size, *trainers) as others:
            after = global_batches(others.run(scene, directory, groups, str(below), range(5, 15)))
        for batch, expected in zip(found + after, whole, strict=True):
            labels = expected["labels"].flatten().tolist()
            assert batch["tokens"] == expected["input_ids"].tolist()
            assert list(chain(*batch["labels"])) == [max(label, 0) for label in labels]
            assert list(chain(*batch["loss_mask"])) == [label >= 0 for label in labels]
            assert batch["position_ids"] == expected["positions"].tolist()


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    with Ranks(2) as ranks:
        yield ranks


def test_ranks_save_equal_states_at_equal_steps_alone(two: Ranks, rows: Path) -> None:
    options = OPTIONS | {"columns": ["input_ids"]}
    found = two.run("megatron_scenes.external", str(rows), options, [3, 4])
    states, are_equal, late, alone = zip(*found)
    assert states[0] == states[1]
    assert all(are_equal)
    assert late[0] == late[1]
    assert late[0].startswith("EngineError: the loaders of the ranks are at different steps")
    assert "world_size=1, but this is rank 1 of 2 data ranks" in alone[1]


def test_ranks_of_a_mesh_continue_with_equal_batches(two: Ranks, rows: Path) -> None:
    expected = taken(sm.Loader(str(rows), rank=0, world_size=1, **OPTIONS).steps(10))
    found = two.run("megatron_scenes.of_a_replica", str(rows), OPTIONS)
    assert found == [[expected] * 2] * 2
