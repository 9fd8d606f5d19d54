"""The calls of torch-dataloader-utils. The oracle is pyarrow."""

import itertools
import multiprocessing

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from shardmill.integrations.torch import (
    DataFileInfo,
    StructuredDataset,
    create_dataloader,
)
from torch.utils.data import DataLoader
from torch_rows import ROWS, flat, ids_of, write_rows

# There are more workers here than cores, on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),
]

# Importing torch takes seconds: one server does it for all workers.
multiprocessing.set_forkserver_preload(["torch", "shardmill.integrations.torch"])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("torch"))


@pytest.mark.parametrize("threads", [None, 0, 1, 3])
def test_every_row_comes_once_whatever_the_threads(directory, threads):
    loader, dataset = create_dataloader(
        path=str(directory), format="parquet", batch_size=33, num_workers=threads
    )
    assert isinstance(loader, DataLoader)
    batches = ids_of(loader)
    assert flat(batches) == list(range(ROWS))
    assert [len(batch) for batch in batches] == [33] * 7 + [19]
    assert len(loader) == len(dataset) == 8


def test_ranks_get_disjoint_rows_of_equal_number(directory):
    for ranks in (2, 3, 16):
        seen = [
            flat(
                ids_of(
                    create_dataloader(
                        directory, "parquet", batch_size=4, num_ranks=ranks, rank=rank
                    )[0]
                )
            )
            for rank in range(ranks)
        ]
        assert sorted(flat(seen)) == list(range(ROWS))
        assert max(map(len, seen)) - min(map(len, seen)) <= 1


@pytest.mark.parametrize("tail", ["drop", "pad"])
def test_tail_gives_equal_numbers_of_batches(directory, tail):
    counts = {
        len(
            list(
                create_dataloader(
                    directory, "parquet", batch_size=4, num_ranks=3, rank=rank, tail=tail
                )[0]
            )
        )
        for rank in range(3)
    }
    assert len(counts) == 1


def test_filters_of_pyarrow_equal_its_own(directory):
    condition = (pc.field("label") == 3) & (pc.field("id") > 50) | pc.field("name").isin(
        ["row 7", "row 9"]
    )
    loader, _ = create_dataloader(directory, "parquet", columns=["id"], filters=condition)
    assert flat(ids_of(loader)) == pq.read_table(directory).filter(condition)["id"].to_pylist()


def test_filter_that_selects_nothing_gives_no_batches(directory):
    assert list(create_dataloader(directory, "parquet", filters=pc.field("id") < 0)[0]) == []


def test_function_without_counterpart_is_named(directory):
    with pytest.raises(ValueError, match="utf8_upper"):
        create_dataloader(directory, "parquet", filters=pc.utf8_upper(pc.field("name")) == "ROW 1")


@pytest.mark.parametrize("filters", ["label == 0", [("label", "==", 0)], lambda row: True, pc])
def test_filter_that_is_no_expression_is_a_type_error(directory, filters):
    with pytest.raises(TypeError, match="filters"):
        create_dataloader(directory, "parquet", filters=filters)


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
def test_option_that_means_nothing_is_refused_by_name(directory, options, named):
    with pytest.raises(ValueError, match=named):
        create_dataloader(**({"path": directory, "format": "parquet"} | options))


class Custom:
    def generate(self, files, num_workers, epoch=0, num_ranks=1, rank=0):
        return []


def test_strategy_that_could_lose_rows_is_refused(directory):
    with pytest.raises(ValueError, match="Custom"):
        create_dataloader(directory, "parquet", split_strategy=Custom())
    with pytest.raises(TypeError, match="generate"):
        create_dataloader(directory, "parquet", split_strategy="round robin")
    balancing = type("RoundRobinSplitStrategy", (Custom,), {})()
    assert flat(
        ids_of(create_dataloader(directory, "parquet", split_strategy=balancing)[0])
    ) == list(range(ROWS))


@pytest.mark.parametrize("size", ["64MiB", "1.5 GiB", "512mb", "10485760", 1024, None])
def test_split_sizes_change_no_row(directory, size):
    assert flat(
        ids_of(create_dataloader(directory, "parquet", split_bytes=size, split_rows=7)[0])
    ) == list(range(ROWS))


def test_missing_path_and_column_are_named(directory):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        create_dataloader(directory / "nowhere", "parquet")
    with pytest.raises(KeyError, match="nothing"):
        create_dataloader(directory, "parquet", columns=["nothing"])


