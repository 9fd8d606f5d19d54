"""A cache directory that is full, foreign, damaged or too small.

The rows come all the same, or an error names the directory.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from promptness import HANGS_S

from . import cache_files

ROWS = 4000


@pytest.fixture
def train(bucket, tmp_path):
    directory = tmp_path / "train"
    directory.mkdir()
    for number in range(4):
        start = number * ROWS
        noise = [os.urandom(64).hex() for _ in range(ROWS)]
        batch = pa.table({"id": list(range(start, start + ROWS)), "text": noise})
        # Without checksums of its own: nothing but the cache would notice.
        pq.write_table(
            batch,
            directory / f"{number}.parquet",
            row_group_size=500,
            compression="none",
            use_dictionary=False,
        )
    bucket.publish("train", directory)
    return f"s3://{bucket.name}/train"


@pytest.fixture
def options(server, proxy, tmp_path):
    return {**server.storage_options(endpoint=proxy.endpoint), "cache_dir": str(tmp_path / "cache")}


def content(path, **options):
    return [(row["id"], row["text"]) for row in sm.Dataset(path, **options)]


@pytest.fixture
def known(train, options, tmp_path):
    return [(row["id"], row["text"]) for row in sm.Dataset(tmp_path / "train")]


def mounted(directory: Path, options: str):
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this user may not mount: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    yield from mounted(tmp_path / "small", "size=600k")


@pytest.fixture
def read_only_disk(tmp_path):
    yield from mounted(tmp_path / "read-only", "ro")


def bytes_sent(proxy):
    return sum(request["bytes_sent"] for request in proxy.requests())


SPOILS = [
    cache_files.flip_bytes,
    cache_files.flip_tables,
    cache_files.truncate,
    cache_files.remove_bytes,
    cache_files.remove_tables,
    cache_files.mix_up,
]


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_what_is_damaged_is_fetched_again_and_mended(spoil, train, options, known, proxy):
    directory = Path(options["cache_dir"])
    assert content(train, storage_options=options) == known
    spoil(directory)
    proxy.reset()
    assert content(train, storage_options=options) == known
    assert bytes_sent(proxy) > 100_000
    # Opening asks for versions, and nothing else is asked for.
    proxy.reset()
    assert content(train, storage_options=options) == known
    assert bytes_sent(proxy) < 100_000


@pytest.mark.parametrize("spoil", SPOILS, ids=lambda spoil: spoil.__name__)
def test_what_is_damaged_while_it_is_open_is_fetched_again(spoil, train, options, known):
    data = sm.Dataset(train, storage_options=options)
    assert [(row["id"], row["text"]) for row in data] == known
    spoil(Path(options["cache_dir"]))
    assert [(row["id"], row["text"]) for row in data] == known


def test_disk_that_is_full_keeps_what_fits_and_reading_goes_on(train, options, known, small_disk):
    full = {**options, "cache_dir": str(small_disk / "cache")}
    for _ in range(2):
        assert content(train, storage_options=full) == known
    loader = sm.Loader(
        train, batch_size=333, shuffle=True, output="numpy", columns=["id"], storage_options=full
    )
    assert sorted(id for batch in loader for id in batch["id"].tolist()) == [id for id, _ in known]


def test_disk_that_is_full_from_the_start_names_the_directory_or_reads_on(
    train, options, known, small_disk
):
    (small_disk / "fill").write_bytes(bytes(500_000))
    with pytest.raises(OSError), (small_disk / "rest").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    full = {**options, "cache_dir": str(small_disk / "cache")}
    try:
        assert content(train, storage_options=full) == known
    except OSError as error:
        assert str(small_disk) in str(error) and "full" in str(error)


def refused(train, directory, options):
    with pytest.raises(OSError, match="cache directory") as caught:
        sm.Dataset(train, storage_options={**options, "cache_dir": str(directory)})
    assert str(directory) in str(caught.value) and "\nhint: " in str(caught.value)
    return caught.value


def test_disk_that_is_read_only_and_file_in_place_of_the_directory(
    train, options, read_only_disk, tmp_path
):
    assert "read-only" in str(refused(train, read_only_disk / "cache", options))
    file = tmp_path / "file"
    file.write_bytes(b"")
    refused(train, file, options)
    refused(train, file / "below", options)


def test_directory_that_may_not_be_changed(train, options, tmp_path):
    directory = tmp_path / "immutable"
    directory.mkdir()
    if subprocess.run(
        ["chattr", "+i", str(directory)], capture_output=True, check=False
    ).returncode:
        pytest.skip("this disk knows no such directories")
    try:
        assert isinstance(refused(train, directory, options), PermissionError)
    finally:
        subprocess.run(["chattr", "-i", str(directory)], check=True)


OF_SOMEBODY_ELSE = """
import os, sys, shardmill as sm
try:
    # Modules that are read late lie where only the first user may look.
    sm.Dataset("/no/such/directory")
except FileNotFoundError:
    pass
os.setgid(65534), os.setuid(65534)
try:
    sm.Dataset(sys.argv[1])
except PermissionError as error:
    print("refused", error)
"""


def test_directory_of_another_user_is_refused_with_its_name(train, options, server):
    # In the directory that every user may enter.
    directory = Path("/tmp") / f"shardmill-cache-{os.getpid()}"
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    try:
        content(train, storage_options={**options, "cache_dir": str(directory)})
        environment = {
            **os.environ,
            "SHARDMILL_CACHE_DIR": str(directory),
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_REGION": server.region,
        }
        command = [sys.executable, "-c", OF_SOMEBODY_ELSE, train]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=HANGS_S, check=False
        )
        assert done.stdout.startswith("refused Failed to use the cache directory"), done
        assert str(directory) in done.stdout and "another user" in done.stdout
    finally:
        subprocess.run(["rm", "-rf", str(directory)], check=True)


@pytest.mark.parametrize("limit", [0, 1, 1000, 700_000])
def test_limit_below_one_object_or_below_all_keeps_less_and_reads_on(limit, train, options, known):
    small = {**options, "cache_bytes": limit}
    for _ in range(2):
        assert content(train, storage_options=small) == known
    kept = sum(entry[1] for entry in sm.storage.cache_entries(options["cache_dir"]))
    assert kept <= max(limit * 1.2, limit + 64_000)


def test_cache_that_is_removed_and_emptied_while_it_is_read(train, options, known, tmp_path):
    data = sm.Dataset(train, storage_options=options)
    assert data[0]["id"] == 0
    subprocess.run(["rm", "-rf", options["cache_dir"]], check=True)
    assert [(row["id"], row["text"]) for row in data] == known
    again = {**options, "max_requests": 17}
    data = sm.Dataset(train, storage_options=again)
    assert data[ROWS]["id"] == ROWS
    sm.storage.clear_cache(options["cache_dir"])
    assert [(row["id"], row["text"]) for row in data] == known
