"""Which files of a directory `format=` reads.

By extension, and those of unknown names only if there is none.
"""

import io
import tarfile
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import ParquetSink, Pipeline, TableSource


def parquet(value: int) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": [value]}), buffer)
    return buffer.getvalue()


def tar(value: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as opened:
        member = tarfile.TarInfo(f"{value}.cls")
        content = str(value).encode()
        member.size = len(content)
        opened.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def csv(value: int) -> bytes:
    return f"x\n{value}\n".encode()


def jsonl(value: int) -> bytes:
    return f'{{"x": {value}}}\n'.encode()


FORMATS = {
    "csv": (csv, ".csv"),
    "jsonl": (jsonl, ".jsonl"),
    "parquet": (parquet, ".parquet"),
    "webdataset": (tar, ".tar"),
}
#: Never read, unless they are named.
NEVER = [
    "{}~",
    "{}.bak",
    "{}.tmp",
    ".{}.swp",
    "{}.swp",
    "{}.idx",
    "{}.sha256",
    "{}.md5",
    "{}.crc",
    ".{}",
    "{}.BAK",
]
#: Read only if no file has the extension.
UNKNOWN = ["part-0", "notes.txt", "rows.data"]


def write(directory: Path, names: list[str], content: Any, first: int = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names, first):
        (directory / name).write_bytes(content(number))


def values(path: Any, format: str) -> list[int]:
    column = "cls" if format == "webdataset" else "x"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(row[column] for row in sm.Dataset(path, format=format))


def names(dataset: sm.Dataset) -> list[str]:
    return sorted(Path(path).name for path, _ in dataset.skipped)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format", FORMATS)
def test_files_with_the_extension_hide_those_without(tmp_path: Path, format: str) -> None:
    content, extension = FORMATS[format]
    own = f"a{extension}"
    never = [name.format(own) for name in NEVER]
    write(tmp_path / "d", [own], content)
    write(tmp_path / "d", [*never, *UNKNOWN], content, 1)
    for path in (tmp_path / "d", f"{tmp_path}/d/*", [tmp_path / "d"]):
        assert values(path, format) == [0]
    assert names(sm.Dataset(tmp_path / "d", format=format)) == sorted([*never, *UNKNOWN])
    assert names(sm.Dataset(tmp_path / "d", format=format)) == sorted([*never, *UNKNOWN])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format", FORMATS)
def test_files_of_unknown_names_are_read_if_no_file_has_the_extension(
    tmp_path: Path, format: str
) -> None:
    content, extension = FORMATS[format]
    write(tmp_path / "d", UNKNOWN, content)
    write(tmp_path / "d", [name.format(f"a{extension}") for name in NEVER], content, 10)
    # Files of other formats are not read either.
    (tmp_path / "d" / ("x.orc")).write_bytes(b"ORC")
    assert values(tmp_path / "d", format) == [0, 1, 2]
    # The rule applies to each directory by itself.
    write(tmp_path / "e", [f"a{extension}", "part-1"], content, 20)
    assert values([tmp_path / "d", tmp_path / "e"], format) == [0, 1, 2, 20]


@pytest.mark.parametrize("format", FORMATS)
def test_path_that_is_named_is_always_read(tmp_path: Path, format: str) -> None:
    content, extension = FORMATS[format]
    files = [f"a{extension}", *(name.format(f"a{extension}") for name in NEVER), *UNKNOWN, "x.orc"]
    write(tmp_path, files, content)
    assert values([tmp_path / name for name in files], format) == list(range(len(files)))
    assert [values(tmp_path / name, format) for name in files] == [
        [number] for number in range(len(files))
    ]


def test_directory_with_files_of_another_format_only_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, ["a.jsonl", "b.jsonl"], jsonl)
    with pytest.raises(sm.PlanError, match=r"No csv file .* the files there are jsonl files"):
        sm.Dataset(tmp_path, format="csv")


def test_files_that_may_be_data_cause_a_warning(tmp_path: Path) -> None:
    write(tmp_path, ["a.csv", "part-0", "b.csv.bak"], csv)
    with pytest.warns(UserWarning, match=r"1 file is left out .*part-0"):
        sm.Dataset(tmp_path, format="csv")


@pytest.mark.filterwarnings("ignore")
def test_jobs_read_the_same_files(tmp_path: Path) -> None:
    write(tmp_path / "in", ["a.csv", "a.csv.bak", "part-0", "a.csv~"], csv)
    job = Pipeline(
        source=TableSource(str(tmp_path / "in"), format="csv"),
        stages=[],
        sink=ParquetSink(str(tmp_path / "out")),
    )
    job.run(progress=False)
    assert pq.read_table(tmp_path / "out")["x"].to_pylist() == [0]
