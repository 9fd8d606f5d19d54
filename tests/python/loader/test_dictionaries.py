"""Categories that several files and row groups have in dictionaries of their own."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import shardmill as sm

VALUES = ["b", "a", None, "b", "c", "a"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in range(3):
        pd.DataFrame({"c": pd.Categorical(VALUES)}).to_parquet(tmp_path / f"{number}.parquet")
    return tmp_path


@pytest.mark.parametrize("batch_size", [4, 6, 18])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_of_several_files_become_categories_of_pandas(
    directory: Path, batch_size: int, shuffle: bool
) -> None:
    batches = list(sm.Loader(directory, batch_size=batch_size, shuffle=shuffle, output="arrow"))
    for batch in batches:
        categories = batch["c"].dictionary.to_pylist()
        assert len(set(categories)) == len(categories)
    found = [
        None if pd.isna(value) else value for batch in batches for value in batch.to_pandas()["c"]
    ]
    assert (found if not shuffle else sorted(found, key=str)) == (
        VALUES * 3 if not shuffle else sorted(VALUES * 3, key=str)
    )


def test_taken_rows_of_several_files_become_categories_of_pandas(directory: Path) -> None:
    rows = sm.Dataset(directory).take([0, 7, 12, 2]).to_pandas()["c"]
    assert rows.astype(object).where(rows.notna(), None).tolist() == ["b", "a", "b", None]
