"""Token files of Megatron-LM and datatrove as data sets."""

from __future__ import annotations

import hashlib
import pickle
import struct
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import write_tokenizer
from shardmill.curate import ParquetSink, Pipeline, TableSource, inspect, verify
from token_writers import random_documents, write_datatrove, write_megatron

pytestmark = pytest.mark.usefixtures("counts_below")

SEQUENCES = sm.TokenFiles(rows="sequences")
EXAMPLE = [[[1, 2, 3]], [], [[4, 5], [6, 7]], [[9]]]


def of_one(documents: list[list[int]]) -> list[list[list[int]]]:
    return [[document] if document else [] for document in documents]


def tokens_of(dataset: sm.Dataset) -> list[list[int]]:
    return [row["tokens"] for row in dataset]


def packs(data: Any, **options: Any) -> list[dict[str, Any]]:
    packing = sm.Packing("tokens", length=64, **options)
    loader = sm.Loader(
        data, batch_size=4, shuffle=True, seed=3, packing=packing, output="numpy", tail="pad"
    )
    return [{name: values.tolist() for name, values in batch.items()} for batch in loader]


def test_example_of_the_specification(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "p", EXAMPLE)
    digests = [
        hashlib.sha256(Path(f"{prefix}{end}").read_bytes()).hexdigest() for end in (".idx", ".bin")
    ]
    assert [digest[:16] for digest in digests] == ["3f10fe56fab4ee45", "6b21eb33ed68b7cb"]
    data = sm.Dataset(prefix)
    assert (data.format, data.columns, len(data)) == ("megatron", ["tokens"], 4)
    assert tokens_of(data) == [[1, 2, 3], [], [4, 5, 6, 7], [9]]
    assert data.schema.field("tokens").type == pa.list_(pa.field("item", pa.int32(), False))
    named = sm.Dataset(prefix, columns=["num_tokens", "sequence_lengths"])
    assert list(named) == [
        {"num_tokens": 3, "sequence_lengths": [3]},
        {"num_tokens": 0, "sequence_lengths": []},
        {"num_tokens": 4, "sequence_lengths": [2, 2]},
        {"num_tokens": 1, "sequence_lengths": [1]},
    ]
    assert tokens_of(sm.Dataset(prefix, token_files=SEQUENCES)) == [[1, 2, 3], [4, 5], [6, 7], [9]]
    assert data.token_counts() == (4, 8, 4)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16"])
def test_each_stored_type_is_read(tmp_path: Path, dtype: str) -> None:
    limits = np.iinfo(dtype)
    documents = [[[limits.max, 0]], [[1, limits.min]]]
    data = sm.Dataset(write_megatron(tmp_path / "p", documents, dtype))
    assert tokens_of(data) == [[limits.max, 0], [1, limits.min]]
    wide = pa.int64() if dtype == "int64" else pa.int32()
    assert data.schema.field("tokens").type.value_type == wide


def test_modes_are_a_column(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "p", EXAMPLE, modes=[0, 1, -1, 0])
    assert [row["modes"] for row in sm.Dataset(prefix)] == [[0], [], [1, -1], [0]]
    data = sm.Dataset(prefix, token_files=SEQUENCES)
    assert [row["modes"] for row in data] == [[0], [1], [-1], [0]]


def test_pair_is_found_by_each_of_its_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write_megatron(tmp_path / name, [[[ord(name)]]])
    both, one = [[97], [98]], [[97]]
    assert tokens_of(sm.Dataset(tmp_path)) == both
    for glob in ("*", "*.bin", "*.idx", "[ab].idx"):
        assert tokens_of(sm.Dataset(f"{tmp_path}/{glob}")) == both
    assert tokens_of(sm.Dataset([tmp_path / "b", tmp_path / "a.idx"])) == both[::-1]
    for path in (tmp_path / "a", tmp_path / "a.bin", tmp_path / "a.idx"):
        assert tokens_of(sm.Dataset(path)) == one
        assert tokens_of(sm.Dataset(path, format="megatron")) == one
    # Megatron keeps the order of its samples in a directory that is called like the prefix.
    cache = tmp_path / "a/cache/GPTDataset_indices"
    cache.mkdir(parents=True)
    np.save(cache / "x-document_index.npy", np.arange(3))
    assert tokens_of(sm.Dataset(tmp_path / "a")) == one
    memory = fsspec.filesystem("memory")
    for end in ("bin", "idx"):
        memory.pipe(f"/{tmp_path.name}/a.{end}", (tmp_path / f"a.{end}").read_bytes())
    for path in (f"memory://{tmp_path.name}/a", f"memory://{tmp_path.name}"):
        assert tokens_of(sm.Dataset(path, storage_options=memory)) == one


