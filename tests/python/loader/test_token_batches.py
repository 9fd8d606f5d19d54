"""Batches by length against a model that was written from the specification: on any topology and
with any interruption.
"""

import itertools
import json
import math
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from flat_options import flat_loader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_balance import order_of
from reference_batches import RowBatch, batches_of, cost_of, width_of
from reference_order import lanes_of
from reference_packing import pack_steps
from row_files import write_tables
from test_packing import write_documents

quick = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

LENGTHS = st.lists(st.one_of(st.integers(0, 9), st.integers(10, 40)), min_size=0, max_size=40)


@pytest.fixture(autouse=True)
def _dropping_everything_is_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    multiple_of = draw(st.sampled_from([1, 3, 4]))
    return {
        "tokens": draw(st.integers(multiple_of, 60)),
        "max_rows": draw(st.sampled_from([None, 1, 3])),
        "window_rows": draw(st.sampled_from([1, 5, 16, 65_536])),
        "multiple_of": multiple_of,
        "long": draw(st.sampled_from(["truncate", "drop"])),
    }


def loader_of(path: Any, rules: dict[str, Any] | sm.TokenBatches, **options: Any) -> sm.Loader:
    own = rules if isinstance(rules, sm.TokenBatches) else sm.TokenBatches("tokens", **rules)
    return flat_loader(path, packing=own, **{"output": "numpy", **options})


def rows_of(path: Any, *, epoch: int = 0, **order: Any) -> list[dict[str, Any]]:
    """The rows in the order in which a loader without packing has them."""
    plain = flat_loader(path, output="rows", lanes=1, batch_size=1000, **order)
    plain.set_epoch(epoch)
    return [row for batch in plain for row in batch]


def lanes_of_batches(
    rows: list[dict[str, Any]], rules: dict[str, Any], *, lanes: int, epoch: int = 0, seed: int = 0
) -> list[Any]:
    """The batches of each lane, with positions in all rows."""
    found = []
    for lane in lanes_of(len(rows), lanes):
        lengths = [len(rows[position]["tokens"]) for position in lane]
        start = lane[0] if lane else 0
        own = batches_of(lengths, **rules, seed=seed, epoch=epoch)
        found.append([[type(r)(r.position + start, r.length) for r in batch] for batch in own])
    return found


def check_batch(
    batch: dict[str, Any], wanted: Any, rows: list[dict[str, Any]], rules: dict[str, Any]
) -> None:
    """Compare everything in a batch with the rows that should be in it."""
    assert batch["id"].tolist() == [rows[row.position]["id"] for row in wanted]
    lengths = [row.length for row in wanted]
    assert batch["lengths"].tolist() == lengths
    assert batch["lengths"].dtype == np.int32
    width = int(width_of(max(lengths), rules["multiple_of"]))
    assert batch["tokens"].shape == (len(wanted), width)
    assert len(wanted) == 1 or batch["tokens"].size <= rules["tokens"]
    for row, tokens in zip(wanted, batch["tokens"].tolist(), strict=True):
        kept = rows[row.position]["tokens"][: int(row.length)]
        assert tokens == kept + [0] * (width - len(kept))


@quick
@given(
    lengths=LENGTHS,
    rules=rules(),
    world_size=st.sampled_from([1, 2, 3, 4]),
    lanes=st.sampled_from([1, 2, 3, 7]),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    shuffle=st.booleans(),
    filtered=st.booleans(),
    threads=st.sampled_from([0, 1, 3]),
    epoch=st.integers(0, 2),
)
def test_batches_of_every_rank_and_step_are_those_of_the_model(
    tmp_path: Path,
    lengths: list[int],
    rules: dict[str, Any],
    world_size: int,
    lanes: int,
    tail: str,
    shuffle: bool,
    filtered: bool,
    threads: int,
    epoch: int,
) -> None:
    path = write_documents(tmp_path, lengths)
    order: dict[str, Any] = {"shuffle": shuffle, "seed": 3, "shuffle_window_bytes": 200}
    if filtered:
        order["filter"] = sm.col("keep") == True  # noqa: E712
    rows = rows_of(path, epoch=epoch, **order)
    expected = lanes_of_batches(rows, rules, lanes=lanes, epoch=epoch, seed=3)
    share: dict[str, Any] = {"world_size": world_size, "tail": tail}
    steps = [step for _, step in pack_steps(expected, batch_size=1, **share)]
    of_steps = [
        sum(
            row.length
            for rank in step
            for batch, is_padded in zip(rank.packs, rank.padded, strict=True)
            for row in batch
            if not is_padded
        )
        for step in steps
    ]
    for rank in range(world_size):
        loader = loader_of(path, rules, rank=rank, lanes=lanes, threads=threads, **share, **order)
        loader.set_epoch(epoch)
        own = [(step[rank], total) for step, total in zip(steps, of_steps, strict=True)]
        own = [(wanted, total) for wanted, total in own if wanted.packs]
        assert len(loader) == len(own)
        batches = list(loader)
        for batch, (wanted, total) in zip(batches, own, strict=True):
            check_batch(batch, wanted.packs[0], rows, rules)
            tokens = 0 if any(wanted.padded) else batch["lengths"].sum()
            assert (batch["tokens_of_rank"], batch["tokens_of_step"]) == (tokens, total)
            if tail == "pad":
                assert batch["__padded"].tolist() == wanted.padded * len(wanted.packs[0])


