"""OpenClip with a small model of random weights; the real ones are too large for a test."""

import json
import pickle
import threading

import pytest

np = pytest.importorskip("numpy")
open_clip = pytest.importorskip("open_clip")
torch = pytest.importorskip("torch")

from documents import picture, rows, write_shards
from shardmill.curate import ClipScoreFilter, ParquetSink, Pipeline, WebDatasetSource
from shardmill.errors import NotFoundError, OptionError
from shardmill.integrations.open_clip import OpenClip

NAME = "shardmill-test-tiny"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    vision = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16, "head_width": 32}
    text = {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 1}
    (directory / f"{NAME}.json").write_text(
        json.dumps({"embed_dim": 16, "vision_cfg": vision, "text_cfg": text})
    )
    open_clip.add_model_config(directory)
    torch.manual_seed(0)
    model = open_clip.create_model(NAME)
    torch.save(model.state_dict(), directory / "weights.pt")
    return directory / "weights.pt"


def test_batches_do_not_change_the_vectors(weights):
    images, texts = [picture(seed=seed) for seed in range(5)], ["a cat", "a dog " * 200, "ein Bär"]
    small, large = (
        OpenClip(NAME, pretrained=weights, batch_size=2),
        OpenClip(NAME, pretrained=weights),
    )

    np.testing.assert_allclose(small.embed_images(images), large.embed_images(images), atol=1e-5)
    np.testing.assert_allclose(small.embed_texts(texts), large.embed_texts(texts), atol=1e-5)
    assert large.embed_images(images).shape == (5, 16)


def test_pickle_leaves_the_weights_behind(weights):
    model = OpenClip(NAME, pretrained=weights)

    body = pickle.dumps(model)

    assert len(body) < 1000
    np.testing.assert_array_equal(pickle.loads(body).embed_texts(["x"]), model.embed_texts(["x"]))


def test_many_threads_get_the_vectors_of_one(weights):
    model = OpenClip(NAME, pretrained=weights)
    expected = model.embed_texts(["a cat"])
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(model.embed_texts(["a cat"])))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(np.allclose(result, expected, atol=1e-6) for result in results)


def test_missing_weights_fail_before_any_data_is_read(weights):
    with pytest.raises(NotFoundError, match="no/such/file"):
        OpenClip(NAME, pretrained="no/such/file.pt")
    with pytest.raises(OptionError, match="no model"):
        OpenClip("no-such-model", pretrained="openai")


def test_filter_keeps_what_scores_high_enough(weights, tmp_path):
    source = WebDatasetSource(write_shards(tmp_path / "in", shards=1, samples=2))
    model = OpenClip(NAME, pretrained=weights)
    kept = []
    for score in (-1.0, 1.01):
        sink = ParquetSink(tmp_path / "out", mode="overwrite")
        Pipeline(source=source, stages=[ClipScoreFilter(model, min_score=score)], sink=sink).run()
        kept.append(sum(row["modality"] == "image" for row in rows(tmp_path / "out")))

    assert kept == [6, 0]
