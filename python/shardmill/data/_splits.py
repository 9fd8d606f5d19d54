"""Splits of a data set, recognized by file names.

Names follow the conventions of the Hugging Face Hub, such as ``train-00000-of-00002.parquet``,
``data/validation.jsonl`` and ``test/part.parquet``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from shardmill._warnings import warn_caller

_SPLIT = re.compile(r"(train|test|validation|valid|val|dev)(?=[-_.]|$)", re.IGNORECASE)


def warn_of_mixed_splits(paths: Sequence[str], files: Sequence[str]) -> None:
    """Warn about each of the paths whose rows are of several splits."""
    for path, splits in mixed_splits(paths, files):
        warn_caller(
            f"{path} contains several splits, and all of them are read: {', '.join(splits)}\n"
            f"hint: to read one split, use a glob, such as {path.rstrip('/')}/{splits[0]}*",
        )


def mixed_splits(paths: Sequence[str], files: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each path that is a directory with files of training and of another split.

    The path comes with the names of its splits.

    Examples:
        >>> from shardmill.data._splits import mixed_splits
        >>> files = ["in/train-00000-of-00001.parquet", "in/test-00000-of-00001.parquet"]
        >>> list(mixed_splits(["in", *files], files))
        [('in', ['train', 'test'])]
    """
    given = set(files)
    for path in paths:
        # Files that are listed explicitly were chosen deliberately.
        if path in given:
            continue
        below = f"{path.rstrip('/')}/"
        names = [file.removeprefix(below) for file in files if file.startswith(below)]
        parts = (_SPLIT.match(part) for name in names for part in name.split("/"))
        splits = list(dict.fromkeys(found[1].lower() for found in parts if found))
        if "train" in splits and len(splits) > 1:
            yield path, splits
