"""Token sequences of interleaved documents."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from shardmill._choices import check_fields
from shardmill._digests import digest
from shardmill._native import load as _native
from shardmill._native import pixels as _pixels
from shardmill._option_values import check_filled, check_kind, listed, whole
from shardmill.data._chat_template import ChatTemplate
from shardmill.data._counts_directory import check_counts_directory, default_counts
from shardmill.data._image_tokens import (
    ImageTokens,
    native_pieces,
    native_rule,
    pixel_values,
)
from shardmill.data._images import MOST_PIXELS, DecodeMode, Normalization, statistics
from shardmill.data._special_tokens import Affix, Token
from shardmill.data._token_ids import token_id_of
from shardmill.data._token_options import LabelKind, Labels
from shardmill.data._tokenize import TOKENIZATION_VERSION, Tokenize, chats_with_images
from shardmill.data._tokenizer import Tokenizer, native_tokenizer
from shardmill.errors import OptionError
from shardmill.storage._paths import PathLike

Positions = Literal["1d", "mrope"]

#: Incremented when the tokens of a document change, so that older counts and states are not reused.
SEQUENCE_VERSION = 1

#: The columns of parts of documents, which are delivered only if they are named.
_PARTS = {
    *("modality", "content_type", "text_content", "binary_content", "source_ref"),
    *("materialize_error", "rescued"),
}

#: A text that is meant as a special token.
_SPECIAL = re.compile(r"<[^<>\s]+>")

#: The frames of a video, of which Qwen2-VL takes two at a time.
_FRAMES = 2

#: Filters to resize images, for rules that do not use the bicubic one.
_FILTERS = {"idefics3": "lanczos", "siglip2": "bilinear"}

#: Normalization of the rules whose models all use the same one.
_NORMALIZATIONS: dict[str, Normalization] = {
    "qwen2_vl": "clip",
    "pixtral": "clip",
    "idefics3": "siglip",
    "siglip2": "siglip",
}


@dataclass(frozen=True, kw_only=True)
class ImageOutput:
    """How the images of ``Sequences`` become pixels.

    Attributes:
        dtype: ``"float32"``, normalized, or ``"uint8"``, a quarter of the size, which the training
            step normalizes with ``Sequences.normalization``.
        normalize: mean and standard deviation of each channel, as for ``Images``. The default is
            that of the model for ``ImageTokens.from_pretrained``. Otherwise, it is ``"clip"`` for
            Qwen2-VL and Pixtral, and ``"siglip"`` for Qwen3-VL (``patch_size=16``), Idefics3 and
            SigLIP 2; other rules require it.
        mode: as for ``Images``.
        max_pixels: an image with more pixels is bad, and is not decoded.
        on_error: how to handle a bad image. By default, ``"raise"``, it is an error, or makes a bad
            row; see ``ErrorPolicy``. With ``"null"``, documents are delivered without images that
            have no plan, such as those without a header; ``LoaderMetrics.images_left_out`` counts
            them. An image that is found to be damaged when it is decoded keeps its tokens, and its
            pixels are those of the mean, 0 if normalized. ``image_valid`` is false for it, and
            ``Loader.bad_rows`` names it. ``"mask"`` also ignores the labels of its document in the
            pack; parts of a cut document in other packs keep theirs.
        pad: whether images of packs are padded to the same shape, for the rules ``pixtral`` and
            ``siglip2``: to ``[images, 3, height, width]`` with the largest height and width of the
            batch, or to ``[images, max_patches, values]`` with ``pixel_attention_mask``. Padding
            has the value of the mean, 0 if normalized.
        sizes: names of two columns that state the width and the height of each image as displayed,
            as ``ParquetSink(image_sizes=True)`` writes ``("width", "height")``. Packs are then
            planned from these columns, and no image is read for the plan. In rows that are
            documents, each column has a number, or a list with a number for each image of the row.
            An image whose size is null or out of range has no plan. One that has another size than
            stated is bad when it is decoded.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import shardmill as sm
        >>> sm.ImageOutput(dtype="uint8").mode
        'exact'
    """

    dtype: Literal["float32", "uint8"] = "float32"
    normalize: Normalization | tuple[Any, Any] | None = None
    mode: DecodeMode = "exact"
    max_pixels: int = MOST_PIXELS
    on_error: Literal["raise", "null", "mask"] = "raise"
    pad: bool = False
    sizes: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        check_fields(ImageOutput, vars(self), prefix="ImageOutput.")
        whole("ImageOutput.max_pixels", self.max_pixels, 1)
        if self.normalize is not None:
            object.__setattr__(self, "normalize", statistics(self.normalize, 3))
        if self.sizes is not None:
            names = tuple(listed("ImageOutput.sizes", self.sizes))
            if len({*names} - {""}) != 2 or len(names) != 2:
                raise OptionError(
                    f"ImageOutput.sizes must name two columns, not {self.sizes!r}\n"
                    "hint: write sizes=('width', 'height')"
                )
            object.__setattr__(self, "sizes", names)


@dataclass(frozen=True, init=False)
class Sequences:
    """How a ``Dataset`` makes token sequences from interleaved documents of texts and images.

    Rows of the data set are then documents. They are read from the Parquet files that a
    ``ParquetSink`` writes: a document is a run of rows of equal ``sample_id``, and its parts are in
    the order of ``position``. The values of its metadata row are columns.

    Each text is tokenized by itself. A special token that is spelled out in a text stays text, so
    that it never becomes a placeholder, except in messages. An image becomes the tokens that
    ``images`` plans from its header, and its pixels are decoded only when the document is
    delivered. A bad image is an error that names the part, or makes a bad row; see ``ErrorPolicy``.

    With ``parts``, each row of files of any format is a document. Its parts are the values of these
    columns, such as an image and its caption. With ``messages``, each row is a conversation, as for
    ``Tokenize``: the chat template writes a placeholder for each part of the type ``"image"``, and
    the images of the row take the places of the placeholders, in order.

    A document has these columns:

    * ``tokens``, int32, and ``labels``, int64.
    * ``pixel_values``: the pixels of its images in order, ``[patches, values]`` for ``qwen2_vl``
      and ``siglip2``, ``[images, 3, height, width]`` for ``fixed``, ``[tiles, 3, size, size]`` for
      ``tiles`` and ``idefics3``. For ``pixtral``, ``[values]``: each image has the values of ``[3,
      height, width]``.
    * ``image_grid_thw``, int64, ``[images, 3]``: frames, rows and columns of patches, for
      ``qwen2_vl``. ``image_tiles``, int32, ``[images]``: tiles, for ``tiles`` and ``idefics3``.
      ``image_sizes``, int32, ``[images, 2]``: height and width, for ``pixtral``.
      ``spatial_shapes``, int64, ``[images, 2]``: rows and columns of patches, for ``siglip2``.
    * ``image_index``, int32, ``[images, 2]``: first placeholder in ``tokens``, and number of tokens
      from the first to the last one. Between placeholders, ``pixtral`` and ``idefics3`` have other
      tokens.
    * ``image_valid``, ``[images]``: whether each image was decoded; see ``ImageOutput.on_error``.

    For documents without adjacent texts, tokens and pixels equal those that the processor of the
    model makes from the whole document.

    Args:
        tokenizer: a ``Tokenizer``, or its path.
        parts: columns of texts and images, in the order of the parts. A text is a string. An image
            is bytes, or a struct with a field ``bytes``. A list is several parts. A text that is
            null is left out.
        messages: column of conversations, whose images are in the column ``images_from``.
        images_from: column of an image, or a list of images, as ``parts`` has them. Paths, URLs and
            base64 are not read.
        chat_template: the template for messages, as for ``Tokenize``.
        images: the rule by which images become tokens, such as ``ImageTokens.qwen2_vl()``, but not
            one with a function. Without it, an image is an error.
        marker: a text, such as ``"<image>"``, in whose places in the texts the images are put, in
            their order. A document that has it another number of times than images is bad.
        separator: text between two adjacent texts.
        bos: token before each document that is not empty: a token, an id, or ``True`` for the one
            named in the tokenizer's directory.
        eos: token after each document that is not empty, likewise.
        labels: ``"text"`` labels the texts, and ``"all"`` also the tokens around the placeholders
            of images. In messages, ``"text"`` also labels those that the template writes around
            images. ``"completion"`` labels only the last text and ``eos``, such as the answer of
            ``parts=["image", "question", "answer"]``; in messages, the last turn of an assistant.
            If the last column of texts is null in a row, no token of the row has a label.
            ``"assistant"``, for messages, labels what an assistant wrote. ``None`` adds no labels.
            ``Labels`` has further options. The first token of a document and placeholders have no
            label.
        image_output: type and normalization of pixels.
        positions: ``"mrope"`` gives packs the positions of Qwen2-VL in place of 0, 1, …: int32
            ``[3, packs, length]``, for time, height and width. Only for ``qwen2_vl``.
        output: name of the column of tokens.
        counts: directory for token counts, as for ``Tokenize``.

    Raises:
        ValueError: If an option is not valid, such as a token that the tokenizer does not have.

    Examples:
        >>> import json, pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> from pathlib import Path
        >>> vocab = {"[UNK]": 0, "a": 1, "cat": 2}
        >>> model = {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}
        >>> pieces = {"added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
        >>> text = json.dumps({"version": "1.0", "model": model} | pieces)
        >>> _ = Path("tokenizer.json").write_text(text)
        >>> parts = {"modality": ["text", "text"], "text_content": ["a", "cat"]}
        >>> rows = pa.table({"sample_id": ["x", "x"], "position": [0, 1]} | parts)
        >>> pq.write_table(rows, "documents.parquet")
        >>> sequences = sm.Sequences(tokenizer="tokenizer.json", labels=None)
        >>> sm.Dataset("documents.parquet", sequences=sequences)[0]
        {'sample_id': 'x', 'tokens': [1, 2]}
    """

    tokenizer: Tokenizer
    parts: tuple[str, ...]
    messages: str | None
    images_from: str | None
    chat_template: ChatTemplate
    images: ImageTokens | None
    marker: str | None
    separator: str
    bos: int | None
    eos: int | None
    labels: Labels | None
    image_output: ImageOutput
    positions: Positions
    output: str
    counts: str

    def __init__(
        self,
        *,
        tokenizer: Tokenizer | str | Path,
        parts: Sequence[str] = (),
        messages: str | None = None,
        images_from: str | None = None,
        chat_template: str | Path | ChatTemplate | None = None,
        images: ImageTokens | None = None,
        marker: str | None = None,
        separator: str = "",
        bos: str | int | bool | None = None,
        eos: str | int | bool | None = None,
        labels: LabelKind | Labels | None = "text",
        image_output: ImageOutput | None = None,
        positions: Positions = "1d",
        output: str = "tokens",
        counts: PathLike | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        check_fields(Sequences, given)
        check_filled("output", output, is_optional=False)
        for name in ("marker", "messages", "images_from"):
            check_filled(name, given[name], is_optional=True)
        check_kind("images", images, ImageTokens, "sm.ImageTokens.from_pretrained(directory)")
        check_kind("image_output", image_output, ImageOutput, "sm.ImageOutput(dtype='uint8')")
        if not isinstance(counts, str | os.PathLike | None) or counts == "":
            raise OptionError(f"counts must be a directory, not {counts!r}")
        if not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer(tokenizer)
        values = given | {
            "tokenizer": tokenizer,
            "parts": tuple(listed("parts", parts)),
            "bos": token_id_of("bos", bos, tokenizer),
            "eos": token_id_of("eos", eos, tokenizer),
            "chat_template": chat_template
            if isinstance(chat_template, ChatTemplate)
            else ChatTemplate(chat_template),
            "labels": labels if isinstance(labels, Labels | None) else Labels(labels),
            "image_output": image_output or ImageOutput(),
            "counts": default_counts() if counts is None else os.fspath(counts),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check_source()
        if images is not None and images.function is not None:
            raise OptionError(
                "Sequences cannot use an ImageTokens that has a function\n"
                "hint: pass a rule, such as sm.ImageTokens.from_pretrained(directory)"
            )
        if positions == "mrope" and (images is None or images.rule != "qwen2_vl"):
            raise OptionError(
                "positions='mrope' requires images of the rule 'qwen2_vl'\n"
                "hint: pass images=sm.ImageTokens.qwen2_vl(…), or omit positions"
            )
        height, width = _size_of(images) or (1, 1)
        if images is not None and height != width and images.parameters["fit"] == "crop":
            raise OptionError(
                f"fit='crop' requires a square, not {height} × {width} pixels\n"
                "hint: pass ImageTokens.fixed(…, fit='stretch') if the model stretches images"
            )
        # Says now what the tokenizer cannot do.
        made = self.outputs
        if twice := [name for name in made if made.count(name) > 1]:
            raise OptionError(
                f"two columns of Sequences are named {twice[0]!r}\n"
                "hint: choose another name for output or Labels.output"
            )

    def _check_source(self) -> None:
        """Check that all options apply to the source.

        Raises:
            ValueError: If one does not.
        """
        kinds = ["text", "all", *(["assistant"] if self.messages else []), "completion"]
        if self.labels is not None and self.labels.kind not in kinds:
            raise OptionError(
                f"labels must be one of {', '.join(map(repr, kinds))} or None for "
                f"{'messages' if self.messages else 'documents'}, not {self.labels.kind!r}"
            )
        sizes = self.image_output.sizes
        for name, value in (("marker", self.marker), ("ImageOutput.sizes", sizes)):
            if value is not None and self.images is None:
                raise OptionError(f"{name} requires images, such as sm.ImageTokens.qwen2_vl()")
        reserved = {*_PARTS, "sample_id", "position", *part_columns(self)}
        if taken := [name for name in sizes or () if name in reserved]:
            raise OptionError(f"ImageOutput.sizes cannot name the column {taken[0]!r} of parts")
        if self.messages is None:
            if self.images_from is not None or self.chat_template != ChatTemplate():
                raise OptionError("images_from and chat_template are for messages")
            return
        if self.images is None or self.images_from is None:
            raise OptionError(
                "messages requires images and images_from\n"
                "hint: tokenize conversations without images with sm.Tokenize(messages=…)"
            )
        given = {"parts": self.parts, "marker": self.marker, "separator": self.separator}
        given |= {"bos": self.bos, "eos": self.eos}
        for name, value in given.items():
            if value not in (None, (), ""):
                raise OptionError(
                    f"{name} is not for messages, for which the chat template writes all tokens"
                )

    @cached_property
    def _chats(self) -> Tokenize | None:
        """How messages become tokens, before images take the places of their placeholders."""
        if self.messages is None:
            return None
        labels = self.labels
        return Tokenize(
            messages=self.messages,
            tokenizer=self.tokenizer,
            chat_template=self.chat_template,
            labels=labels and (replace(labels, kind="all") if labels.kind == "text" else labels),
            output=self.output,
            counts=self.counts,
        )

    @cached_property
    def fingerprint(self) -> str:
        """Identifies what determines the tokens, as 32 hexadecimal digits."""
        return self._identity(self.labels)

    def _identity(self, labels: Labels | None) -> str:
        """Return the fingerprint with these labels, or without labels."""
        of_labels = labels and [labels.kind, labels.ignore_index]
        images = self.images and self.images.fingerprint
        versions = [SEQUENCE_VERSION, TOKENIZATION_VERSION]
        ids = [self.bos, self.eos, self._ids("separator", self.separator)]
        identity = [versions, self.tokenizer.fingerprint, images, ids, of_labels]
        further = [list(self.parts), self.marker]
        if self._chats is not None:
            chats = self._chats if labels else replace(self._chats, labels=None)
            further += [chats.fingerprint, self.images_from]
        if (sizes := self.image_output.sizes) is not None:
            # Counts follow from these columns in place of the images.
            further.append(["sizes", *sizes])
        if (most := self.image_output.max_pixels) != MOST_PIXELS:
            # Without images that have more, documents have other tokens.
            further.append(["max_pixels", most])
        return digest([*identity, *further] if any(further) else identity)

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that are computed."""
        return self._native.outputs

    @property
    def normalization(self) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Mean and standard deviation of each channel, for pixels from 0 to 1.

        ``None`` without images.
        """
        if self.images is None:
            return None
        if self.image_output.normalize is not None:
            return statistics(self.image_output.normalize, 3)
        if (of_model := pixel_values(self.images).normalize) is not None:
            return statistics(of_model, 3)
        normalization = _NORMALIZATIONS.get(self.images.rule)
        if normalization is None:
            raise OptionError(
                f"the rule {self.images.rule!r} does not say how pixels are normalized\n"
                "hint: pass image_output=sm.ImageOutput(normalize='clip'), "
                "or the image_mean and image_std of the model"
            )
        is_third = self.images.rule == "qwen2_vl" and self.images.parameters["patch_size"] == 16
        return statistics("siglip" if is_third else normalization, 3)

    def __getstate__(self) -> dict[str, Any]:
        unsaved = ("_native", "_chats")
        return {name: value for name, value in self.__dict__.items() if name not in unsaved}

    @cached_property
    def _native(self) -> _native.Sequences:
        images = self.images
        labels = self.labels and (
            self.labels.output,
            self.labels.ignore_index,
            self.labels.kind,
            self.labels.on_unlabelled == "raise",
        )
        fills = images is not None and self.image_output.on_error != "raise"
        required = self.labels
        if required is not None and required.on_unlabelled == "keep":
            required = None
        block = (0, list[int](), list[int](), list[list[int]]())
        if images is not None:
            block = (
                self._id("placeholder", images.placeholder),
                self._ids("prefix", images.prefix),
                self._ids("suffix", images.suffix),
                [self._piece(images, name) for name in native_pieces(images)],
            )
        return _native.Sequences(
            native_tokenizer(self.tokenizer),
            images and _pixels.Images(self._pixel_settings(images)),
            bos=self.bos,
            eos=self.eos,
            separator=self._ids("separator", self.separator),
            block=block,
            marker=self.marker,
            chats=self._chats and chats_with_images(self._chats),
            tokens=self.output,
            labels=labels,
            # Labels change counts only if they refuse documents. Images that are left out do, too.
            counts=f"{self.counts}/{self._identity(required)}{'-filled' * fills}",
        )

    def _pixel_settings(self, images: ImageTokens) -> dict[str, Any]:
        parameters, output = images.parameters, self.image_output
        # Side of a patch, merge size, frames, and whether the channels of a pixel are adjacent.
        patches = {
            "qwen2_vl": lambda: (
                parameters["patch_size"],
                parameters["merge_size"],
                _FRAMES,
                False,
            ),
            "tiles": lambda: (parameters["size"], 1, 1, False),
            "idefics3": lambda: (parameters["tile"], 1, 1, False),
            "siglip2": lambda: (parameters["patch_size"], 1, 1, True),
        }.get(images.rule)
        masked = None
        if output.on_error == "mask":
            # Without labels here, those that a packing makes of tokens are masked.
            labels = self.labels
            masked = (labels.output, labels.ignore_index) if labels else ("", Labels.ignore_index)
        fills = output.on_error != "raise"
        return {
            "column": "binary_content",
            "size": _size_of(images),
            # As the processors of models crop.
            "fit": "crop_end" if parameters.get("fit") == "crop" else "stretch",
            "resample": pixel_values(images).resample or _FILTERS.get(images.rule, "bicubic"),
            "mode": output.mode,
            "flip": 0.0,
            "dtype": output.dtype,
            "normalize": None if output.dtype == "uint8" else self.normalization,
            "layout": "CHW",
            "channels": "RGB",
            "background": (255, 255, 255),
            "orientation": True,
            "max_pixels": output.max_pixels,
            "damaged": "raise",
            "on_error": "null" if fills else None,
            "source": "bytes",
            "planned": {
                "rule": native_rule(images),
                "output": "pixel_values",
                "patches": patches and patches(),
                "has_rope": self.positions == "mrope",
                "mean": mean_values(self) if fills else [0, 0, 0],
                "masked": masked,
                "sizes": output.sizes and [self._size_list(name) for name in output.sizes],
            },
        }

    def _size_list(self, column: str) -> str:
        """Return the list that a column of sizes becomes, with a number for each part."""
        return f"{column}_of_parts" if part_columns(self) else column

    def _piece(self, images: ImageTokens, name: str) -> list[int]:
        """Return the ids of a piece of the tokens that replace a placeholder."""
        if not name.isspace():
            return [self._id(name, images.texts.get(name, name))]
        ids = self.tokenizer.encode(name)
        counted = images.parameters["blank_line_tokens"] if name == "\n\n" else 1
        if len(ids) != counted:
            hint = "\nhint: pass blank_line_tokens to sm.ImageTokens.idefics3" * (name == "\n\n")
            raise OptionError(
                f"the tokenizer makes {len(ids)} tokens of {name!r}, but the rule counts {counted}"
                f"{hint}"
            )
        return ids

    def _id(self, name: str, token: Token) -> int:
        if isinstance(token, str):
            return self.tokenizer.token_id(token)
        if token >= self.tokenizer.vocab_size:
            raise OptionError(
                f"{name} must be an id below {self.tokenizer.vocab_size}, not {token}"
            )
        return token

    def _ids(self, name: str, affix: Affix) -> list[int]:
        """Return the ids of a text, in which all special tokens must be known."""
        if not isinstance(affix, str):
            return [self._id(name, token) for token in affix]
        tokens = _SPECIAL.findall(affix)
        for token in tokens:
            self.tokenizer.token_id(token)
        return self.tokenizer.encode(affix, special_in_text="id" if tokens else "text")


def _size_of(images: ImageTokens | None) -> tuple[int, int] | None:
    """Return the size of all images, if the rule has a fixed one."""
    return images.parameters["size"] if images is not None and images.rule == "fixed" else None


def mean_values(sequences: Sequences) -> list[int]:
    """Return the mean of each channel, for pixels from 0 to 255."""
    means = (sequences.normalization or [(0.0,) * 3])[0]
    return [round(255 * mean) for mean in means]


def native_sequences(sequences: Sequences, paths: Sequence[str]) -> _native.Sequences:
    """Return what computes the sequences of a data set.

    Raises:
        ValueError: If the counts would become a part of the data set.
    """
    check_counts_directory(sequences.counts, sequences.fingerprint, paths)
    return sequences._native  # pyright: ignore[reportPrivateUsage]


def part_columns(sequences: Sequences) -> list[str]:
    """Return the columns of texts and images, if rows are documents."""
    images = sequences.images_from
    return list(sequences.parts) if images is None else [images]


def document_columns(names: Sequence[str], sequences: Sequences) -> list[str]:
    """Return the columns of documents that are delivered by default."""
    sizes = sequences.image_output.sizes or ()
    parts = {*_PARTS, *part_columns(sequences), sequences.messages, *sizes}
    parts |= {f"{name}_of_parts" for name in sizes}
    return [name for name in names if name not in parts] + sequences.outputs
