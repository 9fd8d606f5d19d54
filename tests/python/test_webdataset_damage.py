"""WebDataset tars that are not what they seem.

Cut between members, and members that are not what their extensions say.
"""

import gzip
import io
import json
import subprocess
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest
import shardmill as sm
from flat_options import flat_loader


def archive(samples: dict[str, dict[str, bytes]]) -> tuple[bytes, list[int]]:
    """A tar, and where each of its samples begins."""
    out, starts = io.BytesIO(), []
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for key, members in samples.items():
            starts.append(tar.offset)
            for extension, content in members.items():
                member = tarfile.TarInfo(f"{key}.{extension}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return out.getvalue(), starts


def numbered(count: int) -> dict[str, dict[str, bytes]]:
    return {
        f"{number:05}": {"cls": b"%d" % number, "json": json.dumps({"n": number}).encode()}
        for number in range(count)
    }


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_archive_cut_between_samples_is_no_smaller_archive(tmp_path: Path, pack) -> None:
    content, starts = archive(numbered(10))
    (tmp_path / "a.tar").write_bytes(pack(content))
    (tmp_path / "b.tar").write_bytes(pack(content[: starts[7]]))
    with pytest.raises(
        sm.FormatError,
        match=rf"b.tar` ends at byte {starts[7]}, .* without the zeros .*\nhint: .*truncate",
    ):
        sm.Dataset(tmp_path)
    dataset = sm.Dataset(tmp_path, errors=sm.ErrorPolicy(files="skip"))
    assert (len(dataset), [path for path, _ in dataset.skipped]) == (10, [str(tmp_path / "b.tar")])


def test_hint_for_an_archive_without_an_end_works(tmp_path: Path) -> None:
    content, starts = archive(numbered(3))
    path = tmp_path / "a.tar"
    path.write_bytes(content[: starts[2]])
    subprocess.run(["truncate", "-s", "+1024", path], check=True)
    assert [row["cls"] for row in sm.Dataset(path)] == [0, 1]


@pytest.mark.parametrize(
    ("extension", "broken", "message"),
    [
        ("json", b'{"n": ', "is not valid JSON: EOF"),
        ("txt", b"\xff", "is not valid UTF-8"),
        ("cls", b"x", "is not a whole number"),
    ],
)
@pytest.mark.parametrize("output", ["rows", "dict", "arrow"])
def test_broken_member_is_a_bad_row_that_is_named(
    tmp_path: Path, extension: str, broken: bytes, message: str, output: str
) -> None:
    samples = {f"{number:05}": {"cls": b"1", "json": b"{}", "txt": b"a"} for number in range(20)}
    samples["00013"][extension] = broken
    path = tmp_path / "a.tar"
    path.write_bytes(archive(samples)[0])
    options = {"batch_size": 20, "output": output}
    with pytest.raises(
        sm.FormatError, match=rf"Member `00013.{extension}` of `.*a.tar`, at byte \d+, {message}"
    ):
        list(flat_loader(path, **options))
    loader = sm.Loader(path, errors=sm.ErrorPolicy(rows="skip"), **options)
    batches = list(loader)
    keys = (
        [row["__key__"] for row in batches[0]] if output == "rows" else list(batches[0]["__key__"])
    )
    assert [str(key) for key in keys] == [key for key in samples if key != "00013"]
    replaced = list(sm.Loader(path, errors=sm.ErrorPolicy(rows="replace"), **options))
    assert len(replaced[0] if output == "rows" else replaced[0]["__key__"]) == 20
    assert len(list(sm.Dataset(path, columns=["__key__"]))) == 20


@pytest.mark.parametrize(
    ("column", "value", "wanted"),
    [
        ("txt", b"\xff", "text in UTF-8"),
        ("caption.txt", b"\xff", "text in UTF-8"),
        ("cls", "cat", "a whole number of 64 bits"),
        ("cls", 2**64 - 1, "a whole number of 64 bits"),
        ("json", b"{", "JSON"),
    ],
)
def test_value_that_readers_would_refuse_is_refused_by_the_writer(
    tmp_path: Path, column: str, value, wanted: str
) -> None:
    good = {"txt": "a", "caption.txt": "a", "cls": "1", "json": b"{}"}[column]
    values = (
        pa.array([good, value]) if not isinstance(value, int) else pa.array([1, value], pa.uint64())
    )
    with (
        pytest.raises(
            sm.FormatError,
            match=rf"Row 1 has the value .* in column `{column}`, "
            rf"but readers expect {wanted} there\nhint: ",
        ),
        sm.Writer(tmp_path / "out", format="webdataset") as writer,
    ):
        writer.write_batch(pa.table({column: values}))
    assert not (tmp_path / "out").exists()


def test_bytes_that_are_what_the_column_says_are_written_as_they_are(tmp_path: Path) -> None:
    row = {"cls": b" 7\n", "json": b'{"a": NaN}', "txt": "é".encode(), "bin": b"\xff"}
    with sm.Writer(tmp_path / "a.tar") as writer:
        writer.write(row)
    (read,) = sm.Dataset(tmp_path / "a.tar")
    assert (read["cls"], read["txt"], read["bin"]) == (7, "é", b"\xff")
    assert read["json"]["a"] != read["json"]["a"]


def test_appended_samples_go_on_with_the_numbers(tmp_path: Path) -> None:
    for count in (3, 2, 1):
        with sm.Writer(tmp_path, format="webdataset", mode="append") as writer:
            writer.write_rows({"cls": number} for number in range(count))
    assert [row["__key__"] for row in sm.Dataset(tmp_path)] == [
        f"{number:09}" for number in range(6)
    ]


def test_samples_behind_keys_of_names_are_numbered_from_zero(tmp_path: Path) -> None:
    with sm.Writer(tmp_path, format="webdataset") as writer:
        writer.write({"__key__": "cats/one", "cls": 1})
    with sm.Writer(tmp_path, format="webdataset", mode="append") as writer:
        writer.write({"cls": 2})
    assert [row["__key__"] for row in sm.Dataset(tmp_path)] == ["cats/one", "000000000"]
