"""Data sets in a bucket: the same rows as from a local directory, whatever the store does."""

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples

from .fault_proxy import mix, network, throttled

ROWS = 5000


def table(rows: int = ROWS, start: int = 0) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "x": list(numbers),
            "text": [f"row {number} " * 20 for number in numbers],
            "half": [number / 2 for number in numbers],
        }
    )


def write_parquet(directory: Path, files: int = 4, row_group_size: int = 500) -> Path:
    directory.mkdir(exist_ok=True)
    for number in range(files):
        pq.write_table(
            table(start=number * ROWS),
            directory / f"{number:03}.parquet",
            row_group_size=row_group_size,
        )
    return directory


@pytest.fixture
def parquet(bucket, tmp_path):
    bucket.publish("train", write_parquet(tmp_path / "train"))
    return f"s3://{bucket.name}/train"


def rows(path, **options):
    return [row["x"] for row in sm.Dataset(path, **options)]


def test_rows_of_a_bucket_are_those_of_the_directory(parquet, server, tmp_path):
    options = server.storage_options()
    ours, local = sm.Dataset(parquet, storage_options=options), sm.Dataset(tmp_path / "train")
    assert list(ours) == list(local)
    assert ours[7] == local[7] and ours.schema == local.schema
    assert ours.take([3, 19_999, 3]) == local.take([3, 19_999, 3])
    assert [Path(path).name for path in ours.files] == [Path(path).name for path in local.files]


