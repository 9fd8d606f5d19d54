"""Files that look alike.

What is known of one schema is used for the next file with the same bytes, and for no other.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

WORDS = ["a", "bb", None, "a"]

#: The same columns to Parquet, and not to Arrow, which keeps its own schema beside them.
TABLES = {
    "plain": pa.table({"word": WORDS}),
    "large": pa.table({"word": pa.array(WORDS, pa.large_string())}),
    "dictionary": pa.table({"word": pa.array(WORDS).dictionary_encode()}),
    "with metadata": pa.table({"word": WORDS}).replace_schema_metadata({"made by": "somebody"}),
}


def write_all(directory: Path) -> dict[Path, pa.Table]:
    """Each table twice, with other rows the second time."""
    tables = {}
    for number, table in enumerate(
        [*TABLES.values(), *(table.slice(1) for table in TABLES.values())]
    ):
        path = directory / f"{number}.parquet"
        pq.write_table(table, path, row_group_size=1 + number % 3)
        tables[path] = table
    return tables


def test_each_file_has_the_types_and_rows_that_pyarrow_finds(tmp_path: Path) -> None:
    tables = write_all(tmp_path)
    for path in [*tables, *reversed(tables)]:
        dataset = sm.Dataset(path)
        assert dataset.schema == pq.read_schema(path)
        assert [row["word"] for row in dataset] == tables[path]["word"].to_pylist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("coerced", [None, "ms", "us"])
def test_zone_is_that_of_pyarrow_though_the_file_has_another_unit(
    unit: str, coerced: str | None, tmp_path: Path
) -> None:
    berlin, utc, plain = (
        pa.timestamp(unit, "Europe/Berlin"),
        pa.timestamp(unit, "UTC"),
        pa.timestamp(unit),
    )
    at = pa.array([10**9, None], pa.int64()).cast(pa.timestamp("s")).cast(plain).cast(berlin)
    nested = pa.StructArray.from_arrays(
        [pa.array([1, 2]), pa.ListArray.from_arrays(pa.array([0, 1, 2]), at)], names=["n", "at"]
    )
    entries = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b"]), at)
    table = pa.table(
        {
            "at": at,
            "utc": at.cast(utc),
            "plain": at.cast(plain),
            "s": nested,
            "m": entries,
            "text": ["a", "b"],
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, coerce_timestamps=coerced)
    for _ in range(2):
        assert sm.Dataset(path).schema.types == pq.read_schema(path).types
        assert pa.table(sm.Dataset(path)) == pq.read_table(path)
    assert pa.table(sm.Dataset(path, filter=sm.col("at").is_valid())).num_rows == 1


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_damaged_file_is_an_error_though_its_schema_is_known(keep: float, tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(1000)})
    pq.write_table(table, tmp_path / "whole.parquet")
    assert len(sm.Dataset(tmp_path / "whole.parquet")) == 1000
    content = (tmp_path / "whole.parquet").read_bytes()
    # A footer whose middle is missing, and whose length still fits.
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    cut = footer[: int(length * keep)]
    (tmp_path / "cut.parquet").write_bytes(
        content[: -8 - length] + cut + len(cut).to_bytes(4, "little") + b"PAR1"
    )
    with pytest.raises(ValueError, match=r"cut\.parquet"):
        sm.Dataset(tmp_path / "cut.parquet")


def test_row_group_with_fewer_columns_than_the_schema_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "two.parquet", store_schema=False)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "one.parquet", store_schema=False)
    two, one = ((tmp_path / f"{name}.parquet").read_bytes() for name in ("two", "one"))

    def footer(content: bytes) -> bytes:
        return content[-8 - int.from_bytes(content[-8:-4], "little") : -8]

    # Version and schema of one file, the row groups of the other: a schema ends before the field of
    # the rows' count.
    schema_end = footer(two).index(b"\x16\x02\x19\x1c")
    mixed = footer(two)[:schema_end] + footer(one)[footer(one).index(b"\x16\x02\x19\x1c") :]
    (tmp_path / "mixed.parquet").write_bytes(
        one[:4] + mixed + len(mixed).to_bytes(4, "little") + b"PAR1"
    )
    assert len(sm.Dataset(tmp_path / "two.parquet")) == 1
    with pytest.raises(ValueError, match=r"mixed\.parquet"):
        sm.Dataset(tmp_path / "mixed.parquet")
    with pytest.raises((OSError, pa.ArrowInvalid)):
        pq.read_table(tmp_path / "mixed.parquet")
