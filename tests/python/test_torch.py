"""The calls of torch-dataloader-utils, and worker processes of real DataLoaders. The oracle is the loader in one process, and pyarrow."""

import gc
import itertools
import json
import multiprocessing
import os
import pickle
import signal
import threading

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm

torch = pytest.importorskip("torch")

from shardmill.integrations.torch import (
    BatchDataset,
    DataFileInfo,
    StructuredDataset,
    create_dataloader,
)
from torch.utils.data import DataLoader

# There are more workers here than cores, on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

# Importing torch takes seconds: one server does it for all workers.
multiprocessing.set_forkserver_preload(["torch", "shardmill.integrations.torch"])

ROWS = 250
STARTS = [method for method in ("fork", "spawn", "forkserver") if method in multiprocessing.get_all_start_methods()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("torch")
    for number, start in enumerate((0, 100, 200)):
        ids = list(range(start, min(start + 100, ROWS)))
        columns = {"id": ids, "label": [one % 5 for one in ids], "name": [f"row {one}" for one in ids]}
        pq.write_table(pa.table(columns), path / f"{number}.parquet", row_group_size=30)
    return path


def loader_of(folder, **options):
    given = {"batch_size": 16, "columns": ["id"], "rank": 0, "world_size": 1, "threads": 1} | options
    return sm.Loader(folder, **given)


def ids_of(batches):
    return [batch["id"].tolist() for batch in batches]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def in_workers(dataset, workers, **options):
    return DataLoader(dataset, batch_size=None, num_workers=workers, **options)


# Worker processes


@pytest.mark.parametrize("workers", [1, 2, 3, 20])
@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True, "shuffle_window_bytes": 2000}, {"lanes": 3}, {"filter": sm.col("label") == 1}]
)
def test_worker_processes_give_the_batches_of_one_process_in_their_order(folder, workers, options):
    expected = ids_of(loader_of(folder, **options))
    assert (
        ids_of(in_workers(BatchDataset(loader_of(folder, **options)), workers, multiprocessing_context="fork"))
        == expected
    )


