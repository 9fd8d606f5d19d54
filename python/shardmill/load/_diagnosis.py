"""Tells whether a trainer waits for data, and for which stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from shardmill._threads import default_threads
from shardmill.load._metrics import LoaderMetrics
from shardmill.metrics._snapshot import Snapshot
from shardmill.metrics._waits import WaitTimes

#: A trainer that waits for a smaller share of the time needs no hint.
_STARVED = 0.05

#: The threads are busy if at least this share of them computes.
_BUSY = 0.8


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Snapshot):
    """The verdict of ``Loader.diagnosis``: how long the trainer waited, and what held it up.

    ``str()`` returns it in one line.

    Attributes:
        starved: share of time that the trainer waited: ``wait / (wait + trainer time)``.
        stage: a stage of ``StageSeconds``, ``"deliver"`` (cutting batches and moving them to a
            device), or ``"memory"`` (threads were idle because ``prefetch_bytes`` were in use).
            ``None`` if the trainer waited less than 5 % of the time.
        hint: the one change that would help.
        threads: decoding threads; 0 means the calling thread.
        threads_busy: average number of decoding threads that were computing during the pass, or the
            share of its time that the calling thread was.
        storage_idle: lower bound of the share of the time of the pass during which no thread waited
            for a read.
        wait_seconds: time that the trainer waited.
        trainer_seconds: time of the trainer between the calls of ``next()``, and since the pass
            before.
        startup_seconds: time up to the first batch of the loader; it counts as neither.
    """

    starved: float
    stage: str | None
    hint: str | None
    threads: int
    threads_busy: float
    storage_idle: float
    wait_seconds: float
    trainer_seconds: float
    startup_seconds: float

    @property
    def is_starved(self) -> bool:
        """Whether the trainer waited at least 5 % of the time."""
        return self.stage is not None

    def __str__(self) -> str:
        if self.wait_seconds + self.trainer_seconds == 0:
            return "nothing to judge: fewer than two batches were taken"
        waited = f"{self.starved * 100:.0f} % of the time ({self.wait_seconds:.3g} s)"
        if self.stage is None:
            return (
                f"not starved: waited {self.starved * 100:.2g} % of the time "
                f"({self.wait_seconds:.3g} s)"
            )
        threads = f"{self.threads_busy:.1f} of {self.threads} threads busy"
        if self.threads == 0:
            threads = f"the calling thread was busy {self.threads_busy * 100:.0f} %"
        busy = f"{threads}, storage idle {self.storage_idle * 100:.0f} %"
        return f"starved {waited}; {self.stage} is the bottleneck: {busy}; hint: {self.hint}"


def diagnose(
    window: LoaderMetrics, *, startup_seconds: float, between_seconds: float = 0.0, is_remote: bool
) -> Diagnosis:
    """Judge the time between two snapshots.

    Args:
        window: the difference of the snapshots.
        startup_seconds: time up to the first batch of the loader.
        between_seconds: time between passes, in which no thread had work.
        is_remote: whether threads wait for a store, so that more of them read than compute.
    """
    if window.wait.count == 0:
        # What follows the only batch is not a step of a trainer.
        window = replace(window, trainer_seconds=0.0, wait=WaitTimes())
    window = replace(window, elapsed_seconds=max(window.elapsed_seconds - between_seconds, 1e-9))
    wait, elapsed = window.wait.seconds, window.elapsed_seconds
    starved = wait / max(wait + window.trainer_seconds, 1e-9)
    threads = max(window.threads, 1)
    stages = window.stages.to_dict()
    work = {name: seconds for name, seconds in stages.items() if name not in ("fetch", "transform")}
    computing = sum(work.values()) / elapsed
    stage = None
    if starved >= _STARVED:
        stage = _stage(window, work, min(1.0, computing / threads), is_remote)
    return Diagnosis(
        starved=starved,
        stage=stage,
        hint=None
        if stage is None
        else _hint(stage, window, computing / threads >= _BUSY, is_remote),
        threads=window.threads,
        threads_busy=min(float(threads), computing),
        storage_idle=max(0.0, 1 - stages["fetch"] / elapsed),
        wait_seconds=wait,
        trainer_seconds=window.trainer_seconds,
        startup_seconds=startup_seconds,
    )


def _stage(window: LoaderMetrics, work: dict[str, Any], computing: float, is_remote: bool) -> str:
    """Return the stage for which the trainer waited.

    Args:
        window: the difference of two snapshots, without the time between passes.
        work: seconds of the stages that compute.
        computing: share of the time of all threads that they spent computing.
        is_remote: whether more threads read than compute.
    """
    superbatches = window.superbatch_wait_seconds
    waits = {"transform": window.transform_wait_seconds, "plan": window.plan_wait_seconds}
    waits["deliver"] = window.wait.seconds - superbatches - sum(waits.values())
    longest = max(waits, key=lambda name: waits[name])
    if waits[longest] > superbatches:
        return longest
    elapsed, threads = window.elapsed_seconds, max(window.threads, 1)
    fetch = window.stages.fetch / elapsed
    # A thread that waits for a store leaves its core to another one, so reading and computing add
    # up only on a local disk.
    fetching = min(1 - computing, fetch if is_remote else fetch / threads)
    idle, room = 1 - computing - fetching, window.without_room_seconds / elapsed
    if idle > max(computing, fetching) and room > 0.5:
        return "memory"
    if fetching > computing:
        return "fetch"
    return max(work, key=lambda name: work[name])


def _hint(stage: str, window: LoaderMetrics, is_busy: bool, is_remote: bool) -> str:
    cores = default_threads()
    if stage == "transform":
        workers = window.transform_workers
        change = "use more worker processes" if workers else "run the transform in worker processes"
        return f"{change}: transform=sm.Transform(function, workers={workers + 2})"
    if stage == "fetch":
        if is_remote:
            return (
                "keep what was fetched on a local disk, storage_options={'cache_dir': …}, "
                "or use a store that is closer"
            )
        return "move the files to a faster disk, or select fewer columns"
    if stage == "memory":
        return "allow more memory: runtime=sm.Runtime(prefetch_bytes=…)"
    if stage == "deliver":
        return (
            "use larger batches, or a cheaper output: output='numpy' or 'torch' with numbers alone"
        )
    if stage == "plan":
        return "use larger batches; for packs, name the column of lengths: sm.Packing(…, lengths=…)"
    # Row groups of any size keep one thread busy.
    is_alone = window.threads <= 1
    if (is_busy or is_alone) and window.threads < cores:
        return f"use more threads: runtime=sm.Runtime(threads={cores})"
    if not is_busy and not is_alone and stage in ("decode", "tokenize"):
        return "write smaller row groups, so that all threads have work"
    return {
        "decode": "select fewer columns, or write the files with a cheaper compression",
        "tokenize": "tokenize once: shardmill tokenize",
        "render": "store smaller images",
        "assemble": "use smaller batches; with shuffle, a smaller window",
        "convert": (
            "select fewer columns, and use the types of the files: sm.Output(…) without padding"
        ),
    }[stage]
