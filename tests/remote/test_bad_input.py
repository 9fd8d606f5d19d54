"""What a user gets wrong, and what a store refuses.

An error says which and what to do, at once, without a secret.
"""

import json
import os
import subprocess
import sys
import tarfile
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from flat_options import flat_loader
from promptness import HANGS_S
from shardmill.curate import (
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    TableSource,
    WebDatasetSource,
)

from .fault_proxy import Fault, access_denied, expired_token, throttled, time_skewed

ROWS = 3000
#: Of an error: nothing of this may take longer, however busy the machine is. What is tried again
#: goes on for three minutes.
AT_ONCE_S = 60


def table(start: int = 0, rows: int = ROWS) -> pa.Table:
    return pa.table(
        {
            "id": list(range(start, start + rows)),
            "text": [f"row {n} " * 9 for n in range(start, start + rows)],
        }
    )


@pytest.fixture
def train(bucket, tmp_path):
    directory = tmp_path / "train"
    directory.mkdir()
    for number in range(4):
        pq.write_table(
            table(number * ROWS),
            directory / f"{number}.parquet",
            row_group_size=300,
            compression="none",
        )
    bucket.publish("train", directory)
    return f"s3://{bucket.name}/train"


def ids(path, **options):
    return [row["id"] for row in sm.Dataset(path, **options)]


def refused(work, kind, match, *secrets):
    begun = time.monotonic()
    with pytest.raises(kind, match=match) as caught:
        work()
    text = str(caught.value)
    assert "\nhint: " in text, text
    assert not [secret for secret in secrets if secret in text], text
    assert time.monotonic() - begun < AT_ONCE_S
    return text


def write(path, **options):
    with sm.Writer(path, format="parquet", **options) as writer:
        writer.write({"id": 1})


def job(root, out, **options):
    Pipeline(
        source=TableSource(f"{root}/train", files_per_partition=1, **options),
        stages=[Map(same, batch_size=500)],
        sink=ParquetSink(f"{out}/out"),
        checkpoint={"path": f"{out}/state", "id_column": "id", "version": "1"},
    ).run(progress=False)


def same(batch):
    return batch


class TestNames:
    def test_bucket_that_is_not_there(self, server, train):
        options = server.storage_options()
        for work in (
            lambda: ids("s3://no-such-bucket/a", storage_options=options),
            lambda: ids("s3://no-such-bucket/a.parquet", storage_options=options),
            lambda: write("s3://no-such-bucket/a.parquet", storage_options=options),
            lambda: write("s3://no-such-bucket/out", storage_options=options),
        ):
            assert "no-such-bucket" in refused(
                work, FileNotFoundError, "No such bucket", server.secret_key
            )

    def test_job_whose_output_has_no_bucket(self, server, train):
        sm.storage.configure("s3://no-such-bucket", server.storage_options())
        refused(
            lambda: job(
                train.removesuffix("/train"),
                "s3://no-such-bucket",
                storage_options=server.storage_options(),
            ),
            OSError,
            "No such bucket",
            server.secret_key,
        )

    def test_key_that_is_not_there_and_directory_without_files(self, bucket, server):
        bucket.publish("empty/.keep", b"")
        options = server.storage_options()
        for path in ("none.parquet", "none"):
            work = lambda path=path: ids(  # noqa: E731
                f"s3://{bucket.name}/{path}", storage_options=options
            )
            assert bucket.name in refused(work, FileNotFoundError, "none", server.secret_key)
        with pytest.warns(UserWarning, match=f"no data files in s3://{bucket.name}/empty"):
            assert ids(f"s3://{bucket.name}/empty", storage_options=options) == []

    def test_path_without_a_bucket(self):
        with pytest.raises(OSError, match="names no bucket"):
            ids("s3://")


