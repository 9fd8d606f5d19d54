"""Pictures that tests encode, and what Pillow makes of them."""

import io

import numpy as np
import shardmill as sm
from PIL import Image, ImageOps


def picture(number, size=(90, 60), mode="RGB"):
    rng = np.random.default_rng(number)
    rough = Image.fromarray(rng.integers(0, 256, (5, 7, 3), dtype=np.uint8))
    return rough.resize(size, Image.Resampling.BICUBIC).convert(mode)


def encoded(image, format="JPEG", **options):
    content = io.BytesIO()
    image.save(content, format, **options)
    return content.getvalue()


def cropped(image, side, resample=Image.Resampling.BILINEAR):
    """As Resize and CenterCrop of torchvision on PIL images."""
    width, height = image.size
    short = min(width, height)
    image = image.resize((int(side * width / short), int(side * height / short)), resample)
    left, top = round((image.width - side) / 2), round((image.height - side) / 2)
    return image.crop((left, top, left + side, top + side))


def opened(payload):
    return ImageOps.exif_transpose(Image.open(io.BytesIO(payload)))


def batches_of(data, **options):
    return list(sm.Loader(data, output="numpy", **options))


def images_of(data, **options):
    return np.concatenate([batch["image"] for batch in batches_of(data, **options)])
