"""How equal the work of ranks is with a balance, and what it costs.

Lengths are those of real texts, drawn again and again with a seed, or lognormal ones. Plans are
made of counts alone, which are a column: the lists of tokens are empty.
"""

from __future__ import annotations

import json
import statistics
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shardmill as sm

from benchmarks.measure import (
    Metrics,
    Options,
    forget_peak,
    in_processes,
    run_entry,
    status_bytes,
    timed,
)

_WIDTH = 4096
_LONGEST = 131_072
_VOCABULARY = 50_257


@dataclass(frozen=True, kw_only=True)
class BalanceOptions(Options):
    """What is planned or loaded.

    Attributes:
        data: Directory of the lengths of texts.
        texts: Directory of texts and a tokenizer.
        kind: Which lengths: ``text``, or ``lognormal``.
        length: Tokens of a pack.
        lanes: Lanes of a plan, and ranks; or lanes of the one rank of a loader.
        windows: Windows of each lane, at least.
        documents: Of the plan whose time is measured.
        repeats: Passes of each side, which take turns.
    """

    data: Path
    texts: Path
    kind: str = "text"
    length: int = 8192
    lanes: int = 64
    window: int = 256
    per_step: int = 4
    windows: int = 4
    strategy: Literal["concat", "best_fit"] = "best_fit"
    shuffle: bool = False
    order: Literal["ordered", "shuffled", "mixture"] = "ordered"
    documents: int = 10_000_000
    repeats: int = 3


def lengths_of(options: BalanceOptions, count: int) -> np.ndarray:
    """Token counts of documents."""
    drawn = np.random.default_rng(7)
    if options.kind == "lognormal":
        tokens = drawn.lognormal(7.5, 1.8, count)
        return np.clip(tokens, 1, _LONGEST).astype(np.int32)
    return drawn.choice(np.load(options.data / "lengths.npy"), count)


def balance_of(options: BalanceOptions) -> sm.Balance:
    """The balance of a model of width 4,096."""
    cost = sm.Cost(pair=1 / (12 * _WIDTH))
    return sm.Balance(cost, per_step=options.per_step, window_packs=options.window)


def packing_of(options: BalanceOptions, *, is_balanced: bool, **more: Any) -> sm.Packing:
    """How rows are packed."""
    balance = balance_of(options) if is_balanced else None
    return sm.Packing(
        "tokens", length=options.length, strategy=options.strategy, balance=balance, **more
    )


def write_counts(path: Path, lengths: np.ndarray) -> None:
    """A file of token counts, with lists that are never read."""
    empty = pa.ListArray.from_arrays(
        pa.array(np.zeros(len(lengths) + 1, np.int32)), pa.array([], pa.int32())
    )
    table = pa.table({"n": lengths, "tokens": empty})
    pq.write_table(table, path, row_group_size=1 << 18)


def planned(path: Path, options: BalanceOptions, *, is_balanced: bool) -> tuple[float, Any]:
    """Seconds that the first plan takes after the counts are read, and the loader."""
    packing = packing_of(options, is_balanced=is_balanced, lengths="n")
    data = sm.Dataset(path)
    common: dict[str, Any] = {"batch_size": 1, "lanes": options.lanes, "shuffle": options.shuffle}
    # The counts are read once for the data set, whatever packs them.
    len(sm.Loader(data, packing=sm.Packing("tokens", length=1 << 20, lengths="n"), **common))
    loader = sm.Loader(data, packing=packing, **common)
    return timed(lambda: len(loader))[0], loader


def imbalance(options: BalanceOptions) -> Metrics:
    """One lane for each rank."""
    mean = np.minimum(lengths_of(options, 1 << 16), options.length * 64).mean()
    packs = options.lanes * options.window * options.windows
    path = options.scratch / "counts.parquet"
    write_counts(path, lengths_of(options, int(packs * options.length * 1.08 / mean)))
    _, loader = planned(path, options, is_balanced=True)
    answer = loader.explain(batch_size=1, world_size=options.lanes)
    found = answer["cost_imbalance"]
    return {
        "packs_of_lane": answer["packs_of_epoch"] / options.lanes,
        "steps": answer["steps"],
        "steps_after_first_end": answer["steps_after_first_end"],
        **{f"{order}_{name}": value for order in found for name, value in found[order].items()},
    }


