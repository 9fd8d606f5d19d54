"""Delimiters, quotes, encodings and compression of CSV, held against csv and pyarrow.

Also encodings of JSONL.
"""

from __future__ import annotations

import csv
import gzip
import json
import pickle
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest
import shardmill as sm
import zstandard
from breadth import covering, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.errors import CheckpointMismatchError
from shardmill.resume import Checkpoint

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"]
PACKERS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


TEXTS = st.text(
    st.characters(codec="cp1252", exclude_categories=["Cc"], include_characters="\r\n\t")
)


def option_of(encoding: str) -> Any:
    return "utf-8" if encoding == "utf-8-sig" else encoding.removesuffix("-le")


def converted(source: TableSource, out: Path, **options: Any) -> pa.Table:
    Pipeline(source=source, stages=[], sink=ParquetSink(out), **options).run(progress=False)
    return pa.table(sm.Dataset(out))


@covering(
    2,
    delimiter=[",", ";", "\t", "|", " ", "\x01"],
    quote=['"', "'", None],
    encoding=ENCODINGS,
    packer=[*PACKERS],
)
def test_csv_is_read_as_python_and_pyarrow_read_it(
    tmp_path: Path, delimiter: str, quote: str | None, encoding: str, packer: str
) -> None:
    text = "é" if quote is None else f"a{delimiter}b\r\n{quote}ü ,;'\""
    rows = [["id", "text", "half"], *([str(row), text, str(row / 2 + 0.25)] for row in range(2000))]
    plain, path = tmp_path / "plain", tmp_path / f"a.csv{packer}"
    with plain.open("w", encoding=encoding, newline="") as file:
        quoting = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL
        csv.writer(file, delimiter=delimiter, quotechar=quote, quoting=quoting).writerows(rows)
    path.write_bytes(PACKERS[packer](plain.read_bytes()))
    options = sm.TextOptions(delimiter=delimiter, quote=quote, encoding=option_of(encoding))
    dataset = sm.Dataset(path, text=options)
    parse = pc.ParseOptions(delimiter=delimiter, quote_char=quote or False, newlines_in_values=True)
    oracle = pc.read_csv(plain, pc.ReadOptions(encoding=encoding, block_size=1 << 24), parse)
    assert pa.table(dataset).equals(oracle)
    with plain.open(encoding=encoding, newline="") as file:
        assert list(csv.reader(file, delimiter=delimiter, quotechar=quote, quoting=quoting)) == rows
    assert list(pickle.loads(pickle.dumps(dataset)))[7] == {"id": 7, "text": text, "half": 3.75}
    assert converted(TableSource(path, text=options), tmp_path / "out").equals(oracle)


@settings(max_examples=examples(100), deadline=None)
@given(
    rows=st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1),
    marks=st.permutations([",", '"', ";", "'", "a", " "]),
    encoding=st.sampled_from(ENCODINGS),
)
def test_any_texts_that_the_csv_module_writes_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], marks: list[str], encoding: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open(
        "w", encoding=encoding if encoding != "latin-1" else "cp1252", newline=""
    ) as file:
        writer = csv.writer(file, delimiter=marks[0], quotechar=marks[1], quoting=csv.QUOTE_ALL)
        writer.writerows([["x", "y"], *rows])
    used = option_of(encoding if encoding != "latin-1" else "cp1252")
    text = sm.TextOptions(delimiter=marks[0], quote=marks[1], encoding=used)
    strings = pa.schema([("x", pa.string()), ("y", pa.string())])
    assert [list(row.values()) for row in sm.Dataset(path, text=text, schema=strings)] == rows


