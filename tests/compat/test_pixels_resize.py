"""Resized pixels, sharpness and perceptual hashes are those of Pillow 13, OpenCV and imagehash.

Each library computes what it is the reference for; nothing is allowed to differ but the last digits
of a variance.
"""

from __future__ import annotations

import io

import pytest
from breadth import IS_WHOLE, examples
from shardmill._native import pixels

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")

PILLOW = tuple(int(part) for part in Image.__version__.split(".")[:1])
FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "hamming": Image.Resampling.HAMMING,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
# (height, width) before and after: down, up, near identity, one axis alone, extreme ratios, single
# pixels, and tall images, whose rows Pillow 13 resizes before their columns.
SIZES = [
    ((375, 500), (224, 298)),
    ((375, 500), (364, 504)),
    ((61, 83), (200, 311)),
    ((90, 120), (90, 47)),
    ((90, 120), (31, 120)),
    ((1, 997), (7, 13)),
    ((997, 1), (13, 7)),
    ((1, 1), (5, 9)),
    ((300, 301), (1, 1)),
    ((640, 90), (60, 80)),
    ((500, 31), (100, 97)),
]


def picture(height, width, channels, kind, seed=0):
    """Noise, extremes that leave the range of a byte while they are weighted, or smooth colours."""
    random = np.random.default_rng(seed)
    if kind == "noise":
        return random.integers(0, 256, (height, width, channels), dtype=np.uint8)
    if kind == "extremes":
        return (random.integers(0, 2, (height, width, channels)) * 255).astype(np.uint8)
    y, x, channel = np.mgrid[0:height, 0:width, 0:channels]
    smooth = (
        127
        + 90 * np.sin(x / 17 + channel)
        + 30 * np.cos(y / 11 - channel)
        + random.normal(0, 3, x.shape)
    )
    return np.clip(smooth, 0, 255).astype(np.uint8)


def as_image(array):
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def resized_by_pillow(array, height, width, name):
    result = np.asarray(as_image(array).resize((width, height), FILTERS[name]))
    return result.reshape(height, width, array.shape[2])


@pytest.mark.skipif(PILLOW < (13,), reason="the order of the passes is that of Pillow 13")
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_resize_is_that_of_pillow(name, channels):
    # Extremes leave the range of a byte where any other picture does.
    kinds = ("noise", "extremes", "smooth") if IS_WHOLE else ("extremes",)
    for before, after in SIZES:
        for kind in kinds:
            array = picture(*before, channels, kind)
            ours = pixels.resize(array, *after, name)
            assert ours.dtype == np.uint8
            assert np.array_equal(ours, resized_by_pillow(array, *after, name)), (
                before,
                after,
                kind,
            )


@pytest.mark.skipif(PILLOW < (13,), reason="the order of the passes is that of Pillow 13")
def test_resize_of_random_sizes_is_that_of_pillow():
    random = np.random.default_rng(7)
    for seed in range(examples(150, 40)):
        height, width, to_height, to_width = (
            int(random.integers(1, random.choice([8, 70, 400]))) for _ in range(4)
        )
        array = picture(height, width, int(random.choice([1, 3])), "noise", seed)
        name = str(random.choice(list(FILTERS)))
        ours = pixels.resize(array, to_height, to_width, name)
        assert np.array_equal(ours, resized_by_pillow(array, to_height, to_width, name)), (
            array.shape,
            to_height,
            to_width,
            name,
        )


def test_variance_of_the_laplacian_is_that_of_opencv():
    cv2 = pytest.importorskip("cv2")
    for shape in [(1, 1), (1, 7), (7, 1), (2, 2), (3, 500), (240, 321)]:
        for channels in (1, 3):
            for kind in ("noise", "smooth"):
                array = picture(*shape, channels, kind)
                expected = cv2.Laplacian(array, cv2.CV_64F).var()
                assert pixels.laplacian_variance(array) == pytest.approx(
                    expected, rel=1e-9, abs=1e-12
                )


def as_png(array):
    payload = io.BytesIO()
    as_image(array).save(payload, "png")
    return payload.getvalue()


@pytest.mark.skipif(PILLOW < (13,), reason="the order of the passes is that of Pillow 13")
def test_perceptual_hash_is_that_of_imagehash():
    imagehash = pytest.importorskip("imagehash")
    arrays = [
        picture(height, width, channels, kind)
        for height, width in [(1, 1), (32, 32), (300, 71), (240, 320)]
        for channels in (1, 3)
        for kind in ("noise", "smooth")
    ]
    # In flat and symmetric images most frequencies are rounding errors, and their signs are bits of
    # the hash.
    arrays += [np.full((50, 60, 3), value, np.uint8) for value in (0, 77, 255)]
    half = picture(40, 30, 3, "noise")
    arrays += [np.concatenate([half, half[::-1]]), np.concatenate([half, half[:, ::-1]], axis=1)]
    for array in arrays:
        assert pixels.phash(as_png(array)) == int(str(imagehash.phash(as_image(array))), 16), (
            array.shape
        )
