"""What the ranks of a job do in tests of trainers."""

from __future__ import annotations

from typing import Any

import shardmill as sm
import torch
from mesh_scenes import mesh_of
from shardmill.integrations.torch import LoaderState, MeshLoader
from torch import distributed
from torch.distributed import checkpoint as dcp


def sharded_model() -> torch.nn.Module:
    """A model whose parameters are divided over the ranks by FSDP2."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (distributed.get_world_size(),), mesh_dim_names=("dp",))
    model = torch.nn.Linear(1, 12)
    fully_shard(model, mesh=mesh)
    return model


def saved_by_dcp(
    path: str,
    options: dict[str, Any],
    steps: list[int],
    below: str,
    *,
    is_sharded: bool = False,
    mesh: Any = None,
) -> list[list[int]] | str:
    """The ids of the batches before the state, or the error."""
    loader: Any = sm.Loader(path, **options)
    if mesh is not None:
        loader = MeshLoader(loader, mesh_of(*mesh))
    state: dict[str, Any] = {"loader": LoaderState(loader)}
    model = sharded_model() if is_sharded else torch.nn.Linear(1, 12)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    ids = []
    for batch in loader.steps(steps[distributed.get_rank()]):
        ids.append(batch["id"].tolist())
        if is_sharded:
            model(batch["id"][:, None].float() / 100).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    if is_sharded:
        state["model"] = model.state_dict()
    try:
        dcp.save(state, checkpoint_id=below)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ids


def loaded_by_dcp(
    path: str, options: dict[str, Any], below: str, *, is_sharded: bool = False
) -> tuple[list[list[int]], list[float]] | str:
    """The ids of the rest of the epoch, and the weights; or the error."""
    loader = sm.Loader(path, **options)
    state: dict[str, Any] = {"loader": LoaderState(loader)}
    weights: list[float] = []
    if is_sharded:
        state["model"] = sharded_model().state_dict()
    try:
        dcp.load(state, checkpoint_id=below)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if is_sharded:
        weights = state["model"]["weight"].full_tensor().flatten().tolist()
    return [batch["id"].tolist() for batch in loader], weights


def disagreeing(path: str, options: dict[str, Any], sizes: list[int]) -> str:
    """The error of loaders with other world sizes."""
    size = sizes[distributed.get_rank()]
    try:
        LoaderState(sm.Loader(path, rank=0, world_size=size, **options)).state_dict()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def accelerator_of(*, is_dispatched: bool) -> Any:
    """An ``Accelerator`` over the ranks."""
    from accelerate import Accelerator, DataLoaderConfiguration

    given = DataLoaderConfiguration(dispatch_batches=is_dispatched)
    return Accelerator(cpu=True, dataloader_config=given)


def accelerated(
    path: str, options: dict[str, Any], below: str, *, is_dispatched: bool, stop: int | None
) -> list[list[int]]:
    """The ids of the batches up to a saved state, or from it to the end of the next epoch."""
    from shardmill.integrations.accelerate import DispatchedLoader

    accelerator = accelerator_of(is_dispatched=is_dispatched)
    share: dict[str, Any] = {"rank": 0, "world_size": 1} if is_dispatched else {}
    loader: Any = sm.Loader(path, **options, **share)
    model = torch.nn.Linear(1, 1)
    if is_dispatched:
        loader = DispatchedLoader(accelerator, loader)
        accelerator.register_for_checkpointing(loader)
    else:
        assert accelerator.prepare(loader) is loader
        accelerator.register_for_checkpointing(LoaderState(loader))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model, optimizer = accelerator.prepare(model, optimizer)
    if stop is None:
        accelerator.load_state(below)
    ids: list[list[int]] = []
    for _ in range(2):
        for batch in loader:
            ids.append(batch["id"].tolist())
            accelerator.backward(model(batch["id"][:, None].float() / 100).sum())
            optimizer.step()
            optimizer.zero_grad()
            if len(ids) == stop:
                accelerator.save_state(below)
                return ids
    return ids


def shared_out_twice(path: str, options: dict[str, Any]) -> list[str]:
    """The errors of loaders whose batches Accelerate would share out again, and of others."""
    from shardmill.integrations.accelerate import DispatchedLoader
    from shardmill.integrations.torch import BatchDataset
    from torch.utils.data import DataLoader

    accelerator = accelerator_of(is_dispatched=True)
    loader = sm.Loader(path, **options)
    found = []

    def prepared() -> None:
        batches = DataLoader(BatchDataset(loader), batch_size=None)
        next(iter(accelerator.prepare(batches)))

    for attempt in (prepared, lambda: DispatchedLoader(accelerator, loader)):
        try:
            attempt()
        except sm.OptionError as error:
            found.append(str(error))
    return found


def trained_by_transformers(
    path: str, options: dict[str, Any], below: str, *, max_steps: int, step: int | None
) -> list[list[int]] | str:
    """The ids on which a ``Trainer`` trains, from a step on; or the error."""
    from shardmill.integrations.transformers import LoaderMixin
    from transformers import Trainer, TrainingArguments

    seen = []

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))

        def forward(self, id: Any) -> Any:
            seen.append(id.tolist())
            return {"loss": ((self.weight - id / 50) ** 2).mean()}

    class LoaderTrainer(LoaderMixin, Trainer):
        pass

    arguments = TrainingArguments(
        below,
        max_steps=max_steps,
        ignore_data_skip=True,
        save_steps=1,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    loader: Any = sm.Loader(path, **options)
    trainer = LoaderTrainer(Model(), arguments, train_dataset=loader)
    try:
        trainer.train(resume_from_checkpoint=step and f"{below}/checkpoint-{step}")
    except (sm.OptionError, sm.EngineError) as error:
        return f"{type(error).__name__}: {error}"
    return seen


def trained_by_lightning(
    path: str, options: dict[str, Any], below: str, *, max_steps: int, is_resumed: bool
) -> list[list[int]]:
    """The ids on which a Lightning ``Trainer`` trains, which saves at the end."""
    import os

    import lightning.pytorch as pl
    from shardmill.integrations.lightning import LoaderCallback

    seen = []

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(()))

        def training_step(self, batch: Any, number: int) -> Any:
            seen.append(batch["id"].tolist())
            return ((self.weight - batch["id"] / 50) ** 2).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.05)

    # As torchrun does.
    rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    os.environ.update(LOCAL_RANK=rank, GROUP_RANK="0", TORCHELASTIC_RUN_ID="none")
    feed = LoaderCallback(sm.Loader(path, **options))
    trainer = pl.Trainer(
        accelerator="cpu",
        strategy="ddp",
        devices=int(size),
        max_steps=max_steps,
        max_epochs=-1,
        callbacks=[feed],
        logger=False,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        default_root_dir=below,
    )
    trainer.fit(Model(), feed, ckpt_path=f"{below}/saved.ckpt" if is_resumed else None)
    trainer.save_checkpoint(f"{below}/saved.ckpt")
    return seen
