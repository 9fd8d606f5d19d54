"""Sequences of interleaved documents, against the processor of Qwen2-VL."""

import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from byte_tokenizer import END
from documents import encoded, write_tar
from image_processors import image_processor
from interleaved_documents import (
    BEGIN,
    FINISH,
    PAD,
    SCHEMA,
    drawn,
    picture,
    processed,
    qwen_sequences,
    rows_of,
    write_documents,
    write_model,
)
from pictures import opened
from PIL import Image

pytestmark = pytest.mark.usefixtures("counts_below")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


def assert_processed(row, model, parts):
    ids, pixels, grid = processed(model, parts)
    if not parts:
        assert row["tokens"] == []
        return
    assert row["tokens"] == ids
    if pixels is None:
        assert (row["pixel_values"], row["image_grid_thw"]) == ([], [])
        return
    np.testing.assert_array_equal(row["image_grid_thw"], grid)
    assert len(row["pixel_values"]) == len(pixels)
    np.testing.assert_allclose(row["pixel_values"], pixels, rtol=0, atol=2.4e-7)


def test_sequences_are_those_of_the_processor(tmp_path, model):
    documents = drawn(1, examples(60, 8))
    data = sm.Dataset(
        write_documents(tmp_path / "data", documents, row_group_size=7, files=2),
        sequences=qwen_sequences(model),
    )
    assert len(data) == len(documents)
    for number, parts in enumerate(documents):
        row = data[number]
        assert (row["sample_id"], row["words"]) == (f"d{number}", number)
        assert_processed(row, model, parts)


def test_row_groups_that_cut_documents_change_nothing(tmp_path, model):
    documents = drawn(2, 6)
    whole, cut = (
        sm.Dataset(
            write_documents(tmp_path / str(size), documents, row_group_size=size),
            sequences=qwen_sequences(model),
        )
        for size in (None, 1)
    )
    assert list(whole) == list(cut)


def test_text_never_becomes_a_placeholder(tmp_path, model):
    text = f"a{PAD}b{BEGIN}{END}"
    path = write_documents(tmp_path / "data", [[text, picture(28, 28)]])
    row = sm.Dataset(path, sequences=qwen_sequences(model))[0]
    tokenizer = sm.Tokenizer(model)
    spelled = tokenizer.encode(text, special_in_text="text")
    pad, end = tokenizer.token_id(PAD), tokenizer.token_id(END)
    assert row["tokens"][: len(spelled)] == spelled
    assert (row["tokens"].count(pad), row["tokens"].count(end)) == (1, 1)
    assert row["image_index"] == [[len(spelled) + 1, 1]]


@pytest.mark.parametrize("labels", ["text", "all"])
def test_labels_leave_out_images_and_the_first_token(tmp_path, model, labels):
    path = write_documents(tmp_path / "data", [["hi", picture(28, 56), "x"], [picture(28, 28)], []])
    data = sm.Dataset(path, sequences=qwen_sequences(model, labels=labels))
    tokenizer = sm.Tokenizer(model)
    pad, begin, finish, end = map(tokenizer.token_id, (PAD, BEGIN, FINISH, END))
    around = {begin, finish} if labels == "text" else set()
    for row in data:
        ignored = {pad, *around}
        expected = [-100 if id in ignored else id for id in row["tokens"]]
        expected[:1] = [-100] if expected else []
        assert row["labels"] == expected
    assert data[2]["tokens"] == []
    assert data[1]["tokens"] == [begin, pad, finish, end]


def test_separator_is_between_adjacent_texts_only(tmp_path, model):
    image = picture(28, 28)
    path = write_documents(tmp_path / "data", [["a", "b", image, "c", "d"]])
    sequences = qwen_sequences(model, separator="\n\n", bos=END, labels=None)
    row = sm.Dataset(path, sequences=sequences)[0]
    encode = sm.Tokenizer(model).encode
    block = encode(f"{BEGIN}{PAD}{FINISH}", special_in_text="id")
    end = encode(END, special_in_text="id")
    line = encode("\n\n")
    texts = [encode("a"), line, encode("b"), block, encode("c"), line, encode("d")]
    assert row["tokens"] == sum(texts, end) + end
    assert "labels" not in row


