"""Every type of Parquet and ORC at the bounds of its values, in every output.

The value that another reader finds, or an error that names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from column_values import oracle
from shardmill.errors import FormatError

#: The limits of Python's datetime.
OUT_OF_PYTHON = (
    "Column `v`.* in row [0-9]+ is (outside of what Python's datetime can hold|"
    "not a whole number of microseconds)"
)
NO_FORM = "which has no equivalent outside of Arrow"


def bounds(bits: int, *, signed: bool = True) -> list[int | None]:
    """The smallest and the largest integers of a width, and null."""
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [least, least + 1, 0, 1, most, None]


def times(kind: pa.DataType, bits: int = 64) -> pa.Array:
    """The first and the last times of a type, and some around 1970 and the year 10,000."""
    within = (
        [-62_135_596_800, -1, 0, 1, 253_402_300_799]
        if bits == 64
        else [-719_162, -1, 0, 1, 2_932_896]
    )
    return pa.array([*bounds(bits), *within], getattr(pa, f"int{bits}")()).view(kind)


def decimals(kind: pa.DataType) -> pa.Array:
    """All digits, the smallest step, zero and null."""
    digits, exponent = (9,) * kind.precision, -kind.scale
    values = [
        Decimal((0, digits, exponent)),
        Decimal((1, digits, exponent)),
        Decimal((0, (1,), exponent)),
        Decimal(0),
    ]
    return pa.array([*values, None], kind)


def flat() -> Iterator[tuple[str, pa.Array]]:
    """Columns without children."""
    yield "bool", pa.array([True, False, None])
    for bits in (8, 16, 32, 64):
        yield f"int{bits}", pa.array(bounds(bits), getattr(pa, f"int{bits}")())
        yield f"uint{bits}", pa.array(bounds(bits, signed=False)[2:], getattr(pa, f"uint{bits}")())
    yield "float16", pa.array(np.array([0.5, -0.0, np.inf, np.nan, 65504, 6e-8], np.float16))
    for kind, least, most in ((pa.float32(), 1e-45, 3.4e38), (pa.float64(), 5e-324, 1.7e308)):
        yield (
            str(kind),
            pa.array([0.5, -0.0, math.inf, -math.inf, math.nan, least, most, None], kind),
        )
    yield "date32", times(pa.date32(), 32)
    yield (
        "date64",
        pa.array([-86_400_000 * 10**6, 0, 86_400_000 * 2_932_896, None], pa.int64()).view(
            pa.date64()
        ),
    )
    for kind, most in ((pa.time32("s"), 86_399), (pa.time32("ms"), 86_399_999)):
        yield str(kind), pa.array([0, most, None], pa.int32()).view(kind)
    for kind, most in ((pa.time64("us"), 86_399_999_999), (pa.time64("ns"), 86_399_999_999_999)):
        yield str(kind), pa.array([0, most, None], pa.int64()).view(kind)
    for unit in ("s", "ms", "us", "ns"):
        yield f"duration {unit}", times(pa.duration(unit))
        for zone in (None, "UTC", "Europe/Berlin"):
            # pyarrow stores seconds as milliseconds.
            values = (
                times(pa.timestamp(unit, zone))
                if unit != "s"
                else pa.array([-(2**40), 0, None], pa.timestamp("s", zone))
            )
            yield f"timestamp {unit} {zone}", values
    for precision, scale in ((9, 2), (18, 0), (18, 18), (38, 0), (38, 38)):
        yield f"decimal128 {precision} {scale}", decimals(pa.decimal128(precision, scale))
    for kind in (
        pa.decimal32(9, 4),
        pa.decimal64(18, 2),
        pa.decimal256(76, 0),
        pa.decimal256(76, 76),
    ):
        yield str(kind), decimals(kind)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        yield str(kind), pa.array(["", "\0", "é\U0001f600", "x" * 300, None], kind)
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        yield str(kind), pa.array([b"", b"\0\xff", b"x" * 300, None], kind)
    for width in (1, 12, 16):
        yield f"binary {width}", pa.array([b"\0" * width, b"\xff" * width, None], pa.binary(width))
    yield "null", pa.nulls(3)
    yield "json", pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    yield (
        "uuid",
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"\x01" * 16, None], pa.binary(16))),
    )


def nested() -> Iterator[tuple[str, pa.Array]]:
    """Columns with children, and dictionaries."""
    for name, array in flat():
        if isinstance(array.type, pa.BaseExtensionType) or "view" in name or name == "null":
            continue
        offsets = pa.array([0, 1, 1, len(array)], pa.int32())
        yield f"list of {name}", pa.ListArray.from_arrays(offsets, array)
        yield f"struct of {name}", pa.StructArray.from_arrays([array], names=["a"])
        yield (
            f"map of {name}",
            pa.MapArray.from_arrays(offsets, pa.array(list(map(str, range(len(array))))), array),
        )
        try:
            yield f"dictionary of {name}", array.dictionary_encode()
        except pa.ArrowNotImplementedError:
            continue
    yield (
        "list of fixed size",
        pa.array([[1, None], None, [2**31 - 1, -(2**31)]], pa.list_(pa.int32(), 2)),
    )
    yield "large list", pa.array([["a", None], [], None], pa.large_list(pa.string()))


def write_parquet(path: Path, array: pa.Array, **options: Any) -> pa.Array | None:
    """Write a column ``v``; return what pyarrow reads, ``None`` if it does not write the type."""
    try:
        pq.write_table(pa.table({"v": array}), path, **options)
    except pa.ArrowNotImplementedError:
        return None
    return pq.read_table(path)["v"].combine_chunks()


def bits(array: pa.Array) -> Any:
    """Values as text, in which NaN equals NaN and the signs of zeros differ; times as numbers."""
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if pa.types.is_nested(array.type):
        if pa.types.is_struct(array.type):
            parts, lengths = array.flatten(), None
        elif pa.types.is_map(array.type):
            parts, lengths = [array.keys, array.items], array.offsets.to_pylist()
        else:
            parts, lengths = [array.flatten()], pc.list_value_length(array).to_pylist()
        return lengths, array.is_null().to_pylist(), [bits(part) for part in parts]
    if pa.types.is_date64(array.type):
        array = array.cast(pa.date32())
    if pa.types.is_temporal(array.type):
        array = integers(array)
    return [str(value) for value in array.to_pylist()]


def integers(array: pa.Array) -> pa.Array:
    """Return the integers that represent numbers and times."""
    is_short = pa.types.is_date32(array.type) or pa.types.is_time32(array.type)
    return (
        array
        if pa.types.is_integer(array.type)
        else array.view(pa.int32() if is_short else pa.int64())
    )


def arrow_faults(path: Path, expected: pa.Array) -> Iterator[str]:
    found = pa.table(sm.Dataset(path))["v"].combine_chunks()
    if bits(found) != bits(expected):
        yield f"arrow: {found.type} {bits(found)}, not {expected.type} {bits(expected)}"
    if pa.types.is_timestamp(found.type) and found.type != expected.type:
        yield f"arrow: {found.type}, not {expected.type}"


def object_faults(path: Path, found: pa.Array) -> Iterator[str]:
    """Rows and columns of Python objects hold the values of Arrow."""
    outputs: dict[str, Callable[[], list[Any]]] = {
        "rows": lambda: [row["v"] for row in sm.Dataset(path)],
        "dict": lambda: list(next(iter(sm.Loader(path, batch_size=100, output="dict")))["v"]),
    }
    for output, read in outputs.items():
        try:
            values = read()
        except FormatError as error:
            if not pytest.raises(FormatError, match=f"{OUT_OF_PYTHON}|{NO_FORM}").matches(error):
                yield f"{output}: {error}"
            continue
        expected = oracle(found.storage if isinstance(found, pa.ExtensionArray) else found)
        if str(values) != str(expected):
            yield f"{output}: {values}, not {expected}"


def numpy_faults(path: Path, found: pa.Array) -> Iterator[str]:
    """Compares numbers and times by the integers that represent them."""
    try:
        batch = next(iter(sm.Loader(path, batch_size=100, output=sm.Output("numpy", nulls="mask"))))
    except FormatError as error:
        if NO_FORM not in str(error):
            yield f"numpy: {error}"
        return
    values = batch["v"]
    is_number = pa.types.is_integer(found.type) or pa.types.is_temporal(found.type)
    if not is_number or not isinstance(values, np.ndarray):
        return
    plain = values.view("i8") if values.dtype.kind in "mM" else values
    valid = batch.get("v__valid", np.ones(len(values), bool))
    known = [int(value) if is_valid else None for value, is_valid in zip(plain, valid, strict=True)]
    if known != integers(found).to_pylist():
        yield f"numpy: {known}, not {integers(found).to_pylist()}"


def filter_faults(path: Path, found: pa.Array) -> Iterator[str]:
    """A filter for a value keeps the rows that have it."""
    if pa.types.is_nested(found.type) or isinstance(found.type, pa.BaseExtensionType):
        return
    for row in range(len(found)):
        try:
            value = oracle(found.slice(row, 1))[0]
        except (OverflowError, ValueError, pa.ArrowInvalid):
            continue
        if value is None or value != value:
            continue
        kept = pa.table(sm.Dataset(path, filter=sm.col("v") == value))["v"].combine_chunks()
        same = [place for place, text in enumerate(bits(found)) if text == bits(found)[row]]
        if not (set(bits(kept)) == {bits(found)[row]} and len(kept) == len(same)) and value != 0:
            yield f"filter for {value!r}: {bits(kept)}"


def faults(name: str, path: Path, expected: pa.Array) -> list[str]:
    """What differs, with the name of the case."""
    found = []
    try:
        found += arrow_faults(path, expected)
        array = pa.table(sm.Dataset(path))["v"].combine_chunks()
        for check in (object_faults, numpy_faults, filter_faults):
            found += check(path, array)
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
    return [f"{name}: {fault}" for fault in found]


@pytest.mark.parametrize(
    "options",
    [{}, {"store_schema": False, "use_dictionary": False, "version": "2.6"}],
    ids=["schema", "plain"],
)
def test_each_type_of_parquet_arrives_as_pyarrow_reads_it(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    failures: list[str] = []
    for name, array in flat():
        path = tmp_path / f"{name.replace('/', '-')}.parquet"
        expected = write_parquet(path, array, **options)
        if expected is not None:
            failures += faults(name, path, expected)
    assert failures == []


def test_each_nested_type_of_parquet_arrives_as_pyarrow_reads_it(tmp_path: Path) -> None:
    failures: list[str] = []
    for name, array in nested():
        path = tmp_path / f"{name.replace('/', '-')}.parquet"
        expected = write_parquet(path, array)
        if expected is not None:
            try:
                failures += [f"{name}: {fault}" for fault in arrow_faults(path, expected)]
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {error}")
    assert failures == []


#: What pyarrow cannot write to ORC, or reads wrongly.
def in_orc(array: pa.Array) -> bool:
    kind = array.type
    return not (
        isinstance(kind, pa.BaseExtensionType)
        or pa.types.is_unsigned_integer(kind)
        or pa.types.is_time(kind)
        or pa.types.is_duration(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_date64(kind)
        or pa.types.is_null(kind)
        or "view" in str(kind)
    )


def test_each_type_of_orc_arrives_as_pyarrow_reads_it(tmp_path: Path) -> None:
    failures: list[str] = []
    for name, array in flat():
        path = tmp_path / f"{name}.orc"
        if not in_orc(array):
            continue
        try:
            orc.write_table(pa.table({"v": array}), path)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            continue
        failures += faults(name, path, orc.read_table(path)["v"].combine_chunks())
    assert failures == []


def test_each_type_of_duckdb_arrives_as_duckdb_reads_it(tmp_path: Path) -> None:
    values = {
        "hugeint": "170141183460469231731687303715884105727::hugeint",
        "decimal": "'-9999999999999999999999999999.9999999999'::decimal(38, 10)",
        "decimal(4, 1)": "'-999.9'::decimal(4, 1)",
        "time": "'23:59:59.999999'::time",
        "timestamp": "'9999-12-31 23:59:59.999999'::timestamp",
        "timestamp_ns": "'2262-04-11 23:47:16.854775'::timestamp_ns",
        "timestamptz": "'0001-01-01 00:00:00+00'::timestamptz",
        "timestamp_s": "'9999-12-31 23:59:59'::timestamp_s",
        "timestamp_ms": "'9999-12-31 23:59:59.999'::timestamp_ms",
        "date": "'5881580-07-10'::date",
        "blob": "'\\xAA\\x00'::blob",
        "uuid": "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid",
        "enum": "'b'::enum('a', 'b')",
        "ubigint": "18446744073709551615::ubigint",
        "list": "['9999-12-31'::timestamp, null]",
        "struct": "{'a': 18446744073709551615::ubigint, 'b': '1.5'::decimal(38, 1)}",
    }
    failures: list[str] = []
    for name, value in values.items():
        path = tmp_path / "a.parquet"
        duckdb.sql(f"copy (select {value} as v union all select null) to '{path}' (format parquet)")
        failures += faults(name, path, pq.read_table(path)["v"].combine_chunks())
    assert failures == []


def test_each_type_of_polars_arrives_as_polars_reads_it(tmp_path: Path) -> None:
    columns = {
        "decimal": pl.Series([Decimal("9" * 38), None], dtype=pl.Decimal(38, 0)),
        "duration": pl.Series([-(2**63) + 1, 2**63 - 1, None], dtype=pl.Duration("us")),
        "time": pl.Series([0, 86_399_999_999_999, None], dtype=pl.Int64).cast(pl.Time),
        "categorical": pl.Series(["a", "b", None], dtype=pl.Categorical),
        "enum": pl.Series(["a", "b", None], dtype=pl.Enum(["a", "b"])),
        "datetime": pl.Series([-(2**63) + 1, 2**63 - 1, None], dtype=pl.Int64).cast(
            pl.Datetime("ns", "UTC")
        ),
        "uint64": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
        "list": pl.Series([[2**64 - 1], None], dtype=pl.List(pl.UInt64)),
    }
    failures: list[str] = []
    for name, series in columns.items():
        path = tmp_path / "a.parquet"
        pl.DataFrame({"v": series}).write_parquet(path)
        expected = pl.read_parquet(path)["v"].to_arrow()
        failures += faults(name, path, expected)
    assert failures == []


def test_type_that_arrow_does_not_have_is_named(tmp_path: Path) -> None:
    pl.DataFrame({"a": pl.Series([1, 2**100], dtype=pl.Int128), "b": [1, 2]}).write_parquet(
        tmp_path / "a.parquet"
    )
    with pytest.raises(
        FormatError,
        match=r"Column `a` of `.*a\.parquet` is int128, which is not supported\nhint: write the",
    ):
        sm.Dataset(tmp_path / "a.parquet", columns=["b"])


def test_times_of_a_zone_with_seconds_are_exact_in_json(tmp_path: Path) -> None:
    # Berlin was 53 minutes and 28 seconds ahead of Greenwich until 1893, Monrovia 44 minutes and 30
    # seconds behind until 1972.
    for zone, seconds in (
        ("Europe/Berlin", [-3_000_000_000, -2_000_000_000, 0]),
        ("Africa/Monrovia", [-1, 10**8]),
    ):
        times = pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp("us", "UTC"))
        path = tmp_path / f"{zone[-6:]}.jsonl"
        with sm.Writer(path) as writer:
            writer.write_batch(pa.table({"v": times.cast(pa.timestamp("us", zone))}))
        read = pl.read_ndjson(path, schema={"v": pl.String})["v"].str.to_datetime(
            "%+", time_unit="us", time_zone="UTC"
        )
        assert read.to_arrow().cast(times.type).to_pylist() == times.to_pylist()
