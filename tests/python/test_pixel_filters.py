"""Blur, QR code and CLIP filters: verdicts on single images, and what a run does with them."""

from __future__ import annotations

import io
import tempfile
import threading
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
cv2 = pytest.importorskip("cv2")
Image = pytest.importorskip("PIL.Image")
pytest.importorskip("pyarrow")

from documents import document, encoded, picture, rows, write_tar
from shardmill._native.pixels import laplacian_variance
from shardmill.curate import (
    BlurFilter,
    ClipScoreFilter,
    DamageFilter,
    ImageStage,
    ParquetSink,
    Pipeline,
    QRCodeFilter,
    ReencodeImages,
    SizeFilter,
    WebDatasetSource,
    phash,
)
from shardmill.curate import _pixels as pixels
from shardmill.errors import CurateError, OptionError


def solid(width=64, height=48, colour=(200, 10, 10)):
    return Image.new("RGB", (width, height), colour)


def qr_code(text, scale=8):
    code = Image.fromarray(cv2.QRCodeEncoder.create().encode(text))
    return code.resize((code.width * scale, code.height * scale), Image.Resampling.NEAREST)


def with_codes(codes, width=600, height=400):
    page = Image.new("RGB", (width, height), "white")
    for index, code in enumerate(codes):
        page.paste(code, (30 + index * 280, 40))
    return page


def judged(stage, images, texts=None):
    if isinstance(stage, ImageStage):
        return stage.keep_images(images, texts or [[] for _ in images])
    with tempfile.TemporaryDirectory() as directory:
        _, kept = run(Path(directory), stage, images)
    left = [row["binary_content"] for row in kept if row["modality"] == "image"]
    return [image in left for image in images]


def run(tmp_path, stage, images, **extra):
    write_tar(tmp_path / "in" / "a.tar", document("a", images, **extra))
    report = Pipeline(
        source=WebDatasetSource(tmp_path / "in"), stages=[stage], sink=ParquetSink(tmp_path / "out")
    ).run()
    return report, rows(tmp_path / "out")


def test_score_is_the_variance_of_the_laplacian_over_pooled_channels():
    array = np.asarray(picture()).astype(np.float64)
    padded = np.pad(array, ((1, 1), (1, 1), (0, 0)), mode="reflect")
    neighbours = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]

    assert laplacian_variance(np.asarray(picture())) == pytest.approx(
        (neighbours - 4 * array).var(), rel=1e-12
    )


def test_blur_threshold_is_inclusive_and_solid_images_score_zero():
    image = encoded(picture())
    score = laplacian_variance(np.asarray(picture()))

    assert judged(BlurFilter(threshold=score), [image]) == [True]
    assert judged(BlurFilter(threshold=np.nextafter(score, np.inf)), [image]) == [False]
    assert judged(BlurFilter(threshold=0.0), [encoded(solid())]) == [True]
    assert judged(BlurFilter(), [encoded(solid())]) == [False]


def test_undecodable_images_are_dropped_by_every_filter():
    broken = [b"", b"no image", encoded(picture())[:200], encoded(picture(), "JPEG")[:300]]

    assert judged(BlurFilter(threshold=0), broken) == [False] * 4
    assert judged(DamageFilter(), broken) == [False] * 4
    assert judged(QRCodeFilter(threshold=1), broken) == [False] * 4
    assert judged(ClipScoreFilter(Colours(), min_score=-1), broken, [["red"]] * 4) == [False] * 4


MODES = {
    "PNG": ["RGB", "L", "P", "1", "LA", "RGBA", "I;16"],
    "TIFF": ["RGB", "L", "P", "1", "LA", "I;16"],
    "BMP": ["RGB", "L", "P", "1"],
    "WEBP": ["RGB", "L", "RGBA"],
    "JPEG": ["RGB", "L"],
}


