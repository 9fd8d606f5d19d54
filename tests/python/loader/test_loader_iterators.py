"""Random uses of iterators and states of a loader, against a model: a list and a number."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import beginning, examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from row_files import ids_of, numpy_loader, write_files
from shardmill.load._loader import iteration_of

ROWS = 23


@dataclass(frozen=True)
class Place:
    """Where a pass is.

    An epoch, its rows before the next batch, and whether each pass continues there.
    """

    epoch: int = 0
    done: int = 0
    is_loaded: bool = False
    #: Where the pass began, if it has delivered a single batch.
    peeked: Place | None = None


@dataclass
class Held:
    """A pass that is still held."""

    iterator: Iterator[Any]
    number: int
    place: Place
    #: Batches that are left, if the pass is over steps.
    steps: int | None
    #: Whether no set_epoch() has moved the loader since the last batch.
    is_own: bool = True
    taken: int = 0


class LoaderUse(RuleBasedStateMachine):
    """The model: the batches of each epoch, where the loader is, and which pass is the newest."""

    directory: Path
    options: dict[str, Any] = {}  # noqa: RUF012 - each run sets its own

    @initialize(
        batch_size=st.integers(1, 25), shuffle=st.booleans(), threads=st.sampled_from([0, 2])
    )
    def make(self, batch_size: int, shuffle: bool, threads: int) -> None:
        self.loader = numpy_loader(
            self.directory,
            batch_size=batch_size,
            shuffle=shuffle,
            threads=threads,
            rank=0,
            world_size=1,
            **self.options,
        )
        self.batch_size, self.shuffle = batch_size, shuffle
        self.order: dict[int, list[int]] = {}
        self.place = Place()
        #: Where the next pass begins, when one goes on after set_epoch().
        self.asked: Place | None = None
        self.passes: list[Held] = []
        self.newest = 0
        self.has_warned = False
        self.states = [(json.dumps(self.loader.state_dict()), Place())]

    def rows(self, epoch: int) -> list[int]:
        """Of an epoch, by a loader that is never left early."""
        if epoch not in self.order:
            fresh = numpy_loader(
                self.directory,
                batch_size=ROWS,
                shuffle=self.shuffle,
                rank=0,
                world_size=1,
                **self.options,
            )
            fresh.set_epoch(epoch)
            self.order[epoch] = ids_of(next(iter(fresh)))
            assert sorted(self.order[epoch]) == list(range(ROWS))
        return self.order[epoch]

    @rule(steps=st.none() | st.integers(0, 9))
    def begin(self, steps: int | None) -> None:
        begun, self.asked = self.asked or self.place, None
        place = begun.peeked or replace(
            begun, done=begun.done if begun.is_loaded or steps is not None else 0
        )
        self.place = replace(place, peeked=None)
        self.newest += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            iterator = iter(self.loader) if steps is None else self.loader.steps(steps)
        is_restart = begun.peeked is None and place.done < begun.done and not self.has_warned
        self.has_warned |= is_restart
        assert ["loader.steps(n)" in str(warning.message) for warning in caught] == [
            True
        ] * is_restart
        self.passes.append(Held(iterator, self.newest, self.place, steps))

    @rule(which=st.integers(0, 5), batches=st.integers(1, 6))
    def take(self, which: int, batches: int) -> None:
        for _ in range(batches):
            if self.passes:
                self._take(self.passes[which % len(self.passes)])

    def _take(self, held: Held) -> None:
        is_newest, has_ended = held.number == self.newest, held.place.done == ROWS
        is_done = has_ended if held.steps is None else held.steps == 0
        assert held.steps is None or len(held.iterator) == held.steps  # pyright: ignore
        if not is_newest and not is_done:
            with pytest.raises(sm.SupersededError):
                next(held.iterator)
            return
        if is_done:
            assert next(held.iterator, None) is None
            self.passes.remove(held)
            if is_newest and held.is_own and held.steps is None:
                self.place = replace(self.place, peeked=None)
            return
        if has_ended:
            # Steps continue in the next epoch, or in that of a set_epoch().
            held.place, held.is_own = self.place, True
        start = held.place
        expected = self.rows(start.epoch)[start.done : start.done + self.batch_size]
        assert ids_of(next(held.iterator)) == expected
        if not held.is_own:
            self.asked, held.is_own = self.place, True
        held.taken += 1
        done = start.done + len(expected)
        if held.steps is None:
            is_peek = held.taken == 1 and not (start.done == 0 and done == ROWS)
            held.place = replace(start, done=done, peeked=start if is_peek else None)
        else:
            held.place, held.steps = replace(start, done=done, is_loaded=True), held.steps - 1
        self.place = held.place
        if done == ROWS:
            following, self.asked = (
                self.asked or Place(start.epoch + 1, peeked=held.place.peeked),
                None,
            )
            self.place = following

    @rule()
    def peek(self) -> None:
        self.begin(None)
        held = self.passes[-1]
        self._take(held)
        self.passes.remove(held)

    @rule(which=st.integers(0, 5))
    def abandon(self, which: int) -> None:
        if self.passes:
            del self.passes[which % len(self.passes)]

    @rule()
    def save(self) -> None:
        self.states.append(
            (json.dumps(self.loader.state_dict()), Place(self.place.epoch, self.place.done))
        )

    @rule(which=st.integers(0, 5))
    def load(self, which: int) -> None:
        text, place = self.states[which % len(self.states)]
        self.loader.load_state_dict(json.loads(text))
        self.place, self.asked = replace(place, is_loaded=True), None
        self.newest += 1

    @rule(epoch=st.integers(0, 3))
    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)
        self.asked, peeked = None, self.place.peeked
        if peeked is not None and peeked.epoch != self.place.epoch:
            # The last batch of an epoch was peeked at, after a state was loaded.
            self.place = replace(peeked, peeked=peeked) if epoch == peeked.epoch else Place(epoch)
        elif epoch == self.place.epoch:
            return
        else:
            self.place = Place(epoch)
        # A running pass may continue: then the position is its own again, until it ends.
        for held in self.passes:
            held.is_own = False

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        if hasattr(self, "place"):
            state = self.loader.state_dict()
            assert (state["epoch"], state["consumed"]) == (self.place.epoch, self.place.done)

    def teardown(self) -> None:
        if hasattr(self, "place"):
            # Another process that got the state delivers exactly the rows that are left.
            resumed = numpy_loader(
                self.directory, batch_size=5, shuffle=self.shuffle, **self.options
            )
            resumed.load_state_dict(json.loads(json.dumps(self.loader.state_dict())))
            assert [row for batch in resumed for row in ids_of(batch)] == self.rows(
                self.place.epoch
            )[self.place.done :]
        self.passes = []


@pytest.mark.parametrize(
    "options", [{}, {"transform": lambda batch: batch}, {"on_bad_rows": "skip"}]
)
def test_no_row_is_lost_or_repeated_relative_to_the_state(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    directory = write_files(tmp_path, [9, 0, 14], row_group=4)
    machine = type("Use", (LoaderUse,), {"directory": directory, "options": options})
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,  # pyright: ignore[reportArgumentType]
        settings=settings(
            max_examples=examples(40),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=checks,
        ),
    )


def _mixture(directory: Path) -> Any:
    return {"data": sm.Mixture({"a": directory, "b": directory}, weights=[1, 1])}


def _packs(directory: Path) -> Any:
    rows = [{"tokens": list(range(row, row + 3))} for row in range(40)]
    with sm.Writer(directory / "tokens.jsonl") as writer:
        writer.write_rows(rows)
    return {"data": directory / "tokens.jsonl", "packing": sm.Packing("tokens", length=6)}


@pytest.mark.parametrize("made", [_mixture, _packs])
@pytest.mark.parametrize("wrapped", ["plain", "dataset", "dataloader"])
def test_every_wrapper_keeps_the_position_until_a_batch_is_taken_and_refuses_older_iterators(
    tmp_path: Path, made: Any, wrapped: str
) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    from shardmill.integrations.torch import BatchDataset

    options = made(write_files(tmp_path, [20, 11], row_group=4))

    def new() -> tuple[sm.Loader, Any]:
        loader = sm.Loader(**options, batch_size=3, output="rows", rank=0, world_size=1)
        if wrapped == "plain":
            return loader, loader
        dataset = BatchDataset(loader)
        whole = (
            dataset
            if wrapped == "dataset"
            else torch_data.DataLoader(dataset, batch_size=None, collate_fn=list)
        )
        return loader, whole

    _, batches = new()
    expected = [str(batch) for batch in batches]
    first, batches = new()
    older = iter(batches)
    seen = [str(next(older)) for _ in range(2)]
    second, batches = new()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    unused = [iter(batches), iter(batches)]
    peeked = str(next(iter(batches)))
    rest = [str(batch) for batch in batches]
    assert ([*seen, *rest], peeked) == (expected, rest[0])
    for iterator in unused:
        # Torch begins a pass when its first batch is asked for.
        if wrapped != "dataloader":
            with pytest.raises(sm.SupersededError):
                next(iterator)


def test_passes_that_move_no_position_stand_side_by_side(tmp_path: Path) -> None:
    directory = write_files(tmp_path, [20])
    dataset = sm.Dataset(directory)
    assert [a == b for a, b in zip(dataset, dataset.iterate(), strict=True)] == [True] * 20
    loader = numpy_loader(directory, batch_size=5, rank=0, world_size=1)
    passing = iter(loader)
    next(passing)
    shares = [iteration_of(loader).every(2, first=first, epoch=0, consumed=0) for first in (0, 1)]
    assert [ids_of(batch)[0] for pair in zip(*shares, strict=True) for batch in pair] == [
        0,
        5,
        10,
        15,
    ]
    assert [ids_of(batch)[0] for batch in passing] == [5, 10, 15]


AT_EXIT = """
import sys
import shardmill as sm

