"""An ArrayRecord file on a disk that is full, read-only or under a limit.

The outcome is an error, and nothing under the final name.
"""

import random
from pathlib import Path

import pytest
from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter
from shardmill.errors import Error


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize(
    "options", ["uncompressed", "uncompressed,group_size:100", "snappy,transpose"]
)
def test_full_disk_is_an_error_that_leaves_nothing(options, threads, small_disk) -> None:
    rest = random.Random(6).randbytes(10_000)
    with (
        pytest.raises((OSError, RuntimeError)) as raised,
        ArrayRecordWriter(small_disk / "file", options, threads=threads) as writer,
    ):
        writer.write_all(b"%d" % number + rest for number in range(4000))
    assert isinstance(raised.value, Error)
    assert str(small_disk) in str(raised.value)
    assert names(small_disk) == []
    assert not writer.ok()
    with ArrayRecordWriter(small_disk / "file", options) as writer:
        writer.write(b"fits")
    with ArrayRecordReader(small_disk / "file") as reader:
        assert list(reader) == [b"fits"]


def test_disk_that_is_full_at_the_end_is_an_error_of_close(small_disk) -> None:
    """What was buffered and the footer come last."""
    writer = ArrayRecordWriter(small_disk / "file", "uncompressed")
    writer.write(b"a" * 10_000)
    (small_disk / "filler").write_bytes(b"x" * (20 * 2**20 - 180_000))
    with pytest.raises((OSError, RuntimeError)):
        writer.write(b"b" * 150_000)
        writer.close()
    assert not writer.ok()
    del writer
    assert names(small_disk) == ["filler"]


def test_read_only_disk_is_an_error_of_the_constructor(read_only_disk) -> None:
    with pytest.raises(OSError) as raised:
        ArrayRecordWriter(read_only_disk / "file")
    assert isinstance(raised.value, Error)
    lenient = ArrayRecordWriter(read_only_disk / "file", strict=False)
    assert (lenient.ok(), lenient.is_open()) == (False, True)
    with pytest.raises(RuntimeError):
        lenient.write(b"a")
    with pytest.raises(RuntimeError):
        lenient.close()
