"""Mixing, filters, shuffling and packing together, over sources of several formats.

Stopped anywhere, continued on any ranks and threads.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardmill as sm
from breadth import examples
from flat_options import flat_loader
from hypothesis import given, settings
from hypothesis import strategies as st

GLOBAL_BATCH = 8
LENGTH = 24


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of tokens that name their source and row, as Parquet, JSONL and MDS."""
    directory = tmp_path_factory.mktemp("sources")
    random = np.random.default_rng(2)
    for source, (format, rows) in enumerate({"parquet": 400, "jsonl": 150, "mds": 90}.items()):
        columns = {"tokens": "ndarray:int64", "row": "int"} if format == "mds" else None
        with sm.Writer(
            directory / format, format=format, columns=columns, shard_bytes=6000
        ) as writer:
            for row in range(rows):
                tokens = np.arange(random.integers(1, 30)) + source * 1_000_000 + row * 100
                writer.write({"tokens": tokens if format == "mds" else tokens.tolist(), "row": row})
    return directory


def mixture(directory: Path) -> sm.Mixture:
    """Half of the first source and a part of the others, several times over."""
    return sm.Mixture(
        {
            "web": sm.Dataset(directory / "parquet", filter=sm.col("row") >= 200),
            "code": directory / "jsonl",
            "books": sm.Dataset(directory / "mds", filter=sm.col("row") < 60),
        },
        weights={"web": 0.5, "code": 0.3, "books": 0.2},
        epoch_rows=500,
    )


def loader(
    directory: Path, *, rank: int, world_size: int, packing: sm.Packing | None, **options: Any
) -> sm.Loader:
    return flat_loader(
        mixture(directory),
        columns=["tokens"],
        packing=packing,
        batch_size=GLOBAL_BATCH // world_size,
        shuffle=sm.Shuffle(20_000),
        seed=5,
        lanes=4,
        rank=rank,
        world_size=world_size,
        tail="uneven",
        output="dict",
        audit=True,
        **options,
    )


def joined(loaders: list[sm.Loader]) -> list[list[list[int]]]:
    """The global batches that all ranks make together."""
    ranks = [[batch["tokens"] for batch in one] for one in loaders]
    steps = range(max(map(len, ranks)))
    return [
        [tokens for rank in ranks for batch in rank[step : step + 1] for tokens in batch]
        for step in steps
    ]


PACKINGS = {
    "rows": None,
    "concat": sm.Packing("tokens", length=LENGTH),
    "best fit": sm.Packing("tokens", length=LENGTH, strategy="best_fit", open_packs=8),
}


@settings(max_examples=examples(20), deadline=None)
@given(
    packing=st.sampled_from(list(PACKINGS)),
    before=st.sampled_from([1, 2, 4]),
    after=st.sampled_from([1, 2, 4, 8]),
    stop=st.integers(0, 40),
    epoch=st.integers(0, 2),
    threads=st.sampled_from([0, 1, 3]),
)
def test_run_goes_on_with_the_same_global_batches(
    directory: Path, packing: str, before: int, after: int, stop: int, epoch: int, threads: int
) -> None:
    whole = loader(directory, rank=0, world_size=1, packing=PACKINGS[packing])
    whole.set_epoch(epoch)
    expected = joined([whole])
    stop = min(stop, len(expected) - 1)
    first = [
        loader(directory, rank=rank, world_size=before, packing=PACKINGS[packing], threads=threads)
        for rank in range(before)
    ]
    for one in first:
        one.set_epoch(epoch)
        batches = iter(one)
        for _ in range(stop):
            next(batches)
    resumed = [
        loader(directory, rank=rank, world_size=after, packing=PACKINGS[packing])
        for rank in range(after)
    ]
    for one in resumed:
        one.load_state_dict(first[0].state_dict())
    assert joined(resumed) == expected[stop:]
    total = sum((one.audit(epoch) for one in first + resumed), sm.Audit())
    assert total == whole.audit(epoch) == whole.expected_audit(epoch=epoch)


@pytest.mark.parametrize("packing", list(PACKINGS))
def test_every_token_of_the_drawn_rows_is_delivered_once(directory: Path, packing: str) -> None:
    one = loader(directory, rank=0, world_size=1, packing=PACKINGS[packing])
    tokens = [token for batch in one for row in batch["tokens"] for token in row]
    rows = [
        row
        for batch in loader(directory, rank=0, world_size=1, packing=None)
        for row in batch["tokens"]
    ]
    assert len(rows) == 500
    wanted = sorted(token for row in rows for token in row)
    assert sorted(tokens)[len(tokens) - len(wanted) :] == wanted, "after the padding"
    assert all(
        row[0] % 100 == 0 and row[0] // 100 % 10_000 >= 200 for row in rows if row[0] < 1_000_000
    )


def test_pack_with_a_row_that_cannot_be_read_is_an_error(directory: Path) -> None:
    with pytest.raises(sm.OptionError, match="ErrorPolicy.rows"):
        loader(directory, rank=0, world_size=1, packing=PACKINGS["concat"], on_bad_rows="skip")