def test_tokens_without_an_index_are_not_a_data_set(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\1\0\2\0")
    with pytest.raises(sm.PlanError, match=r"x\.bin.*is unknown[\s\S]*\.idx beside"):
        sm.Dataset(tmp_path / "x.bin")
    with pytest.raises(FileNotFoundError, match=r"x\.idx"):
        sm.Dataset(tmp_path / "x.bin", format="megatron")
    write_megatron(tmp_path / "p", EXAMPLE)
    with pytest.warns(UserWarning, match=r"left out .*x\.bin"):
        assert len(sm.Dataset(tmp_path)) == 4
    with pytest.warns(UserWarning, match=r"left out .*x\.bin"):
        assert len(sm.Dataset(tmp_path, format="megatron")) == 4


def test_filter_on_the_number_of_tokens_reads_no_token(tmp_path: Path) -> None:
    documents = random_documents(2000)
    prefix = write_megatron(tmp_path / "p", of_one(documents))
    long = [document for document in documents if len(document) > 200]
    data = sm.Dataset(prefix, filter=sm.col("num_tokens") > 200)
    # The file of tokens is gone, as far as the filter is concerned.
    Path(f"{prefix}.bin").write_bytes(bytes(Path(f"{prefix}.bin").stat().st_size))
    assert len(data) == len(long)
    write_megatron(tmp_path / "p", of_one(documents))
    assert tokens_of(sm.Dataset(prefix, filter="num_tokens > 200")) == long


@pytest.fixture
def documents(tmp_path: Path) -> list[list[int]]:
    """The same documents in token files of two kinds and in Parquet files."""
    documents = random_documents(1500)
    parts = [documents[:700], documents[700:701], documents[701:]]
    for name in ("megatron", "datatrove", "parquet"):
        (tmp_path / name).mkdir()
    for number, part in enumerate(parts):
        write_megatron(tmp_path / f"megatron/{number}", of_one(part))
        write_datatrove(tmp_path / f"datatrove/{number}.ds", part)
        table = pa.table({"tokens": pa.array(part, pa.list_(pa.int32()))})
        pq.write_table(table, tmp_path / f"parquet/{number}.parquet")
    return documents


@pytest.mark.parametrize("format", ["megatron", "datatrove"])
def test_rows_and_packs_are_those_of_parquet_files(
    tmp_path: Path, documents: list[list[int]], format: str
) -> None:
    data, table = sm.Dataset(tmp_path / format), sm.Dataset(tmp_path / "parquet")
    assert (data.format, data.columns) == (format, ["tokens"])
    assert tokens_of(data) == documents
    shuffled = [row["tokens"] for row in data.iterate(shuffle=True, seed=5)]
    assert shuffled == [row["tokens"] for row in table.iterate(shuffle=True, seed=5)]
    assert shuffled != documents
    rows = [1499, 0, 700, 5]
    assert data.take(rows)["tokens"].to_pylist() == [documents[row] for row in rows]
    for options in ({}, {"strategy": "best_fit"}, {"plan": "ahead", "epoch_packs": 150}):
        assert packs(data, **options) == packs(table, **options)
    assert data.token_counts().total == sum(map(len, documents))
    copied = pickle.loads(pickle.dumps(data))
    assert tokens_of(copied) == documents


@pytest.mark.parametrize("format", ["megatron", "datatrove"])
def test_counts_of_packs_come_from_the_index(
    tmp_path: Path, documents: list[list[int]], format: str
) -> None:
    data = sm.Dataset(tmp_path / format)
    for path in data.files:
        Path(path).write_bytes(b"\xff" * Path(path).stat().st_size)
    changed = sm.Dataset(tmp_path / format)
    assert changed.token_counts().total == sum(map(len, documents))
    loader = sm.Loader(changed, packing=sm.Packing("tokens", length=64), batch_size=2)
    assert len(loader) == -(-sum(map(len, documents)) // 128)


def test_resume_on_other_ranks_continues_the_sequence(
    tmp_path: Path, documents: list[list[int]]
) -> None:
    def loader(rank: int = 0, ranks: int = 1) -> sm.Loader:
        return sm.Loader(
            sm.Dataset(tmp_path / "megatron"),
            batch_size=4 // ranks,
            shuffle=True,
            packing=sm.Packing("tokens", length=64),
            lanes=4,
            rank=rank,
            world_size=ranks,
            tail="drop",
            output="numpy",
        )

    whole = [batch["tokens"].tolist() for batch in loader()]
    begun = loader()
    batches = iter(begun)
    first = [next(batches)["tokens"].tolist() for _ in range(5)]
    resumed = [loader(rank, 2) for rank in range(2)]
    for part in resumed:
        part.load_state_dict(begun.state_dict())
    rest = [
        [row for batch in both for row in batch["tokens"].tolist()]
        for both in zip(*resumed, strict=True)
    ]
    assert [sorted(batch) for batch in first + rest] == [sorted(batch) for batch in whole]


def test_mixture_with_text_that_is_tokenized_while_it_is_read(tmp_path: Path) -> None:
    write_megatron(tmp_path / "p", of_one([[7] * 5] * 40))
    pq.write_table(pa.table({"text": ["abc"] * 40}), tmp_path / "x.parquet")
    tokenizer = write_tokenizer(tmp_path / "tokenizer")
    text = sm.Dataset(tmp_path / "x.parquet", tokenize=sm.Tokenize("text", tokenizer=tokenizer))
    mixture = sm.Mixture({"files": sm.Dataset(tmp_path / "p"), "text": text})
    packing = sm.Packing("tokens", length=8, strategy="best_fit")
    found: list[int] = []
    for batch in sm.Loader(mixture, shuffle=True, packing=packing, output="numpy"):
        found += batch["tokens"][batch["segment_ids"] > 0].tolist()
    assert sorted(found) == sorted([7] * 200 + [*b"abc"] * 40)


def test_vocabulary_is_checked_where_it_is_stated(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "p", EXAMPLE)
    data = sm.Dataset(prefix, token_files=sm.TokenFiles(vocab_size=9))
    with pytest.raises(sm.FormatError, match=r"Byte 14 of .*p\.bin.*token 9 is not below 9"):
        tokens_of(data)
    assert tokens_of(sm.Dataset(prefix, token_files=sm.TokenFiles(vocab_size=10)))
    negative = write_megatron(tmp_path / "n", [[[1, -1]]], "int32")
    assert tokens_of(sm.Dataset(negative)) == [[1, -1]]
    with pytest.raises(sm.FormatError, match="token -1 is not below 10"):
        tokens_of(sm.Dataset(negative, token_files=sm.TokenFiles(vocab_size=10)))
    wide = write_datatrove(tmp_path / "w.ds", [[1, 2**31]], width=4)
    with pytest.raises(sm.FormatError, match="token 2147483648 is not below 2147483648"):
        tokens_of(sm.Dataset(wide))


def test_options_are_refused_where_they_say_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(sm.OptionError, match="token_files is only for files of token ids"):
        sm.Dataset(tmp_path / "x.parquet", token_files=SEQUENCES)
    with pytest.raises(sm.OptionError, match="rows must be one of 'documents', 'sequences'"):
        sm.TokenFiles(rows="batches")  # pyright: ignore[reportArgumentType]
    with pytest.raises(sm.OptionError, match=r"TokenFiles\.vocab_size"):
        sm.TokenFiles(vocab_size=0)


def test_lie_in_the_middle_is_found_at_its_block(tmp_path: Path) -> None:
    prefix = write_megatron(tmp_path / "p", [[[row] * (1 << 20)] for row in range(20)])
    index = Path(f"{prefix}.idx")
    content = bytearray(index.read_bytes())
    struct.pack_into("<q", content, 34 + 20 * 4 + 9 * 8, 0)
    index.write_bytes(content)
    data = sm.Dataset(prefix)
    assert data[3]["tokens"] == [3] * (1 << 20)
    with pytest.raises(sm.FormatError, match=r"Byte 186 of .*p\.idx.*the start of a sequence is 0"):
        data[8]
    [report] = verify(f"{prefix}.bin")
    [problem] = report.problems
    assert (problem.row, "the start of a sequence is 0" in problem.what) == (8, True)


def test_inspect_and_verify_read_token_files(tmp_path: Path) -> None:
    write_megatron(tmp_path / "p", EXAMPLE)
    write_datatrove(tmp_path / "x.ds", [[1, 2], [3]], loss=[[True, False], [True]])
    for found in (inspect(tmp_path).files, verify(tmp_path)):
        formats = [(file.format, file.samples) for file in found]
        assert formats == [("megatron", 4), ("datatrove", 2)]
    assert all(file.problem_count == 0 for file in verify(tmp_path / "p"))
    Path(tmp_path / "x.ds.loss").write_bytes(b"\1\2\1")
    [file] = [file for file in verify(tmp_path) if file.format == "datatrove"]
    assert "Byte 1 of" in file.problems[0].what


@pytest.mark.parametrize("width", [2, 4])
def test_datatrove_files_have_their_masks(tmp_path: Path, width: int) -> None:
    documents, loss = [[1, 2, 3], [], [4]], [[True, False, True], [], [False]]
    path = write_datatrove(tmp_path / "x.ds", documents, width, loss)
    assert list(sm.Dataset(path)) == [
        {"tokens": tokens, "loss_mask": mask} for tokens, mask in zip(documents, loss, strict=True)
    ]
    packing = sm.Packing(["tokens", "loss_mask"], length=2)
    [batch] = sm.Loader(path, packing=packing, batch_size=2, output="torch")
    assert batch["loss_mask"].tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.ds", bytes(5), r"x\.ds.*the size is 5, expected 2 or 4 times 3"),
        ("x.ds", bytes(9), r"x\.ds.*the size is 9, expected 2 or 4 times 3"),
        ("x.ds.index", bytes(9), r"index.*the size is 9, expected a multiple of 8"),
        ("x.ds.loss", b"\1\0", r"loss.*the size is 2, expected 3"),
        ("x.ds.metadata", b"gpt2|4\n3\n3", r"metadata.*width of a token is 4, expected 2"),
        ("x.ds.metadata", b"gpt2|2\n7\n7", r"metadata.*number of tokens is 7, expected 3"),
        ("x.ds.metadata", b"gpt2", r"metadata.*width of a token is missing, expected 2"),
        ("x.ds.index", struct.pack("<2Q", 9, 3), r"Byte 0 of.*the end of a document is 9"),
        ("x.ds.loss", b"\1\0\7", r"Byte 2 of.*loss.*mask of a token is 7, expected 0 or 1"),
    ],
)
def test_datatrove_files_that_disagree_are_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = write_datatrove(tmp_path / "x.ds", [[1, 2], [3]], loss=[[True, False], [True]])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(sm.FormatError, match=message):
        list(sm.Dataset(path))


def test_datatrove_file_without_tokens_has_empty_rows(tmp_path: Path) -> None:
    assert len(sm.Dataset(write_datatrove(tmp_path / "x.ds", []))) == 0
    assert tokens_of(sm.Dataset(write_datatrove(tmp_path / "y.ds", [[], []]))) == [[], []]
    with pytest.raises(FileNotFoundError, match=r"z\.ds\.index"):
        (tmp_path / "z.ds").write_bytes(b"")
        sm.Dataset(tmp_path / "z.ds")


def test_jobs_read_token_files(tmp_path: Path) -> None:
    write_megatron(tmp_path / "p", EXAMPLE)
    source = TableSource(f"{tmp_path}/p.bin", format="megatron")
    sink = ParquetSink(str(tmp_path / "out"))
    Pipeline(source=source, stages=[], sink=sink).run(progress=False)
    table = pq.read_table(tmp_path / "out")
    assert table.to_pydict() == {"tokens": [[1, 2, 3], [], [4, 5, 6, 7], [9]]}
