"""Messages for Python become messages for the command line.

Parameters are named as options, where the command has them.
"""

import click
import pytest
import shardmill as sm
from shardmill.cli._commands import run
from shardmill.cli._options import with_options


@click.command()
@click.option("--mode")
@click.option("--column", "text_columns")
@click.option("--ignore-zeros", is_flag=True)
@click.option("--special-tokens")
@click.option("--per-image-field", multiple=True)
@click.option("--max-errors")
@click.option("--columns")
@click.option("--threads")
@click.option("--on-materialize-error")
def command() -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "mode=\"overwrite\" empties it, mode='resume' keeps it",
            "--mode overwrite empties it, --mode resume keeps it",
        ),
        ("set mode= to another word", "set --mode to another word"),
        ("text_columns=… or column=…", "--column … or --column …"),
        (
            'columns=["a", "b"] selects two, columns=[…] some',
            "--columns a,b selects two, --columns … some",
        ),
        ("ignore_zeros=True of sm.Dataset (--ignore-zeros) reads on", "--ignore-zeros reads on"),
        ('special_tokens={"<end>": 1} has one', "--special-tokens '{\"<end>\": 1}' has one"),
        ("per_image_fields=… names lists", "--per-image-field … names lists"),
        ("failed\nhint: raise max_errors, or look", "failed\nhint: raise --max-errors, or look"),
        (
            'x\nhint: on_materialize_error="warn", "drop_row" or "drop_sample" continues',
            "x\nhint: --on-materialize-error warn, drop_row or drop_sample continues",
        ),
        # What the command does not have, calls, names of the data and paths stay.
        ('format="csv" and schema=', 'format="csv" and schema='),
        ("use sm.Runtime(threads=2)", "use sm.Runtime(threads=2)"),
        (
            "no column `max_errors`\nhint: did you mean `max_errors`?",
            "no column `max_errors`\nhint: did you mean `max_errors`?",
        ),
        ("column max_errors is null", "column max_errors is null"),
        ("No file at `mode=a/mode=b`", "No file at `mode=a/mode=b`"),
        ("No file at `/data/mode=a/b`", "No file at `/data/mode=a/b`"),
    ],
)
def test_parameter_is_named_as_the_option_of_the_command(message: str, shown: str) -> None:
    assert with_options(message, command) == shown


def test_hint_is_for_the_command_line_in_a_command_and_for_python_in_python(
    tmp_path, capsys
) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x\n1\n")
    (tmp_path / "c.jsonl").write_text('{"x": 1}\n')
    assert run(["head", str(tmp_path)]) == 1
    assert "hint: --format csv reads these files only" in capsys.readouterr().err
    with pytest.raises(sm.Error, match='hint: format="csv" reads these files only'):
        sm.Dataset(tmp_path)


def test_index_of_mds_shards_may_be_named_itself(tmp_path, capsys, monkeypatch) -> None:
    with sm.Writer(tmp_path / "out", format="mds", columns={"x": "int"}) as writer:
        writer.write_rows([{"x": 1}, {"x": 2}])
    index = tmp_path / "out" / "index.json"
    expected = index.read_bytes()
    monkeypatch.chdir(tmp_path / "out")
    for path in (index, "index.json", index.parent):
        index.unlink()
        assert run(["repair-index", str(path)]) == 0
        assert capsys.readouterr().err == "1 shard, 2 samples\n"
        assert index.read_bytes() == expected
