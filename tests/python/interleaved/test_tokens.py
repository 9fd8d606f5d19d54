"""Which member an image token names (specification §2.3)."""

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from shard_builders import curate, from_tar, image, tiff, write_tar
from shardmill import CurateError
from shardmill.curate import SampleKeys


def resolved(outcome: Any) -> list[tuple[str | None, str | None]]:
    """Member and error of each image row."""
    rows = [row for row in outcome.rows if row["modality"] == "image"]
    for row in rows:
        assert (row["binary_content"] is None) == (row["materialize_error"] is not None)
    return [(json.loads(row["source_ref"])["member"], row["materialize_error"]) for row in rows]


WARN = {"on_materialize_error": "warn"}


@pytest.mark.parametrize(
    ("json_name", "token", "member"),
    [
        ("a.json", "x.png", "x.png"),
        ("a.json", "./x.png", "x.png"),
        ("a.json", "x.png", "./x.png"),
        ("dir/a.json", "x.png", "dir/x.png"),
        ("dir/a.json", "./x.png", "dir/x.png"),
        ("dir/a.json", "dir/x.png", "dir/x.png"),
        ("a.json", "ünï.png", "ünï.png"),
        ("a.json", "noextension", "noextension"),
    ],
)
def test_token_that_equals_a_member_name_is_that_member(
    run_tar: Any, json_name: str, token: str, member: str
) -> None:
    outcome = run_tar({json_name: {"images": [token]}, member: image("PNG")})
    assert resolved(outcome) == [(member, None)]


def test_member_name_beats_the_image_member_field(run_tar: Any) -> None:
    members = {
        "a.json": {"images": ["x.png"], "file": "a.jpg"},
        "a.jpg": image(),
        "x.png": image("PNG"),
    }
    outcome = run_tar(members, source={"keys": SampleKeys(image_member_field="file")})
    assert resolved(outcome) == [("x.png", None)]
    assert outcome.column("content_type", "image") == ["image/png"]


def test_name_may_be_used_by_several_tokens(run_tar: Any) -> None:
    assert (
        resolved(run_tar({"a.json": {"images": ["x.png", "x.png"]}, "x.png": image("PNG")}))
        == [("x.png", None)] * 2
    )


@pytest.mark.parametrize("mode", [{"materialize_on_read": True}, {"materialize_on_read": False}])
def test_file_name_without_member_is_missing_and_never_a_neighbour(run_tar: Any, mode: Any) -> None:
    members = {"a.json": {"images": ["a.png", "missing.png"]}, "a.png": image("PNG")}
    outcome = run_tar(members, source=mode, **WARN)
    assert resolved(outcome) == [("a.png", None), (None, "missing member 'missing.png'")]
    last = outcome.rows[-1]
    assert last["content_type"] is None
    assert json.loads(last["source_ref"]) == {
        "path": None,
        "member": None,
        "byte_offset": None,
        "byte_size": None,
    }


@pytest.mark.parametrize("token", ["missing.png", "missing.JPG", "missing.avif", "missing.jp2"])
def test_lone_file_name_without_member_does_not_fall_back(run_tar: Any, token: str) -> None:
    outcome = run_tar({"a.json": {"images": [token]}, "a.tiff": tiff((9, 9))}, **WARN)
    assert resolved(outcome) == [(None, f"missing member '{token}'")]


def test_several_opaque_tokens_share_a_tiff_only(run_tar: Any) -> None:
    outcome = run_tar({"a.json": {"images": ["p1", "p2"]}, "a.jpg": image()}, **WARN)
    assert resolved(outcome) == [(None, "missing member 'p1'"), (None, "missing member 'p2'")]


@pytest.mark.parametrize("token", ["page_0_image_85", 5, {"k": 1}, ["x"], True, ""])
def test_lone_opaque_token_is_the_default_member(run_tar: Any, token: Any) -> None:
    assert resolved(run_tar({"a.json": {"images": [None, token]}, "a.jpg": image()})) == [
        ("a.jpg", None)
    ]


def test_opaque_token_that_is_no_string_is_named_as_json(run_tar: Any) -> None:
    outcome = run_tar({"a.json": {"images": [{"k": 1}, 5]}}, **WARN)
    assert resolved(outcome) == [
        (None, "missing member '{\"k\": 1}'"),
        (None, "missing member '5'"),
    ]


def test_default_member_is_field_then_stem_then_id_in_extension_order(run_tar: Any) -> None:
    source = {"keys": SampleKeys(image_member_field="file", sample_id_field="key")}
    body = {"images": ["opaque"], "file": "f.gif", "key": "k"}
    everything = {
        "d/a.json": body,
        "d/f.gif": image("GIF"),
        "d/a.png": image("PNG"),
        "d/a.jpg": image(),
        "d/k.jpg": image(),
    }

    def found(*removed: str) -> str | None:
        members = {name: value for name, value in everything.items() if name not in removed}
        return resolved(run_tar(members, source=source, **WARN))[0][0]

    assert found() == "d/f.gif"
    assert found("d/f.gif") == "d/a.jpg"
    assert found("d/f.gif", "d/a.jpg") == "d/a.png"
    assert found("d/f.gif", "d/a.jpg", "d/a.png") == "d/k.jpg"
    assert found("d/f.gif", "d/a.jpg", "d/a.png", "d/k.jpg") is None


def test_default_member_of_another_directory_is_not_taken(run_tar: Any) -> None:
    outcome = run_tar(
        {"x/a.json": {"images": ["opaque"]}, "y/a.jpg": image(), "a.jpg": image()}, **WARN
    )
    assert resolved(outcome) == [(None, "missing member 'opaque'")]


