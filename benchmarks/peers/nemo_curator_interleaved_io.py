"""NeMo Curator moves interleaved shards: the side of the benchmark that we want to beat.

Enters: the options of ``benchmarks.interleaved.options``. Leaves: ``params.json``, ``metrics.json`` and the output
files. The runner starts it with the interpreter of ``build.sh``. Invariant: the stages run as the project ships them;
nothing is patched, and counting happens elsewhere, so that it is in no one's time.
"""

from __future__ import annotations

import os
import time

import ray
from nemo_curator.backends.ray_data import RayDataExecutor
from nemo_curator.pipeline import Pipeline
from nemo_curator.stages.base import ProcessingStage
from nemo_curator.stages.interleaved.io import (
    InterleavedParquetReader,
    InterleavedParquetWriterStage,
    InterleavedWebdatasetReader,
    InterleavedWebdatasetWriterStage,
)
from nemo_curator.stages.interleaved.stages import InterleavedAspectRatioFilterStage
from nemo_curator.tasks.utils import TaskPerfUtils

from benchmarks.interleaved.options import (
    MAX_ASPECT_RATIO,
    MIN_ASPECT_RATIO,
    Options,
    parse_options,
    ray_num_cpus,
    storage_options,
)


def main() -> int:
    """Runs one path and returns the exit code."""
    options = parse_options("Interleaved input and output with NeMo Curator.", executors=("ray_data",))
    options.write_params()
    try:
        metrics = run(options)
    except Exception as error:
        options.write_metrics({"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    options.write_metrics(metrics)
    return 0


def run(options: Options) -> dict[str, object]:
    """Runs the pipeline on a Ray of its own, or on the one that ``RAY_ADDRESS`` names."""
    start = time.perf_counter()
    if "RAY_ADDRESS" not in os.environ:
        is_spilling = os.environ.get("BENCHMARK_RAY_ENABLE_OBJECT_SPILLING") == "true"
        # The executor's own ray.init finds this one running and keeps it.
        ray.init(
            num_cpus=ray_num_cpus(),
            num_gpus=0,
            object_store_memory=_object_store_bytes(),
            include_dashboard=False,
            log_to_driver=False,
            _system_config={"automatic_object_spilling_enabled": is_spilling},
        )
    ray_started = time.perf_counter()
    pipeline = Pipeline(name="interleaved_io")
    pipeline.add_stage(_reader(options))
    if not options.no_filter:
        pipeline.add_stage(
            InterleavedAspectRatioFilterStage(
                min_aspect_ratio=MIN_ASPECT_RATIO, max_aspect_ratio=MAX_ASPECT_RATIO, drop_invalid_rows=True
            )
        )
    pipeline.add_stage(_writer(options))
    tasks = pipeline.run(executor=RayDataExecutor())
    finished = time.perf_counter()
    stage_metrics = TaskPerfUtils.aggregate_task_metrics(tasks, prefix="task")
    return {
        "is_success": True,
        "time_taken_s": finished - start,
        "ray_init_s": ray_started - start,
        "num_output_tasks": len(tasks or []),
        **stage_metrics,
    }


def _reader(options: Options) -> ProcessingStage:
    if options.reader_type == "wds":
        return InterleavedWebdatasetReader(
            file_paths=options.input_path,
            files_per_partition=options.files_per_partition,
            blocksize=options.input_blocksize,
            max_batch_bytes=options.output_max_batch_bytes,
            materialize_on_read=options.materialize_on_read,
            per_image_fields=options.per_image_fields,
            per_text_fields=options.per_text_fields,
            read_kwargs=_storage(),
        )
    return InterleavedParquetReader(
        file_paths=options.input_path,
        files_per_partition=options.files_per_partition,
        blocksize=options.input_blocksize,
        max_batch_bytes=options.output_max_batch_bytes,
        fields=options.reader_fields,
        read_kwargs=_storage(),
    )


def _writer(options: Options) -> ProcessingStage:
    write_kwargs: dict[str, object] = _storage()
    if options.writer_format == "wds":
        return InterleavedWebdatasetWriterStage(
            path=options.output_path,
            write_kwargs=write_kwargs,
            materialize_on_write=options.materialize_on_write,
            mode=options.mode,
            on_materialize_error=options.on_materialize_error,
        )
    if options.parquet_row_group_size is not None:
        write_kwargs["row_group_size"] = options.parquet_row_group_size
    if options.parquet_compression is not None:
        write_kwargs["compression"] = options.parquet_compression
    return InterleavedParquetWriterStage(
        path=options.output_path,
        write_kwargs=write_kwargs,
        materialize_on_write=options.materialize_on_write,
        mode=options.mode,
        on_materialize_error=options.on_materialize_error,
    )


def _storage() -> dict[str, object]:
    """As its documentation says: the options of fsspec, among those of a reader or a writer."""
    found = storage_options()
    return {"storage_options": found} if found else {}


def _object_store_bytes() -> int | None:
    text = os.environ.get("BENCHMARK_OBJECT_STORE_SIZE_BYTES")
    if not text:
        return None
    # Above the size of /dev/shm Ray would keep objects on the disk, which is slower: unfair to it.
    shared_memory = os.statvfs("/dev/shm")
    return min(int(text), int(shared_memory.f_bavail * shared_memory.f_frsize * 0.9))


if __name__ == "__main__":
    raise SystemExit(main())
