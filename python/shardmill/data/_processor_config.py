"""Rules of image tokens, from the files of processors of transformers 5.23."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from shardmill._option_values import index_of
from shardmill.data._images import statistics
from shardmill.data._tokenizer import Tokenizer
from shardmill.errors import FormatError, NotFoundError, OptionError

_CONFIG = "preprocessor_config.json"
_PROCESSOR = "processor_config.json"
_TOKENIZER = "tokenizer_config.json"

#: Keys that change neither sizes nor counts, and keys that published files have and no image
#: processor reads.
_NEUTRAL = frozenset(
    (
        *("auto_map", "backend", "data_format", "default_to_square", "device"),
        *("disable_grouping", "do_convert_rgb"),
        *("feature_extractor_type", "image_processor_type", "image_seq_length"),
        *("input_data_format", "processor_class"),
        *("return_row_col_info", "return_tensors", "temporal_patch_size", "use_fast"),
        *("_valid_processor_keys", "video_sampling"),
    )
)

_HINT = (
    "hint: use a constructor such as sm.ImageTokens.fixed(size, tokens), or a function: "
    "sm.ImageTokens(function, version='1')"
)


class _Section:
    """An object of a file, whose keys are taken one by one.

    Null is a value for transformers: it turns a flag off, and fails as a number.
    """

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, dict):
            raise OptionError(f"{where} must be a JSON object, not {values!r}")
        self.values = dict(values)
        self.where = where

    def take(self, key: str, default: Any = None) -> Any:
        return self.values.pop(key, default)

    def number(self, key: str, default: int | None = None) -> int:
        if key not in self.values and default is None:
            raise OptionError(f"{self.where} has no {key}\n{_HINT}")
        value = self.take(key, default)
        number = index_of(value)
        if number is None or not 0 <= number < 2**32:
            raise OptionError(f"{key} of {self.where} must be a positive integer, not {value!r}")
        return number

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default)
        if not isinstance(value, bool | None):
            raise OptionError(f"{key} of {self.where} must be true or false, not {value!r}")
        return bool(value)

    def part(self, key: str, default: dict[str, int]) -> _Section:
        """Return an object, which for a size may also be one number: that of a square."""
        value = self.take(key, default)
        square = index_of(value)
        value = value if square is None else {"height": square, "width": square}
        return _Section(value, f"{key} of {self.where}")

    def side(self, key: str, default: dict[str, int]) -> int:
        """Return the side of a square."""
        part = self.part(key, default)
        height, width = part.number("height"), part.number("width")
        part.check_empty()
        if height != width:
            self.refuse(f"{key} {height} x {width}, which is not a square")
        return height

    def longest_edge(self, key: str, default: int) -> int:
        part = self.part(key, {"longest_edge": default})
        edge = part.number("longest_edge")
        part.check_empty()
        return edge

    def check_empty(self) -> None:
        for key, value in self.values.items():
            if value is not None:
                self.refuse(f"the key {key} ({json.dumps(value)[:80]})")

    def refuse(self, what: str) -> NoReturn:
        raise OptionError(
            f"{self.where} has {what}, which sm.ImageTokens does not support\n{_HINT}"
        )


class PixelValues(NamedTuple):
    """How a processor computes pixels. ``None`` is what the rule says.

    Attributes:
        normalize: mean and standard deviation of each channel.
        resample: the filter of the resize.
    """

    normalize: tuple[Any, Any] | str | None = None
    resample: str | None = None


class _Files(NamedTuple):
    image: _Section
    processor: _Section
    #: Name of the class of the processor.
    kind: str | None
    #: Names of tokens of the tokenizer, with their texts.
    tokens: dict[str, str]
    directory: Path


def rule_of(directory: Any) -> tuple[str, dict[str, Any], PixelValues]:
    """Return the name of a constructor of ``ImageTokens``, its arguments, and what pixels are.

    Raises:
        FileNotFoundError: If there are no files.
        ValueError: If a file is not valid, or the processor or a setting is unknown.
    """
    if not isinstance(directory, str | os.PathLike):
        raise OptionError(f"directory must be the path of a directory, not {directory!r}")
    files = _read(Path(directory))
    image = files.image
    kind = image.values.get("image_processor_type") or image.values.get("feature_extractor_type")
    if kind is None:
        raise OptionError(f"{image.where} has no image_processor_type\n{_HINT}")
    base = str(kind).replace("FeatureExtractor", "ImageProcessor")
    base = base.removesuffix("Fast").removesuffix("Pil")
    if base not in _READERS:
        image.refuse(f"the image_processor_type {kind!r}")
    reader, processors = _READERS[base]
    if files.kind not in processors:
        image.refuse(f"an image_processor_type {kind!r} with the processor_class {files.kind!r}")
    if not image.flag("do_resize", True):
        image.refuse("do_resize false or null")
    name, options = reader(files)
    values = _pixel_values(image, _DEFAULT_VALUES.get(base))
    for key in _NEUTRAL:
        image.take(key)
    for key in ("do_center_crop", "do_pad"):
        if image.flag(key, False):
            image.refuse(f"{key} true")
    image.check_empty()
    return name, options, values


def _pixel_values(image: _Section, default: str | None) -> PixelValues:
    """Return how pixels are resized and normalized; ``default`` is that of the class."""
    factor = image.take("rescale_factor", 1 / 255)
    if not image.flag("do_rescale", True):
        image.refuse("do_rescale false or null")
    if not isinstance(factor, float | int) or not math.isclose(factor, 1 / 255, rel_tol=1e-6):
        image.refuse(f"the rescale_factor {factor!r}, which is not 1/255")
    mean, std = image.take("image_mean"), image.take("image_std")
    resample = image.take("resample")
    if resample is not None and resample not in range(len(_FILTERS)):
        image.refuse(f"the resample {resample!r}")
    name = None if resample is None else _FILTERS[resample]
    if not image.flag("do_normalize", True):
        return PixelValues(((0.0,) * 3, (1.0,) * 3), name)
    if (mean is None) != (std is None):
        image.refuse("one of image_mean and image_std")
    return PixelValues(default if mean is None else statistics((mean, std), 3), name)


def _read(directory: Path) -> _Files:
    contents = {name: _content(directory / name) for name in (_CONFIG, _PROCESSOR, _TOKENIZER)}
    processor, tokenizer = (
        _Section(contents[name] or {}, f"`{directory / name}`") for name in (_PROCESSOR, _TOKENIZER)
    )
    nested = processor.take("image_processor")
    config = contents[_CONFIG] if nested is None else nested
    if config is None:
        missing = f"No {_CONFIG} in" if directory.is_dir() else "There is no directory"
        raise NotFoundError(
            f"{missing} `{directory}`\n"
            "hint: check the path, or download the files first: "
            f"hf download REPOSITORY --include '*.json' --local-dir DIR, and pass DIR"
        )
    where = (
        f"`{directory / _CONFIG}`" if nested is None else f"image_processor of {processor.where}"
    )
    image = _Section(config, where)
    sections = (processor, image, tokenizer)
    kinds = (section.values.get("processor_class") for section in sections)
    kind = next((str(kind) for kind in kinds if kind is not None), None)
    return _Files(image, processor, kind, _named_tokens(tokenizer), directory)


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"`{path}` is not valid JSON: {error}") from error


def _named_tokens(tokenizer: _Section) -> dict[str, str]:
    """Return the tokens that a tokenizer has under a name of their own."""
    named = dict(tokenizer.values)
    for key in ("extra_special_tokens", "model_specific_special_tokens"):
        more = named.pop(key, None)
        named |= more if isinstance(more, dict) else {}
    texts = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in named.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _qwen2_vl(files: _Files) -> tuple[str, dict[str, Any]]:
    image = files.image
    if image.values.get("size") is None:
        image.take("size")
    size = image.part("size", {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280})
    limits = dict[str, int]()
    # The keys outside of the size have priority, and remove their namesakes inside.
    for name, edge in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):
        if (value := image.take(name)) is not None:
            size.values[edge] = value
            size.take(name)
        limits[name] = size.number(edge)
    size.check_empty()
    return "qwen2_vl", {
        "patch_size": image.number("patch_size", 14),
        "merge_size": image.number("merge_size", 2),
        **limits,
        "placeholder": files.tokens.get("image_token", "<|image_pad|>"),
    }


def _fixed(files: _Files) -> tuple[str, dict[str, Any]]:
    image, processor = files.image, files.processor
    is_siglip = "Siglip" in str(image.values.get("image_processor_type"))
    edge = image.values.get("size")
    if index_of(edge) is not None and image.values.get("default_to_square") is not True:
        image.values["size"] = {"shortest_edge": edge}
    square = {"height": 224, "width": 224}
    size = image.part("size", square if is_siglip else {"shortest_edge": 224})
    is_edge = "shortest_edge" in size.values
    keys = ["shortest_edge"] if is_edge else ["height", "width"]
    sides = [size.number(key) for key in keys] * (2 if is_edge else 1)
    size.check_empty()
    if image.flag("do_center_crop", not is_siglip):
        crop = image.part("crop_size", square)
        cropped = [crop.number("height"), crop.number("width")]
        crop.check_empty()
        if cropped != sides:
            image.refuse(f"a crop_size {cropped} that differs from size {sides}")
    elif is_edge:
        image.refuse("a shortest_edge without do_center_crop")
    image.take("crop_size")
    patch = processor.number("patch_size")
    if patch == 0:
        processor.refuse("patch_size 0")
    tokens = (sides[0] // patch) * (sides[1] // patch)
    tokens += processor.number("num_additional_image_tokens", 0)
    tokens -= processor.take("vision_feature_select_strategy") == "default"
    placeholder = files.tokens.get("image_token", processor.take("image_token", "<image>"))
    return "fixed", {
        "size": (sides[0], sides[1]),
        "tokens": tokens,
        "fit": "crop" if is_edge else "stretch",
        "placeholder": placeholder,
    }


def _tiles(files: _Files) -> tuple[str, dict[str, Any]]:
    image = files.image
    # InternVLProcessor sets it, whatever the file says.
    image.take("crop_to_patches")
    return "tiles", {
        "size": image.side("size", {"height": 384, "width": 384}),
        "min_tiles": image.number("min_patches", 1),
        "max_tiles": image.number("max_patches", 12),
        "tokens_a_tile": files.processor.number("image_seq_length", 256),
        "placeholder": files.tokens.get("context_image_token", "<IMG_CONTEXT>"),
        "start": files.tokens.get("start_image_token", "<img>"),
        "end": files.tokens.get("end_image_token", "</img>"),
    }


def _pixtral(files: _Files) -> tuple[str, dict[str, Any]]:
    image, processor = files.image, files.processor
    image.take("do_pad")
    patch = image.side("patch_size", {"height": 16, "width": 16})
    # The processor passes its own, whatever the file of the image processor says.
    if files.kind is not None:
        patch = processor.number("patch_size", 16)
    size = image.values.get("size")
    is_square = isinstance(size, dict) and "longest_edge" not in size
    texts = {"placeholder": "image", "row_break": "image_break", "end": "image_end"}
    return "pixtral", {
        "patch_size": patch,
        "merge_size": processor.number("spatial_merge_size", 1),
        "longest": image.side("size", {}) if is_square else image.longest_edge("size", 1024),
        **{
            name: processor.take(f"{key}_token")
            for name, key in texts.items()
            if f"{key}_token" in processor.values
        },
    }


def _idefics3(files: _Files) -> tuple[str, dict[str, Any]]:
    image = files.image
    image.take("do_pad")
    # Idefics3Processor has names of its own.
    tokens = files.tokens if files.kind == "SmolVLMProcessor" else {}
    around = tokens.get("fake_image_token", "<fake_token_around_image>")
    return "idefics3", {
        "longest": image.longest_edge("size", 4 * 364),
        "tile": image.longest_edge("max_image_size", 364),
        "splitting": image.flag("do_image_splitting", True),
        "tokens_a_tile": files.processor.number("image_seq_len", 169),
        "blank_line_tokens": _blank_line_tokens(files.directory),
        "placeholder": tokens.get("image_token", "<image>"),
        "start": around,
        "overview": tokens.get("global_image_token", "<global-img>"),
        "end": around,
    }


def _blank_line_tokens(directory: Path) -> int:
    """Return the number of tokens of an empty line, or 1 if there is no tokenizer."""
    if not (directory / "tokenizer.json").is_file():
        return 1
    return len(Tokenizer(directory).encode("\n\n"))


def _siglip2(files: _Files) -> tuple[str, dict[str, Any]]:
    image = files.image
    return "siglip2", {
        "patch_size": image.number("patch_size", 16),
        "max_patches": image.number("max_num_patches", 256),
    }


_QWEN = {"Qwen2VLProcessor", "Qwen2_5_VLProcessor", "Qwen3VLProcessor", None}

#: Filters by the numbers that Pillow gives them.
_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")

#: What pixels are normalized with if the files do not say it, for rules of several processors.
_DEFAULT_VALUES = {
    "CLIPImageProcessor": "clip",
    "LlavaImageProcessor": "clip",
    "SiglipImageProcessor": "siglip",
    "GotOcr2ImageProcessor": "clip",
}

#: By the class of the image processor, with the classes of processors that it may belong to.
_READERS: dict[str, tuple[Callable[[_Files], tuple[str, dict[str, Any]]], set[str | None]]] = {
    "Qwen2VLImageProcessor": (_qwen2_vl, _QWEN),
    **dict.fromkeys(
        ("CLIPImageProcessor", "LlavaImageProcessor", "SiglipImageProcessor"),
        (_fixed, {"LlavaProcessor"}),
    ),
    "GotOcr2ImageProcessor": (_tiles, {"InternVLProcessor"}),
    "PixtralImageProcessor": (_pixtral, {"PixtralProcessor", None}),
    **dict.fromkeys(
        ("Idefics3ImageProcessor", "SmolVLMImageProcessor"),
        (_idefics3, {"Idefics3Processor", "SmolVLMProcessor"}),
    ),
    "Siglip2ImageProcessor": (_siglip2, {"Siglip2Processor", None}),
}
