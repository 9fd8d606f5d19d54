"""`explain --cost` as a user runs it, against what a loader explains."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from byte_tokenizer import write_tokenizer
from command import shardmill

pytestmark = pytest.mark.usefixtures("counts_below")

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 172,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 320,
}
COST = sm.Cost.from_config(CONFIG)
RANKS = ("--pack", 256, "--per-step", 4, "--world-size", 4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    (directory / "config.json").write_text(json.dumps(CONFIG))
    write_tokenizer(directory)
    return directory


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lengths = np.random.default_rng(5).lognormal(3, 1, 600).astype(int).clip(1, 256).tolist()
    columns = {
        "text": ["a" * length for length in lengths],
        "input_ids": pa.array([[97] * length for length in lengths], pa.list_(pa.int32())),
        "n": lengths,
        "empty": pa.array([[]] * len(lengths), pa.list_(pa.int32())),
    }
    path = tmp_path_factory.mktemp("costs") / "rows.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=100)
    return path


def explained(path: Path, packing: dict[str, Any], **options: Any) -> dict[str, Any]:
    """What a loader explains, as JSON has it."""
    balance = packing.pop("balance", sm.Balance(COST, per_step=4))
    packed = sm.Packing("input_ids", length=256, balance=balance, **packing)
    loader = sm.Loader(path, packing=packed, output="numpy", rank=0, world_size=4, **options)
    return json.loads(json.dumps(loader.explain(epoch=options.pop("epoch", 0))))


@pytest.mark.parametrize(
    ("arguments", "packing", "options"),
    [
        ([], {}, {"batch_size": 1}),
        (
            ["--strategy", "best_fit", "--window-packs", 8, "--shuffle", "--seed", 3],
            {
                "strategy": "best_fit",
                "balance": sm.Balance(COST, per_step=4, window_packs=8),
            },
            {"batch_size": 1, "shuffle": True, "seed": 3},
        ),
        (
            ["--batch-size", 2, "--lanes", 6, "--tail", "uneven"],
            {},
            {"batch_size": 2, "lanes": 6, "tail": "uneven"},
        ),
    ],
)
def test_figures_are_those_that_a_loader_explains(
    data: Path,
    model: Path,
    arguments: list[Any],
    packing: dict[str, Any],
    options: dict[str, Any],
) -> None:
    result = shardmill("explain", data, "--cost", model, *RANKS, *arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    found, expected = json.loads(result.stdout), explained(data, packing, **options)
    assert found["cost"] == vars(COST)
    assert found["balance_bytes"] == expected["balance_bytes"] > 0
    assert found["unequal_because"] == expected["unequal_because"]
    assert found["step_mix"].keys() == expected["step_mix"].keys()
    for name in ("cost_imbalance", "steps", "packs_of_epoch", "steps_after_first_end"):
        assert found[name] == expected[name]
    for order, mix in found["step_mix"].items():
        assert mix["documents"] == expected["step_mix"][order]["documents"]


def test_table_compares_imbalance_now_and_with_the_balance(data: Path, model: Path) -> None:
    result = shardmill("explain", data, "--cost", model / "config.json", *RANKS, "--batch-size", 3)
    assert (result.returncode, result.stderr) == (0, "")
    expected = explained(data, {}, batch_size=3)
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"Epoch 0: {expected['packs_of_epoch']} packs of 256 tokens by conc")
    assert lines[0].endswith(f"{expected['steps']} steps of 3 packs on each of 4 ranks")
    imbalance = expected["cost_imbalance"]
    figures = {line[:40].strip(): line[40:].split() for line in lines}
    for title, name in (
        ("all steps", "all_steps"),
        ("worst step", "worst_step"),
        ("steps before the first lane ends", "before_first_end"),
    ):
        both = [f"{imbalance[order][name]:.3f}" for order in ("as_packed", "balanced")]
        assert figures[title] == both
    ratio = imbalance["as_packed"]["all_steps"]
    assert figures["time that ranks wait"][0] == f"{100 - 100 / ratio:.1f}%"
    assert "4 packs of a lane in an optimizer step, windows of 256 packs, mixed" in lines[-3]


def test_lengths_are_read_in_place_of_tokens(data: Path, model: Path) -> None:
    options = (*RANKS, "--cost", model, "--json")
    stored = json.loads(shardmill("explain", data, *options).stdout)
    assert json.loads(shardmill("explain", data, *options, "--lengths", "n").stdout) == stored
    # The tokens themselves are not read.
    empty = shardmill("explain", data, *options, "--lengths", "n", "--column", "empty")
    assert json.loads(empty.stdout)["cost_imbalance"] == stored["cost_imbalance"]


def test_texts_are_tokenized_and_named_columns_of_tokens_are_taken(data: Path, model: Path) -> None:
    options = (*RANKS, "--cost", model, "--json")
    stored = json.loads(shardmill("explain", data, *options).stdout)
    named = json.loads(shardmill("explain", data, *options, "--column", "input_ids").stdout)
    texts = shardmill("explain", data, *options, "--tokenizer", model, "--column", "text")
    assert texts.returncode == 0, texts.stderr
    assert named == stored == json.loads(texts.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pack", "256"], "--pack requires --cost"),
        (["--tokenizer", "model"], "--tokenizer requires --cost"),
        (["--cost", "{model}", "--per-step", "4"], "--cost requires --pack, the number of tokens"),
        (["--cost", "{model}", "--pack", "256"], "--cost requires --per-step, the number of packs"),
        (
            ["--cost", "{model}", "--pack", "256", "--per-step", "4"],
            "--world-size is 1\nhint: pass the number of data ranks, such as --world-size 8",
        ),
        (["--cost", "{model}", *RANKS, "--step", "1"], "--step cannot be used with --cost"),
        (["--cost", "{model}", *RANKS, "--eos", "x"], "--eos requires --tokenizer"),
        (
            ["--cost", "{model}", *RANKS, "--column", "text"],
            "there is no column text of lists of integers\nhint: name the column of tokens with",
        ),
        (["--cost", "{model}/nothing", *RANKS], "No file at `{model}/nothing`"),
        (
            ["--cost", "{model}", *RANKS, "--per-step", "9", "--window-packs", "8"],
            "--per-step 9 is more than --window-packs 8",
        ),
        (
            ["--cost", "{model}", *RANKS, "--tail", "drop", "--batch-size", "1000"],
            "packs do not fill a step of all ranks\nhint: lower --pack, --batch-size or",
        ),
        (["--cost", "{model}", *RANKS, "--window", "1MB"], "--window requires --shuffle"),
    ],
    ids=str,
)
def test_wrong_use_is_an_error(data: Path, model: Path, arguments: list[Any], message: str) -> None:
    given = [str(argument).format(model=model) for argument in arguments]
    result = shardmill("explain", data, *given)
    assert result.returncode in (1, 2) and result.stdout == ""
    assert message.format(model=model) in result.stderr


def test_warnings_of_a_balance_name_the_options_of_the_command(data: Path, model: Path) -> None:
    few = ("--pack", 256, "--per-step", 1, "--world-size", 4)
    result = shardmill("explain", data, "--cost", model, *few)
    assert result.returncode == 0
    assert result.stderr.startswith(
        "warning: with --per-step 1, all documents of an optimizer step"
    )
