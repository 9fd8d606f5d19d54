"""Photographs of the images benchmark: ``python -m benchmarks.images_data --out=DIR``.

Crops of the photographs in the Debian packages lomiri-wallpapers-16.04 and -20.04, which apt
downloads, as JPEG of quality 90 with subsampled color: many of 500 x 375, and some of 1920 x 1080.
Each size lies there as Parquet with the structs of Hugging Face, and as one file an image. The
small ones are also there as interleaved rows, and with photographs of 89 megapixels between them.
"""

from __future__ import annotations

import io
import random
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Metrics, Options, make_set, read_options

PACKAGES = ("lomiri-wallpapers-16.04", "lomiri-wallpapers-20.04")
SIZES = {"small": (500, 375), "large": (1920, 1080)}
_HUGE = (11_000, 8_100)
_INTERLEAVED_FILES = 8
_ROW_GROUP = 64


@dataclass(frozen=True, kw_only=True)
class SetOptions(Options):
    """A data set.

    Attributes:
        small: Number of images of 500 x 375.
    """

    small: int = 4000

    @property
    def large(self) -> int:
        """A tenth as many images are of 1920 x 1080."""
        return max(self.small // 10, 4)

    @property
    def huge(self) -> int:
        """A hundredth as many images are of 89 megapixels."""
        return max(self.small // 100, 1)


def write_set(options: SetOptions, directory: Path) -> Metrics:
    """Writes crops of both sizes."""
    photographs = photographs_of_packages()
    draw = random.Random(42)
    for name, count in (("small", options.small), ("large", options.large)):
        crops = [crop(draw.choice(photographs), SIZES[name], draw) for _ in range(count)]
        _write_images(crops, directory / f"{name}.parquet")
        (directory / name).mkdir()
        for number, image in enumerate(crops):
            (directory / name / f"{number:05}.jpg").write_bytes(image)
        if name == "small":
            _write_interleaved(crops, directory / "interleaved")
            huge = [
                _encoded(draw.choice(photographs).resize(_HUGE, resample=1))
                for _ in range(min(options.huge, 4))
            ]
            for number in range(options.huge):
                crops.insert(number * len(crops) // options.huge, huge[number % len(huge)])
            _write_images(crops, directory / "mixed.parquet")
    return {"small": options.small, "large": options.large, "huge": options.huge}


def _write_images(images: list[bytes], path: Path) -> None:
    rows = [{"bytes": image, "path": f"{number:05}.jpg"} for number, image in enumerate(images)]
    table = pa.table({"image": rows, "label": pa.array(range(len(rows)), pa.int32())})
    pq.write_table(table, path, row_group_size=_ROW_GROUP, compression="none")


def _write_interleaved(images: list[bytes], directory: Path) -> None:
    """One sample an image, in the columns of NeMo Curator, in files for several workers."""
    directory.mkdir()
    count = len(images)
    columns = {
        "sample_id": [f"{number:05}" for number in range(count)],
        "position": pa.array([0] * count, pa.int32()),
        "modality": ["image"] * count,
        "content_type": ["image/jpeg"] * count,
        "text_content": pa.nulls(count, pa.string()),
        "binary_content": pa.array(images, pa.large_binary()),
    }
    table, part = pa.table(columns), -(-count // _INTERLEAVED_FILES)
    for at in range(0, count, part):
        path = directory / f"part-{at:05}.parquet"
        pq.write_table(table.slice(at, part), path, row_group_size=_ROW_GROUP, compression="none")


def photographs_of_packages() -> list[Any]:
    """Downloads the packages, and returns their large photographs."""
    from PIL import Image

    found = []
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            ["apt-get", "download", "--quiet", *PACKAGES],
            cwd=scratch,
            check=True,
            capture_output=True,
        )
        for package in sorted(Path(scratch).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", package, scratch], check=True)
        for path in sorted(Path(scratch).rglob("*.jpg")):
            photograph = Image.open(path).convert("RGB")
            # The sensor's noise of the largest ones is not that of a photograph of the wanted size.
            photograph.thumbnail((4000, 4000))
            if photograph.width >= 2000 and photograph.height >= 1200:
                found.append(photograph)
    return found


def crop(photograph: Any, size: tuple[int, int], draw: random.Random) -> bytes:
    """A part of a photograph, at most twice as large as the result in each direction."""
    scale = draw.uniform(1.0, min(2.0, photograph.width / size[0], photograph.height / size[1]))
    width, height = int(size[0] * scale), int(size[1] * scale)
    left, top = (
        draw.randint(0, photograph.width - width),
        draw.randint(0, photograph.height - height),
    )
    return _encoded(
        photograph.resize(size, box=(left, top, left + width, top + height), resample=1)
    )


def _encoded(picture: Any) -> bytes:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=90, subsampling="4:2:0")
    return content.getvalue()


if __name__ == "__main__":
    chosen = read_options(SetOptions)
    wanted = {
        "kind": "images, mixed",
        "small": chosen.small,
        "large": chosen.large,
        "huge": chosen.huge,
    }
    make_set(chosen.out, wanted, lambda at: write_set(chosen, at))
