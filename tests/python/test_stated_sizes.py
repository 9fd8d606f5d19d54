"""Packs that are planned from columns of sizes, against those that are planned from headers."""

import io
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
import shardmill.curate as curate
from breadth import examples
from chats_with_images import CONVERSATIONS, chat_sequences
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interleaved_documents import (
    SCHEMA,
    drawn,
    loaders_of_ranks,
    picture,
    qwen_sequences,
    rows_of,
    write_documents,
    write_model,
)
from PIL import Image, ImageOps

pytestmark = pytest.mark.usefixtures("counts_below")

SIZES = ("width", "height")

#: Images that have no plan by the sizes that are stated, and why.
UNPLANNED = {
    (None, 40): "its stated size is null",
    (40, None): "its stated size is null",
    (0, 40): "a side is not from 1 to",
    (40, -5): "a side is not from 1 to",
    (70_000, 40): "limit",
    (2**40, 40): "its stated size, 1099511627776 x 40, is out of range",
    (40, -(2**40)): "its stated size, 40 x -1099511627776, is out of range",
    (9000, 10_000): "limit",
    (1, 300): "the aspect ratio is 300.0",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def shown(image):
    """Width and height of an image as displayed."""
    with Image.open(io.BytesIO(image)) as opened:
        return ImageOps.exif_transpose(opened).size


def turned(height, width, **options):
    exif = Image.Exif()
    exif[0x0112] = 6
    return picture(height, width, kind="JPEG", exif=exif, **options)


def write_sized(path, documents, stated=None, *, kind=pa.int64(), names=SIZES, **options):
    """Write documents with the sizes of their images, or those that are stated by image."""
    path.mkdir(parents=True, exist_ok=True)
    rows = [row for at, parts in enumerate(documents) for row in rows_of(f"d{at}", parts, words=at)]
    for row in rows:
        image = row.get("binary_content")
        if row["modality"] == "image":
            size = (stated or {}).get(image) or shown(image)
            row |= dict(zip(names, size, strict=True))
    fields = [pa.field(name, kind) for name in names]
    table = pa.Table.from_pylist(rows, schema=pa.schema([*SCHEMA, *fields]))
    pq.write_table(table, path / "0.parquet", **options)
    return path


def sized(model, make=qwen_sequences, *, sizes=SIZES, **output):
    """Sequences that are planned from columns, with options of ``ImageOutput``."""
    options = {name: output.pop(name) for name in list(output) if name not in OUTPUT}
    return make(model, image_output=sm.ImageOutput(sizes=sizes, **output), **options)


OUTPUT = {"dtype", "max_pixels", "on_error", "pad"}

DROP = {"strategy": "best_fit", "long": "drop"}


def packing(**options):
    return sm.Packing(["tokens", "labels"], **({"length": 96} | DROP | options))


def batches_of(data, packing, **options):
    return list(sm.Loader(data, packing=packing, output="numpy", **({"batch_size": 2} | options)))


def values(column):
    return np.asarray(getattr(column, "values", column))


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for batch, other in zip(found, expected, strict=True):
        assert batch.keys() == other.keys()
        for name in batch:
            np.testing.assert_array_equal(values(batch[name]), values(other[name]), name)


def equal_rows(data, others):
    return all(
        row.keys() == other.keys() and all(map(np.array_equal, row.values(), other.values()))
        for row, other in zip(data, others, strict=True)
    )


#: Ways to pack, all of which must give the same batches.
PACKINGS = [
    {},
    {"max_images": 3, "max_patches": 40},
    {"strategy": "best_fit", "long": "split", "length": 24},
    {"strategy": "best_fit", "long": "truncate", "length": 24},
    {"strategy": "concat", "long": None, "length": 32, "max_patches": 40},
    {"plan": "ahead", "epoch_packs": 8},
    {"balance": sm.Balance(sm.Cost(patch=0.3, image=5), per_step=1)},
]


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.integers(0, 2**30),
    st.sampled_from(PACKINGS),
    st.sampled_from([pa.int32(), pa.uint16(), pa.int64()]),
)
def test_batches_are_those_that_are_planned_from_headers(
    tmp_path_factory, model, seed, options, kind
):
    documents = [*drawn(seed, 14), ["a", turned(30, 90, seed=seed)]]
    path = write_sized(tmp_path_factory.mktemp("d"), documents, kind=kind, row_group_size=9)
    columns = ["tokens", "labels"]
    plain = sm.Dataset(path, sequences=qwen_sequences(model))
    data = sm.Dataset(path, sequences=sized(model))
    assert "width" not in data.columns and "height" not in data.columns
    own = sm.Dataset(path, sequences=sized(model), columns=[*columns, "width"])
    assert [row["width"] for row in own] == [
        [shown(part)[0] if isinstance(part, bytes) else None for part in parts]
        for parts in documents
    ]
    names = [name for name in plain.columns if name not in SIZES]
    others = sm.Dataset(path, sequences=qwen_sequences(model), columns=names)
    assert equal_rows(data, others)
    assert data.token_counts() == others.token_counts()
    found, expected = (
        batches_of(one, packing(**options), shuffle=True, seed=seed) for one in (data, others)
    )
    assert_equal(found, expected)


