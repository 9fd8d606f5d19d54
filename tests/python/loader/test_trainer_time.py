"""Whose time it is, the loader's or the trainer's.

Passes of real loaders under a clock that only the test moves.
"""

import gc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from row_files import write_files
from shardmill.load._plan import LoaderPlan

SECOND = 1_000_000_000


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)

    def __call__(self) -> int:
        return self.now


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("trainer"), [5_000] * 4, row_group=500)


def clocked(data: Any, clock: Clock, **options: Any) -> sm.Loader:
    """A loader of four batches, unless options say otherwise, whose counters read the clock."""
    loader = sm.Loader(data, **{"batch_size": 5_000, "output": "numpy", **options})
    loader._progress.counters.__init__(clock)
    return loader


def check_parts(metrics: sm.LoaderMetrics) -> None:
    parts = metrics.startup_seconds + metrics.wait.seconds + metrics.trainer_seconds
    assert metrics.elapsed_seconds == pytest.approx(parts, abs=1e-9)


def test_percentages_are_those_that_the_trainer_measures(directory: Path) -> None:
    clock = Clock()

    def slow(batch: Any) -> Any:
        clock.sleep(6)
        return batch

    loader = clocked(directory, clock, batch_size=200, transform=slow)
    # The first batch of the loader is not a wait, that of a later epoch is.
    for waits in (99, 100):
        for _ in loader:
            clock.sleep(4)
        verdict = loader.diagnosis()
        assert verdict.starved == pytest.approx(waits * 6 / (waits * 6 + 100 * 4))
        assert verdict.stage == "transform"
        assert "sm.Transform" in str(verdict.hint)
    metrics = loader.metrics()
    check_parts(metrics)
    assert (metrics.batches, metrics.wait.count) == (200, 199)
    assert metrics.stages.transform == 200 * 6
    assert (metrics - metrics).wait.count == 0


def test_trainer_that_sleeps_is_not_starved(directory: Path) -> None:
    clock = Clock()
    loader = clocked(directory, clock)
    for _ in loader:
        clock.sleep(5)
    verdict = loader.diagnosis()
    assert (verdict.starved, verdict.stage, verdict.hint) == (0, None, None)


def test_trainer_that_works_between_epochs_is_not_starved(directory: Path) -> None:
    clock = Clock()

    def slow(batch: Any) -> Any:
        clock.sleep(0.001)
        return batch

    loader = clocked(directory, clock, transform=slow)
    for _ in range(3):
        list(loader)
        clock.sleep(0.5)
    verdict = loader.diagnosis()
    assert verdict.starved == pytest.approx(0.004 / 0.504)
    assert verdict.trainer_seconds == pytest.approx(0.5)
    assert not verdict.is_starved
    # Whether a pass follows the third is not known yet.
    metrics = loader.metrics()
    assert metrics.trainer_seconds == pytest.approx(1.0)
    check_parts(metrics)


def test_threads_are_judged_without_the_time_between_epochs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    loader = clocked(directory, clock, runtime=sm.Runtime(threads=1))
    list(loader)
    clock.sleep(1_000)

    def slow(_plan: Any, _epoch: int) -> None:
        clock.sleep(1_000)

    monkeypatch.setattr(LoaderPlan, "warn_of_nothing", slow)
    list(loader)
    verdict = loader.diagnosis()
    assert verdict.starved == pytest.approx(0.5)
    assert verdict.threads_busy == pytest.approx(1.0, abs=0.01)


def test_step_in_progress_counts_for_the_trainer(directory: Path) -> None:
    clock = Clock()
    loader = clocked(directory, clock)
    batches = iter(loader)
    next(batches)
    clock.sleep(1)
    assert next(batches) is not None
    seen = []
    for _ in range(3):
        clock.sleep(10)
        metrics = loader.metrics()
        check_parts(metrics)
        seen.append(metrics.trainer_seconds)
    assert seen == [11, 21, 31]
    assert loader.diagnosis().starved == 0
    next(batches)
    assert loader.metrics().trainer_seconds == 31, "the step is counted once"


def test_wait_in_progress_counts_as_a_wait(directory: Path) -> None:
    clock, seen = Clock(), list[tuple[int, float]]()

    def slow(batch: Any) -> Any:
        clock.sleep(7)
        metrics = loader.metrics()
        check_parts(metrics)
        seen.append((metrics.wait.count, metrics.wait.seconds))
        return batch

    loader = clocked(directory, clock, transform=slow)
    list(loader)
    assert seen == [(0, 0), (0, 7), (1, 14), (2, 21)]


