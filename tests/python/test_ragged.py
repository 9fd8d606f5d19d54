"""Lists of a batch: ragged, padded and nested. The oracles are plain lists and torch."""

import copy
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill._native.columns import Converter
from shardmill.load._columns import output_form, split

torch = pytest.importorskip("torch")

KINDS = ["torch", "numpy"]
ROWS = [[1, 2, 3], [], [4], [5, 6]]
NESTED = [[[1], [2, 3]], [], [[]], [[4, 5, 6]]]


def batches(
    array: pa.Array, output: sm.Output, sizes: list[int] | None = None, **lengths: int
) -> list[Any]:
    rows, sizes = pa.record_batch({"x": array}), sizes or [len(array)]
    converter = Converter(rows.schema, output_form(output, output.kind, lengths))
    return list(split(converter.names, converter.convert(rows, sizes), sizes, output.kind))


def ragged(rows: list[Any], kind: str = "torch", type: pa.DataType | None = None) -> Any:
    return batches(pa.array(rows, type or pa.list_(pa.int64())), sm.Output(kind))[0]["x"]


def nested(rows: list[Any], kind: str = "torch") -> Any:
    return ragged(rows, kind, pa.list_(pa.list_(pa.int64())))


def padded(rows: list[Any], *lengths: int, pad: Any, left: bool) -> list[Any]:
    """The model: rows of ``lengths`` on each level."""
    length, *inner = lengths
    if inner:
        rows = [padded(row, *inner, pad=pad, left=left) for row in rows]
        pad = padded([[]], *inner, pad=pad, left=left)[0]
    padding = [[pad] * (length - len(row)) for row in rows]
    return [more + row if left else row + more for row, more in zip(rows, padding, strict=True)]


def longest(rows: list[Any]) -> int:
    return max(map(len, rows), default=0)


# The class


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_lists(kind: str) -> None:
    lists = ragged(ROWS, kind)
    assert (len(lists), lists.tolist(), [row.tolist() for row in lists]) == (4, ROWS, ROWS)
    assert [lists[row].tolist() for row in (0, 3, -1, -4)] == [ROWS[row] for row in (0, 3, -1, -4)]
    assert all(isinstance(row, torch.Tensor if kind == "torch" else np.ndarray) for row in lists)
    for row in (4, -5):
        with pytest.raises(IndexError):
            lists[row]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_or_a_list_of_rows_selects_rows_as_numpy_does(kind: str) -> None:
    make = torch.tensor if kind == "torch" else np.array
    mask, order = [True, False, True, True], [3, -4, 3]
    texts = sm.StringArray("abcd")
    for values, lists in [(nested(NESTED, kind), NESTED), (ragged(ROWS, kind), ROWS)]:
        wanted = np.empty(4, object)
        wanted[:] = lists
        for plain in (mask, order):
            selected = np.array(plain)
            for index in (plain, make(plain)):
                assert values[index].tolist() == wanted[selected].tolist()
                assert texts[index] == np.array(list("abcd"))[selected].tolist()
        assert values[[]].tolist() == texts[[]].tolist() == []


@pytest.mark.parametrize("index", [[True], np.ones((4, 1), bool), [4], [-5]])
def test_a_selection_beyond_the_rows_is_an_index_error(index: Any) -> None:
    for column in (ragged(ROWS), sm.StringArray("abcd")):
        with pytest.raises(IndexError, match="rows"):
            column[index]


@pytest.mark.parametrize("index", [[0.5], [[1]], ["a"]])
def test_a_selection_of_other_values_is_a_type_error(index: Any) -> None:
    for column in (ragged(ROWS), sm.StringArray("abcd")):
        with pytest.raises(TypeError):
            column[index]


@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_slices_of_slices_are_those_of_the_lists(data: st.DataObject) -> None:
    rows = data.draw(
        st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3), max_size=6)
    )
    lists = nested(rows, data.draw(st.sampled_from(KINDS)))
    for _ in range(2):
        part = data.draw(st.slices(len(rows)))
        lists, rows = lists[part], rows[part]
        assert isinstance(lists, sm.Ragged)
        assert lists.tolist() == rows
        assert lists.offsets[0] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_lists_are_ragged_on_two_levels(kind: str) -> None:
    lists = nested(NESTED, kind)
    assert isinstance(lists.values, sm.Ragged)
    assert lists.values.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert isinstance(lists[0], sm.Ragged)
    assert lists[0][1].tolist() == [2, 3]
    assert lists.tolist() == NESTED


