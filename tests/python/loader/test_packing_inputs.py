"""Packing: types, nulls, outputs, what is refused and how, and what `explain` and states say."""

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from flat_options import flat_loader
from row_files import new_directory, write_tables
from shardmill.data._dataset import opened_files
from shardmill.load._loader import iteration_of
from test_packing import all_packs, loader_of, packs_in, write_documents

FIVE = {"length": 5}


def of_column(below: Path, column: pa.Array, **more: Any) -> Path:
    return write_tables(below, [pa.table({"tokens": column, **more})])


@pytest.mark.parametrize("element", [pa.uint16(), pa.int32(), pa.int64(), pa.uint8(), pa.float32()])
@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
def test_tokens_keep_their_type(tmp_path: Path, element: pa.DataType, make: Any) -> None:
    path = of_column(tmp_path, pa.array([[1, 2, 3], [], [4, 5, 6]], make(element)))
    (batch,) = loader_of(path, {"length": 4}, batch_size=8)
    assert batch["tokens"].dtype == element.to_pandas_dtype()
    assert batch["tokens"].tolist() == [[1, 2, 3, 4], [5, 6, 0, 0]]


def test_lists_of_one_size_are_packed(tmp_path: Path) -> None:
    path = of_column(tmp_path, pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.int32(), 3)))
    (batch,) = loader_of(path, {"length": 4}, batch_size=8)
    assert batch["tokens"].tolist() == [[1, 2, 3, 4], [5, 6, 0, 0]]


def test_columns_are_packed_side_by_side(tmp_path: Path) -> None:
    masks = pa.array([[True, False, True], [True, True]], pa.list_(pa.bool_()))
    labels = pa.array([[-1, -2, -3], [-4, -5]], pa.list_(pa.int64()))
    path = of_column(
        tmp_path,
        pa.array([[1, 2, 3], [4, 5]], pa.list_(pa.uint16())),
        labels=labels,
        loss_mask=masks,
    )
    packing = sm.Packing(
        ["tokens", "labels", "loss_mask"], length=4, pad_value={"tokens": 9, "labels": -100}
    )
    (batch,) = loader_of(path, packing, batch_size=8)
    assert batch["tokens"].tolist() == [[1, 2, 3, 4], [5, 9, 9, 9]]
    assert batch["labels"].tolist() == [[-1, -2, -3, -4], [-5, -100, -100, -100]]
    assert batch["loss_mask"].tolist() == [[True, False, True, True], [True, False, False, False]]
    assert batch["segment_ids"].tolist() == [[1, 1, 1, 2], [1, 0, 0, 0]]


@pytest.mark.parametrize("output", ["arrow", "dict", "torch"])
def test_outputs_hold_the_same_packs(tmp_path: Path, output: str) -> None:
    if output == "torch":
        pytest.importorskip("torch")
    path = write_documents(tmp_path, [3, 2, 4, 1])
    arrays = list(loader_of(path, FIVE, batch_size=1))
    others = list(loader_of(path, FIVE, batch_size=1, output=output))
    assert len(arrays) == len(others) == 2
    for array, other in zip(arrays, others, strict=True):
        if output == "arrow":
            assert other.schema.field("tokens").type == pa.list_(
                pa.field("item", pa.int32(), nullable=False), 5
            )
            other = other.to_pydict()
        for name in ("tokens", "segment_ids", "positions"):
            found = other[name] if isinstance(other[name], list) else other[name].tolist()
            assert found == array[name].tolist()
        lengths = other["document_lengths"]
        found = lengths if isinstance(lengths, list) else lengths.tolist()
        assert found == array["document_lengths"].tolist()


def test_null_lists_are_refused_or_empty(tmp_path: Path) -> None:
    path = of_column(tmp_path, pa.array([[1, 2], None, [3]], pa.list_(pa.int32())))
    with pytest.raises(
        sm.FormatError,
        match=r"Column `tokens` is null in row 1 of .*000\.parquet`\nhint: nulls=\"fill\"",
    ):
        len(loader_of(path, FIVE))
    (batch,) = loader_of(path, FIVE, nulls="fill")
    assert batch["tokens"].tolist() == [[1, 2, 3, 0, 0]]
    with pytest.raises(sm.OptionError, match="not 'mask'"):
        loader_of(path, FIVE, nulls="mask")