@quick
@given(
    lengths=st.lists(st.integers(0, 30), min_size=8, max_size=40),
    rules=rules(),
    lanes=st.sampled_from([1, 2, 4]),
    sizes=st.lists(st.sampled_from([1, 2, 3, 4]), min_size=4, max_size=4),
    stops=st.lists(st.integers(0, 4), min_size=3, max_size=3),
)
def test_runs_on_other_ranks_go_on_where_one_stopped(
    tmp_path: Path,
    lengths: list[int],
    rules: dict[str, Any],
    lanes: int,
    sizes: list[int],
    stops: list[int],
) -> None:
    path = write_documents(tmp_path, lengths)
    order: dict[str, Any] = {"shuffle": True, "seed": 11, "shuffle_window_bytes": 300}
    rows = rows_of(path, **order)
    expected = lanes_of_batches(rows, rules, lanes=lanes, seed=11)
    count, consumed = sum(map(len, expected)), 0
    state: dict[str, Any] | None = None
    for world_size, stop in zip(sizes, [*stops, 10**6], strict=True):
        if consumed >= count:
            break
        share: dict[str, Any] = {"world_size": world_size, "tail": "uneven"}
        steps = list(pack_steps(expected, batch_size=1, consumed=consumed, **share))[:stop]
        states = []
        for rank in range(world_size):
            own = lanes if state is None else None
            loader = loader_of(path, rules, rank=rank, lanes=own, **share, **order)
            if state is not None:
                loader.load_state_dict(state)
            batches = loader.steps(sum(bool(step[rank].packs) for _, step in steps))
            wanted = [step[rank].packs[0] for _, step in steps if step[rank].packs]
            for batch, packs in zip(batches, wanted, strict=True):
                check_batch(batch, packs, rows, rules)
            states.append(loader.state_dict())
        consumed = steps[-1][0] if steps else consumed
        state = json.loads(json.dumps(states[0]))
        if consumed < count:
            assert all(other == state for other in states)


@quick
@given(
    lengths=st.lists(st.integers(1, 40), min_size=12, max_size=60),
    per_step=st.sampled_from([1, 2, 4]),
    within=st.sampled_from(["mixed", "alike"]),
    pair=st.sampled_from([0, 0.5]),
    lanes=st.sampled_from([1, 2, 3]),
)
def test_balanced_batches_come_in_the_order_of_the_model(
    tmp_path: Path, lengths: list[int], per_step: int, within: Any, pair: float, lanes: int
) -> None:
    path = write_documents(tmp_path, lengths)
    rules: dict[str, Any] = {"tokens": 60, "window_rows": 16, "multiple_of": 4}
    cost = {"token": 1, "pair": pair}
    balance = sm.Balance(sm.Cost(**cost), per_step=per_step, window_packs=5, within=within)
    rows = rows_of(path)
    expected: list[Any] = []
    for own in lanes_of_batches(rows, rules, lanes=lanes, seed=7):
        ordered: list[RowBatch] = []
        for window, start in enumerate(range(0, len(own), 5)):
            part = own[start : start + 5]
            costs = [cost_of(batch, multiple_of=4, **cost) for batch in part]
            options: dict[str, Any] = {"per_step": per_step, "within": within}
            order = order_of(costs, seed=7, epoch=0, window=window, **options)
            ordered += [part[place] for place in order]
        expected.append(ordered)
    loader = loader_of(path, {**rules, "balance": balance}, lanes=lanes, seed=7)
    steps = pack_steps(expected, batch_size=1, world_size=1, tail="uneven")
    for batch, (_, [wanted]) in zip(loader, steps, strict=True):
        check_batch(batch, wanted.packs[0], rows, rules)


