"""Moves interleaved shards by one system: reader, aspect ratio filter, writer.

Counting happens elsewhere, so that it is in the time of neither system. The stages of NeMo Curator
run as the project ships them.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import Metrics, Options, run_entry, start_ray

_FIELDS = (
    *(
        "image_metadata",
        "url",
        "language_id_whole_page_fasttext",
        "pdf_name",
        "previous_word_count",
    ),
    "bff_contained_ngram_count_before_dedupe",
)
_PER_IMAGE = ("image_metadata",)
_MIN_RATIO, _MAX_RATIO = 1.0, 2.0
_STAGES = {
    "reader_s": ("webdataset_reader", "interleaved_parquet_reader"),
    "filter_s": ("interleaved_aspect_ratio_filter",),
    "writer_s": ("interleaved_parquet_writer", "interleaved_webdataset_writer"),
}


@dataclass(frozen=True, kw_only=True)
class JobOptions(Options):
    """What is moved.

    ``reader`` and ``writer`` are ``wds`` or ``parquet``; ``output`` is in ``scratch`` unless given.
    """

    data: str
    reader: str
    writer: str
    output: str = ""
    mode: str = "overwrite"
    cpus: int = 2

    @property
    def target(self) -> str:
        """Where the output goes."""
        return self.output or str(self.scratch / "output")


def storage_options() -> dict[str, Any]:
    """How the object store of the paths is reached, if they are in one.

    The options come from the environment, since they hold keys.
    """
    return json.loads(os.environ.get("BENCHMARK_STORAGE_OPTIONS") or "{}")


def shardmill(options: JobOptions) -> Metrics:
    """By the public API.

    Ray starts before the clock, so that both executors are compared on the work.
    """
    from shardmill.curate import (
        AspectRatioFilter,
        InterleavedParquetSource,
        ParquetSink,
        Pipeline,
        WebDatasetSink,
        WebDatasetSource,
    )

    is_ray = options.system.endswith("_ray")
    started = {"ray_start_s": start_ray(options.cpus)} if is_ray else {}
    given: dict[str, Any] = {"storage_options": storage_options() or None}
    reading = {**given, "files_per_partition": 1}
    writing = {**given, "mode": options.mode, "on_materialize_error": "raise"}
    start = time.perf_counter()
    if options.reader == "wds":
        source: Any = WebDatasetSource(
            options.data,
            per_image_fields=_PER_IMAGE,
            per_text_fields=(),
            materialize_on_read=True,
            **reading,
        )
    else:
        source = InterleavedParquetSource(options.data, fields=_FIELDS, **reading)
    sink: Any = (WebDatasetSink if options.writer == "wds" else ParquetSink)(
        options.target, **writing
    )
    pipeline = Pipeline(
        source=source, stages=[AspectRatioFilter(min=_MIN_RATIO, max=_MAX_RATIO)], sink=sink
    )
    at_once = (
        {"executor": "ray", "workers": options.cpus}
        if is_ray
        else {"executor": "local", "threads": options.cpus}
    )
    report = pipeline.run(**at_once, progress=False)
    return {**_told(dict(report.to_dict())), **started, "time_taken_s": time.perf_counter() - start}


def nemo_curator(options: JobOptions) -> Metrics:
    """NeMo Curator on a Ray of its own, whose start is in its time."""
    import ray
    from nemo_curator.backends.ray_data import (  # pyright: ignore[reportMissingImports]
        RayDataExecutor,
    )
    from nemo_curator.pipeline import Pipeline  # pyright: ignore[reportMissingImports]
    from nemo_curator.stages.interleaved import io  # pyright: ignore[reportMissingImports]
    from nemo_curator.stages.interleaved.stages import (  # pyright: ignore[reportMissingImports]
        InterleavedAspectRatioFilterStage,
    )
    from nemo_curator.tasks.utils import TaskPerfUtils  # pyright: ignore[reportMissingImports]

    # As its documentation says: the options of fsspec, among those of a reader or a writer.
    stored: dict[str, Any] = {"storage_options": storage_options()} if storage_options() else {}
    reading: dict[str, Any] = {
        "file_paths": options.data,
        "files_per_partition": 1,
        "read_kwargs": stored,
    }
    writing: dict[str, Any] = {
        "path": options.target,
        "write_kwargs": dict(stored),
        "mode": options.mode,
    }
    start = time.perf_counter()
    # The executor's own ray.init finds this one running and keeps it.
    ray.init(
        num_cpus=options.cpus,
        num_gpus=0,
        object_store_memory=_object_store_bytes(),
        include_dashboard=False,
        log_to_driver=False,
        _system_config={"automatic_object_spilling_enabled": False},
    )
    pipeline = Pipeline(name="interleaved_io")
    if options.reader == "wds":
        more = {"materialize_on_read": True, "per_image_fields": _PER_IMAGE, "per_text_fields": ()}
        pipeline.add_stage(io.InterleavedWebdatasetReader(**reading, **more))
    else:
        pipeline.add_stage(io.InterleavedParquetReader(**reading, fields=_FIELDS))
    bounds = {"min_aspect_ratio": _MIN_RATIO, "max_aspect_ratio": _MAX_RATIO}
    pipeline.add_stage(InterleavedAspectRatioFilterStage(**bounds, drop_invalid_rows=True))
    is_tar = options.writer == "wds"
    writer = io.InterleavedWebdatasetWriterStage if is_tar else io.InterleavedParquetWriterStage
    pipeline.add_stage(writer(**writing, materialize_on_write=True, on_materialize_error="error"))
    tasks = pipeline.run(executor=RayDataExecutor())
    seconds = time.perf_counter() - start
    return _told(TaskPerfUtils.aggregate_task_metrics(tasks, prefix="task")) | {
        "time_taken_s": seconds
    }


def _object_store_bytes() -> int:
    # Above the size of /dev/shm Ray would keep objects on the disk, which is slower: unfair to it.
    shared = os.statvfs("/dev/shm")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // 2, int(shared.f_bavail * shared.f_frsize * 0.9))


def _told(report: Metrics) -> Metrics:
    """Seconds by stage, summed over the tasks, and what the run counted itself."""
    found = {
        key: report[key]
        for key in report
        if key.startswith(("input_num", "output_num")) or key == "is_success"
    }
    for name, stages in _STAGES.items():
        keys = [f"task_{stage}_process_time_sum" for stage in stages]
        seconds = [float(report[key]) for key in keys if key in report]
        if seconds:
            found[name] = sum(seconds)
    return found


SYSTEMS = {"shardmill": shardmill, "shardmill_ray": shardmill, "nemo_curator": nemo_curator}


if __name__ == "__main__":
    run_entry(JobOptions, lambda options: SYSTEMS[options.system](options))
