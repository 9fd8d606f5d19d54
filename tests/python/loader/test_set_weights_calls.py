"""Where calls of ``set_weights`` take effect, what they refuse, and states that do not fit."""

import json
import pickle
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from test_set_weights import (
    EPOCH_ROWS,
    QUARTERS,
    content,
    loader_of,
    mixture_of,
    named,
    write_sources,
)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_sources(tmp_path_factory.mktemp("sources"))


def rows_loader(sources: dict[str, str], weights: Any = QUARTERS[0], **options: Any) -> sm.Loader:
    return loader_of(mixture_of(sources, weights), "rows", batch_size=14, **options)


def counts(batches: Any) -> list[int]:
    """Rows of each source in these batches."""
    found = Counter(row // 1000 for batch in batches for row in batch["id"].tolist())
    return [found[source] for source in range(3)]


def test_weights_apply_from_the_first_epoch_of_which_no_batch_was_delivered(
    sources: dict[str, str],
) -> None:
    loader = rows_loader(sources)
    assert loader.set_weights(named([0, 0, 1])) == 0
    assert counts(loader) == [0, 0, 56]
    assert loader.set_weights(named([1, 0, 1])) == EPOCH_ROWS
    assert loader.set_weights(named([0, 3, 1])) == EPOCH_ROWS
    batches = iter(loader)
    first = next(batches)
    assert loader.set_weights(named([1, 0, 0])) == 2 * EPOCH_ROWS
    assert counts([first, *batches]) == [0, 42, 14]
    assert counts(loader) == [56, 0, 0]
    assert loader.explain(epoch=7)["sources_of_epoch"] == {"web": 56, "code": 0, "books": 0}


def test_peeked_batch_counts_as_delivered_and_comes_again(sources: dict[str, str]) -> None:
    for kind, batch_size in (("rows", EPOCH_ROWS // 2), ("ahead", 12)):
        loader = loader_of(mixture_of(sources), kind, batch_size=batch_size)
        list(loader.steps(1))
        last_of_epoch = next(iter(loader))
        row = loader.set_weights(named([0, 1, 0]))
        assert row == EPOCH_ROWS or kind == "ahead"
        assert content(next(iter(loader))) == content(last_of_epoch)
        resumed = loader_of(mixture_of(sources), kind, batch_size=batch_size)
        resumed.load_state_dict(loader.state_dict())
        following = [content(batch) for batch in resumed.steps(9)]
        assert [content(batch) for batch in loader.steps(10)] == [
            content(last_of_epoch),
            *following,
        ]


def test_call_after_set_epoch_replaces_later_ones(sources: dict[str, str]) -> None:
    loader = rows_loader(sources)
    loader.set_epoch(6)
    assert loader.set_weights(named([0, 0, 1])) == 6 * EPOCH_ROWS
    loader.set_epoch(3)
    assert loader.set_weights(named([0, 1, 0])) == 3 * EPOCH_ROWS
    stages = loader.state_dict()["mixture"]["set_weights"]["stages"]
    assert stages == [[3, [0, 1, 0]]]
    loader.set_epoch(2)
    assert counts(loader) == [28, 14, 14]
    assert counts(loader) == [0, 56, 0]
    loader.skip(40)
    assert (loader.epoch, counts(loader)) == (14, [0, 56, 0])


def test_epochs_whose_weights_are_not_known_are_refused(sources: dict[str, str]) -> None:
    loader = rows_loader(sources)
    for epoch in range(6):
        loader.set_weights(named([1, epoch, 0]))
        assert counts(loader)[1] == round(EPOCH_ROWS * epoch / (epoch + 1))
    hint = "hint: load a state of that epoch"
    for call in (lambda: loader.set_epoch(3), lambda: loader.explain(epoch=0)):
        with pytest.raises(sm.OptionError, match=rf"weights that are not known any more.*\n{hint}"):
            call()
    loader.set_epoch(4)
    packs = loader_of(mixture_of(sources), "ahead", batch_size=6, lanes=2)
    list(packs.steps(30))
    packs.set_weights(named([1, 1, 1]))
    packs.set_epoch(2)
    with pytest.raises(
        sm.OptionError, match=r"Pack 24 of lane 0 is not known: .* the packs from 84 on"
    ):
        next(iter(packs))


def test_earlier_state_has_its_own_weights(sources: dict[str, str]) -> None:
    loader = rows_loader(sources)
    before = loader.state_dict()
    loader.set_weights(named([0, 0, 1]))
    after = json.loads(json.dumps(loader.state_dict()))
    expected = {"stages": [[0, [0, 0, 1]]], "drawn": [0, 0, 0], "known_from": 0}
    assert after["mixture"]["set_weights"] == expected
    loader.load_state_dict(before)
    assert counts(loader) == [28, 14, 14]
    loader.load_state_dict(after)
    assert counts(loader) == [0, 0, 56]


@pytest.mark.parametrize("kind", ["rows", "epoch", "ahead"])
def test_pickled_loader_has_the_weights(sources: dict[str, str], kind: str) -> None:
    loader = loader_of(mixture_of(sources), kind, batch_size=6, lanes=2)
    list(loader.steps(7))
    weights: Any = {"web": np.float32(0.1), "code": Fraction(1, 3), "books": np.int64(2)}
    loader.set_weights(weights)
    copied = pickle.loads(pickle.dumps(loader))
    assert copied.state_dict() == loader.state_dict()
    expected = [content(batch) for batch in loader.steps(20)]
    assert [content(batch) for batch in copied.steps(20)] == expected


@pytest.mark.parametrize("kind", ["rows", "epoch", "ahead"])
def test_audits_are_the_expected_ones(sources: dict[str, str], kind: str) -> None:
    loader = loader_of(mixture_of(sources), kind, batch_size=6, audit=True, tail="uneven")
    for weights in QUARTERS:
        batches = iter(loader)
        next(batches)
        loader.set_weights(named(weights))
        list(batches)
        assert loader.audit() == loader.expected_audit()
        assert loader.audit().rows > 0


def test_leaves_of_nested_mixtures_are_named(sources: dict[str, str]) -> None:
    text = sm.Mixture({"web": sources["web"], "books": sources["books"]}, weights=[3, 1])
    mixture = sm.Mixture({"text": text, "code": sources["code"]}, weights=[1, 1], epoch_rows=40)
    loader = loader_of(mixture, "rows", batch_size=10)
    loader.set_weights({"text/web": 0, "text/books": 1, "code": 1})
    assert counts(loader) == [0, 20, 20]
    with pytest.raises(sm.OptionError) as raised:
        loader.set_weights({"books": 1, "text/web": 1, "code": 1})
    assert "weights names 'books', which is not a source" in str(raised.value)
    assert str(raised.value).endswith("\nhint: did you mean 'text/books'?")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"web": 1, "code": 1, "book": 1}, r"names 'book'.*\nhint: did you mean 'books'\?"),
        ({"web": 1, "code": 1}, r"no value for 'books'\nhint: 0 leaves a source out"),
        ({"web": 1, "code": -1, "books": 1}, r"weights\['code'\] must be a number of at least 0"),
        ({"web": 1, "code": float("nan"), "books": 1}, r"weights\['code'\] must be a number"),
        ({"web": 1, "code": float("inf"), "books": 1}, r"weights\['code'\] must be a number"),
        ({"web": 1, "code": True, "books": 1}, r"weights\['code'\] must be a number"),
        ({"web": 0, "code": 0, "books": 0.0}, "the weights are all 0"),
        ({"web": 1, "code": 1e-4, "books": 1}, "gives it none of the 56 rows of an epoch"),
        ([1, 1, 1], r"a weight for each source by name, not \[1, 1, 1\]\nhint: the sources are"),
        (None, "a weight for each source by name, not None"),
    ],
)
@pytest.mark.parametrize("kind", ["rows", "ahead"])
def test_invalid_weights_are_refused_and_change_nothing(
    sources: dict[str, str], kind: str, weights: Any, message: str
) -> None:
    loader = loader_of(mixture_of(sources), kind, batch_size=4)
    before = loader.state_dict()
    with pytest.raises(sm.OptionError, match=message):
        loader.set_weights(weights)
    assert loader.state_dict() == before


