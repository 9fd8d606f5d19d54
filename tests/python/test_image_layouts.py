"""Pixels and tokens of the rules of images, against the image processors of transformers."""

import json
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from byte_tokenizer import END, write_tokenizer
from image_processors import image_processor, replaced, sizes
from interleaved_documents import drawn, picture, write_documents
from pictures import opened

pytestmark = pytest.mark.usefixtures("counts_below")

IMAGE, ROW, DONE, AROUND, WHOLE = "<image>", "[ROW]", "[DONE]", "<around>", "<whole>"
TAGS = [f"<row_{row}_col_{col}>" for row in range(1, 5) for col in range(1, 5)]
SPECIAL = [IMAGE, ROW, DONE, AROUND, WHOLE, *TAGS]

#: Mean and standard deviation of each channel, so that channels that are exchanged are found.
NORMALIZE = ([0.48, 0.45, 0.4], [0.26, 0.25, 0.27])


class Family(NamedTuple):
    """A rule, and the processor of its models."""

    rule: sm.ImageTokens
    #: Name of the column with the shape of each image.
    shape: str
    processor: object
    own: SimpleNamespace

    def image(self, payload):
        """What the processor makes of an image: pixels, shape, and the text of its tokens."""
        options = {"return_row_col_info": True} if self.rule.rule == "idefics3" else {}
        inputs = self.processor([opened(payload)], return_tensors="np", **options)
        pixels, shape = inputs["pixel_values"], None
        if self.rule.rule == "tiles":
            shape, text = len(pixels), replaced("internvl", "InternVL", self.own, inputs)
        elif self.rule.rule == "idefics3":
            pixels = pixels[0]
            shape, text = len(pixels), replaced("idefics3", "Idefics3", self.own, inputs)
        elif self.rule.rule == "pixtral":
            shape, pixels = inputs["image_sizes"][0], pixels.ravel()
            # The module of PixtralProcessor needs torchvision.
            rows, columns = (int(side) // 14 for side in shape)
            text = ROW.join([IMAGE * columns] * rows) + DONE
        else:
            mask = inputs["pixel_attention_mask"][0]
            pixels, shape = pixels[0][: mask.sum()], inputs["spatial_shapes"][0]
            text = IMAGE * len(pixels)
        return pixels, np.asarray(shape).tolist(), text


def family(name):
    statistics = {"image_mean": NORMALIZE[0], "image_std": NORMALIZE[1]}
    size = {"size": {"height": 24, "width": 24}}
    edges = {"size": {"longest_edge": 100}, "max_image_size": {"longest_edge": 32}}
    if name == "tiles":
        return Family(
            sm.ImageTokens.tiles(
                size=24,
                max_tiles=6,
                tokens_a_tile=3,
                placeholder=IMAGE,
                start=AROUND,
                end=DONE,
            ),
            "image_tiles",
            image_processor(
                "got_ocr2", "GotOcr2", crop_to_patches=True, max_patches=6, **size, **statistics
            ),
            SimpleNamespace(
                start_image_token=AROUND,
                end_image_token=DONE,
                image_token=IMAGE,
                image_seq_length=3,
            ),
        )
    if name == "pixtral":
        return Family(
            sm.ImageTokens.pixtral(
                patch_size=7,
                merge_size=2,
                longest=90,
                placeholder=IMAGE,
                row_break=ROW,
                end=DONE,
            ),
            "image_sizes",
            image_processor(
                "pixtral", "Pixtral", patch_size=14, size={"longest_edge": 90}, **statistics
            ),
            SimpleNamespace(),
        )
    if name == "siglip2":
        return Family(
            sm.ImageTokens.siglip2(patch_size=8, max_patches=40, placeholder=IMAGE),
            "spatial_shapes",
            image_processor("siglip2", "Siglip2", patch_size=8, max_num_patches=40, **statistics),
            SimpleNamespace(),
        )
    return Family(
        sm.ImageTokens.idefics3(
            longest=100,
            tile=32,
            tokens_a_tile=2,
            splitting=name == "idefics3",
            blank_line_tokens=2,
            placeholder=IMAGE,
            start=AROUND,
            overview=WHOLE,
            end=AROUND,
        ),
        "image_tiles",
        image_processor(
            "idefics3", "Idefics3", do_image_splitting=name == "idefics3", **edges, **statistics
        ),
        SimpleNamespace(
            fake_image_token=AROUND, global_image_tag=WHOLE, image_token=IMAGE, image_seq_len=2
        ),
    )


FAMILIES = ["tiles", "idefics3", "unsplit", "pixtral", "siglip2"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    write_tokenizer(tmp_path_factory.mktemp("model") / "model", special=SPECIAL)
    return next(tmp_path_factory.getbasetemp().rglob("model/tokenizer.json")).parent


def sequences_of(model, own, **options):
    output = {"normalize": NORMALIZE} | options.pop("image_output", {})
    return sm.Sequences(
        tokenizer=model,
        images=own.rule,
        eos=END,
        image_output=sm.ImageOutput(**output),
        **options,
    )


def expected_of(model, own, parts):
    """Ids, pixels and shapes of a document."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"))
    made = [own.image(part) for part in parts if isinstance(part, bytes)]
    blocks = (text for *_, text in made)
    text = "".join(next(blocks) if isinstance(part, bytes) else part for part in parts)
    end = END if text else ""
    ids = tokenizer(f"{text}{end}", add_special_tokens=False)["input_ids"]
    return ids, [pixels for pixels, *_ in made], [shape for _, shape, _ in made]


def assert_pixels(found, expected):
    found = np.asarray(found, np.float32)
    if expected:
        np.testing.assert_allclose(found, np.concatenate(expected), rtol=0, atol=2.4e-7)
    else:
        assert len(found) == 0


def planned_sizes(rule, seed):
    """Heights and widths that can be planned."""
    return [size for size in sizes(seed) if rule.refusal(*size) is None]


@pytest.mark.parametrize("name", FAMILIES)
def test_pixels_and_tokens_are_those_of_the_processor(tmp_path, model, name):
    own = family(name)
    some = planned_sizes(own.rule, 11)
    kinds = ["PNG", "JPEG", "WEBP"]
    images = [picture(*size, seed=n, kind=kinds[n % 3]) for n, size in enumerate(some)]
    path = write_documents(tmp_path / "data", [["a", image] for image in images])
    data = sm.Dataset(path, sequences=sequences_of(model, own))
    pad = sm.Tokenizer(model).token_id(IMAGE)
    for image, row in zip(images, data, strict=True):
        ids, pixels, shapes = expected_of(model, own, ["a", image])
        assert row["tokens"] == ids
        assert row[own.shape] == shapes
        assert_pixels(row["pixel_values"], pixels)
        [[first, count]] = row["image_index"]
        block = ids[first : first + count]
        assert block[0] == block[-1] == pad and block.count(pad) == ids.count(pad)
        assert row["image_valid"] == [True]


def packs_of(batch, shape):
    """The tokens, and the pixels and shapes of the images, of each document of a batch."""
    batch = {name: np.asarray(value) for name, value in batch.items() if name != "document_lengths"}
    index = batch["image_index"]
    for pack, (tokens, segments) in enumerate(
        zip(batch["tokens"], batch["segment_ids"], strict=True)
    ):
        for segment in range(1, segments.max(initial=0) + 1):
            places = np.flatnonzero(segments == segment)
            is_own = (index[:, 0] == pack) & np.isin(index[:, 1], places)
            yield tuple(tokens[places].tolist()), np.flatnonzero(is_own), batch[shape][is_own]


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("name", FAMILIES)
def test_packs_have_the_images_of_their_documents(tmp_path, model, name, output):
    own = family(name)
    # Tokens are those of one document alone, however many tiles its images have.
    documents = [
        [f"{number}: {parts[0]}", *parts[1:]]
        if parts and isinstance(parts[0], str)
        else [f"{number}", *parts]
        for number, parts in enumerate(drawn(12, examples(60, 16)))
    ]
    path = write_documents(tmp_path / "data", documents, row_group_size=9, files=2)
    expected = {}
    for parts in documents:
        ids, pixels, shapes = expected_of(model, own, parts)
        expected[tuple(ids)] = (pixels, shapes)
    data = sm.Dataset(path, sequences=sequences_of(model, own))
    packing = sm.Packing(["tokens", "labels"], length=512, strategy="best_fit", long="raise")
    loader = sm.Loader(data, packing=packing, batch_size=3, shuffle=True, seed=2, output=output)
    seen = []
    for batch in loader:
        pixels = np.asarray(batch["pixel_values"])
        start = 0
        for ids, _, shapes in packs_of(batch, own.shape):
            own_pixels, own_shapes = expected[ids]
            assert shapes.tolist() == own_shapes
            if own_pixels:
                end = start + sum(map(len, own_pixels))
                assert_pixels(pixels[start:end], own_pixels)
                start = end
            seen.append(ids)
        assert start == len(pixels)
    assert sorted(seen) == sorted(expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_patches_of_packs_are_those_of_the_rule(tmp_path, model, name):
    own = family(name)
    documents = [["a", picture(*size)] for size in planned_sizes(own.rule, 13)[:40]]
    path = write_documents(tmp_path / "data", documents)
    data = sm.Dataset(path, sequences=sequences_of(model, own))
    counts = [own.rule.count(*opened(image).size[::-1]) for _, image in documents]
    most = int(max(count.patches for count in counts))
    packing = sm.Packing(
        ["tokens", "labels"],
        length=512,
        strategy="best_fit",
        long="raise",
        max_patches=most,
        balance=sm.Balance(sm.Cost(patch=3, image=5), per_step=2, window_packs=2),
    )
    loader = sm.Loader(data, packing=packing, batch_size=1, output="numpy", tail="uneven")
    found = 0
    patch = {"pixtral": 3 * 7 * 7}.get(own.rule.rule, 1)
    for batch in loader:
        assert 0 < len(batch["pixel_values"]) // patch <= most
        found += len(batch["pixel_values"]) // patch
    assert found == sum(int(count.patches) for count in counts)
    terms = loader.metrics().cost_terms
    assert (terms.image, terms.patch) == (len(documents), found)
    [document, *_] = loader.explain(step=0, documents=True)["documents"]
    [image] = document["images"]
    assert image["patches"] == counts[document["row"]].patches


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize("name", FAMILIES)
def test_damaged_image_has_the_pixels_of_the_mean(tmp_path, model, name, dtype):
    own = family(name)
    good, bad = picture(40, 70), picture(70, 90, kind="JPEG")
    paths = [
        write_documents(tmp_path / str(number), [["a", image, "b", good]])
        for number, image in enumerate([bad, bad[: len(bad) * 2 // 3]])
    ]
    sequences = sequences_of(model, own, image_output={"dtype": dtype, "on_error": "null"})
    packing = sm.Packing(["tokens", "labels"], length=256, strategy="best_fit", long="raise")
    whole, filled = (
        next(
            iter(sm.Loader(sm.Dataset(path, sequences=sequences), packing=packing, output="numpy"))
        )
        for path in paths
    )
    assert (whole["image_valid"].tolist(), filled["image_valid"].tolist()) == (
        [True, True],
        [False, True],
    )
    assert np.array_equal(whole[own.shape], filled[own.shape])
    assert np.array_equal(whole["tokens"], filled["tokens"])
    pixels = filled["pixel_values"]
    kept = len(own.image(good)[0])
    assert np.array_equal(whole["pixel_values"][-kept:], pixels[-kept:])
    mean = np.round(255 * np.array(NORMALIZE[0])) if dtype == "uint8" else np.zeros(3)
    lost = pixels[:-kept]
    axes = {"pixtral": (1, 3, -1), "siglip2": (-1, 3), "tiles": (-1, 3, 24 * 24)}
    lost = lost.reshape(axes.get(own.rule.rule, (-1, 3, 32 * 32)))
    assert (lost == (mean if lost.ndim == 2 else mean[:, None])).all()


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("name", ["pixtral", "siglip2"])
def test_padded_images_are_those_of_the_processor(tmp_path, model, name, output):
    own = family(name)
    images = [picture(*size, seed=3) for size in [(40, 70), (100, 30), (20, 20)]]
    path = write_documents(tmp_path / "data", [["a", *images], ["b"]])
    packing = sm.Packing(["tokens"], length=512, strategy="best_fit", long="raise")

    def only_batch(**image_output):
        sequences = sequences_of(model, own, image_output={"pad": True} | image_output)
        data = sm.Dataset(path, sequences=sequences)
        [batch] = sm.Loader(data, packing=packing, output=output)
        return {name: np.asarray(batch[name]) for name in batch if name != "document_lengths"}

    batch = only_batch()
    inputs = own.processor([opened(image) for image in images], return_tensors="np")
    names = ["pixel_values", own.shape, *(["pixel_attention_mask"] if name == "siglip2" else [])]
    for column in names:
        assert batch[column].shape == inputs[column].shape
        np.testing.assert_allclose(batch[column], inputs[column], rtol=0, atol=2.4e-7)
    integers = only_batch(dtype="uint8")["pixel_values"]
    mean, std = (np.array(values) for values in NORMALIZE)
    if name == "pixtral":
        normalized = (integers / 255 - mean[:, None, None]) / std[:, None, None]
    else:
        normalized = ((integers.reshape(-1, 3) / 255 - mean) / std).reshape(integers.shape)
    # The mean of integers is rounded.
    np.testing.assert_allclose(normalized, batch["pixel_values"], rtol=0, atol=0.5 / 255 / 0.25)


@pytest.mark.parametrize("pad", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_batch_without_images_has_empty_arrays(tmp_path, model, name, pad):
    own = family(name)
    path = write_documents(tmp_path / "data", [["a"], ["b"]])
    data = sm.Dataset(path, sequences=sequences_of(model, own, image_output={"pad": pad}))
    packing = sm.Packing(["tokens"], length=8, strategy="best_fit", long="raise")
    [batch] = sm.Loader(data, packing=packing, output="numpy")
    types = {"image_tiles": "int32", "image_sizes": "int32", "spatial_shapes": "int64"}
    assert batch[own.shape].dtype == types[own.shape]
    one, *_ = own.image(picture(30, 30))
    shapes = {"pixtral": (0, 3, 0, 0), "siglip2": (0, 40, one.shape[-1])} if pad else {}
    assert batch["pixel_values"].shape == shapes.get(own.rule.rule, (0, *one.shape[1:]))
    assert batch["pixel_values"].dtype == np.float32
    assert len(batch[own.shape]) == len(batch["image_valid"]) == 0


@pytest.mark.parametrize("labels", ["text", "all"])
def test_labels_of_all_leave_out_only_placeholders(tmp_path, model, labels):
    own = family("idefics3")
    image = picture(40, 70)
    path = write_documents(tmp_path / "data", [["a", image, "b"]])
    row = sm.Dataset(path, sequences=sequences_of(model, own, labels=labels))[0]
    _, _, text = own.image(image)
    pad = sm.Tokenizer(model).token_id(IMAGE)
    block = slice(1, -2)
    ids = row["tokens"][block]
    assert len(ids) > text.count("<") > ids.count(pad) > 0
    expected = [-100 if id == pad or labels == "text" else id for id in ids]
    assert row["labels"] == [-100, *expected, *row["tokens"][-2:]]


TEMPLATE = (
    "{% for part in messages[0].content %}{% if part.type == 'image' %}<image>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}"
    "{% generation %}{{ messages[1].content }}{% endgeneration %}"
)


@pytest.mark.parametrize("name", FAMILIES)
def test_images_of_conversations_take_the_places_of_placeholders(tmp_path, model, name):
    own = family(name)
    images = [picture(40, 70), picture(90, 30)]
    image = {"type": "image"}
    content = [image, {"type": "text", "text": "what?"}, image, {"type": "text", "text": "b"}]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": "c!"}]
    row = {"messages": json.dumps(messages), "images": images}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "0.parquet")
    sequences = sm.Sequences(
        tokenizer=model,
        messages="messages",
        images_from="images",
        chat_template=TEMPLATE,
        images=own.rule,
        labels="assistant",
        image_output=sm.ImageOutput(normalize=NORMALIZE),
    )
    found = sm.Dataset(tmp_path / "0.parquet", sequences=sequences)[0]
    parts = [images[0], "what?", images[1], "bc!"]
    ids, pixels, shapes = expected_of(model, own, parts)
    # A conversation ends with the tokens of its template; no other one is added.
    assert (found["tokens"], found[own.shape]) == (ids[:-1], shapes)
    assert_pixels(found["pixel_values"], pixels)
    assert [label for label in found["labels"] if label != -100] == [ord("c"), ord("!")]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (sm.ImageTokens.idefics3(longest=100, tile=16), "<fake_token_around_image>"),
        (
            sm.ImageTokens.idefics3(longest=100, tile=16, start=AROUND, overview=WHOLE, end=DONE),
            "the tokenizer makes 2 tokens of '\\\\n\\\\n', but the rule counts 1",
        ),
        (
            sm.ImageTokens.idefics3(
                longest=100, tile=16, start=AROUND, overview=WHOLE, end=DONE, blank_line_tokens=2
            ),
            "<row_1_col_5>",
        ),
        (sm.ImageTokens.pixtral(placeholder=IMAGE, row_break=ROW), "IMG_END"),
        (sm.ImageTokens.tiles(placeholder=IMAGE, start=AROUND, end=DONE), "are normalized"),
        (sm.ImageTokens(lambda heights, widths: {}, version="1"), "has a function"),
    ],
)
def test_rule_that_the_tokenizer_does_not_fit_is_refused(model, rule, message):
    with pytest.raises(ValueError, match=message):
        sm.Sequences(tokenizer=model, images=rule)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("strategy", ["concat", "best_fit"])
def test_cut_documents_have_whole_blocks(tmp_path, model, name, strategy):
    own = family(name)
    images = [picture(40, side, seed=side) for side in (30, 50, 90)]
    blocks = [expected_of(model, own, [image])[0][:-1] for image in images]
    documents = [["x" * at, images[at % 3], images[-1 - at % 2], "y"] for at in range(12)]
    path = write_documents(tmp_path / "data", documents)
    data = sm.Dataset(path, sequences=sequences_of(model, own))
    packing = sm.Packing("tokens", length=max(map(len, blocks)) + 3, strategy=strategy)
    found = 0
    for batch in sm.Loader(data, packing=packing, batch_size=2, output="numpy"):
        for pack, first, _ in batch["image_index"]:
            of_document = batch["segment_ids"][pack] == batch["segment_ids"][pack, first]
            tokens = batch["tokens"][pack, of_document].tolist()
            first -= np.flatnonzero(of_document)[0]
            starts = range(max(first - 2, 0), first + 1)
            assert any(tokens[at : at + len(block)] == block for at in starts for block in blocks)
            found += 1
    assert found == 24