class TestRights:
    @pytest.fixture
    def reader(self, server):
        return server.storage_options(user="reader")

    def test_keys_without_rights_may_neither_list_nor_read_nor_write(
        self, train, bucket, server, reader
    ):
        secret = server.users["reader"].secret_key
        for work in (
            lambda: ids(train, storage_options=reader),
            lambda: ids(f"{train}/0.parquet", storage_options=reader),
            lambda: write(f"s3://{bucket.name}/a.parquet", storage_options=reader),
            lambda: write(f"s3://{bucket.name}/out", storage_options=reader),
        ):
            assert bucket.name in refused(work, PermissionError, "No permission", secret)

    def test_reading_without_the_right_to_list_names_single_files(
        self, train, bucket, server, reader, s3
    ):
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": [server.users["reader"].access_key]},
            "Action": ["s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{bucket.name}/*"],
        }
        body = json.dumps({"Version": "2012-10-17", "Statement": [statement]}).encode()
        assert s3.request("PUT", f"/{bucket.name}", query={"policy": ""}, body=body).status in (
            200,
            204,
        )
        assert ids(f"{train}/1.parquet", storage_options=reader) == list(range(ROWS, 2 * ROWS))
        refused(lambda: ids(train, storage_options=reader), PermissionError, "No permission")
        refused(
            lambda: write(f"{train}/9.parquet", storage_options=reader),
            PermissionError,
            "No permission",
        )

    def test_right_that_is_taken_away_in_the_middle(self, train, server, proxy):
        options = server.storage_options(endpoint=proxy.endpoint)
        loader = sm.Loader(train, batch_size=300, output="numpy", storage_options=options)
        proxy.faults(access_denied(methods=("GET",), target=r"2\.parquet"))
        refused(lambda: list(loader), PermissionError, "No permission", server.secret_key)


class TestKeys:
    def test_wrong_secret_and_unknown_key(self, train, server):
        for changed in (
            {"secret_access_key": "wrong-secret-of-mine"},
            {"access_key_id": "NOBODYKNOWSTHIS"},
        ):
            options = {**server.storage_options(), **changed}
            for work in (
                lambda options=options: ids(train, storage_options=options),
                lambda options=options: write(f"{train}/w.parquet", storage_options=options),
            ):
                refused(
                    work,
                    PermissionError,
                    "credentials are not accepted",
                    server.secret_key,
                    "wrong-secret-of-mine",
                )

    def test_wrong_region_is_named(self, train, server):
        options = {**server.storage_options(), "region": "eu-nowhere-1"}
        refused(lambda: ids(train, storage_options=options), OSError, "region", server.secret_key)

    def test_clock_that_is_wrong(self, train, server, proxy):
        proxy.faults(time_skewed())
        options = server.storage_options(endpoint=proxy.endpoint)
        refused(
            lambda: ids(train, storage_options=options), PermissionError, "clock", server.secret_key
        )

    def test_token_that_has_expired_from_the_start(self, train, bucket, server, proxy):
        options = {
            **server.storage_options(endpoint=proxy.endpoint),
            "session_token": "an-old-token",
        }
        proxy.faults(expired_token())
        for work in (
            lambda: ids(train, storage_options=options),
            lambda: ids(f"{train}/0.parquet", storage_options=options),
            lambda: write(f"s3://{bucket.name}/a.parquet", storage_options=options),
            lambda: write(f"s3://{bucket.name}/out", storage_options=options),
        ):
            refused(work, PermissionError, "expired", server.secret_key, "an-old-token")

    def test_job_and_checkpoint_with_an_expired_token(self, train, bucket, server, proxy):
        options = server.storage_options(endpoint=proxy.endpoint)
        sm.storage.configure(train, options)
        proxy.faults(expired_token(skip=12))
        root = f"s3://{bucket.name}"
        refused(
            lambda: job(root, root, storage_options=options), OSError, "expired", server.secret_key
        )
        proxy.faults()
        job(root, root, storage_options=options)
        assert sorted(ids(f"{root}/out")) == list(range(4 * ROWS))

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_loader_whose_token_expires_goes_on_exactly_where_it_stopped(
        self, shuffle, train, server, proxy
    ):
        options = server.storage_options(endpoint=proxy.endpoint)

        def new():
            return sm.Loader(
                train, batch_size=128, shuffle=shuffle, seed=3, output="numpy", storage_options=None
            )

        sm.storage.configure(train, options)
        whole = [row for batch in new() for row in batch["id"].tolist()]
        loader, seen = new(), []
        proxy.faults(expired_token(skip=5))
        with pytest.raises(PermissionError, match="expired"):
            for batch in loader:
                seen += batch["id"].tolist()
        state = loader.state_dict()
        assert state["consumed"] == len(seen) < 4 * ROWS
        proxy.faults()
        # What a user does: new keys for the bucket, a new loader, the old state.
        sm.storage.configure(train, {**options, "max_requests": 32})
        resumed = new()
        resumed.load_state_dict(state)
        assert seen + [row for batch in resumed for row in batch["id"].tolist()] == whole