def test_mixtures_without_weights_that_can_be_set_are_refused(sources: dict[str, str]) -> None:
    stages = [(0, [1, 1, 1]), (99, [1, 0, 1])]
    for options, name in (
        ({"repeat": 2}, "no weights"),
        ({"choose": [9, 9, 9]}, "no weights"),
        ({}, "no weights"),
        ({"weights": stages, "interpolate": "linear"}, 'interpolate="linear"'),
    ):
        loader = loader_of(sm.Mixture(sources, **options), "rows", batch_size=4)  # type: ignore[arg-type]
        with pytest.raises(sm.OptionError, match=f"this one has {name}\nhint: .* weights="):
            loader.set_weights(named([1, 1, 1]))
    with pytest.raises(sm.OptionError, match="this loader has a single data set\nhint: "):
        loader_of(sources["web"], "rows", batch_size=4).set_weights({"web": 1})
    loader = loader_of(mixture_of(sources, stages), "rows", batch_size=14)
    assert loader.set_weights(named([0, 0, 1])) == 0
    assert counts(loader) == [0, 0, 56]


def test_source_that_was_not_drawn_passes_the_checks_of_the_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [0, 1], "tokens": [[1], [2]]}), tmp_path / "web.parquet")
    pq.write_table(pa.table({"id": pa.array([None], pa.int64())}), tmp_path / "code.parquet")
    empty = sm.Dataset(str(tmp_path / "web.parquet"), filter=sm.col("id") > 5)
    parts = {"web": str(tmp_path / "web.parquet"), "code": str(tmp_path / "code.parquet")}
    mixture = sm.Mixture({**parts, "books": empty}, weights=[1, 0, 0], epoch_rows=8)
    rows = loader_of(mixture, "rows", batch_size=4)
    with pytest.raises(sm.OptionError, match="source 'books' has no rows"):
        rows.set_weights(named([1, 0, 1]))
    with pytest.raises(sm.MissingColumnError, match="has no column 'tokens'"):
        loader_of(mixture, "epoch", batch_size=1).set_weights(named([1, 1, 0]))
    both = sm.Mixture(parts, weights=[1, 0], epoch_rows=8)
    with pytest.raises(ValueError, match="null"):
        loader_of(both, "rows", batch_size=4).set_weights(named([1, 1]))


