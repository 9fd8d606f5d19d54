"""Runs the splits of a pipeline on Ray: one split is one task, and the task calls the same native function as a local thread.

What a task returns is an :class:`Outcome`, also when the split failed: so the driver raises the very exception of the worker, with its class,
message and cause, and Ray repeats a task only when its process was lost.
"""

from __future__ import annotations

import json
import os
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from shardmill import errors
from shardmill.storage import absolute, is_remote
from shardmill.threads import available_cores

if TYPE_CHECKING:
    from shardmill.curate.pipeline import Pipeline
    from shardmill.curate.resumption import CommitPlan
    from shardmill.integrations.landmark import Landmark


def run_on_ray(
    runner: SplitRunner,
    max_errors: int | None,
    splits: list[str],
    workers: int | None,
    on_report: Callable[[str], None],
) -> None:
    """Runs all splits and hands their reports to ``on_report`` while others still run, in the order of the splits.

    Args:
        runner: travels to the workers by cloudpickle.
        max_errors: stop when all tasks together quarantined more than this.
        splits: as the native pipeline planned them.
        workers: tasks that run at once; as many as the cluster has room for, when nothing is said.
        on_report: gets the report of a split as JSON.

    Raises:
        ImportError: when Ray is not installed.
        shardmill.Error: what stopped a split, at once: of several, the first to arrive. Splits that were running are stopped; nothing of theirs
            is visible.
    """
    from shardmill.integrations.ray import connected, run_splits

    budget = ErrorBudget(max_errors)
    # As many CPUs as splits run at once, when a cluster must be started.
    cores = workers or available_cores()
    early: dict[int, str] = {}
    reported = 0
    with connected(cores), runner.landmarks(), closing(run_splits(runner, splits, workers)) as outcomes:
        for index, outcome in outcomes:
            early[index] = outcome.report()
            budget.spend(early[index])
            while reported in early:
                on_report(early.pop(reported))
                reported += 1


class SplitRunner:
    """The pipeline on a worker."""

    def __init__(self, pipeline: Pipeline, plan: CommitPlan | None = None) -> None:
        self._pipeline = pipeline
        self._plan = plan
        # Relative paths name the same files as on the driver; the name of an output is made from them.
        self._folder = os.getcwd()  # noqa: PTH109 - it is only handed to chdir
        self._landmarks: list[Landmark] = []

    @contextmanager
    def landmarks(self) -> Iterator[None]:
        """Landmarks by which workers recognise the directories of the driver, during a with-block."""
        from shardmill.integrations.landmark import Landmark, planted

        if self._plan is not None and not is_remote(job := self._plan.root):
            self._landmarks.append(Landmark(job, "checkpoint"))
        output = absolute(self._pipeline.sink.path)
        with nullcontext() if is_remote(output) else planted(output, "output directory") as landmark:
            if landmark is not None:
                self._landmarks.append(landmark)
            yield

    @cached_property
    def _sees_directories(self) -> bool:
        """Checked once per worker process.

        Raises:
            shardmill.StorageError: a directory of the driver is not visible.
        """
        for landmark in self._landmarks:
            landmark.require()
        return True

    @cached_property
    def _checkpoint(self) -> str | None:
        """Found once a worker process: an index may have to be built, and the files behind it are looked at."""
        return None if self._plan is None else self._plan.options()

    def __call__(self, split: str) -> Outcome:
        """Runs one split. What it raises is the outcome too, save for an order to stop."""
        from shardmill.integrations.landmark import located

        try:
            with chdir(self._folder):
                _ = self._sees_directories
                self._pipeline.configure_storage()
                # Native pipelines count errors; a repeated task starts at zero.
                return Outcome(
                    text=self._pipeline.native(may_replace=True, checkpoint=self._checkpoint).run_split(split)
                )
        except errors.StorageError as error:
            return Outcome(failure=_packed(located(error)))
        except errors.Error as error:
            return Outcome(failure=_packed(error))
        except OSError as error:
            # Not of a stage, whose errors are wrapped: the working directory of the driver is not there.
            return Outcome(failure=_packed(located(errors.StorageError(str(error)))))
        except Exception as error:
            return Outcome(failure=_packed(error))


@dataclass(frozen=True)
class Outcome:
    """What became of a split: its report, or the exception that stopped it, pickled."""

    text: str = ""
    failure: bytes | None = None

    def report(self) -> str:
        """The report of the split, as JSON.

        Raises:
            shardmill.Error: what stopped the split.
        """
        if self.failure is None:
            return self.text
        error, cause, frames = pickle.loads(self.failure)
        if cause is not None and frames:
            cause.add_note(f"On the worker:\n{frames}")
        raise error from cause


def _packed(error: Exception) -> bytes:
    """``error`` and its cause as bytes that the driver can read; a cause that does not travel is told in words."""
    from shardmill.integrations.ray import pickled

    cause = error.__cause__
    # Frames travel as text only.
    frames = "" if cause is None else "".join(traceback.format_tb(cause.__traceback__)).rstrip()
    told = None if cause is None else RuntimeError(f"{type(cause).__name__}: {cause}")
    generic = errors.CurateError(f"{type(error).__name__}: {error}")
    for pair in ((error, cause), (error, told), (generic, told)):
        try:
            packed = pickled((*pair, frames))
            # An exception with a constructor of its own may be written, yet not read.
            pickle.loads(packed)
        except Exception:
            continue
        return packed
    raise AssertionError("exceptions with one text travel") from error


class ErrorBudget:
    """Counts what all tasks quarantined; each task alone counts only its own."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._count = 0

    def spend(self, report: str) -> None:
        """Adds the items of a report.

        Raises:
            shardmill.CurateError: when the limit is exceeded, in the words of the native driver.
        """
        if self._limit is None:
            return
        for item in json.loads(report)["quarantined"]:
            self._count += 1
            if self._count > self._limit:
                last = f"{item['path']}: {item['reason']}"
                raise errors.CurateError(
                    f"{self._count} quarantined items exceed the limit of {self._limit}; the last: {last}\n"
                    "hint: raise max_errors, or look at quarantine.jsonl beside the metrics"
                )
