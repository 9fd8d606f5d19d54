"""Trains a small language model from raw text, kills it, and resumes it on fewer ranks.

    # Texts of a Debian package, which apt-get downloads (37 MB).
    python examples/train_text.py
    # All texts below a directory.
    python examples/train_text.py --texts DIR

It trains on two ranks, resumes on one rank, and checks that the result is the same. The texts are a
column of a Parquet file. The loader tokenizes them and packs the tokens while it trains; nothing is
tokenized in advance. It runs three trainings on the same texts: an uninterrupted one on two ranks;
one on two ranks that saves every few steps and is killed (SIGKILL) in the middle; and one on a
single rank, with twice the batch size, that resumes from the last checkpoint. Each rank writes down
the tokens and the loss of each step. What the resumed model was trained on is then compared with
the uninterrupted run. The last line of stdout is the picture of the loss.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Starting ranks, killing them and drawing are the same for any training.
from train_resume import batches_of, draw, fail, lines_of, load, run, say

if TYPE_CHECKING:
    import torch

PACKAGE = "linux-doc-6.1"
END = "<|endoftext|>"
VOCABULARY = 257
LENGTH = 256
BATCH_SIZE = 4
WIDTH, LAYERS, HEADS = 128, 5, 4
SAVE_EVERY = 5
FEWEST_STEPS = 12
TOLERANCE = 1e-4
TIMEOUT_S = 1800


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--texts", type=Path, help=f"directory of texts; by default the Debian package {PACKAGE}"
    )
    parser.add_argument(
        "--kilobytes", type=int, default=600, help="train on at most this much text (default: 600)"
    )
    parser.add_argument("--out", type=Path, default=Path("demo_output/train_text"))
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
    for old in (*out.glob("*.pt"), *out.glob("*.jsonl"), *out.glob("rendezvous*")):
        old.unlink()
    try:
        found = texts_below(options.texts) if options.texts else texts_of_package(out)
        texts = sample(list(found), options.kilobytes * 1000)
    except (OSError, subprocess.CalledProcessError, tarfile.TarError) as error:
        return stop(f"no texts: {error}", hint="name a directory of texts: --texts DIR")
    size = sum(len(text.encode()) for text in texts)
    fewest = FEWEST_STEPS * 2 * BATCH_SIZE * LENGTH
    if size < fewest:
        return stop(
            f"{size:,} bytes of text are too few",
            hint=f"give --texts and --kilobytes for {fewest:,} or more",
        )
    write_data(out, texts)
    write_tokenizer(out / "tokenizer.json")
    say("data", f"{len(texts):,} texts of {size:,} bytes in one Parquet file")

    run_script(out, "whole", ranks=2, batch_size=BATCH_SIZE)
    steps = len(batches_of(out, "whole", ranks=2))
    say("uninterrupted", f"2 ranks × {BATCH_SIZE} packs of {LENGTH} tokens: {steps} steps")

    run_script(out, "killed", ranks=2, batch_size=BATCH_SIZE, kill_after=steps * 2 // 3)
    killed = batches_of(out, "killed", ranks=2)
    saved = load(out / "killed.pt")
    say("killed", f"SIGKILL in step {len(killed)}, the last checkpoint is of step {saved['step']}")
    say("its state", f"{len(json.dumps(saved['loader']))} bytes of JSON, the same on every rank")

    run_script(out, "resumed", ranks=1, batch_size=2 * BATCH_SIZE, start="killed.pt")
    say("resumed", f"1 rank × {2 * BATCH_SIZE} packs: steps {saved['step']} to {steps - 1}")
    if problem := check(out):
        return fail(problem)
    if picture := draw(out):
        print(f"\nPicture of the loss:\n{picture}")
    return 0


def check(out: Path) -> str | None:
    """Compares the interrupted training with the uninterrupted one, and returns what is wrong."""
    import numpy as np
    import pyarrow.parquet as pq

    saved = load(out / "killed.pt")["step"]
    whole = batches_of(out, "whole", ranks=2)
    # What was trained after the last checkpoint died with the model; those steps are done again.
    killed = {
        step: packs for step, packs in batches_of(out, "killed", ranks=2).items() if step < saved
    }
    trained = killed | batches_of(out, "resumed", ranks=1)
    for step in sorted(whole.keys() | trained.keys()):
        if whole.get(step) != trained.get(step):
            return f"the global batch of step {step} differs from that of the uninterrupted run"
    say("check", f"all {len(whole)} global batches have the same bytes as in the uninterrupted run")

    tokens = np.frombuffer(
        bytes.fromhex("".join(pack for packs in trained.values() for pack in packs)), np.int32
    )
    texts = pq.read_table(out / "texts.parquet")["text"].to_pylist()
    expected = np.bincount(np.frombuffer("".join(texts).encode(), np.uint8), minlength=VOCABULARY)
    expected[VOCABULARY - 1] = len(texts)
    # Packs are filled up with token 0, and no text has that byte.
    if (np.bincount(tokens, minlength=VOCABULARY)[1:] != expected[1:]).any():
        return "the tokens that were trained on are not those of the texts"
    say(
        "check",
        f"they hold each of the {expected.sum():,} tokens of the texts once, ends of text included",
    )

    uninterrupted = {line["step"]: line["loss"] for line in lines_of(out, "whole", 0)}
    losses = {
        line["step"]: line["loss"]
        for name in ("killed", "resumed")
        for line in lines_of(out, name, 0)
    }
    difference = np.abs([losses[step] - loss for step, loss in uninterrupted.items()]).max()
    if not difference <= TOLERANCE:
        return f"the loss of a step differs by {difference:.1e} from that of the uninterrupted run"
    say("check", f"the losses differ by at most {difference:.1e} per step, which is rounding error")
    return None


def train(out: Path, job: dict) -> None:
    """One rank of one training: what a user's own script would be."""
    import shardmill as sm
    import torch
    from torch import distributed
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    name, rank, ranks = job["name"], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if ranks > 1:
        distributed.init_process_group(
            "gloo", init_method=f"file://{out}/rendezvous_{name}", rank=rank, world_size=ranks
        )

    # Rank and world size come from torch.distributed, or from the environment.
    tokenize = sm.Tokenize(
        "text", tokenizer=out / "tokenizer.json", eos=END, counts=str(out / "counts")
    )
    loader = sm.Loader(
        sm.Dataset(out / "texts.parquet", tokenize=tokenize),
        packing=sm.Packing(["tokens"], length=LENGTH),
        batch_size=job["batch_size"],
        shuffle=True,
        seed=7,
        tail="pad",
    )
    step = 0
    if job["start"]:
        checkpoint = load(out / job["start"])
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
        step = checkpoint["step"]

    def save() -> None:
        if rank == 0:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),
                "step": step,
            }
            torch.save(state, out / f"{name}.pt.new")
            (out / f"{name}.pt.new").replace(out / f"{name}.pt")

    with (out / f"{name}.{rank}.jsonl").open("w") as ledger:
        for batch in loader:
            # Ranks have equal steps; packs that only pad the last step do not count.
            is_new = ~batch["__padded"]
            loss, tokens = loss_of(model, batch, is_new)
            optimizer.zero_grad()
            loss.backward()
            # Ranks have different numbers of tokens: sums are added up, and divided by the tokens
            # of all ranks.
            gradients = [parameter.grad for parameter in model.parameters()]
            total = torch.cat(
                [parameters_to_vector(gradients), torch.stack([loss.detach(), tokens])]
            )
            if ranks > 1:
                distributed.all_reduce(total)
            total /= total[-1].clone()
            vector_to_parameters(total[:-2], gradients)
            optimizer.step()
            packs = [pack.numpy().tobytes().hex() for pack in batch["tokens"][is_new]]
            print(
                json.dumps({"step": step, "loss": total[-2].item(), "rows": packs}),
                file=ledger,
                flush=True,
            )
            step += 1
            if step % SAVE_EVERY == 0:
                save()
            time.sleep(job["pause_s"])
    save()
    if ranks > 1:
        distributed.destroy_process_group()


