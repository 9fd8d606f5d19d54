"""Captioned images in tars to packs of tokens and patches for Qwen2-VL, and bytes to patches.

Beside shardmill are Megatron Energon, with a task encoder, and a torch ``DataLoader`` whose
collator packs. Both call the image processor of transformers with its torchvision backend and a
tokenizer. All systems deliver float32 patches and packs of ``length`` tokens, and each patch
is touched as a trainer would. Imports and the first listing of files are not timed.
"""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.measure import Metrics, Options, core_seconds, run_entry, status_bytes
from benchmarks.sequence_plans import planned_shardmill

#: Samples that Energon and the DataLoader choose the documents of packs from.
_BUFFER = 64
_BEGIN, _PAD, _FINISH, _END = "<|vision_start|>", "<|image_pad|>", "<|vision_end|>", "<|im_end|>"


@dataclass(frozen=True, kw_only=True)
class SequenceOptions(Options):
    """What is loaded.

    Attributes:
        data: Directory of the data set.
        length: Tokens of a pack.
        workers: Threads, or worker processes, of the tool.
        dtype: Type of the pixels.
        epochs: Passes; the fastest counts.
        kind: What is planned: captioned images in tars, interleaved documents, or such documents
            from columns of sizes, with texts or only with images.
        planned: Number of documents that are planned.
        lanes: Lanes of a plan, each with a rank.
    """

    data: Path
    length: int = 8192
    workers: int = 2
    dtype: str = "float32"
    epochs: int = 2
    kind: Literal["captions", "documents", "sizes", "images"] = "captions"
    planned: int = 100_000
    lanes: int = 64

    @property
    def tars(self) -> list[Path]:
        """The files, in order."""
        return sorted((self.data / "tars").glob("*.tar"))

    def samples(self, tars: list[Path] | None = None) -> Iterator[tuple[bytes, str]]:
        """Image and caption of each sample."""
        for path in self.tars if tars is None else tars:
            with tarfile.open(path, "r|") as tar:
                image = b""
                for member in tar:
                    content: Any = tar.extractfile(member)
                    if member.name.endswith(".jpg"):
                        image = content.read()
                    else:
                        yield image, content.read().decode()


def _passes(options: SequenceOptions, one_pass: Callable[[], Any]) -> Metrics:
    """The rate of the fastest pass, and what it had: images, tokens, places for tokens, patches."""
    rates, cpu, first, peaks, found = [], [], [], [], {}
    for _ in range(options.epochs):
        start, busy = time.perf_counter(), core_seconds()
        found = dict.fromkeys(["images", "tokens", "places", "patches"], 0)
        touched = 0.0
        for images, tokens, places, patches in one_pass():
            if not found["places"]:
                first.append(time.perf_counter() - start)
            touched += float(patches[::64, ::64].sum())
            for name, number in zip(found, (images, tokens, places, len(patches)), strict=True):
                found[name] += int(number)
        seconds = time.perf_counter() - start
        rates.append(found["images"] / seconds)
        cpu.append((core_seconds() - busy) / found["images"] * 1e3)
        peaks.append(status_bytes("VmHWM") / 1e6)
    return found | {
        "images_per_s": max(rates),
        "core_ms": min(cpu),
        "fill": found["tokens"] / max(found["places"], 1),
        "first_batch_s": min(first),
        "growth": peaks[-1] / peaks[0],
    }


def packed_shardmill(options: SequenceOptions) -> Metrics:
    """Whole documents by best fit, planned from headers."""
    import shardmill as sm
    import torch  # noqa: F401 - imported by all systems before their clock starts

    output: Any = options.dtype
    start = time.perf_counter()
    sequences = sm.Sequences(
        tokenizer=options.data / "model",
        images=sm.ImageTokens.from_pretrained(options.data / "model"),
        parts=["jpg", "txt"],
        eos=_END,
        image_output=sm.ImageOutput(dtype=output),
        counts=options.scratch / "counts",
    )
    data = sm.Dataset(options.data / "tars", sequences=sequences)
    loader = sm.Loader(
        data,
        packing=sm.Packing(
            ["tokens", "labels"], length=options.length, strategy="best_fit", long="drop"
        ),
        batch_size=1,
        shuffle=True,
        runtime=sm.Runtime(threads=options.workers),
        rank=0,
        world_size=1,
    )
    planned = loader.explain()
    seconds = time.perf_counter() - start

    def one_pass() -> Iterator[tuple[Any, ...]]:
        for batch in loader:
            tokens, patches = batch["segment_ids"], batch["pixel_values"]
            yield len(batch["image_index"]), (tokens > 0).sum(), tokens.numel(), patches

    rates = {"planned_images_per_s": planned["rows_of_epoch"] / seconds, "planning_s": seconds}
    found = _passes(options, one_pass)
    decoded = loader.metrics().images_decoded / options.epochs / found["images"]
    return found | rates | {"decoded_of_delivered": decoded}


