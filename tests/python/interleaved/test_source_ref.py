"""Locators of rows, and that they lead to the right bytes (specification §1.2, §3)."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from shard_builders import (
    curate,
    from_parquet,
    from_tar,
    image,
    row,
    tiff,
    write_parquet,
    write_tar,
)

LAZY = {"materialize_on_write": False}
PAGES = tiff((20, 10), (30, 10), (40, 10), compression="jpeg")
MEMBERS = {
    "d/ü.json": {"texts": ["t"], "images": [None, "ä.png", "p0", "p1", "p2"]},
    "d/ä.png": image("PNG"),
    "d/ü.tiff": PAGES,
}


def test_keys_stand_in_order_escaped_and_frame_index_only_for_tiff(
    run_tar: Any, tmp_path: Path
) -> None:
    outcome = run_tar(MEMBERS)
    refs = outcome.column("source_ref")
    assert all(ref.isascii() for ref in refs)
    assert "\\u00fc" in refs[0]
    keys = ["path", "member", "byte_offset", "byte_size"]
    assert [list(json.loads(ref)) for ref in refs] == [keys] * 3 + [[*keys, "frame_index"]] * 3
    assert refs[0] == refs[1], "text rows carry the locator of the JSON member"
    with tarfile.open(tmp_path / "in" / "in.tar") as archive:
        for ref in map(json.loads, refs):
            member = archive.getmember(ref["member"])
            assert (ref["byte_offset"], ref["byte_size"]) == (member.offset_data, member.size)


def filled(outcome: Any, out: Any) -> Any:
    """The same rows, read again from Parquet without bytes and materialised by their locators."""
    assert set(outcome.column("binary_content")) == {None}
    return curate(
        from_parquet(outcome.directory, allowed_roots=outcome.directory.parent / "in"), to=out()
    )


@pytest.mark.parametrize(
    ("name", "mode"),
    [("in.tar", "w"), ("in.tar.gz", "w:gz"), ("in.tgz", "w:gz"), ("IN.TAR.GZ", "w:gz")],
)
def test_locators_lead_to_the_bytes_also_from_compressed_archives(
    run_tar: Any, out: Any, name: str, mode: str
) -> None:
    eager = run_tar(MEMBERS, name=name, mode=mode, source={"materialize_on_read": True})
    never = run_tar(MEMBERS, name=name, mode=mode, **LAZY)
    again = filled(never, out)
    assert again.rows == eager.rows
    assert None not in again.column("binary_content", "image")
    offsets = {json.loads(ref)["byte_offset"] for ref in never.column("source_ref")}
    assert (offsets == {None}) == (mode == "w:gz")


def test_range_into_a_compressed_archive_is_served_by_the_member(
    tmp_path: Path, run_rows: Any
) -> None:
    payload = image("PNG")
    path = write_tar(tmp_path / "a.tar.gz", {"x.png": payload}, "w:gz")
    ref = json.dumps({"path": str(path), "member": "x.png", "byte_offset": 3, "byte_size": 20})
    outcome = run_rows([row("a", 0, "image", source_ref=ref)])
    assert outcome.column("binary_content") == [payload]


def locator(path: Any, **values: Any) -> str:
    return json.dumps({"path": None if path is None else str(path), **values})


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, int, bytes]:
    """A tar, the offset of its member x.png, and that member's bytes."""
    payload = image("PNG", (40, 40))
    path = write_tar(
        tmp_path / "a.tar",
        {"x.png": payload, "pages.tiff": PAGES, "fake.tiff": payload, "junk.tiff": b"junk" * 50},
    )
    with tarfile.open(path) as found:
        return path, found.getmember("x.png").offset_data, payload


@pytest.mark.parametrize("size", [None, 0, "whole", "text", "float"])
def test_each_strategy_fills_the_bytes(
    archive: Any, tmp_path: Path, run_rows: Any, size: Any
) -> None:
    path, offset, payload = archive
    (tmp_path / "x.png").write_bytes(payload)
    kinds = {
        None: {"path": tmp_path / "x.png"},
        0: {"path": path, "member": "x.png", "byte_offset": offset, "byte_size": 0},
        "whole": {
            "path": path,
            "member": "x.png",
            "byte_offset": offset,
            "byte_size": len(payload),
            "legacy": [1],
        },
        "text": {
            "path": path,
            "member": "x.png",
            "byte_offset": str(offset),
            "byte_size": str(len(payload)),
        },
        "float": {
            "path": path,
            "member": "x.png",
            "byte_offset": float(offset),
            "byte_size": float(len(payload)),
        },
    }
    ref = kinds[size]
    outcome = run_rows([row("a", 0, "image", source_ref=locator(ref.pop("path"), **ref))])
    assert outcome.column("binary_content") == [payload]
    assert outcome.column("materialize_error") == [None]


