"""Pairs of images and captions in tars, as img2dataset writes them (LAION, DataComp)."""

from pathlib import Path
from typing import Any

import pytest
from shard_builders import curate, from_tar, image, write_tar

PICTURES = {"jpg": image(), "png": image("PNG", (7, 9)), "webp": image("WEBP", (5, 4))}


def pair(key: str, extension: str = "jpg", caption: Any = "a cat") -> list[tuple[str, Any]]:
    about = {"caption": "a cat", "url": "u", "key": key, "status": "success", "width": 30}
    return [
        (f"{key}.{extension}", PICTURES[extension]),
        (f"{key}.json", about),
        (f"{key}.txt", caption),
    ]


@pytest.mark.parametrize("extension", PICTURES)
def test_pair_is_an_image_and_its_caption(run_tar: Any, extension: str) -> None:
    outcome = run_tar([*pair("00000001", extension), *pair("00000002", extension, "")])
    assert outcome.shape() == [
        (key, position, modality)
        for key in ("00000001", "00000002")
        for position, modality in enumerate(("metadata", "image", "text"), -1)
    ]
    assert outcome.column("binary_content", "image") == [PICTURES[extension]] * 2
    assert outcome.column("text_content", "text") == ["a cat", ""]
    assert outcome.column("url", "metadata") == ["u", "u"]
    assert outcome.report.warnings == {}


def test_pair_in_a_directory_of_the_tar_is_found(run_tar: Any) -> None:
    members = [(f"train/{name}", value) for name, value in pair("7")]
    assert run_tar(members).column("modality") == ["metadata", "image", "text"]


def test_documents_with_lists_and_pairs_are_one_job(tmp_path: Path, out: Any) -> None:
    write_tar(tmp_path / "in" / "a.tar", pair("1"))
    write_tar(tmp_path / "in" / "b.tar", {"a.json": {"texts": ["t"]}, "a.txt": "not a caption"})
    outcome = curate(from_tar(tmp_path / "in"), to=out())
    assert outcome.column("text_content", "text") == ["a cat", "t"]
    assert outcome.report.warnings["members (.txt) that no document names"] == 1


@pytest.mark.parametrize("left_out", [".jpg", ".txt"])
def test_json_without_its_image_or_caption_is_metadata(run_tar: Any, left_out: str) -> None:
    members = [found for found in pair("2") if not found[0].endswith(left_out)]
    outcome = run_tar([*pair("1"), *members])
    assert outcome.column("modality") == ["metadata", "image", "text", "metadata"]


def test_json_beside_two_images_is_not_a_pair(run_tar: Any) -> None:
    members = [*pair("1"), *pair("2"), ("2.png", PICTURES["png"])]
    assert run_tar(members).column("modality") == ["metadata", "image", "text", "metadata"]


def test_caption_that_is_not_utf_8_is_quarantined(run_tar: Any) -> None:
    outcome = run_tar([*pair("1"), *pair("2", caption=b"\xff")])
    (item,) = outcome.report.quarantined
    assert item["reason"] == "`2.txt` is not valid UTF-8"
    assert outcome.column("sample_id", "metadata") == ["1"]
