"""Arrow columns of every type, and their batches."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
from shardmill._native.columns import Converter
from shardmill.load._columns import plain_fill_values, split

BEYOND_F64 = 2**53 + 1

NUMBERS = {
    pa.int8(): [-128, 127, 0, 5],
    pa.int16(): [-(2**15), 2**15 - 1, 0, 5],
    pa.int32(): [-(2**31), 2**31 - 1, 0, 5],
    pa.int64(): [BEYOND_F64, -(2**63), 2**63 - 1, 5],
    pa.uint8(): [255, 0, 1, 5],
    pa.uint16(): [2**16 - 1, 0, 1, 5],
    pa.uint32(): [2**32 - 1, 0, 1, 5],
    pa.uint64(): [2**64 - 1, BEYOND_F64, 1, 5],
    pa.float16(): [1.5, -0.0, float("inf"), 65504.0],
    pa.float32(): [1.5, -0.0, float("inf"), 1e-40],
    pa.float64(): [1.5, -0.0, float("-inf"), 5e-324],
    pa.bool_(): [True, False, False, True],
}
UNITS = ("s", "ms", "us", "ns")
# pyarrow's own `to_numpy` makes objects of times of day; the integers beneath are the
# oracle for those.
TEMPORALS = {
    pa.date32(): "datetime64[D]",
    pa.date64(): "datetime64[ms]",
    pa.time32("s"): "timedelta64[s]",
    pa.time32("ms"): "timedelta64[ms]",
    pa.time64("us"): "timedelta64[us]",
    pa.time64("ns"): "timedelta64[ns]",
} | {
    kind: f"{name}[{unit}]"
    for unit in UNITS
    for kind, name in (
        (pa.timestamp(unit), "datetime64"),
        (pa.timestamp(unit, "Europe/Berlin"), "datetime64"),
        (pa.duration(unit), "timedelta64"),
    )
}
OBJECTS = [
    pa.array(["", "é😀", "x" * 100, "plain"]),
    pa.array(["", "é😀", "x" * 100, "plain"], pa.large_string()),
    pa.array(["", "é😀", "x" * 100, "plain"], pa.string_view()),
    pa.array([b"", b"\x00\xff", b"x" * 100, b"p"]),
    pa.array([b"", b"\x00\xff", b"x" * 100, b"p"], pa.large_binary()),
    pa.array([b"", b"\x00\xff", b"x" * 100, b"p"], pa.binary_view()),
    pa.array([b"ab", b"cd", b"ef", b"gh"], pa.binary(2)),
    pa.array(["a", "b", "a", "a"]).dictionary_encode(),
    pa.array(
        [Decimal("1.20"), Decimal("-99999.99"), Decimal("0.00"), Decimal("0.01")],
        pa.decimal128(7, 2),
    ),
    pa.array(
        [Decimal("1.20"), Decimal("-99999.99"), Decimal("0.00"), Decimal("0.01")],
        pa.decimal256(60, 2),
    ),
    pa.array(
        [Decimal("1.20"), Decimal("-9.99"), Decimal("0.00"), Decimal("0.01")], pa.decimal32(4, 2)
    ),
    pa.array(
        [Decimal("1.20"), Decimal("-9.99"), Decimal("0.00"), Decimal("0.01")], pa.decimal64(12, 2)
    ),
    pa.array(
        [
            {"a": 1, "b": [1.5, None]},
            {"a": None, "b": None},
            {"a": 3, "b": []},
            {"a": 4, "b": [0.0]},
        ]
    ),
    pa.array(
        [[("k", 1)], [], [("k", None), ("l", 2)], [("m", 3)]], pa.map_(pa.string(), pa.int32())
    ),
    pa.array([["a", None], [], ["b"], ["c", "d"]]),
    pa.array([["a", None], [], ["b"], ["c", "d"]], pa.large_list(pa.string())),
    pa.array([["a", None], ["b", "c"], ["d", "e"], ["f", "g"]], pa.list_(pa.string(), 2)),
    pa.array([[[1], []], [], [None, [2, 3]], [[4]]]),
    pa.nulls(4),
]


def temporal(kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.array([0, 86_000, 1, 2_000], pa.int32()).cast(kind)
    if pa.types.is_date64(kind):
        return pa.array([0, -86_400_000, 86_400_000_000, 864_000_000], pa.int64()).cast(kind)
    if pa.types.is_time64(kind):
        return pa.array([0, 86_399_000_000, 1_000, 2_000_000], pa.int64()).cast(kind)
    return pa.array([0, -1_000_000, 1_711_846_000, 2_000], pa.int64()).cast(kind)


ALL = (
    [pa.array(values, kind) for kind, values in NUMBERS.items()]
    + [temporal(kind) for kind in TEMPORALS]
    + OBJECTS
)


def with_nulls(array: pa.Array) -> pa.Array:
    rows = [0, None, 1, 2, None, 3, 0]
    if array.type in (pa.string_view(), pa.binary_view()):
        # pyarrow takes no rows of these.
        return pa.array([None if row is None else array[row].as_py() for row in rows], array.type)
    return array.take(pa.array(rows))


def oracle(array: pa.Array) -> list[Any]:
    """Where pandas is installed, pyarrow makes its objects of nanoseconds."""
    coarse = {pa.time64("ns"): pa.time64("us"), pa.duration("ns"): pa.duration("us")}
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        coarse[array.type] = pa.timestamp("us", array.type.tz)
    return array.cast(coarse.get(array.type, array.type)).to_pylist()


def converter_of(
    schema: pa.Schema,
    kind: str,
    nulls: str = "raise",
    fill: dict[str, Any] | None = None,
    **form: Any,
) -> Converter:
    fill_values = plain_fill_values(fill)
    return Converter(
        schema,
        {
            "kind": kind,
            "nulls": nulls,
            "fill_values": fill_values,
            "pad": None,
            "list_lengths": {},
            **form,
        },
    )


def batches(
    array: pa.Array, kind: str, nulls: str = "raise", sizes: list[int] | None = None, **fill: Any
) -> list[Any]:
    batch, sizes = pa.record_batch({"x": array}), sizes or [len(array)]
    converter = converter_of(batch.schema, kind, nulls, fill)
    return list(split(converter.names, converter.convert(batch, sizes), sizes, kind))


def one(array: pa.Array, kind: str, nulls: str = "raise", **fill: Any) -> Any:
    return batches(array, kind, nulls, **fill)[0]["x"]


def name_of(value: Any) -> str:
    return str(value.type) if isinstance(value, pa.Array) else str(value)
