"""CSV columns whose first values do not show their type.

A fraction or a value comes after the sample that types are inferred from.
"""

from __future__ import annotations

import io
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pytest
import shardmill as sm
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.errors import FormatError

LATE = 6_000
"""Rows are about 200 bytes long, and the sample of a file ends after 1 MiB."""


def lines_with(late: str, *, first: str = "7") -> list[str]:
    """Rows whose other fields look like what the pass for late values searches for."""
    text = 'a ""1.5"", 2.5' * 14
    lines = [f'{row},"{text}\n3.5",{first},0.5' for row in range(LATE + 20)]
    lines[LATE] = f"{LATE},plain,{late},1.5"
    return lines


def write(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("id,text,score,half\n" + "\n".join(lines) + "\n")
    return path


def read_by_pyarrow(path: Path) -> pa.Table:
    """With one block, so that the types are those of the whole file."""
    return pc.read_csv(
        path,
        pc.ReadOptions(block_size=path.stat().st_size + 1),
        pc.ParseOptions(newlines_in_values=True),
    )


@pytest.mark.parametrize("value", ["0.5", "-0.25", "1e3", '"2.5"', "1E-7", "inf", ""])
def test_integers_with_a_late_fraction_are_floats_in_every_row(tmp_path: Path, value: str) -> None:
    path = write(tmp_path / "a.csv", lines_with(value))
    oracle = read_by_pyarrow(path)
    for threads in (1, 2):
        dataset = sm.Dataset(path)
        assert dataset.schema.types == oracle.schema.types
        batches = sm.Loader(
            dataset, batch_size=500, output="arrow", runtime=sm.Runtime(threads=threads)
        )
        assert pa.Table.from_batches(list(batches)).equals(oracle)


@pytest.mark.parametrize("place", [0, 1])
def test_a_late_fraction_in_any_file_decides_for_all(tmp_path: Path, place: int) -> None:
    files = [lines_with("8"), lines_with("8")]
    files[place][LATE] = f"{LATE},x,8.5,0"
    for number, lines in enumerate(files):
        write(tmp_path / "in" / f"{number}.csv", lines)
    expected = [float(line.split(",")[-2]) for lines in files for line in lines]
    assert [row["score"] for row in sm.Dataset(tmp_path / "in")] == expected
    Pipeline(
        source=TableSource(tmp_path / "in"), stages=[], sink=ParquetSink(str(tmp_path / "out"))
    ).run()
    assert [row["score"] for row in sm.Dataset(tmp_path / "out")] == expected


@pytest.mark.parametrize("late", ["5", "0.5", "text", "2024-05-01", "true", "2024-05-01 10:30:00"])
def test_a_column_without_values_in_the_sample_gets_the_type_of_later_ones(
    tmp_path: Path, late: str
) -> None:
    path = write(tmp_path / "a.csv", lines_with(late, first=""))
    oracle = read_by_pyarrow(path)
    dataset = sm.Dataset(path)
    assert dataset.schema.types == oracle.schema.types
    rows = range(LATE - 1, LATE + 2)
    # pyarrow has empty strings where a column of strings has none.
    assert (
        dataset.take(rows).column("score").to_pylist()
        == oracle.take(list(rows)).column("score").to_pylist()
    )


@pytest.mark.parametrize("value", ["high", "true", "2024-05-01"])
def test_late_values_of_another_kind_are_errors_where_they_are_read(
    tmp_path: Path, value: str
) -> None:
    path = write(tmp_path / "a.csv", lines_with(value))
    named = (
        rf"(?s)Line {2 * LATE + 2} of .*a\.csv`: "
        rf"`{value}` in column `score` is not a valid int64.*`schema`"
    )
    with pytest.raises(FormatError, match=named):
        list(sm.Loader(path, output="arrow"))


def test_integer_that_float64_would_round_is_an_error_with_its_line(tmp_path: Path) -> None:
    lines = lines_with("0.5")
    lines[7] = f"7,x,{2**53 + 1},0"
    path = write(tmp_path / "a.csv", lines)
    with pytest.raises(
        FormatError,
        match=r"Line 16 of .*a\.csv`: "
        rf"column `score` has the integer `{2**53 + 1}`, which double rounds",
    ):
        list(sm.Loader(path, output="arrow"))
    types = {"id": pa.int64(), "text": pa.string(), "score": pa.float64(), "half": pa.float64()}
    assert sm.Dataset(path, schema=pa.schema(types))[7]["score"] == float(2**53), "as the user said"


def test_records_with_a_wrong_number_of_fields_decide_nothing(tmp_path: Path) -> None:
    lines = lines_with("8")
    lines[LATE + 1] = "1,x,0.5"
    path = write(tmp_path / "a.csv", lines)
    dataset = sm.Dataset(path, errors=sm.ErrorPolicy(lines="skip"))
    assert dataset.schema.field("score").type == pa.int64()
    assert len(dataset) == LATE + 19


def test_polars_reads_the_same_floats(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", lines_with("0.1"))
    oracle = pl.read_csv(io.BytesIO(path.read_bytes()), infer_schema_length=None)
    assert pl.DataFrame(sm.Dataset(path)).equals(oracle)


@pytest.mark.parametrize("name", ["table.csv", "table.jsonl"])
@pytest.mark.parametrize("width", [32, 64, 128, 256])
def test_decimal_of_any_width_is_read_exactly_or_is_an_error(
    width: int, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text("x\n-1.50\n" if name == "table.csv" else '{"x": "-1.50"}\n')
    of = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}[width]
    assert sm.Dataset(path, schema=pa.schema([("x", of(5, 1))]))[0] == {"x": Decimal("-1.5")}
    path.write_text(path.read_text().replace("0", "5"))
    with pytest.raises(FormatError, match="1.55"):
        sm.Dataset(path, schema=pa.schema([("x", of(5, 1))]))[0]
