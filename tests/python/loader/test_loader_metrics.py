"""What a loader counts, and its verdict about the trainer.

Held against known values, and against times measured in the same run.
"""

import json
import logging
import pickle
import random
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st
from row_files import write_files
from shardmill.load._diagnosis import diagnose
from shardmill.load._metrics import Counters
from shardmill.metrics._waits import Histogram

MS = 1_000_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("metrics"), [5_000] * 4, row_group=500)


class Trainer:
    """A consumer that measures itself."""

    def __init__(self) -> None:
        self.waits = list[float]()

    def train(self, loader: sm.Loader) -> float:
        """Take all batches; return the share of the time after the first one that was waiting."""
        self.waits, first = [], None
        begun = time.perf_counter()
        for _ in loader:
            now = time.perf_counter()
            self.waits.append(now - begun)
            first = first or now
            begun = time.perf_counter()
        assert first is not None
        return sum(self.waits[1:]) / (begun - first)


@given(
    st.lists(st.integers(0, 10**11), min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99])
)
def test_percentile_is_exact_to_seven_percent(waits: list[int], share: float) -> None:
    histogram = Histogram()
    for wait in waits:
        histogram.add(wait)
    times = histogram.times()
    exact = sorted(waits)[max(0, -(-int(share * 100) * len(waits) // 100) - 1)]
    assert times.percentile(share) * 1e9 == pytest.approx(exact, rel=0.07, abs=1)
    assert (times.count, times.seconds) == (len(waits), pytest.approx(sum(waits) / 1e9))
    for bound, count in times.buckets():
        assert count == sum(wait < round(bound * 1e9) for wait in waits)


@given(st.lists(st.integers(0, 10**9)), st.lists(st.integers(0, 10**9)))
def test_histograms_of_two_ranks_add_up(ones: list[int], others: list[int]) -> None:
    parts = [Histogram(), Histogram(), Histogram()]
    for histogram, waits in zip(parts, (ones, others, ones + others), strict=True):
        for wait in waits:
            histogram.add(wait)
    one, other, both = (histogram.times() for histogram in parts)
    assert (one + other).histogram == both.histogram
    assert (both - one).histogram == other.histogram


@pytest.mark.parametrize(
    ("wait", "step"), [(0, 10), (1, 99), (30, 70), (50, 50), (90, 10), (10, 0)]
)
def test_starved_share_of_a_consumer_of_known_speed_is_exact(wait: int, step: int) -> None:
    times = [1]
    counters = Counters(lambda: times[0])

    def take(waited: int) -> None:
        counters.time.ask()
        times[0] += waited * MS
        counters.time.got()
        times[0] += step * MS

    before = counters.report()
    take(5_000)
    for _ in range(200):
        take(wait)
    counters.time.leave()
    verdict = diagnose(counters.report() - before, startup_seconds=5.0, is_remote=False)
    # The step after the first batch belongs to the time that is judged.
    assert verdict.starved == pytest.approx(200 * wait / (200 * wait + 201 * step), abs=1e-9)
    assert counters.report().startup_seconds == 5.0
    assert counters.report().wait.p50 == pytest.approx(wait / 1e3, rel=0.07, abs=1e-9)


def window(stages: dict[str, float], **given: Any) -> sm.LoaderMetrics:
    """Ten seconds of a trainer that waits for half of them, and of two threads."""
    wait = sm.WaitTimes(seconds=5.0, histogram=(1, *sm.WaitTimes().histogram[1:]))
    values = {
        "superbatch_wait_seconds": 5.0,
        "threads": 2,
        "elapsed_seconds": 10.0,
        "trainer_seconds": 5.0,
    }
    return sm.LoaderMetrics(wait=wait, stages=sm.StageSeconds(**stages), **{**values, **given})


@pytest.mark.parametrize(
    ("metrics", "is_remote", "stage", "hint"),
    [
        (window({"decode": 18, "fetch": 1}), False, "decode", "threads|columns"),
        (window({"decode": 8, "fetch": 12}), False, "fetch", "disk"),
        (window({"decode": 3, "fetch": 300}), True, "fetch", "cache_dir"),
        (window({"decode": 18, "fetch": 300}), True, "decode", "threads|columns"),
        (window({"decode": 2, "tokenize": 17}), False, "tokenize", "tokenize|threads"),
        (window({"decode": 2, "render": 17}), False, "render", "images|threads"),
        (window({"decode": 4}, without_room_seconds=9), False, "memory", "prefetch_bytes"),
        (window({"decode": 9}), False, "decode", "row groups"),
        (window({"decode": 18}, superbatch_wait_seconds=0.5), False, "deliver", "output"),
        (
            window({}, superbatch_wait_seconds=0.5, transform_wait_seconds=4),
            False,
            "transform",
            "workers=2",
        ),
        (
            window({}, superbatch_wait_seconds=0.5, transform_wait_seconds=4, transform_workers=2),
            False,
            "transform",
            "use more worker processes: transform=sm.Transform(function, workers=4)",
        ),
        (
            window({"plan": 4}, superbatch_wait_seconds=0.5, plan_wait_seconds=4),
            False,
            "plan",
            "lengths",
        ),
        (window({}, trainer_seconds=500.0), False, None, None),
    ],
)
def test_stage_that_held_the_trainer_is_named(
    metrics: sm.LoaderMetrics, is_remote: bool, stage: str | None, hint: str | None
) -> None:
    verdict = diagnose(metrics, startup_seconds=0.0, is_remote=is_remote)
    assert (verdict.stage, verdict.is_starved) == (stage, stage is not None)
    if hint is None:
        assert verdict.hint is None
        assert str(verdict).startswith("not starved: waited 0.99 %")
    else:
        assert any(word in str(verdict.hint) for word in hint.split("|"))
        assert str(verdict).startswith("starved 50 % of the time (5 s); ")
        assert f"{stage} is the bottleneck" in str(verdict)


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("stage", ["decode", "tokenize"])
@pytest.mark.parametrize(("cores", "hint"), [(4, "threads=4"), (1, None)])
def test_one_thread_is_not_told_to_write_smaller_row_groups(
    monkeypatch: pytest.MonkeyPatch, threads: int, stage: str, cores: int, hint: str | None
) -> None:
    monkeypatch.setattr("shardmill.load._diagnosis.default_threads", lambda: cores)
    alone = (
        {"decode": "fewer columns", "tokenize": "tokenize once"}[stage] if threads else "threads=1"
    )
    for seconds in (5, 9.5):
        verdict = diagnose(
            window({stage: seconds}, threads=threads), startup_seconds=0.0, is_remote=False
        )
        assert (hint or alone) in str(verdict.hint)
        assert verdict.threads == threads
        share = (
            f"{seconds / 10:.1f} of 1 threads busy"
            if threads
            else f"the calling thread was busy {seconds * 10:.0f} %"
        )
        assert share in str(verdict)


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_metrics_and_diagnosis_have_the_threads_of_the_loader(
    directory: Path, threads: int
) -> None:
    loader = sm.Loader(
        directory, batch_size=100, output="numpy", runtime=sm.Runtime(threads=threads)
    )
    list(loader)
    assert loader.metrics().threads == loader.diagnosis().threads == loader.threads == threads


def slow_in_a_worker(batch: Any) -> Any:
    """A transform of a worker."""
    time.sleep(0.02)
    return batch


def test_workers_that_are_slow_are_named(directory: Path) -> None:
    transform = sm.Transform(slow_in_a_worker, workers=1)
    loader = sm.Loader(
        directory, batch_size=500, columns=["id"], output="numpy", transform=transform
    )
    list(loader)
    verdict = loader.diagnosis()
    assert verdict.stage == "transform"
    assert "workers=3" in str(verdict.hint)


def test_slow_store_is_named() -> None:
    class Slow(MemoryFileSystem):
        """Answers at once until the data set is open."""

        protocol, cachable, is_slow = "slowly", False, False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return "/" + path.removeprefix("slowly://").strip("/")

        def cat_file(self, path: str, *given: Any, **more: Any) -> bytes:
            if self.is_slow:
                time.sleep(0.05)
            return super().cat_file(path, *given, **more)

    system = Slow()
    for part in range(12):
        numbers = pa.array(random.Random(part).sample(range(1 << 60), 40_000))
        with system.open(f"/directory/{part}.parquet", "wb") as file:
            pq.write_table(pa.table({"number": numbers}), file)
    loader = sm.Loader(
        "slowly://directory/*.parquet",
        storage_options=system,
        batch_size=2_000,
        output="numpy",
        # One superbatch at a time, so that requests do not overlap.
        runtime=sm.Runtime(threads=1, prefetch_bytes=1),
    )
    system.is_slow = True
    starved = Trainer().train(loader)
    verdict = loader.diagnosis()
    assert verdict.starved == pytest.approx(starved, abs=0.05)
    assert verdict.stage == "fetch", str(verdict)
    assert "cache_dir" in str(verdict.hint)
    assert loader.metrics().stages.fetch >= 0.05


def test_epoch_ends_with_a_line_only_if_it_is_wanted(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    loader = sm.Loader(
        directory, batch_size=1_000, columns=["id"], output="numpy", rank=1, world_size=2
    )
    with caplog.at_level(logging.WARNING, "shardmill.load"):
        list(loader)
    assert caplog.records == []
    with caplog.at_level(logging.INFO, "shardmill.load"):
        list(loader)
        next(iter(loader))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("shardmill.load", logging.INFO)
    assert record.getMessage() == f"epoch 1 on rank 1 of 2: {loader_verdict(record)}"


def loader_verdict(record: logging.LogRecord) -> str:
    """The verdict among the arguments of a record."""
    assert isinstance(record.args, tuple)
    assert isinstance(record.args[-1], sm.Diagnosis)
    return str(record.args[-1])


def test_metrics_since_the_last_call_add_up_and_cumulative_calls_change_nothing(
    directory: Path,
) -> None:
    loader = sm.Loader(
        directory, batch_size=300, columns=["id"], output="numpy", rank=0, world_size=1
    )
    parts = [loader.metrics(since_last=True)]
    batches = iter(loader)
    for count in (1, 5, 20):
        for _ in range(count):
            next(batches)
        loader.metrics()
        parts.append(loader.metrics(since_last=True))
    list(batches)
    parts.append(loader.metrics(since_last=True))
    total = loader.metrics()
    assert [part.batches for part in parts[:4]] == [0, 1, 5, 20]
    for name in ("batches", "rows", "blocks_decoded", "superbatches", "bytes_read"):
        assert sum(getattr(part, name) for part in parts) == getattr(total, name), name
    assert sum(part.wait.count for part in parts) == total.wait.count == total.batches - 1
    assert sum(part.stages.decode for part in parts) == pytest.approx(total.stages.decode)
    assert (total.rows, total.rank, total.world_size, total.epoch) == (20_000, 0, 1, 1)


def test_pickled_loader_counts_from_zero(directory: Path) -> None:
    loader = sm.Loader(directory, batch_size=10, output="numpy")
    delivered = len(list(loader))
    loader.metrics(since_last=True)
    copied = pickle.loads(pickle.dumps(loader))
    assert copied.metrics(since_last=True).batches == 0
    assert copied.diagnosis().wait_seconds == 0
    assert len(list(copied)) == copied.metrics(since_last=True).batches == delivered


def test_snapshot_is_json_with_the_names_of_its_fields(directory: Path) -> None:
    loader = sm.Loader(directory, batch_size=300, output="numpy")
    list(loader)
    metrics = loader.metrics()
    shown = json.loads(json.dumps(metrics.to_dict()))
    assert list(shown) == [field.name for field in fields(metrics)]
    assert shown["wait"].keys() == {"seconds", "count", "p50", "p95", "p99"}
    assert shown["stages"]["decode"] == metrics.stages.decode
    with pytest.raises(AttributeError):
        metrics.rows = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_stages_and_waits_fit_into_the_time_of_their_threads(directory: Path) -> None:
    loader = sm.Loader(
        directory, batch_size=50, shuffle=True, output="numpy", runtime=sm.Runtime(threads=2)
    )
    trainer = Trainer()
    begun = time.perf_counter()
    trainer.train(loader)
    elapsed = time.perf_counter() - begun
    metrics = loader.metrics()
    assert metrics.elapsed_seconds <= elapsed
    assert sum(metrics.stages.to_dict().values()) <= 2.1 * elapsed
    assert metrics.wait.seconds + metrics.trainer_seconds + metrics.startup_seconds <= elapsed
    assert metrics.wait.p50 == pytest.approx(
        statistics.median(trainer.waits[1:]), rel=0.5, abs=1e-5
    )


def profiled(loader: sm.Loader) -> Iterator[str]:
    """Names of the events of a trace of one epoch."""
    import torch

    # The recorder that `torch.profiler.profile` stands on, without its import of a compiler.
    with torch.autograd.profiler.profile() as profile:
        list(loader)
    return (str(event.name) for event in profile.function_events)


def test_each_batch_is_an_event_of_the_torch_profiler(directory: Path) -> None:
    pytest.importorskip("torch")
    loader = sm.Loader(directory, batch_size=2_000, columns=["id"])
    # One more call finds the end.
    assert list(profiled(loader)).count("shardmill.Loader.next") == len(loader) + 1


def test_pass_of_one_batch_is_not_judged(directory: Path) -> None:
    loader = sm.Loader(directory, batch_size=1_000_000, output="numpy")
    assert len(list(loader)) == 1
    assert str(loader.diagnosis()).startswith("nothing to judge")


def test_share_of_a_percentile_is_from_0_to_1() -> None:
    with pytest.raises(ValueError, match=r"share must be from 0 to 1, not 1\.5"):
        sm.WaitTimes().percentile(1.5)
    with pytest.raises(TypeError):
        sm.WaitTimes() - 5


@pytest.mark.parametrize("value", [sm.WaitTimes(), sm.StorageMetrics(), sm.Audit()])
def test_sum_with_another_type_is_a_type_error(value: Any) -> None:
    for other in (1, None, "x"):
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+"):
            value + other


def test_counters_read_by_another_thread_never_decrease(directory: Path) -> None:
    loader = sm.Loader(directory, batch_size=500, output="numpy", runtime=sm.Runtime(threads=2))
    times = (
        "elapsed_seconds",
        "startup_seconds",
        "trainer_seconds",
        "plan_wait_seconds",
        "superbatch_wait_seconds",
    )
    names = (*times, "blocks_decoded", "superbatches")
    has_ended, decreased = threading.Event(), list[str]()

    def poll() -> None:
        before = loader.metrics()
        while not has_ended.is_set():
            now = loader.metrics()
            decreased.extend(name for name in names if getattr(now, name) < getattr(before, name))
            before = now

    reader = threading.Thread(target=poll)
    reader.start()
    for _ in range(examples(60, 20)):
        list(loader)
    has_ended.set()
    reader.join()
    assert decreased == []