def mix(options: BalanceOptions) -> Metrics:
    """The share of a source in a step: documents of 900 and of 4,000 tokens, in equal parts."""
    packs = options.lanes * options.window * options.windows
    sources = {}
    for name, tokens in (("short", 900), ("long", 4000)):
        path = options.scratch / f"{name}.parquet"
        drawn = np.random.default_rng(tokens).poisson(tokens, packs * options.length // 2 // tokens)
        write_counts(path, drawn.astype(np.int32))
        sources[name] = sm.Dataset(path)
    loader = sm.Loader(
        sm.Mixture(sources, weights={"short": 0.816, "long": 0.184}),
        packing=packing_of(options, is_balanced=True, lengths="n"),
        batch_size=1,
        lanes=options.lanes,
        shuffle=True,
    )
    found = loader.explain(batch_size=1, world_size=options.lanes)["step_mix"]
    return {
        f"{order}_{end}": shares["sources"]["long"][place]
        for order, shares in found.items()
        for place, end in enumerate(("least", "most"))
    }


def plan(options: BalanceOptions) -> Metrics:
    """Seconds of plans with and without a balance, the best of each, in turns."""
    path = options.scratch / "counts.parquet"
    write_counts(path, lengths_of(options, options.documents))
    seconds: dict[bool, list[float]] = {True: [], False: []}
    packs = 0
    for is_balanced in (False, True) * options.repeats:
        took, loader = planned(path, options, is_balanced=is_balanced)
        seconds[is_balanced].append(took)
        packs = len(loader)
    with_s, without_s = min(seconds[True]), min(seconds[False])
    added_ns = (with_s - without_s) / packs * 1e9
    return {"packs": packs, "with_s": with_s, "without_s": without_s, "added_ns": added_ns}


def write_tokens(options: BalanceOptions) -> Path:
    """A file of documents that fill the windows, whose ids are as frequent as words are."""
    path = options.scratch / "tokens.parquet"
    tokens = options.lanes * options.window * options.windows * options.length
    ids = (np.random.default_rng(5).zipf(1.2, 1 << 20) % _VOCABULARY).astype(np.int32)
    lengths = lengths_of(options, int(tokens / lengths_of(options, 1 << 16).mean()))
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    rows = 1 << 22
    schema = pa.schema({"tokens": pa.large_list(pa.int32())})
    with pq.ParquetWriter(path, schema) as file:
        start = 0
        while start < len(lengths):
            end = max(start + 1, int(np.searchsorted(ends, ends[start] + rows, "right")) - 1)
            values = np.resize(np.roll(ids, start), ends[end] - ends[start])
            lists = pa.LargeListArray.from_arrays(
                pa.array(ends[start : end + 1] - ends[start]), pa.array(values)
            )
            file.write_table(pa.table({"tokens": lists}, schema), row_group_size=256)
            start = end
    return path


def loader_of(data: Any, options: BalanceOptions, is_balanced: bool, **more: Any) -> sm.Loader:
    """A rank with all lanes."""
    if options.order == "mixture":
        sources = {"first": sm.Dataset(data), "second": sm.Dataset(data)}
        data = sm.Mixture(sources, weights={"first": 2, "second": 1})
    return sm.Loader(
        data,
        packing=packing_of(options, is_balanced=is_balanced, **more),
        batch_size=options.lanes,
        lanes=options.lanes,
        shuffle=options.shuffle or options.order != "ordered",
        output="numpy",
    )


def rate(options: BalanceOptions) -> Metrics:
    """Seconds of an epoch with and without a balance, which take turns, after a first one."""
    path = write_tokens(options)
    loaders = {name: loader_of(path, options, name == "with_s") for name in ("without_s", "with_s")}
    for loader in loaders.values():
        for _batch in loader:
            pass
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(options.repeats):
        for name, loader in loaders.items():
            seconds[name].append(timed(lambda loader=loader: sum(1 for _ in loader))[0])
    return {name: statistics.median(times) for name, times in seconds.items()}


def _peak(path: Path, options: BalanceOptions, is_balanced: bool) -> tuple[int, int]:
    loader = loader_of(path, options, is_balanced)
    answer = loader.explain(batch_size=options.lanes, world_size=1)
    explained = answer.get("balance_bytes", 0)
    before = status_bytes()
    forget_peak()
    for _batch in loader:
        pass
    return status_bytes("VmHWM") - before, explained


def memory(options: BalanceOptions) -> Metrics:
    """Peak memory of an epoch with and without a balance, each in a process of its own."""
    path = write_tokens(options)
    peaks = {}
    for name, is_balanced in (("without", False), ("with", True)):
        [(peaks[name], stated)] = in_processes(
            "spawn", [partial(_peak, path, options, is_balanced)]
        )
    return {**{f"{name}_bytes": size for name, size in peaks.items()}, "stated_bytes": stated}


def first(options: BalanceOptions) -> Metrics:
    """Seconds to the first batch of a plan ahead, with and without a balance, in turns."""
    path = write_tokens(options)
    seconds: dict[str, list[float]] = {"without_s": [], "with_s": []}
    for _ in range(options.repeats):
        for name, times in seconds.items():
            more = {"plan": "ahead", "epoch_packs": options.lanes * options.window}
            loader = loader_of(path, options, name == "with_s", **more)
            times.append(timed(lambda loader=loader: next(iter(loader)))[0])
    return {name: statistics.median(times) for name, times in seconds.items()}


def _texts(options: BalanceOptions) -> sm.Loader:
    """A plan ahead over texts, whose token counts are kept."""
    texts = options.texts / "documents.parquet"
    tokenize = sm.Tokenize(
        "text", tokenizer=options.texts / "model", counts=str(options.scratch / "counts")
    )
    more = {"plan": "ahead", "epoch_packs": options.lanes * options.window * options.windows}
    return loader_of(sm.Dataset(texts, tokenize=tokenize), options, True, **more)


def _stopped(options: BalanceOptions) -> str:
    loader = _texts(options)
    batches = iter(loader)
    for _ in range(len(loader) * 9 // 10):
        next(batches)
    return json.dumps(loader.state_dict())


def _resumed(options: BalanceOptions, state: str) -> float:
    loader = _texts(options)

    def continued() -> None:
        loader.load_state_dict(json.loads(state))
        next(iter(loader))

    return timed(continued)[0]


def resume(options: BalanceOptions) -> Metrics:
    """Seconds to the first batch of a new process at 90 % of an epoch of a plan ahead of texts."""
    [state] = in_processes("spawn", [partial(_stopped, options)])
    [seconds] = in_processes("spawn", [partial(_resumed, options, state)])
    return {"seconds": seconds}


SCENARIOS = {
    "imbalance": imbalance,
    "mix": mix,
    "plan": plan,
    "rate": rate,
    "memory": memory,
    "first": first,
    "resume": resume,
}


def measure(options: BalanceOptions) -> Metrics:
    """Runs the scenario of the entry."""
    warnings.simplefilter("ignore")
    options.scratch.mkdir(parents=True, exist_ok=True)
    return SCENARIOS[options.scenario](options)


if __name__ == "__main__":
    run_entry(BalanceOptions, measure)