@pytest.mark.parametrize("length", [96, 24])
def test_explanation_and_ranks_are_those_of_headers(tmp_path, model, length):
    documents = drawn(3, 60)
    path = write_sized(tmp_path / "d", documents, row_group_size=9)
    long = {"long": "split"} if length == 24 else {}
    given = packing(length=length, balance=sm.Balance(sm.Cost(patch=0.3), per_step=1), **long)
    of_sizes, of_headers = (
        loaders_of_ranks(sm.Dataset(path, sequences=sequences), given, 2)
        for sequences in (sized(model), qwen_sequences(model))
    )
    for one, other in zip(of_sizes, of_headers, strict=True):
        mine, theirs = (each.explain(step=0, documents=True) for each in (one, other))
        # These are estimates of what is read.
        for name in ("ranks", "window_bytes", "decode_amplification"):
            del mine[name], theirs[name]
        assert mine == theirs
        assert any(document["images"] for document in mine["documents"])
        assert_equal(list(one), list(other))


def bytes_read():
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


@pytest.mark.parametrize("kind", ["documents", "rows", "lists"])
@pytest.mark.parametrize("long", ["drop", "split"])
def test_plan_reads_no_image(tmp_path, model, kind, long):
    # Noise is not compressed.
    noise = np.random.default_rng(1).bytes(100_000)
    images = [picture(28, 28 * (1 + number % 3)) + noise for number in range(24)]
    if kind == "documents":
        path = write_sized(tmp_path / "d", [["ab", image] for image in images])
        sequences = sized(model)
    else:
        values = [shown(image) for image in images]
        listed = (lambda value: [value]) if kind == "lists" else (lambda value: value)
        sides = {
            name: [listed(value[at]) for value in values] for at, name in enumerate(("w", "h"))
        }
        path = tmp_path / "rows.parquet"
        table = {"image": [listed(image) for image in images], "text": ["ab"] * 24} | sides
        pq.write_table(pa.table(table), path, row_group_size=5)
        sequences = sized(model, parts=["text", "image"], sizes=("w", "h"))
    loader = sm.Loader(
        sm.Dataset(path, sequences=sequences),
        packing=sm.Packing("tokens", length=64, strategy="best_fit", long=long),
        output="numpy",
    )
    before = bytes_read()
    len(loader)
    assert bytes_read() - before < 60_000
    grids = np.concatenate([batch["image_grid_thw"] for batch in loader])
    assert sorted(grids[:, 2]) == sorted(2 * (1 + number % 3) for number in range(24))


def test_sizes_are_those_that_curation_writes(tmp_path, model):
    documents = [*drawn(4, 9), [turned(40, 70), "b"]]
    source = write_documents(tmp_path / "in", documents)
    curate.Pipeline(
        source=curate.InterleavedParquetSource(str(source)),
        stages=[],
        sink=curate.ParquetSink(str(tmp_path / "out"), image_sizes=True),
    ).run()
    data = sm.Dataset(tmp_path / "out", sequences=sized(model))
    plain = sm.Dataset(source, sequences=qwen_sequences(model))
    assert data.columns == plain.columns
    assert equal_rows(data, plain)


