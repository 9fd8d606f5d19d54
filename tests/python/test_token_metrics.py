"""What a loader counts while it tokenizes, against counts made in Python. Each byte is a token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import END, START, TEMPLATE, write_tokenizer

pytestmark = pytest.mark.usefixtures("counts_below")

NAMES = ("tokens", "text_bytes", "rows_without_labels", "special_in_text")


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    """Rows in several blocks and files; some spell special tokens."""
    rows = [
        ("é" if row % 4 else "a ") * (row % 9) + END * (row % 5 == 0) + START * (row % 35 == 0)
        for row in range(90)
    ]
    (tmp_path / "texts").mkdir()
    for part in range(3):
        table = pa.table({"text": rows[part * 30 : (part + 1) * 30]})
        pq.write_table(table, tmp_path / "texts" / f"{part}.parquet", row_group_size=7)
    return rows


def counted(data: sm.Dataset | sm.Mixture, **options: Any) -> tuple[int, ...]:
    """The counters after one epoch."""
    loader = sm.Loader(data, **{"batch_size": 8, "output": "arrow", **options})
    assert [getattr(loader.metrics(), name) for name in NAMES] == [0] * 4
    for _ in loader:
        pass
    metrics = loader.metrics()
    assert 0 <= metrics.stages.tokenize <= metrics.elapsed_seconds * 4
    return tuple(getattr(metrics, name) for name in NAMES)


def expected(texts: list[str]) -> tuple[int, ...]:
    size = sum(len(text.encode()) for text in texts)
    return size, size, 0, sum(text.count(END) + text.count(START) for text in texts)


@pytest.mark.parametrize(
    "options",
    [{"threads": 1}, {"threads": 3, "shuffle": True}, {"packing": "epoch"}, {"packing": "ahead"}],
)
def test_rows_that_are_decoded_are_counted(
    tmp_path: Path, texts: list[str], options: dict[str, Any]
) -> None:
    data = sm.Dataset(
        tmp_path / "texts",
        tokenize=sm.Tokenize("text", tokenizer=write_tokenizer(tmp_path / "model")),
    )
    tokens, size, unlabelled, special = expected(texts)
    options = {"runtime": sm.Runtime(threads=options.pop("threads", 2)), **options}
    if plan := options.pop("packing", None):
        ahead = {"plan": "ahead", "epoch_tokens": tokens} if plan == "ahead" else {}
        options |= {
            "packing": sm.Packing("tokens", length=tokens if ahead else 16, **ahead),
            "output": "numpy",
        }
    assert counted(data, **options) == (tokens, size, unlabelled, special), "each text counts once"


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("threads", [0, 2])
def test_text_of_a_shuffle_window_that_ends_is_not_tokenized_again(
    tmp_path: Path, lanes: int, threads: int
) -> None:
    texts = ["word " * 12 + "last"] * 120
    (tmp_path / "texts").mkdir()
    pq.write_table(pa.table({"text": texts}), tmp_path / "texts" / "0.parquet", row_group_size=4)
    tokenize = sm.Tokenize(
        "text", tokenizer=write_tokenizer(tmp_path / "model"), counts=str(tmp_path / "counts")
    )
    data = sm.Dataset(tmp_path / "texts", tokenize=tokenize)
    tokens = sum(len(text) for text in texts)
    packing = sm.Packing("tokens", length=tokens // 120, plan="ahead", epoch_tokens=tokens)
    options = {
        "packing": packing,
        "shuffle": sm.Shuffle(window_bytes=1500),
        "lanes": lanes,
        "output": "numpy",
    }
    assert counted(data, runtime=sm.Runtime(threads=threads), **options)[0] == tokens


def test_special_tokens_count_whatever_becomes_of_them(tmp_path: Path, texts: list[str]) -> None:
    model = write_tokenizer(tmp_path / "model")

    def with_ids(special: str) -> tuple[int, ...]:
        tokenize = sm.Tokenize(
            "text", tokenizer=model, text_policy=sm.TextPolicy(special_in_text=special), eos=True
        )
        return counted(sm.Dataset(tmp_path / "texts", tokenize=tokenize))

    _, size, _, special = expected(texts)
    ends = sum(bool(text) for text in texts)
    shorter = sum(text.count(token) * (len(token) - 1) for text in texts for token in (END, START))
    assert with_ids("text") == (size + ends, size, 0, special)
    assert with_ids("id") == (size + ends - shorter, size, 0, special)


def test_rows_without_labels_are_those_with_tokens_and_no_label(tmp_path: Path) -> None:
    chats = [[], [{"role": "user", "content": "a"}], [{"role": "assistant", "content": "b"}]] * 4
    kind = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
    pq.write_table(
        pa.table({"messages": pa.array(chats, kind)}), tmp_path / "chats.parquet", row_group_size=5
    )
    model = write_tokenizer(tmp_path / "model", template=TEMPLATE)
    data = sm.Dataset(
        tmp_path / "chats.parquet",
        tokenize=sm.Tokenize(messages="messages", tokenizer=model, labels="assistant"),
    )
    rendered = [f"{START}{chat[0]['role']}\n{chat[0]['content']}{END}\n" for chat in chats if chat]
    size = sum(map(len, rendered))
    special = 2 * len(rendered)
    assert counted(data) == (size - special * len(END) + special - 4 * 2 * 2, size, 4, special)
    prompts = pa.table({"prompt": ["a", "b", ""], "completion": ["", "c", ""]})
    pq.write_table(prompts, tmp_path / "prompts.parquet")
    tokenize = sm.Tokenize(
        prompt="prompt", completion="completion", tokenizer=model, labels="completion"
    )
    assert counted(sm.Dataset(tmp_path / "prompts.parquet", tokenize=tokenize)) == (3, 3, 1, 0)
    pq.write_table(pa.table({"text": ["a", "bc", ""]}), tmp_path / "short.parquet")
    tokenize = sm.Tokenize("text", tokenizer=model, labels="all")
    assert counted(sm.Dataset(tmp_path / "short.parquet", tokenize=tokenize)) == (3, 3, 1, 0), (
        "the first has no label"
    )


def ids_of(batch: pa.RecordBatch) -> dict[str, list[list[int]]]:
    return {"tokens": [[1] * len(text) for text in batch.column("text").to_pylist()]}


def test_tokens_of_a_function_and_of_a_mixture_are_counted(
    tmp_path: Path, texts: list[str]
) -> None:
    function = sm.Dataset(
        tmp_path / "texts",
        tokenize=sm.Tokenize("text", function=sm.TokenFunction(ids_of, version="1")),
    )
    of_function = sum(map(len, texts)), 0, 0, 0
    assert counted(function, columns=["tokens"]) == of_function
    model = write_tokenizer(tmp_path / "model")
    text = sm.Dataset(tmp_path / "texts", tokenize=sm.Tokenize("text", tokenizer=model))
    other = sm.Dataset(
        tmp_path / "texts",
        columns=["tokens"],
        tokenize=sm.Tokenize("text", tokenizer=model, eos=True),
    )
    mixture = sm.Mixture({"a": text, "b": other}, repeat={"a": 1, "b": 1})
    tokens, size, _, special = expected(texts)
    ends = sum(bool(row) for row in texts)
    assert counted(mixture, columns=["tokens"]) == (2 * tokens + ends, 2 * size, 0, 2 * special)


def test_data_without_tokenize_counts_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": [[1, 2], [3]]}), tmp_path / "tokens.parquet")
    assert counted(sm.Dataset(tmp_path / "tokens.parquet")) == (0, 0, 0, 0)