def write_lengths(path: Path, lengths: Any) -> Path:
    """A file with lengths, and without lists."""
    pq.write_table(pa.table({"id": range(len(lengths)), "seconds": lengths}), path)
    return path


def test_ranks_have_equal_work_at_each_step_with_balance(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).lognormal(5, 1, 20_000).astype(np.int32) + 1
    path = write_lengths(tmp_path / "a.parquet", lengths)
    balance = sm.Balance(sm.Cost(pair=0.001), per_step=4, window_packs=64)
    rules = sm.TokenBatches(
        [], lengths="seconds", tokens=8192, window_rows=1024, long="drop", balance=balance
    )
    answer = loader_of(path, rules, lanes=4, world_size=4, rank=0).explain()
    assert answer["is_equal_work"]
    assert answer["balance_bytes"] > 0
    imbalance = answer["cost_imbalance"]
    lost = {order: found["before_first_end"] - 1 for order, found in imbalance.items()}
    assert 0 < lost["balanced"] < 0.7 * lost["as_packed"]


def test_the_place_of_a_batch_says_nothing_about_its_length(tmp_path: Path) -> None:
    lengths = np.random.default_rng(1).lognormal(5, 1, 60_000).astype(np.int32) + 1
    path = write_lengths(tmp_path / "a.parquet", lengths)
    rules = sm.TokenBatches([], lengths="seconds", tokens=4096, long="drop")
    means = [batch["lengths"].mean() for batch in loader_of(path, rules)]
    assert len(means) > 10 * 256
    correlations = []
    for start in range(0, len(means) - 255, 256):
        ranks = np.argsort(np.argsort(means[start : start + 256]))
        correlations.append(np.corrcoef(ranks, np.arange(256))[0, 1])
    assert abs(np.mean(correlations)) < 0.1
    # Nor does its place among all batches of a window of rows.
    ranks = np.argsort(np.argsort(means))
    assert abs(np.corrcoef(ranks, np.arange(len(means)))[0, 1]) < 0.1


def test_the_order_of_many_batches_is_that_of_the_model(tmp_path: Path) -> None:
    lengths = [number * 7 % 101 for number in range(1400)]
    path = write_lengths(tmp_path / "a.parquet", lengths)
    own = {"tokens": 101, "max_rows": 1, "window_rows": 100}
    rules = sm.TokenBatches([], lengths="seconds", multiple_of=1, **own)
    found = [batch["id"].tolist() for batch in loader_of(path, rules, seed=5)]
    expected = batches_of(lengths, **own, seed=5)
    assert found == [[row.position for row in batch] for batch in expected]


