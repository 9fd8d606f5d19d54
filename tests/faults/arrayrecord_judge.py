"""What our reader makes of a damaged file.

Every record as it was written, or an error of the right class. Runs in a process of its own, where
a crash is an exit code.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader
from shardmill.errors import RecordError

REFUSED, PARTLY, WHOLE = "refused", "partly", "whole"


class WrongRecordError(Exception):
    """What must never happen."""


def judge(path: Path, records: list[bytes]) -> str:
    """REFUSED at the opening, PARTLY where some call raises, WHOLE where none does."""
    try:
        reader = ArrayRecordReader(path)
    except RecordError as error:
        must(path.name in str(error), f"no file name in: {error}")
        refused_without_strictness(path)
        return REFUSED
    must(len(reader) == len(records), f"{len(reader)} records")
    answers = []
    for number, record in enumerate(records):
        answers.append(answer(lambda at: reader.read([at]), [record], number))
        answers.append(answer(lambda at: [reader[at]], [record], number))
        answers.append(answer(lambda at: [bytes(reader.view(at))], [record], number))
        answers.append(answer(lambda at: [read_into(reader, at)], [record], number))
    answers.append(answer(reader.read_all, records))
    answers.append(answer(lambda: reader.read(range(len(records))[::-1]), records[::-1]))
    answers.append(answer(lambda: list(reader), records))
    answers.append(answer(lambda: list(ArrayRecordDataSource(path)), records))
    if records:
        answers.append(answer(lambda: reader.read(0, len(records)), records))
        answers.append(
            answer(lambda: ArrayRecordDataSource(path).__getitems__(range(len(records))), records)
        )
    for number, record in enumerate(records):
        if not answer(lambda: [reader.read()], [record]):
            answers.append(False)
            must(not reader.ok(), f"a reader that failed at {number} is fine again")
            break
    return WHOLE if all(answers) else PARTLY


def answer(call: Callable[..., Iterable[bytes]], expected: list[bytes], *arguments: int) -> bool:
    try:
        found = list(call(*arguments))
    except RecordError:
        return False
    must(found == expected, f"{str(found)[:200]} in the place of {str(expected)[:200]}")
    return True


def read_into(reader: ArrayRecordReader, number: int) -> bytes:
    buffer = bytearray(200_000)
    return bytes(buffer[: reader.read_into(number, buffer)])


def refused_without_strictness(path: Path) -> None:
    reader = ArrayRecordReader(path, strict=False)
    must(not reader.ok() and reader.num_records() == 0, "a file that strictness refuses is fine")
    for call in (
        reader.read,
        reader.read_all,
        lambda: reader.read([0]),
        reader.close,
        lambda: ArrayRecordDataSource(path),
    ):
        try:
            call()
        except RuntimeError:
            continue
        raise WrongRecordError(f"an answer of {call}")


def must(holds: bool, message: str) -> None:
    if not holds:
        raise WrongRecordError(message)


def judge_all(
    directory: Path, records: list[bytes], files: Iterable[tuple[str, bytes]]
) -> Counter[str]:
    """``files`` with a word for where they are damaged. The counts are of 'word: outcome'."""
    counts: Counter[str] = Counter()
    for number, (word, content) in enumerate(files):
        # A new name each: the clock of a file system is too coarse to tell two contents of
        # one file apart.
        path = directory / f"damaged{number}"
        path.write_bytes(content)
        try:
            counts[f"{word}: {judge(path, records)}"] += 1
        except Exception as error:
            sys.exit(f"{path}, damaged in its {word}: {error!r}")
        path.unlink()
    return counts


def report(counts: Counter[str]) -> None:
    print(json.dumps(counts))