def test_lists_of_fixed_size_lists_have_a_tensor_of_rows() -> None:
    boxes = [[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]]
    lists = ragged(boxes, type=pa.list_(pa.list_(pa.float32(), 2)))
    assert lists.values.shape == (3, 2)
    assert lists.tolist() == boxes
    assert lists.to_padded(pad_value=-1).shape == (3, 2, 2)


def test_to_moves_every_part_and_copies_of_it_are_equal() -> None:
    array = pa.array([[1, None], None], pa.list_(pa.int64()))
    lists = batches(array, sm.Output(nulls="mask"))[0]["x"]
    moved = lists.to("meta")
    assert {part.device.type for part in (moved.values, moved.offsets, moved.valid)} == {"meta"}
    assert nested(NESTED).to("meta").values.values.device.type == "meta"
    for again in (
        pickle.loads(pickle.dumps(lists)),
        copy.deepcopy(lists),
        lists.to("cpu", non_blocking=True),
    ):
        assert (again.tolist(), again.valid.tolist()) == ([[1, 0], []], [True, False])


def test_nested_tensor_has_the_rows() -> None:
    tensor = ragged(ROWS).to_nested()
    assert tensor.layout == torch.jagged
    assert [row.tolist() for row in tensor.unbind()] == ROWS
    with pytest.raises(TypeError, match="one ragged level"):
        nested(NESTED).to_nested()


@pytest.mark.parametrize("method", ["to_nested", "pin_memory"])
def test_numpy_lists_have_no_tensors(method: str) -> None:
    with pytest.raises(TypeError, match="output='torch'"):
        getattr(ragged(ROWS, "numpy"), method)()
    with pytest.raises(TypeError, match="output='torch'"):
        ragged(ROWS, "numpy").to("cpu")


def test_padded_rows_equal_pad_sequence() -> None:
    lists = ragged(ROWS)
    for side in ("right", "left"):
        expected = torch.nn.utils.rnn.pad_sequence(
            list(lists), batch_first=True, padding_value=-7, padding_side=side
        )
        assert torch.equal(lists.to_padded(-7, side), expected)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"length": 2}, "row 0 has 3 values"),
        ({"length": 0}, "at least 1"),
        ({"side": "top"}, "side must be one of"),
        ({"pad_value": 0.5}, "0.5 does not fit"),
        ({"pad_value": 2**70}, "does not fit"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_invalid_padding_is_an_error(kind: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ragged(ROWS, kind).to_padded(**options)


# Padding


@settings(deadline=None, max_examples=examples(150))
@given(st.data())
def test_padded_batches_equal_the_model_on_every_level(data: st.DataObject) -> None:
    levels, pad = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, -1, 7]))
    items: Any = st.integers(0, 9)
    type: pa.DataType = pa.int16()
    for _ in range(levels):
        items, type = (
            st.lists(items, max_size=3),
            data.draw(st.sampled_from([pa.list_, pa.large_list]))(type),
        )
    rows = data.draw(st.lists(items, min_size=1, max_size=8))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    edges = [0, *cuts, len(rows)]
    sizes = [stop - start for start, stop in zip(edges, edges[1:])]
    kind, side = data.draw(st.sampled_from(KINDS)), data.draw(st.sampled_from(["right", "left"]))
    length = data.draw(st.one_of(st.just("longest"), st.integers(max(1, longest(rows)), 5)))
    output = sm.Output(kind, pad=length, pad_value=pad, side=side)
    for start, size, batch in zip(
        edges, sizes, batches(pa.array(rows, type), output, sizes), strict=False
    ):
        own = rows[start : start + size]
        lengths, inner = [longest(own) if length == "longest" else length], own
        names = ["x", "x__length"]
        wanted: dict[str, Any] = {"x__length": [len(row) for row in own]}
        for level in range(1, levels):
            inner = [item for row in inner for item in row]
            names.append(f"x__length_{level}")
            counts = lengths_at(own, level)
            wanted[names[-1]] = padded(counts, *lengths, pad=0, left=side == "left")
            lengths.append(longest(inner))
        wanted["x"] = padded(own, *lengths, pad=pad, left=side == "left")
        assert list(batch) == names
        assert tuple(batch["x"].shape) == (size, *lengths)
        assert batch["x__length"].dtype == (torch.int32 if kind == "torch" else np.int32)
        for name in names:
            assert (
                batch[name].reshape(size, *lengths[: batch[name].ndim - 1]).tolist() == wanted[name]
            )


