"""Bad images in documents: each kind of damage, with each policy."""

import json
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from interleaved_documents import (
    BEGIN,
    FINISH,
    PAD,
    picture,
    qwen_sequences,
    write_documents,
    write_model,
)

pytestmark = pytest.mark.usefixtures("counts_below")

#: Number of the document with the bad image, and number of documents.
AT, COUNT = 13, 24
TEMPLATE = (
    "{% for message in messages %}{% for part in message.content %}"
    "{% if part.type == 'image' %}" + BEGIN + PAD + FINISH + "{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endfor %}"
)


class Source(NamedTuple):
    """A layout of documents that have a text and an image."""

    options: dict
    #: The column of images in its files, and the number of the image among the parts.
    column: str
    part: int


SOURCES = {
    "documents": Source({}, "binary_content", 1),
    "parts": Source({"parts": ["text", "image"]}, "image", 1),
    "structs": Source({"parts": ["text", "image"]}, "image", 1),
    "messages": Source(
        {
            "messages": "messages",
            "images_from": "pictures",
            "chat_template": TEMPLATE,
            "eos": None,
        },
        "pictures",
        0,
    ),
}


def flipped(image):
    """An image with other bytes in the middle."""
    middle = len(image) // 2
    return (
        image[:middle]
        + bytes(255 - byte for byte in image[middle : middle + 20])
        + (image[middle + 20 :])
    )


def blanked(image):
    """A JPEG image whose codes are all ones in the middle."""
    middle = len(image) // 2
    return image[:middle] + b"\xff\x00" * 60 + image[middle + 120 :]


