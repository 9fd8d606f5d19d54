"""Writers whose output is there already, parts that are merged, and the commands.

They work below a bucket as in a directory.
"""

import json
import subprocess
import sys
import threading
import time
import urllib.request

import pyarrow as pa
import pytest
import shardmill as sm
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.view import Session, Source, ViewServer

from .fault_proxy import Fault

KINDS = ["parquet", "jsonl", "webdataset", "arrayrecord", "mds"]


@pytest.fixture
def root(bucket, server):
    sm.storage.configure(f"s3://{bucket.name}", server.storage_options())
    return f"s3://{bucket.name}"


def write(out, numbers, kind, **options):
    limit = {"modified": 0} if kind == "webdataset" else {}
    with sm.Writer(out, format=kind, shard_bytes=2048, **limit, **options) as writer:
        for number in numbers:
            writer.write({"txt": f"row {number} " * 10})


def texts(path):
    dataset = sm.Dataset(path)
    column = "record" if dataset.format == "arrayrecord" else "txt"
    values = [row[column] for row in dataset]
    return [value.decode() if isinstance(value, bytes) else value for value in values]


def expected(*parts):
    return [f"row {number} " * 10 for part in parts for number in part]


@pytest.mark.parametrize("kind", KINDS)
def test_appended_shards_come_behind_those_that_are_there(kind, root):
    out = f"{root}/out"
    write(out, range(60), kind)
    before = sm.Dataset(out).files
    write(out, range(60, 90), kind, mode="append")
    assert texts(out) == expected(range(90))
    assert sm.Dataset(out).files[: len(before)] == before


@pytest.mark.parametrize("kind", KINDS)
def test_overwriting_replaces_every_shard_and_the_index(kind, root, bucket):
    out = f"{root}/out"
    write(out, range(100), kind)
    write(out, range(1000, 1020), kind, mode="overwrite")
    assert texts(out) == expected(range(1000, 1020))
    left = [path.name for path in (bucket.directory / "out").iterdir() if path.name != "index.json"]
    assert len(left) == len(sm.Dataset(out).files)


def test_one_object_is_overwritten_and_refused_without_being_told(root):
    out = f"{root}/rows.parquet"
    for mode in ("error", "overwrite"):
        with sm.Writer(out, mode=mode) as writer:
            writer.write({"mode": mode})
    assert list(sm.Dataset(out)) == [{"mode": "overwrite"}]
    with pytest.raises(FileExistsError, match="overwrite"):
        sm.Writer(out)


def test_an_exception_while_appending_leaves_what_was_there(root, bucket):
    out = f"{root}/out"
    write(out, range(50), "mds")
    before = {path.name: path.read_bytes() for path in (bucket.directory / "out").iterdir()}
    with (
        pytest.raises(ZeroDivisionError),
        sm.Writer(out, format="mds", mode="append", shard_bytes=2048) as writer,
    ):
        for number in range(200):
            writer.write({"txt": f"lost {number}"})
        raise ZeroDivisionError
    assert {path.name: path.read_bytes() for path in (bucket.directory / "out").iterdir()} == before


@pytest.mark.parametrize("kind", ["parquet", "mds"])
def test_of_two_that_append_at_once_each_ends_whole_or_is_refused(kind, root):
    out = f"{root}/out"
    write(out, range(10), kind)
    kept, refused = [range(10)], []

    def append(numbers):
        try:
            write(out, numbers, kind, mode="append")
            kept.append(numbers)
        except FileExistsError:
            refused.append(numbers)

    threads = [
        threading.Thread(target=append, args=(range(at, at + 90),)) for at in range(100, 700, 100)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kept) + len(refused) == 7 and len(kept) > 1
    assert sorted(texts(out)) == sorted(expected(*kept))


