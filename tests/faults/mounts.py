"""File systems that are there for one test."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def mounted(directory: Path, options: str) -> Iterator[Path]:
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    try:
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if refused.returncode:
        pytest.skip(f"this user may not mount: {refused.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)
