"""Describes the machine, the versions and the commit.

Nothing here names the host or holds a credential.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.measure import timed

_PACKAGES = (
    "shardmill", "ray", "nemo-curator", "cosmos-xenna", "pyarrow", "pandas", "numpy", "pillow",
    "torch", "torch-dataloader-utils", "datasets", "array_record", "grain", "lorem-text",
    "mosaicml-streaming", "s3fs",
)  # fmt: skip
_PROGRAM = """
import importlib.metadata as m, json, platform, sys
normal = lambda name: name.lower().replace("_", "-")
found = {normal(d.metadata["Name"]): d.version for d in m.distributions() if d.metadata["Name"]}
named = {name: found[key] for name in sys.argv[1:] if (key := normal(name)) in found}
print(json.dumps({"python": platform.python_version(), **named}))
"""
_BLOCK, _BLOCKS = 8 << 20, 128
WITH_CHANGES = " with changes"


def describe_machine(scratch: Path) -> dict[str, Any]:
    """Processor, cores, memory, and the speeds of the disk below ``scratch``."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    write, read = _disk_rates(scratch / ".disk-speed")
    return {
        "cpu_model": models[0] if models else platform.machine(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "disk_write_mb_per_s": write,
        "disk_read_mb_per_s": read,
    }


def _disk_rates(path: Path) -> tuple[float, float]:
    """MB/s of writing with fsync, and of reading back what was dropped from the cache."""
    block = os.urandom(_BLOCK)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for _ in range(_BLOCKS):
                file.write(block)
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read() -> None:
        with path.open("rb", buffering=0) as file:
            while file.readinto(bytearray(_BLOCK)):
                pass

    rates = [round(_BLOCKS * _BLOCK / 1e6 / timed(action)[0], 1) for action in (write, read)]
    path.unlink()
    return rates[0], rates[1]


@cache
def versions_of(python: str) -> dict[str, str]:
    """The Python version of an interpreter and the packages in it that matter here."""
    try:
        done = subprocess.run(
            [python, "-c", _PROGRAM, *_PACKAGES], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return {}
    return json.loads(done.stdout)


def git_commit(repository: Path) -> str:
    """The commit that is checked out, and whether files differ from it.

    The pages that a run writes do not count.
    """

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=repository, capture_output=True, text=True
        ).stdout.strip()

    changes = git("status", "--porcelain", "--", ".", ":!docs/benchmarks")
    return git("rev-parse", "HEAD") + (WITH_CHANGES if changes else "")
