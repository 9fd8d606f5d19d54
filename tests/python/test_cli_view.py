"""``shardmill view`` with the options of tokens and packs, as a user runs it."""

import json
import subprocess
import sys
from urllib.request import urlopen

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from byte_tokenizer import END, TEMPLATE, write_tokenizer
from interleaved_documents import picture, write_documents, write_model
from promptness import HANGS_S
from shardmill.cli._commands import run
from shardmill.view import ViewServer
from token_page import Shown

pytestmark = pytest.mark.usefixtures("counts_below")


def written(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def view(*arguments):
    command = [sys.executable, "-m", "shardmill", "view", *map(str, arguments), "--no-open"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def shown_by(*arguments):
    """The first page of a command, as a program gets it."""
    with view(*arguments) as process:
        try:
            address = process.stdout.readline().strip()
            assert address, process.stderr.read()
            return urlopen(f"{address}view", timeout=HANGS_S).read().decode()
        finally:
            process.kill()


def test_command_shows_tokens_of_texts_of_chats_and_of_files(tmp_path):
    model = tmp_path / "model"
    write_tokenizer(model, template=TEMPLATE)
    texts = written(tmp_path / "texts.parquet", text=["ab"], body=["cd"])
    assert [text for text, *_ in Shown(shown_by(texts, "--tokenizer", model)).tokens] == ["a", "b"]
    shown = shown_by(texts, "--tokenizer", model, "--column", "body", "--eos", END, "--pack", "8")
    assert [text for text, *_ in Shown(shown).tokens] == ["c", "d", END]
    assert "1 pack of 8 tokens by concat" in shown
    chats = tmp_path / "chats.jsonl"
    chats.write_text(json.dumps({"messages": [{"role": "assistant", "content": "x"}]}) + "\n")
    (tmp_path / "template.jinja").write_text(TEMPLATE)
    options = (
        "--messages",
        "messages",
        "--chat-template",
        tmp_path / "template.jinja",
        "--labels",
        "assistant",
    )
    labelled = [
        text
        for text, classes, _ in Shown(shown_by(chats, "--tokenizer", model, *options)).tokens
        if "labelled" in classes
    ]
    assert labelled == ["x", END]
    stored = written(tmp_path / "stored.parquet", text=["no"], input_ids=[[104, 105]])
    shown = shown_by(stored, "--tokenizer", model, "--pack", "4", "--strategy", "best_fit")
    assert [text for text, *_ in Shown(shown).tokens] == ["h", "i"] and "by best_fit" in shown


def test_command_shows_packs_of_documents_with_images(tmp_path):
    model = write_model(tmp_path / "model")
    path = write_documents(tmp_path / "data", [["ab", picture(28, 56), "c"]])
    shown = shown_by(path, "--model", model, "--eos", END, "--pack", "16")
    assert [text for text, *_ in Shown(shown).tokens][-2:] == ["c", END]
    assert "1 pack of 16 tokens" in shown and "1 image" in shown
    labelled = shown_by(path, "--model", model, "--pack", "16", "--labels", "completion")
    assert [text for text, kinds, _ in Shown(labelled).tokens if "labelled" in kinds][-1] == "c"
    labelled = shown_by(path, "--model", model, "--pack", "16", "--labels", "text")
    assert [text for text, kinds, _ in Shown(labelled).tokens if "labelled" in kinds] == ["b", "c"]


def test_command_draws_the_costs_of_steps(tmp_path):
    model, config = tmp_path / "model", {"model_type": "gpt2", "n_layer": 1, "n_head": 1}
    write_tokenizer(model)
    config |= {"n_embd": 8, "vocab_size": 300, "n_positions": 64}
    (model / "config.json").write_text(json.dumps(config))
    stored = written(tmp_path / "stored.parquet", input_ids=[[104, 105], [104]] * 8)
    ranks = ("--pack", "2", "--world-size", "2", "--per-step", "4", "--cost", model)
    shown = shown_by(stored, "--tokenizer", model, *ranks)
    assert shown.count("<title>step ") == 2 * 6
    assert "with the balance: largest cost of 2 ranks over the mean" in shown


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--labels", "all"], "--labels requires --tokenizer"),
        (["--pack", "8"], "--pack requires --tokenizer"),
        (["--column", "text"], "--column requires --tokenizer"),
        (["--tokenizer", "{model}", "--cost", "{model}"], "--cost requires --pack"),
        (["--tokenizer", "{model}", "--world-size", "2"], "--world-size requires --cost"),
        (
            ["--tokenizer", "{model}", "--pack", "8", "--cost", "{model}", "--per-step", "4"],
            "--cost compares ranks, and --world-size is 1",
        ),
        (["--tokenizer", "{model}", "--strategy", "concat"], "--strategy requires --pack"),
        (
            ["--tokenizer", "{model}", "--eos", "<eos>"],
            "--eos is for texts, and the files have tokens in column 'tokens'",
        ),
        (["--tokenizer", "{model}", "--column", "body"], "body"),
        (["--tokenizer", "{model}", "--messages", "text"], "has no chat template"),
        (["--tokenizer", "{model}/nothing"], "nothing"),
        (["--model", "{model}"], "--model requires --pack"),
        (["--parts", "text"], "--parts requires --model"),
        (["--tokenizer", "{model}", "--labels", "text"], "--labels text requires --model"),
        (["--model", "{model}/nothing", "--pack", "8"], "There is no directory"),
        (["--model", "{model}", "--pack", "8", "--column", "text"], "cannot be used with --model"),
        (["--model", "{model}", "--pack", "8"], "preprocessor_config.json"),
    ],
    ids=str,
)
def test_wrong_use_of_the_command_is_an_error(tmp_path, monkeypatch, capsys, arguments, message):
    # A command that finds nothing wrong would serve forever.
    monkeypatch.setattr(ViewServer, "serve_forever", lambda *_args, **_options: None)
    write_tokenizer(tmp_path / "model")
    path = written(tmp_path / "x.parquet", text=["a"], tokens=[[1]])
    given = [argument.format(model=tmp_path / "model") for argument in arguments]
    assert run(["view", str(path), *given, "--no-open"]) in (1, 2)
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_directory_without_data_files_is_told_on_the_terminal(tmp_path):
    with view(tmp_path) as process:
        address = process.stdout.readline()
        process.kill()
        told = process.stderr.read()
    assert address.startswith("http://")
    assert f"there are no data files at {tmp_path}\n" in told
