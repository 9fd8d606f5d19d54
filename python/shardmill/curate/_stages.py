"""The stages of a pipeline, checked and translated for the native driver."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from shardmill.curate._filters import ImageStage, native_options
from shardmill.data._own_methods import own_method
from shardmill.errors import OptionError


def stage_options(stages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the stages for the native driver.

    These are a list of options, and the Python objects that the options refer to.

    Raises:
        OptionError: If an object is not a stage.
    """
    options: list[dict[str, Any]] = []
    user_stages: list[Any] = []
    for stage in stages:
        if (native := native_options(stage)) is not None:
            _refuse_own_verdicts(stage)
            options.append(native)
        else:
            _check_user_stage(stage)
            options.append({"user": {"index": len(user_stages)}})
            user_stages.append(stage)
    return options, user_stages


def stored_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a stage for JSON, which has no infinity."""
    return {
        kind: {
            name: str(value) if value in (math.inf, -math.inf) else value
            for name, value in values.items()
        }
        for kind, values in options.items()
    }


def _refuse_own_verdicts(stage: Any) -> None:
    if method := own_method(stage, ["keep_images", "map_table", "map_rows", "__call__"]):
        raise OptionError(
            f"{type(stage).__name__} runs in native code, so {method} would have no effect"
            "\nhint: derive the class from ImageStage, or use Map"
        )


def _check_user_stage(stage: Any) -> None:
    if isinstance(stage, type):
        raise OptionError(
            f"{stage.__name__} is a class, not a stage\nhint: create one: {stage.__name__}(…)"
        )
    if isinstance(stage, ImageStage):
        for name, example in (("name", '"my_filter"'), ("drop_invalid_rows", "True")):
            if not hasattr(stage, name):
                raise OptionError(
                    f"{type(stage).__name__} has no {name}\n"
                    f"hint: set it in the class: {name} = {example}"
                )
    elif not hasattr(stage, "kind") or not hasattr(stage, "name"):
        is_function = callable(stage) and not hasattr(stage, "keep_images")
        hint = (
            "wrap a function of tables in Map(function)"
            if is_function
            else "derive its class from ImageStage"
        )
        raise OptionError(f"{stage!r} is not a stage\nhint: {hint}")