def same(batch):
    return batch

if __name__ == "__main__":
    transform = sm.Transform(same, workers=int(sys.argv[2]))
    loader = sm.Loader(sys.argv[1], batch_size=4, output=sys.argv[3], transform=transform)
    batches = iter(loader)
    next(batches)
"""


@pytest.mark.parametrize("workers", ["0", "1"])
@pytest.mark.parametrize("output", beginning(1, ["numpy", "torch"]))
def test_iterator_that_is_not_finished_when_the_program_ends_is_closed_without_noise(
    tmp_path, workers, output
):
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "a.parquet")
    (tmp_path / "program.py").write_text(AT_EXIT)
    command = [
        sys.executable,
        str(tmp_path / "program.py"),
        str(tmp_path / "a.parquet"),
        workers,
        output,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


STEPS = """
import sys

import shardmill as sm


def doubled(batch):
    return {"x": batch["x"] * 2}


if __name__ == "__main__":
    transform = sm.Transform(doubled, workers=int(sys.argv[2]))
    loader = sm.Loader(sys.argv[1], batch_size=4, output="torch", transform=transform)
    for _ in range(int(sys.argv[3])):
        assert len(list(loader.steps(3))) == 3
"""


def test_workers_that_hold_tensors_end_without_noise(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pq.write_table(pa.table({"x": list(range(1000))}), tmp_path / "a.parquet")
    (tmp_path / "program.py").write_text(STEPS)
    workers, passes = examples(2, 1), examples(4, 2)
    command = [
        sys.executable,
        str(tmp_path / "program.py"),
        str(tmp_path / "a.parquet"),
        str(workers),
        str(passes),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
