"""Rows that could not be decoded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BadRow:
    """A row that could not be decoded.

    Attributes:
        path: path of the file.
        row: index of the row in that file, 0-based.
        cause: error message of the decoder.
    """

    path: str
    row: int
    cause: str
