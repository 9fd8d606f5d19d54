"""Balanced packs against a model that was written from the specification: in both plans, on any
topology and with any interruption.
"""

import itertools
import json
import math
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import reference_ahead
import shardmill as sm
import test_pack_multiples as inside
import test_packing
from breadth import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_balance import balanced, cost_of, rounded
from reference_order import dealt, lanes_of
from reference_packing import Pack, pack_steps
from shardmill.load._balance import obstacle
from test_packing import packings, packs_in, state_after, write_documents

quick = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

LENGTHS = st.lists(st.one_of(st.integers(1, 9), st.integers(0, 40)), min_size=7, max_size=60)

COST = {"token": 1, "pair": 0.5}


@pytest.fixture(autouse=True)
def _few_packs_per_step_are_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@st.composite
def balances(draw: st.DrawFn) -> dict[str, Any]:
    per_step = draw(st.integers(1, 4))
    return {
        "per_step": per_step,
        "window_packs": draw(st.integers(max(per_step, 2), 12)),
        "within": draw(st.sampled_from(["mixed", "alike"])),
    }


@st.composite
def costs(draw: st.DrawFn) -> dict[str, Any]:
    window = draw(st.sampled_from([None, 3]))
    return {
        "token": draw(st.sampled_from([0.5, 1])),
        "pair": draw(st.sampled_from([0, 0.25, 2])),
        "count_padding": draw(st.booleans()),
        **({"window": window, "window_pair": 1.5} if window else {}),
    }


def balance_of(options: dict[str, Any], cost: dict[str, Any] = COST) -> sm.Balance:
    return sm.Balance(sm.Cost(**cost), **options)


def loader_of(
    path: Any, packing: dict[str, Any], balance: sm.Balance, *, packs: int | None, **options: Any
) -> sm.Loader:
    """A loader with ``plan="ahead"`` if there is a number of packs."""
    if packs is None:
        return test_packing.loader_of(path, {**packing, "balance": balance}, **options)
    packing = {**packing, "balance": balance, "epoch_packs": packs}
    return reference_ahead.loader_of(path, packing, **options)


def steps_of(
    path: Any,
    packing: dict[str, Any],
    cost: dict[str, Any],
    balance: dict[str, Any],
    *,
    packs: int | None,
    lanes: int,
    order: dict[str, Any],
    epoch: int = 0,
    **share: Any,
) -> list[tuple[int, list[Any]]]:
    """What is consumed after each step of an epoch, and the batches of all ranks."""
    model: dict[str, Any] = {"seed": order.get("seed", 0), **balance}
    if packs is None:
        own = test_packing.lanes_of_packs(path, packing, lanes=lanes, epoch=epoch, **order)
        own = [balanced(lane, packing["length"], cost, epoch=epoch, **model) for lane in own]
        return list(pack_steps(own, **share))
    packs = rounded(packs, lanes)
    places = packs * (epoch + 1) + 2 * lanes * balance["window_packs"]
    own = reference_ahead.lanes_of_packs(path, packing, lanes=lanes, places=places, **order)
    own = [balanced(lane, packing["length"], cost, plan="ahead", **model) for lane in own]
    return reference_ahead.steps_of(own, packs, epoch=epoch, **share)