def test_null_among_tokens_is_refused_with_its_place(tmp_path: Path) -> None:
    path = of_column(
        tmp_path, pa.array([[1, 2], [3, None]], pa.list_(pa.int32())), n=pa.array([2, 2])
    )
    for nulls in ("raise", "fill"):
        with pytest.raises(sm.FormatError, match="null among the tokens of row 1"):
            len(loader_of(path, FIVE, nulls=nulls))
    # With a column of lengths it is seen when the row is read.
    loader = loader_of(path, {**FIVE, "lengths": "n"})
    assert len(loader) == 1
    with pytest.raises(sm.FormatError, match="null among the tokens of row 1"):
        list(loader)
    (batch,) = loader_of(
        path,
        {"length": 2, "lengths": "n"},
        filter=sm.col("n") == 2,
        batch_size=1,
        tail="uneven",
        world_size=2,
        rank=0,
        lanes=2,
    )
    assert batch["tokens"].tolist() == [[1, 2]]


def test_lengths_column_gives_the_same_packs_and_saves_a_pass(tmp_path: Path) -> None:
    lengths = [number * 7 % 40 for number in range(400)]
    path = write_documents(tmp_path, lengths, row_group=50)
    read = {}
    packs = {}
    for stated in (None, "n_tokens"):
        loader = loader_of(
            path, {"length": 32, "strategy": "best_fit", "lengths": stated}, batch_size=4
        )
        before = loader.metrics().bytes_read
        len(loader)
        read[stated] = loader.metrics().bytes_read - before
        packs[stated] = all_packs(list(loader), 32)
    assert packs[None] == packs["n_tokens"]
    assert read["n_tokens"] < read[None] / 2


def test_lengths_that_are_wrong_are_found_at_the_row(tmp_path: Path) -> None:
    tokens = pa.array([[1, 2], [3, 4, 5], [6]], pa.list_(pa.int32()))
    path = of_column(tmp_path, tokens, n=pa.array([2, 2, 1]))
    with pytest.raises(
        sm.FormatError, match=r"Column `tokens` has 3 tokens in row 1 of .*, expected 2"
    ):
        list(loader_of(path, {**FIVE, "lengths": "n"}))
    for bad, said in (([2, None, 1], "null"), ([2, -3, 1], "-3"), ([2, 2**40, 1], str(2**40))):
        path = of_column(tmp_path, tokens, n=pa.array(bad, pa.int64()))
        with pytest.raises(
            sm.FormatError, match=f"Column `n` says that row 1 of .* has {said} tokens"
        ):
            len(loader_of(path, {**FIVE, "lengths": "n"}))
    path = of_column(tmp_path, tokens, n=pa.array([2.0, 3.0, 1.0]))
    with pytest.raises(sm.OptionError, match="lengths are whole numbers"):
        len(loader_of(path, {**FIVE, "lengths": "n"}))


def test_columns_of_unequal_lists_are_refused_at_the_row(tmp_path: Path) -> None:
    tokens = pa.array([[1, 2], [3, 4]], pa.list_(pa.int32()))
    path = of_column(tmp_path, tokens, labels=pa.array([[1, 2], [3]], pa.list_(pa.int32())))
    with pytest.raises(
        sm.FormatError, match=r"Column `labels` has 1 tokens in row 1 of .*, expected 2"
    ):
        list(loader_of(path, sm.Packing(["tokens", "labels"], length=4)))


def test_batches_before_a_bad_row_are_delivered(tmp_path: Path) -> None:
    tokens = pa.array([[row] * 4 for row in range(20)], pa.list_(pa.int32()))
    path = of_column(tmp_path, tokens, n=pa.array([4] * 13 + [3] + [4] * 6))
    found = []
    with pytest.raises(sm.FormatError, match="in row 13 of"):
        for batch in loader_of(path, {"length": 4, "lengths": "n"}, batch_size=1):
            found.extend(batch["tokens"][:, 0].tolist())
    assert found == list(range(13))


