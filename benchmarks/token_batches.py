"""Measures batches by length on real texts: padding, imbalance, and the rate beside packs.

    python -m benchmarks.token_batches --out=DIR --texts=DIR

Lengths are those of the files in a directory of texts, drawn with a seed; tokens are random. Both
loaders read the same file in one run, in turns.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import Metrics, Options, in_processes, run_entry

#: Bytes of a token of English text.
_TOKEN_BYTES = 4
_TOKENS = 65_536
_LENGTH = 8192
_ROUNDS = 9
_RANKS = (8, 64)


@dataclass(frozen=True, kw_only=True)
class TokenBatchesOptions(Options):
    """What is put into batches.

    Attributes:
        texts: Texts whose sizes are those of the documents.
        threads: Decoding threads.
        documents: Number of documents; a tenth of them has tokens.
    """

    texts: Path
    threads: int = 2
    documents: int = 100_000


def _lengths(options: TokenBatchesOptions) -> np.ndarray:
    """Token counts of documents that fit into a pack."""
    sizes = [path.stat().st_size for path in options.texts.rglob("*") if path.is_file()]
    known = np.array([size // _TOKEN_BYTES for size in sizes], np.int32)
    known = known[(known > 0) & (known <= _LENGTH)]
    return np.random.default_rng(7).choice(known, options.documents)


def _write(path: Path, lengths: np.ndarray) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    tokens = np.random.default_rng(8).integers(1, 50_000, offsets[-1], dtype=np.int32)
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(tokens))
    table = pa.table({"tokens": lists, "n": lengths})
    pq.write_table(table, path, row_group_size=2048, compression="zstd")


def _seconds(loader: Any) -> float:
    start = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - start


def rates(options: TokenBatchesOptions) -> Metrics:
    """Tokens per second of packs and of batches, once the plans are made."""
    import shardmill as sm

    path = options.scratch / "documents.parquet"
    lengths = _lengths(options)[: options.documents // 10]
    _write(path, lengths)
    data, runtime = sm.Dataset(path), sm.Runtime(threads=options.threads)
    common: dict[str, Any] = {"output": "torch", "runtime": runtime, "rank": 0, "world_size": 1}
    best_fit = sm.Packing("tokens", length=_LENGTH, strategy="best_fit", lengths="n")
    figures: Metrics = {"tokens": int(lengths.sum())}
    for shuffle in (False, True):
        loaders = {
            "batches": sm.Loader(
                data,
                packing=sm.TokenBatches("tokens", tokens=_TOKENS, lengths="n"),
                columns=["tokens"],
                shuffle=shuffle,
                **common,
            ),
            "packs": sm.Loader(
                data, packing=best_fit, batch_size=_TOKENS // _LENGTH, shuffle=shuffle, **common
            ),
        }
        seconds: dict[str, list[float]] = {name: [] for name in loaders}
        for _ in range(_ROUNDS):
            for name, loader in loaders.items():
                loader.set_epoch(0)
                len(loader)
                seconds[name].append(_seconds(loader))
                loader.set_epoch(0)
        name = "shuffled" if shuffle else "in_order"
        each = [packs / own for own, packs in zip(*seconds.values(), strict=True)]
        figures[f"rate_over_best_fit_{name}"] = median(each)
        for kind, times in seconds.items():
            figures[f"{kind}_tokens_per_s_{name}"] = int(lengths.sum()) / min(times)
    return figures


def padding(options: TokenBatchesOptions) -> Metrics:
    """The share of padding, and the time lost to unequal work, with and without a balance."""
    import shardmill as sm

    warnings.simplefilter("ignore")
    path = options.scratch / "counts.parquet"
    pq.write_table(pa.table({"n": _lengths(options)}), path, row_group_size=1 << 18)
    figures: Metrics = {}
    for window_rows in (4096, 65_536):
        packing = sm.TokenBatches([], lengths="n", tokens=_TOKENS, window_rows=window_rows)
        answer = sm.Loader(path, packing=packing, shuffle=True).explain()
        figures[f"padding_window_{window_rows}"] = 1 - answer["fill_rate"]
    balance = sm.Balance(sm.Cost(pair=1 / (12 * 768)), per_step=4)
    packing = sm.TokenBatches([], lengths="n", tokens=_TOKENS, balance=balance, window_rows=4096)
    for ranks in _RANKS:
        loader = sm.Loader(
            path, packing=packing, shuffle=True, lanes=ranks, rank=0, world_size=ranks
        )
        for order, found in loader.explain()["cost_imbalance"].items():
            figures[f"imbalance_{order}_{ranks}"] = found["all_steps"]
    return figures


def group_by_length(options: TokenBatchesOptions) -> Metrics:
    """Padding and imbalance of ``group_by_length`` of transformers, and of random batches.

    Batches have the number of rows that has as many tokens on average.
    """
    import torch
    from transformers.trainer_pt_utils import get_length_grouped_indices

    lengths = _lengths(options)
    rows = max(1, int(_TOKENS / lengths.mean()))
    generator = torch.Generator().manual_seed(9)
    orders = {
        "random": torch.randperm(len(lengths), generator=generator).numpy(),
        "grouped": get_length_grouped_indices(lengths.tolist(), rows, generator=generator),
    }
    figures: Metrics = {}
    for name, order in orders.items():
        batches = lengths[np.asarray(order)][: len(lengths) // rows * rows].reshape(-1, rows)
        longest = batches.max(1)
        figures[f"padding_{name}"] = 1 - batches.sum() / (longest * rows).sum()
        for ranks in _RANKS:
            steps = longest[: len(longest) // ranks * ranks].reshape(-1, ranks)
            figures[f"imbalance_{name}_{ranks}"] = steps.max(1).sum() / steps.mean(1).sum()
    return figures


def measure(options: TokenBatchesOptions) -> Metrics:
    """Measures each part in a process of its own."""
    options.scratch.mkdir(parents=True, exist_ok=True)
    parts: list[Callable[[TokenBatchesOptions], Metrics]] = [rates, padding, group_by_length]
    return {part.__name__: in_processes("spawn", [partial(part, options)])[0] for part in parts}


if __name__ == "__main__":
    run_entry(TokenBatchesOptions, measure)