@pytest.mark.parametrize("method", STARTS)
def test_each_start_method_gives_a_new_epoch_at_each_pass(folder, method):
    oracle = loader_of(folder, shuffle=True, shuffle_window_bytes=2000)
    expected = [ids_of(oracle), ids_of(oracle)]
    loader = in_workers(
        BatchDataset(loader_of(folder, shuffle=True, shuffle_window_bytes=2000)),
        2,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    assert [ids_of(loader), ids_of(loader)] == expected
    assert sorted(flat(expected[0])) == list(range(ROWS))
    assert expected[0] != expected[1]


def test_workers_that_end_with_their_pass_give_a_new_epoch_at_each_pass(folder):
    oracle = loader_of(folder, shuffle=True)
    loader = in_workers(BatchDataset(loader_of(folder, shuffle=True)), 2, multiprocessing_context="fork")
    assert [ids_of(loader) for _ in range(3)] == [ids_of(oracle) for _ in range(3)]


def test_set_epoch_reaches_workers_that_are_running(folder):
    oracle = loader_of(folder, shuffle=True)
    dataset = BatchDataset(loader_of(folder, shuffle=True))
    loader = in_workers(dataset, 2, multiprocessing_context="fork", persistent_workers=True)
    for epoch in (0, 5, 5, 2):
        oracle.set_epoch(epoch + 1)
        oracle.set_epoch(epoch)
        dataset.set_epoch(epoch)
        assert ids_of(loader) == ids_of(oracle), epoch


def test_workers_left_early_agree_on_the_epoch_of_the_next_pass(folder):
    loader = in_workers(
        BatchDataset(loader_of(folder, shuffle=True)), 3, multiprocessing_context="fork", persistent_workers=True
    )
    for _ in range(10):
        next(iter(loader))
        assert sorted(flat(ids_of(loader))) == list(range(ROWS))


def test_ranks_with_workers_share_the_rows(folder):
    seen = []
    for rank in range(3):
        loader = loader_of(folder, rank=rank, world_size=3, tail="uneven", shuffle=True)
        seen.append(flat(ids_of(in_workers(BatchDataset(loader), 2, multiprocessing_context="fork"))))
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
    else:
        assert own == other


def test_record_batches_are_sent_without_the_rows_around_them(folder):
    from shardmill.integrations.torch.parcels import parcel

    (whole,) = pq.read_table(folder / "0.parquet").combine_chunks().to_batches()
    part = parcel(whole.slice(10, 5))
    assert part.equals(whole.slice(10, 5))
    assert len(pickle.dumps(part)) < len(pickle.dumps(whole)) / 2


def epoch_in_workers(dataset, rank, results):
    results.put((rank, ids_of(in_workers(dataset, 2, multiprocessing_context="fork"))))


def test_processes_that_share_a_data_set_have_epochs_of_their_own(folder):
    dataset = BatchDataset(loader_of(folder, shuffle=True))
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    ranks = [context.Process(target=epoch_in_workers, args=(dataset, rank, results)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    seen = dict(results.get(timeout=60) for _ in ranks)
    for rank in ranks:
        rank.join()
    assert seen[0] == seen[1] == ids_of(loader_of(folder, shuffle=True))


@pytest.mark.parametrize("output", ["torch", "numpy", "arrow", "dict"])
def test_each_output_comes_through_worker_processes(folder, output):
    loader = loader_of(folder, output=output, columns=["id", "name"])
    workers = in_workers(BatchDataset(loader), 1, multiprocessing_context="forkserver", collate_fn=unchanged)
    names = [batch["name"].to_pylist() if output == "arrow" else list(batch["name"]) for batch in workers]
    assert flat(names) == [f"row {one}" for one in range(ROWS)]


def unchanged(batch):
    return batch


def kill_a_worker(dataset):
    batches = iter(in_workers(dataset, 2, multiprocessing_context="fork", timeout=60))
    next(batches)
    os.kill(batches._workers[0].pid, signal.SIGKILL)
    list(batches)


def test_killed_worker_is_an_error_and_no_hang(folder):
    # In a process of its own: torch raises in a handler of signals, wherever the program is.
    dataset = BatchDataset(loader_of(folder, batch_size=1))
    process = multiprocessing.get_context("fork").Process(target=kill_a_worker, args=(dataset,))
    process.start()
    process.join(180)
    assert process.exitcode == 1


def test_error_of_a_worker_names_the_file(tmp_path):
    path = tmp_path / "broken.parquet"
    pq.write_table(
        pa.table({"id": list(range(10_000))}), path, row_group_size=1000, compression="none", use_dictionary=False
    )
    dataset = BatchDataset(loader_of(tmp_path))
    path.write_bytes(path.read_bytes()[:4] + b"\xff" * 5000 + path.read_bytes()[5004:])
    with pytest.raises(Exception, match="broken.parquet"):
        list(in_workers(dataset, 2, multiprocessing_context="fork"))


# State


@pytest.mark.parametrize("done", [0, 1, 7, 15])
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_loaded_state_continues_for_any_number_of_workers_and_the_next_epoch_is_whole(folder, done, workers):
    oracle = loader_of(folder, shuffle=True)
    expected, following = ids_of(oracle), ids_of(oracle)
    before = loader_of(folder, shuffle=True)
    batches = iter(before)
    for _ in range(done):
        next(batches)
    dataset = BatchDataset(loader_of(folder, shuffle=True))
    dataset.load_state_dict(json.loads(json.dumps(before.state_dict())))
    dataset.set_epoch(0)
    options = {"multiprocessing_context": "fork"} if workers else {}
    loader = in_workers(dataset, workers, **options)
    assert ids_of(loader) == expected[done:]
    assert ids_of(loader) == following


def test_state_is_refused_where_worker_processes_made_the_batches(folder):
    dataset = BatchDataset(loader_of(folder))
    list(in_workers(dataset, 2, multiprocessing_context="fork"))
    with pytest.raises(RuntimeError, match="StatefulDataLoader"):
        dataset.state_dict()
    dataset.set_epoch(0)
    assert dataset.state_dict()["consumed"] == 0


@pytest.mark.parametrize("done", [0, 1, 6, 15])
@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_data_loader_resumes(folder, done, workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    oracle = loader_of(folder, shuffle=True)
    expected, following = ids_of(oracle), ids_of(oracle)

    def make():
        options = {"multiprocessing_context": "fork"} if workers else {}
        dataset = BatchDataset(loader_of(folder, shuffle=True))
        return stateful.StatefulDataLoader(dataset, batch_size=None, num_workers=workers, **options)

    first = make()
    batches = iter(first)
    seen = ids_of(itertools.islice(batches, done))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    rest = make()
    rest.load_state_dict(state)
    assert seen + ids_of(rest) == expected
    assert ids_of(rest) == following


def test_stateful_data_loader_after_a_whole_epoch_gives_the_next_one(folder):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    oracle = loader_of(folder, shuffle=True)
    ids_of(oracle)
    following = ids_of(oracle)
    for workers in (0, 2):
        options = {"multiprocessing_context": "fork"} if workers else {}
        first, second = (
            stateful.StatefulDataLoader(
                BatchDataset(loader_of(folder, shuffle=True)), batch_size=None, num_workers=workers, **options
            )
            for _ in range(2)
        )
        ids_of(first)
        second.load_state_dict(first.state_dict())
        assert ids_of(second) == following


def test_data_set_pickles_with_its_position(folder):
    dataset = BatchDataset(loader_of(folder))
    before = loader_of(folder)
    next(iter(before))
    dataset.load_state_dict(before.state_dict())
    copy = pickle.loads(pickle.dumps(dataset))
    assert flat(ids_of(copy)) == list(range(16, ROWS))
    assert flat(ids_of(dataset)) == list(range(16, ROWS))


def test_abandoned_iterators_leave_nothing(folder):
    def held():
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(os.listdir("/proc/self/task"))

    def peek():
        loader, dataset = create_dataloader(folder, "parquet", batch_size=8, num_workers=2)
        next(iter(loader))
        next(iter(in_workers(dataset, 2, multiprocessing_context="fork")))

    peek()
    before, rounds = held(), 8
    for _ in range(rounds):
        peek()
    files, threads, tasks = (now - then for now, then in zip(held(), before, strict=True))
    assert files <= 0 and threads <= 0
    # Native threads stay for later work, and there are as many as were ever needed at one moment: on a busy machine a few more.
    assert tasks < rounds


# create_dataloader


@pytest.mark.parametrize("threads", [None, 0, 1, 3])
def test_every_row_comes_once_whatever_the_threads(folder, threads):
    loader, dataset = create_dataloader(path=str(folder), format="parquet", batch_size=33, num_workers=threads)
    assert isinstance(loader, DataLoader)
    batches = ids_of(loader)
    assert flat(batches) == list(range(ROWS))
    assert [len(batch) for batch in batches] == [33] * 7 + [19]
    assert len(loader) == len(dataset) == 8


def test_ranks_get_disjoint_rows_of_equal_number(folder):
    for ranks in (2, 3, 16):
        seen = [
            flat(ids_of(create_dataloader(folder, "parquet", batch_size=4, num_ranks=ranks, rank=rank)[0]))
            for rank in range(ranks)
        ]
        assert sorted(flat(seen)) == list(range(ROWS))
        assert max(map(len, seen)) - min(map(len, seen)) <= 1


@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_tail_gives_equal_numbers_of_batches(folder, tail):
    counts = {
        len(list(create_dataloader(folder, "parquet", batch_size=4, num_ranks=3, rank=rank, tail=tail)[0]))
        for rank in range(3)
    }
    assert len(counts) == 1


def test_filters_of_pyarrow_equal_its_own(folder):
    condition = (pc.field("label") == 3) & (pc.field("id") > 50) | pc.field("name").isin(["row 7", "row 9"])
    loader, _ = create_dataloader(folder, "parquet", columns=["id"], filters=condition)
    assert flat(ids_of(loader)) == pq.read_table(folder).filter(condition)["id"].to_pylist()


def test_filter_that_selects_nothing_gives_no_batches(folder):
    assert list(create_dataloader(folder, "parquet", filters=pc.field("id") < 0)[0]) == []


def test_function_without_counterpart_is_named(folder):
    with pytest.raises(ValueError, match="utf8_upper"):
        create_dataloader(folder, "parquet", filters=pc.utf8_upper(pc.field("name")) == "ROW 1")


@pytest.mark.parametrize("filters", ["label == 0", [("label", "==", 0)], lambda row: True, pc])
def test_filter_that_is_no_expression_is_a_type_error(folder, filters):
    with pytest.raises(TypeError, match="filters"):
        create_dataloader(folder, "parquet", filters=filters)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"format": "xml"}, "parquet"),
        ({"batch_size": 0}, "batch_size"),
        ({"num_workers": -1}, "num_workers"),
        ({"num_ranks": 0}, "num_ranks"),
        ({"num_ranks": 2, "rank": 2}, "rank"),
        ({"rank": -1}, "rank"),
        ({"output_format": "pandas"}, "output_format"),
        ({"partitioning": "directory"}, "partitioning"),
        ({"split_bytes": "lots"}, "split_bytes"),
        ({"split_bytes": "64 parsecs"}, "split_bytes"),
        ({"split_bytes": ""}, "split_bytes"),
        ({"split_bytes": 0}, "split_bytes"),
        ({"split_bytes": True}, "split_bytes"),
        ({"split_rows": 0}, "split_rows"),
        ({"tail": "cut"}, "tail"),
        ({"tail": "pad", "drop_last": True}, "drop_last"),
        ({"shuffle_buffer_size": 100}, "shuffle_buffer_size"),
        ({"shuffle_buffer_size": "many", "shuffle": True}, "shuffle_buffer_size"),
    ],
)
def test_option_that_means_nothing_is_refused_by_name(folder, options, named):
    with pytest.raises(ValueError, match=named):
        create_dataloader(**({"path": folder, "format": "parquet"} | options))


