"""Shards to work on, and processes that work on them."""

import contextlib
import io
import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from job_process import contents, run_job, write_shard
from mounts import mounted
from PIL import Image


@pytest.fixture(scope="session")
def work() -> Iterator[Path]:
    """Removed at the end: pytest would keep the big files of its last three runs."""
    with tempfile.TemporaryDirectory(prefix="shardmill-faults-") as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def shards(work: Path) -> dict[str, Path]:
    """Eight shards of 6 MB, as WebDataset and as Parquet. Images are noise, and never decoded."""
    rng = random.Random(7)
    directory = work / "wds"
    directory.mkdir()
    for number in range(8):
        write_shard(directory / f"shard{number}.tar", 30, lambda _: ("jpg", rng.randbytes(200_000)))
    run_job("wds-parquet", directory, work / "parquet")
    return {"wds": directory, "parquet": work / "parquet"}


class References(dict[str, dict[str, bytes]]):
    """Each is made when it is asked for."""

    def __init__(self, work: Path, shards: dict[str, Path]) -> None:
        self.work, self.shards = work, shards

    def __missing__(self, kind: str) -> dict[str, bytes]:
        out = self.work / "reference" / kind
        out.parent.mkdir(exist_ok=True)
        run_job(kind, self.shards[kind.split("-")[0]], out)
        self[kind] = contents(out)
        return self[kind]


@pytest.fixture(scope="session")
def references(work: Path, shards: dict[str, Path]) -> References:
    """What an undisturbed run writes, by kind."""
    return References(work, shards)


@pytest.fixture(scope="session")
def raw_shards(work: Path) -> dict[str, Path]:
    """Four shards of about 107 MB: uncompressed TIFFs of several pages."""
    noise = np.random.default_rng(7).integers(0, 256, (900, 800, 3), np.uint8)
    pages = [Image.fromarray(np.roll(noise, shift, axis=0)) for shift in range(5)]
    body = io.BytesIO()
    pages[0].save(body, "TIFF", save_all=True, append_images=pages[1:])
    directory = work / "raw-wds"
    directory.mkdir()
    for number in range(4):
        write_shard(
            directory / f"raw{number}.tar",
            10,
            lambda _: ("tiff", body.getvalue()),
            pages=len(pages),
        )
    run_job("wds-parquet", directory, work / "raw-parquet")
    return {"wds": directory, "parquet": work / "raw-parquet"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB."""
    yield from mounted(tmp_path / "small", "size=20m")


@pytest.fixture
def read_only_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "read-only", "ro")


@pytest.fixture
def immutable(tmp_path: Path) -> Iterator[Path]:
    """A directory that not even root may write to."""
    directory = tmp_path / "immutable"
    directory.mkdir()
    try:
        refused = subprocess.run(
            ["chattr", "+i", str(directory)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no chattr command")
    if refused.returncode:
        pytest.skip(f"chattr: {refused.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["chattr", "-i", str(directory)], check=True)


@pytest.fixture(autouse=True)
def no_orphans() -> Iterator[None]:
    """No test leaves a child process running."""
    yield
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