def test_state_of_other_given_weights_is_refused_with_a_hint(sources: dict[str, str]) -> None:
    loader = rows_loader(sources)
    loader.set_weights(named(QUARTERS[1]))
    with pytest.raises(sm.CheckpointMismatchError, match=r"weights=.*\nhint: .*set_weights\(\)"):
        rows_loader(sources, QUARTERS[1]).load_state_dict(loader.state_dict())


@pytest.mark.parametrize("kind", ["rows", "ahead"])
def test_damaged_weights_of_a_state_are_refused(sources: dict[str, str], kind: str) -> None:
    loader = loader_of(mixture_of(sources), kind, batch_size=6, lanes=2)
    list(loader.steps(13))
    loader.set_weights(named([1, 1, 0]))
    state = loader.state_dict()
    good = state["mixture"]["set_weights"]
    start, weights = good["stages"][0]
    damaged: list[Any] = [
        7,
        {},
        {**good, "stages": []},
        {**good, "stages": [[start, weights[:2]]]},
        {**good, "stages": [[start, [0, 0, 0]]]},
        {**good, "stages": [[start, ["1", 1, 1]]]},
        {**good, "stages": [[start + 1, weights]]},
        {**good, "stages": [[start, weights], [start, weights]]},
        {**good, "stages": [[-1, weights]]},
        {**good, "stages": [[2**63, weights]]},
        {**good, "stages": [[float(start), weights]]},
        {**good, "drawn": [good["drawn"][0] + 1, *good["drawn"][1:]]},
        {**good, "drawn": good["drawn"][:2]},
        {**good, "drawn": None},
        {**good, "known_from": -1},
    ]
    if kind == "ahead":
        marks = good["marks"]
        damaged += [
            {name: value for name, value in good.items() if name != "marks"},
            {**good, "marks": marks[:1]},
            {**good, "marks": [marks[0], marks[1][:3]]},
            {**good, "marks": [marks[0], [*marks[1][:3], 2**32]]},
            {**good, "marks": [marks[0], [-1, 0, 0, 0]]},
        ]
    other = loader_of(mixture_of(sources), kind, batch_size=6)
    for value in damaged:
        with pytest.raises(sm.CheckpointMismatchError, match="damaged: set_weights is"):
            other.load_state_dict({**state, "mixture": {**state["mixture"], "set_weights": value}})
    other.load_state_dict(state)


def test_endless_lanes_of_several_ranks_require_a_process_group(sources: dict[str, str]) -> None:
    options: dict[str, Any] = {"batch_size": 3, "rank": 1, "world_size": 2}
    loader = loader_of(mixture_of(sources), "ahead", **options)
    with pytest.raises(sm.OptionError, match=r"on 2 ranks requires a process group.*\nhint: call"):
        loader.set_weights(named([1, 1, 1]))
    with pytest.raises(sm.OptionError, match="group must be a process group"):
        loader.set_weights(named([1, 1, 1]), group=3)
    assert loader_of(mixture_of(sources), "epoch", **options).set_weights(named([1, 1, 1])) == 0


def test_batches_of_worker_processes_are_refused(sources: dict[str, str]) -> None:
    pytest.importorskip("torch")
    from shardmill.integrations.torch import BatchDataset
    from torch.utils.data import DataLoader

    loader = loader_of(mixture_of(sources), "rows", batch_size=14, output="torch")
    batches = DataLoader(BatchDataset(loader), batch_size=None, num_workers=1)
    assert counts(batches) == [28, 14, 14]
    with pytest.raises(sm.OptionError, match="does not reach worker processes"):
        loader.set_weights(named([1, 1, 1]))
    loader = loader_of(mixture_of(sources), "rows", batch_size=14, output="torch")
    dataset = BatchDataset(loader)
    loader.set_weights(named([1, 0, 0]))
    assert counts(DataLoader(dataset, batch_size=None)) == [56, 0, 0]
    with pytest.raises(sm.OptionError, match="worker processes do not support"):
        next(iter(DataLoader(dataset, batch_size=None, num_workers=1)))
