"""Where token counts may be kept, and stored counts that are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import END, write_tokenizer

pytestmark = pytest.mark.usefixtures("counts_below")

TEXTS = [f"document {number}" for number in range(12)]


@pytest.fixture
def tokenizer(tmp_path: Path) -> sm.Tokenizer:
    return write_tokenizer(tmp_path / "tokenizer")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "data" / "0.parquet")
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("path", "counts", "is_refused"),
    [
        ("data", "data/counts", True),
        ("data", "data", True),
        ("data", "data/part/../counts", True),
        ("data/*", "data/counts", True),
        ("data/**/*.parquet", "data/counts", True),
        ("data", "data/_counts", False),
        ("data", "data/.cache/counts", False),
        ("data/*.parquet", "data/counts", False),
        ("data/0.parquet", "data/counts", False),
        ("data", "data-counts", False),
    ],
)
def test_counts_are_refused_where_they_would_become_data(
    tmp_path: Path, data: Path, tokenizer: sm.Tokenizer, path: str, counts: str, is_refused: bool
) -> None:
    tokenize = sm.Tokenize("text", tokenizer=tokenizer, counts=tmp_path / counts)
    if is_refused:
        with pytest.raises(
            sm.OptionError, match=r"(?s)be read as data.*data/_counts', which is skipped"
        ):
            sm.Dataset(tmp_path / path, tokenize=tokenize)
        return
    found = sm.Dataset(tmp_path / path, tokenize=tokenize).token_counts()
    assert found.total == sum(map(len, TEXTS))
    assert list((tmp_path / counts).rglob("counts-*.parquet"))
    assert sm.Dataset(tmp_path / path).num_rows == len(TEXTS)


def change_stored(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the rows of the only file of counts."""
    (kept,) = directory.rglob("counts-*.parquet")
    table = pq.read_table(kept)
    rows = table.to_pylist()
    for row in rows:
        change(row)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), kept)


def with_longer_row(entry: dict[str, Any]) -> None:
    entry["counts"][3] += 1


def with_larger_total(entry: dict[str, Any]) -> None:
    entry["tokens"] += 1


def with_more_than_a_block_holds(entry: dict[str, Any]) -> None:
    entry["counts"] = [2**31 - 1 for _ in entry["counts"]]
    entry["tokens"] = sum(entry["counts"])


@pytest.mark.parametrize(
    "change", [with_longer_row, with_larger_total, with_more_than_a_block_holds]
)
@pytest.mark.parametrize("plan", [{}, {"plan": "ahead", "epoch_packs": 12}])
def test_counts_that_contradict_their_sum_are_counted_again(
    data: Path,
    tokenizer: sm.Tokenizer,
    change: Callable[[dict[str, Any]], None],
    plan: dict[str, Any],
    tmp_path: Path,
) -> None:
    def packs() -> list[list[list[int]]]:
        tokenize = sm.Tokenize("text", tokenizer=tokenizer, eos=True, counts=tmp_path / "counts")
        packing = sm.Packing("tokens", length=16, **plan)
        loader = sm.Loader(
            sm.Dataset(data, tokenize=tokenize), packing=packing, batch_size=4, output="numpy"
        )
        return [batch["tokens"].tolist() for batch in loader]

    expected = packs()
    change_stored(tmp_path / "counts", change)
    with pytest.warns(UserWarning, match="of block 0 in .* are ignored: .* their sum is not"):
        assert packs() == expected


@pytest.mark.parametrize("plan", [{}, {"plan": "ahead", "epoch_packs": 24}])
def test_wrong_count_of_a_mixture_names_the_counts_of_its_source(
    tmp_path: Path, data: Path, tokenizer: sm.Tokenizer, plan: dict[str, Any]
) -> None:
    pq.write_table(
        pa.table({"text": [f"other {number}" for number in range(12)]}), tmp_path / "other.parquet"
    )

    def loader() -> sm.Loader:
        first = sm.Dataset(
            data, tokenize=sm.Tokenize("text", tokenizer=tokenizer, eos=True, counts=tmp_path / "a")
        )
        tokenize = sm.Tokenize("text", tokenizer=tokenizer, bos=END, counts=tmp_path / "b")
        mixture = sm.Mixture(
            {"first": first, "second": sm.Dataset(tmp_path / "other.parquet", tokenize=tokenize)}
        )
        return sm.Loader(
            mixture, packing=sm.Packing("tokens", length=16, **plan), batch_size=4, output="numpy"
        )

    assert list(loader())

    def change(entry: dict[str, Any]) -> None:
        entry["counts"][3] += 1
        entry["tokens"] += 1

    change_stored(tmp_path / "b", change)
    with pytest.raises(
        sm.FormatError, match=rf"in row 3 of .*other.parquet`, but the counts in `{tmp_path}/b/"
    ):
        list(loader())


