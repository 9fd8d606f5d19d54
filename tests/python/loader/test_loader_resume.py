"""A run that was cut anywhere and goes on anywhere delivers what an uninterrupted run delivers."""

import gc
import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm
from breadth import covering, examples
from flat_options import flat_loader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from row_files import flat, ids, ids_of, numpy_loader, write_files

quick = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SIZES = st.lists(st.integers(0, 20), min_size=1, max_size=3)


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(state)
    assert len(text) < 4096
    return json.loads(text)


def ranks_of(path: Path, world_size: int, **options: Any) -> list[sm.Loader]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            numpy_loader(path, rank=rank, world_size=world_size, **options)
            for rank in range(world_size)
        ]


def states_after(path: Path, steps: int, world_size: int, **options: Any) -> list[dict[str, Any]]:
    """States of every rank after the given number of batches."""
    states = []
    for loader in ranks_of(path, world_size, **options):
        passing = iter(loader)
        for _ in range(steps):
            next(passing, None)
        states.append(loader.state_dict())
    return states


def global_rows(ranks: list[list[list[int]]]) -> list[list[int]]:
    return [
        [id for rank in ranks if step < len(rank) for id in rank[step]]
        for step in range(max(map(len, ranks)))
    ]


@pytest.mark.filterwarnings("ignore:tail=")
@quick
@given(
    sizes=SIZES,
    row_group=st.integers(1, 9),
    batch_size=st.integers(1, 5),
    world_size=st.integers(1, 3),
    lanes=st.integers(1, 5),
    tail=st.sampled_from(["uneven", "pad", "drop"]),
    shuffle=st.booleans(),
    window=st.sampled_from([1, 300, 1 << 20]),
    threads=st.sampled_from([0, 1, 2]),
)
def test_after_each_step_the_rest_is_the_same_on_any_ranks(
    tmp_path: Path,
    sizes: list[int],
    row_group: int,
    batch_size: int,
    world_size: int,
    lanes: int,
    tail: str,
    shuffle: bool,
    window: int,
    threads: int,
) -> None:
    path = write_files(tmp_path, sizes, row_group=row_group)
    options = {
        "tail": tail,
        "shuffle": shuffle,
        "shuffle_window_bytes": window,
        "lanes": lanes,
        "columns": ["id"],
    }
    whole = [ids(loader) for loader in ranks_of(path, world_size, batch_size=batch_size, **options)]
    steps = max(map(len, whole))
    for done in range(steps + 1):
        states = states_after(path, done, world_size, batch_size=batch_size, **options)
        assert all(state == states[0] for state in states), "the state is the same on every rank"
        state = through_json(states[0])
        if done == steps and steps > 0:
            assert (state["epoch"], state["consumed"]) == (1, 0), (
                "the end of an epoch is the start of the next"
            )
            continue
        resumed = ranks_of(path, world_size, batch_size=batch_size, threads=threads, **options)
        for loader, expected in zip(resumed, whole, strict=True):
            loader.load_state_dict(state)
            assert ids(loader) == expected[done:]
            assert loader.state_dict()["epoch"] == 1
        # The same global batches, now all on one rank.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            alone = numpy_loader(
                path, batch_size=batch_size * world_size, rank=0, world_size=1, **options
            )
        alone.load_state_dict(state)
        assert ids(alone) == (global_rows(whole)[done:] if steps else [])


