"""Order, global batches, tails and steps against a model that was written from the definition."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from breadth import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_order import global_sequence, steps
from row_files import flat, ids, numpy_loader, write_files

quick = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SIZES = st.lists(st.integers(0, 25), min_size=1, max_size=3)
THREADS = st.sampled_from([0, 1, 2, 8])


@st.composite
def topologies(draw: st.DrawFn) -> dict[str, int]:
    return {
        "batch_size": draw(st.sampled_from([1, 2, 3, 5, 8, 40])),
        "world_size": draw(st.integers(1, 5)),
        "lanes": draw(st.sampled_from([1, 2, 3, 4, 6, 9])),
    }


def batches_of_ranks(path: Path, world_size: int, **options: Any) -> list[list[Any]]:
    """What each rank gets, and whether its length was told right."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rank in range(world_size):
            loader = numpy_loader(path, rank=rank, world_size=world_size, **options)
            batches = list(loader)
            assert len(loader) == len(batches)
            found.append(batches)
    return found


def by_step(ranks: list[list[Any]]) -> list[list[int]]:
    """Global batches: those of the ranks, put together again."""
    parts = [ids(batches) for batches in ranks]
    return [
        [id for part in parts if step < len(part) for id in part[step]]
        for step in range(max(map(len, parts), default=0))
    ]


@quick
@given(
    sizes=SIZES,
    row_group=st.integers(1, 12),
    topology=topologies(),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    threads=THREADS,
)
def test_rows_of_every_rank_and_step_are_those_of_the_model(
    tmp_path: Path,
    sizes: list[int],
    row_group: int,
    topology: dict[str, int],
    tail: str,
    threads: int,
) -> None:
    path = write_files(tmp_path, sizes, row_group=row_group)
    expected = list(steps(sum(sizes), tail=tail, **topology))
    found = batches_of_ranks(path, tail=tail, threads=threads, **topology)
    for rank, batches in enumerate(found):
        wanted = [step[rank] for step in expected if step[rank].positions]
        assert ids(batches) == [list(batch.positions) for batch in wanted]
        if tail == "pad":
            assert [batch["__padded"].tolist() for batch in batches] == [
                list(batch.padded) for batch in wanted
            ]
        else:
            assert not any("__padded" in batch for batch in batches)


@quick
@given(
    sizes=SIZES,
    row_group=st.integers(1, 12),
    topology=topologies(),
    window=st.sampled_from([0, 1, 200, 1 << 30]),
    seed=st.integers(-(2**63), 2**63 - 1),
    threads=THREADS,
)
def test_shuffled_rows_come_once_and_global_batches_do_not_know_the_ranks(
    tmp_path: Path,
    sizes: list[int],
    row_group: int,
    topology: dict[str, int],
    window: int,
    seed: int,
    threads: int,
) -> None:
    path = write_files(tmp_path, sizes, row_group=row_group)
    options = {
        "shuffle": True,
        "shuffle_window_bytes": window,
        "seed": seed,
        "lanes": topology["lanes"],
    }
    world_size, batch_size = topology["world_size"], topology["batch_size"]
    apart = by_step(
        batches_of_ranks(
            path, world_size, batch_size=batch_size, tail="uneven", threads=threads, **options
        )
    )
    alone = ids(
        numpy_loader(path, batch_size=batch_size * world_size, tail="uneven", threads=1, **options)
    )
    assert apart == alone
    assert sorted(id for step in alone for id in step) == list(range(sum(sizes)))


@quick
@given(
    sizes=SIZES,
    row_group=st.integers(1, 12),
    topology=topologies(),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
)
def test_a_shuffled_epoch_is_the_model_over_the_shuffled_order(
    tmp_path: Path, sizes: list[int], row_group: int, topology: dict[str, int], tail: str
) -> None:
    """With one lane and batches of one row, the loader tells its order.

    Lanes and tails are then the model's business.
    """
    path = write_files(tmp_path, sizes, row_group=row_group)
    order = flat(
        numpy_loader(path, batch_size=1, lanes=1, shuffle=True, seed=9, world_size=1, rank=0)
    )
    expected = list(steps(sum(sizes), tail=tail, **topology))
    found = batches_of_ranks(path, tail=tail, shuffle=True, seed=9, **topology)
    for rank, batches in enumerate(found):
        wanted = [
            [order[position] for position in step[rank].positions]
            for step in expected
            if step[rank].positions
        ]
        assert ids(batches) == wanted


