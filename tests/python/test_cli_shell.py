"""The command line, apart from the work of its commands: completion, help, quiet, JSON."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from promptness import HANGS_S
from shard_files import source_sample, write_tar
from shardmill.cli._commands import run, shardmill

SHELLS = ("bash", "zsh", "fish")


def completions(
    words: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """The answer to a shell for a line whose last word is to be completed."""
    given = words.split(" ")
    monkeypatch.setenv("_SHARDMILL_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(given) - 1))
    assert run(given[1:]) == 0
    shown = capfd.readouterr()
    assert shown.err == ""
    return shown.out.splitlines()


def test_completion_scripts_are_printed_for_every_shell(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for shell in SHELLS:
        monkeypatch.setenv("_SHARDMILL_COMPLETE", f"{shell}_source")
        assert run([]) == 0
        assert f"_SHARDMILL_COMPLETE={shell}_complete" in capfd.readouterr().out
        if (program := shutil.which(shell)) is not None:
            monkeypatch.setenv("_SHARDMILL_COMPLETE", f"{shell}_source")
            assert run([]) == 0
            script = capfd.readouterr().out
            subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=HANGS_S)
    monkeypatch.setenv("_SHARDMILL_COMPLETE", "tcsh_source")
    assert run([]) == 1


def test_commands_options_choices_and_files_are_completed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {
        "shardmill cu": ["plain,curate"],
        "shardmill checkpoint rep": ["plain,repair"],
        "shardmill help checkpoint rep": ["plain,repair"],
        "shardmill help curate x": [""],
        "shardmill curate --mode re": ["plain,resume"],
        "shardmill convert --ren": ["plain,--rename"],
        "shardmill inspect dat": ["file,dat"],
        "shardmill curate a --checkpoint st": ["dir,st"],
        "shardmill --vers": ["plain,--version"],
        "shardmill --version cu": ["plain,curate"],
    }
    found = {words: completions(words, capfd, monkeypatch) for words in expected}
    assert found == expected


def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    command = tmp_path / "shardmill"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m shardmill "$@"\n')
    command.chmod(0o755)
    code = (
        'eval "$(_SHARDMILL_COMPLETE=bash_source shardmill)"; '
        "COMP_WORDS=(shardmill con); COMP_CWORD=1; "
    )
    code += '_shardmill_completion shardmill; echo "${COMPREPLY[@]}"'
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shown = subprocess.run(
        [bash, "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=HANGS_S,
    )
    # Outside of a completion, bash reports that there is no option to change.
    assert shown.stdout == "convert\n", shown.stderr


def test_help_shows_what_the_option_shows(capsys: pytest.CaptureFixture[str]) -> None:
    for names in ([], ["curate"], ["checkpoint"], ["checkpoint", "repair"]):
        assert run(["help", *names]) == 0
        helped = capsys.readouterr().out
        assert run([*names, "--help"]) == 0
        assert helped == capsys.readouterr().out
    for names, told in (
        (["cuarte"], "did you mean `curate`?"),
        (["curate", "x"], "has no command 'x'"),
    ):
        assert run(["help", *names]) == 2
        assert told in capsys.readouterr().err


def commands(
    command: click.Command = shardmill, path: tuple[str, ...] = ()
) -> dict[tuple[str, ...], click.Command]:
    """All commands by their names, groups excluded."""
    if not isinstance(command, click.Group):
        return {path: command}
    context, found = click.Context(command), {}
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        found |= commands(below, (*path, name))
    return found


def test_every_command_has_quiet_once() -> None:
    for path, command in commands().items():
        flags = [flag for option in command.params for flag in option.opts]
        assert flags.count("-q") == flags.count("--quiet") == 1, path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"text": ["a", "b"], "n": [1, 2]}), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_quiet_keeps_results_and_errors_only(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(tmp_path / "in.tar", source_sample("a", words=3))
    (tmp_path / "cache").mkdir()
    calls = {
        ("head", table): True,
        ("inspect", table): True,
        ("verify", table): False,
        ("convert", table, tmp_path / "out.jsonl"): False,
        (
            "curate",
            tmp_path / "in.tar",
            tmp_path / "out",
            "--to",
            "parquet",
            "--mode",
            "resume",
        ): False,
        ("cache", "info", "--dir", tmp_path / "cache"): False,
    }
    for call, has_result in calls.items():
        for arguments in (
            [*map(str, call), "-q"],
            ["--quiet", *map(str, call), *(["--mode", "overwrite"] * ("out" in str(call)))],
        ):
            assert run(arguments) == 0, arguments
            shown = capsys.readouterr()
            assert (shown.err, bool(shown.out)) == ("", has_result), arguments
    assert run(["-q", "head", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_every_printed_table_is_also_json(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(tmp_path / "in.tar", source_sample("a", words=3))
    (tmp_path / "cache").mkdir()
    found = {}
    for name, call in {
        "cache": ("cache", "info", "--dir", tmp_path / "cache"),
        "curate": ("curate", tmp_path / "in.tar", tmp_path / "out", "--to", "parquet"),
        "explain": ("explain", table),
        "head": ("head", table),
        "inspect": ("inspect", table),
        "verify": ("verify", table),
    }.items():
        assert run([*map(str, call), "--json"]) == 0
        lines = capsys.readouterr().out
        found[name] = (
            [json.loads(line) for line in lines.splitlines()]
            if name == "head"
            else json.loads(lines)
        )
    assert found["cache"] == []
    assert found["curate"]["output_num_samples"] == 1
    assert found["explain"]["rows_of_epoch"] == 2
    assert found["head"] == [{"text": "a", "n": 1}, {"text": "b", "n": 2}]
    assert found["inspect"]["files"][0]["samples"] == found["verify"][0]["samples"] == 2
