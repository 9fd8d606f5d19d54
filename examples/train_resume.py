"""Trains a small model from Parquet, kills it, and resumes it on fewer ranks.

    python examples/train_resume.py

It trains on two ranks, resumes on one rank, and proves that no row was lost or seen twice. Three
trainings over the same data: one of two ranks that nobody disturbs; one of two ranks that save
every ten steps and are killed (SIGKILL) in the middle; and one of a single rank with twice the
batch size that goes on from the last checkpoint. Each rank writes down which rows it got in each
step. The rows that went into the resumed model are then compared with those of the undisturbed run.
The last line of stdout is the picture of the loss.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FILES, ROWS_OF_FILE, ROW_GROUP, FEATURES = 4, 5_003, 500, 16
BATCH_SIZE = 64
SAVE_EVERY = 10
KILL_AFTER = 84
TIMEOUT_S = 240


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("demo_output/train_resume"))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        train(options.out, json.loads(options.worker))
        return 0
    try:
        import pyarrow  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        print(
            f"train_resume: this example needs {error.name}\nhint: pip install torch pyarrow",
            file=sys.stderr,
        )
        return 1
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("*.pt"), *out.glob("*.jsonl"), *out.glob("rendezvous*")):
        old.unlink()
    rows = write_data(out / "data")
    say("data", f"{rows:,} rows in {FILES} Parquet files, {ROW_GROUP} rows a row group")

    run(out, "whole", ranks=2, batch_size=BATCH_SIZE)
    whole = batches_of(out, "whole", ranks=2)
    say("undisturbed", f"2 ranks × {BATCH_SIZE} rows: {len(whole)} steps")

    run(out, "killed", ranks=2, batch_size=BATCH_SIZE, kill_after=KILL_AFTER)
    killed = batches_of(out, "killed", ranks=2)
    checkpoint = load(out / "killed.pt")
    position = checkpoint["loader"]
    state_bytes = len(json.dumps(position))
    say(
        "killed",
        f"2 ranks × {BATCH_SIZE} rows: SIGKILL in step {len(killed)}, "
        f"the last checkpoint is of step {checkpoint['step']}",
    )
    say(
        "its state",
        f"{position['consumed']:,} rows of epoch {position['epoch']} consumed; "
        f"{state_bytes} bytes of JSON, the same on every rank",
    )

    run(out, "resumed", ranks=1, batch_size=2 * BATCH_SIZE, start="killed.pt")
    resumed = batches_of(out, "resumed", ranks=1)
    say("resumed", f"1 rank × {2 * BATCH_SIZE} rows: steps {min(resumed)} to {max(resumed)}")

    # What was trained after the last checkpoint died with the model; those steps are done again.
    trained = {step: ids for step, ids in killed.items() if step < checkpoint["step"]} | resumed
    seen = sorted(row for ids in trained.values() for row in ids)
    if seen != list(range(rows)):
        return fail(
            f"{rows - len(set(seen)):,} rows were lost "
            f"and {len(seen) - len(set(seen)):,} seen twice"
        )
    say("check", f"each of the {rows:,} rows was trained on exactly once")
    if trained != whole:
        return fail("a global batch differs from that of the undisturbed run")
    say(
        "check",
        f"all {len(whole)} global batches have the same rows in the same order "
        "as in the undisturbed run",
    )
    difference = max(
        float((a - b).abs().max())
        for a, b in zip(
            load(out / "whole.pt")["model"].values(),
            load(out / "resumed.pt")["model"].values(),
            strict=True,
        )
    )
    say("check", f"the two models differ by {difference:.1e} at most, which is rounding")
    if difference > 1e-3:
        return fail("the resumed model is another one")
    picture = draw(out)
    if picture:
        print(f"\nPicture of the loss:\n{picture}")
    return 0


def train(out: Path, job: dict) -> None:
    """One rank of one training: what a user's own script would be."""
    import shardmill as sm
    import torch
    from torch import distributed, nn

    name, rank, ranks = job["name"], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    trained = model
    if ranks > 1:
        distributed.init_process_group(
            "gloo", init_method=f"file://{out}/rendezvous_{name}", rank=rank, world_size=ranks
        )
        trained = nn.parallel.DistributedDataParallel(model)

    # Rank and world size come from torch.distributed, or from the environment.
    loader = sm.Loader(
        out / "data",
        batch_size=job["batch_size"],
        shuffle=sm.Shuffle(256 << 10),
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
            # Ranks have equal steps; rows that only fill up the last one count for nothing.
            is_new = ~batch["__padded"]
            rows = is_new.sum()
            if ranks > 1:
                distributed.all_reduce(rows)
            errors = (trained(batch["features"]).squeeze(1) - batch["target"]) ** 2
            # DistributedDataParallel takes the mean over ranks of what shall be the mean over rows.
            loss = (errors * is_new).sum() * ranks / rows
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ids = batch["row_id"][is_new].tolist()
            print(
                json.dumps({"step": step, "loss": loss.item(), "rows": ids}),
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


def run(
    out: Path,
    name: str,
    *,
    ranks: int,
    batch_size: int,
    start: str | None = None,
    kill_after: int | None = None,
    script: str = __file__,
    timeout_s: int = TIMEOUT_S,
    **more: object,
) -> None:
    """Trains in a process for each rank, to the end or until one has done ``kill_after`` steps.

    ``more`` is for the script.
    """
    # Steps of this model are short; a pause makes sure that there is a middle in which
    # to be killed.
    job = {
        "name": name,
        "batch_size": batch_size,
        "start": start,
        "pause_s": 0.01 if kill_after else 0,
        **more,
    }
    command = [sys.executable, script, "--out", str(out), "--worker", json.dumps(job)]
    shared = {
        "GLOO_SOCKET_IFNAME": "lo",
        **os.environ,
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
    }
    processes = [
        subprocess.Popen(command, env={**shared, "RANK": str(rank)}) for rank in range(ranks)
    ]
    deadline = time.monotonic() + timeout_s
    try:
        while any(process.poll() is None for process in processes):
            if kill_after and steps_done(out / f"{name}.0.jsonl") >= kill_after:
                for process in processes:
                    process.send_signal(signal.SIGKILL)
                return
            if time.monotonic() > deadline or any(process.returncode for process in processes):
                sys.exit(fail(f"the run `{name}` did not finish"))
            time.sleep(0.01)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(process.returncode for process in processes):
        sys.exit(fail(f"the run `{name}` failed"))


def write_data(directory: Path) -> int:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    directory.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    weights = random.normal(size=FEATURES)
    for number in range(FILES):
        features = random.normal(size=(ROWS_OF_FILE, FEATURES)).astype(np.float32)
        target = np.tanh(features @ weights).astype(np.float32)
        first = number * ROWS_OF_FILE
        table = pa.table(
            {
                "row_id": np.arange(first, first + ROWS_OF_FILE),
                "features": pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), FEATURES),
                "target": target,
            }
        )
        pq.write_table(table, directory / f"part-{number}.parquet", row_group_size=ROW_GROUP)
    return FILES * ROWS_OF_FILE


