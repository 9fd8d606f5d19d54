"""Times of ORC files, compared with pyarrow.

It stores the fractions of times before 1970 as negative numbers.
"""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest
import shardmill as sm
from hypothesis import given, settings
from hypothesis import strategies as st

SECOND = 10**9


def write(path: Path, kind: pa.DataType, values: list[int | None]) -> Path:
    times = pa.array(values, kind)
    table = pa.table(
        {
            "id": range(len(values)),
            "at": times,
            "s": pa.StructArray.from_arrays([times], names=["at"]),
        }
    )
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


@settings(max_examples=30, deadline=None)
@given(
    times=st.lists(
        st.none() | st.integers(-(10**19) // 2, 10**18) | st.integers(-2 * SECOND, SECOND),
        min_size=1,
        max_size=700,
    ),
    zone=st.sampled_from([None, "UTC"]),
)
def test_fractions_before_1970_are_those_that_pyarrow_reads(
    tmp_path_factory: pytest.TempPathFactory, times: list[int | None], zone: str | None
) -> None:
    path = write(tmp_path_factory.mktemp("orc") / "a.orc", pa.timestamp("ns", zone), times)
    table = pa.table(sm.Dataset(path))
    assert table["at"].cast(pa.int64()).to_pylist() == times
    assert table == orc.read_table(path).cast(table.schema)
    at = pa.table(sm.Dataset(path, columns=["s.at"], filter=sm.col("id") >= len(times) // 2))
    assert at["s.at"].cast(pa.int64()).to_pylist() == times[len(times) // 2 :]


def test_time_that_nanoseconds_cannot_hold_is_an_error_with_a_hint(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([dt.datetime(2500, 1, 1)], pa.timestamp("us"))})
    orc.write_table(table, tmp_path / "a.orc")
    with pytest.raises(sm.FormatError, match=r"\nhint: times outside of 1677 to 2262"):
        list(sm.Dataset(tmp_path / "a.orc"))
