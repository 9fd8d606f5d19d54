"""Writers and jobs whose output is a bucket: new objects that are whole, each row once."""

import base64
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
from shardmill.write._provenance import ProvenanceWriter

from .fault_proxy import Fault, mix

ROWS = 4000


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "webdataset", "arrayrecord", "mds"])
def test_what_is_written_to_a_bucket_reads_as_what_is_written_to_a_directory(
    kind, bucket, server, tmp_path
):
    rows = [{"txt": f"row {number}"} for number in range(200)]
    out = f"s3://{bucket.name}/out"
    options = (
        {"format": kind, "shard_bytes": 4096, "modified": 0}
        if kind == "webdataset"
        else {"format": kind}
    )
    for where, more in (
        (out, {"storage_options": server.storage_options()}),
        (tmp_path / "out", {}),
    ):
        with sm.Writer(where, **options, **more) as writer:
            for row in rows:
                writer.write(row)
    assert list(sm.Dataset(out)) == list(sm.Dataset(tmp_path / "out"))
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert sorted(path.name for path in (bucket.directory / "out").iterdir()) == names


@pytest.mark.parametrize("shard_bytes", [None, 4096])
def test_pairs_in_a_bucket_have_the_names_and_bytes_of_those_in_a_directory(
    bucket, server, tmp_path, shard_bytes
):
    options = {"format": "megatron", "shard_bytes": shard_bytes}
    for out in (f"s3://{bucket.name}/p", tmp_path / "p"):
        more = {} if out == tmp_path / "p" else {"storage_options": server.storage_options()}
        with sm.Writer(out, **options, **more) as writer:
            writer.write_batch({"tokens": [[number] * (number % 99) for number in range(500)]})
    found = {path.name: path.read_bytes() for path in bucket.directory.iterdir() if path.is_file()}
    assert found == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(found) == (2 if shard_bytes is None else 50)
    with pytest.raises(FileExistsError, match=r"has \d+ data files already"):
        sm.Writer(f"s3://{bucket.name}/p", format="megatron")


