"""Rows that cannot be tokenized, and counts that say that a row has no tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import END, TEMPLATE, write_tokenizer

pytestmark = pytest.mark.usefixtures("counts_below")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> sm.Tokenizer:
    return write_tokenizer(tmp_path_factory.mktemp("tokenizer"), template=TEMPLATE)


def ids_of(loader: sm.Loader) -> list[int]:
    return [number for batch in loader for number in batch["id"].tolist()]


@pytest.mark.parametrize("every", [2, 7, 100])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_null_of_a_large_block_is_skipped_and_no_other_row(
    tmp_path: Path, tokenizer: sm.Tokenizer, every: int, shuffle: bool
) -> None:
    rows = 3000
    texts = [None if row % every == 0 else f"row {row}" for row in range(rows)]
    pq.write_table(pa.table({"id": range(rows), "text": texts}), tmp_path / "x.parquet")
    data = sm.Dataset(tmp_path / "x.parquet", tokenize=sm.Tokenize("text", tokenizer=tokenizer))
    loader = sm.Loader(data, shuffle=shuffle, errors=sm.ErrorPolicy(rows="skip"), output="numpy")
    assert sorted(ids_of(loader)) == [row for row in range(rows) if row % every]
    assert sorted(bad.row for bad in loader.bad_rows) == list(range(0, rows, every))
    assert all(
        f"Row {bad.row} of" in bad.cause and "is null" in bad.cause for bad in loader.bad_rows
    )


def test_null_rows_are_replaced_by_good_ones(tmp_path: Path, tokenizer: sm.Tokenizer) -> None:
    texts = [None if row % 10 == 0 else f"row {row}" for row in range(400)]
    pq.write_table(pa.table({"id": range(400), "text": texts}), tmp_path / "x.parquet")
    data = sm.Dataset(tmp_path / "x.parquet", tokenize=sm.Tokenize("text", tokenizer=tokenizer))
    ids = ids_of(sm.Loader(data, errors=sm.ErrorPolicy(rows="replace"), output="numpy"))
    assert len(ids) == 400
    assert set(ids) == {row for row in range(400) if row % 10}
    with pytest.raises(sm.BadRowLimitError, match="40"):
        list(sm.Loader(data, errors=sm.ErrorPolicy(rows="skip", max_rows=39), output="numpy"))


def test_rows_without_labels_are_skipped_and_no_other_row(
    tmp_path: Path, tokenizer: sm.Tokenizer
) -> None:
    def chat(row: int) -> list[dict[str, str]]:
        role = "user" if row % 5 == 0 else "assistant"
        return [{"role": role, "content": f"turn {row}"}]

    pq.write_table(
        pa.table({"id": range(300), "messages": [chat(row) for row in range(300)]}),
        tmp_path / "x.parquet",
    )
    tokenize = sm.Tokenize(
        messages="messages",
        tokenizer=tokenizer,
        labels=sm.Labels("assistant", on_unlabelled="raise"),
    )
    loader = sm.Loader(
        sm.Dataset(tmp_path / "x.parquet", columns=["id", "tokens", "labels"], tokenize=tokenize),
        errors=sm.ErrorPolicy(rows="skip"),
        output="numpy",
    )
    assert ids_of(loader) == [row for row in range(300) if row % 5]


def test_rows_of_a_function_with_nulls_are_skipped_and_no_other_row(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": range(200), "text": [str(row) for row in range(200)]}),
        tmp_path / "x.parquet",
    )

    def function(batch: Any) -> dict[str, Any]:
        return {
            "tokens": [None if int(text.as_py()) % 4 == 0 else [1, 2] for text in batch["text"]]
        }

    tokenize = sm.Tokenize("text", function=sm.TokenFunction(function, version="1"))
    loader = sm.Loader(
        sm.Dataset(tmp_path / "x.parquet", tokenize=tokenize),
        errors=sm.ErrorPolicy(rows="skip"),
        output="numpy",
    )
    assert ids_of(loader) == [row for row in range(200) if row % 4]


def test_interrupt_during_a_function_is_raised_and_skips_no_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "x.parquet")

    def function(batch: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    tokenize = sm.Tokenize("text", function=sm.TokenFunction(function, version="1"))
    loader = sm.Loader(
        sm.Dataset(tmp_path / "x.parquet", tokenize=tokenize),
        errors=sm.ErrorPolicy(rows="skip"),
        output="numpy",
        runtime=sm.Runtime(threads=0),
    )
    with pytest.raises(KeyboardInterrupt):
        list(loader)


@pytest.mark.parametrize("emptied", ["row", "block"])
@pytest.mark.parametrize(
    "options", [{}, {"strategy": "best_fit"}, {"plan": "ahead", "epoch_packs": 20}]
)
def test_count_of_zero_for_a_row_with_tokens_loses_none(
    tmp_path: Path, tokenizer: sm.Tokenizer, emptied: str, options: dict[str, Any]
) -> None:
    texts = [f"row {row}" for row in range(100)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "x.parquet", row_group_size=10)

    def tokens() -> np.ndarray:
        tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=END, counts=tmp_path / "counts")
        data = sm.Dataset(tmp_path / "x.parquet", tokenize=tokenize)
        packing = sm.Packing("tokens", length=64, **options)
        return np.concatenate(
            [batch["tokens"].ravel() for batch in sm.Loader(data, packing=packing, output="numpy")]
        )

    before = tokens()
    [store] = (tmp_path / "counts").glob("*/counts-*.parquet")
    table = pq.read_table(store)
    rows = table.to_pylist()
    emptied_rows = range(len(rows[3]["counts"])) if emptied == "block" else [4]
    for row in emptied_rows:
        rows[3]["counts"][row] = 0
    rows[3]["tokens"] = sum(rows[3]["counts"])
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), store)
    if emptied == "block":
        # It is counted again.
        assert np.array_equal(tokens(), before)
    else:
        with pytest.raises(sm.FormatError, match=r"tokens in row \d+ of .* say 0"):
            tokens()


@pytest.mark.parametrize("options", [{}, {"plan": "ahead", "epoch_packs": 20}])
def test_wrong_column_of_lengths_is_not_blamed_on_counts(
    tmp_path: Path, tokenizer: sm.Tokenizer, options: dict[str, Any]
) -> None:
    pq.write_table(pa.table({"text": ["ab", "abc"], "length": [2, 4]}), tmp_path / "x.parquet")
    tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=END, counts=tmp_path / "counts")
    data = sm.Dataset(tmp_path / "x.parquet", columns=["tokens"], tokenize=tokenize)
    packing = sm.Packing("tokens", length=8, lengths="length", **options)
    with pytest.raises(sm.FormatError, match="expected 2") as caught:
        list(sm.Loader(data, packing=packing, output="numpy"))
    assert "counts" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("eos", 5),
        ("bos", "x"),
        ("nulls", "fill"),
        ("invalid", "replace"),
        ("max_document_bytes", 10),
    ],
)
def test_option_that_a_function_does_not_use_is_refused(option: str, value: Any) -> None:
    function = sm.TokenFunction(lambda batch: {"tokens": [[1]] * batch.num_rows}, version="1")
    options = {option: value}
    if option not in ("bos", "eos"):
        options = {"text_policy": sm.TextPolicy(**options)}
    with pytest.raises(
        sm.OptionError,
        match=rf"{option} is for text( and messages)? and completion, and the source is function",
    ):
        sm.Tokenize("text", function=function, **options)


@pytest.mark.parametrize("role", ["bos", "eos"])
def test_token_with_the_id_0_is_not_for_messages_either(tokenizer: sm.Tokenizer, role: str) -> None:
    with pytest.raises(sm.OptionError, match=f"{role} is for text and completion"):
        sm.Tokenize(
            messages="messages",
            tokenizer=tokenizer,
            **{role: 0},  # pyright: ignore[reportArgumentType]
        )


@pytest.mark.parametrize("value", [True, 10**6])
def test_token_that_is_not_known_is_refused_with_the_special_tokens(
    tokenizer: sm.Tokenizer, value: Any
) -> None:
    with pytest.raises(
        sm.OptionError, match=r"the special tokens are '<\|end\|>' \(256\), '<\|start\|>' \(257\)"
    ):
        sm.Tokenize("text", tokenizer=tokenizer, bos=value)


def test_repr_shows_what_differs_from_the_defaults_and_tokens_by_their_text(
    tokenizer: sm.Tokenizer,
) -> None:
    policy = sm.TextPolicy(nulls="fill")
    shown = repr(sm.Tokenize("text", tokenizer=tokenizer, bos=257, eos=True, text_policy=policy))
    tokens = "bos='<|start|>', eos='<|end|>'"
    assert shown == f"Tokenize('text', tokenizer={tokenizer!r}, {tokens}, text_policy={policy!r})"
    assert (
        repr(sm.Tokenize("text", tokenizer=tokenizer))
        == f"Tokenize('text', tokenizer={tokenizer!r})"
    )


def test_empty_directory_of_counts_is_refused(tokenizer: sm.Tokenizer) -> None:
    with pytest.raises(sm.OptionError, match="counts"):
        sm.Tokenize("text", tokenizer=tokenizer, counts="")
