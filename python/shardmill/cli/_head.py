"""The command ``shardmill head``."""

from __future__ import annotations

import base64
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import click

from shardmill._native.formats import type_names
from shardmill._terminal import aligned, counted, escape
from shardmill.cli._messages import tell
from shardmill.cli._options import FROM_0, PATH, limit_option, storage_option
from shardmill.cli._tables import dataset_options, open_dataset, token_files_option
from shardmill.errors import FormatError

#: Maximum width of a cell.
_WIDEST_CELL = 32

_ITEMS_SHOWN = 3
_BYTES_SHOWN = 8


@click.command(name="head")
@dataset_options
@token_files_option
@click.option("--rows", "-n", **FROM_0, default=10, help="How many rows.")
@click.option(
    "--tokenizer",
    type=PATH,
    metavar="PATH",
    help="Show the ids in columns tokens, input_ids and labels as the text of this tokenizer.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write each row as a JSON document on a line of its own.",
)
@limit_option
@storage_option
def command(rows: int, tokenizer: str | None, as_json: bool, **options: Any) -> None:
    """Show the first rows of Parquet, ORC, CSV, JSONL, ArrayRecord, MDS or WebDataset files.

    PATH is a file, a directory or a glob. A table wider than the terminal is continued below; bytes
    that are UTF-8 text are shown as text. In JSON, bytes are base64, dates and times are ISO 8601,
    decimals are strings, NaN and infinities are null. With a filter, the columns that it uses are
    first read completely.

    \b
    Example:
      shardmill head data/ --rows 5 --columns row_id,label
      shardmill head data/*.parquet --filter "label = 0 and text is not null" --json
      shardmill head tokens/ --tokenizer model/ --columns tokens
    """
    dataset = open_dataset(options)
    first = _first_rows(dataset, rows)
    if tokenizer is not None:
        first = _decoded(first, tokenizer)
    if as_json:
        for values in zip(*first.values(), strict=True):
            click.echo(
                json.dumps(dict(zip(first, map(_plain, values), strict=True)), ensure_ascii=False)
            )
    elif first:
        for line in _table(first, _types(dataset), shutil.get_terminal_size((100, 24)).columns):
            click.echo(line)
    count = len(next(iter(first.values()), []))
    files = counted(len(dataset.files), f"{dataset.format} file" if dataset.format else "file")
    shown = f"{count:,} of {counted(len(dataset), 'row')}" if len(dataset) else "no rows"
    tell(f"{shown} in {files}")


def _first_rows(dataset: Any, rows: int) -> dict[str, list[Any]]:
    """Return the first rows as columns by name."""
    # Of these, Python's types cannot hold all values.
    exact = [
        name
        for name, data_type in zip(dataset.columns, _types(dataset), strict=True)
        if "[ns" in data_type
    ]
    columns: dict[str, list[Any]] = {name: [] for name in dataset.columns}
    if rows and len(exact) < len(columns):
        try:
            columns |= (
                _first_batch(dataset, rows, [name for name in columns if name not in exact], "dict")
                or {}
            )
        except FormatError:
            # Years above 9999 and intervals have no type in Python. A damaged file fails again.
            exact = list(columns)
    if rows and exact:
        batch = _first_batch(dataset, rows, exact, "arrow")
        if batch is not None:
            columns |= {name: [_exact(value) for value in batch.column(name)] for name in exact}
    return columns


def _first_batch(dataset: Any, rows: int, columns: list[str], output: Any) -> Any:
    """Return the first rows of some columns; None if there are no rows."""
    from shardmill import Loader, Runtime

    # One superbatch, without prefetching more.
    runtime = Runtime(threads=0, prefetch_bytes=1)
    loader = Loader(
        dataset,
        batch_size=rows,
        columns=columns,
        output=output,
        rank=0,
        world_size=1,
        runtime=runtime,
    )
    return next(iter(loader), None)


def _exact(value: Any) -> Any:
    """Return a ``pyarrow.Scalar`` as a Python value with all of its digits."""
    import pyarrow as pa

    from shardmill.data._nanoseconds import ExactTime, exact_time
    from shardmill.view._cells import plain_scalar, scalar_text

    value = plain_scalar(value)
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {field.name: _exact(value[at]) for at, field in enumerate(value.type)}
    if isinstance(value, pa.MapScalar):
        return [(_exact(entry[0]), _exact(entry[1])) for entry in value.values]
    if hasattr(value, "values"):
        return [_exact(item) for item in value.values]
    exact = exact_time(value)
    if exact is not None:
        return exact
    try:
        return value.as_py()
    except OverflowError:
        return ExactTime(scalar_text(value))


def _decoded(columns: dict[str, list[Any]], path: str) -> dict[str, list[Any]]:
    """Return the columns with lists of tokens as texts.

    A list with an id that is not in the vocabulary stays as it is.
    """
    from shardmill import Tokenizer
    from shardmill.view._token_columns import LABELS, TOKEN_NAMES
    from shardmill.view._token_texts import spelling_of

    tokenizer = Tokenizer(path)

    def text(value: Any, *, are_labels: bool) -> Any:
        is_ids = isinstance(value, list) and all(
            isinstance(id, int) and not isinstance(id, bool) for id in value
        )
        # A label below 0 is one that a loss ignores.
        ids = [id for id in value if not (are_labels and id < 0)] if is_ids else []
        is_known = all(spelling_of(tokenizer, id) is not None for id in ids)
        return tokenizer.decode(ids) if is_ids and is_known else value

    return columns | {
        name: [text(value, are_labels=name == LABELS) for value in columns[name]]
        for name in TOKEN_NAMES
        if name in columns
    }


def _types(dataset: Any) -> list[str]:
    """Return the names of the types of the columns."""
    return type_names(dataset.schema)


def _table(columns: dict[str, list[Any]], types: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines of at most ``width``, if single columns allow it.

    Other columns follow below, with the row indices repeated.
    """
    rows = len(next(iter(columns.values()), []))
    numbers = ["", "", *(str(number) for number in range(rows))]
    band: list[tuple[list[str], bool]] = []
    filled = first = max(map(len, numbers))
    for (name, values), data_type in zip(columns.items(), types, strict=True):
        cells = [_cut(name), _cut(data_type), *(_cell(value) for value in values)]
        is_number = any(
            isinstance(value, int | float) and not isinstance(value, bool) for value in values
        )
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
        shown = ", ".join(
            f"{item:.3g}" if isinstance(item, float) else _cell(item)
            for item in value[:_ITEMS_SHOWN]
        )
        return _cut(f"[{shown}, … {len(value):,}]" if len(value) > _ITEMS_SHOWN else f"[{shown}]")
    if isinstance(value, dict):
        return _cut("{" + ", ".join(f"{name}: {_cell(item)}" for name, item in value.items()) + "}")
    return _cut(str(value))


def _bytes_cell(value: bytes) -> str:
    """Return text if the bytes are text, else the length and the first bytes."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    # Tabs and newlines occur in text; other control characters mean that bytes are UTF-8 by chance.
    if all(mark.isprintable() or mark in "\t\n\r" for mark in text):
        return _cut(text)
    shown = value[:_BYTES_SHOWN].hex()
    return f"<{len(value):,} bytes: {shown}{'…' if len(value) > _BYTES_SHOWN else ''}>"


def _cut(text: str) -> str:
    # Escapes keep one row on one line, and control characters away from the terminal.
    text = escape(text[: _WIDEST_CELL + 1])
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"


def _plain(value: Any) -> Any:
    """Convert ``value`` to JSON types."""
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
