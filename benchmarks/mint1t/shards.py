"""Writes planned shards as tar files: ``<id>.json`` then ``<id>.tiff`` for every document.

Enters: an output folder, a shard count, a codec. Leaves: tar files named like those of MINT-1T-PDF and a hidden
record of what was made. Called by ``python -m benchmarks.mint1t``. Invariant: a tar under its final name is complete.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.mint1t.pictures import JPEG_QUALITY, draw_page, tiff_of
from benchmarks.mint1t.plan import FULL_SET_SHARDS, SamplePlan, ShardPlan, plan_shards, totals_of

# Hidden, so that no reader takes it for data.
RECORD_NAME = ".dataset.json"
# Part of the record: raise it when the bytes of a shard change, and old folders are written anew.
GENERATOR_VERSION = 1

_FOLDER = "CC-MAIN-2024-18-shard-0"
_TAR_NAME = "CC-MAIN-20240412101354-20240412131354-{index:05d}.tar"
_VOCABULARY = """
the of and in to a is for with on that by as are from data model results figure table method these we
between system analysis using time study values energy surface water field river temperature measured
naïve Größe écart señal signal sample distribution region growth policy market annual report section
committee language history theory carbon network design process control material structure response
"""
_WORDS = _VOCABULARY.split()


def write_dataset(
    out: Path,
    *,
    shards: int = FULL_SET_SHARDS,
    of: int = FULL_SET_SHARDS,
    codec: str = "jpeg",
    processes: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Writes the first ``shards`` shards of the set, unless they are there already.

    Args:
        out: Folder that gets one sub-folder with the tar files.
        shards: How many shards to write.
        of: How many shards the whole set has, see ``plan_shards``.
        codec: TIFF codec of the pages: ``jpeg``, ``raw``, ``lzw`` or ``deflate``.
        processes: How many processes draw; all cores by default.
        seed: Another seed gives another set with the same totals.

    Returns:
        The record that is also left in the folder: the arguments, the counts and the bytes.
    """
    plans = plan_shards(shards, of=of, seed=seed)
    totals = totals_of(plans)
    made_with = {
        "generator_version": GENERATOR_VERSION,
        "shards": shards,
        "of": of,
        "codec": codec,
        "jpeg_quality": JPEG_QUALITY if codec == "jpeg" else None,
        "seed": seed,
    }
    record_path = out / RECORD_NAME
    if record_path.exists():
        record = json.loads(record_path.read_text())
        if {key: record.get(key) for key in made_with} == made_with:
            return record
        record_path.unlink()

    folder = out / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.tar"):
        stale.unlink()
    with ProcessPoolExecutor(max_workers=processes) as pool:
        total_bytes = sum(pool.map(_write_shard, plans, [folder] * shards, [codec] * shards, [seed] * shards))
    record = made_with | {
        "samples": totals.samples,
        "texts": totals.texts,
        "images": totals.images,
        "kept_images": totals.kept_images,
        "rows": totals.rows,
        "kept_rows": totals.kept_rows,
        "total_bytes": total_bytes,
    }
    record_path.write_text(json.dumps(record, indent=2) + "\n")
    return record


def _write_shard(plan: ShardPlan, folder: Path, codec: str, seed: int) -> int:
    rng = random.Random(f"mint1t pixels {seed} {plan.index}")
    path = folder / _TAR_NAME.format(index=plan.index)
    staging = path.with_name(f".{path.name}.partial")
    with tarfile.open(staging, "w", format=tarfile.USTAR_FORMAT) as tar:
        for sample in plan.samples:
            document, tiff = _draw_sample(rng, sample, codec)
            _add_member(tar, f"{sample.sample_id}.json", json.dumps(document, ensure_ascii=False).encode())
            _add_member(tar, f"{sample.sample_id}.tiff", tiff)
    staging.replace(path)
    return path.stat().st_size


def _draw_sample(rng: random.Random, sample: SamplePlan, codec: str) -> tuple[dict[str, object], bytes]:
    pages: list[Image.Image] = []
    image_metadata: list[dict[str, object]] = []
    texts: list[str | None] = []
    images: list[str | None] = []
    pdf_page, xref = 0, 10 + int(rng.random() * 200)
    for kind in sample.order:
        if kind == "t":
            texts.append(_paragraph(rng))
            images.append(None)
            continue
        width, height = sample.pages[len(pages)]
        page = draw_page(rng, width, height, f"Fig. {len(pages) + 1}  {sample.sample_id[:8]}")
        pdf_page += int(rng.random() * 3)
        xref += 1 + int(rng.random() * 40)
        pages.append(page)
        image_metadata.append(
            {
                "height": height,
                "width": width,
                "page": pdf_page,
                "xref": xref,
                "sha256": hashlib.sha256(page.tobytes()).hexdigest(),
            }
        )
        texts.append(None)
        images.append(f"page_{pdf_page}_image_{xref}")
    words = sum(len(text.split()) for text in texts if text)
    # In the real set this list is now and then out of page order.
    if rng.random() < 0.1:
        image_metadata.reverse()
    document = {
        "pdf_name": f"{sample.sample_id}.pdf",
        "url": f"https://example.org/papers/{sample.sample_id[:10]}.pdf",
        "texts": texts,
        "images": images,
        "image_metadata": image_metadata,
        "language_id_whole_page_fasttext": {"en": round(0.66 + 0.33 * rng.random(), 4)},
        "previous_word_count": words,
        "bff_contained_ngram_count_before_dedupe": int(rng.random() * 40),
    }
    return document, tiff_of(pages, codec)


def _paragraph(rng: random.Random) -> str:
    # Up to 4,000 words in the real set are rare; a few hundred are the rule.
    count = 40 + int(420 * rng.random() ** 2)
    words = [_WORDS[int(rng.random() * len(_WORDS))] for _ in range(count)]
    words[0] = words[0].capitalize()
    return " ".join(words) + "."


def _add_member(tar: tarfile.TarFile, name: str, payload: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(payload)
    member.mode = 0o644
    tar.addfile(member, io.BytesIO(payload))