def test_little_of_a_batch_is_padding(tmp_path: Path) -> None:
    lengths = np.random.default_rng(2).lognormal(6, 1, 50_000).astype(np.int32) + 1
    path = write_lengths(tmp_path / "a.parquet", lengths)
    rules = sm.TokenBatches([], lengths="seconds", tokens=65_536, long="drop")
    answer = loader_of(path, rules).explain()
    assert 0.98 < answer["fill_rate"] < 1
    tokens, padded = answer["tokens_of_epoch"], answer["padded_tokens"]
    assert tokens == lengths.sum()
    assert answer["fill_rate"] == pytest.approx(tokens / (tokens + padded))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_rows_are_put_together_by_a_column_of_floats(tmp_path: Path, kind: str) -> None:
    seconds = np.random.default_rng(3).uniform(0, 30, 300).astype(kind)
    path = write_lengths(tmp_path / "a.parquet", seconds)
    rules = sm.TokenBatches([], lengths="seconds", tokens=60, window_rows=64)
    loader = loader_of(path, rules, lanes=2)
    expected: list[Any] = []
    for lane in lanes_of(len(seconds), 2):
        own = batches_of(seconds[lane].astype(float).tolist(), tokens=60, window_rows=64)
        expected.append([[lane[0] + row.position for row in batch] for batch in own])
    steps = pack_steps(expected, batch_size=1, world_size=1, tail="uneven")
    for batch, (_, [wanted]) in zip(loader, steps, strict=True):
        assert batch["id"].tolist() == wanted.packs[0]
        np.testing.assert_allclose(batch["lengths"], batch["seconds"], rtol=1e-6)
        assert float(batch["lengths"].max()) * len(batch["lengths"]) <= 60
        assert batch["tokens_of_step"] == pytest.approx(batch["seconds"].sum(dtype=float))
    with pytest.raises(sm.OptionError, match="multiple_of=4 counts tokens"):
        loader_of(path, sm.TokenBatches([], lengths="seconds", multiple_of=4))
    with pytest.raises(sm.OptionError, match="long='truncate' counts tokens"):
        loader_of(path, sm.TokenBatches([], lengths="seconds", long="truncate"))


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf, None])
def test_a_length_that_is_none_is_an_error_with_its_row(
    tmp_path: Path, value: float | None
) -> None:
    path = write_lengths(tmp_path / "a.parquet", [1.0, 2.0, value, 3.0])
    loader = loader_of(path, sm.TokenBatches([], lengths="seconds"))
    with pytest.raises(sm.FormatError, match=r"`seconds` says that row 2 of `.*a\.parquet` has"):
        next(iter(loader))


def test_a_row_longer_than_a_batch_is_an_error_with_its_row(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 9, 4], files=1)
    with pytest.raises(sm.FormatError, match="Row 1 of .* has the length 9, but .* at most 8"):
        next(iter(loader_of(path, {"tokens": 8})))
    path = write_lengths(tmp_path / "a.parquet", [1.5, 8.5])
    loader = loader_of(path, sm.TokenBatches([], lengths="seconds", tokens=8))
    with pytest.raises(sm.FormatError, match="Row 1 of .* has the length 8.5"):
        next(iter(loader))


def test_lists_of_a_row_must_be_equally_long(tmp_path: Path) -> None:
    table = pa.table({"tokens": [[1, 2], [3]], "labels": [[1, 2], [3, 4]]})
    path = write_tables(tmp_path, [table])
    loader = loader_of(path, sm.TokenBatches(["tokens", "labels"]))
    with pytest.raises(sm.FormatError, match="`labels` has 2 tokens in row 1 of .* expected 1"):
        next(iter(loader))


def test_a_stated_length_lets_lists_be_of_any_length(tmp_path: Path) -> None:
    table = pa.table(
        {
            "frames": [[0.5] * 4, [1.5] * 2, [2.5] * 3],
            "text": [[1], [2, 3, 4], [5, 6]],
            "lengths": [4, 2, 3],
        }
    )
    path = write_tables(tmp_path, [table])
    rules = sm.TokenBatches(
        ["frames", "text"], lengths="lengths", multiple_of=2, pad_value={"text": -1}
    )
    [batch] = loader_of(path, rules)
    assert batch["frames"].tolist() == [[0.5] * 4, [1.5, 1.5, 0, 0], [2.5] * 3 + [0]]
    assert batch["text"].tolist() == [[1, -1, -1, -1], [2, 3, 4, -1], [5, 6, -1, -1]]
    assert batch["lengths"].tolist() == batch["frames__length"].tolist() == [4, 2, 3]
    assert batch["text__length"].tolist() == [1, 3, 2]
    assert (batch["tokens_of_rank"], batch["tokens_of_step"]) == (9, 9)


def test_other_columns_are_delivered_as_without_packing(tmp_path: Path) -> None:
    table = pa.table(
        {
            "tokens": [[1, 2], [3]],
            "name": ["a", None],
            "raw": [[1], [2, 3]],
            "embedding": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
            "mel": pa.array([[[1, 2]], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.int8(), 2))),
            "part": [{"x": 1}, {"x": 2}],
        }
    )
    path = write_tables(tmp_path, [table])
    [batch] = loader_of(path, {"multiple_of": 1})
    assert list(batch) == [*table.column_names, "lengths", "tokens_of_rank", "tokens_of_step"]
    assert batch["name"].tolist() == ["a", None]
    assert isinstance(batch["raw"], sm.Ragged)
    assert batch["raw"].offsets.tolist() == [0, 1, 3]
    assert batch["embedding"].tolist() == [[1, 2], [3, 4]]
    assert batch["part"]["x"].tolist() == [1, 2]
    [batch] = loader_of(path, sm.TokenBatches("mel", multiple_of=1))
    assert batch["mel"].tolist() == [[[1, 2], [0, 0]], [[3, 4], [5, 6]]]
    [batch] = loader_of(path, {}, columns=["tokens", "name"])
    assert list(batch) == ["tokens", "name", "lengths", "tokens_of_rank", "tokens_of_step"]