@pytest.mark.parametrize("tokens", [0, 100, (8 << 20) // 2 - 512, 5 << 20, 14 << 20])
def test_header_of_llm_c_has_the_number_of_tokens_of_an_object_of_any_size(
    bucket, server, tmp_path, tokens
):
    layout = sm.TokenLayout(header="llm.c", dtype="uint16")
    batch = {"tokens": [np.arange(tokens, dtype=np.uint16)]}
    for out, more in (
        (f"s3://{bucket.name}/p.bin", {"storage_options": server.storage_options()}),
        (tmp_path / "p.bin", {}),
    ):
        with sm.Writer(out, token_layout=layout, **more) as writer:
            writer.write_batch(batch)
    content = (bucket.directory / "p.bin").read_bytes()
    assert content == (tmp_path / "p.bin").read_bytes()
    assert np.frombuffer(content, "<i4", 3).tolist() == [20240520, 1, tokens]


def test_provenance_of_tokens_in_a_bucket_is_found(bucket, server, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "ab"}\n{"text": ""}\n{"text": "c"}\n')
    ranks = "".join(f"{base64.b64encode(bytes([at])).decode()} {at}\n" for at in range(256))
    (tmp_path / "bytes.tiktoken").write_text(ranks)
    out = f"s3://{bucket.name}/corpus/p"
    sm.storage.configure(out, server.storage_options())
    given = {"pattern": "gpt2", "special_tokens": {}}
    path = tmp_path / "bytes.tiktoken"
    tokenize = sm.Tokenize("text", tokenizer=sm.Tokenizer(path, **given))
    dataset = sm.Dataset(tmp_path / "a.jsonl", tokenize=tokenize)
    options = {"tokenizer": {"path": str(path), **given}, "hive": False, "mode": "error"}
    with (
        ProvenanceWriter(
            out, dataset, tokenize, format="megatron", layout=None, **options
        ) as provenance,
        sm.Writer(out, format="megatron", shard_bytes=4) as writer,
    ):
        writer.write_batch(dataset)
        provenance.add([2, 0, 1])
    provenance = sm.Provenance(out)
    assert len(provenance.files) == 2
    assert [provenance.source(token) for token in range(3)] == [
        ("a.jsonl", 0, 0),
        ("a.jsonl", 0, 1),
        ("a.jsonl", 2, 0),
    ]
    assert provenance.verify(tmp_path).mismatches == []
    assert len(sm.Dataset(f"s3://{bucket.name}/corpus")) == 3


def test_a_large_object_is_uploaded_in_parts_and_one_that_fails_leaves_none(bucket, server, proxy):
    out = f"s3://{bucket.name}/large.parquet"
    options = server.storage_options(endpoint=proxy.endpoint)
    batch = pa.table({"x": [bytes([number % 251]) * 100_000 for number in range(300)]})
    with sm.Writer(out, compression="none", storage_options=options) as writer:
        writer.write_batch(batch)
    assert sm.Dataset(out).take(range(300)).column("x").to_pylist() == batch["x"].to_pylist()
    with (
        pytest.raises(ZeroDivisionError),
        sm.Writer(f"s3://{bucket.name}/none.parquet", compression="none") as writer,
    ):
        writer.write_batch(batch)
        raise ZeroDivisionError
    assert sorted(path.name for path in bucket.directory.glob("*.parquet")) == ["large.parquet"]
    assert any(request["operation"] == "CompleteMultipartUpload" for request in proxy.requests())


def test_a_part_that_takes_longer_than_an_answer_may_is_sent_once(bucket, server, proxy):
    out = f"s3://{bucket.name}/large.parquet"
    proxy.faults(Fault(kind="latency", methods=("PUT",), delay_s=2))
    options = {**server.storage_options(endpoint=proxy.endpoint), "request_timeout": 1}
    with sm.Writer(out, compression="none", storage_options=options) as writer:
        writer.write_batch(
            pa.table({"x": [bytes([number % 251]) * 100_000 for number in range(120)]})
        )
    parts = [request for request in proxy.requests() if request["operation"] == "UploadPart"]
    assert len(parts) == 2 and len(sm.Dataset(out)) == 120


def test_a_name_that_is_taken_is_refused_also_for_the_last_writer(bucket, server):
    out = f"s3://{bucket.name}/rows.parquet"
    sm.storage.configure(out, server.storage_options())
    first, second = sm.Writer(out), sm.Writer(out)
    for writer in (first, second):
        writer.write({"x": 1})
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    with pytest.raises(FileExistsError):
        sm.Writer(out)


def test_a_put_whose_answer_was_lost_is_known_as_our_own(bucket, server, proxy):
    out = f"s3://{bucket.name}/rows.parquet"
    proxy.faults(Fault(kind="lost", applied=True, methods=("PUT",), count=1))
    with sm.Writer(out, storage_options=server.storage_options(endpoint=proxy.endpoint)) as writer:
        writer.write({"x": 1})
    assert proxy.given() == [1] and list(sm.Dataset(out)) == [{"x": 1}]


@pytest.fixture
def tables(bucket, tmp_path):
    directory = tmp_path / "in"
    directory.mkdir()
    for number in range(8):
        ids = list(range(number * ROWS, (number + 1) * ROWS))
        pq.write_table(
            pa.table({"id": ids, "text": [f"row {id}" for id in ids]}),
            directory / f"{number}.parquet",
        )
    bucket.publish("in", directory)
    return f"s3://{bucket.name}"


def same(batch):
    return batch


def job(root, options, **changed):
    return Pipeline(
        source=TableSource(f"{root}/in", files_per_partition=1, storage_options=options),
        stages=[Map(same, batch_size=1000)],
        sink=ParquetSink(f"{root}/out"),
        **changed,
    )


def ids_of(path):
    return sorted(row["id"] for row in sm.Dataset(path))


def test_a_job_reads_from_a_bucket_and_writes_to_it(tables, server):
    report = job(tables, server.storage_options()).run(progress=False)
    assert report.counts("output")["rows"] == 8 * ROWS
    assert ids_of(f"{tables}/out") == list(range(8 * ROWS))


class StopsOnce:
    def __init__(self, after):
        self.left = after

    def __call__(self, batch):
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("stopped")
        return batch


@pytest.mark.parametrize("id_column", [None, "id"])
def test_a_job_that_was_stopped_goes_on_where_it_was(id_column, tables, server, monkeypatch):
    options = server.storage_options()
    checkpoint = {"path": f"{tables}/state", "id_column": id_column, "version": "1"}

    def attempt(after):
        stages = [Map(StopsOnce(after), batch_size=1000)]
        return Pipeline(
            source=TableSource(f"{tables}/in", files_per_partition=1, storage_options=options),
            stages=stages,
            sink=ParquetSink(f"{tables}/out"),
            checkpoint=checkpoint,
        ).run(progress=False, threads=1)

    with pytest.raises(Exception, match="stopped"):
        attempt(14)
    report = attempt(10_000)
    assert ids_of(f"{tables}/out") == list(range(8 * ROWS))
    assert report.counts("input")["rows"] < 8 * ROWS


def test_a_job_under_mixed_faults_has_each_row_once(tables, server, proxy):
    options = {**server.storage_options(endpoint=proxy.endpoint), "request_timeout": 1}
    proxy.faults(mix(probability=0.2, count=60, seed=11))
    job(
        tables, options, checkpoint={"path": f"{tables}/state", "id_column": "id", "version": "1"}
    ).run(progress=False)
    proxy.faults()
    assert ids_of(f"{tables}/out") == list(range(8 * ROWS))


def shardmill(*arguments):
    command = [sys.executable, "-m", "shardmill", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_cache_commands_tell_what_is_kept_and_remove_it(tables, server, tmp_path):
    cache = str(tmp_path / "cache")
    rows = list(
        sm.Dataset(f"{tables}/in", storage_options={**server.storage_options(), "cache_dir": cache})
    )
    assert len(rows) == 8 * ROWS
    told = shardmill("cache", "info", "--dir", cache)
    assert f"{tables}/in/0.parquet" in told
    shardmill("cache", "clear", "--dir", cache)
    assert shardmill("cache", "info", "--dir", cache) == ""
