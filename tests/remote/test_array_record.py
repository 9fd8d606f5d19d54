"""ArrayRecord files in buckets, by the readers, writers and sources of array_record's users."""

import pickle
import subprocess
import sys

import pytest
from array_record.python.array_record_module import ArrayRecordReader as UpstreamReader
from array_record.python.array_record_module import ArrayRecordWriter as UpstreamWriter
from environment import child_environment
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter

RECORDS = [b"record %d " % number * 40 for number in range(3000)]

ELSEWHERE = """
import pickle, sys
print(pickle.loads(sys.stdin.buffer.read())[7].decode())
"""


@pytest.fixture
def paths(bucket, tmp_path):
    """Two files that upstream has written."""
    for part in range(2):
        writer = UpstreamWriter(str(tmp_path / "a"), "group_size:1")
        for record in RECORDS[part * 1500 : (part + 1) * 1500]:
            writer.write(record)
        writer.close()
        bucket.publish(f"part-{part}.array_record", tmp_path / "a")
    return [f"s3://{bucket.name}/part-{part}.array_record" for part in range(2)]


def test_reader_in_a_bucket_gives_what_upstream_wrote(paths, server, proxy):
    options = server.storage_options(endpoint=proxy.endpoint)
    with ArrayRecordReader(paths[0], storage_options=options) as reader:
        assert len(proxy.requests()) == 1
        assert reader.read([3, 1, 1499]) == [RECORDS[3], RECORDS[1], RECORDS[1499]]
        assert list(reader) == RECORDS[:1500]


def test_many_records_of_a_file_in_a_bucket_take_a_request_for_each_four_megabytes(
    bucket, server, proxy
):
    path = f"s3://{bucket.name}/large.array_record"
    records = [bytes([number]) * (1 << 16) for number in range(128)]
    with ArrayRecordWriter(
        path, "group_size:1,uncompressed", storage_options=server.storage_options()
    ) as writer:
        writer.write_all(records)
    options = server.storage_options(endpoint=proxy.endpoint)
    with ArrayRecordReader(path, storage_options=options) as reader:
        before = len(proxy.requests())
        assert reader.read(range(128)) == records
        assert len(proxy.requests()) - before <= 4


def test_view_of_an_uncompressed_record_in_a_bucket_is_a_copy(bucket, server):
    path = f"s3://{bucket.name}/plain.array_record"
    with ArrayRecordWriter(
        path, "uncompressed", storage_options=server.storage_options()
    ) as writer:
        writer.write_all(RECORDS[:20])
    with ArrayRecordReader(path) as reader:
        assert bytes(reader.view(3)) == RECORDS[3] and bytes(reader.view(-1)) == RECORDS[19]


def test_source_in_a_bucket_counts_through_its_files(paths, server):
    source = ArrayRecordDataSource(
        [paths[0], f"{paths[1]}[100:1500]"], storage_options=server.storage_options()
    )
    assert len(source) == 2900
    assert source.__getitems__([2899, 0, 1500]) == [RECORDS[2999], RECORDS[0], RECORDS[1600]]


@pytest.mark.parametrize("kind", [ArrayRecordReader, ArrayRecordDataSource])
def test_pickle_holds_no_secret_and_reads_where_the_environment_has_keys(kind, paths, server):
    pickled = pickle.dumps(kind(paths[0], storage_options=server.storage_options()))
    assert server.secret_key.encode() not in pickled and server.access_key.encode() not in pickled
    keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    environment = child_environment(**keys)
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=pickled,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout.strip() == RECORDS[7].strip()
    assert pickle.loads(pickled)[7] == RECORDS[7], "this process has the keys"


def test_upstream_reads_what_was_written_to_a_bucket(bucket, server):
    path = f"s3://{bucket.name}/deep/a.array_record"
    with ArrayRecordWriter(
        path, "group_size:8", storage_options=server.storage_options()
    ) as writer:
        writer.write_all(RECORDS)
        assert not (bucket.directory / "deep").exists()
    assert UpstreamReader(str(bucket.directory / "deep" / "a.array_record")).read_all() == RECORDS


def test_writer_that_fails_leaves_nothing(bucket, server):
    path = f"s3://{bucket.name}/a.array_record"
    with (
        pytest.raises(ZeroDivisionError),
        ArrayRecordWriter(path, storage_options=server.storage_options()) as writer,
    ):
        writer.write(b"record")
        raise ZeroDivisionError
    assert list(bucket.directory.iterdir()) == []


def test_missing_object_is_not_found_and_options_of_local_files_are_refused(
    bucket, server, tmp_path
):
    with pytest.raises(FileNotFoundError, match=r"none\.array_record"):
        ArrayRecordReader(
            f"s3://{bucket.name}/none.array_record", storage_options=server.storage_options()
        )
    with pytest.raises(ValueError, match="local"):
        ArrayRecordWriter(tmp_path / "a", storage_options=server.storage_options())
