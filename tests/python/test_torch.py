"""Worker processes of real DataLoaders, and trainers. The oracle is the loader in one process."""

import copy
import gc
import itertools
import json
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import beginning, covering, examples
from promptness import HANGS_S

torch = pytest.importorskip("torch")

from shardmill.integrations.torch import (
    BatchDataset,
    create_dataloader,
)
from shardmill.integrations.torch._shared_file import SharedFile
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch_rows import ROWS, flat, ids_of, in_workers, loader_of, write_rows

# There are more workers here than cores, on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

# Importing torch takes seconds: one server does it for all workers.
multiprocessing.set_forkserver_preload(["torch", "shardmill.integrations.torch"])

STARTS = [
    method
    for method in ("fork", "spawn", "forkserver")
    if method in multiprocessing.get_all_start_methods()
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("torch"))


# Worker processes


@covering(
    1,
    # The last is more workers than there are batches, of which the filter leaves four.
    workers=[1, 2, 3, examples(20, 6)],
    options=[
        {},
        {"shuffle": True, "shuffle_window_bytes": 2000},
        {"lanes": 3},
        {"filter": sm.col("label") == 1},
    ],
)
def test_worker_processes_give_the_batches_of_one_process_in_their_order(
    directory, workers, options
):
    expected = ids_of(loader_of(directory, **options))
    assert (
        ids_of(
            in_workers(
                BatchDataset(loader_of(directory, **options)),
                workers,
                multiprocessing_context="fork",
            )
        )
        == expected
    )