def test_time_ends_with_the_pass(directory: Path) -> None:
    clock = Clock()
    loader = clocked(directory, clock)
    for number, _ in enumerate(loader):
        clock.sleep(10)
        if number == 1:
            break
    gc.collect()
    clock.sleep(100)
    assert loader.metrics().trainer_seconds == loader.metrics().elapsed_seconds == 20
    with pytest.warns(UserWarning, match="starts epoch 0 again"):
        batches = iter(loader)
    next(batches)
    assert loader.metrics().trainer_seconds == 120, "a later pass shows that the trainer went on"
    clock.sleep(1)
    del batches
    gc.collect()
    clock.sleep(100)
    assert loader.metrics().trainer_seconds == 121


def test_exhausted_iterator_that_is_asked_again_does_not_start_the_time(directory: Path) -> None:
    clock = Clock()
    loader = clocked(directory, clock)
    batches = iter(loader)
    list(batches)
    assert next(batches, None) is None
    clock.sleep(100)
    assert loader.metrics().elapsed_seconds == 0


@pytest.mark.parametrize("plan", ["epoch", "ahead"])
def test_plan_of_packs_counts_as_startup_and_then_as_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    pq.write_table(
        pa.table({"tokens": [list(range(n % 9)) for n in range(500)]}), tmp_path / "rows.parquet"
    )
    more = {"plan": "ahead", "epoch_packs": 40} if plan == "ahead" else {}
    clock, planned = Clock(), LoaderPlan.of_epoch

    def slow(loaded: LoaderPlan, epoch: int) -> Any:
        if clock.now < 30 * (epoch + 1) * SECOND:
            clock.sleep(30)
        return planned(loaded, epoch)

    monkeypatch.setattr(LoaderPlan, "of_epoch", slow)
    packing = sm.Packing("tokens", length=16, **more)
    loader = clocked(tmp_path, clock, batch_size=10, packing=packing, shuffle=True)
    batches = iter(loader)
    metrics = loader.metrics()
    assert (metrics.startup_seconds, metrics.elapsed_seconds) == (30, 30)
    assert (metrics.stages.plan, metrics.plan_wait_seconds) == (30, 30)
    list(batches)
    assert loader.metrics().wait.seconds == 0
    list(loader)
    metrics = loader.metrics()
    check_parts(metrics)
    assert (metrics.startup_seconds, metrics.wait.seconds, metrics.plan_wait_seconds) == (
        30,
        30,
        60,
    )
    assert metrics.stages.plan >= 60
    assert metrics.wait.percentile(1) == pytest.approx(30, rel=0.07), (
        "it belongs to the wait for a batch"
    )
    assert loader.diagnosis().stage == "plan"


def test_parts_of_many_short_epochs_add_up_to_the_whole(directory: Path) -> None:
    # The clock of the machine: parts are sums of differences, whatever it shows.
    loader = sm.Loader(directory, batch_size=10_000, output="numpy")
    for _ in range(20):
        list(loader)
    check_parts(loader.metrics())


def test_pass_that_is_superseded_no_longer_counts(directory: Path) -> None:
    clock = Clock()
    loader = clocked(directory, clock)
    older = iter(loader)
    next(older)
    clock.sleep(1)
    newer = iter(loader)
    next(newer)
    clock.sleep(0.5)
    assert loader.metrics().elapsed_seconds == 1.5
    del older
    gc.collect()
    clock.sleep(0.5)
    assert loader.metrics().elapsed_seconds == 2.0, (
        "closing the older one does not end the newer one"
    )
    del newer
    gc.collect()
    clock.sleep(10)
    assert loader.metrics().elapsed_seconds == 2.0


def test_unused_iterator_does_not_change_the_verdict(directory: Path) -> None:
    clock = Clock()

    def slow(batch: Any) -> Any:
        clock.sleep(6)
        return batch

    loader = clocked(directory, clock, transform=slow)
    list(loader)
    verdict = loader.diagnosis().starved
    assert verdict == 1
    unused = iter(loader)
    clock.sleep(10)
    assert loader.diagnosis().starved == verdict
    del unused


def test_limit_of_the_queue_is_known_without_a_pass(directory: Path) -> None:
    loader = sm.Loader(directory, output="numpy", runtime=sm.Runtime(prefetch_bytes=12_345))
    assert loader.metrics().queue.bytes_limit == 12_345
    batches = iter(loader)
    next(batches)
    assert loader.metrics().queue.bytes_limit == 12_345
