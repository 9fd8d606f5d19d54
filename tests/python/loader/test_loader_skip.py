"""Skipped steps are those that a loader would have delivered, for any topology."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from row_files import ids, ids_of, write_files


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    below = tmp_path_factory.mktemp("skip")
    tokens = below / "tokens.parquet"
    lists = [list(range(row, row + row % 7 + 1)) for row in range(60)]
    pq.write_table(pa.table({"tokens": lists}), tokens, row_group_size=9)
    one, other = write_files(below, [23, 30], row_group=8), write_files(below, [40], row_group=8)
    packing = sm.Packing("tokens", length=11)
    ahead = sm.Packing("tokens", length=11, plan="ahead", epoch_packs=25)
    return {
        "rows": {"data": one},
        "mixture": {"data": sm.Mixture({"a": one, "b": other}, weights={"a": 1, "b": 2})},
        "packs": {"data": tokens, "packing": packing},
        "ahead": {"data": tokens, "packing": ahead},
    }


def first_values(batch: Any) -> Any:
    return {
        name: values.tolist()
        for name, values in batch.items()
        if name in ("id", "tokens", "__padded")
    }


@settings(deadline=None, max_examples=examples(60))
@given(
    kind=st.sampled_from(["rows", "mixture", "packs", "ahead"]),
    world_size=st.integers(1, 3),
    batch_size=st.integers(1, 6),
    shuffle=st.booleans(),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    before=st.integers(0, 3),
    steps=st.integers(0, 40),
    data=st.data(),
)
def test_skipping_equals_consuming(
    sources: dict[str, Any],
    kind: str,
    world_size: int,
    batch_size: int,
    shuffle: bool,
    tail: Any,
    before: int,
    steps: int,
    data: st.DataObject,
) -> None:
    options = {
        "batch_size": batch_size,
        "shuffle": shuffle,
        "tail": tail,
        "output": "numpy",
        "world_size": world_size,
    }

    def loader(rank: int) -> sm.Loader:
        return sm.Loader(**sources[kind], **options, rank=rank)

    # The first rank has a batch in each step.
    consumed = loader(0)
    skipping = loader(data.draw(st.integers(0, world_size - 1)))
    taken = 0
    while taken < before + steps:
        for _ in consumed:
            taken += 1
            if taken == before:
                skipping.load_state_dict(consumed.state_dict())
            if taken == before + steps:
                break
    skipping.skip(steps)
    assert skipping.state_dict() == consumed.state_dict()
    resumed = loader(skipping.rank)
    resumed.load_state_dict(consumed.state_dict())
    assert [first_values(batch) for batch in skipping] == [first_values(batch) for batch in resumed]


def test_skip_counts_from_the_last_batch_and_ends_the_open_iterator(tmp_path: Path) -> None:
    loader = sm.Loader(write_files(tmp_path, [10]), batch_size=2, output="numpy")
    batches = iter(loader)
    assert ids_of(next(batches)) == [0, 1]
    loader.skip(2)
    with pytest.raises(sm.errors.SupersededError):
        next(batches)
    assert ids(loader) == [[6, 7], [8, 9]]


def test_skip_beyond_the_epoch_continues_in_later_ones(tmp_path: Path) -> None:
    loader = sm.Loader(write_files(tmp_path, [10]), batch_size=4, output="numpy")
    loader.skip(3)
    assert (loader.epoch, loader.state_dict()["consumed"]) == (1, 0)
    loader.skip(3 * 10**12 + 2)
    assert (loader.epoch, ids(loader)) == (1 + 10**12, [[8, 9]])


@pytest.mark.parametrize("packing", [{"plan": "epoch"}, {"plan": "ahead", "epoch_packs": 3}])
def test_skip_of_equal_epochs_of_packs_plans_none_in_between(tmp_path: Path, packing: Any) -> None:
    pq.write_table(pa.table({"tokens": [[1, 2, 3], [4, 5], [6]]}), tmp_path / "a.parquet")
    packed = sm.Packing("tokens", length=2, **packing)
    loader = sm.Loader(tmp_path, packing=packed, batch_size=1, output="numpy")
    loader.skip(3 * 10**12 + 1)
    assert (loader.epoch, loader.state_dict()["consumed"]) == (10**12, 1)


def test_skip_reads_nothing(tmp_path: Path) -> None:
    loader = sm.Loader(write_files(tmp_path, [10_000], row_group=100), batch_size=4, output="numpy")
    before = loader.metrics().bytes_read
    loader.skip(2_000)
    assert loader.metrics().bytes_read == before


@pytest.mark.parametrize("steps", [-1, 1.5, "1", None])
def test_steps_that_are_no_count_are_refused(tmp_path: Path, steps: Any) -> None:
    loader = sm.Loader(write_files(tmp_path, [10]), batch_size=4, output="numpy")
    with pytest.raises(ValueError, match="steps"):
        loader.skip(steps)
    assert ids(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_epoch_without_steps_cannot_be_skipped(tmp_path: Path) -> None:
    loader = sm.Loader(write_files(tmp_path, [3]), batch_size=4, tail="drop", output="numpy")
    loader.skip(0)
    with pytest.raises(ValueError, match="has no steps"):
        loader.skip(1)


@pytest.mark.parametrize("shuffle", [False, True])
def test_table_names_the_source_of_each_row_of_a_step(tmp_path: Path, shuffle: bool) -> None:
    directory = write_files(tmp_path, [7, 9], row_group=3)
    loader = sm.Loader(directory, batch_size=5, shuffle=shuffle, output="numpy")
    starts = {"000.parquet": 0, "001.parquet": 7}
    for step, batch in enumerate(list(loader)):
        rows = loader.explain_table(step=step, epoch=0).to_pylist()
        assert [row["row_of_batch"] for row in rows] == list(range(len(rows)))
        assert [starts[row["file"]] + row["row"] for row in rows] == ids_of(batch)
    with pytest.raises(ValueError, match="step 4 is not in the epoch, which has 4 steps"):
        loader.explain_table(step=4)


def test_table_names_the_pieces_of_packs(tmp_path: Path) -> None:
    rows = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    pq.write_table(pa.table({"tokens": rows}), tmp_path / "tokens.parquet")
    packing = sm.Packing("tokens", length=5)
    loader = sm.Loader(tmp_path, packing=packing, batch_size=2, output="numpy")
    table = loader.explain_table()
    assert table.column_names == ["pack", "file", "row", "first_token", "tokens"]
    (batch,) = loader
    for pack, tokens in enumerate(batch["tokens"].tolist()):
        pieces = [piece for piece in table.to_pylist() if piece["pack"] == pack]
        parts = [rows[piece["row"]][piece["first_token"] :][: piece["tokens"]] for piece in pieces]
        assert [token for part in parts for token in part] == [token for token in tokens if token]