REFRESHED = """
import os, sys, time, shardmill as sm
path, credentials, good = sys.argv[1:]
data = sm.Dataset(path)
assert data[0]["id"] == 0
open(credentials, "w").write(open(good).read())
print(sum(row["id"] for row in data))
"""


class TestEnvironment:
    @pytest.fixture
    def environment(self, server, tmp_path):
        home = tmp_path / "home"
        (home / ".aws").mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {
            **kept,
            "HOME": str(home),
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_REGION": server.region,
        }

    def run(self, code, environment, *arguments):
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=HANGS_S, check=False
        )

    def test_keys_of_the_environment(self, train, server, environment):
        keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
        code = "import sys, shardmill as sm; print(len(list(sm.Dataset(sys.argv[1]))))"
        done = self.run(code, environment | keys, train)
        assert (done.stdout.strip(), done.stderr) == (str(4 * ROWS), "")

    def test_wrong_keys_of_the_environment_are_refused_and_not_shown(
        self, train, server, environment
    ):
        keys = {
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": "environment-secret",
        }
        done = self.run(
            "import sys, shardmill as sm; sm.Dataset(sys.argv[1])", environment | keys, train
        )
        assert (
            "credentials are not accepted" in done.stderr
            and "environment-secret" not in done.stderr
        )

    def test_keys_written_into_the_file_are_used_by_running_readers(
        self, train, server, proxy, environment, tmp_path
    ):
        text = (
            f"[default]\naws_access_key_id = {server.access_key}\n"
            f"aws_secret_access_key = {server.secret_key}\n"
        )
        file, good = tmp_path / "home/.aws/credentials", tmp_path / "good"
        file.write_text(text + "aws_session_token = old\n")
        good.write_text(text)
        environment |= {"AWS_ENDPOINT_URL": proxy.endpoint}
        # The server knows no session tokens and refuses every request that has one: it stands for
        # one that has expired.
        done = self.run("import sys, shardmill as sm; sm.Dataset(sys.argv[1])", environment, train)
        assert done.returncode != 0, done
        code = REFRESHED.replace("assert data[0]", "data[0]")
        file.write_text(text)
        done = self.run(code, environment, train, file, good)
        assert done.stdout.strip() == str(sum(range(4 * ROWS))), done.stderr

    def test_old_keys_fail_as_soon_as_the_file_holds_them(
        self, train, server, environment, tmp_path
    ):
        file, bad = tmp_path / "home/.aws/credentials", tmp_path / "bad"
        keys = f"[default]\naws_access_key_id = {server.access_key}\naws_secret_access_key = "
        file.write_text(f"{keys}{server.secret_key}\n")
        bad.write_text(f"{keys}wrong\n")
        done = self.run(REFRESHED, environment, train, file, bad)
        assert "credentials are not accepted" in done.stderr, done


class TestObjectsThatChange:
    @pytest.fixture
    def opened(self, train, server):
        data = sm.Dataset(f"{train}/2.parquet", storage_options=server.storage_options())
        assert len(data) == ROWS
        return data

    def test_replaced_by_another_of_the_same_size(self, opened, bucket):
        before = (bucket.directory / "train/2.parquet").read_bytes()
        bucket.publish("train/2.parquet", before[:1000] + bytes(100) + before[1100:])
        refused(lambda: list(opened), OSError, r"2\.parquet.*replaced")

    def test_shrunk(self, opened, bucket):
        bucket.publish(
            "train/2.parquet", (bucket.directory / "train/2.parquet").read_bytes()[:5000]
        )
        refused(lambda: list(opened), OSError, r"2\.parquet")

    def test_deleted(self, opened, bucket):
        (bucket.directory / "train/2.parquet").unlink()
        refused(lambda: list(opened), FileNotFoundError, r"2\.parquet")

    def test_replaced_behind_a_loader_ends_it_and_a_new_one_reads_the_new(
        self, train, bucket, server, tmp_path
    ):
        loader = sm.Loader(
            train, batch_size=300, output="numpy", storage_options=server.storage_options()
        )
        pq.write_table(table(50_000), tmp_path / "new.parquet", row_group_size=300)
        bucket.publish("train/3.parquet", tmp_path / "new.parquet")
        refused(lambda: list(loader), OSError, r"3\.parquet.*replaced")
        assert ids(train)[-ROWS:] == list(range(50_000, 50_000 + ROWS))


