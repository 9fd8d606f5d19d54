"""Exceptions that a worker process or task sends to the process that raises them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any


def packed_error(
    error: Exception,
    generic: Exception,
    *,
    traced: BaseException | None,
    dumps: Callable[[Any], bytes] = pickle.dumps,
) -> bytes:
    """Pickle an exception and its cause; a cause that cannot be pickled is replaced by its message.

    Args:
        error: the exception.
        generic: replaces an exception that cannot be pickled.
        traced: the exception whose frames are sent. They are sent as text only.
        dumps: pickles a value.
    """
    cause = error.__cause__
    frames = "" if traced is None else "".join(traceback.format_tb(traced.__traceback__)).rstrip()
    told = None if cause is None else RuntimeError(f"{type(cause).__name__}: {cause}")
    for pair in ((error, cause), (error, told), (generic, cause), (generic, told)):
        try:
            packed = dumps((*pair, frames))
            # An exception with a custom constructor may be picklable, but fail to unpickle.
            pickle.loads(packed)
        except Exception:
            continue
        return packed
    raise AssertionError("exceptions with one text travel") from error


def unpacked_error(packed: bytes) -> tuple[Exception, str]:
    """Return the exception of ``packed_error`` with its cause, and its frames for a note.

    Without frames, the note is an empty string.
    """
    error, cause, frames = pickle.loads(packed)
    error.__cause__ = cause
    return error, f"On the worker:\n{frames}" if frames else ""