@pytest.mark.parametrize("strategy", ["best_fit", "first_fit"])
def test_long_rows_are_treated_as_asked(tmp_path: Path, strategy: str) -> None:
    path = write_documents(tmp_path, [2, 7, 1])
    of = lambda long: {"length": 3, "strategy": strategy, "long": long}  # noqa: E731
    packed = lambda long: all_packs(list(loader_of(path, of(long))), 3)  # noqa: E731
    assert packed("split") == [[[101, 102, 103]], [[104, 105, 106]], [[1, 2], [107]], [[201]]]
    assert packed("truncate") == [[[101, 102, 103]], [[1, 2], [201]]]
    assert packed("drop") == [[[1, 2], [201]]]
    with pytest.raises(
        sm.FormatError,
        match=r"Row 1 of .*000\.parquet` has 7 tokens, but a pack holds 3\nhint: long=",
    ):
        len(loader_of(path, of("raise")))


def test_nothing_gives_no_batch(tmp_path: Path) -> None:
    assert list(loader_of(write_documents(tmp_path, [0, 0, 0]), FIVE)) == []
    path = of_column(tmp_path, pa.array([], pa.list_(pa.int32())))
    loader = loader_of(path, FIVE)
    assert (len(loader), list(loader), loader.epoch) == (0, [], 1)
    with pytest.warns(UserWarning, match="no data files"):
        loader = loader_of(new_directory(tmp_path), FIVE)
    assert list(loader) == []


def test_one_row_may_fill_many_packs(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [90])
    for strategy in ("concat", "best_fit"):
        loader = loader_of(path, {"length": 4, "strategy": strategy}, batch_size=5)
        packs = all_packs(list(loader), 4)
        assert [token for pack in packs for piece in pack for token in piece] == list(range(1, 91))
        assert len(packs) == 23


def test_drop_that_leaves_out_everything_warns(tmp_path: Path) -> None:
    loader = loader_of(write_documents(tmp_path, [3]), FIVE, batch_size=2, tail="drop")
    with pytest.warns(UserWarning, match="drops all 1 packs: a step needs 2"):
        assert list(loader) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "length must be an integer from 1 to"),
        ({"length": True}, "length must be an integer"),
        ({"length": 2.5}, "length must be an integer"),
        ({"length": 2**31}, "length must be an integer"),
        (
            {"length": 4, "strategy": "worst_fit"},
            "strategy must be one of 'concat', 'best_fit', 'first_fit'",
        ),
        ({"length": 4, "open_packs": 8}, "strategy='concat' cuts them"),
        ({"length": 4, "long": "drop"}, "strategy='concat' cuts them"),
        ({"length": 4, "strategy": "best_fit", "open_packs": 0}, "open_packs must be an integer"),
        ({"length": 4, "strategy": "best_fit", "long": "keep"}, "long must be one of"),
        ({"length": 4, "lengths": 3}, "lengths is the name of a column"),
    ],
)
def test_option_that_means_nothing_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.Packing("tokens", **arguments)


@pytest.mark.parametrize("packing", [sm.Packing, sm.TokenBatches])
def test_column_twice_is_refused(packing: Any) -> None:
    with pytest.raises(sm.OptionError, match="column 'tokens' is packed twice"):
        packing(["tokens", "labels", "tokens"], **{"length": 4} if packing is sm.Packing else {})


@pytest.mark.parametrize("columns", [[], (), [3], 7, None])
def test_columns_that_are_no_names_are_refused(columns: Any) -> None:
    with pytest.raises((sm.OptionError, TypeError)):
        sm.Packing(columns, length=4)


def test_loader_refuses_what_cannot_be_packed(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 2])
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        (
            {"packing": sm.Packing("id", length=4)},
            sm.OptionError,
            "`id` is int64; only lists of numbers are packed\nhint: a pack",
        ),
        (
            {"packing": sm.Packing(["tokens", "n_tokens"], length=4)},
            sm.OptionError,
            "`n_tokens` is int32",
        ),
        ({"packing": sm.Packing("words", length=4)}, sm.MissingColumnError, "No column `words`"),
        (
            {"packing": sm.Packing("tokens", length=4, lengths="n")},
            sm.MissingColumnError,
            "No column `n`",
        ),
        (
            {"packing": sm.Packing("tokens", length=4, pad_value=2**40)},
            sm.OptionError,
            "pad value 1099511627776 does not fit",
        ),
        (
            {"packing": sm.Packing("tokens", length=4, pad_value={"n": 1})},
            sm.MissingColumnError,
            "pad_value names column 'n'",
        ),
        ({"packing": {"length": 4}}, sm.OptionError, "packing must be a shardmill.Packing"),
        (
            {"packing": sm.Packing("tokens", length=4), "columns": ["tokens", "id"]},
            sm.OptionError,
            "cannot hold a value per row\nhint: omit columns",
        ),
        (
            {
                "packing": sm.Packing("tokens", length=4),
                "nulls": "fill",
                "fill_values": {"tokens": 1},
            },
            sm.OptionError,
            "pad_value",
        ),
    ]
    for options, error, message in cases:
        with pytest.raises(error, match=message):
            flat_loader(path, output="numpy", **options)
    taken = of_column(
        tmp_path,
        pa.array([[1]], pa.list_(pa.int32())),
        positions=pa.array([[1]], pa.list_(pa.int32())),
    )
    with pytest.raises(sm.OptionError, match="`positions` cannot be packed"):
        loader_of(taken, sm.Packing(["tokens", "positions"], length=4))


