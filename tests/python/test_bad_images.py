"""Images that cannot be decoded, and what each policy makes of their rows."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from pictures import batches_of, encoded, images_of, picture, written
from PIL import Image
from shardmill._native.pixels import build_info


@pytest.fixture
def damaged(tmp_path):
    """Twelve rows in three row groups; rows 2, 5 and 6 have bad images."""
    payloads = [encoded(picture(number), quality=90) for number in range(12)]
    payloads[2], payloads[5], payloads[6] = payloads[2][:300], b"no image", payloads[6][:-200]
    return written(tmp_path / "damaged.parquet", payloads)


def test_first_bad_image_is_an_error_with_file_row_and_cause(damaged):
    data = sm.Dataset(damaged, images=sm.Images("image", size=16))
    with pytest.raises(
        sm.FormatError,
        match=r"Row 2 of `.*damaged.parquet`: the image in column `image` is bad: truncated",
    ):
        batches_of(data, batch_size=4)


@pytest.mark.parametrize("are_lists", [False, True], ids=["images", "lists"])
def test_null_image_says_that_on_error_fills_it(tmp_path, are_lists):
    payload = encoded(picture(0))
    cells = (
        pa.array([[payload], None], pa.list_(pa.binary()))
        if are_lists
        else pa.array([payload, None])
    )
    for has_statistics in (True, False):
        # With statistics, the null is known before the first batch.
        pq.write_table(
            pa.table({"image": cells}), tmp_path / "x.parquet", write_statistics=has_statistics
        )
        with pytest.raises(ValueError, match=r'hint: Images\(on_error="null"\) fills such images'):
            batches_of(sm.Dataset(tmp_path / "x.parquet", images=sm.Images("image", size=16)))


def test_batches_before_the_bad_one_are_delivered(damaged):
    loader = sm.Loader(
        sm.Dataset(damaged, images=sm.Images("image", size=16)), batch_size=2, output="numpy"
    )
    batches = iter(loader)
    assert next(batches)["row"].tolist() == [0, 1]
    with pytest.raises(sm.FormatError, match="Row 2"):
        next(batches)


def test_skipped_rows_are_left_out_and_listed(damaged):
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


@pytest.mark.parametrize("layout", ["CHW", "bytes"])
def test_bad_header_is_counted_by_the_same_cause_in_every_layout(tmp_path, layout):
    payloads = [b"no image", b"GIF89a", encoded(picture(0), "PNG"), encoded(picture(0, (9, 7)))]
    images = sm.Images("image", size=8, layout=layout, max_pixels=100)
    data = sm.Dataset(written(tmp_path / "x.parquet", payloads), images=images)
    loader = sm.Loader(data, errors=sm.ErrorPolicy(rows="skip"), output="numpy")
    assert [batch["row"].tolist() for batch in loader] == [[3]]
    causes = [bad.cause.partition(" is bad: ")[2] for bad in loader.bad_rows]
    assert [cause.partition(" (")[0] for cause in causes] == [
        "unknown format",
        "truncated",
        "limit",
    ]


def test_replaced_rows_are_whole_rows_of_their_block(damaged):
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
    good = images_of(
        sm.Dataset(damaged, filter="row not in (2, 5, 6)", images=sm.Images("image", size=16))
    )
    place = dict(zip([row for row in range(12) if row not in (2, 5, 6)], good, strict=True))
    assert len(rows) == 12 and not {2, 5, 6} & set(rows.tolist())
    assert [row // 4 for row in rows.tolist()] == [row // 4 for row in range(12)]
    for row, pixels in zip(rows.tolist(), images, strict=True):
        np.testing.assert_array_equal(pixels, place[row])
    again = run(3)
    assert np.array_equal(rows, again[0]) and np.array_equal(images, again[1])


def test_rows_of_a_block_without_a_good_image_are_replaced_from_other_blocks(tmp_path):
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
        sm.Dataset(
            tmp_path / "a.parquet",
            filter="row not in (8, 9, 10, 11)",
            images=sm.Images("image", size=16),
        )
    )
    assert len(whole) == 25 and all(
        any(np.array_equal(pixels, other) for other in good) for pixels in whole
    )
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
    np.testing.assert_array_equal(
        whole, np.concatenate([*head, *(batch["image"] for batch in resumed)])
    )
    assert (
        len(first.bad_rows) + len(resumed.bad_rows) >= 5
        and len({bad.path for bad in resumed.bad_rows}) <= 2
    )


@pytest.mark.parametrize("shuffle", [False, True])
def test_only_sample_of_a_tar_with_a_bad_image_is_replaced_from_other_tars(tmp_path, shuffle):
    for name, payloads in (
        ("a", [encoded(picture(number)) for number in range(9)]),
        ("b", [b"no image"]),
    ):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as tar:
            for number, payload in enumerate(payloads):
                for extension, content in (("jpg", payload), ("cls", str(number).encode())):
                    member = tarfile.TarInfo(f"{name}{number}.{extension}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    data = sm.Dataset(tmp_path, images=sm.Images("jpg", size=16))
    loader = sm.Loader(
        data, shuffle=shuffle, errors=sm.ErrorPolicy(rows="replace"), output="dict", batch_size=4
    )
    keys = [str(key) for batch in loader for key in batch["__key__"]]
    assert len(keys) == 10 and set(keys) == {f"a{number}" for number in range(9)}
    assert [(Path(bad.path).name, bad.row) for bad in loader.bad_rows] == [("b.tar", 0)]


def test_row_that_was_replaced_while_it_was_read_is_listed_once(tmp_path):
    payloads = [encoded(picture(number)) if number % 2 else b"no image" for number in range(8)]
    path = tmp_path / "x.parquet"
    table = pa.table({"image": payloads, "text": [f"{number} of 8" for number in range(8)]})
    pq.write_table(
        table,
        path,
        row_group_size=2,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    content = path.read_bytes()
    path.write_bytes(content.replace(b"3 of 8", b"5 of 5"))
    data = sm.Dataset(path, images=sm.Images("image", size=16))
    loader = sm.Loader(data, errors=sm.ErrorPolicy(rows="replace"), output="numpy", batch_size=8)
    assert len(next(iter(loader))["image"]) == 8
    # One of the rows that are read in place of 2 and 3 has a bad image.
    assert sorted(bad.row for bad in loader.bad_rows) == [0, 2, 3, 4, 6]


def test_replacement_without_any_good_image_is_an_error(tmp_path):
    path = written(tmp_path / "x.parquet", [b"no image"] * 9)
    loader = sm.Loader(
        sm.Dataset(path, images=sm.Images("image", size=16)),
        errors=sm.ErrorPolicy(rows="replace"),
        output="numpy",
    )
    with pytest.raises(
        sm.FormatError, match="No row could be read that would replace the bad ones"
    ):
        next(iter(loader))


def test_null_fills_and_marks(damaged):
    images = sm.Images("image", size=16, on_error="null", background=(1, 2, 3))
    [batch] = batches_of(sm.Dataset(damaged, images=images))
    assert (~batch["image__valid"]).nonzero()[0].tolist() == [2, 5, 6]
    for row in (2, 5, 6):
        assert batch["image"][row].reshape(3, -1).T.tolist() == [[1, 2, 3]] * 256


def test_bad_images_of_a_mixture_get_the_background_of_their_source(tmp_path):
    def source(background):
        path = written(tmp_path / f"{background}.parquet", [b"no image"] * 3)
        return sm.Dataset(
            path, images=sm.Images("image", size=2, on_error="null", background=background)
        )

    images = images_of(sm.Mixture({name: source(name) for name in ("white", "gray")}, repeat=1))
    assert sorted(pixels.mean() for pixels in images) == [128] * 3 + [255] * 3


def test_null_images_can_be_filtered(tmp_path):
    payload = encoded(picture(1), "PNG")
    path = written(tmp_path / "x.parquet", [payload, None, payload, None])
    images = sm.Images("image", size=4)
    rows = {
        text: len(sm.Dataset(path, filter=text, images=images))
        for text in ("image is not null", "image is null")
    }
    assert rows == {"image is not null": 2, "image is null": 2}
    found = sm.Loader(sm.Dataset(path, filter="image is not null", images=images), output="numpy")
    assert sum(len(batch["image"]) for batch in found) == 2


def test_masks_are_those_of_the_columns_that_can_be_null(damaged):
    images = sm.Images("image", size=16, on_error="null")
    loader = sm.Loader(sm.Dataset(damaged, images=images), output=sm.Output("numpy", nulls="mask"))
    added = {name for batch in loader for name in batch if name.startswith("image")}
    assert added == {"image", "image__valid"}
    loader = sm.Loader(
        sm.Dataset(damaged, filter="row = 0", images=sm.Images("image", fit="keep")),
        output=sm.Output("numpy", nulls="mask"),
    )
    [batch] = loader
    assert {name for name in batch if name.startswith("image")} == {
        "image",
        "image__shape",
        "image__valid",
    }


def test_bfloat16_pixels_are_not_filled_with_numbers(damaged):
    images = sm.Images("image", size=16, dtype="bfloat16")
    with pytest.raises(ValueError, match="'image', which has dtype='bfloat16'"):
        sm.Loader(
            sm.Dataset(damaged, images=images),
            output=sm.Output("torch", nulls="fill", fill_values={"image": 7}),
        )


def test_accepted_damage_is_what_pillow_makes_of_it(tmp_path):
    payload = bytearray(encoded(picture(6), quality=95))
    middle = len(payload) // 2
    payload[middle : middle + 120] = b"\xff\x00" * 60
    path = written(tmp_path / "x.parquet", [bytes(payload)])
    with pytest.raises(sm.FormatError, match="damaged"):
        batches_of(sm.Dataset(path, images=sm.Images("image", fit="keep")))
    [batch] = batches_of(
        sm.Dataset(path, images=sm.Images("image", fit="keep", layout="HWC", damaged="accept"))
    )
    expected = np.asarray(Image.open(io.BytesIO(payload)))
    pixels = batch["image"][0].reshape(expected.shape)
    # Without SIMD, coefficients that no encoder writes give other pixels.
    if build_info()[1] is not False:
        np.testing.assert_array_equal(pixels, expected)


def test_image_above_max_pixels_is_bad_before_it_is_decoded(tmp_path):
    path = written(tmp_path / "x.parquet", [encoded(picture(1, (50, 40)), "PNG")])
    with pytest.raises(sm.FormatError, match="limit"):
        batches_of(sm.Dataset(path, images=sm.Images("image", size=16, max_pixels=1999)))


def test_null_cells_follow_the_policy_for_nulls(tmp_path):
    path = written(tmp_path / "x.parquet", [encoded(picture(1)), None])
    data = sm.Dataset(path, images=sm.Images("image", size=16))
    with pytest.raises(ValueError, match="null"):
        batches_of(data)
    [batch] = list(sm.Loader(data, output=sm.Output("numpy", nulls="mask")))
    assert batch["image__valid"].tolist() == [True, False]
