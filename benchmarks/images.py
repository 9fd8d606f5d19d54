"""Encoded images to batches of pixels, on the same photographs.

Beside shardmill are DataLoader with PIL, torchvision, OpenCV, SPDL and LitData. Every system makes
batches ``[64, 3, 224, 224]`` of uint8 from JPEG in memory or in the page cache: the shorter side is
resized to 224, the center is cropped. SPDL has less to resize: its longer side becomes 224, the
rest is padded, and two threads make batches of 32 each. Imports are not timed. In the scenario
``memory``, the batches are NumPy arrays and torch is not imported; in the scenario ``blur``, images
are judged by the variance of their Laplacian.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmarks.measure import Metrics, Options, core_seconds, run_entry, status_bytes

_SIDE = 224
_BATCH = 64
#: Threshold of the blur filter.
_SHARP = 100.0


@dataclass(frozen=True, kw_only=True)
class ImageOptions(Options):
    """What is decoded.

    Attributes:
        data: Directory of the data set.
        size: ``small``, ``large``, or ``mixed``: small ones and some of 89 megapixels.
        threads: Threads, or worker processes, of the tool.
        mode: Mode of decoding.
        epochs: Passes over the images; the fastest counts.
    """

    data: Path
    size: str = "small"
    threads: int = 2
    mode: str = "exact"
    epochs: int = 3

    @property
    def parquet(self) -> Path:
        """The images as structs."""
        return self.data / f"{self.size}.parquet"

    def payloads(self) -> list[bytes]:
        """The encoded images."""
        import pyarrow.parquet as pq

        return [row["bytes"] for row in pq.read_table(self.parquet)["image"].to_pylist()]


def _passes(options: ImageOptions, one_pass: Any) -> Metrics:
    """The rate of the fastest pass. A pass yields batches, which are touched as a trainer would."""
    rates, cpu, images, total = [], [], 0, 0
    peaks = []
    for _ in range(options.epochs):
        start, busy = time.perf_counter(), core_seconds()
        images = total = 0
        for batch in one_pass():
            images += len(batch)
            total += int(batch[:, :, ::32, ::32].sum())
        if images == 0:
            raise RuntimeError(
                "a pass had no images; "
                "SPDL needs the libraries of FFmpeg, libavfilter8 and others on Debian"
            )
        rates.append(images / (time.perf_counter() - start))
        cpu.append((core_seconds() - busy) / images * 1e3)
        peaks.append(status_bytes("VmHWM") / 1e6)
    return {
        "images": images,
        "images_per_s": max(rates),
        "core_ms": min(cpu),
        "touched": total,
        "epoch_peak_mb": peaks,
    }


def loader_shardmill(options: ImageOptions) -> Metrics:
    """Parquet to torch batches, by the loader."""
    import torch  # noqa: F401 - imported by all systems before their clock starts

    return _passes(options, _loaded(options, "torch"))


def _loaded(options: ImageOptions, output: Literal["torch", "numpy"]) -> Any:
    import shardmill as sm

    mode: Any = options.mode
    images = sm.Images("image", size=_SIDE, mode=mode)
    data = sm.Dataset(options.parquet, columns=["image"], images=images)
    loader = sm.Loader(
        data, batch_size=_BATCH, output=output, runtime=sm.Runtime(threads=options.threads)
    )
    return lambda: (batch["image"] for batch in loader)


def memory_shardmill(options: ImageOptions) -> Metrics:
    """What the loader itself takes, without torch.

    ``growth`` compares the peak of the last pass with that of the first.
    """
    metrics = _passes(options, _loaded(options, "numpy"))
    peaks = metrics["epoch_peak_mb"]
    return {**metrics, "growth": peaks[-1] / peaks[0]}


def blur_shardmill(options: ImageOptions) -> Metrics:
    """BlurFilter from Parquet to Parquet, which is read and written in the time."""
    from shardmill.curate import BlurFilter, InterleavedParquetSource, ParquetSink, Pipeline

    rates, kept = [], 0
    for epoch in range(options.epochs):
        pipeline = Pipeline(
            source=InterleavedParquetSource(options.data / "interleaved"),
            stages=[BlurFilter(_SHARP)],
            sink=ParquetSink(options.scratch / str(epoch)),
        )
        start = time.perf_counter()
        report = pipeline.run(threads=options.threads)
        seconds = time.perf_counter() - start
        kept = report.counts("output")["images"]
        rates.append(report.counts("input")["images"] / seconds)
    return {"images_per_s": max(rates), "kept": kept}


def blur_opencv(options: ImageOptions) -> Metrics:
    """The score as NeMo Curator computes it, of images in memory, in threads."""
    import cv2
    import numpy as np

    cv2.setNumThreads(1)

    def is_sharp(payload: bytes) -> bool:
        image: Any = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR_RGB)
        return float(cv2.Laplacian(image, cv2.CV_64F).var()) >= _SHARP

    payloads = options.payloads()
    rates, kept = [], 0
    with ThreadPoolExecutor(options.threads) as threads:
        for _ in range(options.epochs):
            start = time.perf_counter()
            kept = sum(threads.map(is_sharp, payloads))
            rates.append(len(payloads) / (time.perf_counter() - start))
    return {"images_per_s": max(rates), "kept": kept}


def _pil(payload: bytes, *, is_draft: bool = False) -> Any:
    import numpy as np
    from PIL import Image

    image = Image.open(io.BytesIO(payload))
    width, height = image.size
    short = min(width, height)
    target = (_SIDE * width // short, _SIDE * height // short)
    if is_draft:
        image.draft("RGB", target)
    image = image.convert("RGB").resize(target, Image.Resampling.BILINEAR)
    left, top = round((image.width - _SIDE) / 2), round((image.height - _SIDE) / 2)
    return np.asarray(image.crop((left, top, left + _SIDE, top + _SIDE))).transpose(2, 0, 1)


def _in_workers(options: ImageOptions, decode: Any) -> Metrics:
    """A map-style data set in the worker processes of a DataLoader."""
    import torch

    class Photographs(torch.utils.data.Dataset[Any]):
        def __init__(self) -> None:
            self.payloads = options.payloads()

        def __len__(self) -> int:
            return len(self.payloads)

        def __getitem__(self, index: int) -> Any:
            return decode(self.payloads[index])

    batches = torch.utils.data.DataLoader(
        Photographs(), batch_size=_BATCH, num_workers=options.threads
    )
    return _passes(options, lambda: iter(batches))


def loader_dataloader(options: ImageOptions) -> Metrics:
    """PIL in worker processes."""
    import torch

    return _in_workers(options, lambda payload: torch.from_numpy(_pil(payload).copy()))


def _in_threads(options: ImageOptions, decode: Any) -> Metrics:
    import numpy as np

    payloads = options.payloads()

    def one_pass() -> Iterator[Any]:
        with ThreadPoolExecutor(options.threads) as pool:
            decoded = pool.map(decode, payloads)
            batch = []
            for image in decoded:
                batch.append(image)
                if len(batch) == _BATCH:
                    yield np.stack(batch)
                    batch = []
            if batch:
                yield np.stack(batch)

    return _passes(options, one_pass)


def loader_pil(options: ImageOptions) -> Metrics:
    """PIL in threads."""
    return _in_threads(options, partial(_pil, is_draft=options.mode == "draft"))


def _torchvision(payload: bytes) -> Any:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg  # pyright: ignore - of the peer
    from torchvision.transforms.v2 import functional  # pyright: ignore - of the peer

    image = decode_jpeg(
        torch.frombuffer(bytearray(payload), dtype=torch.uint8), mode=ImageReadMode.RGB
    )
    image = functional.resize(image, [_SIDE], antialias=True)
    return functional.center_crop(image, [_SIDE])


def loader_torchvision(options: ImageOptions) -> Metrics:
    """``decode_jpeg`` and ``v2`` transforms in threads."""
    import torch

    torch.set_num_threads(1)
    return _in_threads(options, lambda payload: _torchvision(payload).numpy())


def loader_torchvision_workers(options: ImageOptions) -> Metrics:
    """``decode_jpeg`` and ``v2`` transforms in the workers of a DataLoader."""
    return _in_workers(options, _torchvision)


def loader_opencv(options: ImageOptions) -> Metrics:
    """OpenCV in threads, with INTER_AREA."""
    import cv2
    import numpy as np

    cv2.setNumThreads(1)

    def decode(payload: bytes) -> Any:
        image: Any = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR_RGB)
        height, width = image.shape[:2]
        short = min(width, height)
        image = cv2.resize(
            image, (_SIDE * width // short, _SIDE * height // short), interpolation=cv2.INTER_AREA
        )
        top, left = round((image.shape[0] - _SIDE) / 2), round((image.shape[1] - _SIDE) / 2)
        return image[top : top + _SIDE, left : left + _SIDE].transpose(2, 0, 1)

    return _in_threads(options, decode)


def loader_spdl(options: ImageOptions) -> Metrics:
    """SPDL's threads: decode, scale and pad by FFmpeg, batch."""
    import spdl.io  # pyright: ignore - of the peer
    from spdl.pipeline import PipelineBuilder  # pyright: ignore - of the peer

    payloads = options.payloads()
    filter_desc = spdl.io.get_video_filter_desc(
        scale_width=_SIDE, scale_height=_SIDE, pix_fmt="rgb24"
    )

    def load(batch: list[bytes]) -> Any:
        return spdl.io.to_numpy(
            spdl.io.load_image_batch(batch, width=None, height=None, filter_desc=filter_desc)
        )

    def one_pass() -> Iterator[Any]:
        batches = [
            payloads[at : at + _BATCH // options.threads]
            for at in range(0, len(payloads), _BATCH // options.threads)
        ]
        builder = (
            PipelineBuilder()
            .add_source(batches)
            .pipe(load, concurrency=options.threads, output_order="input")
        )
        pipeline = builder.add_sink(4).build(num_threads=options.threads)
        with pipeline.auto_stop():
            for batch in pipeline:
                yield batch.transpose(0, 3, 1, 2)

    return _passes(options, one_pass)


def loader_litdata(options: ImageOptions) -> Metrics:
    """LitData's own chunks and workers.

    The ``v2`` transforms are in the data set, as in its documentation.
    """
    from litdata import (  # pyright: ignore - of the peer
        StreamingDataLoader,
        StreamingDataset,
        optimize,
    )

    chunks = options.scratch / "chunks"
    paths = sorted(str(path) for path in (options.data / options.size).iterdir())
    optimize(_opened, paths, str(chunks), chunk_bytes="64MB", num_workers=1)
    batches = StreamingDataLoader(
        StreamingDataset(str(chunks), transform=_shown),
        batch_size=_BATCH,
        num_workers=options.threads,
    )
    return _passes(options, lambda: iter(batches))


def _shown(image: Any, *_: Any) -> Any:
    from torchvision.transforms.v2 import functional  # pyright: ignore - of the peer

    return functional.center_crop(functional.resize(image, [_SIDE], antialias=True), [_SIDE])


def _opened(path: str) -> Any:
    """LitData stores the file of an opened JPEG as it is."""
    from PIL import Image

    return Image.open(path)


def limit_decoder(options: ImageOptions) -> Metrics:
    """The decoder alone, into a buffer that is used again.

    For ``draft``, it decodes at the scale that fits the large images.
    """
    from shardmill._native.pixels import decode_all

    payloads = options.payloads()
    denominator = 4 if options.mode == "draft" else 1
    images = len(payloads)
    rates = []
    for _ in range(options.epochs):
        start = time.perf_counter()
        decode_all(payloads, threads=options.threads, denominator=denominator)
        rates.append(images / (time.perf_counter() - start))
    return {"images": images, "images_per_s": max(rates)}


SYSTEMS = {
    ("memory", "shardmill"): memory_shardmill,
    ("blur", "shardmill"): blur_shardmill,
    ("blur", "opencv"): blur_opencv,
}
LOADERS = {
    "shardmill": loader_shardmill,
    "dataloader": loader_dataloader,
    "pil": loader_pil,
    "torchvision": loader_torchvision,
    "torchvision_workers": loader_torchvision_workers,
    "opencv": loader_opencv,
    "spdl": loader_spdl,
    "litdata": loader_litdata,
    "decoder": limit_decoder,
}


def measure(options: ImageOptions) -> Metrics:
    """Runs one system once."""
    system = SYSTEMS.get((options.scenario, options.system)) or LOADERS[options.system]
    return system(options)


if __name__ == "__main__":
    run_entry(ImageOptions, measure)
