"""Batches are printed as types and shapes, and remain dicts and lists for all consumers."""

from __future__ import annotations

import copy
import decimal
import io
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.load._nested import Batch, Rows

LARGE = bytes(100_000)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    table = pa.table(
        {
            "id": range(8),
            "text": ["w" * 5000] * 8,
            "price": [decimal.Decimal("1.5")] * 8,
            "tokens": [[1, 2], [3], [4, 5, 6], []] * 2,
            "words": [["a" * 5000] * 50] * 8,
            "map": pa.array([[("k" * 500, LARGE)]] * 8, pa.map_(pa.string(), pa.binary())),
            "embedding": np.zeros((8, 1000)).tolist(),
            "image": [
                {"bytes": LARGE, "path": f"{row}.jpg", "size": {"width": row}} for row in range(8)
            ],
            "pixels": [LARGE] * 8,
            "lists": [[[1], [2, 3]], [[1]]] * 4,
        }
    )
    file = tmp_path_factory.mktemp("repr") / "a.parquet"
    pq.write_table(table, file)
    return str(file)


def batch_of(path: str, output: Any, **options: Any) -> Any:
    return next(iter(sm.Loader(path, batch_size=4, output=output, rank=0, world_size=1, **options)))


def test_batch_prints_the_type_and_shape_of_each_column(path: str) -> None:
    assert repr(batch_of(path, "numpy")).splitlines() == [
        "Batch",
        "  id         array int64 [4]",
        "  text       StringArray [4]",
        "  price      array object [4]",
        "  tokens     Ragged [4] of array int64 [6]",
        "  words      array object [4]",
        "  map        array object [4]",
        "  embedding  array float64 [4, 1000]",
        "  image      Struct",
        "    bytes  BinaryArray [4]",
        "    path   StringArray [4]",
        "    size   Struct",
        "      width  array int64 [4]",
        "  pixels     BinaryArray [4]",
        "  lists      Ragged [4] of Ragged [6] of array int64 [8]",
    ]
    assert "  id         list [4] of int" in repr(batch_of(path, "dict")).splitlines()
    assert "tensor int64 [4]" in repr(batch_of(path, "torch")) if _has_torch() else True


def _has_torch() -> bool:
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def test_no_output_and_no_column_prints_its_content(path: str) -> None:
    outputs = [
        "numpy",
        "dict",
        "rows",
        sm.Output("numpy", nulls="mask"),
        sm.Output("numpy", lists="ragged"),
    ]
    outputs += ["torch"] if _has_torch() else []
    sizes = {}
    for output in outputs:
        batch = batch_of(path, output)
        sizes[str(output)] = len(repr(batch))
        if not isinstance(batch, list):
            columns = {
                name: column
                for name, column in batch.items()
                if not isinstance(column, np.ndarray | list)
            }
            sizes |= {f"{output} {name}": len(repr(column)) for name, column in columns.items()}
    assert {name: size for name, size in sizes.items() if size > 1000} == {}


def test_what_a_user_puts_into_a_batch_is_printed_short(path: str) -> None:
    batch = batch_of(path, "numpy", columns=["id"])
    batch |= {"itself": batch, "large": LARGE, "nested": {"x": [LARGE]}, 5: None}
    batch["later"] = batch
    text = repr(batch)
    assert len(text) < 1000
    assert "(100,000 bytes)" in text
    assert repr(Batch()) == "Batch"
    assert repr(Rows()) == "[]"
    assert repr(Rows([{"x": 1}])) == "[{'x': 1}]"
    assert repr(Rows([{"x": 1}] * 3)) == "[{'x': 1}, … 3 rows]"


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))]
)
@pytest.mark.parametrize("output", ["numpy", "dict", "rows"])
def test_copies_are_equal_and_of_the_same_class(path: str, output: Any, copied: Any) -> None:
    batch = batch_of(
        path, output, columns=["text", "tokens", "image"] if output == "rows" else ["text", "words"]
    )
    other = copied(batch)
    assert type(other) is type(batch)
    assert isinstance(batch, list if output == "rows" else dict)
    if output == "numpy":
        batch["words"], other["words"] = batch["words"].tolist(), other["words"].tolist()
    assert other == batch


def test_tree_functions_and_collation_of_torch_take_batches_as_dicts_and_lists(path: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils import _pytree as trees
    from torch.utils.data import default_collate, default_convert
    from torch.utils.data._utils.pin_memory import pin_memory

    batch = batch_of(path, "torch", columns=["id", "embedding", "image"])
    plain = {"id": batch["id"], "embedding": batch["embedding"]}
    both = batch_of(path, "torch", columns=["id", "embedding"])
    mapped = trees.tree_map(lambda part: getattr(part, "shape", None), batch)
    assert type(mapped) is Batch
    assert mapped == {
        "id": (4,),
        "embedding": (4, 1000),
        "image": {"bytes": None, "path": None, "size": {"width": (4,)}},
    }
    keys = [trees.keystr(key) for key, _ in trees.tree_flatten_with_path(both)[0]]
    assert keys == [trees.keystr(key) for key, _ in trees.tree_flatten_with_path(plain)[0]]
    assert default_collate([both, both])["id"].shape == (2, 4)
    assert type(default_convert(both)) is Batch
    assert pin_memory(batch_of(path, "dict", columns=["id"])) == {"id": [0, 1, 2, 3]}
    rows = batch_of(path, "rows", columns=["id"])
    assert trees.tree_map(lambda value: -value, rows) == [{"id": -row} for row in range(4)]
    assert default_collate(rows)["id"].tolist() == [0, 1, 2, 3]
    file = io.BytesIO()
    torch.save(both, file)
    loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=True)
    assert loaded["id"].tolist() == [0, 1, 2, 3]


def test_batches_of_worker_processes_print_like_those_of_the_loader(path: str) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    from shardmill.integrations.torch import BatchDataset, unchanged

    for output in ("torch", "numpy", "rows"):
        loader = sm.Loader(
            path, batch_size=4, output=output, columns=["id", "image"], rank=0, world_size=1
        )
        batches = torch_data.DataLoader(
            BatchDataset(loader), batch_size=None, num_workers=1, collate_fn=unchanged
        )
        assert repr(next(iter(batches))) == repr(next(iter(loader)))


def collate(samples: Any) -> list[int]:
    return [sample["id"] for sample in samples]


@pytest.mark.parametrize("workers", [0, 1])
def test_function_of_samples_works_with_rows_and_else_the_error_says_so(
    path: str, workers: int
) -> None:
    transform = sm.Transform(collate, workers=workers)
    assert batch_of(path, "rows", columns=["id"], transform=transform) == [0, 1, 2, 3]
    for output in ("numpy", "dict"):
        with pytest.raises(TypeError) as raised:
            batch_of(path, output, columns=["id"], transform=transform)
        notes = "\n".join(raised.value.__notes__)
        assert (
            "the function gets a dict of columns; if it takes a list of samples, set output='rows'"
            in notes
        )
        assert "in the transform of batch 0 of epoch 0" in notes
