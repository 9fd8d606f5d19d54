"""Pixels that `shardmill view` shows: those that a loader delivers in an epoch.

Also the causes of images that it cannot decode.
"""

import io
import json
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from PIL import Image
from shardmill.cli._commands import run
from view_client import cells_of, serving

ROWS = 5
BAD = 3


def encoded(height, width, seed, kind="jpeg"):
    target = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(target, kind)
    return target.getvalue()


@pytest.fixture
def photographs(tmp_path):
    """Five images in two files; row 3 is cut in the middle."""
    images = [encoded(60 + row, 90 - row, row) for row in range(ROWS)]
    images[BAD] = images[BAD][: len(images[BAD]) // 2]
    table = pa.table({"image": images, "label": range(ROWS)})
    pq.write_table(table[:2], tmp_path / "0.parquet")
    pq.write_table(table[2:], tmp_path / "1.parquet")
    return tmp_path


def shown(client, route, **arguments):
    """The picture of a route as an array, or the error."""
    query = "&".join(f"{name}={value}" for name, value in arguments.items())
    status, _, body = client.request(f"/{client.server.token}/{route}?{query}")
    return np.asarray(Image.open(io.BytesIO(body))) if status == 200 else json.loads(body)["error"]


@pytest.mark.parametrize(
    ("fit", "output"),
    [(sm.RandomCrop(), "normalized floats"), ("longest", "bytes of varying size")],
    ids=str,
)
def test_pixels_of_a_row_are_those_of_a_shuffled_loader_in_that_epoch(photographs, fit, output):
    more = {"dtype": "float32", "normalize": "imagenet"} if output == "normalized floats" else {}
    images = sm.Images("image", size=32, fit=fit, flip=0.5, **more)
    trained = sm.Images("image", size=32, fit=fit, flip=0.5, layout="HWC")
    data = sm.Dataset(photographs, columns=["image", "label"], images=trained)
    for epoch in (0, 2):
        loader = sm.Loader(
            data,
            batch_size=1,
            shuffle=True,
            seed=9,
            rank=0,
            world_size=1,
            output="numpy",
            errors=sm.ErrorPolicy(rows="skip"),
        )
        loader.set_epoch(epoch)
        with serving(photographs, images=images, seed=9) as client:
            seen = 0
            for batch in loader:
                if not len(batch["label"]):
                    # The bad row was left out of it.
                    continue
                picture = shown(client, "data/picture", row=int(batch["label"][0]), epoch=epoch)
                flat = batch["image"][0]
                shape = batch["image__shape"][0].tolist() if fit == "longest" else flat.shape[:2]
                np.testing.assert_array_equal(picture, flat.reshape(*shape, 3))
                seen += 1
            assert seen == ROWS - 1


def test_image_that_cannot_be_decoded_is_refused_with_its_cause(photographs):
    with serving(photographs, images=sm.Images("image", size=32)) as client:
        for route, more in (
            ("data/picture", {}),
            ("data/image", {"path": '["image"]', "decoded": "true"}),
        ):
            assert "truncated" in shown(client, route, row=BAD, **more)
        assert shown(client, "data/picture", row=ROWS) == "there is no such row"


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_decoded_picture_of_the_samples_page_is_that_of_the_decoder(tmp_path, mode):
    image = Image.fromarray(np.arange(2400, dtype=np.uint8).reshape(20, 40, 3)).convert(mode)
    target = io.BytesIO()
    image.save(target, "png")
    pq.write_table(pa.table({"image": [target.getvalue()]}), tmp_path / "one.parquet")
    with serving(tmp_path) as client:
        picture = shown(client, "data/image", row=0, path='["image"]', decoded="true")
        np.testing.assert_array_equal(picture, np.asarray(image))
        assert "--image-size" in shown(client, "data/picture", row=0)


def test_images_of_a_list_are_side_by_side(tmp_path):
    images = [[encoded(20, 30, 1), encoded(40, 10, 2)], []]
    pq.write_table(
        pa.table({"images": pa.array(images, pa.list_(pa.binary()))}), tmp_path / "lists.parquet"
    )
    with serving(tmp_path, images=sm.Images("images", fit="keep")) as client:
        assert shown(client, "data/picture", row=0).shape == (40, 40, 3)
        assert shown(client, "data/picture", row=1) == "this row has no image"


@pytest.mark.parametrize(
    ("fit", "epochs"), [("crop", [0]), (sm.RandomCrop(), [5, 6, 7, 8])], ids=["fixed", "random"]
)
def test_page_has_the_epochs_that_differ(photographs, fit, epochs):
    with serving(photographs, images=sm.Images("image", size=32, fit=fit)) as client:
        epoch = epochs[0]
        _, content = client.get("data/pixels", epoch=epoch)
        assert content["epochs"] == epochs
        status, _, page = client.request(f"/{client.server.token}/view?view=pixels&epoch={epoch}")
        assert status == 200
        assert [f"epoch={one}" in page.decode() for one in range(epoch, epoch + 4)] == [True] * len(
            epochs
        ) + [False] * (4 - len(epochs))


def test_pages_of_pixels_are_turned(photographs):
    with serving(photographs, images=sm.Images("image", size=32)) as client:
        _, _, page = client.request(f"/{client.server.token}/view?view=pixels&start=2&count=2")
    assert "2 – 3 of 5" in page.decode() and 'data-go="start=4&amp;count=2"' in page.decode()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--flip", "0.5"], 2, "--flip requires --image-size"),
        (
            ["--image-size", "big"],
            2,
            "must be a side such as 224, height and width such as 180x320, or keep, not 'big'",
        ),
        (
            ["--image-size", "keep", "--image-fit", "pad"],
            2,
            "--image-fit cannot be used with --image-size keep",
        ),
        (["--image-size", "32", "--image", "photo"], 1, "No column `photo`"),
        (
            ["--image-size", "32", "--image", "label"],
            1,
            "Column `label` is int64, but images are bytes",
        ),
    ],
)
def test_option_that_cannot_be_used_is_refused(photographs, options, code, message, capfd):
    assert run(["view", str(photographs), "--no-open", *options]) == code
    assert message in capfd.readouterr().err


