"""Stores of obstore and file systems of fsspec in place of storage options."""

import multiprocessing
import os
import pickle
import zipfile
from datetime import UTC, datetime, timedelta

import fsspec
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from obstore.store import (
    AzureStore,
    GCSStore,
    HTTPStore,
    LocalStore,
    MemoryStore,
    S3Store,
    from_url,
)
from promptness import HANGS_S
from s3fs import S3FileSystem
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.storage._configure import storage_options_of
from shardmill.storage._fsspec import options_of_file_system

ROWS = 2000


@pytest.fixture
def local(tmp_path):
    directory = tmp_path / "train"
    directory.mkdir()
    for number in range(3):
        table = pa.table(
            {
                "x": range(number * ROWS, (number + 1) * ROWS),
                "text": [f"row {n} {n**7}" for n in range(ROWS)],
            }
        )
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=500)
    return directory


@pytest.fixture
def parquet(bucket, local):
    bucket.publish("train", local)
    return f"s3://{bucket.name}/train"


@pytest.fixture
def settings(server):
    """Of obstore, for the keys' place."""
    return {
        "endpoint": server.endpoint,
        "region": server.region,
        "client_options": {"allow_http": True},
    }


@pytest.fixture
def keys(server):
    return {"access_key_id": server.access_key, "secret_access_key": server.secret_key}


def rows(path, given=None):
    return [row["x"] for row in sm.Dataset(path, storage_options=given)]


ALL = list(range(3 * ROWS))


