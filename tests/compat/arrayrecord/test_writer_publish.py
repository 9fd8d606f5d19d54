"""A written file is published completely or not at all, and does not depend on threads."""

import random
import signal
import subprocess
import sys

import pytest
from breadth import covering, examples
from environment import child_environment
from file_builder import written
from implementations import CODECS, ORIGINAL, numbered
from promptness import HANGS_S
from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter
from shardmill.errors import Error


def names(directory) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def visible(directory) -> list[str]:
    return [name for name in names(directory) if not name.startswith(".")]


def test_block_publishes_the_file_at_its_end(tmp_path) -> None:
    with ArrayRecordWriter(tmp_path / "file", "uncompressed") as writer:
        writer.write(b"a" * 200_000)
        assert visible(tmp_path) == []
    assert (writer.ok(), writer.is_open()) == (False, False)
    assert names(tmp_path) == ["file"]
    assert ORIGINAL.reader(str(tmp_path / "file")).read_all() == [b"a" * 200_000]


def test_nothing_is_visible_before_close(tmp_path) -> None:
    writer = ArrayRecordWriter(tmp_path / "file", "uncompressed")
    for _ in range(100):
        writer.write(bytes(100_000))
        assert visible(tmp_path) == []
    writer.close()
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
def test_exception_in_the_block_publishes_nothing_and_leaves_nothing(error, tmp_path) -> None:
    with pytest.raises(error), ArrayRecordWriter(tmp_path / "file", "uncompressed") as writer:
        writer.write(b"a" * 300_000)
        raise error
    assert names(tmp_path) == []
    assert not writer.is_open()
    with pytest.raises(RuntimeError):
        writer.write(b"b")
    # A later close does not publish what was given up.
    writer.close()
    assert names(tmp_path) == []


def test_old_file_stays_until_the_new_one_is_whole(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(written([b"old"]))
    with pytest.raises(KeyError), ArrayRecordWriter(path) as writer:
        writer.write(b"new")
        raise KeyError
    assert names(tmp_path) == ["file"]
    assert path.read_bytes() == written([b"old"])
    with ArrayRecordWriter(path, "uncompressed") as writer:
        writer.write(b"new")
        assert path.read_bytes() == written([b"old"])
    assert path.read_bytes() == written([b"new"])


def test_close_within_the_block_publishes_once(tmp_path) -> None:
    with ArrayRecordWriter(tmp_path / "file", "uncompressed") as writer:
        writer.write(b"a")
        writer.close()
        assert (tmp_path / "file").read_bytes() == written([b"a"])
    assert (tmp_path / "file").read_bytes() == written([b"a"])


def test_exception_after_close_leaves_the_published_file(tmp_path) -> None:
    with pytest.raises(KeyError), ArrayRecordWriter(tmp_path / "file", "uncompressed") as writer:
        writer.write(b"a")
        writer.close()
        raise KeyError
    assert (tmp_path / "file").read_bytes() == written([b"a"])


def test_refused_record_in_the_block_publishes_nothing(tmp_path) -> None:
    with pytest.raises(TypeError), ArrayRecordWriter(tmp_path / "file") as writer:
        writer.write(b"a")
        writer.write("text")
    assert names(tmp_path) == []


def test_iterable_that_fails_publishes_nothing(tmp_path) -> None:
    def records():
        yield from [b"a"] * 1000
        raise KeyError

    with pytest.raises(KeyError), ArrayRecordWriter(tmp_path / "file") as writer:
        writer.write_all(records())
    assert names(tmp_path) == []


def test_writer_that_is_dropped_leaves_nothing(tmp_path) -> None:
    writer = ArrayRecordWriter(tmp_path / "file", "uncompressed")
    writer.write(b"a" * 300_000)
    del writer
    assert names(tmp_path) == []


KILLED = """
import os, signal, sys
from shardmill.arrayrecord import ArrayRecordWriter
writer = ArrayRecordWriter(sys.argv[1], "uncompressed")
writer.write(bytes(1_000_000))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_writer_leaves_no_visible_file_and_the_next_one_writes(tmp_path) -> None:
    path = tmp_path / "file"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        env=child_environment(),
        timeout=HANGS_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert visible(tmp_path) == []
    with ArrayRecordWriter(path, "uncompressed") as writer:
        writer.write(b"a")
    assert visible(tmp_path) == ["file"]
    assert path.read_bytes() == written([b"a"])


def test_two_writers_of_one_name_do_not_mix(tmp_path) -> None:
    path = tmp_path / "file"
    first, second = ArrayRecordWriter(path, "uncompressed"), ArrayRecordWriter(path, "uncompressed")
    for _ in range(50):
        first.write(b"1" * 9000)
        second.write(b"2" * 9000)
    first.close()
    assert path.read_bytes() == written([b"1" * 9000] * 50)
    second.close()
    assert path.read_bytes() == written([b"2" * 9000] * 50)
    assert names(tmp_path) == ["file"]


def test_directory_that_cannot_be_written_raises_at_once(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="missing") as raised:
        ArrayRecordWriter(tmp_path / "missing" / "file")
    assert isinstance(raised.value, Error)
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(OSError):
        ArrayRecordWriter(tmp_path / "plain" / "file")
    assert names(tmp_path) == ["plain"]


def test_directory_under_the_name_of_the_file_is_an_error(tmp_path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises((OSError, RuntimeError)), ArrayRecordWriter(tmp_path / "file") as writer:
        writer.write(b"a")
    assert names(tmp_path) == ["file"]
    assert names(tmp_path / "file") == []


def test_write_all_takes_any_iterable(tmp_path) -> None:
    with ArrayRecordWriter(tmp_path / "file", "group_size:2,uncompressed") as writer:
        writer.write_all([b"a", b"b"])
        writer.write_all(record for record in (b"c", b""))
        writer.write(b"d")
        writer.write_all(())
        writer.write_all({b"e": 1})
    assert (tmp_path / "file").read_bytes() == written([b"a", b"b", b"c", b"", b"d", b"e"], 2)
    with ArrayRecordWriter(tmp_path / "other") as writer:
        for wrong in (None, 1, ["text"], [bytearray(b"a")], "text", b"bytes"):
            with pytest.raises(TypeError):
                writer.write_all(wrong)


@covering(2, codec=CODECS, group=[1, 7, 1000], kind=["", ",transpose"])
def test_output_does_not_depend_on_threads(codec, group, kind, tmp_path) -> None:
    rng = random.Random(5)
    words = [rng.randbytes(6) for _ in range(50)]
    records = [b"".join(rng.choices(words, k=rng.randrange(60))) for _ in range(3000)]
    files = set()
    for threads in (1, 8, 8, None):
        with ArrayRecordWriter(
            tmp_path / "file", f"{codec},group_size:{group}{kind}", threads=threads
        ) as writer:
            if threads == 8:
                writer.write_all(records)
            else:
                for record in records:
                    writer.write(record)
        files.add((tmp_path / "file").read_bytes())
    assert len(files) == 1
    assert ORIGINAL.reader(str(tmp_path / "file")).read_all() == records


def test_large_records_come_out_in_order_from_many_threads(tmp_path) -> None:
    """Chunks of very unequal work overtake one another."""
    step = examples(700_000, 100_000)
    records = [
        random.Random(number).randbytes(number % 3 * step + 1) for number in range(24)
    ] + numbered(100)
    with ArrayRecordWriter(tmp_path / "file", "brotli:9", threads=8) as writer:
        writer.write_all(records)
    assert ArrayRecordReader(tmp_path / "file").read_all() == records
    assert ORIGINAL.reader(str(tmp_path / "file")).read_all() == records
