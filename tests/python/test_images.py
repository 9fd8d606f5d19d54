"""Image columns: their pixels equal those of Pillow, on any rank and after every resume, and bad images are reported."""

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from pictures import batches_of, cropped, encoded, images_of, opened, picture
from PIL import Image, ImageOps
from shardmill._native.pixels import build_info

SEED = 11


def written(path, payloads, *, as_struct=False, rows=4):
    cells = [{"bytes": payload, "path": "x"} for payload in payloads] if as_struct else payloads
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()}) if as_struct else pa.binary()
    pq.write_table(pa.table({"image": pa.array(cells, kind), "row": range(len(cells))}), path, row_group_size=rows)
    return path


@pytest.fixture
def photographs(tmp_path):
    """Forty JPEG images of different sizes in ten row groups."""
    payloads = [encoded(picture(number, (80 + number, 64 + number % 7)), quality=90) for number in range(40)]
    return written(tmp_path / "photographs.parquet", payloads)


@pytest.mark.parametrize("as_struct", [False, True], ids=["bytes", "struct"])
@pytest.mark.parametrize("resample", ["bilinear", "bicubic", "lanczos", "box"])
def test_pixels_of_a_batch_are_those_of_pillow(tmp_path, resample, as_struct):
    payloads = [encoded(picture(number, (70 + number, 50)), quality=85) for number in range(6)]
    path = written(tmp_path / "x.parquet", payloads, as_struct=as_struct)
    images = images_of(sm.Dataset(path, images=sm.Images("image", size=32, resample=resample)))
    filter = Image.Resampling[resample.upper()]
    expected = [np.asarray(cropped(opened(payload), 32, filter)).transpose(2, 0, 1) for payload in payloads]
    np.testing.assert_array_equal(images, expected)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_every_format_is_told_by_its_first_bytes(tmp_path, format):
    image = picture(3, mode="P" if format == "GIF" else "RGB")
    options = {"lossless": True} if format == "WEBP" else {}
    payload = encoded(image, format, **options)
    data = sm.Dataset(written(tmp_path / "x.parquet", [payload]), images=sm.Images("image", fit="keep"))
    [batch] = batches_of(data)
    assert batch["image__shape"].tolist() == [[60, 90]]
    expected = np.asarray(Image.open(io.BytesIO(payload)).convert("RGB")).transpose(2, 0, 1)
    np.testing.assert_array_equal(batch["image"][0].reshape(3, 60, 90), expected)


def test_alpha_is_composited_on_the_background_or_dropped(tmp_path):
    image = picture(5).convert("RGBA")
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    path = written(tmp_path / "x.parquet", [encoded(image, "PNG")])
    on_white = Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image).convert("RGB")
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
    normalized = images_of(sm.Dataset(photographs, images=sm.Images("image", normalize="imagenet", **options)))
    mean, std = (
        np.float32(of).reshape(3, 1, 1) * np.float32(255) for of in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    )
    np.testing.assert_array_equal(normalized, (plain.astype(np.float32) - mean) / std)


@pytest.mark.parametrize("fit", ["stretch", "pad"])
def test_fits_of_a_fixed_size_are_those_of_pillow(photographs, fit):
    data = sm.Dataset(photographs, images=sm.Images("image", size=(24, 40), fit=fit, layout="HWC", background="black"))
    originals = [opened(payload) for payload in pq.read_table(photographs)["image"].to_pylist()]
    bilinear = Image.Resampling.BILINEAR
    if fit == "stretch":
        expected = [image.resize((40, 24), bilinear) for image in originals]
    else:
        expected = [ImageOps.pad(image, (40, 24), bilinear, color=(0, 0, 0)) for image in originals]
    np.testing.assert_array_equal(images_of(data), [np.asarray(image) for image in expected])


