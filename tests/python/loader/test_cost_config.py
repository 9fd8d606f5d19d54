"""Costs from configurations: windows of causal models, and files that are not understood."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm
from breadth import in_one
from tiny_models import PUBLISHED

LLAMA = PUBLISHED["llama 2 7B"]
MISTRAL = PUBLISHED["mistral 7B 0.1"]


def test_path_directory_and_dict_give_the_same_cost(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    cost = sm.Cost.from_config(LLAMA)
    assert (
        sm.Cost.from_config(tmp_path) == sm.Cost.from_config(str(tmp_path / "config.json")) == cost
    )
    assert (cost.token, cost.window, cost.count_padding) == (1, None, True)


def test_token_costs_two_flops_a_weight_and_a_pair_four_a_unit_of_width() -> None:
    # 6,738,415,616 parameters, less the embedding and the norms.
    weights = 6_738_415_616 - 32000 * 4096 - 65 * 4096
    cost = sm.Cost.from_config(LLAMA, causal=False)
    assert math.isclose(cost.pair, 4 * 4096 * 32 / (2 * weights))


@in_one("name", PUBLISHED)
def test_causal_attention_is_half_of_attention(name: str) -> None:
    causal, full = (sm.Cost.from_config(PUBLISHED[name], causal=causal) for causal in (True, False))
    assert causal.pair == full.pair / 2
    assert causal.window_pair == full.window_pair / 2
    for term in ("token", "patch", "patch_pair", "image"):
        assert getattr(causal, term) == getattr(full, term)


def test_attention_that_a_configuration_calls_bidirectional_is_not_halved() -> None:
    embedding = PUBLISHED["gemma 3 1B"] | {"use_bidirectional_attention": True}
    assert sm.Cost.from_config(embedding) == sm.Cost.from_config(embedding, causal=False)


@in_one("window", [1, 100, 700])
def test_causal_window_counts_the_pairs_inside_of_it(window: int) -> None:
    cost = sm.Cost.from_config(MISTRAL | {"sliding_window": window})
    full = sm.Cost.from_config(MISTRAL | {"sliding_window": window}, causal=False).window_pair
    for length in {1, window, 2 * window, 3 * window, 100 * window}:
        # A token sees itself and those before it, as many as the window holds; without the
        # diagonal, which half of a square does not have either.
        pairs = sum(min(place + 0.5, window) for place in range(length))
        found = cost.window_pair * length * min(length, cost.window or 0) / full
        assert found >= pairs * (1 - 1e-9) - length / 2
        assert found <= pairs * 4 / 3
        if length <= window:
            assert math.isclose(found, pairs)
        if length == 100 * window > 100:
            assert math.isclose(found, pairs, rel_tol=0.01)


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != key}


@in_one("key", [key for key in LLAMA if key != "model_type"])
@in_one("is_null", [False, True])
def test_missing_number_is_named_with_the_file(tmp_path: Path, key: str, is_null: bool) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(LLAMA | {key: None} if is_null else without(LLAMA, key))
    )
    with pytest.raises(sm.OptionError, match=f"config.json` has no {key}, which") as raised:
        sm.Cost.from_config(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert "hint: add it, or pass the FLOPs themselves: sm.Cost(token=…, pair=…)" in str(
        raised.value
    )


@in_one(
    "name, part, key",
    [
        ("qwen 3 30B", None, "num_experts"),
        ("qwen 3 30B", None, "num_experts_per_tok"),
        ("qwen 3 30B", None, "moe_intermediate_size"),
        ("deepseek V3", None, "kv_lora_rank"),
        ("deepseek V3", None, "n_shared_experts"),
        ("gemma 3 4B", "text_config", "hidden_size"),
        ("gemma 3 4B", "vision_config", "intermediate_size"),
        ("qwen 2 VL 7B", "vision_config", "embed_dim"),
        ("qwen 2.5 VL 7B", "vision_config", "fullatt_block_indexes"),
    ],
)
def test_missing_number_of_a_part_is_named(name: str, part: str | None, key: str) -> None:
    config = PUBLISHED[name]
    config = {**config, part: without(config[part], key)} if part else without(config, key)
    where = f"{part} of the configuration" if part else "the configuration"
    with pytest.raises(sm.OptionError, match=f"{where} has no {key}, which"):
        sm.Cost.from_config(config)


@in_one(
    "config, message",
    [
        (5, "a configuration must be a dict, or the path of config.json or its directory, not 5"),
        ({}, "the configuration has no model_type"),
        ({"model_type": "mamba"}, "the model_type 'mamba', which .*\n.*attention: sm.Cost"),
        (LLAMA | {"hidden_size": "4096"}, "hidden_size .* must be an integer of at least 1, not"),
        (LLAMA | {"hidden_size": 0}, "hidden_size .* must be an integer of at least 1, not 0"),
        (LLAMA | {"hidden_size": True}, "hidden_size .* must be an integer of at least 1"),
        (LLAMA | {"hidden_size": 2**40}, "hidden_size .* must be an integer"),
        (LLAMA | {"text_config": [1]}, "text_config of the configuration must be an object"),
        (LLAMA | {"layer_types": ["full_attention"]}, "must be a list of 32 names, not"),
        (LLAMA | {"num_attention_heads": 33}, "the 33 heads .* divide its width of 4096 unless"),
        (LLAMA | {"num_key_value_heads": 5}, "a multiple of its 5 key/value heads"),
        (LLAMA | {"layer_types": "full_attention"}, "must be a list of 32 names, not"),
        (
            LLAMA | {"layer_types": ["linear_attention"] * 32},
            "has 'linear_attention', and Cost.from_config knows full_attention and sliding_atten",
        ),
        (
            PUBLISHED["qwen 3 30B"] | {"mlp_only_layers": 3},
            "mlp_only_layers of the configuration must be a list of integers, not 3",
        ),
        (
            LLAMA | {"vision_config": {"model_type": "clip_vision_model"}},
            "vision_config .* has the model_type 'clip_vision_model'.*\n.*add the FLOPs of a patch",
        ),
        (
            PUBLISHED["qwen 3 30B"]
            | {"model_type": "qwen2_moe", "use_sliding_window": True, "sliding_window": 9}
            | {"shared_expert_intermediate_size": 8},
            "has no layer_types",
        ),
    ],
)
def test_configuration_that_is_not_understood_is_refused(config: Any, message: str) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.Cost.from_config(config)


def test_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "config.json", "Qwen/Qwen3-0.6B"):
        with pytest.raises(sm.NotFoundError, match=r"No file at `.*\nhint: .* hf download"):
            sm.Cost.from_config(path)
    for text in ("{", "\xff", ""):
        (tmp_path / "config.json").write_text(text, encoding="latin-1")
        with pytest.raises(sm.FormatError, match="config.json` is not valid JSON"):
            sm.Cost.from_config(tmp_path)
    (tmp_path / "config.json").write_text("[1]")
    with pytest.raises(sm.OptionError, match="config.json` must be an object, not"):
        sm.Cost.from_config(tmp_path)
    with pytest.raises(sm.OptionError, match="causal must be True or False, not 'no'"):
        sm.Cost.from_config(LLAMA, causal="no")  # pyright: ignore[reportArgumentType]
