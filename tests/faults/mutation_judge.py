"""Reads damaged files of one kind by every way, in one process, and says which rule was broken.

A line tells which mutation begins, and one its outcome: so a process that dies names
what killed it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from mutation_files import KINDS, Kind, Rows
from mutators import mutation
from PIL import Image
from shardmill import Loader, Runtime, curate
from shardmill.curate import ParquetSink, Pipeline, inspect, verify
from shardmill.errors import Error

# Before the forks; the judge and the writers of files would do so in each child.
Image.init()

DOCUMENTS = ("parquet of documents", "tar of documents")


def loaded(path: Path) -> Rows | Error:
    """All rows, or the error. Another exception goes through."""
    try:
        batches = list(Loader(path, output="arrow", batch_size=50, runtime=Runtime(threads=1)))
    except Error as error:
        return error
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def plain(rows: Rows) -> Rows:
    """Without what is null: readers give different columns to rows which have no value."""

    def value(cell: Any) -> Any:
        return cell.encode() if isinstance(cell, str) else cell

    return [{name: value(cell) for name, cell in row.items() if cell is not None} for row in rows]


def read_by_others(kind: Kind, path: Path) -> Rows | None:
    try:
        return plain(kind.read(path)) if kind.read else None
    except Exception:
        return None


def judge(name: str, kind: Kind, path: Path, expected: Rows, out: Path) -> tuple[str, list[str]]:
    """The outcome, and the rules that were broken."""
    problems: list[str] = []
    found = loaded(path)
    checks = verify(path, threads=1)
    is_valid = all(check.is_valid for check in checks)
    what = "; ".join(problem.what for check in checks for problem in check.problems)[:300]
    inspections = inspect(path, threads=1).files
    is_document = name in DOCUMENTS
    if isinstance(found, Error):
        outcome = "error"
        if is_valid and not is_document:
            problems.append(f"verify passes what the Loader refuses: {found}")
    else:
        outcome = "same" if found == expected else "other"
        if not is_valid and not is_document and "hash" not in what.lower():
            problems.append(f"verify fails what the Loader reads: {what}")
        if is_valid and not is_document and found != expected:
            others = read_by_others(kind, path)
            if others is not None and others != plain(found):
                problems.append(f"others read other rows: {difference(plain(found), others)}")
            elif others is None and kind.guarded:
                problems.append("rows changed in spite of checksums")
    if not is_valid and not checks[0].problems:
        problems.append("verify does not say why")
    if any(entry.damage for entry in inspections) and is_valid and not is_document:
        problems.append(
            f"inspect finds damage where verify finds none: {inspections[0].damage[:1]}"
        )
    problems += curated(kind, path, found, is_document=is_document, out=out)
    return outcome, problems


def curated(
    kind: Kind, path: Path, found: Rows | Error, *, is_document: bool, out: Path
) -> list[str]:
    shutil.rmtree(out, ignore_errors=True)
    if kind.source is None:
        return []
    source = getattr(curate, kind.source)(path)
    try:
        Pipeline(source=source, stages=[], sink=ParquetSink(out)).run()
    except Error as error:
        return (
            []
            if is_document or isinstance(found, Error)
            else [f"curate refuses what the Loader reads: {error}"]
        )
    if is_document:
        return []
    if isinstance(found, Error):
        return [] if not list(out.glob("*.parquet")) else ["curate writes what the Loader refuses"]
    written = loaded(out) if list(out.glob("*.parquet")) else []
    if isinstance(written, Error) or plain(written) != plain(found):
        return ["curate writes other rows than the Loader reads"]
    return []


def difference(ours: Rows, others: Rows) -> str:
    if len(ours) != len(others):
        return f"{len(ours)} and {len(others)} rows"
    return next(f"{one} and {other}"[:300] for one, other in zip(ours, others) if one != other)


def main(name: str, first: int, count: int, below: str) -> None:
    """``count`` mutations of a kind, beginning with that of the number ``first``."""
    kind, directory = KINDS[name], Path(below)
    whole, case, out = directory / "whole", directory / "case", directory / "out"
    whole.mkdir(parents=True)
    kind.write(whole)
    expected = loaded(whole / kind.path)
    assert not isinstance(expected, Error), expected
    if kind.read:
        assert plain(kind.read(whole / kind.path)) == plain(expected)
    assert all(check.is_valid for check in verify(whole / kind.path)), verify(whole / kind.path)
    assert not any(entry.damage for entry in inspect(whole / kind.path).files)
    content = (whole / kind.file).read_bytes()
    for number in range(first, first + count):
        how, changed = mutation(content, f"{name} {number}")
        print(f"begin {number} {how}", flush=True)
        # A new name each: the clock of a file system is too coarse to tell two contents of
        # one file apart.
        own = case / str(number)
        shutil.copytree(whole, own)
        (own / kind.file).write_bytes(changed)
        try:
            outcome, problems = judge(name, kind, own / kind.path, expected, out)
        except Exception as error:
            outcome, problems = "raised", [f"{type(error).__name__}: {error}"]
        print(
            "end "
            + json.dumps({"number": number, "how": how, "outcome": outcome, "problems": problems}),
            flush=True,
        )
        shutil.rmtree(own)