@pytest.mark.parametrize("method", beginning(1, STARTS))
def test_each_start_method_gives_a_new_epoch_at_each_pass(directory, method):
    oracle = loader_of(directory, shuffle=True, shuffle_window_bytes=2000)
    expected = [ids_of(oracle), ids_of(oracle)]
    loader = in_workers(
        BatchDataset(loader_of(directory, shuffle=True, shuffle_window_bytes=2000)),
        2,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    assert [ids_of(loader), ids_of(loader)] == expected
    assert sorted(flat(expected[0])) == list(range(ROWS))
    assert expected[0] != expected[1]


@pytest.mark.parametrize("method", beginning(1, STARTS))
def test_workers_agree_on_the_epoch_where_there_are_no_files_in_memory(
    directory, method, monkeypatch, tmp_path
):
    monkeypatch.setattr(SharedFile, "create", partial(SharedFile.create, in_memory=False))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    oracle = loader_of(directory, shuffle=True)
    loader = in_workers(
        BatchDataset(loader_of(directory, shuffle=True)), 2, multiprocessing_context=method
    )
    assert [ids_of(loader), ids_of(loader)] == [ids_of(oracle), ids_of(oracle)]
    del loader
    gc.collect()
    # multiprocessing keeps a directory of its own there.
    assert list(tmp_path.glob("shardmill-*")) == []


def test_workers_that_end_with_their_pass_give_a_new_epoch_at_each_pass(directory):
    oracle = loader_of(directory, shuffle=True)
    loader = in_workers(
        BatchDataset(loader_of(directory, shuffle=True)), 2, multiprocessing_context="fork"
    )
    assert [ids_of(loader) for _ in range(3)] == [ids_of(oracle) for _ in range(3)]


def test_passes_with_the_same_seed_of_torch_are_new_epochs_as_well(directory):
    oracle, generator = loader_of(directory, shuffle=True), torch.Generator()
    dataset = BatchDataset(loader_of(directory, shuffle=True))
    loader = in_workers(dataset, 2, multiprocessing_context="fork", generator=generator)
    for epoch in range(3):
        generator.manual_seed(7)
        assert ids_of(loader) == ids_of(oracle), epoch


def test_set_epoch_reaches_workers_that_are_running(directory):
    oracle = loader_of(directory, shuffle=True)
    dataset = BatchDataset(loader_of(directory, shuffle=True))
    loader = in_workers(dataset, 2, multiprocessing_context="fork", persistent_workers=True)
    for epoch in (0, 5, 5, 2):
        oracle.set_epoch(epoch + 1)
        oracle.set_epoch(epoch)
        dataset.set_epoch(epoch)
        assert ids_of(loader) == ids_of(oracle), epoch


def test_epoch_of_numpy_reaches_workers(directory):
    dataset = BatchDataset(loader_of(directory, shuffle=True))
    loader = in_workers(dataset, 2, multiprocessing_context="fork")
    dataset.set_epoch(np.int64(3))
    oracle = loader_of(directory, shuffle=True)
    oracle.set_epoch(3)
    assert ids_of(loader) == ids_of(oracle)


def test_workers_left_early_agree_on_the_epoch_of_the_next_pass(directory):
    loader = in_workers(
        BatchDataset(loader_of(directory, shuffle=True)),
        3,
        multiprocessing_context="fork",
        persistent_workers=True,
    )
    for _ in range(10):
        next(iter(loader))
        assert sorted(flat(ids_of(loader))) == list(range(ROWS))


def test_ranks_with_workers_share_the_rows(directory):
    seen = []
    for rank in range(3):
        loader = loader_of(directory, rank=rank, world_size=3, tail="uneven", shuffle=True)
        seen.append(
            flat(ids_of(in_workers(BatchDataset(loader), 2, multiprocessing_context="fork")))
        )
    assert sorted(flat(seen)) == list(range(ROWS))
    assert max(map(len, seen)) - min(map(len, seen)) <= 1


def test_batches_of_many_kinds_come_through_worker_processes_unchanged(tmp_path):
    rows = 50
    columns = {
        "id": list(range(rows)),
        "flag": [one % 2 == 0 for one in range(rows)],
        "small": pa.array(range(rows), pa.int8()),
        "empty": pa.array([[]] * rows, pa.list_(pa.float32())),
        "list": [[float(one)] * (one % 3) for one in range(rows)],
        "vector": pa.array([[1.0, one, 3.0] for one in range(rows)], pa.list_(pa.float32(), 3)),
        "text": [f"row {one}" for one in range(rows)],
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=17)
    loader = sm.Loader(tmp_path, batch_size=8, rank=0, world_size=1)
    expected = list(loader)
    found = list(in_workers(BatchDataset(loader), 2, multiprocessing_context="fork"))
    assert len(found) == len(expected)
    for own, other in zip(found, expected, strict=True):
        assert_same(own, other)


def assert_same(own, other):
    assert type(own) is type(other) or isinstance(own, dict)
    if isinstance(other, dict):
        assert list(own) == list(other)
        for name in other:
            assert_same(own[name], other[name])
    elif isinstance(other, torch.Tensor):
        assert own.dtype == other.dtype
        assert torch.equal(own, other)
    elif isinstance(other, sm.Ragged):
        assert_same(own.values, other.values)
        assert_same(own.offsets, other.offsets)
    else:
        assert own == other


def test_record_batches_are_sent_without_the_rows_around_them(directory):
    from shardmill.integrations.torch._parcels import parcel

    (whole,) = pq.read_table(directory / "0.parquet").combine_chunks().to_batches()
    part = parcel(whole.slice(10, 5))
    assert part.equals(whole.slice(10, 5))
    assert len(pickle.dumps(part)) < len(pickle.dumps(whole)) / 2


def epoch_in_workers(dataset, rank, results):
    results.put((rank, ids_of(in_workers(dataset, 2, multiprocessing_context="fork"))))


def test_processes_that_share_a_data_set_have_epochs_of_their_own(directory):
    dataset = BatchDataset(loader_of(directory, shuffle=True))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    ranks = [
        context.Process(target=epoch_in_workers, args=(dataset, rank, results)) for rank in range(2)
    ]
    for rank in ranks:
        rank.start()
    seen = dict(results.get(timeout=HANGS_S) for _ in ranks)
    for rank in ranks:
        rank.join()
    assert seen[0] == seen[1] == ids_of(loader_of(directory, shuffle=True))


@pytest.mark.parametrize("output", ["torch", "numpy", "arrow", "dict"])
def test_each_output_comes_through_worker_processes(directory, output):
    loader = loader_of(directory, output=output, columns=["id", "name"])
    workers = in_workers(
        BatchDataset(loader), 1, multiprocessing_context="forkserver", collate_fn=unchanged
    )
    names = [
        batch["name"].to_pylist() if output == "arrow" else list(batch["name"]) for batch in workers
    ]
    assert flat(names) == [f"row {one}" for one in range(ROWS)]


def unchanged(batch):
    return batch


def kill_a_worker(dataset):
    batches = iter(in_workers(dataset, 2, multiprocessing_context="fork", timeout=HANGS_S))
    next(batches)
    os.kill(batches._workers[0].pid, signal.SIGKILL)
    list(batches)


def test_killed_worker_is_an_error_and_no_hang(directory):
    # In a process of its own: torch raises in a handler of signals, wherever the program is.
    dataset = BatchDataset(loader_of(directory, batch_size=1))
    process = multiprocessing.get_context("fork").Process(target=kill_a_worker, args=(dataset,))
    process.start()
    process.join(180)
    assert process.exitcode == 1


def test_error_of_a_worker_names_the_file(tmp_path):
    path = tmp_path / "broken.parquet"
    pq.write_table(
        pa.table({"id": list(range(10_000))}),
        path,
        row_group_size=1000,
        compression="none",
        use_dictionary=False,
    )
    dataset = BatchDataset(loader_of(tmp_path))
    path.write_bytes(path.read_bytes()[:4] + b"\xff" * 5000 + path.read_bytes()[5004:])
    with pytest.raises(Exception, match="broken.parquet"):
        list(in_workers(dataset, 2, multiprocessing_context="fork"))


# State


@covering(1, workers=[0, 2, 3], done=[0, 1, 7, 15])
def test_loaded_state_continues_for_any_number_of_workers_and_the_next_epoch_is_whole(
    directory, done, workers
):
    oracle = loader_of(directory, shuffle=True)
    expected, following = ids_of(oracle), ids_of(oracle)
    before = loader_of(directory, shuffle=True)
    batches = iter(before)
    for _ in range(done):
        next(batches)
    dataset = BatchDataset(loader_of(directory, shuffle=True))
    dataset.load_state_dict(json.loads(json.dumps(before.state_dict())))
    dataset.set_epoch(0)
    options = {"multiprocessing_context": "fork"} if workers else {}
    loader = in_workers(dataset, workers, **options)
    assert ids_of(loader) == expected[done:]
    assert ids_of(loader) == following


def test_state_is_refused_where_worker_processes_made_the_batches(directory):
    dataset = BatchDataset(loader_of(directory))
    list(in_workers(dataset, 2, multiprocessing_context="fork"))
    with pytest.raises(RuntimeError, match="StatefulDataLoader"):
        dataset.state_dict()
    dataset.set_epoch(0)
    assert dataset.state_dict()["consumed"] == 0


@covering(1, workers=[0, 2], done=[0, 1, 6, 15])
def test_stateful_data_loader_resumes(directory, done, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    oracle = loader_of(directory, shuffle=True)
    expected, following = ids_of(oracle), ids_of(oracle)

    def make():
        options = {"multiprocessing_context": "fork"} if workers else {}
        dataset = BatchDataset(loader_of(directory, shuffle=True))
        return stateful.StatefulDataLoader(dataset, batch_size=None, num_workers=workers, **options)

    first = make()
    batches = iter(first)
    seen = ids_of(itertools.islice(batches, done))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rest = make()
    rest.load_state_dict(state)
    assert seen + ids_of(rest) == expected
    assert ids_of(rest) == following


def test_stateful_data_loader_after_a_whole_epoch_gives_the_next_one(directory):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    oracle = loader_of(directory, shuffle=True)
    ids_of(oracle)
    following = ids_of(oracle)
    for workers in (0, 2):
        options = {"multiprocessing_context": "fork"} if workers else {}
        first, second = (
            stateful.StatefulDataLoader(
                BatchDataset(loader_of(directory, shuffle=True)),
                batch_size=None,
                num_workers=workers,
                **options,
            )
            for _ in range(2)
        )
        ids_of(first)
        second.load_state_dict(first.state_dict())
        assert ids_of(second) == following


def test_data_set_pickles_with_its_position(directory):
    dataset = BatchDataset(loader_of(directory))
    before = loader_of(directory)
    next(iter(before))
    dataset.load_state_dict(before.state_dict())
    copy = pickle.loads(pickle.dumps(dataset))
    assert flat(ids_of(copy)) == list(range(16, ROWS))
    assert flat(ids_of(dataset)) == list(range(16, ROWS))


@pytest.mark.slow
def test_abandoned_iterators_leave_nothing(directory):
    def held():
        gc.collect()
        return (
            len(os.listdir("/proc/self/fd")),
            threading.active_count(),
            len(os.listdir("/proc/self/task")),
        )

    def peek():
        loader, dataset = create_dataloader(directory, "parquet", batch_size=8, num_workers=2)
        next(iter(loader))
        next(iter(in_workers(dataset, 2, multiprocessing_context="fork")))

    peek()
    before, rounds = held(), 8
    for _ in range(rounds):
        peek()

    def is_released():
        files, threads, tasks = (now - then for now, then in zip(held(), before, strict=True))
        # Native threads stay for later work, and there are as many as were ever needed
        # at one moment.
        return files <= 0 and threads <= 0 and tasks < rounds

    # Workers and native threads close their files when they get to it.
    assert any(is_released() or time.sleep(0.1) for _ in range(300))


# Trainers


def test_lightning_continues_where_its_checkpoint_was_taken(directory, tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def training_step(self, batch, number):
            seen.append(batch["id"].tolist())
            return (self.weight * batch["id"].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-6)

    class Stop(lightning.Callback):
        def on_train_batch_end(self, trainer, *_):
            if trainer.global_step == 21:
                trainer.save_checkpoint(tmp_path / "saved.ckpt")
                raise RuntimeError("stopped")

    def fit(callbacks=(), **options):
        trainer = lightning.Trainer(
            max_epochs=3,
            accelerator="cpu",
            enable_progress_bar=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            logger=False,
            callbacks=list(callbacks),
        )
        loader, _ = create_dataloader(
            directory, "parquet", batch_size=16, columns=["id"], shuffle=True
        )
        trainer.fit(Model(), loader, **options)

    fit()
    whole = seen.copy()
    assert len(whole) == 48
    seen.clear()
    with pytest.raises(RuntimeError, match="stopped"):
        fit([Stop()])
    fit(ckpt_path=tmp_path / "saved.ckpt", weights_only=False)
    assert seen == whole


def test_accelerate_wraps_only_a_loader_that_is_not_shared_out_already(directory):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    shared, _ = create_dataloader(directory, "parquet", columns=["id"], num_ranks=2, rank=1)
    assert accelerator.prepare(shared) is shared
    whole, _ = create_dataloader(directory, "parquet", batch_size=32, columns=["id"])
    assert flat(ids_of(accelerator.prepare(whole))) == list(range(ROWS))


@covering(
    1,
    is_stateful=[False, True],
    num_workers=[0, 2],
    options=[{}, {"batch_size": 32}, {"collate_fn": unchanged}],
)
def test_dataloader_that_would_batch_batches_says_how_to_pass_them(
    directory, options, num_workers, is_stateful
):
    make = (
        pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
        if is_stateful
        else DataLoader
    )
    with pytest.raises(sm.OptionError, match=r"hint: pass DataLoader\(dataset, batch_size=None\)"):
        next(iter(make(BatchDataset(loader_of(directory)), num_workers=num_workers, **options)))


class PlainRows(IterableDataset):
    """Batches of a loader, without a division among workers unless ``make`` divides them."""

    def __init__(self, loader=None, make=None):
        self.loader, self.make = loader, make

    def __iter__(self):
        yield from self.make() if self.loader is None else self.loader


def own_share(directory, is_named):
    worker = get_worker_info()
    share = {"rank": worker.id, "world_size": worker.num_workers} if is_named else {}
    return sm.Loader(directory, batch_size=16, columns=["id"], tail="uneven", **share)


@pytest.mark.parametrize("method", beginning(1, ["fork", "spawn"]))
def test_loader_that_each_worker_would_deliver_whole_names_the_data_set_that_divides_it(
    directory, method
):
    whole, made = (
        PlainRows(loader_of(directory)),
        PlainRows(make=partial(own_share, directory, False)),
    )
    for plain in (whole, made):
        with pytest.raises(
            sm.OptionError,
            match="each of the 2 workers .* would deliver all batches(.|\n)*BatchDataset",
        ):
            list(in_workers(plain, 2, multiprocessing_context=method))
    assert flat(ids_of(in_workers(whole, 1, multiprocessing_context=method))) == list(range(ROWS))


@pytest.mark.slow
def test_loaders_that_workers_create_with_ranks_of_their_own_deliver_each_row_once(directory):
    plain = PlainRows(make=partial(own_share, directory, True))
    assert sorted(flat(ids_of(in_workers(plain, 2, multiprocessing_context="fork")))) == list(
        range(ROWS)
    )


def doubled(batch):
    return {"id": batch["id"] * 2}


def test_transform_with_workers_runs_in_the_worker_of_a_dataloader(directory):
    loader = loader_of(directory, transform=sm.Transform(doubled, workers=2))
    found = ids_of(in_workers(BatchDataset(loader), 2, multiprocessing_context="fork"))
    assert flat(found) == [2 * id for id in range(ROWS)]


@pytest.mark.parametrize("method", beginning(1, ["fork", "spawn"]))
def test_record_batches_with_dictionaries_reach_the_trainer(tmp_path, method):
    words = pa.array(["a", "b", None, "a"] * 10).dictionary_encode()
    table = pa.table(
        {"word": words, "nested": pa.StructArray.from_arrays([words], ["word"]), "id": range(40)}
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=20)
    loader = sm.Loader(tmp_path, batch_size=16, output="arrow")
    found = pa.Table.from_batches(
        in_workers(BatchDataset(loader), 2, multiprocessing_context=method, collate_fn=unchanged)
    )
    assert found.to_pylist() == table.to_pylist()


@pytest.mark.slow
def test_limit_of_bad_rows_and_audits_are_not_lost_in_workers(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"image": [b"no image"] * 40}), path, row_group_size=10)
    data = sm.Dataset(path, images=sm.Images("image", size=8))
    loader = sm.Loader(data, batch_size=8, errors=sm.ErrorPolicy(rows="skip", max_rows=10))
    with pytest.raises(sm.BadRowLimitError, match="max_rows is 10"):
        list(in_workers(BatchDataset(loader), 2, multiprocessing_context="fork"))
    audited = sm.Loader(data, batch_size=8, runtime=sm.Runtime(audit=True))
    with pytest.raises(sm.OptionError, match="hint: use num_workers=0"):
        list(in_workers(BatchDataset(audited), 2, multiprocessing_context="fork"))


def test_copies_of_a_data_set_leave_the_original_whole(directory):
    data = sm.Dataset(directory)
    copies = [copy.copy(data), copy.deepcopy(data), pickle.loads(pickle.dumps(data))]
    assert [len(one) for one in [*copies, copy.copy(data)]] == [ROWS] * 4
    loader = sm.Loader(data, batch_size=50, columns=["id"])
    assert flat(ids_of(pickle.loads(pickle.dumps(loader)))) == list(range(ROWS))