@quick
@given(
    rows=st.integers(1, 60),
    cuts=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5
    ),
    shuffle=st.booleans(),
    lanes=st.integers(1, 4),
)
def test_several_resumes_in_one_epoch_with_other_ranks_and_batches_lose_and_repeat_nothing(
    tmp_path: Path, rows: int, cuts: list[tuple[int, int, int]], shuffle: bool, lanes: int
) -> None:
    path = write_files(tmp_path, [rows // 2, rows - rows // 2], row_group=7)
    options = {"shuffle": shuffle, "lanes": lanes, "tail": "uneven", "columns": ["id"]}
    seen: list[int] = []
    state = None
    for batch_size, world_size, steps in [*cuts, (5, 2, 1000)]:
        loaders = ranks_of(path, world_size, batch_size=batch_size, **options)
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        if loaders[0].epoch > 0:
            break
        passes = [iter(loader) for loader in loaders]
        for _ in range(steps):
            batches = [batch for batch in (next(one, None) for one in passes) if batch is not None]
            seen += flat(batches)
            if not batches:
                break
        states = [loader.state_dict() for loader in loaders]
        assert all(other == states[0] for other in states)
        state = through_json(states[0])
    assert sorted(seen) == list(range(rows))


@pytest.mark.parametrize("done", [0, 1, 4, 5, 6])
def test_state_after_pad_counts_no_repeats(tmp_path: Path, done: int) -> None:
    path = write_files(tmp_path, [21])
    (state,) = states_after(path, done, 1, batch_size=4, tail="pad")
    assert (state["epoch"], state["consumed"]) == ((0, 4 * done) if done < 6 else (1, 0))


def test_dropped_rest_is_no_position_of_its_own(tmp_path: Path) -> None:
    path = write_files(tmp_path, [20])
    loader = numpy_loader(path, batch_size=6, tail="drop")
    passing = iter(loader)
    for _ in range(3):
        next(passing)
    assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (1, 0)


def test_state_whose_rest_another_batch_size_would_drop_starts_the_next_epoch(
    tmp_path: Path,
) -> None:
    path = write_files(tmp_path, [20])
    (state,) = states_after(path, 9, 1, batch_size=2, tail="drop")
    loader = numpy_loader(path, batch_size=6, tail="drop")
    loader.load_state_dict(state)
    assert loader.state_dict()["epoch"] == 1
    assert flat(loader) == list(range(18))
    loader.load_state_dict(state)
    assert ids_of(next(iter(loader))) == list(range(6))
    assert flat(loader) == list(range(18)), (
        "a pass that is left after one batch is a peek, even after a load"
    )


def test_state_after_the_last_batch_is_a_whole_next_epoch(tmp_path: Path) -> None:
    path = write_files(tmp_path, [30], row_group=7)
    loader = numpy_loader(path, batch_size=8, shuffle=True)
    for _batch in loader:
        state = through_json(loader.state_dict())
    fresh = numpy_loader(path, batch_size=8, shuffle=True)
    fresh.set_epoch(1)
    assert state == fresh.state_dict()
    resumed = numpy_loader(path, batch_size=8, shuffle=True)
    resumed.load_state_dict(state)
    assert ids(resumed) == ids(loader) == ids(fresh)
    assert resumed.state_dict() == loader.state_dict() == fresh.state_dict()


def test_epochs_after_a_resume_are_whole(tmp_path: Path) -> None:
    path = write_files(tmp_path, [30], row_group=7)
    reference = numpy_loader(path, batch_size=8, shuffle=True)
    epochs = [ids(reference) for _ in range(3)]
    (state,) = states_after(path, 2, 1, batch_size=8, shuffle=True)
    loader = numpy_loader(path, batch_size=8, shuffle=True)
    loader.load_state_dict(state)
    assert [ids(loader) for _ in range(3)] == [epochs[0][2:], epochs[1], epochs[2]]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("prefetch_bytes", [1, 1 << 28])
def test_state_counts_what_was_handed_out_and_not_what_was_prefetched(
    tmp_path: Path, threads: int, prefetch_bytes: int
) -> None:
    path = write_files(tmp_path, [1000], row_group=100)
    loader = numpy_loader(path, batch_size=10, threads=threads, prefetch_bytes=prefetch_bytes)
    for number, batch in enumerate(loader, start=1):
        assert loader.state_dict()["consumed"] == (10 * number if number < 100 else 0)
        assert loader.state_dict() == loader.state_dict(), "asking changes nothing"
        assert ids_of(batch)[0] == 10 * (number - 1)


class Stopped(Exception):
    pass


@covering(1, way=["break", "exception", "dropped", "closed"], threads=[0, 2])
def test_position_outlives_the_way_that_a_pass_ended(
    tmp_path: Path, way: str, threads: int
) -> None:
    path = write_files(tmp_path, [100], row_group=9)
    loader = numpy_loader(path, batch_size=8, shuffle=True, threads=threads)
    whole = ids(numpy_loader(path, batch_size=8, shuffle=True))
    if way == "break":
        for number, _ in enumerate(loader):
            if number == 4:
                break
    elif way == "exception":
        with pytest.raises(Stopped):
            for number, _ in enumerate(loader):
                if number == 4:
                    raise Stopped
    else:
        passing = iter(loader)
        for _ in range(5):
            next(passing)
        if way == "closed":
            passing.close()  # pyright: ignore[reportAttributeAccessIssue]
        del passing
        gc.collect()
    resumed = numpy_loader(path, batch_size=8, shuffle=True)
    resumed.load_state_dict(loader.state_dict())
    assert ids(resumed) == whole[5:]
    assert ids(loader) == whole, "without a state, the epoch starts anew"


def test_exception_in_a_transform_leaves_the_position_before_its_batch(tmp_path: Path) -> None:
    path = write_files(tmp_path, [40], row_group=5)
    calls = itertools.count()

    def fails_once(batch: Any) -> Any:
        if next(calls) == 5:
            raise Stopped
        return batch

    loader = numpy_loader(path, batch_size=4, transform=fails_once)
    seen = []
    with pytest.raises(Stopped):
        for batch in loader:
            seen += ids_of(batch)
    assert seen == list(range(20))
    loader.load_state_dict(loader.state_dict())
    assert seen + flat(loader) == list(range(40))


def test_peeking_loses_nothing(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [20]), batch_size=4)
    assert ids_of(next(iter(loader))) == [0, 1, 2, 3]
    assert flat(loader) == list(range(20))
    assert ids_of(next(iter(loader))) == [0, 1, 2, 3]
    assert loader.epoch == 1


def test_peek_after_a_load_loses_nothing_and_is_in_the_state(tmp_path: Path) -> None:
    path = write_files(tmp_path, [20])
    (state,) = states_after(path, 2, 1, batch_size=4)
    loader = numpy_loader(path, batch_size=4)
    loader.load_state_dict(state)
    assert ids_of(next(iter(loader))) == [8, 9, 10, 11]
    assert loader.state_dict()["consumed"] == 12
    assert flat(itertools.islice(loader, 2)) == list(range(8, 16)), "the peek moves nothing"
    assert flat(loader) == list(range(16, 20)), "a pass that was left later continues"
    assert flat(loader) == list(range(20)), "the next epoch is a whole one"


def test_peek_at_the_last_batch_of_a_loaded_epoch_loses_nothing(tmp_path: Path) -> None:
    path = write_files(tmp_path, [20])
    (state,) = states_after(path, 4, 1, batch_size=4)
    for set_epoch in (None, 0):
        loader = numpy_loader(path, batch_size=4)
        loader.load_state_dict(state)
        assert ids_of(next(iter(loader))) == [16, 17, 18, 19]
        assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (1, 0)
        if set_epoch is not None:
            loader.set_epoch(set_epoch)
        assert flat(loader) == list(range(16, 20))
        assert flat(loader) == list(range(20))
        assert loader.epoch == 2


def test_older_iterator_is_refused_and_moves_no_position(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [40]), batch_size=4)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    for _ in range(2):
        with pytest.raises(sm.SupersededError, match="superseded by a newer iterator") as raised:
            next(first)
        assert isinstance(raised.value, RuntimeError)
    assert loader.state_dict()["consumed"] == 4
    assert flat(second) == list(range(4, 40))
    assert (loader.epoch, loader.state_dict()["consumed"]) == (1, 0)


