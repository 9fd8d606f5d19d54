"""Pixels are written once, into the page-locked memory that is delivered.

No machine of the tests has a GPU, so ordinary memory stands in for it.
"""

import gc
import weakref

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
import torch
from breadth import covering
from pictures import encoded, picture, written

DTYPES = {"uint8": torch.uint8, "float32": torch.float32, "bfloat16": torch.bfloat16}


class Lender:
    """An allocator of ordinary memory that knows what it gave away.

    Like that of torch, it does not clear it.
    """

    def __init__(self):
        self.tensors, self.copied = [], []

    def __call__(self, nbytes):
        tensor = torch.full((nbytes,), 171, dtype=torch.uint8)
        self.tensors.append(weakref.ref(tensor.untyped_storage()))
        return tensor

    def has(self, tensor):
        held = [storage() for storage in self.tensors]
        return any(
            storage is not None and storage.data_ptr() == tensor.untyped_storage().data_ptr()
            for storage in held
        )

    def pin_memory(self, tensor):
        if self.has(tensor):
            return tensor
        self.copied.append(tensor)
        return tensor.clone()

    @property
    def num_held(self):
        gc.collect()
        return sum(storage() is not None for storage in self.tensors)


@pytest.fixture
def lender(monkeypatch):
    lender = Lender()
    monkeypatch.setattr("shardmill.load._batches.page_locked", lender)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: lender.pin_memory(tensor))
    return lender


@pytest.fixture(scope="module")
def pictures():
    return [
        encoded(picture(number, (80 + number, 64 + number % 7)), quality=90)
        for number in range(200)
    ]


@pytest.fixture
def payloads(pictures):
    return list(pictures)


def batches(path, images, *, pin_memory, threads=2, **options):
    runtime = sm.Runtime(pin_memory=pin_memory, threads=threads)
    data = sm.Dataset(path, images=sm.Images("image", **images))
    return list(
        sm.Loader(
            data, batch_size=7, output=options.pop("output", "torch"), runtime=runtime, **options
        )
    )


def assert_equal(some, others):
    assert len(some) == len(others)
    for batch, other in zip(some, others, strict=True):
        assert list(batch) == list(other)
        assert all(torch.equal(batch[name], other[name]) for name in batch)


@covering(1, threads=[0, 1, 3], name=list(DTYPES))
def test_pixels_are_delivered_in_the_memory_they_were_written_to(
    tmp_path, lender, payloads, name, threads
):
    path = written(tmp_path / "x.parquet", payloads)
    images = {"size": (24, 40), "dtype": name}
    pinned = batches(path, images, pin_memory=True, threads=threads, shuffle=True)
    assert all(
        batch["image"].dtype == DTYPES[name] and lender.has(batch["image"]) for batch in pinned
    )
    assert all(batch["image"].shape == (len(batch["image"]), 3, 24, 40) for batch in pinned)
    assert_equal(pinned, batches(path, images, pin_memory=False, shuffle=True))


def test_all_image_columns_are_in_memory_of_their_own(tmp_path, lender, payloads):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"image": payloads, "other": payloads[::-1]}), path)
    data = sm.Dataset(path, images=[sm.Images("image", size=16), sm.Images("other", size=8)])
    runtime = sm.Runtime(pin_memory=True)
    for batch in sm.Loader(data, batch_size=50, runtime=runtime):
        assert lender.has(batch["image"]) and lender.has(batch["other"])
    assert lender.copied == []


@pytest.mark.parametrize("rows", ["skip", "replace"])
def test_rows_with_bad_images_leave_no_gap(tmp_path, lender, payloads, rows):
    for number in (0, 5, 6, 7, 199):
        payloads[number] = payloads[number][:200]
    path = written(tmp_path / "x.parquet", payloads)
    errors = sm.ErrorPolicy(rows=rows)
    pinned = batches(path, {"size": 16}, pin_memory=True, errors=errors)
    assert all(lender.has(batch["image"]) for batch in pinned)
    assert_equal(pinned, batches(path, {"size": 16}, pin_memory=False, errors=errors))


