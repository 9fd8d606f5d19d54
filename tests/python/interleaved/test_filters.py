"""Filters (specification §5)."""

import io
from typing import Any, ClassVar

import numpy as np
import pytest
import shardmill as sm
from PIL import Image, ImageOps, PngImagePlugin, TiffImagePlugin
from shard_builders import document, image, row, table, tiff
from shardmill.curate import (
    AspectRatioFilter,
    BlurFilter,
    ClipScoreFilter,
    Filter,
    ImageToTextRatioFilter,
    QRCodeFilter,
)
from shardmill.curate import _pixels as pixels

ANY = AspectRatioFilter(0.0, 1e9)


def kept(outcome: Any) -> list[int]:
    """Which images of the input are still there, by the red of their colour."""
    return [
        body[0] if len(body) == 1 else Image.open(io.BytesIO(body)).getpixel((0, 0))[0]
        for body in outcome.column("binary_content", "image")
    ]


def images(*sizes: tuple[int, int], codec: str = "PNG") -> list[dict[str, Any]]:
    return document("a", *[image(codec, size, (number, 0, 0)) for number, size in enumerate(sizes)])


@pytest.mark.parametrize("codec", ["PNG", "TIFF", "BMP", "WEBP", "GIF", "JPEG"])
def test_bounds_are_inclusive_for_every_format(run_rows: Any, codec: str) -> None:
    rows = images((100, 100), (100, 50), (90, 100), (105, 50), (150, 100), codec=codec)
    outcome = run_rows(rows, [AspectRatioFilter(1.0, 2.0)])
    bodies = [found["binary_content"] for found in rows[1:]]
    assert outcome.column("binary_content", "image") == [bodies[0], bodies[1], bodies[4]]
    assert outcome.report.rows_dropped == {"aspect ratio out of range": 2}


@pytest.mark.parametrize("eager", [True, False])
def test_pages_are_judged_by_their_own_size(run_tar: Any, eager: bool) -> None:
    members = {"d.json": {"images": ["a", "b", "c"]}, "d.tiff": tiff((10, 10), (30, 10), (20, 10))}
    outcome = run_tar(members, [AspectRatioFilter()], source={"materialize_on_read": eager})
    sizes = [
        Image.open(io.BytesIO(body)).size for body in outcome.column("binary_content", "image")
    ]
    assert sizes == [(10, 10), (20, 10)]
    assert outcome.column("position", "image") == [0, 1]


def test_page_in_memory_is_the_one_that_the_locator_names(run_rows: Any) -> None:
    pages = tiff((10, 10), (90, 10))
    rows = [
        row("a", 0, "image", binary_content=pages, source_ref='{"frame_index": 1}'),
        row("a", 1, "image", binary_content=pages),
    ]
    assert len(run_rows(rows, [AspectRatioFilter()]).rows) == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_orientation_turns_the_page(run_rows: Any, orientation: int) -> None:
    body = tiff((10, 20), tiffinfo={274: orientation})
    outcome = run_rows(document("a", "t", body), [AspectRatioFilter(1.0, 2.0)])
    assert len(outcome.column("binary_content", "image")) == (orientation >= 5)


def turned(codec: str, orientation: int, where: str = "exif") -> bytes:
    """An image of noise, stored as 400 x 200 pixels.

    If its records follow the pixels, they are far from its header.
    """
    noise = np.random.default_rng(orientation).integers(0, 256, (200, 400, 3), np.uint8)
    target, exif = io.BytesIO(), Image.Exif()
    exif[274] = orientation
    xmp = f'<x tiff:Orientation="{orientation}"/>'.encode()
    records = {"exif": exif} if where == "exif" else {"xmp": xmp}
    if codec == "PNG" and where == "xmp":
        info = PngImagePlugin.PngInfo()
        info.add_itxt("XML:com.adobe.xmp", xmp.decode())
        records = {"pnginfo": info}
    if codec == "TIFF" and where == "xmp":
        records = {"tiffinfo": {700: xmp}}
    Image.fromarray(noise).save(target, codec, **records)
    return target.getvalue()


def png_with_exif_last(payload: bytes) -> bytes:
    """The chunk of EXIF after the pixels, as the PNG specification allows."""
    at = payload.index(b"eXIf") - 4
    end = at + 12 + int.from_bytes(payload[at : at + 4], "big")
    return payload[:at] + payload[end:-12] + payload[at:end] + payload[-12:]


