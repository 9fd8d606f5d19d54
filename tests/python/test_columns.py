"""Columns of a batch against pyarrow.

Every Arrow type, with and without nulls, sliced, empty, cut at any place.
"""

import datetime as dt
import pickle
import struct
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from breadth import examples
from column_values import (
    ALL,
    BEYOND_F64,
    NUMBERS,
    OBJECTS,
    TEMPORALS,
    batches,
    converter_of,
    name_of,
    one,
    oracle,
    temporal,
    with_nulls,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill._native.columns import Objects, to_pylist
from shardmill.errors import FormatError, MissingColumnError, OptionError
from shardmill.load._columns import check_torch, split

# Objects


@pytest.mark.parametrize("array", ALL, ids=name_of)
def test_lists_of_objects_equal_pyarrow(array: pa.Array) -> None:
    for variant in (
        array,
        with_nulls(array),
        with_nulls(array).slice(1, 4),
        array.slice(2),
        array.slice(0, 0),
    ):
        expected = oracle(variant)
        assert to_pylist(variant) == expected
        assert one(variant, "dict") == expected
        assert [type(value) for value in to_pylist(variant)] == [type(value) for value in expected]


#: Of OBJECTS, by what they become.
TEXTS, BINARIES = [OBJECTS[0], OBJECTS[1], OBJECTS[2], OBJECTS[7]], OBJECTS[3:7]
OTHERS = [
    array
    for array in OBJECTS[8:]
    if not pa.types.is_struct(array.type) and array.type != pa.list_(pa.list_(pa.int64()))
]


@pytest.mark.parametrize("array", OTHERS, ids=name_of)
def test_columns_without_a_tensor_are_object_arrays(array: pa.Array) -> None:
    pytest.importorskip("torch")
    nulls = with_nulls(array)
    tensors = batches(nulls, "torch", sizes=[3, 4])
    assert [value for batch in tensors for value in batch["x"]] == nulls.to_pylist()
    assert all(type(batch["x"]) is sm.ObjectArray for batch in tensors)
    arrays = batches(nulls, "numpy", sizes=[3, 4])
    assert [(batch["x"].dtype, batch["x"].shape) for batch in arrays] == [
        (np.dtype(object), (3,)),
        (np.dtype(object), (4,)),
    ]
    assert [value for batch in arrays for value in batch["x"]] == nulls.to_pylist()


@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize("array", TEXTS + BINARIES, ids=name_of)
def test_strings_and_binaries_equal_pyarrow_in_every_access(array: pa.Array, kind: str) -> None:
    pytest.importorskip("torch")
    nulls = with_nulls(array)
    expected = nulls.to_pylist()
    wanted = sm.StringArray if array in TEXTS else sm.BinaryArray
    first, second = (batch["x"] for batch in batches(nulls, kind, sizes=[3, 4]))
    assert (type(first), type(second), len(first), len(second)) == (wanted, wanted, 3, 4)
    assert first.tolist() + second.tolist() == list(first) + list(second) == expected
    assert [second[row] for row in (0, 3, -1, -4)] == [expected[row] for row in (3, 6, -1, 3)]
    assert second[1:3] == expected[4:6]
    assert second[1:][1:] == expected[5:]
    assert second[::-2] == expected[:2:-2]
    assert np.asarray(second).tolist() == expected[3:]
    assert pa.array(second).to_pylist() == expected[3:]
    assert pickle.loads(pickle.dumps(second)) == second
    assert second.to("cpu") is second
    for row in (4, -5):
        with pytest.raises(IndexError):
            second[row]


@settings(deadline=None, max_examples=examples(100))
@given(
    st.data(),
    st.sampled_from(
        [(sm.StringArray, st.text(max_size=20)), (sm.BinaryArray, st.binary(max_size=20))]
    ),
)
def test_pickled_slice_has_the_rows_of_the_slice(data: Any, kind: Any) -> None:
    array, values = kind
    rows = data.draw(st.lists(st.one_of(st.none(), values)))
    chosen = slice(*data.draw(st.tuples(st.integers(0, 9), st.integers(0, 9))))
    unpickled = pickle.loads(pickle.dumps(array(rows)[chosen]))
    assert type(unpickled) is array
    assert unpickled == rows[chosen]
    assert pa.array(unpickled).to_pylist() == rows[chosen]
    assert pickle.loads(pickle.dumps(unpickled[1:])) == rows[chosen][1:]


def test_pickled_slice_does_not_take_the_rows_around_it_along() -> None:
    texts = sm.StringArray(["x" * 1000] * 100)
    assert len(pickle.dumps(texts[40:42])) < 3000


@pytest.mark.parametrize(
    ("lengths", "content"),
    [
        (b"\1", b"a"),
        (struct.pack("<q", 2), b"a"),
        (struct.pack("<q", 0), b"a"),
        (struct.pack("<2q", -2, 1), b"a"),
        (struct.pack("<2q", 2**63 - 1, 2**63 - 1), b"a"),
        (struct.pack("<q", 1), b"\xff"),
        (struct.pack("<2q", 1, 1), "é".encode()),
    ],
)
def test_damaged_pickle_of_strings_raises(lengths: bytes, content: bytes) -> None:
    with pytest.raises(ValueError, match=r"do not match|UTF-?8|utf-?8"):
        Objects.of_packed("string", lengths, content)


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(st.one_of(st.none(), st.text(max_size=20))))
def test_string_array_of_any_strings_gives_them_back(texts: list[Any]) -> None:
    array = sm.StringArray(texts)
    assert array == texts
    assert pa.array(array).to_pylist() == texts
    raw = [None if text is None else text.encode() for text in texts]
    assert pa.array(sm.BinaryArray(raw)).to_pylist() == sm.BinaryArray(raw).tolist() == raw