@quick
@given(
    sizes=SIZES,
    divisor=st.integers(1, 7),
    remainder=st.integers(0, 6),
    topology=topologies(),
    shuffle=st.booleans(),
    threads=THREADS,
)
def test_a_filter_leaves_the_order_of_what_is_left(
    tmp_path: Path,
    sizes: list[int],
    divisor: int,
    remainder: int,
    topology: dict[str, int],
    shuffle: bool,
    threads: int,
) -> None:
    import shardmill as sm

    path = write_files(tmp_path, sizes, row_group=5)
    kept = [id for id in range(sum(sizes)) if id % divisor == remainder]
    condition = sm.col("id").is_in(kept or [-1])
    found = by_step(
        batches_of_ranks(
            path, filter=condition, shuffle=shuffle, tail="uneven", threads=threads, **topology
        )
    )
    if shuffle:
        assert sorted(id for step in found for id in step) == kept
    else:
        whole = topology["batch_size"] * topology["world_size"]
        sequence = [kept[position] for position in global_sequence(len(kept), topology["lanes"])]
        assert found == [
            sorted(sequence[start : start + whole]) for start in range(0, len(kept), whole)
        ]


def test_hundred_rows_on_four_ranks_end_as_the_three_tails_say(tmp_path: Path) -> None:
    path = write_files(tmp_path, [60, 40], row_group=7)
    options = {"world_size": 4, "batch_size": 8}
    assert [len(batches) for batches in batches_of_ranks(path, tail="drop", **options)] == [3] * 4
    padded = batches_of_ranks(path, tail="pad", **options)
    assert [len(batches) for batches in padded] == [4] * 4
    assert sum(int(batch["__padded"].sum()) for batches in padded for batch in batches) == 28
    uneven = batches_of_ranks(path, tail="uneven", **options)
    assert [len(batches[-1]["id"]) for batches in uneven] == [1] * 4
    assert sorted(id for batches in uneven for id in flat(batches)) == list(range(100))


def test_more_rows_to_pad_than_there_are_repeat_them_in_turn(tmp_path: Path) -> None:
    path = write_files(tmp_path, [3])
    batches = batches_of_ranks(path, 2, batch_size=5, tail="pad", lanes=1)
    assert [flat(rank) for rank in batches] == [[0, 1, 2, 0, 1], [2, 0, 1, 2, 0]]
    assert [rank[0]["__padded"].tolist() for rank in batches] == [
        [False] * 3 + [True] * 2,
        [True] * 5,
    ]