def test_state_of_another_packing_is_refused_by_name(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 2, 8, 4])
    packing = {"length": 5, "strategy": "best_fit"}
    loader = loader_of(path, packing, batch_size=1)
    next(iter(loader))
    state = loader.state_dict()
    assert state["packing"] | {"lengths_digest": ""} == {
        "version": 1,
        "column": "tokens",
        "length": 5,
        "strategy": "best_fit",
        "open_packs": 64,
        "long": "split",
        "lengths_digest": "",
    }
    others: list[tuple[dict[str, Any], str]] = [
        ({"length": 6, "strategy": "best_fit"}, "packing length=5, this loader has length=6"),
        (
            {"length": 5, "strategy": "first_fit"},
            "packing strategy='best_fit', this loader has strategy='first_fit'",
        ),
        ({"length": 5}, "strategy='best_fit', this loader has strategy='concat'"),
        ({**packing, "open_packs": 2}, "open_packs=64, this loader has open_packs=2"),
        ({**packing, "long": "drop"}, "long='split', this loader has long='drop'"),
    ]
    for other, message in others:
        with pytest.raises(sm.CheckpointMismatchError, match=message):
            loader_of(path, other).load_state_dict(state)
    with pytest.raises(
        sm.CheckpointMismatchError, match="packing column='tokens', this loader has column='labels'"
    ):
        loader_of(path, sm.Packing("labels", **packing)).load_state_dict(state)
    plain = sm.Loader(path, output="numpy")
    with pytest.raises(sm.CheckpointMismatchError, match="this loader has packing=None"):
        plain.load_state_dict(state)
    with pytest.raises(sm.CheckpointMismatchError, match="saved with packing=None"):
        loader.load_state_dict(plain.state_dict())
    with pytest.raises(sm.CheckpointMismatchError, match="lengths_digest"):
        loader.load_state_dict(
            {**state, "packing": {**state["packing"], "lengths_digest": "0" * 32}}
        )
    with pytest.raises(
        sm.CheckpointMismatchError, match="packing version=2, this loader has version=1"
    ):
        loader.load_state_dict({**state, "packing": {**state["packing"], "version": 2}})
    with pytest.raises(sm.CheckpointMismatchError, match="damaged: place 99 of"):
        loader.load_state_dict({**state, "consumed": 99})
    with pytest.raises(sm.CheckpointMismatchError, match="damaged: packing is 3"):
        loader.load_state_dict({**state, "packing": 3})
    loader.load_state_dict(state)
    # Labels beside the tokens, a column of lengths and pad values change nothing about
    # what stands together.
    more = sm.Packing(["tokens", "labels"], lengths="n_tokens", pad_value=7, **packing)
    loader_of(path, more).load_state_dict(state)


def test_lengths_of_other_rows_are_refused(tmp_path: Path) -> None:
    """The files are the same, and the columns that say how long rows are differ."""
    tokens = pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.int32()))
    path = of_column(tmp_path, tokens, n=pa.array([3, 3]), wrong=pa.array([3, 2]))
    state = loader_of(path, {**FIVE, "lengths": "n"}).state_dict()
    with pytest.raises(sm.CheckpointMismatchError, match="the lengths of rows have changed"):
        loader_of(path, {**FIVE, "lengths": "wrong"}).load_state_dict(state)


