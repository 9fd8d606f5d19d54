"""Rows that one JSON member becomes (specification §1.3, §2.2 – §2.4)."""

import json
from pathlib import Path
from typing import Any

import pytest
from shard_builders import image, tiff
from shardmill.curate import SampleKeys
from shardmill.errors import OptionError


def shape(outcome: Any) -> list[tuple[int, str]]:
    return [(position, modality) for _, position, modality in outcome.shape()]


def test_parallel_lists_interleave_and_share_one_counter(run_tar: Any) -> None:
    members = {
        "d.json": {
            "texts": ["intro", None, "mid", None, "end"],
            "images": [None, "p.jpg", None, "c.jpg", None],
        },
        "p.jpg": image(),
        "c.jpg": image(),
    }
    outcome = run_tar(members)
    expected = [(-1, "metadata"), (0, "text"), (1, "image"), (2, "text"), (3, "image"), (4, "text")]
    assert shape(outcome) == expected
    assert outcome.column("text_content", "text") == ["intro", "mid", "end"]
    kinds = {"metadata": "application/json", "text": "text/plain", "image": "image/jpeg"}
    assert outcome.column("content_type") == [kinds[modality] for _, modality in expected]


def test_pages_are_handed_out_in_token_order(run_tar: Any) -> None:
    outcome = run_tar({"d.json": {"images": [None, "x", "y"]}, "d.tiff": tiff((20, 10), (30, 10))})
    refs = [json.loads(ref) for ref in outcome.column("source_ref", "image")]
    assert outcome.column("position", "image") == [1, 2]
    assert [(ref["member"], ref["frame_index"]) for ref in refs] == [("d.tiff", 0), ("d.tiff", 1)]
    assert outcome.column("content_type", "image") == ["image/tiff"] * 2


@pytest.mark.parametrize(
    ("codec", "extension", "mime"),
    [("JPEG", "jpg", "image/jpeg"), ("PNG", "PNG", "image/png"), ("WEBP", "webp", "image/webp")],
)
def test_member_that_is_no_tiff_keeps_its_bytes(
    run_tar: Any, codec: str, extension: str, mime: str
) -> None:
    payload = image(codec)
    outcome = run_tar({"d.json": {"images": [f"x.{extension}"]}, f"x.{extension}": payload})
    assert outcome.column("binary_content", "image") == [payload]
    assert outcome.column("content_type", "image") == [mime]
    assert "frame_index" not in json.loads(outcome.column("source_ref", "image")[0])


def test_both_lists_filled_at_one_index_give_text_then_image(run_tar: Any) -> None:
    outcome = run_tar({"d.json": {"texts": ["t"], "images": ["i.jpg"]}, "i.jpg": image()})
    assert shape(outcome) == [(-1, "metadata"), (0, "text"), (0, "image")]


def test_gaps_are_not_compacted_and_lists_may_differ_in_length(run_tar: Any) -> None:
    outcome = run_tar(
        {"d.json": {"texts": [None, "a"], "images": [None, None, None, "i.jpg"]}, "i.jpg": image()}
    )
    assert shape(outcome) == [(-1, "metadata"), (1, "text"), (3, "image")]
    assert not outcome.report.warnings


def test_lists_without_nulls_and_of_different_lengths_are_a_warning(run_tar: Any) -> None:
    lists = {"texts": ["a", None, "b"], "present": ["i.jpg"], "images": [None, "u", None]}
    outcome = run_tar(
        {"d.json": lists, "i.jpg": image()}, source={"keys": SampleKeys(images_field="present")}
    )
    assert shape(outcome) == [(-1, "metadata"), (0, "text"), (0, "image"), (2, "text")]
    (warning,) = [text for text in outcome.report.warnings if "different lengths" in text]
    assert warning.startswith("`texts` (texts_field) and `present` (images_field) of a sample")


@pytest.mark.parametrize(
    "sample",
    [{}, {"texts": None, "images": None}, {"texts": [], "images": []}],
)
def test_lists_that_are_none_give_the_metadata_row_only(run_tar: Any, sample: Any) -> None:
    outcome = run_tar({"d.json": sample})
    assert shape(outcome) == [(-1, "metadata")]
    assert outcome.report.quarantined == []