@quick
@given(
    lengths=LENGTHS,
    packing=packings(),
    balance=balances(),
    cost=costs(),
    packs=st.sampled_from([None, 11, 24]),
    batch_size=st.sampled_from([1, 2, 3, 5]),
    world_size=st.sampled_from([1, 2, 3, 4]),
    lanes=st.sampled_from([1, 2, 3, 4, 7]),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    shuffle=st.booleans(),
    threads=st.sampled_from([0, 1, 3]),
    epoch=st.integers(0, 2),
)
def test_packs_of_every_rank_and_step_are_those_of_the_model(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    balance: dict[str, Any],
    cost: dict[str, Any],
    packs: int | None,
    batch_size: int,
    world_size: int,
    lanes: int,
    tail: str,
    shuffle: bool,
    threads: int,
    epoch: int,
) -> None:
    path = write_documents(tmp_path, lengths)
    order = {"shuffle": shuffle, "seed": 3, "shuffle_window_bytes": 200}
    share = {"batch_size": batch_size, "world_size": world_size, "tail": tail}
    steps = steps_of(
        path, packing, cost, balance, packs=packs, lanes=lanes, order=order, epoch=epoch, **share
    )
    for rank in range(world_size):
        options = {"rank": rank, "lanes": lanes, "threads": threads, **share, **order}
        loader = loader_of(path, packing, balance_of(balance, cost), packs=packs, **options)
        loader.set_epoch(epoch)
        wanted = [step[rank] for _, step in steps if step[rank].packs]
        assert len(loader) == len(wanted)
        batches = list(loader)
        found = [packs_in(batch, packing["length"]) for batch in batches]
        assert found == [batch.packs for batch in wanted]
        if tail == "pad":
            padded = [batch["__padded"].tolist() for batch in batches]
            assert padded == [batch.padded for batch in wanted]


@quick
@given(
    lengths=inside.LENGTHS,
    packing=inside.packings(),
    balance=balances(),
    cost=costs(),
    packs=st.sampled_from([None, 12]),
    lanes=st.sampled_from([1, 2, 3]),
    shuffle=st.booleans(),
    stop=st.integers(0, 8),
)
def test_multiples_and_repeated_tokens_count_in_costs(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    balance: dict[str, Any],
    cost: dict[str, Any],
    packs: int | None,
    lanes: int,
    shuffle: bool,
    stop: int,
) -> None:
    path = write_documents(tmp_path, lengths)
    order = {"shuffle": shuffle, "seed": 3, "shuffle_window_bytes": 200}
    plan = "epoch" if packs is None else "ahead"
    own: list[Any]
    if packs is None:
        rows = reference_ahead.rows_of_pass(path, 0, lanes=1, **order)
        own = [
            inside.model([[rows[position] for position in lane]], **packing)
            for lane in lanes_of(len(rows), lanes)
        ]
    else:
        places = packs + 2 * lanes * balance["window_packs"]
        own = inside.endless(path, packing, lanes=lanes, places=places, **order)
    ordered = [
        balanced(
            lane,
            packing["length"],
            cost,
            plan=plan,
            seed=3,
            lengths_of=lambda pack: pack["padded_lengths"],
            **balance,
        )
        for lane in own
    ]
    share = {"batch_size": 1, "world_size": 1, "tail": "uneven"}
    steps: list[tuple[int, list[Any]]] = (
        list(pack_steps(ordered, **share))
        if packs is None
        else reference_ahead.steps_of(ordered, packs, **share)
    )
    wanted = [inside.of_model(ranks[0].packs, packing) for _, ranks in steps]
    options: dict[str, Any] = {"packs": packs, "lanes": lanes, **share, **order}
    loader = loader_of(path, packing, balance_of(balance, cost), **options)
    begun = [inside.packs_in(batch, packing) for batch in itertools.islice(loader, stop)]
    assert begun == wanted[:stop]
    terms = loader.metrics().cost_terms
    documents = [pack.get("padded_lengths", pack["document_lengths"]) for [pack] in begun]
    if not cost["count_padding"]:
        assert terms.token == sum(map(sum, documents))
        assert terms.pair == sum(tokens**2 for own in documents for tokens in own)
    if stop < len(wanted):
        resumed = loader_of(path, packing, balance_of(balance, cost), **options)
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        assert [inside.packs_in(batch, packing) for batch in resumed] == wanted[stop:]
    if packs is None:
        for step, (_, ranks) in enumerate(steps[:3]):
            documents = ranks[0].packs[0]["padded_lengths"]
            expected = [cost_of(documents, packing["length"], **cost)]
            assert loader.explain(step=step, epoch=0)["rank_costs"] == expected


