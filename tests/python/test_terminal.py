"""Names and texts of data that would do something to a terminal are shown as what they are.

By every command.
"""

import contextlib
import io
import json
import tarfile
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill._terminal import escape
from shardmill.cli._commands import run

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
ZERO = "\u200b\u200c\u200d\u2060\ufeff\u00ad\U000e0041"
CONTROL = "".join(map(chr, [*range(1, 32), *range(0x7F, 0xA0)])) + "\u2028\u2029"
#: What ends a title, moves the cursor, forges a line.
SEQUENCES = [
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x9b2J",
    "a\rb",
    "x\nok",
    "\x08\x08",
    "\u202egnp.exe",
    "a\u200bb",
]

hostile = st.lists(
    st.one_of(
        st.sampled_from(list(BIDI + ZERO + CONTROL)),
        st.sampled_from(SEQUENCES),
        st.sampled_from("abé漢 .,"),
    ),
    min_size=1,
    max_size=6,
).map("".join)
#: No slash, and no more bytes than a file name has.
file_names = hostile.filter(lambda name: len(name.encode()) < 100 and not name.isprintable())


def assert_harmless(output: str, *, json_output: bool = False) -> None:
    for mark in output:
        is_hidden = unicodedata.category(mark) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        assert not is_hidden or mark in "\n\t", f"{mark!r} in {output!r}"


def said(*arguments: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    assert_harmless(out.getvalue())
    assert_harmless(err.getvalue())
    return code, out.getvalue(), err.getvalue()


@given(st.text(st.characters()))
def test_escaped_text_has_no_control_character_and_is_json(text: str) -> None:
    assert_harmless(escape(text))
    assert json.loads(
        escape(json.dumps(text, ensure_ascii=False), keep="\n\t")
    ) == text or "\\u" in json.dumps(text)
    assert escape("漢字 é, ok") == "漢字 é, ok"


def test_escaped_json_is_the_same_json() -> None:
    for mark in BIDI + ZERO + CONTROL + "\x00\ud800":
        assert json.loads(escape(json.dumps(mark, ensure_ascii=False))) == mark


def documents(directory: Path, name: str) -> None:
    """Shards whose member names, keys, ids, texts and columns are the name.

    A damaged one among them.
    """
    directory.mkdir()
    with tarfile.open(directory / f"{name}.tar", "w", format=tarfile.PAX_FORMAT) as archive:
        bodies = {
            f"{name}.json": json.dumps({"texts": [name], name: name, "images": [f"{name}.png"]}),
            f"{name}.2.json": "{broken",
            f"{name}.3.json": json.dumps({"id": name, "images": ["missing" + name]}),
        }
        for member, body in bodies.items():
            info = tarfile.TarInfo(member)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body.encode()))
    rows = [{"sample_id": name, "position": -1, "modality": "metadata", name: name}]
    rows.append({"sample_id": name, "position": 0, "modality": "text", "text_content": name})
    schema = pa.schema(
        [("sample_id", pa.string()), ("position", pa.int32()), ("modality", pa.string())]
    )
    for field in ("text_content", name):
        schema = schema.append(pa.field(field, pa.string()))
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, directory / f"{name}.parquet")
    (directory / f"cut{name}.parquet").write_bytes(
        (directory / f"{name}.parquet").read_bytes()[:-9]
    )


def tables(directory: Path, name: str) -> None:
    directory.mkdir()
    table = pa.table({name: [name, "x"], "number": [1, 2], "bytes": [name.encode(), b""]})
    pq.write_table(table.replace_schema_metadata({name: name}), directory / f"{name}.parquet")


def rounds(function: Callable[[Path, str], None]) -> Callable[[pytest.TempPathFactory], None]:
    """One directory for each name that is drawn."""

    def check(tmp_path_factory: pytest.TempPathFactory) -> None:
        @settings(max_examples=examples(8), deadline=None)
        @given(file_names)
        def with_name(name: str) -> None:
            function(tmp_path_factory.mktemp("hostile"), name)

        with_name()

    return check


def about_tables(directory: Path, name: str) -> None:
    tables(directory / "in", name)
    path = directory / "in" / f"{name}.parquet"
    _, out, _ = said("head", directory / "in")
    assert out.count("\n") <= 12, "no name makes a line of its own"
    code, out, _ = said("head", path, "--json")
    assert code == 0
    assert [json.loads(line)[name] for line in out.splitlines()] == [name, "x"]
    code, out, _ = said("explain", path, "--json")
    assert code == 0
    json.loads(out)
    said("explain", path)
    said("head", path, "--columns", name + "none")
    said("head", path, "--filter", f"{name} = 1")
    said("head", directory / "in" / (name + "none"))
    said("convert", path, directory / f"{name}.jsonl")
    said("convert", path, directory / f"{name}.mds", "--format", name)
    said("verify", directory / "in")
    said("inspect", directory / "in")
    said("repair-index", directory / "in")
    said("view", directory / (name + "none"), "--no-open")


def about_documents(directory: Path, name: str) -> None:
    documents(directory / "in", name)
    for command in ("inspect", "verify"):
        said(command, directory / "in", "--no-progress")
        said(command, *sorted((directory / "in").iterdir())[:1])
        _, out, _ = said(command, directory / "in", "--json")
        json.loads(out)
    for policy in ("warn", "error"):
        for kind in ("tar", "parquet"):
            source = directory / "in" / f"{name}.{kind}"
            options = (
                "--on-materialize-error",
                policy,
                "--report",
                directory / "report",
                "--mode",
                "overwrite",
            )
            said("curate", source, directory / f"out{name}", "--to", "parquet", *options)
    said(
        "curate", directory / "in" / f"cut{name}.parquet", directory / "out2", "--to", "webdataset"
    )
    said("curate", directory / "in", directory / "out3", "--to", "parquet")
    said(
        "curate",
        directory / "in" / f"{name}.tar",
        directory / "out4",
        "--to",
        "parquet",
        "--filter",
        f"{name} > 1",
    )


