"""What inspect says agrees with what was put into the files."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill
from shard_files import document, png, source_sample, tiff, write_parquet, write_tar, written_sample
from shardmill.curate import inspect
from shardmill.curate._inspection import Inspection


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_tar_tells_samples_sizes_columns_and_first_texts(tmp_path: Path, mode: str) -> None:
    members = [
        *source_sample("a", url="u", words=3),
        *source_sample("b", pages=3, entries=3, words=2.5),
    ]
    path = write_tar(tmp_path / ("x.tar.gz" if mode == "w:gz" else "x.tar"), members, mode)
    (file,) = inspect(path, first=1).files
    assert (file.format, file.compression, file.members) == (
        "tar",
        "gzip" if mode == "w:gz" else "none",
        4,
    )
    assert (file.samples, file.rows) == (2, {"metadata": 2, "text": 2, "image": 5, "other": 0})
    assert file.content_types == {"application/json": 2, "image/tiff": 5, "text/plain": 2}
    assert file.images["width"] == {"min": 8, "median": 9, "max": 10}
    assert file.images["height"] == {"min": 6, "median": 6, "max": 6}
    assert (file.images["pages"], file.images["formats"]) == (
        {"min": 2, "median": 2, "max": 3},
        {"tiff": 2},
    )
    assert file.bytes_by_modality["image"] == sum(
        len(body) for name, body in members if name.endswith("tiff")
    )
    assert file.bytes_by_modality["text"] == len("text of a") * 2
    assert {column["name"]: column["data_type"] for column in file.columns} == {
        "url": "string",
        "words": "double",
    }
    assert file.texts == [{"sample": "a", "position": 0, "text": "text of a"}]
    assert file.image_names == ["a.tiff"]
    assert file.damage == []


def test_parquet_tells_codecs_row_groups_and_rows(tmp_path: Path) -> None:
    rows = [
        *document("a"),
        *document("b", binary_content=png(20, 9)),
        *document("c", binary_content=None),
    ]
    path = write_parquet(tmp_path / "x.parquet", rows, row_group_size=4, compression="zstd")
    (file,) = inspect(path).files
    assert (file.samples, file.rows) == (3, {"metadata": 3, "text": 3, "image": 3, "other": 0})
    assert [group["rows"] for group in file.row_groups] == [4, 4, 1]
    assert (file.images["measured"], file.images["width"]) == (
        2,
        {"min": 4, "median": 4, "max": 20},
    )
    columns = {column["name"]: column for column in file.columns}
    assert (columns["words"]["data_type"], columns["words"]["codecs"]) == ("int64", ["zstd"])
    assert file.texts[1] == {"sample": "b", "position": 0, "text": "a"}
    assert file.damage == []


def test_columns_of_long_types_are_aligned(tmp_path: Path) -> None:
    times = pa.array([1], pa.timestamp("us", "Europe/Berlin"))
    pq.write_table(pa.table({"id": [1], "time": times}), tmp_path / "a.parquet")
    first, second = str(inspect(tmp_path / "a.parquet")).splitlines()[-2:]
    assert first.index("snappy") == second.index("snappy")


def test_table_whose_columns_only_have_the_names_of_documents_is_counted_as_rows(
    tmp_path: Path,
) -> None:
    table = pa.table(
        {"sample_id": ["a", "a"], "position": [0.5, 1.5], "modality": [["text"], ["image"]]}
    )
    pq.write_table(table, tmp_path / "x.parquet")
    (file,) = inspect(tmp_path / "x.parquet").files
    assert (file.samples, file.rows["other"], file.damage) == (2, 2, [])


def test_image_file_tells_its_pages(tmp_path: Path) -> None:
    (tmp_path / "x.tiff").write_bytes(tiff((8, 6), (2, 9)))
    (file,) = inspect(tmp_path / "x.tiff").files
    assert (file.format, file.images["pages"]["max"]) == ("image", 2)
    assert file.images["height"] == {"min": 6, "median": 6, "max": 9}


def test_damage_is_told_and_the_rest_is_counted(tmp_path: Path) -> None:
    members = [
        *written_sample("a"),
        ("b.json", b"{"),
        ("c.json", b'{"images": ["gone.png", "d.png"]}'),
        ("d.png", b"x"),
    ]
    path = write_tar(tmp_path / "x.tar", [*members, ("e.png", png())])
    path.write_bytes(path.read_bytes().rstrip(b"\0")[:-100])
    (file,) = inspect(path).files
    reasons = " ".join(damage["reason"] for damage in file.damage)
    for expected in ("broken JSON", "missing member 'gone.png'", "not a recognized image", "needs"):
        assert expected in reasons
    assert (file.samples, file.rows["metadata"], file.rows["image"], file.images["unreadable"]) == (
        3,
        2,
        3,
        1,
    )


@pytest.mark.parametrize("content", [b"", b"PAR1", b"hello"])
def test_file_that_is_nothing_is_damage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.parquet").write_bytes(content)
    (tmp_path / "x.tar").write_bytes(content)
    assert all(file.damage and file.samples == 0 for file in inspect(tmp_path).files)


def test_directory_sums_up_its_files(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", source_sample("a"))
    write_parquet(tmp_path / "b.parquet", document("a"))
    inspection = inspect(tmp_path)
    assert (inspection.samples, inspection.rows["image"]) == (2, 3)
    text = str(inspection)
    assert text.splitlines()[0] == str(tmp_path)
    assert "2 files" in text
    assert str(tmp_path / "a.tar") in str(inspect(tmp_path / "a.tar"))


def test_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(shardmill.NotFoundError):
        inspect(tmp_path / "none.tar")


def test_plain_webdataset_tells_its_samples_and_columns(tmp_path: Path) -> None:
    members = [(f"{number}.{name}", b"1") for number in range(4) for name in ("txt", "cls")]
    (file,) = inspect(write_tar(tmp_path / "x.tar", members)).files
    assert (file.format, file.samples, file.rows["other"], file.members) == ("tar", 4, 4, 8)
    assert [column["name"] for column in file.columns] == ["__key__", "cls", "txt"]
    assert "  rows        4" in str(file).splitlines()


def test_mds_tells_its_samples_and_columns(tmp_path: Path) -> None:
    with shardmill.Writer(tmp_path / "mds", format="mds") as writer:
        writer.write_rows({"text": "a", "label": number} for number in range(3))
    (file,) = inspect(tmp_path / "mds").files
    assert file.samples == 3
    assert {column["name"]: column["data_type"] for column in file.columns} == {
        "text": "string",
        "label": "int64",
    }
    (shard,) = inspect(tmp_path / "mds" / "shard.00000.mds").files
    assert (shard.samples, shard.columns) == (3, file.columns)


def test_summary_has_the_columns_that_all_files_share_and_no_empty_cells(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"x": 1, "y": "z"}\n')
    lines = str(inspect(tmp_path)).splitlines()
    assert lines[1].split() == ["file", "format", "size", "samples"]
    assert [line.split() for line in lines[-2:]] == [["x", "int64"], ["y", "string"]]


def test_overview_of_remote_files_names_their_directory_once(tmp_path: Path) -> None:
    (tmp_path / "x.tiff").write_bytes(tiff((8, 6)))
    (file,) = inspect(tmp_path / "x.tiff").files
    names = ["s3://bucket/train/a.tiff", "s3://bucket/train/b/c.tiff"]
    lines = str(Inspection([replace(file, path=name) for name in names])).splitlines()
    assert lines[0] == "s3://bucket/train"
    assert [line.split()[0] for line in lines[2:4]] == ["a.tiff", "b/c.tiff"]
