"""shardmill moves interleaved shards: reader, aspect ratio filter, writer.

Enters: the options of ``benchmarks.interleaved.options``. Leaves: ``params.json``, ``metrics.json`` and the output
files. Started by the runner. Invariant: only the public API is used.
"""

from __future__ import annotations

import time
from typing import Any, cast

from shardmill.curate import (
    AspectRatioFilter,
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    WebDatasetSink,
    WebDatasetSource,
)
from shardmill.curate.sinks import Mode, OnMaterializeError

from benchmarks.interleaved.options import (
    MAX_ASPECT_RATIO,
    MIN_ASPECT_RATIO,
    Options,
    parse_options,
    ray_num_cpus,
    storage_options,
)
from benchmarks.runner.ray_cluster import start_ray


def main() -> int:
    """Runs one path and returns the exit code."""
    options = parse_options("Interleaved input and output with shardmill.", executors=("native", "ray", "ray_data"))
    options.write_params()
    try:
        metrics = run(options)
    except Exception as error:
        options.write_metrics({"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    options.write_metrics(metrics)
    return 0 if metrics.get("is_success", True) else 1


def run(options: Options) -> dict[str, Any]:
    """Runs the pipeline and returns its metrics.

    Ray and its workers are started before the clock, so that both executors are compared on the work.
    """
    started = {} if options.executor == "native" else {"ray_start_s": start_ray(ray_num_cpus() or 1)}
    start = time.perf_counter()
    report = Pipeline(
        source=_source(options),
        stages=[] if options.no_filter else [AspectRatioFilter(min=MIN_ASPECT_RATIO, max=MAX_ASPECT_RATIO)],
        sink=_sink(options),
    ).run(
        executor="local" if options.executor == "native" else "ray",
        workers=ray_num_cpus(),
        progress=False,
    )
    seconds = time.perf_counter() - start
    return {"is_success": True} | dict(report.to_dict()) | started | {"time_taken_s": seconds}


def _source(options: Options) -> WebDatasetSource | InterleavedParquetSource:
    if options.reader_type == "wds":
        return WebDatasetSource(
            options.input_path,
            per_image_fields=options.per_image_fields,
            per_text_fields=options.per_text_fields,
            files_per_partition=options.files_per_partition,
            blocksize=options.input_blocksize,
            max_batch_bytes=options.output_max_batch_bytes,
            materialize_on_read=options.materialize_on_read,
            storage_options=storage_options() or None,
        )
    return InterleavedParquetSource(
        options.input_path,
        fields=options.reader_fields,
        files_per_partition=options.files_per_partition,
        blocksize=options.input_blocksize,
        max_batch_bytes=options.output_max_batch_bytes,
        storage_options=storage_options() or None,
    )


def _sink(options: Options) -> ParquetSink | WebDatasetSink:
    if options.writer_format == "wds":
        return WebDatasetSink(
            options.output_path,
            mode=cast(Mode, options.mode),
            materialize_on_write=options.materialize_on_write,
            on_materialize_error=cast(OnMaterializeError, options.on_materialize_error),
            storage_options=storage_options() or None,
        )
    given = {"compression": options.parquet_compression, "row_group_size": options.parquet_row_group_size}
    return ParquetSink(
        options.output_path,
        mode=cast(Mode, options.mode),
        materialize_on_write=options.materialize_on_write,
        on_materialize_error=cast(OnMaterializeError, options.on_materialize_error),
        storage_options=storage_options() or None,
        **{name: value for name, value in given.items() if value is not None},
    )


if __name__ == "__main__":
    raise SystemExit(main())