def test_three_epochs_are_three_orders_and_the_same_ones_in_another_loader(tmp_path: Path) -> None:
    path = write_files(tmp_path, [200, 100], row_group=20)
    loader = numpy_loader(path, shuffle=True, batch_size=16, threads=2)
    epochs = [flat(loader) for _ in range(3)]
    assert all(sorted(epoch) == list(range(300)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    again = numpy_loader(path, shuffle=True, batch_size=300, threads=0)
    assert [flat(again) for _ in range(3)] == epochs


def test_seed_and_epoch_are_no_sum(tmp_path: Path) -> None:
    path = write_files(tmp_path, [300], row_group=10)

    def order(seed: int, epoch: int) -> list[int]:
        loader = numpy_loader(path, shuffle=True, seed=seed)
        loader.set_epoch(epoch)
        return flat(loader)

    orders = [
        order(seed, epoch) for seed, epoch in [(42, 1), (43, 0), (42, 0), (0, 0), (-1, 0), (1, 0)]
    ]
    assert len({tuple(found) for found in orders}) == len(orders)
    assert order(42, 1) == orders[0]


def test_rows_without_shuffle_keep_their_order_in_every_epoch(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [30, 20], row_group=7), batch_size=8)
    assert [flat(loader) for _ in range(2)] == [list(range(50))] * 2


def test_window_of_one_byte_mixes_whole_row_groups_only(tmp_path: Path) -> None:
    path = write_files(tmp_path, [100, 100], row_group=10)
    order = flat(numpy_loader(path, shuffle=True, shuffle_window_bytes=1))
    groups = [order[start : start + 10] for start in range(0, 200, 10)]
    assert all(len({id // 10 for id in group}) == 1 for group in groups)
    assert any(group != sorted(group) for group in groups)
    assert [group[0] // 10 for group in groups] != sorted(group[0] // 10 for group in groups)


def test_window_confines_rows_to_the_blocks_that_fit_in_it(tmp_path: Path) -> None:
    path = write_files(tmp_path, [400], row_group=10)
    loader = numpy_loader(path, shuffle=True, columns=["id"], shuffle_window_bytes=4000)
    windows = loader.explain()["windows"]
    assert 1 < windows < 40
    order = flat(loader)
    # A row group is met in one run of the epoch that is no longer than a window, and none comes
    # back later.
    spans = [
        max(place for place, id in enumerate(order) if id // 10 == group)
        - min(place for place, id in enumerate(order) if id // 10 == group)
        for group in range(40)
    ]
    assert max(spans) < 2 * 400 / windows + 20


def test_rows_of_a_large_window_move_by_a_third_of_the_epoch(tmp_path: Path) -> None:
    """That is the mean of a uniform permutation."""
    path = write_files(tmp_path, [2000] * 5, row_group=100)
    loader = numpy_loader(path, shuffle=True, columns=["id"], batch_size=100)
    first, second = np.array(flat(loader)), np.array(flat(loader))
    assert abs(np.abs(first - np.arange(10_000)).mean() / 10_000 - 1 / 3) < 0.02
    assert (first == second).mean() < 0.005
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.05
    batch = first[:100]
    assert (np.diff(batch) > 0).mean() < 0.7, "rows of a batch are not sorted"


def test_one_rank_decodes_each_row_group_once(tmp_path: Path) -> None:
    path = write_files(tmp_path, [500] * 2, row_group=20)
    for options in [{}, {"shuffle": True}, {"shuffle": True, "shuffle_window_bytes": 3000}]:
        loader = numpy_loader(path, batch_size=7, threads=2, **options)
        assert loader.explain()["decode_amplification"] == pytest.approx(1.0)
        assert sum(1 for _ in loader) == len(loader)
        assert loader.metrics().blocks_decoded == 50


def test_ranks_with_a_lane_each_read_their_own_part_only(tmp_path: Path) -> None:
    path = write_files(tmp_path, [1000] * 4, row_group=50)
    whole = numpy_loader(path, columns=["id"], batch_size=10)
    assert sum(1 for _ in whole) == 400
    decoded = []
    for rank in range(4):
        loader = numpy_loader(path, columns=["id"], batch_size=10, rank=rank, world_size=4)
        assert sorted(flat(loader)) == list(range(rank * 1000, rank * 1000 + 1000))
        decoded.append(loader.metrics().blocks_decoded)
    assert decoded == [20] * 4


@pytest.mark.parametrize("threads", [0, 1, 2, 8])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("prefetch_bytes", [1, 1000, 1 << 30])
def test_the_smallest_budget_is_slow_and_never_stuck(
    tmp_path: Path, threads: int, shuffle: bool, prefetch_bytes: int
) -> None:
    path = write_files(tmp_path, [600, 400], row_group=250)
    loader = numpy_loader(
        path,
        batch_size=4,
        threads=threads,
        shuffle=shuffle,
        prefetch_bytes=prefetch_bytes,
        shuffle_window_bytes=8000,
    )
    assert sorted(flat(loader)) == list(range(1000))
