"""`verify` of files that are not interleaved documents.

It fails exactly when a full read fails or a checksum differs.
"""

import csv
import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from command import shardmill
from shard_files import write_tar
from shardmill.curate import inspect, verify
from shardmill.errors import Error, FormatError

ROWS = [{"id": number, "text": f"text {number}" * 5} for number in range(300)]
TABLE = pa.Table.from_pylist(ROWS)
HASHES = [
    "blake2b",
    "blake2s",
    "md5",
    "sha1",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "sha3_224",
    "sha3_256",
]
HASHES += ["sha3_384", "sha3_512", "xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128"]


def write_csv(path: Path) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *[list(row.values()) for row in ROWS]])


def write_rows(path: Path) -> None:
    with sm.Writer(path) as writer:
        if path.suffix == ".array_record":
            writer.write_rows(row["text"] for row in ROWS)
        else:
            writer.write_rows(ROWS)


def write_zstd_tar(path: Path) -> None:
    with sm.Writer(path) as writer:
        writer.write_rows({"txt": row["text"]} for row in ROWS)


LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
SAMPLES = [
    (f"{row['id']:04}.{kind}", row["text"].encode()) for row in ROWS for kind in ("txt", "bin")
]
WRITERS = {
    "a.parquet": lambda path: pq.write_table(TABLE, path, row_group_size=100),
    "b.pq": lambda path: pq.write_table(TABLE, path, write_page_checksum=True),
    "c.orc": lambda path: orc.write_table(TABLE, str(path)),
    "d.csv": write_csv,
    "e.jsonl": lambda path: path.write_bytes(LINES),
    "f.jsonl.gz": lambda path: path.write_bytes(gzip.compress(LINES)),
    "g.jsonl.zst": write_rows,
    "h.array_record": write_rows,
    "i.tar": lambda path: write_tar(path, SAMPLES),
    "j.tar.gz": lambda path: write_tar(path, SAMPLES, "w:gz"),
    "j.tar.zst": write_zstd_tar,
    "k.tar": lambda path: write_tar(
        path, [("a.jpg", b"x"), ("a.json", b'{"width": 3}'), ("a.txt", b"caption")]
    ),
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, write in WRITERS.items():
        write(tmp_path / name)
    with sm.Writer(tmp_path / "mds", format="mds", hashes=HASHES, shard_bytes=8000) as writer:
        writer.write_rows(ROWS)
    with sm.Writer(
        tmp_path / "mds.zstd", format="mds", hashes=["sha1"], compression="zstd", shard_bytes=8000
    ) as writer:
        writer.write_rows(ROWS)
    return tmp_path


def test_sound_files_of_all_formats_in_one_directory_pass(directory: Path) -> None:
    checks = verify(directory)
    assert [(check.path, check.problems) for check in checks if not check.is_valid] == []
    names = {str(Path(check.path).relative_to(directory)) for check in checks}
    assert names == {*WRITERS, "mds/index.json", "mds.zstd/index.json"}
    assert {check.samples for check in checks if not check.path.endswith("k.tar")} == {len(ROWS)}
    inspections = inspect(directory).files
    assert [(file.path, file.damage) for file in inspections if file.damage] == []
    assert (
        shardmill("verify", directory).returncode,
        shardmill("inspect", directory).returncode,
    ) == (0, 0)


@pytest.mark.parametrize("number", [0, 1, 150, 299])
@pytest.mark.parametrize("line", ['{"id": 5, "text": oops}', "[]"])
def test_row_of_a_bad_line_is_named(tmp_path: Path, number: int, line: str) -> None:
    lines = LINES.decode().splitlines()
    path = tmp_path / "a.jsonl"
    # Opening the file parses its first lines.
    before = [lines[0]] * 20_000
    path.write_text("\n".join([*before, *lines[:number], line, *lines[number:]]))
    (problem,) = verify(path)[0].problems
    assert problem.row == len(before) + number
    assert f"Line {len(before) + number + 1} " in problem.what


@pytest.mark.parametrize("name", [name for name in WRITERS if name not in ("d.csv", "k.tar")])
def test_one_cut_file_among_all_is_named(directory: Path, name: str) -> None:
    path = directory / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3 - 5])
    bad = [check for check in verify(directory) if not check.is_valid]
    assert [check.path for check in bad] == [str(path)]
    result = shardmill("verify", directory)
    assert result.returncode == 1
    assert sum(str(path) in line for line in result.stdout.splitlines()) == bad[0].problem_count
    assert "Traceback" not in result.stderr and "panicked" not in result.stderr