def cut(image):
    return image[: len(image) * 2 // 3]


def other_canvas(image):
    """A WebP file whose canvas is larger than its frame."""
    width, height = ((side - 1).to_bytes(3, "little") for side in (100, 120))
    extended = b"VP8X" + (10).to_bytes(4, "little") + bytes(4) + width + height
    content = b"WEBP" + extended + image[12:]
    return b"RIFF" + len(content).to_bytes(4, "little") + content


#: Damage that is found when an image is decoded: the intact image, what damages it, and the cause.
LATE = {
    "png": (picture(60, 90), flipped, "damaged"),
    "png end": (picture(60, 90), cut, "truncated"),
    "jpeg": (picture(60, 90, kind="JPEG", quality=95), blanked, "damaged"),
    "webp": (picture(60, 90, kind="WEBP"), cut, "truncated"),
    "webp canvas": (other_canvas(picture(60, 90, kind="WEBP")), None, "damaged"),
    "gif": (picture(60, 90, kind="GIF"), cut, "truncated"),
    "bmp": (picture(60, 90, kind="BMP"), cut, "truncated"),
    "tiff": (picture(60, 90, kind="TIFF", compression="tiff_lzw"), flipped, "damaged"),
    "avif": (picture(60, 90, kind="AVIF"), None, "unsupported"),
}

#: Bad images that are found when images are planned, and the cause.
EARLY = {
    "null": (None, "its bytes are null"),
    "empty": (b"", "unknown format"),
    "text": (b"not an image", "unknown format"),
    "header": (picture(60, 90)[:20], "truncated"),
    "pixels": (picture(160, 200), "limit"),
    "ratio": (picture(4, 1000), "unplannable (the aspect ratio is 250"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def texts():
    return [f"{number:02d} well" for number in range(COUNT)]


def images():
    return [picture(30 + 9 * (n % 5), 30 + 7 * (n % 7), seed=n) for n in range(COUNT)]


def written(path, source, payloads, paths=()):
    """Documents of texts and images."""
    pairs = list(zip(texts(), payloads, strict=True))
    if source == "documents":
        rows = [[text, {"modality": "image"} if image is None else image] for text, image in pairs]
        return write_documents(path, rows, row_group_size=9, files=2)
    path.mkdir()
    table = pa.table({"text": [text for text, _ in pairs]})
    if source == "structs":
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        cells = [{"bytes": image, "path": f"{n}.png"} for n, (_, image) in enumerate(pairs)]
        table = table.append_column("image", pa.array(cells, kind))
    elif source == "parts":
        table = table.append_column("image", pa.array(payloads, pa.binary()))
    else:
        content = [[{"type": "image"}, {"type": "text", "text": text}] for text, _ in pairs]
        chats = [[{"role": "user", "content": parts}] for parts in content]
        table = pa.table({"messages": chats, "pictures": pa.array([[p] for p in payloads])})
    pq.write_table(table, path / "0.parquet", row_group_size=9)
    return path


def loader_of(model, path, source, on_error="raise", *, shuffle=True):
    output = sm.ImageOutput(on_error=on_error, max_pixels=30_000)
    sequences = qwen_sequences(model, image_output=output, **SOURCES[source].options)
    packing = sm.Packing(
        ["tokens", "labels"],
        length=64,
        strategy="best_fit",
        long="raise",
        pad_value={"labels": -100},
    )
    data = sm.Dataset(path, sequences=sequences)
    return sm.Loader(data, packing=packing, batch_size=2, shuffle=shuffle, seed=1, output="numpy")


def batches_of(loader):
    return [
        {name: np.asarray(values) for name, values in batch.items() if name != "document_lengths"}
        for batch in loader
    ]


def plan_of(loader):
    steps = loader.explain(epoch=0)["steps"]
    return [loader.explain(step=step, epoch=0)["packs"] for step in range(steps)]


def assert_equal(one, other, *, apart_from=()):
    assert set(one) == set(other)
    for name in set(one) - set(apart_from):
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def place_of(path, source):
    """Row and file of the bad image: the second file has the second half of the documents."""
    if source == "documents":
        return AT - COUNT // 2, path / "1.parquet"
    return AT, path / "0.parquet"


def assert_named(error, path, source, cause):
    row, file = place_of(path, source)
    _, column, part = SOURCES[source]
    text = str(error)
    assert f"Row {row} of `{file}`" in text
    assert f"column `{column}`" in text and f"part {part} of the document: {cause}" in text
    assert 'hint: on_error="null" of sm.' in text


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("damage", LATE)
def test_image_that_is_bad_when_it_is_decoded_changes_nothing_else(tmp_path, model, source, damage):
    whole, damaged, cause = LATE[damage]
    payloads = images()
    payloads[AT] = damaged(whole) if damaged else whole
    bad = written(tmp_path / "bad", source, payloads)
    # If no decoder reads the format, the intact image is another one of the same size.
    payloads[AT] = whole if damaged else picture(*size_of(whole))
    good = written(tmp_path / "good", source, payloads)
    expected = loader_of(model, good, source)
    batches, plan = batches_of(expected), plan_of(expected)
    raising = loader_of(model, bad, source)
    assert plan_of(raising) == plan
    found, iterator = [], iter(raising)
    with pytest.raises(sm.errors.FormatError) as caught:
        found.extend(iterator)
    assert_named(caught.value, bad, source, cause)
    for on_error in ("null", "mask"):
        filling = loader_of(model, bad, source, on_error)
        assert plan_of(filling) == plan
        count = 0
        for one, other in zip(batches, batches_of(filling), strict=True):
            assert_equal(one, other, apart_from=("pixel_values", "image_valid", "labels"))
            of_image = np.repeat(np.arange(len(one["image_index"])), one["image_grid_thw"].prod(1))
            is_bad = ~other["image_valid"][of_image]
            assert np.array_equal(one["pixel_values"][~is_bad], other["pixel_values"][~is_bad])
            assert not other["pixel_values"][is_bad].any()
            labels = one["labels"].copy()
            for pack, first, _ in other["image_index"][~other["image_valid"]]:
                count += 1
                segments = other["segment_ids"][pack]
                if on_error == "mask":
                    labels[pack][segments == segments[first]] = -100
            np.testing.assert_array_equal(labels, other["labels"])
        assert count == 1
        row, file = place_of(bad, source)
        [ledger] = filling.bad_rows
        assert (ledger.row, ledger.path) == (row, str(file))
        part = SOURCES[source].part
        assert ledger.cause.startswith(f"part {part} of the document: {cause}")


def size_of(image):
    from shardmill._native import images as native

    width, height = native.image_size(image)
    return height, width


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("damage", EARLY)
def test_image_that_is_bad_when_it_is_planned_is_named_or_left_out(tmp_path, model, source, damage):
    payload, cause = EARLY[damage]
    if source == "structs" and payload is None:
        cause = f'its bytes are null, and the file "{AT}.png" is not read'
    payloads = images()
    payloads[AT] = payload
    path = written(tmp_path / "bad", source, payloads)
    with pytest.raises(sm.errors.FormatError) as caught:
        len(loader_of(model, path, source))
    assert_named(caught.value, path, source, cause)
    # The order of shuffled rows depends on the sizes of files.
    loaders = [
        loader_of(model, path, source, on_error, shuffle=False) for on_error in ("null", "mask")
    ]
    one, other = map(batches_of, loaders)
    for batch, same in zip(one, other, strict=True):
        assert_equal(batch, same)
        assert batch["image_valid"].all()
    assert [len(loader.bad_rows) for loader in loaders] == [0, 0]
    assert sum(len(batch["image_index"]) for batch in one) == COUNT - 1
    if source != "documents":
        return
    # The document without its image.
    rows = [[text, image] for text, image in zip(texts(), payloads, strict=True)]
    rows[AT] = rows[AT][:1]
    without = write_documents(tmp_path / "without", rows, row_group_size=9, files=2)
    expected = loader_of(model, without, source, shuffle=False)
    assert plan_of(expected) == plan_of(loaders[0])
    for batch, same in zip(batches_of(expected), one, strict=True):
        assert_equal(batch, same)


def test_counts_that_leave_out_bad_images_are_not_used_where_these_are_an_error(tmp_path, model):
    payloads = images()
    payloads[AT] = b"not an image"
    path = written(tmp_path / "bad", "documents", payloads)
    assert len(loader_of(model, path, "documents", "null"))
    with pytest.raises(sm.errors.FormatError, match="unknown format"):
        len(loader_of(model, path, "documents"))


@pytest.mark.parametrize("on_error", ["raise", "null", "mask"])
@pytest.mark.parametrize("changed", ["text", "image", "size"])
def test_file_that_is_replaced_after_it_was_planned_is_never_mixed_with_its_plan(
    tmp_path, model, on_error, changed
):
    path = written(tmp_path / "data", "parts", images())
    loader = loader_of(model, path, "parts", on_error)
    expected = batches_of(loader_of(model, path, "parts", on_error))
    assert len(loader) == len(expected)
    table = pq.read_table(path / "0.parquet")
    rows = table.to_pylist()
    new = {
        "text": {"text": f"{AT} well then"},
        "image": {"image": cut(rows[AT]["image"])},
        "size": {"image": picture(90, 120)},
    }[changed]
    rows[AT] |= new
    pq.write_table(
        pa.Table.from_pylist(rows, schema=table.schema), path / "0.parquet", row_group_size=9
    )
    # This is an error even if bad images are filled, because the file has changed.
    with pytest.raises(sm.errors.StorageError, match="changed while it was being read") as caught:
        list(loader)
    assert str(path / "0.parquet") in str(caught.value)


def test_several_columns_of_images_are_named_with_the_part(tmp_path, model):
    (tmp_path / "data").mkdir()
    table = pa.table({"a": [picture(28, 28)], "t": ["x"], "b": [b"no image"]})
    pq.write_table(table, tmp_path / "data" / "0.parquet")
    sequences = partial(qwen_sequences, model)
    with pytest.raises(sm.errors.FormatError) as caught:
        sm.Dataset(tmp_path / "data", sequences=sequences(parts=["a", "t", "b"]))[0]
    assert "column `a`, `b`: part 2 of the document: unknown format" in str(caught.value)
    options = {"parts": ["t"], "marker": "<image>"}
    table = pa.table({"t": ["<image>"]})
    pq.write_table(table, tmp_path / "data" / "0.parquet")
    with pytest.raises(sm.errors.FormatError, match=r"column `t`: the texts have 1 marker "):
        sm.Dataset(tmp_path / "data", sequences=sequences(**options))[0]


@pytest.mark.parametrize("on_error", ["raise", "null", "mask"])
@pytest.mark.parametrize("source", ["markers", "messages"])
def test_images_without_places_are_an_error_with_every_policy(tmp_path, model, source, on_error):
    path = written(tmp_path / "data", "parts" if source == "markers" else "messages", images())
    output = sm.ImageOutput(on_error=on_error)
    if source == "markers":
        given = {"parts": ["text", "image"], "marker": "<image>"}
        column, cause = "text", 'the texts have 0 markers "<image>" for 1 image'
    else:
        # Only the texts of messages.
        template = TEMPLATE.replace(PAD, "")
        given = SOURCES["messages"].options | {"chat_template": template}
        column, cause = "messages", "the messages have 0 placeholders for 1 image"
    data = sm.Dataset(path, sequences=qwen_sequences(model, image_output=output, **given))
    packing = sm.Packing("tokens", length=64, strategy="best_fit", long="raise")
    with pytest.raises(sm.errors.FormatError) as caught:
        len(sm.Loader(data, packing=packing, output="numpy"))
    assert f"Row 0 of `{path / '0.parquet'}`: column `{column}`: {cause}" in str(caught.value)


def test_file_that_a_document_refers_to_is_not_read(tmp_path, model):
    (tmp_path / "secret.png").write_bytes(picture(28, 28))
    reference = {"modality": "image", "source_ref": json.dumps({"path": "../secret.png"})}
    unread = {"modality": "image", "materialize_error": "path outside of the input's directory"}
    path = write_documents(tmp_path / "data", [["a", reference, unread]])
    for document, cause in ((reference, "its bytes are null"), (unread, "path outside of")):
        own = write_documents(tmp_path / cause[:4], [["a", document]])
        with pytest.raises(sm.errors.FormatError, match=f"part 1 of the document: {cause}"):
            sm.Dataset(own, sequences=qwen_sequences(model))[0]
    filled = qwen_sequences(model, image_output=sm.ImageOutput(on_error="null"))
    assert sm.Dataset(path, sequences=filled)[0]["image_index"] == []
