"""States that worker processes make. The oracle is the loader in one process."""

import itertools

import pytest
import shardmill as sm
from breadth import covering

pytest.importorskip("torch")

from shardmill.integrations.torch import BatchDataset
from torch_rows import ROWS, flat, ids_of, loader_of, write_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]


def test_state_of_a_mixture_in_the_epoch_after_a_resume_is_loaded(tmp_path):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    write_rows(tmp_path)
    sources = {"first": tmp_path / "0.parquet", "second": tmp_path / "1.parquet"}

    def new_loader():
        return loader_of(sm.Mixture(sources, choose=[30, 50]), shuffle=True)

    def in_workers(dataset):
        return stateful.StatefulDataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"
        )

    oracle, begun = new_loader(), new_loader()
    expected, following = ids_of(oracle), ids_of(oracle)
    ids_of(itertools.islice(begun, 2))
    dataset = BatchDataset(new_loader())
    dataset.load_state_dict(begun.state_dict())
    first = in_workers(dataset)
    assert ids_of(first) == expected[2:]
    batches = iter(first)
    seen = ids_of(itertools.islice(batches, 3))
    rest = in_workers(BatchDataset(new_loader()))
    rest.load_state_dict(first.state_dict())
    assert seen + ids_of(rest) == following


@covering(1, is_set=[False, True], are_persistent=[False, True])
def test_epochs_after_a_resume_have_the_lanes_of_the_state(tmp_path, are_persistent, is_set):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    directory = write_rows(tmp_path)

    def in_workers(**options):
        dataset = BatchDataset(loader_of(directory, shuffle=True, **options))
        workers = {
            "num_workers": 2,
            "multiprocessing_context": "fork",
            "persistent_workers": are_persistent,
        }
        return dataset, stateful.StatefulDataLoader(dataset, batch_size=None, **workers)

    oracle = loader_of(directory, shuffle=True, lanes=4)
    expected, following = ids_of(oracle), ids_of(oracle)
    _, first = in_workers(lanes=4)
    seen = ids_of(itertools.islice(iter(first), 3))
    dataset, rest = in_workers()
    rest.load_state_dict(first.state_dict())
    assert seen + ids_of(rest) == expected
    if is_set:
        dataset.set_epoch(1)
    assert ids_of(rest) == following


@pytest.mark.parametrize(
    ("options", "is_same"), [({"batch_size": 8}, False), ({"batch_size": 8, "world_size": 2}, True)]
)
def test_state_of_workers_is_refused_if_batches_have_other_sizes(tmp_path, options, is_same):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    directory = write_rows(tmp_path)

    def in_workers(**options):
        dataset = BatchDataset(
            loader_of(directory, shuffle=True, lanes=1, tail="uneven", **options)
        )
        return stateful.StatefulDataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"
        )

    first = in_workers(batch_size=16)
    seen = flat(ids_of(itertools.islice(iter(first), 5)))
    state = first.state_dict()
    ranks = [in_workers(rank=rank, **options) for rank in range(options.get("world_size", 1))]
    for rank in ranks:
        rank.load_state_dict(state)
    if is_same:
        assert sorted(seen + [row for rank in ranks for row in flat(ids_of(rank))]) == list(
            range(ROWS)
        )
        return
    with pytest.raises(
        sm.CheckpointMismatchError,
        match="saved with 16 rows per step over all ranks, but this loader has 8",
    ):
        list(ranks[0])