def test_an_index_that_changes_meanwhile_gets_the_shards_of_both(root):
    out = f"{root}/out"
    write(out, range(10), "mds")
    late = sm.Writer(out, format="mds", mode="append", columns={"txt": "str"})
    late.write({"txt": "late"})
    publish = late._native.publish

    class Between:
        """Another appends, in a way, after the index was read."""

        def __getattr__(self, name):
            return getattr(native, name)

        def publish(self, first):
            paths = publish(first)
            index = json.loads(sm._native.storage.read(f"{out}/index.json"))
            index["shards"][0]["samples"] = 10
            sm._native.storage.replace_object(
                f"{out}/index.json",
                sm._native.storage.read(f"{out}/index.json"),
                json.dumps(index).encode(),
            )
            return paths

    native, late._native = late._native, Between()
    late.close()
    assert texts(out) == [*expected(range(10)), "late"]


def test_an_object_is_replaced_only_by_who_knows_it(root):
    path = f"{root}/note"
    storage = sm._native.storage
    assert storage.replace_object(path, None, b"one")
    assert not storage.replace_object(path, None, b"two")
    assert not storage.replace_object(path, b"other", b"two")
    assert storage.replace_object(path, b"one", b"two") and storage.read(path) == b"two"
    storage.remove(path)
    storage.remove(path)
    assert storage.read(path) is None and not storage.replace_object(path, b"two", b"three")


@pytest.mark.parametrize("kind", ["parquet", "mds"])
def test_parts_in_a_bucket_are_one_data_set(kind, root):
    for part in range(3):
        write(f"{root}/set/{part:05}", range(part * 40, part * 40 + 40), kind)
    files = sm.merge(f"{root}/set")
    assert all(file.startswith(f"{root}/set/0000") for file in files) and len(files) > 3
    assert texts(f"{root}/set") == expected(range(120))


def test_index_that_changes_after_it_was_listed_is_read_as_it_is_now(root):
    for part in range(2):
        write(f"{root}/set/{part:05}", range(part * 40, part * 40 + 40), "mds")
        sm.merge(f"{root}/set")
        assert texts(f"{root}/set") == expected(range(part * 40 + 40))
    for mode in ("error", "append"):
        write(f"{root}/out", range(40), "parquet", index="chinidataset", mode=mode)
        assert set(texts(f"{root}/out")) == set(expected(range(40)))


def test_a_part_whose_shard_is_missing_or_outside_is_named(root, bucket):
    for part in range(2):
        write(f"{root}/set/{part}", range(40), "mds")
    write(f"{root}/other", range(3), "mds")
    with pytest.raises(ValueError, match="is not below"):
        sm.merge(f"{root}/set", [f"{root}/other"])
    (bucket.directory / "set/1/shard.00000.mds").unlink()
    with pytest.raises(FileNotFoundError, match=r"shard\.00000\.mds"):
        sm.merge(f"{root}/set")
    with pytest.raises(FileNotFoundError, match="no directory"):
        sm.merge(f"{root}/nothing")


def shardmill(*arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "shardmill", *arguments], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def given(server):
    return [
        part
        for name, value in server.storage_options().items()
        for part in ("--storage-option", f"{name}={value}")
    ]


def test_commands_read_and_write_buckets(root, given, tmp_path):
    write(f"{root}/in", range(100), "parquet")
    assert "row 0" in shardmill("head", f"{root}/in", "--rows", "1", *given).stdout
    assert shardmill("explain", f"{root}/in", "--step", "0", *given).stdout
    told = shardmill("convert", f"{root}/in", f"{root}/mds", "--to", "mds", *given)
    assert "100 rows" in told.stderr and texts(f"{root}/mds") == expected(range(100))
    shardmill("convert", f"{root}/mds", f"{root}/mds.parquet", *given)
    assert texts(f"{root}/mds.parquet") == expected(range(100))
    assert (
        "exists" in shardmill("convert", f"{root}/in", f"{root}/mds.parquet", *given, code=1).stderr
    )
    shardmill("convert", f"{root}/in", f"{root}/mds.parquet", "--mode", "overwrite", *given)
    sm._native.storage.remove(f"{root}/mds/index.json")
    assert "100 samples" in shardmill("repair-index", f"{root}/mds", *given).stderr
    assert texts(f"{root}/mds") == expected(range(100))


