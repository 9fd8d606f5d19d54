"""The documents in a batch of packs, and where their images are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from shardmill._native.load import RowPlan
from shardmill.data._dataset import opened_files
from shardmill.errors import OptionError
from shardmill.load._packed_images import IMAGE_INDEX, IMAGE_SHAPES, patches_of
from shardmill.load._packed_rows import PackedRows

if TYPE_CHECKING:
    from shardmill.data._image_tokens import ImageTokens
    from shardmill.load._plan import LoaderPlan

_ID = "sample_id"


def documents_of(plan: LoaderPlan, answer: dict[str, Any], step: int) -> list[dict[str, Any]]:
    """Return the documents of an explained batch; see ``Loader.explain``.

    Args:
        plan: that of the loader.
        answer: the explanation of the batch.
        step: its number, for errors.

    Raises:
        ValueError: If the epoch has no such step, or the batches have no packs of documents with
            images.
    """
    packed, files = plan.packed, opened_files(plan.dataset)
    rule = files.document_images and files.document_images.images
    if not isinstance(packed, PackedRows) or rule is None:
        raise OptionError(
            "the loader has no packs of documents with images\n"
            "hint: pass a Dataset with sequences=sm.Sequences(images=…), and a Packing"
        )
    multiple_of = packed.packing.multiple_of
    if answer["rows"] is None:
        raise OptionError(f"step {step} is not in the epoch, which has {answer['steps']} steps")
    native = packed.native
    # All rows, numbered as in the files.
    rows, starts = RowPlan(native), accumulate((file[-1] for file in native.files), initial=0)
    first = list(starts)
    known = {name for one in files.tokenize if one for name in one.outputs} | {*native.column_names}
    shape = IMAGE_SHAPES.get(rule.rule, "")
    names = [name for name in (_ID, IMAGE_INDEX, shape) if name in known]
    columns = native.column_numbers(names)
    documents: list[dict[str, Any]] = []
    for number, (pack, in_files) in enumerate(
        zip(answer["packs"], answer["pack_files"], strict=True)
    ):
        at = 0
        for (file, row, skipped, tokens), in_file in zip(pack, in_files, strict=True):
            cells = dict(zip(names, rows.row(first[in_file] + row, columns), strict=True))
            document = {"pack": number, "file": file, "row": row, _ID: cells.get(_ID)}
            part = range(skipped, skipped + tokens)
            images = list(_images(cells[IMAGE_INDEX], cells.get(shape), rule, part, at))
            documents.append(document | {"first_token": at, "tokens": tokens, "images": images})
            at += -(-tokens // multiple_of) * multiple_of
    return documents


def _images(
    index: list[Any], shapes: list[Any] | None, rule: ImageTokens, part: range, at: int
) -> Iterator[dict[str, Any]]:
    """Yield the images of a part of a document that begins at this token of its pack."""
    # If the rule has no column of shapes, an image is one patch.
    patches = [1] * len(index) if shapes is None else patches_of(rule, shapes).tolist()
    grids = shapes if shapes is not None and rule.rule == "qwen2_vl" else [None] * len(index)
    for (first, tokens), grid, count in zip(index, grids, patches, strict=True):
        if first not in part:
            continue
        place = {"first_token": at + first - part.start, "tokens": tokens}
        yield place | {"grid": grid and list(grid), "patches": count}
