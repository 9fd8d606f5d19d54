"""Measures batches by length: padding, imbalance and planning beside samplers, rate beside packs.

Lengths are those of real texts. A cost of a batch is that of ``BatchRebalanceSampler``:
tokens, and a thousandth of the square of the longest row for each row, with padding.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from benchmarks.measure import Metrics, Options, run_entry, timed

_LENGTH = 8192
_ROUNDS = 9
_PAIR = 0.001


@dataclass(frozen=True, kw_only=True)
class TokenBatchesOptions(Options):
    """What is put into batches.

    Attributes:
        data: Directory of the lengths of texts.
        documents: Number of drawn documents; 0 is each text once.
        ranks: Number of ranks that take a batch at each step.
        tokens: Tokens of a batch with its padding, or on average where a sampler counts rows.
        window_rows: Rows that are sorted together.
        threads: Decoding threads.
    """

    data: Path
    documents: int = 100_000
    ranks: int = 8
    tokens: int = 65_536
    window_rows: int = 65_536
    threads: int = 2


def lengths_of(options: TokenBatchesOptions) -> np.ndarray:
    """Token counts of documents of at most 8,192 tokens."""
    known = np.load(options.data / "lengths.npy")
    known = known[known <= _LENGTH]
    if not options.documents:
        return known
    return np.random.default_rng(7).choice(known, options.documents)


def write_documents(path: Path, lengths: np.ndarray, *, has_tokens: bool) -> Path:
    """A file of documents with random tokens, or with their lengths alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {"n": lengths}
    if has_tokens:
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        tokens = np.random.default_rng(8).integers(1, 50_000, offsets[-1], dtype=np.int32)
        columns["tokens"] = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(tokens))
    rows = 2048 if has_tokens else 1 << 18
    pq.write_table(pa.table(columns), path, row_group_size=rows, compression="zstd")
    return path


def rate_shardmill(options: TokenBatchesOptions) -> Metrics:
    """Tokens per second of batches and of ``best_fit`` packs, which take turns, once planned."""
    import shardmill as sm

    lengths = lengths_of(options)
    path = write_documents(options.scratch / "documents.parquet", lengths, has_tokens=True)
    data, runtime = sm.Dataset(path), sm.Runtime(threads=options.threads)
    common: dict[str, Any] = {"output": "torch", "runtime": runtime, "rank": 0, "world_size": 1}
    best_fit = sm.Packing("tokens", length=_LENGTH, strategy="best_fit", lengths="n")
    by_length = sm.TokenBatches("tokens", tokens=options.tokens, lengths="n")
    rows = options.tokens // _LENGTH
    figures: Metrics = {"tokens": int(lengths.sum())}
    for name, shuffle in (("in_order", False), ("shuffled", True)):
        common["shuffle"] = shuffle
        loaders = {
            "batches": sm.Loader(data, packing=by_length, columns=["tokens"], **common),
            "packs": sm.Loader(data, packing=best_fit, batch_size=rows, **common),
        }
        seconds: dict[str, list[float]] = {kind: [] for kind in loaders}
        for _ in range(_ROUNDS):
            for kind, loader in loaders.items():
                loader.set_epoch(0)
                len(loader)
                seconds[kind].append(timed(lambda loader=loader: sum(1 for _ in loader))[0])
                loader.set_epoch(0)
        each = [packs / own for own, packs in zip(*seconds.values(), strict=True)]
        figures[f"{name}_over_best_fit"] = median(each)
    return figures


def batches_shardmill(
    options: TokenBatchesOptions, order: Literal["as_packed", "balanced"] = "as_packed"
) -> Metrics:
    """What ``explain`` says of a plan; its time includes reading the column of lengths."""
    import shardmill as sm

    lengths = lengths_of(options)
    path = write_documents(options.scratch / "counts.parquet", lengths, has_tokens=False)
    balance = sm.Balance(sm.Cost(pair=_PAIR), per_step=4)

    def planned(balance: sm.Balance | None) -> sm.Loader:
        packing = sm.TokenBatches(
            [],
            lengths="n",
            tokens=options.tokens,
            window_rows=options.window_rows,
            balance=balance,
        )
        ranks: dict[str, Any] = {"lanes": options.ranks, "rank": 0, "world_size": options.ranks}
        return sm.Loader(sm.Dataset(path), packing=packing, shuffle=True, **ranks)

    loader = planned(balance if order == "balanced" else None)
    seconds, _ = timed(lambda: len(loader))
    answer = planned(balance).explain()
    return {
        "padding": 1 - answer["fill_rate"],
        "imbalance": answer["cost_imbalance"][order]["all_steps"],
        "steps": answer["steps"],
        "documents": len(lengths),
        "seconds": seconds,
    }


def batches_balanced(options: TokenBatchesOptions) -> Metrics:
    """With a balance, whose cost is that of ``BatchRebalanceSampler``."""
    return batches_shardmill(options, "balanced")