def test_commands_look_into_shards_of_a_bucket(root, given, bucket, tmp_path):
    with sm.Writer(f"{root}/a.array_record") as writer:
        writer.write_batch(pa.array([b"one", b"two"]))
    assert "2" in shardmill("inspect", f"{root}/a.array_record", *given).stdout
    assert "no problems" in shardmill("verify", f"{root}/a.array_record", *given).stdout
    path = bucket.directory / "a.array_record"
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    bucket.publish("a.array_record", bytes(content))
    assert "problem" in shardmill("verify", f"{root}/a.array_record", *given, code=1).stdout


def test_samples_of_a_bucket_are_served_page_by_page(root):
    write(f"{root}/in", range(50), "parquet")
    server = ViewServer(Session(Source([f"{root}/in"])))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        with urllib.request.urlopen(
            f"{server.address.rstrip('/')}/data/samples", timeout=30
        ) as answer:
            page = json.load(answer)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert page["rows"] == 50 and page["samples"][0]["fields"][0][1]["text"] == f"row {0} " * 10


def test_storage_options_of_a_command_need_a_value_and_a_store(tmp_path):
    assert (
        "NAME=VALUE"
        in shardmill("head", "s3://bucket/x", "--storage-option", "region", code=2).stderr
    )
    assert (
        "local" in shardmill("head", str(tmp_path), "--storage-option", "region=x", code=2).stderr
    )


def test_nothing_is_written_where_nothing_can_be(root):
    for out in ("hf://datasets/a/b", "https://example.org/rows.parquet"):
        with pytest.raises(OSError, match="read only"):
            sm.Writer(out, format="parquet")


def test_a_writer_that_comes_second_to_append_is_told_to_try_again(root):
    out = f"{root}/out"
    write(out, range(3), "parquet")
    writers = [sm.Writer(out, format="parquet", mode="append") for _ in range(2)]
    for writer in writers:
        writer.write({"txt": "new"})
    writers[0].close()
    with pytest.raises(FileExistsError) as refused:
        # The listing that it begins with may be older than what the first one wrote.
        writers[1]._directory.first_number = lambda: 1
        writers[1].close()
    assert "write again" in str(refused.value) and "overwrite" not in str(refused.value)
    assert len(sm.Dataset(out)) == 4


def test_names_with_the_characters_of_globs_are_found_by_them(root):
    for name in ("q?/d", "br[ack]", "a*b/c"):
        write(f"{root}/{name}", range(3), "parquet")
        assert texts(f"{root}/{name}") == expected(range(3))
    write(f"{root}/qx/d", range(3, 5), "parquet")
    assert texts(f"{root}/q?/d") == expected(range(3))
    assert sorted(texts(f"{root}/q*/d")) == sorted(expected(range(5)))


@pytest.fixture
def tables(root):
    for number in range(3):
        with sm.Writer(f"{root}/in/{number}.parquet") as writer:
            writer.write_batch({"id": list(range(number * 100, number * 100 + 100))})
    return root


def test_a_checkpoint_in_a_bucket_goes_on_with_new_input_and_commands_look_into_it(tables, given):
    def run():
        return Pipeline(
            source=TableSource(f"{tables}/in"),
            sink=ParquetSink(f"{tables}/out"),
            checkpoint={"path": f"{tables}/state", "id_column": "id"},
        ).run(progress=False)

    run()
    with sm.Writer(f"{tables}/in/9.parquet") as writer:
        writer.write_batch({"id": list(range(250, 350))})
    run()
    assert sorted(row["id"] for row in sm.Dataset(f"{tables}/out")) == list(range(350))
    told = shardmill("checkpoint", "inspect", f"{tables}/state", *given)
    assert "committed" in told.stdout
    shardmill("checkpoint", "verify", f"{tables}/state", *given)
    shardmill("checkpoint", "compact", f"{tables}/state", *given)
    run()
    assert len(sm.Dataset(f"{tables}/out")) == 350


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "not a url", "ftp://host", "https://"])
def test_an_endpoint_that_is_no_address_is_refused_by_name(endpoint, server):
    with pytest.raises(sm.OptionError, match="endpoint"):
        sm.Dataset(
            "s3://some-bucket/x", storage_options={**server.storage_options(), "endpoint": endpoint}
        )


