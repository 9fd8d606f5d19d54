"""Checks whole shards: archives, order, structure and image headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from shardmill._choices import check_choice
from shardmill._native.check import label_masks, verify_files
from shardmill._option_values import whole
from shardmill._terminal import aligned
from shardmill.curate._walk import walk
from shardmill.data._token_files import TokenDtype
from shardmill.storage._paths import Paths, path_list

Layout = Literal["auto", "source", "written"]


@dataclass(frozen=True)
class Problem:
    """One broken rule in one file.

    Attributes:
        rule: ``readable``, ``json``, ``structure``, ``ordering``, ``image`` or ``row``.
        what: what is wrong.
        sample: id or stem of the affected sample, if any.
        member: member of a tar; for ArrayRecord, the chunk; for Parquet, row group, column and
            page; for an MDS index, the shard.
        row: the first row of the document with the problem, or the first row that cannot be read,
            0-based.
        offset: offset of the member or chunk, in the file or in the decompressed content of a
            compressed one.
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
        format: ``tar``, ``parquet``, ``orc``, ``csv``, ``jsonl``, ``arrayrecord``, ``mds``,
            ``mds_index``, ``megatron``, ``datatrove``, ``bin``, ``npy``, ``image`` or ``unknown``.
        is_written: for a tar, whether the rules for files of ``WebDatasetSink`` were applied.
        bytes: size of the file.
        samples: number of documents; for files without documents, number of rows.
        rows: rows by modality; rows of files without documents count as ``other``.
        duplicate_sample_ids: number of documents with the id of an earlier one; not a problem.
        unreferenced_members: number of members that no sample refers to; a problem in written tars
            only.
        ordering_valid: whether each document has one metadata row, first, and its content in
            ascending positions.
        wds_valid: whether the tar is complete and its samples are well-formed; None for other
            formats.
        problem_count: number of all problems; ``problems`` has the first ones.
        problems: the problems, in file order.
        notes: what is unusual about a valid file, such as gaps between the sequences of
            Megatron-LM.
        shards: for an index, the number of shards that it lists; None for other formats.
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
    notes: list[str] = field(default_factory=list)
    shards: int | None = None

    @property
    def is_valid(self) -> bool:
        """Whether there are no problems."""
        return self.problem_count == 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
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
    vocab_size: int | None = None,
    dtype: TokenDtype | None = None,
    label_mask_paths: Paths | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> list[FileCheck]:
    """Check Parquet, ORC, CSV, JSONL, ArrayRecord, MDS, tar and token files completely, on threads.

    Damage is a result, never an exception. A file passes if ``shardmill.Loader`` can read all of
    its rows and every checksum matches: the CRC of each Parquet page, every hash of an MDS index,
    the hashes of each ArrayRecord chunk, the checksums of gzip and zstd streams. Tars and Parquet
    files of interleaved documents are also checked for order, structure and image headers. The
    payloads in an uncompressed tar of documents are not read, because a tar has no checksums of
    them. Of token files, all sizes, indices and masks are checked; ids if ``vocab_size`` is given.

    Args:
        paths: a file, a directory (searched recursively), a glob, or a list of these. An explicit
            path may be an image.
        layout: ``"written"`` applies the rules for tars of ``WebDatasetSink``, ``"source"`` those
            for any shard that can be a source; ``"auto"`` detects the layout of each tar.
        is_renumbered: whether a filter wrote the files, so that positions must be exactly 0 to n-1.
        texts_field: key of the list of texts in the JSON of a tar.
        images_field: key of the list of images.
        sample_id_field: key of the document's id.
        image_member_field: key that names the member, for entries without a member name.
        ignore_zeros: read tars that were joined with ``cat`` up to their last member, like
            ``tar -i``.
        max_problems: number of problems kept for each file; all are counted.
        vocab_size: number of ids of the vocabulary, which every id of token files must be below.
        dtype: how token files without a header store an id: ``.bin`` of nanoGPT, and ``.npy`` with
            ``.csv.gz`` of OLMo-core, which are left out otherwise.
        label_mask_paths: masks of the ``.npy`` files, as for ``TokenFiles``: they must have a byte,
            0 or 1, for each token.
        threads: number of threads, each of which checks one file at a time; the number of cores by
            default.
        progress: show a bar on a terminal if it takes longer than two seconds.

    Returns:
        One result per file, sorted by path.

    Raises:
        shardmill.NotFoundError: If a path is missing or has no shard.

    Examples:
        >>> from shardmill.curate import verify
        >>> [check.path for check in verify("curated/") if not check.is_valid]  # doctest: +SKIP
        []
    """
    check_choice("layout", layout, Layout)
    if dtype is not None:
        check_choice("dtype", dtype, TokenDtype)
    return walk(
        paths,
        verify_files,
        _file_check,
        left_out_as="verified",
        threads=threads,
        progress=progress,
        layout=layout,
        is_renumbered=is_renumbered,
        max_problems=whole("max_problems", max_problems, 0),
        vocab_size=None if vocab_size is None else whole("vocab_size", vocab_size, 1),
        dtype=dtype,
        label_masks={}
        if label_mask_paths is None
        else label_masks(path_list(paths), path_list(label_mask_paths)),
        ignore_zeros=ignore_zeros,
        keys={
            "texts_field": texts_field,
            "images_field": images_field,
            "sample_id_field": sample_id_field,
            "image_member_field": image_member_field,
        },
    )


def _file_check(problems: list[dict[str, Any]], **fields: Any) -> FileCheck:
    return FileCheck(problems=[Problem(**problem) for problem in problems], **fields)


def problem_table(checks: Sequence[FileCheck]) -> str:
    """Return the problems of all files as aligned columns; empty if there are none."""
    rows = [("file", "rule", "where", "sample", "problem")]
    for check in checks:
        rows += [
            (check.path, problem.rule, problem.place, problem.sample or "", problem.what)
            for problem in check.problems
        ]
        left = check.problem_count - len(check.problems)
        if left:
            rows.append((check.path, "", "", "", f"{left:,} more problems"))
    if len(rows) == 1:
        return ""
    return "\n".join(aligned(rows, to_the_right=[False] * 5))
