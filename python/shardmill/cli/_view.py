"""The command ``shardmill view``."""

from __future__ import annotations

import os
import re
import sys
import threading
import webbrowser
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from shardmill._extras import pyarrow_for
from shardmill.cli._messages import tell
from shardmill.cli._options import (
    FROM_1,
    PATH,
    limit_option,
    one_of,
    parameters,
    refuse,
    storage_option,
)
from shardmill.cli._packs import balance_of, balance_options, pack_options
from shardmill.cli._sequences import model_option, parts_option, sequences_of
from shardmill.cli._tables import dataset_options
from shardmill.cli._token_sources import (
    counts_option,
    document_source_options,
    source_options,
    tokenize_of,
    tokenizer_of,
    tokenizer_options,
)
from shardmill.errors import OptionError

if TYPE_CHECKING:
    from shardmill.view import Source, TokenColumns


@click.command(name="view")
@dataset_options
@click.option(
    "--tokenizer",
    type=PATH,
    metavar="PATH",
    help="Show tokens of this tokenizer: stored ones, or those of --column.",
)
@tokenizer_options
@document_source_options
@counts_option
@model_option
@parts_option
@pack_options
@balance_options
@click.option("--world-size", **FROM_1, default=1, help="How many ranks --cost compares.")
@click.option(
    "--image-size",
    metavar="SIZE",
    help="Show pixels as a loader delivers them: a side such as 224, "
    "height and width such as 180x320, or keep.",
)
@click.option("--image", metavar="COLUMN", help="The column of --image-size; default: image.")
@click.option(
    "--image-fit",
    **one_of("crop", "stretch", "pad", "longest", "random"),
    help="How images are resized.",
)
@click.option(
    "--flip", type=click.FloatRange(0, 1), metavar="P", help="Probability of a horizontal flip."
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Seed of the random crops and flips.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="N",
    help="Port of the page; default: a free one.",
)
@click.option("--no-open", is_flag=True, help="Only print the address.")
@limit_option
@storage_option
def command(port: int, no_open: bool, **options: Any) -> None:
    """Browse samples in a web browser: texts, images, columns, filters, tokens.

    PATH is a file, a directory or a glob. The page is served on this machine only, at an address
    that cannot be guessed. Nothing is written; rows are read when they are shown. Press Ctrl-C
    to stop.

    With --tokenizer, the page shows tokens: those that the files have in a column called tokens or
    input_ids, or else those of the column text. --column, --messages and --prompt with --completion
    select other columns; the options are those of shardmill tokenize. --pack shows how a loader
    packs the tokens. It counts those of all rows once, and stores the counts. --cost draws the
    largest and the mean cost of ranks at each step, without and with a balance.

    With --model, PATH has documents of texts and images, as for shardmill count. --pack shows how a
    loader packs them: tokens and labels, and each image in place of its tokens, as a model gets it.

    With --image-size, the page shows the pixels that a loader delivers, with the random crop and
    the flip of each epoch, and the error of images that cannot be decoded.

    \b
    Example:
      shardmill view data/
      shardmill view shards/*.parquet --columns text,label --port 8000 --no-open
      shardmill view tokens/ --tokenizer model/ --pack 2048
      shardmill view photos/*.parquet --image-size 224 --image-fit random --flip 0.5
      shardmill view chat.jsonl --tokenizer model/ --messages messages --labels assistant
      shardmill view curated/ --model model/ --eos "<|im_end|>" --pack 2048
    """
    pyarrow_for("the page", extra="view")
    from shardmill.view import Session, Source, ViewServer

    source = Source(
        paths=options["paths"],
        columns=options["columns"],
        filter=options["filter"],
        format=options["format"],
        partitioning="hive" if options["hive"] else None,
        ignore_zeros=options["ignore_zeros"],
    )
    if options["pack"] is None:
        refuse({"strategy", "cost"}, "requires --pack")
    if options["model"] is None:
        refuse({"parts"}, "requires --model")
        if options["labels"] == "text":
            raise click.UsageError("--labels text requires --model\nhint: pass --labels all")
    if options["cost"] is None:
        refuse(parameters(balance_options) | {"world_size"}, "requires --cost")
    if options["model"] is not None:
        source = _with_documents(source, options)
    elif options["tokenizer"] is not None:
        source = _with_tokens(source, options)
    else:
        refuse(
            {"pack", *parameters(tokenizer_options, source_options, counts_option)},
            "requires --tokenizer",
        )
    source = _with_pixels(source, options)
    session = Session(source)
    if not session.opened().dataset.files:
        print(f"warning: there are no data files at {', '.join(options['paths'])}", file=sys.stderr)
    try:
        server = ViewServer(session, port=port)
    except OSError as error:
        raise OptionError(
            f"port {port} cannot be used: {error.strerror}\nhint: omit --port to use a free one"
        ) from error
    try:
        tell("Press Ctrl-C to stop.")
        click.echo(server.address)
        sys.stdout.flush()
        if not no_open:
            threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        tell("ended")
    sys.stderr.flush()
    # A thread may be in the middle of a long read, which can be abandoned safely.
    os._exit(0)