class TestObstore:
    def test_store_reads_what_its_keys_read(self, parquet, bucket, settings, keys, local):
        store = S3Store(bucket.name, **settings, **keys)
        assert rows(parquet, store) == ALL
        assert sorted(path.rpartition("/")[2] for path in sm.Dataset(parquet).files) == sorted(
            os.listdir(local)
        )
        assert sorted(
            entry["path"] for batch in obstore.list(store, "train") for entry in batch
        ) == [path.removeprefix(f"s3://{bucket.name}/") for path in sm.Dataset(parquet).files]

    def test_store_of_a_url_and_of_a_prefix_serves_what_lies_below_it(
        self, parquet, bucket, settings, keys
    ):
        store = from_url(parquet, **settings, **keys)
        assert rows(parquet, store) == ALL and rows(f"{parquet}/0.parquet", store) == ALL[:ROWS]
        for outside in (f"s3://{bucket.name}/other", f"s3://{bucket.name}/training"):
            with pytest.raises(ValueError, match="outside of .*\nhint: .*train/"):
                rows(outside, store)

    def test_writers_and_jobs_take_it(self, parquet, bucket, settings, keys):
        store = S3Store(bucket.name, **settings, **keys)
        with sm.Writer(f"s3://{bucket.name}/out.parquet", storage_options=store) as writer:
            writer.write({"x": 1})
        assert rows(f"s3://{bucket.name}/out.parquet") == [1]
        Pipeline(
            source=TableSource(parquet, storage_options=store),
            sink=ParquetSink(f"s3://{bucket.name}/done", storage_options=store),
            checkpoint={
                "path": f"s3://{bucket.name}/state",
                "storage_options": store,
                "version": "1",
            },
        ).run(progress=False)
        assert sorted(rows(f"s3://{bucket.name}/done")) == ALL

    @pytest.mark.parametrize("is_async", [False, True])
    def test_credentials_that_end_are_fetched_again_before(
        self, is_async, parquet, bucket, settings, server
    ):
        fetched = []

        def provider():
            fetched.append(datetime.now(UTC))
            return {
                "access_key_id": server.access_key,
                "secret_access_key": server.secret_key,
                "token": None,
                "expires_at": fetched[-1] + timedelta(milliseconds=400),
            }

        async def later():
            return provider()

        store = S3Store(
            bucket.name, **settings, credential_provider=later if is_async else provider
        )
        assert rows(parquet, store) == ALL
        first = len(fetched)
        end = datetime.now(UTC) + timedelta(milliseconds=500)
        while datetime.now(UTC) < end:
            pass
        assert rows(parquet, store) == ALL and len(fetched) > first >= 1
        assert all(
            later - before > timedelta(milliseconds=250)
            for before, later in zip(fetched, fetched[1:])
        )

    def test_provider_of_lasting_keys_is_asked_once(self, parquet, bucket, settings, keys):
        fetched = []

        def provider():
            fetched.append(1)
            return {**keys, "expires_at": None}

        store = S3Store(bucket.name, **settings, credential_provider=provider)
        assert rows(parquet, store) == ALL and rows(parquet, store) == ALL
        assert fetched == [1]

    def test_provider_that_fails_says_why_at_once(self, parquet, bucket, settings):
        def provider():
            raise RuntimeError("the vault is closed")

        with pytest.raises(PermissionError, match="the vault is closed") as caught:
            rows(parquet, S3Store(bucket.name, **settings, credential_provider=provider))
        assert "hint: call the store's credential_provider" in str(caught.value)

    @pytest.mark.parametrize("given", ["not a dict", {"access_key_id": "a", "expires_at": None}])
    def test_provider_that_gives_no_keys_is_refused(self, given, parquet, bucket, settings):
        with pytest.raises(PermissionError, match="not a dict|returned no `.*_access_key`"):
            rows(parquet, S3Store(bucket.name, **settings, credential_provider=lambda: given))

    def test_store_of_another_bucket_or_service_is_refused(
        self, parquet, bucket, settings, keys, tmp_path
    ):
        with pytest.raises(
            ValueError, match=f"the store has the bucket 'another', and .* is in '{bucket.name}'"
        ):
            rows(parquet, S3Store("another", **settings, **keys))
        with pytest.raises(ValueError, match="GCSStore, which serves gs://"):
            rows(parquet, GCSStore("another", skip_signature=True))
        with pytest.raises(ValueError, match="pass the path of the directory"):
            rows(parquet, LocalStore(tmp_path))
        with pytest.raises(ValueError, match="in the memory of obstore"):
            rows(parquet, MemoryStore())
        with pytest.raises(ValueError, match="paths are local"):
            rows(tmp_path, S3Store("another"))
        with pytest.raises(
            ValueError, match="mapping, a store of obstore or an fsspec file system, not int"
        ):
            rows(parquet, 3)

    def test_setting_that_our_client_has_not_is_named(self, parquet, bucket, keys):
        store = S3Store(bucket.name, client_options={"default_headers": {"a": "b"}}, **keys)
        with pytest.raises(ValueError, match="default_headers"):
            rows(parquet, store)

    def test_others_become_the_options_of_their_service(self):
        assert storage_options_of("gs://b/x", GCSStore("b", skip_signature=True)).texts == {
            "skip_signature": "true"
        }
        azure = AzureStore(
            "c",
            account_name="a",
            account_key="a2V5",
            retry_config={"retry_timeout": timedelta(seconds=3)},
        )
        for path in ("az://c/x", "abfss://c@a.dfs.core.windows.net/x"):
            assert storage_options_of(path, azure).texts == {
                "account_name": "a",
                "account_key": "a2V5",
                "retry_timeout": "3.0",
            }
        http = HTTPStore(
            "http://h:1/a", client_options={"allow_http": True, "timeout": timedelta(seconds=2)}
        )
        assert storage_options_of("http://h:1/a/b", http).texts["allow_http"] == "true"
        with pytest.raises(ValueError, match="outside"):
            storage_options_of("http://h:1/b", http)


class TestPickles:
    """Hold no secret, whatever the options were."""

    @pytest.fixture(params=["obstore", "fsspec"])
    def given(self, request, bucket, settings, keys, server):
        if request.param == "obstore":
            return S3Store(bucket.name, **settings, **keys)
        return S3FileSystem(
            key=server.access_key,
            secret=server.secret_key,
            endpoint_url=server.endpoint,
            client_kwargs={"region_name": server.region},
        )

    def test_worker_that_is_spawned_has_keys_of_its_own(self, given, parquet, server):
        pickled = pickle.dumps(sm.Dataset(parquet, storage_options=given))
        assert (
            server.secret_key.encode() not in pickled and server.access_key.encode() not in pickled
        )
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(
            target=count_elsewhere, args=(pickled, server.access_key, server.secret_key, queue)
        )
        process.start()
        assert queue.get(timeout=HANGS_S) == len(ALL)
        process.join()

    def test_process_that_opened_it_keeps_its_keys(self, given, parquet):
        data = sm.Dataset(parquet, storage_options=given)
        assert len(list(pickle.loads(pickle.dumps(data)))) == len(ALL)
        assert rows(parquet) == ALL

    def test_parts_of_a_job_hold_none_either(self, given, parquet, bucket, server):
        source, sink = (
            TableSource(parquet, storage_options=given),
            ParquetSink(f"s3://{bucket.name}/out", storage_options=given),
        )
        pickled = pickle.dumps((source, sink))
        assert (
            server.secret_key.encode() not in pickled and server.access_key.encode() not in pickled
        )
        again, _ = pickle.loads(pickled)
        assert again.paths() == [parquet] and again.storage_options["endpoint"] == server.endpoint


