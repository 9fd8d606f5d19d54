"""The work of a pack: that of a model for its tokens, documents and images."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from shardmill._option_values import flag, whole
from shardmill.errors import OptionError
from shardmill.load._cost_fit import fitted
from shardmill.load._model_cost import forward_flops

if TYPE_CHECKING:
    import numpy.typing as npt

#: The coefficients, which are also the names of the terms.
TERMS = ("token", "pair", "window_pair", "patch", "patch_pair", "image")

#: Bits of the smallest coefficient as an integer; a coefficient is rounded to as many, or more.
_FRACTION_BITS = 16

#: The largest coefficient over the smallest. With ``_FRACTION_BITS``, a pack of 2^18 tokens fits in
#: 64 bits.
_WIDEST = 2**28


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The work of a pack, for ordering packs so that all ranks have equal work at each step.

    The cost of a pack is ::

        token * n + pair * sum(l**2) + window_pair * sum(l * min(l, window))
            + patch * sum(p) + patch_pair * sum(p**2) + image * images

    where ``n`` is the length of the pack, ``l`` the number of tokens of each of its documents and
    ``p`` the number of patches of each of its images. Only ratios matter, so the unit is arbitrary.
    Costs of packs are compared as integers. Coefficients are rounded for this, with a relative
    error of at most 2^-17.

    Attributes:
        token: cost of a token in linear layers, and in everything else that grows with the number
            of tokens.
        pair: cost of a pair of tokens of one document, in layers with full attention. A causal
            model computes half of the ``l**2`` pairs, so this is half the cost of each pair that it
            computes.
        window_pair: cost of such a pair in layers with a sliding window.
        window: number of tokens after which the pairs of a token no longer grow. For a causal
            window of ``w`` tokens, set it to ``2 * w``, with half the cost of a pair as for
            ``pair``: long documents have ``l * w`` pairs, and short ones ``l**2 / 2``.
        patch: cost of a patch of an image.
        patch_pair: cost of a pair of patches of one image. For the order of packs, the images of a
            document count as equally large.
        image: cost of an image, whatever its size.
        count_padding: whether the model computes the padding of a pack. ``n`` is then the full
            length of the pack, and the padding is one more document, as in ``Packing.cu_seqlens``.
            Otherwise, ``n`` is the number of tokens of documents.

    Raises:
        ValueError: If a coefficient is negative or not finite, all are 0, the smallest is less than
            2^-28 times the largest, or only one of ``window`` and ``window_pair`` is given.

    Examples:
        A model of width 4,096, in which a token costs as much as 49,152 pairs:

        >>> import shardmill as sm
        >>> cost = sm.Cost(pair=1 / (12 * 4096))
        >>> cost.token, cost.window
        (1.0, None)
    """

    token: float = 1
    pair: float = 0
    window_pair: float = 0
    window: int | None = None
    patch: float = 0
    patch_pair: float = 0
    image: float = 0
    count_padding: bool = True

    def __post_init__(self) -> None:
        for name in TERMS:
            object.__setattr__(self, name, _coefficient(name, getattr(self, name)))
        if self.window is not None:
            object.__setattr__(self, "window", whole("window", self.window, 1))
        flag("count_padding", self.count_padding)
        if self.window is not None and not self.window_pair:
            raise OptionError(
                f"window={self.window} has no effect while window_pair is 0\n"
                "hint: set window_pair, or omit window"
            )
        if self.window is None and self.window_pair:
            raise OptionError(
                f"window_pair={self.window_pair} requires window\n"
                "hint: set window to the tokens of a window, or use pair for full attention"
            )
        positive = [value for value in _coefficients(self).values() if value]
        if not positive:
            raise OptionError(
                f"{', '.join(TERMS)} of a Cost are all 0\nhint: Cost() counts tokens alone"
            )
        if max(positive) / _WIDEST > min(positive):
            raise OptionError(
                f"the coefficients of a Cost are from {min(positive)} to {max(positive)}, and a "
                f"factor of at most 2^28 can be represented\nhint: set the smallest to 0"
            )

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any] | str | os.PathLike[str], causal: bool = True
    ) -> Cost:
        """Return the cost of the packs of a model, in units of the FLOPs of a token.

        A token costs two FLOPs for each weight of the matrices that it passes through, including
        its experts, the router and the output layer. A pair of tokens costs four FLOPs for each
        unit of width in attention. Norms, activations, rotary embeddings and the loss are left out.
        The ratios also hold for training, because the backward pass has twice the FLOPs of each
        term. Kernels run attention and matrix multiplication at different rates, so ``fit`` is more
        precise.

        Supported models are DeepSeek V2 and V3, Gemma 1 to 3, GPT-2, GPT-NeoX, gpt-oss, Granite,
        Llama, Mistral, Mixtral, OLMo 1 to 3, Phi 1 to 4, Qwen 2 and 3 with their MoE and VL
        variants, SmolLM3 and StarCoder 2, as implemented in transformers. Patches are those of the
        vision tower, before they are merged.

        Args:
            config: the path of a ``config.json`` or of its directory, or its content.
            causal: whether attention computes only the pairs below the diagonal, as causal kernels
                do. This halves the cost of attention in causal layers; for a causal window, see
                ``window``.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the architecture is unknown, or a number is missing or not valid.

        Examples:
            >>> import shardmill as sm
            >>> llama_7b = {
            ...     "model_type": "llama",
            ...     "hidden_size": 4096,
            ...     "intermediate_size": 11008,
            ...     "num_hidden_layers": 32,
            ...     "num_attention_heads": 32,
            ...     "vocab_size": 32000,
            ... }
            >>> cost = sm.Cost.from_config(llama_7b)
            >>> cost.token, round(1 / cost.pair)
            (1.0, 50408)
        """
        flops = dict(forward_flops(config, causal=flag("causal", causal)))
        window = flops.pop("window", None)
        window = None if window is None else int(window)
        return cls(**_relative(flops), window=window, count_padding=True)

    @classmethod
    def fit(
        cls,
        terms: Sequence[Mapping[str, float]] | Mapping[str, npt.ArrayLike],
        seconds: npt.ArrayLike,
        *,
        window: int | None = None,
        count_padding: bool = True,
    ) -> Cost:
        """Return the cost that best fits measured steps, in units of the time of a token.

        The non-negative coefficients and a constant per step are fitted by least squares. A term
        that has the same value at all steps, such as the tokens of equally long packs, cannot be
        distinguished from the constant, and replaces it.

        Args:
            terms: the sums over the packs of a step and rank: a dict for each step, or one dict
                with the values of all steps. Keys are ``"token"`` (``n``), ``"pair"``
                (``sum(l**2)``), ``"window_pair"`` (``sum(l * min(l, window))``), ``"patch"``
                (``sum(p)``), ``"patch_pair"`` (``sum(p**2)``) and ``"image"`` (the number of
                images). Terms that are left out have the coefficient 0.
            seconds: duration of each step on that rank, without the time it waits for other ranks.
                Synchronize the device before you read the clock, and leave out the first steps.
            window: the window with which ``"window_pair"`` was counted.
            count_padding: whether padding was counted.

        Raises:
            ValueError: If the steps do not determine the coefficients, because there are too few,
                terms are proportional to each other, or the seconds do not grow with any term.

        Examples:
            A step takes 0.1 s, plus 2 s per million tokens and 50 s per billion pairs:

            >>> import shardmill as sm
            >>> terms = {"token": [4096, 8192, 8192], "pair": [1e6, 1e7, 6e7]}
            >>> seconds = [0.1 + 2e-6 * n + 5e-8 * pairs for n, pairs in zip(*terms.values())]
            >>> round(1 / sm.Cost.fit(terms, seconds).pair)
            40
        """
        found = fitted(terms, seconds, TERMS)
        return cls(
            **_relative(found),
            # A term that explains nothing has no window either.
            window=None if found.get("window_pair") == 0 else window,
            count_padding=count_padding,
        )


