"""Trains a small language model on two ranks, and measures how long they wait for each other.

    # Texts of a Debian package, which apt-get downloads (37 MB).
    python examples/train_balanced.py
    # All texts in a directory and its subdirectories.
    python examples/train_balanced.py --texts DIR

Each rank is a process with one thread. In each micro-batch, both ranks wait at a barrier, as the
ranks of FSDP do when they gather weights, so the faster rank waits for the slower one. Attention
takes most of the time of a step, and is computed separately for each document. The texts are cut
into parts. Relative to the length of a pack, these parts are as long as whole texts are in packs
of 128 K tokens.

First, both ranks measure steps with another seed, and fit a cost to them. Then they train in
several rounds. Micro-batches of a loader without a balance alternate with those of a loader with
one. Each rank records the duration of each micro-batch, and how long it waited at the barrier.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING

# Starting ranks and finding texts are the same for any training.
from train_resume import lines_of, run, say
from train_text import PACKAGE, stop, texts_below, texts_of_package

if TYPE_CHECKING:
    import shardmill as sm
    import torch

VOCABULARY, WIDTH, LAYERS, HEADS = 256, 32, 2, 4
#: Length of the packs that are scaled down.
WHOLE_LENGTH = 128 << 10
ACCUMULATION, WINDOW_PACKS = 4, 256
#: Steps at the start of a round that are not measured.
WARM_UP = 20
FIT_SEED, SEED = 1, 7
RANKS = 2
TIMEOUT_S = 3600
ORDERS = ("without", "with")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--texts", type=Path, help=f"directory of texts; by default the Debian package {PACKAGE}"
    )
    parser.add_argument(
        "--kilobytes", type=int, default=4400, help="use at most this much text (default: 4400)"
    )
    parser.add_argument(
        "--length", type=int, default=8192, help="bytes of text in a pack (default: 8192)"
    )
    parser.add_argument(
        "--steps", type=int, default=80, help="micro-batches of a round (default: 80)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--out", type=Path, default=Path("demo_output/train_balanced"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options.out, json.loads(options.worker))
        return 0
    try:
        import pyarrow  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        return stop(f"this example needs {error.name}", hint="pip install torch pyarrow")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.jsonl"), *out.glob("rendezvous*")):
        old.unlink()
    try:
        found = texts_below(options.texts) if options.texts else texts_of_package(out)
        documents = write_data(out, found, options.length, options.kilobytes * 1000)
    except (OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
        return stop(f"no texts: {error}", hint="name a directory of texts: --texts DIR")
    packs = len(loader_of(out, options.length, SEED))
    if packs <= options.steps:
        return stop(
            f"{packs} packs a rank are too few for --steps {options.steps}",
            hint="give more texts with --texts and --kilobytes, or fewer --steps",
        )
    say("data", f"{documents:,} documents: {packs} packs of {options.length:,} tokens a rank")
    job = {"length": options.length, "steps": options.steps, "rounds": options.rounds}
    run(out, "run", ranks=RANKS, batch_size=1, script=__file__, timeout_s=TIMEOUT_S, **job)
    report(out, options.length)
    return 0


def report(out: Path, length: int) -> None:
    """Prints what was predicted, and what was measured."""
    import numpy as np
    import shardmill as sm

    (fitted, *lines), *others = (lines_of(out, "run", rank) for rank in range(RANKS))
    cost = sm.Cost(**fitted)
    of_ranks = [lines, *(other[1:] for other in others)]
    pairs = np.array([[line["pair"] for line in own] for own in of_ranks])
    seconds = np.array([[line["seconds"] for line in own] for own in of_ranks])
    predicted = cost.token * length + cost.pair * pairs
    attention = cost.pair * pairs / predicted
    say("cost", f"a token as much as {cost.token / cost.pair:,.0f} pairs of tokens")
    say("attention", f"{np.average(attention, weights=seconds):.0%} of the seconds of a step")
    imbalance = loader_of(out, length, SEED, cost).explain()["cost_imbalance"]
    before, after = (imbalance[name]["all_steps"] for name in ("as_packed", "balanced"))
    say("predicted", f"imbalance {before:.3f} without a balance, {after:.3f} with it")
    waits = np.array([[line["waited"] for line in own] for own in of_ranks]).sum(axis=0)
    rounds, orders = (np.array([line[name] for line in lines]) for name in ("round", "order"))
    for number in range(rounds.max() + 1):
        own = [waits[(rounds == number) & (orders == order)].sum() for order in ORDERS]
        say(f"round {number}", "waits of {:.2f} s without, {:.2f} s with".format(*own))
    # The faster rank would wait for the difference if no other program ran on the cores.
    measured = (waits, np.ptp(seconds, axis=0))
    without, balanced = ([values[orders == order].sum() for values in measured] for order in ORDERS)
    ratios = np.divide(balanced, without)
    say(
        "measured",
        f"waits with a balance are {ratios[0]:.2f} of those without, {ratios[1]:.2f} by CPU time",
    )
    correlation = np.corrcoef(predicted.ravel(), seconds.ravel())[0, 1]
    say("correlation", f"{correlation:.3f} of the predicted and the measured cost")


def loader_of(
    out: Path, length: int, seed: int, cost: sm.Cost | None = None, rank: int = 0
) -> sm.Loader:
    import shardmill as sm

    return sm.Loader(
        out / "texts.parquet",
        packing=packing_of(length, cost),
        batch_size=1,
        lanes=RANKS,
        shuffle=True,
        seed=seed,
        rank=rank,
        world_size=RANKS,
        tail="drop",
        # The other core is that of the other rank.
        runtime=sm.Runtime(threads=1),
    )


def packing_of(length: int, cost: sm.Cost | None = None) -> sm.Packing:
    import shardmill as sm

    balance = cost and sm.Balance(cost, per_step=ACCUMULATION, window_packs=WINDOW_PACKS)
    return sm.Packing(
        "tokens", length=length, strategy="best_fit", next_token=True, balance=balance
    )


def train(out: Path, job: dict) -> None:
    """One rank: what a user's own script would be, and the clocks."""
    import shardmill as sm
    import torch
    from torch import distributed

    rank, length, steps = int(os.environ["RANK"]), job["length"], job["steps"]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    distributed.init_process_group(
        "gloo", init_method=f"file://{out}/rendezvous", rank=rank, world_size=RANKS
    )
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    numbers, packing = count(1), packing_of(length)

    def train_on(batch: dict[str, torch.Tensor]) -> dict[str, float]:
        cpu = time.thread_time()
        lengths = packing.cu_seqlens(batch).diff().tolist()
        loss_of(model, batch, lengths).backward()
        # The time of a core: other programs on the machine do not count.
        seconds, ended = time.thread_time() - cpu, time.perf_counter()
        distributed.barrier()
        waited = time.perf_counter() - ended
        if next(numbers) % ACCUMULATION == 0:
            for parameter in model.parameters():
                distributed.all_reduce(parameter.grad)
            optimizer.step()
            optimizer.zero_grad()
        pair = sum(tokens**2 for tokens in lengths)
        return {"pair": pair, "seconds": seconds, "waited": waited}

    warm_up = min(WARM_UP, steps // 4)
    first = loader_of(out, length, FIT_SEED, rank=rank)
    own = [train_on(batch) for batch in islice(first, steps)][warm_up:]
    of_ranks: list[list[dict[str, float]]] = [[]] * RANKS
    distributed.all_gather_object(of_ranks, own)
    # All ranks have the same cost, and so the same order.
    lines = [line for lines in of_ranks for line in lines]
    terms = {"token": [length] * len(lines), "pair": [line["pair"] for line in lines]}
    cost = sm.Cost.fit(terms, [line["seconds"] for line in lines])

    loaders = [
        loader_of(out, length, SEED, rank=rank),
        loader_of(out, length, SEED, cost, rank),
    ]
    with (out / f"run.{rank}.jsonl").open("w") as ledger:
        print(json.dumps({"token": cost.token, "pair": cost.pair}), file=ledger)
        for number in range(job["rounds"]):
            for loader in loaders:
                loader.set_epoch(number)
            for step, batches in enumerate(islice(zip(*loaders, strict=False), steps)):
                for order, batch in zip(ORDERS, batches, strict=True):
                    line = train_on(batch) | {"round": number, "order": order}
                    if step >= warm_up:
                        print(json.dumps(line), file=ledger, flush=True)
    distributed.destroy_process_group()


def new_model() -> torch.nn.Module:
    """A transformer whose tokens see those before them in their document."""
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
            self.inner, self.outer = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )

        def forward(self, hidden: torch.Tensor, lengths: list[int]) -> torch.Tensor:
            parts = self.inner(self.norms[0](hidden)).view(len(hidden), 3, 1, HEADS, -1)
            documents = parts.permute(1, 2, 3, 0, 4).split(lengths, dim=3)
            seen = [
                scaled_dot_product_attention(*document, is_causal=True) for document in documents
            ]
            hidden = hidden + self.outer(torch.cat(seen, dim=2)[0].transpose(0, 1).flatten(1))
            return hidden + self.mlp(self.norms[1](hidden))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens: torch.Tensor, lengths: list[int]) -> torch.Tensor:
            hidden = self.tokens(tokens)
            for layer in self.layers:
                hidden = layer(hidden, lengths)
            return self.head(hidden)

    return Model()


def loss_of(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], lengths: list[int]
) -> torch.Tensor:
    from torch.nn.functional import cross_entropy

    # The label after the last token of a document is -100, which is ignored.
    return cross_entropy(model(batch["tokens"][0], lengths), batch["labels"][0])


def write_data(out: Path, texts: Iterator[str], length: int, most: int) -> int:
    """Writes parts of texts as tokens, which are bytes, and returns their number."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = [
        part.astype(np.int32)
        for text in texts
        for part in np.array_split(
            np.frombuffer(text.encode(), np.uint8), max(WHOLE_LENGTH // length, 1)
        )
        if len(part)
    ]
    random.Random(0).shuffle(parts)
    kept = np.cumsum([len(part) for part in parts]) <= most
    documents = [part for part, is_kept in zip(parts, kept, strict=True) if is_kept]
    pq.write_table(pa.table({"tokens": documents}), out / "texts.parquet", row_group_size=256)
    return len(documents)


if __name__ == "__main__":
    sys.exit(main())
