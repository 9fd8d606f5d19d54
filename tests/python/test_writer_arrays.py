"""NumPy arrays and tensors of any rank as values of rows and as columns of batches."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
import torch
from breadth import covering

WHOLE = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *WHOLE, "float16", "float32", "float64"]
SHAPES = [(), (4,), (2, 3), (2, 2, 2), (0,), (0, 3), (2, 0)]


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return (values % 2 == 0) if dtype == "bool" else (values / 2 + 100).astype(dtype)


def nested(of: pa.DataType, rank: int) -> pa.DataType:
    return of if rank == 0 else pa.list_(nested(of, rank - 1))


KINDS: dict[str, Any] = {
    "numpy": lambda array: array,
    "big-endian": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "strided": lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
    "torch": lambda array: torch.tensor(np.array(array)),
    "torch with a gradient": lambda array: torch.tensor(np.array(array)).requires_grad_(
        array.dtype.kind == "f"
    ),
    "torch, transposed twice": lambda array: torch.tensor(np.array(array.T)).permute(
        tuple(reversed(range(array.ndim)))
    ),
}


@covering(2, dtype=DTYPES, shape=SHAPES, kind=list(KINDS))
def test_array_is_stored_with_its_type_and_values(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], kind: str
) -> None:
    array, of_kind = numbers(dtype, shape), KINDS[kind]
    value, of = of_kind(array), nested(pa.from_numpy_dtype(array.dtype), array.ndim)

    def stored(**options: Any) -> pa.ChunkedArray:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        with sm.Writer(path) as writer:
            writer.write_batch(
                {"x": options["batch"]}
            ) if "batch" in options else writer.write_rows(options["rows"])
        return pq.read_table(path)["x"]

    for options in (
        {"rows": [{"x": value}] * 3},
        {"batch": [value] * 3},
        {"batch": of_kind(np.stack([array] * 3))},
    ):
        found = stored(**options)
        assert found.type == of
        assert found.to_pylist() == [array.tolist()] * 3
    found = stored(rows=[{"x": {"list": [value, value], "value": value}}] * 3)
    assert found.to_pylist() == [{"list": [array.tolist()] * 2, "value": array.tolist()}] * 3
    # The type of the items of an empty list is not known within another value.
    assert array.size == 0 or found.type == pa.struct([("list", pa.list_(of)), ("value", of)])


@covering(
    2, dtype=DTYPES, shape=SHAPES, kind=["numpy", "torch"], format=["jsonl", "webdataset", "mds"]
)
def test_array_comes_back_from_other_formats(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], kind: str, format: Any
) -> None:
    array = numbers(dtype, shape)
    name = "json" if format == "webdataset" else "x"
    is_refused = format == "mds" and array.ndim > 0 and (dtype == "bool" or array.size == 0)
    try:
        with sm.Writer(tmp_path, format=format) as writer:
            writer.write_rows([{name: KINDS[kind](array)}] * 3)
    except sm.FormatError as error:
        assert is_refused and f"row 0 has the value {KINDS[kind](array)!r}"[:40] in str(error)
        return
    assert not is_refused
    found = [row[name] for row in sm.Dataset(tmp_path)]
    if format == "webdataset":
        found = [json.loads(value) if isinstance(value, str | bytes) else value for value in found]
    found = [value.tolist() if isinstance(value, np.ndarray) else value for value in found]
    assert found == [array.tolist()] * 3


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ({"x": "float32"}, torch.tensor(1.5, requires_grad=True)),
        ({"x": "int"}, torch.tensor(7)),
        ({"x": "ndarray:float32:2,3"}, torch.arange(6.0).reshape(2, 3)),
        ({"x": "int32[]"}, torch.arange(3, dtype=torch.int32)),
        ({"x": "int32[]"}, np.arange(3, dtype=np.int32)),
    ],
    ids=str,
)
@pytest.mark.parametrize("format", ["parquet", "mds"])
def test_tensor_is_taken_by_the_type_of_a_column(
    tmp_path: Path, format: Any, columns: Any, value: Any
) -> None:
    with sm.Writer(tmp_path, format=format, columns=columns) as writer:
        writer.write({"x": value})
    found = next(iter(sm.Dataset(tmp_path)))["x"]
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == value.tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("format", ["parquet", "jsonl", "mds"])
def test_short_floats_of_torch_are_exact_in_float32(
    tmp_path: Path, format: Any, dtype: torch.dtype
) -> None:
    tensor = torch.tensor([[0.1, -3.0], [1.5, 240.0]]).to(dtype)
    with sm.Writer(tmp_path, format=format) as writer:
        writer.write({"x": tensor})
    found = next(iter(sm.Dataset(tmp_path)))["x"]
    assert np.asarray(found, np.float32).tolist() == tensor.float().tolist()
    if format == "parquet":
        assert pq.read_table(tmp_path).schema.field("x").type == nested(pa.float32(), 2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array(["a", "é"]), ["a", "é"]),
        (np.array([["a"], ["é"]]), [["a"], ["é"]]),
        (np.array("a"), "a"),
        (np.array(["a", None], object), ["a", None]),
        (np.array([["a"], ["b"]], object), [["a"], ["b"]]),
        (np.array([b"a", b"b"]), [b"a", b"b"]),
        (np.array([["2024-02-29"]], "datetime64[s]"), [[np.datetime64("2024-02-29", "s").item()]]),
        (np.datetime64("2024-02-29"), date(2024, 2, 29)),
        (np.ma.array([1, 2, 3], mask=[False, True, False]), [1, None, 3]),
        (pd.NaT, None),
    ],
    ids=repr,
)
def test_strings_and_times_of_arrays_are_those_values(
    tmp_path: Path, value: np.ndarray, expected: Any
) -> None:
    with sm.Writer(tmp_path / "rows.parquet") as writer:
        writer.write({"x": value})
    assert pq.read_table(tmp_path / "rows.parquet")["x"].to_pylist() == [expected]


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["datetime64", "timedelta64"])
@pytest.mark.parametrize("form", ["row", "batch"])
def test_times_of_arrays_keep_their_unit_and_missing_values(
    tmp_path: Path, unit: str, kind: str, form: str
) -> None:
    if (kind, unit) == ("timedelta64", "D"):
        pytest.skip("Arrow has no durations in days")
    times = np.array([1, -7, "NaT"], f"{kind}[{unit}]")
    with sm.Writer(tmp_path / "rows.parquet") as writer:
        if form == "batch":
            writer.write_batch({"x": times})
        else:
            writer.write_rows([{"x": time} for time in times])
    # Parquet has no times in seconds.
    found = pq.read_table(tmp_path / "rows.parquet")["x"].combine_chunks()
    assert found.equals(pa.array(times).cast(found.type))
    assert unit == "s" or found.type == pa.array(times).type


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([1j]), "ndarray of complex128"),
        (np.array([[1j]]), "ndarray of complex128"),
        (torch.tensor([1j]), "Tensor of torch.complex64"),
        (np.array([object()]), "ndarray of object, of which one is of type object"),
        (np.array([{1, 2}, 3]), "ndarray of object, of which one is of type set"),
        (torch.eye(2).to_sparse(), "Tensor of torch.float32"),
        (np.zeros(1, np.longdouble), f"ndarray of {np.dtype(np.longdouble)}"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("form", ["row", "batch"])
def test_array_without_a_column_type_is_refused_by_the_type_of_its_elements(
    tmp_path: Path, value: Any, message: str, form: str
) -> None:
    with pytest.raises(sm.FormatError) as error, sm.Writer(tmp_path / "rows.parquet") as writer:
        writer.write({"x": value}) if form == "row" else writer.write_batch({"x": [value]})
    assert "row 0 has the value" in str(error.value) and "in column 'x'" in str(error.value)
    assert f"has the Python type {message}" in str(error.value)


@pytest.mark.parametrize("value", [np.array(5), torch.tensor(5)], ids=str)
def test_scalar_in_place_of_a_column_is_refused(tmp_path: Path, value: Any) -> None:
    with (
        pytest.raises(TypeError, match="must be a list of values"),
        sm.Writer(tmp_path / "rows.parquet") as writer,
    ):
        writer.write_batch({"x": value})


def test_arrays_of_several_ranks_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(sm.FormatError, match="row 1 "),
        sm.Writer(tmp_path / "rows.parquet") as writer,
    ):
        writer.write_rows([{"x": np.array([1])}, {"x": np.ones((2, 2))}])


def test_later_arrays_of_the_type_of_the_column_follow_each_other(tmp_path: Path) -> None:
    rows = [{"x": np.full((2, index % 3), index, np.int32)} for index in range(3000)]
    with sm.Writer(tmp_path / "rows.parquet") as writer:
        writer.write_rows(rows)
    found = pq.read_table(tmp_path / "rows.parquet")["x"]
    assert found.type == nested(pa.int32(), 2)
    assert found.to_pylist() == [row["x"].tolist() for row in rows]