@pytest.mark.parametrize("eager", [True, False])
def test_every_format_is_judged_as_it_is_displayed(run_tar: Any, eager: bool) -> None:
    """The oracle is Pillow's exif_transpose."""
    for orientation in (1, 3, 5, 6, 8):
        images = {
            f"{codec}.{where}.{codec.lower()}": turned(codec, orientation, where)
            for codec in ("JPEG", "PNG", "WEBP", "TIFF")
            for where in ("exif", "xmp")
        }
        images["late.png"] = png_with_exif_last(images["PNG.exif.png"])
        for body in images.values():
            is_wide = ImageOps.exif_transpose(Image.open(io.BytesIO(body))).size == (400, 200)
            assert is_wide == (orientation < 5)
        members = {"a.json": {"images": list(images), "name": list(images)}, **images}
        source = {"per_image_fields": ("name",), "materialize_on_read": eager}
        wide = run_tar(members, [AspectRatioFilter(1.5, 3.0)], source=source)
        tall = run_tar(members, [AspectRatioFilter(0.3, 0.7)], source=source)
        found = [wide.column("name", "image"), tall.column("name", "image")]
        assert found == ([list(images), []] if orientation < 5 else [[], list(images)]), orientation


def test_page_of_a_tiff_is_turned_by_its_own_tag_or_xmp(run_tar: Any) -> None:
    pages = [Image.new("RGB", (40, 20), (number, 0, 0)) for number in range(3)]
    target = io.BytesIO()
    with TiffImagePlugin.AppendingTiffWriter(target, True) as writer:
        for page, tags in zip(
            pages, ({274: 6}, {700: b'<x tiff:Orientation="6"/>'}, {274: 1}), strict=True
        ):
            page.save(writer, "TIFF", tiffinfo=tags)
            writer.newFrame()
    members = {"d.json": {"images": ["a", "b", "c"]}, "d.tiff": target.getvalue()}
    for eager in (True, False):
        outcome = run_tar(
            members, [AspectRatioFilter(0.3, 0.7)], source={"materialize_on_read": eager}
        )
        assert kept(outcome) == [0, 1]


def test_filters_of_pixels_see_images_upright(run_rows: Any) -> None:
    class Model:
        sizes: ClassVar[list[tuple[int, int]]] = []

        def embed_images(self, images: list[Image.Image]) -> Any:
            self.sizes += [found.size for found in images]
            return np.ones((len(images), 2))

        def embed_texts(self, texts: list[str]) -> Any:
            return np.ones((len(texts), 2))

    bodies = [turned(codec, 6) for codec in ("JPEG", "PNG", "WEBP", "TIFF")]
    model = Model()
    run_rows(document("a", "t", *bodies), [ClipScoreFilter(model)])
    assert model.sizes == [(200, 400)] * 4
    assert [pixels.decoded(body).shape for body in bodies] == [(400, 200, 3)] * 4