@pytest.mark.parametrize("nulls", ["mask", "fill"])
@pytest.mark.parametrize("on_error", [None, "null"])
def test_null_images_are_the_same_as_in_other_memory(tmp_path, lender, payloads, nulls, on_error):
    payloads[3] = payloads[150] = None
    path = written(tmp_path / "x.parquet", payloads)
    output = sm.Output(
        nulls=nulls, fill_values={"image": 9} if nulls == "fill" and on_error is None else None
    )
    images = {"size": 16, "on_error": on_error}
    pinned = batches(path, images, pin_memory=True, output=output)
    assert_equal(pinned, batches(path, images, pin_memory=False, output=output))
    assert all(lender.has(batch["image"]) for batch in pinned) == (on_error == "null")


def test_images_of_their_own_sizes_are_copied(tmp_path, lender, payloads):
    path = written(tmp_path / "x.parquet", payloads)
    pinned = batches(path, {"fit": "keep"}, pin_memory=True)
    assert lender.tensors == [] and len(lender.copied) >= len(pinned)
    expected = batches(path, {"fit": "keep"}, pin_memory=False)
    assert all(
        torch.equal(a["image"].values, b["image"].values)
        for a, b in zip(pinned, expected, strict=True)
    )


def test_memory_is_given_back_after_the_last_batch_and_after_an_abandoned_pass(
    tmp_path, lender, payloads
):
    path = written(tmp_path / "x.parquet", payloads)
    data = sm.Dataset(path, images=sm.Images("image", size=64))
    loader = sm.Loader(
        data, batch_size=7, runtime=sm.Runtime(pin_memory=True, prefetch_bytes=1 << 20)
    )
    kept = [batch["image"] for batch in loader][-1]
    assert lender.num_held == 1
    kept = next(iter(loader))
    del kept
    assert lender.num_held == 0


def test_gpu_batches_are_written_to_page_locked_memory_too(tmp_path, lender, payloads):
    path = written(tmp_path / "x.parquet", payloads)
    data = sm.Dataset(path, images=sm.Images("image", size=16))
    loader = sm.Loader(data, batch_size=7, runtime=sm.Runtime(device="cuda:1"))
    # The copy to the device is the only step that needs one.
    loader._conversion.cutter.staged = lambda deliveries: deliveries
    assert all(lender.has(batch["image"]) for batch in loader)


@pytest.mark.parametrize(
    ("allocate", "reason"),
    [
        (lambda nbytes: torch.empty(nbytes - 1, dtype=torch.uint8), "other memory than"),
        (lambda nbytes: torch.empty(nbytes + 1, dtype=torch.uint8)[1:], "other memory than"),
        (lambda nbytes: [][nbytes], "IndexError"),
    ],
    ids=["short", "unaligned", "exception"],
)
def test_memory_that_cannot_be_used_is_an_error_with_its_reason(
    tmp_path, lender, payloads, monkeypatch, allocate, reason
):
    path = written(tmp_path / "x.parquet", payloads)
    monkeypatch.setattr("shardmill.load._batches.page_locked", allocate)
    with pytest.raises(sm.errors.EngineError, match=reason) as caught:
        batches(path, {"size": 16}, pin_memory=True)
    assert "page-locked memory" in str(caught.value) and "\nhint: " in str(caught.value)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_superbatch_without_a_good_row_is_empty_batches(tmp_path, lender, payloads, threads):
    path = written(tmp_path / "x.parquet", [payload[:200] for payload in payloads])
    errors = sm.ErrorPolicy(rows="skip")
    pinned = batches(path, {"size": 16}, pin_memory=True, threads=threads, errors=errors)
    assert_equal(pinned, batches(path, {"size": 16}, pin_memory=False, errors=errors))
    assert {batch["image"].shape for batch in pinned} == {(0, 3, 16, 16)}
    assert lender.num_held == 0


def test_interrupt_in_the_allocator_is_raised_as_it_is_and_loses_no_row(
    tmp_path, lender, payloads, monkeypatch
):
    path = written(tmp_path / "x.parquet", payloads)
    calls = []

    def interrupted(nbytes):
        calls.append(nbytes)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return lender(nbytes)

    monkeypatch.setattr("shardmill.load._batches.page_locked", interrupted)
    data = sm.Dataset(path, images=sm.Images("image", size=256))
    loader = sm.Loader(data, batch_size=20, runtime=sm.Runtime(pin_memory=True, threads=0))
    rows = []
    with pytest.raises(KeyboardInterrupt):
        for batch in loader:
            rows += batch["row"].tolist()
    loader.load_state_dict(loader.state_dict())
    rows += [row for batch in loader for row in batch["row"].tolist()]
    assert rows == list(range(200))
