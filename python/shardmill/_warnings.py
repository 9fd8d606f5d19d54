"""Warnings about what a user passed."""

import sys
import warnings


def warn_caller(message: str) -> None:
    """Issue a warning at the innermost line outside this package.

    It is, for example, the line that calls ``Loader``.
    """
    frame, level = sys._getframe(1), 2  # pyright: ignore[reportPrivateUsage]
    # By module and not by file, because the `__init__` of a dataclass has no file.
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "shardmill"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