@pytest.mark.parametrize("extension", [".dat", "dat"])
def test_image_extensions_are_accepted_with_or_without_dot(run_tar: Any, extension: str) -> None:
    members = {"a.json": {"images": ["opaque"]}, "a.dat": image()}
    assert resolved(
        run_tar(members, source={"keys": SampleKeys(image_extensions=[extension])})
    ) == [("a.dat", None)]


def test_frames_are_counted_per_member(run_tar: Any) -> None:
    members = {
        "a.json": {"images": ["p", "b.tif", "q", "b.tif"]},
        "a.tiff": tiff((9, 9), (8, 8)),
        "b.tif": tiff((7, 7), (6, 6)),
    }
    outcome = run_tar(members)
    refs = [json.loads(ref) for ref in outcome.column("source_ref", "image")]
    assert [(ref["member"], ref["frame_index"]) for ref in refs] == [
        ("a.tiff", 0),
        ("b.tif", 0),
        ("a.tiff", 1),
        ("b.tif", 1),
    ]


def test_single_page_tiff_is_taken_as_it_is_with_frame_zero(run_tar: Any) -> None:
    payload = tiff((9, 9))
    outcome = run_tar({"a.json": {"images": ["p"]}, "a.tif": payload})
    assert outcome.column("binary_content", "image") == [payload]
    assert json.loads(outcome.column("source_ref", "image")[0])["frame_index"] == 0


@pytest.mark.parametrize(
    ("first", "second"), [("x.png", "x.png"), ("./x.png", "x.png"), ("d//x.png", "./d/./x.png")]
)
def test_name_of_two_members_is_ambiguous_and_an_error_of_its_row(
    run_tar: Any, first: str, second: str
) -> None:
    directory = "d/" if "d/" in first else ""
    members = [
        (first, image("PNG", color="red")),
        (f"{directory}a.json", {"texts": ["t"], "images": ["x.png", "y.png"]}),
        (second, image("PNG", color="blue")),
        (f"{directory}y.png", image("PNG")),
    ]
    outcome = run_tar(members, **WARN)
    (found, error), other = resolved(outcome)
    assert found is None
    assert error.startswith("ambiguous member 'x.png': it may be ")
    assert first in error and second in error
    assert other == (f"{directory}y.png", None)
    assert outcome.report.counts("output")["materialize_errors"] == 1
    assert "images without bytes: 1" in str(outcome.report)
    with pytest.raises(CurateError, match="ambiguous member"):
        run_tar(members)


def test_member_beside_the_json_comes_before_one_at_the_root(run_tar: Any) -> None:
    red, blue = image("PNG", color="red"), image("PNG", color="blue")
    members = {
        "./1.png": red,
        "./sub/1.png": blue,
        "./sub/x.json": {"images": ["1.png", "./1.png", "sub/1.png"]},
        "./x.json": {"images": ["1.png", "sub/1.png"]},
    }
    outcome = run_tar(members)
    assert outcome.column("binary_content", "image") == [blue, blue, blue, red, blue]


def test_path_that_may_be_meant_from_either_directory_is_ambiguous(run_tar: Any) -> None:
    members = {
        "a/b/1.png": image("PNG"),
        "a/a/b/1.png": image("PNG"),
        "a/x.json": {"images": ["b/1.png", "a/b/1.png"]},
    }
    outcome = run_tar(members, **WARN)
    assert resolved(outcome)[0] == ("a/b/1.png", None)
    assert "ambiguous member 'a/b/1.png'" in str(resolved(outcome)[1][1])


@pytest.mark.parametrize("token", ["1.png", "opaque"])
def test_documents_of_one_name_get_no_picture_of_each_other(run_tar: Any, token: str) -> None:
    """What `tar -A a.tar b.tar` makes of two shards, of which the second lacks its picture."""
    members = [
        ("1.json", {"images": [token]}),
        ("1.png", image("PNG")),
        ("1.json", {"images": [token]}),
    ]
    outcome = run_tar(members, **WARN)
    assert [
        error.startswith(f"ambiguous member '{token}': its document")
        for _, error in resolved(outcome)
    ] == [True] * 2


def test_id_that_is_the_name_of_another_document_does_not_lead_to_its_image(run_tar: Any) -> None:
    members = [
        ("a.json", {"images": ["opaque"], "key": "b"}),
        ("b.json", {"images": ["opaque"], "key": "b"}),
        ("b.png", image("PNG")),
    ]
    outcome = run_tar(members, source={"keys": SampleKeys(sample_id_field="key")}, **WARN)
    assert resolved(outcome) == [(None, "missing member 'opaque'"), ("b.png", None)]


def test_shards_that_tar_joined_by_name_give_no_wrong_picture(tmp_path: Path, out: Any) -> None:
    for name, color in (("a", "red"), ("b", "blue")):
        write_tar(
            tmp_path / f"{name}.tar",
            {"1.json": {"images": ["1.png"]}, "1.png": image("PNG", color=color)},
        )
    subprocess.run(["tar", "-A", "-f", tmp_path / "a.tar", tmp_path / "b.tar"], check=True)
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert archive.getnames() == ["1.json", "1.png"] * 2
    outcome = curate(from_tar(tmp_path / "a.tar"), to=out(), **WARN)
    assert outcome.column("binary_content", "image") == [None, None]
    assert "samples with the id of an earlier one in their split: 1" in str(outcome.report)
    dropped = curate(from_tar(tmp_path / "a.tar"), to=out(), on_materialize_error="drop_row")
    assert dropped.column("binary_content", "image") == []
    assert dropped.report.rows_dropped["materialize_error"] == 2
