"""Shards shaped like MINT-1T-PDF.

    python -m benchmarks.mint1t --out=DIR --shards=8 --codec=raw

They are made here, because the real set is tens of gigabytes and not ours to pass on. The counts
are those of the 80 shards of MINT-1T-PDF CC-2024-18 that interleaved pipelines are usually timed
on; the pixels are drawn. The first shards do not depend on how many are asked for.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from benchmarks.measure import Metrics, make_set, read_options, record_of

# Part of the record: raise it when the bytes of a shard change,
# and old directories are written anew.
GENERATOR_VERSION = 2
MIN_ASPECT_RATIO, MAX_ASPECT_RATIO = 1.0, 2.0
# 86,400 pixels of RGB are 259 kB raw and about 29 kB as JPEG with this grain.
MEAN_PIXELS = 86_400
# Pillow's name of each TIFF codec; quality applies to JPEG alone.
CODECS = {"jpeg": "jpeg", "raw": None, "lzw": "tiff_lzw", "deflate": "tiff_adobe_deflate"}
JPEG_QUALITY = 77

_DIRECTORY = "CC-MAIN-2024-18-shard-0"
_TAR_NAME = "CC-MAIN-20240412101354-20240412131354-{index:05d}.tar"
_VOCABULARY = """
the of and in to a is for with on that by as are from data model results figure table method these
we between system analysis using time study values energy surface water field river temperature
measured naïve Größe écart señal signal sample distribution region growth policy market annual
report section committee language history theory carbon network design process control material
structure response
"""
WORDS = _VOCABULARY.split()
# Larger than any page plus the shift of its grain.
_GRAIN_SIDE, _GRAIN_SHIFT = 2048, 512


class Totals(NamedTuple):
    """Counts of a set of samples; ``kept_images`` pass the aspect ratio filter 1.0 to 2.0."""

    samples: int
    texts: int
    images: int
    kept_images: int

    @property
    def rows(self) -> int:
        """Rows that a reader makes: one metadata row a sample, one row a text, one row an image."""
        return self.samples + self.texts + self.images

    @property
    def kept_rows(self) -> int:
        """Rows left after the filter. No sample of this set loses all of its content."""
        return self.samples + self.texts + self.kept_images


FULL_SET = Totals(samples=6_818, texts=30_079, images=32_886, kept_images=20_816)
FULL_SET_SHARDS = 80
# Quick runs use the first eight shards, so their counts are fixed as well.
HEAD = Totals(samples=680, texts=2_958, images=3_234, kept_images=2_047)
HEAD_SHARDS = 8


@dataclass(frozen=True)
class Sample:
    """One document.

    ``order`` holds ``"t"`` or ``"i"`` in reading order, ``pages`` the size of each image.
    """

    sample_id: str
    order: str
    pages: tuple[tuple[int, int], ...]


def plan_shards(shards: int, *, of: int = FULL_SET_SHARDS) -> list[list[Sample]]:
    """Returns the samples of the first ``shards`` shards of a set of ``of`` shards.

    Nothing is drawn.

    Args:
        shards: How many shards to return.
        of: How many shards the whole set has. 80 gives the exact published totals; any other number
            gives totals in proportion.

    Raises:
        ValueError: If there are fewer shards in the set than asked for.
    """
    if not 1 <= shards <= of:
        raise ValueError(f"cannot take {shards} shards of a set of {of}")
    groups = [(of, Totals(*(round(total * of / FULL_SET_SHARDS) for total in FULL_SET)))]
    if of == FULL_SET_SHARDS:
        rest = Totals(*(total - head for total, head in zip(FULL_SET, HEAD, strict=True)))
        groups = [(HEAD_SHARDS, HEAD), (of - HEAD_SHARDS, rest)]
    plans: list[list[Sample]] = []
    for number, (group_shards, totals) in enumerate(groups):
        if len(plans) < shards:
            plans += _plan_group(np.random.RandomState([of, number]), group_shards, totals)
    return plans[:shards]


def totals_of(plans: Iterable[Sequence[Sample]]) -> Totals:
    """Counts what the planned samples hold."""
    samples = [sample for plan in plans for sample in plan]
    pages = [page for sample in samples for page in sample.pages]
    texts = sum(sample.order.count("t") for sample in samples)
    return Totals(
        len(samples), texts, len(pages), kept_images=sum(is_kept(*page) for page in pages)
    )


def is_kept(width: int, height: int) -> bool:
    """Whether an image of this size passes the filter; both bounds are inclusive."""
    return MIN_ASPECT_RATIO <= width / height <= MAX_ASPECT_RATIO


# The streams of RandomState are frozen; those of default_rng may change between NumPy versions.
def _plan_group(rng: np.random.RandomState, shards: int, totals: Totals) -> list[list[Sample]]:
    def shared(total: int, weights: np.ndarray, at_least: np.ndarray) -> np.ndarray:
        return at_least + rng.multinomial(total - at_least.sum(), weights / weights.sum())

    def long_tail() -> np.ndarray:
        return 0.25 + 2.0 * rng.random_sample(totals.samples) ** 2

    sizes = shared(totals.samples, 0.8 + 0.4 * rng.random_sample(shards), np.ones(shards, int))
    # A tenth of the documents have a single page.
    is_long = rng.random_sample(totals.samples) < 0.9
    images = shared(totals.images, long_tail() * is_long, np.ones(totals.samples, int))
    has_text = rng.random_sample(totals.samples) >= 0.02
    texts = shared(totals.texts, long_tail() * has_text, has_text.astype(int))
    # A document without text keeps its first image, so that no document loses all of its content.
    kept = np.zeros(totals.images, bool)
    kept[(np.cumsum(images) - images)[~has_text]] = True
    kept[rng.permutation(np.flatnonzero(~kept))[: totals.kept_images - kept.sum()]] = True
    pages = iter(_page_sizes(rng, kept))
    samples = []
    for num_texts, num_images in zip(texts.tolist(), images.tolist(), strict=True):
        order = "".join(rng.permutation(["t"] * num_texts + ["i"] * num_images))
        samples.append(Sample(rng.bytes(16).hex(), order, tuple(islice(pages, num_images))))
    return [samples[start:end] for start, end in pairwise([0, *np.cumsum(sizes).tolist()])]


def _page_sizes(rng: np.random.RandomState, kept: np.ndarray) -> list[tuple[int, int]]:
    choice, place, size = rng.random_sample((3, len(kept)))
    ratios = np.where(
        kept, 1.02 + 0.96 * place, np.where(choice < 0.75, 0.4 + 0.57 * place, 2.05 + 2.5 * place)
    )
    # The bounds themselves are frequent: an inclusive test that is off by one shows in the totals.
    ratios[kept & (choice < 0.08)] = MAX_ASPECT_RATIO
    ratios[kept & (choice < 0.04)] = MIN_ASPECT_RATIO
    # Quartic tail from 0.3 to 3.8 times a unit, with a mean of exactly one unit.
    pixels = MEAN_PIXELS * (0.3 + 3.5 * size**4)
    heights = np.sqrt(pixels / ratios).round()
    return list(
        zip(
            (heights * ratios).round().astype(int).tolist(),
            heights.astype(int).tolist(),
            strict=True,
        )
    )


def write_dataset(
    out: Path,
    *,
    shards: int = FULL_SET_SHARDS,
    of: int = FULL_SET_SHARDS,
    codec: str = "jpeg",
) -> Metrics:
    """Writes the first ``shards`` shards of the set, unless they are there already.

    Args:
        out: Directory that gets one sub-directory with the tar files.
        shards: How many shards to write.
        of: How many shards the whole set has, see ``plan_shards``.
        codec: TIFF codec of the pages: ``jpeg``, ``raw``, ``lzw`` or ``deflate``.

    Returns:
        The record that is also left in the directory: the arguments, the counts and the bytes.
    """
    plans = plan_shards(shards, of=of)
    totals = totals_of(plans)
    made_with = {"generator_version": GENERATOR_VERSION, "shards": shards, "of": of, "codec": codec}

    def write(staging: Path) -> Metrics:
        (staging / _DIRECTORY).mkdir()
        with ProcessPoolExecutor() as pool:
            one = partial(_write_shard, directory=staging / _DIRECTORY, codec=codec)
            list(pool.map(one, range(shards), plans))
        return totals._asdict() | {"rows": totals.rows, "kept_rows": totals.kept_rows}

    make_set(out, made_with, write)
    return record_of(out)


def _write_shard(index: int, samples: Sequence[Sample], *, directory: Path, codec: str) -> None:
    """Writes ``<id>.json`` then ``<id>.tiff`` for every document."""
    rng = np.random.RandomState(index)
    with tarfile.open(
        directory / _TAR_NAME.format(index=index), "w", format=tarfile.USTAR_FORMAT
    ) as tar:
        for sample in samples:
            document, pages = _draw_sample(rng, sample)
            add_member(
                tar, f"{sample.sample_id}.json", json.dumps(document, ensure_ascii=False).encode()
            )
            add_member(tar, f"{sample.sample_id}.tiff", _tiff_of(pages, codec))


def _draw_sample(rng: np.random.RandomState, sample: Sample) -> tuple[Metrics, list[Image.Image]]:
    pages: list[Image.Image] = []
    image_metadata: list[Metrics] = []
    texts: list[str | None] = []
    images: list[str | None] = []
    pdf_page, xref = 0, rng.randint(10, 210)
    for kind in sample.order:
        if kind == "t":
            texts.append(_paragraph(rng))
            images.append(None)
            continue
        width, height = sample.pages[len(pages)]
        page = _draw_page(rng, width, height, f"Fig. {len(pages) + 1}  {sample.sample_id[:8]}")
        pdf_page += rng.randint(3)
        xref += rng.randint(1, 41)
        pages.append(page)
        sha256 = hashlib.sha256(page.tobytes()).hexdigest()
        image_metadata.append(
            {"height": height, "width": width, "page": pdf_page, "xref": xref, "sha256": sha256}
        )
        texts.append(None)
        images.append(f"page_{pdf_page}_image_{xref}")
    # In the real set this list is now and then out of page order.
    if rng.random_sample() < 0.1:
        image_metadata.reverse()
    document = {
        "pdf_name": f"{sample.sample_id}.pdf",
        "url": f"https://example.org/papers/{sample.sample_id[:10]}.pdf",
        "texts": texts,
        "images": images,
        "image_metadata": image_metadata,
        "language_id_whole_page_fasttext": {"en": round(0.66 + 0.33 * rng.random_sample(), 4)},
        "previous_word_count": sum(len(text.split()) for text in texts if text),
        "bff_contained_ngram_count_before_dedupe": rng.randint(40),
    }
    return document, pages


def _paragraph(rng: np.random.RandomState) -> str:
    # Up to 4,000 words in the real set are rare; a few hundred are the rule.
    count = 40 + int(420 * rng.random_sample() ** 2)
    words = [WORDS[place] for place in rng.randint(len(WORDS), size=count)]
    words[0] = words[0].capitalize()
    return " ".join(words) + "."


def _draw_page(rng: np.random.RandomState, width: int, height: int, caption: str) -> Image.Image:
    """Returns an RGB picture: a coloured gradient with paper grain, and a caption."""
    columns, rows = np.arange(width) / width, np.arange(height)[:, np.newaxis] / height
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    for channel in range(3):
        across, down = 95 * rng.random_sample(2)
        top, left = rng.randint(_GRAIN_SHIFT, size=2)
        pixels[:, :, channel] = (
            240 - across * columns - down * rows + _grain()[top : top + height, left : left + width]
        )
    image = Image.fromarray(pixels)
    ImageDraw.Draw(image).text((6, 6), caption, fill=(20, 20, 20), font=_font())
    return image


def _tiff_of(pages: Sequence[Image.Image], codec: str) -> bytes:
    """Returns one TIFF that holds all pages in order."""
    options: dict[str, object] = {"compression": CODECS[codec]} if CODECS[codec] else {}
    if codec == "jpeg":
        options["quality"] = JPEG_QUALITY
    out = io.BytesIO()
    pages[0].save(out, format="TIFF", save_all=True, append_images=list(pages[1:]), **options)
    return out.getvalue()


@cache
def _grain() -> np.ndarray:
    return (
        np.random.RandomState(20_240_418)
        .randint(-8, 9, (_GRAIN_SIDE, _GRAIN_SIDE))
        .astype(np.int16)
    )


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default_imagefont()


def add_member(tar: tarfile.TarFile, name: str, payload: bytes) -> None:
    """Adds a file to a tar."""
    member = tarfile.TarInfo(name)
    member.size = len(payload)
    member.mode = 0o644
    tar.addfile(member, io.BytesIO(payload))


@dataclass(frozen=True)
class _Options:
    out: Path
    shards: int = FULL_SET_SHARDS
    of: int = FULL_SET_SHARDS
    codec: str = "jpeg"


if __name__ == "__main__":
    print(json.dumps(write_dataset(**vars(read_options(_Options)))))
