"""Checks whole shards: archives, order, structure and image headers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from shardmill._native import verify as native
from shardmill.curate.progress import Progress
from shardmill.dataset import warn_of_left_out
from shardmill.errors import OptionError
from shardmill.storage import Paths, path_list
from shardmill.terminal import escape

Layout = Literal["auto", "source", "written"]


@dataclass(frozen=True)
class Problem:
    """One broken rule in one file.

    Attributes:
        rule: ``readable``, ``json``, ``structure``, ``ordering``, ``image`` or ``row``.
        what: what is wrong.
        sample: id or stem of the sample, where one is concerned.
        member: of a tar; for ArrayRecord, the chunk; for Parquet, row group, column and page; for an MDS index, the shard.
        row: the first row of the document or block with the problem, counted from 0.
        offset: of the member or chunk, in the file or in the inflated copy of a compressed one.
    """

    rule: str
    what: str
    sample: str | None = None
    member: str | None = None
    row: int | None = None
    offset: int | None = None

    @property
    def place(self) -> str:
        """Member or row, and offset."""
        place = self.member or ("" if self.row is None else f"row {self.row}")
        return place if self.offset is None else f"{place} at {self.offset}".strip()


@dataclass(frozen=True)
class FileCheck:
    """The outcome of checking one file.

    Attributes:
        path: the file.
        format: ``tar``, ``parquet``, ``orc``, ``csv``, ``jsonl``, ``arrayrecord``, ``mds``, ``mds_index``, ``image`` or ``unknown``.
        is_written: of a tar, whether the rules for files of :class:`WebDatasetSink` were applied.
        bytes: size of the file.
        samples: number of documents; for files without documents, of rows.
        rows: rows by modality; rows of files without documents count as ``other``.
        duplicate_sample_ids: documents whose id an earlier one has; no problem.
        unreferenced_members: members that no sample names; a problem in written tars only.
        ordering_valid: each document has one metadata row, first, and its content in ascending positions.
        wds_valid: the tar is complete and its samples are made as they should be; None for other formats.
        problem_count: all problems, of which ``problems`` has the first.
        problems: what is wrong, in the order of the file.
    """

    path: str
    format: str
    is_written: bool | None
    bytes: int
    samples: int
    rows: dict[str, int]
    duplicate_sample_ids: int
    unreferenced_members: int
    ordering_valid: bool
    wds_valid: bool | None
    problem_count: int
    problems: list[Problem]

    @property
    def is_valid(self) -> bool:
        """True when nothing is wrong."""
        return self.problem_count == 0

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)


def verify(
    paths: Paths,
    *,
    layout: Layout = "auto",
    is_renumbered: bool = False,
    texts_field: str = "texts",
    images_field: str = "images",
    sample_id_field: str | None = None,
    image_member_field: str | None = None,
    ignore_zeros: bool = False,
    max_problems: int = 100,
    workers: int | None = None,
    progress: bool = False,
) -> list[FileCheck]:
    """Checks Parquet, ORC, CSV, JSONL, ArrayRecord, MDS and tar files completely, on threads.

    Damage is a result, never an exception. A file passes when :class:`~shardmill.Loader` can read all of its rows and every checksum matches:
    the CRC of each Parquet page, every hash of an MDS index, the hashes of each ArrayRecord chunk, the checksums of gzip and zstd streams.
    Tars and Parquet files of interleaved documents are also checked for order, structure and image headers. The payloads in an uncompressed
    tar of documents are not read, because a tar has no checksums of them.

    Args:
        paths: a file, a folder (searched recursively), a glob, or a list of these. A file that is named outright may
            be an image.
        layout: ``"written"`` applies the rules for tars of :class:`WebDatasetSink`, ``"source"`` those for any shard
            that can be a source; ``"auto"`` looks which one a tar is.
        is_renumbered: a filter wrote the files, so positions must be exactly 0 to n-1.
        texts_field: key of the list of texts in the JSON of a tar.
        images_field: key of the list of images.
        sample_id_field: key of the document's id.
        image_member_field: key that names the member for entries that name none.
        ignore_zeros: read tars that were joined by ``cat`` up to their last member, as ``tar -i`` does.
        max_problems: so many problems of each file are kept; all are counted.
        workers: files that are checked at once; the number of cores, when nothing is said.
        progress: show a bar on a terminal when it takes longer than two seconds.

    Returns:
        One result a file, sorted by path.

    Raises:
        shardmill.NotFoundError: a path is missing or holds no shard.

    Example:
        >>> from shardmill.curate import verify
        >>> [check.path for check in verify("curated/") if not check.is_valid]  # doctest: +SKIP
        []
    """
    if layout not in get_args(Layout):
        raise OptionError(f"`layout` is {layout!r}; one of {', '.join(get_args(Layout))}")
    options = {
        "layout": layout,
        "is_renumbered": is_renumbered,
        "keys": {
            "texts_field": texts_field,
            "images_field": images_field,
            "sample_id_field": sample_id_field,
            "image_member_field": image_member_field,
        },
        "max_problems": max_problems,
        "ignore_zeros": ignore_zeros,
    }
    files, left_out = native.checkable_files(path_list(paths))
    warn_of_left_out(left_out, outcome="of an unknown format and not verified", stacklevel=3)
    checks: list[FileCheck] = []
    with Progress(total=len(files), is_shown=progress, noun="files") as bar:

        def on_check(text: str) -> None:
            check = json.loads(text)
            check["problems"] = [Problem(**problem) for problem in check["problems"]]
            checks.append(FileCheck(**check))
            bar.count(samples=checks[-1].samples, size=checks[-1].bytes)

        native.verify_files(files, json.dumps(options), worker_count(workers), on_check)
    return checks


def worker_count(workers: int | None) -> int:
    """``workers``, or one a core."""
    from shardmill.threads import available_cores

    if workers is not None and workers < 1:
        raise OptionError("`workers` must be positive")
    return workers or available_cores()


def problem_table(checks: Sequence[FileCheck]) -> str:
    """The problems of all files as aligned columns; empty when there is none."""
    rows = [("file", "rule", "where", "sample", "problem")]
    for check in checks:
        rows += [
            (check.path, problem.rule, problem.place, problem.sample or "", problem.what) for problem in check.problems
        ]
        left = check.problem_count - len(check.problems)
        if left:
            rows.append((check.path, "", "", "", f"{left:,} more problems"))
    if len(rows) == 1:
        return ""
    rows = [tuple(map(escape, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join([*map(str.ljust, row, widths), row[4]]).rstrip() for row in rows)
