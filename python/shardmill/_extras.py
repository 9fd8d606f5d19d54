"""Packages that only some features need."""

from __future__ import annotations

from typing import Any


def pyarrow_for(what: str, *, extra: str = "arrow") -> Any:
    """Return pyarrow, which ``what`` requires and ``extra`` installs.

    Raises:
        ImportError: If it is not installed. The hint names the extra.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"{what} requires pyarrow\nhint: pip install 'shardmill[{extra}]'") from error
    return pyarrow
