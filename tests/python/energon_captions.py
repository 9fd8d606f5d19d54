"""Reads captioned images with Megatron Energon, in its own environment.

Usage: energon_captions.py TARS MODEL OUT. Writes tokens and patches of each sample by its key.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from megatron.energon import (
    CaptioningSample,
    DefaultTaskEncoder,
    Sample,
    SampleDecoder,
    WorkerConfig,
    get_savable_loader,
    get_train_dataset,
    stateless,
)
from tokenizers import Tokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

TARS, MODEL, OUT = sys.argv[1:]
FIELDS = '{"image": "jpg", "caption": "txt"}'
SPLIT = ["--split-ratio", "1,0,0", "--sample-type", "CaptioningSample", "--field-map", FIELDS]


@dataclass
class Encoded(Sample):
    tokens: np.ndarray
    patches: np.ndarray


class TaskEncoder(DefaultTaskEncoder):
    decoder = SampleDecoder(image_decode="pilrgb")

    def __init__(self) -> None:
        super().__init__()
        self.tokenizer = Tokenizer.from_file(f"{MODEL}/tokenizer.json")
        self.processor = Qwen2VLImageProcessorPil.from_pretrained(MODEL)

    @stateless
    def encode_sample(self, sample: CaptioningSample) -> Encoded:
        made = self.processor(sample.image, return_tensors="np")
        pads = "<|image_pad|>" * (made["image_grid_thw"].prod() // 4)
        text = f"<|vision_start|>{pads}<|vision_end|>{sample.caption}<|end|>"
        tokens = np.array(self.tokenizer.encode(text).ids)
        return Encoded.derive_from(sample, tokens=tokens, patches=made["pixel_values"])

    def batch(self, samples: list[Encoded]) -> list[Encoded]:
        return samples


def main() -> None:
    prepare = [Path(sys.executable).with_name("energon"), "prepare", "--non-interactive", *SPLIT]
    subprocess.run([*prepare, TARS], check=True)
    torch.manual_seed(0)
    dataset = get_train_dataset(
        TARS,
        worker_config=WorkerConfig.default_worker_config(0),
        batch_size=4,
        shuffle_buffer_size=8,
        max_samples_per_sequence=None,
        repeat=False,
        task_encoder=TaskEncoder(),
    )
    found = {}
    for batch in get_savable_loader(dataset):
        for sample in batch:
            key = sample.__key__.rpartition("/")[2]
            assert f"{key}.tokens" not in found, f"{key} came twice"
            found |= {f"{key}.tokens": sample.tokens, f"{key}.patches": sample.patches}
    np.savez(OUT, **found)


if __name__ == "__main__":
    main()
