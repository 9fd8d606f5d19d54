"""States that belong to something else are refused by name.

Those of the same data are good wherever it lies.
"""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import shardmill as sm
from row_files import flat, new_directory, numbered, numpy_loader, write_files
from shardmill.errors import CheckpointMismatchError
from shardmill.load._plan import LoaderPlan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_files(tmp_path, [10, 10, 10], row_group=4)


@pytest.fixture
def state(path: Path) -> dict[str, Any]:
    loader = numpy_loader(path, batch_size=4)
    next(iter(loader))
    return loader.state_dict()


def copied(below: Path, path: Path) -> Path:
    directory = new_directory(below)
    for file in path.iterdir():
        shutil.copyfile(file, directory / file.name)
    return directory


def refusal(loader: sm.Loader, state: Any) -> str:
    before = loader.state_dict()
    with pytest.raises(CheckpointMismatchError) as refused:
        loader.load_state_dict(state)
    assert isinstance(refused.value, ValueError)
    assert loader.state_dict() == before, "a refused state changes nothing"
    return str(refused.value)


@pytest.mark.parametrize(
    ("options", "name", "values"),
    [
        ({"shuffle": True}, "shuffle", ("False", "True")),
        ({"lanes": 2}, "lanes", ("1", "2")),
        ({"filter": sm.col("id") > 1}, "filter", ("None", "'id'")),
    ],
)
def test_other_setting_is_named_with_both_values(
    path: Path, state: dict[str, Any], options: dict[str, Any], name: str, values: tuple[str, str]
) -> None:
    message = refusal(numpy_loader(path, batch_size=4, **options), state)
    assert name in message
    assert all(value in message for value in values)


def test_seed_is_compared_only_where_it_decides_the_order(
    path: Path, state: dict[str, Any]
) -> None:
    loader = numpy_loader(path, batch_size=4, seed=1)
    loader.load_state_dict(state)
    assert loader.state_dict() == {**state, "seed": 1}
    shuffled = numpy_loader(path, batch_size=4, shuffle=True, seed=1).state_dict()
    message = refusal(numpy_loader(path, batch_size=4, shuffle=True, seed=2), shuffled)
    assert message == "the state was saved with seed=1, this loader has seed=2"


def test_other_window_is_named(path: Path) -> None:
    state = numpy_loader(path, shuffle=True, shuffle_window_bytes=1000).state_dict()
    assert "shuffle_window_bytes" in refusal(
        numpy_loader(path, shuffle=True, shuffle_window_bytes=2000), state
    )


def test_window_without_shuffle_means_nothing(path: Path) -> None:
    state = numpy_loader(path, shuffle_window_bytes=1000).state_dict()
    numpy_loader(path, shuffle_window_bytes=2000).load_state_dict(state)


def test_other_filter_of_the_same_rows_is_another_filter(path: Path) -> None:
    state = numpy_loader(path, filter=sm.col("id") > 4).state_dict()
    assert "filter" in refusal(numpy_loader(path, filter=sm.col("id") >= 5), state)


def test_filter_that_differs_beyond_what_is_shown_is_another_filter(path: Path) -> None:
    first, second = ([*range(20), last] for last in (28, 29))
    state = numpy_loader(path, filter=sm.col("id").is_in(first)).state_dict()
    assert "filter" in refusal(numpy_loader(path, filter=sm.col("id").is_in(second)), state)
    long = "x" * 600
    state = numpy_loader(path, filter=sm.col("text") != f"{long}1").state_dict()
    assert "filter" in refusal(numpy_loader(path, filter=sm.col("text") != f"{long}2"), state)


