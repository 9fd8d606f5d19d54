"""torchtitan over a loader of weighted sources, which continues on other data ranks."""

from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("torch")

from environment import python_of_trainers
from mesh_ranks import Ranks

STEPS, FIRST_OF_CODE = 12, 100_000

# Each rank imports torchtitan.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokens say in which source, row and place they are. 0 is padding."""
    directory = tmp_path_factory.mktemp("sources")
    for name, first in (("web", 0), ("code", FIRST_OF_CODE)):
        rows = [
            [first + 100 * row + place for place in range(1, row % 30 + 3)] for row in range(150)
        ]
        pq.write_table(pa.table({"input_ids": rows}), directory / f"{name}.parquet")
    return directory


def next_token(token: int) -> int:
    """The label of a token."""
    row, place = divmod(token % FIRST_OF_CODE, 100)
    return token + 1 if 0 < place < row % 30 + 2 else -100


def test_weighted_sources_continue_on_other_data_ranks(directory: Path, tmp_path: Path) -> None:
    python, scene = python_of_trainers(), "torchtitan_scenes.run"
    below, found = str(tmp_path), []
    for size, steps in ((4, range(5)), (3, range(5, 8)), (2, range(8, STEPS))):
        with Ranks(size, python) as ranks:
            parts = ranks.run(scene, str(directory), below, steps)
        for batches in zip(*parts, strict=True):
            found.append(
                {name: list(chain(*(one[name] for one in batches))) for name in batches[0]}
            )
    mixture = sm.Mixture(
        {name: str(directory / f"{name}.parquet") for name in ("web", "code")},
        weights={"web": 0.75, "code": 0.25},
    )
    whole = sm.Loader(
        mixture,
        packing=sm.Packing("input_ids", length=64),
        batch_size=12,
        shuffle=True,
        lanes=12,
        tail="drop",
        rank=0,
        world_size=1,
    )
    tokens: list[int] = []
    for batch, expected in zip(found, whole.steps(STEPS), strict=True):
        assert batch["input"] == expected["input_ids"].tolist()
        assert batch["positions"] == expected["positions"].tolist()
        assert batch["labels"] == [list(map(next_token, row)) for row in batch["input"]]
        tokens += filter(None, chain(*batch["input"]))
    share = sum(token >= FIRST_OF_CODE for token in tokens) / len(tokens)
    assert share == pytest.approx(0.25, abs=0.05)


def test_other_configurations_of_the_loader(directory: Path) -> None:
    with Ranks(2, python_of_trainers()) as two:
        found: list[dict[str, Any]] = two.run("torchtitan_scenes.others", str(directory))
    for rank, answers in enumerate(found):
        assert answers["epoch"]
        share = f"rank={rank}, world_size=2, batch_size=6"
        assert f"{share}, length=64, but torchtitan expects {share}, len" in answers["length"]
        assert answers["labels"].startswith("OptionError: torchtitan needs packs with labels")
        assert "the loader has rank=0, world_size=1, batch_size=12, " in answers["rank"]
