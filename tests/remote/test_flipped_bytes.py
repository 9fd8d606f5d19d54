"""Bytes that turned on their way: what has checksums notices, asks once more, and then says so."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from shardmill.curate import ParquetSink, Pipeline, TableSource

from .fault_proxy import Fault

ROWS = 3000


def rows():
    return [{"id": number, "text": f"row {number} " * 5} for number in range(ROWS)]


def write(kind: str, directory: Path) -> Path:
    directory.mkdir()
    if kind == "parquet":
        pq.write_table(
            pa.Table.from_pylist(rows()),
            directory / "a.parquet",
            row_group_size=500,
            write_page_checksum=True,
        )
    elif kind == "arrayrecord":
        with sm.Writer(directory / "a.arrayrecord") as writer:
            for row in rows():
                writer.write(json.dumps(row).encode())
    elif kind == "mds":
        with sm.Writer(directory, format="mds", mode="overwrite", hashes=["xxh64"]) as writer:
            for row in rows():
                writer.write(row)
    elif kind == "mds-zstd":
        with sm.Writer(
            directory, format="mds", mode="overwrite", compression="zstd", hashes=["sha1"]
        ) as writer:
            for row in rows():
                writer.write(row)
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows()).encode()
        (directory / "a.jsonl.gz").write_bytes(gzip.compress(text))
    return directory


KINDS = ["parquet", "arrayrecord", "mds", "mds-zstd", "jsonl-gzip"]


@pytest.fixture(params=KINDS)
def data(request, bucket, tmp_path):
    directory = write(request.param, tmp_path / "data")
    bucket.publish("data", directory)
    return f"s3://{bucket.name}/data", list(sm.Dataset(directory))


def flips(count: int = 0, seed: int = 1) -> Fault:
    """Of the objects with rows; an index is JSON, and without checksums."""
    target = r"\.(parquet|arrayrecord|mds|mds\.zstd|gz)$"
    return Fault(
        kind="flip",
        methods=("GET",),
        operations=("GetObject",),
        target=target,
        count=count,
        seed=seed,
    )


@pytest.mark.parametrize("is_cached", [False, True])
def test_one_flip_costs_one_more_request(is_cached, data, server, proxy, tmp_path):
    path, known = data
    options = server.storage_options(endpoint=proxy.endpoint)
    for seed in range(examples(6, 3)):
        # A byte that turned may be kept unread; with the next flip, the next seed would have two.
        cached = {"cache_dir": str(tmp_path / f"cache-{seed}")} if is_cached else {}
        opened = sm.Dataset(path, storage_options={**options, **cached, "max_requests": 8 + seed})
        if is_cached:
            sm.storage.clear_cache(cached["cache_dir"])
        proxy.faults(flips(count=1, seed=seed))
        assert list(opened) == known
        assert sum(proxy.given()) <= 1
        proxy.faults()
        assert list(opened) == known


def test_flips_without_end_are_an_error_that_names_the_file(data, server, proxy):
    path, _known = data
    opened = sm.Dataset(path, storage_options=server.storage_options(endpoint=proxy.endpoint))
    proxy.faults(flips())
    try:
        read = list(opened)
    except (ValueError, OSError) as error:
        assert path in str(error)
    else:
        # All of it was in memory since it was opened.
        assert read == _known and proxy.given() == [0]


def test_flips_while_it_is_opened_are_fetched_again(data, server, proxy):
    path, known = data
    options = server.storage_options(endpoint=proxy.endpoint)
    for seed in range(examples(4, 2)):
        proxy.faults(flips(count=1, seed=seed))
        try:
            opened = sm.Dataset(path, storage_options=options)
            assert list(opened) == known
        except (ValueError, OSError) as error:
            # A footer has no checksum: it may tell of rows that are not there, and then the rows do
            # not fit.
            assert path in str(error)
        proxy.faults()


@pytest.mark.parametrize("shuffle", [False, True])
def test_loader_over_parquet_with_checksums_under_many_flips(
    shuffle, bucket, server, proxy, tmp_path
):
    directory = tmp_path / "many"
    directory.mkdir()
    for number in range(6):
        ids = range(number * ROWS, (number + 1) * ROWS)
        # More than is fetched and held when a file is opened.
        part = pa.table(
            {"id": list(ids), "noise": [random.Random(id).randbytes(1000) for id in ids]}
        )
        pq.write_table(
            part,
            directory / f"{number}.parquet",
            row_group_size=100,
            write_page_checksum=True,
            compression="none",
        )
    bucket.publish("many", directory)
    options = server.storage_options(endpoint=proxy.endpoint)
    loader = sm.Loader(
        f"s3://{bucket.name}/many",
        batch_size=64,
        shuffle=shuffle,
        output="arrow",
        storage_options=options,
    )
    # Of different files: a second flip of the same bytes, when they are fetched again,
    # would be an error.
    proxy.faults(
        *(
            Fault(kind="flip", methods=("GET",), target=rf"/{n}\.parquet", count=1, seed=n)
            for n in (2, 5)
        )
    )
    assert sorted(id for batch in loader for id in batch["id"].to_pylist()) == list(range(6 * ROWS))
    assert proxy.given() == [1, 1]


def test_job_over_a_small_object_that_is_held_in_memory(bucket, server, proxy, tmp_path):
    part = pa.table({"id": list(range(ROWS)), "text": [f"row {n} " * 30 for n in range(ROWS)]})
    pq.write_table(
        part,
        tmp_path / "a.parquet",
        row_group_size=500,
        write_page_checksum=True,
        compression="none",
    )
    bucket.publish("in/a.parquet", tmp_path / "a.parquet")
    root, options = f"s3://{bucket.name}", server.storage_options(endpoint=proxy.endpoint)
    # A body in the middle of the file: neither its magic nor its footer.
    fault = Fault(
        kind="flip", methods=("GET",), target=r"a\.parquet", position=20_000, count=1, skip=1
    )
    proxy.faults(fault)
    Pipeline(
        source=TableSource(f"{root}/in", storage_options=options),
        stages=[],
        sink=ParquetSink(f"{root}/out"),
    ).run(progress=False)
    proxy.faults()
    assert [row["id"] for row in sm.Dataset(f"{root}/out")] == list(range(ROWS))
