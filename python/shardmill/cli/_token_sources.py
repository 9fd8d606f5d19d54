"""Tokenizers, and what tokens are computed from, as options of commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shardmill.cli._options import (
    DIRECTORY,
    PATH,
    Decorator,
    JsonObject,
    Names,
    one_of,
    options_of,
    together,
)
from shardmill.errors import OptionError

if TYPE_CHECKING:
    from shardmill import Tokenize, Tokenizer

tokenizer_options = together(
    click.option(
        "--pattern",
        metavar="NAME|REGEX",
        help="Pattern of a .tiktoken file: gpt2, cl100k, o200k or a regex.",
    ),
    click.option(
        "--special-tokens",
        type=JsonObject(),
        help="Special tokens of a .tiktoken file, such as '{\"<|end|>\": 100}'.",
    ),
)


def _source_options(*kinds: str, further: str = "") -> Decorator:
    return together(
        click.option(
            "--column",
            "text_columns",
            type=Names(),
            help="Text column, or several columns to join; text by default.",
        ),
        click.option("--separator", metavar="TEXT", help="Text inserted between columns."),
        click.option("--messages", metavar="NAME", help="Column of chat messages."),
        click.option("--prompt", metavar="NAME", help="Column of prompts."),
        click.option("--completion", metavar="NAME", help="Column of completions."),
        click.option(
            "--chat-template",
            type=PATH,
            metavar="FILE",
            help="Chat template; default: that of the tokenizer.",
        ),
        click.option(
            "--template-kwargs", type=JsonObject(), help="Further variables of the chat template."
        ),
        click.option(
            "--assistant-spans",
            **one_of("generation", "prefix"),
            help="How to find what an assistant wrote.",
        ),
        click.option(
            "--now",
            metavar="DATE",
            help="Date for templates that use the current date, such as 2026-01-31.",
        ),
        click.option(
            "--labels",
            type=click.Choice(list(kinds)),
            help=f"Add labels for these tokens{further}.",
        ),
        click.option("--bos", metavar="TOKEN", help="Token before each row."),
        click.option("--eos", metavar="TOKEN", help="Token after each row."),
        click.option(
            "--special-in-text",
            type=click.Choice(["text", "id", "raise"]),
            help="How to encode special tokens spelled out in a text.",
        ),
        click.option(
            "--tools", metavar="NAME", help="Column of the tools that the chat template gets."
        ),
        click.option(
            "--documents",
            metavar="NAME",
            help="Column of the documents that the chat template gets.",
        ),
        click.option(
            "--on-unlabelled",
            **one_of("keep", "raise"),
            help="What to do with rows without labels.",
        ),
        click.option(
            "--nulls",
            **one_of("raise", "fill"),
            help="What to do with nulls; fill makes rows without tokens.",
        ),
    )


#: Text columns, messages or prompts, and how they become tokens.
source_options = _source_options("all", "assistant", "completion")

#: The same for a command that has documents, too.
document_source_options = _source_options(
    "text",
    "all",
    "assistant",
    "completion",
    further="; assistant is not for --model, and text only for it",
)

counts_option = click.option(
    "--counts",
    type=DIRECTORY,
    metavar="DIR",
    help="Directory for token counts; default: the user's cache.",
)


def tokenizer_of(options: dict[str, Any]) -> Tokenizer:
    """Return the ``Tokenizer`` of the options."""
    from shardmill import Tokenizer

    return Tokenizer(
        options["tokenizer"], pattern=options["pattern"], special_tokens=options["special_tokens"]
    )


def tokenize_of(options: dict[str, Any]) -> Tokenize:
    """Return the ``Tokenize`` of the options.

    Raises:
        click.UsageError: If they are not valid together.
    """
    from shardmill import ChatTemplate, Labels, TextPolicy, Tokenize

    has_other = any(options[name] for name in ("messages", "prompt", "completion"))
    template, labels = options["chat_template"], options["labels"]
    try:
        return Tokenize(
            list(options["text_columns"] or ([] if has_other else ["text"])),
            **options_of(Tokenize, options)
            | {
                "tokenizer": tokenizer_of(options),
                "chat_template": ChatTemplate(
                    None if template is None else Path(template),
                    **options_of(ChatTemplate, options),
                ),
                "labels": labels
                and Labels(
                    labels,
                    **options_of(Labels, options)
                    | {"output": options.get("labels_output", "labels")},
                ),
                "text_policy": TextPolicy(**options_of(TextPolicy, options)),
            },
        )
    except OptionError as error:
        raise click.UsageError(str(error)) from error
