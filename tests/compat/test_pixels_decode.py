"""Decoded pixels are those of Pillow 13, and bad images have a cause."""

import io
import struct
import zlib

import numpy as np
import pytest
from breadth import covering, sample

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
native = pytest.importorskip("shardmill._native")
if not hasattr(native, "pixels"):
    pytest.skip("built without pixels", allow_module_level=True)
decode = native.pixels.decode

SIZES = [(1, 1), (2, 3), (7, 5), (16, 16), (33, 31), (67, 45)]
#: The largest, a middle one and the smallest but one.
QUICK_SIZES = sample(SIZES[::-1], 2)
WHITE = (255, 255, 255)


def picture(width, height, mode="RGB"):
    """A smooth picture with some texture, and random alpha where the mode has it."""
    rng = np.random.default_rng(width * 1000 + height)
    y, x = np.mgrid[0:height, 0:width]
    planes = [np.sin(x / (5 + k) + k) * 60 + np.cos(y / (7 - k)) * 60 + 128 for k in range(3)]
    pixels = np.stack(planes, axis=-1) + rng.normal(0, 8, (height, width, 3))
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    if mode in ("LA", "RGBA"):
        image = image.convert("RGBA")
        image.putalpha(Image.fromarray(rng.integers(0, 256, (height, width), dtype=np.uint8)))
    return image.convert(mode)


def encoded(image, format_name, **options):
    buffer = io.BytesIO()
    image.save(buffer, format_name, **options)
    return buffer.getvalue()


def expected(payload, channels="RGB", background=WHITE, page=0):
    image = Image.open(io.BytesIO(payload))
    if page:
        image.seek(page)
    image.load()
    image = ImageOps.exif_transpose(image)
    if background is not None and image.has_transparency_data:
        under = Image.new("RGBA", image.size, (*background, 255))
        image = Image.alpha_composite(under, image.convert("RGBA"))
    image = image.convert("RGB")
    if channels == "L":
        image = image.convert("L")
    return np.atleast_3d(np.asarray(image))


def assert_equal(payload, **options):
    for channels in ("RGB", "L"):
        for background in (WHITE, (10, 200, 99), None):
            ours = decode(payload, channels=channels, background=background, **options)
            theirs = expected(payload, channels, background, options.get("page", 0))
            assert ours.shape[:2] == theirs.shape[:2]
            # A grey image may have one channel where three were asked for.
            assert np.array_equal(np.broadcast_to(ours, theirs.shape), theirs)


@covering(2, size=SIZES, mode=["L", "RGB", "CMYK", "YCbCr"], progressive=[False, True])
def test_jpeg_equals_pillow(size, mode, progressive):
    image = picture(*size, mode)
    for subsampling in (0, 1, 2):
        for restarts in (0, 1):
            options = {"subsampling": subsampling, "restart_marker_blocks": restarts}
            assert_equal(encoded(image, "JPEG", quality=83, progressive=progressive, **options))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_png_equals_pillow(size, mode):
    assert_equal(encoded(picture(*size, mode), "PNG"))


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth, colour, interlaced, trns=None):
    """Random rows of any depth and colour type, with any filter."""
    rng = np.random.default_rng(depth * 100 + colour * 10 + interlaced)
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    passes = [(0, 0, 1, 1)]
    if interlaced:
        passes = [
            (0, 0, 8, 8),
            (4, 0, 8, 8),
            (0, 4, 4, 8),
            (2, 0, 4, 4),
            (0, 2, 2, 4),
            (1, 0, 2, 2),
            (0, 1, 1, 2),
        ]
    rows = b""
    for left, top, across, down in passes:
        columns = -(-(width - left) // across)
        for _ in range(top, height, down) if columns > 0 else ():
            row_len = -(-columns * samples * depth // 8)
            rows += (
                bytes([rng.integers(5)]) + rng.integers(0, 256, row_len, dtype=np.uint8).tobytes()
            )
    payload = b"\x89PNG\r\n\x1a\n"
    payload += png_chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    )
    if colour == 3:
        payload += png_chunk(b"PLTE", rng.integers(0, 256, 3 << depth, dtype=np.uint8).tobytes())
    if trns is not None:
        payload += png_chunk(b"tRNS", trns)
    return payload + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b"")


@pytest.mark.parametrize("interlaced", [0, 1])
@pytest.mark.parametrize(
    ("depth", "colour"),
    [
        (1, 0),
        (2, 0),
        (4, 0),
        (8, 0),
        (8, 2),
        (16, 2),
        (1, 3),
        (2, 3),
        (4, 3),
        (8, 3),
        (8, 4),
        (16, 4),
        (8, 6),
        (16, 6),
    ],
)
def test_png_of_each_depth_equals_pillow(depth, colour, interlaced):
    for width, height in QUICK_SIZES:
        assert_equal(png(width, height, depth, colour, interlaced))
        if colour == 3:
            assert_equal(png(width, height, depth, colour, interlaced, trns=bytes([0, 128])))


def test_deep_grey_keeps_its_high_byte():
    payload = png(33, 31, 16, 0, 0)
    theirs = np.asarray(Image.open(io.BytesIO(payload))) >> 8
    assert np.array_equal(decode(payload)[..., 0], theirs)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("options", [{"lossless": True}, {"quality": 80}, {"quality": 20}])
def test_webp_equals_pillow(mode, options):
    for size in SIZES:
        image = picture(*size, mode)
        assert_equal(encoded(image, "WEBP", **options))
        assert_equal(
            encoded(image, "WEBP", save_all=True, append_images=[image.rotate(180)], **options)
        )


def riff_chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


