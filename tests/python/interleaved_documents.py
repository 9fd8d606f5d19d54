"""Interleaved documents in Parquet, and what the processor of Qwen2-VL makes of them."""

import io
import json
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm
from byte_tokenizer import END, write_tokenizer
from documents import encoded
from image_processors import image_processor, replaced
from PIL import Image

#: Special tokens of Qwen2-VL.
PAD, BEGIN, FINISH = "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"

#: Small images, so that few patches are compared.
QWEN = {"min_pixels": 28 * 28, "max_pixels": 28 * 28 * 12}

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
        ("rescued", pa.string()),
    ]
)


def picture(height, width, *, seed=0, kind="PNG", mode="RGB", **options):
    """The bytes of an image of smooth noise."""
    rng = np.random.default_rng([height, width, seed])
    small = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).convert(mode)
    return encoded(image, kind, **options)


def drawn(seed, count):
    """Documents of texts and images in random order, without adjacent texts."""
    rng = random.Random(seed)
    words = ["hello well", " we", "\n\n", "ä b", "x"]
    documents = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(0, 6)):
            if rng.random() < 0.5 and not (parts and isinstance(parts[-1], str)):
                parts.append("".join(rng.choices(words, k=rng.randint(1, 5))))
            else:
                sides = rng.randint(20, 200), rng.randint(20, 200)
                kind = rng.choice(["PNG", "JPEG", "WEBP"])
                parts.append(picture(*sides, seed=rng.randrange(2**31), kind=kind))
        documents.append(parts)
    return documents


def rows_of(sample_id, parts, *, words=None):
    """The rows of a document: texts are strings, images are bytes, a row may be given as a dict."""
    rows = [{"position": -1, "modality": "metadata", "words": words}]
    for position, part in enumerate(parts):
        if isinstance(part, bytes):
            row = {"modality": "image", "binary_content": part}
        elif isinstance(part, str):
            row = {"modality": "text", "text_content": part}
        else:
            row = part
        rows.append({"position": position} | row)
    return [{"sample_id": sample_id} | row for row in rows]


def write_documents(path, documents, *, row_group_size=None, files=1):
    """Write documents, each a list of parts, as interleaved files below a directory."""
    path.mkdir(parents=True, exist_ok=True)
    share = -(-len(documents) // files)
    for number in range(files):
        part = list(enumerate(documents))[number * share : (number + 1) * share]
        rows = [row for at, parts in part for row in rows_of(f"d{at}", parts, words=at)]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        pq.write_table(table, path / f"{number}.parquet", row_group_size=row_group_size)
    return path


def write_model(directory):
    """Write a tokenizer with the special tokens of Qwen2-VL, and return the directory.

    The options of its image processor are those of small images.
    """
    merges = [(b"h", b"e"), (b" ", b"w"), (b"l", b"l")]
    write_tokenizer(directory, merges=merges, special=[PAD, BEGIN, FINISH])
    processor = {"image_processor_type": "Qwen2VLImageProcessor"} | QWEN
    (directory / "preprocessor_config.json").write_text(json.dumps(processor))
    return directory


def qwen_sequences(tokenizer, **options):
    """Sequences with the rule of small images, and an end of documents."""
    given = {"images": sm.ImageTokens.qwen2_vl(**QWEN), "eos": END} | options
    return sm.Sequences(tokenizer=tokenizer, **given)


def processed(directory, parts):
    """What ``Qwen2VLProcessor`` returns for a document: ids, patches and grids."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))
    images = [Image.open(io.BytesIO(part)) for part in parts if isinstance(part, bytes)]
    image = image_processor("qwen2_vl", "Qwen2VL", **QWEN)
    inputs = image(images, return_tensors="np") if images else {}
    own = SimpleNamespace(image_processor=image, image_token=PAD)
    blocks = (
        f"{BEGIN}{replaced('qwen2_vl', 'Qwen2VL', own, inputs, number)}{FINISH}"
        for number in range(len(images))
    )
    text = "".join(next(blocks) if isinstance(part, bytes) else part for part in parts)
    ids = tokenizer(f"{text}{END}", add_special_tokens=False)["input_ids"]
    return ids, inputs.get("pixel_values"), inputs.get("image_grid_thw")


def loaders_of_ranks(data, packing, ranks, state=None, *, batch_size=1):
    """The loaders of all ranks over shuffled packs in 16 lanes, at a state if there is one."""
    loaders = [
        sm.Loader(
            data,
            packing=packing,
            batch_size=batch_size,
            shuffle=True,
            seed=5,
            lanes=16,
            rank=rank,
            world_size=ranks,
            tail="uneven",
            output="numpy",
        )
        for rank in range(ranks)
    ]
    if state is not None:
        for loader in loaders:
            loader.load_state_dict(state)
    return loaders


def bytes_read():
    """How many bytes this process has read, from the page cache or the disk."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])
