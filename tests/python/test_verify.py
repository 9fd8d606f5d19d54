"""A defect of each kind, in one of many files, is found; what is legal passes."""

import json
import os
from pathlib import Path

import pytest
import shardmill
from shard_files import (
    document,
    png,
    source_sample,
    text_only_sample,
    tiff,
    write_parquet,
    write_tar,
    written_sample,
)
from shardmill.curate import (
    AspectRatioFilter,
    ParquetSink,
    Pipeline,
    WebDatasetSink,
    WebDatasetSource,
    verify,
)


def good_tars(directory: Path, count: int = 4) -> None:
    for number in range(count):
        members = [*written_sample(f"a{number}"), *text_only_sample(f"b{number}")]
        write_tar(directory / f"{number}.tar", members)


def only_bad(directory: Path, **options):
    checks = verify(directory, **options)
    bad = [check for check in checks if not check.is_valid]
    assert len(checks) > 1
    assert len(bad) == 1, [(check.path, check.problems) for check in checks]
    return bad[0]


def sample_json(**changes) -> bytes:
    sample = {"sample_id": "x", "texts": ["a", None], "images": [None, "x.1.png"]} | changes
    return json.dumps({key: value for key, value in sample.items() if value is not ...}).encode()


OTHER = text_only_sample("other")

TAR_DEFECTS = {
    "no sample_id": (
        [("x.1.png", png()), ("x.json", sample_json(sample_id=...)), *OTHER],
        "structure",
        "sample_id",
    ),
    "null sample_id": (
        [("x.1.png", png()), ("x.json", sample_json(sample_id=None)), *OTHER],
        "structure",
        "sample_id",
    ),
    "unequal lists": (
        [("x.1.png", png()), ("x.json", sample_json(texts=["a"])), *OTHER],
        "structure",
        "same length",
    ),
    "no list": (
        [("x.json", sample_json(images=None)), *OTHER],
        "structure",
        "`images` is not a list",
    ),
    "missing member": (
        [("x.json", sample_json()), *OTHER],
        "structure",
        "missing member 'x.1.png'",
    ),
    "unnamed member": (
        [("x.1.png", png()), ("x.2.png", png()), ("x.json", sample_json()), *OTHER],
        "structure",
        "no sample names this member",
    ),
    "member named twice": (
        [
            ("x.1.png", png()),
            ("x.json", sample_json(texts=[None] * 2, images=["x.1.png"] * 2)),
            *OTHER,
        ],
        "structure",
        "2 entries name this member",
    ),
    "image of another stem": (
        [("y.1.png", png()), ("x.json", sample_json(images=[None, "y.1.png"])), *OTHER],
        "structure",
        "another sample",
    ),
    "stem that only begins alike": (
        [("x.1-2.png", png()), ("x.1.json", sample_json(images=[None, "x.1-2.png"])), *OTHER],
        "structure",
        "another sample",
    ),
    "two members of one name": ([*written_sample("x"), *OTHER, *OTHER], "structure", "hides"),
    "broken json": (
        [("x.1.png", png()), ("x.json", b'{"sample_id": '), *OTHER],
        "json",
        "broken JSON",
    ),
    "json that is a list": (
        [("x.1.png", png()), ("x.json", b"[]"), *OTHER],
        "json",
        "not an object",
    ),
    "image without header": (
        [("x.1.png", b"not an image"), ("x.json", sample_json()), *OTHER],
        "image",
        "recognized image",
    ),
    "cut header": ([("x.1.png", png()[:18]), ("x.json", sample_json()), *OTHER], "image", "needs"),
    "empty image": ([("x.1.png", b""), ("x.json", sample_json()), *OTHER], "image", "0"),
    "two pages for one entry": (
        [
            ("x.1.tiff", tiff((2, 2), (2, 2))),
            ("x.json", sample_json(images=[None, "x.1.tiff"])),
            *OTHER,
        ],
        "image",
        "2 pages",
    ),
}


