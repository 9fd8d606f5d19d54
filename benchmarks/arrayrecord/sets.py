"""The data sets of the ArrayRecord benchmark: codecs, records a file, and the sizes that were published for them.

Enters: nothing. Leaves: ``SETS``. Called by ``data``, which writes them, and by the scenarios. Invariant: the standard
library is enough, because the peers' interpreters import this file too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

RECORDS = 65_536
WORDS = 200
# Writer options of each codec, at the levels of the published report.
CODECS = {"zstd": "zstd:3", "brotli": "brotli:3", "snappy": "snappy", "none": "uncompressed"}
GROUPS = (1, 256)
# File size in % of the records' bytes, by codec and group size: the performance guide of array_record.
PUBLISHED_SIZES = {
    ("zstd", 1): 54.12,
    ("zstd", 256): 25.88,
    ("brotli", 1): 53.11,
    ("brotli", 256): 27.50,
    ("snappy", 1): 86.95,
    ("snappy", 256): 38.49,
    ("none", 1): 103.87,
    ("none", 256): 100.29,
}
MANIFEST = "manifest.json"
FILE = "records.array_record"
# The records themselves, one after another, and their lengths: what the writers are given.
RAW_SET, RAW_FILE, LENGTHS_FILE = "lorem", "records.bin", "lengths.npy"
# Records whose hashes the manifest holds.
SAMPLE = 64
# The long file holds the records this many times over, the short one this part of them.
_LARGE, _SMALL = 8, 64
_FORMULA = 1


@dataclass(frozen=True)
class DataSet:
    """One ArrayRecord file of ``records * numerator // denominator`` records."""

    name: str
    codec: str
    group: int
    numerator: int = 1
    denominator: int = 1

    @property
    def writer_options(self) -> str:
        """The option string that the file is written with."""
        return f"group_size:{self.group},{CODECS[self.codec]}"

    def size(self, records: int) -> int:
        """Records of the file, where the plain ones have ``records``."""
        return max(1, records * self.numerator // self.denominator)

    def manifest(self, records: int) -> dict[str, Any]:
        """Returns everything that decides the content of the file."""
        return {
            "name": self.name,
            "codec": self.codec,
            "group": self.group,
            "words": WORDS,
            "records": self.size(records),
            "of": records,
            "formula": _FORMULA,
        }


def digest(record: bytes) -> str:
    """The hash that a manifest holds of a record."""
    return hashlib.blake2b(record, digest_size=16).hexdigest()


def _sets() -> list[DataSet]:
    plain = [DataSet(f"{codec}_{group}", codec, group) for codec in CODECS for group in GROUPS]
    return [*plain, DataSet("small", "zstd", 1, denominator=_SMALL), DataSet("large", "zstd", 1, numerator=_LARGE)]


SETS = {one.name: one for one in _sets()}