@pytest.mark.parametrize(
    "kind", ["parquet", "orc", "csv", "jsonl", "mds", "webdataset", "arrayrecord"]
)
def test_every_format_is_read_from_a_bucket(kind, bucket, server, tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    columns = ["text"] if kind == "arrayrecord" else ["x", "text"]
    batch = table(300).select(columns)
    if kind == "orc":
        pa.orc.write_table(batch, directory / "a.orc")
    elif kind == "csv":
        pa.csv.write_csv(batch, directory / "a.csv")
    else:
        named = batch.rename_columns(["cls", "txt"]) if kind == "webdataset" else batch
        with sm.Writer(directory / "out", format=kind) as writer:
            writer.write_batch(named)
    bucket.publish("data", directory)
    below = "data" if kind in ("orc", "csv") else "data/out"
    local = directory if kind in ("orc", "csv") else directory / "out"
    assert list(
        sm.Dataset(f"s3://{bucket.name}/{below}", storage_options=server.storage_options())
    ) == list(sm.Dataset(local))


def test_globs_and_single_files_and_lists_are_paths(parquet, server):
    sm.storage.configure(parquet, server.storage_options())
    assert rows(f"{parquet}/00[01].parquet") == list(range(2 * ROWS))
    assert rows(f"{parquet}/002.parquet") == list(range(2 * ROWS, 3 * ROWS))
    assert rows([f"{parquet}/003.parquet", f"{parquet}/000.parquet"])[:2] == [
        3 * ROWS,
        3 * ROWS + 1,
    ]


def test_shuffled_epochs_of_a_bucket_are_those_of_the_directory(parquet, server, tmp_path):
    def epoch(path, **options):
        loader = sm.Loader(
            path, batch_size=97, columns=["x"], shuffle=True, seed=3, output="numpy", **options
        )
        return [batch["x"].tolist() for batch in loader]

    assert epoch(parquet, storage_options=server.storage_options()) == epoch(tmp_path / "train")


def test_a_row_group_costs_at_most_two_requests(parquet, server, proxy):
    options = server.storage_options(endpoint=proxy.endpoint)
    data = sm.Dataset(parquet, storage_options=options, columns=["x", "half"])
    len(data)
    proxy.reset()
    for _ in sm.Loader(data, batch_size=500, output="numpy"):
        pass
    gets = [request for request in proxy.requests() if request["method"] == "GET"]
    assert len(gets) <= 2 * 40


def test_opening_asks_once_for_a_file_beside_listing(parquet, server, proxy):
    len(sm.Dataset(parquet, storage_options=server.storage_options(endpoint=proxy.endpoint)))
    # One of them looks for the index of MDS shards, and one for a table format in
    # the parent directory.
    assert len(proxy.requests()) <= 3 + 4


REFUSALS = examples(20, 6)
FAULTS = {
    "busy": throttled(count=REFUSALS),
    "errors": throttled(status=500, count=REFUSALS),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_refusals_that_pass_lose_nothing(fault, parquet, server, proxy):
    options = server.storage_options(endpoint=proxy.endpoint)
    proxy.faults(fault)
    assert rows(parquet, storage_options=options) == list(range(4 * ROWS))
    assert sum(proxy.given()) == REFUSALS


def test_mixed_faults_lose_nothing(parquet, server, proxy):
    options = {**server.storage_options(endpoint=proxy.endpoint), "request_timeout": 1}
    proxy.faults(mix(probability=0.3, count=60, seed=5))
    for _ in range(5):
        assert rows(parquet, storage_options=options) == list(range(4 * ROWS))


def test_latency_is_hidden_behind_other_requests(parquet, server, proxy):
    proxy.faults(*network(round_trip_s=0.01))
    options = server.storage_options(endpoint=proxy.endpoint)
    assert sorted(rows(parquet, storage_options=options)) == list(range(4 * ROWS))


def test_an_object_that_is_replaced_while_it_is_read_is_an_error(bucket, server, tmp_path):
    directory = write_parquet(tmp_path / "train", files=1)
    bucket.publish("train", directory)
    data = sm.Dataset(f"s3://{bucket.name}/train", storage_options=server.storage_options())
    len(data)
    pq.write_table(table(ROWS, start=1), directory / "000.parquet", row_group_size=500)
    bucket.publish("train", directory)
    with pytest.raises(OSError, match="replaced"):
        list(data)


def test_each_refusal_says_which_and_what_to_do(bucket, server):
    def refused(path, match, kind=OSError, **changed):
        with pytest.raises(kind, match=match) as caught:
            sm.Dataset(path, storage_options={**server.storage_options(), **changed})
        text = str(caught.value)
        assert "hint:" in text and server.secret_key not in text
        return text

    bucket.publish("a.parquet", b"PAR1")
    refused("s3://no-such-bucket/a.parquet", "No such bucket", FileNotFoundError)
    refused(f"s3://{bucket.name}/b.parquet", "b.parquet", FileNotFoundError)
    refused(
        f"s3://{bucket.name}/a.parquet",
        "credentials are not accepted",
        PermissionError,
        access_key_id="nobody",
    )
    refused(
        f"s3://{bucket.name}/a.parquet",
        "credentials are not accepted",
        PermissionError,
        secret_access_key="wrong",
    )
    refused(f"s3://{bucket.name}/a.parquet", "region", region="eu-nowhere-1")
    reader = server.users["reader"]
    refused(
        f"s3://{bucket.name}/a.parquet",
        "No permission",
        PermissionError,
        access_key_id=reader.access_key,
        secret_access_key=reader.secret_key,
    )


def test_pickles_hold_no_secret_and_open_with_what_the_process_has(parquet, server):
    data = sm.Dataset(parquet, storage_options=server.storage_options())
    pickled = pickle.dumps(data)
    assert server.secret_key.encode() not in pickled and server.access_key.encode() not in pickled
    assert server.secret_key not in repr(data)


class TestCache:
    """What was fetched stays on the machine."""

    @pytest.fixture
    def options(self, server, proxy, tmp_path):
        return {
            **server.storage_options(endpoint=proxy.endpoint),
            "cache_dir": str(tmp_path / "cache"),
        }

    def test_second_epoch_fetches_nothing(self, parquet, options, proxy):
        loader = sm.Loader(
            parquet, batch_size=100, output="numpy", columns=["x"], storage_options=options
        )
        first = [batch["x"].tolist() for batch in loader]
        proxy.reset()
        assert [batch["x"].tolist() for batch in loader] == first
        assert proxy.requests() == []

    def test_other_process_finds_it(self, parquet, options, proxy):
        rows(parquet, storage_options=options)
        before = proxy.counters()
        rows(parquet, storage_options=options)
        asked = [request for request in proxy.requests() if request["method"] == "GET"]
        assert len(asked) <= 2 * len(before) + 10
