"""A store that stops responding: callers that wait get a warning, and can stop."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import beginning
from environment import child_environment
from promptness import HANGS_S, assert_prompt

from .fault_proxy import Fault
from .fork_reads import BUSY_FORKS, FORKS, in_a_fork

ROWS = 4000
#: How long a process takes at most to stop when it leaves or is told to. Waiting for the store
#: takes three minutes.
MAX_STOP_S = 2.0

READS = {
    "open": "sm.Dataset(path)",
    "row": "data[1]",
    "rows": "list(data)",
    "take": "data.take([5, 6000])",
    "loader": "list(sm.Loader(data, batch_size=100, output='numpy'))",
    "loader-here": (
        "list(sm.Loader(data, batch_size=100, output='numpy', runtime=sm.Runtime(threads=0)))"
    ),
    "filter": "len(sm.Dataset(path, filter=sm.col('text') > 'c'))",
    "writer": "sm.Writer(f'{path}/w.parquet').close()",
    "writer-close": "writer.close()",
    "writer-write": "while True: writer.write({'id': 1, 'text': 'x'})",
    "writer-batches": "while True: writer.write_batch(large)",
    "record": "array[0]",
    "records-open": "ArrayRecordReader(path + '-a.array_record')",
    "records-close": "records.close()",
    "records-write": "while True: records.write(b'x' * (1 << 20))",
    "pipeline": "pipeline.run(progress=False)",
    "checkpoint": "checkpointed.run(progress=False)",
    "snapshot": "snapshot(path + '-state', verifies=True)",
}

CODE = """
import json, os, sys, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import pyarrow as pa
import shardmill as sm
from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter
from shardmill._native.journal import snapshot
from shardmill.curate import ParquetSink, Pipeline, TableSource
path, what = sys.argv[1], sys.argv[2]
sm.storage.configure(path, json.loads(os.environ["OPTIONS"]))
data = sm.Dataset(path)
writer = sm.Writer(path + "-w.parquet", compression="none")
writer.write({"id": 0, "text": ""})
records = ArrayRecordWriter(path + "-r.array_record", "uncompressed")
records.write(b"record")
with ArrayRecordWriter(path + "-a.array_record", "uncompressed") as written:
    written.write_all(os.urandom(1 << 18) for _ in range(4))
array = ArrayRecordReader(path + "-a.array_record")
large = pa.table({"id": [1], "text": ["x" * (1 << 21)]})
source = lambda: TableSource(path, files_per_partition=1)
pipeline = Pipeline(source=source(), stages=[], sink=ParquetSink(path + "-out"))
checkpointed = Pipeline(
    source=source(), stages=[], sink=ParquetSink(path + "-out2"), checkpoint=path + "-state"
)
try:
    print("ready", flush=True)
    sys.stdin.readline()
    exec(what)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.fixture
def train(bucket, tmp_path):
    directory = tmp_path / "train"
    directory.mkdir()
    for number in range(4):
        ids = list(range(number * ROWS, (number + 1) * ROWS))
        pq.write_table(
            pa.table({"id": ids, "text": [os.urandom(50).hex() for _ in ids]}),
            directory / f"{number}.parquet",
            row_group_size=500,
        )
    bucket.publish("train", directory)
    return f"s3://{bucket.name}/train"


def started(path, what, options):
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, path, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPTIONS": json.dumps(options)},
    )
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


@pytest.mark.parametrize("what", beginning(2, list(READS.values())), ids=READS)
def test_interrupt_is_heard_while_a_store_is_silent(what, train, server, proxy):
    def interrupted():
        proxy.faults()
        process = started(train, what, server.storage_options(endpoint=proxy.endpoint))
        try:
            proxy.faults(Fault(kind="silent"))
            process.stdin.write("\n")
            process.stdin.flush()
            # Rows are collected in memory for a long time without a request.
            if what != READS["writer-write"]:
                wait_for_silence(proxy, process)
            # A writer goes on until all of its room is taken.
            time.sleep(3 if what in (READS["writer-batches"], READS["records-write"]) else 0.5)
            assert process.poll() is None, process.communicate()
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=HANGS_S)
            assert output == "interrupted\n", (output, errors)
            return time.monotonic() - begun
        finally:
            process.kill()
            process.communicate()

    assert_prompt(MAX_STOP_S, interrupted)


def wait_for_silence(proxy, process):
    """Until it has asked the silent store."""
    end = time.monotonic() + HANGS_S
    while not sum(proxy.given()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "no request"
        time.sleep(0.01)


LEAVES = {
    "loader that is dropped": (
        "p = iter(sm.Loader(data, batch_size=10, output='numpy')); del p; print('gone')"
    ),
    "process that ends": (
        "import threading; threading.Thread("
        "target=lambda: list(sm.Loader(data, batch_size=10, output='numpy')), daemon=True"
        ").start(); import time; time.sleep(0.5); print('gone')"
    ),
    "pass that is left": (
        "p = iter(sm.Loader(data, batch_size=10, output='numpy')); import threading, time\n"
        "try: threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start(); next(p)\n"
        "except KeyboardInterrupt: del p; print('gone')"
    ),
}


@pytest.mark.parametrize("what", LEAVES.values(), ids=LEAVES)
def test_a_caller_that_leaves_is_not_held(what, train, server, proxy):
    def left():
        proxy.faults()
        process = started(train, what, server.storage_options(endpoint=proxy.endpoint))
        try:
            proxy.faults(Fault(kind="silent"))
            begun = time.monotonic()
            output, errors = process.communicate("\n", timeout=HANGS_S)
            assert output == "gone\n", (output, errors)
            return time.monotonic() - begun
        finally:
            process.kill()
            process.communicate()

    assert_prompt(0.5 + MAX_STOP_S + 1, left)


@pytest.mark.parametrize("is_cached", [False, True])
def test_forked_child_reads_from_a_store_that_its_parent_uses(is_cached, train, server, tmp_path):
    options = {
        **server.storage_options(),
        **({"cache_dir": str(tmp_path / "cache")} if is_cached else {}),
    }
    script = [sys.executable, Path(__file__).with_name("fork_reads.py"), train]
    environment = child_environment(OPTIONS=json.dumps(options))
    done = subprocess.run(script, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    in_children = {
        "row": [str(ROWS)] * FORKS,
        "pass": [str(4 * ROWS)] * FORKS,
        "busy": [str(4 * ROWS)] * BUSY_FORKS,
    }
    assert answers == {**in_children, "parent": 4 * ROWS}, done.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_child_that_drops_its_copy_of_a_writer_leaves_the_upload_alone(bucket, server):
    out = f"s3://{bucket.name}/rows.parquet"
    writer = sm.Writer(out, compression="none", storage_options=server.storage_options())
    for number in range(40):
        writer.write_batch(pa.table({"x": [os.urandom(500_000)], "n": [number]}))

    def dropped():
        nonlocal writer
        del writer
        return "dropped"

    assert in_a_fork(dropped) == '"dropped"'
    writer.close()
    assert sm.Dataset(out).take([39])["n"].to_pylist() == [39]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_a_data_loader_that_were_forked(train, server):
    torch = pytest.importorskip("torch")
    data = sm.Dataset(train, storage_options=server.storage_options())
    assert data[0]["id"] == 0
    some = list(range(0, 4 * ROWS, 100))
    rows = torch.utils.data.DataLoader(
        data,
        batch_size=10,
        num_workers=2,
        multiprocessing_context="fork",
        collate_fn=list,
        sampler=some,
    )
    assert [row["id"] for batch in rows for row in batch] == some
