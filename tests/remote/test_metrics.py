"""What a loader tells about a store that is slow, that fails now and then, and that is cached."""

import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import ParquetSink, Pipeline, TableSource

from .fault_proxy import network, throttled

ROWS = 30_000


@pytest.fixture
def parquet(bucket, tmp_path):
    directory = tmp_path / "train"
    directory.mkdir()
    for part in range(4):
        table = pa.table({"x": list(range(part * ROWS, (part + 1) * ROWS))})
        pq.write_table(table, directory / f"{part}.parquet", row_group_size=ROWS // 5)
    bucket.publish("train", directory)
    return f"s3://{bucket.name}/train"


def test_slow_store_is_named_and_its_share_is_that_of_the_trainer(parquet, server, proxy):
    options = server.storage_options(endpoint=proxy.endpoint)
    loader = sm.Loader(
        parquet,
        storage_options=options,
        batch_size=1_000,
        output="numpy",
        # Superbatch after superbatch: prefetching would hide the latency.
        runtime=sm.Runtime(threads=1, prefetch_bytes=1),
    )
    proxy.faults(*network(round_trip_s=0.05))
    waits, first = [], None
    begun = time.perf_counter()
    for _ in loader:
        now = time.perf_counter()
        first = first or now
        waits.append(now - begun)
        time.sleep(0.001)
        begun = time.perf_counter()
    verdict = loader.diagnosis()
    assert verdict.starved == pytest.approx(sum(waits[1:]) / (begun - first), abs=0.05)
    assert verdict.stage == "fetch", str(verdict)
    metrics = loader.metrics()
    assert metrics.stages.fetch >= 0.05
    assert metrics.storage.requests > 0
    assert metrics.storage.bytes > 0
    assert metrics.storage.retries == 0


def test_requests_that_failed_are_retries(parquet, server, proxy):
    options = server.storage_options(endpoint=proxy.endpoint)
    loader = sm.Loader(parquet, storage_options=options, batch_size=1_000, output="numpy")
    proxy.faults(throttled(count=3))
    assert sum(len(batch["x"]) for batch in loader) == 4 * ROWS
    assert loader.metrics().storage.retries == 3
    assert sm.storage.metrics(parquet).retries == 3
    assert sm.storage.metrics().retries >= 3


def test_second_epoch_hits_the_cache(parquet, server, tmp_path):
    options = server.storage_options() | {"cache_dir": str(tmp_path / "cache")}
    loader = sm.Loader(parquet, storage_options=options, batch_size=1_000, output="numpy")
    list(loader)
    first = loader.metrics(since_last=True).storage
    list(loader)
    second = loader.metrics(since_last=True).storage
    assert first.cache_misses > 0
    assert (second.cache_misses, second.requests) == (0, 0)
    assert second.cache_hits > 0


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("checkpoint", [False, True])
def test_run_on_ray_counts_the_requests_of_the_driver_and_of_the_tasks(
    parquet, server, proxy, bucket, monkeypatch, checkpoint
):
    ray = pytest.importorskip("ray")
    # Tasks take keys from their environment.
    for name, value in server.storage_options(endpoint=proxy.endpoint).items():
        monkeypatch.setenv(f"AWS_{name}".upper(), value)
    pipeline = Pipeline(
        source=TableSource(parquet, files_per_partition=1),
        sink=ParquetSink(f"s3://{bucket.name}/out"),
        checkpoint=f"s3://{bucket.name}/state" if checkpoint else None,
    )
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
    )
    try:
        metrics = pipeline.run("ray", progress=False).metrics()
    finally:
        ray.shutdown()
    assert metrics.rows == 4 * ROWS
    assert metrics.storage.requests == len(proxy.requests())
    assert metrics.storage.bytes >= metrics.bytes_read
