"""Runs a pipeline on Ray: one task per split, and one per file whose columns are not in a footer.

A task calls the same native function as a local thread. It returns an ``Outcome``, even if the
split failed: so the driver raises the exact exception of the worker, with its class, message and
cause, and Ray retries a task only if its process was lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, chdir, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shardmill import errors
from shardmill._sent_errors import packed_error, unpacked_error
from shardmill._threads import available_cores
from shardmill.curate._spec import configure_storage, native_pipeline
from shardmill.metrics._snapshot import StorageMetrics
from shardmill.storage._configure import metrics as storage_metrics
from shardmill.storage._paths import absolute, is_remote

if TYPE_CHECKING:
    from shardmill._native import curate as native
    from shardmill._native.plan import InputFile, Split
    from shardmill.curate._pipeline import Pipeline
    from shardmill.curate._resumption import CommitPlan
    from shardmill.integrations._landmark import Landmark

T = TypeVar("T")


def run_on_ray(
    runner: SplitRunner,
    max_errors: int | None,
    splits: list[Split],
    workers: int | None,
    on_report: Callable[[dict[str, Any]], None],
) -> StorageMetrics:
    """Run all splits and pass their reports to ``on_report``.

    Reports are passed while other splits still run, in the order of the splits.

    Args:
        runner: sent to the workers with cloudpickle.
        max_errors: stop if all tasks together quarantined more than this.
        splits: as the native pipeline planned them.
        workers: maximum number of concurrent tasks; as many as the cluster has room for by default.
        on_report: called with the report of a split.

    Returns:
        The requests of all tasks.

    Raises:
        ImportError: If Ray is not installed.
        shardmill.CurateError: If there are more quarantined items than ``max_errors``, with the
            message of the native driver.
        shardmill.Error: If a split failed: the first error to arrive, without delay. Splits that
            were running are stopped; none of their output is visible.
    """
    from shardmill.integrations._ray_tasks import connected

    # As many CPUs as concurrent splits, if a cluster must be started.
    cores = workers or available_cores()
    early: dict[int, dict[str, Any]] = {}
    reported = quarantined = 0
    storage = StorageMetrics()
    with (
        connected(cores),
        runner.landmarks(),
        closing(_outcomes(runner, splits, workers)) as outcomes,
    ):
        for index, outcome in outcomes:
            early[index] = outcome.result()
            storage += outcome.storage
            # Each task only knows its own count.
            for item in early[index]["quarantined"]:
                quarantined += 1
                if max_errors is not None and quarantined > max_errors:
                    items = "item exceeds" if quarantined == 1 else "items exceed"
                    raise errors.CurateError(
                        f"{quarantined} quarantined {items} the limit of {max_errors}; "
                        f"the last: {item['path']}: {item['reason']}\n"
                        "hint: raise max_errors, or look at quarantine.jsonl beside the metrics"
                    )
            while reported in early:
                on_report(early.pop(reported))
                reported += 1
    return storage


def pass_over_files(
    pipeline: Pipeline,
    planner: native.Pipeline,
    files: list[InputFile] | None,
    workers: int | None,
    cluster: ExitStack,
) -> StorageMetrics:
    """Find the columns of the files that have no footer, in one task per file.

    Args:
        pipeline: sent to the workers with cloudpickle.
        planner: plans the job afterwards, without opening these files.
        files: the files that it will plan; all files of the job by default.
        workers: as of ``run_on_ray``.
        cluster: keeps the connection to Ray for the splits.

    Returns:
        The requests of all tasks.

    Raises:
        ImportError: If Ray is not installed.
        shardmill.Error: If a file cannot be read: the first error to arrive.
    """
    storage = StorageMetrics()
    if (passes := planner.passes(files, available_cores())) is None:
        return storage
    from shardmill.integrations._ray_tasks import connected, run_splits

    cluster.enter_context(connected(workers or available_cores()))
    found: list[dict[str, Any]] = [{} for _path in passes["paths"]]
    runner = PassRunner(pipeline, passes)
    with closing(run_splits(runner, passes["paths"], workers)) as outcomes:
        for index, outcome in outcomes:
            found[index] = outcome.result()
            storage += outcome.storage
    planner.add_passed(passes, found)
    return storage


def _outcomes(
    runner: SplitRunner, splits: list[Split], workers: int | None
) -> Generator[tuple[int, Outcome]]:
    """Yield the index of a split and its outcome.

    Splits run alone until the first rows of all functions have decided their columns.
    """
    from shardmill.integrations._ray_tasks import run_splits

    first = 0
    while None in runner.results and first < len(splits):
        with closing(run_splits(runner, splits[first : first + 1], 1)) as outcomes:
            for _only, outcome in outcomes:
                runner.results = outcome.results
                yield first, outcome
        first += 1
    with closing(run_splits(runner, splits[first:], workers)) as outcomes:
        for index, outcome in outcomes:
            yield first + index, outcome


class _Runner(Generic[T]):
    """A function that runs on a worker. Its exceptions become part of the outcome."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        # Relative paths refer to the same files as on the driver; output names derive from them.
        self._directory = os.getcwd()  # noqa: PTH109 - it is only handed to chdir

    def __call__(self, work: T) -> Outcome:
        """Run one task. An exception becomes part of the outcome, except for a request to stop."""
        from shardmill.integrations._landmark import located

        # A worker process runs one task at a time.
        before = storage_metrics()
        try:
            with chdir(self._directory):
                outcome = self._outcome(work)
            return replace(outcome, storage=storage_metrics() - before)
        except errors.StorageError as error:
            return Outcome(failure=_packed(located(error)))
        except errors.Error as error:
            return Outcome(failure=_packed(error))
        except OSError as error:
            # Not for a stage, whose errors are wrapped: the working directory of the driver does
            # not exist here.
            return Outcome(failure=_packed(located(errors.StorageError(str(error)))))
        except Exception as error:
            return Outcome(failure=_packed(error))

    def _outcome(self, work: T) -> Outcome:
        raise NotImplementedError


