"""Paths and URLs as strings: user input, and the normalized form for native code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from shardmill._native import storage as _native
from shardmill.errors import OptionError

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]


def refuse_surrogates(what: str, text: str) -> None:
    """Check that a text is UTF-8.

    Python represents other bytes of names and arguments by surrogates.

    Raises:
        ValueError: If it is not.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="backslashreplace").decode()
        raise OptionError(
            f"{what} is not UTF-8: {shown}\nhint: rename the file or directory, or correct the text"
        ) from error


def text_of(path: PathLike) -> str:
    """Return a path or URL as a string.

    Raises:
        ValueError: If it is not UTF-8.
    """
    text = os.fspath(path)
    if isinstance(text, str):
        refuse_surrogates("the path", text)
    return text


def path_of(path: PathLike) -> str:
    """Return a path as a string.

    A file URL (``file:/abs``, ``file:///abs``, ``file://localhost/abs``) becomes its local path.

    Raises:
        ValueError: If a file URL has another host or no absolute path.
    """
    text = text_of(path)
    return _native.resolved_path(text) if _native.is_local(text) else text


def served_path(path: PathLike) -> str:
    """Return ``path_of``, and check that a store serves the path.

    Raises:
        ValueError: If no store serves the scheme.
    """
    return _native.resolved_path(text_of(path))


def path_list(paths: Paths) -> list[str]:
    """Return one path or several as a list of strings."""
    if isinstance(paths, str | os.PathLike):
        return [path_of(paths)]
    if not isinstance(paths, Iterable):
        raise OptionError(f"the path must be a string, a Path, or a list of these, not {paths!r}")
    return [path_of(path) for path in paths]


def absolute(path: PathLike) -> str:
    """Return an absolute local path without resolving links; URLs are unchanged."""
    plain = path_of(path)
    # Links are not resolved.
    return plain if not _native.is_local(plain) else os.path.abspath(plain)  # noqa: PTH100


def real(path: PathLike) -> str:
    """Return the canonical local path, with links resolved.

    A remote path is returned without a trailing slash.
    """
    plain = served_path(path)
    return plain.rstrip("/") if is_remote(plain) else os.path.realpath(plain)


def root_of(path: PathLike) -> str:
    """Return ``real(path)``; with a slash at the end if it exists, but looks like a pattern."""
    root = real(path)
    has_marks = not is_remote(root) and any(mark in root for mark in "*?[")
    is_literal = has_marks and os.path.exists(root)  # noqa: PTH110 - a string
    return f"{root}/" if is_literal else root


def is_remote(path: PathLike) -> bool:
    """Return whether ``path`` is accessed over a network.

    Examples:
        >>> import shardmill as sm
        >>> sm.storage.is_remote("s3://bucket/train"), sm.storage.is_remote("train/")
        (True, False)
    """
    return _native.is_remote(text_of(path))