def lengths_at(rows: list[Any], level: int) -> list[Any]:
    return [
        [len(item) for item in row] if level == 1 else lengths_at(row, level - 1) for row in rows
    ]


def test_padding_of_a_batch_does_not_depend_on_its_neighbours() -> None:
    together = batches(pa.array(ROWS), sm.Output(pad="longest"), [1, 2, 1])
    alone = [
        batches(pa.array(rows, pa.list_(pa.int64())), sm.Output(pad="longest"))[0]
        for rows in (ROWS[:1], ROWS[1:3], ROWS[3:])
    ]
    for own, other in zip(together, alone, strict=True):
        assert torch.equal(own["x"], other["x"])
        assert own["x"].is_contiguous()


def test_writing_to_a_padded_batch_leaves_the_backward_pass_of_another_alone() -> None:
    rows = pa.array([[1.0, 2.0], [3.0]])
    first, second = (batch["x"] for batch in batches(rows, sm.Output(pad=2), [1, 1]))
    weight = torch.ones(1, 2, requires_grad=True)
    loss = (weight * first.float()).sum()
    second.mul_(2)
    loss.backward()
    assert first.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("kind", KINDS)
def test_padding_follows_the_null_policies(kind: str) -> None:
    rows = pa.array([[1, None], None, []], pa.list_(pa.int32()))
    with pytest.raises(ValueError, match="row 1"):
        batches(rows, sm.Output(kind, pad=2))
    masked = batches(rows, sm.Output(kind, nulls="mask", pad=2, pad_value=9))[0]
    assert {name: column.tolist() for name, column in masked.items()} == {
        "x": [[1, 0], [9, 9], [9, 9]],
        "x__length": [2, 0, 0],
        "x__valid": rows.is_valid().to_pylist(),
        "x__valid_items": [[True, False], [False, False], [False, False]],
    }
    filled = batches(
        rows, sm.Output(kind, nulls="fill", fill_values={"x": 5}, pad="longest", side="left")
    )[0]
    assert (filled["x"].tolist(), filled["x__length"].tolist()) == (
        [[1, 5], [0, 0], [0, 0]],
        [2, 0, 0],
    )


@pytest.mark.parametrize(
    "item", [pa.int8(), pa.float32(), pa.float64(), pa.bool_(), pa.date32()], ids=str
)
@pytest.mark.parametrize("pad", [None, "longest"])
def test_row_of_a_list_is_valid_as_in_pyarrow_whatever_its_items(
    item: pa.DataType, pad: Any
) -> None:
    rows = [[1, None], None, [None, None], [1, 1], None]
    one = [pa.array(rows, pa.list_(pa.int32())), pa.array([*rows, []], pa.large_list(pa.int32()))]
    one.append(pa.array(rows, pa.list_(pa.int32(), 2)))
    types = [pa.list_(item), pa.large_list(item), pa.list_(item, 2), pa.list_(pa.list_(item))]
    two = pa.array([rows, None, [None], []], pa.list_(pa.list_(pa.int32())))
    for array in (array.cast(type) for array, type in zip([*one, two], types, strict=True)):
        # Lists of a fixed size need no padding.
        output = sm.Output(
            "numpy", nulls="mask", pad=None if pa.types.is_fixed_size_list(array.type) else pad
        )
        for variant in (array, array.slice(1, 3), array.slice(0, 0), array.drop_null()):
            batch = batches(variant, output, [len(variant)])[0]
            assert batch["x__valid"].tolist() == variant.is_valid().to_pylist()


def test_null_lists_in_lists_follow_the_policies() -> None:
    rows = pa.array([[[1], None], [], None, [[None]]], pa.list_(pa.list_(pa.int8())))
    with pytest.raises(ValueError, match="row 2"):
        batches(rows, sm.Output())
    with pytest.raises(ValueError, match="row 0"):
        batches(rows.slice(0, 2), sm.Output())
    items = pa.array([[[1], []], [], [[2], [3, None]]], rows.type)
    with pytest.raises(ValueError, match="row 2"):
        batches(items, sm.Output())
    assert batches(items, sm.Output(nulls="fill", fill_values={"x": 4}))[0]["x"].tolist()[2] == [
        [2],
        [3, 4],
    ]
    masked = batches(rows, sm.Output(nulls="mask"))[0]
    assert masked["x"].tolist() == [[[1], []], [], [], [[0]]]
    assert masked["x"].valid.tolist() == [True, False, True]
    assert masked["x"].values.valid.tolist() == [True, False]
    assert masked["x__valid"].tolist() == rows.is_valid().to_pylist()


