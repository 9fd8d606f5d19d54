"""Images in another codec: the native stage beside Pillow."""

from __future__ import annotations

import io
import json
import re
import struct
import zlib

import pytest

np = pytest.importorskip("numpy")
Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from documents import document, encoded, picture, rows, write_tar
from shardmill.curate import (
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    ReencodeImages,
    WebDatasetSource,
)
from shardmill.errors import CurateError, OptionError

MODES = ["RGB", "L", "RGBA", "P", "CMYK"]


def reencoded(tmp_path, stage, images, **sink):
    write_tar(tmp_path / "in" / "a.tar", document("a", images))
    sink = ParquetSink(tmp_path / "out", mode="overwrite", **sink)
    Pipeline(source=WebDatasetSource(tmp_path / "in"), stages=[stage], sink=sink).run()
    return [row for row in rows(tmp_path / "out") if row["modality"] == "image"]


def shown(payload, max_side=None):
    """The pixels as Pillow shows them: upright, on white, never enlarged."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(payload)))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    image = image if image.mode == "L" else image.convert("RGB")
    if max_side is not None and max(image.size) > max_side:
        image = ImageOps.contain(image, (max_side, max_side), Image.Resampling.LANCZOS)
    return image


def turned(image, orientation, format="JPEG"):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = io.BytesIO()
    image.save(content, format, exif=exif)
    return content.getvalue()


def images_of_modes():
    images = [encoded(picture(seed=seed).convert(mode), "TIFF") for seed, mode in enumerate(MODES)]
    return [
        *images,
        turned(picture(61, 43), 6),
        turned(picture(61, 43), 3, "PNG"),
        encoded(picture(50, 70), "WEBP"),
    ]


@pytest.mark.parametrize("max_side", [None, 17, 1000])
@pytest.mark.parametrize("quality", [30, 90, 100])
def test_jpeg_has_the_bytes_that_pillow_writes(tmp_path, quality, max_side):
    images = [
        image
        for image in images_of_modes()
        if max_side == 17 or Image.open(io.BytesIO(image)).format != "JPEG"
    ]
    found = reencoded(tmp_path, ReencodeImages("jpeg", quality=quality, max_side=max_side), images)

    for row, image in zip(found, images, strict=True):
        content = io.BytesIO()
        shown(image, max_side).save(content, "JPEG", quality=quality)
        assert row["binary_content"] == content.getvalue()
        assert row["content_type"] == "image/jpeg"


@pytest.mark.parametrize("max_side", [None, 17])
def test_png_has_the_pixels_and_no_orientation(tmp_path, max_side):
    images = images_of_modes()
    found = reencoded(tmp_path, ReencodeImages("PNG", max_side=max_side), images)

    for row, image in zip(found, images, strict=True):
        stored, expected = Image.open(io.BytesIO(row["binary_content"])), shown(image, max_side)
        assert (stored.format, stored.mode, dict(stored.getexif())) == ("PNG", expected.mode, {})
        np.testing.assert_array_equal(np.asarray(stored), np.asarray(expected))


def images_with_alpha():
    colors = picture(60, 40).convert("RGBA")
    colors.putalpha(Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60), np.uint8)))
    gray, palette = colors.convert("LA"), picture(60, 40).quantize(16)
    rgb = picture(60, 40)
    keyed = encoded(rgb, "PNG", transparency=rgb.getpixel((3, 3)))
    deep = np.random.default_rng(1).integers(0, 1 << 16, (40, 60, 4), np.uint16)
    return {
        "rgba": encoded(colors),
        "gray": encoded(gray),
        "palette": encoded(palette, "PNG", transparency=bytes(range(0, 256, 16))),
        "keyed": keyed,
        "turned": turned(colors, 6, "PNG"),
        "opaque": encoded(rgb.convert("RGBA")),
        "16 bits": _png_of_16_bits(deep),
    }


def _png_of_16_bits(samples):
    height, width, _ = samples.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    header = struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    packed = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize("max_side", [None, 13])
def test_png_that_stays_one_keeps_its_alpha_as_pillow_does(tmp_path, max_side):
    images = images_with_alpha()
    found = reencoded(tmp_path, ReencodeImages("png", max_side=max_side), list(images.values()))

    for row, (name, image) in zip(found, images.items(), strict=True):
        stored, expected = (
            Image.open(io.BytesIO(row["binary_content"])),
            Image.open(io.BytesIO(image)),
        )
        expected = ImageOps.exif_transpose(expected)
        expected = expected if expected.mode == "LA" else expected.convert("RGBA")
        if max_side is not None:
            expected = ImageOps.contain(expected, (max_side, max_side), Image.Resampling.LANCZOS)
            assert stored.mode == expected.mode, name
        np.testing.assert_array_equal(
            np.asarray(stored.convert(expected.mode)), np.asarray(expected), name
        )


@pytest.mark.parametrize("codec", ["webp", "tiff"])
def test_image_that_stays_in_a_codec_of_pillow_keeps_its_alpha(tmp_path, codec):
    colors = picture(60, 40).convert("RGBA")
    colors.putalpha(100)
    [row] = reencoded(
        tmp_path, ReencodeImages(codec, max_side=16), [encoded(colors, codec.upper())]
    )
    stored = Image.open(io.BytesIO(row["binary_content"]))
    assert (stored.mode, stored.size) == ("RGBA", (16, 11))
    assert stored.getextrema()[3] == (100, 100)


@pytest.mark.parametrize("codec", ["jpeg", "png", "webp"])
def test_images_that_need_no_change_keep_their_bytes(tmp_path, codec):
    images = [encoded(picture(64, 40), codec.upper()), encoded(picture(65, 40), codec.upper())]
    first, second = reencoded(tmp_path, ReencodeImages(codec, quality=20, max_side=64), images)

    assert first["binary_content"] == images[0]
    stored = Image.open(io.BytesIO(second["binary_content"]))
    assert (stored.format, stored.size) == (codec.upper(), (64, 39))


@pytest.mark.parametrize("codec", ["png", "webp"])
def test_page_that_a_tiff_lacks_is_an_error_and_no_other_page(tmp_path, codec):
    pages = [picture(40, 30), picture(20, 10)]
    body = encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    row = {"sample_id": "a", "modality": "image", "binary_content": body}
    rows_of_pages = [
        {
            **row,
            "position": page,
            "source_ref": json.dumps({"path": "a.tar", "member": "a.tiff", "frame_index": page}),
        }
        for page in (0, 1, 7)
    ]
    pq.write_table(pa.Table.from_pylist(rows_of_pages), tmp_path / "in.parquet")
    sink = ParquetSink(tmp_path / "out", on_materialize_error="warn")
    Pipeline(
        source=InterleavedParquetSource(tmp_path / "in.parquet"),
        stages=[ReencodeImages(codec)],
        sink=sink,
    ).run()

    first, second, lacking = rows(tmp_path / "out")
    stored = [Image.open(io.BytesIO(row["binary_content"])).size for row in (first, second)]
    assert stored == [(40, 30), (20, 10)]
    assert lacking["binary_content"] is None
    assert lacking["materialize_error"] == "failed to extract frame 7 from 'a.tiff'"


@pytest.mark.parametrize("codec", ["png", "webp"])
def test_damaged_images_get_an_error_and_the_others_are_written(tmp_path, codec):
    images = [b"no image", encoded(picture(), "JPEG")[:300], encoded(picture(), "JPEG")]
    found = reencoded(tmp_path, ReencodeImages(codec), images, on_materialize_error="warn")

    errors = [row["materialize_error"] for row in found]
    assert errors[2] is None and all(
        error.startswith("failed to decode image") for error in errors[:2]
    )
    assert [row["binary_content"] is None for row in found] == [True, True, False]


def test_image_in_a_format_that_is_not_decoded_stops_the_run_with_its_place_and_format(tmp_path):
    others = [b"no image", encoded(picture(40, 30), "JPEG2000"), encoded(picture(40, 30), "TGA")]
    images = [encoded(picture(40, 30), "JPEG"), encoded(picture(40, 30), "AVIF"), *others]
    cause = "failed to decode image: AVIF is not supported (the size is 40 x 30)"
    with pytest.raises(CurateError) as caught:
        reencoded(tmp_path, ReencodeImages("png"), images)
    message = str(caught.value)
    assert message.startswith(f"Materialization failed (4 errors). First: {cause}, in row ")
    assert re.search(r"in row \d+ of sample `a` \(member `[^`]+` of `.*a\.tar`\)\n", message)

    found = reencoded(tmp_path, ReencodeImages("png"), images, on_materialize_error="warn")
    assert [row["materialize_error"] for row in found] == [
        None,
        cause,
        "failed to decode image: Payload of `8` bytes is not a recognized image",
        "failed to decode image: JPEG 2000 is not supported (the size is 40 x 30)",
        "failed to decode image: TGA is not supported",
    ]


@pytest.mark.parametrize(
    ("codec", "content_type"),
    [("webp", "image/webp"), ("bmp", "image/bmp"), ("jpeg2000", "image/jp2")],
)
def test_codec_of_pillow_has_its_registered_content_type(tmp_path, codec, content_type):
    (row,) = reencoded(tmp_path, ReencodeImages(codec), [encoded(picture(40, 40))])
    assert (row["content_type"], row["materialize_error"]) == (content_type, None)


@pytest.mark.parametrize(
    "options", [{"quality": 0}, {"quality": 101}, {"max_side": 0}, {"max_side": 70_000}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(OptionError):
        ReencodeImages("jpeg", **options)


def test_codec_that_pillow_cannot_write_is_refused():
    with pytest.raises(
        OptionError,
        match="codec must be 'jpeg', 'png' or a format that Pillow can write, not 'jpgg'",
    ):
        ReencodeImages("jpgg")
    with pytest.raises(OptionError, match="codec"):
        ReencodeImages(5)  # pyright: ignore[reportArgumentType]


def test_16_bit_image_is_turned_in_codecs_of_pillow(tmp_path):
    image = Image.fromarray(np.arange(1200, dtype=np.uint16).reshape(30, 40) * 50)
    [row] = reencoded(tmp_path, ReencodeImages("webp"), [turned(image, 6, "PNG")])
    assert Image.open(io.BytesIO(row["binary_content"])).size == (30, 40)


@pytest.mark.parametrize("codec", ["jpeg", "png", "webp", "gif"])
@pytest.mark.parametrize("size", [(200, 3), (3, 200)])
def test_thin_image_that_shrinks_keeps_one_pixel_of_its_short_side(tmp_path, codec, size):
    [row] = reencoded(
        tmp_path, ReencodeImages(codec, max_side=16), [encoded(picture(*size), "PNG")]
    )
    assert sorted(Image.open(io.BytesIO(row["binary_content"])).size) == [1, 16]


def test_image_that_the_codec_cannot_hold_gets_an_error_that_says_so(tmp_path):
    image = encoded(Image.new("RGB", (17_000, 1)), "PNG")
    [row] = reencoded(tmp_path, ReencodeImages("webp"), [image], on_materialize_error="warn")
    assert row["binary_content"] is None
    assert row["materialize_error"].startswith("failed to encode image as webp: ")