@pytest.mark.parametrize("name", TAR_DEFECTS)
def test_defect_of_one_tar_among_many_is_found(tmp_path: Path, name: str) -> None:
    members, rule, what = TAR_DEFECTS[name]
    good_tars(tmp_path)
    write_tar(tmp_path / "2b.tar", members)
    check = only_bad(tmp_path)
    assert check.path.endswith("2b.tar")
    assert check.problem_count == 1, check.problems
    assert check.problems[0].rule == rule
    assert what in check.problems[0].what
    assert check.wds_valid is (rule == "image")


def test_layout_can_be_told_where_a_single_sample_shows_nothing(tmp_path: Path) -> None:
    path = write_tar(
        tmp_path / "x.tar", [("x.1.png", png()), ("x.json", sample_json(sample_id=...))]
    )
    assert verify(path)[0].is_valid
    assert "sample_id" in verify(path, layout="written")[0].problems[0].what


@pytest.mark.parametrize(
    "damage", ["zero bytes", "cut in a member", "cut in a header", "flipped gzip byte", "cut gzip"]
)
def test_damaged_tar_among_many_is_found(tmp_path: Path, damage: str) -> None:
    good_tars(tmp_path)
    members = [member for number in range(20) for member in written_sample(f"s{number}")]
    path = write_tar(tmp_path / "x.tar", members)
    content = path.read_bytes()
    if "gzip" in damage:
        path.unlink()
        path = write_tar(tmp_path / "x.tar.gz", members, "w:gz")
        content = path.read_bytes()
    match damage:
        case "zero bytes":
            path.write_bytes(b"")
        case "cut in a member":
            path.write_bytes(content[: 512 * 17 + 20])
        case "cut in a header":
            path.write_bytes(content[: 512 * 16 + 100])
        case "flipped gzip byte":
            middle = len(content) - 6
            path.write_bytes(
                content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
            )
        case "cut gzip":
            path.write_bytes(content[: len(content) // 2])
    check = only_bad(tmp_path)
    assert check.path == str(path)
    assert "readable" in {problem.rule for problem in check.problems}
    assert check.wds_valid is False
    assert check.ordering_valid is False


def test_members_without_a_document_are_a_problem_where_documents_are_wanted(
    tmp_path: Path,
) -> None:
    path = write_tar(tmp_path / "x.tar", [("x.1.png", png()), ("x.jsonl", b"{}")])
    assert verify(path)[0].is_valid, "a WebDataset of rows"
    for layout in ("source", "written"):
        problem = verify(path, layout=layout)[0].problems[0]
        assert "none of the 2 members is a sample" in problem.what
        assert ".jsonl (1), .png (1)" in problem.what


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ([("a.txt", b"t"), ("a.cls", b"7"), ("b.cls", b"x")], "is not a whole number"),
        ([("a.txt", b"\xff")], "is not valid UTF-8"),
        ([("a.jpg", b"1"), ("a.JPG", b"2")], "which has one at byte 512"),
        (
            [("a.jpg", b"1"), ("b.jpg", b"2"), ("a.txt", b"3")],
            "belongs to the sample `a` at byte 512",
        ),
    ],
)
def test_plain_webdataset_passes_exactly_when_its_rows_can_be_read(
    tmp_path: Path, members, what: str
) -> None:
    good = write_tar(
        tmp_path / "good.tar",
        [("a.txt", b"t"), ("a.cls", b"7"), ("b.cls", b"8"), ("b.json", b"[1]")],
    )
    check = verify(good)[0]
    assert (check.is_valid, check.samples, len(shardmill.Dataset(good))) == (True, 2, 2)
    bad = write_tar(tmp_path / "bad.tar", members)
    with pytest.raises(shardmill.FormatError):
        list(shardmill.Dataset(bad))
    (problem,) = verify(bad)[0].problems
    assert what in problem.what


@pytest.mark.parametrize("value", ["text", 7, {"a": 1}, True])
def test_value_that_is_no_list_is_a_problem_of_a_source(tmp_path: Path, value) -> None:
    path = write_tar(
        tmp_path / "x.tar", [("a.json", json.dumps({"texts": value, "other": 1}).encode())]
    )
    (problem,) = verify(path)[0].problems
    assert (problem.rule, problem.member) == ("structure", "a.json")
    assert (
        "`texts` is" in problem.what and "not a list" in problem.what and "`other`" in problem.what
    )


