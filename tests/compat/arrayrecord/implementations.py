"""The original and ours, under one set of names: what holds for one has to hold for the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from array_record.python import array_record_data_source, array_record_module
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter

CODECS = ["zstd", "brotli", "snappy", "uncompressed"]


@dataclass(frozen=True)
class Implementation:
    name: str
    reader: Any
    writer: Any
    data_source: Any

    def write(self, path: Path, records: Iterable[bytes], options: str = "") -> Path:
        writer = self.writer(str(path), options)
        for record in records:
            writer.write(record)
        writer.close()
        return path


ORIGINAL = Implementation(
    "original",
    array_record_module.ArrayRecordReader,
    array_record_module.ArrayRecordWriter,
    array_record_data_source.ArrayRecordDataSource,
)
OURS = Implementation(
    "ours",
    partial(ArrayRecordReader, strict=False),
    partial(ArrayRecordWriter, strict=False),
    partial(ArrayRecordDataSource, strict=False),
)
STRICT = Implementation("strict", ArrayRecordReader, ArrayRecordWriter, ArrayRecordDataSource)


def numbered(count: int) -> list[bytes]:
    """Records that differ, of several lengths, some of them empty."""
    return [b"record %d " % number * (number % 5) for number in range(count)]
