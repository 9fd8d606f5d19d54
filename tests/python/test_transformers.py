"""Trainers of transformers and TRL over a loader, interrupted and resumed."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering, sample

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")

from byte_tokenizer import END, write_tokenizer
from shardmill.integrations.torch import BatchDataset
from shardmill.integrations.transformers import LoaderMixin
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

STEPS = 9


class Recording(LoaderMixin):
    """Records the tokens of each batch on which the model is trained."""

    seen: list[Any]

    def training_step(self, model: Any, inputs: Any, *rest: Any, **given: Any) -> Any:
        self.__dict__.setdefault("seen", []).append(inputs["input_ids"].tolist())
        return super().training_step(model, inputs, *rest, **given)  # type: ignore[misc]


class LoaderTrainer(Recording, Trainer):
    pass


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    tokens = [[(3 * one + place) % 60 for place in range(4 + one % 9)] for one in range(50)]
    labels = [[-100, *row[1:]] for row in tokens]
    columns = {"input_ids": tokens, "labels": labels}
    pq.write_table(pa.table(columns), path, row_group_size=10)
    return str(path)


def packed(rows: str, **options: Any) -> sm.Loader:
    """Packs with labels and positions, under the names of transformers. An epoch has 6 batches."""

    def renamed(batch: Any) -> dict[str, Any]:
        return {
            "input_ids": batch["input_ids"],
            "labels": batch["labels"],
            "position_ids": batch["positions"],
        }

    packing = sm.Packing(["input_ids", "labels"], length=32, pad_value={"labels": -100})
    return sm.Loader(
        rows, packing=packing, batch_size=2, shuffle=True, seed=1, transform=renamed, **options
    )


def masked(rows: str, **options: Any) -> sm.Loader:
    """Padded rows with a mask."""

    def named(batch: Any) -> dict[str, Any]:
        tokens = batch["input_ids"]
        mask = torch.arange(tokens.shape[1]) < batch["input_ids__length"][:, None]
        labels = batch["labels"].masked_fill(~mask, -100)
        return {"input_ids": tokens, "attention_mask": mask.long(), "labels": labels}

    output = sm.Output("torch", pad="longest")
    return sm.Loader(
        rows, batch_size=8, shuffle=True, seed=1, output=output, transform=named, **options
    )


KINDS = {"packed": packed, "masked": masked}


def small_model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=64,
        attention_dropout=0.1,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def arguments(below: Path, accumulation: int, kind: Any = TrainingArguments, **options: Any) -> Any:
    given: dict[str, Any] = {
        "output_dir": str(below),
        "max_steps": STEPS,
        "ignore_data_skip": True,
        "gradient_accumulation_steps": accumulation,
        "learning_rate": 0.01,
        "save_strategy": "steps",
        "save_steps": 1,
        "logging_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    return kind(**given | options)


def weights(trainer: Any) -> list[Any]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


@covering(1, kind=list(KINDS), accumulation=[1, 3])
def test_training_continues_with_the_batches_and_weights_of_one_without_interruption(
    rows: str, tmp_path: Path, kind: str, accumulation: int
) -> None:
    make, steps = KINDS[kind], 9 if accumulation == 1 else 6
    oracle = [batch["input_ids"].tolist() for batch in make(rows).steps(steps * accumulation)]
    assert len(oracle) > len(make(rows)), "the training continues in the next epoch"

    def new_trainer(**options: Any) -> LoaderTrainer:
        given = arguments(tmp_path, accumulation, max_steps=steps, **options)
        return LoaderTrainer(small_model(), given, train_dataset=make(rows))

    whole = new_trainer()
    whole.train()
    assert whole.seen == oracle
    for step in sample(range(1, 6), 3):
        resumed = new_trainer(
            save_strategy="no", restore_callback_states_from_checkpoint=step % 3 == 1
        )
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert resumed.seen == oracle[step * accumulation :]
        assert all(map(torch.equal, weights(resumed), weights(whole)))


def test_evaluation_takes_an_epoch_of_its_loader_and_moves_no_other(
    rows: str, tmp_path: Path
) -> None:
    evaluated: list[Any] = []

    class Evaluating(LoaderTrainer):
        def prediction_step(self, model: Any, inputs: Any, *rest: Any, **given: Any) -> Any:
            evaluated.append(inputs["input_ids"].tolist())
            return super().prediction_step(model, inputs, *rest, **given)

    def new_eval() -> sm.Loader:
        return masked(rows, rank=0, world_size=1)

    evaluation = new_eval()
    expected = [batch["input_ids"].tolist() for _ in range(3) for batch in evaluation]
    trainer = Evaluating(
        small_model(),
        arguments(tmp_path, 1, save_strategy="no", eval_strategy="steps", eval_steps=3),
        train_dataset=packed(rows),
        eval_dataset={"rest": new_eval()},
    )
    trainer.train()
    assert trainer.seen == [batch["input_ids"].tolist() for batch in packed(rows).steps(STEPS)]
    assert evaluated == expected
    found = [log["eval_rest_loss"] for log in trainer.state.log_history if "eval_rest_loss" in log]
    assert len(found) == 3 and found[2] < found[0]


def test_tensors_reach_the_model_without_a_copy(rows: str, tmp_path: Path) -> None:
    made: list[Any] = []
    taken: list[Any] = []

    def named(batch: Any) -> dict[str, Any]:
        made.append(batch["input_ids"])
        return {"input_ids": batch["input_ids"], "position_ids": batch["positions"]}

    class Taking(LoaderTrainer):
        def compute_loss(self, model: Any, inputs: Any, *rest: Any, **given: Any) -> Any:
            taken.append(inputs["input_ids"])
            return model(**inputs).logits.mean()

    packing = sm.Packing("input_ids", length=32)
    loader = sm.Loader(rows, packing=packing, batch_size=2, transform=named)
    given = arguments(tmp_path, 1, max_steps=3, save_strategy="no")
    Taking(small_model(), given, train_dataset=loader).train()
    assert len(taken) == 3
    for tensor, original in zip(taken, made, strict=False):
        assert tensor.data_ptr() == original.data_ptr()


@pytest.mark.slow
def test_fine_tuning_with_trl_continues_where_it_was_interrupted(rows: str, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    class LoaderSFTTrainer(Recording, trl.SFTTrainer):  # type: ignore[misc]
        pass

    write_tokenizer(tmp_path / "tokenizer")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer" / "tokenizer.json"),
        eos_token=END,
        pad_token=END,
    )

    def new_trainer() -> Any:
        trainer = LoaderSFTTrainer(
            small_model(),
            arguments(tmp_path, 2, trl.SFTConfig, bf16=False, gradient_checkpointing=False),
            train_dataset=Dataset.from_dict({"input_ids": [[0]], "labels": [[0]]}),
            processing_class=tokenizer,
        )
        trainer.train_dataset = packed(rows)
        return trainer

    whole = new_trainer()
    whole.train()
    oracle = [batch["input_ids"].tolist() for batch in packed(rows).steps(2 * STEPS)]
    assert whole.seen == oracle
    resumed = new_trainer()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert resumed.seen == oracle[8:]
    assert all(map(torch.equal, weights(resumed), weights(whole)))


@pytest.mark.parametrize("options", [{"max_steps": -1}, {"ignore_data_skip": False}])
def test_trainer_that_would_skip_batches_is_refused(
    rows: str, tmp_path: Path, options: dict[str, Any]
) -> None:
    trainer = LoaderTrainer(
        small_model(), arguments(tmp_path, 1, **options), train_dataset=packed(rows)
    )
    with pytest.raises(sm.OptionError, match="hint: set max_steps and ignore_data_skip=True in"):
        trainer.train()


def test_loader_of_another_number_of_processes_is_refused(rows: str, tmp_path: Path) -> None:
    loader = packed(rows, rank=1, world_size=4)
    trainer = LoaderTrainer(small_model(), arguments(tmp_path, 1), train_dataset=loader)
    with pytest.raises(sm.OptionError, match="the loader has world_size=4, but the trainer has 1"):
        trainer.train()


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_trainer_that_would_batch_the_batches_again_names_the_mixin(
    rows: str, tmp_path: Path, is_wrapped: bool
) -> None:
    loader: Any = packed(rows)
    data = BatchDataset(loader) if is_wrapped else loader
    trainer = Trainer(small_model(), arguments(tmp_path, 1), train_dataset=data)
    with pytest.raises((sm.OptionError, TypeError), match="transformers.LoaderMixin"):
        trainer.train()


def test_checkpoint_without_a_state_of_the_loader_is_refused(rows: str, tmp_path: Path) -> None:
    trainer = LoaderTrainer(
        small_model(), arguments(tmp_path, 1, max_steps=2), train_dataset=packed(rows)
    )
    trainer.train()
    path = tmp_path / "checkpoint-1" / "trainer_state.json"
    state = json.loads(path.read_text())
    seen = len(trainer.seen)
    for kept in ({}, {"LoaderCallback": {"args": {}, "attributes": {"saved": None}}}):
        path.write_text(json.dumps(state | {"stateful_callbacks": kept}))
        with pytest.raises(sm.CheckpointMismatchError, match="of step 1 contains no state of a lo"):
            trainer.train(resume_from_checkpoint=str(path.parent))
    assert len(trainer.seen) == seen