class Custom:
    def generate(self, files, num_workers, epoch=0, num_ranks=1, rank=0):
        return []


def test_strategy_that_could_lose_rows_is_refused(folder):
    with pytest.raises(ValueError, match="Custom"):
        create_dataloader(folder, "parquet", split_strategy=Custom())
    with pytest.raises(TypeError, match="generate"):
        create_dataloader(folder, "parquet", split_strategy="round robin")
    balancing = type("RoundRobinSplitStrategy", (Custom,), {})()
    assert flat(ids_of(create_dataloader(folder, "parquet", split_strategy=balancing)[0])) == list(range(ROWS))


@pytest.mark.parametrize("size", ["64MiB", "1.5 GiB", "512mb", "10485760", 1024, None])
def test_split_sizes_change_no_row(folder, size):
    assert flat(ids_of(create_dataloader(folder, "parquet", split_bytes=size, split_rows=7)[0])) == list(range(ROWS))


def test_missing_path_and_column_are_named(folder):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        create_dataloader(folder / "nowhere", "parquet")
    with pytest.raises(KeyError, match="nothing"):
        create_dataloader(folder, "parquet", columns=["nothing"])


def test_empty_directory_gives_an_empty_loader(tmp_path):
    with pytest.warns(UserWarning, match="no data files"):
        loader, _ = create_dataloader(tmp_path, "parquet")
    assert list(loader) == []


