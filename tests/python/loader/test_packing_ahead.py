"""Packs of endless lanes against a model that was written from the specification.

On any topology and with any interruption.
"""

import itertools
import json
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering, examples
from flat_options import flat_loader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_ahead import WINDOW_ROWS, lanes_of_packs, loader_of, steps_of, taken
from shardmill.load._loader import iteration_of
from test_packing import all_packs, packings, packs_in, state_after, write_documents

quick = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

#: Documents: mostly short ones, some longer than any pack, few empty ones.
LENGTHS = st.lists(st.one_of(st.integers(1, 9), st.integers(0, 40)), min_size=7, max_size=40)

FIRST = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.fixture(autouse=True)
def _dropping_everything_is_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*drops all")
        yield


def test_lanes_continue_with_their_first_rows(tmp_path: Path) -> None:
    path = write_documents(tmp_path, FIRST)
    loader = loader_of(path, {"length": 4, "epoch_packs": 6}, lanes=2, batch_size=6)
    pieces = loader.explain()["packs"]
    in_files = {(f"{number // 4:03}.parquet", number % 4): number for number in range(8)}
    assert [
        [(in_files[file, row], first, count) for file, row, first, count in pack] for pack in pieces
    ] == [
        # Lane 0, then lane 1.
        [(0, 0, 3), (1, 0, 1)],
        [(2, 0, 4)],
        [(3, 0, 1), (0, 0, 3)],
        [(4, 0, 4)],
        [(4, 4, 1), (5, 0, 3)],
        [(5, 3, 4)],
    ]
    one_by_one = loader_of(path, {"length": 4, "epoch_packs": 6}, lanes=2, batch_size=1)
    batches = list(one_by_one)
    assert (len(one_by_one), one_by_one.epoch) == (6, 1)
    assert [batch["tokens"][0].tolist() for batch in batches] == [
        [1, 2, 3, 101],
        [401, 402, 403, 404],
        [201, 202, 203, 204],
        [405, 501, 502, 503],
        [301, 1, 2, 3],
        [504, 505, 506, 507],
    ]
    epoch = flat_loader(
        path, packing=sm.Packing("tokens", length=4), lanes=2, batch_size=1, output="numpy"
    )
    assert all_packs(list(epoch)[:4], 4) == all_packs(batches[:4], 4)


@quick
@given(
    lengths=LENGTHS,
    packing=packings(),
    epoch_packs=st.integers(1, 25),
    batch_size=st.sampled_from([1, 2, 3, 5]),
    world_size=st.sampled_from([1, 2, 3, 4]),
    lanes=st.sampled_from([1, 2, 3, 4, 7]),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    shuffle=st.booleans(),
    threads=st.sampled_from([0, 1, 3]),
    epoch=st.integers(0, 2),
    row_group=st.sampled_from([1, 4]),
)
def test_packs_of_every_rank_and_step_are_those_of_the_model(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    epoch_packs: int,
    batch_size: int,
    world_size: int,
    lanes: int,
    tail: str,
    shuffle: bool,
    threads: int,
    epoch: int,
    row_group: int,
) -> None:
    path = write_documents(tmp_path, lengths, row_group=row_group)
    order = {"shuffle": shuffle, "seed": 3, "shuffle_window_bytes": 200}
    share = {"batch_size": batch_size, "world_size": world_size, "tail": tail}
    packs = lanes_of_packs(path, packing, lanes=lanes, places=epoch_packs * (epoch + 1), **order)
    steps = steps_of(packs, epoch_packs, epoch=epoch, **share)
    for rank in range(world_size):
        options = {"rank": rank, "lanes": lanes, "threads": threads, **share, **order}
        loader = loader_of(path, {**packing, "epoch_packs": epoch_packs}, **options)
        loader.set_epoch(epoch)
        wanted = [step[rank] for _, step in steps if step[rank].packs]
        assert len(loader) == len(wanted)
        batches = list(loader)
        assert [packs_in(batch, packing["length"]) for batch in batches] == [
            batch.packs for batch in wanted
        ]
        if tail == "pad":
            assert [batch["__padded"].tolist() for batch in batches] == [
                batch.padded for batch in wanted
            ]
        assert loader.epoch == epoch + 1


