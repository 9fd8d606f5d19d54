"""Columns of lists of images."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
import torch
from pictures import batches_of, cropped, encoded, opened, picture
from PIL import Image, ImageOps


@pytest.mark.parametrize("form", ["binary", "struct", "large list"])
def test_lists_of_images_are_ragged_by_row(tmp_path, form):
    counts = [2, 0, 3, 1, 4]
    payloads = [
        encoded(picture(number, (80 + number, 64)), quality=90) for number in range(sum(counts))
    ]
    ends = np.cumsum(counts)
    lists = [payloads[end - count : end] for end, count in zip(ends, counts, strict=True)]
    kind = (
        pa.struct({"path": pa.string(), "bytes": pa.binary()}) if form == "struct" else pa.binary()
    )
    cells = (
        [[{"bytes": one, "path": None} for one in cell] for cell in lists]
        if form == "struct"
        else lists
    )
    kind = pa.large_list(kind) if form == "large list" else pa.list_(kind)
    pq.write_table(
        pa.table({"images": pa.array(cells, kind)}), tmp_path / "x.parquet", row_group_size=2
    )

    fixed = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("images", size=24))
    (batch,) = batches_of(fixed, batch_size=5)
    assert batch["images"].offsets.tolist() == [0, *ends]
    expected = [np.asarray(cropped(opened(payload), 24)).transpose(2, 0, 1) for payload in payloads]
    assert np.array_equal(batch["images"].values, expected)

    kept = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("images", fit="keep"))
    (batch,) = batches_of(kept, batch_size=5)
    assert batch["images__shape"].offsets.tolist() == [0, *ends]
    assert batch["images__shape"].values.tolist() == [
        [64, 80 + number] for number in range(len(payloads))
    ]
    assert batch["images"].offsets.tolist() == [0, *ends]
    pixels = batch["images"].values.values
    assert np.array_equal(
        pixels,
        np.concatenate([np.asarray(opened(one)).transpose(2, 0, 1).ravel() for one in payloads]),
    )


def test_images_of_a_list_have_crops_of_their_own(tmp_path):
    payload = encoded(picture(1), "PNG")
    pq.write_table(
        pa.table({"images": [[payload] * 3] * 20, "image": [payload] * 20}),
        tmp_path / "x.parquet",
        row_group_size=4,
    )

    def loaded(threads, **options):
        crops = sm.Images("images", size=16, fit=sm.RandomCrop(), flip=0.5)
        data = sm.Dataset(tmp_path / "x.parquet", images=crops)
        runtime = sm.Runtime(threads=threads)
        return np.concatenate(
            [
                batch["images"].values
                for batch in batches_of(
                    data, batch_size=4, columns=["images"], runtime=runtime, **options
                )
            ]
        )

    pixels = loaded(1)
    assert len({one.tobytes() for one in pixels}) == len(pixels) == 60
    assert np.array_equal(pixels, loaded(4))
    crops = sm.Images("images", size=16, fit=sm.RandomCrop(), flip=0.5)
    (top, left, height, width), _, flip = crops.geometry(60, 90, row=7, item=2)
    part = (
        picture(1)
        .crop((left, top, left + width, top + height))
        .resize((16, 16), Image.Resampling.BILINEAR)
    )
    part = ImageOps.mirror(part) if flip else part
    assert np.array_equal(pixels[7 * 3 + 2], np.asarray(part).transpose(2, 0, 1))


def test_bad_image_of_a_list_makes_its_row_bad(tmp_path):
    payload = encoded(picture(1), "PNG")
    cells = [[payload, payload], [payload, b"no image"], [payload]]
    pq.write_table(pa.table({"images": cells, "row": range(3)}), tmp_path / "x.parquet")
    data = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("images", size=8))
    with pytest.raises(ValueError, match="image 1 of the list"):
        batches_of(data)
    (batch,) = batches_of(data, errors=sm.ErrorPolicy(rows="skip"))
    assert batch["row"].tolist() == [0, 2]
    assert batch["images"].offsets.tolist() == [0, 2, 3]
    marked = sm.Dataset(
        tmp_path / "x.parquet",
        images=sm.Images("images", size=8, on_error="null", background="gray"),
    )
    (batch,) = batches_of(marked)
    assert batch["images__valid"].values.tolist() == [True, True, True, False, True]
    assert (batch["images"].values[3] == 128).all()


def test_null_list_of_images_follows_the_policy_for_nulls(tmp_path):
    payload = encoded(picture(1), "PNG")
    pq.write_table(
        pa.table({"images": pa.array([[payload], None], pa.list_(pa.binary()))}),
        tmp_path / "x.parquet",
    )
    data = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("images", size=8))
    with pytest.raises(ValueError, match="null"):
        batches_of(data)
    (table,) = sm.Loader(data, output="arrow")
    assert table.column("images").is_null().to_pylist() == [False, True]
    assert data[1]["images"] is None


def test_list_of_images_that_is_null_has_no_images_where_bad_ones_are_filled(tmp_path):
    cells = pa.array([[encoded(picture(1)), b"x"], None, []], pa.list_(pa.binary()))
    pq.write_table(pa.table({"images": cells}), tmp_path / "x.parquet")
    data = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("images", size=8, on_error="null"))
    for nulls in ("raise", "mask"):
        (batch,) = sm.Loader(data, batch_size=3, output=sm.Output("numpy", nulls=nulls))
        assert batch["images"].offsets.tolist() == [0, 2, 2, 2]
        assert batch["images__valid"].values.tolist() == [True, False]


@pytest.mark.parametrize("fit", ["keep", "longest"])
def test_images_of_their_own_sizes_in_lists_may_be_bfloat16(tmp_path, fit):
    cells = [[encoded(picture(seed)) for seed in range(count)] for count in (2, 0, 1)]
    pq.write_table(pa.table({"images": cells}), tmp_path / "x.parquet")

    def loaded(dtype):
        size = {} if fit == "keep" else {"size": 24}
        images = sm.Images("images", fit=fit, dtype=dtype, **size)
        [batch] = sm.Loader(sm.Dataset(tmp_path / "x.parquet", images=images), batch_size=3)
        return batch["images"]

    narrow, exact = loaded("bfloat16"), loaded("float32")
    assert [len(row) for row in narrow] == [2, 0, 1]
    for row in (0, 2):
        for image, other in zip(narrow[row], exact[row], strict=True):
            assert image.dtype == torch.bfloat16
            assert torch.equal(image, other.to(torch.bfloat16))


def test_bfloat16_is_refused_where_it_would_be_bits(tmp_path):
    pq.write_table(pa.table({"image": [encoded(picture(1))]}), tmp_path / "x.parquet")
    data = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("image", size=8, dtype="bfloat16"))
    for use in (
        lambda: data[0],
        lambda: data.take([0]),
        lambda: next(data.iterate()),
        lambda: pa.table(data),
    ):
        with pytest.raises(sm.OptionError, match="bfloat16"):
            use()
    with pytest.raises(sm.OptionError, match="bfloat16"):
        pa.table(sm.Loader(data, output="torch"))
