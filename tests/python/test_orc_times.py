"""Times of ORC files before 1970, whose fractions pyarrow stores as negative numbers: never other times, always an error that says what to do."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest
import shardmill as sm

SECOND = 10**9


def write(path: Path, kind: pa.DataType, values: list[int | None]) -> Path:
    times = pa.array(values, kind)
    table = pa.table({"id": range(len(values)), "at": times, "s": pa.StructArray.from_arrays([times], names=["at"])})
    orc.write_table(table, path)
    return path


@pytest.mark.parametrize(
    "values",
    [
        [0, 1, SECOND - 1, 1_700_000_000 * SECOND + 123_456_789],
        [-SECOND, -2 * SECOND, -(10**9) * SECOND, None, 5],
    ],
)
def test_times_with_fractions_that_are_not_negative_are_read(tmp_path: Path, values: list) -> None:
    table = pa.table(sm.Dataset(write(tmp_path / "a.orc", pa.timestamp("ns"), values)))
    assert table["at"].cast(pa.int64()).to_pylist() == values
    assert table == orc.read_table(tmp_path / "a.orc").cast(table.schema)


@pytest.mark.parametrize("fraction", [5, 100, 500, 1_500, 999_999, 1_000_000, 123_456_789, SECOND - 1])
@pytest.mark.parametrize("around", [0, 3, 700])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_fraction_before_1970_is_an_error_that_names_the_column(
    tmp_path: Path, fraction: int, around: int, zone: str | None
) -> None:
    others = [number * 7_919 * SECOND + number * 991 for number in range(around)]
    values = [*others, -fraction - 2 * SECOND, None, *others]
    message = r"Column `at` in stripe 0 of .*a.orc.* before 1970(.|\n)*hint: read the other columns with columns="
    path = write(tmp_path / "a.orc", pa.timestamp("ns", zone), values)
    with pytest.raises(sm.FormatError, match=message):
        list(sm.Dataset(path))
    for column in ("s", "s.at"):
        with pytest.raises(sm.FormatError, match=f"Column `{column}` .* before 1970"):
            list(sm.Dataset(path, columns=[column]))
    assert [row["id"] for row in sm.Dataset(path, columns=["id"])] == list(range(len(values)))


def test_time_that_nanoseconds_cannot_hold_is_an_error_with_a_hint(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([dt.datetime(2500, 1, 1)], pa.timestamp("us"))})
    orc.write_table(table, tmp_path / "a.orc")
    with pytest.raises(sm.FormatError, match=r"\nhint: times outside of 1677 to 2262"):
        list(sm.Dataset(tmp_path / "a.orc"))
