"""Packs of documents with images, against the processor of Qwen2-VL."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import shardmill as sm
from breadth import examples
from interleaved_documents import (
    PAD,
    drawn,
    picture,
    processed,
    qwen_sequences,
    write_documents,
    write_model,
)

pytestmark = pytest.mark.usefixtures("counts_below")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def packing(**options):
    given = {"length": 96, "strategy": "best_fit", "long": "drop"} | options
    return sm.Packing(["tokens", "labels"], **given)


def documents_of(batch):
    """The ids, grids and patches of each document of a batch, pack after pack."""
    index, grids = np.asarray(batch["image_index"]), np.asarray(batch["image_grid_thw"])
    edges = np.cumsum([0, *grids.prod(1)])
    pixels = np.asarray(batch["pixel_values"])
    assert (len(index), edges[-1]) == (len(grids), len(pixels))
    for pack, (tokens, segments) in enumerate(
        zip(np.asarray(batch["tokens"]), np.asarray(batch["segment_ids"]), strict=True)
    ):
        for segment in range(1, segments.max(initial=0) + 1):
            places = np.flatnonzero(segments == segment)
            is_own = (index[:, 0] == pack) & np.isin(index[:, 1], places)
            images = np.flatnonzero(is_own)
            for _, first, count in index[images]:
                assert len(set(tokens[first : first + count])) == 1
            parts = [pixels[edges[image] : edges[image + 1]] for image in images]
            yield tokens[places].tolist(), grids[images].tolist(), parts


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_documents_are_whole_and_have_their_images(tmp_path, model, output):
    documents = drawn(5, examples(60, 16))
    path = write_documents(tmp_path / "data", documents, row_group_size=9, files=2)
    expected = {}
    for parts in documents:
        ids, pixels, grid = processed(model, parts)
        if parts and len(ids) <= 96:
            expected[tuple(ids)] = (pixels, grid)
    assert 0 < len(expected) < len(documents)
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    loader = sm.Loader(data, packing=packing(), batch_size=3, shuffle=True, seed=2, output=output)
    seen = []
    for batch in loader:
        assert np.all(np.diff(np.asarray(batch["image_index"])[:, 0]) >= 0)
        for ids, grids, parts in documents_of(batch):
            pixels, grid = expected[tuple(ids)]
            assert grids == ([] if grid is None else grid.tolist())
            if parts:
                np.testing.assert_allclose(np.concatenate(parts), pixels, rtol=0, atol=2.4e-7)
            seen.append(tuple(ids))
    assert sorted(seen) == sorted(expected)


def test_batch_without_images_has_empty_arrays(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"], ["b"]])
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    [batch] = sm.Loader(data, packing=packing(length=8), output="numpy")
    names = ("image_index", "image_grid_thw", "pixel_values", "image_valid")
    assert {name: batch[name].shape for name in names} == {
        "image_index": (0, 3),
        "image_grid_thw": (0, 3),
        "pixel_values": (0, 3 * 2 * 14 * 14),
        "image_valid": (0,),
    }
    assert (batch["pixel_values"].dtype, batch["image_valid"].dtype) == (np.float32, np.bool_)


@pytest.mark.parametrize("plan", [{}, {"plan": "ahead", "epoch_packs": 24}], ids=["epoch", "ahead"])
def test_resumed_packs_equal_those_of_an_uninterrupted_run(tmp_path, model, plan):
    documents = drawn(6, 40)
    path = write_documents(tmp_path / "data", documents, row_group_size=30)
    data = sm.Dataset(path, sequences=qwen_sequences(model))

    def loader(rank=0, ranks=1):
        return sm.Loader(
            data,
            packing=packing(**plan),
            batch_size=2 // ranks,
            shuffle=True,
            lanes=2,
            rank=rank,
            world_size=ranks,
            tail="drop",
            output="numpy",
        )

    def flat(batches):
        return [document for batch in batches for document in documents_of(batch)]

    whole = loader()
    batches = iter(whole)
    first = [next(batches) for _ in range(2)]
    state = whole.state_dict()
    rest = flat(batches)
    assert first and rest
    ranks = [loader(rank, 2) for rank in range(2)]
    for one in ranks:
        one.load_state_dict(state)
    steps = zip(*ranks, strict=True)
    resumed = flat(batch for step in steps for batch in step)
    assert [document[:2] for document in resumed] == [document[:2] for document in rest]
    for (*_, mine), (*_, theirs) in zip(resumed, rest, strict=True):
        assert all(map(np.array_equal, mine, theirs))


def test_bad_image_of_a_pack_names_its_row(tmp_path, model):
    bad = picture(60, 60, kind="JPEG")[:-200]
    documents = [["a", picture(28, 28)], ["b", picture(28, 28), bad], ["c"]]
    path = write_documents(tmp_path / "data", documents)
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    with pytest.raises(sm.errors.FormatError) as caught:
        list(sm.Loader(data, packing=packing(), output="numpy"))
    assert "Row 1 of" in str(caught.value) and "part 2 of the document" in str(caught.value)
    assert "truncated" in str(caught.value)


def cut_short(image):
    """An image that ends early: its header, from which it is planned, stays."""
    return image[: len(image) * 2 // 3]


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("on_error", ["null", "mask"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_damaged_image_changes_nothing_but_its_pixels(tmp_path, model, dtype, on_error, output):
    documents = drawn(8, 30)
    at = next(n for n, parts in enumerate(documents) if sum(map(len, parts)) and n > 9)
    documents[at] = ["a", picture(70, 90, kind="JPEG"), "b", picture(60, 40)]
    good = write_documents(tmp_path / "good", documents, row_group_size=9)
    damaged = [list(parts) for parts in documents]
    damaged[at][1] = cut_short(damaged[at][1])
    bad = write_documents(tmp_path / "bad", damaged, row_group_size=9)
    image_output = sm.ImageOutput(dtype=dtype, on_error=on_error)
    sequences = qwen_sequences(model, image_output=image_output)
    statistics = sequences.normalization

    def batches(path):
        data = sm.Dataset(path, sequences=sequences)
        loader = sm.Loader(
            data, packing=packing(), batch_size=2, shuffle=True, seed=3, output=output
        )
        for batch in loader:
            del batch["document_lengths"]
            yield {name: np.asarray(value) for name, value in batch.items()}
        causes = [(row.row, row.cause.split(" (")[0]) for row in loader.bad_rows]
        expected = (at, "part 1 of the document: truncated")
        assert causes == ([] if path == good else [expected])

    found = 0
    for whole, filled in zip(batches(good), batches(bad), strict=True):
        assert whole["image_valid"].all()
        others = set(whole) - {"pixel_values", "image_valid", "labels"}
        assert all(np.array_equal(whole[name], filled[name]) for name in others)
        of_image = np.repeat(np.arange(len(whole["image_index"])), whole["image_grid_thw"].prod(1))
        is_bad = ~filled["image_valid"][of_image]
        pixels = whole["pixel_values"], filled["pixel_values"]
        assert np.array_equal(*(values[~is_bad] for values in pixels))
        mean = np.zeros(3) if dtype == "float32" else np.round(255 * np.array(statistics[0]))
        assert (pixels[1][is_bad].reshape(-1, 3, 2 * 14 * 14) == mean[:, None]).all()
        masked = np.zeros(whole["labels"].shape, bool)
        for pack, first, _ in filled["image_index"][~filled["image_valid"]]:
            found += 1
            segments = filled["segment_ids"][pack]
            masked[pack] |= (segments == segments[first]) & (on_error == "mask")
        assert np.array_equal(filled["labels"], np.where(masked, -100, whole["labels"]))
    assert found == 1


def test_mixture_of_documents_with_and_without_images(tmp_path, model):
    images = write_documents(tmp_path / "images", [[f"i{n}", picture(28, 28)] for n in range(6)])
    texts = write_documents(tmp_path / "texts", [[f"t{n}"] for n in range(6)])
    sequences = qwen_sequences(model)
    mixture = sm.Mixture(
        {
            "images": sm.Dataset(images, sequences=sequences),
            "texts": sm.Dataset(texts, sequences=sequences),
        },
        weights={"images": 1, "texts": 1},
    )
    loader = sm.Loader(mixture, packing=packing(length=16), batch_size=2, output="numpy")
    found = [document for batch in loader for document in documents_of(batch)]
    assert {chr(ids[0]): len(parts) for ids, _, parts in found} == {"i": 1, "t": 0}


@pytest.mark.parametrize(
    "option, other",
    [
        ("dtype", {"image_output": sm.ImageOutput(dtype="uint8")}),
        ("on_error", {"image_output": sm.ImageOutput(on_error="mask")}),
        ("positions", {"positions": "mrope"}),
        ("images", {"images": sm.ImageTokens.qwen2_vl(max_pixels=28 * 28 * 8)}),
    ],
    ids=["dtype", "on_error", "positions", "images"],
)
def test_mixture_of_sequences_with_other_images_is_refused(tmp_path, model, option, other):
    path = write_documents(tmp_path / "data", [["a"]])
    sources = [
        sm.Dataset(path, sequences=qwen_sequences(model, **options)) for options in ({}, other)
    ]
    with pytest.raises(ValueError, match=f"images of documents have {option}="):
        sm.Mixture(sources, weights=[1, 1])


def test_labels_that_a_packing_makes_of_placeholders_are_refused(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"]])
    data = sm.Dataset(path, sequences=qwen_sequences(model, labels=None))
    tokens = sm.Packing(["tokens"], length=8, strategy="best_fit", long="drop", next_token=True)
    with pytest.raises(ValueError, match="labels of the placeholders"):
        sm.Loader(data, packing=tokens)


def rope(model, ids, grids):
    """Positions of ``get_rope_index``."""
    import torch
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel

    vision = SimpleNamespace(spatial_merge_size=2)
    own = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    own.get_vision_position_ids = partial(Qwen2VLModel.get_vision_position_ids, own)
    ids = torch.tensor([ids])
    types = (ids == sm.Tokenizer(model).token_id(PAD)).int()
    grids = torch.tensor(grids) if grids else None
    return Qwen2VLModel.get_rope_index(own, ids, types, grids)[0][:, 0].numpy()


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_positions_of_documents_are_those_of_the_model(tmp_path, model, output):
    documents = drawn(7, examples(60, 16))
    path = write_documents(tmp_path / "data", documents)
    data = sm.Dataset(path, sequences=qwen_sequences(model, positions="mrope"))
    images = 0
    for batch in sm.Loader(data, packing=packing(), batch_size=2, output=output):
        segments = np.asarray(batch["segment_ids"])
        assert batch["positions"].shape == (3, *segments.shape)
        own = documents_of(batch)
        for pack, of_pack in enumerate(segments):
            for segment in range(1, of_pack.max(initial=0) + 1):
                ids, grids, _ = next(own)
                found = np.asarray(batch["positions"])[:, pack, of_pack == segment]
                np.testing.assert_array_equal(found, rope(model, ids, grids))
                images += len(grids)
    assert images
    with pytest.raises(ValueError, match="'mrope' requires images"):
        sm.Sequences(tokenizer=model, positions="mrope")