def test_explain_tells_the_pieces_of_a_batch_and_how_full_packs_are(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 4, 2, 6], files=1)
    loader = loader_of(path, FIVE, batch_size=2)
    first, second = loader.explain(), loader.explain(step=1)
    name = "000.parquet"
    assert first["packs"] == [
        [(name, 0, 0, 3), (name, 1, 0, 2)],
        [(name, 1, 2, 2), (name, 2, 0, 2), (name, 3, 0, 1)],
    ]
    assert first["rows"] == [(name, 0, 4)]
    assert second["packs"] == [[(name, 3, 1, 5)]]
    assert (first["places"], second["places"]) == ((0, 2), (2, 3))
    assert (
        first["packs_of_epoch"],
        first["tokens_of_epoch"],
        first["rows_of_epoch"],
        first["steps"],
    ) == (3, 15, 4, 2)
    assert first["fill_rate"] == 1.0
    assert loader.explain(step=2)["packs"] is None
    # As on another topology.
    assert loader.explain(rank=1, world_size=2, batch_size=1)["packs"] == first["packs"][1:]
    lossy = loader_of(path, {"length": 3, "strategy": "best_fit", "long": "drop"}).explain()
    assert (lossy["dropped_rows"], lossy["dropped_tokens"], lossy["truncated_tokens"]) == (2, 10, 0)
    cut = loader_of(path, {"length": 3, "strategy": "best_fit", "long": "truncate"}).explain()
    assert (cut["dropped_rows"], cut["dropped_tokens"], cut["truncated_tokens"]) == (0, 0, 4)
    assert cut["fill_rate"] == 11 / 12


def test_explained_pieces_are_what_is_delivered(tmp_path: Path) -> None:
    lengths = [number * 7 % 23 for number in range(60)]
    path = write_documents(tmp_path, lengths, files=1)
    for packing in ({"length": 16}, {"length": 16, "strategy": "best_fit", "open_packs": 3}):
        loader = loader_of(
            path, packing, batch_size=3, shuffle=True, shuffle_window_bytes=500, lanes=2
        )
        for step, batch in enumerate(list(loader)):
            explained = loader.explain(step=step, epoch=0)["packs"]
            wanted = [
                [
                    list(range(row * 100 + first + 1, row * 100 + first + count + 1))
                    for _, row, first, count in pack
                ]
                for pack in explained
            ]
            assert packs_in(batch, 16) == wanted


def test_cumulative_lengths_cut_the_flattened_batch_into_documents(tmp_path: Path) -> None:
    lengths = [number * 7 % 23 for number in range(60)]
    path = write_documents(tmp_path, lengths)
    for options in ({}, {"strategy": "best_fit"}):
        packing = sm.Packing("tokens", length=16, **options)
        for batch in loader_of(path, packing, batch_size=3):
            bounds = packing.cu_seqlens(batch)
            assert bounds.dtype == np.int32
            assert (bounds[0], bounds[-1]) == (0, batch["tokens"].size)
            flat, segments = batch["tokens"].ravel(), batch["segment_ids"].ravel()
            parts = [
                flat[start:stop].tolist()
                for start, stop in zip(bounds, bounds[1:], strict=False)
                if segments[start]
            ]
            assert parts == [piece for pack in packs_in(batch, 16) for piece in pack]


def test_packed_loader_can_be_pickled(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 2, 8, 4])
    loader = loader_of(path, FIVE, batch_size=1)
    batches = iter(loader)
    next(batches)
    copy = pickle.loads(pickle.dumps(loader))
    copy.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert all_packs(list(copy), 5) == all_packs(list(batches), 5)


def test_blocks_are_decoded_once_in_an_epoch(tmp_path: Path) -> None:
    """Also if open packs hold rows of blocks that other packs have finished."""
    path = write_documents(
        tmp_path, [number * 37 % 200 for number in range(3000)], files=3, row_group=100
    )
    for shuffle in (False, True):
        for packing in ({"length": 256}, {"length": 256, "strategy": "best_fit", "open_packs": 8}):
            loader = loader_of(
                path, packing, batch_size=4, shuffle=shuffle, shuffle_window_bytes=20_000, threads=2
            )
            plain = sm.Loader(
                path,
                columns=["tokens"],
                output="numpy",
                batch_size=4,
                shuffle=sm.Shuffle(20_000) if shuffle else False,
            )
            list(loader)
            list(plain)
            assert loader.metrics().blocks_decoded == plain.metrics().blocks_decoded


