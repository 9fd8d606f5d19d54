"""Steps are the batches of whole epochs, one after the other, however calls divide them."""

from __future__ import annotations

import itertools
import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from row_files import damage, flat, ids, ids_of, new_directory, numpy_loader, write_files

pytestmark = pytest.mark.filterwarnings("error:this pass starts:UserWarning")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    below = tmp_path_factory.mktemp("steps")
    tokens = below / "tokens.parquet"
    pq.write_table(
        pa.table({"tokens": [list(range(row, row + row % 7 + 1)) for row in range(30)]}), tokens
    )
    one, other = write_files(below, [11, 6], row_group=4), write_files(below, [9], row_group=4)
    return {
        "rows": {"data": one},
        "mixture": {
            "data": sm.Mixture({"a": one, "b": other}, weights={"a": 1, "b": 2}, epoch_rows=14)
        },
        "packs": {"data": tokens, "packing": sm.Packing("tokens", length=11)},
        "ahead": {
            "data": tokens,
            "packing": sm.Packing("tokens", length=11, plan="ahead", epoch_packs=7),
        },
    }


def shown(batch: Any) -> str:
    return str(
        {
            name: values.tolist()
            for name, values in batch.items()
            if name in ("id", "tokens", "__padded")
        }
    )


@settings(deadline=None, max_examples=30)
@given(
    kind=st.sampled_from(["rows", "mixture", "packs", "ahead"]),
    world_size=st.integers(1, 3),
    batch_size=st.integers(1, 5),
    shuffle=st.booleans(),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    calls=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 8), st.booleans()), min_size=1, max_size=5
    ),
    data=st.data(),
)
def test_calls_of_steps_deliver_the_epochs_whether_left_early_or_resumed(
    sources: dict[str, Any],
    kind: str,
    world_size: int,
    batch_size: int,
    shuffle: bool,
    tail: Any,
    calls: list[tuple[int, int, bool]],
    data: st.DataObject,
) -> None:
    options = {
        "batch_size": batch_size,
        "shuffle": shuffle,
        "tail": tail,
        "output": "numpy",
        "world_size": world_size,
    }
    rank = data.draw(st.integers(0, world_size - 1))

    def new(rank: int = rank) -> sm.Loader:
        return sm.Loader(**sources[kind], **options, rank=rank)

    # Over whole epochs; None where this rank has no rows in the last step. The first rank has a
    # batch in each step.
    expected: list[str | None] = []
    whole, first = new(), new(0)
    while len(expected) < sum(number for number, *_ in calls):
        batches, steps = [shown(batch) for batch in whole], len(list(first))
        if steps == 0:
            with pytest.raises(sm.OptionError, match="has no steps"):
                new().skip(10**6)
            with pytest.raises(sm.OptionError, match="has no steps"):
                list(new().steps(10**6))
            return
        expected += [*batches, *[None] * (steps - len(batches))]
    loader, done = new(), 0
    for number, most, is_resumed in calls:
        batches = [shown(batch) for batch in itertools.islice(loader.steps(number), most)]
        following = expected[done : done + number]
        assert batches == [batch for batch in following if batch is not None][:most]
        if len(batches) == most and most < number:
            # Left early: after that many batches of this rank.
            places = [place for place, batch in enumerate(following) if batch is not None]
            number = places[most - 1] + 1 if most else 0
        done += number
        if is_resumed:
            state = json.loads(json.dumps(loader.state_dict()))
            loader = new()
            loader.load_state_dict(state)
        assert loader.state_dict() == skipped(new(), done).state_dict()


def skipped(loader: sm.Loader, steps: int) -> sm.Loader:
    loader.skip(steps)
    return loader


@pytest.mark.parametrize("steps", [-1, 1.5, "2", None, True])
def test_steps_that_are_not_a_count_are_refused(tmp_path: Path, steps: Any) -> None:
    loader = numpy_loader(write_files(tmp_path, [4]))
    with pytest.raises(sm.OptionError, match="^n must be"):
        loader.steps(steps)


def test_steps_without_any_rows_raise_at_the_call(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        empty = [
            sm.Loader(new_directory(tmp_path), output="numpy"),
            numpy_loader(write_files(tmp_path, [0, 0])),
        ]
    empty.append(numpy_loader(write_files(tmp_path, [5]), filter=sm.col("id") > 9))
    empty.append(numpy_loader(write_files(tmp_path, [5]), batch_size=8, tail="drop"))
    for loader in empty:
        assert list(loader.steps(0)) == []
        with pytest.raises(sm.OptionError, match="epoch 0 has no steps"):
            loader.steps(3)
        assert loader.state_dict()["epoch"] == 0


def test_length_is_the_number_of_batches_left(tmp_path: Path) -> None:
    steps = numpy_loader(write_files(tmp_path, [10]), batch_size=4).steps(5)
    assert len(steps) == 5  # pyright: ignore[reportArgumentType]
    next(steps)
    assert len(steps) == 4  # pyright: ignore[reportArgumentType]
    assert len(list(steps)) == 4
    assert (next(steps, None), len(steps)) == (None, 0)  # pyright: ignore[reportArgumentType]


def test_break_after_two_batches_warns_once_and_names_steps(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [20]), batch_size=4, shuffle=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in [1, 1, 2, 2, 3]:
            list(itertools.islice(loader, number))
        assert len(caught) == 1
        list(loader)
    [warning] = caught
    assert "starts epoch 0 again" in str(warning.message)
    assert "loader.steps(n)" in str(warning.message)
    assert warning.filename == __file__


def test_moves_by_the_user_and_whole_epochs_do_not_warn(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [12]), batch_size=4)
    # Left after the last batch, and not before.
    for _ in range(2):
        assert len(list(zip(range(3), loader, strict=False))) == 3
    assert loader.epoch == 2
    for epoch in (3, 0):
        list(itertools.islice(loader, 2))
        loader.set_epoch(epoch)
    list(itertools.islice(loader, 2))
    loader.load_state_dict(loader.state_dict())
    list(itertools.islice(loader, 2))
    assert pa.table(loader).num_rows == 12


