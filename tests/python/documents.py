"""Small shards of interleaved documents for the tests, and what an output holds."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def picture(width: int = 64, height: int = 48, seed: int = 0) -> Image.Image:
    """Smooth colours with noise: sharp enough for the blur filter."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * (k + 2) + y * (k + 1) + seed * 17) % 256 for k in range(3)]
    return Image.fromarray(
        (np.stack(planes, -1) + random.integers(0, 8, (height, width, 3)))
        .clip(0, 255)
        .astype("uint8")
    )


def encoded(image: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, format, **options)
    return target.getvalue()


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return path


def document(name: str, images: list[bytes], **extra: Any) -> dict[str, bytes]:
    """Members of one document: text, image, text, image, …; images are PNG members."""
    texts: list[str | None] = []
    tokens: list[str | None] = []
    for index in range(len(images)):
        texts += [f"text {index} of {name}", None]
        tokens += [None, f"{name}.{index}.png"]
    body = {"texts": texts, "images": tokens, **extra}
    return {f"{name}.{index}.png": image for index, image in enumerate(images)} | {
        f"{name}.json": json.dumps(body).encode()
    }


def write_shards(directory: Path, shards: int = 4, samples: int = 3) -> Path:
    """Shards of which each document has a wide image (2:1), a square one and a tall one (1:2)."""
    for shard in range(shards):
        members: dict[str, bytes] = {}
        for sample in range(samples):
            seed = shard * samples + sample
            sizes = [(96, 48), (48, 48), (48, 96)]
            images = [
                encoded(picture(*size, seed=seed + index)) for index, size in enumerate(sizes)
            ]
            members |= document(f"doc-{shard}-{sample}", images, number=seed)
        write_tar(directory / f"shard-{shard:03}.tar", members)
    return directory


def digests(directory: Path) -> dict[str, str]:
    """Name and digest of each file in a directory, staging files and all."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def rows(directory: Path) -> list[dict[str, Any]]:
    """The rows of all Parquet files of a directory, in the order of documents."""
    tables = [pq.read_table(path) for path in sorted(directory.glob("*.parquet"))]
    table = pa.concat_tables(tables, promote_options="permissive")
    return sorted(table.to_pylist(), key=lambda row: (row["sample_id"], row["position"]))
