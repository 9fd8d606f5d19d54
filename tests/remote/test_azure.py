"""Azure, before Azurite.

Arrow's own client is the oracle: it writes what we read, and reads what we wrote.

What is not shown here: a listing of more than one page, which begins at 5,001 objects, more than
Azurite makes in the time that there is; and tokens of Entra, which Azurite knows over HTTPS only.
"""

import dataclasses
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering
from promptness import HANGS_S
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource

from .azure_server import ACCOUNT
from .fault_proxy import Fault, proxying

ROWS = 1000
FILES = 3
WRONG_KEY = "d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc="


def table(start: int = 0, rows: int = ROWS) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table({"id": list(numbers), "text": [f"row {number} " * 9 for number in numbers]})


@pytest.fixture
def files(azure) -> pyarrow.fs.AzureFileSystem:
    return azure.files()


@pytest.fixture
def slow(azure):
    """A proxy before the server."""
    with proxying(f"http://{azure.address}") as proxy:
        yield proxy


@pytest.fixture
def root(container, azure):
    sm.storage.configure(f"az://{container}", azure.storage_options())
    return f"az://{container}"


@pytest.fixture
def train(container, root, files, tmp_path):
    for number in range(FILES):
        part = table(number * ROWS)
        for system, path in (
            (files, f"{container}/train/{number}.parquet"),
            (None, tmp_path / f"{number}.parquet"),
        ):
            pq.write_table(part, path, row_group_size=300, filesystem=system)
    return f"{root}/train"


def names(files, directory):
    found = files.get_file_info(
        pyarrow.fs.FileSelector(directory, recursive=True, allow_not_found=True)
    )
    return sorted(info.path for info in found if info.type == pyarrow.fs.FileType.File)


def ids(path, **options):
    return [row["id"] for row in sm.Dataset(path, **options)]


def refused(work, kind, match, *secrets):
    with pytest.raises(kind, match=match) as caught:
        work()
    text = str(caught.value)
    assert "\nhint: " in text, text
    assert not [secret for secret in secrets if secret in text], text
    return text


def write(path, start=0, rows=1, **options):
    with sm.Writer(path, **options) as writer:
        writer.write_batch(table(start, rows))


class TestReading:
    def test_rows_of_a_container_are_those_of_the_directory(self, train, tmp_path):
        ours, local = sm.Dataset(train), sm.Dataset(tmp_path)
        assert list(ours) == list(local) and ours.schema == local.schema
        assert [Path(path).name for path in ours.files] == [Path(path).name for path in local.files]
        loaders = (
            sm.Loader(path, batch_size=97, shuffle=True, seed=3, output="numpy")
            for path in (train, tmp_path)
        )
        first, second = ([batch["id"].tolist() for batch in loader] for loader in loaders)
        assert first == second

    @pytest.mark.parametrize("scheme", ["az", "azure", "abfs", "abfss", "adl"])
    def test_every_scheme_is_the_same_container(self, scheme, train, azure):
        path = train.replace("az://", f"{scheme}://")
        assert ids(path, storage_options=azure.storage_options()) == list(range(FILES * ROWS))

    def test_globs_and_single_files_are_paths(self, train):
        assert ids(f"{train}/[01].parquet") == list(range(2 * ROWS))
        assert ids(f"{train}/2.parquet") == list(range(2 * ROWS, 3 * ROWS))
        assert ids(f"{train.removesuffix('/train')}/**/1.parquet") == list(range(ROWS, 2 * ROWS))

    def test_directory_that_is_an_empty_object_too_has_the_files_below_it(
        self, container, root, files
    ):
        files.open_output_stream(f"{container}/v1.0").close()
        pq.write_table(table(), f"{container}/v1.0/rows.parquet", filesystem=files)
        assert ids(f"{root}/v1.0") == list(range(ROWS))
        assert ids(root, format="parquet") == list(range(ROWS))

    def test_second_epoch_with_a_cache_fetches_nothing(self, train, azure, tmp_path):
        options = {**azure.storage_options(), "cache_dir": tmp_path / "cache"}
        loader = sm.Loader(
            train, batch_size=100, output="numpy", columns=["id"], storage_options=options
        )
        first = [batch["id"].tolist() for batch in loader]
        before = sm.storage.metrics(train)
        assert before.bytes > 0
        assert [batch["id"].tolist() for batch in loader] == first
        after = sm.storage.metrics(train)
        # What was read some time ago may come from the cache instead of memory.
        assert dataclasses.replace(after, cache_hits=before.cache_hits) == before

    def test_object_that_is_replaced_while_it_is_read_is_an_error(self, train, container, files):
        # Small ones are kept from when they were opened.
        large = f"{container}/train/9.parquet"
        pq.write_table(
            table(0, 20 * ROWS), large, row_group_size=1000, compression="none", filesystem=files
        )
        data = sm.Dataset(train)
        len(data)
        pq.write_table(
            table(1, 20 * ROWS), large, row_group_size=1000, compression="none", filesystem=files
        )
        refused(lambda: list(data), OSError, "replaced")