def steps_done(ledger: Path) -> int:
    return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def lines_of(out: Path, name: str, rank: int) -> list[dict]:
    # Who is killed may leave half a line.
    text = (out / f"{name}.{rank}.jsonl").read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def batches_of(out: Path, name: str, *, ranks: int) -> dict[int, list[int]]:
    """Rows of each global batch: those of the ranks, one rank after the other."""
    parts = [
        {line["step"]: line["rows"] for line in lines_of(out, name, rank)} for rank in range(ranks)
    ]
    return {step: [row for part in parts for row in part.get(step, [])] for step in parts[0]}


def load(path: Path) -> dict:
    import torch

    return torch.load(path, weights_only=True)


def draw(out: Path) -> Path | None:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return None
    mpl.rcParams["svg.hashsalt"] = "train_resume"
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    styles = {
        "whole": ("undisturbed, 2 ranks", {"color": "0.75", "linewidth": 4}),
        "killed": ("killed, 2 ranks", {"color": "tab:red"}),
        "resumed": ("resumed, 1 rank", {"color": "tab:blue", "linestyle": "--"}),
    }
    for name, (label, style) in styles.items():
        ranks = [lines_of(out, name, rank) for rank in range(1 if name == "resumed" else 2)]
        losses = [
            sum(line["loss"] for line in lines) / len(lines) for lines in zip(*ranks, strict=False)
        ]
        axes.plot([line["step"] for line in ranks[0]][: len(losses)], losses, label=label, **style)
    axes.set(
        xlabel="step",
        ylabel="loss of the global batch",
        yscale="log",
        title="Killed and resumed, with the same batches",
    )
    axes.legend()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out / "loss.svg", metadata={"Date": None})
    return out / "loss.svg"


def say(what: str, text: str) -> None:
    print(f"{what + ':':14}{text}", flush=True)


def fail(problem: str) -> int:
    print(
        f"{Path(sys.argv[0]).stem}: {problem}\n"
        "hint: this is a bug of shardmill: please report it with the output above",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
