"""More than a thousand faults of every kind in one job.

Each row is there once, within the time that the faults themselves take and some more.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource

from .fault_proxy import Fault, mix, network, throttled

#: Of what is held; a fault costs its client about as much.
HOLD_S = 0.1
FILES, GROUPS, GROUP_ROWS = examples(25, 9), 40, 20


def faults(count: int, seed: int, probability: float = 0.35) -> Fault:
    """All kinds, and answers whose length is not what they say."""
    kinds = mix(probability=probability, count=count, seed=seed, hold_s=HOLD_S).faults
    lengths = (Fault(kind="length", difference=1), Fault(kind="length", difference=-1))
    return Fault(
        kind="mix", probability=probability, count=count, seed=seed, faults=(*kinds, *lengths)
    )


def patient(server, proxy):
    return {**server.storage_options(endpoint=proxy.endpoint), "request_timeout": 1}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("groups")
    for number in range(FILES):
        start = number * GROUPS * GROUP_ROWS
        ids = np.arange(start, start + GROUPS * GROUP_ROWS)
        # Row groups that lie apart are requests of their own.
        noise = np.random.default_rng(number).bytes(len(ids) * 2000)
        text = [noise[n * 2000 : (n + 1) * 2000] for n in range(len(ids))]
        pq.write_table(
            pa.table({"id": ids, "noise": text}),
            directory / f"{number:02}.parquet",
            row_group_size=GROUP_ROWS,
            compression="none",
        )
    return directory


RANKS = 12


def loader_under(count: int, directory, bucket, server, proxy, seconds: float) -> None:
    """Ranks of one job, each a loader of its own, until the given number of faults was injected."""
    bucket.publish("train", directory)
    data = sm.Dataset(f"s3://{bucket.name}/train", storage_options=patient(server, proxy))

    def epoch(rank: int) -> list[int]:
        loader = sm.Loader(
            data,
            batch_size=16,
            shuffle=True,
            seed=1,
            output="numpy",
            columns=["id"],
            rank=rank,
            tail="uneven",
            world_size=RANKS,
        )
        return [id for batch in loader for id in batch["id"].tolist()]

    proxy.faults(faults(count, seed=1))
    begun = time.monotonic()
    with ThreadPoolExecutor(RANKS) as ranks:
        while sum(proxy.given()) < count:
            rows = [id for part in ranks.map(epoch, range(RANKS)) for id in part]
            assert sorted(rows) == list(range(FILES * GROUPS * GROUP_ROWS))
            assert time.monotonic() - begun < seconds


def test_shuffled_loader_lives_through_a_thousand_faults_or_the_first_of_them(
    directory, bucket, server, proxy
):
    loader_under(examples(1000, 100), directory, bucket, server, proxy, seconds=200)


@pytest.mark.slow
def test_shuffled_loader_lives_through_twenty_thousand_faults(directory, bucket, server, proxy):
    loader_under(20_000, directory, bucket, server, proxy, seconds=1500)


def same(batch):
    return batch


def pipeline_under(count: int, files: int, bucket, server, proxy, tmp_path) -> int:
    rows = 50
    for number in range(files):
        ids = list(range(number * rows, (number + 1) * rows))
        pq.write_table(pa.table({"id": ids}), tmp_path / f"{number:04}.parquet")
    bucket.publish("in", tmp_path)
    root, options = f"s3://{bucket.name}", patient(server, proxy)
    sm.storage.configure(root, options)
    proxy.faults(faults(count, seed=2, probability=0.2))
    Pipeline(
        source=TableSource(f"{root}/in", files_per_partition=1, storage_options=options),
        stages=[Map(same, batch_size=50)],
        sink=ParquetSink(f"{root}/out"),
        checkpoint={"path": f"{root}/state", "id_column": "id", "version": "1"},
    ).run(progress=False)
    given = sum(proxy.given())
    proxy.faults()
    assert sorted(row["id"] for row in sm.Dataset(f"{root}/out")) == list(range(files * rows))
    return given


def test_job_from_bucket_to_bucket_lives_through_its_faults(bucket, server, proxy, tmp_path):
    files = examples(40, 15)
    assert pipeline_under(400, files, bucket, server, proxy, tmp_path) >= files * 5 // 2


@pytest.mark.slow
def test_job_from_bucket_to_bucket_lives_through_thousands(bucket, server, proxy, tmp_path):
    assert pipeline_under(5000, 1000, bucket, server, proxy, tmp_path) >= 2000


def test_writer_and_reader_live_through_their_faults(bucket, server, proxy):
    options = patient(server, proxy)
    out = f"s3://{bucket.name}/out"
    proxy.faults(faults(150, seed=3))
    noise = np.random.default_rng(0)
    with sm.Writer(
        out, format="parquet", compression="none", shard_bytes=200_000, storage_options=options
    ) as writer:
        for number in range(60):
            writer.write_batch(
                pa.table({"id": [number] * 50, "noise": [noise.bytes(2000) for _ in range(50)]})
            )
    assert [row["id"] for row in sm.Dataset(out)] == [
        number for number in range(60) for _ in range(50)
    ]
    assert sum(proxy.given()) >= 30


def test_large_object_in_parts_lives_through_its_faults(bucket, server, proxy):
    options = patient(server, proxy)
    out = f"s3://{bucket.name}/large.parquet"
    faulty = Fault(
        kind="mix",
        probability=0.5,
        count=12,
        seed=5,
        faults=(*mix(probability=1, count=0, seed=0).faults, Fault(kind="lost", applied=True)),
    )
    proxy.faults(faulty)
    batch = pa.table({"x": [bytes([number % 251]) * 100_000 for number in range(400)]})
    with sm.Writer(out, compression="none", storage_options=options) as writer:
        writer.write_batch(batch)
    proxy.faults()
    assert sm.Dataset(out).take(range(400)).column("x").to_pylist() == batch["x"].to_pylist()


def test_burst_of_refusals_is_waited_for_and_speed_comes_back(directory, bucket, server, proxy):
    bucket.publish("train", directory)
    loader = sm.Loader(
        f"s3://{bucket.name}/train",
        batch_size=64,
        output="numpy",
        columns=["id"],
        storage_options=patient(server, proxy),
    )

    def epoch():
        assert sum(len(batch["id"]) for batch in loader) == FILES * GROUPS * GROUP_ROWS

    epoch()
    proxy.faults(throttled(503, count=200))
    epoch()
    assert proxy.given() == [200]
    # Answers that take their time, so that requests under way at once do not depend on
    # who is faster.
    proxy.faults(*network(round_trip_s=0.05))
    proxy.forget()
    epoch()
    assert proxy.counters()["in_flight_max"] > 4


def test_object_of_a_checkpoint_that_arrives_cut_short_is_read_again(
    bucket, server, proxy, tmp_path
):
    pq.write_table(pa.table({"id": list(range(100))}), tmp_path / "0.parquet")
    bucket.publish("in", tmp_path)
    root, options = f"s3://{bucket.name}", patient(server, proxy)
    sm.storage.configure(root, options)

    def run():
        Pipeline(
            source=TableSource(f"{root}/in", storage_options=options),
            sink=ParquetSink(f"{root}/out"),
            checkpoint={"path": f"{root}/state", "id_column": "id", "version": "1"},
        ).run(progress=False)

    run()
    cut = 0
    for skip in range(8):
        proxy.faults(
            Fault(
                kind="length", difference=-1, methods=("GET",), target="/state/", skip=skip, count=1
            )
        )
        run()
        cut += sum(proxy.given())
    assert cut >= 4
