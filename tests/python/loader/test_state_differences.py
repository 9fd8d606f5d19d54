"""The error for a state that does not fit names only what differs."""

from __future__ import annotations

import pytest
import shardmill as sm
from row_files import numpy_loader, write_files
from shardmill.load._differences import difference


def test_only_the_parts_that_differ_are_shown():
    same = [f"source-{number}" for number in range(50)]
    long = "a" * 200
    cases = {
        ("seed", 1, 2): ("seed=1", "seed=2"),
        ("filter", None, "x > 1"): ("filter=None", "filter='x > 1'"),
        ("text", f"{long}1{long}", f"{long}2{long}"): (
            f"text=…'{'a' * 12}1{'a' * 39}'…",
            f"text=…'{'a' * 12}2{'a' * 39}'…",
        ),
    }
    for (name, saved, current), (old, new) in cases.items():
        assert (
            difference(name, saved, current)
            == f"the state was saved with {old}, this loader has {new}"
        )
    told = difference("sources", same, [*same[:7], "other", *same[8:]], of="a mixture of ")
    expected = "a mixture of sources={7: 'source-7'}, this loader has sources={7: 'other'}"
    assert told == f"the state was saved with {expected}"
    told = difference("weights", [[0, [0.5, 0.5]]], [[0, [0.25, 0.75]], [8, [1, 0]]])
    assert "{0: {1: {0: 0.5, 1: 0.5}}, 1: None}" in told
    assert "{0: {1: {0: 0.25, 1: 0.75}}, 1: [8, [1, 0]]}" in told


def test_states_of_long_filters_and_of_packs_say_what_differs(tmp_path):
    path = write_files(tmp_path, [20])
    names = sm.col("text").is_in([f"row {row}" for row in range(30)])

    def loader(bound: int) -> sm.Loader:
        return numpy_loader(path, filter=names & (sm.col("id") < bound))

    with pytest.raises(sm.CheckpointMismatchError) as raised:
        loader(18).load_state_dict(loader(17).state_dict())
    assert len(str(raised.value)) < 300
    assert "17" in str(raised.value)
    assert "18" in str(raised.value)