def test_longest_side_keeps_the_ratio_and_shapes_follow(photographs):
    data = sm.Dataset(photographs, images=sm.Images("image", size=32, fit="longest"))
    assert data.columns == ["image", "row", "image__shape"] or set(data.columns) == {"image", "row", "image__shape"}
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
    images = augmented(photographs)._images[0]
    originals = [opened(payload) for payload in pq.read_table(photographs)["image"].to_pylist()]
    for batch in loader(photographs):
        for pixels, row in zip(batch["image"], batch["row"].tolist(), strict=True):
            image = originals[row]
            (top, left, height, width), target, flip = images.geometry(
                image.height, image.width, seed=SEED, epoch=0, row=row
            )
            part = image.crop((left, top, left + width, top + height)).resize(target[::-1], Image.Resampling.BILINEAR)
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
    images = sm.Images("image", size=16, fit=sm.RandomCrop(scale=(0.2, 0.9)), flip=0.5, layout="bytes")
    payloads = pq.read_table(photographs)["image"].to_pylist()
    data = sm.Dataset(photographs, images=images)
    for batch in sm.Loader(data, batch_size=8, shuffle=True, seed=SEED, output="numpy"):
        for place, row in enumerate(batch["row"].tolist()):
            assert batch["image"][place].tobytes() == payloads[row]
            image = opened(payloads[row])
            box, _, flip = images.geometry(image.height, image.width, seed=SEED, epoch=0, row=row)
            assert batch["image__geometry"][place].tolist() == [image.height, image.width, *box, int(flip), 1]


def test_epochs_and_seeds_have_crops_of_their_own(photographs):
    one = loader(photographs)
    first = {row: pixels for batch in one for row, pixels in zip(batch["row"].tolist(), batch["image"], strict=True)}
    second = {row: pixels for batch in one for row, pixels in zip(batch["row"].tolist(), batch["image"], strict=True)}
    assert all(not np.array_equal(first[row], second[row]) for row in first)


def test_repeated_draws_of_a_mixture_have_crops_of_their_own(photographs):
    def run():
        mixture = sm.Mixture({"a": augmented(photographs)}, repeat=2)
        seen = {}
        for batch in sm.Loader(mixture, batch_size=16, seed=SEED, output="numpy", runtime=sm.Runtime(threads=4)):
            for row, pixels in zip(batch["row"].tolist(), batch["image"], strict=True):
                seen.setdefault(row, []).append(pixels)
        return seen

    seen = run()
    assert all(len(draws) == 2 and not np.array_equal(*draws) for draws in seen.values())
    assert all(np.array_equal(draws, again) for draws, again in zip(seen.values(), run().values(), strict=True))


@pytest.mark.parametrize(
    ("option", "value"),
    [("size", 8), ("dtype", "float32"), ("layout", "HWC"), ("channels", "L"), ("on_error", "null"), ("fit", "keep")],
)
def test_sources_whose_images_differ_in_form_are_refused(photographs, option, value):
    options = {"size": 16} | {option: value}
    if value == "keep":
        del options["size"]
    sources = [sm.Dataset(photographs, images=sm.Images("image", **one)) for one in ({"size": 16}, options)]
    with pytest.raises(sm.OptionError, match="in source '0', and .* in source '1'"):
        sm.Mixture(sources)


def test_pixels_in_file_order_come_in_superbatches_of_a_bounded_size(tmp_path):
    path = written(tmp_path / "one_group.parquet", [encoded(picture(number)) for number in range(120)], rows=120)
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
    data = sm.Dataset(photographs, images=sm.Images("image", size=16, dtype="bfloat16", normalize="siglip"))
    wide = sm.Dataset(photographs, images=sm.Images("image", size=16, dtype="float32", normalize="siglip"))
    for narrow, exact in zip(sm.Loader(data, batch_size=8), sm.Loader(wide, batch_size=8), strict=True):
        assert narrow["image"].dtype == torch.bfloat16
        assert torch.equal(narrow["image"], exact["image"].to(torch.bfloat16))


