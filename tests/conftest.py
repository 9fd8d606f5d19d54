"""Which tests may run side by side, where their files go, and what keeps them apart."""

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from breadth import examples
from hypothesis import settings

#: Groups that take longest. They begin first, so that no worker is left alone with one at the end.
BEGIN_FIRST = ("ray", "test_examples.py", "test_types.py", "test_torch.py")
MEMORY = Path("/dev/shm")
#: Far more than a run holds at once.
ROOM_BYTES = 4 << 30

settings.register_profile("breadth", max_examples=examples(100))
settings.load_profile("breadth")


def pytest_configure() -> None:
    """Puts the files of tests into memory, where a sync takes no time.

    On a disk, syncs take two thirds of a job with a checkpoint.
    """
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and _room() >= ROOM_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


def _room() -> int:
    """The number of bytes that a file system in memory can hold."""
    try:
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        available = int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return 0
    return min(shutil.disk_usage(MEMORY).free, available // 2)


# Before that of pytest-xdist, which reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file stays in one process, for its fixtures.

    All tests of Ray share one: two clusters that start at once take each other's ports.
    """
    groups = {item: "ray" if item.get_closest_marker("ray") else str(item.path) for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: not groups[item].endswith(BEGIN_FIRST))


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """Workers of pytest-xdist ignore SIGINT, and processes that they start would too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def counts_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps counts of each test apart; returns their directory."""
    monkeypatch.setenv("SHARDMILL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "counts"
