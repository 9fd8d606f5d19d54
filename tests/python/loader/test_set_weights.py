"""Weights that are set during a run, against a mixture that was planned with them as stages: in all
plans, on any topology and with any interruption.
"""

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from flat_options import flat_loader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

quick = settings(
    max_examples=examples(60, 12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

NAMES = ("web", "code", "books")

#: Exact in rows of an epoch, and in the fractions of a planned stage.
QUARTERS = [(2, 1, 1), (1, 1, 2), (0, 3, 1), (4, 0, 0), (1, 3, 0)]

EPOCH_ROWS = 56

#: By name: what is delivered.
PACKED: dict[str, dict[str, Any] | None] = {
    "rows": None,
    "epoch": {"length": 12, "strategy": "best_fit", "open_packs": 3},
    "ahead": {"length": 12, "plan": "ahead", "epoch_packs": 24},
    "whole passes": {"length": 12, "plan": "ahead", "epoch_packs": 28},
    "ahead that looks on": {
        "length": 12,
        "plan": "ahead",
        "epoch_packs": 24,
        "next_token": True,
        "across": True,
    },
    "fitted ahead": {
        "length": 14,
        "strategy": "best_fit",
        "open_packs": 3,
        "plan": "ahead",
        "epoch_packs": 240,
    },
    "repeated ahead": {"length": 12, "plan": "ahead", "epoch_packs": 24, "overlap": 1},
}
BALANCED = ["epoch", "ahead", "fitted ahead"]
SHUFFLES: list[dict[str, Any]] = [
    {"shuffle": False},
    {"shuffle": True, "shuffle_window_bytes": 0},
    {"shuffle": True, "shuffle_window_bytes": 2**60},
]


@pytest.fixture(autouse=True)
def _few_packs_per_step_are_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def tokens_of(source: int, row: int, length: int) -> list[int]:
    return [(source * 1000 + row + 1) * 100 + place for place in range(length)]


def write_sources(below: Path, rows: tuple[int, ...] = (40, 13, 27), *, length: int = 0) -> Any:
    """A file for each source; its documents have this length, or several."""
    for source, (name, count) in enumerate(zip(NAMES, rows, strict=False)):
        lengths = [length or 1 + (row * 7 + source * 3) % 19 for row in range(count)]
        table = pa.table(
            {
                "id": pa.array(range(source * 1000, source * 1000 + count), pa.int64()),
                "tokens": [tokens_of(source, row, lengths[row]) for row in range(count)],
            }
        )
        pq.write_table(table, below / f"{name}.parquet", row_group_size=5)
    return {name: str(below / f"{name}.parquet") for name, _ in zip(NAMES, rows, strict=False)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_sources(tmp_path_factory.mktemp("sources"))


def named(weights: Any) -> dict[str, Any]:
    return dict(zip(NAMES, weights, strict=False))


def mixture_of(sources: dict[str, str], weights: Any = QUARTERS[0], **options: Any) -> sm.Mixture:
    return sm.Mixture(sources, weights=weights, **{"epoch_rows": EPOCH_ROWS, **options})


def loader_of(data: Any, kind: str, *, is_balanced: bool = False, **options: Any) -> sm.Loader:
    packing, options = PACKED[kind], {"output": "numpy", "seed": 5, "tail": "drop", **options}
    if packing is None:
        return flat_loader(data, columns=["id"], **options)
    balance = sm.Balance(sm.Cost(pair=1), per_step=2, window_packs=6) if is_balanced else None
    return flat_loader(data, packing=sm.Packing("tokens", balance=balance, **packing), **options)


def content(batch: dict[str, Any]) -> Any:
    """The rows of a batch, or what is in each of its packs."""
    if "id" in batch:
        return batch["id"].tolist()
    names = [name for name in ("tokens", "segment_ids", "labels") if name in batch]
    return list(zip(*(batch[name].tolist() for name in names), strict=True))


class Run:
    """The ranks of a run, which take the same steps."""

    def __init__(self, data: Any, kind: str, world_size: int, batch: int, **options: Any) -> None:
        own = {"batch_size": batch // world_size, "world_size": world_size, **options}
        # What is prefetched differs from rank to rank.
        self.loaders = [
            loader_of(
                data,
                kind,
                rank=rank,
                prefetch_bytes=(1, 2**30)[rank % 2],
                threads=rank % 3,
                **own,
            )
            for rank in range(world_size)
        ]
        self._passes: list[Iterator[Any]] = []

    def take(self, steps: int) -> list[Any]:
        """The global batches of the next steps, in the same passes as those before."""
        self._passes = self._passes or [loader.steps(10**6) for loader in self.loaders]
        return [[content(next(rank)) for rank in self._passes] for _ in range(steps)]

    def set_weights(self, weights: Any) -> int:
        return meet(self.loaders, named(weights))

    def state(self) -> dict[str, Any]:
        state, *others = [loader.state_dict() for loader in self.loaders]
        assert all(other == state for other in others)
        return json.loads(json.dumps(state))


def meet(loaders: list[sm.Loader], weights: Any) -> int:
    """Set weights on all ranks, whose maxima are those of all of them."""
    import shardmill.load._reweighting as reweighting

    sent: list[list[int]] = []
    rows: set[int] = set()

    class Sent(Exception):
        pass

    def send(_group: Any, numbers: list[int]) -> list[int]:
        sent.append(numbers)
        raise Sent

    with pytest.MonkeyPatch.context() as patch:
        if len(loaders) > 1:
            patch.setattr(reweighting, "_compares", lambda plan, group: plan.is_endless)
        patch.setattr(reweighting, "_maxima", send)
        for loader in loaders:
            try:
                rows.add(loader.set_weights(weights))
            except Sent:
                continue
        if sent:
            maxima = [max(numbers) for numbers in zip(*sent, strict=True)]
            patch.setattr(reweighting, "_maxima", lambda group, numbers: maxima)
            rows = {loader.set_weights(weights) for loader in loaders}
    assert len(rows) == 1
    return rows.pop()


def flat(steps: list[Any]) -> list[Any]:
    return [row for step in steps for rank in step for row in rank]


@quick
@given(
    kind=st.sampled_from(list(PACKED)),
    is_balanced=st.booleans(),
    lanes=st.sampled_from([1, 2, 7]),
    order=st.sampled_from(SHUFFLES),
    calls=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(QUARTERS)), max_size=5),
    sizes=st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4),
    stops=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_batches_are_those_of_a_mixture_with_these_stages(
    sources: dict[str, str],
    kind: str,
    is_balanced: bool,
    lanes: int,
    order: dict[str, Any],
    calls: list[tuple[int, Any]],
    sizes: list[int],
    stops: list[bool],
) -> None:
    options = {"is_balanced": is_balanced and kind in BALANCED, "lanes": lanes, **order}
    ranks = itertools.cycle(sizes)
    run = Run(mixture_of(sources), kind, next(ranks), 6, **options)
    found: list[Any] = []
    stages: list[tuple[int, Any]] = [(0, QUARTERS[0])]
    for (steps, weights), is_stop in zip(calls, stops, strict=False):
        found += flat(run.take(steps))
        row = run.set_weights(weights)
        stages = [*(stage for stage in stages if stage[0] < row), (row, weights)]
        if is_stop:
            state = run.state()
            run = Run(mixture_of(sources), kind, next(ranks), 6, **options)
            for loader in run.loaders:
                loader.load_state_dict(state)
            assert run.state() == state
    found += flat(run.take(12))
    planned = Run(mixture_of(sources, stages), kind, 1, 6, **options)
    expected = flat(planned.take(sum(steps for steps, _ in calls) + 12))
    assert found == expected


@pytest.mark.parametrize("order", SHUFFLES)
@pytest.mark.parametrize("lanes", [1, 2, 7])
@pytest.mark.parametrize("kind", ["rows", "epoch", "whole passes"])
def test_no_row_comes_twice_before_every_row_of_its_source_came_once(
    tmp_path: Path, kind: str, lanes: int, order: dict[str, Any]
) -> None:
    """At the end of each epoch, and of each pass, as all lanes get as many tokens."""
    sources = write_sources(tmp_path, length=6)
    run = Run(mixture_of(sources), kind, 2, 14, lanes=lanes, **order)
    # A pack has two documents.
    steps = EPOCH_ROWS // 14 // (1 if kind == "rows" else 2)
    drawn: Counter[int] = Counter()
    for epoch, weights in enumerate([*QUARTERS, *QUARTERS]):
        before = run.take(1)
        assert run.set_weights(weights) == (epoch + 1) * EPOCH_ROWS
        for value in flat(before + run.take(steps - 1)):
            first = [] if kind == "rows" else [token for token in value[0] if token % 100 == 0]
            drawn.update([token // 100 - 1 for token in first if token] or [value])
        for source, rows in enumerate((40, 13, 27)):
            counts = [drawn[source * 1000 + row] for row in range(rows)]
            assert max(counts) - min(counts) <= 1
    assert sum(drawn.values()) == EPOCH_ROWS * 10


@pytest.mark.parametrize("kind", ["epoch", "fitted ahead"])
def test_eight_three_and_sixteen_ranks_lose_and_double_no_pack(tmp_path: Path, kind: str) -> None:
    """Of a shuffled mixture, balanced, whose weights are set on each number of ranks."""
    sources = write_sources(tmp_path, (400, 130, 270))
    options = {"is_balanced": True, "lanes": 16, **SHUFFLES[2]}
    epoch_rows = 16 * EPOCH_ROWS
    given = {"weights": QUARTERS[0], "epoch_rows": epoch_rows}
    found: list[Any] = []
    stages: list[tuple[int, Any]] = [(0, QUARTERS[0])]
    state: Any = None
    for world_size, weights in zip((8, 3, 16), QUARTERS[1:], strict=False):
        run = Run(mixture_of(sources, **given), kind, world_size, 48, **options)
        for loader in run.loaders:
            if state is not None:
                loader.load_state_dict(state)
        found += flat(run.take(5))
        row = run.set_weights(weights)
        stages = [*(stage for stage in stages if stage[0] < row), (row, weights)]
        found += flat(run.take(20))
        state = run.state()
    planned = Run(mixture_of(sources, stages, epoch_rows=epoch_rows), kind, 1, 48, **options)
    expected = flat(planned.take(75))
    assert len(stages) == 4
    assert found == expected
    if kind == "fitted ahead":
        assert len({tuple(stage) for _, stage in stages}) == 4


def test_state_does_not_grow_with_calls_and_continues_on_any_rank(
    sources: dict[str, str],
) -> None:
    for kind in ("rows", "epoch", "ahead"):
        run, sizes = Run(mixture_of(sources), kind, 2, 6, lanes=2), []
        for number in range(40):
            run.take(3)
            run.set_weights([1 + number % 9, 1, 1])
            sizes.append(len(json.dumps(run.state())))
        assert max(sizes[10:]) <= sizes[9] + 40 < 4096
        other = Run(mixture_of(sources), kind, 3, 6, lanes=None)
        for loader in other.loaders:
            loader.load_state_dict(run.state())
        assert flat(other.take(20)) == flat(run.take(20))
