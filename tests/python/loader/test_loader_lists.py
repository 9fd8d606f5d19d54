"""Lists, strings and structs in the batches of a loader.

The oracles are the rows, and torch's own loader.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from row_files import write_tables

torch = pytest.importorskip("torch")

ROWS = 300
LISTS = [list(range(row % 7)) for row in range(ROWS)]


def table(rows: range = range(ROWS)) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "tokens": pa.array([LISTS[row] for row in rows], pa.list_(pa.int32())),
            "groups": pa.array(
                [[LISTS[row], [row]] for row in rows], pa.list_(pa.list_(pa.int64()))
            ),
            "text": [f"row {row}" for row in rows],
            "raw": [b"\xff%d" % row for row in rows],
            "meta": [{"lang": f"l{row % 3}", "score": row / 2} for row in rows],
            "names": [[f"a{row}"] for row in rows],
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tables(tmp_path, [table(range(170)), table(range(170, ROWS))], row_group_size=40)


def same(own: Any, other: Any) -> bool:
    if isinstance(own, dict):
        return list(own) == list(other) and all(same(own[name], other[name]) for name in own)
    if isinstance(own, torch.Tensor):
        return torch.equal(own, other)
    return own.tolist() == other.tolist()


def test_every_entry_of_a_batch_has_to_len_and_rows(path: Path) -> None:
    for batch in sm.Loader(path, batch_size=64, output=sm.Output(nulls="mask")):
        rows = len(batch["id"])
        moved = {name: column.to("meta") for name, column in batch.items()}
        assert moved["tokens"].values.device.type == moved["meta"]["score"].device.type == "meta"
        assert moved["text"] == batch["text"]
        assert {len(column) for name, column in batch.items() if name != "meta"} == {rows}
        for place, row in enumerate(batch["id"].tolist()):
            assert batch["tokens"][place].tolist() == LISTS[row]
            assert batch["groups"][place].tolist() == [LISTS[row], [row]]
            assert (batch["text"][place], batch["raw"][place]) == (f"row {row}", b"\xff%d" % row)
            assert (batch["meta"]["lang"][place], batch["meta"]["score"][place]) == (
                f"l{row % 3}",
                row / 2,
            )
            assert batch["names"][place] == [f"a{row}"]


@pytest.mark.parametrize("pad", ["longest", 9])
def test_padded_batches_are_the_same_on_other_threads_and_after_a_resume(
    path: Path, pad: Any
) -> None:
    def loader(threads: int) -> sm.Loader:
        output = sm.Output(pad=pad, pad_value={"tokens": -1}, side="left")
        columns = ["id", "tokens", "groups"]
        return sm.Loader(
            path,
            columns=columns,
            batch_size=7,
            shuffle=True,
            seed=3,
            output=output,
            runtime=sm.Runtime(threads=threads),
        )

    whole = list(loader(2))
    assert all(same(own, other) for own, other in zip(whole, loader(0), strict=True))
    begun = loader(1)
    for _, _ in zip(range(5), begun, strict=False):
        pass
    resumed = loader(2)
    resumed.load_state_dict(begun.state_dict())
    assert all(same(own, other) for own, other in zip(whole[5:], resumed, strict=True))
    for batch in whole:
        rows = [LISTS[row] for row in batch["id"].tolist()]
        width = max(map(len, rows)) if pad == "longest" else pad
        assert batch["tokens"].tolist() == [[-1] * (width - len(row)) + row for row in rows]
        assert batch["tokens__length"].tolist() == [len(row) for row in rows]


def test_columns_of_a_resume_within_a_row_group_start_there(path: Path) -> None:
    begun = sm.Loader(path, batch_size=11)
    next(iter(begun))
    resumed = sm.Loader(path, batch_size=13)
    resumed.load_state_dict(begun.state_dict())
    batch = next(iter(resumed))
    assert batch["meta"]["lang"] == [f"l{row % 3}" for row in range(11, 24)]
    assert batch["meta"]["score"].tolist() == [row / 2 for row in range(11, 24)]
    assert batch["text"] == [f"row {row}" for row in range(11, 24)]
    assert batch["groups"].tolist() == [[LISTS[row], [row]] for row in range(11, 24)]


def test_row_that_is_too_long_is_named_after_the_batches_before_it(path: Path) -> None:
    lists = LISTS[170:]
    lists[100] = list(range(12))
    replaced = table(range(170, ROWS)).set_column(
        1, "tokens", pa.array(lists, pa.list_(pa.int32()))
    )
    long = write_tables(path, [table(range(170)), replaced], row_group_size=40)
    loader = sm.Loader(long, columns=["tokens"], batch_size=50, output=sm.Output(pad=6))
    found = []
    with pytest.raises(
        sm.FormatError,
        match=r"`tokens` has 12 values in row 100 of .*001\.parquet`, and `pad` allows 6\nhint",
    ):
        found.extend(loader)
    assert len(found) == 5


def test_padding_and_packing_exclude_each_other(path: Path) -> None:
    with pytest.raises(sm.OptionError, match="pad cannot be used with packing"):
        sm.Loader(path, packing=sm.Packing("tokens", length=8), output=sm.Output(pad=8))


# Lists that are equally long


def embeddings(rows: int, type: pa.DataType) -> pa.Table:
    return pa.table({"x": pa.array(np.arange(rows * 4.0).reshape(rows, 4).tolist(), type)})


@pytest.mark.parametrize(
    "type",
    [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 4)],
    ids=str,
)
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_lists_of_one_length_are_a_matrix_in_every_batch(
    tmp_path: Path, type: pa.DataType, kind: Any
) -> None:
    path = write_tables(tmp_path, [embeddings(50, type), embeddings(31, type)], row_group_size=20)
    for shuffle in (False, True):
        shapes = [
            batch["x"].shape
            for batch in sm.Loader(path, batch_size=16, shuffle=shuffle, output=kind)
        ]
        assert {tuple(shape[1:]) for shape in shapes} == {(4,)}
    first = next(iter(sm.Loader(path, batch_size=3, output=kind)))["x"]
    assert first.tolist() == np.arange(12.0).reshape(3, 4).tolist()
    if not pa.types.is_fixed_size_list(type):
        assert isinstance(
            next(iter(sm.Loader(path, output=sm.Output(kind, lists="ragged"))))["x"], sm.Ragged
        )


@pytest.mark.parametrize(
    "lists",
    [
        [[1, 2], [3]],
        [[1, 2], [3], [4, 5, 6]],
        [[1], [], [2, 3]],
        [[1, 2], None],
        [[], []],
        [[1, 2], [3, None]],
    ],
    ids=str,
)
def test_lists_of_other_lengths_are_ragged_even_where_a_batch_has_one_length(
    tmp_path: Path, lists: Any
) -> None:
    path = write_tables(tmp_path, [pa.table({"x": pa.array(lists, pa.list_(pa.int16()))})])
    output = sm.Output(nulls="mask")
    assert all(
        isinstance(batch["x"], sm.Ragged) for batch in sm.Loader(path, batch_size=1, output=output)
    )


def test_files_of_different_lengths_are_ragged(tmp_path: Path) -> None:
    path = write_tables(tmp_path, [pa.table({"x": [[1, 2]]}), pa.table({"x": [[1, 2, 3]]})])
    assert all(isinstance(batch["x"], sm.Ragged) for batch in sm.Loader(path, batch_size=1))


def test_list_of_another_length_in_the_middle_is_named(tmp_path: Path) -> None:
    lists = [[1, 2]] * 30
    lists[14:16] = [[1], [1, 2, 3]]
    path = write_tables(tmp_path, [pa.table({"x": lists})], row_group_size=10)
    with pytest.raises(
        sm.FormatError,
        match=r'`x` has 1 values in row 14 of .*, and 2 in other rows\nhint: .*lists="ragged"',
    ):
        list(sm.Loader(path))
    assert next(iter(sm.Loader(path, output=sm.Output(lists="ragged"))))["x"].tolist() == lists


# On the way to the trainer


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("own", [False, True])
def test_data_loader_delivers_the_batches_of_the_loader(
    path: Path, workers: int, own: bool
) -> None:
    from shardmill.integrations.torch import BatchDataset, unchanged

    loader = sm.Loader(path, batch_size=64, runtime=sm.Runtime(threads=1))
    options: dict[str, Any] = {"collate_fn": unchanged} if own else {}
    found = list(
        torch.utils.data.DataLoader(
            BatchDataset(loader), batch_size=None, num_workers=workers, **options
        )
    )
    expected = list(loader)
    assert len(found) == 5
    assert all(same(own, other) for own, other in zip(found, expected, strict=True))
    assert {name: type(column) for name, column in found[0].items()} == {
        name: type(column) for name, column in expected[0].items()
    }


def texts(batch: dict[str, Any]) -> dict[str, Any]:
    return {"text": batch["text"][:2], "tokens": batch["tokens"][1:3], "meta": batch["meta"]}


def test_transform_in_workers_gets_and_returns_the_columns(path: Path) -> None:
    batch = next(iter(sm.Loader(path, batch_size=8, transform=sm.Transform(texts, workers=1))))
    assert batch["text"] == ["row 0", "row 1"]
    assert batch["tokens"].tolist() == LISTS[1:3]
    assert batch["meta"]["lang"][4] == "l1"


class Pair(NamedTuple):
    inputs: Any
    labels: Any


@pytest.mark.parametrize(
    "transform",
    [
        lambda batch: (batch["id"], batch["text"], {"all": [batch["tokens"].values]}),
        lambda batch: Pair(batch["id"], [batch["tokens"].values]),
    ],
    ids=["tuple", "named"],
)
def test_device_moves_tensors_in_the_tuples_of_a_transform(path: Path, transform: Any) -> None:
    batch = next(iter(sm.Loader(path, transform=transform, runtime=sm.Runtime(device="meta"))))
    plain = next(iter(sm.Loader(path, transform=transform)))
    assert type(batch) is type(plain) and len(batch) == len(plain)
    assert batch[0].device.type == "meta"
    assert "device='meta'" in repr(batch[-1])


def test_packed_sequence_moves_as_a_whole(path: Path) -> None:
    transform = lambda batch: [torch.nn.utils.rnn.pack_sequence([batch["id"]])]  # noqa: E731
    [packed] = next(iter(sm.Loader(path, transform=transform, runtime=sm.Runtime(device="meta"))))
    assert packed.data.device.type == "meta" and packed.batch_sizes.device.type == "cpu"


def test_device_moves_lists_and_structs(path: Path) -> None:
    batch = next(iter(sm.Loader(path, runtime=sm.Runtime(device="meta"))))
    assert isinstance(batch["meta"], sm.Struct)
    parts = (batch["tokens"].values, batch["groups"].values.offsets, batch["meta"]["score"])
    assert {part.device.type for part in parts} == {"meta"}
    assert batch["text"][0] == "row 0"
