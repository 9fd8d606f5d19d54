"""Batches on their way from worker processes. The oracle is the batch that was sent."""

import pickle
from collections import OrderedDict
from multiprocessing.reduction import ForkingPickler

import pyarrow as pa
import pytest

torch = pytest.importorskip("torch")

import shardmill as sm
from shardmill.integrations.torch._parcels import parcel

DTYPES = [
    *(
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint16,
        torch.uint64,
    ),
    *(
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    ),
]


def sent(batch):
    return pickle.loads(ForkingPickler.dumps(parcel(batch)))


def assert_same(own, other):
    assert own.dtype == other.dtype
    assert own.shape == other.shape
    assert torch.equal(own, other)


@pytest.mark.parametrize("rows", [6, 600_000])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_every_type_arrive_as_they_were_in_messages_and_in_shared_memory(dtype, rows):
    values = torch.arange(rows).to(dtype)
    batch = {
        "x": values,
        "every other": values[::2],
        "wide": values.view(-1, 2),
        "turned": values.view(-1, 2).T,
    }
    arrived = sent(batch)
    assert type(arrived) is dict
    assert list(arrived) == list(batch)
    for name in batch:
        assert_same(arrived[name], batch[name])


def test_batches_within_batches_keep_their_order_and_objects_between_the_tensors():
    batch = {
        "text": ["a", None],
        "ragged": sm.Ragged(torch.tensor([1.5, 2.5]), torch.tensor([0, 2, 2])),
        "struct": sm.Struct(
            {
                "lists": sm.Ragged(
                    sm.Ragged(torch.tensor([7]), torch.tensor([0, 1])), torch.tensor([0, 1])
                )
            }
        ),
        "label": torch.tensor([1, 0]),
        "nothing": None,
    }
    arrived = sent(batch)
    assert list(arrived) == list(batch)
    assert (arrived["text"], arrived["nothing"]) == (["a", None], None)
    assert_same(arrived["ragged"].values, batch["ragged"].values)
    assert_same(arrived["ragged"].offsets, batch["ragged"].offsets)
    assert type(arrived["struct"]) is sm.Struct
    assert arrived["struct"]["lists"].tolist() == [[[7]]]
    assert_same(arrived["label"], batch["label"])


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0)])
def test_tensors_of_no_dimension_or_no_values_keep_their_shape(shape):
    assert_same(sent({"x": torch.ones(shape)})["x"], torch.ones(shape))


def test_conjugates_and_weights_arrive_as_values():
    numbers = torch.tensor([1 + 2j, 3 - 1j]).conj()
    weights = torch.ones(3, requires_grad=True)
    arrived = sent({"numbers": numbers, "weights": weights})
    assert_same(arrived["numbers"], numbers.resolve_conj())
    assert_same(arrived["weights"], weights.detach())


def test_what_arrives_may_be_written_to_and_is_not_what_was_sent():
    batch = {"x": torch.zeros(4), "y": torch.zeros(4)}
    arrived = sent(batch)
    arrived["x"][0] = 7
    assert (batch["x"][0], arrived["y"][0]) == (0, 0)


def test_results_of_a_transform_arrive_with_their_own_types():
    table = pa.table({"x": [1, 2, 3]})
    for made in (table, table["x"], table["x"].combine_chunks(), OrderedDict(x=1), "text"):
        arrived = sent(made)
        assert type(arrived) is type(made)
        assert arrived == made
