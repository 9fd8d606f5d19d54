"""Sequences of documents, as options of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from shardmill.cli._options import DIRECTORY, Names

if TYPE_CHECKING:
    from shardmill import Sequences
    from shardmill.data._token_options import LabelKind

model_option = click.option(
    "--model",
    type=DIRECTORY,
    metavar="DIR",
    help="Directory of a model, whose tokenizer and image processor make sequences of documents.",
)

parts_option = click.option(
    "--parts",
    type=Names(),
    help="With --model, columns of texts and images of rows that are documents, such as jpg,txt.",
)


def sequences_of(
    options: dict[str, Any],
    *,
    labels: LabelKind | None = None,
    counts: str | None = None,
    on_error: Literal["raise", "null"] = "raise",
) -> Sequences:
    """Return the ``Sequences`` of the options."""
    from shardmill import ImageOutput, ImageTokens, Sequences

    return Sequences(
        tokenizer=options["model"],
        images=ImageTokens.from_pretrained(options["model"]),
        # No command needs normalized pixels.
        image_output=ImageOutput(dtype="uint8", on_error=on_error),
        parts=options["parts"] or (),
        bos=options["bos"],
        eos=options["eos"],
        labels=labels,
        counts=counts,
    )