def count_elsewhere(pickled, key, secret, queue):
    os.environ.update(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret, AWS_ALLOW_HTTP="true")
    queue.put(len(list(pickle.loads(pickled))))


class TestFileSystemsWeServe:
    """Their settings are taken over."""

    def test_s3fs_reads_and_writes_by_our_own_client(self, parquet, bucket, server):
        system = S3FileSystem(
            key=server.access_key,
            secret=server.secret_key,
            endpoint_url=server.endpoint,
            client_kwargs={"region_name": server.region},
        )
        assert rows(parquet, system) == ALL
        assert rows(parquet.removeprefix("s3://"), system) == ALL, "as fsspec writes paths"
        assert sm.storage.metrics(parquet).requests > 0
        assert sorted(sm.Dataset(parquet).files) == [
            f"s3://{path}" for path in sorted(system.find(parquet))
        ]
        with sm.Writer(f"s3://{bucket.name}/out.parquet", storage_options=system) as writer:
            writer.write({"x": 1})
        assert system.exists(f"s3://{bucket.name}/out.parquet")

    @pytest.mark.parametrize(
        ("path", "settings", "texts"),
        [
            ("s3://b/x", {"anon": True, "default_block_size": 5}, {"skip_signature": "true"}),
            (
                "s3://b/x",
                {"profile": "p", "config_kwargs": {"s3": {"addressing_style": "virtual"}}},
                {"profile": "p", "virtual_hosted_style_request": "true"},
            ),
            (
                "s3://b/x",
                {"client_kwargs": {"aws_access_key_id": "k"}, "token": "t"},
                {"access_key_id": "k", "session_token": "t"},
            ),
            ("gs://b/x", {"token": "anon", "project": "p"}, {"skip_signature": "true"}),
            ("gs://b/x", {"token": "/keys.json"}, {"service_account": "/keys.json"}),
            (
                "gs://b/x",
                {"token": {"type": "service_account"}},
                {"service_account_key": '{"type": "service_account"}'},
            ),
            (
                "az://c/x",
                {"account_name": "a", "sas_token": "sv=1"},
                {"account_name": "a", "sas_token": "sv=1"},
            ),
            (
                "hf://datasets/o/n",
                {"token": False, "endpoint": "http://h"},
                {"skip_signature": "true", "endpoint": "http://h"},
            ),
            ("https://h/x", {}, {}),
        ],
    )
    def test_settings_have_our_names(self, path, settings, texts):
        assert options_of_file_system(path, system_of(path, settings)).texts == texts

    @pytest.mark.parametrize(
        ("path", "settings"),
        [
            ("s3://b/x", {"session": object()}),
            ("gs://b/x", {"token": object()}),
            ("az://c/x", {"connection_string": "x"}),
            ("https://h/x", {"client_kwargs": {"headers": {}, "auth": 1}}),
        ],
    )
    def test_settings_that_cannot_be_taken_over_are_refused(self, path, settings):
        with pytest.raises(ValueError, match="cannot be translated\nhint: pass"):
            options_of_file_system(path, system_of(path, settings))

    def test_file_system_of_another_scheme_is_refused(self, parquet):
        with pytest.raises(ValueError, match="MemoryFileSystem, which serves memory://"):
            rows(parquet, MemoryFileSystem())


def system_of(path, settings):
    """A file system whose package is not here, with its scheme and its settings."""
    kind = type(
        "System",
        (fsspec.AbstractFileSystem,),
        {"protocol": (path.partition("://")[0],), "cachable": False},
    )
    return kind(**settings)


