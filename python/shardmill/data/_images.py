"""Images as columns of pixels that a data set computes from encoded bytes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple

from shardmill._choices import check_choice, check_fields
from shardmill._digests import digest
from shardmill._native import pixels as _native
from shardmill._option_values import checked_seed, index_of, whole
from shardmill.errors import NotFoundError, OptionError
from shardmill.storage._paths import PathLike

FitName = Literal["crop", "stretch", "pad", "longest", "keep"]
Resample = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
DecodeMode = Literal["exact", "fast", "draft"]
PixelType = Literal["uint8", "float32", "bfloat16"]
Layout = Literal["CHW", "HWC", "bytes"]
Channels = Literal["RGB", "L"]
DamagedImages = Literal["raise", "accept"]
ImageSource = Literal["bytes", "path", "url"]
Normalization = Literal["imagenet", "clip", "siglip"]

#: Pillow's ``MAX_IMAGE_PIXELS``.
MOST_PIXELS = 89_478_485

_COLORS = {
    "white": (255, 255, 255),
    "black": (0, 0, 0),
    "gray": (128, 128, 128),
    "grey": (128, 128, 128),
}

_STATISTICS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "siglip": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}


@dataclass(frozen=True)
class RandomCrop:
    """A random part of each image, resized to ``size``.

    The part is chosen as by ``RandomResizedCrop`` of torchvision. It does not depend on the number
    of ranks and threads, and does not change after a resume.

    Attributes:
        scale: least and largest area of the part, as fractions of the area of the image.
        ratio: least and largest aspect ratio of the part, width over height.

    Examples:
        >>> import shardmill as sm
        >>> sm.Images("image", size=224, fit=sm.RandomCrop(scale=(0.2, 1.0))).fit.scale
        (0.2, 1.0)
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        for name, most in (("scale", 1.0), ("ratio", math.inf)):
            pair = getattr(self, name)
            values: list[Any] = (
                list(pair) if isinstance(pair, Sequence) and not isinstance(pair, str) else []
            )
            are_numbers = all(isinstance(value, Real) and math.isfinite(value) for value in values)
            if len(values) != 2 or not are_numbers or not 0 < values[0] <= values[1] <= most:
                limits = "above 0" if most == math.inf else "above 0 and up to 1"
                raise OptionError(
                    f"{name} must be two ascending numbers {limits}, "
                    f"such as (0.2, 1.0), not {pair!r}"
                )
            object.__setattr__(self, name, (float(values[0]), float(values[1])))


@dataclass(frozen=True)
class ImagePaths:
    """Image files whose paths are in the rows.

    The paths are a column of strings, or the field ``path`` of structs whose ``bytes`` are null.

    Attributes:
        root: directory that paths are relative to; by default, that of the data set. Absolute
            paths, ``..``, and links that leave the directory are rejected.

    Raises:
        FileNotFoundError: If ``root`` is not a directory.

    Examples:
        >>> import os, shardmill as sm
        >>> os.makedirs("photos")
        >>> sm.Images("file", size=224, source=sm.ImagePaths(root="photos")).source
        ImagePaths(root='photos')
    """

    root: PathLike | None = None

    def __post_init__(self) -> None:
        if self.root is None:
            return
        if not isinstance(self.root, str | os.PathLike):
            raise OptionError(f"ImagePaths.root must be a directory, not {self.root!r}")
        root = os.fspath(self.root)
        if "://" not in root and not Path(root).is_dir():
            raise NotFoundError(f"ImagePaths.root {root!r} is not a directory")
        object.__setattr__(self, "root", root)


class Geometry(NamedTuple):
    """Which part of an image becomes which pixels."""

    #: Top, left, height and width of the part that is resized, in pixels of the oriented image.
    box: tuple[int, int, int, int]
    #: Height and width of the result.
    target: tuple[int, int]
    #: Whether the result is flipped horizontally.
    flip: bool


