"""``shardmill tokenize`` and ``shardmill head --tokenizer`` as a user runs them."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import command
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["hello world", "", "world hello hello"]


def shardmill(*arguments: object, cache: Path) -> subprocess.CompletedProcess[str]:
    return command.shardmill(*arguments, SHARDMILL_CACHE_DIR=str(cache))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    words = {"[UNK]": 0, "hello": 1, "world": 2, "<end>": 3}
    oracle = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    oracle.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    oracle.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text(
        "".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(TEXTS))
    )
    return path


def test_tokens_are_written_in_row_order_with_the_columns_to_keep(
    tmp_path: Path, model: Path, texts: Path
) -> None:
    out = tmp_path / "out.parquet"
    options = ("--tokenizer", model, "--eos", "<end>", "--labels", "all", "--keep", "id")
    result = shardmill("tokenize", texts, out, *options, cache=tmp_path)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert result.stderr.startswith("7 tokens of 3 rows written to 1 file in ")
    assert pq.read_table(out).to_pydict() == {
        "id": [0, 1, 2],
        "tokens": [[1, 2, 3], [], [2, 1, 1, 3]],
        "labels": [[-100, 2, 3], [], [-100, 1, 1, 3]],
    }
    again = shardmill("tokenize", texts, out, *options, cache=tmp_path)
    assert again.returncode == 1
    assert "--mode overwrite replaces it" in again.stderr


def test_counts_are_shown_and_kept(tmp_path: Path, model: Path, texts: Path) -> None:
    result = shardmill(
        "tokenize",
        texts,
        "--tokenizer",
        model,
        "--count-only",
        "--counts",
        tmp_path / "counts",
        cache=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["rows", "3"],
        ["tokens", "5"],
        ["mean", "1.7"],
        ["longest", "3"],
    ]
    [kept] = (tmp_path / "counts").rglob("counts-*.parquet")
    assert pq.read_table(kept)["counts"].to_pylist() == [[2, 0, 3]]
    data = sm.Dataset(
        texts, tokenize=sm.Tokenize("text", tokenizer=model, counts=tmp_path / "counts")
    )
    counts = data.token_counts()
    assert (counts.rows, counts.total, counts.longest, counts.mean) == (3, 5, 3, 5 / 3)
    assert (
        sm.Dataset(texts, filter="id > 0", tokenize=sm.Tokenize("text", tokenizer=model))
        .token_counts()
        .total
        == 3
    )
    with pytest.raises(ValueError, match="the data set has no tokens to count"):
        sm.Dataset(texts).token_counts()


def test_template_gets_the_variables_of_the_command(tmp_path: Path, model: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{% for message in messages %}{{ message.content }} {{ word }}{% endfor %}")
    chats = tmp_path / "chats.jsonl"
    chats.write_text(json.dumps({"chat": [{"role": "user", "content": "hello"}]}) + "\n")
    options = ("--tokenizer", model, "--messages", "chat", "--chat-template", template)
    result = shardmill(
        "tokenize",
        chats,
        tmp_path / "out.parquet",
        *options,
        "--template-kwargs",
        '{"word": "world"}',
        cache=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert pq.read_table(tmp_path / "out.parquet")["tokens"].to_pylist() == [[1, 2]]


def test_tiktoken_file_needs_its_pattern_and_has_the_special_tokens_of_the_command(
    tmp_path: Path, texts: Path
) -> None:
    ranks = tmp_path / "bytes.tiktoken"
    ranks.write_text(
        "".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256))
    )
    out = tmp_path / "out.parquet"
    options = ("--tokenizer", ranks, "--special-tokens", '{"<end>": 300}', "--eos", "<end>")
    result = shardmill("tokenize", texts, out, *options, "--pattern", "gpt2", cache=tmp_path)
    assert result.returncode == 0, result.stderr
    expected = [[*text.encode(), 300] if text else [] for text in TEXTS]
    assert pq.read_table(out)["tokens"].to_pylist() == expected
    assert "pattern" in shardmill("tokenize", texts, out, *options, cache=tmp_path).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass SRC and DST, or --count-only"),
        (["out", "--eos", "<eos>"], "is not a token"),
        (["out", "--messages", "text"], "has no chat template"),
        (["out", "--column", "body"], "body"),
        (["out", "--template-kwargs", "{"], "is not JSON"),
        (["out", "--template-kwargs", "[1]"], "is not a JSON object"),
        (
            ["out", "--template-kwargs", '{"a": 1}'],
            "template_kwargs is for messages and completion",
        ),
        (
            ["out", "--output", "y", "--labels", "all", "--labels-output", "y"],
            "must differ, and both are 'y'",
        ),
        (["out", "--assistant-spans", "prefix"], "assistant_spans is for messages"),
        (["out", "--pattern", "gpt2"], "pattern"),
        (
            ["out", "--keep", "id,tokens"],
            "--keep names column 'tokens', which is the name of a new column\n"
            "hint: rename it with --output",
        ),
        (["out", "--keep", "id,id"], "--keep names column 'id' twice"),
        (["out", "--labels", "all", "--keep", "labels"], "rename it with --labels-output"),
    ],
)
def test_wrong_use_is_an_error_and_writes_nothing(
    tmp_path: Path, model: Path, texts: Path, arguments: list[str], message: str
) -> None:
    result = shardmill("tokenize", texts, *arguments, "--tokenizer", model, cache=tmp_path)
    assert result.returncode in (1, 2)
    assert message in result.stderr
    assert not Path("out").exists()


def test_output_takes_another_name_where_the_source_has_tokens(tmp_path: Path, model: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,tokens\nhello world,9\n")
    options = (
        "--tokenizer",
        model,
        "--keep",
        "tokens",
        "--output",
        "ids",
        "--labels",
        "all",
        "--labels-output",
        "y",
    )
    out = tmp_path / "out.parquet"
    result = shardmill(
        "tokenize", tmp_path / "rows.csv", out, *options, "--format", "csv", cache=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("2 tokens of 1 row written to 1 file in ")
    assert pq.read_table(out).to_pydict() == {"tokens": [9], "ids": [[1, 2]], "y": [[-100, 2]]}


@pytest.mark.parametrize("out", ["corpus", "corpus/texts.jsonl"])
def test_input_is_not_replaced_by_its_tokens(
    tmp_path: Path, model: Path, texts: Path, out: str
) -> None:
    (tmp_path / "corpus").mkdir()
    texts.rename(tmp_path / "corpus" / texts.name)
    before = (tmp_path / "corpus" / texts.name).read_bytes()
    options = ("--tokenizer", model, "--mode", "overwrite")
    result = shardmill("tokenize", tmp_path / "corpus", tmp_path / out, *options, cache=tmp_path)
    assert result.returncode == 2
    assert "contains the input" in result.stderr
    assert [path.read_bytes() for path in (tmp_path / "corpus").iterdir()] == [before]


def test_tokens_do_not_go_into_the_directory_of_their_texts(
    tmp_path: Path, model: Path, texts: Path
) -> None:
    (tmp_path / "corpus").mkdir()
    texts.rename(tmp_path / "corpus" / texts.name)
    result = shardmill(
        "tokenize",
        tmp_path / "corpus",
        tmp_path / "corpus/tokens",
        "--tokenizer",
        model,
        cache=tmp_path,
    )
    assert result.returncode == 2
    assert "is inside the input" in result.stderr
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == [texts.name]


def test_head_shows_ids_as_text(tmp_path: Path, model: Path) -> None:
    rows = pa.table({"tokens": [[1, 2], [3]], "labels": [[-100, 2], [-100]], "n": [1, 2]})
    pq.write_table(rows, tmp_path / "tokens.parquet")
    result = shardmill(
        "head", tmp_path / "tokens.parquet", "--tokenizer", model, "--json", cache=tmp_path
    )
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"tokens": "hello world", "labels": "world", "n": 1},
        {"tokens": "<end>", "labels": "", "n": 2},
    ]


def test_head_leaves_other_lists_and_unknown_ids_as_numbers(tmp_path: Path, model: Path) -> None:
    rows = pa.table({"input_ids": [[1, 2], [1, 10**9], [-1]], "box": [[1, 2], [3, 4], [5, 6]]})
    pq.write_table(rows, tmp_path / "tokens.parquet")
    result = shardmill(
        "head", tmp_path / "tokens.parquet", "--tokenizer", model, "--json", cache=tmp_path
    )
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"input_ids": "hello world", "box": [1, 2]},
        {"input_ids": [1, 10**9], "box": [3, 4]},
        {"input_ids": [-1], "box": [5, 6]},
    ]


def test_counts_that_cannot_be_kept_are_a_warning_and_not_said_to_be_stored(
    tmp_path: Path, model: Path, texts: Path
) -> None:
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / "counts"
    result = shardmill(
        "tokenize",
        texts,
        "--tokenizer",
        model,
        "--count-only",
        "--counts",
        directory,
        cache=tmp_path,
    )
    assert (result.returncode, result.stdout.split()[:4]) == (0, ["rows", "3", "tokens", "5"])
    warning, hint = result.stderr.splitlines()
    assert warning.startswith(f"warning: token counts cannot be kept in {directory}")
    assert hint == "hint: set --counts, or XDG_CACHE_HOME, to a directory that can be written"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--column", "text,id"], "hint: pass --separator the text between them"),
        (["--messages", "text"], "hint: set --chat-template to"),
        (["--labels", "assistant"], "--labels assistant is for messages"),
        (["--column", "maybe"], "hint: --nulls fill makes it a row without tokens"),
    ],
)
def test_errors_name_options_as_the_command_line_does(
    tmp_path: Path, model: Path, options: list[str], told: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"text": "hello", "id": "1", "maybe": null}\n'
        '{"text": "hello", "id": "2", "maybe": "world"}\n'
    )
    result = shardmill(
        "tokenize", path, tmp_path / "out", "--tokenizer", model, *options, cache=tmp_path
    )
    assert result.returncode in (1, 2)
    assert told in result.stderr


def test_texts_of_another_name_than_text_are_named_by_an_option(
    tmp_path: Path, model: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"body": "hello"}\n')
    arguments = ("tokenize", path, "--tokenizer", model, "--count-only")
    result = shardmill(*arguments, cache=tmp_path)
    assert result.returncode == 1
    assert "the data has `body`\nhint: --column names the column of texts" in result.stderr
    assert shardmill(*arguments, "--column", "body", cache=tmp_path).returncode == 0