@pytest.mark.parametrize(
    ("format", "mode"), [(format, mode) for format, modes in MODES.items() for mode in modes]
)
def test_pixels_are_those_that_opencv_decodes(format, mode):
    grey = np.asarray(picture().convert("L"))
    image = (
        Image.fromarray(grey.astype(np.uint16) * 257)
        if mode == "I;16"
        else picture().convert("L").convert(mode)
    )
    if mode in ("P", "RGB"):
        image = picture().convert(mode)
    payload = encoded(image, format)
    expected = cv2.imdecode(np.frombuffer(payload, np.uint8), cv2.IMREAD_COLOR)

    np.testing.assert_array_equal(
        pixels.decoded(payload), cv2.cvtColor(expected, cv2.COLOR_BGR2RGB)
    )


def test_share_of_a_code_is_its_area():
    code = qr_code("first")
    page = np.asarray(with_codes([code]))
    black = np.argwhere(np.asarray(code.convert("L")) < 128)
    # The image of a code has a quiet zone, which is not part of it.
    height, width = black.max(axis=0) - black.min(axis=0) + 1

    share = pixels.qr_code_share(page)

    assert share * page.shape[0] * page.shape[1] == pytest.approx(height * width, rel=0.05)


def test_areas_of_all_codes_are_summed():
    one = pixels.qr_code_share(np.asarray(with_codes([qr_code("first")])))
    two = pixels.qr_code_share(np.asarray(with_codes([qr_code("first"), qr_code("first")])))

    assert one > 0
    assert two == pytest.approx(2 * one, rel=0.05)


def test_qr_threshold_is_exclusive_and_no_code_is_kept():
    page = with_codes([qr_code("https://example.org")])
    share = pixels.qr_code_share(np.asarray(page))

    assert judged(QRCodeFilter(threshold=share), [encoded(page)]) == [False]
    assert judged(QRCodeFilter(threshold=np.nextafter(share, 1)), [encoded(page)]) == [True]
    assert judged(QRCodeFilter(threshold=1e-9), [encoded(picture()), encoded(solid())]) == [
        True,
        True,
    ]


def test_failing_detector_keeps_the_image(monkeypatch):
    class Failing:
        def detectAndDecodeMulti(self, array):
            raise cv2.error("broken")

    monkeypatch.setattr(cv2, "QRCodeDetector", Failing)
    assert judged(QRCodeFilter(threshold=1e-9), [encoded(picture())]) == [True]


class Colours:
    """The mean colour of an image, and the colour that a text names."""

    def __init__(self):
        self.names = {"red": (1.0, 0.0, 0.0), "green": (0.0, 1.0, 0.0), "grey": (1.0, 1.0, 1.0)}
        self.texts = []

    def embed_images(self, images):
        assert all(image.mode == "RGB" for image in images)
        return np.stack([np.asarray(image).reshape(-1, 3).mean(axis=0) for image in images])

    def embed_texts(self, texts):
        self.texts += texts
        return np.array([self.names[text] for text in texts]) * 7


def test_score_is_the_best_cosine_with_a_text_of_the_sample():
    red, grey = encoded(solid(colour=(250, 0, 0))), encoded(solid(colour=(90, 90, 90)))
    texts = [["green", " red\n"], ["green", "   "], [], ["\t", ""]]

    scores = pixels.clip_scores(Colours(), [red, grey, red, red], texts)

    assert scores[0] == pytest.approx(1)
    assert scores[1] == pytest.approx(1 / 3**0.5)
    assert scores[2:] == [None, None]


def test_clip_threshold_is_inclusive_and_images_without_text_are_dropped():
    red = encoded(solid(colour=(250, 0, 0)))
    score = pixels.clip_scores(Colours(), [red], [["grey"]])[0]

    assert judged(ClipScoreFilter(Colours(), min_score=score), [red, red], [["grey"], [" "]]) == [
        True,
        False,
    ]
    assert judged(
        ClipScoreFilter(Colours(), min_score=np.nextafter(score, 2)), [red], [["grey"]]
    ) == [False]


def test_each_text_is_embedded_once_and_images_come_in_batches():
    model = Colours()
    red = encoded(solid(colour=(250, 0, 0)))

    scores = pixels.clip_scores(model, [red] * 150, [["red", "grey", "red"]] * 150)

    assert scores == pytest.approx([1.0] * 150)
    assert model.texts == ["red", "grey"] * 3


