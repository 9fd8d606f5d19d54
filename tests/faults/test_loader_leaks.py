"""Memory, threads and descriptors over many passes."""

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from breadth import covering
from loader_files import flat, numpy_loader, write_files
from promptness import HANGS_S, assert_prompt

EPOCHS = """
import json, os, sys
import shardmill as sm
from flat_options import flat_loader

def figures():
    resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

loader = flat_loader(sys.argv[1], **json.loads(sys.argv[2]))
found = []
for _ in range(int(sys.argv[3])):
    for batch in loader:
        pass
    found.append(figures())
print(json.dumps(found))
"""


def figures_of_epochs(path: Path, epochs: int, **options: Any) -> list[tuple[int, int, int]]:
    """(resident bytes, threads, descriptors) after each epoch, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", EPOCHS, str(path), json.dumps(options), str(epochs)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=2 * HANGS_S,
    )
    return [tuple(figures) for figures in json.loads(done.stdout)]


@covering(1, output=["numpy", "arrow", "dict"], shuffle=[False, True])
def test_epochs_grow_neither_memory_nor_threads_nor_descriptors(
    tmp_path: Path, output: str, shuffle: bool
) -> None:
    rows = 10_000 if output == "dict" else 60_000
    path = write_files(tmp_path / "rows", [rows] * 4, row_group=rows // 10)
    options = {
        "shuffle_window_bytes": 2 << 20,
        "prefetch_bytes": 4 << 20,
        "threads": 2,
        "batch_size": 512,
    }
    figures = figures_of_epochs(path, 12, output=output, shuffle=shuffle, **options)
    # The allocator needs some epochs to find its size.
    memory = [resident for resident, _, _ in figures]
    assert max(memory[8:]) < 1.1 * max(memory[4:8]) + (16 << 20), memory
    # Threads stay for later work, as many as were ever needed at one moment: on a busy machine one
    # more now and then, and not with each epoch.
    assert figures[-1][1] - figures[2][1] < len(figures[3:]), figures
    assert len({descriptors for _, _, descriptors in figures}) == 1


@pytest.mark.slow
def test_three_epochs_of_a_gigabyte_stay_flat(tmp_path: Path) -> None:
    path = write_files(tmp_path / "rows", [5_000_000] * 8, row_group=250_000)
    for shuffle in (False, True):
        figures = figures_of_epochs(
            path, 3, output="numpy", columns=["id", "half"], shuffle=shuffle
        )
        memory = [resident for resident, _, _ in figures]
        assert memory[2] < 1.1 * memory[0] + (64 << 20), memory
        assert memory[2] < 700 << 20, memory


def counted() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("threads", [0, 3])
def test_left_passes_free_their_threads_and_descriptors(tmp_path: Path, threads: int) -> None:
    rows = write_files(tmp_path / "rows", [4000] * 3, row_group=50)
    loader = numpy_loader(rows, batch_size=4, threads=threads, prefetch_bytes=1000)
    for _ in range(5):
        next(iter(loader))
    gc.collect()
    before, rounds = counted(), 60
    for number in range(rounds):
        passing = iter(loader)
        next(passing)
        if number % 3 == 0:
            passing.close()  # pyright: ignore[reportAttributeAccessIssue]
        del passing
    gc.collect()
    # The threads of a pass that was left end what they are at, with the file that it is of.
    end = time.monotonic() + HANGS_S
    while (now := counted())[1] > before[1]:
        assert time.monotonic() < end, (before, now)
        time.sleep(0.01)
    assert now[0] - before[0] < rounds // 4, (before, now)


def test_leaving_a_pass_does_not_wait(tmp_path: Path) -> None:
    """A thread that waits for room must hear at once that there is no more to do."""
    rows = write_files(tmp_path / "rows", [4000], row_group=50)
    loader = numpy_loader(rows, batch_size=4, threads=2, prefetch_bytes=1)
    next(iter(loader))

    def leave_twenty() -> float:
        began = time.monotonic()
        for _ in range(20):
            next(iter(loader))
        return time.monotonic() - began

    assert_prompt(0.5, leave_twenty)


def test_many_loaders_at_once_share_the_machine(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [1000] * 20, row_group=50)
    before = counted()[0]
    loaders = [
        numpy_loader(rows, batch_size=64, threads=2, shuffle=True, seed=seed) for seed in range(16)
    ]
    seen: list[list[int]] = [[] for _ in loaders]
    for batches in zip(*loaders, strict=True):
        for rows_of, batch in zip(seen, batches, strict=True):
            rows_of += batch["id"].tolist()
    assert all(sorted(found) == list(range(20_000)) for found in seen)
    assert len({tuple(found) for found in seen}) == len(seen)
    assert counted()[0] - before < 100


def test_more_files_than_descriptors_are_read(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [3] * 300)
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        "import shardmill as sm\n"
        "loader = sm.Loader(sys.argv[1], output='numpy', shuffle=True, "
        "runtime=sm.Runtime(threads=4), batch_size=7)\n"
        "print(sum(len(batch['id']) for batch in loader))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(rows)],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    assert (done.stdout, done.stderr) == ("900\n", "")


def test_batches_outlive_their_loader(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [1000], row_group=100)
    kept = list(numpy_loader(rows, batch_size=10, threads=2, shuffle=True))
    gc.collect()
    assert sorted(flat(kept)) == list(range(1000))
