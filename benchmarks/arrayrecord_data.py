"""Writes the files of the ArrayRecord benchmark by array_record.

    python -m benchmarks.arrayrecord_data --out=DIR --set=zstd_1

The records follow from their number alone: 200 words of lorem-text each. The set ``lorem`` is the
bare records.
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Metrics, make_set, read_options

# Writer options of each codec, at the levels of the published report.
CODECS = {"zstd": "zstd:3", "brotli": "brotli:3", "snappy": "snappy", "none": "uncompressed"}
GROUPS = (1, 256)
FILE, SEED = "records.array_record", 42
_RAW, _LENGTHS = "records.bin", "lengths.npy"
_WORDS, _SAMPLE = 200, 64
# The long file holds the records eight times over, the short one a part of them.
_SHARES = {"small": 1 / 64, "large": 8.0}


@dataclass(frozen=True)
class _Options:
    out: Path
    set: str
    records: int = 65_536
    raw: Path | None = None


def read_raw(directory: Path) -> list[bytes]:
    """The bare records."""
    content = (directory / _RAW).read_bytes()
    ends = np.cumsum(np.load(directory / _LENGTHS), dtype=np.int64).tolist()
    return [content[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _write_raw(directory: Path, count: int) -> None:
    from lorem_text import lorem

    random.seed(SEED)
    made = [lorem.words(_WORDS).encode() for _ in range(count)]
    (directory / _RAW).write_bytes(b"".join(made))
    np.save(directory / _LENGTHS, np.array([len(record) for record in made], dtype=np.uint32))


def _write_file(directory: Path, raw: Path, total: int, options: str) -> Metrics:
    from array_record.python.array_record_module import ArrayRecordWriter

    records = read_raw(raw)
    writer: Any = ArrayRecordWriter(str(directory / FILE), options)
    for number in range(total):
        writer.write(records[number % len(records)])
    writer.close()
    chosen = {0, total - 1, *np.random.default_rng(SEED).integers(total, size=_SAMPLE).tolist()}
    hashes = {
        number: hashlib.blake2b(records[number % len(records)], digest_size=16)
        for number in sorted(chosen)
    }
    return {
        "raw_bytes": sum(len(records[number % len(records)]) for number in range(total)),
        "sample": {str(number): one.hexdigest() for number, one in hashes.items()},
    }


def main() -> None:
    """Writes the set that the command line names.

    It is ``lorem``, ``<codec>_<group>``, ``small`` or ``large``.
    """
    options = read_options(_Options)
    if options.set == "lorem":
        wanted = {"records": options.records, "words": _WORDS, "seed": SEED}
        make_set(options.out, wanted, lambda directory: _write_raw(directory, options.records))
        return
    raw = options.raw
    assert raw is not None, "--raw names the directory of the bare records"
    codec, _, group = ("zstd_1" if options.set in _SHARES else options.set).partition("_")
    total = max(1, int(options.records * _SHARES.get(options.set, 1)))
    wanted = {
        "codec": codec,
        "group": int(group),
        "records": total,
        "words": _WORDS,
        "of": options.records,
    }
    make_set(
        options.out,
        wanted,
        lambda directory: _write_file(directory, raw, total, f"group_size:{group},{CODECS[codec]}"),
    )


if __name__ == "__main__":
    main()