@quick
@given(
    lengths=LENGTHS,
    packing=packings(),
    lanes=st.sampled_from([1, 2, 3, 4]),
    sizes=st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 4])),
        min_size=2,
        max_size=4,
    ),
    stops=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    filtered=st.booleans(),
    threads=st.sampled_from([0, 2]),
    epoch_packs=st.integers(20, 60),
)
def test_runs_on_other_ranks_and_threads_go_on_where_one_stopped(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    lanes: int,
    sizes: list[tuple[int, int]],
    stops: list[int],
    filtered: bool,
    threads: int,
    epoch_packs: int,
) -> None:
    path = write_documents(tmp_path, [*lengths, *[2] * 12])
    options: dict[str, Any] = {"shuffle": True, "seed": 11, "shuffle_window_bytes": 300}
    if filtered:
        options["filter"] = sm.col("keep") == True  # noqa: E712
    packs = lanes_of_packs(path, packing, lanes=lanes, places=epoch_packs, **options)
    state: dict[str, Any] | None = None
    consumed = 0
    for (world_size, batch_size), stop in zip(sizes, [*stops, 10**6], strict=False):
        if consumed >= epoch_packs:
            break
        share = {"batch_size": batch_size, "world_size": world_size, "tail": "uneven"}
        steps = steps_of(packs, epoch_packs, consumed=consumed, **share)[:stop]
        states = []
        for rank in range(world_size):
            own = {
                "rank": rank,
                "lanes": lanes if state is None else None,
                "threads": threads,
                **share,
                **options,
            }
            loader = loader_of(path, {**packing, "epoch_packs": epoch_packs}, **own)
            expected_packs = [step[rank].packs for _, step in steps]
            states.append(state_after(loader, state, expected_packs, packing["length"]))
        if steps:
            consumed = steps[-1][0]
        if steps and all(step.packs for step in steps[-1][1]):
            assert all(other == states[0] for other in states)
        state = json.loads(json.dumps(states[0]))
        assert len(json.dumps(state)) < 4096


@covering(
    1,
    packing=[{"length": 7}, {"length": 16, "strategy": "best_fit", "open_packs": 3}],
    shuffle=[False, True],
)
def test_every_place_can_be_resumed_also_in_later_epochs(
    tmp_path: Path, packing: dict[str, Any], shuffle: bool
) -> None:
    path = write_documents(tmp_path, [number * 5 % 23 for number in range(40)])
    packing = {**packing, "epoch_packs": 23}
    options = {
        "batch_size": 2,
        "shuffle": shuffle,
        "seed": 5,
        "shuffle_window_bytes": 400,
        "lanes": 3,
    }
    length, count = packing["length"], 30
    whole = taken(loader_of(path, packing, **options), count, length)
    for stop in range(count):
        begun = loader_of(path, packing, **options)
        taken(begun, stop, length)
        resumed = loader_of(path, packing, **{**options, "lanes": None, "threads": 3})
        resumed.load_state_dict(json.loads(json.dumps(begun.state_dict())))
        assert taken(resumed, min(3, count - stop), length) == whole[stop : stop + 3]


