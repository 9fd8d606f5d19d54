"""Checks the ids of files by their footers, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath

from shardmill._native import resume as _native
from shardmill.threads import available_cores


def check_ids(
    paths: Iterable[str | PathLike[str]],
    columns: Sequence[str],
    *,
    format: str | None = None,
    allows_nulls: bool = False,
    expected: tuple[str, str] | None = None,
) -> str | None:
    """Refuses files whose ids a later run could not recognise, from their footers alone.

    Reads schemas and statistics. If the statistics of a row group count nulls, its id column is read to name the row. CSV, JSONL
    and WebDataset files have no footer and pass; their ids are checked when they are read. Files without rows pass too.

    Args:
        paths: files, directories or globs of one format.
        columns: the columns that make an id.
        format: format of the files; by their names when ``None``.
        allows_nulls: whether rows may have a null id.
        expected: types that the ids must have, as returned by an earlier call, and the source of these types, for messages.

    Returns:
        The types of the ids as JSON, or ``None`` if no footer has them.

    Raises:
        MissingColumnError: a file lacks an id column.
        IdTypeError: the type of the ids in a file is not supported for ids, such as float, or differs from that of earlier files
            or from ``expected``.
        FormatError: a row has no id, or a footer is damaged. The message names the file and the row.
    """
    return _native.check_ids(
        [fspath(path) for path in paths],
        list(columns),
        format=format,
        allows_nulls=allows_nulls,
        expected=expected,
        threads=available_cores(),
    )
