"""Grain over data sets of all formats and over loaders, with its checkpoints."""

import io
import itertools
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm

grain = pytest.importorskip("grain")

from shardmill.integrations.grain import DatasetSource, LoaderDataset, iter_dataset

ROWS = 60
TABLE = pa.table({"id": range(ROWS), "tokens": [[one] * (one % 9 + 1) for one in range(ROWS)]})


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()))


def write_mds(path: Path) -> None:
    with sm.Writer(path, format="mds") as writer:
        for number in TABLE["id"].to_pylist():
            writer.write({"id": number})


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for number in TABLE["id"].to_pylist():
            member = tarfile.TarInfo(f"{number:03}.json")
            content = json.dumps({"id": number}).encode()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


FORMATS: dict[str, Callable[[Path], Any]] = {
    "a.parquet": lambda path: pq.write_table(TABLE, path, row_group_size=16),
    "a.orc": lambda path: pa.orc.write_table(TABLE, path),
    "a.csv": lambda path: pa.csv.write_csv(TABLE.select(["id"]), path),
    "a.jsonl": write_jsonl,
    "mds": write_mds,
    "a.tar": write_tar,
}


def id_of(row: dict[str, Any]) -> int:
    return row["json"]["id"] if "json" in row else row["id"]


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "a.parquet"
    FORMATS["a.parquet"](path)
    return str(path)


def check_states(dataset: Any, expected: list[Any]) -> None:
    """From a state after any number of elements, an iterator continues with the next one."""
    iterator = iter(dataset)
    for number, element in enumerate(expected[:-1]):
        assert np.array_equal(next(iterator), element)
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert np.array_equal(next(resumed), expected[number + 1])


@pytest.mark.parametrize("name", list(FORMATS))
def test_rows_of_each_format_are_shuffled_and_resumed_by_grain(tmp_path: Path, name: str) -> None:
    FORMATS[name](tmp_path / name)
    rows = grain.MapDataset.source(DatasetSource(tmp_path / name)).shuffle(seed=1).map(id_of)
    dataset = iter_dataset(rows.batch(7, batch_fn=np.array))
    oracle = list(grain.MapDataset.range(ROWS).shuffle(seed=1))
    batches = [np.array(oracle[start : start + 7]) for start in range(0, ROWS, 7)]
    assert all(map(np.array_equal, dataset, batches))
    check_states(dataset, batches)


KINDS: dict[str, dict[str, Any]] = {
    "rows": {"columns": ["id"], "batch_size": 8},
    "packs": {"packing": sm.Packing("tokens", length=32), "batch_size": 2},
}


def loader_of(path: str, kind: str, **options: Any) -> sm.Loader:
    given: dict[str, Any] = {"shuffle": True, "output": "numpy", "lanes": 4, "tail": "drop"}
    return sm.Loader(path, **given | KINDS[kind] | options)


def first(batch: dict[str, Any]) -> Any:
    return next(iter(batch.values()))


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("is_ahead", [False, True])
def test_batches_of_a_loader_are_resumed_by_grain(rows: str, kind: str, is_ahead: bool) -> None:
    dataset: Any = LoaderDataset(loader_of(rows, kind)).map(first)
    if is_ahead:
        dataset = grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=3)
    oracle = loader_of(rows, kind)
    steps = 2 * len(oracle) + 1
    expected = [first(batch).copy() for batch in oracle.steps(steps)]
    for _ in range(2):
        found = itertools.islice(dataset, steps)
        assert all(map(np.array_equal, found, expected)), "each iterator begins again"
    check_states(dataset, expected)


def test_state_continues_on_another_number_of_ranks(rows: str) -> None:
    def iterators(size: int) -> list[Iterator[Any]]:
        shares = [
            loader_of(rows, "rows", batch_size=8 // size, rank=rank, world_size=size)
            for rank in range(size)
        ]
        return [iter(LoaderDataset(loader).map(first)) for loader in shares]

    whole = [first(batch).tolist() for batch in loader_of(rows, "rows").steps(9)]
    four, two = iterators(4), iterators(2)
    for step in range(3):
        assert np.concatenate([next(one) for one in four]).tolist() == whole[step]
    for one in two:
        one.set_state(four[2].get_state())  # type: ignore[attr-defined]
    for step in range(3, 9):
        assert np.concatenate([next(one) for one in two]).tolist() == whole[step]


def test_worker_processes_are_refused(rows: str) -> None:
    dataset = LoaderDataset(loader_of(rows, "rows"))
    with pytest.raises(sm.OptionError, match="hint: leave out mp_prefetch"):
        next(iter(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))))


def test_loader_that_has_begun_is_refused(rows: str) -> None:
    loader = loader_of(rows, "rows")
    next(loader.steps(1))
    with pytest.raises(sm.OptionError, match="the loader has begun"):
        LoaderDataset(loader)


def test_state_of_another_order_is_refused(rows: str) -> None:
    state = iter(LoaderDataset(loader_of(rows, "rows", seed=1))).get_state()
    iterator = iter(LoaderDataset(loader_of(rows, "rows", seed=2)))
    with pytest.raises(sm.CheckpointMismatchError, match="seed"):
        iterator.set_state(state)