def test_arrow_stream_of_a_loader_that_was_left_does_not_warn(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [12]), batch_size=4)
    list(itertools.islice(loader, 2))
    assert pa.table(loader)["id"].to_pylist() == list(range(12))


def test_pass_after_steps_continues_and_steps_after_a_pass_that_was_left_do_too(
    tmp_path: Path,
) -> None:
    loader = numpy_loader(write_files(tmp_path, [20]), batch_size=4)
    assert ids_of(next(iter(loader)))[0] == 0
    assert [batch[0] for batch in ids(loader.steps(2))] == [0, 4]
    assert [batch[0] for batch in ids(loader)] == [8, 12, 16]
    assert [batch[0] for batch in ids(itertools.islice(loader, 3))] == [0, 4, 8]
    assert [batch[0] for batch in ids(loader.steps(3))] == [12, 16, 0]


def test_interrupted_call_continues_at_the_batch_that_was_not_delivered(tmp_path: Path) -> None:
    seen: list[int] = []

    def interrupted(batch: Any) -> Any:
        if len(seen) in (3, 4):
            seen.append(-1)
            raise KeyboardInterrupt
        seen.append(int(batch["id"][0]))
        return batch

    loader = numpy_loader(
        write_files(tmp_path, [10]), batch_size=4, transform=interrupted, threads=2
    )
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            flat(loader.steps(9))
    assert (loader.epoch, ids_of(next(loader.steps(1)))) == (1, [0, 1, 2, 3])
    assert seen[:6] == [0, 4, 8, -1, -1, 0]


def test_batch_that_is_looked_at_after_a_load_is_recorded_once(tmp_path: Path) -> None:
    path = write_files(tmp_path, [40], row_group=4, compression="none", use_dictionary=False)
    damage(path / "000.parquet", [3])
    options = {"batch_size": 8, "on_bad_rows": "skip", "audit": True}
    first, second = numpy_loader(path, **options), numpy_loader(path, **options)
    assert len(list(first.steps(1))) == 1
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for _ in range(3):
        assert ids_of(next(iter(second))) == [8, 9, 10, 11]
        assert (second.state_dict()["consumed"], second.state_dict()["bad_rows"]["count"]) == (
            16,
            4,
        )
    assert flat(second.steps(2)) == [*range(8, 12), *range(16, 24)]
    assert flat(second) == list(range(24, 40))
    assert [row.row for row in second.bad_rows] == [12, 13, 14, 15]
    assert first.audit(0).rows + second.audit(0).rows == 36
    whole = numpy_loader(path, **options)
    list(whole)
    assert first.audit(0) + second.audit(0) == whole.audit(0)


def test_epoch_that_is_set_during_steps_follows_the_current_one(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [9]), batch_size=4, shuffle=True)
    epochs = {
        epoch: ids(new) for epoch, new in ((epoch, at_epoch(loader, epoch)) for epoch in (0, 5, 6))
    }
    steps = loader.steps(7)
    begun = [ids_of(next(steps))]
    loader.set_epoch(5)
    assert begun + ids(steps) == [*epochs[0], *epochs[5], epochs[6][0]]
    assert (loader.epoch, loader.state_dict()["consumed"]) == (6, 4)


def at_epoch(loader: sm.Loader, epoch: int) -> sm.Loader:
    other = numpy_loader(loader.dataset, batch_size=4, shuffle=True)
    other.set_epoch(epoch)
    return other


def test_newer_iterator_ends_older_steps_also_between_epochs(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [8]), batch_size=4)
    for taken in (1, 2):
        steps = loader.steps(5)
        list(itertools.islice(steps, taken))
        newer = iter(loader)
        with pytest.raises(sm.SupersededError):
            next(steps)
        list(newer)


def test_loader_of_torch_has_steps_and_a_dataloader_of_batches_warns(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from shardmill.integrations.torch import BatchDataset, create_dataloader
    from torch.utils.data import DataLoader

    path = write_files(tmp_path, [10])
    for options in (
        {},
        {"collate_fn": lambda batch: {"id": batch["id"] * 2}},
        {"show_progress": True},
    ):
        loader, dataset = create_dataloader(
            path, "parquet", batch_size=4, columns=["id"], output_format="numpy", **options
        )
        factor = 2 if "collate_fn" in options else 1
        found = [batch["id"].tolist() for batch in [*loader.steps(2), *loader.steps(2)]]
        assert found == [
            [row * factor for row in rows]
            for rows in ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3])
        ]
        assert dataset.state_dict()["consumed"] == 4
    plain = numpy_loader(path, batch_size=4)
    batches = DataLoader(BatchDataset(plain), batch_size=None)
    list(itertools.islice(batches, 2))
    with pytest.warns(UserWarning, match=r"loader\.steps\(n\)"):
        list(batches)


def test_times_of_steps_over_epochs_are_waits_and_not_work_of_the_trainer(tmp_path: Path) -> None:
    loader = numpy_loader(write_files(tmp_path, [40]), batch_size=4, threads=0)
    assert len(list(loader.steps(25))) == 25
    metrics = loader.metrics()
    assert (metrics.batches, metrics.rows, metrics.wait.count) == (25, 100, 24)
