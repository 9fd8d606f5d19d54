"""Source → stages → sink, on this machine or on Ray."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from os import fspath
from typing import TYPE_CHECKING, Any, Literal

from shardmill._native import curate as native
from shardmill.curate.filters import stage_options
from shardmill.curate.report import Report
from shardmill.curate.sinks import Sink
from shardmill.curate.sources import Source
from shardmill.dataset import warn_of_left_out
from shardmill.errors import OptionError
from shardmill.storage import absolute, configure_all, served_path
from shardmill.threads import available_cores

if TYPE_CHECKING:
    from shardmill.curate.resumption import CommitPlan
    from shardmill.resume import Checkpoint

_CHUNK_BYTES = 32 << 20


@dataclass
class Pipeline:
    """A curation job. Making one checks the options and touches nothing on disk.

    Its rows are those of interleaved documents, or of plain tables from a :class:`TableSource`, which go through
    :class:`Filter` and :class:`Map` into a :class:`ParquetSink`.

    Args:
        source: where rows come from.
        stages: what happens to them, in this order.
        sink: where they go.
        checkpoint: where the job notes what is done, so that a run that was stopped goes on: a :class:`shardmill.resume.Checkpoint`,
            its path, or a dict of its options.
        max_errors: stop when more samples and shards than this are quarantined; never, when nothing is said. A job over
            tables quarantines nothing: what it cannot read stops it.
        memory_bytes: about how many bytes of rows a thread holds at once. One image that is larger passes alone.

    Example:
        >>> from shardmill.curate import AspectRatioFilter, ParquetSink, Pipeline, WebDatasetSource
        >>> pipeline = Pipeline(source=WebDatasetSource("in/"), stages=[AspectRatioFilter()], sink=ParquetSink("out/"))
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
    memory_bytes: int = _CHUNK_BYTES
    _user_stages: list[Any] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.source, Source):
            raise OptionError(f"`source` is {self.source!r}; it must be a source such as WebDatasetSource(path)")
        if not isinstance(self.sink, Sink):
            raise OptionError(f"`sink` is {self.sink!r}; it must be a sink such as ParquetSink(path)")
        if self.checkpoint is not None:
            from shardmill.resume import Checkpoint

            self.checkpoint = Checkpoint.of(self.checkpoint)
            if self.checkpoint.id_column is not None and self.source.kind != "table":
                raise OptionError(
                    "`id_column` is for rows of a TableSource; documents are resumed by split\nhint: leave out `id_column`"
                )
        if self.memory_bytes <= 0:
            raise OptionError("`memory_bytes` must be positive")
        self.configure_storage()
        if self.source.kind == "table" and (self.sink.schema is not None or self.sink.schema_overrides is not None):
            raise OptionError("`schema` of a sink is for documents\nhint: cast rows of a TableSource in a Map stage")
        self.native(may_replace=False)

    def configure_storage(self) -> None:
        """Lets this process reach the stores; on another machine, without secrets, which its environment has."""
        output = [fspath(self.sink.path)]
        configure_all(self.source.paths(), self.source.options_of_paths())
        configure_all(output, self.sink.storage_options)
        for path in [*self.source.paths(), *output]:
            served_path(path)

    def spec(self, *, may_replace: bool = False) -> dict[str, Any]:
        """The pipeline as plain data, Python stages by their number."""
        stages, self._user_stages = stage_options(self.stages)
        return {
            "paths": self.source.paths(),
            "partitioning": self.source.partitioning(),
            "source": {self.source.kind: self.source.options()},
            "stages": stages,
            "sink": self.sink.options(),
            "chunk_bytes": self.memory_bytes,
            "max_errors": self.max_errors,
            "allowed_roots": self.source.roots(),
            "may_replace": may_replace,
        }

    def native(self, *, may_replace: bool, checkpoint: str | None = None) -> native.Pipeline:
        """The pipeline that does the work; with a ``checkpoint``, the options of a plan, its splits are committed to a journal."""
        spec = self.spec(may_replace=may_replace)
        if checkpoint is not None:
            # What is recorded must not depend on the folder that a function of the user's goes to.
            spec["paths"] = [absolute(path) for path in spec["paths"]]
            spec["sink"]["path"] = absolute(spec["sink"]["path"])
        return native.Pipeline(
            json.dumps(spec),
            self._user_stages,
            source_schema=self.source.schema,
            source_overrides=_overrides(self.source.schema_overrides),
            sink_schema=self.sink.schema,
            sink_overrides=_overrides(self.sink.schema_overrides),
            checkpoint=checkpoint,
        )

    def run(
        self,
        executor: Literal["local", "ray"] = "local",
        *,
        workers: int | None = None,
        progress: bool = True,
    ) -> Report:
        """Runs the job to its end.

        Args:
            executor: ``"local"`` uses native threads; ``"ray"`` runs one task a split on the cluster at ``RAY_ADDRESS``, or on one that is
                started here.
            workers: splits that run at once; the number of cores, when nothing is said.
            progress: show a bar on a terminal when the run takes longer than two seconds.

        Returns:
            What was done, with :attr:`Report.quarantined` naming everything that was left out.

        Raises:
            shardmill.NotFoundError: a path is missing or holds no input; the output was not touched.
            shardmill.OptionError: an option names a key that no sample has; the output was not touched.
            shardmill.MissingColumnError: ``fields`` names a column that no Parquet file has; the output was not touched.
            shardmill.CurateError: a policy or a stage stopped the run; files that were published before stay.
            shardmill.StorageError: the disk is full or refuses access.
            shardmill.CheckpointMismatchError: the checkpoint belongs to another job, or an input has changed.
            shardmill.CheckpointBusyError: another process is at work on this job.
        """
        if executor not in ("local", "ray"):
            raise OptionError(f'`executor` is {executor!r}; "local" or "ray"')
        if workers is not None and workers < 1:
            raise OptionError("`workers` must be positive")
        start = time.perf_counter()
        warn_of_left_out(self.native(may_replace=False).left_out(), outcome="left out of the job", stacklevel=3)
        report = Report(params=self._params(executor, workers))
        if self.checkpoint is None:
            pipeline = self.native(may_replace=executor == "ray")
            splits = pipeline.splits()
            pipeline.check_names(splits)
            pipeline.prepare(splits, is_resumed=False)
            self._run(_Work(pipeline, splits, None), executor, workers, progress, report)
        else:
            from shardmill.curate.resumption import Resumption
            from shardmill.resume import Checkpoint

            holds_back = True
            while holds_back:
                is_first = not report.splits
                with Resumption(self, Checkpoint.of(self.checkpoint), progress) as resumption:
                    if is_first:
                        report.committed_before = resumption.committed
                    report.checkpoint_load_s += resumption.load_s
                    pipeline = self.native(may_replace=False, checkpoint=resumption.plan.options())
                    self._run(_Work(pipeline, resumption.splits, resumption.plan), executor, workers, progress, report)
                    resumption.finish(report, had_workers=executor == "ray")
                # Rows that are known by ids which were lost wait until those are there again.
                holds_back = resumption.holds_back and bool(resumption.splits)
        report.seconds = time.perf_counter() - start
        report.peak_rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return report

    def _run(self, work: _Work, executor: str, workers: int | None, progress: bool, report: Report) -> None:
        from shardmill.curate.progress import Progress

        pipeline, splits = work.pipeline, work.splits

        with Progress(total=len(splits), is_shown=progress) as bar:

            def on_report(text: str) -> None:
                split = json.loads(text)
                report.splits.append(split)
                bar.advance(split)

            if executor == "local":
                pipeline.run(splits, workers or available_cores(), on_report)
            else:
                from shardmill.curate.ray_executor import SplitRunner, run_on_ray

                run_on_ray(SplitRunner(self, work.plan), self.max_errors, splits, workers, on_report)
                # Removes what workers that were killed have staged.
                pipeline.prepare([], is_resumed=True)

    def _params(self, executor: str, workers: int | None) -> dict[str, Any]:
        spec = self.spec()
        source, sink = self.source.options(), spec["sink"]
        readers = {"webdataset": "wds", "parquet": "parquet", "table": "table"}
        return {
            "executor": executor,
            "workers": workers,
            "input_path": spec["paths"],
            "output_path": sink["path"],
            "reader_type": readers[self.source.kind],
            "writer_format": "wds" if sink["format"] == "webdataset" else "parquet",
            "files_per_partition": self.source.files_per_partition,
            "input_blocksize": self.source.blocksize,
            "output_max_batch_bytes": self.source.max_batch_bytes,
            "materialize_on_read": source.get("materialize_on_read", False),
            "materialize_on_write": sink["materialize_on_write"],
            "on_materialize_error": sink["on_materialize_error"],
            "reader_fields": source["columns"] if self.source.kind == "table" else source["fields"],
            "per_image_fields": source.get("per_image_fields", []),
            "per_text_fields": source.get("per_text_fields", []),
            "parquet_row_group_size": sink["row_group_size"],
            "parquet_compression": sink["compression"],
            "mode": sink["mode"],
            "checkpoint": None if self.checkpoint is None else repr(self.checkpoint),
            "stages": [repr(stage) for stage in self.stages],
            "stage_options": spec["stages"],
        }


@dataclass(frozen=True)
class _Work:
    """What is left to be done, and by which native pipeline."""

    pipeline: native.Pipeline
    splits: list[str]
    plan: CommitPlan | None


def _overrides(overrides: Any) -> Any:
    """A dict of names and types becomes a schema."""
    if not isinstance(overrides, dict):
        return overrides
    import pyarrow as pa

    return pa.schema(list(overrides.items()))