@pytest.mark.parametrize("as_list", [False, True], ids=["numbers", "lists"])
def test_rows_state_the_sizes_of_their_images(tmp_path, model, as_list):
    one, two, other = picture(30, 60, kind="JPEG"), picture(50, 40), turned(60, 40)
    first, more = [one, two, other], [[other], [], [one, two]]
    sides = [[shown(image), *map(shown, images)] for image, images in zip(first, more, strict=True)]
    table = {"id": [1, 2, 3], "text": ["a", None, "c"], "image": first}
    parts = ["image", "text"]
    if as_list:
        parts, table = [*parts, "more"], table | {"more": more}
    widths, heights = (
        [[size[at] for size in sizes] if as_list else sizes[0][at] for sizes in sides]
        for at in (0, 1)
    )
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(table | {"w": widths, "h": heights}), path, row_group_size=2)
    data = sm.Dataset(path, sequences=sized(model, parts=parts, sizes=("w", "h")))
    plain = sm.Dataset(path, sequences=qwen_sequences(model, parts=parts), columns=data.columns)
    assert data.columns[:2] == ["id", "tokens"]
    assert equal_rows(data, plain)
    assert_equal(*(batches_of(one, packing(length=192)) for one in (data, plain)))
    if not as_list:
        kept = sm.Dataset(
            path, sequences=sized(model, parts=parts, sizes=("w", "h")), filter="w = 40"
        )
        assert [row["id"] for row in kept] == [2]


def test_conversations_state_the_sizes_of_their_images(tmp_path, model):
    rows = [
        {
            "messages": messages,
            "images": images,
            "width": [shown(image)[0] for image in images],
            "height": [shown(image)[1] for image in images],
        }
        for messages, images in CONVERSATIONS * 4
    ]
    path = tmp_path / "chats.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=5)
    data = sm.Dataset(path, sequences=sized(model, chat_sequences))
    plain = sm.Dataset(path, sequences=chat_sequences(model), columns=data.columns)
    assert equal_rows(data, plain)
    assert_equal(*(batches_of(one, packing(length=128)) for one in (data, plain)))


@pytest.mark.parametrize("size", UNPLANNED, ids=map(str, UNPLANNED))
def test_image_without_a_valid_size_has_no_plan(tmp_path, model, size):
    bad, good = picture(30, 44), picture(40, 60)
    documents = [["a", good], ["b", bad, "c", good], [bad]]
    path = write_sized(tmp_path / "d", documents, {bad: size})
    strict = sm.Dataset(path, sequences=sized(model))
    with pytest.raises(sm.FormatError) as caught:
        len(sm.Loader(strict, packing=packing()))
    message = str(caught.value)
    assert "Row 1 of" in message and "0.parquet" in message and "column `width`" in message
    assert f"part 1 of the document: {UNPLANNED[size]}" in message.replace("unplannable (", "")
    skipping = sm.Loader(strict, batch_size=3, output="rows", errors=sm.ErrorPolicy(rows="skip"))
    assert [row["sample_id"] for batch in skipping for row in batch] == ["d0"]
    data = sm.Dataset(path, sequences=sized(model, on_error="null"))
    left = [[part for part in parts if part != bad] for parts in documents]
    expected = sm.Dataset(write_documents(tmp_path / "e", left), sequences=qwen_sequences(model))
    assert equal_rows(data, expected)
    loader = sm.Loader(data, packing=packing(), batch_size=2, output="numpy")
    assert_equal(list(loader), batches_of(expected, packing()))
    assert loader.metrics().images_left_out >= 2 and loader.bad_rows == []


def test_max_pixels_holds_for_stated_sizes(tmp_path, model):
    path = write_sized(tmp_path / "d", [["a", picture(30, 44)], ["b", picture(60, 44)]])
    data = sm.Dataset(path, sequences=sized(model, max_pixels=2000, on_error="null"))
    assert [len(row["image_index"]) for row in data] == [1, 0]
    # What is counted with one limit is not taken for another one.
    all_images = sm.Dataset(path, sequences=sized(model))
    assert data.token_counts().total < all_images.token_counts().total
    with pytest.raises(sm.FormatError, match="limit .*`44` x `60`"):
        sm.Dataset(path, sequences=sized(model, max_pixels=2000))[1]