@pytest.mark.parametrize(
    ("type", "pad_value", "padding"),
    [
        (pa.bool_(), 0, False),
        (pa.bool_(), True, True),
        (pa.float32(), float("inf"), float("inf")),
        (pa.float16(), -1, -1.0),
        (pa.uint64(), 2**64 - 1, 2**64 - 1),
        (pa.date32(), np.datetime64("1970-01-03"), np.datetime64("1970-01-03").item()),
        (pa.timestamp("s"), 0, np.datetime64(0, "s").item()),
    ],
    ids=str,
)
def test_pad_value_of_every_type(type: pa.DataType, pad_value: Any, padding: Any) -> None:
    (batch,) = batches(
        pa.array([[]], pa.list_(type)), sm.Output("numpy", pad=1, pad_value=pad_value)
    )
    assert batch["x"].tolist() == [[padding]]


@pytest.mark.parametrize(
    ("type", "output", "error", "reason"),
    [
        (
            pa.list_(pa.int8()),
            {"pad_value": 128},
            sm.OptionError,
            "pad value 128 does not fit column `x`.*int8",
        ),
        (
            pa.list_(pa.int8()),
            {"pad_value": 0.5},
            sm.OptionError,
            r"pad value 0\.5 does not fit column `x`.*int8",
        ),
        (
            pa.list_(pa.int8()),
            {"pad_value": {"x": -129}},
            sm.OptionError,
            "pad value -129 does not fit column `x`",
        ),
        (
            pa.list_(pa.int8()),
            {"pad_value": {"y": 1}},
            sm.MissingColumnError,
            "`pad_value` names column `y`",
        ),
        (pa.list_(pa.int8()), {"pad_value": None}, sm.OptionError, "`pad_value` is a NoneType"),
        (pa.int8(), {}, sm.OptionError, "nothing to pad"),
        (pa.list_(pa.int8(), 2), {}, sm.OptionError, "nothing to pad"),
        (pa.list_(pa.string()), {}, sm.OptionError, "nothing to pad"),
        (pa.int8(), {"pad_value": {"x": 1}}, sm.OptionError, "`x`, which is not padded"),
    ],
    ids=str,
)
def test_padding_that_cannot_be_is_refused_at_construction(
    type: pa.DataType, output: dict[str, Any], error: Any, reason: str
) -> None:
    with pytest.raises(error, match=reason):
        batches(pa.array([], type), sm.Output(pad="longest", **output))


def test_name_of_the_lengths_may_not_be_taken() -> None:
    schema = pa.schema({"x": pa.list_(pa.int8()), "x__length": pa.int8()})
    with pytest.raises(sm.OptionError, match="`x` adds `x__length`"):
        Converter(schema, output_form(sm.Output(pad=3), "torch", {}))
    Converter(schema, output_form(sm.Output(), "torch", {}))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pad": 0}, "at least 1"),
        ({"pad": -3}, "at least 1"),
        ({"pad": True}, "pad must be"),
        ({"pad": 1.5}, "pad must be"),
        ({"pad": "shortest"}, "'longest' or a length"),
        ({"pad": 3, "side": "top"}, "side must be one of"),
        ({"pad_value": 1}, "pad_value needs Output.pad"),
        ({"side": "left"}, "side needs Output.pad"),
        ({"kind": "arrow", "pad": 3}, "not 'arrow'"),
        ({"kind": "dict", "pad": "longest"}, "not 'dict'"),
        ({"lists": "matrix"}, "lists must be one of"),
        ({"lists": "ragged", "pad": 3}, "contradicts"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(sm.OptionError, match=reason):
        sm.Output(**options)


# Lists that are equally long


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_a_known_length_are_a_matrix_under_every_policy(kind: str) -> None:
    rows = pa.array([[1, 2], [3, None], None], pa.list_(pa.int32()))
    (plain,) = batches(rows.slice(0, 1), sm.Output(kind), x=2)
    assert plain["x"].tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="row 2"):
        batches(rows, sm.Output(kind), x=2)
    (masked,) = batches(rows, sm.Output(kind, nulls="mask"), x=2)
    assert {name: column.tolist() for name, column in masked.items()} == {
        "x": [[1, 2], [3, 0], [0, 0]],
        "x__valid": rows.is_valid().to_pylist(),
        "x__valid_items": [[True, True], [True, False], [False, False]],
    }
    with pytest.raises(ValueError, match="1 values in row 1, and 2"):
        batches(pa.array([[1, 2], [3]]), sm.Output(kind), x=2)


