"""The reference pages agree with the code.

Formats by reading files of other writers, options and variables by their names.
"""

import inspect
import io
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.write._formats import WrittenFormat

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"
FORMATS = (REFERENCE / "formats.md").read_text(encoding="utf-8")
OPTIONS = (REFERENCE / "options.md").read_text(encoding="utf-8")
TABLE = pa.table({"x": [1, 2, 3], "text": ["a", "b", None]})

sys.path.insert(0, str(ROOT / "docs/site"))
import options


def row_of(format):
    (row,) = [line for line in FORMATS.splitlines() if line.startswith(f"| `{format}`")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def extensions_of(format):
    """Every extension that the first table gives, with what may follow it."""
    cell = row_of(format)[1]
    head, _, tail = cell.partition("also with")
    plain = re.findall(r"`(\.[\w.]+)`", head)
    added = re.findall(r"`([.-][\w.-]+)`", tail)
    return [*plain, *(one + more for one in plain for more in added)]


def read_back(path):
    return pa.table(sm.Dataset(path))


def plain_file(format, path):
    """Write a file of the format with another library.

    Without one, with our writer, which is compared with theirs elsewhere.
    """
    match format:
        case "parquet":
            pq.write_table(TABLE, path)
        case "orc":
            po.write_table(TABLE, path)
        case "csv":
            pc.write_csv(TABLE, path)
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()))
        case "webdataset":
            with tarfile.open(path, "w") as tar:
                for key in "abc":
                    tar.addfile(tarfile.TarInfo(f"{key}.txt"), io.BytesIO())
        case "arrayrecord":
            with sm.Writer(path.with_suffix(".array_record")) as writer:
                writer.write_rows([b"a", b"b", b"c"])
            path.with_suffix(".array_record").rename(path)


def compressed(path, codec):
    target = path.with_name(f"{path.name}.{codec}")
    with pa.CompressedOutputStream(
        str(target), {"gz": "gzip", "tgz": "gzip", "zst": "zstd"}[codec]
    ) as file:
        file.write(path.read_bytes())
    return target


@pytest.mark.parametrize("format", ["parquet", "orc", "csv", "jsonl", "arrayrecord", "webdataset"])
def test_each_extension_in_the_table_names_its_format(format, tmp_path):
    assert len(extensions_of(format)) >= 1
    for extension in extensions_of(format):
        path = tmp_path / "plain"
        plain_file(format, path)
        codec = extension.rsplit(".", 1)[1]
        made = compressed(path, codec) if codec in ("gz", "zst", "tgz") else path
        dataset = sm.Dataset(made.rename(tmp_path / f"rows{extension}"))
        assert (dataset.format, len(dataset)) == (format, 3), extension


def test_each_extension_of_mds_names_it(tmp_path):
    for extension in extensions_of("mds"):
        codec = extension.removeprefix(".mds").removeprefix(".") or "none"
        with sm.Writer(tmp_path / codec, format="mds", compression=codec) as writer:
            writer.write_batch(TABLE.select(["x"]))
        dataset = sm.Dataset(
            (tmp_path / codec / f"shard.00000{extension}").rename(tmp_path / f"rows{extension}")
        )
        assert (dataset.format, len(dataset)) == ("mds", 3), extension


@pytest.mark.parametrize(
    "format", ["parquet", "orc", "csv", "jsonl", "arrayrecord", "mds", "webdataset"]
)
def test_formats_said_to_be_written_are_those_of_the_writer(format, tmp_path):
    is_written = row_of(format)[4] == "yes"
    assert is_written == (format in get_args(WrittenFormat))