def test_texts_that_are_no_strings_become_json_text(run_tar: Any) -> None:
    outcome = run_tar({"d.json": {"texts": ["", True, 1.50, {"a": [1, None]}, "ü"]}})
    assert outcome.column("text_content", "text") == ["", "true", "1.5", '{"a": [1, null]}', "ü"]


@pytest.mark.parametrize(
    ("member", "options", "sample", "expected"),
    [
        ("dir/a.b.json", {}, {}, "a.b"),
        ("a.json", {"keys": SampleKeys(sample_id_field="key")}, {"key": 7}, "7"),
        ("a.json", {"keys": SampleKeys(sample_id_field="key")}, {"key": None}, "a"),
        ("a.json", {"keys": SampleKeys(sample_id_field="key")}, {"key": "x/y:ü"}, "x/y:ü"),
        ("a.json", {"keys": SampleKeys(sample_id_field="key")}, {"key": True}, "True"),
        ("x.meta.json", {"keys": SampleKeys(json_extensions=[".meta.json"])}, {}, "x.meta"),
    ],
)
def test_id_is_the_field_or_the_stem(
    run_tar: Any, member: str, options: Any, sample: Any, expected: str
) -> None:
    assert run_tar({member: sample}, source=options).column("sample_id") == [expected]


def test_only_named_json_extensions_are_samples(run_tar: Any) -> None:
    outcome = run_tar(
        {"a.meta.json": {"texts": []}, "b.json": {}, "c.txt": "x"},
        source={"keys": SampleKeys(json_extensions=[".meta.json"])},
    )
    assert outcome.column("sample_id") == ["a.meta"]


def test_custom_field_names_are_used_and_are_no_passthrough(run_tar: Any) -> None:
    members = {
        "a.json": {"body": ["t"], "pics": ["opaque"], "file": "i.png", "key": "k", "lang": "en"},
        "i.png": image("PNG"),
    }
    keys = SampleKeys(
        texts_field="body", images_field="pics", image_member_field="file", sample_id_field="key"
    )
    outcome = run_tar(members, source={"keys": keys})
    assert outcome.shape() == [("k", -1, "metadata"), ("k", 0, "text"), ("k", 0, "image")]
    assert outcome.schema.names[8:] == ["lang", "rescued"]
    assert outcome.column("content_type", "image") == ["image/png"]


def test_samples_keep_archive_order_whatever_their_ids(run_tar: Any) -> None:
    outcome = run_tar([(f"{name}.json", {"texts": ["t"]}) for name in "zam"])
    assert [key for key, position, _ in outcome.shape() if position == -1] == ["z", "a", "m"]


def test_a_link_to_a_document_is_a_sample_and_a_directory_is_not(tmp_path: Path, out: Any) -> None:
    import io
    import tarfile

    from shard_builders import curate, from_tar

    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, kind in (
            ("d.json", tarfile.DIRTYPE),
            ("l.json", tarfile.SYMTYPE),
            ("s.json", tarfile.REGTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = (
                kind,
                "s.json" * (kind == tarfile.SYMTYPE),
                2 * (kind == tarfile.REGTYPE),
            )
            archive.addfile(info, io.BytesIO(b"{}"))
    assert curate(from_tar(tmp_path / "a.tar"), to=out()).column("sample_id") == ["l", "s"]


def test_reserved_columns_have_their_types_and_nullability(run_tar: Any) -> None:
    from shard_builders import OUTPUT

    assert run_tar({"a.json": {}}).schema.equals(OUTPUT)


@pytest.mark.parametrize("options", [{"fields": "url"}, {"per_image_fields": "meta"}])
def test_lone_string_where_a_list_is_wanted_is_refused(run_tar: Any, options: Any) -> None:
    with pytest.raises(OptionError, match="must be a list of names"):
        run_tar({"a.json": {}}, source=options)


@pytest.mark.parametrize("option", ["json_extensions", "image_extensions"])
def test_lone_extension_is_refused_with_the_list_to_write(option: str) -> None:
    with pytest.raises(
        OptionError,
        match=rf"SampleKeys\.{option} must be a list of .*\nhint: write {option}=\['.json'\]",
    ):
        SampleKeys(**{option: ".json"})
