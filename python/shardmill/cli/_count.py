"""The command ``shardmill count``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from shardmill._terminal import aligned, counted
from shardmill.cli._options import (
    FROM_1,
    json_option,
    limit_option,
    paths_argument,
    storage_option,
    threads_option,
    write_json,
)
from shardmill.cli._sequences import model_option, parts_option, sequences_of
from shardmill.cli._tables import filter_option, format_options, open_files
from shardmill.cli._token_sources import counts_option
from shardmill.errors import FormatError

if TYPE_CHECKING:
    from shardmill import Dataset, ImageTokens

#: The numbers that are printed, in this order.
_NUMBERS = ("documents", "tokens", "longest", "images", "patches")
_COUNTED = ("tokens", "image_index")
_DOCUMENTS_AT_ONCE = 64
_REFUSED_SHOWN = 10


@click.command(name="count")
@paths_argument("PATH...")
@model_option
@parts_option
@click.option("--bos", metavar="TOKEN", help="Token before each document.")
@click.option("--eos", metavar="TOKEN", help="Token after each document.")
@click.option(
    "--length",
    **FROM_1,
    help="Plan packs of this number of tokens by best_fit, without longer documents, and print how "
    "full they are.",
)
@counts_option
@filter_option
@format_options
@threads_option
@json_option
@limit_option
@storage_option
def command(as_json: bool, **options: Any) -> None:
    """Count the documents of PATH and what a model gets of them: tokens, images and patches.

    PATH has interleaved documents, as shardmill curate writes them, or rows with the columns of
    --parts. Images are counted from their headers; no pixel is decoded. The counts are stored, and
    loaders reuse them. Documents that a loader refuses are listed with the cause, and are not
    included in the other numbers.

    \b
    Example:
      shardmill count curated/ --model model/ --eos "<|im_end|>" --length 8192
      shardmill count tars/ --model model/ --parts jpg,txt --json
    """
    if options["model"] is None:
        raise click.UsageError("pass --model DIR: the directory of a model")
    sequences = sequences_of(options, counts=options["counts"])
    dataset = open_files(
        {**options, "columns": None}, sequences=sequences, threads=options["threads"]
    )
    found = _planned(dataset, sequences.output)
    if found is None:
        found = _delivered(dataset, sequences.images, options)
    if options["length"] is not None:
        found |= _fill(dataset, options["length"], found["refused"])
    if as_json:
        write_json(found)
        return
    for line in _page(found):
        click.echo(line)


def _planned(dataset: Dataset, tokens: str) -> dict[str, Any] | None:
    """Return the counts from which packs are planned; ``None`` if a loader refuses a document."""
    from shardmill.data._dataset import opened_files

    files = opened_files(dataset)
    try:
        [column] = files.numbers_of([tokens])
        lengths = files.lengths_of(column, source="lists", nulls_are_empty=False)
    except FormatError:
        return None
    numbers = (*lengths.totals, *lengths.image_totals)
    return dict(zip(_NUMBERS, numbers, strict=True)) | {"refused": []}


def _delivered(
    dataset: Dataset, rule: ImageTokens | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Read all documents once, without their pixels, and list those that a loader refuses."""
    from shardmill import ErrorPolicy, Loader, Runtime
    from shardmill.load._packed_images import IMAGE_SHAPES, patches_of

    shape = IMAGE_SHAPES.get(rule.rule) if rule else None
    loader = Loader(
        dataset,
        columns=[name for name in (*_COUNTED, shape) if name in dataset.columns],
        batch_size=_DOCUMENTS_AT_ONCE,
        output="numpy",
        errors=ErrorPolicy(rows="skip"),
        runtime=Runtime(threads=options["threads"]),
        rank=0,
        world_size=1,
    )
    numbers = dict.fromkeys(_NUMBERS, 0)
    for batch in loader:
        lengths = batch["tokens"].offsets[1:] - batch["tokens"].offsets[:-1]
        images = len(batch["image_index"].values)
        shapes = batch.get(shape)
        # If the rule has no column of shapes, an image is one patch.
        patches = images
        if rule is not None and shapes is not None:
            patches = patches_of(rule, shapes.values).sum()
        longest = max(numbers["longest"], int(lengths.max(initial=0)))
        of_batch = (len(lengths), lengths.sum(), 0, images, patches)
        for name, number in zip(_NUMBERS, of_batch, strict=True):
            numbers[name] += int(number)
        numbers["longest"] = longest
    refused = [{"file": row.path, "row": row.row, "cause": row.cause} for row in loader.bad_rows]
    return numbers | {"refused": refused}


def _fill(dataset: Dataset, length: int, refused: list[Any]) -> dict[str, Any]:
    """Plan packs; a loader with a refused document has none."""
    from shardmill import Loader, Packing

    if refused:
        return {"length": length, "packs": None, "fill_rate": None, "too_long": None}
    packing = Packing("tokens", length=length, strategy="best_fit", long="drop")
    plan = Loader(
        dataset, packing=packing, batch_size=1, output="numpy", rank=0, world_size=1
    ).explain()
    return {
        "length": length,
        "packs": plan["packs_of_epoch"],
        "fill_rate": plan["fill_rate"],
        "too_long": plan["dropped_rows"],
    }


def _page(found: dict[str, Any]) -> Iterator[str]:
    lines = [(name, f"{found[name]:,}") for name in _NUMBERS]
    if found.get("packs") is not None:
        lines += [
            (f"packs of {found['length']:,}", f"{found['packs']:,}"),
            ("fill", f"{found['fill_rate']:.1%}"),
            ("too long for a pack", f"{found['too_long']:,}"),
        ]
    refused = found["refused"]
    lines.append(("refused", f"{len(refused):,}"))
    yield from aligned(lines, to_the_right=[False, True])
    for row in refused[:_REFUSED_SHOWN]:
        yield row["cause"]
    if len(refused) > _REFUSED_SHOWN:
        yield f"… and {counted(len(refused) - _REFUSED_SHOWN, 'more document')}; --json lists them"
    if refused and "length" in found:
        yield "packs are not planned, because a loader refuses these documents"
