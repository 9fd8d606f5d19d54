"""Packs of token rows against a model that was written from the definition.

On any topology and with any interruption.
"""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shardmill as sm
from breadth import examples
from flat_options import flat_loader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference_order import lanes_of
from reference_packing import Pack, pack_steps, packs_of
from row_files import write_tables

quick = settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

#: Documents: mostly short ones, some longer than any pack, some empty.
DOCUMENTS = st.lists(st.one_of(st.integers(0, 9), st.integers(10, 40)), min_size=0, max_size=30)


@st.composite
def packings(draw: st.DrawFn) -> dict[str, Any]:
    strategy = draw(st.sampled_from(["concat", "best_fit", "first_fit"]))
    options: dict[str, Any] = {"length": draw(st.integers(1, 16)), "strategy": strategy}
    if strategy != "concat":
        options["open_packs"] = draw(st.integers(1, 4))
        options["long"] = draw(st.sampled_from(["split", "truncate", "drop"]))
    return options


def tokens_of(number: int, length: int) -> list[int]:
    """Tokens that tell which document and which place they come from."""
    return [number * 100 + place + 1 for place in range(length)]


def write_documents(
    below: Path, lengths: Sequence[int], *, files: int = 2, row_group: int = 4, kind: Any = None
) -> Path:
    """Documents of these lengths in several files.

    ``id`` numbers them, ``keep`` is false for one in three.
    """
    each = -(-len(lengths) // files) if lengths else 1
    tables = []
    for start in range(0, max(len(lengths), 1), each):
        ids = list(range(start, min(start + each, len(lengths))))
        tokens = [tokens_of(number, lengths[number]) for number in ids]
        tables.append(
            pa.table(
                {
                    "id": pa.array(ids, pa.int64()),
                    "tokens": pa.array(tokens, kind or pa.list_(pa.int32())),
                    "labels": pa.array(
                        [[-token for token in row] for row in tokens], pa.list_(pa.int64())
                    ),
                    "n_tokens": pa.array([len(row) for row in tokens], pa.int32()),
                    "keep": pa.array([number % 3 > 0 for number in ids]),
                }
            )
        )
    return write_tables(below, tables, row_group_size=row_group)


def loader_of(path: Any, packing: dict[str, Any] | sm.Packing, **options: Any) -> sm.Loader:
    packing = packing if isinstance(packing, sm.Packing) else sm.Packing("tokens", **packing)
    return flat_loader(path, packing=packing, **{"output": "numpy", **options})


def lanes_of_packs(
    path: Any,
    packing: dict[str, Any],
    *,
    lanes: int,
    epoch: int = 0,
    filter: Any = None,
    **order: Any,
) -> list[list[Pack]]:
    """The packs of each lane by the model.

    They are over the rows in the order in which a loader without packing has them.
    """
    plain = flat_loader(
        path, columns=["tokens"], output="arrow", lanes=1, batch_size=1000, filter=filter, **order
    )
    plain.set_epoch(epoch)
    rows = [row for batch in plain for row in batch.column("tokens").to_pylist()]
    return [
        packs_of([rows[position] for position in lane], **packing)
        for lane in lanes_of(len(rows), lanes)
    ]


def packs_in(batch: dict[str, Any], length: int) -> list[Pack]:
    """The documents of each pack, after a look at everything that a batch says about them."""
    packs = []
    tokens, segments, positions = batch["tokens"], batch["segment_ids"], batch["positions"]
    assert tokens.shape == segments.shape == positions.shape == (len(tokens), length)
    assert segments.dtype == positions.dtype == np.int32
    lengths, offsets = batch["document_lengths"].values, batch["document_lengths"].offsets
    for number in range(len(tokens)):
        pack, start = [], 0
        for segment, count in enumerate(lengths[offsets[number] : offsets[number + 1]].tolist(), 1):
            part = slice(start, start + count)
            assert (segments[number, part] == segment).all()
            assert positions[number, part].tolist() == list(range(count))
            pack.append(tokens[number, part].tolist())
            start += count
        assert not tokens[number, start:].any()
        assert not segments[number, start:].any()
        assert not positions[number, start:].any()
        packs.append(pack)
    return packs


def state_after(
    loader: sm.Loader, state: dict[str, Any] | None, steps: Sequence[list[Pack]], length: int
) -> dict[str, Any]:
    """The state of a rank that continues another one, after steps with these packs.

    A step without packs has no batch.
    """
    if state is not None:
        loader.load_state_dict(state)
    batches = iter(loader)
    for packs in steps:
        if packs:
            assert packs_in(next(batches), length) == packs
    batches.close()  # type: ignore[attr-defined]
    return loader.state_dict()


def all_packs(batches: Sequence[dict[str, Any]], length: int) -> list[Pack]:
    return [pack for batch in batches for pack in packs_in(batch, length)]


@pytest.fixture(autouse=True)
def _dropping_everything_is_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_documents_one_after_another_fill_the_packs(tmp_path: Path) -> None:
    path = write_documents(tmp_path, [3, 2, 4])
    batches = list(loader_of(path, {"length": 5}, batch_size=2))
    assert len(batches) == 1
    assert batches[0]["tokens"].tolist() == [[1, 2, 3, 101, 102], [201, 202, 203, 204, 0]]
    assert batches[0]["segment_ids"].tolist() == [[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]]
    assert batches[0]["positions"].tolist() == [[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]]
    assert batches[0]["document_lengths"].values.tolist() == [3, 2, 4]
    assert list(batches[0]) == ["tokens", "segment_ids", "positions", "document_lengths"]


@quick
@given(
    lengths=DOCUMENTS,
    packing=packings(),
    batch_size=st.sampled_from([1, 2, 3, 5]),
    world_size=st.sampled_from([1, 2, 3, 4, 8]),
    lanes=st.sampled_from([1, 2, 3, 4, 7]),
    tail=st.sampled_from(["uneven", "drop", "pad"]),
    shuffle=st.booleans(),
    threads=st.sampled_from([0, 1, 3]),
    epoch=st.integers(0, 2),
)
def test_packs_of_every_rank_and_step_are_those_of_the_model(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    batch_size: int,
    world_size: int,
    lanes: int,
    tail: str,
    shuffle: bool,
    threads: int,
    epoch: int,
) -> None:
    path = write_documents(tmp_path, lengths)
    order = {"shuffle": shuffle, "seed": 3, "shuffle_window_bytes": 200}
    expected = lanes_of_packs(path, packing, lanes=lanes, epoch=epoch, **order)
    steps = list(pack_steps(expected, batch_size=batch_size, world_size=world_size, tail=tail))
    for rank in range(world_size):
        loader = loader_of(
            path,
            packing,
            batch_size=batch_size,
            rank=rank,
            world_size=world_size,
            lanes=lanes,
            tail=tail,
            threads=threads,
            **order,
        )
        loader.set_epoch(epoch)
        wanted = [step[rank] for _, step in steps if step[rank].packs]
        assert len(loader) == len(wanted)
        batches = list(loader)
        assert [packs_in(batch, packing["length"]) for batch in batches] == [
            batch.packs for batch in wanted
        ]
        if tail == "pad":
            assert [batch["__padded"].tolist() for batch in batches] == [
                batch.padded for batch in wanted
            ]
        assert loader.epoch == epoch + 1


@quick
@given(
    lengths=st.lists(st.integers(0, 30), min_size=4, max_size=30),
    packing=packings(),
    lanes=st.sampled_from([1, 2, 3, 4]),
    sizes=st.lists(
        st.tuples(st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from([1, 2, 3, 4])),
        min_size=2,
        max_size=4,
    ),
    stops=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    filtered=st.booleans(),
    threads=st.sampled_from([0, 2]),
)
def test_runs_on_other_ranks_and_threads_go_on_where_one_stopped(
    tmp_path: Path,
    lengths: list[int],
    packing: dict[str, Any],
    lanes: int,
    sizes: list[tuple[int, int]],
    stops: list[int],
    filtered: bool,
    threads: int,
) -> None:
    """Filter, shuffle and packing together.

    Whatever the topologies were, the packs come in the order of one sequence.
    """
    path = write_documents(tmp_path, lengths)
    options: dict[str, Any] = {"shuffle": True, "seed": 11, "shuffle_window_bytes": 300}
    if filtered:
        options["filter"] = sm.col("keep") == True  # noqa: E712
    expected = lanes_of_packs(path, packing, lanes=lanes, **options)
    state: dict[str, Any] | None = None
    consumed = 0
    count = sum(map(len, expected))
    for (world_size, batch_size), stop in zip(sizes, [*stops, 10**6], strict=False):
        if consumed >= count:
            break
        share = {"batch_size": batch_size, "world_size": world_size, "tail": "uneven"}
        steps = list(pack_steps(expected, consumed=consumed, **share))[:stop]
        loaders = [
            loader_of(
                path,
                packing,
                rank=rank,
                lanes=lanes if state is None else None,
                threads=threads,
                **share,
                **options,
            )
            for rank in range(world_size)
        ]
        states = []
        for rank, loader in enumerate(loaders):
            expected_packs = [step[rank].packs for _, step in steps]
            states.append(state_after(loader, state, expected_packs, packing["length"]))
        if steps:
            consumed = steps[-1][0]
        if steps and all(step.packs for step in steps[-1][1]):
            assert all(other == states[0] for other in states)
        state = json.loads(json.dumps(states[0]))
        assert len(json.dumps(state)) < 4096
        if consumed < count:
            assert (state["epoch"], state["consumed"]) == (0, consumed)
        else:
            assert (state["epoch"], state["consumed"]) == (1, 0)


@pytest.mark.parametrize(
    "packing", [{"length": 7}, {"length": 16, "strategy": "best_fit", "open_packs": 3}]
)
def test_same_global_batch_gives_the_same_packs_on_any_ranks(
    tmp_path: Path, packing: dict[str, Any]
) -> None:
    path = write_documents(tmp_path, [number * 7 % 19 for number in range(60)])
    found = {}
    for world_size in (1, 2, 3, 4, 8):
        ranks = [
            list(
                loader_of(
                    path,
                    packing,
                    batch_size=24 // world_size,
                    rank=rank,
                    world_size=world_size,
                    lanes=4,
                    shuffle=True,
                    tail="uneven",
                    threads=2,
                )
            )
            for rank in range(world_size)
        ]
        steps = max(map(len, ranks))
        found[world_size] = [
            [
                pack
                for rank in ranks
                if step < len(rank)
                for pack in packs_in(rank[step], packing["length"])
            ]
            for step in range(steps)
        ]
    assert all(found[world_size] == found[1] for world_size in found)


def test_every_stop_in_an_epoch_can_be_resumed(tmp_path: Path) -> None:
    """Also twice, at the end of an epoch, and into the next one."""
    path = write_documents(tmp_path, [number * 5 % 23 for number in range(40)])
    packing = {"length": 16, "strategy": "best_fit", "open_packs": 3}
    options = {"batch_size": 2, "shuffle": True, "seed": 5, "shuffle_window_bytes": 400, "lanes": 2}
    whole = loader_of(path, packing, **options)
    packs = [packs_in(batch, 16) for _ in range(2) for batch in whole]
    for stop in range(len(packs) - 1):
        begun = loader_of(path, packing, **options)
        taken = 0
        while taken < stop:
            for _ in begun:
                taken += 1
                if taken == stop:
                    break
        state = json.loads(json.dumps(begun.state_dict()))
        resumed = loader_of(path, packing, **{**options, "lanes": None, "threads": 3})
        resumed.load_state_dict(state)
        assert packs_in(next(iter(resumed)), 16) == packs[stop]
        again = loader_of(path, packing, **options)
        again.load_state_dict(resumed.state_dict())
        rest = [packs_in(batch, 16) for _ in range(2) for batch in again]
        assert rest[: len(packs) - stop - 1] == packs[stop + 1 :][: len(rest)]


def test_packs_of_more_rows_than_are_planned_at_once_are_those_of_the_order(
    tmp_path: Path,
) -> None:
    """Amounts of shuffled rows are looked up in parts of 262,144."""
    lengths = np.arange(300_000, dtype=np.int32) % 3 + 1
    offsets = np.concatenate([[0], lengths.cumsum(dtype=np.int32)]).astype(np.int32)
    tokens = pa.ListArray.from_arrays(offsets, np.arange(1, offsets[-1] + 1, dtype=np.int32))
    path = write_tables(tmp_path, [pa.table({"tokens": tokens})], row_group_size=50_000)
    order: dict[str, Any] = {"shuffle": True, "seed": 3, "shuffle_window_bytes": 1 << 22}
    rows = flat_loader(path, output="arrow", lanes=1, batch_size=50_000, **order)
    in_order = pa.chunked_array([batch.column("tokens") for batch in rows]).combine_chunks()
    packs = loader_of(path, {"length": 8, "strategy": "concat"}, lanes=1, batch_size=5_000, **order)
    packed = np.concatenate([batch["tokens"].ravel() for batch in packs])
    assert packed[packed > 0].tolist() == in_order.flatten().to_pylist()
