"""Invalid options are rejected when the loader is created, and the error names the option."""

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from flat_options import flat_loader
from row_files import flat, ids, new_directory, numpy_loader, write_files, write_tables
from shardmill.errors import FormatError, MissingColumnError, NotFoundError, OptionError, PlanError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_files(tmp_path, [10])


@pytest.mark.parametrize(
    "option",
    [
        {"batch_size": 0},
        {"batch_size": -1},
        {"batch_size": 2.5},
        {"batch_size": True},
        {"batch_size": "8"},
        {"batch_size": 2**70},
        {"rank": 2, "world_size": 2},
        {"rank": -1, "world_size": 2},
        {"rank": 0, "world_size": 0},
        {"rank": 0.0, "world_size": 1},
        {"tail": "keep"},
        {"output": "pandas"},
        {"nulls": "ignore"},
        {"seed": 2**63},
        {"seed": 1.5},
        {"seed": None},
        {"shuffle": "no"},
        {"shuffle_window_bytes": -1},
        {"shuffle_window_bytes": 2**80},
        {"lanes": 0},
        {"lanes": 2**70},
        {"threads": -1},
        {"threads": 10**9},
        {"threads": True},
        {"prefetch_bytes": 0},
        {"prefetch_bytes": 2**80},
        {"transform": 3},
        {"transform_workers": -1, "transform": len},
        {"format": "xml"},
        {"partitioning": "directory"},
        {"bad_files": "ignore"},
        {"storage_options": {"key": "value"}},
        {"pin_memory": True},
        {"pin_memory": 1},
        {"audit": "no"},
        {"device": "cuda"},
        {"device": "tpu"},
        {"device": "cuda:x"},
    ],
)
def test_option_that_means_nothing_is_refused_by_name(path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as refused:
        numpy_loader(path, **option) if "output" not in option else flat_loader(path, **option)
    name = next(iter(option))
    assert name.removesuffix("_bytes") in str(refused.value) or repr(option[name]) in str(
        refused.value
    )


@pytest.mark.parametrize("columns", [["nothing"], ["id", "Id"], [""]])
def test_unknown_column_is_refused_with_those_that_there_are(
    path: Path, columns: list[str]
) -> None:
    with pytest.raises(MissingColumnError, match="`id`, `half`, `text`"):
        numpy_loader(path, columns=columns)
    with pytest.raises(KeyError):
        sm.Dataset(path, columns=columns)


@pytest.mark.parametrize("read", [sm.Dataset, numpy_loader])
def test_column_name_with_a_surrogate_is_refused(path: Path, read: Any) -> None:
    with pytest.raises(OptionError, match=r"the name '\\ud800' in columns is not valid Unicode"):
        read(path, columns=["id", "\ud800"])


def test_column_of_a_filter_that_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises(KeyError, match="nothing"):
        numpy_loader(path, filter=sm.col("nothing") == 1)


@pytest.mark.parametrize(
    "condition",
    [sm.col("id") == "x", sm.col("text") > 3, sm.col("half") == "x", sm.col("id").is_in(["a"])],
)
def test_literal_of_another_kind_is_refused(path: Path, condition: sm.Expression) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        numpy_loader(path, filter=condition)
    assert isinstance(refused.value, PlanError)


@pytest.mark.parametrize("condition", ["id >", b"id > 3", [], 3, [("id", "~", 3)], [("id", ">")]])
def test_what_is_no_filter_is_refused(path: Path, condition: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        numpy_loader(path, filter=condition)


def test_fill_value_for_a_column_that_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises((KeyError, ValueError), match="nothing"):
        numpy_loader(path, nulls="fill", fill_values={"nothing": 1})


def test_options_of_the_data_set_are_not_ignored_beside_one(path: Path) -> None:
    data = sm.Dataset(path, columns=["half", "id"])
    for option in ({"filter": sm.col("id") > 1}, {"storage_options": {}}, {"bad_files": "skip"}):
        with pytest.raises(OptionError, match="must be set on the Dataset"):
            numpy_loader(data, **option)
    assert list(next(iter(numpy_loader(data)))) == ["half", "id"]


def test_largest_numbers_that_options_may_have_work(path: Path) -> None:
    loader = numpy_loader(
        path,
        batch_size=2**63 - 1,
        prefetch_bytes=2**63 - 1,
        shuffle_window_bytes=2**63 - 1,
        shuffle=True,
        seed=-(2**63),
    )
    assert sorted(flat(loader)) == list(range(10))
    assert flat(numpy_loader(path, lanes=2**20, batch_size=3)) == list(range(10))
    assert len(numpy_loader(path, batch_size=2**40, rank=1, world_size=2**20, tail="uneven")) == 1


@pytest.mark.parametrize(
    "path", ["/nowhere/at/all", ["/nowhere.parquet"], "file:///nowhere.parquet"]
)
def test_missing_path_is_named(path: Any) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere") as refused:
        numpy_loader(path)
    assert isinstance(refused.value, NotFoundError)


@pytest.mark.parametrize("path", [[], 5, None, [5]])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        numpy_loader(path)


def test_empty_directory_is_an_empty_loader_with_a_warning(tmp_path: Path) -> None:
    directory = new_directory(tmp_path)
    for options in (
        {},
        {"columns": ["id"]},
        {"filter": sm.col("id") > 1},
        {"shuffle": True},
        {"rank": 1, "world_size": 2},
    ):
        with pytest.warns(UserWarning, match="no data files"):
            loader = numpy_loader(directory, **options)
        assert (len(loader), list(loader), loader.state_dict()["rows"]) == (0, [], 0)
        loader.load_state_dict(loader.state_dict())
        assert list(loader) == []


def test_directory_of_other_things_is_refused_and_can_be_forced(tmp_path: Path) -> None:
    directory = new_directory(tmp_path)
    (directory / "notes.txt").write_text("hello")
    with pytest.raises(PlanError, match="known format"):
        numpy_loader(directory)
    with pytest.raises(FormatError, match=r"notes\.txt"):
        numpy_loader(directory, format="parquet")
    (directory / "notes.txt").unlink()
    (directory / "part-0").write_bytes((write_files(tmp_path, [4]) / "000.parquet").read_bytes())
    assert flat(numpy_loader(directory, format="parquet")) == [0, 1, 2, 3]


def test_junk_beside_the_files_is_left_alone(tmp_path: Path, path: Path) -> None:
    (path / "_SUCCESS").touch()
    (path / ".hidden.parquet").write_bytes(b"x")
    (path / "000.parquet.crc").write_bytes(b"x")
    (path / "_temporary").mkdir()
    (path / "_temporary" / "x.parquet").write_bytes(b"x")
    (path / "README.md").write_text("x")
    (path / "manifest.json").write_text("{}")
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "more.parquet").write_bytes(
        (write_files(tmp_path, [3]) / "000.parquet").read_bytes()
    )
    assert flat(numpy_loader(path)) == [*range(10), 0, 1, 2]


def test_list_keeps_its_order_and_a_glob_is_sorted(tmp_path: Path) -> None:
    path = write_files(tmp_path, [2, 2, 2])
    files = [path / f"{number:03}.parquet" for number in (2, 0, 1)]
    assert flat(numpy_loader(files)) == [4, 5, 0, 1, 2, 3]
    assert flat(numpy_loader(str(path / "*.parquet"))) == list(range(6))
    assert flat(numpy_loader(str(path / "00[12].parquet"))) == [2, 3, 4, 5]


def test_rank_comes_from_the_environment_of_the_launcher(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = numpy_loader(path, batch_size=5)
    assert (loader.rank, loader.world_size, ids(loader)) == (1, 2, [[5, 6, 7, 8, 9]])
    assert numpy_loader(path, rank=0, world_size=1).world_size == 1


def test_reserved_name_of_padded_rows_is_refused_where_it_is_needed(tmp_path: Path) -> None:
    directory = write_tables(tmp_path, [pa.table({"id": [1], "__padded": [2]})])
    with pytest.raises(ValueError, match="__padded"):
        numpy_loader(directory, tail="pad")
    assert list(next(iter(numpy_loader(directory)))) == ["id", "__padded"]
    assert list(next(iter(numpy_loader(directory, columns=["id"], tail="pad")))) == [
        "id",
        "__padded",
    ]


def test_drop_that_leaves_nothing_says_so(path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = numpy_loader(path, batch_size=11, tail="drop")
        assert list(loader) == []
    assert any("drop" in str(warning.message) for warning in caught)


def test_file_without_a_row_group_is_no_rows(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    directory = new_directory(tmp_path)
    pq.ParquetWriter(directory / "a.parquet", schema).close()
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), directory / "b.parquet")
    assert (len(numpy_loader(directory)), list(numpy_loader(directory, shuffle=True, lanes=3))) == (
        0,
        [],
    )
    pq.write_table(pa.table({"id": [1, 2]}), directory / "c.parquet")
    with pq.ParquetWriter(directory / "d.parquet", schema) as writer:
        for rows in (3, 0, 2, 0):
            writer.write_table(pa.table({"id": pa.array(range(10, 10 + rows), pa.int64())}))
    assert ids(numpy_loader(directory, batch_size=2)) == [[1, 2], [10, 11], [12, 10], [11]]
