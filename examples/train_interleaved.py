"""Curates documents with pictures, trains a small Qwen2-VL on them, kills it and resumes it.

    python examples/train_interleaved.py [s3://bucket/curated]

Tars like those of MINT-1T become Parquet in a directory or a bucket. Two ranks train on packs of
whole documents until they are killed, and one resumes: it has trained on each document once.
"""

import io
import signal
import sys
import tempfile
from pathlib import Path

import shardmill as sm
import torch
from PIL import Image
from shardmill.curate import AspectRatioFilter, Map, ParquetSink, Pipeline, WebDatasetSource
from tokenizers import ByteLevelBPETokenizer
from torch import distributed, multiprocessing
from transformers import Qwen2VLConfig, Qwen2VLForConditionalGeneration


def reports():
    """Yields samples: JSON with texts and images in reading order, and the images in a TIFF."""
    for number in range(60):
        pages = [Image.new("RGB", (150 + number, 90 + 20 * n), "navy") for n in range(number % 4)]
        # The first page again and a banner, which curation drops.
        pages += [*pages[:1], Image.new("RGB", (400, 40), "red")]
        document = {
            "texts": [f"Report {number}.", *[None] * len(pages)],
            "images": [None, *(f"image_{place}" for place in range(len(pages)))],
            "image_metadata": [{"height": page.height} for page in pages],
        }
        pages[0].save(tiff := io.BytesIO(), "TIFF", save_all=True, append_images=pages[1:])
        yield {"__key__": f"report{number}", "json": document, "tiff": tiff.getvalue()}


def without_copies(table):
    """Drops pages that their document already has."""
    rows = table.select(["sample_id", "image_metadata"]).to_pandas()
    return table.filter((~rows.duplicated() | rows["image_metadata"].isna()).to_numpy())


def train(rank: int, ranks: int, out: Path, data: sm.Dataset, config: Qwen2VLConfig) -> None:
    distributed.init_process_group("gloo", f"file://{out}/{ranks}", rank=rank, world_size=ranks)
    model = Qwen2VLForConditionalGeneration(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    packing = sm.Packing(["tokens", "labels"], length=64, strategy="best_fit", long="raise")
    # The global batch is 4 packs on any number of ranks.
    loader = sm.Loader(data, packing=packing, batch_size=4 // ranks, shuffle=True, tail="pad")
    parts, trained = [model, optimizer, loader], []
    if (out / "checkpoint").exists():
        states, trained = torch.load(out / "checkpoint")
        for part, state in zip(parts, states, strict=True):
            part.load_state_dict(state)
    # A rank whose batch has no image does not use the vision tower.
    parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    for step, batch in enumerate(loader):
        # Packs that only fill up the last step have no targets.
        is_new, segments = ~batch["__padded"], batch["segment_ids"]
        labels = batch["labels"].masked_fill(~is_new[:, None], -100)
        distributed.all_reduce(targets := (labels != -100).sum())
        images = ("pixel_values", "image_grid_thw") if len(batch["image_index"]) else ()
        loss = parallel(
            input_ids=batch["tokens"].long(),
            labels=labels,
            position_ids=batch["positions"].long(),
            # A token sees those before it in its document.
            attention_mask=(segments[:, None, :, None] == segments[:, None, None, :]).tril(),
            num_items_in_batch=targets / ranks,
            **{name: batch[name] for name in images},
        ).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if ranks > 1 and step == 4:
            signal.raise_signal(signal.SIGKILL)
        packs = zip(batch["tokens"][is_new], segments[is_new], strict=True)
        own = [pack[of == n].tolist() for pack, of in packs for n in range(1, of.max() + 1)]
        distributed.all_gather_object(of_ranks := [None] * ranks, own)
        trained += [document for documents in of_ranks for document in documents]
        if rank == 0:
            torch.save(([part.state_dict() for part in parts], trained), out / "checkpoint")


def main() -> None:
    out = Path(tempfile.mkdtemp(prefix="train_interleaved_"))
    curated = sys.argv[1] if sys.argv[1:] else str(out / "curated")
    with sm.Writer(out / "tars", format="webdataset") as writer:
        writer.write_rows(reports())
    source = WebDatasetSource(out / "tars", per_image_fields=("image_metadata",))
    stages = [AspectRatioFilter(0.5, 2.5), Map(without_copies, name="without copies")]
    print(Pipeline(source=source, stages=stages, sink=ParquetSink(curated)).run())
    tokenizer = ByteLevelBPETokenizer()
    special = ["<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
    tokenizer.train_from_iterator(["Report 1."], special_tokens=special, show_progress=False)
    tokenizer.save(str(out / "tokenizer.json"))
    images = sm.ImageTokens.qwen2_vl(max_pixels=28 * 28 * 12)  # or from_pretrained("model/")
    sequences = sm.Sequences(tokenizer=out, images=images, eos="<|im_end|>", positions="mrope")
    data = sm.Dataset(curated, sequences=sequences)
    text = {"vocab_size": 260, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text |= {"num_key_value_heads": 4, "intermediate_size": 128, "bos_token_id": None}
    text |= {"eos_token_id": None, "rope_parameters": {"mrope_section": [2, 3, 3]}}
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 4}
    config = Qwen2VLConfig(text_config=text, vision_config=vision, image_token_id=3)
    try:
        multiprocessing.spawn(train, (2, out, data, config), nprocs=2)
    except multiprocessing.ProcessExitedException as killed:
        print("2 ranks:", killed)
    _, before = torch.load(out / "checkpoint")
    multiprocessing.spawn(train, (1, out, data, config))
    _, trained = torch.load(out / "checkpoint")
    assert sorted(trained) == sorted(row["tokens"] for row in data)
    print(f"{len(trained)} documents were trained on once, the first {len(before)} by 2 ranks")


if __name__ == "__main__":
    main()