#: Images that are not as stated: the image, the size that is stated, and the cause.
LIES = {
    "size": (picture(30, 44, seed=9), (88, 60), "size (it is 44 x 30, but 88 x 60 is stated)"),
    "turned": (turned(30, 90), (90, 30), "size (it is 30 x 90, but 90 x 30 is stated)"),
    "header": (b"\x89PNG\r\n\x1a\n no header", (60, 90), "damaged"),
    "bytes": (b"not an image", (60, 90), "unknown format"),
    "cut": (picture(60, 90, kind="JPEG")[:-200], (90, 60), "truncated"),
    "null": (None, (90, 60), "size (a size is stated, but no image belongs to it)"),
}


def documents_with(image):
    part = {"modality": "image", "binary_content": image}
    return [["a", picture(40, 60)], ["b", part, "c", picture(28, 56)], ["d"]]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("is_packed", [True, False], ids=["packs", "rows"])
def test_image_that_is_not_as_stated_is_an_error(tmp_path, model, lie, is_packed):
    image, size, cause = LIES[lie]
    path = write_sized(tmp_path / "d", documents_with(image), {image: size})
    data = sm.Dataset(path, sequences=sized(model))
    given = packing() if is_packed else None
    loader = sm.Loader(data, packing=given, output="numpy", batch_size=2)
    # The plan knows nothing of it.
    assert len(loader) > 0
    with pytest.raises(sm.FormatError) as caught:
        list(loader)
    message = str(caught.value)
    assert "Row 1 of" in message and "0.parquet" in message
    assert f"part 1 of the document: {cause}" in message


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("on_error", ["null", "mask"])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_image_that_is_not_as_stated_keeps_its_place(tmp_path, model, lie, on_error, dtype):
    image, (width, height), cause = LIES[lie]
    truth = picture(height, width)
    path = write_sized(tmp_path / "d", documents_with(image), {image: (width, height)})
    true = write_sized(tmp_path / "t", documents_with(truth))
    sequences = sized(model, on_error=on_error, dtype=dtype)
    expected = batches_of(sm.Dataset(true, sequences=sequences), packing(), batch_size=1)
    loader = sm.Loader(
        sm.Dataset(path, sequences=sequences), packing=packing(), batch_size=1, output="numpy"
    )
    [found], [batch] = list(loader), expected
    same = ("tokens", "segment_ids", "image_index", "image_grid_thw", "positions")
    for name in same:
        np.testing.assert_array_equal(found[name], batch[name])
    [place] = np.flatnonzero(~found["image_valid"])
    is_bad = np.repeat(~found["image_valid"], found["image_grid_thw"].prod(1))
    pixels, whole = found["pixel_values"], batch["pixel_values"]
    np.testing.assert_array_equal(pixels[~is_bad], whole[~is_bad])
    mean = np.round(255 * np.array(sequences.normalization[0])) if dtype == "uint8" else [0] * 3
    assert (pixels[is_bad].reshape(-1, 3, 2 * 14 * 14) == np.reshape(mean, (3, 1))).all()
    pack, first, _ = found["image_index"][place]
    own = found["segment_ids"][pack] == found["segment_ids"][pack, first]
    labels = batch["labels"].copy()
    if on_error == "mask":
        labels[pack, own] = -100
    np.testing.assert_array_equal(found["labels"], labels)
    [ledger] = loader.bad_rows
    assert (ledger.row, Path(ledger.path).name) == (1, "0.parquet")
    assert ledger.cause.startswith(f"part 1 of the document: {cause}")
    rows = sm.Loader(sm.Dataset(path, sequences=sequences), batch_size=3, output="rows")
    assert [row["image_valid"] for batch in rows for row in batch] == [[True], [False, True], []]


