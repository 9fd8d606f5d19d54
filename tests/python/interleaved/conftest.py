"""Fixtures of the interleaved tests.

Shards are made in a directory of the test, runs write to another one.
"""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from shard_builders import Outcome, curate, from_parquet, from_tar, write_parquet, write_tar


@pytest.fixture
def out(tmp_path: Path) -> Callable[[], Path]:
    """A new output directory at each call."""
    numbers = count()
    return lambda: tmp_path / f"out{next(numbers)}"


@pytest.fixture
def run_tar(tmp_path: Path, out: Callable[[], Path]) -> Callable[..., Outcome]:
    """Writes members to one tar and curates it; options of the source are given as a dict."""

    def run(
        members: Any,
        stages: Sequence[Any] = (),
        *,
        name: str = "in.tar",
        mode: str = "w",
        source: Any = None,
        **options: Any,
    ) -> Outcome:
        path = write_tar(tmp_path / "in" / name, members, mode)
        return curate(from_tar(path, **(source or {})), stages, to=out(), **options)

    return run


@pytest.fixture
def run_rows(tmp_path: Path, out: Callable[[], Path]) -> Callable[..., Outcome]:
    """Writes rows to one Parquet file and curates it.

    Its rows may point to whatever the test has made.
    """

    def run(
        rows: Any,
        stages: Sequence[Any] = (),
        *,
        extras: Sequence[Any] = (),
        source: Any = None,
        **options: Any,
    ) -> Outcome:
        path = write_parquet(tmp_path / "in" / "in.parquet", rows, extras)
        source = {"allowed_roots": tmp_path, **(source or {})}
        return curate(from_parquet(path, **source), stages, to=out(), **options)

    return run
