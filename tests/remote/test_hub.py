"""Data sets of the Hugging Face Hub, from a server on loopback that keeps to its protocol."""

import itertools
import multiprocessing
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering
from huggingface_hub import HfFileSystem
from promptness import HANGS_S

from .hub_server import LARGE, PAGE, serving_hub

NUMBERS = itertools.count(1)
ROWS = 300


def parquet(start=0, rows=ROWS):
    numbers = range(start, start + rows)
    out = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"x": list(numbers), "text": [f"row {number} {number**7}" for number in numbers]}),
        out,
        row_group_size=50,
    )
    return out.getvalue().to_pybytes()


@pytest.fixture
def hub(monkeypatch):
    for name in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", "/nonexistent")
    with serving_hub() as hub:
        yield hub


@pytest.fixture
def name():
    """Of a data set that no other test has: options hold for the whole process."""
    return f"owner/set-{next(NUMBERS)}"


@pytest.fixture
def files():
    return {
        **{f"data/train-{number}.parquet": parquet(number * ROWS) for number in range(5)},
        "data/test/odd name+%20.parquet": parquet(9 * ROWS),
        "README.md": b"# A data set\n",
        "small.csv": b"x\n1\n2\n",
    }


def rows(path, hub, **options):
    return [
        row["x"] for row in sm.Dataset(path, storage_options={"endpoint": hub.endpoint, **options})
    ]


def test_directories_globs_and_files_have_the_rows_of_their_files(hub, name, files):
    hub.data_set(name, files)
    root = f"hf://datasets/{name}"
    assert all(len(content) >= LARGE for path, content in files.items() if path.endswith("parquet"))
    assert rows(f"{root}/data/train-*.parquet", hub) == list(range(5 * ROWS))
    assert rows(f"{root}/data/train-3.parquet", hub) == list(range(3 * ROWS, 4 * ROWS))
    assert rows(f"{root}/data/test", hub) == list(range(9 * ROWS, 10 * ROWS))
    assert rows(f"{root}/small.csv", hub) == [1, 2]
    data = sm.Dataset(f"{root}/data")
    assert len(data) == 6 * ROWS and data.files[0] == f"{root}/data/test/odd name+%20.parquet"
    shuffled = [
        batch["x"] for batch in sm.Loader(data, batch_size=64, shuffle=True, output="numpy")
    ]
    assert sorted(itertools.chain(*shuffled)) == sorted(row["x"] for row in data)


def test_a_listing_of_many_pages_is_read_to_its_end(hub, name):
    count = 10 * PAGE + 1
    hub.data_set(name, {f"{number:03}.csv": b"x\n%d\n" % number for number in range(count)})
    assert rows(f"hf://datasets/{name}", hub) == list(range(count))
    assert sum("/tree/" in asked.path for asked in hub.asked) == 11


def test_the_token_is_sent_to_the_hub_only(hub, name, files):
    hub.data_set(name, files, token="hf_secret")
    assert rows(f"hf://datasets/{name}/data/train-0.parquet", hub, token="hf_secret") == list(
        range(ROWS)
    )
    tokens = {(asked.host, asked.token) for asked in hub.asked}
    assert tokens == {(hub.endpoint, "hf_secret"), (hub.elsewhere, None)}


@pytest.mark.parametrize("kept", ["environment", "file"])
def test_the_token_of_the_environment_or_of_a_login_is_used(
    kept, hub, name, files, monkeypatch, tmp_path
):
    hub.data_set(name, files, token="hf_secret")
    if kept == "environment":
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
    else:
        (tmp_path / "token").write_text("hf_secret\n")
        monkeypatch.delenv("HF_TOKEN_PATH")
        monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    assert len(sm.Dataset(f"hf://datasets/{name}/data")) == 6 * ROWS


