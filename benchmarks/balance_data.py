"""Lengths of real documents: ``python -m benchmarks.balance_data --out=DIR``.

They are those of the texts of a Debian package, in tokens of 3.3 bytes, as GPT-2 has of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure import Metrics, Options, make_set, read_options
from benchmarks.tokens_data import texts_of

_TOKEN_BYTES = 3.3


@dataclass(frozen=True, kw_only=True)
class LengthOptions(Options):
    """Where the texts come from."""

    package: str = "linux-doc-6.1"


def write_lengths(package: str, directory: Path) -> Metrics:
    """Writes the token count of each text."""
    sizes = np.array([len(text) for text in texts_of([package])])
    np.save(directory / "lengths.npy", np.maximum(sizes / _TOKEN_BYTES, 1).astype(np.int32))
    return {"documents": len(sizes), "text_bytes": int(sizes.sum())}


if __name__ == "__main__":
    chosen = read_options(LengthOptions)
    make_set(
        chosen.out,
        {"package": chosen.package},
        lambda directory: write_lengths(chosen.package, directory),
    )