class TestWriting:
    @pytest.mark.parametrize("kind", ["parquet", "mds"])
    def test_what_is_written_is_what_arrow_reads_or_a_directory_has(
        self, kind, root, container, files, tmp_path
    ):
        for out in (f"{root}/out", tmp_path / "out"):
            write(out, rows=ROWS, format=kind, shard_bytes=16 << 10)
        assert list(sm.Dataset(f"{root}/out")) == list(sm.Dataset(tmp_path / "out"))
        there = names(files, f"{container}/out")
        assert [Path(path).name for path in there] == sorted(
            path.name for path in (tmp_path / "out").iterdir()
        )
        if kind == "parquet":
            assert pq.read_table(f"{container}/out", filesystem=files).equals(table())

    def test_modes_refuse_replace_and_append(self, root, container, files):
        out = f"{root}/out"
        write(out, rows=300, format="parquet", shard_bytes=4 << 10)
        refused(lambda: write(out, format="parquet"), FileExistsError, "out")
        write(out, 300, 20, format="parquet", mode="append")
        assert ids(out) == list(range(320))
        write(out, 1000, 5, format="parquet", mode="overwrite")
        assert ids(out) == list(range(1000, 1005)) and len(names(files, f"{container}/out")) == 1

    def test_large_object_goes_up_in_parts_and_one_that_fails_leaves_none(
        self, root, container, files
    ):
        batch = pa.table({"x": [bytes([number % 251]) * 100_000 for number in range(300)]})
        with sm.Writer(f"{root}/large.parquet", compression="none") as writer:
            writer.write_batch(batch)
        assert (
            pq.read_table(f"{container}/large.parquet", filesystem=files)["x"].to_pylist()
            == batch["x"].to_pylist()
        )
        with (
            pytest.raises(ZeroDivisionError),
            sm.Writer(f"{root}/none.parquet", compression="none") as writer,
        ):
            writer.write_batch(batch)
            raise ZeroDivisionError
        assert names(files, container) == [f"{container}/large.parquet"]

    # Of one row, an object is sent whole; of 200, in parts.
    @covering(1, credentials=["key", "signature"], rows=[1, 200])
    def test_of_two_writers_of_one_name_the_last_is_refused(
        self, rows, credentials, container, azure, slow, files
    ):
        options = azure.storage_options(endpoint=slow.endpoint)
        if credentials == "signature":
            del options["account_key"]
            options["sas_token"] = azure.signature(container, rights="racwdl")
        out = f"az://{container}/rows.parquet"
        sm.storage.configure(out, options)
        writers = [sm.Writer(out, compression="none") for _ in range(2)]
        for number, writer in enumerate(writers):
            writer.write_batch({"x": [bytes([number]) * 100_000] * rows})
        # Both are told that there is no such object before either makes one:
        # only the store can refuse.
        slow.faults(Fault(kind="latency", methods=("PUT",), delay_s=1))
        assert _published_at_once(writers) == 1
        assert len(pq.read_table(f"{container}/rows.parquet", filesystem=files)) == rows


def _published_at_once(writers) -> int:
    published = []
    barrier = threading.Barrier(len(writers))

    def close(writer):
        barrier.wait()
        try:
            writer.close()
            published.append(writer)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=close, args=(writer,)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(published)


class StopsOnce:
    def __init__(self, after):
        self.left = after

    def __call__(self, batch):
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("stopped")
        return batch