@quick
@given(
    lengths=LENGTHS,
    packing=packings(),
    balance=balances(),
    packs=st.sampled_from([None, 30]),
    lanes=st.sampled_from([1, 2, 3, 4]),
    sizes=st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 4])),
        min_size=2,
        max_size=4,
    ),
    stops=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    shuffle=st.booleans(),
)
def test_runs_on_other_ranks_go_on_where_one_stopped(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    balance: dict[str, Any],
    packs: int | None,
    lanes: int,
    sizes: list[tuple[int, int]],
    stops: list[int],
    shuffle: bool,
) -> None:
    path = write_documents(tmp_path, lengths)
    order: dict[str, Any] = {"shuffle": shuffle, "seed": 11, "shuffle_window_bytes": 300}
    state: dict[str, Any] | None = None
    consumed = 0
    for (world_size, batch_size), stop in zip(sizes, [*stops, 10**6], strict=False):
        share = {"batch_size": batch_size, "world_size": world_size, "tail": "uneven"}
        steps = steps_of(
            path,
            packing,
            COST,
            balance,
            packs=packs,
            lanes=lanes,
            order=order,
            consumed=consumed,
            **share,
        )
        if not steps:
            break
        steps, states = steps[:stop], []
        for rank in range(world_size):
            own = {"rank": rank, "lanes": lanes if state is None else None, **share, **order}
            loader = loader_of(path, packing, balance_of(balance), packs=packs, **own)
            expected_packs = [step[rank].packs for _, step in steps]
            states.append(state_after(loader, state, expected_packs, packing["length"]))
        if steps:
            consumed = steps[-1][0]
        state = dict(json.loads(json.dumps(states[0])))
        assert len(json.dumps(state)) < 4096
        if state["epoch"] > 0:
            break


def mixture_of(tmp_path: Path) -> sm.Mixture:
    """A source of short documents, and one of long ones."""
    short = write_documents(tmp_path, [1 + number * 3 % 5 for number in range(200)])
    long = write_documents(tmp_path, [8 + number * 5 % 17 for number in range(90)])
    sources = {"short": sm.Dataset(short), "long": sm.Dataset(long)}
    return sm.Mixture(sources, weights=[2, 1], epoch_rows=720)


