"""Partitions, batches, lineage names and file names (specification §1.7, §2.1, §6.1)."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from shard_builders import curate, document, from_parquet, from_tar, image, write_parquet, write_tar


def name(sources: list[str], batch: int) -> str:
    first = Path(min(sources).partition("::split_")[0]).stem
    return (
        f"{first}-"
        + hashlib.sha256(f"{'|'.join(sorted(sources))}|{batch}".encode()).hexdigest()[:12]
        + ".parquet"
    )


@pytest.fixture(params=["tar", "parquet"])
def shards(request: Any, tmp_path: Path) -> Any:
    """Writes texts of the given sizes in bytes, one document each, to two files.

    Returns the source class and the paths.
    """

    def write(*sizes_of_files: list[int]) -> Any:
        paths, number = [], 0
        for file, sizes in enumerate(sizes_of_files):
            texts = {f"d{number + index}": "x" * size for index, size in enumerate(sizes)}
            number += len(sizes)
            path = tmp_path / "in" / f"{file}.{request.param}"
            if request.param == "tar":
                write_tar(path, [(f"{key}.json", {"texts": [text]}) for key, text in texts.items()])
            else:
                write_parquet(
                    path, [found for key, text in texts.items() for found in document(key, text)]
                )
            paths.append(str(path))
        return (from_tar if request.param == "tar" else from_parquet), paths

    return write


def documents_of(outcome: Any) -> list[list[str]]:
    tables = [pq.read_table(file).to_pylist() for file in outcome.files]
    return [[row["sample_id"] for row in rows if row["position"] == -1] for rows in tables]


def test_limit_of_one_byte_gives_one_document_a_file_named_after_its_own_input(
    shards: Any, out: Any
) -> None:
    source, paths = shards([5], [5])
    outcome = curate(source(paths, files_per_partition=2, max_batch_bytes=1), to=out())
    assert documents_of(outcome) == [["d0"], ["d1"]]
    lineage = [[f"{paths[0]}::split_00000"], [f"{paths[1]}::split_00001"]]
    assert [output["sources"] for output in outcome.report.outputs] == lineage
    assert [file.name for file in outcome.files] == [
        name(sources, batch) for batch, sources in enumerate(lineage)
    ]


def test_resume_leaves_no_batch_of_an_input_that_changed(shards: Any, out: Any) -> None:
    target = out()
    for count in (3, 2, 1, 4):
        source, paths = shards([5] * count, [5])
        outcome = curate(source(paths, max_batch_bytes=1), to=target, mode="resume")
        assert documents_of(outcome) == [[f"d{number}"] for number in range(count + 1)]
        assert sorted(target.iterdir()) == sorted(outcome.files)
    outcome = curate(source(paths), to=target, mode="resume")
    assert sorted(target.iterdir()) == sorted(outcome.files) and len(outcome.files) == 2


def test_resume_keeps_the_batches_of_an_input_that_became_unreadable(shards: Any, out: Any) -> None:
    target = out()
    source, paths = shards([5, 5])
    before = curate(source(paths, max_batch_bytes=1), to=target, mode="resume").bytes_of_files()
    Path(paths[0]).write_bytes(b"neither a tar nor Parquet" * 100)
    again = curate(source(paths, max_batch_bytes=1), to=target, mode="resume")
    assert {file.name: file.read_bytes() for file in target.iterdir()} == before and not again.files
    assert again.report.warnings == {"the input could not be read; its earlier output was kept": 1}


def test_batches_hold_whole_documents_up_to_the_limit_and_a_larger_one_alone(
    shards: Any, out: Any
) -> None:
    source, paths = shards([1000, 1000, 1000, 9000, 10, 10])
    outcome = curate(source(paths, max_batch_bytes=4000), to=out())
    found = documents_of(outcome)
    assert [key for batch in found for key in batch] == [f"d{number}" for number in range(6)]
    assert ["d3"] in found
    assert max(len(batch) for batch in found) <= 3
    for batch, rows in zip(found, outcome.report.outputs, strict=True):
        texts = sum(
            len(row["text_content"] or "") for row in pq.read_table(rows["path"]).to_pylist()
        )
        assert texts <= 4000 or len(batch) == 1


def test_skewed_rows_do_not_break_the_limit(shards: Any, out: Any) -> None:
    source, paths = shards([1] * 50 + [3000] * 10)
    outcome = curate(source(paths, max_batch_bytes=7000), to=out())
    for file in outcome.files:
        assert (
            sum(len(text or "") for text in pq.read_table(file).column("text_content").to_pylist())
            <= 7000
        )


def test_one_batch_may_draw_from_several_files(shards: Any, out: Any) -> None:
    source, paths = shards([5], [5], [5])
    outcome = curate(source(paths, files_per_partition=3, max_batch_bytes=1 << 20), to=out())
    assert documents_of(outcome) == [["d0", "d1", "d2"]]
    assert outcome.report.outputs[0]["sources"] == paths, "not split, so the plain list"
    assert outcome.file.name == name(paths, 0)


def test_split_batch_names_the_files_that_it_draws_from(shards: Any, out: Any) -> None:
    source, paths = shards([10_000], [10_000] * 2, [10_000])
    outcome = curate(source(paths, files_per_partition=3, max_batch_bytes=26_000), to=out())
    assert documents_of(outcome) == [["d0", "d1"], ["d2", "d3"]]
    expected = [
        [f"{paths[0]}::split_00000", f"{paths[1]}::split_00000"],
        [f"{paths[1]}::split_00001", f"{paths[2]}::split_00001"],
    ]
    assert [output["sources"] for output in outcome.report.outputs] == expected


def test_image_bytes_count_also_when_they_are_not_fetched_yet(tmp_path: Path, out: Any) -> None:
    members = [
        found
        for number in range(4)
        for found in ((f"{number}.json", {"images": ["x"]}), (f"{number}.png", b"x" * 3000))
    ]
    path = write_tar(tmp_path / "a.tar", members)
    assert len(curate(from_tar(path, max_batch_bytes=7000), to=out()).files) == 2


def test_without_limit_a_partition_is_one_file(shards: Any, out: Any) -> None:
    source, paths = shards([5, 5], [5])
    assert documents_of(curate(source(paths), to=out())) == [["d0", "d1"], ["d2"]]
    assert documents_of(curate(source(paths, files_per_partition=2), to=out())) == [
        ["d0", "d1", "d2"]
    ]


@pytest.mark.parametrize("memory_bytes", [1, 1 << 25])
def test_memory_bound_does_not_change_rows_or_names(
    shards: Any, out: Any, memory_bytes: int
) -> None:
    source, paths = shards([100] * 20)
    outcome = curate(source(paths), to=out(), memory_bytes=memory_bytes)
    assert outcome.file.name == name(paths, 0)
    assert len(outcome.rows) == 40


@pytest.mark.parametrize(
    "options",
    [
        {"max_batch_bytes": 0},
        {"max_batch_bytes": -1},
        {"files_per_partition": 0},
        {"files_per_partition": -1},
        {"partition_bytes": 0},
        {"partition_bytes": "x"},
        {"files_per_partition": 1, "partition_bytes": 5},
    ],
)
def test_limits_that_mean_nothing_are_refused_before_anything_is_touched(
    shards: Any, out: Any, options: Any
) -> None:
    source, paths = shards([5])
    target = out()
    with pytest.raises(ValueError, match=r"max_batch_bytes|files_per_partition|partition_bytes"):
        curate(source(paths, **options), to=target)
    assert not target.exists()


def test_partition_bytes_packs_files_by_size(tmp_path: Path, out: Any) -> None:
    for number, size in enumerate([9, 1, 1]):
        write_tar(
            tmp_path / "in" / f"{number}.tar", {f"{number}.json": {"texts": ["x" * size * 20_000]}}
        )
    outcome = curate(from_tar(tmp_path / "in", partition_bytes=70_000), to=out())
    assert [output["samples"] for output in outcome.report.outputs] == [2, 1]


def test_directories_globs_lists_and_all_suffixes_are_found(tmp_path: Path, out: Any) -> None:
    directory = tmp_path / "in"
    for shard, mode in (("b/x.TAR", "w"), ("a/deep/y.tar.gz", "w:gz"), ("z.tgz", "w:gz")):
        write_tar(directory / shard, {f"{Path(shard).name}.json": {}}, mode)
    (directory / ".hidden.tar").write_bytes(b"")
    (directory / "notes.txt").write_text("x")
    expected = ["y.tar.gz", "x.TAR", "z.tgz"]

    def found(path: Any) -> list[str]:
        return curate(from_tar(path), to=out()).column("sample_id")

    assert found(directory) == expected
    assert found([directory / "b", str(directory / "a")]) == expected[:2]
    assert found(str(directory / "*" / "*.TAR")) == ["x.TAR"]
    assert found([directory, directory / "z.tgz"]) == expected, "a file is read once"


@pytest.mark.parametrize("kind", ["missing", "empty directory", "glob", "one of two"])
def test_missing_input_is_an_error_and_the_output_is_untouched(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "precious").write_text("x")
    (tmp_path / "empty").mkdir()
    write_tar(tmp_path / "good.tar", {"a.json": {}})
    path = {
        "missing": tmp_path / "none",
        "empty directory": tmp_path / "empty",
        "glob": str(tmp_path / "no*.tar"),
        "one of two": [tmp_path / "good.tar", tmp_path / "none.tar"],
    }[kind]
    with pytest.raises(FileNotFoundError):
        curate(from_tar(path), to=target, mode="overwrite")
    assert [(found.name, found.read_text()) for found in target.iterdir()] == [("precious", "x")]


def test_names_do_not_depend_on_the_stages(tmp_path: Path, out: Any) -> None:
    from shardmill.curate import AspectRatioFilter, Map

    path = write_tar(
        tmp_path / "a.tar",
        {"a.json": {"texts": ["t"], "images": [None, "i.jpg"]}, "i.jpg": image()},
    )
    names = {
        curate(from_tar(path), stages, to=out()).file.name
        for stages in ([], [AspectRatioFilter()], [Map(lambda table: table)] * 2)
    }
    assert names == {name([str(path)], 0)}