def test_model_without_methods_is_refused_and_wrong_shapes_are_named(tmp_path):
    with pytest.raises(OptionError, match="embed_images"):
        ClipScoreFilter(object())

    class Wrong(Colours):
        def embed_images(self, images):
            return np.zeros(3)

    with pytest.raises(CurateError, match="clip_score") as caught:
        run(tmp_path, ClipScoreFilter(Wrong()), [encoded(picture())])
    assert "embed_images" in str(caught.value.__cause__)


def test_run_drops_blurred_images_and_renumbers(tmp_path):
    report, kept = run(tmp_path, BlurFilter(), [encoded(picture()), encoded(solid()), b"no image"])

    assert [(row["position"], row["modality"]) for row in kept] == [
        (-1, "metadata"), (0, "text"), (1, "image"), (2, "text"), (3, "text"),
    ]  # fmt: skip
    assert report.rows_dropped == {"interleaved_blur_filter": 2}


def test_filters_of_pixels_in_a_row_each_drop_their_own(tmp_path):
    code = encoded(with_codes([qr_code("https://example.org")], 360, 380))
    write_tar(
        tmp_path / "in" / "a.tar", document("a", [encoded(picture()), encoded(solid()), code])
    )
    stages = [BlurFilter(), QRCodeFilter()]
    report = Pipeline(
        source=WebDatasetSource(tmp_path / "in"), stages=stages, sink=ParquetSink(tmp_path / "out")
    ).run()

    assert report.rows_dropped == {"interleaved_blur_filter": 1, "interleaved_qrcode_filter": 1}


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "CMYK", "P"])
def test_blur_has_the_verdicts_of_opencv(mode):
    format = {"CMYK": "JPEG", "RGBA": "PNG", "P": "PNG"}.get(mode, "JPEG")
    images = [
        encoded(picture(seed=seed).resize((60 + seed, 50)).convert(mode), format)
        for seed in range(6)
    ]
    scores = [cv2.Laplacian(pixels.decoded(image), cv2.CV_64F).var() for image in images]
    middle = float(np.median(scores))
    assert judged(BlurFilter(middle), images) == [score >= middle for score in scores]


def test_damage_filter_drops_what_decodes_only_in_part():
    whole = encoded(picture(), "JPEG")
    assert judged(DamageFilter(), [whole, encoded(solid()), whole[:-100]]) == [True, True, False]


@pytest.mark.parametrize("stage", [DamageFilter(), BlurFilter(0.0)])
def test_images_in_formats_that_are_not_decoded_are_kept_and_counted(tmp_path, stage):
    Image.init()
    if "AVIF" not in Image.SAVE:
        pytest.skip("this Pillow writes no AVIF")
    images = [
        encoded(picture(), "JPEG"),
        *(
            encoded(picture(), format)
            for format in ("AVIF", "AVIF", "PPM", "JPEG2000", "TGA", "ICO")
        ),
        # A JPEG whose header states 12 bits.
        encoded(picture(), "JPEG").replace(b"\xff\xc0\x00\x11\x08", b"\xff\xc0\x00\x11\x0c"),
    ]
    report, kept = run(tmp_path, stage, [*images, b"no image"])

    assert [row["binary_content"] for row in kept if row["modality"] == "image"] == images
    assert sorted(
        (text.partition("because ")[2], count) for text, count in report.warnings.items()
    ) == [
        ("AVIF is not decoded", 2),
        ("ICO is not decoded", 1),
        ("JPEG 2000 is not decoded", 1),
        ("PNM is not decoded", 1),
        ("TGA is not decoded", 1),
        ("a variant of JPEG is not decoded", 1),
    ]


def test_size_filter_keeps_sizes_in_range_by_their_headers():
    images = [
        encoded(solid(width, height))
        for width, height in ((10, 40), (40, 10), (20, 20), (100, 100))
    ]
    assert judged(SizeFilter(min_side=20), images) == [False, False, True, True]
    assert judged(SizeFilter(max_pixels=400), images) == [True, True, True, False]
    for options in ({}, {"min_side": 0}, {"max_pixels": -1}):
        with pytest.raises(OptionError):
            SizeFilter(**options)


