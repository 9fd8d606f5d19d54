"""What a column holds only in part is refused, by rows and by mappings, in every format."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from hypothesis import given, settings
from hypothesis import strategies as st

EAST = dt.timezone(dt.timedelta(hours=5))

#: Columns or None, a value that fits, one that does not.
LOSSES: list[tuple[dict[str, str] | None, Any, Any]] = [
    ({"x": "int32"}, 1, 2.9),
    ({"x": "uint8"}, 1, np.float32(2.5)),
    ({"x": "int32[]"}, [1], [1.9]),
    ({"x": "float32"}, 1.5, 1e300),
    (None, 1, 2.5),
    (None, 1, np.float64(2.5)),
    (None, 1, Decimal("2.5")),
    (None, [1, 2], [1, 2.5]),
    (None, {"a": 1}, {"a": 1, "b": 2}),
    (None, {"a": 1}, {"a": 1.5}),
    (None, dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5, 6)),
    (None, dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=EAST)),
]


@pytest.mark.parametrize("before", [0, 1, 1100])
@pytest.mark.parametrize(("columns", "good", "bad"), LOSSES, ids=[repr(bad) for *_, bad in LOSSES])
def test_value_that_its_column_would_cut_is_refused_by_row(
    tmp_path: Path, columns: dict[str, str] | None, good: Any, bad: Any, before: int
) -> None:
    if columns is None and before < 1024:
        pytest.skip("the first rows decide about the type")
    with (
        pytest.raises((ValueError, TypeError), match=f"row {before} "),
        sm.Writer(tmp_path / "out", format="parquet", columns=columns) as writer,
    ):
        writer.write_rows([{"x": good}] * before + [{"x": bad}])
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.parametrize(("columns", "good", "bad"), LOSSES, ids=[repr(bad) for *_, bad in LOSSES])
def test_batch_that_its_columns_would_cut_is_refused(
    tmp_path: Path, columns: dict[str, str] | None, good: Any, bad: Any
) -> None:
    with (
        pytest.raises((ValueError, TypeError)),
        sm.Writer(tmp_path / "out", format="parquet", columns=columns) as writer,
    ):
        writer.write_batch({"x": [good]})
        writer.write_batch({"x": [bad]})


@pytest.mark.parametrize("format", ["mds", "jsonl", "parquet", "webdataset"])
def test_fraction_behind_whole_numbers_is_refused_in_every_format(tmp_path: Path, format: str) -> None:
    with pytest.raises(ValueError, match="row 1100"), sm.Writer(tmp_path / "out", format=format) as writer:
        writer.write_rows([{"cls": 1}] * 1100 + [{"cls": 2.5}])


def test_rows_without_any_column_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no columns"), sm.Writer(tmp_path / "out", format="parquet") as writer:
        writer.write({})
        writer.write({})


VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=1),
    st.lists(st.floats(allow_nan=False) | st.none(), min_size=1),
    st.lists(st.lists(st.integers(-(2**31), 2**31 - 1)), min_size=1),
    st.lists(st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.text() | st.none()}), min_size=1),
    st.lists(st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2100, 1, 1)) | st.none(), min_size=1),
    st.lists(st.dates() | st.none(), min_size=1),
    st.lists(st.booleans() | st.none(), min_size=1),
)


@settings(max_examples=60, deadline=None)
@given(values=VALUES)
def test_values_of_one_kind_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, values: list[Any]) -> None:
    out = tmp_path_factory.mktemp("kinds") / "out"
    with sm.Writer(out, format="parquet") as writer:
        writer.write_rows({"x": value} for value in values)
    assert [row["x"] for row in sm.Dataset(out)] == values