def test_parts_are_in_the_order_of_positions(tmp_path, model):
    rows = rows_of("d", ["a", picture(28, 28), "b"])
    moved = [rows[0], rows[3], rows[1], rows[2]]
    pq.write_table(pa.Table.from_pylist(moved, schema=SCHEMA), tmp_path / "0.parquet")
    row = sm.Dataset(tmp_path / "0.parquet", sequences=qwen_sequences(model))[0]
    assert_processed(row, model, ["a", picture(28, 28), "b"])


def test_metadata_rows_begin_documents_of_equal_id(tmp_path, model):
    rows = rows_of("d", ["a"]) + rows_of("d", ["b"]) + rows_of("e", ["c"])[1:]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "0.parquet")
    data = sm.Dataset(tmp_path / "0.parquet", sequences=qwen_sequences(model))
    assert [row["sample_id"] for row in data] == ["d", "d", "e"]
    assert [row["tokens"][0] for row in data] == [ord("a"), ord("b"), ord("c")]


def test_orientation_is_applied_to_tokens_and_pixels(tmp_path, model):
    exif = Image.Exif()
    exif[274] = 6
    turned = picture(30, 90, kind="JPEG", exif=exif)
    row = sm.Dataset(
        write_documents(tmp_path / "data", [[turned]]), sequences=qwen_sequences(model)
    )[0]
    assert_processed(row, model, [encoded(opened(turned))])


def test_filter_judges_metadata_and_columns_may_be_parts(tmp_path, model):
    documents = [[f"t{number}", picture(28, 28, seed=number)] for number in range(6)]
    path = write_documents(tmp_path / "data", documents, row_group_size=4)
    data = sm.Dataset(path, sequences=qwen_sequences(model), filter="words > 3")
    assert [row["sample_id"] for row in data] == ["d4", "d5"]
    data = sm.Dataset(path, sequences=qwen_sequences(model), columns=["text_content", "modality"])
    assert data[1] == {"text_content": ["t1", None], "modality": ["text", "image"]}


def test_loader_delivers_ragged_rows(tmp_path, model):
    documents = drawn(3, examples(40, 10))
    data = sm.Dataset(
        write_documents(tmp_path / "data", documents, files=3), sequences=qwen_sequences(model)
    )
    loader = sm.Loader(data, batch_size=4, output="numpy", shuffle=True, seed=3)
    seen = []
    for batch in loader:
        assert batch["pixel_values"].values.dtype == np.float32
        assert batch["image_grid_thw"].values.shape[1:] == (3,)
        for place, sample_id in enumerate(batch["sample_id"]):
            columns = ("tokens", "labels", "pixel_values", "image_grid_thw", "image_index")
            row = {name: batch[name][place].tolist() for name in columns}
            assert_processed(row, model, documents[int(sample_id[1:])])
            seen.append(sample_id)
    assert sorted(seen) == sorted(f"d{number}" for number in range(len(documents)))