def _with_pixels(source: Source, options: dict[str, Any]) -> Source:
    """Add how images become pixels."""
    if options["image_size"] is None:
        refuse({"image", "image_fit", "flip", "seed"}, "requires --image-size")
        return source
    from shardmill import Images, RandomCrop

    size, fit = options["image_size"], options["image_fit"]
    sides = re.fullmatch(r"(\d+)(?:x(\d+))?", size)
    if size == "keep":
        refuse({"image_fit"}, "cannot be used with --image-size keep, which does not resize")
        shape: dict[str, Any] = {"fit": "keep"}
    elif sides is None:
        raise click.UsageError(
            "--image-size must be a side such as 224, "
            f"height and width such as 180x320, or keep, not {size!r}"
        )
    else:
        height, width = int(sides[1]), int(sides[2] or sides[1])
        shape = {"size": height if sides[2] is None else (height, width)}
        shape["fit"] = RandomCrop() if fit == "random" else fit
    images = Images(options["image"] or "image", flip=options["flip"] or 0.0, **shape)
    return replace(source, images=images, seed=options["seed"])


def _with_documents(source: Source, options: dict[str, Any]) -> Source:
    """Add how documents of texts and images become tokens, and how these are packed."""
    from shardmill import Packing

    others = {"tokenizer", "cost", *parameters(tokenizer_options, source_options)}
    refuse(others - {"labels", "bos", "eos"}, "cannot be used with --model")
    if options["pack"] is None:
        raise click.UsageError(
            "--model requires --pack, the number of tokens of a pack\nhint: for example --pack 2048"
        )
    # A bad image is marked on the page, and the others are still shown.
    sequences = sequences_of(
        options, labels=options["labels"] or "text", counts=options["counts"], on_error="null"
    )
    assert sequences.labels is not None
    packing = Packing(
        [sequences.output, sequences.labels.output],
        length=options["pack"],
        strategy=options["strategy"],
        pad_value={sequences.labels.output: sequences.labels.ignore_index},
    )
    return replace(source, sequences=sequences, packing=packing)


def _with_tokens(source: Source, options: dict[str, Any]) -> Source:
    """Add the tokens of the files, or how they are computed, and how they are packed."""
    from shardmill import Packing
    from shardmill.view import TokenColumns

    stored = _stored(source, options)
    if stored is None:
        tokenize = tokenize_of(options)
        source = replace(source, tokenize=tokenize)
        columns = TokenColumns.computed(tokenize)
    else:
        reason = f"is for texts, and the files have tokens in column {stored.tokens!r}"
        refuse(
            parameters(source_options, counts_option) - {"text_columns"},
            f"{reason}\nhint: name a text with --column",
        )
        columns = replace(stored, tokenizer=tokenizer_of(options))
        source = replace(source, tokens=columns)
    if options["pack"] is None:
        return source
    balance = None if options["cost"] is None else balance_of(options)
    packing = Packing(
        columns.names, length=options["pack"], strategy=options["strategy"], balance=balance
    )
    return replace(source, packing=packing, world_size=options["world_size"])


def _stored(source: Source, options: dict[str, Any]) -> TokenColumns | None:
    """Return the columns of tokens that the files have.

    It is ``None`` if the options name something to tokenize.
    """
    from shardmill.view import TokenColumns

    columns = options["text_columns"] or ()
    if len(columns) > 1 or any(options[name] for name in ("messages", "prompt", "completion")):
        return None
    dataset = source.open()
    return TokenColumns.stored(dataset.schema, *columns) if dataset.files else None
