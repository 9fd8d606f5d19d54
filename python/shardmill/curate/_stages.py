"""The stages of a pipeline, checked and translated for the native driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill.curate._filters import ImageStage, NativeStage, ReencodeImages
from shardmill.data._own_methods import own_method
from shardmill.errors import OptionError


def stage_options(stages: Sequence[Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the stages for the native driver: a list of options, and the Python objects that they refer to.

    Raises:
        OptionError: If an object is not a stage.
    """
    options: list[dict[str, Any]] = []
    user_stages: list[Any] = []
    for stage in stages:
        _check_stage(stage)
        if isinstance(stage, NativeStage) or (isinstance(stage, ReencodeImages) and stage._is_native):
            options.append(stage._options())
        else:
            options.append({"user": {"index": len(user_stages)}})
            user_stages.append(stage)
    return options, user_stages


def _check_stage(stage: Any) -> None:
    if isinstance(stage, type):
        raise OptionError(f"{stage.__name__} is a class, not a stage\nhint: create one: {stage.__name__}(…)")
    kind = type(stage).__name__
    is_native = isinstance(stage, NativeStage | ReencodeImages)
    if is_native and (method := own_method(stage, ["keep_images", "map_table", "__call__"])):
        raise OptionError(
            f"{kind} is a filter of native code, so {method} would have no effect\nhint: derive the class from ImageStage"
        )
    if isinstance(stage, ImageStage):
        for name, example in (("name", '"my_filter"'), ("drop_invalid_rows", "True")):
            if not hasattr(stage, name):
                raise OptionError(f"{kind} has no {name}\nhint: set it in the class: {name} = {example}")
    if not hasattr(stage, "kind") or not hasattr(stage, "name"):
        hint = "derive the class of a filter of images from ImageStage"
        if callable(stage):
            hint = "wrap a function of tables in Map(function)"
        raise OptionError(f"{stage!r} is not a stage\nhint: {hint}")