def test_sizes_of_other_parts_are_ignored(tmp_path, model):
    text = {"modality": "text", "text_content": "a", "width": 40, "height": 30}
    path = write_sized(tmp_path / "d", [[text, picture(40, 60), "b"]])
    [row], [other] = (
        list(sm.Dataset(path, sequences=sequences, columns=["tokens", "pixel_values"]))
        for sequences in (sized(model), qwen_sequences(model))
    )
    assert row == other


ONE, TWO = picture(40, 60), picture(28, 56)

#: Images of a row, the widths and heights that it states, and why this cannot be.
MISMATCHES = {
    "fewer": ([ONE, TWO], [60], [40], "the row states 1 size for 2 images"),
    "more": ([ONE], [60, 56], [40, 28], "the row states 2 sizes for 1 image"),
    "no sizes": ([ONE, TWO], [], [], "the row states 0 sizes for 2 images"),
    "null": ([ONE, TWO], None, None, "the row states 0 sizes for 2 images"),
    "no images": ([], [60], [40], "the row states 1 size for 0 images"),
    "heights": ([ONE], [60], [40, 28], "the row states 1 width and 2 heights"),
}


@pytest.mark.parametrize("case", MISMATCHES)
@pytest.mark.parametrize("on_error", ["raise", "null"])
def test_row_with_another_number_of_sizes_than_images_is_bad(tmp_path, model, case, on_error):
    images, widths, heights, cause = MISMATCHES[case]
    path = tmp_path / "rows.parquet"
    table = {
        "images": pa.array([[ONE], images], pa.list_(pa.binary())),
        "w": pa.array([[60], widths], pa.list_(pa.int32())),
        "h": pa.array([[40], heights], pa.list_(pa.int32())),
        "text": ["a", "b"],
    }
    pq.write_table(pa.table(table), path)
    sequences = sized(model, parts=["text", "images"], sizes=("w", "h"), on_error=on_error)
    loader = sm.Loader(
        sm.Dataset(path, sequences=sequences), packing=packing(), output="numpy", batch_size=2
    )
    if on_error == "raise":
        with pytest.raises(sm.FormatError) as caught:
            list(loader)
        assert "Row 1 of" in str(caught.value) and cause in str(caught.value)
        return
    [batch] = loader
    bad = (~batch["image_valid"]).sum()
    assert batch["image_valid"].sum() == 1
    planned = len(widths or []) if len(widths or []) == len(heights or []) else 0
    assert bad == planned and {row.row for row in loader.bad_rows} == ({1} if planned else set())
    cause = "a size is stated, but no image belongs to it"
    assert all(cause in row.cause for row in loader.bad_rows)
    assert loader.metrics().images_left_out == max(0, len(images) - planned)


def test_columns_that_are_missing_or_have_no_integers_are_refused(tmp_path, model):
    path = write_sized(tmp_path / "d", [["a", picture(28, 28)]], kind=pa.float64())
    refused = [
        (("width", "height"), "Column `width` of .*0.parquet` has no integers"),
        (("wide", "height"), "Column `wide` of .*0.parquet` is missing"),
    ]
    for sizes, reason in refused:
        with pytest.raises(sm.FormatError, match=reason) as caught:
            sm.Dataset(path, sequences=sized(model, sizes=sizes))
        assert "hint: sizes= of sm.ImageOutput names columns of integers" in str(caught.value)
    rows = tmp_path / "rows.parquet"
    images = [[picture(28, 28)]]
    pq.write_table(pa.table({"a": images, "b": images, "w": ["x"], "h": [28]}), rows)
    refused = [
        (["a"], ("w", "h"), "Column `w` of .*rows.parquet` has no integers"),
        (["a"], ("h", "x"), "Column `x` of .*rows.parquet` is missing"),
        (["a", "b"], ("h", "h2"), "Column `h2` of .* is missing"),
    ]
    for parts, sizes, reason in refused:
        with pytest.raises(sm.FormatError, match=reason):
            sm.Dataset(rows, sequences=sized(model, parts=parts, sizes=sizes))
    pq.write_table(pa.table({"a": images, "b": images, "w": [28], "h": [28]}), rows)
    with pytest.raises(sm.FormatError, match="Column `b` of .* has lists of images, as another"):
        sm.Dataset(rows, sequences=sized(model, parts=["a", "b"], sizes=("w", "h")))


