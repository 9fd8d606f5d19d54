"""The state of a loader in checkpoints of ``torch.distributed.checkpoint``."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("torch")

from mesh_ranks import Ranks
from shardmill.integrations.torch import LoaderState
from torch.distributed import checkpoint as dcp

ROWS = 120
OPTIONS: dict[str, Any] = {"columns": ["id"], "shuffle": True, "lanes": 12, "seed": 2}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    tokens = [[one] * (one % 7 + 1) for one in range(ROWS)]
    pq.write_table(pa.table({"id": range(ROWS), "tokens": tokens}), path, row_group_size=10)
    return str(path)


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    with Ranks(4) as ranks:
        yield ranks


def global_batches(ranks: list[Any]) -> list[list[int]]:
    return [list(itertools.chain(*parts)) for parts in zip(*ranks, strict=True)]


@pytest.mark.parametrize("is_sharded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_state_that_four_ranks_save_continues_on_three(
    four: Ranks, rows: str, tmp_path: Path, is_sharded: bool
) -> None:
    whole = sm.Loader(rows, batch_size=12, rank=0, world_size=1, **OPTIONS)
    expected = [batch["id"].tolist() for batch in whole]
    saved = four.run(
        "trainer_scenes.saved_by_dcp",
        rows,
        OPTIONS | {"batch_size": 3},
        [4] * 4,
        str(tmp_path),
        is_sharded=is_sharded,
    )
    assert global_batches(saved) == expected[:4]
    with Ranks(3) as three:
        found = three.run(
            "trainer_scenes.loaded_by_dcp",
            rows,
            OPTIONS | {"batch_size": 4},
            str(tmp_path),
            is_sharded=is_sharded,
        )
    assert global_batches([ids for ids, _ in found]) == expected[4:]
    if is_sharded:
        assert len(found[0][1]) == 12
        assert all(weights == found[0][1] for _, weights in found)


@pytest.mark.slow
def test_state_of_a_mesh_continues_on_ranks_with_batches_of_their_own(
    four: Ranks, rows: str, tmp_path: Path
) -> None:
    whole = sm.Loader(rows, batch_size=12, rank=0, world_size=1, **OPTIONS)
    expected = [batch["id"].tolist() for batch in whole]
    mesh = (2, 2), ("dp", "tp")
    scene, where = "trainer_scenes.saved_by_dcp", str(tmp_path)
    saved = four.run(scene, rows, OPTIONS | {"batch_size": 6}, [4] * 4, where, mesh=mesh)
    assert saved[::2] == saved[1::2]
    assert global_batches(saved[::2]) == expected[:4]
    with Ranks(3) as three:
        given = rows, OPTIONS | {"batch_size": 4}, where
        found = three.run("trainer_scenes.loaded_by_dcp", *given)
    assert global_batches([ids for ids, _ in found]) == expected[4:]


def test_ranks_at_different_steps_do_not_save(four: Ranks, rows: str, tmp_path: Path) -> None:
    [error] = set(
        four.run(
            "trainer_scenes.saved_by_dcp",
            rows,
            OPTIONS | {"batch_size": 3},
            [2, 2, 3, 2],
            str(tmp_path),
        )
    )
    assert error == (
        "EngineError: the loaders of the ranks are at different steps: rank 0 has row 24 of epoch "
        "0, rank 2 has row 36 of epoch 0\nhint: save and load at the same step on all ranks"
    )
    assert not list(tmp_path.iterdir())


def test_ranks_with_different_world_sizes_do_not_save(four: Ranks, rows: str) -> None:
    [error] = set(four.run("trainer_scenes.disagreeing", rows, OPTIONS, [4, 1, 4, 4]))
    assert error.startswith(
        "EngineError: the loaders of the ranks disagree about world_size: rank 0 has 4, "
        "rank 1 has 1\nhint: create each Loader after init_process_group"
    )


PACKED = {"packing": sm.Packing("tokens", length=16), "batch_size": 2}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (PACKED, {}, "the state was saved with packing, this loader has packing=None"),
        ({}, PACKED, "the state was saved with packing=None, this loader has packing"),
        ({}, {"lanes": 5}, r"lanes=12.*lanes=5"),
    ],
)
def test_state_of_another_order_is_an_error_of_the_loader(
    rows: str, tmp_path: Path, before: dict[str, Any], after: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {"rank": 0, "world_size": 1, "lanes": 12, "batch_size": 4}
    first = sm.Loader(rows, **options | before)
    next(first.steps(1))
    dcp.save({"loader": LoaderState(first)}, checkpoint_id=tmp_path, no_dist=True)
    second = sm.Loader(rows, **options | after)
    unchanged = second.state_dict()
    with pytest.raises(sm.CheckpointMismatchError, match=message):
        dcp.load({"loader": LoaderState(second)}, checkpoint_id=tmp_path, no_dist=True)
    assert second.state_dict() == unchanged


def test_set_weights_continue_in_a_loader_with_the_original_ones(tmp_path: Path) -> None:
    sources = {"web": str(tmp_path / "web.parquet"), "code": str(tmp_path / "code.parquet")}
    for number, path in enumerate(sources.values()):
        ids = range(1000 * number, 1000 * number + 50)
        pq.write_table(pa.table({"id": ids}), path, row_group_size=10)
    mixture = sm.Mixture(sources, weights={"web": 1, "code": 1}, epoch_rows=40)
    given: dict[str, Any] = OPTIONS | {"lanes": 4, "batch_size": 4, "rank": 0, "world_size": 1}
    first = sm.Loader(mixture, **given)
    ids = []
    for step, batch in enumerate(first.steps(30), 1):
        ids.append(batch["id"].tolist())
        if step == 4:
            first.set_weights({"web": 1, "code": 3})
        if step in (7, 13):
            saved = {"loader": LoaderState(first)}
            dcp.save(saved, checkpoint_id=tmp_path / str(step), no_dist=True)
    # The new weights apply from the second epoch on, which has 10 steps.
    rows = list(itertools.chain(*ids))
    assert [sum(row >= 1000 for row in rows[at : at + 40]) for at in (0, 40, 80)] == [20, 30, 30]
    for step in (7, 13):
        second = sm.Loader(mixture, **given)
        dcp.load({"loader": LoaderState(second)}, checkpoint_id=tmp_path / str(step), no_dist=True)
        assert [batch["id"].tolist() for batch in second.steps(30 - step)] == ids[step:]


@pytest.mark.parametrize("state", [{}, {"state": {}}, {"state": "{"}, None])
def test_other_content_is_not_a_state(rows: str, state: Any) -> None:
    loader = sm.Loader(rows, rank=0, world_size=1)
    with pytest.raises(sm.CheckpointMismatchError, match="save and load the loader as LoaderStat"):
        LoaderState(loader).load_state_dict(state)
