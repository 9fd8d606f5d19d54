"""Describes where the numbers come from: the machine, measured; the versions; the commit.

Called once a session by ``session``. Nothing here names the host or holds a credential.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGES = (
    "shardmill", "ray", "nemo-curator", "cosmos-xenna", "pyarrow", "pandas", "numpy", "pillow", "torch",
    "torch-dataloader-utils", "datasets", "array_record", "grain", "lorem-text", "mosaicml-streaming", "s3fs",
)  # fmt: skip
_MEGABYTE = 1_000_000


def describe_machine(scratch: Path, *, disk_bytes: int = 1 << 30) -> dict[str, Any]:
    """Returns processor, cores, memory and measured speeds of disk and memory.

    Args:
        scratch: Folder on the disk that the benchmark writes to.
        disk_bytes: How much is written and read to measure it.
    """
    # In a process of its own, because the memory it takes would show in the peak of every later child.
    with ProcessPoolExecutor(max_workers=1) as pool:
        memory_copy = pool.submit(measure_memory_copy).result()
    return {
        "cpu_model": _line_of("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cpu_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "disk": measure_disk(scratch, disk_bytes),
        "memory_copy_gb_per_s": memory_copy,
    }


def measure_disk(folder: Path, total_bytes: int) -> dict[str, float]:
    """Returns MB/s of sequential writing with fsync, and of reading back what was dropped from the cache.

    Both with one stream and with one stream a core: a single stream into the page cache can be several times
    slower than the disk, and would be no limit for a program that writes with all cores.
    """
    streams = len(os.sched_getaffinity(0))
    write_one, read_one = _measure_streams(folder, total_bytes, 1)
    write_all, read_all = _measure_streams(folder, total_bytes, streams)
    return {
        "write_fsync_mb_per_s": max(write_one, write_all),
        "read_mb_per_s": max(read_one, read_all),
        "write_fsync_one_stream_mb_per_s": write_one,
        "read_one_stream_mb_per_s": read_one,
        "measured_mb": round(total_bytes / _MEGABYTE, 1),
    }


def _measure_streams(folder: Path, total_bytes: int, streams: int) -> tuple[float, float]:
    block = os.urandom(8 << 20)
    count = max(1, total_bytes // len(block) // streams)
    paths = [folder / f".disk-speed-{number}" for number in range(streams)]

    def write(path: Path) -> None:
        with path.open("wb", buffering=0) as file:
            for _ in range(count):
                file.write(block)
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read(path: Path) -> None:
        buffer = bytearray(len(block))
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    speeds = []
    try:
        with ThreadPoolExecutor(streams) as pool:
            for action in (write, read):
                start = time.perf_counter()
                list(pool.map(action, paths))
                seconds = time.perf_counter() - start
                speeds.append(round(streams * count * len(block) / _MEGABYTE / seconds, 1))
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
    return speeds[0], speeds[1]


def measure_memory_copy(total_bytes: int = 256 << 20) -> float:
    """Returns GB/s of copying one buffer to another with one thread, the best of three."""
    source = bytearray(os.urandom(1 << 20)) * (total_bytes >> 20)
    target = bytearray(len(source))
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        # Slice assignment to the bytearray itself would make a second copy first.
        memoryview(target)[:] = source
        best = min(best, time.perf_counter() - start)
    return round(len(source) / best / 1e9, 2)


@cache
def versions_of(python: str) -> dict[str, str]:
    """Returns the Python version of an interpreter and the packages in it that matter here."""
    program = (
        "import importlib.metadata as m, json, platform, sys\n"
        "found = {'python': platform.python_version()}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    try:
        done = subprocess.run([python, "-c", program, *_PACKAGES], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return {}
    return json.loads(done.stdout)


def git_commit(repository: Path) -> dict[str, Any]:
    """Returns the commit that is checked out, and whether files differ from it."""
    try:
        commit = _git(repository, "rev-parse", "HEAD")
        return {"commit": commit, "is_dirty": bool(_git(repository, "status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "is_dirty": None}


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _line_of(path: str, key: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), None)
