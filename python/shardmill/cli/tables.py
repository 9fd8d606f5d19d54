"""Which rows of which files a command is about, and rows as lines of text."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import click

from shardmill.cli.filter_text import parse_filter
from shardmill.cli.options import Names, ignore_zeros_option
from shardmill.errors import OptionError
from shardmill.expressions import Expression
from shardmill.terminal import escape


class Filter(click.ParamType):
    """A condition such as ``label = 0 and language in ('en', 'de')``."""

    name = "EXPR"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Expression:
        """The expression."""
        if isinstance(value, Expression):
            return value
        try:
            return parse_filter(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)


def dataset_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """PATH and what :class:`shardmill.Dataset` wants to know of it."""
    for option in reversed(
        [
            click.argument("paths", nargs=-1, required=True, metavar="PATH..."),
            click.option("--columns", type=Names(), help="Only these, in this order."),
            click.option("--filter", type=Filter(), help='Only rows for which EXPR is true, such as "label = 0".'),
            click.option(
                "--format",
                type=click.Choice(["parquet", "orc", "csv", "json", "jsonl", "arrayrecord", "mds", "webdataset"]),
                help="What the files are; else their names tell.",
            ),
            click.option("--hive", is_flag=True, help="Folders called key=value are columns."),
            ignore_zeros_option,
        ]
    ):
        function = option(function)
    return function


def open_dataset(options: dict[str, Any]) -> Any:
    """The :class:`shardmill.Dataset` of the options; takes them out."""
    from shardmill import Dataset

    columns = options.pop("columns")
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        dataset = Dataset(
            list(options.pop("paths")),
            columns=list(columns) if columns else None,
            filter=options.pop("filter"),
            format=options.pop("format"),
            partitioning="hive" if options.pop("hive") else None,
            ignore_zeros=options.pop("ignore_zeros"),
        )
    for warning in raised:
        print(f"warning: {escape(warning.message)}", file=sys.stderr)
    return dataset


def aligned(lines: Sequence[Sequence[str]], *, to_the_right: Sequence[bool]) -> list[str]:
    """Cells as aligned columns."""
    if not lines:
        return []
    lines = [[escape(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    placed = [
        [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(line, widths, to_the_right, strict=True)
        ]
        for line in lines
    ]
    return ["  ".join(line).rstrip() for line in placed]


def size_text(count: float) -> str:
    """Bytes for people: ``1.5 MiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
