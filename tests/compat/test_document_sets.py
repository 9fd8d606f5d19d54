"""Documents in files of their own writers: Hugging Face `datasets`, and img2dataset's layout."""

import io
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from PIL import Image
from shardmill.curate import (
    InterleavedJsonlSource,
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    WebDatasetSource,
)

os.environ["HF_HUB_OFFLINE"] = "1"
datasets = pytest.importorskip("datasets")


def picture(size: tuple[int, int], form: str = "PNG") -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, (200, 30, 60)).save(target, form)
    return target.getvalue()


def rows(source: Any, to: Path) -> list[dict[str, Any]]:
    sink = ParquetSink(to, image_sizes=True)
    report = Pipeline(source=source, sink=sink).run(progress=False)
    assert report.quarantined == []
    return pq.read_table(to).to_pylist()


def content(found: list[dict[str, Any]]) -> list[Any]:
    return [row["text_content"] or row["binary_content"] for row in found[1:]]


def test_image_column_of_datasets_is_a_pair(tmp_path: Path) -> None:
    features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string")})
    body = picture((7, 9))
    path = tmp_path / "a.png"
    path.write_bytes(body)
    examples = {"image": [{"bytes": body, "path": None}, str(path)], "caption": ["a", "b"]}
    datasets.Dataset.from_dict(examples, features).to_parquet(tmp_path / "in.parquet")
    found = rows(InterleavedParquetSource(tmp_path / "in.parquet"), tmp_path / "out")
    assert [row["modality"] for row in found] == ["metadata", "image", "text"] * 2
    assert {row["binary_content"] for row in found if row["modality"] == "image"} == {body}
    assert [row["width"] for row in found] == [None, 7, None] * 2


def test_lists_of_images_of_datasets_are_obelics(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "images": datasets.List(datasets.Image()),
            "texts": datasets.List(datasets.Value("string")),
            "metadata": datasets.Value("string"),
        }
    )
    body = picture((7, 9), "JPEG")
    examples = {
        "images": [[None, {"bytes": body, "path": None}]],
        "texts": [["a", None]],
        "metadata": ["[null, {}]"],
    }
    datasets.Dataset.from_dict(examples, features).to_parquet(tmp_path / "in.parquet")
    found = rows(InterleavedParquetSource(tmp_path / "in.parquet"), tmp_path / "out")
    assert content(found) == ["a", body]


def test_chat_with_images_of_datasets_is_a_chat(tmp_path: Path) -> None:
    part = {"type": datasets.Value("string"), "text": datasets.Value("string")}
    message = {"role": datasets.Value("string"), "content": datasets.List(part)}
    features = datasets.Features(
        {"messages": datasets.List(message), "images": datasets.List(datasets.Image())}
    )
    body = picture((7, 9))
    parts = [{"type": "image", "text": None}, {"type": "text", "text": "What?"}]
    examples = {
        "messages": [[{"role": "user", "content": parts}]],
        "images": [[{"bytes": body, "path": None}]],
    }
    data = datasets.Dataset.from_dict(examples, features)
    data.to_parquet(tmp_path / "in.parquet")
    found = rows(InterleavedParquetSource(tmp_path / "in.parquet"), tmp_path / "out")
    assert content(found) == [body, "What?"]
    assert [row["role"] for row in found] == [None, "user", "user"]


def test_lines_of_datasets_are_documents(tmp_path: Path) -> None:
    body = picture((7, 9))
    (tmp_path / "a.png").write_bytes(body)
    data = datasets.Dataset.from_dict({"image": ["a.png"], "text": ["b"]})
    data.to_json(tmp_path / "in.jsonl")
    found = rows(InterleavedJsonlSource(tmp_path / "in.jsonl"), tmp_path / "out")
    assert content(found) == [body, "b"]


def test_shards_of_webdataset_with_captions_are_pairs(tmp_path: Path) -> None:
    """The writer and the names that img2dataset uses."""
    webdataset = pytest.importorskip("webdataset")
    body = picture((7, 9), "JPEG")
    with webdataset.TarWriter(str(tmp_path / "00000.tar")) as shard:
        for number in range(2):
            about = {"caption": "a", "key": f"{number:09}", "width": 7, "height": 9}
            shard.write({"__key__": f"{number:09}", "jpg": body, "txt": "a", "json": about})
    found = rows(WebDatasetSource(tmp_path / "00000.tar"), tmp_path / "out")
    assert content(found)[:2] == [body, "a"]
    assert [row["sample_id"] for row in found] == ["000000000"] * 3 + ["000000001"] * 3