def test_empty_directory_gives_an_empty_loader(tmp_path):
    with pytest.warns(UserWarning, match="no data files"):
        loader, _ = create_dataloader(tmp_path, "parquet")
    assert list(loader) == []


def test_collate_function_gets_each_batch(directory):
    loader, _ = create_dataloader(
        directory,
        "parquet",
        batch_size=100,
        output_format="arrow",
        collate_fn=lambda batch: batch.num_rows,
    )
    assert list(loader) == [100, 100, 50]


def test_progress_is_shown_where_tqdm_is(directory, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        create_dataloader(directory, "parquet", show_progress=True)
    monkeypatch.undo()
    pytest.importorskip("tqdm")
    loader, _ = create_dataloader(directory, "parquet", show_progress=True, progress_interval_sec=0)
    assert flat(ids_of(loader)) == list(range(ROWS))
    assert "batch" in capsys.readouterr().err


def test_shuffle_buffer_mixes_so_many_rows(tmp_path):
    rows = 20_000
    pq.write_table(pa.table({"id": list(range(rows))}), tmp_path / "x.parquet", row_group_size=100)

    def spread(size):
        loader, _ = create_dataloader(
            tmp_path, "parquet", shuffle=True, shuffle_buffer_size=size, batch_size=500
        )
        order = flat(ids_of(loader))
        assert sorted(order) == list(range(rows))
        return [
            len({one // 100 for one in order[start : start + 500]}) for start in range(0, rows, 500)
        ]

    assert max(spread(0)) <= 6
    assert min(spread(5000)) > 20


def test_metrics_tell_what_was_delivered_and_reading_them_changes_nothing(directory):
    loader, dataset = create_dataloader(directory, "parquet", batch_size=50)
    batches = iter(loader)
    next(batches)
    assert [(one.rows_read, one.batches_read) for one in dataset.get_metrics()] == [(50, 1)]
    assert len(list(batches)) == 4
    (metrics,) = dataset.get_metrics()
    assert (metrics.rows_read, metrics.batches_read, metrics.files_read) == (ROWS, 5, 3)
    assert metrics.bytes_read > 0
    dataset.reset_metrics()
    assert dataset.get_metrics()[0].rows_read == 0


def test_state_of_the_loader_continues_on_other_ranks_and_threads(directory):
    loader, _ = create_dataloader(
        directory, "parquet", batch_size=20, shuffle=True, lanes=2, num_workers=2
    )
    batches = iter(loader)
    seen = flat(ids_of(itertools.islice(batches, 3)))
    state = loader.state_dict()
    rest = []
    for rank in range(2):
        other, dataset = create_dataloader(
            directory, "parquet", batch_size=10, shuffle=True, num_ranks=2, rank=rank, num_workers=0
        )
        dataset.load_state_dict(state)
        rest += flat(ids_of(other))
    assert sorted(seen + rest) == list(range(ROWS))


def test_files_that_are_known_keep_their_order(directory):
    files = [DataFileInfo(str(directory / name)) for name in ("2.parquet", "0.parquet")]
    dataset = StructuredDataset(files, "parquet", batch_size=50, columns=["id"])
    assert flat(ids_of(dataset)) == [*range(200, 250), *range(100)]
    loader, dataset = StructuredDataset.create_dataloader(path=directory, format="parquet")
    assert flat(ids_of(loader)) == list(range(ROWS))
    with pytest.raises(TypeError, match="collate"):
        StructuredDataset(files, "parquet", collate=list)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is an accelerator")
def test_page_locked_memory_without_an_accelerator_is_a_warning(directory):
    with pytest.warns(UserWarning, match="pin_memory"):
        loader, _ = create_dataloader(directory, "parquet", pin_memory=True)
    assert flat(ids_of(loader)) == list(range(ROWS))


@pytest.mark.parametrize("last", [False, True])
def test_batch_whose_collate_function_fails_is_delivered_after_a_resume(directory, last):
    def failing(batch):
        if (batch["id"][-1] == ROWS - 1) if last else (batch["id"][0] == 100):
            raise KeyError("label")
        return batch

    loader, _ = create_dataloader(
        directory, "parquet", batch_size=50, columns=["id"], collate_fn=failing
    )
    seen, batches = [], iter(loader)
    with pytest.raises(KeyError, match="label"):
        while True:
            seen.append(next(batches)["id"].tolist())
    resumed, _ = create_dataloader(directory, "parquet", batch_size=50, columns=["id"])
    resumed.load_state_dict(loader.state_dict())
    assert flat([*seen, *ids_of(resumed)]) == list(range(ROWS))