def test_key_that_no_sample_has_is_a_problem(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", [*source_sample("a")])
    assert verify(path)[0].is_valid
    (problem,) = verify(path, texts_field="text")[0].problems
    assert "texts_field" in problem.what and "`texts`" in problem.what


def test_tar_without_documents_is_plain_rows_unless_a_layout_is_named(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", [("x.1.png", png())])
    assert verify(path)[0].is_valid
    for layout in ("source", "written"):
        assert (
            "none of the 1 members is a sample" in verify(path, layout=layout)[0].problems[0].what
        )


def test_text_only_samples_and_stems_with_dots_pass(tmp_path: Path) -> None:
    write_tar(
        tmp_path / "x.tar",
        [*text_only_sample("a.b"), *written_sample("a.c"), *written_sample("a.c.1")],
    )
    check = verify(tmp_path)[0]
    assert (check.is_valid, check.samples, check.rows["image"]) == (True, 3, 2)


def test_empty_tar_and_empty_parquet_of_an_empty_batch_pass(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", [])
    write_parquet(tmp_path / "x.parquet", [])
    assert [(check.is_valid, check.samples) for check in verify(tmp_path)] == [(True, 0)] * 2


def test_source_with_opaque_entries_passes_and_page_mismatch_is_found(tmp_path: Path) -> None:
    for number in range(4):
        write_tar(tmp_path / f"{number}.tar", [*source_sample("a"), ("readme.txt", b"hi")])
    write_tar(tmp_path / "x.tar", [*source_sample("a"), *source_sample("b", pages=1, entries=3)])
    check = only_bad(tmp_path)
    assert check.is_written is False
    assert "1 pages, the sample has 3 entries" in check.problems[0].what
    assert (check.problems[0].sample, check.problems[0].member) == ("b", "b.tiff")


def test_source_entry_that_names_no_member_is_found(tmp_path: Path) -> None:
    write_tar(
        tmp_path / "x.tar", [("a.json", b'{"texts": [], "images": ["gone.png"]}'), ("b.png", png())]
    )
    assert verify(tmp_path)[0].problems[0].what == "missing member 'gone.png'"


def test_gaps_and_ties_are_problems_only_after_numbering_anew(tmp_path: Path) -> None:
    sample = sample_json(texts=["a", "b", None, None], images=[None, "x.1.png", None, None])
    path = write_tar(tmp_path / "x.tar", [("x.1.png", png()), ("x.json", sample)])
    assert verify(path)[0].is_valid
    check = verify(path, is_renumbered=True)[0]
    assert (check.ordering_valid, check.wds_valid) == (False, False)


PARQUET_DEFECTS = {
    "null id": (document(None)[:1], "row", "sample_id is null", 3),
    "null position": (document("x", position=None), "row", "position is null", 5),
    "null modality": (document("x", modality=None), "row", "modality is null", 5),
    "no metadata": (document("x")[1:], "ordering", "not with its metadata row", 3),
    "metadata last": (
        document("x")[1:] + document("x")[:1],
        "ordering",
        "not with its metadata row",
        3,
    ),
    "metadata doubled": (document("x")[:1] + document("x"), "ordering", "two metadata rows", 4),
    "metadata at 0": ([document("x")[0] | {"position": 0}], "ordering", "position 0, not -1", 3),
    "descending": (
        document("x", position=2) + document("x")[1:2],
        "ordering",
        "comes after position 2",
        6,
    ),
    "duplicate": (document("x") + document("x")[2:], "ordering", "two image rows at position 1", 6),
    "negative": (document("x", position=-5), "ordering", "position -5", 5),
    "error with bytes": (
        document("x", materialize_error="missing path"),
        "row",
        "has bytes although",
        5,
    ),
    "bytes on a text": (document("x", modality="text"), "row", "a text row has bytes", 5),
    "broken image": (document("x", binary_content=b"nope"), "image", "recognized image", 5),
    "many pages": (document("x", binary_content=tiff((2, 2), (2, 2))), "image", "2 pages", 5),
    "broken locator": (document("x", source_ref="[1]"), "row", "not a JSON object", 5),
}


@pytest.mark.parametrize("name", PARQUET_DEFECTS)
def test_defect_of_one_parquet_file_among_many_is_found(tmp_path: Path, name: str) -> None:
    rows, rule, what, row = PARQUET_DEFECTS[name]
    for number in range(4):
        write_parquet(tmp_path / f"{number}.parquet", document("s") + document("t", position=7))
    write_parquet(tmp_path / "2b.parquet", document("s") + rows, row_group_size=2)
    check = only_bad(tmp_path)
    assert check.path.endswith("2b.parquet")
    assert check.problem_count == 1, check.problems
    assert (check.problems[0].rule, check.problems[0].row) == (rule, row)
    assert what in check.problems[0].what
    assert check.ordering_valid is (rule != "ordering")


def test_legal_parquet_passes(tmp_path: Path) -> None:
    tie = document("tie", position=0)
    lazy = document("lazy", binary_content=None, source_ref='{"path": "a.png"}')
    failed = document("failed", binary_content=None, materialize_error="missing path")
    path = write_parquet(
        tmp_path / "x.parquet", [*tie, *lazy, *failed, *document("s"), *document("s")]
    )
    check = verify(path)[0]
    assert check.is_valid, check.problems
    assert (check.samples, check.duplicate_sample_ids) == (5, 1)
    assert [problem.rule for problem in verify(path, is_renumbered=True)[0].problems] == [
        "ordering"
    ]


@pytest.mark.parametrize("damage", ["cut", "page", "zero bytes"])
def test_damaged_parquet_is_found(tmp_path: Path, damage: str) -> None:
    path = write_parquet(
        tmp_path / "x.parquet", document("s") * 50, write_page_checksum=True, compression="none"
    )
    write_parquet(tmp_path / "y.parquet", document("s"))
    content = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(content[:-10])
        case "page":
            place = content.index(png()) + 40
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        case "zero bytes":
            path.write_bytes(b"")
    check = only_bad(tmp_path)
    assert check.problems[0].rule == "readable"


def test_what_our_sinks_write_passes_the_strict_rules(tmp_path: Path) -> None:
    for number in range(3):
        write_tar(
            tmp_path / "in" / f"{number}.tar",
            [*source_sample(f"a.{number}", words=3), *source_sample("ü/b")],
        )
    for sink in (ParquetSink(tmp_path / "pq"), WebDatasetSink(tmp_path / "wds")):
        Pipeline(
            source=WebDatasetSource(tmp_path / "in"), stages=[AspectRatioFilter(1, 3)], sink=sink
        ).run()
        checks = verify(sink.path, layout="written", is_renumbered=True)
        assert [(check.is_valid, check.samples, check.rows["image"]) for check in checks] == [
            (True, 2, 4)
        ] * 3, checks


def test_problems_are_counted_beyond_those_that_are_kept(tmp_path: Path) -> None:
    rows = [row for number in range(30) for row in document(str(number), binary_content=b"nope")]
    check = verify(write_parquet(tmp_path / "x.parquet", rows), max_problems=5)[0]
    assert (len(check.problems), check.problem_count) == (5, 30)


def test_file_that_is_named_outright_may_be_an_image_or_anything(tmp_path: Path) -> None:
    (tmp_path / "a.tiff").write_bytes(tiff((2, 2), (3, 3)))
    (tmp_path / "b.bin").write_bytes(b"hello")
    checks = verify([tmp_path / "a.tiff", tmp_path / "b.bin"])
    assert [(check.format, check.is_valid) for check in checks] == [
        ("image", True),
        ("unknown", False),
    ]


def test_missing_path_and_directory_without_shards_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(shardmill.NotFoundError):
            verify(path)
    with pytest.raises(shardmill.OptionError, match="layout"):
        verify(tmp_path, layout="other")  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_that_may_not_be_read_is_a_problem_of_that_file(tmp_path: Path) -> None:
    good_tars(tmp_path)
    (tmp_path / "1.tar").chmod(0)
    assert only_bad(tmp_path).path.endswith("1.tar")