def test_bmp_is_shown_as_an_image_and_sent_as_it_is_stored(tmp_path):
    bmp = io.BytesIO()
    Image.new("RGB", (4, 3), (9, 8, 7)).save(bmp, "BMP")
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"image": [bmp.getvalue(), b"BMW is a car maker in Munich"]}), path)
    with serving(path) as client:
        image, text = (cells_of(row)["image"] for row in client.page()["samples"])
        assert (image["kind"], image["format"], image["width"], image["height"]) == (
            "image",
            "bmp",
            4,
            3,
        )
        assert text["kind"] == "text"
        address = f"/{client.server.token}/data/image?row=0&path=[%22image%22]"
        _, headers, body = client.request(f"{address}&decoded=true")
        assert headers["Content-Type"] == "image/png"
        assert Image.open(io.BytesIO(body)).getpixel((0, 0)) == (9, 8, 7)
        _, headers, body = client.request(address)
        assert (headers["Content-Type"], body) == ("image/bmp", bmp.getvalue())


@pytest.mark.parametrize("kind", ["AVIF", "JPEG 2000", "TGA"])
def test_image_of_a_format_that_is_not_decoded_says_why(tmp_path, kind):
    content = io.BytesIO()
    picture = Image.fromarray(np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3))
    try:
        picture.save(content, {"JPEG 2000": "JPEG2000"}.get(kind, kind))
    except (KeyError, OSError) as error:
        pytest.skip(f"this Pillow does not write {kind}: {error}")
    pq.write_table(pa.table({"image": [content.getvalue()]}), tmp_path / "x.parquet")
    with serving(tmp_path / "x.parquet") as client:
        cell = cells_of(client.page()["samples"][0])["image"]
        assert (cell["kind"], cell["format"]) == ("image", kind)
        for decoded in ("", "true"):
            status, answer = client.get("data/image", row=0, path='["image"]', decoded=decoded)
            assert (status, f"{kind} is not supported" in answer["error"]) == (415, True)


def test_filter_applies_to_the_rows_that_are_shown_as_pixels(photographs):
    with serving(photographs, images=sm.Images("image", size=32, flip=0.5)) as client:
        answers = {
            show: client.get("data/pixels", filter="label >= 2 and label != 3", show=show)[1]
            for show in ("kept", "dropped", "both", "all")
        }
        assert [row["row"] for row in answers["kept"]["samples"]] == [2, 4]
        assert [row["row"] for row in answers["dropped"]["samples"]] == [0, 1, 3]
        both = answers["both"]
        assert [[row["row"] for row in both[half]] for half in ("samples", "dropped_samples")] == [
            [2, 4],
            [0, 1, 3],
        ]
        assert [row["kept"] for row in answers["all"]["samples"]] == [
            False,
            False,
            True,
            False,
            True,
        ]
        assert {(answer["kept"], answer["dropped"]) for answer in answers.values()} == {(2, 3)}
        assert answers["kept"]["epochs"] == [0, 1, 2, 3]
        found = client.get("data/pixels", column="label", value="3", show="kept")[1]
        assert [(row["file"], row["file_row"]) for row in found["samples"]] == [("1.parquet", 1)]
        status, refused = client.get("data/pixels", filter="nothing > 1")
        assert (status, "nothing" in refused["error"]) == (400, True)

        def html(**arguments):
            query = urlencode({"view": "pixels"} | arguments)
            return client.request(f"/{client.server.token}/view?{query}")[2].decode()

        page = html(filter="label = 4", show="kept")
        assert "data/picture?row=4&amp;epoch=0" in page
        assert "data/picture?row=0&amp;epoch=0" not in page
        assert "<b>1</b> of 5 rows kept" in page
        # Another filter stays on the page of pixels.
        assert (
            page.count(
                '<input type="hidden" name="view" value="pixels"><input type="hidden" name="start"'
            )
            == 2
        )
        assert html(filter="label = 4").count('<section class="half"') == 2
        assert "No rows here." in html(filter="label > 9", show="kept")
