"""Pages that are copied out of TIFFs decode to the same pixels, and image sizes are Pillow's.

The TIFFs are by other writers.

Pillow (libtiff) and tifffile write and read; our side only moves bytes. Nothing here decodes with
our own code.
"""

from __future__ import annotations

import io
import struct

import pytest
from breadth import in_one
from shardmill._native import images

np = pytest.importorskip("numpy")
tifffile = pytest.importorskip("tifffile")
Image = pytest.importorskip("PIL.Image")
ImageCms = pytest.importorskip("PIL.ImageCms")

# Pillow says this of every big-endian BigTIFF, which it cannot read.
pytestmark = pytest.mark.filterwarnings("ignore:Corrupt EXIF data")

# Offsets, and tags that describe the multi-page file.
MOVED = {273, 324, 34665, 34853, 40965}
DROPPED = {254, 255, 297, 330}


def picture(height=61, width=83, channels=3, dtype="uint8", seed=0):
    """Smooth colours with some noise, so that every codec has something to do."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [(x * (k + 2) + y * (k + 1) + seed * 17) % 256 for k in range(channels)]
    data = np.stack(planes, -1) + random.integers(0, 8, (height, width, channels))
    data = np.clip(data, 0, 255)
    if np.issubdtype(np.dtype(dtype), np.floating):
        data = data / 255
    elif dtype == "uint16":
        data = data * 257
    data = data.astype(dtype)
    return data[..., 0] if channels == 1 else data


def with_tifffile(pages, *, bigtiff=False, byteorder="<", **options):
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer, bigtiff=bigtiff, byteorder=byteorder) as writer:
        for k, page in enumerate(pages):
            writer.write(page, metadata=None, description=f"page {k}", **options)
    return buffer.getvalue()


def with_pillow(pages, **options):
    buffer = io.BytesIO()
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:], **options)
    return buffer.getvalue()


def pillow_pages(mode, seeds=3):
    pages = []
    for seed in range(seeds):
        image = Image.fromarray(picture(seed=seed, height=150 + seed, width=90 + seed))
        pages.append(image.convert("CMYK") if mode == "CMYK" else image.convert(mode))
    return pages


def icc_and_exif():
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[271] = "Maker"
    exif.get_ifd(34665).update(
        {
            33434: 0.5,
            37510: b"ASCII\0\0\0a comment that is out of line",
            40965: {1: "R98", 2: b"0100"},
        }
    )
    exif.get_ifd(34853).update({1: "N", 2: (48.0, 8.0, 14.5)})
    # Pillow writes the directories above only when their tags are there, whatever the offset.
    exif[34665] = exif[34853] = 0
    return {"icc_profile": profile, "exif": exif}


def pillow_cases():
    rgb, grey, bilevel = pillow_pages("RGB"), pillow_pages("L"), pillow_pages("1")
    for compression in [
        "raw",
        "tiff_lzw",
        "tiff_deflate",
        "tiff_adobe_deflate",
        "packbits",
        "zstd",
        "lzma",
    ]:
        yield f"pillow_{compression}", lambda c=compression: with_pillow(rgb, compression=c)
    for compression in ["group3", "group4", "tiff_ccitt", "packbits", "raw"]:
        yield (
            f"pillow_bilevel_{compression}",
            lambda c=compression: with_pillow(bilevel, compression=c),
        )
    yield "pillow_jpeg_ycbcr", lambda: with_pillow(rgb, compression="jpeg", quality=85)
    yield "pillow_jpeg_grey", lambda: with_pillow(grey, compression="jpeg")
    yield "pillow_jpeg_cmyk", lambda: with_pillow(pillow_pages("CMYK"), compression="jpeg")
    yield "pillow_predictor", lambda: with_pillow(rgb, compression="tiff_lzw", tiffinfo={317: 2})
    for mode in ["P", "CMYK", "I;16", "F", "I", "RGBA", "LA", "LAB"]:
        yield (
            f"pillow_mode_{mode}",
            lambda m=mode: with_pillow(pillow_mode(m), compression="tiff_deflate"),
        )
    yield (
        "pillow_mixed",
        lambda: with_pillow(rgb[:1] + bilevel[:1] + pillow_pages("P")[:1] + grey[:1]),
    )
    yield "pillow_icc_exif", lambda: with_pillow(rgb, compression="raw", **icc_and_exif())
    # Pillow cannot write EXIF through libtiff.
    profile = icc_and_exif()["icc_profile"]
    yield "pillow_icc_jpeg", lambda: with_pillow(rgb, compression="jpeg", icc_profile=profile)
    yield "pillow_big_strips", lambda: with_pillow(rgb, compression="jpeg", strip_size=1 << 20)
    yield "pillow_small_strips", lambda: with_pillow(rgb, compression="tiff_lzw", strip_size=600)
    yield "pillow_big_tiff", lambda: with_pillow(rgb, compression="tiff_lzw", big_tiff=True)


def pillow_mode(mode):
    if mode == "LAB":
        return [Image.frombytes("LAB", (83, 61), picture(seed=k).tobytes()) for k in range(3)]
    if mode == "I;16":
        return [Image.fromarray(picture(channels=1, dtype="uint16", seed=k)) for k in range(3)]
    return pillow_pages(mode)


def tifffile_cases():
    def pages(**options):
        return [picture(seed=k, **options) for k in range(3)]

    codecs = [None, "lzw", "deflate", "packbits", "jpeg", "zstd", "lzma", "webp", "jpeg2000"]
    for codec in codecs:
        for tile in [None, (32, 48)]:
            name = f"tifffile_{codec}_{'tiles' if tile else 'strips'}"
            yield (
                name,
                lambda c=codec, t=tile: with_tifffile(
                    pages(),
                    photometric="rgb",
                    compression=c,
                    tile=t,
                    rowsperstrip=None if t else 16,
                ),
            )
    for order in "<>":
        for big in [False, True]:
            flavour = f"{'II' if order == '<' else 'MM'}_{'big' if big else 'classic'}"
            layout = {"byteorder": order, "bigtiff": big}
            yield (
                f"tifffile_{flavour}_16bit_predictor",
                lambda layout=layout: with_tifffile(
                    pages(dtype="uint16"),
                    photometric="rgb",
                    compression="deflate",
                    predictor=True,
                    rowsperstrip=7,
                    **layout,
                ),
            )
            yield (
                f"tifffile_{flavour}_float",
                lambda layout=layout: with_tifffile(
                    pages(dtype="float32", channels=1),
                    photometric="minisblack",
                    compression="deflate",
                    predictor=3,
                    **layout,
                ),
            )
            yield (
                f"tifffile_{flavour}_raw_one_strip",
                lambda layout=layout: with_tifffile(
                    pages(channels=1, dtype="uint16"), photometric="minisblack", **layout
                ),
            )
            yield (
                f"tifffile_{flavour}_planar",
                lambda layout=layout: with_tifffile(
                    [np.moveaxis(p, -1, 0).copy() for p in pages()],
                    photometric="rgb",
                    planarconfig="separate",
                    compression="lzw",
                    rowsperstrip=10,
                    **layout,
                ),
            )
            yield (
                f"tifffile_{flavour}_planar_tiles",
                lambda layout=layout: with_tifffile(
                    [np.moveaxis(p, -1, 0).copy() for p in pages()],
                    photometric="rgb",
                    planarconfig="separate",
                    tile=(16, 32),
                    **layout,
                ),
            )
            yield (
                f"tifffile_{flavour}_jpeg_ycbcr",
                lambda layout=layout: with_tifffile(
                    pages(height=160, width=128),
                    photometric="ycbcr",
                    subsampling=(2, 2),
                    compression="jpeg",
                    tile=(64, 64),
                    **layout,
                ),
            )
            yield (
                f"tifffile_{flavour}_private_tags",
                lambda layout=layout: with_tifffile(
                    pages(),
                    photometric="rgb",
                    software="x" * 40,
                    resolution=(300, 301),
                    extratags=[
                        (65000, 2, None, "inl", True),
                        (65001, 5, 3, (1, 2, 3, 4, 5, 6), True),
                        (65002, 7, 33, bytes(range(33)), True),
                    ],
                    **layout,
                ),
            )
    palette = np.arange(768, dtype="uint16").reshape(3, 256) * 85
    yield (
        "tifffile_palette",
        lambda: with_tifffile(pages(channels=1), photometric="palette", colormap=palette),
    )
    yield (
        "tifffile_bilevel",
        lambda: with_tifffile([p > 100 for p in pages(channels=1)], photometric="minisblack"),
    )
    yield "tifffile_subifds", with_subifds


def with_subifds():
    buffer = io.BytesIO()
    with tifffile.TiffWriter(buffer) as writer:
        for k in range(2):
            writer.write(picture(64, 64, seed=k), photometric="rgb", subifds=1, metadata=None)
            writer.write(picture(32, 32, seed=k), photometric="rgb", subfiletype=1, metadata=None)
    return buffer.getvalue()


CASES = {name: make for cases in (pillow_cases, tifffile_cases) for name, make in cases()}


def decode_with_pillow(payload, page):
    """Mode, size and pixels as libtiff sees them; None when Pillow does not know the layout."""
    try:
        with Image.open(io.BytesIO(payload)) as image:
            if page:
                image.seek(page)
            # A sought page keeps the mode of the first one once it was loaded,
            # so nothing is loaded before.
            return image.mode, image.size, image.tobytes(), image.getpalette()
    except (OSError, KeyError, ValueError, SyntaxError):
        return None


def tags_of(page):
    found = {}
    for tag in page.tags.values():
        if tag.code not in MOVED | DROPPED:
            value = tag.value
            found[tag.code] = (
                tag.dtype,
                tag.count,
                value.tolist() if isinstance(value, np.ndarray) else value,
            )
    return found


@in_one("name", CASES)
def test_extracted_page_has_the_pixels_and_tags_of_the_source_page(name):
    payload = CASES[name]()
    with tifffile.TiffFile(io.BytesIO(payload)) as source:
        assert images.tiff_pages(payload) == len(source.pages) > 1
        for k, page in enumerate(source.pages):
            copy = images.extract_page(payload, k)
            with tifffile.TiffFile(io.BytesIO(copy)) as extracted:
                assert len(extracted.pages) == 1
                (only,) = extracted.pages
                assert (extracted.byteorder, extracted.is_bigtiff) == (
                    source.byteorder,
                    source.is_bigtiff,
                )
                assert tags_of(only) == tags_of(page)
                assert read_segments(extracted, only) == read_segments(source, page)
                if "group" not in name and "ccitt" not in name:
                    np.testing.assert_array_equal(only.asarray(), page.asarray())
            expected = decode_with_pillow(payload, k)
            assert decode_with_pillow(copy, 0) == expected
            assert expected is not None or any(part in name for part in PILLOW_CANNOT), (
                "the oracle saw nothing"
            )
            assert images.image_size(copy) == (page.imagewidth, page.imagelength)
            assert len(copy) <= sum(page.databytecounts) + 8192
            assert images.extract_page(copy, 0) == copy


# Layouts that Pillow does not open; tifffile alone judges them.
PILLOW_CANNOT = ["webp", "jpeg2000", "MM_big"]


def read_segments(file, page):
    found = []
    for offset, count in zip(page.dataoffsets, page.databytecounts):
        file.filehandle.seek(offset)
        found.append(file.filehandle.read(count))
    return found


def test_icc_and_exif_travel_with_the_page():
    payload = CASES["pillow_icc_exif"]()
    for k in range(3):
        with (
            Image.open(io.BytesIO(payload)) as source,
            Image.open(io.BytesIO(images.extract_page(payload, k))) as copy,
        ):
            source.seek(k)
            assert copy.info.get("icc_profile") == source.info.get("icc_profile")
            theirs, ours = source.getexif(), copy.getexif()
            for directory in (34665, 34853, 40965):
                found = {
                    tag: value for tag, value in ours.get_ifd(directory).items() if tag not in MOVED
                }
                wanted = {
                    tag: value
                    for tag, value in theirs.get_ifd(directory).items()
                    if tag not in MOVED
                }
                assert found == wanted
                assert found or k > 0


def test_page_beyond_the_end_is_a_value_error():
    payload = CASES["pillow_raw"]()
    with pytest.raises(ValueError, match="beyond the end"):
        images.extract_page(payload, 3)


def test_payload_that_is_no_tiff_is_a_value_error():
    with pytest.raises(ValueError, match="not a TIFF"):
        images.tiff_pages(b"\x89PNG\r\n\x1a\n" + bytes(64))


def old_jpeg_tiff():
    """Two pages of compression 6: an interchange stream with the strip in it, separate tables."""
    pages = []
    for seed in range(2):
        buffer = io.BytesIO()
        Image.fromarray(picture(64, 80, seed=seed)).save(buffer, "JPEG", subsampling=0, quality=90)
        pages.append(buffer.getvalue())
    out = bytearray(b"II*\0\0\0\0\0")
    link = 4
    for stream in pages:
        jpeg_at = len(out)
        out += stream + bytes(len(stream) % 2)
        scan = stream.index(b"\xff\xda")
        scan_at = scan + 2 + int.from_bytes(stream[scan + 2 : scan + 4], "big")
        bits_at = len(out)
        out += struct.pack("<3H", 8, 8, 8) + bytes(2)
        entries = [
            (256, 3, 1, 80), (257, 3, 1, 64), (258, 3, 3, bits_at), (259, 3, 1, 6), (262, 3, 1, 6),
            (273, 4, 1, jpeg_at + scan_at), (277, 3, 1, 3), (278, 3, 1, 64),
            (279, 4, 1, len(stream) - scan_at), (284, 3, 1, 1), (512, 3, 1, 1),
            (513, 4, 1, jpeg_at), (514, 4, 1, len(stream)), (530, 3, 2, 1 | 1 << 16),
        ]  # fmt: skip
        struct.pack_into("<I", out, link, len(out))
        out += struct.pack("<H", len(entries))
        for tag, kind, count, value in entries:
            out += struct.pack("<HHII", tag, kind, count, value)
        link = len(out)
        out += bytes(4)
    return bytes(out)


def test_old_style_jpeg_page_decodes_to_the_same_pixels():
    payload = old_jpeg_tiff()
    if decode_with_pillow(payload, 0) is None:
        pytest.skip("this libtiff has no old-style JPEG")
    for k in range(2):
        copy = images.extract_page(payload, k)
        assert decode_with_pillow(copy, 0) == decode_with_pillow(payload, k) is not None


SIZE_FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "AVIF", "TIFF", "PPM", "ICO"]


@pytest.mark.parametrize("size", [(1, 1), (83, 61), (16, 255), (255, 250)])
@pytest.mark.parametrize("kind", SIZE_FORMATS)
def test_image_size_agrees_with_pillow(kind, size):
    if not Image.registered_extensions().get("." + kind.lower(), kind) or kind not in Image.SAVE:
        Image.init()
    if kind not in Image.SAVE:
        pytest.skip(f"this Pillow does not write {kind}")
    if kind == "ICO" and size == (1, 1):
        pytest.skip("an icon has fixed sizes")
    buffer = io.BytesIO()
    Image.fromarray(picture(size[1], size[0])).save(buffer, kind)
    with Image.open(io.BytesIO(buffer.getvalue())) as image:
        assert images.image_size(buffer.getvalue()) == image.size


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("JPEG", {"progressive": True}),
        ("JPEG", {"exif": b"Exif\0\0" + bytes(60000), "icc_profile": bytes(200_000)}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"}),
        ("WEBP", {"save_all": True, "append_images": [Image.new("RGB", (300, 200), "red")]}),
        ("PNG", {"icc_profile": bytes(100_000)}),
        ("AVIF", {"exif": b"MM\0*\0\0\0\x08\0\0\0\0\0\0", "icc_profile": bytes(30_000)}),
    ],
)
def test_image_size_behind_metadata_agrees_with_pillow(kind, options):
    buffer = io.BytesIO()
    Image.init()
    if kind not in Image.SAVE:
        pytest.skip(f"this Pillow does not write {kind}")
    Image.fromarray(picture(200, 300)).save(buffer, kind, **options)
    assert images.image_size(buffer.getvalue()) == (300, 200)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_orientation_swaps_the_sides_as_pillow_does(orientation):
    payload = with_pillow(pillow_pages("RGB", 1), tiffinfo={274: orientation})
    with Image.open(io.BytesIO(payload)) as image:
        assert images.image_size(payload) == image.size


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP"])
def test_payload_cut_in_its_pixels_still_has_a_size(kind):
    buffer = io.BytesIO()
    Image.fromarray(picture(200, 300)).save(buffer, kind)
    assert images.image_size(buffer.getvalue()[: len(buffer.getvalue()) * 3 // 4]) == (300, 200)
