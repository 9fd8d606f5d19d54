"""The same assertions over the original and ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from implementations import ORIGINAL, OURS, STRICT, Implementation


@pytest.fixture(params=[ORIGINAL, OURS], ids=lambda each: each.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """What array_record 0.8.6 does, bad cases and all."""
    return request.param


@pytest.fixture(params=[ORIGINAL, OURS, STRICT], ids=lambda each: each.name)
def any_mode(request: pytest.FixtureRequest) -> Implementation:
    """What holds in our strict mode as well."""
    return request.param


@pytest.fixture
def file_of(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file with the original, under a new name each time."""
    count = iter(range(1000))

    def write(records: list[bytes], options: str = "") -> Path:
        return ORIGINAL.write(tmp_path / f"file{next(count)}.array_record", records, options)

    return write
