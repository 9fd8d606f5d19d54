"""Plans of packs with images: how fast headers or sizes are read, the fill, the cost of ranks.

Only headers are planned, so an image is the header of a JPEG of the size that is drawn. In tars,
zeros follow it up to the size that a photograph has; the file system keeps them as holes.
"""

from __future__ import annotations

import random
import tarfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Metrics

if TYPE_CHECKING:
    from benchmarks.sequences import SequenceOptions

#: Bytes of a photograph of a pixel, as JPEG of quality 90.
_BYTES_OF_PIXEL = 0.25
_DOCUMENTS_OF_FILE = 2000


def planned_shardmill(options: SequenceOptions) -> Metrics:
    """The first plan of a data set, which reads all headers and texts."""
    import shardmill as sm

    path = options.scratch / options.kind
    path.mkdir(parents=True)
    if options.kind == "captions":
        images = _write_captions(path, options.planned)
    else:
        images = _write_documents(path, options.planned, has_texts=options.kind != "images")
    model = options.data / "model"
    columns: Any = {"parts": ["jpg", "txt"]} if options.kind == "captions" else {}
    sequences = sm.Sequences(
        tokenizer=model,
        images=sm.ImageTokens.from_pretrained(model),
        eos="<|im_end|>",
        counts=options.scratch / "counts",
        image_output=sm.ImageOutput(
            sizes=("width", "height") if options.kind in ("sizes", "images") else None
        ),
        **columns,
    )
    # A language model of width 1,536 and a vision model of width 1,280, as Qwen2-VL-2B has.
    cost = sm.Cost(pair=1 / (12 * 1536), patch=0.44, patch_pair=0.44 / (12 * 1280))
    packing = sm.Packing(
        ["tokens", "labels"],
        length=options.length,
        strategy="best_fit",
        long="drop",
        balance=sm.Balance(cost, per_step=1),
    )

    def plan() -> tuple[float, dict[str, Any]]:
        start = time.perf_counter()
        loader = sm.Loader(
            sm.Dataset(path, sequences=sequences),
            packing=packing,
            batch_size=1,
            shuffle=True,
            lanes=options.lanes,
            output="numpy",
            rank=0,
            world_size=options.lanes,
            runtime=sm.Runtime(threads=options.workers),
        )
        len(loader)
        return time.perf_counter() - start, loader.explain(world_size=options.lanes, batch_size=1)

    seconds, answer = plan()
    again, _ = plan()
    costs = answer["cost_imbalance"]
    return {
        "documents": answer["rows_of_epoch"],
        "images": images,
        "planned_images_per_s": images / seconds,
        "planning_s": seconds,
        "planning_again_s": again,
        "fill": answer["fill_rate"],
        "dropped_rows": answer["dropped_rows"],
        "steps": answer["steps"],
        "imbalance": costs["balanced"]["before_first_end"],
        "imbalance_as_packed": costs["as_packed"]["before_first_end"],
    }


def _write_captions(path: Path, count: int) -> int:
    """Tars of images of 300 to 1,000 pixels a side with captions of 10 to 120 words."""
    from benchmarks.mint1t import WORDS

    draw = random.Random(5)
    header = _header()
    for first in range(0, count, 1000):
        with tarfile.open(path / f"{first:08}.tar", "w") as tar:
            for number in range(first, min(first + 1000, count)):
                width, height = draw.randint(300, 1000), draw.randint(300, 1000)
                _add(
                    tar,
                    f"{number:08}.jpg",
                    header(width, height),
                    int(width * height * _BYTES_OF_PIXEL),
                )
                caption = " ".join(draw.choices(WORDS, k=draw.randint(10, 120))).encode()
                _add(tar, f"{number:08}.txt", caption, len(caption))
    return count


def _add(tar: tarfile.TarFile, name: str, content: bytes, size: int) -> None:
    """Adds a member of ``size`` bytes, with a hole after its content."""
    member = tarfile.TarInfo(name)
    member.size = size
    file: Any = tar.fileobj
    file.write(member.tobuf(tar.format))
    file.write(content)
    end = tar.offset + 512 + -(-size // 512) * 512
    file.seek(end - 1)
    file.write(b"\0")
    tar.offset = end


def _write_documents(path: Path, count: int, *, has_texts: bool) -> int:
    """Interleaved documents with the pages of MINT-1T, drawn again and again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.mint1t import WORDS, plan_shards

    draw, header, images = random.Random(5), _header(), 0
    samples = [sample for shard in plan_shards(8) for sample in shard]
    drawn = iter(draw.choices(samples, k=count))

    def rows(sample: Any, number: int) -> Iterator[dict[str, Any]]:
        pages = iter(sample.pages)
        for position, part in enumerate(sample.order):
            row = {"sample_id": f"{number:08}", "position": position}
            if part == "t":
                if not has_texts:
                    continue
                text = " ".join(draw.choices(WORDS, k=draw.randint(20, 200)))
                yield row | {"modality": "text", "text_content": text}
            else:
                width, height = next(pages)
                image = {"binary_content": header(width, height), "width": width, "height": height}
                yield row | {"modality": "image"} | image

    schema = pa.schema(
        {
            "sample_id": pa.string(),
            "position": pa.int32(),
            "modality": pa.string(),
            "text_content": pa.string(),
            "binary_content": pa.large_binary(),
            "width": pa.int32(),
            "height": pa.int32(),
        }
    )
    for first in range(0, count, _DOCUMENTS_OF_FILE):
        found: list[dict[str, Any]] = []
        for number, sample in enumerate(islice(drawn, _DOCUMENTS_OF_FILE), first):
            found += rows(sample, number)
        images += sum(row["modality"] == "image" for row in found)
        table = pa.Table.from_pylist(found, schema=schema)
        pq.write_table(table, path / f"{first:08}.parquet")
    return images


def _header() -> Any:
    """Returns what makes the header of a JPEG, up to its scan, from width and height."""
    import io

    from PIL import Image

    content = io.BytesIO()
    Image.new("RGB", (16, 16)).save(content, "JPEG", quality=90)
    whole = content.getvalue()
    frame, scan = whole.index(b"\xff\xc0"), whole.index(b"\xff\xda")

    def header(width: int, height: int) -> bytes:
        sides = height.to_bytes(2, "big") + width.to_bytes(2, "big")
        return whole[: frame + 5] + sides + whole[frame + 9 : scan + 14]

    return header
