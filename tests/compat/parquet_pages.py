"""The pages of a Parquet file by their headers, decoded from the definition of the format alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

I32 = 0x15


class Page(NamedTuple):
    row_group: int
    column: str
    kind: int
    start: int
    """Of the data, after the header."""
    end: int
    crc: int | None


def number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value >> 1 ^ -(value & 1), at


def header_end(data: bytes, at: int) -> int:
    """After the structure of the compact protocol that begins at ``at``."""
    while (field := data[at]) != 0:
        at += 1
        kind = field & 15
        if kind in (5, 6):
            at = number(data, at)[1]
        elif kind == 8:
            length, at = number(data, at)
            at += (length << 1 ^ length >> 63) & 0xFFFFFFFF
        elif kind == 12:
            at = header_end(data, at)
        elif kind not in (1, 2):
            raise ValueError(f"field of type {kind}")
    return at + 1


def pages(path: Path) -> Iterator[Page]:
    """All of them; each column chunk has to end where the footer says."""
    data = path.read_bytes()
    metadata = pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(leaf)
            at = (
                chunk.data_page_offset
                if chunk.dictionary_page_offset is None
                else chunk.dictionary_page_offset
            )
            end = at + chunk.total_compressed_size
            unpacked, first_data = 0, None
            while at < end:
                begin, found = at, []
                while data[at] == I32:
                    value, at = number(data, at + 1)
                    found.append(value)
                start = header_end(data, at)
                kind, unpacked_page, packed_page = found[:3]
                if kind != 2 and first_data is None:
                    first_data = begin
                unpacked += start - begin + unpacked_page
                crc = found[3] & 0xFFFFFFFF if len(found) > 3 else None
                at = start + packed_page
                yield Page(group, chunk.path_in_schema, kind, start, at, crc)
            assert (at, unpacked, first_data) == (
                end,
                chunk.total_uncompressed_size,
                chunk.data_page_offset,
            )