# Structs


@pytest.mark.parametrize("kind", KINDS)
def test_fields_of_a_null_struct_are_null(kind: str) -> None:
    type = pa.struct(
        {"n": pa.int32(), "f": pa.float32(), "s": pa.string(), "l": pa.list_(pa.int8())}
    )
    rows = pa.array(
        [
            {"n": 1, "f": 0.5, "s": "a", "l": [1, 2]},
            None,
            {"n": None, "f": None, "s": None, "l": []},
        ],
        type,
    )
    with pytest.raises(ValueError, match=r"`x\.n` is null in row 1"):
        batches(rows, sm.Output(kind))
    (masked,) = batches(rows, sm.Output(kind, nulls="mask", pad=2))
    assert list(masked) == ["x"]
    assert isinstance(masked["x"], sm.Struct)
    found = {name: column.tolist() for name, column in masked["x"].items()}
    np.testing.assert_array_equal(found.pop("f"), [0.5, np.nan, np.nan])
    assert found == {
        "n": [1, 0, 0],
        "n__valid": [True, False, False],
        "s": ["a", None, None],
        "l": [[1, 2], [0, 0], [0, 0]],
        "l__length": [2, 0, 0],
        "l__valid": [True, False, True],
        "l__valid_items": [[True, True], [False, False], [False, False]],
    }
    fills = {"x.n": -1, "x.l": 0}
    (filled,) = batches(rows, sm.Output(kind, nulls="fill", fill_values=fills), [3])
    assert (filled["x"]["n"].tolist(), filled["x"]["l"].tolist()) == ([1, -1, -1], [[1, 2], [], []])


@pytest.mark.parametrize(
    ("fields", "fills", "error", "reason"),
    [
        ({"a": pa.int8(), "a__valid": pa.int8()}, {}, sm.OptionError, r"`x\.a` adds `a__valid`"),
        ({"a": pa.int8()}, {"x": 1}, sm.OptionError, "`x`, which stays Python objects"),
        (
            {"a": pa.int8()},
            {"a": 1},
            sm.MissingColumnError,
            r"names column `a`; the batch has `x`, `x\.a`",
        ),
        ({"a": pa.int8()}, {"x.a": 300}, sm.OptionError, r"does not fit column `x\.a`"),
    ],
)
def test_struct_options_name_fields_by_their_path(
    fields: Any, fills: Any, error: Any, reason: str
) -> None:
    output = sm.Output(nulls="fill" if fills else "mask", fill_values=fills or None)
    with pytest.raises(error, match=reason):
        batches(pa.array([], pa.struct(fields)), output)


@settings(deadline=None, max_examples=examples(50))
@given(st.data())
def test_struct_batches_of_any_sizes_are_the_rows(data: st.DataObject) -> None:
    inner = st.fixed_dictionaries(
        {"n": st.integers(0, 9), "s": st.one_of(st.none(), st.text(max_size=3))}
    )
    outer = st.fixed_dictionaries({"inner": inner, "l": st.lists(st.integers(0, 9), max_size=3)})
    rows = data.draw(st.lists(outer, min_size=1, max_size=10))
    type = pa.struct(
        {"inner": pa.struct({"n": pa.int64(), "s": pa.string()}), "l": pa.list_(pa.int64())}
    )
    cut = data.draw(st.integers(0, len(rows)))
    sizes = [cut, len(rows) - cut]
    found = []
    for batch in batches(pa.array(rows, type), sm.Output(data.draw(st.sampled_from(KINDS))), sizes):
        column = batch["x"]
        parts = (column["inner"]["n"].tolist(), column["inner"]["s"].tolist(), column["l"].tolist())
        found += [
            {"inner": {"n": n, "s": s}, "l": items} for n, s, items in zip(*parts, strict=True)
        ]
    assert found == rows
