"""Image columns: their pixels equal those of Pillow, on any rank and after every resume."""

import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from pictures import batches_of, cropped, encoded, images_of, opened, picture, written
from PIL import Image, ImageOps
from shardmill.data._dataset import opened_files

SEED = 11


@pytest.fixture
def photographs(tmp_path):
    """Forty JPEG images of different sizes in ten row groups."""
    payloads = [
        encoded(picture(number, (80 + number, 64 + number % 7)), quality=90) for number in range(40)
    ]
    return written(tmp_path / "photographs.parquet", payloads)


@pytest.mark.parametrize("as_struct", [False, True], ids=["bytes", "struct"])
@pytest.mark.parametrize("resample", ["bilinear", "bicubic", "lanczos", "box"])
def test_pixels_of_a_batch_are_those_of_pillow(tmp_path, resample, as_struct):
    payloads = [encoded(picture(number, (70 + number, 50)), quality=85) for number in range(6)]
    path = written(tmp_path / "x.parquet", payloads, as_struct=as_struct)
    images = images_of(sm.Dataset(path, images=sm.Images("image", size=32, resample=resample)))
    filter = Image.Resampling[resample.upper()]
    expected = [
        np.asarray(cropped(opened(payload), 32, filter)).transpose(2, 0, 1) for payload in payloads
    ]
    np.testing.assert_array_equal(images, expected)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_every_format_is_told_by_its_first_bytes(tmp_path, format):
    image = picture(3, mode="P" if format == "GIF" else "RGB")
    options = {"lossless": True} if format == "WEBP" else {}
    payload = encoded(image, format, **options)
    data = sm.Dataset(
        written(tmp_path / "x.parquet", [payload]), images=sm.Images("image", fit="keep")
    )
    [batch] = batches_of(data)
    assert batch["image__shape"].tolist() == [[60, 90]]
    expected = np.asarray(Image.open(io.BytesIO(payload)).convert("RGB")).transpose(2, 0, 1)
    np.testing.assert_array_equal(batch["image"][0].reshape(3, 60, 90), expected)


