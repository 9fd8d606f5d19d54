"""JPEGs so large that they are decoded in strips.

Their pixels, and what is said of damage, are those of Pillow.
"""

import numpy as np
import pytest
import shardmill as sm
from pictures import cropped, encoded, images_of, opened, picture, written
from PIL import Image

#: A crop to a square needs more than 96 MiB of pixels.
SIDES = (5_900, 5_800)


@pytest.fixture(scope="module")
def huge():
    return picture(4, SIDES)


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize(
    "options",
    [
        {"subsampling": "4:2:0", "restart_marker_blocks": 100},
        {"subsampling": "4:4:4", "exif": turned(3)},
        {"subsampling": "4:2:2", "exif": turned(6)},
    ],
    ids=["restarts", "upside down", "quarter turn"],
)
def test_pixels_of_a_huge_jpeg_are_those_of_pillow(tmp_path, huge, options):
    payload = encoded(huge, quality=85, **options)
    data = sm.Dataset(
        written(tmp_path / "x.parquet", [payload]),
        images=sm.Images("image", size=96, resample="bicubic"),
    )
    expected = np.asarray(cropped(opened(payload), 96, Image.Resampling.BICUBIC)).transpose(2, 0, 1)
    np.testing.assert_array_equal(images_of(data), [expected])


def test_damage_of_a_huge_jpeg_is_found_wherever_it_is(tmp_path, huge):
    whole = encoded(huge, quality=85)
    middle = bytearray(whole)
    middle[len(whole) // 2 : len(whole) // 2 + 2] = b"\xff\xd3"
    payloads = [whole[: len(whole) // 4], bytes(middle), whole[:-2], whole]
    data = sm.Dataset(written(tmp_path / "x.parquet", payloads), images=sm.Images("image", size=32))
    loader = sm.Loader(data, batch_size=4, output="numpy", errors=sm.ErrorPolicy(rows="skip"))
    assert [batch["row"].tolist() for batch in loader] == [[3]]
    words = ("Truncated `image/jpeg`", "Damaged `image/jpeg`", "Truncated `image/jpeg`")
    assert [bad.row for bad in loader.bad_rows] == [0, 1, 2]
    assert all(word in bad.cause for word, bad in zip(words, loader.bad_rows, strict=True))