class TestBadImages:
    @pytest.fixture
    def damaged(self, tmp_path):
        """Twelve rows in three row groups; rows 2, 5 and 6 have bad images."""
        payloads = [encoded(picture(number), quality=90) for number in range(12)]
        payloads[2], payloads[5], payloads[6] = payloads[2][:300], b"no image", payloads[6][:-200]
        return written(tmp_path / "damaged.parquet", payloads)

    def test_first_bad_image_is_an_error_with_file_row_and_cause(self, damaged):
        data = sm.Dataset(damaged, images=sm.Images("image", size=16))
        with pytest.raises(
            sm.FormatError, match=r"Row 2 of `.*damaged.parquet`: the image in column `image` is bad: truncated"
        ):
            batches_of(data, batch_size=4)

    def test_batches_before_the_bad_one_are_delivered(self, damaged):
        loader = sm.Loader(sm.Dataset(damaged, images=sm.Images("image", size=16)), batch_size=2, output="numpy")
        batches = iter(loader)
        assert next(batches)["row"].tolist() == [0, 1]
        with pytest.raises(sm.FormatError, match="Row 2"):
            next(batches)

    def test_skipped_rows_are_left_out_and_listed(self, damaged):
        loader = sm.Loader(
            sm.Dataset(damaged, images=sm.Images("image", size=16)),
            batch_size=6,
            errors=sm.ErrorPolicy(rows="skip"),
            output="numpy",
        )
        rows = [batch["row"].tolist() for batch in loader]
        assert rows == [[0, 1, 3, 4], [7, 8, 9, 10, 11]]
        assert [bad.row for bad in loader.bad_rows] == [2, 5, 6]
        assert "unknown format" in loader.bad_rows[1].cause

    def test_replaced_rows_are_whole_rows_of_their_block(self, damaged):
        def run(threads):
            loader = sm.Loader(
                sm.Dataset(damaged, images=sm.Images("image", size=16)),
                batch_size=5,
                errors=sm.ErrorPolicy(rows="replace"),
                output="numpy",
                runtime=sm.Runtime(threads=threads),
            )
            batches = list(loader)
            return np.concatenate([batch["row"] for batch in batches]), np.concatenate(
                [batch["image"] for batch in batches]
            )

        rows, images = run(1)
        good = images_of(sm.Dataset(damaged, filter="row not in (2, 5, 6)", images=sm.Images("image", size=16)))
        place = dict(zip([row for row in range(12) if row not in (2, 5, 6)], good, strict=True))
        assert len(rows) == 12 and not {2, 5, 6} & set(rows.tolist())
        assert [row // 4 for row in rows.tolist()] == [row // 4 for row in range(12)]
        for row, pixels in zip(rows.tolist(), images, strict=True):
            np.testing.assert_array_equal(pixels, place[row])
        again = run(3)
        assert np.array_equal(rows, again[0]) and np.array_equal(images, again[1])

    def test_rows_of_a_block_without_a_good_image_are_replaced_from_other_blocks(self, tmp_path):
        payloads = [encoded(picture(number)) for number in range(24)]
        payloads[8:12] = [b"no image"] * 4
        written(tmp_path / "a.parquet", payloads)
        written(tmp_path / "b.parquet", [b"no image"])
        data = sm.Dataset(tmp_path, images=sm.Images("image", size=16))

        def loader(batch_size=5, **options):
            return sm.Loader(
                data,
                batch_size=batch_size,
                shuffle=True,
                lanes=2,
                errors=sm.ErrorPolicy(rows="replace"),
                output="numpy",
                **options,
            )

        def run(**options):
            return [batch["image"] for batch in loader(**options)]

        whole = np.concatenate(run())
        good = images_of(
            sm.Dataset(tmp_path / "a.parquet", filter="row not in (8, 9, 10, 11)", images=sm.Images("image", size=16))
        )
        assert len(whole) == 25 and all(any(np.array_equal(pixels, other) for other in good) for pixels in whole)
        np.testing.assert_array_equal(whole, np.concatenate(run(runtime=sm.Runtime(threads=3))))
        ranks = [run(batch_size=2, rank=rank, world_size=2, tail="drop") for rank in range(2)]
        np.testing.assert_array_equal(
            np.concatenate(run(batch_size=4, tail="drop")),
            np.concatenate([batch for step in zip(*ranks, strict=True) for batch in step]),
        )
        first, resumed = loader(), loader()
        batches = iter(first)
        head = [next(batches)["image"] for _ in range(2)]
        resumed.load_state_dict(first.state_dict())
        np.testing.assert_array_equal(whole, np.concatenate([*head, *(batch["image"] for batch in resumed)]))
        assert len(first.bad_rows) + len(resumed.bad_rows) >= 5 and len({bad.path for bad in resumed.bad_rows}) <= 2

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_only_sample_of_a_tar_with_a_bad_image_is_replaced_from_other_tars(self, tmp_path, shuffle):
        for name, payloads in (("a", [encoded(picture(number)) for number in range(9)]), ("b", [b"no image"])):
            with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
                for number, payload in enumerate(payloads):
                    for extension, content in (("jpg", payload), ("cls", str(number).encode())):
                        member = tarfile.TarInfo(f"{name}{number}.{extension}")
                        member.size = len(content)
                        tar.addfile(member, io.BytesIO(content))
        data = sm.Dataset(tmp_path, images=sm.Images("jpg", size=16))
        loader = sm.Loader(data, shuffle=shuffle, errors=sm.ErrorPolicy(rows="replace"), output="dict", batch_size=4)
        keys = [str(key) for batch in loader for key in batch["__key__"]]
        assert len(keys) == 10 and set(keys) == {f"a{number}" for number in range(9)}
        assert [(Path(bad.path).name, bad.row) for bad in loader.bad_rows] == [("b.tar", 0)]

    def test_row_that_was_replaced_while_it_was_read_is_listed_once(self, tmp_path):
        payloads = [encoded(picture(number)) if number % 2 else b"no image" for number in range(8)]
        path = tmp_path / "x.parquet"
        table = pa.table({"image": payloads, "text": [f"{number} of 8" for number in range(8)]})
        pq.write_table(
            table, path, row_group_size=2, compression="none", use_dictionary=False, write_page_checksum=True
        )
        content = path.read_bytes()
        path.write_bytes(content.replace(b"3 of 8", b"5 of 5"))
        data = sm.Dataset(path, images=sm.Images("image", size=16))
        loader = sm.Loader(data, errors=sm.ErrorPolicy(rows="replace"), output="numpy", batch_size=8)
        assert len(next(iter(loader))["image"]) == 8
        # One of the rows that are read in place of 2 and 3 has a bad image.
        assert sorted(bad.row for bad in loader.bad_rows) == [0, 2, 3, 4, 6]

    def test_replacement_without_any_good_image_is_an_error(self, tmp_path):
        path = written(tmp_path / "x.parquet", [b"no image"] * 9)
        loader = sm.Loader(
            sm.Dataset(path, images=sm.Images("image", size=16)), errors=sm.ErrorPolicy(rows="replace"), output="numpy"
        )
        with pytest.raises(sm.FormatError, match="No row could be read that would replace the bad ones"):
            next(iter(loader))

    def test_null_fills_and_marks(self, damaged):
        images = sm.Images("image", size=16, on_error="null", background=(1, 2, 3))
        [batch] = batches_of(sm.Dataset(damaged, images=images))
        assert (~batch["image__valid"]).nonzero()[0].tolist() == [2, 5, 6]
        for row in (2, 5, 6):
            assert batch["image"][row].reshape(3, -1).T.tolist() == [[1, 2, 3]] * 256

    def test_null_images_can_be_filtered(self, tmp_path):
        payload = encoded(picture(1), "PNG")
        path = written(tmp_path / "x.parquet", [payload, None, payload, None])
        images = sm.Images("image", size=4)
        rows = {
            text: len(sm.Dataset(path, filter=text, images=images)) for text in ("image is not null", "image is null")
        }
        assert rows == {"image is not null": 2, "image is null": 2}
        found = sm.Loader(sm.Dataset(path, filter="image is not null", images=images), output="numpy")
        assert sum(len(batch["image"]) for batch in found) == 2

    def test_masks_are_those_of_the_columns_that_can_be_null(self, damaged):
        images = sm.Images("image", size=16, on_error="null")
        loader = sm.Loader(sm.Dataset(damaged, images=images), output=sm.Output("numpy", nulls="mask"))
        added = {name for batch in loader for name in batch if name.startswith("image")}
        assert added == {"image", "image__valid"}
        loader = sm.Loader(
            sm.Dataset(damaged, filter="row = 0", images=sm.Images("image", fit="keep")),
            output=sm.Output("numpy", nulls="mask"),
        )
        [batch] = loader
        assert {name for name in batch if name.startswith("image")} == {"image", "image__shape", "image__valid"}

    def test_bfloat16_pixels_are_not_filled_with_numbers(self, damaged):
        images = sm.Images("image", size=16, dtype="bfloat16")
        with pytest.raises(ValueError, match="'image', which has dtype='bfloat16'"):
            sm.Loader(
                sm.Dataset(damaged, images=images),
                output=sm.Output("torch", nulls="fill", fill_values={"image": 7}),
            )

    def test_accepted_damage_is_what_pillow_makes_of_it(self, tmp_path):
        payload = bytearray(encoded(picture(6), quality=95))
        middle = len(payload) // 2
        payload[middle : middle + 120] = b"\xff\x00" * 60
        path = written(tmp_path / "x.parquet", [bytes(payload)])
        with pytest.raises(sm.FormatError, match="damaged"):
            batches_of(sm.Dataset(path, images=sm.Images("image", fit="keep")))
        [batch] = batches_of(sm.Dataset(path, images=sm.Images("image", fit="keep", layout="HWC", damaged="accept")))
        expected = np.asarray(Image.open(io.BytesIO(payload)))
        pixels = batch["image"][0].reshape(expected.shape)
        # Without SIMD, coefficients that no encoder writes give other pixels.
        if build_info()[1] is not False:
            np.testing.assert_array_equal(pixels, expected)

    def test_image_above_max_pixels_is_bad_before_it_is_decoded(self, tmp_path):
        path = written(tmp_path / "x.parquet", [encoded(picture(1, (50, 40)), "PNG")])
        with pytest.raises(sm.FormatError, match="limit"):
            batches_of(sm.Dataset(path, images=sm.Images("image", size=16, max_pixels=1999)))

    def test_null_cells_follow_the_policy_for_nulls(self, tmp_path):
        path = written(tmp_path / "x.parquet", [encoded(picture(1)), None])
        data = sm.Dataset(path, images=sm.Images("image", size=16))
        with pytest.raises(ValueError, match="null"):
            batches_of(data)
        [batch] = list(sm.Loader(data, output=sm.Output("numpy", nulls="mask")))
        assert batch["image__valid"].tolist() == [True, False]


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
    ],
)
def test_option_that_is_not_valid_says_what_is(options, message):
    with pytest.raises(sm.OptionError, match=message):
        sm.Images("image", **options)


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
    with pytest.warns(UserWarning, match="other pixels"):
        other.load_state_dict(first.state_dict())


@pytest.mark.parametrize("number", [{"row": -1}, {"epoch": 2**64}, {"seed": 2**63}, {"item": "0"}])
def test_geometry_of_a_number_that_is_not_valid_is_an_error(number):
    with pytest.raises(sm.OptionError, match=next(iter(number))):
        sm.Images("image", size=8).geometry(4, 4, **number)


def test_image_column_in_a_struct_is_delivered(tmp_path):
    payload = encoded(picture(1), "PNG")
    pq.write_table(pa.table({"meta": [{"photo": payload, "id": 7}], "row": [0]}), tmp_path / "x.parquet")
    data = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("meta.photo", size=8))
    assert data.columns == ["meta", "row", "meta.photo"]
    (batch,) = batches_of(data, columns=["meta.photo"])
    assert batch["meta.photo"].shape == (1, 3, 8, 8)
