"""`shardmill convert` and `shardmill tokenize` between files of token ids and tables."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from command import shardmill
from shardmill.cli._conversion import StreamDigest
from token_writers import (
    bytes_of_pair,
    random_documents,
    write_bin,
    write_datatrove,
    write_megatron,
    write_npy,
)

DOCUMENTS = random_documents(200)
#: Documents of more than one token, which end with 0.
ENDED = [[*document, 0] for document in random_documents(100, seed=1) if 0 not in document]
STREAM = [token for document in ENDED for token in document]


def converted(*arguments: object, cwd: Path | None = None) -> str:
    result = shardmill("convert", *arguments, cwd=cwd)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    return result.stderr


def tokens_of(path: Any, **options: Any) -> list[list[int]]:
    return [row["tokens"] for row in sm.Dataset(path, **options)]


def test_rows_go_around_through_every_format(tmp_path: Path) -> None:
    expected = bytes_of_pair(
        write_megatron(tmp_path / "t", [[it] if it else [] for it in DOCUMENTS])
    )
    write_datatrove(tmp_path / "a.ds", DOCUMENTS)
    converted(tmp_path / "a.ds", tmp_path / "a", "--to", "megatron")
    converted(tmp_path / "a", tmp_path / "b.parquet")
    assert pq.read_table(tmp_path / "b.parquet")["tokens"].to_pylist() == DOCUMENTS
    converted(tmp_path / "b.parquet", tmp_path / "c.jsonl")
    converted(tmp_path / "c.jsonl", tmp_path / "d", "--to", "megatron", "--vocab-size", 50_000)
    assert bytes_of_pair(tmp_path / "a") == expected
    # The type of the tokens goes with the metadata of their column.
    converted(tmp_path / "b.parquet", tmp_path / "e.idx")
    assert bytes_of_pair(tmp_path / "d") == bytes_of_pair(tmp_path / "e") == expected


def test_loss_masks_are_not_lost_silently(tmp_path: Path) -> None:
    write_datatrove(tmp_path / "a.ds", [[1, 2]], loss=[[True, False]])
    result = shardmill("convert", tmp_path / "a.ds", tmp_path / "a", "--to", "megatron")
    assert result.returncode == 1
    assert "Token files have no column for loss_mask" in result.stderr
    converted(tmp_path / "a.ds", tmp_path / "a", "--to", "megatron", "--column", "tokens")
    assert tokens_of(tmp_path / "a") == [[1, 2]]


@pytest.mark.parametrize("header", [True, False])
def test_files_without_an_index_are_read_and_written(tmp_path: Path, header: bool) -> None:
    source = write_bin(tmp_path / "a.bin", STREAM, header=header)
    options = {"eos": 0} if header else {"eos": 0, "dtype": "uint16"}
    read = ("--format", "bin", "--token-files", json.dumps(options))
    text = converted(source, tmp_path / "p", "--to", "megatron", *read)
    assert f"{len(ENDED)} rows of 1 bin file" in text
    assert tokens_of(tmp_path / "p") == ENDED
    told = converted(tmp_path / "p", tmp_path / "b.bin", *(["--header", "llm.c"] if header else []))
    assert f"{len(ENDED)} rows of 1 megatron file" in told
    assert (tmp_path / "b.bin").read_bytes() == source.read_bytes()
    result = shardmill("convert", source, tmp_path / "x", "--to", "megatron", *read[:3], '{"a": 1}')
    assert result.returncode == 2
    assert "--token-files: " in result.stderr


def test_documents_of_olmo_become_a_pair(tmp_path: Path) -> None:
    write_npy(tmp_path / "a.npy", ENDED, "uint32")
    read = ("--format", "npy", "--token-files", '{"dtype": "uint32"}')
    converted(tmp_path / "a.npy", tmp_path / "p", "--to", "megatron", *read)
    assert tokens_of(tmp_path / "p") == ENDED


def test_sequences_and_modes_of_a_pair_are_kept(tmp_path: Path) -> None:
    documents = [[[1, 2], [3]], [], [[4]], [[], [5]]]
    write_megatron(tmp_path / "a", documents, "int32", modes=[0, 1, 2, 3, 4])
    converted(tmp_path / "a", tmp_path / "b", "--to", "megatron", "--stored-dtype", "int32")
    assert bytes_of_pair(tmp_path / "a") == bytes_of_pair(tmp_path / "b")
    converted(tmp_path / "a", tmp_path / "c", "--to", "megatron", "--stored-dtype", "uint16")
    same = sm.TokenFiles(rows="sequences")
    assert tokens_of(tmp_path / "c", token_files=same) == [[1, 2], [3], [4], [], [5]]


def test_tokens_of_other_columns_are_chosen(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ids": [[1], [2, 3]], "x": [1, 2]}), tmp_path / "a.parquet")
    result = shardmill("convert", tmp_path / "a.parquet", tmp_path / "p", "--to", "megatron")
    assert result.returncode == 1
    assert "megatron files have the column tokens, and the columns are ids, x" in result.stderr
    converted(tmp_path / "a.parquet", tmp_path / "p", "--to", "megatron", "--column", "ids")
    assert tokens_of(tmp_path / "p") == [[1], [2, 3]]
    options = ("--to", "bin", "--columns", "ids", "--shard-bytes", "8")
    converted(tmp_path / "a.parquet", tmp_path / "shards", *options)
    assert sorted(os.listdir(tmp_path / "shards")) == ["part-00000.bin", "part-00001.bin"]


def test_merge_of_the_command_line_is_that_of_python(tmp_path: Path) -> None:
    for name in "ab":
        write_megatron(tmp_path / name, [[it] for it in random_documents(5, seed=ord(name)) if it])
    parts = [tmp_path / name for name in "ba"]
    run = shardmill("merge", tmp_path / "all", *parts)
    assert (run.returncode, run.stderr) == (0, f"1 file in {tmp_path}/all\n")
    sm.merge(tmp_path / "again", parts)
    assert bytes_of_pair(tmp_path / "all") == bytes_of_pair(tmp_path / "again")
    run = shardmill("merge", tmp_path / "all", *parts)
    assert run.returncode == 1 and "hint: merge into another path" in run.stderr


def test_files_without_a_header_are_shown_as_their_options_say(tmp_path: Path) -> None:
    path = write_bin(tmp_path / "x.bin", [1, 2, 0, 3], header=False)
    options = ("--format", "bin", "--token-files", json.dumps({"dtype": "uint16", "eos": 0}))
    run = shardmill("head", path, *options, "--json")
    assert run.stdout == '{"tokens": [1, 2, 0]}\n{"tokens": [3]}\n', run.stderr
    run = shardmill("explain", path, *options, "--json")
    assert json.loads(run.stdout)["rows"] == [["x.bin", 0, 2]]
    for given, message in ((options[:2], "hint: pass --token-files"), ([], "--format bin")):
        run = shardmill("head", path, *given)
        assert run.returncode == 1 and message in run.stderr


def test_output_that_would_replace_its_source_is_refused(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [[[1]], [[2]]])
    options = ("--to", "megatron", "--mode", "overwrite")
    result = shardmill("convert", tmp_path / "a", tmp_path / "a", "--column", "tokens", *options)
    assert result.returncode == 2
    assert "contains the input" in result.stderr
    converted(tmp_path / "a", tmp_path / "a", *options)
    assert tokens_of(tmp_path / "a") == [[1], [2]]


def test_tokenize_to_bin_writes_the_tokens_alone(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {"[UNK]": 0, "hello": 1, "world": 2, "<end>": 3}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.jsonl").write_text('{"text": "hello world"}\n{"text": ""}\n{"text": "world"}\n')
    source = (tmp_path / "a.jsonl", tmp_path / "a.bin", "--to", "bin")
    options = ("--tokenizer", tmp_path / "tokenizer.json", "--eos", "<end>")
    cache = str(tmp_path)
    result = shardmill(
        "tokenize", *source, *options, "--header", "llm.c", SHARDMILL_CACHE_DIR=cache
    )
    assert result.returncode == 0, result.stderr
    expected = write_bin(tmp_path / "t.bin", [1, 2, 3, 2, 3])
    assert (tmp_path / "a.bin").read_bytes() == expected.read_bytes()
    result = shardmill("tokenize", *source, *options, "--labels", "all", SHARDMILL_CACHE_DIR=cache)
    assert result.returncode == 2
    assert "without --keep and --labels" in result.stderr


def test_digest_of_a_stream_depends_on_its_tokens_and_not_on_their_batches() -> None:
    def digest(tokens: list[int], size: int) -> tuple[int, str]:
        found = StreamDigest()
        column = pa.array(tokens, pa.int64())
        for start in range(0, len(tokens) + 1, size):
            found.update(pa.record_batch({"tokens": column.slice(start, size)}))
        return found.rows, found.value

    assert digest(STREAM, 7) == digest(STREAM, 1000) == digest(STREAM, len(STREAM))
    assert digest(STREAM, 7) != digest([*STREAM[:-1], STREAM[-1] + 1], 7)
    assert digest(STREAM, 7)[0] == len(STREAM)