@pytest.mark.parametrize("other", [["a", "c"], ["a"], ["a", "b", "c"], [None, "b"]])
def test_string_array_differs_from_other_strings(other: list[Any]) -> None:
    assert sm.StringArray(["a", "b"]) != other
    assert sm.StringArray(["a", "b"]) != sm.StringArray(other)


def test_zoned_timestamp_has_the_wall_clock_of_its_zone_on_both_sides_of_a_change() -> None:
    winter, summer, fold = (
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 7, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.UTC),
    )
    for zone in ("Europe/Berlin", "UTC", "+05:30", "-03:00"):
        array = pa.array([winter, summer, fold], pa.timestamp("us", zone))
        ours, theirs = to_pylist(array), array.to_pylist()
        assert [(value.isoformat(), value.fold) for value in ours] == [
            (value.isoformat(), value.fold) for value in theirs
        ]


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (pa.array([0, 1], pa.timestamp("ns")), "1 ns in row 1"),
        (pa.array([0, 1], pa.time64("ns")), "1 ns in row 1"),
        (pa.array([0, 1], pa.duration("ns")), "1 ns in row 1"),
        (pa.array([0, 10**7], pa.date32()), "10000000 in row 1 is outside"),
        (pa.array([0, -(10**13)], pa.timestamp("s")), "in row 1 is outside"),
        (pa.array([0, 2**63 - 1], pa.timestamp("s")), "in row 1 is outside"),
        (pa.array([0, 2**63 - 1], pa.duration("s")), "in row 1 is outside"),
        (pa.array([0], pa.timestamp("s", "Mars/Olympus")), "Mars/Olympus"),
    ],
    ids=name_of,
)
def test_value_without_an_exact_object_is_an_error_that_names_the_row(
    array: pa.Array, reason: str
) -> None:
    with pytest.raises(FormatError, match=reason):
        one(array, "dict")


@given(
    st.lists(st.one_of(st.none(), st.datetimes()), max_size=20),
    st.lists(st.one_of(st.none(), st.timedeltas()), max_size=20),
)
def test_any_datetime_and_timedelta_comes_out_as_it_went_in(
    datetimes: list[Any], deltas: list[Any]
) -> None:
    assert to_pylist(pa.array(datetimes, pa.timestamp("us"))) == datetimes
    small = [None if delta is None or abs(delta.days) > 10**8 else delta for delta in deltas]
    assert to_pylist(pa.array(small, pa.duration("us"))) == small


# Numbers


@pytest.mark.parametrize("kind", NUMBERS, ids=name_of)
def test_numbers_equal_pyarrow(kind: pa.DataType) -> None:
    torch = pytest.importorskip("torch")
    array = pa.array(NUMBERS[kind] * 5, kind)
    for variant in (
        array,
        array.slice(3, 11),
        array.slice(4, 0),
        array.dictionary_encode() if kind != pa.float16() else array,
    ):
        decoded = variant.dictionary_decode() if pa.types.is_dictionary(variant.type) else variant
        expected = decoded.to_numpy(zero_copy_only=False)
        ours = one(variant, "numpy")
        assert ours.dtype == kind.to_pandas_dtype()
        assert ours.flags.writeable
        np.testing.assert_array_equal(ours, expected.astype(ours.dtype))
        tensor = one(variant, "torch")
        assert tensor.dtype == torch.from_numpy(ours).dtype
        np.testing.assert_array_equal(tensor.numpy(), ours)


