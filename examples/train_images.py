"""Trains a small classifier on photographs, kills it, and resumes it on fewer ranks.

    # Crops of the wallpapers of a Debian package, which apt-get downloads (25 MB).
    python examples/train_images.py
    # Crops of all JPEG images below a directory.
    python examples/train_images.py --photos DIR

It trains on two ranks, resumes on one rank, and checks that the result is the same. The encoded
crops are a column of a Parquet file; the label of a crop is the photograph that it was cut from.
The loader decodes, crops and flips while it trains. It runs three trainings on the same crops: an
uninterrupted one on two ranks; one on two ranks that saves every few steps and is killed (SIGKILL)
in the middle; and one on a single rank, with twice the batch size, that resumes from the last
checkpoint. Each rank writes down the sum of the pixels of each image, and the loss of each step.
The sums and losses of the interrupted training are then compared with those of the uninterrupted
run. If Matplotlib is installed, the last line of stdout is the path of a plot of the loss.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

# Starting ranks, killing them and drawing are the same for any training.
from train_resume import batches_of, draw, fail, lines_of, load, run, say

if TYPE_CHECKING:
    import torch

PACKAGE = "lomiri-wallpapers-20.04"
MOST_PHOTOS = 10
SIDE = 64
CROP = (160, 120)
BATCH_SIZE = 8
EPOCHS = 2
SAVE_EVERY = 5
TOLERANCE = 1e-4
TIMEOUT_S = 1800


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--photos",
        type=Path,
        help=f"directory of JPEG images; by default the Debian package {PACKAGE}",
    )
    parser.add_argument("--crops", type=int, default=480, help="number of crops (default: 480)")
    parser.add_argument("--out", type=Path, default=Path("demo_output/train_images"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options.out, json.loads(options.worker))
        return 0
    try:
        import PIL  # noqa: F401
        import pyarrow  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        return stop(f"this example needs {error.name}", hint="pip install torch pyarrow pillow")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.pt"), *out.glob("*.jsonl"), *out.glob("rendezvous*")):
        old.unlink()
    try:
        photos = sorted(options.photos.rglob("*.jpg")) if options.photos else photos_of_package(out)
    except (OSError, subprocess.CalledProcessError) as error:
        return stop(
            f"no photographs: {error}", hint="name a directory of JPEG images: --photos DIR"
        )
    if len(photos) < 2 or options.crops < 10 * BATCH_SIZE:
        hint = (
            "a directory with two or more JPEG images: --photos DIR; "
            f"at least {10 * BATCH_SIZE} crops: --crops N"
        )
        return stop(f"{len(photos)} photographs and {options.crops} crops are too few", hint=hint)
    size = write_data(out, photos[:MOST_PHOTOS], options.crops)
    say(
        "data",
        f"{options.crops} crops of {min(len(photos), MOST_PHOTOS)} photographs, "
        f"{size:,} bytes of JPEG in one Parquet file",
    )

    run_script(out, "whole", ranks=2, batch_size=BATCH_SIZE)
    steps = len(batches_of(out, "whole", ranks=2))
    say(
        "uninterrupted",
        f"2 ranks × {BATCH_SIZE} images of {SIDE} × {SIDE}, {EPOCHS} epochs: {steps} steps",
    )

    run_script(out, "killed", ranks=2, batch_size=BATCH_SIZE, kill_after=steps * 2 // 3)
    killed = batches_of(out, "killed", ranks=2)
    saved = load(out / "killed.pt")
    say("killed", f"SIGKILL in step {len(killed)}, the last checkpoint is of step {saved['step']}")
    say("its state", f"{len(json.dumps(saved['loader']))} bytes of JSON, the same on every rank")

    run_script(out, "resumed", ranks=1, batch_size=2 * BATCH_SIZE, start="killed.pt")
    say("resumed", f"1 rank × {2 * BATCH_SIZE} images: steps {saved['step']} to {steps - 1}")
    if problem := check(out):
        return fail(problem)
    if picture := draw(out):
        print(f"\nPicture of the loss:\n{picture}")
    return 0


def check(out: Path) -> str | None:
    """Compares the interrupted training with the uninterrupted one, and returns what is wrong."""
    saved = load(out / "killed.pt")["step"]
    whole = batches_of(out, "whole", ranks=2)
    # What was trained after the last checkpoint died with the model; those steps are done again.
    killed = {
        step: sums for step, sums in batches_of(out, "killed", ranks=2).items() if step < saved
    }
    trained = killed | batches_of(out, "resumed", ranks=1)
    for step in sorted(whole.keys() | trained.keys()):
        if whole.get(step) != trained.get(step):
            return f"the pixels of step {step} differ from those of the uninterrupted run"
    images = sum(map(len, whole.values()))
    say(
        "check", f"the sums of the pixels of all {images} images are those of the uninterrupted run"
    )

    uninterrupted = {line["step"]: line["loss"] for line in lines_of(out, "whole", 0)}
    losses = {
        line["step"]: line["loss"]
        for name in ("killed", "resumed")
        for line in lines_of(out, name, 0)
    }
    difference = max(abs(losses[step] - loss) for step, loss in uninterrupted.items())
    if not difference <= TOLERANCE:
        return f"the loss of a step differs by {difference:.1e} from that of the uninterrupted run"
    say("check", f"the losses differ by at most {difference:.1e} per step, which is rounding error")
    return None


def train(out: Path, job: dict) -> None:
    """One rank of one training: what a user's own script would be."""
    import shardmill as sm
    import torch
    from torch import distributed
    from torch.nn.functional import cross_entropy

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
    crop = sm.RandomCrop(scale=(0.3, 1.0))
    images = sm.Images(
        "image", size=SIDE, fit=crop, flip=0.5, dtype="float32", normalize="imagenet"
    )
    loader = sm.Loader(
        sm.Dataset(out / "crops.parquet", images=images),
        batch_size=job["batch_size"],
        shuffle=True,
        seed=7,
        tail="drop",
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
        while loader.epoch < EPOCHS:
            for batch in loader:
                loss = cross_entropy(model(batch["image"]), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                if ranks > 1:
                    for parameter in model.parameters():
                        distributed.all_reduce(parameter.grad)
                        parameter.grad /= ranks
                    distributed.all_reduce(mean := loss.detach() / ranks)
                else:
                    mean = loss.detach()
                optimizer.step()
                # Exact: the sum of the bits of an image.
                sums = (
                    batch["image"].view(torch.int32).flatten(1).sum(1, dtype=torch.int64).tolist()
                )
                print(
                    json.dumps({"step": step, "loss": mean.item(), "rows": sums}),
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
    """A small convolutional network.

    It has no layers whose result depends on the other images of a batch.
    """
    from torch import nn

    layers, channels = [], 3
    for width in (16, 32, 64):
        layers += [
            nn.Conv2d(channels, width, 3, stride=2, padding=1),
            nn.GroupNorm(4, width),
            nn.ReLU(),
        ]
        channels = width
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, MOST_PHOTOS)
    )


def run_script(out: Path, name: str, **options: object) -> None:
    run(out, name, script=__file__, timeout_s=TIMEOUT_S, **options)


def write_data(out: Path, photos: list[Path], count: int) -> int:
    """Writes random crops of the photographs, and returns their bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    opened = [Image.open(photo).convert("RGB") for photo in photos]
    for photo in opened:
        photo.thumbnail((1280, 1280))
    draw_of = random.Random(0)
    crops, labels = [], []
    for number in range(count):
        label = number % len(opened)
        photo, (width, height) = opened[label], CROP
        width, height = min(width, photo.width), min(height, photo.height)
        left, top = (
            draw_of.randint(0, photo.width - width),
            draw_of.randint(0, photo.height - height),
        )
        content = io.BytesIO()
        photo.crop((left, top, left + width, top + height)).save(content, "JPEG", quality=90)
        crops.append(content.getvalue())
        labels.append(label)
    pq.write_table(
        pa.table({"image": crops, "label": labels}), out / "crops.parquet", row_group_size=32
    )
    return sum(map(len, crops))


def photos_of_package(out: Path) -> list[Path]:
    """Returns the wallpapers of a Debian package."""
    if not list(out.glob(f"{PACKAGE}_*.deb")):
        subprocess.run(
            ["apt-get", "download", "--quiet", PACKAGE],
            cwd=out,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    subprocess.run(
        ["dpkg-deb", "--extract", next(out.glob(f"{PACKAGE}_*.deb")), out / "package"], check=True
    )
    return sorted((out / "package").rglob("*.jpg"))


def stop(problem: str, *, hint: str) -> int:
    print(f"train_images: {problem}\nhint: {hint}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