class TestListingsThatLag:
    """Conditional puts and reads are consistent; a listing may be stale.

    S3's own is not, others' are.
    """

    def test_writer_and_reader_by_index_and_by_name(self, bucket, server, proxy):
        proxy.faults(Fault(kind="lag", lag_s=3600))
        options = server.storage_options(endpoint=proxy.endpoint)
        out = f"s3://{bucket.name}/out"
        with sm.Writer(out, format="mds", storage_options=options) as writer:
            for number in range(100):
                writer.write({"id": number})
        assert ids(out, storage_options=options) == list(range(100))
        write(f"s3://{bucket.name}/a.parquet", storage_options=options)
        assert ids(f"s3://{bucket.name}/a.parquet", storage_options=options) == [1]
        with pytest.raises(FileExistsError):
            write(f"s3://{bucket.name}/a.parquet", storage_options=options)

    @pytest.mark.parametrize("id_column", [None, "id"])
    def test_job_that_was_stopped_and_goes_on(self, id_column, train, bucket, server, proxy):
        options = server.storage_options(endpoint=proxy.endpoint)
        root = f"s3://{bucket.name}"
        sm.storage.configure(root, options)
        proxy.faults(Fault(kind="lag", lag_s=2))

        class Stops:
            left = 9

            def __call__(self, batch):
                Stops.left -= 1
                if Stops.left == 0:
                    raise RuntimeError("stopped")
                return batch

        def attempt():
            Pipeline(
                source=TableSource(f"{root}/train", files_per_partition=1, storage_options=options),
                stages=[Map(Stops(), batch_size=1000)],
                sink=ParquetSink(f"{root}/out"),
                checkpoint={"path": f"{root}/state", "id_column": id_column, "version": "1"},
            ).run(progress=False, threads=1)

        with pytest.raises(Exception, match="stopped"):
            attempt()
        attempt()
        proxy.faults()
        assert sorted(ids(f"{root}/out")) == list(range(4 * ROWS))


