"""Coefficients from measured steps; the oracle of least squares is SciPy, or every active set."""

from typing import Any

import numpy as np
import pytest
import shardmill as sm
from breadth import in_one
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shardmill.load._cost import TERMS
from shardmill.load._cost_fit import fitted

STEPS = 40
#: A busy machine does not fail a test.
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def measured(seed: int, names: tuple[str, ...] = ("token", "pair", "patch")) -> dict[str, Any]:
    """Terms of steps whose packs differ in tokens, documents and images."""
    random = np.random.default_rng(seed)
    scale = {"token": 1e4, "pair": 1e8, "window_pair": 1e7, "patch": 1e4, "patch_pair": 1e7}
    return {name: random.uniform(0.1, 1, STEPS) * scale.get(name, 8) for name in names}


@SETTINGS
@given(st.integers(0, 2**32), st.sets(st.sampled_from(TERMS), min_size=1), st.booleans())
def test_coefficients_are_those_of_another_solver(
    seed: int, names: set[str], is_related: bool
) -> None:
    scipy = pytest.importorskip("scipy.optimize", reason="scipy is not installed")
    terms = measured(seed, tuple(names))
    random = np.random.default_rng(seed)
    # Seconds that some terms explain, with either sign, and noise: several bounds are active.
    seconds = random.uniform(0, 1, STEPS)
    for values in terms.values() if is_related else ():
        seconds += random.uniform(-0.5, 1) * values / values.max()
    seconds -= min(seconds.min(), 0)
    matrix = np.column_stack(
        [*(values / values.max() for values in terms.values()), np.ones(STEPS)]
    )
    expected, error = scipy.nnls(matrix, seconds)
    try:
        found = fitted(terms, seconds, TERMS)
    except sm.OptionError as refused:
        assert "do not grow" in str(refused)
        assert expected[:-1].max() <= 2e-6 * seconds.max()
        return
    shares = [found[name] * terms[name].max() for name in terms]
    assert min(shares) >= 0
    np.testing.assert_allclose(shares, expected[:-1], atol=2e-6 * seconds.max())
    rest = seconds - matrix[:, :-1] @ shares
    assert np.linalg.norm(rest - max(rest.mean(), 0)) <= error * (1 + 1e-6) + 1e-5


def test_exact_seconds_give_back_their_cost_beside_a_constant() -> None:
    terms = measured(1, TERMS)
    cost = sm.Cost(
        pair=3e-5, window_pair=1e-5, window=256, patch=0.5, patch_pair=2e-5, image=40, token=1
    )
    seconds = 0.2 + 1e-6 * sum(getattr(cost, name) * terms[name] for name in TERMS)
    found = sm.Cost.fit(terms, seconds, window=256)
    for name in TERMS:
        assert getattr(found, name) == pytest.approx(getattr(cost, name), rel=1e-6), name
    assert (found.window, found.count_padding) == (256, True)
    steps = [dict(zip(terms, values)) for values in zip(*terms.values())]
    assert sm.Cost.fit(steps, list(seconds), window=256, count_padding=False) == sm.Cost(
        **{name: getattr(found, name) for name in TERMS}, window=256, count_padding=False
    )


def test_term_that_never_changes_takes_the_place_of_the_constant() -> None:
    terms = {"token": [8192] * 3, "pair": [1e7, 2e7, 4e7], "patch": [0, 0, 0]}
    found = sm.Cost.fit(terms, [0.5 + 5e-8 * pairs for pairs in terms["pair"]])
    assert found.token == 1
    assert found.pair == pytest.approx(5e-8 / (0.5 / 8192))
    assert found.patch == 0


def test_term_that_explains_nothing_costs_nothing() -> None:
    terms = measured(2, ("token", "window_pair"))
    seconds = 1 + terms["token"] / 1e4 - terms["window_pair"] / 1e8
    found = sm.Cost.fit(terms, seconds, window=64)
    assert (found.token, found.window_pair, found.window) == (1, 0, None)


def test_cost_without_tokens_is_in_units_of_its_largest_coefficient() -> None:
    terms = measured(3, ("pair", "image"))
    found = sm.Cost.fit(terms, 1e-8 * terms["pair"] + 0.25 * terms["image"])
    assert (found.token, found.image) == (0, 1)
    assert found.pair == pytest.approx(4e-8)


N = [1, 2, 3, 4]
SQUARES = [1, 4, 9, 16]


@in_one(
    "terms, seconds, message",
    [
        (5, N, "terms must be a dict of terms for each step, or one dict"),
        ([], [], "terms must be a dict of terms for each step"),
        ([{"token": 1}, 5], [1, 2], "terms must be a dict of terms for each step"),
        ({"tokens": N}, N, "terms has 'tokens', and the terms of a cost are token, pair,"),
        ([{"token": 1}, {"pair": 1}], [1, 2], "step 1 of terms differs from the first in 'pair'"),
        ({"token": N}, [1, 2, 3], "token of terms has 4 values and seconds 3"),
        ({"token": 1}, N, "token of terms must be a number for each step, not 1"),
        ({"token": ["a"] * 4}, N, "token of terms must be a number for each step"),
        ({"token": [N] * 4}, N, "token of terms must be a number for each step"),
        ({"token": N}, [1, 2, float("nan"), 4], "seconds must be finite .* nan at step 2"),
        ({"token": [1, 2, -3, 4]}, N, "token of terms must be finite .* -3.0 at step 2"),
        ({"token": [1, 2, 3, float("inf")]}, N, "token of terms must be finite .* inf at step 3"),
        ({"token": [8] * 4}, N, "each term has the same value at all steps"),
        ({"token": [8] * 4, "pair": [9] * 4}, N, "each term has the same value at all steps"),
        ({"token": [0] * 4}, N, "each term has the same value at all steps"),
        ({"token": [1, 2], "pair": [1, 4]}, [1, 2], "2 steps do not determine 3 numbers: token"),
        ({"token": N, "pair": [2, 4, 6, 8]}, N, "pair cannot be distinguished from token in"),
        (
            {"token": N, "pair": [2, 3, 4, 5]},
            N,
            "a constant cannot be distinguished from token, pair in",
        ),
        (
            {"token": [8] * 4, "image": [2] * 4, "pair": N},
            N,
            "image cannot be distinguished from token",
        ),
        ({"token": N}, [4, 3, 2, 1], "the seconds do not grow with any of token"),
        ({"token": N}, [0] * 4, "the seconds do not grow with any of token"),
        ({"token": N, "window_pair": SQUARES}, SQUARES, "window_pair=.* requires window"),
    ],
)
def test_measurements_that_do_not_determine_a_cost_are_refused(
    terms: Any, seconds: Any, message: str
) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.Cost.fit(terms, seconds)


def test_window_of_steps_without_its_term_is_refused() -> None:
    with pytest.raises(sm.OptionError, match="window=64 has no effect"):
        sm.Cost.fit({"token": N}, N, window=64)
