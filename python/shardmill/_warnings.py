"""Warnings about what a user passed."""

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = f"{Path(__file__).parent}{os.sep}"


def warn_caller(message: str) -> None:
    """Issue a warning at the innermost line outside this package, such as that of the call of ``Loader``."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