class TestStalls:
    def test_retry_timeout_ends_a_silent_server_and_names_object_and_endpoint(
        self, train, server, proxy
    ):
        options = {
            **server.storage_options(endpoint=proxy.endpoint),
            "request_timeout": 1,
            "retry_timeout": 2,
        }
        data = sm.Dataset(train, storage_options=options)
        proxy.faults(Fault(kind="silent"))
        text = refused(lambda: list(data), OSError, r"0\.parquet", server.secret_key)
        assert proxy.endpoint in text and "retry_timeout" in text, text
        assert "18446744073709551615" not in text

    def test_bodies_that_stop_are_ended_by_retry_timeout(self, train, server, proxy):
        options = {
            **server.storage_options(endpoint=proxy.endpoint),
            "request_timeout": 1,
            "retry_timeout": 2,
        }
        data = sm.Dataset(train, storage_options=options)
        proxy.faults(Fault(kind="stall", after_bytes=100, methods=("GET",)))
        text = refused(lambda: list(data), OSError, r"0\.parquet", server.secret_key)
        assert proxy.endpoint in text, text

    def test_refusals_without_end_are_ended_too(self, train, server, proxy):
        options = {**server.storage_options(endpoint=proxy.endpoint), "retry_timeout": 1}
        proxy.faults(throttled())
        refused(lambda: ids(train, storage_options=options), OSError, "SlowDown", server.secret_key)

    def test_an_endpoint_without_a_server(self, train, server):
        options = server.storage_options(endpoint="http://127.0.0.1:9")
        refused(
            lambda: ids(train, storage_options=options),
            OSError,
            "the host does not respond",
            server.secret_key,
        )

    def test_an_outage_is_no_bad_row_and_no_bad_file(self, train, server, proxy):
        options = {**server.storage_options(endpoint=proxy.endpoint), "retry_timeout": 1}
        gone = Fault(kind="lost", target=r"1\.parquet", methods=("GET",))
        for policy in ({"on_bad_rows": "skip"}, {"on_bad_rows": "replace"}):
            proxy.faults()
            loader = flat_loader(
                train, batch_size=300, output="numpy", storage_options=options, **policy
            )
            proxy.faults(gone)
            refused(lambda loader=loader: list(loader), OSError, r"1\.parquet")
        with pytest.raises(OSError, match=r"1\.parquet"):
            sm.Loader(
                train,
                batch_size=300,
                output="numpy",
                storage_options=options,
                errors=sm.ErrorPolicy(rows="skip"),
            )

    @pytest.mark.parametrize("policy", ["warn", "drop_row", "drop_sample"])
    def test_an_outage_is_no_bad_image_and_leaves_its_split_open(
        self, bucket, server, proxy, tmp_path, policy
    ):
        pixels = {f"{name}.png": name.encode() * 99 for name in "abc"}
        directory = tmp_path / "in"
        directory.mkdir()
        for name, content in pixels.items():
            bucket.publish(f"images/{name}", content)
            reference = json.dumps({"path": f"s3://{bucket.name}/images/{name}"})
            rows = pa.table(
                {
                    "sample_id": [name] * 2,
                    "position": pa.array([-1, 0], pa.int32()),
                    "modality": ["metadata", "image"],
                    "source_ref": [None, reference],
                }
            )
            pq.write_table(rows, directory / f"{name}.parquet")
        bucket.publish("in", directory)
        options = {**server.storage_options(endpoint=proxy.endpoint), "retry_timeout": 1}

        def curate():
            Pipeline(
                source=InterleavedParquetSource(
                    f"s3://{bucket.name}/in",
                    storage_options=options,
                    allowed_roots=f"s3://{bucket.name}/images",
                ),
                sink=ParquetSink(tmp_path / "out", on_materialize_error=policy),
                checkpoint=tmp_path / "state",
            ).run(progress=False)

        proxy.faults(Fault(kind="lost", target=r"images/b\.png", methods=("GET",)))
        refused(curate, OSError, r"images/b\.png", server.secret_key)
        proxy.faults()
        curate()
        table = pq.read_table(tmp_path / "out")
        found = zip(
            table["sample_id"].to_pylist(), table["binary_content"].to_pylist(), strict=True
        )
        assert {name: content for name, content in found if content is not None} == pixels

    @pytest.mark.parametrize("source", [InterleavedParquetSource, WebDatasetSource])
    def test_an_outage_is_no_bad_shard_and_leaves_its_split_open(
        self, bucket, server, proxy, tmp_path, source
    ):
        directory = tmp_path / "in"
        directory.mkdir()
        for name in "abc":
            if source is WebDatasetSource:
                (tmp_path / "sample.json").write_text(
                    json.dumps({"texts": ["x"], "images": [None]})
                )
                with tarfile.open(directory / f"{name}.tar", "w") as shard:
                    shard.add(tmp_path / "sample.json", f"{name}.json")
            else:
                rows = {
                    "sample_id": [name] * 2,
                    "position": pa.array([-1, 0], pa.int32()),
                    "modality": ["metadata", "text"],
                    "text_content": [None, "x"],
                }
                pq.write_table(pa.table(rows), directory / f"{name}.parquet")
        bucket.publish("shards", directory)
        options = {**server.storage_options(endpoint=proxy.endpoint), "retry_timeout": 1}

        def curate():
            return Pipeline(
                source=source(f"s3://{bucket.name}/shards", storage_options=options),
                sink=ParquetSink(tmp_path / "out"),
                checkpoint=tmp_path / "state",
            ).run(progress=False)

        proxy.faults(Fault(kind="lost", target=r"shards/b\.", methods=("GET",)))
        refused(curate, OSError, r"shards/b\.", server.secret_key)
        proxy.faults()
        assert not curate().quarantined
        assert set(pq.read_table(tmp_path / "out")["sample_id"].to_pylist()) == set("abc")