class TestOtherFileSystems:
    """They are called for each read."""

    @pytest.fixture
    def memory(self, local):
        system = MemoryFileSystem()
        for file in local.iterdir():
            system.pipe(f"/{local.parent.name}/train/{file.name}", file.read_bytes())
        yield system
        system.rm(f"/{local.parent.name}", recursive=True)

    def test_memory_is_read_by_directory_glob_and_file(self, memory, local):
        directory = f"memory://{local.parent.name}/train"
        assert rows(directory, memory) == ALL
        assert (
            rows(f"{directory}/[01].parquet") == ALL[: 2 * ROWS]
            and rows(f"{directory}/2.parquet") == ALL[2 * ROWS :]
        )
        assert rows(f"{local.parent.name}/train", memory) == ALL
        assert rows(f"memory:///{local.parent.name}/train", memory) == ALL
        assert sm.Dataset(directory).files == [
            f"memory:/{path}" for path in sorted(memory.find(directory))
        ]

    def test_epochs_are_those_of_the_directory(self, memory, local):
        def epoch(path, **options):
            loader = sm.Loader(
                path, batch_size=97, shuffle=True, seed=5, output="numpy", columns=["x"], **options
            )
            return [batch["x"].tolist() for batch in loader]

        assert epoch(f"memory://{local.parent.name}/train", storage_options=memory) == epoch(local)

    def test_file_system_in_place_of_a_path_is_all_that_is_in_it(self, local):
        assert rows(DirFileSystem(str(local), fs=fsspec.filesystem("file"))) == ALL

    def test_archive_is_read_and_another_one_is_refused(self, local, tmp_path):
        for name in ("a.zip", "b.zip"):
            with zipfile.ZipFile(tmp_path / name, "w") as archive:
                archive.write(local / "1.parquet", "deep/1.parquet")
        assert (
            rows("zip://deep/1.parquet", fsspec.filesystem("zip", fo=str(tmp_path / "a.zip")))
            == ALL[ROWS : 2 * ROWS]
        )
        with pytest.raises(sm.OptionError, match="another file system serves zip://"):
            rows("zip://deep/1.parquet", fsspec.filesystem("zip", fo=str(tmp_path / "b.zip")))

    def test_local_files_need_no_file_system(self, local):
        assert rows(str(local), fsspec.filesystem("file")) == ALL

    def test_file_that_is_replaced_while_it_is_read_is_an_error(self, memory, local):
        # Larger than what opening it fetches.
        pq.write_table(
            pa.table({"x": [number**3 for number in range(50_000)]}),
            local / "0.parquet",
            row_group_size=5000,
        )
        content, path = (local / "0.parquet").read_bytes(), f"/{local.parent.name}/train/0.parquet"
        memory.pipe(path, content)
        data = sm.Dataset(f"memory:/{path}", storage_options=memory)
        memory.pipe(path, content)
        with pytest.raises(OSError, match="replaced"):
            list(data)

    def test_what_is_missing_and_what_fails_says_so(self, memory, local):
        with pytest.raises(FileNotFoundError, match="none.parquet"):
            rows(f"memory://{local.parent.name}/none.parquet", memory)

        class Failing(MemoryFileSystem):
            protocol = "failing"

            def _strip_protocol(self, path):
                return MemoryFileSystem._strip_protocol(path.replace("failing://", "memory://"))

            def cat_file(self, path, **_):
                raise ValueError("out of paper")

        with pytest.raises(sm.Error, match="ValueError: out of paper"):
            rows(f"failing://{local.parent.name}/train", Failing())

    def test_read_that_fails_for_a_while_is_made_again(self, memory, local):
        class Flaky(MemoryFileSystem):
            protocol = "flaky"
            failures = 3

            def _strip_protocol(self, path):
                return MemoryFileSystem._strip_protocol(path.replace("flaky://", "memory://"))

            def cat_file(self, path, **options):
                if Flaky.failures:
                    Flaky.failures -= 1
                    raise ConnectionError("line is busy")
                return super().cat_file(self._strip_protocol(path), **options)

        assert rows(f"flaky://{local.parent.name}/train", Flaky()) == ALL
        assert Flaky.failures == 0

    def test_writing_is_refused_with_what_to_do(self, memory, local):
        with (
            pytest.raises(OSError, match="read only") as caught,
            sm.Writer(
                f"memory://{local.parent.name}/out.parquet", storage_options=memory
            ) as writer,
        ):
            writer.write({"x": 1})
        assert "hint: write to a local directory" in str(caught.value)

    def test_process_that_has_no_file_system_says_what_to_do(self, memory, local):
        pickled = pickle.dumps(
            sm.Dataset(f"memory://{local.parent.name}/train", storage_options=memory)
        )
        context = multiprocessing.get_context("spawn")
        queue = context.Queue()
        process = context.Process(target=failure_elsewhere, args=(pickled, queue))
        process.start()
        assert "fsspec file system in storage_options, in each process" in queue.get(
            timeout=HANGS_S
        )
        process.join()


def failure_elsewhere(pickled, queue):
    try:
        pickle.loads(pickled)
    except ValueError as error:
        queue.put(str(error))