@dataclass(frozen=True, init=False)
class Images:
    """How a ``Dataset`` computes pixels from the encoded images of a column.

    The pixels replace the column. They are computed by the threads of the loader, for the rows of a
    batch only, and equal those of Pillow 13: ``open``, ``exif_transpose``, alpha composited on
    ``background``, ``convert``, ``resize``, crop. JPEG, PNG, WebP, GIF, BMP and TIFF are decoded;
    the format is detected from the first bytes.

    With a fixed size, the column is an array ``[rows, 3, height, width]``. With ``fit="longest"``
    or ``"keep"`` the sizes vary: the column is a ``Ragged`` of flat pixels, and ``<name>__shape``
    has height and width of each image.

    The images of a column of lists are a ``Ragged`` by row, and each has a random crop and a flip
    of its own. One bad image in a list makes the row bad.

    Args:
        column: a column of bytes, of structs with a field ``bytes``, as Hugging Face data sets
            have, of strings with ``source``, or of lists of these. May be a path into structs, such
            as ``"meta.photo"``.
        size: side of the result in pixels, or ``(height, width)``. Not for ``fit="keep"``.
        fit: ``"crop"`` resizes the shorter side to ``size`` and crops the center, as ``Resize`` and
            ``CenterCrop`` of torchvision do; ``"stretch"`` resizes both sides; ``"pad"`` resizes
            the longer side, and centers the image on ``background``; ``"longest"`` resizes the
            longer side; ``"keep"`` does not resize. A ``RandomCrop`` takes a random part.
        resample: the Pillow filter. All filters except ``"nearest"`` are antialiased.
        mode: ``"exact"`` equals Pillow. ``"fast"`` and ``"draft"`` decode JPEG at 1/2, 1/4 or 1/8
            of its size if the result is small enough; ``"draft"`` uses the scale that
            ``Image.draft`` of Pillow chooses.
        flip: probability of a horizontal flip.
        dtype: type of the pixels. ``"bfloat16"`` is for torch batches.
        normalize: mean and standard deviation to normalize floats with: ``"imagenet"``, ``"clip"``,
            ``"siglip"``, or ``(mean, std)``, each a number or one for each channel. Without it,
            floats are from 0 to 1.
        layout: order of the dimensions of an image. ``"bytes"`` decodes nothing, for decoding on a
            GPU: the column is a ``Ragged`` of the encoded bytes. The int32 column
            ``<name>__geometry`` has eight numbers per image: oriented height and width; top, left,
            height and width of the region to resize, the whole image unless ``fit`` is a
            ``RandomCrop``; 1 if the image is flipped, else 0; and the orientation.
        channels: ``"RGB"``, or ``"L"`` for one gray channel.
        background: color under transparent pixels and around padded images: ``"white"``,
            ``"black"`` or ``"gray"``, three numbers, or ``None`` to drop alpha as Pillow's
            ``convert`` does; padding is then white.
        orientation: apply the orientation in EXIF or XMP.
        source: where to read images whose bytes are not in the data. ``"path"``, or ``ImagePaths``
            with its root, reads files. ``"url"`` reads URLs, with the options and the cache of
            their stores, which ``shardmill.storage.configure`` sets; use it only if you trust the
            authors of the data.
        max_pixels: maximum of height times width. Larger images are bad; the size is checked before
            memory is allocated. Decoding takes up to 12 bytes of memory per pixel.
        damaged: ``"raise"`` treats images that the decoder patches up, such as JPEG data with bad
            codes, as bad. ``"accept"`` returns them, as Pillow does, and also a PNG that lacks
            chunks after its pixels. Any other file that ends early is always bad, even a JPEG that
            lacks only its end marker.
        on_error: how to handle a bad image. By default, the error policy of the loader applies.
            ``"null"`` fills the image with ``background`` and adds a boolean column
            ``<name>__valid``.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import shardmill as sm
        >>> images = sm.Images("image", size=224, fit=sm.RandomCrop(), flip=0.5)
        >>> images.geometry(480, 640, seed=7, epoch=1, row=3).target
        (224, 224)
    """

    column: str
    size: tuple[int, int] | None
    fit: FitName | RandomCrop
    resample: Resample
    mode: DecodeMode
    flip: float
    dtype: PixelType
    normalize: tuple[tuple[float, ...], tuple[float, ...]] | None
    layout: Layout
    channels: Channels
    background: tuple[int, int, int] | None
    orientation: bool
    source: ImageSource | ImagePaths
    max_pixels: int
    damaged: DamagedImages
    on_error: Literal["null"] | None

    def __init__(
        self,
        column: str,
        *,
        size: int | tuple[int, int] | None = None,
        fit: FitName | RandomCrop = "crop",
        resample: Resample = "bilinear",
        mode: DecodeMode = "exact",
        flip: float = 0.0,
        dtype: PixelType = "uint8",
        normalize: Normalization | tuple[Any, Any] | None = None,
        layout: Layout = "CHW",
        channels: Channels = "RGB",
        background: str | tuple[int, int, int] | None = "white",
        orientation: bool = True,
        source: ImageSource | ImagePaths = "bytes",
        max_pixels: int = MOST_PIXELS,
        damaged: DamagedImages = "raise",
        on_error: Literal["null"] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        if not isinstance(column, str) or not column:
            raise OptionError(f"column must be the name of a column, not {column!r}")
        if not isinstance(fit, RandomCrop) and (
            isinstance(fit, type) or fit not in FitName.__args__
        ):
            names = ", ".join(map(repr, FitName.__args__))
            raise OptionError(f"fit must be one of {names} or a RandomCrop, not {fit!r}")
        if on_error not in (None, "null"):
            raise OptionError(
                f"on_error must be None or 'null', not {on_error!r}\n"
                "hint: errors=sm.ErrorPolicy(rows='skip') "
                "on the loader leaves rows with bad images out"
            )
        check_fields(Images, given)
        if not isinstance(source, ImagePaths):
            check_choice("source", source, ImageSource)
        if isinstance(flip, bool) or not isinstance(flip, Real) or not 0 <= flip <= 1:
            raise OptionError(f"flip must be a probability from 0 to 1, not {flip!r}")
        if normalize is not None and dtype == "uint8":
            raise OptionError("normalize needs dtype='float32' or 'bfloat16'")
        if layout == "bytes" and (dtype != "uint8" or normalize is not None):
            raise OptionError(
                "layout='bytes' delivers encoded images, which have no dtype and no normalize"
            )
        values = given | {
            "size": _checked_size(size, fit),
            "flip": float(flip),
            "normalize": None
            if normalize is None
            else statistics(normalize, 1 if channels == "L" else 3),
            "background": _color(background),
            "source": ImagePaths() if source == "path" else source,
            "max_pixels": whole("max_pixels", max_pixels, 1),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that are computed."""
        return self._native.outputs

    @property
    def fingerprint(self) -> str:
        """Hexadecimal digest of the options that decide the pixels."""
        return digest([_native.AUGMENT_VERSION, self._settings])

    def geometry(
        self, height: int, width: int, *, seed: int = 0, epoch: int = 0, row: int = 0, item: int = 0
    ) -> Geometry:
        """Return the region of an image that is resized, and whether the image is flipped.

        The image is not read. The result is that of a data set outside a mixture.

        Args:
            height: height of the oriented image in pixels.
            width: width of the oriented image in pixels.
            seed: the seed of the loader. For a mixture, this is the geometry of its first source.
            epoch: the epoch.
            row: number of the row in the files of the data set, counted from 0.
            item: number of the image in the list of the row, counted from 0.

        Raises:
            ValueError: If a number is negative or too large.
        """
        sides = whole("height", height, 1, 65_535), whole("width", width, 1, 65_535)
        draw = {
            "epoch": whole("epoch", epoch, 0, 2**32 - 1),
            "row": whole("row", row, 0),
            "item": whole("item", item, 0),
        }
        box, target, flip = self._native.geometry(*sides, seed=checked_seed(seed), **draw)
        return Geometry(box, target, flip)

    @property
    def _settings(self) -> dict[str, Any]:
        settings = dict[str, Any]()
        for field in fields(self):
            settings[field.name] = value = getattr(self, field.name)
            # The fingerprint depends on this order.
            if field.name == "source":
                is_path = isinstance(value, ImagePaths)
                settings |= {"source": "path", "root": value.root} if is_path else {"root": None}
        if isinstance(self.fit, RandomCrop):
            return settings | {
                "fit": "random_crop",
                "scale": self.fit.scale,
                "ratio": self.fit.ratio,
            }
        return settings | {"scale": None, "ratio": None}

    @cached_property
    def _native(self) -> _native.Images:
        return _native.Images(self._settings)

    def __reduce__(self) -> tuple[Any, ...]:
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return _remade, (options.pop("column"), options)


def _remade(column: str, options: dict[str, Any]) -> Images:
    return Images(column, **options)


def native_images(images: Images) -> _native.Images:
    """Return what computes the pixels of a data set."""
    return images._native  # pyright: ignore[reportPrivateUsage]


#: Longer options are replaced by a digest, so that a state stays small.
_SHOWN_BYTES = 1500


def saved_images(sources: Sequence[Sequence[Images]]) -> dict[str, Any] | None:
    """Return what a state says about the images of all sources, ``None`` if there are none.

    It has the version of random crops and flips, and the options in the types of JSON; of a mixture
    or many options, a digest.
    """
    if not any(sources):
        return None
    settings = [
        [one._settings for one in source]  # pyright: ignore[reportPrivateUsage]
        for source in sources
    ]
    text = json.dumps(settings)
    if len(sources) == 1 and len(text) <= _SHOWN_BYTES:
        return {"augment_version": _native.AUGMENT_VERSION, "columns": json.loads(text)[0]}
    return {"augment_version": _native.AUGMENT_VERSION, "sources": digest(settings)}


def checked_images(images: Any) -> list[Images]:
    """Return the images of a data set as a list.

    Raises:
        ValueError: If they are not ``Images``, or two of them have the same column.
    """
    listed = [images] if isinstance(images, Images) else images
    if (
        not isinstance(listed, Sequence)
        or isinstance(listed, str)
        or not all(isinstance(one, Images) for one in listed)
    ):
        raise OptionError(
            f"images must be an Images or a list of them, not {images!r}\n"
            "hint: write images=sm.Images('image', size=224)"
        )
    columns = [one.column for one in listed]
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise OptionError(f"images has column {twice!r} twice")
    return list(listed)


def _checked_size(size: Any, fit: Any) -> tuple[int, int] | None:
    if fit == "keep":
        if size is not None:
            raise OptionError("fit='keep' does not resize, so it takes no size")
        return None
    if size is None:
        raise OptionError(
            "size is missing\n"
            "hint: size=224, size=(height, width), or fit='keep' for images as they are"
        )
    is_pair = isinstance(size, Sequence) and not isinstance(size, str)
    sides = [side for side in map(index_of, size if is_pair else [size, size]) if side is not None]
    if (
        len(sides) != 2
        or (is_pair and len(size) != 2)
        or not all(1 <= side <= 65_535 for side in sides)
    ):
        raise OptionError(
            "size must be a number of pixels or (height, width), "
            f"each from 1 to 65535, not {size!r}"
        )
    if fit == "longest" and sides[0] != sides[1]:
        raise OptionError(f"fit='longest' takes one number as size, not {size!r}")
    return sides[0], sides[1]


def statistics(normalize: Any, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel.

    Raises:
        ValueError: If they are not numbers, or have another number of channels.
    """
    if isinstance(normalize, str):
        if normalize not in _STATISTICS:
            names = ", ".join(map(repr, _STATISTICS))
            raise OptionError(f"normalize must be one of {names} or (mean, std), not {normalize!r}")
        if channels == 1 and normalize != "siglip":
            raise OptionError(
                f"normalize={normalize!r} has three channels, and channels='L' has one"
            )
        mean, std = _STATISTICS[normalize]
        return mean[:channels], std[:channels]
    plain = (
        [part.tolist() if hasattr(part, "tolist") else part for part in normalize]
        if isinstance(normalize, Sequence)
        else []
    )
    each = [tuple(part) if isinstance(part, Sequence) else (part,) * channels for part in plain]
    are_numbers = all(
        isinstance(value, Real) and math.isfinite(value) for part in each for value in part
    )
    if (
        len(each) != 2
        or any(len(part) != channels for part in each)
        or not are_numbers
        or any(std <= 0 for std in each[1])
    ):
        raise OptionError(
            "normalize must be (mean, std), "
            f"each a number or one for each channel, not {normalize!r}"
        )
    return tuple(map(float, each[0])), tuple(map(float, each[1]))


def _color(background: Any) -> tuple[int, int, int] | None:
    if background is None:
        return None
    color = _COLORS.get(background) if isinstance(background, str) else background
    parts = tuple(color) if isinstance(color, Sequence) else ()
    if len(parts) != 3 or any(index_of(part) is None or not 0 <= part <= 255 for part in parts):
        names = ", ".join(map(repr, _COLORS))
        raise OptionError(
            f"background must be one of {names}, three numbers from 0 to 255, "
            f"or None, not {background!r}"
        )
    return int(parts[0]), int(parts[1]), int(parts[2])
