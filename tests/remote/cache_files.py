"""The files of a cache directory, for tests that spoil them."""

import os
import random
from pathlib import Path


def entries(directory: Path, extension: str) -> list[Path]:
    return sorted((directory / "objects").rglob(f"*.{extension}"))


def flip_bytes(directory: Path, seed: int = 0) -> None:
    """One byte in each 10,000 of what was kept."""
    rng = random.Random(seed)
    for path in entries(directory, "bytes"):
        with path.open("r+b") as file:
            for _ in range(path.stat().st_size // 10_000 + 1):
                place = rng.randrange(path.stat().st_size)
                file.seek(place)
                byte = file.read(1)
                file.seek(place)
                file.write(bytes([byte[0] ^ 0xFF]))


def flip_tables(directory: Path) -> None:
    for path in entries(directory, "blocks"):
        path.write_bytes(bytes(byte ^ 0x55 for byte in path.read_bytes()))


def truncate(directory: Path) -> None:
    for path in [*entries(directory, "bytes"), *entries(directory, "blocks")]:
        os.truncate(path, path.stat().st_size // 2)


def remove_bytes(directory: Path) -> None:
    for path in entries(directory, "bytes"):
        path.unlink()


def remove_tables(directory: Path) -> None:
    for path in entries(directory, "blocks"):
        path.unlink()


def mix_up(directory: Path) -> None:
    """Puts the bytes of one object in the place of another's."""
    found = entries(directory, "bytes")
    first = found[0].read_bytes()
    for path, other in zip(found, found[1:], strict=False):
        path.write_bytes(other.read_bytes())
    found[-1].write_bytes(first)
