"""Rows as dicts: `output="rows"` and `Dataset.iterate()`."""

from __future__ import annotations

import datetime
import decimal
import pickle

import pytest
import shardmill as sm

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("rows")
    count = 1_000
    table = pa.table(
        {
            "number": pa.array(
                [None if row % 7 == 0 else 2**53 + row for row in range(count)], pa.int64()
            ),
            "text": pa.array([None if row % 5 == 0 else "é" * (row % 40) for row in range(count)]),
            "flag": pa.array([None if row % 3 == 0 else row % 2 == 0 for row in range(count)]),
            "blob": [bytes([row % 256]) * (row % 20) for row in range(count)],
            "list": [[row, None, row + 1][: row % 4] for row in range(count)],
            "struct": [{"x": row, "y": [str(row)]} if row % 4 else None for row in range(count)],
            "day": [
                datetime.date(2026, 1, 1) + datetime.timedelta(days=row) for row in range(count)
            ],
            "price": pa.array(
                [decimal.Decimal(row) / 4 for row in range(count)], pa.decimal128(12, 2)
            ),
        }
    )
    for part in range(2):
        pq.write_table(
            table.slice(part * 500, 500), directory / f"{part}.parquet", row_group_size=130
        )
    return directory, table.to_pylist()


def test_rows_are_those_of_pyarrow_with_types_and_nulls(files):
    directory, expected = files
    rows = list(sm.Dataset(directory))
    assert rows == expected
    assert [list(map(type, row.values())) for row in rows] == [
        list(map(type, row.values())) for row in expected
    ]
    assert [
        row for batch in sm.Loader(directory, batch_size=33, output="rows") for row in batch
    ] == expected


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_shuffled_rows_are_those_of_shuffled_batches(files, threads):
    directory, expected = files
    dataset = sm.Dataset(directory, threads=threads)
    rows = list(dataset.iterate(shuffle=True, seed=7, epoch=2))
    assert rows != expected
    assert sorted(rows, key=lambda row: row["day"]) == expected
    loader = sm.Loader(
        directory, batch_size=256, shuffle=True, seed=7, output="dict", rank=0, world_size=1
    )
    loader.set_epoch(2)
    assert [row["day"] for row in rows] == [day for batch in loader for day in batch["day"]]


def test_epochs_differ_and_start_leaves_rows_out(files):
    dataset = sm.Dataset(files[0], columns=["day"])
    orders = [list(dataset.iterate(shuffle=True, epoch=epoch)) for epoch in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    assert list(dataset.iterate(shuffle=True, start=777)) == orders[0][777:]
    assert list(dataset.iterate(start=1_000)) == []


def test_filter_and_columns_hold_for_rows(files):
    dataset = sm.Dataset(
        files[0],
        columns=["flag", "number"],
        filter=sm.col("flag") == True,  # noqa: E712
    )
    rows = list(dataset)
    assert rows == [
        {"flag": row["flag"], "number": row["number"]} for row in files[1] if row["flag"]
    ]
    assert list(sm.Dataset(files[0], columns=[])) == [{}] * 1_000


def test_rows_have_marks_where_they_fill_up_a_step(files):
    batches = list(sm.Loader(files[0], batch_size=300, columns=["day"], output="rows", tail="pad"))
    assert [len(batch) for batch in batches] == [300] * 4
    assert [row["__padded"] for row in batches[-1]] == [False] * 100 + [True] * 200


def test_state_of_rows_continues_and_a_pickled_loader_delivers_them(files):
    loader = sm.Loader(files[0], batch_size=90, shuffle=True, output="rows")
    batches = iter(loader)
    first = [next(batches) for _ in range(3)]
    resumed = pickle.loads(
        pickle.dumps(sm.Loader(files[0], batch_size=90, shuffle=True, output="rows"))
    )
    resumed.load_state_dict(loader.state_dict())
    assert first + list(resumed) == list(
        sm.Loader(files[0], batch_size=90, shuffle=True, output="rows")
    )


def test_iteration_that_is_left_early_ends_its_threads(files):
    rows = sm.Dataset(files[0]).iterate()
    assert next(rows) == files[1][0]
    del rows
    assert next(iter(sm.Dataset(files[0]))) == files[1][0]


@pytest.mark.parametrize("options", [{"start": -1}, {"epoch": -1}, {"seed": 0.5}, {"shuffle": 1}])
def test_option_that_means_nothing_is_refused(files, options):
    with pytest.raises((ValueError, OverflowError)):
        list(sm.Dataset(files[0]).iterate(**options))