@pytest.mark.parametrize("name", ["a.parquet", "c.orc", "f.jsonl.gz", "h.array_record", "j.tar.gz"])
def test_inspect_of_a_damaged_file_exits_with_1(directory: Path, name: str) -> None:
    (directory / name).write_bytes((directory / name).read_bytes()[:-30])
    result = shardmill("inspect", directory / name)
    assert (result.returncode, "damage" in result.stdout) == (1, True)


def test_files_without_an_extension_are_checked_by_their_first_bytes(tmp_path: Path) -> None:
    for name, content in (
        ("a", "a.parquet"),
        ("b.parq", "a.parquet"),
        ("c", "c.orc"),
        ("d", "h.array_record"),
        ("e", "i.tar"),
    ):
        WRITERS[content](tmp_path / content)
        (tmp_path / content).rename(tmp_path / name)
    assert all(check.is_valid for check in verify(tmp_path))
    assert [file.format for file in inspect(tmp_path).files] == [
        "parquet",
        "parquet",
        "orc",
        "arrayrecord",
        "tar",
    ]
    for name in "acde":
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
    assert [Path(check.path).name for check in verify(tmp_path) if not check.is_valid] == [
        "a",
        "c",
        "d",
        "e",
    ]


def test_files_that_cannot_be_checked_are_named_in_one_warning(tmp_path: Path) -> None:
    WRITERS["a.parquet"](tmp_path / "a.parquet")
    for name in ("b.snappy", "c.parquet.gz"):
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / "a.parquet").read_bytes()))
    (tmp_path / "picture.jpg").write_bytes(b"x")
    for judge in (verify, inspect):
        with pytest.warns(
            UserWarning, match=r"2 files are of an unknown format.*b\.snappy.*c\.parquet\.gz"
        ) as raised:
            judge(tmp_path)
        assert len(raised) == 1