def new_model() -> torch.nn.Module:
    """A transformer of a million parameters; a token sees those before it in its document."""
    from torch import nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = (
                nn.Embedding(VOCABULARY, WIDTH),
                nn.Embedding(LENGTH, WIDTH),
            )
            options = {
                "dropout": 0,
                "activation": "gelu",
                "batch_first": True,
                "norm_first": True,
                "bias": False,
            }
            layers = [
                nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, **options)
                for _ in range(LAYERS)
            ]
            self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

        def forward(
            self, tokens: torch.Tensor, positions: torch.Tensor, segments: torch.Tensor
        ) -> torch.Tensor:
            hidden = self.tokens(tokens) + self.positions(positions)
            is_seen = (segments[:, :, None] == segments[:, None, :]).tril()
            for layer in self.layers:
                hidden = layer(hidden, src_mask=~is_seen.repeat_interleave(HEADS, dim=0))
            return self.head(self.norm(hidden))

    return Model()


def loss_of(
    model: torch.nn.Module, batch: dict[str, torch.Tensor], is_new: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the sum of the losses of a batch, and the number of tokens it is over."""
    from torch.nn.functional import cross_entropy

    tokens, segments = batch["tokens"].long(), batch["segment_ids"]
    logits = model(tokens, batch["positions"], segments)[:, :-1]
    # A token is predicted from those before it in its document.
    counts = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0) & is_new[:, None]
    losses = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return (losses * counts.flatten()).sum(), counts.sum().to(losses.dtype)


def run_script(out: Path, name: str, **options: object) -> None:
    run(out, name, script=__file__, timeout_s=TIMEOUT_S, **options)


def write_data(out: Path, texts: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.table({"text": texts}), out / "texts.parquet", row_group_size=16, compression="zstd"
    )


def write_tokenizer(path: Path) -> None:
    """Writes a tokenizer whose tokens are bytes: the id of a byte is its value."""
    shown = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    # Tokens are text, so a byte-level tokenizer writes other bytes as letters from U+0100 on.
    other = [byte for byte in range(256) if byte not in shown]
    letters = {chr(byte): byte for byte in shown} | {
        chr(256 + place): byte for place, byte in enumerate(other)
    }
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized"], False)
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": VOCABULARY - 1, "content": END, "special": True, **flags}],
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {"type": "BPE", "vocab": letters, "merges": []},
    }
    path.write_text(json.dumps(tokenizer), encoding="utf-8")


def texts_below(directory: Path) -> Iterator[str]:
    if not directory.is_dir():
        raise NotADirectoryError(f"{directory} is not a directory")
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield from text_of(path.name, path.read_bytes())


def texts_of_package(out: Path) -> Iterator[str]:
    """Yields the English documentation of Linux, which is in a Debian package."""
    if not list(out.glob(f"{PACKAGE}_*.deb")):
        subprocess.run(
            ["apt-get", "download", "--quiet", PACKAGE],
            cwd=out,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    package = next(out.glob(f"{PACKAGE}_*.deb"))
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacked,
        tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive,
    ):
        for member in archive:
            if (
                member.isfile()
                and member.name.endswith(".rst.gz")
                and "/translations/" not in member.name
            ):
                yield from text_of(member.name, archive.extractfile(member).read())


def text_of(name: str, content: bytes) -> Iterator[str]:
    """Yields the content of a text file."""
    try:
        text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    except (UnicodeDecodeError, OSError, EOFError, zlib.error):
        return
    if text and "\0" not in text:
        yield text


def sample(texts: list[str], most: int) -> list[str]:
    """Returns a random sample of the texts, of at most ``most`` bytes."""
    random.Random(0).shuffle(texts)
    kept = []
    for text in texts:
        if most >= (size := len(text.encode())):
            kept.append(text)
            most -= size
    return kept


def stop(problem: str, *, hint: str) -> int:
    print(f"{Path(sys.argv[0]).stem}: {problem}\nhint: {hint}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
