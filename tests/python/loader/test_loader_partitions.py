"""Directories called `key=value` as columns."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from row_files import flat, table_of
from shardmill.errors import MissingColumnError

NULL = "__HIVE_DEFAULT_PARTITION__"


def write(root: Path, directories: str, ids: list[int], **columns: Any) -> Path:
    directory = root / directories
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "rows.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), **columns}), path)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for place, directories in enumerate(
        [
            "year=2023/city=K%C3%B6ln",
            "year=2023/city=a%20b",
            f"year=2024/city={NULL}",
            "year=2024/city=a%20b",
        ]
    ):
        write(root, directories, [place])
    return root


def hive(root: Path, **options: Any) -> sm.Loader:
    data = sm.Dataset(root, partitioning="hive", filter=options.pop("filter", None))
    return sm.Loader(data, output="arrow", **options)


def test_values_are_decoded_and_typed_by_key(root: Path) -> None:
    rows = table_of(hive(root))
    assert rows.schema.names == ["id", "year", "city"]
    assert rows.schema.field("year").type == pa.int32()
    assert rows.to_pylist() == [
        {"id": 0, "year": 2023, "city": "Köln"},
        {"id": 1, "year": 2023, "city": "a b"},
        {"id": 2, "year": 2024, "city": None},
        {"id": 3, "year": 2024, "city": "a b"},
    ]


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["1", "2"], pa.int32()),
        (["1", "01"], pa.string()),
        (["1", str(2**40)], pa.int64()),
        (["1", "x"], pa.string()),
        (["-1", "0"], pa.int32()),
        (["1", NULL], pa.int32()),
        (["1.5", "2"], pa.string()),
    ],
)
def test_a_key_has_one_type_over_the_whole_data_set(
    tmp_path: Path, values: list[str], type: pa.DataType
) -> None:
    for place, value in enumerate(values):
        write(tmp_path / "data", f"key={value}", [place])
    assert table_of(hive(tmp_path / "data")).schema.field("key").type == type


def test_condition_on_a_partition_opens_no_other_file(root: Path) -> None:
    for path in (root / "year=2023").rglob("*.parquet"):
        path.write_bytes(b"unreadable")
    city = sm.col("city")
    assert flat(hive(root, filter=sm.col("year") == 2024)) == [2, 3]
    assert flat(hive(root, filter=(sm.col("year") == 2024) & (city == "a b"))) == [3]
    assert flat(hive(root, filter=(sm.col("year") > 2023) & city.is_null())) == [2]
    assert flat(
        hive(root, columns=["id"], filter=~(sm.col("year") == 2023) & (sm.col("id") > 2))
    ) == [3]
    with pytest.raises(ValueError, match="year=2023"):
        hive(root, filter=(sm.col("year") == 2024) | (sm.col("id") == 0))


def test_condition_on_partition_and_column_keeps_rows_of_both(root: Path) -> None:
    condition = (sm.col("year") == 2024) | (sm.col("id") == 0)
    assert flat(hive(root, filter=condition)) == [0, 2, 3]


def test_condition_that_no_partition_fulfils_is_an_empty_loader_with_the_columns(
    root: Path,
) -> None:
    loader = hive(root, columns=["city", "id"], filter=sm.col("year") == 1999)
    assert list(loader) == []
    assert loader.dataset.schema.names == ["id", "year", "city"]
    with pytest.raises(MissingColumnError):
        hive(root, columns=["nothing"], filter=sm.col("year") == 1999)


def test_keys_above_the_root_and_without_hive_are_no_columns(root: Path) -> None:
    assert table_of(hive(root / "year=2024")).schema.names == ["id", "city"]
    assert table_of(sm.Loader(root, output="arrow")).schema.names == ["id"]


def test_key_that_is_also_a_column_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "data", "year=2024", [1], year=[7])
    with pytest.raises(ValueError, match="year"):
        hive(tmp_path / "data")


def test_partition_columns_are_projected_and_shuffled_like_others(root: Path) -> None:
    batches = list(
        sm.Loader(
            sm.Dataset(root, partitioning="hive"),
            columns=["year", "id"],
            output="numpy",
            shuffle=True,
            batch_size=3,
        )
    )
    assert list(batches[0]) == ["year", "id"]
    assert sorted(
        (int(id), int(year))
        for batch in batches
        for id, year in zip(batch["id"], batch["year"], strict=True)
    ) == [
        (0, 2023),
        (1, 2023),
        (2, 2024),
        (3, 2024),
    ]


def test_state_knows_the_directories(root: Path, tmp_path: Path) -> None:
    state = hive(root).state_dict()
    (root / "year=2024").rename(root / "year=2025")
    with pytest.raises(ValueError, match="data set has changed"):
        hive(root).load_state_dict(state)


def read_as_polars(paths: list[str], **options: Any) -> list[dict[str, Any]]:
    import polars as pl

    rows = pl.scan_parquet(paths, hive_partitioning=True).collect().to_dicts()
    dataset = sm.Dataset(paths, partitioning="hive", **options)
    assert [{key: row[key] for key in rows[0]} for row in dataset] == rows
    return rows


def test_lists_of_files_and_directories_have_the_keys_of_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in (1, 2):
        write(tmp_path, f"h/k={k}/city=a%20b", [k])
    monkeypatch.chdir(tmp_path)
    files = [f"h/k={k}/city=a%20b/rows.parquet" for k in (1, 2)]
    expected = [{"id": k, "k": k, "city": "a b"} for k in (1, 2)]
    failures = []
    for paths in (
        files,
        [Path(file) for file in files],
        [f"file://{tmp_path}/{file.replace('%', '%25')}" for file in files],
        ["h/k=1", "h/k=2"],
        ["h/k=1/", "./h/k=2/city=a%20b"],
        ["h/k=1/city=a%20b/rows.parquet", "h/k=2"],
        ["h/k=*/city*/*.parquet"],
        ["h"],
        "h",
        "h/*/*/*.parquet",
    ):
        rows = list(sm.Dataset(paths, partitioning="hive"))
        if rows != expected:
            failures.append((paths, rows))
    assert failures == []
    assert read_as_polars(files) == expected


def test_file_has_the_keys_of_its_path_and_a_directory_those_below_it(tmp_path: Path) -> None:
    path = write(tmp_path, "run=x/h/k=1", [0])
    assert sm.Dataset(path, partitioning="hive")[0] == {"id": 0, "run": "x", "k": 1}
    assert sm.Dataset([path], partitioning="hive")[0] == {"id": 0, "run": "x", "k": 1}
    assert sm.Dataset(tmp_path / "run=x" / "h", partitioning="hive")[0] == {"id": 0, "k": 1}
    assert sm.Dataset(tmp_path / "run=x" / "h" / "k=1", partitioning="hive")[0] == {"id": 0}
    assert sm.Dataset([tmp_path / "run=x" / "h"], partitioning="hive")[0] == {
        "id": 0,
        "run": "x",
        "k": 1,
    }


def test_copies_of_a_data_set_have_its_keys(tmp_path: Path) -> None:
    path = write(tmp_path, "run=x/h/k=1", [0])
    for given in (tmp_path / "run=x" / "h", [tmp_path / "run=x" / "h"], path):
        dataset = sm.Dataset(given, partitioning="hive")
        assert pickle.loads(pickle.dumps(dataset))[0] == dataset[0]


def test_condition_on_a_key_of_a_list_opens_no_other_file(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"k={k}", [k]) for k in (1, 2)]
    paths[0].write_bytes(b"unreadable")
    assert [row["id"] for row in sm.Dataset(paths, partitioning="hive", filter="k = 2")] == [2]