def batches_random(options: TokenBatchesOptions) -> Metrics:
    """Random batches of equally many rows, as many as have ``tokens`` tokens on average."""
    lengths = lengths_of(options)
    start = time.perf_counter()
    order = np.random.default_rng(9).permutation(len(lengths))
    return _figures(lengths, options, _equal_rows(lengths, order, options), start)


def batches_group_by_length(options: TokenBatchesOptions) -> Metrics:
    """``train_sampling_strategy="group_by_length"`` of transformers."""
    import torch
    from transformers.trainer_pt_utils import get_length_grouped_indices

    lengths = lengths_of(options)
    rows = _rows_of(lengths, options)
    generator = torch.Generator().manual_seed(9)
    start = time.perf_counter()
    order = get_length_grouped_indices(lengths.tolist(), rows, generator=generator)
    return _figures(lengths, options, _equal_rows(lengths, np.asarray(order), options), start)


def batches_batch_rebalance(options: TokenBatchesOptions) -> Metrics:
    """``train_sampling_strategy="batch_rebalance"`` of transformers, rank after rank.

    The time is that of one rank.
    """
    from transformers.trainer_pt_utils import BatchRebalanceSampler

    lengths = lengths_of(options)
    rows = _rows_of(lengths, options)

    def rank(number: int) -> list[list[int]]:
        sampler = BatchRebalanceSampler(
            lengths.tolist(),
            effective_batch_size=rows * options.ranks,
            dp_size=options.ranks,
            grad_accum=1,
            rank=number,
        )
        return list(sampler)

    start = time.perf_counter()
    ranks = [rank(0)]
    seconds = time.perf_counter() - start
    ranks += [rank(number) for number in range(1, options.ranks)]
    steps = [batch for step in zip(*ranks, strict=True) for batch in step]
    return _figures(lengths, options, steps, start) | {"seconds": seconds}


def batches_lhotse(options: TokenBatchesOptions) -> Metrics:
    """``DynamicBucketingSampler`` of lhotse with 30 buckets; a token is a second of audio."""
    from lhotse import CutSet, MonoCut  # pyright: ignore - of the peer
    from lhotse.dataset import DynamicBucketingSampler  # pyright: ignore - of the peer

    lengths = lengths_of(options)
    cuts = CutSet.from_cuts(
        MonoCut(id=str(row), start=0, duration=float(length), channel=0)
        for row, length in enumerate(lengths)
    )
    start = time.perf_counter()
    sampler = DynamicBucketingSampler(
        cuts,
        max_duration=options.tokens,
        num_buckets=30,
        shuffle=True,
        world_size=options.ranks,
        rank=0,
    )
    batches: list[list[int]] = []

    def seen(following: Any = sampler._next_batch) -> Any:
        batch = following()
        batches.append([int(cut.id) for cut in batch])
        return batch

    # A rank makes the batches of all ranks and keeps its own.
    sampler._next_batch = seen
    for _ in sampler:
        pass
    return _figures(lengths, options, batches, start)


def _rows_of(lengths: np.ndarray, options: TokenBatchesOptions) -> int:
    """The rows of a batch that have ``tokens`` tokens on average."""
    return max(1, int(options.tokens / lengths.mean()))


def _equal_rows(
    lengths: np.ndarray, order: np.ndarray, options: TokenBatchesOptions
) -> Iterator[np.ndarray]:
    rows = _rows_of(lengths, options)
    return iter(order[: len(order) // rows * rows].reshape(-1, rows))


def _figures(
    lengths: np.ndarray,
    options: TokenBatchesOptions,
    batches: Iterable[np.ndarray | list[int]],
    start: float,
) -> Metrics:
    """Figures of a global sequence of batches, of which each rank takes one a step."""
    shapes = []
    for batch in batches:
        taken = lengths[np.asarray(batch)]
        shapes.append((len(taken), taken.max(), taken.sum()))
    seconds = time.perf_counter() - start
    rows, longest, tokens = np.array(shapes, dtype=np.int64).T
    whole = len(rows) // options.ranks * options.ranks
    costs = (rows * longest + _PAIR * rows * longest**2)[:whole].reshape(-1, options.ranks)
    return {
        "padding": 1 - tokens.sum() / (rows * longest).sum(),
        "imbalance": costs.max(1).sum() / costs.mean(1).sum(),
        "largest_tokens": int((rows * longest).max()),
        "steps": len(costs),
        "documents": int(rows.sum()),
        "seconds": seconds,
    }


SYSTEMS = {
    ("rate", "shardmill"): rate_shardmill,
    ("batches", "shardmill"): batches_shardmill,
    ("batches", "balanced"): batches_balanced,
    ("batches", "random"): batches_random,
    ("batches", "group_by_length"): batches_group_by_length,
    ("batches", "batch_rebalance"): batches_batch_rebalance,
    ("batches", "lhotse"): batches_lhotse,
}


def measure(options: TokenBatchesOptions) -> Metrics:
    """Runs one system once."""
    warnings.simplefilter("ignore")
    options.scratch.mkdir(parents=True, exist_ok=True)
    return SYSTEMS[options.scenario, options.system](options)


if __name__ == "__main__":
    run_entry(TokenBatchesOptions, measure)