def test_nulls_are_empty_rows_if_they_are_filled_or_masked(tmp_path: Path) -> None:
    path = write_tables(tmp_path, [pa.table({"tokens": [[1, 2], None, [3]]})])
    with pytest.raises(sm.FormatError, match="`tokens` is null in row 1"):
        next(iter(loader_of(path, {})))
    fill = sm.Output("numpy", nulls="fill", fill_values={"tokens": 0})
    for output in (fill, sm.Output("numpy", nulls="mask")):
        [batch] = loader_of(path, {"multiple_of": 1}, output=output)
        assert batch["tokens"].tolist() == [[1, 2], [0, 0], [3, 0]]
        assert batch["lengths"].tolist() == [2, 0, 1]


def test_labels_of_computed_tokens_are_padded_with_what_a_loss_ignores(
    tmp_path: Path,
) -> None:
    texts = ["a long text", "short", "", "another text"]
    path = write_tables(tmp_path, [pa.table({"text": texts, "id": range(4)})])
    function = sm.TokenFunction(
        lambda batch: {
            name: [list(text.encode()) for text in batch["text"].to_pylist()]
            for name in ("tokens", "labels")
        },
        version="1",
    )
    tokenize = sm.Tokenize("text", function=function, labels="function")
    data = sm.Dataset(path, tokenize=tokenize)
    [batch] = loader_of(data, sm.TokenBatches(["tokens", "labels"], multiple_of=4))
    lengths = batch["lengths"]
    assert batch["tokens"].shape == (4, 12)
    is_token = np.arange(12) < lengths[:, None]
    assert (batch["labels"][~is_token] == -100).all()
    assert (batch["labels"][is_token] == batch["tokens"][is_token]).all()


def test_each_row_of_a_mixture_is_in_one_batch(tmp_path: Path) -> None:
    sources = {
        name: write_documents(tmp_path, [n * 7 % 23 for n in range(count)])
        for name, count in (("a", 40), ("b", 25))
    }
    mixture = sm.Mixture(sources, source_column="source")
    options: dict[str, Any] = {"shuffle": True, "lanes": 2, "world_size": 2, "tail": "uneven"}
    found: Counter[tuple[int, int]] = Counter()
    for rank in range(2):
        for batch in loader_of(mixture, {"tokens": 64}, rank=rank, **options):
            found.update(zip(batch["source"].tolist(), batch["id"].tolist(), strict=True))
    assert found == Counter([(0, n) for n in range(40)] + [(1, n) for n in range(25)])


def test_what_was_received_is_what_is_expected(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [n * 5 % 17 for n in range(50)])
    options: dict[str, Any] = {"shuffle": True, "lanes": 2, "world_size": 2, "tail": "pad"}
    loaders = [
        loader_of(path, {"tokens": 32}, rank=rank, audit=True, **options) for rank in range(2)
    ]
    for loader in loaders:
        assert list(loader)
    audits = [loader.audit(0) for loader in loaders]
    assert audits[0] + audits[1] == loaders[0].expected_audit(epoch=0)


def test_torch_batches_have_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = write_documents(tmp_path, [3, 5, 2, 8])
    for batch in loader_of(path, {"tokens": 16}, output="torch"):
        assert batch["tokens"].dtype == batch["lengths"].dtype == torch.int32
        total = batch["tokens_of_step"]
        assert (total.shape, total.dtype) == ((), torch.int64)
        assert int(total) == int(batch["lengths"].sum())


def test_the_rows_of_batches_are_an_arrow_stream(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 5, 2, 8])
    ids = [batch["id"].tolist() for batch in loader_of(path, {"tokens": 16})]
    table = pa.table(loader_of(path, {"tokens": 16}))
    assert table["id"].to_pylist() == [*itertools.chain(*ids)]
    assert table["lengths"].to_pylist() == [len(row) for row in table["tokens"].to_pylist()]


