"""What `shardmill view` shows of packs of documents with images, against batches of a loader."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import END
from image_processors import image_processor
from interleaved_documents import (
    PAD,
    drawn,
    picture,
    qwen_sequences,
    write_documents,
    write_model,
)
from pictures import opened
from PIL import Image
from shardmill.errors import OptionError
from token_page import Shown, page
from view_client import serving

pytestmark = pytest.mark.usefixtures("counts_below")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def packing(**options):
    given = {"length": 96, "strategy": "best_fit", "long": "drop"} | options
    return sm.Packing(["tokens", "labels"], pad_value={"labels": -100}, **given)


def pixels_at(client, found):
    """The pixels of an image of the page."""
    query = f"pack={found['pack']}&picture={found['picture']}"
    status, headers, body = client.request(f"/{client.server.token}/data/packed?{query}")
    assert (status, headers["Content-Type"]) == (200, "image/png")
    return np.asarray(Image.open(io.BytesIO(body)))


def resized(payload, height, width, resample=Image.Resampling.BICUBIC):
    return np.asarray(opened(payload).convert("RGB").resize((width, height), resample))


@pytest.mark.parametrize("multiple_of", [1, 8])
def test_packs_of_documents_have_their_images_in_place(tmp_path, model, multiple_of):
    documents = drawn(11, 24)
    path = write_documents(tmp_path / "data", documents, row_group_size=9, files=2)
    sequences = qwen_sequences(model)
    given = packing(multiple_of=multiple_of)
    data = sm.Dataset(path, sequences=sequences)
    loader = sm.Loader(data, packing=given, batch_size=1, output="numpy", tail="uneven")
    pad, images = sm.Tokenizer(model).token_id(PAD), 0
    with serving(path, sequences=sequences, packing=given) as client:
        for number, batch in enumerate(loader):
            content = client.get("data/packs", start=number)[1]
            index, grids = batch["image_index"].tolist(), batch["image_grid_thw"].tolist()
            assert content["pictures"] == [[first, tokens] for _, first, tokens in index]
            pictures = []
            for found in content["documents"]:
                ids, labels = [], []
                for token in found["cell"]["tokens"]:
                    if token["kind"] == "picture":
                        pictures.append(token)
                        ids += [pad] * token["tokens"]
                        labels += [None] * token["tokens"]
                    else:
                        ids.append(token["id"])
                        labels.append(token["label"])
                part = slice(found["start"], found["start"] + found["tokens"])
                assert ids == batch["tokens"][0][part].tolist()
                own = batch["labels"][0][part].tolist()
                assert labels == [None if label == -100 else label for label in own]
                assert found["row"] is None
            own = [
                part
                for found in loader.explain(step=number, epoch=0, documents=True)["documents"]
                for part in documents[int(found["sample_id"][1:])]
                if isinstance(part, bytes)
            ]
            assert len(own) == len(pictures) == len(grids)
            for payload, (_, rows, columns), found in zip(own, grids, pictures, strict=True):
                height, width = 14 * rows, 14 * columns
                assert (found["height"], found["width"], found["valid"]) == (height, width, True)
                expected = resized(payload, height, width)
                np.testing.assert_array_equal(pixels_at(client, found), expected)
                images += 1
    assert images > 9


def rules():
    """Rules with the pixels that are expected of an image of 50 × 80."""
    tiles = sm.ImageTokens.tiles(
        size=24, max_tiles=6, tokens_a_tile=3, placeholder=PAD, start=END, end=END
    )
    edges = {"size": {"longest_edge": 100}, "max_image_size": {"longest_edge": 32}}
    names = dict.fromkeys(("start", "overview", "end"), END)
    return {
        "fixed": (
            sm.ImageTokens.fixed((20, 30), 5, fit="stretch", placeholder=PAD),
            lambda payload: resized(payload, 20, 30),
        ),
        "tiles": (tiles, lambda payload: resized(payload, 24, 24)),
        "pixtral": (
            sm.ImageTokens.pixtral(
                patch_size=7, merge_size=2, longest=90, placeholder=PAD, row_break=END, end=END
            ),
            lambda payload: resized(payload, 56, 84),
        ),
        "siglip2": (
            sm.ImageTokens.siglip2(patch_size=8, max_patches=40, placeholder=PAD),
            lambda payload: resized(payload, 40, 64, Image.Resampling.BILINEAR),
        ),
        "idefics3": (
            sm.ImageTokens.idefics3(
                longest=100,
                tile=32,
                tokens_a_tile=2,
                splitting=False,
                blank_line_tokens=2,
                placeholder=PAD,
                **names,
            ),
            lambda payload: image_processor(
                "idefics3", "Idefics3", do_image_splitting=False, do_normalize=False, **edges
            )([opened(payload)], return_tensors="np")["pixel_values"][0][-1],
        ),
    }


@pytest.mark.parametrize("name", ["fixed", "tiles", "pixtral", "siglip2", "idefics3"])
def test_images_of_each_rule_are_whole(tmp_path, model, name):
    rule, expected = rules()[name]
    payload = picture(50, 80)
    rows = [{"image": payload, "text": "a"}, {"image": payload, "text": "b"}]
    (tmp_path / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data" / "0.parquet")
    sequences = sm.Sequences(
        tokenizer=model,
        images=rule,
        parts=["image", "text"],
        image_output=sm.ImageOutput(normalize=(0.5, 0.5), pad=True),
    )
    with serving(tmp_path / "data", sequences=sequences, packing=packing()) as client:
        [one, other] = client.get("data/packs")[1]["documents"]
        assert [one["row"], other["row"]] == [0, 1]
        found = next(token for token in one["cell"]["tokens"] if token["kind"] == "picture")
        pixels, wanted = pixels_at(client, found), np.asarray(expected(payload))
        if wanted.dtype != np.uint8:
            wanted = np.round(255 * wanted.transpose(1, 2, 0)).astype(np.uint8)
        np.testing.assert_array_equal(pixels, wanted)
        # The link of a row leads to its columns, because placeholders are not shown as tokens.
        assert 'data-go="start=1&amp;view=samples">its row' in page(client)
        assert client.get("data/tokens")[0] == 404


def test_page_says_which_image_is_not_decoded(tmp_path, model):
    bad = picture(60, 60, kind="JPEG")
    path = write_documents(tmp_path / "data", [["ab", bad[:-200], picture(28, 56), "c"]])
    sequences = qwen_sequences(model, image_output=sm.ImageOutput(on_error="null"))
    with serving(path, sequences=sequences, packing=packing(length=24)) as client:
        content = client.get("data/packs")[1]
        [document] = content["documents"]
        pictures = [token for token in document["cell"]["tokens"] if token["kind"] == "picture"]
        assert [found["valid"] for found in pictures] == [False, True]
        assert len(set(map(tuple, pixels_at(client, pictures[0]).reshape(-1, 3).tolist()))) == 1
        shown = page(client)
        tokens = Shown(shown).tokens
        assert [classes for _, classes, _ in tokens if "picture" in classes] == [
            ["picture", "unseen"],
            ["picture"],
        ]
        assert "4 tokens · 56 × 56 · not decoded" in shown and "2 tokens · 56 × 28" in shown
        assert "2 images" in shown and 'class="image" x="3" y="6" width="4"' in shown
        assert shown.count('src="data/packed?pack=0&amp;picture=') == 2
        assert client.get("data/packed", pack=0, picture=2)[0] == 404
        assert client.get("data/packed", pack=1, picture=0)[0] == 404
    raising = qwen_sequences(model)
    with serving(path, sequences=raising, packing=packing(length=24)) as client:
        assert "part 1 of the document: truncated" in page(client)


def test_images_of_a_long_document_are_shown_with_the_rest_of_it(tmp_path, model):
    path = write_documents(tmp_path / "data", [["x" * 2_500, picture(28, 56), "y"]])
    sequences = qwen_sequences(model)
    with serving(path, sequences=sequences, packing=packing(length=3_000)) as client:
        [document] = client.get("data/packs")[1]["documents"]
        assert (document["cell"]["shown"], document["cell"]["length"]) == (2_000, 2_506)
        assert "show all 2,506 tokens" in page(client)
        _, _, body = client.request(f"/{client.server.token}/tokens?pack=0&document=0")
        assert [classes for _, classes, _ in Shown(body.decode()).tokens][2_501] == ["picture"]


def test_sequences_without_a_packing_are_refused(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"]])
    with (
        pytest.raises(OptionError, match="sequences requires packing"),
        serving(path, sequences=qwen_sequences(model)),
    ):
        pass
