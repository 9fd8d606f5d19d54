"""The options of a cost, and their integers, by which packs are compared."""

import json
import math
import pickle
from dataclasses import FrozenInstanceError, asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import in_one
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_cost import pack_cost
from shardmill.load._cost import TERMS, unit_of, units_of

LENGTH = 2**17
#: A busy machine does not fail a test.
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
COEFFICIENTS = st.one_of(st.just(0.0), st.floats(2.0**-14, 2.0**14))


@st.composite
def costs(draw: st.DrawFn) -> sm.Cost:
    values = {name: draw(COEFFICIENTS) for name in TERMS}
    values["pair"] = values["pair"] or draw(st.floats(2.0**-14, 2.0**14))
    window = draw(st.integers(1, LENGTH)) if values["window_pair"] else None
    return sm.Cost(**values, window=window, count_padding=draw(st.booleans()))


@st.composite
def packs(draw: st.DrawFn) -> dict[str, list[int]]:
    ends = sorted(draw(st.sets(st.integers(1, LENGTH), min_size=1, max_size=20)))
    documents = [end - start for start, end in zip([0, *ends], ends)]
    return {"documents": documents, "patches": draw(st.lists(st.integers(1, 10**4), max_size=5))}


@SETTINGS
@given(costs(), packs())
def test_integers_of_a_cost_differ_from_it_by_less_than_their_last_bit(
    cost: sm.Cost, pack: dict[str, list[int]]
) -> None:
    exact = {
        name: Fraction(value) if isinstance(value, float) else value
        for name, value in asdict(cost).items()
    }
    expected = pack_cost(exact, length=LENGTH, **pack)
    found = pack_cost(units_of(cost), length=LENGTH, **pack)
    assert isinstance(found, int)
    assert abs(found * Fraction(unit_of(cost)) - expected) <= expected / 2**17


@SETTINGS
@given(costs(), st.integers(-900, 900))
def test_unit_of_a_cost_is_free(cost: sm.Cost, power: int) -> None:
    scaled = replace(cost, **{name: math.ldexp(getattr(cost, name), power) for name in TERMS})
    assert units_of(scaled) == units_of(cost)
    assert unit_of(scaled) == math.ldexp(unit_of(cost), power)


def test_no_positive_coefficient_is_lost_and_a_pack_of_256k_tokens_fits_in_64_bits() -> None:
    for cost in (sm.Cost(pair=2**-28), sm.Cost(pair=1 / (12 * 4096)), sm.Cost(token=3e300)):
        units = units_of(cost)
        assert all((units[name] > 0) == (getattr(cost, name) > 0) for name in TERMS)
        assert pack_cost(units, [2**18], length=2**18) < 2**64
    with pytest.raises(sm.OptionError, match=r"at most 2\^28"):
        sm.Cost(pair=math.nextafter(2**-28, 0))


def test_terms_of_a_pack_are_those_of_its_bounds_for_attention(tmp_path) -> None:
    rows = [[1] * 3, [2] * 2, [3] * 4]
    pq.write_table(pa.table({"tokens": rows}), tmp_path / "a.parquet")
    packing = sm.Packing("tokens", length=5)
    loader = sm.Loader(
        tmp_path / "a.parquet", packing=packing, batch_size=2, output="numpy", rank=0, world_size=1
    )
    batch = next(iter(loader))
    pairs = sum(np.diff(packing.cu_seqlens(batch)).astype(int) ** 2)
    documents = batch["document_lengths"].tolist()
    cost = units_of(sm.Cost(token=0, pair=1))
    unit = cost["pair"]
    assert sum(pack_cost(cost, pack, length=5) for pack in documents) == unit * pairs
    cost["count_padding"] = False
    assert sum(pack_cost(cost, pack, length=5) for pack in documents) == unit * (pairs - 1)


def test_options_are_plain_numbers_that_nothing_changes() -> None:
    cost = sm.Cost(token=np.float32(2), pair=1, window_pair=np.int64(1), window=np.int64(4096))
    assert json.loads(json.dumps(asdict(cost))) == asdict(cost)
    assert pickle.loads(pickle.dumps(cost)) == cost == sm.Cost(**asdict(cost))
    assert sm.Cost() == sm.Cost(token=1, pair=0, window=None, count_padding=True)
    with pytest.raises(FrozenInstanceError):
        cost.token = 3  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        sm.Cost(1)  # pyright: ignore[reportCallIssue]


@in_one("name", TERMS)
@in_one("value", [-1, -1e-9, math.nan, math.inf, 10**400, True, "1", None, 1j])
def test_coefficient_that_is_not_a_finite_number_of_at_least_0_is_refused(
    name: str, value: Any
) -> None:
    with pytest.raises(sm.OptionError, match=f"{name} of a Cost must be a finite number of at"):
        sm.Cost(**{name: value})


@in_one(
    "options, message",
    [
        ({"token": 0}, "are all 0"),
        ({"window": 4096}, "window=4096 has no effect while window_pair is 0"),
        ({"window_pair": 0.5}, "window_pair=0.5 requires window"),
        ({"window_pair": 0.5, "window": 0}, "window must be an integer of at least 1, not 0"),
        ({"window_pair": 0.5, "window": 2.5}, "window must be an integer"),
        ({"window_pair": 0.5, "window": True}, "window must be an integer"),
        ({"count_padding": 1}, "count_padding must be True or False, not 1"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: Any, message: str) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.Cost(**options)