def test_older_iterator_that_has_delivered_all_ends_as_ever(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [8]), batch_size=4)
    first = iter(loader)
    next(first), next(first)
    second = iter(loader)
    assert list(first) == []
    assert flat(second) == list(range(8))
    assert loader.epoch == 2


def test_pass_that_is_superseded_while_it_makes_a_batch_delivers_none(tmp_path: Path) -> None:
    newer: list[Any] = []

    def begin_again(batch: Any) -> Any:
        # As another thread may during the call.
        if not newer:
            newer.append(iter(loader))
        return batch

    loader = numpy_loader(write_files(tmp_path, [20]), batch_size=4, transform=begin_again)
    older = iter(loader)
    for _ in range(2):
        with pytest.raises(sm.SupersededError):
            next(older)
    assert loader.state_dict()["consumed"] == 0
    assert flat(newer[0]) == list(range(20))
    assert (loader.epoch, loader.state_dict()["consumed"]) == (1, 0)


def test_load_while_a_batch_is_made_is_not_undone_by_that_batch(tmp_path: Path) -> None:
    path = write_files(tmp_path, [20])
    (state,) = states_after(path, 3, 1, batch_size=4)
    is_loaded = False

    def load(batch: Any) -> Any:
        nonlocal is_loaded
        if not is_loaded:
            is_loaded = True
            loader.load_state_dict(state)
        return batch

    loader = numpy_loader(path, batch_size=4, transform=load)
    with pytest.raises(sm.SupersededError):
        next(iter(loader))
    assert loader.state_dict() == state
    assert flat(loader) == list(range(12, 20))


