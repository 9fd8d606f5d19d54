"""Batches of a ``Loader`` in the ``Trainer`` of transformers and the trainers of TRL."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from shardmill._extras import missing_module

try:
    from transformers.trainer_callback import ExportableState, TrainerCallback
except ModuleNotFoundError as missing:
    raise missing_module(__name__, name=missing.name, install="'transformers[torch]'") from missing

from shardmill.errors import CheckpointMismatchError, OptionError
from shardmill.integrations.torch import MeshLoader
from shardmill.integrations.torch._loader_state import check_ranks
from shardmill.load._loader import Loader


class _Batches:
    """Batches of one epoch of a loader, or of all epochs, which have no length."""

    def __init__(self, loader: Loader | MeshLoader, *, is_endless: bool) -> None:
        self.loader, self.is_endless = loader, is_endless

    def __iter__(self) -> Iterator[Any]:
        return self.loader.steps(sys.maxsize) if self.is_endless else iter(self.loader)


class LoaderCallback(TrainerCallback, ExportableState):
    """Keeps the state of the loader in checkpoints. A ``LoaderMixin`` adds it to its trainer."""

    loader: Loader | MeshLoader | None = None

    def state(self) -> dict[str, Any]:
        """Return the entries for the loader in a checkpoint."""
        return {"args": {}, "attributes": {"saved": self.loader and self.loader.state_dict()}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Continue from the position in the checkpoint."""
        self.loader = loader = given["train_dataloader"].loader
        # All ranks raise the errors below, or none.
        check_ranks(loader)
        if isinstance(loader, Loader) and loader.world_size != args.world_size:
            raise OptionError(
                f"the loader has world_size={loader.world_size}, but the trainer has "
                f"{args.world_size} processes\nhint: create the Loader after TrainingArguments, "
                "without rank and world_size; if ranks share batches, pass a MeshLoader"
            )
        if state.global_step:
            saved = state.stateful_callbacks.get("LoaderCallback")
            if not saved or not (saved := saved["attributes"]["saved"]):
                raise CheckpointMismatchError(
                    f"the checkpoint of step {state.global_step} contains no state of a loader\n"
                    "hint: resume from a checkpoint that a trainer with LoaderMixin has saved"
                )
            loader.load_state_dict(saved)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Check that all ranks are at the same step before a checkpoint is saved."""
        if control.should_save and self.loader is not None:
            check_ranks(self.loader)


class LoaderMixin:
    """Lets a trainer use a ``Loader`` as its ``train_dataset`` or ``eval_dataset``.

    Write ``class LoaderTrainer(LoaderMixin, Trainer)``. The trainer receives batches unchanged, and
    no batch is fetched ahead. Checkpoints contain the state of the loader in ``train_dataset``.
    """

    def get_train_dataloader(self: Any) -> Any:
        """Return the batches of all epochs."""
        if not isinstance(self.train_dataset, Loader | MeshLoader):
            return super().get_train_dataloader()  # pyright: ignore
        if self.args.max_steps < 1 or not self.args.ignore_data_skip:
            raise OptionError(
                "a trainer over a Loader counts steps, and the loader continues by itself\n"
                "hint: set max_steps and ignore_data_skip=True in the arguments of the trainer"
            )
        if not any(isinstance(one, LoaderCallback) for one in self.callback_handler.callbacks):
            self.add_callback(LoaderCallback())
        return _Batches(self.train_dataset, is_endless=True)

    def get_eval_dataloader(self: Any, eval_dataset: Any = None) -> Any:
        """Return the batches of an epoch."""
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        data = self.eval_dataset[data] if isinstance(data, str) else data
        if not isinstance(data, Loader | MeshLoader):
            return super().get_eval_dataloader(eval_dataset)  # pyright: ignore
        return _Batches(data, is_endless=False)