@pytest.mark.parametrize("kind", TEMPORALS, ids=name_of)
def test_dates_and_times_keep_their_unit(kind: pa.DataType) -> None:
    torch = pytest.importorskip("torch")
    array = temporal(kind).slice(1)
    physical = (
        array.cast(pa.int32())
        if pa.types.is_date32(kind) or pa.types.is_time32(kind)
        else array.cast(pa.int64())
    )
    counts = physical.to_numpy().astype(np.int64)
    ours = one(array, "numpy")
    assert ours.dtype == TEMPORALS[kind]
    np.testing.assert_array_equal(ours.view(np.int64), counts)
    if not pa.types.is_time(kind):
        np.testing.assert_array_equal(ours, array.to_numpy(zero_copy_only=False))
    tensor = one(array, "torch")
    assert tensor.dtype == torch.int64
    np.testing.assert_array_equal(tensor.numpy(), counts)


@pytest.mark.parametrize(
    "kind", [kind for kind in NUMBERS if pa.types.is_floating(kind)], ids=name_of
)
@pytest.mark.parametrize("nulls", ["raise", "fill", "mask"])
def test_null_float_is_nan_under_every_policy(kind: pa.DataType, nulls: str) -> None:
    array = with_nulls(pa.array(NUMBERS[kind], kind)).slice(1)
    batch = batches(array, "numpy", nulls)[0]
    assert list(batch) == ["x"]
    np.testing.assert_array_equal(
        batch["x"],
        np.array([np.nan if v is None else v for v in array.to_pylist()], batch["x"].dtype),
    )


@pytest.mark.parametrize(
    "array",
    [a for a in ALL if not pa.types.is_floating(a.type) and not any(a is o for o in OBJECTS)],
    ids=name_of,
)
def test_mask_tells_every_null_and_the_dtype_stays(array: pa.Array) -> None:
    whole = batches(array, "numpy", "mask")[0]
    for variant in (
        with_nulls(array),
        with_nulls(array).slice(1, 5),
        array.slice(0, 0),
        with_nulls(array).slice(1, 1),
    ):
        batch = batches(variant, "numpy", "mask")[0]
        assert [(name, column.dtype) for name, column in batch.items()] == [
            (name, column.dtype) for name, column in whole.items()
        ]
        np.testing.assert_array_equal(
            batch["x__valid"], variant.is_valid().to_numpy(zero_copy_only=False)
        )
        kept = variant.drop_null()
        np.testing.assert_array_equal(batch["x"][batch["x__valid"]], one(kept, "numpy"))
        assert not batch["x"][~batch["x__valid"]].view(np.uint8).any()


@pytest.mark.parametrize(
    "array",
    [a for a in ALL if not pa.types.is_floating(a.type) and not any(a is o for o in OBJECTS)],
    ids=name_of,
)
def test_null_is_an_error_by_default(array: pa.Array) -> None:
    with pytest.raises(FormatError, match="`x` is null in row 1"):
        one(with_nulls(array), "numpy")


@pytest.mark.parametrize(
    ("array", "value", "filled"),
    [
        (pa.array([1, None], pa.int64()), BEYOND_F64, [1, BEYOND_F64]),
        (pa.array([1, None], pa.uint8()), np.uint8(7), [1, 7]),
        (pa.array([True, None]), False, [True, False]),
        (pa.array([1.0, None]), 0.5, [1.0, 0.5]),
        (
            pa.array([0, None], pa.date32()),
            dt.date(2024, 2, 29),
            [dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
        ),
        (
            pa.array([0, None], pa.timestamp("us")),
            dt.datetime(2024, 2, 29, 12),
            [dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12)],
        ),
        (
            pa.array([0, None], pa.timestamp("s", "Europe/Berlin")),
            dt.datetime(1970, 1, 2, tzinfo=dt.UTC),
            [dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 2)],
        ),
        (pa.array([0, None], pa.duration("s")), 3, [dt.timedelta(0), dt.timedelta(seconds=3)]),
    ],
    ids=name_of,
)
def test_fill_value_takes_the_place_of_nulls(
    array: pa.Array, value: Any, filled: list[Any]
) -> None:
    assert one(array, "numpy", "fill", x=value).tolist() == filled


# Lists


LISTS = [[1, 2], None, [], [3, None, 5], [6]]