@pytest.mark.parametrize("packs", [None, 192])
def test_eight_three_and_sixteen_ranks_lose_and_double_no_pack(
    tmp_path: Path, packs: int | None
) -> None:
    """Of a mixture that is shuffled, with the same global sequence."""
    mixture = mixture_of(tmp_path)
    balance = balance_of({"per_step": 2, "window_packs": 6})
    packing = {"length": 24, "strategy": "best_fit", "open_packs": 4}
    order = {"shuffle": True, "seed": 5, "shuffle_window_bytes": 900, "tail": "drop", "lanes": 4}

    def batches_of(world_size: int, state: Any, steps: int | None) -> tuple[list[Pack], Any]:
        found: list[list[Pack]] = []
        after: Any = None
        for rank in range(world_size):
            share = {"batch_size": 48 // world_size, "rank": rank, "world_size": world_size}
            loader = loader_of(mixture, packing, balance, packs=packs, **share, **order)
            if state is not None:
                loader.load_state_dict(state)
            taken = itertools.islice(loader, steps)
            found.append([pack for batch in taken for pack in packs_in(batch, 24)])
            after = loader.state_dict()
        parts = [
            of_rank[start : start + 48 // world_size]
            for start in range(0, len(found[0]), 48 // world_size)
            for of_rank in found
        ]
        return [pack for part in parts for pack in part], after

    whole, _ = batches_of(1, None, None)
    resumed, state = batches_of(8, None, 1)
    assert resumed == whole[: len(resumed)]
    for world_size in (3, 16):
        assert whole == resumed + batches_of(world_size, state, None)[0]
    assert len(whole) > 2 * 48


@quick
@given(
    lanes=st.integers(1, 12),
    world_size=st.integers(1, 8),
    batch_size=st.integers(1, 12),
    consumed=st.integers(0, 60),
    lengths=st.lists(st.integers(8, 14), min_size=12, max_size=12),
)
def test_ranks_get_packs_of_equal_positions_wherever_the_rule_holds(
    lanes: int, world_size: int, batch_size: int, consumed: int, lengths: list[int]
) -> None:
    share = {"batch_size": batch_size, "world_size": world_size}
    if obstacle(lanes, consumed, share) is not None:
        return
    shortest = min(lengths[:lanes])
    sequence = [
        (lane, number)
        for number in range(max(lengths[:lanes]))
        for lane in range(lanes)
        if number < lengths[lane]
    ]
    for end, ranks in dealt(sequence, tail="drop", consumed=consumed, **share):
        if end > shortest * lanes:
            break
        positions = [Counter(number for _, number in rows) for rows, _ in ranks]
        assert all(own == positions[0] for own in positions)


@pytest.mark.parametrize(
    "topology, says",
    [
        ((4, 0, 2, 3), "batch_size * world_size = 6 and lanes=4"),
        ((4, 0, 4, 3), "lanes=4 is not a multiple of world_size=3"),
        ((4, 6, 2, 4), "consumed=6 is not a multiple of lanes = 4"),
        ((8, 2, 2, 2), "consumed=2 is not a multiple of batch_size * world_size = 4"),
        ((8, 4, 2, 2), None),
        ((4, 8, 4, 2), None),
    ],
)
def test_rule_names_the_number_to_change(
    topology: tuple[int, int, int, int], says: str | None
) -> None:
    lanes, consumed, batch_size, world_size = topology
    found = obstacle(lanes, consumed, {"batch_size": batch_size, "world_size": world_size})
    assert (found is None) if says is None else (found is not None and found.startswith(says))


def lognormal(count: int, seed: int, *, most: int = 60) -> list[int]:
    drawn = random.Random(seed)
    return [min(most, 1 + int(drawn.lognormvariate(1.5, 1.2))) for _ in range(count)]


@pytest.mark.parametrize("packs", [None, 240])
@pytest.mark.parametrize("world_size, batch_size", [(4, 1), (2, 6), (3, 5)])
def test_explained_costs_are_those_of_the_packs(
    tmp_path: Path, packs: int | None, world_size: int, batch_size: int
) -> None:
    path = write_documents(tmp_path, lognormal(900, 1))
    balance = balance_of({"per_step": 4, "window_packs": 16})
    packing = {"length": 64, "strategy": "best_fit"}
    loader = loader_of(path, packing, balance, packs=packs, lanes=4, shuffle=True)
    share = {"batch_size": batch_size, "world_size": world_size}
    first = loader.explain(**share)
    costs = []
    for step in range(first["steps"] if packs is None else 4):
        answer = loader.explain(step=step, **share)
        ranks = [loader.explain(step=step, rank=rank, **share) for rank in range(world_size)]
        own = [
            sum(cost_of([count for *_, count in pack], 64, **COST) for pack in rank["packs"])
            for rank in ranks
        ]
        assert answer["rank_costs"] == own
        costs.append(own)
    if packs is None:
        largest, mean = sum(map(max, costs)), sum(sum(own) / world_size for own in costs)
        found = first["cost_imbalance"]["balanced"]
        assert found["all_steps"] == pytest.approx(largest / mean)
        worst = max(max(own) / (sum(own) / world_size) for own in costs)
        assert found["worst_step"] == pytest.approx(worst)
        assert first["steps_after_first_end"] > 0
    assert loader.explain(step=10**6, **share)["rank_costs"] == []
    plain = first["cost_imbalance"]["as_packed"]
    if (world_size, batch_size) == (4, 1):
        assert first["is_equal_work"]
        of_balance = first["cost_imbalance"]["balanced"]
        assert 1 <= of_balance["before_first_end"] < 1 + 0.7 * (plain["before_first_end"] - 1)


def test_explained_figures_without_a_balance_are_those_of_packs_in_their_order(
    tmp_path: Path,
) -> None:
    path = write_documents(tmp_path, lognormal(700, 2))
    packing: dict[str, Any] = {"length": 64, "strategy": "first_fit"}
    balance = balance_of({"per_step": 1, "window_packs": 32})
    share = {"batch_size": 1, "world_size": 3}
    plain = test_packing.loader_of(path, packing, lanes=3)
    costs = [
        [
            sum(cost_of([count for *_, count in pack], 64, **COST) for pack in rank["packs"])
            for rank in (plain.explain(step=step, rank=rank, **share) for rank in range(3))
        ]
        for step in range(plain.explain(**share)["steps"])
    ]
    largest, mean = sum(map(max, costs)), sum(sum(own) / 3 for own in costs)
    found = loader_of(path, packing, balance, packs=None, lanes=3).explain(**share)
    assert found["cost_imbalance"]["as_packed"]["all_steps"] == pytest.approx(largest / mean)
    for name in ("fill_rate", "packs_of_epoch", "tokens_of_epoch", "steps"):
        assert found[name] == plain.explain(**share)[name]


def test_mix_of_steps_is_that_of_the_sources(tmp_path: Path) -> None:
    mixture = mixture_of(tmp_path)
    balance = balance_of({"per_step": 2, "window_packs": 8})
    loader = loader_of(mixture, {"length": 24}, balance, packs=None, lanes=2)
    answer = loader.explain(batch_size=4, world_size=1)
    bounds: dict[str, list[float]] = {"documents": [], "short": []}
    shortest = min(
        len(lane)
        for lane in test_packing.lanes_of_packs(
            mixture, {"length": 24, "strategy": "concat"}, lanes=2
        )
    )
    for step in range(shortest * 2 // 4):
        pieces = [
            piece for pack in loader.explain(step=step, batch_size=4)["packs"] for piece in pack
        ]
        # Files of both sources have the same names; the short documents are those of 1 to 5 tokens.
        bounds["documents"].append(len(pieces) / 4)
    lowest, highest = answer["step_mix"]["balanced"]["documents"]
    assert (lowest, highest) == (min(bounds["documents"]), max(bounds["documents"]))
    for mix in answer["step_mix"].values():
        assert list(mix["sources"]) == ["short", "long"]
        low, high = mix["sources"]["short"]
        assert 0 < low <= high < 1
        assert mix["sources"]["long"] == (pytest.approx(1 - high), pytest.approx(1 - low))


def test_each_pack_of_three_epochs_comes_once(tmp_path: Path) -> None:
    """Windows span the ends of epochs, of passes and of groups of rows."""
    path = write_documents(tmp_path, [1 + number % 13 for number in range(500)], row_group=50)
    packing = {"length": 16, "strategy": "best_fit"}
    options = {"lanes": 4, "batch_size": 50, "shuffle": True}
    balance = balance_of({"per_step": 4, "window_packs": 256})

    def places_of(loader: sm.Loader, epochs: int) -> list[tuple[int, tuple[Any, ...]]]:
        found = []
        for epoch in range(epochs):
            for step in range(1000 // 50):
                answer = loader.explain(step=step, epoch=epoch)
                packs = iter(answer["packs"])
                for lane, _, count in answer["lanes"]:
                    found += [(lane, tuple(next(packs))) for _ in range(count)]
        return found

    ours = places_of(loader_of(path, packing, balance, packs=1000, **options), 3)
    plain = places_of(
        reference_ahead.loader_of(path, {**packing, "epoch_packs": 1000}, **options), 4
    )
    lane_packs = [[pack for lane, pack in ours if lane == number] for number in range(4)]
    for lane, packs in enumerate(lane_packs):
        own = [pack for other, pack in plain if other == lane]
        assert len(packs) == 750
        # Windows of 16, 64, 128, and two of 256.
        assert Counter(packs[:720]) == Counter(own[:720])
        assert packs[:720] != own[:720]
        assert not Counter(packs) - Counter(own)


def test_later_groups_are_as_equal_as_the_first(tmp_path: Path) -> None:
    """Lanes have different numbers of packs in each pass, because rows without tokens are in
    none.
    """
    lengths: list[int] = []
    for lane in range(4):
        lengths += [*lognormal(400 - 60 * lane, lane), *[0] * (60 * lane)]
    path = write_documents(tmp_path, lengths)
    packing = {"length": 128, "strategy": "best_fit"}
    balance = balance_of({"per_step": 4, "window_packs": 32})
    loader = loader_of(path, packing, balance, packs=4_000, lanes=4)
    share = {"batch_size": 1, "world_size": 4}
    packs_of_pass = [
        len(lane)
        for lane in test_packing.lanes_of_packs(
            path, {**packing, "open_packs": 64, "long": "split"}, lanes=4
        )
    ]
    assert max(packs_of_pass) > 1.1 * min(packs_of_pass)
    ratios = []
    for number in (0, 9):
        start = number * max(packs_of_pass) + 60
        steps = range(start, start + 10 * 32, 32)
        found = [loader.explain(step=step, **share)["cost_imbalance"] for step in steps]
        ours, plain = (
            sum(part[order]["all_steps"] - 1 for part in found)
            for order in ("balanced", "as_packed")
        )
        ratios.append(ours / plain)
    assert max(ratios) < 0.8 and ratios[1] < ratios[0] + 0.15


@pytest.mark.parametrize("shuffle", [False, True])
def test_texts_are_tokenized_once_with_windows_of_many_groups(
    tmp_path: Path, shuffle: bool
) -> None:
    table = pa.table({"id": range(3_000)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=40)
    counted: Counter[int] = Counter()

    def tokens(batch: pa.RecordBatch) -> dict[str, list[list[int]]]:
        ids = batch.column("id").to_pylist()
        counted.update(ids)
        return {"tokens": [[number] * (1 + number % 7) for number in ids]}

    tokenize = sm.Tokenize(
        "id", function=sm.TokenFunction(tokens, version="1"), counts=tmp_path / "counts"
    )
    dataset = sm.Dataset(tmp_path / "rows.parquet", tokenize=tokenize)
    balance = balance_of({"per_step": 4, "window_packs": 128})
    loader = loader_of(
        dataset,
        {"length": 16},
        balance,
        packs=600,
        lanes=2,
        batch_size=8,
        shuffle=shuffle,
        shuffle_window_bytes=4_000,
        threads=1,
    )
    batches = list(loader)
    assert len(batches) == 75
    assert set(counted.values()) == {1}


def test_metrics_sum_the_terms_of_delivered_batches(tmp_path: Path) -> None:
    path = write_documents(tmp_path, lognormal(300, 4))
    packing = {"length": 32, "strategy": "best_fit"}
    cost = {"token": 1, "pair": 1, "window_pair": 1, "window": 5, "count_padding": False}
    balance = balance_of({"per_step": 4, "window_packs": 8}, cost)
    loader = loader_of(path, packing, balance, packs=None, batch_size=4, lanes=2)
    lengths: list[int] = []
    for batch in itertools.islice(loader, 7):
        lengths += [len(document) for pack in packs_in(batch, 32) for document in pack]
        terms = loader.metrics().cost_terms
        assert terms == sm.CostTerms(
            token=sum(lengths),
            pair=sum(length**2 for length in lengths),
            window_pair=sum(length * min(length, 5) for length in lengths),
        )
    plain = test_packing.loader_of(path, packing, batch_size=4)
    assert list(plain) and plain.metrics().cost_terms == sm.CostTerms()


@pytest.mark.parametrize("packs", [None, 40])
def test_state_of_another_balance_or_seed_is_refused_with_both_values(
    tmp_path: Path, packs: int | None
) -> None:
    path = write_documents(tmp_path, lognormal(80, 3))
    packing = {"length": 32}
    options: dict[str, Any] = {"packs": packs, "lanes": 4, "batch_size": 4}
    state = loader_of(
        path, packing, balance_of({"per_step": 4, "window_packs": 8}), **options
    ).state_dict()
    same = loader_of(path, packing, balance_of({"per_step": 4, "window_packs": 8}), **options)
    same.load_state_dict(json.loads(json.dumps(state)))
    for other, says in (
        (balance_of({"per_step": 4, "window_packs": 9}), "'window_packs': 8.*'window_packs': 9"),
        (balance_of({"per_step": 2, "window_packs": 8}), "'per_step': 4.*'per_step': 2"),
        (balance_of({"per_step": 4, "window_packs": 8}, {"pair": 3}), "'pair': .*'pair': "),
    ):
        with pytest.raises(sm.CheckpointMismatchError, match=f"packing balance=.*{says}"):
            loader_of(path, packing, other, **options).load_state_dict(state)
    seeded = loader_of(
        path, packing, balance_of({"per_step": 4, "window_packs": 8}), seed=1, **options
    )
    with pytest.raises(sm.CheckpointMismatchError, match="seed=0, this loader has seed=1"):
        seeded.load_state_dict(state)
    del options["packs"]
    if packs is None:
        plain = test_packing.loader_of(path, packing, **options)
    else:
        plain = reference_ahead.loader_of(path, {**packing, "epoch_packs": packs}, **options)
    assert "balance" not in plain.state_dict()["packing"]
    with pytest.raises(sm.CheckpointMismatchError, match="balance=.*has balance=None"):
        plain.load_state_dict(state)
    with pytest.raises(sm.CheckpointMismatchError, match="balance=None, this loader has balance="):
        same.load_state_dict(plain.state_dict())


def test_epochs_are_rounded_up_to_all_lanes_with_a_warning(tmp_path: Path) -> None:
    path = write_documents(tmp_path, lognormal(80, 3))
    balance = balance_of({"per_step": 4, "window_packs": 8})
    with pytest.warns(UserWarning, match="epoch_packs=41 is rounded up to 44") as caught:
        loader = loader_of(path, {"length": 32}, balance, packs=41, lanes=4, batch_size=4)
        assert len(loader) == 11
        assert loader.state_dict()["packing"]["epoch_packs"] == 44
    assert len(caught) == 1


def test_windows_that_fill_the_memory_cause_a_warning(tmp_path: Path) -> None:
    path = write_documents(tmp_path, lognormal(80, 3))
    options: dict[str, Any] = {"lanes": 4, "packs": None, "batch_size": 4}
    balance = balance_of({"per_step": 4, "window_packs": 64})
    size = 2 * 64 * 4 * 32 * 4
    with pytest.warns(
        UserWarning, match=f"need {size:,} bytes .*of prefetch_bytes=100,000\nhint: .*window_packs"
    ):
        loader = loader_of(path, {"length": 32}, balance, prefetch_bytes=100_000, **options)
    assert loader.explain()["balance_bytes"] == size
    assert loader.explain(world_size=4, batch_size=1)["balance_bytes"] == size // 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader_of(path, {"length": 32}, balance, prefetch_bytes=2 * size, **options)


@pytest.mark.parametrize(
    "options",
    [{"per_step": 1}, {"per_step": 3}, {"per_step": 8, "within": "alike"}],
)
def test_steps_of_equally_long_documents_cause_a_warning(options: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="about equally long.*\nhint: compare step_mix"):
        sm.Balance(sm.Cost(), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sm.Balance(sm.Cost(), per_step=4)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"cost": 1, "per_step": 4}, "cost of a Balance must be a Cost, not 1"),
        ({"per_step": 0}, "per_step must be an integer of at least 1, not 0"),
        ({"per_step": True}, "per_step must be an integer of at least 1, not True"),
        ({"per_step": 9, "window_packs": 8}, "per_step=9 is more than window_packs=8"),
        ({"per_step": 1, "window_packs": 1}, "window_packs must be an integer from 2 to 1048576"),
        ({"per_step": 4, "within": "equal"}, "within must be one of 'mixed', 'alike'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(sm.OptionError, match=says):
        sm.Balance(**{"cost": sm.Cost(), **options})


def test_balance_of_another_type_is_refused() -> None:
    with pytest.raises(
        sm.OptionError, match="balance must be a Balance, not 4\nhint: write balance="
    ):
        sm.Packing("tokens", length=8, balance=4)  # type: ignore[arg-type]


def test_balanced_loader_survives_pickling(tmp_path: Path) -> None:
    import pickle

    path = write_documents(tmp_path, lognormal(80, 3))
    balance = balance_of({"per_step": 2, "window_packs": 8})
    loader = loader_of(path, {"length": 32}, balance, packs=None, lanes=2, batch_size=2)
    copy = pickle.loads(pickle.dumps(loader))
    found, expected = ([packs_in(batch, 32) for batch in own] for own in (copy, loader))
    assert found == expected and math.prod(map(len, found)) > 0