def test_large_batches_of_other_formats_are_packed(tmp_path: Path) -> None:
    path = new_directory(tmp_path)
    (path / "documents.jsonl").write_text(
        "".join(json.dumps({"tokens": [row] * (row % 7)}) + "\n" for row in range(500))
    )
    packs = all_packs(list(loader_of(path, {"length": 32}, batch_size=16)), 32)
    assert [piece[0] for pack in packs for piece in pack].count(6) == 1
    assert sum(len(piece) for pack in packs for piece in pack) == sum(row % 7 for row in range(500))


def test_same_file_with_other_row_groups_gives_the_same_packs(tmp_path: Path) -> None:
    table = pa.table({"tokens": [[row] * (row % 9) for row in range(300)]})
    found = []
    for size in (7, 300):
        path = new_directory(tmp_path)
        pq.write_table(table, path / "0.parquet", row_group_size=size)
        found.append(all_packs(list(loader_of(path, {"length": 16}, batch_size=3, lanes=3)), 16))
    assert found[0] == found[1]


def test_loaders_of_one_dataset_look_for_lengths_once(tmp_path: Path) -> None:
    dataset = sm.Dataset(write_documents(tmp_path, [number % 30 for number in range(300)]))
    assert len(loader_of(dataset, FIVE)) > 0
    read = opened_files(dataset).native.bytes_read
    assert len(loader_of(dataset, {"length": 9, "strategy": "best_fit"}, shuffle=True, lanes=3)) > 0
    assert opened_files(dataset).native.bytes_read == read


@pytest.mark.parametrize("stride", [2, 3])
def test_workers_that_share_the_batches_of_a_rank_get_all_packs(
    tmp_path: Path, stride: int
) -> None:
    path = write_documents(tmp_path, [number * 7 % 23 for number in range(50)])
    loader = loader_of(path, {"length": 16, "strategy": "best_fit"}, batch_size=2, shuffle=True)
    whole = [packs_in(batch, 16) for batch in loader]
    parts = [
        [
            packs_in(batch, 16)
            for batch in iteration_of(loader).every(stride, first=first, epoch=0, consumed=0)
        ]
        for first in range(stride)
    ]
    assert [parts[number % stride][number // stride] for number in range(len(whole))] == whole


def test_cumulative_lengths_of_tensors_are_a_tensor(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    packing = sm.Packing("tokens", length=5)
    (batch,) = loader_of(
        write_documents(tmp_path, [3, 2, 4]), packing, batch_size=2, output="torch"
    )
    bounds = packing.cu_seqlens(batch)
    assert bounds.dtype == torch.int32
    assert bounds.tolist() == [0, 3, 5, 9, 10]


def test_packing_shows_what_was_asked_for() -> None:
    packing = sm.Packing(["tokens", "labels"], length=8, strategy="best_fit")
    assert (packing.columns, packing.open_packs, packing.long) == (
        ("tokens", "labels"),
        64,
        "split",
    )
    assert packing == sm.Packing(["tokens", "labels"], length=8, strategy="best_fit", open_packs=64)
    with pytest.raises(AttributeError):
        packing.length = 9  # type: ignore[misc]


def test_states_are_taken_quickly_and_stay_small(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [5] * 500, files=90)
    packing = sm.Packing(["tokens", "labels"], length=64, strategy="best_fit", lengths="n_tokens")
    loader = loader_of(path, packing, shuffle=True, lanes=64, filter=sm.col("n_tokens") > 0)
    assert len(json.dumps(loader.state_dict())) < 4096


@pytest.mark.parametrize(
    ("packing", "count", "digest"),
    [
        ({"strategy": "concat"}, 187, "d76142bf1527f35c"),
        ({"strategy": "best_fit", "open_packs": 4}, 203, "8673fa8c6c939000"),
        ({"strategy": "first_fit", "open_packs": 4, "long": "truncate"}, 159, "7f90b93f8a8667d7"),
    ],
)
def test_packs_of_version_one_stay_what_they_are(
    tmp_path: Path, packing: dict[str, Any], count: int, digest: str
) -> None:
    """States count packs: what they hold may never change under one `PACKING_VERSION`.

    The digests are those of the model.
    """
    path = write_documents(tmp_path, [number * number * 7 % 61 for number in range(200)])
    packs = all_packs(list(loader_of(path, {"length": 32, **packing}, batch_size=2, lanes=2)), 32)
    assert len(packs) == count
    assert hashlib.sha256(json.dumps(packs).encode()).hexdigest()[:16] == digest