@pytest.mark.parametrize("make", [pa.list_, pa.large_list], ids=["list", "large_list"])
@pytest.mark.parametrize("sizes", [[5], [1, 1, 1, 1, 1], [2, 0, 3]], ids=str)
def test_ragged_batches_give_back_their_lists(make: Any, sizes: list[int]) -> None:
    torch = pytest.importorskip("torch")
    array = pa.array([[9], *LISTS, [8]], make(pa.int16())).slice(1, 5)
    for kind in ("numpy", "torch"):
        row = 0
        for size, batch in zip(sizes, batches(array, kind, "mask", sizes), strict=True):
            ragged, valid = batch["x"], batch["x__valid"]
            assert isinstance(ragged, sm.Ragged)
            assert ragged.values.dtype == (torch.int16 if kind == "torch" else np.int16)
            assert ragged.offsets.dtype == (torch.int64 if kind == "torch" else np.int64)
            assert ragged.offsets[0] == 0
            assert len(ragged.offsets) == size + 1
            for index in range(size):
                expected = LISTS[row]
                span = slice(int(ragged.offsets[index]), int(ragged.offsets[index + 1]))
                items = [
                    value if is_valid else None
                    for value, is_valid in zip(
                        ragged.values[span].tolist(), ragged.valid[span].tolist(), strict=True
                    )
                ]
                assert items == (expected or [])
                assert bool(valid[index]) == (expected is not None)
                row += 1


def test_fixed_size_list_is_a_matrix() -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).random((7, 768), dtype=np.float32)
    array = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 768)
    for sizes in ([7], [3, 4]):
        tensors = [batch["x"] for batch in batches(array, "torch", sizes=sizes)]
        assert [tuple(tensor.shape) for tensor in tensors] == [(size, 768) for size in sizes]
        np.testing.assert_array_equal(torch.cat(tensors).numpy(), values)
    np.testing.assert_array_equal(one(array.slice(2, 3), "numpy"), values[2:5])
    assert one(array.slice(0, 0), "numpy").shape == (0, 768)


def test_fixed_size_list_with_nulls_follows_the_policies_by_row() -> None:
    floats = pa.array([[1.0, 2.0], None, [3.0, None]], pa.list_(pa.float64(), 2))
    np.testing.assert_array_equal(one(floats, "numpy"), [[1, 2], [np.nan, np.nan], [3, np.nan]])
    integers = pa.array([[1, 2], None, [3, None]], pa.list_(pa.int32(), 2))
    with pytest.raises(FormatError, match="row 1"):
        one(integers, "numpy")
    assert one(integers, "numpy", "fill", x=-1).tolist() == [[1, 2], [-1, -1], [3, -1]]
    batch = batches(integers, "numpy", "mask")[0]
    assert {name: column.tolist() for name, column in batch.items()} == {
        "x": [[1, 2], [0, 0], [3, 0]],
        "x__valid": [True, False, True],
        "x__valid_items": [[True, True], [False, False], [True, False]],
    }


def test_lists_of_dates_keep_their_unit() -> None:
    pytest.importorskip("torch")
    array = pa.array([[dt.date(2024, 1, 1)], []], pa.list_(pa.date32()))
    assert one(array, "numpy").values.dtype == "datetime64[D]"
    assert one(array, "torch").values.tolist() == [19723]


def test_ragged_lists_of_floats_need_no_item_mask() -> None:
    array = pa.array([[1.0, None], None, []])
    batch = batches(array, "numpy", "mask")[0]
    assert batch["x"].valid is None
    np.testing.assert_array_equal(batch["x"].values, [1.0, np.nan])
    assert batch["x__valid"].tolist() == [True, False, True]
    with pytest.raises(FormatError, match="row 1"):
        one(array, "numpy")


# Cutting