@covering(1, encoding=ENCODINGS, name=["a.jsonl", "a.json", "a.jsonl.gz"])
def test_json_is_read_in_each_encoding(tmp_path: Path, encoding: str, name: str) -> None:
    rows = [{"x": row, "ÿ": "é" * (row % 3)} for row in range(3000)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    content = ("\n".join(lines) if "jsonl" in name else f"[{','.join(lines)}]").encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    text = sm.TextOptions(encoding=option_of(encoding))
    assert list(sm.Dataset(tmp_path / name, text=text)) == rows
    loader = sm.Loader(
        sm.Dataset(tmp_path / name, text=text), batch_size=64, shuffle=True, output="rows"
    )
    assert sorted((row for batch in loader for row in batch), key=lambda row: row["x"]) == rows


@pytest.mark.parametrize("packer", [".gz", ".zst"])
def test_packed_csv_of_many_blocks_is_the_plain_file(tmp_path: Path, packer: str) -> None:
    numbers = random.Random(1)
    lines = [f"{row},{numbers.randbytes(300).hex()}\n" for row in range(20_000)]
    content = ("id,text\n" + "".join(lines) + "20000,late\n").encode()
    (tmp_path / "a.csv").write_bytes(content)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"a.csv{packer}").write_bytes(PACKERS[packer](content))
    plain, packed = sm.Dataset(tmp_path / "a.csv"), sm.Dataset(tmp_path / "in")
    assert packed.format == "csv"
    assert packed.take([0, 17_500, 20_000]) == plain.take([0, 17_500, 20_000])
    assert pa.table(packed).equals(pa.table(plain))


def test_damage_of_packed_csv_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 5000)
    path = tmp_path / "a.csv.gz"
    for content, reason in (
        (whole[:-9], "cannot be decompressed after"),
        (gzip.compress(whole), "look like bytes compressed with gzip"),
        (gzip.compress(b"PAR1" + bytes(600)), "look like a Parquet file"),
        (b"BZh91AY&SY" + bytes(99), "compressed with bzip2, which cannot be read"),
    ):
        path.write_bytes(content)
        with pytest.raises(sm.FormatError, match=rf"{re.escape(str(path))}.*{reason}"):
            sm.Dataset(path)
        (tmp_path / "b.csv").write_text("a,b\n1,2\n")
        dataset = sm.Dataset([path, tmp_path / "b.csv"], errors=sm.ErrorPolicy(files="skip"))
        assert ([file for file, _ in dataset.skipped], list(dataset)) == (
            [str(path)],
            [{"a": 1, "b": 2}],
        )


@pytest.mark.parametrize(
    ("encoding", "content", "offset"),
    [
        ("cp1252", b"a\n" + b"x\n" * 90_000 + b"\x81\n", 180_002),
        ("utf-16", "a\nb\n".encode("utf-16-le") + b"\x00\xdc\n\0", 8),
        ("utf-16", "a\nb\n".encode("utf-16") + b"\n", 10),
    ],
)
@pytest.mark.parametrize("packer", [*PACKERS])
def test_bytes_that_are_not_text_are_an_error_with_file_and_offset(
    tmp_path: Path, encoding: Any, content: bytes, offset: int, packer: str
) -> None:
    with pytest.raises(UnicodeDecodeError):
        content.decode(encoding)
    path = tmp_path / f"a.csv{packer}"
    path.write_bytes(PACKERS[packer](content))
    reason = (
        rf"The byte at offset {offset} of `{re.escape(str(path))}` is not valid {encoding}\n"
        r"hint: .*encoding="
    )
    with pytest.raises(sm.FormatError, match=reason):
        sm.Dataset(path, text=sm.TextOptions(encoding=encoding))


def test_text_of_an_encoding_that_is_not_named_is_an_error_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("a\né\n".encode("latin-1"))
    with pytest.raises(
        sm.FormatError,
        match=r"Line 2 of .*column `a` is not valid UTF-8\nhint: .*TextOptions\(encoding=",
    ):
        list(sm.Dataset(path))
    path.write_bytes("a\né\n".encode("utf-16"))
    with pytest.raises(
        sm.FormatError, match=r"look like UTF-16 text\nhint: .*TextOptions\(encoding=\"utf-16\"\)"
    ):
        sm.Dataset(path)


def test_files_of_any_name_are_read_by_the_options(tmp_path: Path) -> None:
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(b"a\tb\n1\t'\n"))
    dataset = sm.Dataset(tmp_path, format="csv", text=sm.TextOptions(delimiter="\t"))
    assert list(dataset) == [{"a": 1, "b": "'"}]