@pytest.fixture
def text_shards(tmp_path: Path) -> Path:
    """As ``streaming.JSONWriter`` writes them, with hashes."""
    directory = tmp_path / "set"
    directory.mkdir()
    shards = []
    for number in range(3):
        lines = "".join(
            json.dumps(row) + "\n" for row in ROWS[number * 100 : (number + 1) * 100]
        ).encode()
        name = f"shard.{number:05}.json"
        (directory / name).write_bytes(lines)
        stated = {
            "basename": name,
            "bytes": len(lines),
            "hashes": {"sha1": hashlib.sha1(lines).hexdigest()},
        }
        shards.append({"format": "json", "raw_data": stated, "zip_data": None, "samples": 100})
    (directory / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    return directory


def test_text_shards_are_checked_against_their_index(text_shards: Path) -> None:
    [check] = verify(text_shards)
    assert (check.format, check.shards) == ("jsonl_index", 3)
    assert (check.samples, check.problems) == (300, [])
    assert "3 files, 300 samples" in shardmill("verify", text_shards).stdout
    [file] = inspect(text_shards).files
    assert (file.samples, [column["name"] for column in file.columns]) == (300, ["id", "text"])


def test_damage_in_text_shards_is_found(text_shards: Path) -> None:
    shard = text_shards / "shard.00001.json"
    content = shard.read_bytes()
    for damaged in (
        content.replace(b"text 150", b"text 151", 1),
        content[: content.rindex(b"{")],
        content[:-5],
        b"",
    ):
        shard.write_bytes(damaged)
        [check] = verify(text_shards)
        assert {problem.member for problem in check.problems} == {shard.name}
    shard.unlink()
    [check] = verify(text_shards)
    assert any("shard.00001.json" in problem.what for problem in check.problems)


def test_inspect_counts_the_sound_shards_of_an_index(text_shards: Path) -> None:
    (text_shards / "shard.00001.json").unlink()
    [file] = inspect(text_shards).files
    assert file.samples == 200
    assert {damage["member"] for damage in file.damage} == {"shard.00001.json"}


def test_joined_tars_of_rows_are_read_to_their_last_member_on_request(tmp_path: Path) -> None:
    path, other = (
        write_tar(tmp_path / "a.tar", SAMPLES[:4]),
        write_tar(tmp_path / "b" / "b.tar", SAMPLES[4:8]),
    )
    path.write_bytes(path.read_bytes() + other.read_bytes())
    assert not verify(path)[0].is_valid
    [check], [file] = verify(path, ignore_zeros=True), inspect(path, ignore_zeros=True).files
    assert (check.problems, check.samples, file.damage, file.samples) == ([], 4, [], 4)


def test_record_of_too_many_fields_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,text\n" + "1,a\n" * 40_000 + "1,a,b\n" + "1,a\n" * 40_000)
    with pytest.raises(FormatError):
        list(sm.Loader(path, output="arrow", batch_size=10_000))
    (check,) = verify(path)
    assert check.problem_count == 1 and "40002" in check.problems[0].what.replace(",", "")


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(
    "damage",
    ["empty index", "cut index", "index without shards", "other JSON", "other version",
     "missing shard", "longer shard", "flip", "other hash", "shard of another"],
)  # fmt: skip
def test_damage_of_an_mds_directory_is_found_by_verify_and_by_reading(
    tmp_path: Path, damage: str, compression: str | None
) -> None:
    directory = tmp_path / "mds"
    with sm.Writer(
        directory, format="mds", hashes=["sha1", "xxh64"], compression=compression, shard_bytes=8000
    ) as writer:
        writer.write_rows(ROWS)
    index = directory / "index.json"
    shards = sorted(path for path in directory.iterdir() if path != index)
    text, shard = index.read_text(), shards[1]
    match damage:
        case "empty index":
            index.write_bytes(b"")
        case "cut index":
            index.write_text(text[: len(text) // 2])
        case "index without shards":
            index.write_text('{"shards": [], "version": 2}')
        case "other JSON":
            index.write_text(text.replace('"shards"', '"sharts"'))
        case "other version":
            index.write_text(text.replace('"version": 2}', '"version": 3}'))
        case "missing shard":
            shard.unlink()
        case "longer shard":
            shard.write_bytes(shard.read_bytes() + b"\0")
        case "flip":
            content = bytearray(shard.read_bytes())
            content[-20] ^= 1
            shard.write_bytes(content)
        case "other hash":
            digest = json.loads(text)["shards"][0]["raw_data"]["hashes"]["xxh64"]
            index.write_text(text.replace(digest, "0" * 16))
        case "shard of another":
            shutil.copy(shards[0], shard)
    with pytest.raises(Error):
        list(sm.Loader(directory, output="arrow", batch_size=50))
    bad = [check for check in verify(directory) if not check.is_valid]
    assert len(bad) == 1 and bad[0].problems
    result = shardmill("verify", directory)
    assert result.returncode == 1
    assert (" in 1 file" in result.stdout) == (bad[0].shards is None)
    if damage not in ("flip", "other hash"):
        assert shardmill("inspect", directory).returncode == 1


@pytest.mark.parametrize("algorithm", HASHES)
def test_each_hash_of_an_index_is_compared(tmp_path: Path, algorithm: str) -> None:
    with sm.Writer(tmp_path / "mds", format="mds", hashes=[algorithm]) as writer:
        writer.write_rows(ROWS)
    index = tmp_path / "mds" / "index.json"
    digest = json.loads(index.read_text())["shards"][0]["raw_data"]["hashes"][algorithm]
    assert verify(tmp_path)[0].is_valid
    index.write_text(
        index.read_text().replace(digest, digest[:-1] + ("1" if digest[-1] == "0" else "0"))
    )
    assert not verify(tmp_path)[0].is_valid


def test_damaged_pages_are_named_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        TABLE,
        path,
        row_group_size=100,
        write_page_checksum=True,
        use_dictionary=False,
        compression="none",
    )
    content = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    for group, column in ((0, 1), (2, 0)):
        chunk = metadata.row_group(group).column(column)
        content[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 4
    path.write_bytes(content)
    problems = verify(path)[0].problems
    assert [problem.member for problem in problems] == [
        "row group 0, column text, page 0",
        "row group 2, column id, page 0",
    ]
    assert all("checksum" in problem.what and str(path) in problem.what for problem in problems)


def test_text_that_is_not_utf8_in_a_sound_shard_is_found(tmp_path: Path) -> None:
    """The structure of the shard is right, and no hash says that it was something else."""
    with sm.Writer(tmp_path / "mds", format="mds", columns={"text": "str"}) as writer:
        writer.write_rows({"text": row["text"]} for row in ROWS)
    shard = tmp_path / "mds" / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes().replace(b"text 7text 7", b"text\xff7text 7", 1))
    with pytest.raises(FormatError):
        list(sm.Loader(tmp_path / "mds", output="arrow", batch_size=50))
    assert "UTF-8" in verify(tmp_path)[0].problems[0].what