@pytest.mark.parametrize("options", [{"lossless": True, "exact": True}, {"quality": 80}])
@pytest.mark.parametrize(("canvas", "place"), [((33, 31), (0, 0)), ((40, 38), (6, 4))])
@pytest.mark.parametrize("flags", [0, 2])
def test_first_frame_of_a_webp_animation_equals_pillow_blended_or_not(
    options, canvas, place, flags
):
    still = encoded(picture(33, 31, "RGBA"), "WEBP", **options)
    # The chunks of the pixels, after those of the file and of the canvas.
    pixels = still[12:] if still[12:16] == b"VP8L" else still[30:]

    def numbers(*values):
        return b"".join(struct.pack("<I", value)[:3] for value in values)

    frame = numbers(place[0] // 2, place[1] // 2, 32, 30, 100) + bytes([flags]) + pixels
    header = bytes([0x12, 0, 0, 0]) + numbers(canvas[0] - 1, canvas[1] - 1)
    chunks = (
        riff_chunk(b"VP8X", header) + riff_chunk(b"ANIM", bytes(6)) + riff_chunk(b"ANMF", frame) * 2
    )
    assert_equal(riff_chunk(b"RIFF", b"WEBP" + chunks))


@pytest.mark.parametrize("size", SIZES)
def test_gif_and_bmp_equal_pillow(size):
    image = picture(*size)
    assert_equal(encoded(image, "GIF"))
    assert_equal(encoded(image, "GIF", save_all=True, append_images=[image.rotate(180)]))
    assert_equal(encoded(image.quantize(5), "GIF", transparency=1))
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        assert_equal(encoded(picture(*size, mode), "BMP"))


def test_gif_frame_beyond_its_screen_enlarges_it():
    payload = bytearray(encoded(picture(60, 40), "GIF"))
    payload[6:10] = struct.pack("<HH", 30, 20)
    assert decode(bytes(payload)).shape[:2] == (40, 60)
    assert_equal(bytes(payload))


@pytest.mark.parametrize(
    "compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "zstd"]
)
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK"])
def test_tiff_equals_pillow(compression, mode):
    for size in QUICK_SIZES:
        for strips in ({}, {278: 4}):
            assert_equal(
                encoded(picture(*size, mode), "TIFF", compression=compression, tiffinfo=strips)
            )


@pytest.mark.parametrize("mode", ["L", "RGB", "YCbCr", "CMYK"])
def test_jpeg_in_tiff_equals_pillow(mode):
    for size in QUICK_SIZES:
        for strips in ({}, {278: 8}):
            assert_equal(
                encoded(
                    picture(*size, mode), "TIFF", compression="jpeg", quality=80, tiffinfo=strips
                )
            )


def test_tiff_fax_and_pages_equal_pillow():
    assert_equal(encoded(picture(67, 45, "1"), "TIFF", compression="group4"))
    pages = encoded(
        picture(40, 30), "TIFF", save_all=True, append_images=[picture(20, 50), picture(9, 9)]
    )
    for page in range(3):
        assert_equal(pages, page=page)
    with pytest.raises(ValueError, match="damaged|Page"):
        decode(pages, page=3)


def exif(orientation):
    return b"Exif\0\0MM\0\x2a" + struct.pack(">IHHHIHHI", 8, 1, 274, 3, 1, orientation, 0, 0)


def xmp(orientation):
    return f'<x tiff:Orientation="{orientation}"/>'.encode()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_equals_pillow(orientation):
    image = picture(60, 40)
    for payload in (
        encoded(image, "JPEG", exif=exif(orientation)),
        encoded(image, "PNG", exif=exif(orientation)),
        encoded(image, "WEBP", lossless=True, exif=exif(orientation)),
        encoded(image, "TIFF", tiffinfo={274: orientation}),
        encoded(image, "JPEG", xmp=xmp(orientation)),
        encoded(image, "WEBP", lossless=True, xmp=xmp(orientation)),
        encoded(image, "JPEG", exif=exif(orientation), xmp=xmp(3)),
    ):
        assert_equal(payload)
    assert decode(encoded(image, "JPEG", exif=exif(6))).shape[:2] == (60, 40)
    assert decode(encoded(image, "JPEG", exif=exif(6)), orientation=False).shape[:2] == (40, 60)


@pytest.mark.parametrize(
    ("payload", "cause"),
    [
        (b"", "unknown format"),
        (b"no image", "unknown format"),
        (encoded(picture(67, 45), "JPEG")[:-2], "truncated"),
        (encoded(picture(67, 45), "JPEG")[:400], "truncated"),
        (encoded(picture(67, 45), "PNG")[:200], "truncated"),
        (
            encoded(picture(67, 45), "AVIF")
            if "AVIF" in Image.SAVE
            else b"\0\0\0\x18ftypavif\0\0\0\0avifmif1",
            "unsupported|damaged",
        ),
    ],
)
def test_bad_image_has_a_cause(payload, cause):
    with pytest.raises(ValueError, match=cause):
        decode(payload)


def test_limit_is_held_before_decoding():
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0))
    with pytest.raises(ValueError, match="limit"):
        decode(b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", bytes(200)))
    with pytest.raises(ValueError, match="limit"):
        decode(encoded(picture(67, 45), "JPEG"), max_pixels=1000)


def test_damage_is_refused_or_accepted_as_pillow_accepts_it():
    payload = bytearray(encoded(picture(67, 45), "JPEG", restart_marker_blocks=2))
    marker = payload.index(b"\xff\xd1")
    payload[marker + 1] = 0xD4
    with pytest.raises(ValueError, match="damaged"):
        decode(bytes(payload))
    assert np.array_equal(decode(bytes(payload), damaged="accept"), expected(bytes(payload)))