def test_state_of_other_sequences_is_told_apart(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"], ["b"], ["c"]])

    def loader(packing=None, **options):
        data = sm.Dataset(path, sequences=qwen_sequences(model, **options))
        return sm.Loader(data, batch_size=1, output="numpy", packing=packing)

    # As with other tokens, the rows are the same, and packs are not.
    best_fit = sm.Packing(["tokens"], length=8, strategy="best_fit", long="drop")
    for packing in (None, best_fit):
        first = loader(packing)
        next(iter(first))
        state = first.state_dict()
        loader(packing, image_output=sm.ImageOutput(dtype="uint8")).load_state_dict(state)
        refused = (
            pytest.warns(UserWarning, match="may have other tokens")
            if packing is None
            else pytest.raises(sm.errors.CheckpointMismatchError)
        )
        with refused:
            loader(packing, separator=" ").load_state_dict(state)


def test_uint8_patches_are_those_before_normalization(tmp_path, model):
    path = write_documents(tmp_path / "data", [[picture(60, 90)]])
    output = sm.ImageOutput(dtype="uint8")
    sequences = qwen_sequences(model, image_output=output)
    mean, std = sequences.normalization
    bytes_ = np.array(sm.Dataset(path, sequences=sequences)[0]["pixel_values"])
    floats = np.array(sm.Dataset(path, sequences=qwen_sequences(model))[0]["pixel_values"])
    planes = (1, 3, 2 * 14 * 14)
    mean, std = (np.array(values).reshape(1, 3, 1) for values in (mean, std))
    normalized = (bytes_.reshape(-1, *planes[1:]) / 255 - mean) / std
    np.testing.assert_allclose(normalized, floats.reshape(-1, *planes[1:]), atol=1e-6)


@pytest.mark.parametrize(
    "part, cause",
    [
        (picture(5, 1500), "unplannable (the aspect ratio is 300.0"),
        (picture(60, 60, kind="JPEG")[:-200], "truncated"),
        (b"not an image", "format"),
        ({"modality": "image", "materialize_error": "missing member 'x.png'"}, "missing member"),
        ({"modality": "image"}, "its bytes are null"),
    ],
    ids=["ratio", "truncated", "bytes", "error", "null"],
)
def test_bad_image_is_an_error_or_a_bad_row(tmp_path, model, part, cause):
    path = write_documents(tmp_path / "data", [["a"], ["b", part], ["c"]])
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    assert data[0]["tokens"][0] == ord("a")
    with pytest.raises(sm.errors.FormatError) as caught:
        data[1]
    assert "Row 1" in str(caught.value) and "0.parquet" in str(caught.value)
    assert cause in str(caught.value)
    skipping = sm.Loader(data, batch_size=3, output="rows", errors=sm.ErrorPolicy(rows="skip"))
    assert [row["sample_id"] for batch in skipping for row in batch] == ["d0", "d2"]
    assert [bad.row for bad in skipping.bad_rows] == [1]


UNPLANNED = [picture(5, 1500), b"not an image", {"modality": "image"}]


@pytest.mark.parametrize("part", UNPLANNED, ids=["ratio", "bytes", "null"])
def test_document_is_delivered_without_an_image_that_has_no_plan(tmp_path, model, part):
    good = picture(40, 60)
    path = write_documents(tmp_path / "data", [["a", part, "b", good], [part]])
    sequences = qwen_sequences(
        model, separator=" ", image_output=sm.ImageOutput(on_error="null"), labels=None
    )
    loader = sm.Loader(sm.Dataset(path, sequences=sequences), batch_size=2, output="rows")
    [[row, empty]] = loader
    assert_processed(row, model, ["a b", good])
    assert (row["image_valid"], empty["tokens"], empty["image_valid"]) == ([True], [], [])
    assert (loader.metrics().images_left_out, loader.bad_rows) == (2, [])


@pytest.mark.parametrize("on_error", ["null", "mask"])
def test_row_keeps_the_place_of_a_damaged_image(tmp_path, model, on_error):
    good, bad = picture(40, 60), picture(60, 60, kind="JPEG")
    path = write_documents(tmp_path / "data", [["a", good, bad[:-200], "b"], ["c", good]])
    sequences = qwen_sequences(model, image_output=sm.ImageOutput(on_error=on_error))
    loader = sm.Loader(sm.Dataset(path, sequences=sequences), batch_size=2, output="rows")
    [[row, other]] = loader
    ids, pixels, grid = processed(model, ["a", good, bad, "b"])
    assert (row["tokens"], row["image_valid"]) == (ids, [True, False])
    np.testing.assert_array_equal(row["image_grid_thw"], grid)
    first = grid[0].prod()
    np.testing.assert_allclose(row["pixel_values"][:first], pixels[:first], rtol=0, atol=2.4e-7)
    assert not np.any(row["pixel_values"][first:])
    assert (set(row["labels"]) == {-100}) == (on_error == "mask")
    assert set(other["labels"]) > {-100}
    [ledger] = loader.bad_rows
    assert ledger.row == 0 and ledger.cause.startswith("part 2 of the document: truncated")


def test_images_are_in_the_places_of_markers(tmp_path, model):
    one, two, three = picture(28, 28), picture(40, 60), picture(60, 40)
    documents = [
        [one, two, "a<image>b <image>", "c"],
        ["<image>", one],
        ["<image> <image><image>d", three, one, two],
    ]
    path = write_documents(tmp_path / "data", documents)
    data = sm.Dataset(path, sequences=qwen_sequences(model, marker="<image>", separator="x"))
    expected = [["a", one, "b ", two, "c"], [one], [three, " ", one, two, "d"]]
    for row, parts in zip(data, expected, strict=True):
        assert_processed(row, model, parts)


@pytest.mark.parametrize("text, markers", [("a", 0), ("<image><image>", 2)])
def test_another_number_of_markers_than_images_is_an_error(tmp_path, model, text, markers):
    path = write_documents(tmp_path / "data", [["b"], [text, picture(28, 28)]])
    data = sm.Dataset(path, sequences=qwen_sequences(model, marker="<image>"))
    assert data[0]["tokens"]
    with pytest.raises(sm.errors.FormatError, match=f'{markers} markers "<image>" for 1 image'):
        data[1]


def test_part_of_another_modality_is_an_error(tmp_path, model):
    part = {"modality": "audio", "binary_content": b"abc"}
    path = write_documents(tmp_path / "data", [["a", part]])
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    with pytest.raises(sm.errors.FormatError, match='no place for the modality "audio"'):
        data[0]


def test_image_without_a_rule_is_an_error(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"], ["b", picture(28, 28)]])
    data = sm.Dataset(path, sequences=sm.Sequences(tokenizer=model))
    assert data[0]["tokens"] == [ord("a")]
    with pytest.raises(sm.errors.FormatError, match="Sequences has no images="):
        data[1]


@pytest.mark.parametrize("column", ["sample_id", "modality", "position"])
def test_files_that_lack_a_column_or_a_value_are_refused(tmp_path, model, column):
    table = pa.Table.from_pylist(rows_of("d", ["a"]), schema=SCHEMA)
    pq.write_table(table.drop_columns(column), tmp_path / "lacks.parquet")
    with pytest.raises(sm.errors.FormatError, match=f"has no column `{column}`"):
        sm.Dataset(tmp_path / "lacks.parquet", sequences=qwen_sequences(model))
    rows = rows_of("d", ["a"])
    rows[1][column] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "null.parquet")
    with pytest.raises(sm.errors.FormatError, match=f"its `{column}` is null"):
        sm.Dataset(tmp_path / "null.parquet", sequences=qwen_sequences(model))[0]


def test_fixed_rule_has_pixels_of_equal_size(tmp_path, model):
    rule = sm.ImageTokens.fixed((20, 30), 5, fit="stretch", placeholder=PAD)
    sequences = sm.Sequences(
        tokenizer=model, images=rule, image_output=sm.ImageOutput(normalize=(0.5, 0.25))
    )
    image = picture(50, 40)
    path = write_documents(tmp_path / "data", [["a", image, "b", picture(9, 9)]])
    row = sm.Dataset(path, sequences=sequences)[0]
    pad = sm.Tokenizer(model).token_id(PAD)
    assert row["tokens"] == [ord("a"), *[pad] * 5, ord("b"), *[pad] * 5]
    assert row["image_index"] == [[1, 5], [7, 5]]
    pixels = np.array(row["pixel_values"])
    assert pixels.shape == (2, 3, 20, 30) and "image_grid_thw" not in row
    with Image.open(io.BytesIO(image)) as opened:
        expected = np.asarray(opened.resize((30, 20), Image.Resampling.BICUBIC)) / 255
    np.testing.assert_allclose(pixels[0], (expected.transpose(2, 0, 1) - 0.5) / 0.25, atol=1e-6)


@pytest.mark.parametrize("side", [20, 21])
def test_cropped_images_are_those_of_the_processor(tmp_path, model, side):
    processor = image_processor(
        "clip", "CLIP", size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )
    sizes = [(40, 60), (61, 40), (20, 21), (9, 90), (33, 35), (47, 22), (21, 20)]
    images = [picture(*size) for size in sizes]
    path = write_documents(tmp_path / "data", [images])
    rule = sm.ImageTokens.fixed(side, 4, placeholder=PAD)
    sequences = sm.Sequences(
        tokenizer=model, images=rule, image_output=sm.ImageOutput(normalize="clip")
    )
    pixels = sm.Dataset(path, sequences=sequences)[0]["pixel_values"]
    expected = processor([opened(image) for image in images], return_tensors="np")["pixel_values"]
    np.testing.assert_allclose(pixels, expected, rtol=0, atol=1e-6)


def test_options_that_the_tokenizer_or_the_rule_lacks_are_refused(model):
    refused = [
        ({"images": sm.ImageTokens.qwen2_vl(prefix="<|vision_begin|>")}, "vision_begin"),
        ({"images": sm.ImageTokens.qwen2_vl(placeholder="<pad>")}, "<pad>"),
        ({"images": sm.ImageTokens.qwen2_vl(suffix=[10**6])}, "suffix must be an id below"),
        ({"images": sm.ImageTokens.tiles()}, "<IMG_CONTEXT>"),
        ({"images": sm.ImageTokens.fixed((20, 9), 5, placeholder=PAD)}, "requires a square"),
        (
            {"images": sm.ImageTokens.fixed(20, 5, fit="stretch", placeholder=PAD)},
            "how pixels are normalized",
        ),
        ({"output": "labels"}, "two columns of Sequences are named 'labels'"),
        (
            {
                "images": sm.ImageTokens.qwen2_vl(),
                "labels": sm.Labels("text", output="image_index"),
            },
            "two columns of Sequences are named 'image_index'",
        ),
        ({"labels": "assistant"}, "labels must be one of 'text', 'all', 'completion' or None"),
        ({"marker": "<image>"}, "marker requires images"),
        ({"images": sm.ImageTokens.qwen2_vl(), "marker": ""}, "marker must be a non-empty string"),
        ({"eos": "</s>"}, "</s>"),
    ]
    for options, reason in refused:
        with pytest.raises(ValueError, match=reason):
            sm.Sequences(tokenizer=model, **options)
    with pytest.raises(ValueError, match="labels='text' is for Sequences"):
        sm.Tokenize("text", tokenizer=model, labels="text")


def test_sequences_cannot_be_combined_with_other_computed_columns(tmp_path, model):
    with pytest.raises(ValueError, match="tokenize cannot be combined with sequences"):
        sm.Dataset(
            tmp_path,
            sequences=qwen_sequences(model),
            tokenize=sm.Tokenize("text", tokenizer=model),
        )


def test_data_set_with_sequences_can_be_pickled(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a", picture(28, 28)]])
    data = sm.Dataset(path, sequences=qwen_sequences(model))
    assert pickle.loads(pickle.dumps(data))[0] == data[0]
    assert data.token_counts().total == len(data[0]["tokens"])


def test_curated_documents_are_read(tmp_path, model):
    import shardmill.curate as curate

    documents = drawn(4, 5)
    source = write_documents(tmp_path / "in", documents)
    pipeline = curate.Pipeline(
        source=curate.InterleavedParquetSource(str(source)),
        stages=[],
        sink=curate.ParquetSink(str(tmp_path / "out")),
    )
    pipeline.run()
    data = sm.Dataset(tmp_path / "out", sequences=qwen_sequences(model))
    for number, parts in enumerate(documents):
        assert_processed(data[number], model, parts)


def test_documents_of_texts_are_packed_like_texts(tmp_path, model):
    path = write_documents(tmp_path / "data", [["a"], ["b"]])
    packing = sm.Packing(["tokens", "labels"], length=8)
    data = sm.Dataset(path, sequences=sm.Sequences(tokenizer=model, eos=END))
    [batch] = sm.Loader(data, packing=packing, output="numpy")
    end = sm.Tokenizer(model).token_id(END)
    assert batch["tokens"].tolist() == [[ord("a"), end, ord("b"), end, 0, 0, 0, 0]]
    assert batch["labels"].tolist()[0][:4] == [-100, end, -100, end]


def test_rows_are_documents_of_their_columns(tmp_path, model):
    image, other = picture(30, 60, kind="JPEG"), picture(50, 40)
    captions = ["first", "second", None]
    images = [[image], [other, image], []]
    table = pa.table(
        {
            "id": [1, 2, 3],
            "image": pa.array(
                [{"bytes": image, "path": "a"}, {"bytes": other, "path": None}, {"bytes": image}],
                pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
            ),
            "caption": captions,
            "more": pa.array(images, pa.list_(pa.binary())),
        }
    )
    path = tmp_path / "data" / "rows.parquet"
    path.parent.mkdir()
    pq.write_table(table, path, row_group_size=2)
    sequences = qwen_sequences(model, parts=["image", "caption", "more"])
    data = sm.Dataset(path.parent, sequences=sequences)
    assert data.columns[0] == "id" and "image" not in data.columns
    firsts = [image, other, image]
    for row, first, caption, more in zip(data, firsts, captions, images, strict=True):
        texts = [] if caption is None else [caption]
        assert_processed(row, model, [first, *texts, *more])
    kept = sm.Dataset(path, sequences=sequences, columns=["caption", "tokens"], filter="id = 2")
    assert [row["caption"] for row in kept] == ["second"]
    assert kept[0]["tokens"] == data[1]["tokens"]


def test_caption_pairs_of_tars_are_documents(tmp_path, model):
    pairs = [(picture(30, 60, seed=number, kind="JPEG"), f"text {number}") for number in range(5)]
    members = dict[str, bytes]()
    for number, (image, text) in enumerate(pairs):
        members |= {f"{number}.jpg": image, f"{number}.txt": text.encode()}
    path = write_tar(tmp_path / "data" / "pairs.tar", members)
    data = sm.Dataset(path.parent, sequences=qwen_sequences(model, parts=["jpg", "txt"]))
    assert [row["__key__"] for row in data] == list("01234")
    for row, pair in zip(data, pairs, strict=True):
        assert_processed(row, model, pair)


def test_parts_that_are_missing_or_of_other_types_are_refused(tmp_path, model):
    path = tmp_path / "data.parquet"
    refused = {"b": "Column `b` of .* is missing", "n": "Column `n` of .* is neither a text nor"}
    for name, reason in refused.items():
        pq.write_table(pa.table({"a": ["x"], "n": [1]}), path)
        with pytest.raises(sm.errors.FormatError, match=reason):
            sm.Dataset(path, sequences=qwen_sequences(model, parts=["a", name]))
    pq.write_table(pa.table({"a": ["x"], "modality": ["y"]}), path)
    with pytest.raises(sm.errors.FormatError, match="has the name of a column of parts"):
        sm.Dataset(path, sequences=qwen_sequences(model, parts=["a"]))