ERRORS = [
    (None, "missing path"),
    ("", "missing path"),
    ("NaN", "missing path"),
    ("{}", "missing path"),
    ('{"legacy": 1}', "missing path"),
    ({"path": "{tar}", "member": "none.png"}, "missing member 'none.png'"),
    (
        {"path": "{tar}", "member": "none.png", "byte_offset": 1, "byte_size": 0},
        "missing member 'none.png'",
    ),
    ({"path": "{tar}.none"}, "failed to read path"),
    ({"path": "{tar}.none", "member": "x.png"}, "failed to read path"),
    ({"path": "weird://bucket/key"}, "failed to resolve filesystem"),
    (
        {"path": "{tar}", "member": "x.png", "byte_offset": 1 << 40, "byte_size": 5},
        "empty range read for member 'x.png'",
    ),
    (
        {"path": "{tar}", "member": "x.png", "byte_offset": 512, "byte_size": 1 << 40},
        "short range read for member 'x.png'",
    ),
    (
        {"path": "{tar}", "member": "pages.tiff", "frame_index": 3},
        "failed to extract frame 3 from 'pages.tiff'",
    ),
    (
        {"path": "{tar}", "member": "fake.tiff", "frame_index": 1},
        "failed to extract frame 1 from 'fake.tiff'",
    ),
    (
        {"path": "{tar}", "member": "junk.tiff", "frame_index": 0},
        "failed to extract frame 0 from 'junk.tiff'",
    ),
]


@pytest.mark.parametrize(("ref", "error"), ERRORS)
def test_row_that_cannot_be_fetched_has_its_error_and_no_bytes(
    archive: Any, run_rows: Any, ref: Any, error: str
) -> None:
    text = ref if not isinstance(ref, dict) else json.dumps(ref).replace("{tar}", str(archive[0]))
    fine = locator(archive[0], member="x.png")
    outcome = run_rows(
        [row("a", 0, "image", source_ref=text), row("a", 1, "image", source_ref=fine)],
        on_materialize_error="warn",
    )
    assert outcome.column("materialize_error") == [error, None], (
        "an error concerns its own row only"
    )
    assert outcome.column("binary_content") == [None, archive[2]]


def test_locator_that_is_no_object_is_an_error_of_its_row(run_rows: Any) -> None:
    outcome = run_rows([row("a", 0, "image", source_ref="[1]")], on_materialize_error="warn")
    assert "not a JSON object" in outcome.column("materialize_error")[0]


def test_other_image_under_a_tiff_name_is_its_own_first_page(archive: Any, run_rows: Any) -> None:
    ref = locator(archive[0], member="fake.tiff", frame_index=0)
    assert run_rows([row("a", 0, "image", source_ref=ref)]).column("binary_content") == [archive[2]]


def test_bytes_that_are_there_are_kept_whatever_the_locator_says(run_rows: Any) -> None:
    ref = locator("/nowhere/none.tar", member="x")
    assert run_rows([row("a", 0, "image", source_ref=ref, binary_content=b"here")]).column(
        "binary_content"
    ) == [b"here"]


def test_success_leaves_the_error_null_and_an_error_leaves_the_bytes_null(run_rows: Any) -> None:
    rows = [row("a", 0, "image", binary_content=b"x", materialize_error="old error")]
    outcome = run_rows(rows, on_materialize_error="warn")
    assert (outcome.column("binary_content"), outcome.column("materialize_error")) == (
        [None],
        ["old error"],
    )


def test_more_image_files_than_a_process_may_open_are_all_read(tmp_path: Path) -> None:
    rows = []
    for number in range(600):
        (tmp_path / f"{number}.jpg").write_bytes(b"%d" % number)
        rows.append(row("a", number, "image", source_ref=locator(tmp_path / f"{number}.jpg")))
    write_parquet(tmp_path / "in" / "a.parquet", rows)
    script = f"""
import resource
from shardmill.curate import *
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
source = InterleavedParquetSource({str(tmp_path / "in")!r}, allowed_roots={str(tmp_path)!r})
sink = ParquetSink({str(tmp_path / "out")!r})
Pipeline(source=source, sink=sink).run(progress=False)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    import pyarrow.parquet as pq

    bodies = pq.read_table(tmp_path / "out").column("binary_content").to_pylist()
    assert bodies == [b"%d" % number for number in range(600)]


def test_each_image_is_fetched_once_for_filters_and_sink(tmp_path: Path, out: Any) -> None:
    """After the first filter has seen the bytes, the shard is gone.

    Only a second fetch would notice.
    """
    from shardmill.curate import ImageStage

    path = write_tar(tmp_path / "a.tar", {"a.json": {"images": ["x.png"]}, "x.png": image("PNG")})

    class Destroy(ImageStage):
        name, drop_invalid_rows = "destroy", True

        def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
            path.write_bytes(b"")
            return [True] * len(images)

    class Look(ImageStage):
        name, drop_invalid_rows = "look", True

        def keep_images(self, images: list[bytes], texts: list[list[str]]) -> list[bool]:
            assert images == [image("PNG")]
            return [True]

    outcome = curate(from_tar(path), [Destroy(), Look()], to=out())
    assert outcome.column("binary_content", "image") == [image("PNG")]