def test_iterator_of_before_a_load_is_refused(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [40]), batch_size=4)
    state = loader.state_dict()
    passing = iter(loader)
    next(passing)
    loader.load_state_dict(state)
    with pytest.raises(sm.SupersededError):
        next(passing)
    assert loader.state_dict() == state


def test_iterators_that_took_no_batch_leave_the_loaded_position(tmp_path: Path) -> None:
    path = write_files(tmp_path, [22])
    (state,) = states_after(path, 1, 1, batch_size=5, tail="drop")
    loader = numpy_loader(path, batch_size=7, tail="drop")
    loader.load_state_dict(state)
    first, second, third = iter(loader), iter(loader), iter(loader)
    assert loader.state_dict()["consumed"] == 5
    assert flat(third) == list(range(5, 19))
    for older in (first, second):
        with pytest.raises(sm.SupersededError):
            next(older)
    assert flat(loader) == list(range(21))
    assert loader.epoch == 2


def test_set_epoch_moves_to_its_start_and_keeps_the_position_of_the_same_epoch(
    tmp_path: Path,
) -> None:
    path = write_files(tmp_path, [20], row_group=5)
    options = {"batch_size": 4, "shuffle": True}
    (state,) = states_after(path, 3, 1, **options)
    loader = numpy_loader(path, **options)
    loader.load_state_dict(state)
    loader.set_epoch(0)
    assert loader.state_dict() == state
    assert len(ids(loader)) == 2
    loader.load_state_dict(state)
    loader.set_epoch(3)
    assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (3, 0)
    assert len(ids(loader)) == 5
    assert loader.epoch == 4


def test_set_epoch_during_a_pass_wins_over_that_pass(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [20]), batch_size=4)
    passing = iter(loader)
    next(passing)
    loader.set_epoch(7)
    assert len(list(passing)) == 4
    assert (loader.epoch, loader.state_dict()["consumed"]) == (7, 0)


def test_length_is_that_of_a_whole_epoch_wherever_the_loader_stands(tmp_path: Path) -> None:
    path = write_files(tmp_path, [21])
    loader = numpy_loader(path, batch_size=4)
    next(iter(loader))
    assert len(loader) == 6
    (state,) = states_after(path, 2, 1, batch_size=4)
    loader.load_state_dict(state)
    assert len(loader) == 6


def test_projection_output_and_transform_may_change_at_a_resume(tmp_path: Path) -> None:
    path = write_files(tmp_path, [30], row_group=4)
    (state,) = states_after(path, 2, 1, batch_size=5, shuffle=True)
    whole = ids(numpy_loader(path, batch_size=5, shuffle=True))
    for options in [
        {"output": "arrow", "columns": ["text", "id"]},
        {"output": "dict"},
        {"output": "numpy", "transform": lambda batch: {"id": batch["id"]}, "prefetch_bytes": 1},
    ]:
        loader = flat_loader(path, batch_size=5, shuffle=True, **options)
        loader.load_state_dict(state)
        assert ids(loader) == whole[2:]
