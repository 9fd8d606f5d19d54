"""Source → stages → sink, on this machine or on Ray."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Literal

from shardmill._choices import check_choice
from shardmill._memory import peak_rss_bytes
from shardmill._native import curate as native
from shardmill._option_values import whole
from shardmill._progress import PLANNING, Progress, announced
from shardmill._sizes import byte_count
from shardmill._threads import available_cores
from shardmill.curate._kept_files import warn_of_other_schema
from shardmill.curate._placement import refuse_inside_input
from shardmill.curate._report import Report
from shardmill.curate._sinks import ParquetSink, Sink
from shardmill.curate._sources import Source
from shardmill.curate._spec import configure_storage, native_pipeline, params_of
from shardmill.data._left_out import warn_of_left_out
from shardmill.errors import OptionError
from shardmill.storage._configure import metrics as storage_metrics
from shardmill.storage._paths import real

if TYPE_CHECKING:
    from shardmill._native.plan import InputFile, Split
    from shardmill.curate._resumption import CommitPlan
    from shardmill.resume import Checkpoint

_CHUNK_BYTES = 32 << 20
_LEFT_OUT = "left out of the job"


@dataclass
class Pipeline:
    """A curation job. The constructor checks the options and does not touch the disk.

    The rows are those of interleaved documents, or of plain tables from a ``TableSource``, which
    support ``Filter`` and ``Map`` stages and a ``ParquetSink``.

    Args:
        source: source of the rows.
        stages: stages to apply, in this order.
        sink: destination of the rows.
        checkpoint: where the job records what is done, so that a stopped run can be resumed: a
            ``shardmill.resume.Checkpoint``, its path, or a dict of its options.
        max_errors: stop if more samples and shards than this are quarantined; unlimited by default.
            A job over tables never quarantines: unreadable input stops it.
        memory_bytes: approximate maximum bytes of rows per thread. A single larger image is
            processed alone.

    Examples:
        >>> from shardmill.curate import AspectRatioFilter, ParquetSink, Pipeline, WebDatasetSource
        >>> pipeline = Pipeline(
        ...     source=WebDatasetSource("in/"),
        ...     stages=[AspectRatioFilter()],
        ...     sink=ParquetSink("out/"),
        ... )
        >>> pipeline.run()
        Traceback (most recent call last):
        ...
        shardmill.errors.NotFoundError: No file at `in/`
        hint: check the spelling; relative paths start at the working directory
    """

    _: KW_ONLY
    source: Source
    sink: Sink
    stages: Sequence[Any] = ()
    checkpoint: Checkpoint | str | dict[str, Any] | None = None
    max_errors: int | None = None
    memory_bytes: int | str = _CHUNK_BYTES

    def __post_init__(self) -> None:
        if not isinstance(self.source, Source):
            raise OptionError(
                f"`source` must be a source such as WebDatasetSource(path), not {self.source!r}"
            )
        if not isinstance(self.sink, Sink):
            raise OptionError(f"`sink` must be a sink such as ParquetSink(path), not {self.sink!r}")
        if self.checkpoint is not None:
            from shardmill.resume._checkpoint import checkpoint_of

            self.checkpoint = checkpoint_of(self.checkpoint)
            if self.checkpoint.id_column is not None and self.source.kind != "table":
                raise OptionError(
                    "`id_column` requires a TableSource; documents are resumed by split\n"
                    "hint: omit `id_column`"
                )
        if self.max_errors is not None:
            self.max_errors = whole("max_errors", self.max_errors, 0)
        if not isinstance(self.stages, Iterable):
            raise OptionError(
                f"stages must be a list of stages, not a {type(self.stages).__name__}\n"
                "hint: write stages=[…]"
            )
        # They are read more than once, and an iterator would have none left for the run.
        self.stages = list(self.stages)
        self.memory_bytes = byte_count(self.memory_bytes, "memory_bytes")
        configure_storage(self)
        native_pipeline(self, may_replace=False)

    def run(
        self,
        executor: Literal["local", "ray"] = "local",
        *,
        threads: int | None = None,
        workers: int | None = None,
        progress: bool = True,
    ) -> Report:
        """Run the job to completion.

        Args:
            executor: ``"local"`` uses native threads; ``"ray"`` runs one task per split on the
                cluster at ``RAY_ADDRESS``, or on a new local one.
            threads: number of native threads of ``"local"``, one split per thread; the number of
                cores by default.
            workers: maximum number of concurrent ``"ray"`` tasks; the number of CPUs of the cluster
                by default.
            progress: show a bar on a terminal if the run takes longer than two seconds.

        Returns:
            A report; ``Report.quarantined`` lists everything that was quarantined.

        Raises:
            shardmill.NotFoundError: If a path is missing or has no input; the output is not
                touched.
            shardmill.OptionError: If an option names a key that no sample has; the output is not
                touched.
            shardmill.MissingColumnError: If ``fields`` names a column that no Parquet file has, if
                a filter names a key that no sample has, or if an option of a job over tables names
                a column that no file has; the output is not touched.
            shardmill.FormatError: If the files of a job over tables have no common schema; the
                output is not touched.
            shardmill.CurateError: If a policy or a stage stopped the run; files that are already
                published are kept.
            shardmill.StorageError: If the disk is full or access is denied.
            shardmill.CheckpointMismatchError: If the checkpoint belongs to another job, an input
                has changed, or a new file does not fit the schema of the planned ones.
            shardmill.CheckpointBusyError: If another process is running this job.
        """
        check_choice("executor", executor, Literal["local", "ray"])
        for name, value, owner in (("threads", threads, "local"), ("workers", workers, "ray")):
            if value is not None and executor != owner:
                raise OptionError(f'`{name}` requires executor="{owner}"')
        at_once = threads if executor == "local" else workers
        if at_once is not None:
            at_once = whole("threads" if executor == "local" else "workers", at_once, 1)
        start, before = time.perf_counter(), storage_metrics()
        report = Report(params=params_of(self, executor, at_once))
        with ExitStack() as cluster:
            self._run_all(executor, at_once, progress, report, cluster)
        report.seconds = time.perf_counter() - start
        report.storage += storage_metrics() - before
        report.peak_rss_bytes = peak_rss_bytes()
        return report

    def _run_all(
        self,
        executor: str,
        at_once: int | None,
        progress: bool,
        report: Report,
        cluster: ExitStack,
    ) -> None:
        def pass_over(planner: native.Pipeline, files: list[InputFile] | None) -> None:
            if executor == "ray":
                from shardmill.curate._ray_executor import pass_over_files

                report.storage += pass_over_files(self, planner, files, at_once, cluster)

        if self.checkpoint is None:
            refuse_inside_input(
                "output", real(self.sink.path), [real(path) for path in self.source.paths()]
            )
            pipeline = native_pipeline(self, may_replace=executor == "ray")
            start = time.perf_counter()
            with announced(PLANNING, is_shown=progress):
                pass_over(pipeline, None)
                splits, left_out = pipeline.splits(available_cores())
                pipeline.check_names(splits)
            report.planning_s = time.perf_counter() - start
            warn_of_left_out(left_out, outcome=_LEFT_OUT)
            pipeline.prepare(splits, is_resumed=False)
            self._run(_Work(pipeline, splits, None), executor, at_once, progress, report)
            if self.sink.mode == "resume" and isinstance(self.sink, ParquetSink):
                warn_of_other_schema(self.sink, report)
        else:
            from shardmill.curate._resumption import Resumption

            holds_back = True
            while holds_back:
                is_first = not report.splits
                with Resumption(self, progress, pass_over) as resumption:
                    if is_first:
                        warn_of_left_out(resumption.left_out, outcome=_LEFT_OUT)
                        report.committed_before = resumption.committed
                    report.checkpoint_load_s += resumption.load_s
                    report.planning_s += resumption.planning_s
                    pipeline = native_pipeline(
                        self,
                        may_replace=False,
                        checkpoint=resumption.plan.options(),
                        schema=resumption.schema,
                        results=resumption.results,
                    )
                    self._run(
                        _Work(pipeline, resumption.splits, resumption.plan),
                        executor,
                        at_once,
                        progress,
                        report,
                    )
                    resumption.finish(report, had_workers=executor == "ray")
                # Rows identified by ids that were lost wait until those ids are restored.
                holds_back = resumption.holds_back and bool(resumption.splits)

    def _run(
        self, work: _Work, executor: str, at_once: int | None, progress: bool, report: Report
    ) -> None:
        pipeline, splits = work.pipeline, work.splits
        if columns := pipeline.columns():
            report.params["schema"] = dict(columns)

        with Progress(total=len(splits), is_shown=progress) as bar:

            def on_report(split: dict[str, Any]) -> None:
                report.splits.append(split)
                bar.advance(split)

            if executor == "local":
                pipeline.run(splits, at_once or available_cores(), on_report)
            else:
                from shardmill.curate._ray_executor import SplitRunner, run_on_ray

                report.storage += run_on_ray(
                    SplitRunner(self, work.plan, pipeline.schema(), pipeline.results()),
                    self.max_errors,
                    splits,
                    at_once,
                    on_report,
                )
                # Removes staging files of killed workers.
                pipeline.prepare([], is_resumed=True)


@dataclass(frozen=True)
class _Work:
    """The remaining work, and the native pipeline for it."""

    pipeline: native.Pipeline
    splits: list[Split]
    plan: CommitPlan | None
