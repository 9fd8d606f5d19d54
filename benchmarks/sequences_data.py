"""Captioned photographs: ``python -m benchmarks.sequences_data --out=DIR``.

Crops of the photographs of ``benchmarks.images_data``, of many sizes, each with a caption of words
of ``benchmarks.mint1t``, in tars of WebDataset. Beside them is what a loader reads of a model: a
tokenizer that is trained on the captions, and the options of Qwen2-VL for images.
"""

from __future__ import annotations

import json
import random
import tarfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.images_data import crop, photographs_of_packages
from benchmarks.measure import Metrics, Options, make_set, read_options
from benchmarks.mint1t import WORDS, add_member

SPECIAL = ("<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
_TAR_IMAGES = 128


@dataclass(frozen=True, kw_only=True)
class SetOptions(Options):
    """A data set.

    Attributes:
        images: Number of images.
    """

    images: int = 1000


def write_set(options: SetOptions, directory: Path) -> Metrics:
    """Writes tars and a model."""
    photographs, draw = photographs_of_packages(), random.Random(42)
    captions = [
        " ".join(draw.choices(WORDS, k=draw.randint(10, 120))) for _ in range(options.images)
    ]
    (directory / "tars").mkdir()
    size = 0
    for first in range(0, options.images, _TAR_IMAGES):
        with tarfile.open(directory / "tars" / f"{first:06}.tar", "w") as tar:
            for number in range(first, min(first + _TAR_IMAGES, options.images)):
                sides = draw.randint(300, 1000), draw.randint(300, 1000)
                image = crop(draw.choice(photographs), sides, draw)
                size += len(image)
                for extension, content in (("jpg", image), ("txt", captions[number].encode())):
                    add_member(tar, f"{number:06}.{extension}", content)
    _write_model(directory / "model", captions)
    return {"images": options.images, "bytes": size}


def _write_model(directory: Path, captions: list[str]) -> None:
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(captions, special_tokens=list(SPECIAL), show_progress=False)
    directory.mkdir()
    tokenizer.save(str(directory / "tokenizer.json"))
    processor = {"image_processor_type": "Qwen2VLImageProcessor"}
    (directory / "preprocessor_config.json").write_text(json.dumps(processor))


if __name__ == "__main__":
    chosen = read_options(SetOptions)
    make_set(chosen.out, {"images": chosen.images}, lambda staging: write_set(chosen, staging))