def test_batches_are_explained(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 5, 0, 8], files=1)
    loader = loader_of(path, {"tokens": 16, "multiple_of": 1})
    [batch] = loader.explain()["packs"]
    first = next(iter(loader))
    assert [(row, tokens) for _, row, _, tokens in batch] == list(
        zip(first["id"].tolist(), first["lengths"].tolist(), strict=True)
    )
    assert loader.explain()["packs_of_epoch"] == len(loader) == 2
    with pytest.raises(sm.OptionError, match="batch_size=2 has no meaning"):
        loader.explain(batch_size=2)


def test_states_of_other_batches_are_refused(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 5, 2, 8])
    state = loader_of(path, {"tokens": 16}).state_dict()
    assert len(json.dumps(state)) < 4096
    loader_of(path, {"tokens": 16}).load_state_dict(state)
    for rules in ({"tokens": 24}, {"tokens": 16, "max_rows": 2}, {"tokens": 16, "multiple_of": 4}):
        with pytest.raises(sm.CheckpointMismatchError, match=f"packing {list(rules)[-1]}"):
            loader_of(path, rules).load_state_dict(state)
    with pytest.raises(sm.CheckpointMismatchError, match="seed"):
        loader_of(path, {"tokens": 16}, seed=1).load_state_dict(state)
    packing = sm.Packing("tokens", length=16)
    with pytest.raises(sm.CheckpointMismatchError, match="packing"):
        flat_loader(path, packing=packing, output="numpy").load_state_dict(state)


def test_a_batch_size_has_no_meaning(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 5, 2, 8])
    assert len(list(loader_of(path, {"tokens": 16}, batch_size=1))) == 2
    with pytest.raises(sm.OptionError, match="batch_size=4 has no meaning with TokenBatches"):
        loader_of(path, {"tokens": 16}, batch_size=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokens": 0}, "tokens must be an integer from 1"),
        ({"max_rows": 0}, "max_rows must be an integer from 1"),
        ({"window_rows": 0}, "window_rows must be an integer from 1"),
        ({"multiple_of": 0}, "multiple_of must be an integer of at least 1"),
        ({"tokens": 4, "multiple_of": 8}, "multiple_of=8 is more than tokens=4"),
        ({"long": "split"}, "long must be one of 'raise', 'truncate', 'drop'"),
        ({"lengths": 3}, "lengths must be a non-empty string"),
        ({"balance": 3}, "balance must be a Balance"),
    ],
)
def test_an_option_that_is_not_valid_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.OptionError, match=message):
        sm.TokenBatches("tokens", **options)


def test_options_that_contradict_are_errors(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 5, 2, 8])
    with pytest.raises(sm.OptionError, match="without columns requires lengths"):
        sm.TokenBatches([])
    with pytest.raises(sm.OptionError, match="requires output='torch' or 'numpy'"):
        loader_of(path, {}, output="arrow")
    with pytest.raises(sm.OptionError, match="pad cannot be used with TokenBatches"):
        loader_of(path, {}, output=sm.Output("numpy", pad=4))
    with pytest.raises(sm.OptionError, match="every row must be readable"):
        flat_loader(path, packing=sm.TokenBatches("tokens"), output="numpy", on_bad_rows="skip")
    with pytest.raises(sm.OptionError, match="has no 'tokens', which TokenBatches pads"):
        loader_of(path, {}, columns=["id"])
    with pytest.raises(sm.OptionError, match="id"):
        loader_of(path, sm.TokenBatches(["tokens", "id"]))
    with pytest.raises(sm.OptionError, match="lengths are whole numbers or floats"):
        next(iter(loader_of(path, sm.TokenBatches([], lengths="tokens"))))
    table = pa.table({"tokens": [[1]], "tokens_of_rank": [1]})
    path = write_tables(tmp_path, [table])
    with pytest.raises(sm.OptionError, match="a batch has `tokens_of_rank` of its own"):
        loader_of(path, {})


def test_a_data_set_without_rows_has_no_batches(tmp_path: Path) -> None:
    assert list(loader_of(write_documents(tmp_path, []), {})) == []
