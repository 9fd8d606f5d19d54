"""Small shards for tests, by the standard library, pyarrow and Pillow, not by what is tested."""

import io
import json
import struct
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

Members = Sequence[tuple[str, bytes]]


def png(width: int = 4, height: int = 3) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(3 * width) for _ in range(height)))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def tiff(*sizes: tuple[int, int]) -> bytes:
    first, *others = [Image.new("RGB", size, (10, 20, 30)) for size in sizes]
    out = io.BytesIO()
    first.save(out, "tiff", save_all=True, append_images=others)
    return out.getvalue()


def write_tar(path: Path, members: Members, mode: str = "w") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return path


def source_sample(stem: str, *, pages: int = 2, entries: int = 2, **extra: Any) -> Members:
    """As in MINT-1T: opaque entries that stand for the pages of one TIFF."""
    images = [None] + [f"page_0_image_{80 + k}" for k in range(entries)]
    texts = [f"text of {stem}"] + [None] * entries
    sample = {"texts": texts, "images": images} | extra
    return [
        (f"{stem}.json", json.dumps(sample).encode()),
        (f"{stem}.tiff", tiff(*[(8 + k, 6) for k in range(pages)])),
    ]


def written_sample(stem: str, **changes: Any) -> Members:
    """As our sink writes it: images first, JSON last."""
    sample = {"sample_id": stem, "texts": ["a", None], "images": [None, f"{stem}.1.png"]} | changes
    sample = {key: value for key, value in sample.items() if value is not ...}
    return [(f"{stem}.1.png", png()), (f"{stem}.json", json.dumps(sample).encode())]


def text_only_sample(stem: str) -> Members:
    return [
        (
            f"{stem}.json",
            json.dumps({"sample_id": stem, "texts": ["a", "b"], "images": [None, None]}).encode(),
        )
    ]


SCHEMA = pa.schema(
    [
        ("sample_id", pa.string()),
        ("position", pa.int32()),
        ("modality", pa.string()),
        ("content_type", pa.string()),
        ("text_content", pa.string()),
        ("binary_content", pa.large_binary()),
        ("source_ref", pa.string()),
        ("materialize_error", pa.string()),
        ("words", pa.int64()),
    ]
)


def document(sample_id: str | None = "s", **changes: Any) -> list[dict[str, Any]]:
    """Metadata, a text at 0, an image at 1; ``changes`` go to the last row."""
    metadata = {"sample_id": sample_id, "position": -1, "modality": "metadata", "words": 7}
    text = {"sample_id": sample_id, "position": 0, "modality": "text", "text_content": "a"}
    image = {
        "sample_id": sample_id,
        "position": 1,
        "modality": "image",
        "content_type": "image/png",
        "binary_content": png(),
    }
    return [metadata, text, image | changes]


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA), path, **options
    )
    return path