def about_the_rest(directory: Path, name: str) -> None:
    for group, command in (
        ("checkpoint", "inspect"),
        ("checkpoint", "verify"),
        ("checkpoint", "compact"),
    ):
        said(group, command, directory / name)
    said("cache", "info", "--dir", directory / name)
    said("cache", "clear", "--dir", directory / name)
    said(name)
    said("head", f"{name}://x/y")
    said("head", directory, f"--{name}")


test_no_command_over_tables_writes_control_characters = rounds(about_tables)
test_no_command_over_documents_writes_control_characters = rounds(about_documents)
test_no_other_command_writes_control_characters = rounds(about_the_rest)


def test_job_with_a_checkpoint_is_told_without_control_characters(tmp_path: Path) -> None:
    name = "\x1b[31m\u202ered\x9b\n"
    tables(tmp_path / name, name)
    from shardmill.curate import ParquetSink, Pipeline, TableSource

    source, sink = TableSource(tmp_path / name), ParquetSink(tmp_path / f"out{name}")
    Pipeline(source=source, sink=sink, checkpoint=tmp_path / f"state{name}").run(progress=False)
    code, out, _ = said("checkpoint", "inspect", tmp_path / f"state{name}")
    assert code == 0
    assert "\\u001b[31m" in out
    _, out, _ = said("checkpoint", "inspect", tmp_path / f"state{name}", "--json")
    assert name in json.loads(out)["output"]
    next((tmp_path / f"out{name}").glob("*.parquet")).unlink()
    code, out, _ = said("checkpoint", "verify", tmp_path / f"state{name}")
    assert code == 1
    assert "\\u001b[31m" in out


def test_what_no_command_foresees_is_escaped_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def surprise(*_: object, **__: object) -> None:
        raise KeyError("\x1b[2J\u202e")

    monkeypatch.setattr("shardmill.cli._head.open_dataset", surprise)
    code, _, err = said("head", tmp_path)
    assert code == 1
    assert "\\u001b[2J\\u202e" in err.replace("\\x1b", "\\u001b")


def parquet_with(name: str, path: Path) -> None:
    """A file whose footer names a column so.

    pyarrow writes none with NUL, so the bytes are changed.
    """
    stand_in = "Q" * len(name.encode())
    pq.write_table(pa.table({stand_in: [1], "b": [2]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(stand_in.encode(), name.encode()))


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv", "webdataset"])
def test_column_whose_name_holds_nul_is_refused_when_the_file_is_opened(
    tmp_path: Path, kind: str
) -> None:
    name = "na\0me"
    path = tmp_path / f"x.{'tar' if kind == 'webdataset' else kind}"
    if kind == "parquet":
        parquet_with(name, path)
    elif kind == "jsonl":
        path.write_text(json.dumps({name: 1}) + "\n")
    elif kind == "csv":
        path.write_bytes(b"na\0me,b\n1,2\n")
    else:
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
            info = tarfile.TarInfo("a.txt")
            info.pax_headers = {"path": "a.t\0xt"}
            info.size = 1
            archive.addfile(info, io.BytesIO(b"1"))
    try:
        columns = sm.Dataset(path).columns
    except sm.FormatError as error:
        assert_harmless(str(error))
    else:
        # Some formats cannot even have such a name; then there is none.
        assert kind in ("csv", "webdataset")
        assert not any("\0" in column for column in columns)


def test_file_of_documents_with_a_nul_in_a_name_is_quarantined(tmp_path: Path) -> None:
    from shardmill.curate import InterleavedParquetSource, ParquetSink, Pipeline, WebDatasetSource

    table = {
        "sample_id": ["a"],
        "position": pa.array([-1], pa.int32()),
        "modality": ["metadata"],
        "QQQ": ["x"],
    }
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.parquet"
    pq.write_table(pa.table(table), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"QQQ", b"Q\0Q"))
    source = InterleavedParquetSource(path)
    report = Pipeline(source=source, sink=ParquetSink(tmp_path / "out")).run(progress=False)
    assert ["NUL" in item["reason"] for item in report.quarantined] == [True]
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for member, body in (("a.json", {"k\0ey": 1}), ("b.json", {"texts": ["t"]})):
            text = json.dumps(body).encode()
            info = tarfile.TarInfo(member)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    source = WebDatasetSource(tmp_path / "a.tar")
    report = Pipeline(source=source, sink=ParquetSink(tmp_path / "out2")).run(progress=False)
    assert [(item["member"], "NUL" in item["reason"]) for item in report.quarantined] == [
        ("a.json", True)
    ]
    assert report.counts("output")["samples"] == 1


@pytest.mark.parametrize("format", ["parquet", "mds", "jsonl", "webdataset"])
def test_column_whose_name_holds_nul_is_not_written(tmp_path: Path, format: str) -> None:
    def write() -> None:
        with sm.Writer(tmp_path / "out", format=format) as writer:
            writer.write({"na\0me": 1 if format != "webdataset" else b"x", "__key__": "a"})

    with pytest.raises(sm.Error, match="NUL"):
        write()