BAD: dict[str, tuple[Any, str]] = {
    "long_delimiter": (
        {"delimiter": "||"},
        r"delimiter must be one ASCII character, and no line end, not '\|\|'",
    ),
    "no_delimiter": (
        {"delimiter": None},
        "delimiter must be one ASCII character, and no line end, not None",
    ),
    "wide_delimiter": (
        {"delimiter": "é"},
        "delimiter must be one ASCII character, and no line end, not 'é'",
    ),
    "line_end": ({"quote": "\n"}, r"quote must be one ASCII character, and no line end, not '\\n'"),
    "empty_quote": ({"quote": ""}, "quote must be one ASCII character, and no line end, not ''"),
    "same": ({"delimiter": '"'}, "TextOptions.delimiter and TextOptions.quote are both '\"'"),
    "encoding": (
        {"encoding": "utf-7"},
        "encoding must be one of 'utf-8', 'utf-16', 'latin-1', 'cp1252', not 'utf-7'",
    ),
    "nan": ({"nan": "null"}, "nan must be one of 'float', 'raise', not 'null'"),
}


@pytest.mark.parametrize("case", BAD)
def test_options_without_a_meaning_are_refused(case: str) -> None:
    options, message = BAD[case]
    with pytest.raises(sm.OptionError, match=message):
        sm.TextOptions(**options)


def test_options_that_do_not_concern_the_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "a.csv").write_text("a\n1\n")
    with sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write({"a": 1})
    unused: list[tuple[str, Any]] = [
        ("a.jsonl", {"delimiter": ";"}),
        ("a.jsonl", {"quote": None}),
        ("a.csv", {"nan": "raise"}),
        ("a.parquet", {"encoding": "latin-1"}),
    ]
    for name, options in unused:
        text, (option,) = sm.TextOptions(**options), options
        with pytest.raises(
            sm.OptionError,
            match=rf"`{option}` of the TextOptions does not concern \w+ files\nhint: ",
        ):
            sm.Dataset(tmp_path / name, text=text)
        with pytest.raises(
            sm.OptionError, match=rf"`{option}` of the TextOptions does not concern"
        ):
            converted(TableSource(tmp_path / name, text=text), tmp_path / "out")
        assert list(sm.Dataset(tmp_path / name, text=sm.TextOptions())) == [{"a": 1}]
    with pytest.raises(sm.OptionError, match="text must be a TextOptions, not ';'\nhint: "):
        sm.Dataset(tmp_path / "a.csv", text=";")  # pyright: ignore[reportArgumentType]
    with pytest.raises(sm.OptionError, match="text must be a TextOptions"):
        TableSource(tmp_path / "a.csv", text={})  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        TypeError, match=r"hint: use sm.Dataset\(…, text=sm.TextOptions\(delimiter=…\)\)"
    ):
        sm.Dataset(tmp_path / "a.csv", sep=";")  # pyright: ignore[reportCallIssue]


def test_state_of_a_loader_belongs_to_the_options(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b,c\n" + "1;2,3\n" * 100)
    for others in (sm.TextOptions(delimiter=";"), sm.TextOptions(quote=None)):
        loader = sm.Loader(sm.Dataset(tmp_path / "a.csv"), batch_size=10, output="rows")
        next(iter(loader))
        state = loader.state_dict()
        other = sm.Loader(sm.Dataset(tmp_path / "a.csv", text=others), batch_size=10, output="rows")
        with pytest.raises(CheckpointMismatchError):
            other.load_state_dict(state)
        loader.load_state_dict(state)


def test_checkpoint_belongs_to_the_options(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    state, out = Checkpoint(tmp_path / "state"), tmp_path / "out"
    converted(TableSource(tmp_path / "a.csv"), out, checkpoint=state)
    converted(TableSource(tmp_path / "a.csv", text=sm.TextOptions()), out, checkpoint=state)
    with pytest.raises(CheckpointMismatchError, match="source"):
        converted(
            TableSource(tmp_path / "a.csv", text=sm.TextOptions(delimiter=";")),
            out,
            checkpoint=state,
        )