@pytest.mark.parametrize("bucket", ["No_Bucket", "No.Bucket"])
def test_names_that_no_bucket_can_have_are_refused_at_once(bucket, server):
    start = time.monotonic()
    with pytest.raises(OSError, match=bucket):
        sm.Dataset(f"s3://{bucket}/x", storage_options=server.storage_options())
    # What is tried again goes on for three minutes.
    assert time.monotonic() - start < 60


def test_the_cache_is_where_and_as_large_as_people_write_it(tables, server, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    options = server.storage_options()
    for cache_dir in ("~/one", tmp_path / "two"):
        assert (
            len(
                sm.Dataset(
                    f"{tables}/in",
                    storage_options={**options, "cache_dir": cache_dir, "cache_bytes": "10MiB"},
                )
            )
            == 300
        )
    assert sm.storage.cache_entries("~/one") and sm.storage.cache_entries(tmp_path / "two")
    for wrong in (
        {"cache_dir": True},
        {"cache_dir": "s3://x/y"},
        {"cache_dir": ""},
        {"cache_bytes": "ten"},
        {1: 2},
    ):
        with pytest.raises((ValueError, TypeError)):
            sm.Dataset(f"{tables}/in", storage_options={**options, **wrong})


def test_writer_that_overwrites_shards_that_another_one_has_replaced_meanwhile_fails(root):
    out = f"{root}/out"
    write(out, range(3), "parquet")
    writers = [sm.Writer(out, format="parquet", mode="overwrite") for _ in range(2)]
    for number, writer in enumerate(writers):
        writer.write({"txt": f"writer {number}"})
    writers[0].close()
    with pytest.raises(FileExistsError, match="another writer wrote them in the meantime"):
        writers[1].close()
    assert texts(out) == ["writer 0"]


#: How S3 refuses to copy an object of more than 5 GiB.
COPIES_NONE = Fault(
    kind="error",
    status=400,
    code="InvalidRequest",
    message="The specified copy source is larger than "
    "the maximum allowable size for a copy source: 5368709120",
    operations=("CopyObject",),
)


def test_job_commits_outputs_that_the_store_refuses_to_copy(tables, server, proxy):
    sm.storage.configure(tables, server.storage_options(endpoint=proxy.endpoint))
    proxy.faults(COPIES_NONE)
    Pipeline(
        source=TableSource(f"{tables}/in"),
        sink=ParquetSink(f"{tables}/out"),
        checkpoint={"path": f"{tables}/state", "id_column": "id"},
    ).run(progress=False)
    assert proxy.given()[0] > 0
    assert sorted(row["id"] for row in sm.Dataset(f"{tables}/out")) == list(range(300))


def test_appended_upload_gets_the_number_that_is_free_when_it_ends_and_leaves_no_other_name(
    bucket, server, proxy
):
    out = f"s3://{bucket.name}/out"
    sm.storage.configure(out, server.storage_options(endpoint=proxy.endpoint))
    write(out, range(3), "parquet")
    write(out, range(3, 6), "parquet", mode="append")
    proxy.faults(COPIES_NONE)
    with sm.Writer(out, format="parquet", mode="append", compression="none") as writer:
        writer.write_batch({"txt": ["x" * (20 << 20)]})
        (bucket.directory / "out/part-00001.parquet").unlink()
    assert sorted(path.name for path in (bucket.directory / "out").iterdir()) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    assert texts(out) == [*expected(range(3)), "x" * (20 << 20)]
