"""The command ``shardmill head``."""

from __future__ import annotations

import base64
import json
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from shardmill.cli.options import limit_option, storage_option
from shardmill.cli.tables import aligned, dataset_options, open_dataset
from shardmill.terminal import escape

#: Cells are cut here.
_WIDEST_CELL = 32

_ITEMS_SHOWN = 3
_BYTES_SHOWN = 8


@click.command(name="head")
@dataset_options
@click.option(
    "--rows", "-n", type=click.IntRange(min=0), default=10, show_default=True, metavar="N", help="How many rows."
)
@click.option("--json", "as_json", is_flag=True, help="Write each row as a JSON document on a line of its own.")
@limit_option
@storage_option
def command(rows: int, as_json: bool, **options: Any) -> None:
    """Show the first rows of Parquet, ORC, CSV, JSONL or ArrayRecord files. PATH is a file, a folder or a glob.

    A table wider than the terminal goes on below; bytes that are UTF-8 text are shown as such. In JSON, bytes are
    base64, dates and times ISO 8601, decimals text, NaN and infinities null. With a filter the columns that it names are read as a whole first.

    \b
    Example:
      shardmill head data/ --rows 5 --columns row_id,label
      shardmill head data/*.parquet --filter "label = 0 and text is not null" --json
    """
    dataset = open_dataset(options)
    first = _first_rows(dataset, rows)
    if as_json:
        for row in _as_rows(first):
            click.echo(json.dumps({name: _plain(value) for name, value in row.items()}, ensure_ascii=False))
    else:
        for line in _table(first, _types(dataset), shutil.get_terminal_size((100, 24)).columns):
            click.echo(line)
    count = len(next(iter(first.values()), []))
    files = len(dataset.files)
    kind = " ".join([*([dataset.format] if dataset.format else []), "file" if files == 1 else "files"])
    print(f"{count:,} of {len(dataset):,} rows in {files:,} {kind}", file=sys.stderr)


def _first_rows(dataset: Any, rows: int) -> dict[str, list[Any]]:
    """Columns by name, of the first rows."""
    from shardmill import Loader

    if rows:
        # One superbatch, and nothing ahead of it.
        loader = Loader(dataset, batch_size=rows, output="dict", rank=0, world_size=1, threads=0, prefetch_bytes=1)
        for batch in loader:
            return batch
    return {name: [] for name in dataset.columns}


def _as_rows(columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _types(dataset: Any) -> list[str]:
    """Of the columns; empty texts where no Arrow library is installed."""
    schema = dataset.schema
    names = dataset.columns
    return [str(schema.field(name).type) for name in names] if hasattr(schema, "types") else ["" for _ in names]


def _table(columns: dict[str, list[Any]], types: Sequence[str], width: int) -> Iterator[str]:
    """Lines of at most ``width``, as far as one column allows; what does not fit follows below, with the numbers of the rows again."""
    rows = len(next(iter(columns.values()), []))
    numbers = ["", "", *(str(number) for number in range(rows))]
    band: list[tuple[list[str], bool]] = []
    filled = first = max(map(len, numbers))
    for (name, values), data_type in zip(columns.items(), types, strict=True):
        cells = [_cut(name), _cut(data_type), *(_cell(value) for value in values)]
        is_number = any(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        needed = 2 + max(map(len, cells))
        if band and filled + needed > width:
            yield from [*_lines(numbers, band), ""]
            band, filled = [], first
        band.append((cells, is_number))
        filled += needed
    yield from _lines(numbers, band)


def _lines(numbers: list[str], band: list[tuple[list[str], bool]]) -> list[str]:
    lines = list(zip(numbers, *(cells for cells, _ in band), strict=True))
    return aligned(lines, to_the_right=[True, *(is_number for _, is_number in band)])


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_cell(bytes(value))
    if isinstance(value, float):
        return repr(value) if len(repr(value)) <= 12 else f"{value:.6g}"
    if isinstance(value, list | tuple):
        shown = ", ".join(f"{item:.3g}" if isinstance(item, float) else _cell(item) for item in value[:_ITEMS_SHOWN])
        return _cut(f"[{shown}, … {len(value):,}]" if len(value) > _ITEMS_SHOWN else f"[{shown}]")
    if isinstance(value, dict):
        return _cut("{" + ", ".join(f"{name}: {_cell(item)}" for name, item in value.items()) + "}")
    return _cut(str(value))


def _bytes_cell(value: bytes) -> str:
    """Text where it is text, else the length and the first bytes."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    # Tabs and line ends are of texts; other control characters tell that the bytes only happen to be UTF-8.
    if all(mark.isprintable() or mark in "\t\n\r" for mark in text):
        return _cut(text)
    shown = value[:_BYTES_SHOWN].hex()
    return f"<{len(value):,} bytes: {shown}{'…' if len(value) > _BYTES_SHOWN else ''}>"


def _cut(text: str) -> str:
    # Escapes keep one row on one line, and control characters away from the terminal.
    text = escape(text[: _WIDEST_CELL + 1])
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"


def _plain(value: Any) -> Any:
    """``value`` as JSON knows it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
