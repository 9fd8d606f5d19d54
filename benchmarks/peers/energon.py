"""Packs of captioned images by Megatron Energon, for ``benchmarks.sequences``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from megatron.energon import (
    DefaultTaskEncoder,
    Sample,
    SampleDecoder,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    stateless,
)

_FIELDS = '{"image": "jpg", "caption": "txt"}'
_PREPARE = (
    *("prepare", "--non-interactive", "--split-ratio", "1,0,0"),
    *("--sample-type", "CaptioningSample", "--field-map", _FIELDS),
)


@dataclass
class Encoded(Sample):
    """Tokens and patches of a sample."""

    tokens: Any
    patches: Any


@dataclass
class Packed(Sample):
    """What a pack of the benchmark has."""

    pack: Any


def packs_of(
    options: Any, *, encoder: Any, groups: Any, pack: Any, buffer: int
) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Prepare the tars, and return what makes one pass over their packs."""
    encode = cache(encoder)

    class TaskEncoder(DefaultTaskEncoder):
        decoder = SampleDecoder(image_decode="torchrgb8")

        @stateless
        def encode_sample(self, sample: Any) -> Encoded:
            # Made in the worker, which has one torch thread.
            tokens, patches = encode()(sample.image, sample.caption)
            return Encoded.derive_from(sample, tokens=tokens, patches=patches)

        def select_samples_to_pack(self, samples: list[Encoded]) -> list[list[Encoded]]:
            chosen = groups([len(sample.tokens) for sample in samples], options.length)
            return [[samples[number] for number in group] for group in chosen]

        @stateless
        def pack_selected_samples(self, samples: list[Encoded]) -> Packed:
            pairs = [(sample.tokens, sample.patches) for sample in samples]
            return Packed.derive_from(samples[0], pack=pack(pairs, options.length))

        def batch(self, samples: list[Packed]) -> list[Packed]:
            return samples

    # The index is written beside the tars.
    tars = options.scratch / "tars"
    tars.mkdir(parents=True)
    for path in options.tars:
        (tars / path.name).symlink_to(path.resolve())
    subprocess.run([Path(sys.executable).with_name("energon"), *_PREPARE, tars], check=True)

    def one_pass() -> Iterator[tuple[Any, ...]]:
        dataset = get_train_dataset(
            tars,
            worker_config=WorkerConfig.default_worker_config(options.workers),
            batch_size=1,
            packing_buffer_size=buffer,
            shuffle_buffer_size=None,
            max_samples_per_sequence=None,
            repeat=False,
            task_encoder=TaskEncoder(),
        )
        for batch in get_savable_loader(dataset):
            images, tokens, packed, patches = batch[0].pack
            yield images, tokens, len(packed), patches

    return one_pass