@settings(deadline=None)
@given(st.data())
def test_batches_of_any_sizes_are_the_rows_of_the_superbatch(data: st.DataObject) -> None:
    pytest.importorskip("torch")
    rows = data.draw(st.integers(0, 40))
    optional = lambda values: st.lists(  # noqa: E731
        st.one_of(st.none(), values), min_size=rows, max_size=rows
    )
    columns = {
        "i": pa.array(data.draw(optional(st.integers(-(2**63), 2**63 - 1))), pa.int64()),
        "b": pa.array(data.draw(optional(st.booleans())), pa.bool_()),
        "f": pa.array(data.draw(optional(st.floats(width=32, allow_nan=False))), pa.float32()),
        "s": pa.array(data.draw(optional(st.text(max_size=5))), pa.string()),
        "l": pa.array(
            data.draw(optional(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=3))),
            pa.list_(pa.int8()),
        ),
        "m": pa.array(
            data.draw(
                optional(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=2, max_size=2))
            ),
            pa.list_(pa.int8(), 2),
        ),
    }
    offset = data.draw(st.integers(0, rows))
    whole = pa.record_batch(columns).slice(offset)
    cuts = sorted(data.draw(st.lists(st.integers(0, whole.num_rows), max_size=4)))
    edges = [0, *cuts, whole.num_rows]
    sizes = [stop - start for start, stop in zip(edges, edges[1:])]
    kind = data.draw(st.sampled_from(["torch", "numpy"]))
    converter = converter_of(whole.schema, kind, "mask")
    for start, size, batch in zip(
        edges,
        sizes,
        split(converter.names, converter.convert(whole, sizes), sizes, kind),
        strict=False,
    ):
        expected = {
            name: column.to_pylist()
            for name, column in zip(whole.schema.names, whole.slice(start, size).columns)
        }
        assert masked(batch["i"], batch["i__valid"]) == expected["i"]
        assert masked(batch["b"], batch["b__valid"]) == expected["b"]
        assert [None if value != value else value for value in batch["f"].tolist()] == expected["f"]
        assert list(batch["s"]) == expected["s"]
        items = masked(batch["l"].values, batch["l"].valid)
        offsets = batch["l"].offsets.tolist()
        assert [items[start:stop] for start, stop in zip(offsets, offsets[1:])] == [
            row or [] for row in expected["l"]
        ]
        for name in ("l", "m"):
            assert (
                batch[f"{name}__valid"].tolist()
                == whole.slice(start, size)[name].is_valid().to_pylist()
            )
        rows_of_two = [
            masked(values, valid) for values, valid in zip(batch["m"], batch["m__valid_items"])
        ]
        assert rows_of_two == [row or [None, None] for row in expected["m"]]


def masked(values: Any, valid: Any) -> list[Any]:
    return [
        value if is_valid else None
        for value, is_valid in zip(values.tolist(), valid.tolist(), strict=True)
    ]


def test_writing_to_one_batch_leaves_the_backward_pass_of_another_alone() -> None:
    torch = pytest.importorskip("torch")
    first, second = (
        batch["x"] for batch in batches(pa.array(np.ones(8, np.float32)), "torch", sizes=[4, 4])
    )
    weight = torch.ones(4, requires_grad=True)
    loss = (weight * first).sum()
    second.mul_(2)
    loss.backward()
    assert weight.grad.tolist() == [1.0] * 4
    assert first.tolist() == [1.0] * 4


def test_batches_without_columns_are_empty_dicts() -> None:
    assert list(split([], [], [2, 1], "torch")) == [{}, {}]


# Refusals


@pytest.mark.parametrize(
    ("kind", "nulls", "fill", "error", "reason"),
    [
        ("pandas", "raise", {}, OptionError, "`output`"),
        ("numpy", "drop", {}, OptionError, "`nulls`"),
        ("numpy", "fill", {"y": 1}, MissingColumnError, "`y`"),
        ("numpy", "raise", {"x": 1}, OptionError, 'nulls="fill"'),
        ("numpy", "fill", {"x": 2**40}, OptionError, "does not fit column `x`"),
        ("numpy", "fill", {"x": 2**200}, OptionError, "does not fit column `x`"),
        ("numpy", "fill", {"x": dt.timedelta(1)}, OptionError, "`x` is a timedelta"),
        ("numpy", "fill", {"x": None}, OptionError, "`x` is a NoneType"),
        ("dict", "fill", {"x": 1}, OptionError, "stays Python objects"),
    ],
)
def test_option_without_a_meaning_is_refused_at_construction(
    kind: str, nulls: str, fill: dict[str, Any], error: type, reason: str
) -> None:
    with pytest.raises(error, match=reason):
        converter_of(pa.schema({"x": pa.int32()}), kind, nulls, fill)


@pytest.mark.parametrize("kind", ["torch", "numpy", "dict"])
def test_type_without_a_form_is_refused_at_construction(kind: str) -> None:
    with pytest.raises(FormatError, match="`x` is month_day_nano_interval"):
        converter_of(pa.schema({"x": pa.month_day_nano_interval()}), kind)


def test_missing_torch_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'shardmill\[torch\]'"):
        check_torch(None)


def test_torch_without_wide_unsigned_integers_is_refused_for_such_columns_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = types.ModuleType("torch")
    old.__version__ = "2.2.0"
    monkeypatch.setitem(sys.modules, "torch", old)
    narrow = converter_of(pa.schema({"x": pa.uint8()}), "torch")
    check_torch(narrow.wide_unsigned)
    wide = converter_of(pa.schema({"x": pa.uint8(), "y": pa.list_(pa.uint16())}), "torch")
    with pytest.raises(OptionError, match="`y`.*torch 2.2.0"):
        check_torch(wide.wide_unsigned)


def test_import_of_columns_does_not_import_torch() -> None:
    code = "import sys, shardmill.load._columns; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
