"""Processes of one machine that share a cache: each byte is fetched once.

No process waits for a dead one.
"""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from breadth import examples
from promptness import HANGS_S

from .fault_proxy import Fault, network

FILES, ROWS = 6, examples(2000, 1000)

READ = """
import json, os, sys
import shardmill as sm
data = sm.Dataset(sys.argv[1], storage_options=json.loads(os.environ["OPTIONS"]))
print("ready", flush=True)
sys.stdin.readline()
loader = sm.Loader(data, batch_size=100, output="numpy")
ids = [id for batch in loader for id in batch["id"].tolist()]
print(len(ids), sum(ids), sm.storage.metrics(sys.argv[1]).hedged, flush=True)
"""


@pytest.fixture
def train(bucket, tmp_path):
    directory = tmp_path / "train"
    directory.mkdir()
    for number in range(FILES):
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        noise = np.random.default_rng(number)
        batch = pa.table({"id": ids, "noise": [noise.bytes(1000) for _ in ids]})
        pq.write_table(
            batch,
            directory / f"{number}.parquet",
            row_group_size=250,
            compression="none",
            use_dictionary=False,
        )
    bucket.publish("train", directory)
    return f"s3://{bucket.name}/train", sum(path.stat().st_size for path in directory.iterdir())


@pytest.fixture
def readers(train, server, proxy, tmp_path):
    started = []

    def start(count: int, **options):
        options = {
            **server.storage_options(endpoint=proxy.endpoint),
            "cache_dir": str(tmp_path / "cache"),
            **options,
        }
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-c", READ, train[0]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "OPTIONS": json.dumps(options)},
            )
            assert process.stdout.readline() == "ready\n", process.communicate()
            started.append(process)
        return started[-count:]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def begin(process) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


def assert_whole(process) -> int:
    """Returns how many of its requests were made twice, since their answers were late."""
    output, errors = process.communicate(timeout=HANGS_S)
    rows, total, hedged = map(int, output.split())
    assert (rows, total) == (FILES * ROWS, sum(range(FILES * ROWS))), errors
    return hedged


def sent(proxy) -> int:
    return sum(request["bytes_sent"] for request in proxy.requests() if request["method"] == "GET")


def test_four_processes_fetch_each_byte_once(train, readers, proxy):
    processes = readers(4)
    proxy.forget()
    # Far away, so that all of them want the same at one time.
    proxy.faults(*network(round_trip_s=0.05))
    for process in processes:
        begin(process)
    hedged = sum(assert_whole(process) for process in processes)
    largest = max(request["bytes_sent"] for request in proxy.requests())
    # Footers were there. On a busy machine many answers are late.
    assert sent(proxy) < 1.1 * train[1] + hedged * largest
    assert hedged < len(proxy.requests()) / 2


def test_death_of_one_that_fetches_does_not_hold_the_others(readers, proxy):
    first, *others = readers(examples(4, 3))
    proxy.faults(Fault(kind="silent", duration_s=3600, methods=("GET",)))
    begin(first)
    deadline = time.monotonic() + HANGS_S
    while proxy.counters()["requests"] == 0 or not sum(proxy.given()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    proxy.faults()
    begun = time.monotonic()
    for process in others:
        begin(process)
    for process in others:
        assert_whole(process)
    # A process that waits for a lock waits for twenty seconds.
    assert time.monotonic() - begun < 18


@pytest.mark.slow
def test_one_that_was_stopped_while_it_fetches_holds_the_others_for_half_a_minute_at_most(
    readers, proxy
):
    first, second = readers(2)
    proxy.faults(Fault(kind="silent", duration_s=3600, methods=("GET",)))
    begin(first)
    while not sum(proxy.given()):
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    proxy.faults()
    begin(second)
    assert_whole(second)


def test_killed_writer_of_the_cache_leaves_nothing_that_is_believed(readers, proxy):
    proxy.faults(*network(round_trip_s=0.005, bytes_per_s=20e6))
    for number in range(examples(5, 3)):
        (process,) = readers(1)
        begin(process)
        time.sleep(0.05 + 0.06 * number)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    proxy.faults()
    (process,) = readers(1)
    begin(process)
    assert_whole(process)