@pytest.mark.parametrize("format", ["parquet", "orc", "csv", "jsonl", "arrayrecord", "webdataset"])
def test_formats_said_to_be_recognized_are_found_without_an_extension(format, tmp_path):
    plain_file(format, tmp_path / "plain")
    if row_of(format)[2].startswith("yes"):
        assert sm.Dataset(tmp_path / "plain").format == format
    else:
        with pytest.raises(sm.Error):
            sm.Dataset(tmp_path / "plain")


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_each_parquet_codec_in_the_list_is_read(codec, tmp_path):
    assert {"none": "uncompressed", "lz4": "LZ4", "snappy": "Snappy", "brotli": "Brotli"}.get(
        codec, codec
    ) in FORMATS
    pq.write_table(TABLE, tmp_path / "a.parquet", compression=codec)
    assert read_back(tmp_path / "a.parquet").equals(TABLE)


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_each_orc_codec_in_the_list_is_read(codec, tmp_path):
    po.write_table(TABLE, tmp_path / "a.orc", compression=codec)
    assert read_back(tmp_path / "a.orc").equals(TABLE)


def test_csv_is_read_and_some_of_its_compressed_forms_are_refused(tmp_path):
    pc.write_csv(TABLE.select(["x"]), tmp_path / "a.csv")
    assert read_back(tmp_path / "a.csv").equals(TABLE.select(["x"]))
    for name, codec in (("b.csv.gz", "gzip"), ("b.csv.zst", "zstd"), ("b.csv.bz2", "bz2")):
        with pa.CompressedOutputStream(str(tmp_path / name), codec) as file:
            file.write((tmp_path / "a.csv").read_bytes())
    assert read_back(tmp_path / "b.csv.gz").equals(TABLE.select(["x"]))
    assert read_back(tmp_path / "b.csv.zst").equals(TABLE.select(["x"]))
    with pytest.raises(sm.Error):
        sm.Dataset(tmp_path / "b.csv.bz2", format="csv")


# Options


def test_every_table_of_options_has_every_parameter():
    marks = options.MARK.findall(OPTIONS)
    assert len(marks) == len(set(marks)) >= 18
    for mark in marks:
        table = options.option_table(mark)
        assert table.count("\n") > 1, mark
        assert "|  |" not in table, mark


@pytest.mark.parametrize(
    "group",
    [
        "Loader",
        "Shuffle",
        "Output",
        "Transform",
        "Runtime",
        "Mixture",
        "Packing",
        "Dataset",
        "Writer",
    ],
)
def test_every_option_of_the_public_class_is_in_its_table(group):
    named = re.findall(r"^\| `(\w+)`", options.option_table(f"shardmill.{group}"), re.MULTILINE)
    assert named == list(inspect.signature(getattr(sm, group)).parameters)
    assert f"{{{{ options shardmill.{group} }}}}" in OPTIONS


def test_option_without_a_description_is_an_error(monkeypatch):
    monkeypatch.setattr(sm.Shuffle, "__doc__", "How rows are shuffled.")
    with pytest.raises(ValueError, match="does not describe window_bytes"):
        options.option_table("shardmill.Shuffle")


def sources(*patterns):
    for pattern in patterns:
        for path in ROOT.glob(pattern):
            if "tests" not in path.parts and path.name != "tests.rs":
                yield path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]


def test_every_environment_variable_of_the_code_is_on_the_page():
    name = (
        r'"((?:AWS|AZURE|CLOUD_STORAGE|CLOUDSDK|GOOGLE|HF|RAY|SHARDMILL|STORAGE|XDG)_[A-Z0-9_]+'
        r'|(?:LOCAL_)?(?:RANK|WORLD_SIZE))"'
    )
    code = "".join(
        sources("crates/*/src/**/*.rs", "python/src/**/*.rs", "python/shardmill/**/*.py")
    )
    used = set(re.findall(name, code))
    assert {"SHARDMILL_CACHE_DIR", "AWS_PROFILE", "RANK", "HF_TOKEN"} <= used
    assert used - set(re.findall(r"`([A-Z0-9_]+)`", OPTIONS)) == set()


def test_every_storage_option_of_ours_is_on_the_page():
    code = (ROOT / "crates/storage/src/remote/options.rs").read_text(encoding="utf-8")
    own = set(re.findall(r'^ +"(\w+)" => \{?\s*limits', code, re.MULTILINE))
    assert len(own) == 6
    assert own - set(re.findall(r"`(\w+)`", OPTIONS)) == set()