def test_windows_of_rows_are_packed_separately(tmp_path: Path) -> None:
    rows = WINDOW_ROWS + 100
    table = pa.table(
        {
            "tokens": pa.array(
                [[number] * (1 + number % 3) for number in range(rows)], pa.list_(pa.int32())
            )
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=10_000)
    packing = {"length": 8, "strategy": "best_fit", "open_packs": 2}
    packs = lanes_of_packs(tmp_path / "rows.parquet", packing, lanes=1, places=16_500)
    start = 16_300
    loader = loader_of(
        tmp_path / "rows.parquet", {**packing, "epoch_packs": 16_500}, batch_size=100
    )
    loader.load_state_dict({**loader.state_dict(), "consumed": start})
    assert all_packs(list(loader), 8) == packs[0][start:16_500]


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_shared_among_processes_are_those_of_one(tmp_path: Path, workers: int) -> None:
    path = write_documents(tmp_path, [number * 7 % 19 for number in range(60)])
    loader = loader_of(path, {"length": 8, "epoch_packs": 50}, batch_size=4, lanes=2, shuffle=True)
    whole = [packs_in(batch, 8) for batch in loader]
    shares = [
        list(iteration_of(loader).every(workers, first=first, epoch=0, consumed=0))
        for first in range(workers)
    ]
    merged = [
        batch for group in itertools.zip_longest(*shares) for batch in group if batch is not None
    ]
    assert [packs_in(batch, 8) for batch in merged] == whole


def test_stated_lengths_are_not_counted(tmp_path: Path) -> None:
    path = write_documents(tmp_path, FIRST)
    counted = loader_of(path, {"length": 4, "epoch_packs": 9}, lanes=2, batch_size=3)
    stated = loader_of(
        path, {"length": 4, "epoch_packs": 9, "lengths": "n_tokens"}, lanes=2, batch_size=3
    )
    assert taken(stated, 3, 4) == taken(counted, 3, 4)


def test_first_batch_reads_no_more_than_it_needs(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [50] * 400, files=4, row_group=10)
    loader = loader_of(path, {"length": 10, "epoch_packs": 1000}, batch_size=2, threads=1)
    batches = iter(loader)
    next(batches)
    # Rows at the other end of the data cannot be read any more, and were not.
    (path / "003.parquet").write_bytes(b"")
    assert packs_in(next(batches), 10)


def test_whole_state_is_that_of_every_rank_and_small(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [number % 9 for number in range(50)])
    states = []
    for rank in range(3):
        loader = loader_of(
            path,
            {"length": 8, "epoch_packs": 30},
            batch_size=2,
            rank=rank,
            world_size=3,
            tail="drop",
        )
        next(iter(loader))
        states.append(loader.state_dict())
    assert states[0] == states[1] == states[2]
    assert len(json.dumps(states[0])) < 4096
    assert states[0]["packing"] == {
        "plan": "ahead",
        "version": 1,
        "column": "tokens",
        "length": 8,
        "strategy": "concat",
        "open_packs": None,
        "long": None,
        "epoch_packs": 30,
        "pack_window_rows": WINDOW_ROWS,
        "tokenize": None,
    }


def test_states_of_other_packs_are_refused_with_both_values(tmp_path: Path) -> None:
    path = write_documents(tmp_path, FIRST)
    ahead = loader_of(path, {"length": 4, "epoch_packs": 6})
    epoch = flat_loader(path, packing=sm.Packing("tokens", length=4), output="numpy")
    with pytest.raises(
        sm.CheckpointMismatchError, match="plan='ahead', but this loader has plan='epoch'"
    ):
        epoch.load_state_dict(ahead.state_dict())
    with pytest.raises(
        sm.CheckpointMismatchError, match="plan='epoch', but this loader has plan='ahead'"
    ):
        ahead.load_state_dict(epoch.state_dict())
    with pytest.raises(
        sm.CheckpointMismatchError, match="epoch_packs=6, this loader has epoch_packs=7"
    ):
        loader_of(path, {"length": 4, "epoch_packs": 7}).load_state_dict(ahead.state_dict())
    with pytest.raises(sm.CheckpointMismatchError, match="place 7 of 6"):
        ahead.load_state_dict({**ahead.state_dict(), "consumed": 7})


def test_epochs_count_tokens_in_whole_packs(tmp_path: Path) -> None:
    path = write_documents(tmp_path, FIRST)
    assert len(loader_of(path, {"length": 4, "epoch_tokens": 17}, batch_size=1)) == 5
    assert sm.Packing("tokens", length=4, plan="ahead", epoch_tokens=16).epoch_packs == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plan": "ahead"}, "requires epoch_packs or epoch_tokens"),
        ({"plan": "ahead", "epoch_packs": 2, "epoch_tokens": 8}, "mutually exclusive"),
        ({"plan": "ahead", "epoch_packs": 0}, "epoch_packs must be an integer from 1"),
        ({"plan": "ahead", "epoch_tokens": 1.5}, "epoch_tokens must be an integer from 1"),
        ({"epoch_packs": 2}, "epoch_packs requires plan='ahead'"),
        ({"plan": "epoch", "epoch_tokens": 2}, "epoch_tokens requires plan='ahead'"),
        ({"plan": "later"}, "plan must be one of 'epoch', 'ahead'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.Packing("tokens", length=4, **options)


@pytest.mark.parametrize("strategy", ["concat", "best_fit"])
def test_lane_without_tokens_is_an_error_that_names_it(tmp_path: Path, strategy: str) -> None:
    path = write_documents(tmp_path, [5, 5, 0, 0])
    loader = loader_of(
        path, {"length": 4, "strategy": strategy, "epoch_packs": 6}, lanes=2, batch_size=1
    )
    batches = iter(loader)
    assert packs_in(next(batches), 4)
    with pytest.raises(sm.OptionError, match=r"Lane 1 has nothing to pack(.|\n)*fewer lanes"):
        next(batches)


def test_long_row_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [2, 9, 2])
    loader = loader_of(
        path, {"length": 4, "strategy": "best_fit", "long": "raise", "epoch_packs": 6}
    )
    with pytest.raises(
        sm.FormatError, match=r"Row 1 of .*000.parquet` has 9 tokens, but a pack holds 4"
    ):
        next(iter(loader))


def test_epoch_too_far_away_is_refused(tmp_path: Path) -> None:
    loader = loader_of(
        write_documents(tmp_path, FIRST), {"length": 4, "epoch_packs": 2**40}, batch_size=1
    )
    loader.set_epoch(2**40)
    with pytest.raises(sm.OptionError, match="choose an earlier epoch"):
        next(iter(loader))


def test_distant_epoch_of_rows_in_file_order_is_found_at_once(tmp_path: Path) -> None:
    # 31 tokens: after 31 packs of 4 tokens a lane is at its start again.
    loader = loader_of(
        write_documents(tmp_path, FIRST), {"length": 4, "epoch_packs": 31}, batch_size=1
    )
    first = taken(loader, 31, 4)
    loader.set_epoch(10**7)
    assert taken(loader, 31, 4) == first


def test_pickled_loader_continues(tmp_path: Path) -> None:
    loader = loader_of(
        write_documents(tmp_path, FIRST), {"length": 4, "epoch_packs": 9}, batch_size=2, lanes=2
    )
    assert taken(pickle.loads(pickle.dumps(loader)), 6, 4) == taken(loader, 6, 4)


def test_audit_of_all_ranks_is_the_expected_one(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [number % 9 for number in range(50)])
    options = {"world_size": 3, "tail": "uneven", "audit": True, "lanes": 4, "batch_size": 3}
    loaders = [
        loader_of(path, {"length": 8, "epoch_packs": 31}, rank=rank, **options) for rank in range(3)
    ]
    for loader in loaders:
        all_packs(list(loader), 8)
    sums = [loader.audit(0) for loader in loaders]
    assert sums[0] + sums[1] + sums[2] == loaders[0].expected_audit(epoch=0)


def test_explain_says_which_lanes_a_rank_follows(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [number % 9 for number in range(50)])
    loader = loader_of(path, {"length": 8, "epoch_packs": 24}, batch_size=4, lanes=4, shuffle=True)
    plan = loader.explain(step=2)
    assert (plan["packs_of_epoch"], plan["tokens_of_epoch"], plan["fill_rate"], plan["steps"]) == (
        24,
        192,
        1.0,
        6,
    )
    assert plan["places"] == (8, 12)
    assert [lane for lane, *_ in plan["lanes"]] == [0, 1, 2, 3]
    assert loader.explain(world_size=2, batch_size=2)["lanes_of_rank"] == (0, 2)
    assert loader.explain(world_size=3, batch_size=2)["lanes_of_rank"] == (0, 4)
    later = loader.explain(step=1, epoch=3)
    loader.set_epoch(3)
    batch = [packs_in(batch, 8) for batch in loader][1]
    assert [[count for *_, count in pack] for pack in later["packs"]] == [
        [len(part) for part in pack] for pack in batch
    ]
