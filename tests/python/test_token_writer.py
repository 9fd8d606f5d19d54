"""Files of token ids that `sm.Writer` writes: names, shards, types, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from shardmill.write._token_layout import begin_pairs
from token_writers import bytes_of_pair, random_documents, write_bin, write_megatron

DOCUMENTS = random_documents(300)
TOKENS = sm.TokenFiles(dtype="uint32")
STREAM = [token for document in DOCUMENTS for token in document]


def written(out: Path, documents: Any = DOCUMENTS, /, **options: Any) -> sm.Writer:
    layout = {
        name: options.pop(name)
        for name in ("dtype", "vocab_size", "header", "cut_documents")
        if name in options
    }
    with sm.Writer(out, token_layout=sm.TokenLayout(**layout), **options) as writer:
        writer.write_batch({"tokens": documents})
    return writer


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("header", ["llm.c", None])
@pytest.mark.parametrize("threads", [1, 3])
def test_bin_has_the_bytes_of_its_own_writers(
    tmp_path: Path, width: int, header: Any, threads: int
) -> None:
    expected = write_bin(tmp_path / "t.bin", STREAM, width, header is not None)
    writer = written(tmp_path / "p.bin", header=header, dtype=f"uint{8 * width}", threads=threads)
    assert (tmp_path / "p.bin").read_bytes() == expected.read_bytes()
    assert writer.files == [str(tmp_path / "p.bin")]
    assert writer.dtype == f"uint{8 * width}"


@pytest.mark.parametrize("header", ["llm.c", None])
def test_shards_of_bin_end_at_whole_documents_unless_they_may_be_cut(
    tmp_path: Path, header: Any
) -> None:
    options = {"header": header, "vocab_size": 50_000, "format": "bin", "shard_bytes": 4000}
    start = 1024 if header else 0
    for is_cut in (False, True):
        out = tmp_path / str(is_cut)
        files = written(out, cut_documents=is_cut, **options).files
        shards = [np.fromfile(path, "<u2", offset=start).tolist() for path in files]
        assert names(out) == [f"part-{number:05}.bin" for number in range(len(files))]
        assert [token for shard in shards for token in shard] == STREAM
        assert max(Path(path).stat().st_size for path in files) <= 4000
        ends = np.cumsum([len(shard) for shard in shards]).tolist()
        borders = {0, *np.cumsum([len(document) for document in DOCUMENTS]).tolist()}
        assert (set(ends) <= borders) is not is_cut
        if is_cut:
            assert {Path(path).stat().st_size for path in files[:-1]} == {4000}
        if header:
            read = sm.Dataset(out, format="bin", token_files=sm.TokenFiles(row_tokens=2**20))
            assert [row["tokens"] for row in read] == shards


@pytest.mark.parametrize(("shard_bytes", "header"), [(10, None), (1030, "llm.c")])
def test_each_shard_of_bin_has_a_document_with_tokens(
    tmp_path: Path, shard_bytes: int, header: Any
) -> None:
    documents = [[], [], [1, 2, 3], [], [4] * 40, [], [5] * 2, [6], [], [7]]
    options = {"header": header, "vocab_size": 50_000, "format": "bin"}
    files = written(tmp_path / "p", documents, shard_bytes=shard_bytes, **options).files
    start = 1024 if header else 0
    shards = [np.fromfile(path, "<u2", offset=start).tolist() for path in files]
    if header is None:
        assert shards == [[1, 2, 3], [4] * 40, [5, 5, 6, 7]]
    else:
        assert shards == [[1, 2, 3], [4] * 40, [5, 5, 6], [7]]
    alone = written(tmp_path / "q", [[], []], shard_bytes=shard_bytes, **options).files
    assert [Path(path).stat().st_size for path in alone] == [start]


def test_shard_without_room_for_a_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sm.OptionError, match=r"shard_bytes=1024 has no room .* 1024 bytes\nhint"):
        written(tmp_path / "p", header="llm.c", format="bin", shard_bytes=1024)
    written(tmp_path / "p", [[1]], header="llm.c", format="bin", shard_bytes=1025)


@pytest.mark.parametrize("format", ["megatron", "bin"])
def test_first_rows_may_all_be_empty(tmp_path: Path, format: Any) -> None:
    for number, most in enumerate((3, 1100)):
        with sm.Writer(tmp_path / f"p{number}", format=format) as writer:
            for _ in range(most):
                writer.write({"tokens": []})
            writer.write({"tokens": [1, 2]})
    with sm.Writer(tmp_path / "q", format=format) as writer:
        writer.write_batch({"tokens": [[], []]})
        writer.write_batch({"tokens": [[], [1, 2]]})
    for name in ("p0", "p1", "q"):
        path = tmp_path / name
        read = sm.Dataset(path, format=format, token_files=TOKENS if format == "bin" else None)
        assert [token for row in read for token in row["tokens"]] == [1, 2]


@pytest.mark.parametrize("threads", [1, 3])
def test_one_pair_has_the_name_itself_and_several_have_numbers(
    tmp_path: Path, threads: int
) -> None:
    options = {"format": "megatron", "dtype": "uint16", "threads": threads}
    assert written(tmp_path / "one", shard_bytes="1MiB", **options).files == [
        str(tmp_path / "one.bin")
    ]
    files = written(tmp_path / "p", shard_bytes=4000, **options).files
    pairs = [f"p_{number:05}" for number in range(len(files))]
    assert len(pairs) > 5
    assert names(tmp_path) == sorted(
        [f"{pair}.{end}" for pair in ["one", *pairs] for end in ("bin", "idx")]
    )
    assert [row["tokens"] for row in sm.Dataset(files)] == DOCUMENTS
    whole = [row["tokens"] for row in sm.Dataset(tmp_path / "one")]
    assert whole == DOCUMENTS


def test_relative_name_is_that_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for out in ("p", "q.idx"):
        writer = written(Path(out), format=None if "." in out else "megatron")
        assert writer.files == [f"{out[0]}.bin"]
    assert names(tmp_path) == ["p.bin", "p.idx", "q.bin", "q.idx"]
    with pytest.raises(sm.OptionError, match=r"is a directory.*\nhint: pass 'd/corpus'"):
        sm.Writer("d/", format="megatron")


def test_without_rows_there_is_an_empty_pair(tmp_path: Path) -> None:
    written(tmp_path / "p", pa.array([], pa.list_(pa.uint16())), format="megatron")
    write_megatron(tmp_path / "t", [])
    assert bytes_of_pair(tmp_path / "p") == bytes_of_pair(tmp_path / "t")
    assert len(sm.Dataset(tmp_path / "p")) == 0
    with sm.Writer(tmp_path / "q.bin"):
        pass
    assert (tmp_path / "q.bin").read_bytes() == b""


@pytest.mark.parametrize(
    ("column", "format", "layout", "expected"),
    [
        (pa.uint16(), "megatron", {}, "uint16"),
        (pa.uint8(), "megatron", {}, "uint8"),
        (pa.int64(), "megatron", {}, "int32"),
        (pa.uint32(), "megatron", {}, "int32"),
        (pa.uint32(), "bin", {}, "uint32"),
        (pa.int64(), "bin", {}, "uint32"),
        (pa.int32(), "bin", {"vocab_size": 65_536}, "uint16"),
        (pa.int32(), "bin", {"vocab_size": 65_537}, "uint32"),
        (pa.int32(), "bin", {"header": "llm.c"}, "uint32"),
        (pa.uint8(), "bin", {"header": "llm.c"}, "uint16"),
        (pa.uint16(), "megatron", {"vocab_size": 200_000}, "int32"),
        (pa.uint16(), "megatron", {"dtype": "int64", "vocab_size": 9}, "int64"),
    ],
)
def test_type_is_the_given_one_or_that_of_the_vocabulary_or_of_the_column(
    tmp_path: Path, column: pa.DataType, format: Any, layout: dict[str, Any], expected: str
) -> None:
    documents = pa.array([[1, 2], [3]], pa.large_list(column))
    writer = written(tmp_path / "p", documents, format=format, **layout)
    assert writer.dtype == expected
    files = sm.TokenFiles(dtype=writer.dtype if format == "bin" else None)  # pyright: ignore
    read = sm.Dataset(writer.files, format=format, token_files=files)
    assert [token for row in read for token in row["tokens"]] == [1, 2, 3]


def test_type_of_a_pair_is_kept(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [[[1, 2]], [[3]]], "int16")
    with sm.Writer(tmp_path / "b", format="megatron") as writer:
        writer.write_batch(sm.Dataset(tmp_path / "a"))
    assert writer.dtype == "int16"
    assert (tmp_path / "a.idx").read_bytes() == (tmp_path / "b.idx").read_bytes()


@pytest.mark.parametrize(
    ("rows", "layout", "message"),
    [
        (
            [[1], [2, 70_000]],
            {"dtype": "uint16"},
            r"Row 1 .*id 70000 at place 1, .* uint16 are 0 to 65535\n",
        ),
        ([[1], [2, -1]], {"dtype": "uint16"}, "Row 1 has the id -1 at place 1"),
        ([[1, 9]], {"vocab_size": 9}, "Row 0 .*id 9 at place 1, .* vocabulary are 0 to 8"),
        ([[2**32]], {}, "Row 0 has the id 4294967296"),
        ([[1], None], {}, "Row 1 has a null in column `tokens`"),
        ([[1], [None, 2]], {}, "Row 1 has a null in column `tokens`"),
        ([[1.5]], {}, "Column `tokens` is a list of double"),
        (["text"], {}, r"Column `tokens` is string[\s\S]*shardmill tokenize"),
    ],
)
def test_rows_that_do_not_fit_are_named_and_nothing_is_published(
    tmp_path: Path, rows: list[Any], layout: dict[str, Any], message: str
) -> None:
    for format in ("megatron", "bin"):
        with pytest.raises(sm.FormatError, match=message):
            written(tmp_path / "out" / "p", rows, format=format, **layout | {"threads": 2})
        assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"sequence_lengths": [1, 1]}, "Row 1 has sequences of 2 tokens.*, expected 3"),
        ({"sequence_lengths": [4, -1]}, "Row 1 .* the shortest of -1, expected 3"),
        ({"sequence_lengths": [1, 2], "modes": [1]}, "Row 1 has 1 modes.* expected 2"),
        ({"sequence_lengths": [3], "modes": [300]}, "Row 1 has 1 modes, 0 of them of int8"),
        ({"text": "a"}, r"no column for text\nhint: columns="),
    ],
)
def test_columns_of_an_index_are_checked(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    first = {"sequence_lengths": [1], "modes": [0], "text": ""}
    with (
        pytest.raises(sm.FormatError, match=message),
        sm.Writer(tmp_path / "p", format="megatron") as writer,
    ):
        writer.write({"tokens": [5], **{name: first[name] for name in row}})
        writer.write({"tokens": [1, 2, 3], **row})
    assert names(tmp_path) == []


def test_existing_pair_is_kept_or_replaced_as_a_whole(tmp_path: Path) -> None:
    written(tmp_path / "p", shard_bytes=4000, format="megatron", vocab_size=50_000)
    (tmp_path / "p_other.bin").touch()
    with pytest.raises(sm.OutputExistsError, match=r"such as 'p_00000.bin'\nhint: mode="):
        sm.Writer(tmp_path / "p", format="megatron")
    with pytest.raises(sm.FormatError):
        written(tmp_path / "p", [[-1]], format="megatron", vocab_size=9, mode="overwrite")
    assert len(names(tmp_path)) > 9
    written(tmp_path / "p", [[1]], format="megatron", mode="overwrite")
    assert names(tmp_path) == ["p.bin", "p.idx", "p_other.bin"]
    assert list(sm.Dataset(tmp_path / "p")) == [{"tokens": [1]}]


def test_killed_writer_publishes_nothing(tmp_path: Path) -> None:
    script = (
        "import os, sys, shardmill as sm\n"
        "writer = sm.Writer(sys.argv[1], format='megatron', shard_bytes=10_000)\n"
        "for _ in range(100): writer.write_batch({'tokens': [[7] * 1000] * 10})\n"
        "print(flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "p"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert all(name.startswith(".shardmill-") for name in names(tmp_path))
    written(tmp_path / "p", [[1]], format="megatron")
    assert names(tmp_path) == ["p.bin", "p.idx"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "megatron", "dtype": "uint32"}, "Megatron-LM has no such type"),
        ({"format": "megatron", "header": "llm.c"}, "header concerns bin files"),
        ({"format": "megatron", "cut_documents": True}, "cut_documents concerns bin files"),
        ({"format": "megatron", "mode": "append"}, r"mode='append'.*\nhint: .*sm.merge"),
        ({"format": "bin", "dtype": "int32", "header": "llm.c"}, "uint16 or uint32"),
        ({"format": "parquet", "dtype": "int32"}, "not for parquet files"),
        ({"format": "bin", "compression": "zstd"}, "have none"),
        ({"format": "bin", "dtype": "float"}, "TokenLayout.dtype must be one of"),
        ({"format": "bin", "vocab_size": 0}, "TokenLayout.vocab_size must be"),
    ],
)
def test_options_that_do_not_apply_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(sm.OptionError, match=message):
        written(tmp_path / "p", [[1]], **options)
    assert names(tmp_path) == []


def test_pair_with_too_many_sequences_for_megatron_gives_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begin_pairs("p", [], 2**31 - 1)
    with pytest.warns(UserWarning, match="2,147,483,648 sequences.*32 bits\nhint: .*shard_bytes"):
        begin_pairs("p", [], 2**31)


def test_file_of_tokens_does_not_replace_those_of_a_pair(tmp_path: Path) -> None:
    written(tmp_path / "p", [[1, 2], [3]], format="megatron")
    with pytest.raises(sm.OptionError, match="its index would be wrong"):
        written(tmp_path / "p.bin", [[7], [8]], format="bin", mode="overwrite")
    assert list(sm.Dataset(tmp_path / "p")) == [{"tokens": [1, 2]}, {"tokens": [3]}]


def test_merge_refuses_other_types_and_other_files(tmp_path: Path) -> None:
    write_megatron(tmp_path / "a", [[[1, 2]]])
    write_megatron(tmp_path / "b", [[[1, 2]]], "int32")
    write_megatron(tmp_path / "c", [[[1, 2]]], modes=[1])
    with pytest.raises(sm.FormatError, match=r"b\.bin' has tokens of int32.*a\.bin' uint16"):
        sm.merge(tmp_path / "p", [tmp_path / "a", tmp_path / "b.idx"])
    with pytest.raises(sm.FormatError, match=r"c\.bin' has the columns .*modes.*a\.bin' tokens"):
        sm.merge(tmp_path / "p", [tmp_path / "a", tmp_path / "c"])
    with pytest.raises(sm.PlanError, match="'.*/d' is not a pair"):
        sm.merge(tmp_path / "p", [tmp_path / "a", tmp_path / "d"])
    sm.merge(tmp_path / "p", [tmp_path / "a"])
    with pytest.raises(sm.OutputExistsError, match="hint: merge into another path, or remove"):
        sm.merge(tmp_path / "p", [tmp_path / "a"])
