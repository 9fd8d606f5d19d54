"""FLOPs from a configuration; the oracles are the models of transformers, counted by torch."""

import json
import math
from functools import cache
from typing import Any

import pytest
import shardmill as sm
from breadth import beginning
from shardmill.load._model_cost import _FAMILIES, forward_flops
from tiny_models import PUBLISHED, TINY

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
flop_counter = pytest.importorskip("torch.utils.flop_counter")

LENGTHS = (1, 60, 1000, 8192)


@cache
def model_of(kind: str) -> Any:
    """The model of a family without memory for its weights, whose attention is plain products."""
    config = transformers.CONFIG_MAPPING[kind](**TINY[kind])
    models = transformers.AutoModelForImageTextToText if "vision_config" in TINY[kind] else None
    options = {"attn_implementation": "eager"}
    if any("experts" in key for key in {**TINY[kind], **TINY[kind].get("text_config", {})}):
        # The other implementations look at values, which a model without memory lacks.
        options["experts_implementation"] = "batched_mm"
    with torch.device("meta"):
        return (models or transformers.AutoModelForCausalLM).from_config(config, **options).eval()


def counted(kind: str, length: int) -> float:
    """The FLOPs of a forward pass, where attention with a window counts the window alone.

    Attention computes all pairs, so its products in a layer that says that it has a window are
    scaled by the part of the pairs that the window leaves.
    """
    model = model_of(kind)
    with (
        torch.no_grad(),
        torch.device("meta"),
        flop_counter.FlopCounterMode(display=False) as flops,
    ):
        model(
            input_ids=torch.zeros(1, length, dtype=torch.long),
            attention_mask=torch.zeros(1, 1, length, length),
            position_ids=torch.zeros(1, length, dtype=torch.long),
            use_cache=False,
        )
    total = flops.get_total_flops()
    by_module = flops.get_flop_counts()
    for name, module in model.named_modules():
        if not name.endswith("self_attn"):
            continue
        window = getattr(module, "sliding_window", getattr(module.config, "sliding_window", None))
        if window and window < length:
            products = by_module[f"{type(model).__name__}.{name}"][torch.ops.aten.bmm]
            total -= products * (1 - window / length)
    return total


def predicted(flops: dict[str, float], length: int) -> float:
    pairs = length * min(length, flops.get("window", 0))
    text = flops["token"] * length + flops["pair"] * length**2
    return text + flops.get("window_pair", 0) * pairs


@pytest.mark.parametrize("kind", beginning(6, list(TINY)))
def test_flops_of_a_model_are_those_that_torch_counts(kind: str, tmp_path) -> None:
    model_of(kind).config.save_pretrained(tmp_path)
    flops = forward_flops(tmp_path, causal=False)
    for length in LENGTHS:
        assert predicted(flops, length) == pytest.approx(counted(kind, length), rel=0.03), length
    cost = sm.Cost.from_config(tmp_path / "config.json", causal=False)
    assert cost.token == 1
    for name in ("pair", "window_pair", "patch", "patch_pair", "image"):
        assert getattr(cost, name) == flops.get(name, 0) / flops["token"]
    assert cost.window == flops.get("window")


def test_each_family_has_a_model_that_is_counted() -> None:
    assert {kind.removesuffix("_text") for kind in TINY} == set(_FAMILIES)


@pytest.mark.parametrize(
    "kind", beginning(1, ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"])
)
def test_flops_of_images_are_those_that_torch_counts(kind: str) -> None:
    config = transformers.CONFIG_MAPPING[kind](**TINY[kind])
    tower = model_of(kind).model.visual.to_empty(device="cpu").float()
    flops = forward_flops(config.to_dict(), causal=True)
    for grids in ([(4, 8)], [(16, 16), (8, 4), (8, 40)], [(32, 32)]):
        patches = [height * width for height, width in grids]
        pixels = torch.zeros(sum(patches), 3 * 2 * 4 * 4)
        with torch.no_grad(), flop_counter.FlopCounterMode(display=False) as count:
            tower(pixels, torch.tensor([(1, *grid) for grid in grids]))
        found = flops["patch"] * sum(patches)
        found += flops["patch_pair"] * sum(number**2 for number in patches)
        assert found == pytest.approx(count.get_total_flops(), rel=0.03), grids
    assert "image" not in flops


def test_flops_of_images_of_one_size_are_those_that_torch_counts() -> None:
    model = model_of("gemma3")
    flops = forward_flops(model.config.to_dict(), causal=True)
    with (
        torch.no_grad(),
        torch.device("meta"),
        flop_counter.FlopCounterMode(display=False) as count,
    ):
        model.model.get_image_features(torch.zeros(5, 3, 32, 32))
    found = 5 * (64 * flops["patch"] + 64**2 * flops["patch_pair"] + flops["image"])
    assert found == pytest.approx(count.get_total_flops(), rel=0.03)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_configuration_means_what_transformers_reads_in_it(name: str) -> None:
    published = PUBLISHED[name]
    read = transformers.CONFIG_MAPPING[published["model_type"]](**json.loads(json.dumps(published)))
    assert forward_flops(published, causal=False) == forward_flops(read.to_dict(), causal=False)


def test_window_that_starts_at_a_layer_is_that_of_transformers() -> None:
    published = PUBLISHED["qwen 2.5 7B"] | {"use_sliding_window": True, "max_window_layers": 20}
    read = transformers.Qwen2Config(**published).to_dict()
    flops = forward_flops(published, causal=False)
    assert flops == forward_flops(read, causal=False)
    assert math.isclose(flops["window_pair"] / flops["pair"], 8 / 20)
