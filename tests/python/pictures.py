"""Pictures that tests encode, and what Pillow makes of them."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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


def written(path, payloads, *, as_struct=False, rows=4):
    """A Parquet file of numbered rows with these images, and ``rows`` of them in a row group."""
    cells = [{"bytes": payload, "path": "x"} for payload in payloads] if as_struct else payloads
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()}) if as_struct else pa.binary()
    pq.write_table(
        pa.table({"image": pa.array(cells, kind), "row": range(len(cells))}),
        path,
        row_group_size=rows,
    )
    return path
