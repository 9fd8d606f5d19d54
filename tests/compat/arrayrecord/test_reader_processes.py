"""Readers and sources in other processes: by pickle, by spawn, by fork."""

import functools
import multiprocessing
import operator
import pickle
from concurrent.futures import ProcessPoolExecutor

import pytest
from implementations import numbered
from own_process import run_python
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader

cloudpickle = pytest.importorskip("cloudpickle")

RECORDS = numbered(500)


@pytest.fixture
def path(file_of):
    return file_of(RECORDS)


@pytest.mark.parametrize("pickling", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
def test_pickled_reader_reads_with_the_same_options(pickling, path) -> None:
    reader = ArrayRecordReader(path, "max_parallelism:1", verify="header", threads=2)
    reader.seek(7)
    twin = pickling.loads(pickling.dumps(reader))
    assert type(twin) is ArrayRecordReader
    assert len(twin) == 500
    assert twin.read_all() == RECORDS
    assert reader.record_index() == 7
    assert len(pickling.dumps(reader)) < 2000


def test_pickled_reader_keeps_its_mode(path, tmp_path) -> None:
    lenient = pickle.loads(pickle.dumps(ArrayRecordReader(path, strict=False)))
    lenient.seek(-1)
    assert lenient.record_index() == 500
    strict = pickle.loads(pickle.dumps(ArrayRecordReader(path)))
    with pytest.raises(IndexError):
        strict.seek(-1)
    missing = pickle.dumps(ArrayRecordReader(tmp_path / "missing", strict=False))
    assert not pickle.loads(missing).ok()


def test_reader_of_a_file_that_vanished_cannot_be_unpickled(path) -> None:
    pickled = pickle.dumps(ArrayRecordReader(path))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled).read_all()


@pytest.mark.parametrize(
    "make", [ArrayRecordReader, ArrayRecordDataSource], ids=["reader", "source"]
)
def test_spawned_worker_reads(make, path) -> None:
    opened = make(path)
    assert opened[3] == RECORDS[3]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.map(
            functools.partial(operator.getitem, opened), range(0, 500, 7), chunksize=40
        )
        assert list(found) == RECORDS[::7]


# A process of its own, so that a child that hangs is a failure and no more.
FORK = """
import os, sys, threading
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter
path, when, kind = sys.argv[1:]
expected = [b"record %d " % number * (number % 5) for number in range(500)]
make = {"reader": ArrayRecordReader, "source": ArrayRecordDataSource}[kind]

def check(opened):
    assert list(opened) == expected
    assert [opened[number] for number in range(0, 500, 11)] == expected[::11]
    if kind == "source":
        assert opened.__getitems__(range(500)) == expected
        return
    opened.seek(0)
    assert [opened.read() for _ in range(500)] == expected
    assert opened.read_all() == expected
    assert opened.read(range(499, -1, -1)) == expected[::-1]
    assert opened.read(10, 490) == expected[10:490]

before = make(path)
check(before)
half_read = iter(before)
for _ in range(50):
    next(half_read)
busy = threading.Event()
threads = []
if when == "busy":
    def work():
        while not busy.is_set():
            make(path).__getitem__(5), list(before)
    threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
for round in range(5 if when == "busy" else 1):
    child = os.fork()
    if child == 0:
        try:
            check(make(path) if when == "new" else before)
            with ArrayRecordWriter(path + f".{os.getpid()}", "group_size:5") as writer:
                writer.write_all(expected)
            assert ArrayRecordReader(path + f".{os.getpid()}").read_all() == expected
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
busy.set()
for thread in threads:
    thread.join()
check(before)
print("ok")
"""


@pytest.mark.parametrize("kind", ["reader", "source"])
@pytest.mark.parametrize("when", ["before", "new", "busy"])
def test_forked_child_reads_and_writes(when, kind, path) -> None:
    """What was opened before the fork, what is opened after it, and while other threads read."""
    assert run_python(FORK, path, when, kind) == "ok\n"


FORK_WHILE_OPENING = """
import os, signal, sys, threading
from shardmill.arrayrecord import ArrayRecordDataSource
source = ArrayRecordDataSource(sys.argv[1])
opening, is_over = threading.Event(), threading.Event()
def opens_slowly():
    with source._lock():
        opening.set()
        is_over.wait()
thread = threading.Thread(target=opens_slowly)
thread.start()
opening.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if source[7] == b"record 7 record 7 " else 1)
status = os.waitpid(child, 0)[1]
is_over.set()
thread.join()
assert status == 0, status
print(source[7])
"""


def test_child_that_is_forked_while_a_source_opens_a_file_opens_its_own(path) -> None:
    assert run_python(FORK_WHILE_OPENING, path) == f"{RECORDS[7]!r}\n"
