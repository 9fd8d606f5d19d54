"""Rules by which images become tokens of a multimodal model."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from shardmill._choices import check_choice
from shardmill._digests import digest
from shardmill._native import plan as _native
from shardmill._option_values import flag, index_of, whole
from shardmill.data._image_counts import MOST_SIDE, ImageCounts, ImageFunction, counted, sides_of
from shardmill.data._processor_config import PixelValues, rule_of
from shardmill.data._special_tokens import Affix, Token, checked_affix, checked_token
from shardmill.data._token_function import name_of
from shardmill.errors import OptionError

if TYPE_CHECKING:
    import numpy.typing as npt

PixelLayout = Literal["image", "patches", "tiles"]
ImageFit = Literal["crop", "stretch"]

_MOST_PIXELS = _MOST_TOKENS = 2**32 - 1


@dataclass(frozen=True, init=False)
class ImageTokens:
    """How many tokens an image takes, from its height and width alone.

    A rule plans token counts, and reads no pixels; ``Sequences`` resizes images as their rule says,
    and cuts them into patches or tiles. There is a rule for each family of models, and
    ``from_pretrained`` reads it from the files of a model. Counts equal those of the pixels that
    the image processors of transformers 5.23 return.

    For other models, the constructor takes a function.

    Args:
        function: called with two int32 arrays, the heights and widths of images. Returns a dict
            with arrays ``"height"`` and ``"width"``, the sizes that images are resized to,
            ``"tokens"``, and, if ``pixels`` is not ``"image"``, ``"rows"`` and ``"cols"``. An image
            with 0 tokens cannot be planned.
        version: change it whenever the results of the function change.
        pixels: what the vision encoder takes: ``"image"``, or ``rows * cols`` ``"patches"`` or
            ``"tiles"``.
        placeholder: the token that is repeated, by its text or id.
        prefix: text or ids before the tokens of an image, for documents without a chat template.
        suffix: text or ids after them.

    Attributes:
        rule: name of the rule or function.
        parameters: options of the rule.
        texts: further tokens of the rule, such as ``"row_break"``.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import shardmill as sm
        >>> rule = sm.ImageTokens.qwen2_vl()
        >>> rule.count([375, 28, 1], [500, 28, 201]).tokens.tolist()
        [234, 4, 0]
        >>> rule.refusal(1, 201)
        'the aspect ratio is 201.0, and at most 200 is allowed'
        >>> def halves(heights, widths):
        ...     rows, cols = heights // 32 + 1, widths // 32 + 1
        ...     sizes = {"height": rows * 32, "width": cols * 32, "rows": rows, "cols": cols}
        ...     return sizes | {"tokens": rows * cols // 2 + 1}
        >>> sm.ImageTokens(halves, version="1", pixels="patches").count(100, 64).patches.item()
        12
    """

    rule: str
    parameters: dict[str, Any]
    pixels: PixelLayout
    placeholder: Token
    prefix: Affix
    suffix: Affix
    texts: dict[str, Token]
    version: str | None
    function: ImageFunction | None
    _values: PixelValues = field(repr=False, compare=False)

    def __init__(
        self,
        function: ImageFunction,
        *,
        version: str,
        pixels: PixelLayout = "image",
        placeholder: Token = "<image>",
        prefix: Affix = "",
        suffix: Affix = "",
    ) -> None:
        if not callable(function):
            raise OptionError(
                f"ImageTokens takes a function, not {function!r}\n"
                "hint: sm.ImageTokens.from_pretrained(directory) reads the rule of a model"
            )
        if not isinstance(version, str):
            raise OptionError(
                "version must be a string that changes when the results of the function change, "
                f"not {version!r}"
            )
        check_choice("pixels", pixels, PixelLayout)
        affixed = placeholder, prefix, suffix
        self._set(name_of(function), {}, pixels, affixed, version=version, function=function)

    @classmethod
    def qwen2_vl(
        cls,
        *,
        patch_size: int = 14,
        merge_size: int = 2,
        min_pixels: int = 3136,
        max_pixels: int = 1_003_520,
        placeholder: Token = "<|image_pad|>",
        prefix: Affix = "<|vision_start|>",
        suffix: Affix = "<|vision_end|>",
    ) -> Self:
        """Return the rule of Qwen2-VL and Qwen2.5-VL, and with ``patch_size=16`` of Qwen3-VL.

        Sides become multiples of ``patch_size * merge_size``. Images whose aspect ratio is above
        200 cannot be planned.

        Args:
            patch_size: side of a patch in pixels.
            merge_size: side of the square of patches that become one token.
            min_pixels: minimum of height times width. Smaller images are enlarged.
            max_pixels: maximum of height times width, unless a side would become 0.
            placeholder: the token that is repeated.
            prefix: text or ids before it.
            suffix: text or ids after it.

        Raises:
            ValueError: If an option is not valid.
        """
        least = whole("min_pixels", min_pixels, 1, _MOST_PIXELS)
        parameters = {
            "patch_size": _side("patch_size", patch_size),
            "merge_size": _side("merge_size", merge_size),
            "min_pixels": least,
            "max_pixels": whole("max_pixels", max_pixels, least, _MOST_PIXELS),
        }
        return cls._of("qwen2_vl", parameters, "patches", (placeholder, prefix, suffix))

    @classmethod
    def fixed(
        cls,
        size: int | tuple[int, int],
        tokens: int,
        *,
        fit: ImageFit = "crop",
        placeholder: Token = "<image>",
        prefix: Affix = "",
        suffix: Affix = "",
    ) -> Self:
        """Return the rule of models that resize all images to one size: LLaVA, CLIP, SigLIP.

        Args:
            size: side in pixels, or ``(height, width)``.
            tokens: tokens of an image. LLaVA has one for each patch: ``(336 // 14) ** 2``.
            fit: ``"crop"`` resizes the shorter side and crops the center, ``"stretch"`` resizes
                both sides. Counts do not depend on it.
            placeholder: the token that is repeated.
            prefix: text or ids before it.
            suffix: text or ids after it.

        Raises:
            ValueError: If an option is not valid.
        """
        check_choice("fit", fit, ImageFit)
        sides: Any = [size, size] if index_of(size) is not None else size
        if not isinstance(sides, list | tuple) or len(sides) != 2:
            raise OptionError(f"size must be an integer or (height, width), not {size!r}")
        parameters = {
            "size": [_side("size", side) for side in sides],
            "tokens": whole("tokens", tokens, 1, _MOST_TOKENS),
            "fit": fit,
        }
        return cls._of("fixed", parameters, "image", (placeholder, prefix, suffix))

    @classmethod
    def tiles(
        cls,
        *,
        size: int = 448,
        min_tiles: int = 1,
        max_tiles: int = 12,
        tokens_a_tile: int = 256,
        thumbnail: bool = True,
        placeholder: Token = "<IMG_CONTEXT>",
        prefix: Affix = "",
        suffix: Affix = "",
        start: Token = "<img>",
        end: Token = "</img>",
    ) -> Self:
        """Return the rule of InternVL: a grid of square tiles with the nearest aspect ratio.

        Args:
            size: side of a tile in pixels.
            min_tiles: minimum number of tiles, without the thumbnail.
            max_tiles: maximum number of tiles, without the thumbnail.
            tokens_a_tile: tokens of a tile.
            thumbnail: whether the whole image is one more tile, if there are several.
            placeholder: the token that is repeated.
            prefix: text or ids before the tokens of an image.
            suffix: text or ids after them.
            start: first token of an image, which is counted.
            end: last token of an image, which is counted.

        Raises:
            ValueError: If an option is not valid.
        """
        least = whole("min_tiles", min_tiles, 1, 1000)
        parameters = {
            "size": _side("size", size),
            "min_tiles": least,
            "max_tiles": whole("max_tiles", max_tiles, least, 1000),
            "tokens_a_tile": whole("tokens_a_tile", tokens_a_tile, 1, _MOST_TOKENS),
            "thumbnail": flag("thumbnail", thumbnail),
        }
        affixed = placeholder, prefix, suffix
        return cls._of("tiles", parameters, "tiles", affixed, start=start, end=end)

    @classmethod
    def pixtral(
        cls,
        *,
        patch_size: int = 16,
        longest: int = 1024,
        merge_size: int = 1,
        placeholder: Token = "[IMG]",
        prefix: Affix = "",
        suffix: Affix = "",
        row_break: Token = "[IMG_BREAK]",
        end: Token = "[IMG_END]",
    ) -> Self:
        """Return the rule of Pixtral, and with ``merge_size=2`` of Mistral 3.

        Larger images are reduced to ``longest``, and sides become multiples of ``patch_size *
        merge_size``. An image that would be reduced to nothing cannot be planned.

        Args:
            patch_size: side of a patch in pixels.
            longest: maximum length of each side.
            merge_size: side of the square of patches that become one token.
            placeholder: the token that is repeated.
            prefix: text or ids before the tokens of an image.
            suffix: text or ids after them.
            row_break: token after each row except the last, which is counted.
            end: token after the last row, which is counted.

        Raises:
            ValueError: If an option is not valid.
        """
        parameters = {
            "patch_size": _side("patch_size", patch_size),
            "longest": _side("longest", longest),
            "merge_size": _side("merge_size", merge_size),
        }
        affixed = placeholder, prefix, suffix
        return cls._of("pixtral", parameters, "image", affixed, row_break=row_break, end=end)

    @classmethod
    def idefics3(
        cls,
        *,
        longest: int = 1456,
        tile: int = 364,
        tokens_a_tile: int = 169,
        splitting: bool = True,
        blank_line_tokens: int = 1,
        placeholder: Token = "<image>",
        prefix: Affix = "",
        suffix: Affix = "",
        start: Token = "<fake_token_around_image>",
        overview: Token = "<global-img>",
        end: Token = "<fake_token_around_image>",
    ) -> Self:
        r"""Return the rule of Idefics3 and SmolVLM: rows of tiles, then the whole image.

        Each tile has ``start``, a tag such as ``<row_1_col_2>`` and its tokens. The tags and the
        line breaks between rows are counted as one token each.

        Args:
            longest: length that the longer side is resized to.
            tile: side of a tile in pixels.
            tokens_a_tile: tokens of a tile.
            splitting: without it, the whole image is the only tile.
            blank_line_tokens: length of ``tokenizer.encode("\n\n")``.
            placeholder: the token that is repeated.
            prefix: text or ids before the tokens of an image.
            suffix: text or ids after them.
            start: first token of each tile.
            overview: tag of the whole image.
            end: last token of an image.

        Raises:
            ValueError: If an option is not valid.
        """
        parameters = {
            "longest": _side("longest", longest),
            "tile": _side("tile", tile),
            "tokens_a_tile": whole("tokens_a_tile", tokens_a_tile, 1, _MOST_TOKENS),
            "splitting": flag("splitting", splitting),
            "blank_line_tokens": whole("blank_line_tokens", blank_line_tokens, 1, 2),
        }
        texts = {"start": start, "overview": overview, "end": end}
        return cls._of("idefics3", parameters, "tiles", (placeholder, prefix, suffix), **texts)

    @classmethod
    def siglip2(
        cls,
        *,
        patch_size: int = 16,
        max_patches: int = 256,
        tokens: int | None = None,
        placeholder: Token = "<image>",
        prefix: Affix = "",
        suffix: Affix = "",
    ) -> Self:
        """Return the rule of SigLIP 2 with native aspect ratio (NaFlex).

        Images are resized to have as many patches as ``max_patches`` allows.

        Args:
            patch_size: side of a patch in pixels.
            max_patches: maximum number of patches.
            tokens: tokens of an image; by default, one for each patch.
            placeholder: the token that is repeated.
            prefix: text or ids before it.
            suffix: text or ids after it.

        Raises:
            ValueError: If an option is not valid.
        """
        parameters = {
            "patch_size": _side("patch_size", patch_size),
            "max_patches": whole("max_patches", max_patches, 1, _MOST_PIXELS),
            "tokens": None if tokens is None else whole("tokens", tokens, 1, _MOST_TOKENS),
        }
        return cls._of("siglip2", parameters, "patches", (placeholder, prefix, suffix))

    @classmethod
    def from_pretrained(cls, directory: str | os.PathLike[str]) -> Self:
        """Return the rule of a model, from the files of its processor.

        Reads ``preprocessor_config.json``, ``processor_config.json`` and ``tokenizer_config.json``,
        and for Idefics3 and SmolVLM ``tokenizer.json`` if there is one; transformers is not
        imported. The known processors are those of Qwen2-VL, Qwen2.5-VL and Qwen3-VL, LLaVA,
        InternVL, Pixtral and Mistral 3, Idefics3, SmolVLM, and the image processor of SigLIP 2.
        ``Sequences`` also takes from them how pixels are resized and normalized.

        Args:
            directory: the directory of the files.

        Raises:
            FileNotFoundError: If there are no such files.
            ValueError: If a file is not valid, or the processor or one of its settings is unknown.

        Examples:
            >>> import json, os, shardmill as sm
            >>> from pathlib import Path
            >>> kind = {"image_processor_type": "Qwen2VLImageProcessor"}
            >>> config = {**kind, "processor_class": "Qwen3VLProcessor", "patch_size": 16}
            >>> os.makedirs("model")
            >>> _ = Path("model/preprocessor_config.json").write_text(json.dumps(config))
            >>> sm.ImageTokens.from_pretrained("model").parameters["patch_size"]
            16
        """
        name, options, values = rule_of(directory)
        rule = getattr(cls, name)(**options)
        object.__setattr__(rule, "_values", values)
        return rule

    @property
    def fingerprint(self) -> str:
        """Hexadecimal digest of the rule with its version, parameters and tokens."""
        version = _native.RULES_VERSION if self.version is None else self.version
        tokens = [self.placeholder, self.prefix, self.suffix, self.texts]
        return digest([self.rule, version, self.parameters, self.pixels, tokens])

    def count(self, heights: npt.ArrayLike, widths: npt.ArrayLike) -> ImageCounts:
        """Return the sizes, tokens and patches of images.

        The result is a named tuple of int32 arrays of the shape of the heights. ``height`` and
        ``width`` are what an image is resized to; for tiles, the size of their grid. ``tokens``
        replace its placeholder; prefix and suffix are not included. ``patches`` are what the vision
        encoder takes: patches, tiles, or for ``fixed`` one image. ``rows`` and ``cols`` are the
        grid of patches or tiles; for ``pixtral``, of merged patches. All are 0 for an image that
        cannot be planned.

        Args:
            heights: heights in pixels, as images are seen: after their orientation is applied.
            widths: widths in pixels. The shape is that of the heights.

        Raises:
            ValueError: If heights or widths are not integers or their shapes differ, or the result
                of the function is not valid.
        """
        sides = sides_of(heights, widths)
        flat = sides.reshape(2, -1)
        if self.function is None:
            numbers = self._native.plan_all(*flat)
        else:
            numbers = counted(self.function, self.rule, flat, has_grid=self.pixels != "image")
        return ImageCounts(*numbers.reshape(6, *sides.shape[1:]))

    def refusal(self, height: int, width: int) -> str | None:
        """Return why an image of this size cannot be planned, or ``None`` if it can."""
        limits = -(2**31), 2**31 - 1
        sides = whole("height", height, *limits), whole("width", width, *limits)
        if self.function is None or not all(1 <= side <= MOST_SIDE for side in sides):
            return self._native.refusal(*sides)
        return None if self.count(*sides).tokens else f"{self.rule} returns 0 tokens"

    def expansion(self, height: int, width: int) -> list[tuple[Token, int]]:
        """Return what replaces the placeholder of an image: tokens in order, with repetitions.

        A line break between tokens is given as its text. ``prefix`` and ``suffix`` are not
        included.

        Raises:
            ValueError: If the image cannot be planned; see ``refusal``.

        Examples:
            >>> import shardmill as sm
            >>> sm.ImageTokens.tiles().expansion(448, 448)
            [('<img>', 1), ('<IMG_CONTEXT>', 256), ('</img>', 1)]
        """
        if (cause := self.refusal(height, width)) is not None:
            raise OptionError(f"an image of {height} x {width} pixels cannot be planned: {cause}")
        if self.function is not None:
            return [(self.placeholder, int(self.count(height, width).tokens))]
        texts = {"placeholder": self.placeholder, **self.texts}
        pieces = self._native.expansion(height, width)
        return [(texts.get(piece, piece), count) for piece, count in pieces]

    @classmethod
    def _of(
        cls,
        rule: str,
        parameters: dict[str, Any],
        pixels: PixelLayout,
        affixed: tuple[Token, Affix, Affix],
        **texts: Token,
    ) -> Self:
        made = cls.__new__(cls)
        made._set(rule, parameters, pixels, affixed, texts=texts)
        return made

    def _set(
        self,
        rule: str,
        parameters: dict[str, Any],
        pixels: PixelLayout,
        affixed: tuple[Token, Affix, Affix],
        *,
        texts: dict[str, Token] | None = None,
        version: str | None = None,
        function: ImageFunction | None = None,
    ) -> None:
        values = {
            "rule": rule,
            "parameters": parameters,
            "pixels": pixels,
            "placeholder": checked_token("placeholder", affixed[0]),
            "prefix": checked_affix("prefix", affixed[1]),
            "suffix": checked_affix("suffix", affixed[2]),
            "texts": {name: checked_token(name, text) for name, text in (texts or {}).items()},
            "version": version,
            "function": function,
            "_values": PixelValues(),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def _native(self) -> _native.ImageRule:
        # Any rule checks the sides.
        if self.function is not None:
            return _native.ImageRule({"rule": "fixed", "size": [1, 1], "tokens": 1})
        return _native.ImageRule(native_rule(self))


def native_rule(images: ImageTokens) -> dict[str, Any]:
    """Return the options of a rule for native code."""
    parameters = {name: value for name, value in images.parameters.items() if name != "fit"}
    return {"rule": images.rule, **parameters}


def native_pieces(images: ImageTokens) -> list[str]:
    """Return the names of the pieces that an image may become, besides placeholders."""
    return _native.ImageRule(native_rule(images)).pieces()


def _side(name: str, value: Any) -> int:
    return whole(name, value, 1, MOST_SIDE)


def pixel_values(images: ImageTokens) -> PixelValues:
    """Return how the model of a rule computes pixels, for the module that renders them."""
    return images._values  # pyright: ignore[reportPrivateUsage]
