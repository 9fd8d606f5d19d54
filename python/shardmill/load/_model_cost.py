"""FLOPs of a model, from the ``config.json`` that Hugging Face stores with its weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from shardmill._option_values import index_of
from shardmill.errors import FormatError, NotFoundError, OptionError


class _Family(NamedTuple):
    """What determines the FLOPs but is not in the file. The defaults are those of Llama."""

    #: Matrices of a feed-forward layer: three if it has a gate.
    matrices: int = 3
    #: The layers with a sliding window if there are no ``layer_types``: ``None`` means none, a
    #: number n all except every n-th (0: all), ``"last"`` those from ``max_window_layers`` on, and
    #: ``"stated"`` that ``layer_types`` are needed.
    sliding: int | str | None = None
    #: The key with the number of experts, and that with the width of one.
    experts: str | None = None
    width: str = "moe_intermediate_size"
    #: The key with the size of the experts that every token passes.
    shared: str | None = None
    #: Whether attention is latent, as in DeepSeek V2.
    is_latent: bool = False
    #: The defaults of transformers for keys that published files lack.
    defaults: Mapping[str, Any] = {}


_DENSE = _Family()
_UNGATED = _Family(matrices=2)
_OPTIONAL_WINDOW = {"use_sliding_window": False}
_QWEN = _Family(sliding="last", defaults=_OPTIONAL_WINDOW)
_GEMMA = {"head_dim": 256, "sliding_window": 4096}
_GEMMA_3 = {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262_208}
_LATENT = _Family(experts="n_routed_experts", shared="n_shared_experts", is_latent=True)

#: By ``model_type``, without the suffix of the text part of a multimodal model.
_FAMILIES = {
    **dict.fromkeys(("granite", "llama", "olmo", "olmo2", "qwen3_vl"), _DENSE),
    **dict.fromkeys(("gpt2", "gpt_neox", "phi"), _UNGATED),
    **dict.fromkeys(("mistral", "phi3"), _Family(sliding=0)),
    **dict.fromkeys(("qwen2", "qwen2_5_vl", "qwen2_vl"), _QWEN),
    "qwen3": _QWEN._replace(defaults={"head_dim": 128, **_OPTIONAL_WINDOW}),
    "smollm3": _Family(sliding="stated", defaults=_OPTIONAL_WINDOW),
    "starcoder2": _Family(matrices=2, sliding=0),
    "olmo3": _Family(sliding=4, defaults={"sliding_window": 4096}),
    "gemma": _Family(defaults=_GEMMA),
    "gemma2": _Family(sliding=2, defaults=_GEMMA),
    "gemma3": _Family(sliding=6, defaults=_GEMMA | _GEMMA_3),
    "mixtral": _Family(sliding=0, experts="num_local_experts", width="intermediate_size"),
    "gpt_oss": _Family(
        sliding=2,
        experts="num_local_experts",
        width="intermediate_size",
        defaults={"head_dim": 64, "sliding_window": 128},
    ),
    "qwen2_moe": _Family(
        sliding="stated",
        experts="num_experts",
        shared="shared_expert_intermediate_size",
        defaults=_OPTIONAL_WINDOW,
    ),
    "qwen3_moe": _Family(
        sliding=0, experts="num_experts", defaults={"head_dim": 128, **_OPTIONAL_WINDOW}
    ),
    "qwen3_vl_moe": _Family(experts="num_experts"),
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT._replace(defaults={"first_k_dense_replace": 3}),
}

#: Other names of keys.
_ALIASES = {
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "num_attention_heads": "n_head",
    "num_experts": "num_local_experts",
    "num_hidden_layers": "n_layer",
}


class _Section:
    """A configuration or a part of it, and its name in error messages."""

    def __init__(self, values: Any, where: str, defaults: Mapping[str, Any] = {}) -> None:
        if not isinstance(values, Mapping):
            raise OptionError(f"{where} must be an object, not {values!r}")
        self.values, self.where, self.defaults = values, where, defaults

    def part(self, key: str) -> _Section:
        return _Section(self.values[key], f"{key} of {self.where}")

    def get(self, key: str) -> Any:
        """Return a value, or ``None`` if it is missing or null."""
        for name in (key, _ALIASES.get(key, key)):
            if (value := self.values.get(name)) is not None:
                return value
        return self.defaults.get(key)

    def number(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        value = self.get(key)
        if value is None:
            return self.lacks(key) if default is None else default
        number = index_of(value)
        if number is None or not least <= number < 2**32:
            raise OptionError(
                f"{key} of {self.where} must be an integer of at least {least}, not {value!r}"
            )
        return number

    def indices(self, key: str, default: Sequence[int] | None = None) -> Sequence[int]:
        values = self.get(key)
        if values is None:
            return self.lacks(key) if default is None else default
        if not isinstance(values, list | tuple) or None in map(index_of, values):
            raise OptionError(f"{key} of {self.where} must be a list of integers, not {values!r}")
        return values

    def lacks(self, key: str) -> NoReturn:
        raise OptionError(
            f"{self.where} has no {key}, which the cost of its model depends on\n"
            "hint: add it, or pass the FLOPs themselves: sm.Cost(token=…, pair=…)"
        )


def forward_flops(
    config: Mapping[str, Any] | str | os.PathLike[str], *, causal: bool
) -> dict[str, float]:
    """Return the FLOPs of a forward pass, by coefficient of a cost, and its ``window`` if any.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not valid, the architecture is unknown or a number is missing.
    """
    whole = _read(config)
    text = whole if whole.get("text_config") is None else whole.part("text_config")
    kind = _kind(text, whole)
    if kind not in _FAMILIES:
        raise OptionError(
            f"{text.where} has the model_type {kind!r}, which Cost.from_config does not know\n"
            "hint: pass the FLOPs of a token in linear layers and of a pair of tokens in "
            f"attention: sm.Cost(token=…, pair=…); known are {', '.join(sorted(_FAMILIES))}"
        )
    text.defaults = _FAMILIES[kind].defaults
    flops = _text_flops(text, _FAMILIES[kind], causal=causal)
    if whole.get("vision_config") is not None:
        flops |= _vision_flops(whole.part("vision_config"), whole, text)
    return flops


def _read(config: Any) -> _Section:
    if isinstance(config, Mapping):
        return _Section(config, "the configuration")
    if not isinstance(config, str | os.PathLike):
        raise OptionError(
            "a configuration must be a dict, or the path of config.json or its directory, not "
            f"{config!r}\nhint: of a model of transformers, pass model.config.to_dict()"
        )
    path = Path(config)
    path = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"No file at `{path}`\n"
            "hint: check the path, or download the file first: hf download REPOSITORY config.json "
            "--local-dir DIR, and pass DIR"
        ) from None
    except ValueError as error:
        raise FormatError(
            f"`{path}` is not valid JSON: {error}\nhint: pass a config.json or its directory"
        ) from error
    return _Section(values, f"`{path}`")


def _kind(part: _Section, whole: _Section) -> str:
    kind = part.get("model_type") or whole.get("model_type")
    if kind is None:
        part.lacks("model_type")
    return str(kind).removesuffix("_text").removesuffix("_vision")


def _text_flops(text: _Section, family: _Family, *, causal: bool) -> dict[str, float]:
    hidden, layers = text.number("hidden_size"), text.number("num_hidden_layers")
    weights, pair = (_latent_attention if family.is_latent else _attention)(text, hidden)
    weights = layers * weights + _feed_forward_weights(text, family, hidden, layers)
    token = 2 * (weights + hidden * text.number("vocab_size"))
    sliding = _sliding_layers(text, family, layers)
    is_causal = causal and text.get("use_bidirectional_attention") is not True
    pair /= 1 + is_causal
    flops = {"token": token, "pair": pair * (layers - sliding)}
    if sliding:
        # A causal window of w is l²/2 pairs of a short document and l·w of a long one, which is
        # half of l·min(l, 2w).
        window = text.number("sliding_window") * (1 + is_causal)
        flops |= {"window_pair": pair * sliding, "window": window}
    return flops


def _attention(text: _Section, hidden: int) -> tuple[int, float]:
    """Return the weights of the projections of a layer, and the FLOPs of a pair of tokens."""
    heads = text.number("num_attention_heads")
    shared = text.number("num_key_value_heads", heads)
    size = text.number("head_dim", hidden // heads)
    if heads % shared or not (size * heads == hidden or text.get("head_dim")):
        raise OptionError(
            f"the {heads} heads of {text.where} must be a multiple of its {shared} "
            f"key/value heads, and divide its width of {hidden} unless it has head_dim\n"
            "hint: compare num_attention_heads, num_key_value_heads and hidden_size with the model"
        )
    return 2 * hidden * size * (heads + shared), 4 * heads * size


def _latent_attention(text: _Section, hidden: int) -> tuple[int, float]:
    """Return what ``_attention`` returns; DeepSeek-V2 (arXiv:2405.04434), section 2.1."""
    names = ("num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    heads, plain, rotary, value = map(text.number, names)
    latent, query = text.number("kv_lora_rank"), heads * (plain + rotary)
    rank = text.number("q_lora_rank", 0)
    queries = rank * (hidden + query) if rank else hidden * query
    keys_and_values = hidden * (latent + rotary) + latent * heads * (plain + value)
    weights = queries + keys_and_values + heads * value * hidden
    return weights, 2 * heads * (plain + rotary + value)


def _feed_forward_weights(text: _Section, family: _Family, hidden: int, layers: int) -> int:
    """Return the weights that a token passes through in the feed-forward layers of all blocks."""
    sparse, weights = 0, 0
    if family.experts and (experts := text.number(family.experts, least=0)):
        step = text.number("decoder_sparse_step", 1)
        first = text.number("first_k_dense_replace", 0, least=0)
        dense = text.indices("mlp_only_layers", ())
        sparse = sum(n >= first and (n + 1) % step == 0 and n not in dense for n in range(layers))
        width = text.number(family.width)
        used = text.number("num_experts_per_tok") * width
        if family.shared == "n_shared_experts":
            used += text.number(family.shared) * width
        elif family.shared:
            used += text.number(family.shared)
            # The gate of the shared expert is one row more of the router.
            experts += 1
        weights = sparse * hidden * (experts + family.matrices * used)
    if sparse < layers:
        default = 4 * hidden if "n_embd" in text.values else None
        width = text.number("intermediate_size", default)
        weights += (layers - sparse) * hidden * family.matrices * width
    return weights


def _sliding_layers(text: _Section, family: _Family, layers: int) -> int:
    types = text.get("layer_types")
    if types is not None:
        known = ("full_attention", "sliding_attention")
        if not isinstance(types, list | tuple) or len(types) != layers:
            raise OptionError(
                f"layer_types of {text.where} must be a list of {layers} names, not {types!r}"
            )
        for name in types:
            if name not in known:
                raise OptionError(
                    f"layer_types of {text.where} has {name!r}, and Cost.from_config knows "
                    f"{' and '.join(known)}\nhint: pass the FLOPs themselves: sm.Cost(token=…, …)"
                )
    if text.get("sliding_window") is None or text.get("use_sliding_window") is False:
        return 0
    if types is not None:
        return list(types).count("sliding_attention")
    if family.sliding is None:
        return 0
    if family.sliding == "stated":
        text.lacks("layer_types")
    if family.sliding == "last":
        return max(layers - text.number("max_window_layers", least=0), 0)
    every = text.number("sliding_window_pattern", int(family.sliding), least=0)
    return layers - (layers // every if every else 0)


def _vision_flops(vision: _Section, whole: _Section, text: _Section) -> dict[str, float]:
    kind = _kind(vision, whole)
    if kind == "siglip_vision_model" and _kind(whole, whole) == "gemma3":
        tokens = whole.number("mm_tokens_per_image", 256)
        projection = vision.number("hidden_size") * text.number("hidden_size")
        return {**_siglip_flops(vision), "image": 2 * tokens * projection}
    if kind in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"):
        return _qwen_flops(vision, kind)
    raise OptionError(
        f"{vision.where} has the model_type {kind!r}, which Cost.from_config does not know\n"
        "hint: remove it to get the cost of the text part, and add the FLOPs of a patch, of a pair "
        "of patches and of an image, in units of a token: dataclasses.replace(cost, patch=…, "
        "patch_pair=…, image=…)"
    )


def _siglip_flops(vision: _Section) -> dict[str, float]:
    hidden, layers = vision.number("hidden_size"), vision.number("num_hidden_layers")
    pixels = vision.number("num_channels", 3) * vision.number("patch_size") ** 2
    block = 4 * hidden + 2 * vision.number("intermediate_size")
    return {"patch": 2 * hidden * (pixels + layers * block), "patch_pair": 4 * hidden * layers}


def _qwen_flops(vision: _Section, kind: str) -> dict[str, float]:
    names = ("depth", "patch_size", "temporal_patch_size", "spatial_merge_size")
    layers, size, frames, merge = map(vision.number, names)
    if kind == "qwen2_vl":
        hidden, output = vision.number("embed_dim"), vision.number("hidden_size")
        width = hidden * vision.number("mlp_ratio")
    else:
        hidden, output = vision.number("hidden_size"), vision.number("out_hidden_size")
        width = vision.number("intermediate_size")
    pixels = vision.number("in_channels", 3) * frames * size**2
    block = 4 * hidden + (3 if kind == "qwen2_5_vl" else 2) * width
    # A merger joins merge² patches, and has a layer of their size and one to the output.
    merger = merge**2 * hidden + output
    mergers, full, windowed = 1, layers, 0
    if kind.startswith("qwen3"):
        mergers += len(vision.indices("deepstack_visual_indexes"))
    if kind == "qwen2_5_vl":
        full = sum(number in vision.indices("fullatt_block_indexes") for number in range(layers))
        side = vision.number("window_size") // size // merge * merge
        # Windows are squares of patches, so their pairs are counted by patch.
        windowed = 2 * (layers - full) * side**2
    return {
        "patch": 2 * hidden * (pixels + layers * block + mergers * merger + windowed),
        "patch_pair": 4 * hidden * full,
    }