def _encoder(options: SequenceOptions) -> Callable[[Any, str], tuple[Any, Any]]:
    """Tokens and patches of an image, which is a tensor, and a caption."""
    import torch
    from tokenizers import Tokenizer
    from transformers import Qwen2VLImageProcessor

    torch.set_num_threads(1)
    model = options.data / "model"
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    processor: Any = Qwen2VLImageProcessor.from_pretrained(model)

    def encode(image: Any, caption: str) -> tuple[Any, Any]:
        made = processor(image, return_tensors="pt")
        pads = _PAD * (int(made["image_grid_thw"].prod()) // 4)
        text = f"{_BEGIN}{pads}{_FINISH}{caption}{_END}"
        return torch.tensor(tokenizer.encode(text).ids), made["pixel_values"]

    return encode


def _decoded(payload: bytes) -> Any:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg  # pyright: ignore - of the peer

    content = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
    return decode_jpeg(content, mode=ImageReadMode.RGB)


def _groups(lengths: list[int], most: int) -> list[list[int]]:
    """First fit, the longest first: the packing of the examples of Energon."""
    groups: list[tuple[int, list[int]]] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        for place, (size, group) in enumerate(groups):
            if size + lengths[number] <= most:
                groups[place] = size + lengths[number], [*group, number]
                break
        else:
            groups.append((lengths[number], [number]))
    return [group for _, group in groups]


def _pack(samples: list[tuple[Any, Any]], length: int) -> tuple[Any, ...]:
    """The entries of a pack: padded tokens, and the patches of its images."""
    import torch

    tokens = torch.cat([tokens for tokens, _ in samples])
    packed = torch.zeros(length, dtype=torch.long)
    packed[: len(tokens)] = tokens
    return len(samples), len(tokens), packed, torch.cat([patches for _, patches in samples])


def packed_dataloader(options: SequenceOptions) -> Metrics:
    """Workers decode and encode samples of their tars and pack a buffer at a time."""
    import torch

    class Captions(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            info: Any = torch.utils.data.get_worker_info()
            encode, buffer = _encoder(options), []
            for image, caption in options.samples(options.tars[info.id :: info.num_workers]):
                buffer.append(encode(_decoded(image), caption))
                if len(buffer) == _BUFFER:
                    yield from _packs(buffer, options.length)
                    buffer = []
            yield from _packs(buffer, options.length)

    # Workers are forked, with what is imported here.
    _encoder(options)
    batches = torch.utils.data.DataLoader(Captions(), batch_size=None, num_workers=options.workers)
    return _passes(
        options,
        lambda: ((images, tokens, len(pack), patches) for images, tokens, pack, patches in batches),
    )


def _packs(buffer: list[tuple[Any, Any]], length: int) -> Iterator[tuple[Any, ...]]:
    for group in _groups([len(tokens) for tokens, _ in buffer], length):
        yield _pack([buffer[number] for number in group], length)


def packed_energon(options: SequenceOptions) -> Metrics:
    """A task encoder with packing, and the savable loader."""
    from benchmarks.peers.energon import packs_of

    # Workers are forked, with what is imported here.
    _encoder(options)

    energon = packs_of(
        options, encoder=lambda: _encoder(options), groups=_groups, pack=_pack, buffer=_BUFFER
    )
    return _passes(options, energon)


def patches_shardmill(options: SequenceOptions) -> Metrics:
    """Documents one by one, without packs."""
    import shardmill as sm

    output: Any = options.dtype
    sequences = sm.Sequences(
        tokenizer=options.data / "model",
        images=sm.ImageTokens.from_pretrained(options.data / "model"),
        parts=["jpg"],
        image_output=sm.ImageOutput(dtype=output),
    )
    data = sm.Dataset(options.data / "tars", sequences=sequences, columns=["pixel_values"])
    runtime = sm.Runtime(threads=options.workers)
    loader = sm.Loader(data, batch_size=8, output="numpy", runtime=runtime, rank=0, world_size=1)

    def one_pass() -> Iterator[tuple[Any, ...]]:
        for batch in loader:
            yield len(batch["pixel_values"]), 0, 0, batch["pixel_values"].values

    return _passes(options, one_pass)


def patches_torchvision(options: SequenceOptions) -> Metrics:
    """``decode_jpeg`` and the torchvision backend, on one thread."""
    import torch
    from transformers import Qwen2VLImageProcessor

    torch.set_num_threads(1)
    processor: Any = Qwen2VLImageProcessor.from_pretrained(options.data / "model")
    payloads = [image for image, _ in options.samples()]

    def one_pass() -> Iterator[tuple[Any, ...]]:
        for payload in payloads:
            yield 1, 0, 0, processor(_decoded(payload), return_tensors="pt")["pixel_values"]

    return _passes(options, one_pass)


def patches_pil(options: SequenceOptions) -> Metrics:
    """PIL and the PIL backend, on one thread."""
    import io
    from importlib import import_module

    from PIL import Image

    module: Any = import_module("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    processor = module.Qwen2VLImageProcessorPil.from_pretrained(options.data / "model")
    payloads = [image for image, _ in options.samples()]

    def one_pass() -> Iterator[tuple[Any, ...]]:
        for payload in payloads:
            image = Image.open(io.BytesIO(payload)).convert("RGB")
            yield 1, 0, 0, processor(image, return_tensors="np")["pixel_values"]

    return _passes(options, one_pass)


SYSTEMS = {
    ("packed", "shardmill"): packed_shardmill,
    ("memory", "shardmill"): packed_shardmill,
    ("packed", "dataloader"): packed_dataloader,
    ("packed", "energon"): packed_energon,
    ("planned", "shardmill"): planned_shardmill,
    ("patches", "shardmill"): patches_shardmill,
    ("patches", "torchvision"): patches_torchvision,
    ("patches", "pil"): patches_pil,
}


def measure(options: SequenceOptions) -> Metrics:
    """Runs one system once."""
    return SYSTEMS[options.scenario, options.system](options)


if __name__ == "__main__":
    run_entry(SequenceOptions, measure)