def test_a_branch_that_moves_is_read_as_the_commit_that_it_was(hub, name, files):
    data_set = hub.data_set(name, files)
    root = f"hf://datasets/{name}"
    data = sm.Dataset(f"{root}/data", storage_options={"endpoint": hub.endpoint})
    old = data_set.branches["main"]
    new = data_set.commit({path: parquet(50 * ROWS) for path in files if path.endswith("parquet")})
    assert [row["x"] for row in data][-1] == 5 * ROWS - 1
    assert len(sm.Dataset(f"{root}/small.csv")) == 2, "the new commit has no such file"
    assert (
        sm.Dataset(
            f"{root}@{new}/data/train-0.parquet", storage_options={"endpoint": hub.endpoint}
        )[0]["x"]
        == 50 * ROWS
    )
    assert all(
        old in asked.path
        or new in asked.path
        or "/blob/" in asked.path
        or "/revision/main" in asked.path
        for asked in hub.asked
    )
    assert sum("/revision/main" in asked.path for asked in hub.asked) == 1


def test_revisions_are_branches_tags_commits_and_references(hub, name, files):
    data_set = hub.data_set(name, files)
    data_set.commit({"a.csv": b"x\n7\n"}, "v1.0")
    data_set.commit({"a.csv": b"x\n8\n"}, "refs/convert/parquet")
    assert rows(f"hf://datasets/{name}@v1.0/a.csv", hub) == [7]
    assert rows(f"hf://datasets/{name}@refs/convert/parquet/a.csv", hub) == [8]
    assert rows(f"hf://datasets/{name}@refs%2Fconvert%2Fparquet/a.csv", hub) == [8]
    assert rows(f"hf://datasets/{name}@{data_set.branches['v1.0']}/a.csv", hub) == [7]


def first_row_elsewhere(pickled, token, queue):
    os.environ["HF_TOKEN"] = token
    queue.put(pickle.loads(pickled)[0]["x"])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_reads_the_same_commit_with_a_token_of_its_own(method, hub, name, files):
    data_set = hub.data_set(name, files, token="hf_secret")
    data = sm.Dataset(
        f"hf://datasets/{name}/data/train-1.parquet",
        storage_options={"endpoint": hub.endpoint, "token": "hf_secret"},
    )
    data_set.commit({"data/train-1.parquet": parquet(50 * ROWS)})
    pickled = pickle.dumps(data)
    assert b"hf_secret" not in pickled and "hf_secret" not in repr(data)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=first_row_elsewhere, args=(pickled, "hf_secret", queue))
    process.start()
    assert queue.get(timeout=HANGS_S) == ROWS
    process.join()


def test_a_data_set_that_has_moved_is_found(hub, name, files):
    hub.data_set(f"new-{name}", files)
    hub.moved[name] = f"new-{name}"
    assert (
        len(sm.Dataset(f"hf://datasets/{name}/data", storage_options={"endpoint": hub.endpoint}))
        == 6 * ROWS
    )


def test_where_the_bytes_lie_is_asked_once_and_again_when_its_signature_has_ended(hub, name, files):
    hub.data_set(name, files)
    data = sm.Dataset(
        f"hf://datasets/{name}/data/train-0.parquet", storage_options={"endpoint": hub.endpoint}
    )
    assert len(list(data)) == ROWS
    assert sum("/resolve/" in asked.path for asked in hub.asked) == 1
    hub.signature = "another"
    assert len(list(sm.Dataset(f"hf://datasets/{name}/data/train-0.parquet"))) == ROWS
    assert sum("/resolve/" in asked.path for asked in hub.asked) == 2


@covering(1, status=[429, 500, 503], where=["/revision/", "/tree/", "/resolve/", "/blob/"])
def test_refusals_that_pass_lose_nothing(status, where, hub, name, files):
    hub.data_set(name, files)
    hub.faults = [(status, where)] * 2
    assert len(rows(f"hf://datasets/{name}/data", hub, retry_timeout=20)) == 6 * ROWS
    assert hub.faults == []