@pytest.mark.parametrize("options", [{}, {"no_jp2": True}])
def test_size_filter_reads_the_size_of_jpeg_2000(options):
    images = [encoded(solid(width, 40), "JPEG2000", **options) for width in (10, 30)]
    assert judged(SizeFilter(min_side=20), images) == [False, True]
    assert judged(SizeFilter(max_pixels=1000), images) == [True, False]


def test_perceptual_hash_is_that_of_imagehash():
    imagehash = pytest.importorskip("imagehash")
    for seed in range(5):
        image = picture(seed=seed)
        payload = encoded(image)
        assert phash(payload) == str(imagehash.phash(Image.open(io.BytesIO(payload))))


@pytest.mark.parametrize("kind", ["TIFF", "JPEG", "PNG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_perceptual_hash_of_a_turned_image_is_that_of_imagehash(kind, orientation):
    imagehash = pytest.importorskip("imagehash")
    exif = Image.Exif()
    exif[0x0112] = orientation
    payload = encoded(picture(seed=orientation), kind, exif=exif)
    assert phash(payload) == str(imagehash.phash(Image.open(io.BytesIO(payload))))


def test_many_threads_give_the_verdicts_of_one():
    images = [encoded(picture(seed=seed)) for seed in range(6)] + [
        encoded(with_codes([qr_code("x")])),
        b"no image",
    ]
    expected = [judged(BlurFilter(), images), judged(QRCodeFilter(), images)]
    verdicts = []
    threads = [
        threading.Thread(
            target=lambda: verdicts.append(
                [judged(BlurFilter(), images), judged(QRCodeFilter(), images)]
            )
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert verdicts == [expected] * 8


@pytest.mark.parametrize("threshold", ["x", None, [1], True, float("nan")])
def test_blur_threshold_that_is_not_a_number_is_refused(threshold):
    with pytest.raises(OptionError, match="threshold"):
        BlurFilter(threshold=threshold)


LIMIT = 64 * 48 * 3


@pytest.mark.parametrize(
    "stage",
    [BlurFilter(0), DamageFilter(), QRCodeFilter(), ReencodeImages("jpeg"), ReencodeImages("webp")],
    ids=lambda stage: f"{type(stage).__name__} {getattr(stage, 'codec', '')}".strip(),
)
def test_image_that_decodes_to_more_than_the_limit_is_an_error_and_not_decoded(tmp_path, stage):
    images = [encoded(picture(64, 48)), encoded(picture(64, 49))]
    write_tar(tmp_path / "in" / "a.tar", document("a", images))
    Pipeline(
        source=WebDatasetSource(tmp_path / "in", max_decoded_bytes=LIMIT),
        stages=[stage],
        sink=ParquetSink(tmp_path / "out", on_materialize_error="warn"),
    ).run()
    fitting, larger = [row for row in rows(tmp_path / "out") if row["modality"] == "image"]
    assert (fitting["materialize_error"], fitting["binary_content"] is None) == (None, False)
    assert f"{64 * 49 * 3} bytes, max_decoded_bytes is {LIMIT}" in larger["materialize_error"]
    assert larger["binary_content"] is None


@pytest.mark.parametrize("most", [100, 64 * 48 - 1], ids=["error", "warning"])
@pytest.mark.filterwarnings("error")
def test_pixel_limit_of_pillow_is_not_changed_and_drops_no_image(monkeypatch, most):
    images = [
        encoded(picture(), format) for format in ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
    ]
    expected = [pixels.decoded(image) for image in images]
    whole = [pixels._reencoded(image, "webp", 90, 20) for image in images]
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    ReencodeImages("webp")
    for image, array, webp in zip(images, expected, whole, strict=True):
        np.testing.assert_array_equal(pixels.decoded(image), array)
        assert pixels._reencoded(image, "webp", 90, 20) == webp
    assert most == Image.MAX_IMAGE_PIXELS
