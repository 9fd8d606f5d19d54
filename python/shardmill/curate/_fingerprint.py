"""What a checkpoint must share with a job to be resumed by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardmill.curate._spec import spec_of
from shardmill.curate._stages import stored_options
from shardmill.resume._checkpoint import id_columns

if TYPE_CHECKING:
    from shardmill.curate._pipeline import Pipeline
    from shardmill.resume import Checkpoint

#: The options with columns that the user fixes.
_DECLARED = [(part, name) for part in ("source", "sink") for name in ("schema", "schema_overrides")]


def fingerprint(
    pipeline: Pipeline, planner: Any, checkpoint: Checkpoint, done: list[str]
) -> dict[str, Any]:
    """Return the parts that a checkpoint must share with this job, by name.

    Inputs and output are compared separately.
    """
    spec, _ = spec_of(pipeline)
    # Raising the memory limit must not make it another job.
    source = spec["source"][pipeline.source.kind]
    del source["max_decoded_bytes"]
    sink = {
        name: spec["sink"][name]
        for name in ("format", "materialize_on_write", "on_materialize_error")
    }
    if spec["sink"]["image_sizes"]:
        sink["image_sizes"] = True
    declared = dict(zip(_DECLARED, planner.declared(), strict=True))
    for part, options in (("source", source), ("sink", sink)):
        # Checkpoints of jobs without them stay valid.
        options |= {
            name: columns
            for (of, name), columns in declared.items()
            if of == part and columns is not None
        }
    return {
        "source": spec["source"],
        "stages": [
            _stage(stage, options)
            for stage, options in zip(pipeline.stages, spec["stages"], strict=True)
        ],
        "sink": sink,
        "id_column": id_columns(checkpoint),
        "done": done,
        "version": checkpoint.version,
    }


def _stage(stage: Any, options: dict[str, Any]) -> Any:
    """Identify a stage by what it does.

    A function is identified by name only; use ``version`` for changes of its code.
    """
    if "user" not in options:
        return stored_options(options)
    values: dict[str, Any] = {"stage": type(stage).__qualname__}
    for name, value in vars(stage).items():
        if value is None or isinstance(value, bool | int | float | str):
            values[name] = value
        elif callable(value):
            values[name] = getattr(value, "__qualname__", type(value).__qualname__)
        else:
            values[name] = type(value).__qualname__
    values.pop("batch_size", None)
    return values
