"""``set_weights`` on ranks that are joined by gloo, with and without a mesh."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("torch")

from mesh_ranks import Ranks
from mesh_scenes import digest

PACKING: dict[str, Any] = {"length": 16, "strategy": "best_fit", "plan": "ahead"}
OPTIONS: dict[str, Any] = {"batch_size": 3, "seed": 3, "shuffle": True, "lanes": 8}
NEW = [{"web": 1, "code": 3}, {"web": 0, "code": 1}, {"web": 5, "code": 1}]
SQUARE: Any = ((2, 2), ("dp", "tp"))


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    with Ranks(4) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> sm.Mixture:
    """Lanes have passes of different lengths."""
    directory = tmp_path_factory.mktemp("sources")
    for number, name in enumerate(("web", "code")):
        lengths = [1 + (row * row + number) % 13 for row in range(60)]
        tokens = [[100 * row + number] * length for row, length in enumerate(lengths)]
        table = pa.table({"tokens": tokens, "id": range(60)})
        pq.write_table(table, directory / f"{name}.parquet", row_group_size=7)
    sources = {name: str(directory / f"{name}.parquet") for name in ("web", "code")}
    return sm.Mixture(sources, weights=NEW[1] | {"web": 1}, epoch_rows=80)


def options_of(kind: str, **balance: Any) -> dict[str, Any]:
    if kind == "rows":
        return OPTIONS | {"columns": ["id"]}
    return OPTIONS | {"packing": sm.Packing("tokens", epoch_packs=96, **PACKING, **balance)}


def alone_over(mixture: sm.Mixture, options: dict[str, Any], batch_size: int) -> sm.Loader:
    """A loader of all rows."""
    own: dict[str, Any] = {**options, "batch_size": batch_size, "rank": 0, "world_size": 1}
    return sm.Loader(mixture, **own)


@pytest.mark.filterwarnings("ignore")
def test_ranks_agree_on_the_first_pass_that_no_lane_has_begun(
    four: Ranks, mixture: sm.Mixture
) -> None:
    balance = sm.Balance(sm.Cost(pair=1), per_step=4, window_packs=8)
    options = options_of("ahead", balance=balance)
    found = four.run("weights_on_ranks", mixture, options, NEW[:1] * 4, False)
    errors, rows, states, _ = zip(*found, strict=True)
    assert set(errors) == {"nothing"}
    assert all(state == states[0] for state in states)
    alone = alone_over(mixture, options, 12)
    list(alone.steps(3))
    assert list(rows) == [[alone.set_weights(NEW[0])]] * 4
    assert states[0] == alone.state_dict()
    for rank in range(4):
        loader = sm.Loader(mixture, rank=rank, world_size=4, **options)
        loader.load_state_dict(alone.state_dict())
        assert found[rank][3] == [digest(batch) for batch in loader.steps(20)]


@pytest.mark.parametrize(("kind", "has_group"), [("ahead", False), ("rows", True)])
def test_ranks_with_other_weights_are_refused_on_all(
    four: Ranks, mixture: sm.Mixture, kind: str, has_group: bool
) -> None:
    options = options_of(kind)
    weights = [NEW[0], NEW[0], NEW[2], NEW[0]]
    for error, rows, state, _ in four.run("weights_on_ranks", mixture, options, weights, has_group):
        assert error.startswith("OptionError: ranks have called set_weights with other weights")
        assert (rows, "set_weights" in state["mixture"]) == ([], False)
    weights[2] = {"web": -1, "code": 1}
    errors = [
        error for error, *_ in four.run("weights_on_ranks", mixture, options, weights, has_group)
    ]
    assert "must be a number of at least 0" in errors.pop(2)
    assert all(error.startswith("EngineError: set_weights has failed on") for error in errors)


def test_group_of_other_ranks_is_refused(four: Ranks, mixture: sm.Mixture) -> None:
    options = options_of("ahead") | {"rank": 0, "world_size": 2}
    for error, *_ in four.run("weights_on_ranks", mixture, options, NEW[:1] * 4, True):
        assert error.startswith("OptionError: group has 4 ranks, and the loader has world_size=2")


def steps_of_data_rank(mixture: sm.Mixture, options: dict[str, Any], rank: int) -> list[Any]:
    """What ``weights_on_a_mesh`` returns, by states of a single rank."""
    whole = alone_over(mixture, options, 6)
    own = sm.Loader(mixture, rank=rank, world_size=2, **options)
    found: list[Any] = []
    batches = own.steps(30)
    for step, _ in enumerate(whole.steps(30)):
        found.append(digest(next(batches)))
        if step in (3, 4, 11):
            found += [whole.set_weights(NEW[step % 3]), whole.state_dict()]
            own.load_state_dict(whole.state_dict())
            batches = own.steps(30)
    return found


@pytest.mark.parametrize("kind", ["rows", "ahead"])
def test_batches_of_a_mesh_are_those_of_a_loader(
    four: Ranks, mixture: sm.Mixture, kind: str
) -> None:
    options = options_of(kind) | {"tail": "drop"}
    found = four.run("weights_on_a_mesh", SQUARE, mixture, options, NEW)
    for rank, answer in zip([0, 0, 1, 1], found, strict=True):
        assert answer[:-1] == steps_of_data_rank(mixture, options, rank)
        assert "OptionError: weights names 'x', which is not a source" in answer[-1]


def test_other_weights_on_one_rank_of_a_replica_are_an_error_on_all(
    four: Ranks, mixture: sm.Mixture
) -> None:
    for error in four.run("weights_in_another_order", SQUARE, mixture, options_of("rows")):
        assert "the ranks of a replica call in another order: " in error
        assert "set_weights() before step 0 of pass 0, after other arguments" in error
