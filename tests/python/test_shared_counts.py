"""Ranks that count the tokens of one data set at the same time, with one directory of counts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS, ROWS_OF_BLOCK = 216, 6
BLOCKS = list(range(0, ROWS, ROWS_OF_BLOCK))
TOKENS = sum(number % 7 for number in range(ROWS))


class Rank:
    """A process of `counting_rank.py`."""

    def __init__(self, directory: Path, counts: Path, rank: int, world_size: int) -> None:
        command = [sys.executable, str(Path(__file__).with_name("counting_rank.py"))]
        arguments = [str(directory), str(counts), str(rank), str(world_size)]
        self.process = subprocess.Popen(
            command + arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.counted: list[int] = []

    def until(self, wanted: str) -> list[str]:
        """Reads up to a line that begins with a word, and returns what follows the word."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "counting":
                self.counted.append(int(rest[0]))
            if word == wanted:
                return rest
        pytest.fail(f"the process ended without {wanted!r}")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three files of blocks of six rows."""
    directory = tmp_path / "data"
    directory.mkdir()
    for part in range(3):
        ids = range(part * ROWS // 3, (part + 1) * ROWS // 3)
        pq.write_table(
            pa.table({"id": list(ids)}), directory / f"{part}.parquet", row_group_size=ROWS_OF_BLOCK
        )
    return directory


Ranks = Callable[[int], list[Rank]]


@pytest.fixture
def ranks(data: Path, tmp_path: Path) -> Iterator[Ranks]:
    """Starts ranks, which are killed at the end."""
    started: list[Rank] = []

    def start(number: int) -> list[Rank]:
        new = [Rank(data, tmp_path / "counts", rank, number) for rank in range(number)]
        started.extend(new)
        return new

    yield start
    for rank in started:
        rank.kill()


def entries(tmp_path: Path) -> list[tuple[bytes, int]]:
    files = list((tmp_path / "counts").rglob("counts-*.parquet"))
    return [
        (row["digest"], row["block"]) for path in files for row in pq.read_table(path).to_pylist()
    ]


def test_four_ranks_count_each_block_once(tmp_path: Path, ranks: Ranks) -> None:
    four = ranks(4)
    for rank in four:
        rank.until("counting")
    for rank in four:
        rank.go()
    results = [rank.until("done") for rank in four]
    assert all(result == results[0] for result in results)
    assert results[0][0] == str(TOKENS)
    assert sorted(block for rank in four for block in rank.counted) == BLOCKS
    assert all(rank.counted for rank in four), "they share the work"
    kept = entries(tmp_path)
    assert len(kept) == len(set(kept)) == len(BLOCKS)


def test_blocks_that_a_killed_rank_has_claimed_are_counted_by_another(
    tmp_path: Path, ranks: Ranks
) -> None:
    dead, alive = ranks(2)
    dead.until("counting")
    alive.go()
    alive.until("waiting")
    claimed = set(BLOCKS) - set(alive.counted)
    assert set(dead.counted) <= claimed, "it waits for what the other one has claimed"
    dead.kill()
    tokens, _ = alive.until("done")
    assert tokens == str(TOKENS)
    assert sorted(alive.counted) == BLOCKS
    assert len(entries(tmp_path)) == len(BLOCKS)


def test_rank_that_comes_later_counts_nothing(tmp_path: Path, ranks: Ranks) -> None:
    [first] = ranks(1)
    first.go()
    expected = first.until("done")
    [second] = ranks(1)
    assert second.until("done") == expected
    assert not second.counted
    for claim in (tmp_path / "counts").rglob("claims/*"):
        claim.unlink()
    for kept in (tmp_path / "counts").rglob("counts-*.parquet"):
        kept.write_bytes(kept.read_bytes()[:50])
    [third] = ranks(1)
    third.go()
    assert third.until("done") == expected
    assert sorted(third.counted) == BLOCKS, "what is lost is counted again"


@pytest.mark.slow
def test_rank_that_hangs_is_waited_for_one_minute(ranks: Ranks) -> None:
    hung, other = ranks(2)
    hung.until("counting")
    other.go()
    assert other.until("done")[0] == str(TOKENS)
    assert sorted(other.counted) == BLOCKS
