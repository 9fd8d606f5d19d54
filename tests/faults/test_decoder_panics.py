"""Decoders of other crates panic on damaged files.

That is an error of the file, and prints nothing.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

READER = Path(__file__).with_name("decoder_panics.py")

TABLE = pa.table(
    {
        "number": pa.array(range(200), pa.int64()),
        "text": [f"text {number % 7}" for number in range(200)],
        "list": [[number, None] if number % 3 else [] for number in range(200)],
        "struct": [
            {"a": number, "b": str(number)} if number % 5 else None for number in range(200)
        ],
        "real": pa.array([number / 3 for number in range(200)]),
    }
)


@pytest.mark.parametrize(
    ("name", "write", "seeds"),
    [
        # Panics are rare: some of these seeds are known to find one.
        ("rows.orc", pa.orc.write_table, (2600, 2800)),
        (
            "rows.parquet",
            lambda table, path: pq.write_table(table, path, compression="none"),
            (1800, 2100),
        ),
    ],
)
def test_panic_of_a_decoder_is_an_error_and_prints_nothing(
    tmp_path: Path, name: str, write: Callable[[pa.Table, str], None], seeds: tuple[int, int]
) -> None:
    write(TABLE, str(tmp_path / name))
    command = [sys.executable, "-W", "ignore", str(READER), str(tmp_path / name), *map(str, seeds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    panics, refused = map(int, done.stdout.split())
    assert panics > 0 and refused >= panics