class PassRunner(_Runner[str]):
    """A pass over the file at a path."""

    def __init__(self, pipeline: Pipeline, passes: dict[str, Any]) -> None:
        super().__init__(pipeline)
        # Each task needs what the files have in common, but not the list of files.
        self._passes = {**passes, "paths": []}

    @cached_property
    def _native(self) -> native.Pipeline:
        return native_pipeline(self._pipeline, may_replace=True)

    def _outcome(self, work: str) -> Outcome:
        configure_storage(self._pipeline)
        return Outcome(report=self._native.pass_over(self._passes, work))


class SplitRunner(_Runner["Split"]):
    """The pipeline on a worker."""

    def __init__(
        self,
        pipeline: Pipeline,
        plan: CommitPlan | None = None,
        schema: str | None = None,
        results: Sequence[str | None] = (),
    ) -> None:
        super().__init__(pipeline)
        self._plan = plan
        self._schema = schema
        #: The columns of the results of functions, None where they are not decided yet.
        self.results = results
        self._landmarks: list[Landmark] = []
        self._options: dict[str, Any] | None = None

    @contextmanager
    def landmarks(self) -> Iterator[None]:
        """Create landmarks for the time of a with-block.

        Workers recognize the directories of the driver by them.
        """
        from shardmill.integrations._landmark import Landmark, planted

        if self._plan is not None and not is_remote(job := self._plan.root):
            self._landmarks.append(Landmark(job, "checkpoint"))
        output = absolute(self._pipeline.sink.path)
        with (
            nullcontext() if is_remote(output) else planted(output, "output directory") as landmark
        ):
            if landmark is not None:
                self._landmarks.append(landmark)
            yield

    @cached_property
    def _sees_directories(self) -> bool:
        """Check the landmarks once per worker process.

        Raises:
            shardmill.StorageError: If a directory of the driver is not visible.
        """
        for landmark in self._landmarks:
            landmark.require()
        return True

    @property
    def _checkpoint(self) -> dict[str, Any] | None:
        """Return the checkpoint options.

        They are computed once per worker process, because an index may have to be built, and its
        source files are checked; and again if another job has merged an index since.
        """
        if self._plan is not None and (self._options is None or not _has_indexes(self._options)):
            self._options = self._plan.options()
        return self._options

    def _outcome(self, work: Split) -> Outcome:
        _ = self._sees_directories
        configure_storage(self._pipeline)
        # Native pipelines count errors; a retried task starts at zero.
        pipeline = native_pipeline(
            self._pipeline,
            may_replace=True,
            checkpoint=self._checkpoint,
            schema=self._schema,
            results=self.results,
        )
        return Outcome(report=pipeline.run_split(work), results=pipeline.results())


def _has_indexes(options: dict[str, Any]) -> bool:
    return all(all(map(os.path.exists, paths)) for paths in options["indexes"].values())


@dataclass(frozen=True)
class Outcome:
    """The result of a task: its report and its requests, or the exception that stopped it.

    The exception is pickled.
    """

    report: dict[str, Any] = field(default_factory=dict)
    results: Sequence[str | None] = ()
    failure: bytes | None = None
    storage: StorageMetrics = field(default_factory=StorageMetrics)

    def result(self) -> dict[str, Any]:
        """Return the report.

        Raises:
            shardmill.Error: If the task failed.
        """
        if self.failure is None:
            return self.report
        error, note = unpacked_error(self.failure)
        if error.__cause__ is not None and note:
            error.__cause__.add_note(note)
        raise error


def _packed(error: Exception) -> bytes:
    """Pickle ``error`` and its cause for the driver."""
    from shardmill.integrations._ray_tasks import pickled

    generic = errors.CurateError(f"{type(error).__name__}: {error}")
    return packed_error(error, generic, traced=error.__cause__, dumps=pickled)