def test_collate_function_gets_each_batch(folder):
    loader, _ = create_dataloader(
        folder, "parquet", batch_size=100, output_format="arrow", collate_fn=lambda batch: batch.num_rows
    )
    assert list(loader) == [100, 100, 50]


def test_progress_is_shown_where_tqdm_is(folder, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        create_dataloader(folder, "parquet", show_progress=True)
    monkeypatch.undo()
    pytest.importorskip("tqdm")
    loader, _ = create_dataloader(folder, "parquet", show_progress=True, progress_interval_sec=0)
    assert flat(ids_of(loader)) == list(range(ROWS))
    assert "batch" in capsys.readouterr().err


def test_shuffle_buffer_mixes_so_many_rows(tmp_path):
    rows = 20_000
    pq.write_table(pa.table({"id": list(range(rows))}), tmp_path / "x.parquet", row_group_size=100)

    def spread(size):
        loader, _ = create_dataloader(tmp_path, "parquet", shuffle=True, shuffle_buffer_size=size, batch_size=500)
        order = flat(ids_of(loader))
        assert sorted(order) == list(range(rows))
        return [len({one // 100 for one in order[start : start + 500]}) for start in range(0, rows, 500)]

    assert max(spread(0)) <= 6
    assert min(spread(5000)) > 20


def test_metrics_tell_what_was_delivered_and_reading_them_changes_nothing(folder):
    loader, dataset = create_dataloader(folder, "parquet", batch_size=50)
    batches = iter(loader)
    next(batches)
    assert [(one.rows_read, one.batches_read) for one in dataset.get_metrics()] == [(50, 1)]
    assert len(list(batches)) == 4
    (metrics,) = dataset.get_metrics()
    assert (metrics.rows_read, metrics.batches_read, metrics.files_read) == (ROWS, 5, 3)
    assert metrics.bytes_read > 0
    dataset.reset_metrics()
    assert dataset.get_metrics()[0].rows_read == 0


def test_state_of_the_loader_continues_on_other_ranks_and_threads(folder):
    loader, _ = create_dataloader(folder, "parquet", batch_size=20, shuffle=True, lanes=2, num_workers=2)
    batches = iter(loader)
    seen = flat(ids_of(itertools.islice(batches, 3)))
    state = loader.state_dict()
    rest = []
    for rank in range(2):
        other, dataset = create_dataloader(
            folder, "parquet", batch_size=10, shuffle=True, num_ranks=2, rank=rank, num_workers=0
        )
        dataset.load_state_dict(state)
        rest += flat(ids_of(other))
    assert sorted(seen + rest) == list(range(ROWS))


def test_files_that_are_known_keep_their_order(folder):
    files = [DataFileInfo(str(folder / name)) for name in ("2.parquet", "0.parquet")]
    dataset = StructuredDataset(files, "parquet", batch_size=50, columns=["id"])
    assert flat(ids_of(dataset)) == [*range(200, 250), *range(100)]
    loader, dataset = StructuredDataset.create_dataloader(path=folder, format="parquet")
    assert flat(ids_of(loader)) == list(range(ROWS))
    with pytest.raises(TypeError, match="collate"):
        StructuredDataset(files, "parquet", collate=unchanged)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
def test_page_locked_memory_without_an_accelerator_is_a_warning(folder):
    with pytest.warns(UserWarning, match="pin_memory"):
        loader, _ = create_dataloader(folder, "parquet", pin_memory=True)
    assert flat(ids_of(loader)) == list(range(ROWS))


# Trainers


def test_lightning_continues_where_its_checkpoint_was_taken(folder, tmp_path):
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
        loader, _ = create_dataloader(folder, "parquet", batch_size=16, columns=["id"], shuffle=True)
        trainer.fit(Model(), loader, **options)

    fit()
    whole = seen.copy()
    assert len(whole) == 48
    seen.clear()
    with pytest.raises(RuntimeError, match="stopped"):
        fit([Stop()])
    fit(ckpt_path=tmp_path / "saved.ckpt", weights_only=False)
    assert seen == whole


def test_accelerate_wraps_only_a_loader_that_is_not_shared_out_already(folder):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    shared, _ = create_dataloader(folder, "parquet", columns=["id"], num_ranks=2, rank=1)
    assert accelerator.prepare(shared) is shared
    whole, _ = create_dataloader(folder, "parquet", batch_size=32, columns=["id"])
    assert flat(ids_of(accelerator.prepare(whole))) == list(range(ROWS))
