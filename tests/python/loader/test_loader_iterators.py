"""Random uses of iterators and states of a loader, held against a model that is a list and a number."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from row_files import ids_of, numpy_loader, write_files

ROWS = 23


class LoaderUse(RuleBasedStateMachine):
    """The model: the batches of each epoch, where the loader stands, and which pass is the newest."""

    directory: Path
    options: dict[str, Any] = {}  # noqa: RUF012 - each run sets its own

    @initialize(batch_size=st.integers(1, 7), shuffle=st.booleans(), threads=st.sampled_from([0, 2]))
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
        self.epoch, self.done, self.is_loaded = 0, 0, False
        #: Where the next pass begins, when one goes on after set_epoch().
        self.asked: tuple[int, int, bool] | None = None
        #: Each pass that is still held: its iterator, its number, its epoch and batches, whether the position is its own, and was loaded.
        self.passes: list[list[Any]] = []
        self.newest = 0
        self.states = [(json.dumps(self.loader.state_dict()), 0, 0)]

    def rows(self, epoch: int) -> list[int]:
        """Of an epoch, by a loader that is never left early."""
        if epoch not in self.order:
            fresh = numpy_loader(
                self.directory, batch_size=ROWS, shuffle=self.shuffle, rank=0, world_size=1, **self.options
            )
            fresh.set_epoch(epoch)
            self.order[epoch] = ids_of(next(iter(fresh)))
            assert sorted(self.order[epoch]) == list(range(ROWS))
        return self.order[epoch]

    @rule()
    def begin(self) -> None:
        if self.asked:
            (self.epoch, self.done, self.is_loaded), self.asked = self.asked, None
        if not self.is_loaded:
            self.done = 0
        self.newest += 1
        self.passes.append([iter(self.loader), self.newest, self.epoch, self.done, True, self.is_loaded])

    @rule(which=st.integers(0, 5), batches=st.integers(1, 6))
    def take(self, which: int, batches: int) -> None:
        for _ in range(batches):
            if self.passes:
                self._take(which % len(self.passes))

    def _take(self, which: int) -> None:
        held = self.passes[which]
        iterator, number, epoch, done, is_own, is_loaded = held
        is_done = done >= ROWS
        if number != self.newest and not is_done:
            with pytest.raises(sm.SupersededError):
                next(iterator)
            return
        expected = self.rows(epoch)[done : done + self.batch_size]
        batch = next(iterator, None)
        assert (batch is None) == is_done
        if batch is None:
            del self.passes[which]
            return
        assert ids_of(batch) == expected
        held[3] = done + len(expected)
        if number == self.newest:
            if not is_own:
                self.asked, held[4] = (self.epoch, self.done, self.is_loaded), True
                self.epoch, self.is_loaded = epoch, is_loaded
            self.done = held[3]
            if self.done == ROWS:
                following, self.asked = self.asked or (self.epoch + 1, 0, False), None
                self.epoch, self.done, self.is_loaded = following

    @rule()
    def peek(self) -> None:
        self.begin()
        self._take(len(self.passes) - 1)
        if self.passes:
            self.passes.pop()

    @rule(which=st.integers(0, 5))
    def abandon(self, which: int) -> None:
        if self.passes:
            del self.passes[which % len(self.passes)]

    @rule()
    def save(self) -> None:
        self.states.append((json.dumps(self.loader.state_dict()), self.epoch, self.done))

    @rule(which=st.integers(0, 5))
    def load(self, which: int) -> None:
        text, self.epoch, self.done = self.states[which % len(self.states)]
        self.loader.load_state_dict(json.loads(text))
        self.is_loaded = True
        self.newest += 1
        self.asked = None

    @rule(epoch=st.integers(0, 3))
    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)
        self.asked = None
        if epoch != self.epoch:
            self.epoch, self.done, self.is_loaded = epoch, 0, False
            # A pass that runs may go on: then the position is its own again, until it ends.
            for held in self.passes:
                held[4] = False

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        if hasattr(self, "epoch"):
            state = self.loader.state_dict()
            assert (state["epoch"], state["consumed"]) == (self.epoch, self.done)

    def teardown(self) -> None:
        if hasattr(self, "epoch"):
            # Another process that got the state delivers exactly the rows that are left.
            resumed = numpy_loader(self.directory, batch_size=5, shuffle=self.shuffle, **self.options)
            resumed.load_state_dict(json.loads(json.dumps(self.loader.state_dict())))
            assert [row for batch in resumed for row in ids_of(batch)] == self.rows(self.epoch)[self.done :]
        self.passes = []


@pytest.mark.parametrize("options", [{}, {"transform": lambda batch: batch}, {"on_bad_rows": "skip"}])
def test_no_row_is_lost_or_repeated_relative_to_the_state(tmp_path: Path, options: dict[str, Any]) -> None:
    directory = write_files(tmp_path, [9, 0, 14], row_group=4)
    machine = type("Use", (LoaderUse,), {"directory": directory, "options": options})
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,  # pyright: ignore[reportArgumentType]
        settings=settings(
            max_examples=examples(40), stateful_step_count=30, deadline=None, suppress_health_check=checks
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
        whole = dataset if wrapped == "dataset" else torch_data.DataLoader(dataset, batch_size=None, collate_fn=list)
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
    assert [*seen, peeked, *map(str, batches)] == expected
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
    shares = [loader._every(2, first=first, epoch=0, consumed=0) for first in (0, 1)]
    assert [ids_of(batch)[0] for pair in zip(*shares, strict=True) for batch in pair] == [0, 5, 10, 15]
    assert [ids_of(batch)[0] for batch in passing] == [5, 10, 15]


AT_EXIT = """
import sys
import shardmill as sm

def same(batch):
    return batch

if __name__ == "__main__":
    loader = sm.Loader(sys.argv[1], batch_size=4, transform=sm.Transform(same, workers=int(sys.argv[2])))
    batches = iter(loader)
    next(batches)
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_iterator_that_is_not_finished_when_the_program_ends_is_closed_without_noise(tmp_path, workers):
    pq.write_table(pa.table({"x": list(range(100))}), tmp_path / "a.parquet")
    (tmp_path / "program.py").write_text(AT_EXIT)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "a.parquet"), workers]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