def test_alpha_is_composited_on_the_background_or_dropped(tmp_path):
    image = picture(5).convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    path = written(tmp_path / "x.parquet", [encoded(image, "PNG")])
    on_white = Image.alpha_composite(
        Image.new("RGBA", image.size, (255, 255, 255, 255)), image
    ).convert("RGB")
    for background, expected in (("white", on_white), (None, image.convert("RGB"))):
        images = sm.Images("image", fit="keep", background=background, layout="HWC")
        [batch] = batches_of(sm.Dataset(path, images=images))
        np.testing.assert_array_equal(batch["image"][0].reshape(60, 90, 3), np.asarray(expected))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied_unless_it_is_turned_off(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    payload = encoded(picture(2), quality=90, exif=exif)
    path = written(tmp_path / "x.parquet", [payload])
    for applied in (True, False):
        images = sm.Images("image", fit="keep", layout="HWC", orientation=applied)
        [batch] = batches_of(sm.Dataset(path, images=images))
        expected = np.asarray(opened(payload) if applied else Image.open(io.BytesIO(payload)))
        np.testing.assert_array_equal(batch["image"][0].reshape(expected.shape), expected)


def test_floats_are_normalized_as_transformers_does(photographs):
    plain = images_of(sm.Dataset(photographs, images=sm.Images("image", size=16)))
    options = {"size": 16, "dtype": "float32"}
    scaled = images_of(sm.Dataset(photographs, images=sm.Images("image", **options)))
    np.testing.assert_array_equal(scaled, plain.astype(np.float32) / np.float32(255))
    normalized = images_of(
        sm.Dataset(photographs, images=sm.Images("image", normalize="imagenet", **options))
    )
    mean, std = (
        np.float32(of).reshape(3, 1, 1) * np.float32(255)
        for of in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    )
    np.testing.assert_array_equal(normalized, (plain.astype(np.float32) - mean) / std)


@pytest.mark.parametrize("fit", ["stretch", "pad"])
def test_fits_of_a_fixed_size_are_those_of_pillow(photographs, fit):
    data = sm.Dataset(
        photographs,
        images=sm.Images("image", size=(24, 40), fit=fit, layout="HWC", background="black"),
    )
    originals = [opened(payload) for payload in pq.read_table(photographs)["image"].to_pylist()]
    bilinear = Image.Resampling.BILINEAR
    if fit == "stretch":
        expected = [image.resize((40, 24), bilinear) for image in originals]
    else:
        expected = [ImageOps.pad(image, (40, 24), bilinear, color=(0, 0, 0)) for image in originals]
    np.testing.assert_array_equal(images_of(data), [np.asarray(image) for image in expected])


def test_column_of_the_data_with_the_name_of_a_computed_one_is_refused(tmp_path):
    table = pa.table({"image": [encoded(picture(0), "PNG")], "image__shape": [[1, 2]]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(sm.OptionError, match="`image__shape`.*\n.*rename that column in the data"):
        sm.Dataset(tmp_path / "a.parquet", images=sm.Images("image", fit="keep"))


def test_longest_side_keeps_the_ratio_and_shapes_follow(photographs):
    data = sm.Dataset(photographs, images=sm.Images("image", size=32, fit="longest"))
    assert data.columns == ["image", "row", "image__shape"] or set(data.columns) == {
        "image",
        "row",
        "image__shape",
    }
    for batch in batches_of(data, batch_size=8):
        for number, (height, width) in enumerate(batch["image__shape"].tolist()):
            assert max(height, width) == 32
            assert batch["image"][number].size == 3 * height * width


def test_rows_by_index_and_arrow_batches_have_the_same_pixels(photographs):
    data = sm.Dataset(photographs, images=sm.Images("image", size=16))
    batches = images_of(data)
    assert np.array_equal(np.array(data[13]["image"]), batches[13])
    taken = data.take([7, 2])
    assert np.array_equal(np.array(taken["image"].to_pylist()), batches[[7, 2]])
    streamed = pa.table(data)["image"]
    assert np.array_equal(np.array(streamed.to_pylist()), batches)


def augmented(path, **options):
    images = sm.Images("image", size=16, fit=sm.RandomCrop(scale=(0.2, 0.9)), flip=0.5)
    return sm.Dataset(path, images=images, **options)


def loader(path, rank=0, world_size=1, threads=2, **options):
    return sm.Loader(
        augmented(path),
        batch_size=8 // world_size,
        shuffle=True,
        seed=SEED,
        lanes=4,
        tail="drop",
        output="numpy",
        rank=rank,
        world_size=world_size,
        runtime=sm.Runtime(threads=threads),
        **options,
    )


def test_random_crops_are_what_geometry_says(photographs):
    images = opened_files(augmented(photographs)).images[0][0]
    originals = [opened(payload) for payload in pq.read_table(photographs)["image"].to_pylist()]
    for batch in loader(photographs):
        for pixels, row in zip(batch["image"], batch["row"].tolist(), strict=True):
            image = originals[row]
            (top, left, height, width), target, flip = images.geometry(
                image.height, image.width, seed=SEED, epoch=0, row=row
            )
            part = image.crop((left, top, left + width, top + height)).resize(
                target[::-1], Image.Resampling.BILINEAR
            )
            part = ImageOps.mirror(part) if flip else part
            np.testing.assert_array_equal(pixels, np.asarray(part).transpose(2, 0, 1))


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("threads", [1, 16])
def test_resumed_run_has_the_same_pixels_on_any_ranks_and_threads(photographs, world_size, threads):
    whole = [batch["image"] for batch in loader(photographs)]
    first = [loader(photographs, rank, 4) for rank in range(4)]
    passes = [iter(one) for one in first]
    for _ in range(2):
        parts = [next(one) for one in passes]
    np.testing.assert_array_equal(np.concatenate([part["image"] for part in parts]), whole[1])
    resumed = [loader(photographs, rank, world_size, threads) for rank in range(world_size)]
    for one in resumed:
        one.load_state_dict(first[0].state_dict())
    for parts, expected in zip(zip(*resumed, strict=True), whole[2:], strict=True):
        np.testing.assert_array_equal(np.concatenate([part["image"] for part in parts]), expected)


def test_bytes_come_with_the_geometry_of_the_pixels(photographs):
    images = sm.Images(
        "image", size=16, fit=sm.RandomCrop(scale=(0.2, 0.9)), flip=0.5, layout="bytes"
    )
    payloads = pq.read_table(photographs)["image"].to_pylist()
    data = sm.Dataset(photographs, images=images)
    for batch in sm.Loader(data, batch_size=8, shuffle=True, seed=SEED, output="numpy"):
        for place, row in enumerate(batch["row"].tolist()):
            assert batch["image"][place].tobytes() == payloads[row]
            image = opened(payloads[row])
            box, _, flip = images.geometry(image.height, image.width, seed=SEED, epoch=0, row=row)
            assert batch["image__geometry"][place].tolist() == [
                image.height,
                image.width,
                *box,
                int(flip),
                1,
            ]


def test_epochs_and_seeds_have_crops_of_their_own(photographs):
    one = loader(photographs)
    first = {
        row: pixels
        for batch in one
        for row, pixels in zip(batch["row"].tolist(), batch["image"], strict=True)
    }
    second = {
        row: pixels
        for batch in one
        for row, pixels in zip(batch["row"].tolist(), batch["image"], strict=True)
    }
    assert all(not np.array_equal(first[row], second[row]) for row in first)


def test_repeated_draws_of_a_mixture_have_crops_of_their_own(photographs):
    def run():
        mixture = sm.Mixture({"a": augmented(photographs)}, repeat=2)
        seen = {}
        for batch in sm.Loader(
            mixture, batch_size=16, seed=SEED, output="numpy", runtime=sm.Runtime(threads=4)
        ):
            for row, pixels in zip(batch["row"].tolist(), batch["image"], strict=True):
                seen.setdefault(row, []).append(pixels)
        return seen

    seen = run()
    assert all(len(draws) == 2 and not np.array_equal(*draws) for draws in seen.values())
    assert all(
        np.array_equal(draws, again)
        for draws, again in zip(seen.values(), run().values(), strict=True)
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("size", 8),
        ("dtype", "float32"),
        ("layout", "HWC"),
        ("channels", "L"),
        ("on_error", "null"),
        ("fit", "keep"),
    ],
)
def test_sources_whose_images_differ_in_form_are_refused(photographs, option, value):
    options = {"size": 16} | {option: value}
    if value == "keep":
        del options["size"]
    sources = [
        sm.Dataset(photographs, images=sm.Images("image", **one)) for one in ({"size": 16}, options)
    ]
    with pytest.raises(sm.OptionError, match="in source '0', and .* in source '1'"):
        sm.Mixture(sources)


def test_pixels_in_file_order_come_in_superbatches_of_a_bounded_size(tmp_path):
    path = written(
        tmp_path / "one_group.parquet",
        [encoded(picture(number)) for number in range(120)],
        rows=120,
    )
    data = sm.Dataset(path, images=sm.Images("image", size=512, dtype="float32"))
    batches = iter(sm.Loader(data, batch_size=4, output="numpy", runtime=sm.Runtime(threads=1)))
    first, second = next(batches)["image"], next(batches)["image"]
    assert first.shape == second.shape == (4, 3, 512, 512)
    # A superbatch ends with the batch that reaches 16 MiB.
    assert second.base.nbytes <= (16 << 20) + first.nbytes


def test_row_keeps_its_pixels_under_a_filter(photographs):
    kept = augmented(photographs, filter="row >= 25")
    whole = {
        row: pixels
        for batch in batches_of(augmented(photographs))
        for row, pixels in zip(batch["row"], batch["image"], strict=True)
    }
    for batch in batches_of(kept):
        for row, pixels in zip(batch["row"], batch["image"], strict=True):
            np.testing.assert_array_equal(pixels, whole[row])


def test_torch_batches_are_tensors_of_the_type(photographs):
    torch = pytest.importorskip("torch")
    data = sm.Dataset(
        photographs, images=sm.Images("image", size=16, dtype="bfloat16", normalize="siglip")
    )
    wide = sm.Dataset(
        photographs, images=sm.Images("image", size=16, dtype="float32", normalize="siglip")
    )
    for narrow, exact in zip(
        sm.Loader(data, batch_size=8), sm.Loader(wide, batch_size=8), strict=True
    ):
        assert narrow["image"].dtype == torch.bfloat16
        assert torch.equal(narrow["image"], exact["image"].to(torch.bfloat16))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "size is missing"),
        ({"size": 0}, "size must be"),
        ({"size": 16, "fit": "keep"}, "takes no size"),
        ({"size": (16, 8), "fit": "longest"}, "one number"),
        ({"size": 16, "fit": "cover"}, "fit must be one of"),
        ({"size": 16, "fit": sm.RandomCrop}, "fit must be one of"),
        ({"size": 16, "resample": "cubic"}, "resample must be one of"),
        ({"size": 16, "flip": 1.5}, "probability"),
        ({"size": 16, "normalize": "imagenet"}, "needs dtype"),
        ({"size": 16, "layout": "bytes", "dtype": "float32"}, "encoded images"),
        ({"size": 16, "dtype": "float32", "normalize": (0.5, 0)}, "normalize must be"),
        ({"size": 16, "dtype": "float32", "channels": "L", "normalize": "clip"}, "three channels"),
        ({"size": 16, "background": "mauve"}, "background must be"),
        ({"size": 16, "max_pixels": 0}, "max_pixels must be"),
        ({"size": 16, "on_error": "skip"}, "ErrorPolicy"),
        (
            {"size": 16, "source": "paths"},
            "source must be one of 'bytes', 'path', 'url', not 'paths'",
        ),
    ],
)
def test_option_that_is_not_valid_says_what_is(options, message):
    with pytest.raises(sm.OptionError, match=message):
        sm.Images("image", **options)