def test_header_decides_so_cut_pixels_pass_and_unknown_headers_do_not(run_rows: Any) -> None:
    whole = image("JPEG", (300, 200))
    zero = bytearray(image("PNG"))
    zero[20:24] = b"\0\0\0\0"
    rows = document("a", "t", whole[: len(whole) // 2], b"not an image", b"", bytes(zero))
    outcome = run_rows(rows, [AspectRatioFilter()])
    assert outcome.column("binary_content", "image") == [whole[: len(whole) // 2]]
    assert outcome.report.rows_dropped == {"image header unreadable": 3}


def test_content_behind_a_dropped_image_moves_up(run_rows: Any) -> None:
    rows = document("a", "t0", image(size=(10, 10)), "t2", image(size=(90, 10)), "t4")
    outcome = run_rows(rows, [AspectRatioFilter()])
    assert outcome.shape() == [
        ("a", -1, "metadata"),
        ("a", 0, "text"),
        ("a", 1, "image"),
        ("a", 2, "text"),
        ("a", 3, "text"),
    ]
    assert outcome.column("text_content", "text") == ["t0", "t2", "t4"]


def test_gaps_close_even_where_nothing_was_dropped(run_rows: Any) -> None:
    outcome = run_rows(document("a", None, "t", None, None, image()), [AspectRatioFilter()])
    assert [position for _, position, _ in outcome.shape()] == [-1, 0, 1]


def test_rows_grouped_by_modality_come_out_interleaved_text_first_on_ties(run_rows: Any) -> None:
    rows = [
        row("a", -1, "metadata"),
        *[row("a", at, "image", binary_content=image()) for at in (3, 1)],
        *[row("a", at, "text") for at in (2, 1, 0)],
    ]
    outcome = run_rows(rows, [AspectRatioFilter()])
    assert [modality for *_, modality in outcome.shape()] == [
        "metadata",
        "text",
        "text",
        "image",
        "text",
        "image",
    ]
    assert [position for _, position, _ in outcome.shape()] == [-1, 0, 1, 2, 3, 4]


def test_metadata_without_content_goes_also_where_it_never_had_any(run_rows: Any) -> None:
    rows = [*document("s1", "t"), *document("s2", image(size=(90, 10))), *document("s3")]
    outcome = run_rows(rows, [AspectRatioFilter()])
    assert outcome.shape() == [("s1", -1, "metadata"), ("s1", 0, "text")]
    assert outcome.report.rows_dropped == {
        "aspect ratio out of range": 1,
        "metadata of a sample without content": 2,
    }


@pytest.mark.parametrize(
    "stage", [ANY, ImageToTextRatioFilter(), BlurFilter(0.0), Filter(sm.col("position") >= -1)]
)
def test_empty_batch_passes_unchanged(run_rows: Any, stage: Any) -> None:
    assert run_rows(table([]), [stage]).rows == []


@pytest.mark.parametrize("drop_invalid_rows", [True, False])
@pytest.mark.parametrize(
    "stage",
    [
        AspectRatioFilter,
        ImageToTextRatioFilter,
        lambda **options: BlurFilter(0.0, **options),
        lambda **options: Filter(sm.col("position") >= -9, **options),
    ],
)
def test_invalid_rows_go_only_where_asked_for(
    run_rows: Any, stage: Any, drop_invalid_rows: bool
) -> None:
    rows = [
        *document("a", "t", image("PNG")),
        row("a", 2, "video"),
        row("a", -1, "text", text_content="x"),
        row("b", 3, "metadata"),
        row("b", 0, "text"),
    ]
    outcome = run_rows(rows, [stage(drop_invalid_rows=drop_invalid_rows)])
    if drop_invalid_rows:
        assert outcome.shape() == [
            ("a", -1, "metadata"),
            ("a", 0, "text"),
            ("a", 1, "image"),
            ("b", 0, "text"),
        ]
        assert outcome.report.rows_dropped == {"invalid modality or position": 3}
    else:
        modalities = [modality for *_, modality in outcome.shape()]
        assert modalities == ["metadata", "text", "text", "image", "video", "metadata", "text"]


def test_samples_keep_their_order(run_tar: Any) -> None:
    outcome = run_tar(
        [(f"{name}.json", {"texts": ["t"]}) for name in "zam"], [ANY, ImageToTextRatioFilter()]
    )
    assert [key for key, position, _ in outcome.shape() if position == -1] == ["z", "a", "m"]


def test_documents_of_one_id_are_judged_apart(run_rows: Any) -> None:
    outcome = run_rows(
        [*document("a", "t", image(size=(10, 10))), *document("a", image(size=(90, 10)))],
        [AspectRatioFilter()],
    )
    assert outcome.shape() == [("a", -1, "metadata"), ("a", 0, "text"), ("a", 1, "image")]


def test_text_and_metadata_are_untouched_by_image_filters(run_rows: Any) -> None:
    rows = document("a", "t", image("PNG", (3, 3)))
    rows[1]["binary_content"] = b"not judged"
    outcome = run_rows(rows, [ANY, BlurFilter(0.0), QRCodeFilter()])
    assert [found["binary_content"] for found in outcome.rows[:2]] == [None, b"not judged"]


# --- image to text


@pytest.mark.parametrize(
    ("low", "high", "is_kept"),
    [
        (0.25, 0.25, True),
        (0.0, 0.25, True),
        (0.25, 1.0, True),
        (0.26, 1.0, False),
        (0.0, 0.24, False),
    ],
)
def test_images_per_word_decide_for_the_whole_sample(
    run_rows: Any, low: float, high: float, is_kept: bool
) -> None:
    rows = [
        *document("a", "two  words", image(), "\t", "and\nmore"),
        *document("b", "one two three four", image()),
    ]
    outcome = run_rows(rows, [ImageToTextRatioFilter(low, high)])
    assert len(outcome.rows) == (len(rows) if is_kept else 0)


def test_no_word_counts_as_one_and_no_image_as_none(run_rows: Any) -> None:
    rows = [*document("a", image(), image()), *document("b", "t")]
    assert {key for key, *_ in run_rows(rows, [ImageToTextRatioFilter(2, 2)]).shape()} == {"a"}
    assert {key for key, *_ in run_rows(rows, [ImageToTextRatioFilter(0, 0)]).shape()} == {"b"}


# --- blur


def noisy(seed: int, amplitude: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, amplitude, (40, 60, 3), dtype=np.uint8)
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "PNG")
    return target.getvalue()


def test_blur_keeps_what_reaches_the_threshold_as_opencv_measures_it(run_rows: Any) -> None:
    import cv2

    bodies = [noisy(seed, amplitude) for seed, amplitude in enumerate((5, 20, 60, 200))]
    scores = [
        cv2.Laplacian(np.asarray(Image.open(io.BytesIO(body)).convert("RGB")), cv2.CV_64F).var()
        for body in bodies
    ]
    outcome = run_rows(document("a", *bodies), [BlurFilter(scores[2])])
    assert outcome.column("binary_content", "image") == bodies[2:]
    assert outcome.report.rows_dropped == {"interleaved_blur_filter": 2}


def test_blur_of_a_page_in_memory_is_that_of_the_page_that_the_locator_names(run_rows: Any) -> None:
    pages, sharp = io.BytesIO(), Image.open(io.BytesIO(noisy(1, 255)))
    Image.new("RGB", sharp.size).save(pages, "TIFF", save_all=True, append_images=[sharp])
    refs = [f'{{"frame_index": {frame}}}' for frame in (0, 1, 2)]
    rows = [
        row("a", at, "image", binary_content=pages.getvalue(), source_ref=ref)
        for at, ref in enumerate(refs)
    ]
    outcome = run_rows(rows, [BlurFilter(1.0)], on_materialize_error="drop_row")
    assert outcome.column("source_ref") == [refs[1]]
    assert outcome.report.rows_dropped == {"interleaved_blur_filter": 1, "materialize_error": 1}


def test_solid_image_scores_zero_and_the_undecodable_is_dropped(run_rows: Any) -> None:
    cut = image("JPEG", (300, 300))[:200]
    rows = document("a", "t", image("PNG"), b"no image", cut)
    assert len(run_rows(rows, [BlurFilter(0.0)]).column("binary_content", "image")) == 1
    assert len(run_rows(rows, [BlurFilter(1e-9)]).column("binary_content", "image")) == 0


# --- QR codes


def qr_code(side: int, on: tuple[int, int]) -> bytes:
    import cv2

    code = cv2.resize(
        cv2.QRCodeEncoder.create().encode("shardmill"),
        (side, side),
        interpolation=cv2.INTER_NEAREST,
    )
    page = np.full((*on, 3), 255, np.uint8)
    page[40 : 40 + side, 40 : 40 + side] = code[..., None]
    target = io.BytesIO()
    Image.fromarray(page).save(target, "PNG")
    return target.getvalue()


def test_image_is_kept_while_codes_cover_strictly_less_than_the_threshold(run_rows: Any) -> None:
    from shardmill.curate._pixels import decoded, qr_code_share

    body = qr_code(200, (400, 400))
    share = qr_code_share(decoded(body))
    assert 0.1 < share < 0.4
    rows = document("a", "t", body)
    assert len(run_rows(rows, [QRCodeFilter(share)]).rows) == 2
    assert len(run_rows(rows, [QRCodeFilter(share + 1e-9)]).rows) == 3


def test_image_without_code_is_kept_and_the_undecodable_dropped(run_rows: Any) -> None:
    assert (
        len(
            run_rows(document("a", "t", noisy(1, 255), b"no image"), [QRCodeFilter(1e-9)]).column(
                "binary_content", "image"
            )
        )
        == 1
    )


def test_detector_that_fails_keeps_the_image(
    run_rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cv2

    class Broken:
        def detectAndDecodeMulti(self, array: Any) -> Any:
            raise cv2.error("broken")

    monkeypatch.setattr(cv2, "QRCodeDetector", Broken)
    assert len(run_rows(document("a", image("PNG")), [QRCodeFilter()]).rows) == 2


# --- CLIP


class Colours:
    """Embeds an image as its mean colour, the name of a colour as that colour, of any length."""

    NAMES: ClassVar = {"red": (9, 0, 0), "green": (0, 7, 0), "blue": (0, 0, 5), "yellow": (3, 3, 0)}

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_images(self, images: list[Any]) -> np.ndarray:
        return np.array(
            [np.asarray(image, dtype=float).reshape(-1, 3).mean(axis=0) for image in images]
        )

    def embed_texts(self, texts: list[str]) -> np.ndarray:
        self.texts += texts
        return np.array([self.NAMES[text] for text in texts], dtype=float)


def test_image_is_kept_when_its_best_text_reaches_the_score(run_rows: Any) -> None:
    red, green = image("PNG", color=(200, 0, 0)), image("PNG", color=(0, 100, 0))
    rows = [
        *document("a", "  red ", red, "", green, " \n"),
        *document("b", "green", "yellow", red, green),
    ]
    model = Colours()
    outcome = run_rows(rows, [ClipScoreFilter(model, min_score=0.7)])
    assert outcome.column("binary_content", "image") == [red, red, green]
    assert sorted(set(model.texts)) == ["green", "red", "yellow"]
    assert (
        len(
            run_rows(rows, [ClipScoreFilter(model, min_score=0.72)]).column(
                "binary_content", "image"
            )
        )
        == 2
    )


def test_score_at_the_bound_is_kept(run_rows: Any) -> None:
    red = image("PNG", color=(200, 0, 0))
    assert (
        len(run_rows(document("a", "red", red), [ClipScoreFilter(Colours(), min_score=1.0)]).rows)
        == 3
    )


def test_images_of_a_sample_without_text_are_dropped_without_asking_the_model(
    run_rows: Any,
) -> None:
    rows = [*document("a", " ", image("PNG")), *document("b", image("PNG")), *document("c", "red")]
    outcome = run_rows(rows, [ClipScoreFilter(Colours())])
    assert outcome.shape() == [
        ("a", -1, "metadata"),
        ("a", 0, "text"),
        ("c", -1, "metadata"),
        ("c", 0, "text"),
    ]


def test_model_without_the_two_methods_is_refused() -> None:
    with pytest.raises(ValueError, match="embed_images"):
        ClipScoreFilter(object())


def test_filter_that_raises_stops_the_run_with_its_own_exception_as_cause(run_rows: Any) -> None:
    class Broken(Colours):
        def embed_images(self, images: list[Any]) -> np.ndarray:
            raise KeyError("weights")

    with pytest.raises(RuntimeError, match="interleaved_clip_score_filter") as error:
        run_rows(document("a", "red", image("PNG")), [ClipScoreFilter(Broken())])
    assert isinstance(error.value.__cause__, KeyError)


# --- expressions


def test_expression_on_a_passthrough_column_judges_samples(run_tar: Any) -> None:
    members = [
        (f"{name}.json", {"texts": ["t"], "words": words})
        for name, words in (("a", 5), ("b", 50), ("c", None))
    ]
    outcome = run_tar(members, [Filter(sm.col("words") > 10)])
    assert [key for key, *_ in outcome.shape()] == ["b", "b"]
    assert outcome.report.rows_dropped == {"filter expression": 4}


def test_expression_on_a_reserved_column_judges_rows(run_rows: Any) -> None:
    rows = [*document("a", "keep", "drop", "keep"), *document("b", "drop")]
    outcome = run_rows(rows, [Filter(sm.col("text_content") == "keep")])
    assert outcome.shape() == [("a", -1, "metadata"), ("a", 0, "text"), ("a", 1, "text")]


def test_kind_of_judgement_can_be_chosen(run_tar: Any) -> None:
    members = {"a.json": {"texts": ["x", "y"], "lang": ["en", "de"], "c": 1}}
    source = {"per_text_fields": ("lang",)}
    assert run_tar(members, [Filter(sm.col("lang") == "en", per="row")], source=source).column(
        "text_content", "text"
    ) == ["x"]
    assert run_tar(members, [Filter(sm.col("lang") == "en")], source=source).rows == []
    assert (
        len(
            run_tar(members, [Filter(sm.col("sample_id") == "a", per="sample")], source=source).rows
        )
        == 3
    )


def test_column_without_any_value_is_unknown_and_no_type_error(run_tar: Any) -> None:
    members = {"a.json": {"texts": ["t"], "words": None}}
    assert run_tar(members, [Filter(sm.col("words") > 10)]).rows == []
    assert len(run_tar(members, [Filter(sm.col("words").is_null())]).rows) == 2


def test_unknown_column_is_a_key_error_that_names_it(run_tar: Any) -> None:
    with pytest.raises(KeyError, match="wrods"):
        run_tar({"a.json": {"texts": ["t"]}}, [Filter(sm.col("wrods") > 10)])


def test_expression_on_image_bytes_is_refused(run_rows: Any) -> None:
    with pytest.raises(ValueError, match="binary_content"):
        run_rows(document("a", "t"), [Filter(sm.col("binary_content").is_null())])
