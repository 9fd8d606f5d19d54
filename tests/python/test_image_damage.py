"""Damaged images: truncated files and flipped bits are refused or decoded as by Pillow."""

import io
import random
import warnings
from collections import Counter

import numpy as np
import pytest
from breadth import examples, sample
from pictures import encoded, picture
from PIL import Image
from shardmill._native import pixels

FLIPS_OF_FILE = {"raise": examples(1_000, 100), "accept": examples(200, 20)}
#: Share of the flipped files that Pillow refuses or decodes to other pixels, and we decode. Nothing
#: protects the data of a lossy WebP or a CCITT strip, and their decoders recover in different ways.
LENIENT = {"JPEG": 0, "PNG": 0, "BMP": 0.0005, "GIF": 0.002, "WEBP": 0.02, "TIFF": 0.05}
#: Share of the flipped files that we refuse and Pillow decodes, with ``damaged="accept"``.
STRICT = {"JPEG": 0.005, "PNG": 0.01, "BMP": 0.002, "GIF": 0.002, "WEBP": 0.05, "TIFF": 0.1}


def files(format):
    """Ten files of a format, small enough that each can be cut at every byte."""
    small, odd = picture(1, (48, 32)), picture(2, (37, 29))
    alpha = picture(3, (40, 30)).convert("RGBA")
    alpha.putalpha(picture(4, (40, 30), "L"))
    gray, palette, bilevel = (
        picture(5, (40, 30), "L"),
        picture(6, (40, 30)).quantize(32),
        picture(7, (40, 30), "1"),
    )
    frames = {"save_all": True, "append_images": [odd.resize((48, 32))]}
    variants = {
        "JPEG": [
            (small, {}),
            (small, {"quality": 95, "subsampling": 0}),
            (small, {"quality": 30}),
            (odd, {"subsampling": 1}),
            (odd, {"progressive": True}),
            (small, {"optimize": True}),
            (small, {"restart_marker_blocks": 2}),
            (gray, {}),
            (small.convert("CMYK"), {}),
            (gray, {"progressive": True, "quality": 90}),
        ],
        "PNG": [
            (small, {}),
            (odd, {"compress_level": 0}),
            (odd, {"optimize": True}),
            (alpha, {}),
            (gray, {}),
            (alpha.convert("LA"), {}),
            (palette, {}),
            (palette, {"transparency": 3}),
            (bilevel, {}),
            (bilevel, {"optimize": True}),
        ],
        "WEBP": [
            (small, {}),
            (odd, {"quality": 95}),
            (odd, {"quality": 20}),
            (small, {"lossless": True}),
            (odd, {"lossless": True, "method": 0}),
            (alpha, {}),
            (alpha, {"lossless": True}),
            (alpha, {"alpha_quality": 30}),
            (gray.convert("RGB"), {"lossless": True}),
            (palette.convert("RGB"), {"lossless": True, "method": 6}),
        ],
        "GIF": [
            (palette, {}),
            (palette, {"interlace": False}),
            (palette, {"transparency": 2}),
            (gray, {}),
            (bilevel, {}),
            (small.quantize(4), {}),
            (odd.quantize(256), {}),
            (odd.quantize(256), {"interlace": False}),
            (small.quantize(16), frames),
            (gray, {"comment": b"a comment"}),
        ],
        "BMP": [
            (image, {})
            for image in (
                small,
                odd,
                gray,
                palette,
                bilevel,
                alpha,
                small.quantize(2),
                odd.quantize(200),
                picture(8, (5, 3)),
                picture(9, (1, 40)),
            )
        ],
        "TIFF": [
            (small, {}),
            (odd, {"compression": "tiff_lzw"}),
            (odd, {"compression": "tiff_adobe_deflate"}),
            (small, {"compression": "packbits"}),
            (small, {"compression": "jpeg"}),
            (bilevel, {"compression": "group4"}),
            (alpha, {}),
            (gray, {"compression": "tiff_lzw"}),
            (palette, {}),
            (bilevel, {}),
        ],
    }
    return [encoded(image, format, **options) for image, options in variants[format]]


def by_pillow(payload):
    """The pixels, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Beyond our limit too.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return np.asarray(Image.open(io.BytesIO(payload)).convert("RGB"))
    except Exception:
        return None


def by_us(payload, damaged):
    try:
        decoded = pixels.decode(payload, background=None, orientation=False, damaged=damaged)
    except ValueError:
        return None
    return np.broadcast_to(decoded, (*decoded.shape[:2], 3))


#: Without SIMD, coefficients that no encoder writes give other pixels; see "Exact pixels".
IS_SCALAR = pixels.build_info()[1] is False


def verdict(payload, damaged):
    theirs, ours = by_pillow(payload), by_us(payload, damaged)
    if ours is None:
        return "both refuse" if theirs is None else "strict"
    if IS_SCALAR and theirs is not None and payload.startswith(b"\xff\xd8"):
        return "equal" if theirs.shape == ours.shape else "lenient"
    return "equal" if theirs is not None and np.array_equal(theirs, ours) else "lenient"


def flipped(payload, chance):
    damaged = bytearray(payload)
    damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    """A flipped header bit may state gigabytes, and curation lifts the limit of the process."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 89_478_485)


@pytest.mark.parametrize("format", LENIENT)
def test_file_is_refused_at_every_cut_that_pillow_refuses(format):
    for payload in files(format):
        assert verdict(payload, "raise") == "equal"
        found = Counter(
            verdict(payload[:cut], damaged)
            for cut in sample(range(len(payload)), 39)
            for damaged in ("raise", "accept")
        )
        # The last bytes of a frame may hold no pixel.
        assert found["lenient"] <= (6 if format == "GIF" else 0), found


@pytest.mark.parametrize("damaged", ["raise", "accept"])
@pytest.mark.parametrize("format", LENIENT)
def test_flipped_bits_are_refused_or_decoded_as_by_pillow(format, damaged):
    chance = random.Random(f"{format} {damaged}")
    found = Counter(
        verdict(flipped(payload, chance), damaged)
        for payload in files(format)
        for _ in range(FLIPS_OF_FILE[damaged])
    )
    assert found["lenient"] <= LENIENT[format] * found.total() or damaged == "accept", found
    assert found["strict"] <= STRICT[format] * found.total() or damaged == "raise", found


def test_png_that_lacks_chunks_after_its_pixels_is_accepted_as_pillow_accepts_it():
    """The 12 bytes of the end and 4 of the last checksum may be missing.

    If more is missing, both refuse the file.
    """
    wrong = []
    for number, payload in enumerate(files("PNG")):
        for cut in (*range(1, 17), *range(25, 60, 7)):
            found = (verdict(payload[:-cut], "accept"), by_us(payload[:-cut], "raise") is None)
            # The last checksum covers nothing, and no decoder reads it.
            if found != ("equal" if cut < 17 else "both refuse", cut > 4):
                wrong.append((number, cut, found))
    assert not wrong


def test_png_with_text_after_its_pixels_that_is_cut_is_accepted():
    payload = encoded(picture(1, (48, 32)), "PNG")
    text = b"\0\0\0\x40tEXtComment\0" + b"x" * 20
    found = pixels.decode(payload[:-12] + text, background=None, damaged="accept")
    assert np.array_equal(found, pixels.decode(payload, background=None))
