"""A pipeline as plain data: for the native driver, for a checkpoint, and for a report."""

from __future__ import annotations

from collections.abc import Sequence
from os import fspath
from typing import TYPE_CHECKING, Any

from shardmill._extras import pyarrow_for
from shardmill._native import curate as native
from shardmill.curate._sinks import sink_options
from shardmill.curate._sources import options_of_paths, source_spec
from shardmill.curate._stages import stage_options, stored_options
from shardmill.errors import OptionError
from shardmill.storage._configure import configure_all
from shardmill.storage._paths import absolute, served_path

if TYPE_CHECKING:
    from shardmill.curate._pipeline import Pipeline


def configure_storage(pipeline: Pipeline) -> None:
    """Configure the stores in this process.

    A pipeline that was sent to another machine has no secrets; they come from its environment.
    """
    output = [fspath(pipeline.sink.path)]
    configure_all(pipeline.source.paths(), options_of_paths(pipeline.source))
    configure_all(output, pipeline.sink.storage_options)
    for path in [*pipeline.source.paths(), *output]:
        served_path(path)


def spec_of(pipeline: Pipeline, *, may_replace: bool = False) -> tuple[dict[str, Any], list[Any]]:
    """Return the pipeline as plain data, and the Python stages that it names by index."""
    stages, user_stages = stage_options(pipeline.stages)
    spec = source_spec(pipeline.source) | {
        "stages": stages,
        "sink": sink_options(pipeline.sink),
        "chunk_bytes": pipeline.memory_bytes,
        "max_errors": pipeline.max_errors,
        "may_replace": may_replace,
    }
    if pipeline.checkpoint is not None:
        from shardmill.resume._checkpoint import checkpoint_of, id_columns

        checkpoint = checkpoint_of(pipeline.checkpoint)
        spec["id_columns"] = id_columns(checkpoint)
        spec["allows_null_ids"] = checkpoint.null_ids == "always_process"
    return spec, user_stages


def native_pipeline(
    pipeline: Pipeline,
    *,
    may_replace: bool,
    checkpoint: dict[str, Any] | None = None,
    schema: str | None = None,
    results: Sequence[str | None] = (),
) -> native.Pipeline:
    """Return the native pipeline.

    Args:
        pipeline: the pipeline.
        may_replace: whether an output file may exist, because a task is tried again.
        checkpoint: the options of a plan, whose splits are committed to a journal.
        schema: that of a planned job.
        results: the columns that its functions return.
    """
    spec, user_stages = spec_of(pipeline, may_replace=may_replace)
    if checkpoint is not None:
        # The recorded paths must not depend on a user function that changes the working directory.
        spec["paths"] = [absolute(path) for path in spec["paths"]]
        spec["sink"]["path"] = absolute(spec["sink"]["path"])
    return native.Pipeline(
        spec,
        user_stages,
        source=(pipeline.source.schema, _overrides(pipeline.source.schema_overrides)),
        sink=(pipeline.sink.schema, _overrides(pipeline.sink.schema_overrides)),
        checkpoint=checkpoint,
        schema=schema,
        results=[schema for schema in results if schema is not None],
    )


def params_of(pipeline: Pipeline, executor: str, at_once: int | None) -> dict[str, Any]:
    """Return what a report shows of the job."""
    spec, _ = spec_of(pipeline)
    [(kind, source)], sink = spec["source"].items(), spec["sink"]
    return {
        "executor": executor,
        "at_once": at_once,
        "input_path": spec["paths"],
        "output_path": sink["path"],
        "reader_type": "wds" if kind == "webdataset" else kind,
        "writer_format": "wds" if sink["format"] == "webdataset" else "parquet",
        "files_per_partition": pipeline.source.files_per_partition,
        "input_partition_bytes": pipeline.source.partition_bytes,
        "output_max_batch_bytes": pipeline.source.max_batch_bytes,
        "materialize_on_read": source.get("materialize_on_read", False),
        "materialize_on_write": sink["materialize_on_write"],
        "on_materialize_error": sink["on_materialize_error"],
        "reader_fields": source["columns" if kind == "table" else "fields"],
        "per_image_fields": source.get("per_image_fields", []),
        "per_text_fields": source.get("per_text_fields", []),
        "parquet_row_group_size": sink["row_group_size"],
        "parquet_compression": sink["compression"],
        "mode": sink["mode"],
        "checkpoint": None if pipeline.checkpoint is None else repr(pipeline.checkpoint),
        "stages": [repr(stage) for stage in pipeline.stages],
        "stage_options": [stored_options(options) for options in spec["stages"]],
    }


def _overrides(overrides: Any) -> Any:
    """Convert a dict of names and types to a schema."""
    if not isinstance(overrides, dict):
        return overrides
    arrow = pyarrow_for("schema_overrides as a dict")
    try:
        return arrow.schema(list(overrides.items()))
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"schema_overrides must have a type for each column: {error}"
            "\nhint: write schema_overrides={'x': pyarrow.int64()}"
        ) from error
