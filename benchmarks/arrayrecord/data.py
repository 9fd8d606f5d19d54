"""Writes the files of the ArrayRecord benchmark: ``python -m benchmarks.arrayrecord.data OUT --records 65536``.

Enters: a number of records. Leaves: a folder a set with its file and, written last, ``manifest.json``; and the bare
records in ``lorem``. Invariant: the records follow from their number alone, the files are those of array_record's own
writer, and a folder whose manifest is there already is kept.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrayrecord.sets import (
    FILE,
    LENGTHS_FILE,
    MANIFEST,
    RAW_FILE,
    RAW_SET,
    RECORDS,
    SAMPLE,
    SETS,
    WORDS,
    DataSet,
    digest,
)
from benchmarks.runner.session import DATASET_RECORD

_SEED = 42
# A writer of files: takes a path and options, has ``write`` and ``close``.
Writer = Callable[[str, str], Any]


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line and writes the folders."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.arrayrecord.data", description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the data sets")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--sets", nargs="+", choices=sorted(SETS), default=list(SETS), help="which; default: all")
    options = parser.parse_args(arguments)
    # Both are in the peer's environment only.
    from array_record.python.array_record_module import ArrayRecordWriter  # pyright: ignore[reportMissingImports]
    from lorem_text import lorem  # pyright: ignore[reportMissingImports]

    write_raw(options.out / RAW_SET, options.records, lorem.words)
    records = read_raw(options.out / RAW_SET)
    for name in options.sets:
        start = time.perf_counter()
        is_new = write_set(SETS[name], options.out / name, records, ArrayRecordWriter)
        print(
            f"{options.out / name}: {'written' if is_new else 'kept'}, {time.perf_counter() - start:.1f} s", flush=True
        )


def write_raw(folder: Path, records: int, words: Callable[[int], str]) -> bool:
    """Makes the bare records, unless they are there already; returns whether it did.

    Args:
        folder: Gets one file of all bytes and one of all lengths.
        records: How many.
        words: Gives a text of so many words, by the random numbers of ``random``.
    """
    wanted = {"name": RAW_SET, "records": records, "words": WORDS, "seed": _SEED}
    if _has(folder, wanted):
        return False
    _clear(folder)
    random.seed(_SEED)
    made = [words(WORDS).encode() for _ in range(records)]
    (folder / RAW_FILE).write_bytes(b"".join(made))
    np.save(folder / LENGTHS_FILE, np.array([len(record) for record in made], dtype=np.uint32))
    _finish(folder, wanted, wanted)
    return True


def read_raw(folder: Path) -> list[bytes]:
    """Returns the bare records."""
    content = (folder / RAW_FILE).read_bytes()
    ends = np.cumsum(np.load(folder / LENGTHS_FILE), dtype=np.int64).tolist()
    return [content[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def write_set(one: DataSet, folder: Path, records: Sequence[bytes], writer: Writer) -> bool:
    """Writes one data set, unless it is there already; returns whether it was written."""
    wanted = one.manifest(len(records))
    if _has(folder, wanted):
        return False
    _clear(folder)
    total = wanted["records"]
    raw_bytes = 0
    target = writer(str(folder / FILE), one.writer_options)
    for number in range(total):
        record = records[number % len(records)]
        raw_bytes += len(record)
        target.write(record)
    target.close()
    chosen = np.random.default_rng(_SEED).integers(total, size=SAMPLE).tolist()
    sample = {str(number): digest(records[number % len(records)]) for number in sorted({0, total - 1, *chosen})}
    size = (folder / FILE).stat().st_size
    made = wanted | {"raw_bytes": raw_bytes, "bytes": size}
    _finish(folder, wanted | {"raw_bytes": raw_bytes, "sample": sample}, made)
    return True


def _has(folder: Path, wanted: dict[str, Any]) -> bool:
    manifest = folder / MANIFEST
    return manifest.exists() and wanted.items() <= json.loads(manifest.read_text()).items()


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _finish(folder: Path, manifest: dict[str, Any], record: dict[str, Any]) -> None:
    """Writes what a session copies into its results, then the manifest, which says that the folder is complete."""
    (folder / DATASET_RECORD).write_text(json.dumps(record, indent=2) + "\n")
    staging = folder / f".{MANIFEST}.partial"
    staging.write_text(json.dumps(manifest, indent=2) + "\n")
    staging.replace(folder / MANIFEST)


if __name__ == "__main__":
    main()
