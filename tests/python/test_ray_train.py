"""Ray Train over a loader, whose workers are killed: the model sees each row once."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("ray")
torch = pytest.importorskip("torch")

import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from shardmill.integrations.torch import LoaderState
from torch import distributed

# Workers cannot import a test module.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS, STEP, STEPS = 120, 12, 10

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def train(config: dict[str, Any]) -> None:
    """Counts rows in place of a model. The last worker is killed after some steps, once each."""
    context = ray.train.get_context()
    size = context.get_world_size()
    loader = sm.Loader(
        config["rows"], columns=["id"], batch_size=STEP // size, shuffle=True, lanes=STEP, seed=5
    )
    model, sizes = torch.zeros(ROWS, dtype=torch.int64), []
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory) / "state.pt")
        model, sizes = state["model"], state["sizes"]
        LoaderState(loader).load_state_dict(state["loader"])
    for batch in loader.steps(STEPS - len(sizes)):
        rows = torch.bincount(batch["id"], minlength=ROWS)
        distributed.all_reduce(rows)
        model += rows
        sizes.append(size)
        mark = Path(config["kills"]) / str(len(sizes))
        is_last = context.get_world_rank() == size - 1
        if is_last and len(sizes) in config["killed_at"] and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        state = {"model": model, "sizes": sizes, "loader": LoaderState(loader).state_dict()}
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if context.get_world_rank() == 0:
                torch.save(state, Path(directory) / "state.pt")
                checkpoint = Checkpoint.from_directory(directory)
            ray.train.report({}, checkpoint=checkpoint)


def test_rows_are_trained_once_after_workers_are_killed_and_with_one_worker(
    tmp_path: Path,
) -> None:
    rows, kills = tmp_path / "rows.parquet", tmp_path / "kills"
    pq.write_table(pa.table({"id": range(ROWS)}), rows, row_group_size=10)
    kills.mkdir()
    config = {"rows": str(rows), "kills": str(kills), "killed_at": [4, 7]}

    def trainer(workers: Any, failures: int) -> TorchTrainer:
        return TorchTrainer(
            train,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(
                name="run",
                storage_path=str(tmp_path / "results"),
                failure_config=FailureConfig(max_failures=failures),
            ),
        )

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        # The first kill is recovered from; after the second one, the run has failed.
        with pytest.raises(ray.train.TrainingFailedError):
            trainer((1, 2), 1).fit()
        assert {path.name for path in kills.iterdir()} == {"4", "7"}
        # Under the same name, another trainer continues from the last checkpoint.
        result = trainer(1, 0).fit()
    finally:
        ray.shutdown()
    with result.checkpoint.as_directory() as directory:
        state = torch.load(Path(directory) / "state.pt")
    assert state["model"].tolist() == [1] * ROWS
    assert state["sizes"][:3] == [2] * 3
    assert state["sizes"][6:] == [1] * 4