def test_second_epoch_fetches_nothing_where_there_is_a_cache(hub, name, files, tmp_path):
    hub.data_set(name, files)
    loader = sm.Loader(
        f"hf://datasets/{name}/data",
        batch_size=100,
        storage_options={"endpoint": hub.endpoint, "cache_dir": str(tmp_path / "cache")},
        output="numpy",
    )
    first = [batch["x"].tolist() for batch in loader]
    hub.asked.clear()
    assert [batch["x"].tolist() for batch in loader] == first
    assert hub.asked == []


class TestRefusals:
    """Each says which it is, and what to do."""

    @pytest.fixture
    def refused(self, hub):
        def refused(path, match, kind, **options):
            with pytest.raises(kind, match=match) as caught:
                sm.Dataset(
                    path, storage_options={"endpoint": hub.endpoint, "retry_timeout": 1, **options}
                )
            assert "hint:" in str(caught.value) and "hf_secret" not in str(caught.value)
            return str(caught.value)

        return refused

    def test_data_set_that_is_not_there(self, refused, name):
        assert "HF_TOKEN" in refused(
            f"hf://datasets/{name}/data", "No such data set", FileNotFoundError
        )

    def test_private_one_with_the_token_of_another_user(self, refused, hub, name, files):
        hub.data_set(name, files, token="hf_other")
        refused(
            f"hf://datasets/{name}/data",
            "No such data set on the Hub, or no access to it",
            FileNotFoundError,
            token="hf_secret",
        )

    @pytest.mark.parametrize("token", [None, "hf_secret"])
    def test_gated_one(self, token, refused, hub, name, files):
        hub.data_set(name, files, token="hf_other", is_gated=True)
        said = refused(
            f"hf://datasets/{name}/small.csv",
            "Access to the data set must be requested",
            PermissionError,
            token=token,
        )
        assert "conditions" in said

    def test_token_that_has_ended(self, refused, hub, name, files):
        hub.data_set(name, files, token="hf_other")
        refused(
            f"hf://datasets/{name}/data",
            "does not accept the token",
            PermissionError,
            token="hf_of_last_year",
        )

    def test_revision_that_is_not_there(self, refused, hub, name, files):
        hub.data_set(name, files)
        refused(f"hf://datasets/{name}@v9/data", "No such revision", FileNotFoundError)

    def test_file_or_directory_that_is_not_there(self, refused, hub, name, files):
        hub.data_set(name, files)
        refused(f"hf://datasets/{name}/data/none.parquet", "none.parquet", FileNotFoundError)
        refused(f"hf://datasets/{name}/none", "none", FileNotFoundError)

    @pytest.mark.parametrize(
        "path",
        ["hf://owner/model/x.parquet", "hf://datasets/one", "hf://", "hf://datasets/owner/set@/x"],
    )
    def test_path_that_names_no_data_set(self, path):
        with pytest.raises(OSError, match="hf://datasets/OWNER/NAME"):
            sm.Dataset(path)

    def test_option_that_the_hub_does_not_know(self, refused, hub, name):
        with pytest.raises(sm.OptionError, match="colour"):
            sm.storage.configure(f"hf://datasets/{name}", {"colour": "red"})

    def test_writing(self, hub, name, files):
        hub.data_set(name, files)
        with (
            pytest.raises(OSError, match="read only") as caught,
            sm.Writer(
                f"hf://datasets/{name}/out.parquet", storage_options={"endpoint": hub.endpoint}
            ) as writer,
        ):
            writer.write({"x": 1})
        assert "hint: write to a local directory" in str(caught.value)


def test_the_hubs_own_client_sees_the_same_files(hub, name, files):
    hub.data_set(name, files)
    system = HfFileSystem(endpoint=hub.endpoint, token=False, skip_instance_cache=True)
    data = sm.Dataset(f"hf://datasets/{name}/data", storage_options=system)
    assert sorted(data.files) == sorted(
        f"hf://{path}" for path in system.find(f"datasets/{name}/data")
    )
    for path in data.files:
        assert (
            system.cat_file(path.removeprefix("hf://"))
            == files[path.removeprefix(f"hf://datasets/{name}/")]
        )