def test_filter_by_a_set_is_the_same_in_every_process(path: Path) -> None:
    code = (
        "import sys, json, shardmill as sm\n"
        "words = sm.col('text').is_in({'row 1', 'row 2', 'row 3', 'row 4', 'row 5'})\n"
        "print(json.dumps(sm.Loader(sys.argv[1], filter=words, output='numpy').state_dict()))\n"
    )
    states = {
        subprocess.run(
            [sys.executable, "-c", code, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(states) == 1


def test_copied_data_set_keeps_its_states(
    tmp_path: Path, path: Path, state: dict[str, Any]
) -> None:
    loader = numpy_loader(copied(tmp_path, path), batch_size=4)
    loader.load_state_dict(state)
    assert flat(loader) == list(range(4, 30))


def test_removed_file_is_told(tmp_path: Path, path: Path, state: dict[str, Any]) -> None:
    other = copied(tmp_path, path)
    (other / "001.parquet").unlink()
    assert "3 files in the state, 2 now" in refusal(numpy_loader(other), state)


def test_added_file_is_told(tmp_path: Path, path: Path, state: dict[str, Any]) -> None:
    other = copied(tmp_path, path)
    shutil.copyfile(other / "001.parquet", other / "009.parquet")
    assert "3 files in the state, 4 now" in refusal(numpy_loader(other), state)


def test_renamed_file_is_named(tmp_path: Path, path: Path, state: dict[str, Any]) -> None:
    other = copied(tmp_path, path)
    (other / "001.parquet").rename(other / "0011.parquet")
    assert "0011.parquet" in refusal(numpy_loader(other), state)


@pytest.mark.parametrize("change", ["a row less", "other values", "other row groups"])
def test_replaced_file_is_named(
    tmp_path: Path, path: Path, state: dict[str, Any], change: str
) -> None:
    other = copied(tmp_path, path)
    rows, start, row_group = {
        "a row less": (9, 10, 4),
        "other values": (10, 100, 4),
        "other row groups": (10, 10, 5),
    }[change]
    pq.write_table(numbered(start, rows), other / "001.parquet", row_group_size=row_group)
    message = refusal(numpy_loader(other), state)
    assert "001.parquet" in message
    assert "000.parquet" not in message


def test_ranks_with_other_data_sets_do_not_share_a_state(tmp_path: Path) -> None:
    first, second = write_files(tmp_path, [20]), write_files(tmp_path, [21])
    options = {"world_size": 2, "batch_size": 4}
    states = [
        numpy_loader(first, rank=0, **options).state_dict(),
        numpy_loader(second, rank=1, **options).state_dict(),
    ]
    assert states[0] != states[1]
    refusal(numpy_loader(second, rank=1, **options), states[0])


def test_lanes_come_from_the_state_by_default(path: Path) -> None:
    states = [
        numpy_loader(path, rank=0, world_size=size, batch_size=2).state_dict() for size in (4, 2)
    ]
    loader = numpy_loader(path, batch_size=4)
    for state, lanes in zip(states, (4, 2), strict=True):
        loader.load_state_dict(state)
        assert loader.state_dict()["lanes"] == lanes


def test_lanes_of_the_first_run_are_its_world_size(path: Path) -> None:
    assert numpy_loader(path, rank=1, world_size=3).state_dict()["lanes"] == 3
    assert numpy_loader(path, rank=1, world_size=3, lanes=6).state_dict()["lanes"] == 6


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"order_version": 99},
        {"consumed": -1},
        {"consumed": 31},
        {"consumed": True},
        {"consumed": 1.0},
        {"epoch": "x"},
        {"epoch": -1},
        {"epoch": 2**70},
        {"seed": None},
        {"rows": 31},
        {"lanes": 0},
        {"lanes": -3},
        {"lanes": 2**70},
        {"shuffle": 1},
        {"filter": 5},
        {"dataset": "x", "file_digests": 5},
        {"dataset": "x", "file_digests": ["a"]},
        {"dataset": "x", "file_digests": None},
        {"files": 2**70},
        {"bad_rows": 5},
        {"bad_rows": {"policy": "skip", "count": -1, "digest": "0" * 32}},
        {"bad_rows": {"policy": "skip", "count": True, "digest": "0" * 32}},
        {"bad_rows": {"policy": "skip", "count": 1, "digest": "zz"}},
        {"bad_rows": {"policy": "skip", "count": 1}},
    ],
)
def test_damaged_state_is_refused_as_what_it_is(
    path: Path, state: dict[str, Any], change: dict[str, Any]
) -> None:
    refusal(numpy_loader(path), {**state, **change})


def test_state_without_one_of_its_entries_is_refused(path: Path, state: dict[str, Any]) -> None:
    for name in state:
        refusal(numpy_loader(path), {key: value for key, value in state.items() if key != name})


@pytest.mark.parametrize("failure", [OSError("the disk is gone"), KeyboardInterrupt()])
def test_state_that_could_not_be_planned_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    state = numpy_loader(path, rank=0, world_size=4, batch_size=2).state_dict()
    loader = numpy_loader(path, batch_size=4)
    before, batches = loader.state_dict(), [batch["id"].tolist() for batch in loader]
    loader.set_epoch(0)

    def fails(_plan: LoaderPlan, _epoch: int) -> Any:
        raise failure

    with monkeypatch.context() as patched:
        patched.setattr(LoaderPlan, "of_epoch", fails)
        with pytest.raises(type(failure)):
            loader.load_state_dict(state)
    assert loader.state_dict() == before
    assert [batch["id"].tolist() for batch in loader] == batches


@pytest.mark.parametrize("thing", [None, {}, [], "state", 3])
def test_what_is_no_state_is_refused(path: Path, thing: Any) -> None:
    refusal(numpy_loader(path), thing)


def test_state_stays_small_with_many_files_and_a_long_filter(tmp_path: Path) -> None:
    path = write_files(tmp_path, [1] * 120)
    some = write_files(tmp_path, [1] * 99)
    long = sm.col("id").is_in(list(range(2000)))
    for loader in [
        numpy_loader(path),
        numpy_loader(some, filter=long),
        numpy_loader(path, filter=long, shuffle=True),
    ]:
        assert len(json.dumps(loader.state_dict())) < 4096
        loader.load_state_dict(json.loads(json.dumps(loader.state_dict())))


def test_change_among_many_files_is_refused_without_its_name(tmp_path: Path) -> None:
    path = write_files(tmp_path, [1] * 120)
    state = numpy_loader(path).state_dict()
    pq.write_table(numbered(500, 1), path / "050.parquet")
    assert "data set has changed" in refusal(numpy_loader(path), state)


def test_state_survives_pickle_and_is_plain(path: Path) -> None:
    state = numpy_loader(path).state_dict()
    assert pickle.loads(pickle.dumps(state)) == json.loads(json.dumps(state)) == state


def test_state_is_no_view_of_the_loader(path: Path) -> None:
    loader = numpy_loader(path, batch_size=4)
    passing = iter(loader)
    next(passing)
    state = loader.state_dict()
    state["consumed"] = 999
    next(passing)
    assert loader.state_dict()["consumed"] == 8
