"""Directories with files of several splits."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm


def write(directory: Path, *names: str) -> Path:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [1]}), directory / name)
    return directory


@pytest.mark.parametrize(
    "names",
    [
        ["train-00000-of-00001.parquet", "test-00000-of-00001.parquet"],
        ["data/train-0.parquet", "data/validation-0.parquet"],
        ["train/0.parquet", "dev/0.parquet"],
        ["Train.parquet", "VAL.parquet"],
    ],
)
def test_directory_of_several_splits_is_a_warning_with_a_glob(
    tmp_path: Path, names: list[str]
) -> None:
    with pytest.warns(
        UserWarning,
        match=r"contains several splits, and all of them are read: .*\nhint: to read one split",
    ):
        assert len(sm.Dataset(write(tmp_path, *names))) == 2


@pytest.mark.parametrize(
    "names",
    [
        ["train-0.parquet", "train-1.parquet"],
        ["trainer.parquet", "testing.parquet"],
        ["test-0.parquet", "val-0.parquet"],
    ],
)
def test_directory_without_a_training_and_another_split_is_read_in_silence(
    tmp_path: Path, names: list[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(sm.Dataset(write(tmp_path, *names))) == 2


def test_splits_that_are_named_one_by_one_are_read_in_silence(tmp_path: Path) -> None:
    write(tmp_path, "train.parquet", "test.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(sm.Dataset([tmp_path / "train.parquet", tmp_path / "test.parquet"])) == 2
        assert len(sm.Dataset(str(tmp_path / "train*"))) == 1
