"""Values of ORC files as other writers store them, compared with ORC C++.

Times, decimals and unions.
"""

from __future__ import annotations

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest
import shardmill as sm
from shardmill.errors import FormatError

#: Writes unions with ORC C++, in a process of its own: pyorc and pyarrow bring two builds
#: of that library.
WRITER = """
import sys, pyorc
values = {
    "uniontype<int,string>": lambda value: value,
    "uniontype<string,int>": lambda value: value,
    "array<uniontype<int,string>>": lambda value: [value, None, value],
    "map<string,uniontype<int,string>>": lambda value: {"k": value},
    "struct<a:uniontype<int,string>>": lambda value: None if value == 2 else (value,),
}
unions = [1, "x", None, 2, None, "y", 7] * 40
for number, (column, value) in enumerate(values.items()):
    for name, first, last in (("a", 0, 150), ("b", 150, 280)):
        with open(f"{sys.argv[1]}/{number}{name}.orc", "wb") as file:
            writer = pyorc.Writer(file, f"struct<i:int,u:{column}>")
            for row in range(first, last):
                writer.write((row, value(unions[row])))
            writer.close()
"""


def test_unions_with_nulls_are_those_of_orc(tmp_path: Path) -> None:
    # ORC C++ writes memory that it has not set for a union below a null struct. With this, glibc
    # returns zeros.
    environment = {**os.environ, "MALLOC_PERTURB_": "255"}
    subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], check=True, env=environment)
    failures = []
    for number in range(5):
        paths = [tmp_path / f"{number}{name}.orc" for name in "ab"]
        expected = [row for path in paths for row in orc.read_table(path).to_pylist()]
        assert any(row["u"] is None or "None" in str(row["u"]) for row in expected)
        kept = pa.table(
            sm.Dataset(paths, filter=sm.col("i").is_in([1, 2, 4, 160, 279]))
        ).to_pylist()
        shuffled = [
            row
            for batch in sm.Loader(paths, batch_size=7, output="arrow", shuffle=True)
            for row in batch.to_pylist()
        ]
        found = {
            "all": pa.table(sm.Dataset(paths)).to_pylist() == expected,
            "filtered": kept == [expected[row] for row in (1, 2, 4, 160, 279)],
            "shuffled": sorted(shuffled, key=lambda row: row["i"]) == expected,
        }
        failures += [(number, name) for name, is_same in found.items() if not is_same]
    assert failures == []


def hive_decimals(
    path: Path, values: list[Decimal | None], scale: int, stated: int | None = None
) -> Path:
    """Decimals of a type without precision, as Hive 0.11 writes them.

    ``stated`` replaces the scale of the values.
    """
    orc.write_table(
        pa.table({"i": range(len(values)), "d": pa.array(values, pa.decimal128(20, scale))}),
        path,
        compression="uncompressed",
    )
    content = path.read_bytes()
    declared = bytes([0x28, 20, 0x30, scale])
    assert content.count(declared) == 1
    content = content.replace(declared, b"\x28\x00\x30\x00")
    if stated is not None:
        # One run of the same scale, as zigzag digits.
        run = bytes([len([value for value in values if value is not None]) - 3, scale << 1])
        assert content.count(run) == 1
        content = content.replace(run, bytes([run[0], stated << 1]))
    path.write_bytes(content)
    return path


def test_decimals_of_hive_0_11_have_the_type_and_values_of_orc(tmp_path: Path) -> None:
    values = [Decimal("1.50000"), None, Decimal("-99999999.99999"), Decimal("0.00001"), Decimal(0)]
    path = hive_decimals(tmp_path / "a.orc", values, 5)
    assert pa.table(sm.Dataset(path)).equals(orc.read_table(path))
    assert [row["d"] for row in sm.Dataset(path)] == values
    assert [row["i"] for row in sm.Dataset(path, filter=sm.col("d") > 1)] == [0]


def test_decimal_that_loses_digits_is_an_error_that_names_it(tmp_path: Path) -> None:
    values = [Decimal("1.50000"), None, Decimal("1.00000"), Decimal("0.00001"), Decimal(0)]
    path = hive_decimals(tmp_path / "a.orc", values, 5, stated=8)
    with pytest.raises(
        FormatError,
        match=r"Column `d` of .*a\.orc` has a value in row 3 "
        r"that decimal128\(38, 6\) cannot hold: 1e-8",
    ):
        list(sm.Dataset(path))
    assert [row["i"] for row in sm.Dataset(path, columns=["i"])] == [0, 1, 2, 3, 4]


def test_time_that_nanoseconds_cannot_hold_names_its_row(tmp_path: Path) -> None:
    times = pa.array([0, None, 10**6, 16_725_225_600 * 10**6], pa.int64()).cast(pa.timestamp("us"))
    structs = pa.StructArray.from_arrays([times], names=["at"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 1, 1, 4], pa.int32()), times)
    orc.write_table(
        pa.table({"t": times, "s": structs, "l": lists, "i": range(4)}), tmp_path / "a.orc"
    )
    for column, name in (("t", "t"), ("s", "s"), ("s.at", r"s\.at"), ("l", "l")):
        with pytest.raises(
            FormatError,
            match=rf"Column `{name}` of .* in row 3 .*timestamp\[ns\] cannot hold: 2500-01-01",
        ):
            list(sm.Dataset(tmp_path / "a.orc", columns=[column]))
    kept = sm.Dataset(tmp_path / "a.orc", filter=sm.col("i") < 3, columns=["t"])
    assert pa.table(kept)["t"].to_pylist() == times.slice(0, 3).to_pylist()