@pytest.mark.parametrize(
    "sizes", ["width", ("width",), ("width", "width"), ("a", "b", "c"), ("", "height"), (1, 2)]
)
def test_sizes_that_are_not_two_names_are_refused(sizes):
    with pytest.raises(ValueError, match="ImageOutput.sizes must"):
        sm.ImageOutput(sizes=sizes)


def test_sizes_need_images_and_columns_of_their_own(model):
    output = sm.ImageOutput(sizes=SIZES)
    with pytest.raises(ValueError, match="ImageOutput.sizes requires images"):
        sm.Sequences(tokenizer=model, image_output=output)
    output = sm.ImageOutput(sizes=("width", "position"))
    with pytest.raises(ValueError, match="cannot name the column 'position' of parts"):
        qwen_sequences(model, image_output=output)


def test_counts_of_stated_sizes_are_kept_apart(tmp_path, model):
    image = picture(30, 44)
    path = write_sized(tmp_path / "d", [["a", image]], {image: (88, 90)})
    counts = tmp_path / "counts"
    lying, plain = (
        sm.Dataset(path, sequences=make(model, counts=counts)) for make in (sized, qwen_sequences)
    )
    for _ in range(2):
        assert lying.token_counts().total == 2 + 2 + 9
        assert plain.token_counts().total == 2 + 2 + 2
    assert sized(model).fingerprint != qwen_sequences(model).fingerprint
    assert sized(model).fingerprint != sized(model, sizes=("height", "width")).fingerprint
    first = sm.Loader(lying, packing=packing(), output="numpy")
    state = first.state_dict()
    with pytest.raises(sm.errors.CheckpointMismatchError):
        sm.Loader(plain, packing=packing(), output="numpy").load_state_dict(state)


def test_mixture_of_sources_with_and_without_sizes_is_refused(tmp_path, model):
    path = write_sized(tmp_path / "d", [["a"]])
    sources = [sm.Dataset(path, sequences=make(model)) for make in (sized, qwen_sequences)]
    with pytest.raises(ValueError, match="images of documents have sizes="):
        sm.Mixture(sources, weights=[1, 1])
    mixture = sm.Mixture([sources[0], sm.Dataset(path, sequences=sized(model))], weights=[1, 1])
    assert batches_of(mixture, packing(length=16))


def test_files_may_state_sizes_in_other_types(tmp_path, model):
    documents = drawn(7, 6)
    expected = sm.Dataset(
        write_documents(tmp_path / "e", documents * 2), sequences=qwen_sequences(model)
    )
    for number, kind in enumerate([pa.int32(), pa.uint64()]):
        write_sized(tmp_path / "d" / str(number), documents, kind=kind)
    data = sm.Dataset(tmp_path / "d", sequences=sized(model))
    columns = ["tokens", "pixel_values", "image_grid_thw"]
    assert [[row[name] for name in columns] for row in data] == [
        [row[name] for name in columns] for row in expected
    ]
    assert equal_rows(pickle.loads(pickle.dumps(data)), data)


def test_tars_state_sizes_as_members(tmp_path, model):
    from documents import write_tar

    pairs = [(picture(30, 60 + 9 * n, kind="JPEG"), f"text {n}") for n in range(5)]
    members = dict[str, bytes]()
    for n, (image, text) in enumerate(pairs):
        width, height = shown(image)
        members |= {f"{n}.jpg": image, f"{n}.txt": text.encode()}
        members |= {f"{n}.width.cls": str(width).encode(), f"{n}.height.cls": str(height).encode()}
    path = write_tar(tmp_path / "pairs.tar", members)
    names = sm.Dataset(path).columns
    sizes = [name for name in names if "width" in name or "height" in name]
    data = sm.Dataset(
        path, sequences=sized(model, parts=["jpg", "txt"], sizes=tuple(reversed(sizes)))
    )
    plain = sm.Dataset(
        path, sequences=qwen_sequences(model, parts=["jpg", "txt"]), columns=data.columns
    )
    assert equal_rows(data, plain)