def unit_of(cost: Cost) -> float:
    """Return the cost that corresponds to the integer 1 when packs are compared."""
    return math.ldexp(1.0, -_shift(cost))


def units_of(cost: Cost) -> dict[str, int | bool | None]:
    """Return the options of a cost, with coefficients as integers of ``unit_of(cost)``."""
    shift = _shift(cost)
    units = {name: round(math.ldexp(value, shift)) for name, value in _coefficients(cost).items()}
    return {**units, "window": cost.window, "count_padding": cost.count_padding}


def _shift(cost: Cost) -> int:
    """Return the power of two by which coefficients are multiplied."""
    # A power of two keeps their digits, so all machines round alike.
    smallest = min(value for value in _coefficients(cost).values() if value)
    return _FRACTION_BITS + 1 - math.frexp(smallest)[1]


def _coefficients(cost: Cost) -> dict[str, float]:
    return {name: getattr(cost, name) for name in TERMS}


def _relative(costs: Mapping[str, float]) -> dict[str, float]:
    """Return the coefficients relative to ``token``, or to the largest one if ``token`` is 0."""
    unit = costs.get("token") or max(costs.values())
    return {"token": 0.0} | {name: value / unit for name, value in costs.items()}


def _coefficient(name: str, value: Any) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        number = float(value) if is_number else -1.0
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise OptionError(
            f"{name} of a Cost must be a finite number of at least 0, not {value!r}"
            "\nhint: only ratios matter, so a token may cost 1"
        )
    return number