def test_option_for_another_jpeg_decoder_is_refused_with_the_reason():
    with pytest.raises(
        TypeError, match="'decoder'\nhint: remove it: libjpeg-turbo .* than Pillow$"
    ):
        sm.Images("image", size=16, decoder="rust")  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("form", ["cell", "field", "item"])
def test_images_in_a_dictionary_are_decoded(tmp_path, form):
    payloads = [encoded(picture(number), "PNG") for number in (0, 1, 0)]
    plain = images_of(
        sm.Dataset(written(tmp_path / "plain.parquet", payloads), images=sm.Images("image", size=8))
    )
    cells = pa.array(payloads).dictionary_encode()
    if form == "field":
        cells = pa.StructArray.from_arrays([cells], ["bytes"])
    elif form == "item":
        cells = pa.ListArray.from_arrays([0, 1, 2, 3], cells)
    pq.write_table(pa.table({"image": cells}), tmp_path / "x.parquet")
    (batch,) = batches_of(sm.Dataset(tmp_path / "x.parquet", images=sm.Images("image", size=8)))
    np.testing.assert_array_equal(
        batch["image"].values if form == "item" else batch["image"], plain
    )


def test_column_of_another_type_is_an_error(tmp_path):
    pq.write_table(pa.table({"image": [1, 2]}), tmp_path / "x.parquet")
    with pytest.raises(sm.OptionError, match="images are bytes"):
        sm.Dataset(tmp_path / "x.parquet", images=sm.Images("image", size=8))
    with pytest.raises(KeyError):
        sm.Dataset(tmp_path / "x.parquet", images=sm.Images("photo", size=8))


