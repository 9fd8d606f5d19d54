"""Lightning over loaders: fit, end, and continue from a checkpoint."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import beginning

lightning = pytest.importorskip("lightning.pytorch")
torch = pytest.importorskip("torch")

from shardmill.integrations.lightning import LoaderCallback

ROWS = 40
#: Lightning does not know the length of the data, and fetches ahead.
AHEAD = {"max_epochs": -1, "max_steps": 15}
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers", "ignore::UserWarning"
)


class Model(lightning.LightningModule):
    """Records the ids on which it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.seen: list[Any] = []

    def training_step(self, batch: Any, number: int) -> Any:
        parts = [batch] if "id" in batch else [part for part in batch if isinstance(part, dict)]
        self.seen.append([part["id"].tolist() for part in parts])
        return sum(((self.weight - part["id"] / 50) ** 2).mean() for part in parts)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.05, momentum=0.9)


class Stop(lightning.Callback):
    """Saves a checkpoint after a batch, and fails."""

    def __init__(self, path: Path, after: int) -> None:
        self.path, self.after, self.number = path, after, 0

    def on_train_batch_end(self, trainer: Any, *given: Any) -> None:
        self.number += 1
        if self.number == self.after:
            trainer.save_checkpoint(self.path)
            raise RuntimeError("killed")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table({"id": range(ROWS)}), path, row_group_size=10)
    return str(path)


def loader_of(rows: str, **options: Any) -> sm.Loader:
    given: dict[str, Any] = {"batch_size": 8, "shuffle": True, "rank": 0, "world_size": 1}
    return sm.Loader(rows, **given | options)


def fit(data: Any, callbacks: list[Any], checkpoint: Path | None = None, **options: Any) -> Model:
    model = Model()
    trainer = lightning.Trainer(
        accelerator="cpu",
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        logger=False,
        callbacks=callbacks,
        **{"max_epochs": 3} | options,
    )
    try:
        trainer.fit(model, data, ckpt_path=checkpoint, weights_only=False)
    except RuntimeError as error:
        assert str(error) == "killed"
    return model


def one(rows: str) -> Any:
    return loader_of(rows), [], {}


def several(rows: str) -> Any:
    return [loader_of(rows), loader_of(rows, seed=5)], [], {}


def several_of_unequal_length(rows: str) -> Any:
    feeds = [
        LoaderCallback(loader_of(rows), "first"),
        LoaderCallback(loader_of(rows, seed=5, batch_size=10), "second"),
    ]
    return feeds, feeds, AHEAD


def fetched_ahead(rows: str) -> Any:
    feed = LoaderCallback(loader_of(rows))
    return feed, [feed], AHEAD


def beside_one_without_length(rows: str) -> Any:
    feed = LoaderCallback(loader_of(rows), "rows")
    data = [feed, itertools.repeat(1)]
    return data, [feed], AHEAD


MAKES = [one, several, fetched_ahead, several_of_unequal_length, beside_one_without_length]


@pytest.mark.parametrize("make", beginning(3, MAKES))
def test_training_that_is_killed_continues_with_the_batches_and_weights_of_one_that_is_not(
    rows: str, tmp_path: Path, make: Callable[[str], Any]
) -> None:
    data, callbacks, options = make(rows)
    whole = fit(data, callbacks, **options)
    loaders = [loader_of(rows)]
    if make in (several, several_of_unequal_length):
        size = 8 if make is several else 10
        loaders.append(loader_of(rows, seed=5, batch_size=size))
    steps = zip(*(loader.steps(15) for loader in loaders), strict=True)
    expected = [[batch["id"].tolist() for batch in step] for step in steps]
    assert whole.seen == expected
    for after in (1, 5, 7):
        path = tmp_path / f"{after}.ckpt"
        data, callbacks, options = make(rows)
        killed = fit(data, [*callbacks, Stop(path, after)], **options)
        assert killed.seen == expected[:after]
        data, callbacks, options = make(rows)
        resumed = fit(data, callbacks, path, **options)
        assert resumed.seen == expected[after:]
        assert torch.equal(resumed.weight, whole.weight)


def test_tensors_reach_the_model_without_a_copy(rows: str) -> None:
    made: list[Any] = []
    taken: list[Any] = []

    def kept(batch: Any) -> Any:
        made.append(batch["id"])
        return batch

    class Taking(lightning.Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
            taken.append(batch["id"])

    feed = LoaderCallback(loader_of(rows, transform=kept))
    fit(feed, [feed, Taking()], max_epochs=-1, max_steps=4)
    pointers = {tensor.data_ptr() for tensor in made}
    assert len(taken) == 4 and {tensor.data_ptr() for tensor in taken} <= pointers


def test_callback_that_the_trainer_does_not_have_is_refused(rows: str) -> None:
    with pytest.raises(sm.OptionError, match="hint: pass it to the trainer too, as the first of"):
        fit(LoaderCallback(loader_of(rows)), [], max_epochs=-1, max_steps=2)


def test_checkpoint_of_another_order_is_refused(rows: str, tmp_path: Path) -> None:
    data, callbacks, options = fetched_ahead(rows)
    path = tmp_path / "saved.ckpt"
    fit(data, [*callbacks, Stop(path, 2)], **options)
    feed = LoaderCallback(loader_of(rows, seed=9))
    with pytest.raises(sm.CheckpointMismatchError, match="seed"):
        fit(feed, [feed], path, **options)