@pytest.fixture
def labelled(data: Path, tokenizer: sm.Tokenizer) -> sm.Dataset:
    return sm.Dataset(
        data, tokenize=sm.Tokenize("text", tokenizer=tokenizer, eos=True, labels="all")
    )


def packed(labelled: sm.Dataset, other: Path, **options: Any) -> sm.Loader:
    mixture = sm.Mixture({"texts": labelled, "stored": sm.Dataset(other)})
    packing = sm.Packing(["tokens", "labels"], length=16)
    return sm.Loader(mixture, packing=packing, batch_size=4, **options)


def test_stored_labels_that_are_shorter_than_their_tokens_are_not_blamed_on_counts(
    tmp_path: Path, labelled: sm.Dataset
) -> None:
    types = {"tokens": pa.list_(pa.int32()), "labels": pa.list_(pa.int64())}
    columns = {"tokens": [[1, 2, 3]] * 5, "labels": [[1, 2]] * 5}
    pq.write_table(
        pa.table(columns, schema=pa.schema(list(types.items()))), tmp_path / "stored.parquet"
    )
    with pytest.raises(
        sm.FormatError,
        match=r"`labels` has 2 tokens .*stored.parquet`, expected 3\n.*of equal length",
    ):
        list(packed(labelled, tmp_path / "stored.parquet", output="numpy"))


@pytest.mark.parametrize("nulls", ["raise", "fill"])
def test_source_without_a_packed_column_is_refused_by_its_name(
    tmp_path: Path, labelled: sm.Dataset, nulls: Any
) -> None:
    pq.write_table(
        pa.table({"tokens": pa.array([[1, 2]] * 5, pa.list_(pa.int32()))}),
        tmp_path / "stored.parquet",
    )
    with pytest.raises(sm.MissingColumnError, match="source 'stored' has no column 'labels'"):
        packed(labelled, tmp_path / "stored.parquet", output=sm.Output("numpy", nulls=nulls))


def test_counts_of_numbers_that_are_read_with_another_type_are_counted_again(
    tmp_path: Path, tokenizer: sm.Tokenizer
) -> None:
    def written(name: str, number: float) -> Path:
        rows = pa.table({"messages": [[{"role": "user", "number": number}]] * 4})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows.to_pylist())
        )
        return tmp_path / name

    def total(paths: list[Path], counts: str, schema: pa.Schema | None = None) -> int:
        template = "{% for message in messages %}{{ message.number }}{% endfor %}"
        tokenize = sm.Tokenize(
            messages="messages",
            tokenizer=tokenizer,
            chat_template=template,
            counts=tmp_path / counts,
        )
        return sm.Dataset(paths, schema=schema, tokenize=tokenize).token_counts().total

    whole, fraction = written("whole", 5), written("fraction", 0.5)
    files = [path.with_suffix(".parquet") for path in (whole, fraction)]
    assert total(files[:1], "kept") == len("5") * 4
    assert total(files, "kept") == total(files, "new") == len("5.00.5") * 4
    assert total(files[:1], "kept") == len("5") * 4
    message = pa.struct({"role": pa.string(), "number": pa.float64()})
    schema = pa.schema({"messages": pa.list_(message)})
    texts = [whole.with_suffix(".jsonl")]
    assert total(texts, "kept") == len("5") * 4
    assert total(texts, "kept", schema) == len("5.0") * 4


def test_copies_of_a_file_with_other_values_of_their_directories_are_counted_apart(
    tmp_path: Path, tokenizer: sm.Tokenizer
) -> None:
    for language in ("en", "other"):
        directory = tmp_path / "data" / f"language={language}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"text": TEXTS}), directory / "0.parquet")
    tokenize = sm.Tokenize(
        ["language", "text"], separator=":", tokenizer=tokenizer, counts=tmp_path / "counts"
    )
    found = sm.Dataset(tmp_path / "data", partitioning="hive", tokenize=tokenize).token_counts()
    assert found.total == sum(
        len(f"{language}:{text}") for language in ("en", "other") for text in TEXTS
    )
