"""Measures pairs of Megatron-LM beside its own readers: opening, documents and packed batches.

    python -m benchmarks.token_files --out=DIR

Documents have log-normal lengths and random ids. All readers read the same pair in one run, in
turns. Megatron-LM is the package ``megatron-core``.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.measure import Metrics, Options, in_processes, run_entry, timed

_LENGTH = 4096
_PACKS = 8
_ROUNDS = 5
_VOCABULARY = 50_000


@dataclass(frozen=True, kw_only=True)
class TokenFilesOptions(Options):
    """What is read.

    Attributes:
        threads: Decoding threads, and worker processes of a DataLoader.
        documents: Number of documents that are read.
        listed: Number of documents of the pair that is only opened.
    """

    threads: int = 2
    documents: int = 200_000
    listed: int = 100_000_000


def _write(prefix: Path, lengths: np.ndarray, *, is_sparse: bool = False) -> int:
    """Write a pair; return its number of tokens."""
    ends = np.cumsum(lengths, dtype="<i8")
    total = int(ends[-1])
    with Path(f"{prefix}.idx").open("wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        lengths.astype("<i4").tofile(file)
        ((ends - lengths) * 2).astype("<i8").tofile(file)
        np.arange(len(lengths) + 1, dtype="<i8").tofile(file)
    with Path(f"{prefix}.bin").open("wb") as file:
        if is_sparse:
            file.truncate(2 * total)
        else:
            np.random.default_rng(0).integers(1, _VOCABULARY, total, np.uint16).tofile(file)
    return total


def _pair(options: TokenFilesOptions) -> tuple[Path, int]:
    lengths = np.random.default_rng(1).lognormal(6.0, 1.0, options.documents)
    prefix = options.scratch / "pair"
    return prefix, _write(prefix, np.maximum(1, lengths).astype(np.int64))


def _rates(work: dict[str, Callable[[], int]]) -> Metrics:
    """What each reads in a second: the median of several turns, the first one left out."""
    rates: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(_ROUNDS + 1):
        for name, read in work.items():
            seconds, count = timed(read)
            rates[name].append(count / seconds)
    return {name: median(found[1:]) for name, found in rates.items()}


def opening(options: TokenFilesOptions) -> Metrics:
    """Seconds to open a large pair whose index is in the page cache, and private memory."""
    import shardmill as sm

    prefix = options.scratch / "listed"
    _write(prefix, np.random.default_rng(2).integers(1, 1500, options.listed), is_sparse=True)
    before = _private_bytes()
    opened = [timed(lambda: len(sm.Dataset(prefix))) for _ in range(_ROUNDS)]
    assert {rows for _, rows in opened} == {options.listed}
    kept = sm.Dataset(prefix)
    private = _private_bytes() - before
    del kept
    return {"seconds": median(seconds for seconds, _ in opened), "private_bytes": private}


def _private_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


def _widened(prefix: Path, step: int, dtypes: Sequence[str]) -> int:
    """Read all tokens in one thread, and widen each step into new arrays; return their number."""
    with Path(f"{prefix}.bin").open("rb", buffering=0) as file:
        count = 0
        while read := file.read(2 * step):
            ids = np.frombuffer(read, np.uint16)
            _ = [ids.astype(dtype) for dtype in dtypes]
            count += len(ids)
    return count


def documents(options: TokenFilesOptions) -> Metrics:
    """Documents per second, in order and shuffled, beside ``IndexedDataset.get`` in a loop.

    ``get`` returns a view of a map and touches no token; the loader delivers int32. ``limit`` reads
    and widens the same bytes in one thread.
    """
    import shardmill as sm
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    prefix, total = _pair(options)
    step = 1024 * total // options.documents
    data, indexed = sm.Dataset(prefix), IndexedDataset(str(prefix))
    shuffled = np.random.default_rng(3).permutation(options.documents).tolist()

    def rows(output: str, *, shuffle: bool) -> int:
        runtime = sm.Runtime(threads=options.threads)
        kind: Any = output
        loader = sm.Loader(data, batch_size=1024, shuffle=shuffle, output=kind, runtime=runtime)
        return sum(len(batch["tokens"]) for batch in loader)

    def get(order: Iterable[int]) -> int:
        return sum(1 for number in order if len(indexed.get(number)) > 0)

    work: dict[str, Callable[[], int]] = {
        "megatron_in_order": lambda: get(range(options.documents)),
        "megatron_shuffled": lambda: get(shuffled),
        "limit": lambda: _widened(prefix, step, ["int32"]) * options.documents // total,
    }
    for output in ("arrow", "numpy"):
        work[f"{output}_in_order"] = partial(rows, output, shuffle=False)
        work[f"{output}_shuffled"] = partial(rows, output, shuffle=True)
    return _rates(work)


def batches(options: TokenFilesOptions) -> Metrics:
    """Tokens per second of packed batches, beside ``GPTDataset`` in a DataLoader.

    ``limit`` reads the same bytes in one thread, and widens them into new arrays of the sizes of a
    batch: tokens, segment ids and positions, which are int32, and labels.
    """
    import shardmill as sm

    prefix, _ = _pair(options)
    samples = _samples(prefix, options.scratch / "cache")
    packing = sm.Packing("tokens", length=_LENGTH, next_token=True, across=True)
    runtime = sm.Runtime(threads=options.threads)

    def packs(*, shuffle: bool) -> int:
        loader = sm.Loader(
            prefix, packing=packing, batch_size=_PACKS, shuffle=shuffle, runtime=runtime
        )
        return sum(batch["tokens"].numel() for batch in loader)

    def megatron() -> int:
        from torch.utils.data import DataLoader

        loader = DataLoader(samples, batch_size=_PACKS, num_workers=options.threads)
        return sum(batch["tokens"].numel() for batch in loader)

    return _rates(
        {
            "megatron": megatron,
            "limit": lambda: _widened(prefix, _PACKS * _LENGTH, [*["int32"] * 3, "int64"]),
            "in_order": partial(packs, shuffle=False),
            "shuffled": partial(packs, shuffle=True),
        }
    )


def _samples(prefix: Path, cache: Path) -> Any:
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    tokenizer: Any = SimpleNamespace(eod=0, vocab_size=_VOCABULARY, unique_identifiers={})
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=_LENGTH,
        blend=([str(prefix)], None),
        split="1",
        tokenizer=tokenizer,
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        path_to_cache=str(cache),
    )
    indexed = IndexedDataset(str(prefix))
    numbers = np.arange(len(indexed), dtype=np.int32)
    return GPTDataset(indexed, str(prefix), numbers, None, Split.train, config)


def measure(options: TokenFilesOptions) -> Metrics:
    """Measures each part in a process of its own."""
    warnings.simplefilter("ignore")
    options.scratch.mkdir(parents=True, exist_ok=True)
    parts: list[Callable[[TokenFilesOptions], Metrics]] = [documents, batches, opening]
    return {part.__name__: in_processes("spawn", [partial(part, options)])[0] for part in parts}


if __name__ == "__main__":
    run_entry(TokenFilesOptions, measure)