class TestJobs:
    @pytest.mark.slow
    def test_job_that_was_stopped_goes_on_where_it_was(self, train, root):
        def attempt(after):
            return Pipeline(
                source=TableSource(train, files_per_partition=1),
                stages=[Map(StopsOnce(after), batch_size=250)],
                sink=ParquetSink(f"{root}/out"),
                checkpoint={"path": f"{root}/state", "id_column": "id", "version": "1"},
            ).run(progress=False, threads=1)

        with pytest.raises(Exception, match="stopped"):
            attempt(7)
        report = attempt(1000)
        assert sorted(ids(f"{root}/out")) == list(range(FILES * ROWS))
        assert report.counts("input")["rows"] < FILES * ROWS

    def test_object_is_replaced_only_by_who_knows_it(self, root):
        path, storage = f"{root}/note", sm._native.storage
        assert storage.replace_object(path, None, b"one") and not storage.replace_object(
            path, None, b"two"
        )
        assert not storage.replace_object(path, b"other", b"two")
        assert storage.replace_object(path, b"one", b"two") and storage.read(path) == b"two"
        storage.remove(path)
        storage.remove(path)
        assert storage.read(path) is None and not storage.replace_object(path, b"two", b"three")


class TestRefusals:
    def test_container_or_object_that_is_not_there(self, train, root, azure):
        sm.storage.configure("az://no-such-container", azure.storage_options())
        for work in (
            lambda: ids("az://no-such-container/a"),
            lambda: ids("az://no-such-container/a.parquet"),
            lambda: write("az://no-such-container/a.parquet"),
            lambda: write("az://no-such-container/out", format="parquet"),
        ):
            text = refused(work, FileNotFoundError, "No such bucket", azure.key)
            assert "no-such-container" in text
        for path in ("none.parquet", "none"):
            refused(lambda path=path: ids(f"{root}/{path}"), FileNotFoundError, "none", azure.key)

    def test_wrong_key(self, train, root, azure):
        options = {**azure.storage_options(), "account_key": WRONG_KEY}
        sm.storage.configure(root, options)
        for work in (
            lambda: ids(train),
            lambda: ids(f"{train}/0.parquet"),
            lambda: write(f"{root}/a.parquet"),
            lambda: write(f"{root}/out", format="parquet"),
        ):
            refused(work, PermissionError, "credentials are not accepted", WRONG_KEY)

    def test_key_that_is_no_key_is_refused_and_not_shown(self, root, azure):
        with pytest.raises(sm.OptionError, match="az://") as caught:
            ids(
                root,
                storage_options={**azure.storage_options(), "account_key": "no-base64-at-all!"},
            )
        assert "no-base64-at-all" not in str(caught.value)

    def test_signature_that_may_only_read(self, train, root, container, azure):
        signature = azure.signature(container, rights="r")
        options = azure.storage_options()
        del options["account_key"]
        sm.storage.configure(root, {**options, "sas_token": signature})
        assert ids(f"{train}/1.parquet") == list(range(ROWS, 2 * ROWS))
        secret = signature.rpartition("sig=")[2]
        for work in (
            lambda: ids(train),
            lambda: write(f"{root}/a.parquet"),
            lambda: write(f"{root}/o", format="mds"),
        ):
            refused(work, PermissionError, "No permission", secret)

    def test_signature_that_has_expired(self, train, root, container, azure):
        options = azure.storage_options()
        del options["account_key"]
        signature = azure.signature(container, rights="rl", minutes=-5)
        sm.storage.configure(root, {**options, "sas_token": signature})
        refused(
            lambda: ids(train),
            PermissionError,
            "credentials are not accepted|No permission",
            signature.rpartition("sig=")[2],
        )

    def test_secrets_are_in_no_repr_and_no_pickle(self, train, azure):
        data = sm.Dataset(train, storage_options=azure.storage_options())
        assert azure.key not in repr(data) and azure.key.encode() not in pickle.dumps(data)
        assert ids(train) == [row["id"] for row in pickle.loads(pickle.dumps(data))]


class TestEnvironment:
    CODE = "import sys, shardmill as sm; print(len(list(sm.Dataset(sys.argv[1]))))"

    def run(self, path, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AZURE_")}
        command = [sys.executable, "-c", self.CODE, path]
        return subprocess.run(
            command,
            env=kept | environment,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )

    def test_account_and_key_of_the_environment(self, train, azure):
        known = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ENDPOINT": azure.endpoint}
        done = self.run(train, AZURE_STORAGE_ACCOUNT_KEY=azure.key, **known)
        assert (done.stdout.strip(), done.stderr) == (str(FILES * ROWS), "")
        done = self.run(train, AZURE_STORAGE_ACCOUNT_KEY=WRONG_KEY, **known)
        assert "credentials are not accepted" in done.stderr and WRONG_KEY not in done.stderr

    def test_missing_account_is_asked_for(self, train):
        done = self.run(train)
        assert "AZURE_STORAGE_ACCOUNT_NAME" in done.stderr