def test_data_set_with_images_is_pickled(photographs):
    data = pickle.loads(pickle.dumps(augmented(photographs)))
    assert np.array_equal(images_of(data), images_of(augmented(photographs)))


def test_state_of_other_images_is_loaded_with_a_warning(photographs):
    first = loader(photographs)
    next(iter(first))
    other = sm.Loader(
        sm.Dataset(photographs, images=sm.Images("image", size=16)),
        batch_size=8,
        shuffle=True,
        seed=SEED,
        lanes=4,
        output="numpy",
    )
    with pytest.warns(
        UserWarning, match=r"sm\.Images\('image', fit=.*loader has fit=.*may have other pixels"
    ):
        other.load_state_dict(first.state_dict())


@pytest.mark.parametrize("options", [{"fit": sm.RandomCrop()}, {"flip": 0.5}])
def test_state_of_another_seed_is_refused_where_images_are_drawn(photographs, options):
    def plain(seed):
        data = sm.Dataset(photographs, images=sm.Images("image", size=16, **options))
        return sm.Loader(data, batch_size=8, seed=seed, output="numpy")

    with pytest.raises(
        sm.CheckpointMismatchError, match="saved with seed=1, this loader has seed=2"
    ):
        plain(2).load_state_dict(plain(1).state_dict())


def test_state_without_images_is_loaded_with_a_warning_about_columns(photographs):
    plain = sm.Loader(photographs, batch_size=8, columns=["row"], output="numpy")
    with_images = sm.Loader(
        sm.Dataset(photographs, images=sm.Images("image", size=16)), batch_size=8, output="numpy"
    )
    with pytest.warns(
        UserWarning,
        match="without images, and this loader has them: the same rows have other columns",
    ):
        with_images.load_state_dict(plain.state_dict())
    with pytest.warns(UserWarning, match="with images, and this loader has none"):
        plain.load_state_dict(with_images.state_dict())


@pytest.mark.parametrize("number", [{"row": -1}, {"epoch": 2**64}, {"seed": 2**63}, {"item": "0"}])
def test_geometry_of_a_number_that_is_not_valid_is_an_error(number):
    with pytest.raises(sm.OptionError, match=next(iter(number))):
        sm.Images("image", size=8).geometry(4, 4, **number)


def test_image_column_in_a_struct_is_delivered(tmp_path):
    payload = encoded(picture(1), "PNG")
    pq.write_table(
        pa.table({"meta": [{"photo": payload, "id": 7}], "row": [0]}), tmp_path / "x.parquet"
    )
    data = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("meta.photo", size=8))
    assert data.columns == ["meta", "row", "meta.photo"]
    (batch,) = batches_of(data, columns=["meta.photo"])
    assert batch["meta.photo"].shape == (1, 3, 8, 8)
