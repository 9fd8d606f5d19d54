"""Measures how equal the work of ranks is with a balance, and the time of plans, on counts alone.

    python -m benchmarks.balance --out=DIR --texts=DIR

Lengths are those of the files in a directory of texts, drawn again and again with a seed, or
lognormal ones. The planner reads them from a column; there are no tokens.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Metrics, Options, in_processes, run_entry

#: Bytes of a token of English text.
_TOKEN_BYTES = 4
_WIDTH = 4096


@dataclass(frozen=True, kw_only=True)
class BalanceOptions(Options):
    """What is planned.

    Attributes:
        texts: Texts whose sizes are drawn.
        windows: Windows of a lane, at least.
        documents: Of the plan whose time is measured.
    """

    texts: Path
    windows: int = 4
    documents: int = 10_000_000


def lengths_of(options: BalanceOptions, kind: str, count: int) -> np.ndarray:
    """Token counts of documents."""
    drawn = np.random.default_rng(7)
    if kind == "lognormal":
        tokens = drawn.lognormal(7.5, 1.8, count)
        return np.clip(tokens, 1, 131_072).astype(np.int32)
    sizes = [path.stat().st_size for path in options.texts.rglob("*") if path.is_file()]
    known = np.array([max(1, size // _TOKEN_BYTES) for size in sizes if size], np.int32)
    return drawn.choice(known, count)


def write_counts(path: Path, lengths: np.ndarray) -> None:
    """A file of token counts, with lists that are never read."""
    empty = pa.ListArray.from_arrays(
        pa.array(np.zeros(len(lengths) + 1, np.int32)), pa.array([], pa.int32())
    )
    table = pa.table({"n": lengths, "tokens": empty})
    pq.write_table(table, path, row_group_size=1 << 18)


def planned(path: Path, balance: Any, **options: Any) -> tuple[float, Any]:
    """Seconds that the first plan takes after the counts are read, and the loader."""
    import shardmill as sm

    lanes, shuffle = options.pop("lanes", 1), options.pop("shuffle", False)
    packing = sm.Packing("tokens", lengths="n", balance=balance, **options)
    data = sm.Dataset(path)
    common: dict[str, Any] = {"batch_size": 1, "lanes": lanes, "shuffle": shuffle}
    # The counts are read once for the data set, whatever packs them.
    len(sm.Loader(data, packing=sm.Packing("tokens", length=1 << 20, lengths="n"), **common))
    loader = sm.Loader(data, packing=packing, **common)
    start = time.perf_counter()
    len(loader)
    return time.perf_counter() - start, loader


def imbalance(
    options: BalanceOptions, kind: str, length: int, lanes: int, window: int, per_step: int
) -> Metrics:
    """The figures of one topology: each rank has a lane."""
    import shardmill as sm

    warnings.simplefilter("ignore")
    tokens = lengths_of(options, kind, 1 << 16)
    capped = np.minimum(tokens, length) if kind == "lognormal" else tokens
    packs = lanes * window * options.windows
    count = int(packs * length * 1.08 / capped.mean())
    path = options.scratch / f"{kind}-{lanes}-{window}.parquet"
    write_counts(path, lengths_of(options, kind, count))
    balance = sm.Balance(sm.Cost(pair=1 / (12 * _WIDTH)), per_step=per_step, window_packs=window)
    _, loader = planned(path, balance, length=length, strategy="best_fit", lanes=lanes)
    answer = loader.explain(batch_size=1, world_size=lanes)
    path.unlink()
    found = answer["cost_imbalance"]
    return {
        "kind": kind,
        "lanes": lanes,
        "window_packs": window,
        "per_step": per_step,
        "packs_of_lane": answer["packs_of_epoch"] / lanes,
        "steps": answer["steps"],
        "steps_after_first_end": answer["steps_after_first_end"],
        **{f"{order}_{name}": value for order in found for name, value in found[order].items()},
    }


def plan_times(options: BalanceOptions, strategy: str, shuffle: bool) -> Metrics:
    """Seconds of plans with and without a balance, the best of three of each, in turns."""
    import shardmill as sm

    warnings.simplefilter("ignore")
    path = options.scratch / "documents.parquet"
    if not path.exists():
        write_counts(path, lengths_of(options, "text", options.documents))
    balance = sm.Balance(sm.Cost(pair=1 / (12 * _WIDTH)), per_step=4)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    packs = 0
    for is_balanced in (False, True) * 3:
        took, loader = planned(
            path,
            balance if is_balanced else None,
            length=8192,
            strategy=strategy,
            shuffle=shuffle,
        )
        seconds[is_balanced].append(took)
        packs = len(loader)
    with_it, without = min(seconds[True]), min(seconds[False])
    return {
        "strategy": strategy,
        "shuffle": shuffle,
        "packs": packs,
        "plan_s": with_it,
        "plan_without_s": without,
        "ratio": with_it / without,
        "added_ns_per_pack": (with_it - without) / packs * 1e9,
    }


def measure(options: BalanceOptions) -> Metrics:
    """Plans each topology, and measures plan times."""
    options.scratch.mkdir(parents=True, exist_ok=True)
    topologies = [
        partial(imbalance, options, kind, length, lanes, window, per_step)
        for kind, length in (("text", 8192), ("lognormal", 131_072))
        for lanes in (64, 512)
        for window in (256, 1024)
        for per_step in (1, 4)
    ]
    times = [
        partial(plan_times, options, "best_fit", True),
        partial(plan_times, options, "concat", False),
    ]
    return {
        "imbalance": [in_processes("spawn", [call])[0] for call in topologies],
        "plan": [in_processes("spawn", [call])[0] for call in times],
    }


if __name__ == "__main__":
    run_entry(BalanceOptions, measure)
