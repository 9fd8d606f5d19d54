"""Image processors of transformers, as oracles of the rules of image tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from breadth import examples
from PIL import Image

#: Sides at which rules round, clip or refuse.
_EXTREMES = [1, 2, 3, 5, 13, 14, 15, 27, 28, 29, 201, 401]


def image_processor(model: str, name: str, **options: Any) -> Any:
    """The image processor of a model, with the backend that needs Pillow alone."""
    module = import_module(f"transformers.models.{model}.image_processing_pil_{model}")
    return getattr(module, f"{name}ImageProcessorPil")(**options)


def replaced(model: str, name: str, processor: SimpleNamespace, inputs: Any, image: int = 0) -> str:
    """The text that a processor writes in place of the placeholder of an image."""
    module = import_module(f"transformers.models.{model}.processing_{model}")
    return getattr(module, f"{name}Processor").replace_image_token(processor, inputs, image)


def sizes(seed: int) -> Iterator[tuple[int, int]]:
    """Random heights and widths, with extreme ratios and sides."""
    yield from [(1, 200), (1, 201), (402, 2), (1, 401), (1, 1), (3, 1)]
    rng = random.Random(seed)
    for number in range(examples(1000, 48)):
        side = [rng.randint(1, 400), rng.choice(_EXTREMES), rng.randint(1, 60)]
        height, width = side[number % 3], side[number % 2]
        yield (height, width) if rng.random() < 0.5 else (width, height)


def processed(processor: Any, height: int, width: int, **options: Any) -> Any:
    """What an image processor returns for an image, and ``targets``: all sizes it resizes to.

    ``None`` if it raises.
    """
    from transformers.image_processing_backends import PilBackend

    resize = PilBackend.resize
    image = Image.new("RGB", (width, height))
    with patch.object(PilBackend, "resize", autospec=True, side_effect=resize) as resized:
        try:
            inputs = processor(image, input_data_format="channels_last", **options)
        except ValueError:
            return None
    calls = [signature(resize).bind(*call.args, **call.kwargs) for call in resized.call_args_list]
    targets = [call.arguments["size"] for call in calls]
    return inputs | {"targets": [(size.height, size.width) for size in targets]}
