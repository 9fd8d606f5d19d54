"""Signals, kills, forks, pickles and processes beside the loader."""

import io
import json
import multiprocessing
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering, examples
from loader_files import flat, numpy_loader, write_files
from PIL import Image
from promptness import HANGS_S, assert_prompt

MAX_STOP_S = 0.5

TRAIN = """
import json, os, sys, time
import shardmill as sm

path, state, seen = sys.argv[1:4]
threads, pause, most = int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
runtime = sm.Runtime(threads=threads)
loader = sm.Loader(path, batch_size=7, output="numpy", shuffle=True, seed=5, runtime=runtime)
if os.path.exists(state):
    loader.load_state_dict(json.load(open(state)))
number = 0
try:
    print("ready", flush=True)
    while True:
        for batch in loader:
            number += 1
            if number > most:
                time.sleep(3600)
            with open(seen, "a") as log:
                log.write(" ".join(map(str, batch["id"].tolist())) + "\\n")
            with open(state + ".new", "w") as file:
                json.dump(loader.state_dict(), file)
            os.replace(state + ".new", state)
            time.sleep(pause)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def train(
    directory: Path, rows: Path, threads: int, pause: float, most: int = 1 << 60
) -> subprocess.Popen[str]:
    """A process that has begun; after ``most`` batches it waits for its end."""
    arguments = [
        sys.executable,
        "-c",
        TRAIN,
        str(rows),
        str(directory / "state"),
        str(directory / "seen"),
        str(threads),
        str(pause),
        str(most),
    ]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@covering(1, threads=[0, 2], pause=[0.0, 0.05])
def test_interrupt_stops_the_loop_within_half_a_second(
    tmp_path: Path, threads: int, pause: float
) -> None:
    rows = write_files(tmp_path / "rows", [20_000], row_group=500)

    def interrupted() -> float:
        process = train(tmp_path, rows, threads, pause)
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=HANGS_S)
        assert (output, errors, process.returncode) == ("interrupted\n", "", 0)
        return time.monotonic() - began

    assert_prompt(MAX_STOP_S, interrupted)


@pytest.mark.parametrize("threads", [0, 2])
def test_job_that_is_killed_again_and_again_has_each_row_once(tmp_path: Path, threads: int) -> None:
    rows = write_files(tmp_path / "rows", [200, 100], row_group=20)
    reference = numpy_loader(rows, batch_size=7, shuffle=True, seed=5)
    whole = flat(reference)
    done: list[int] = []
    generator = random.Random(threads)
    for _ in range(examples(4, 2)):
        # Four times ten batches of 43, so that it is killed within its epoch however late that is.
        process = train(tmp_path, rows, threads, 0.004, most=10)
        wait_until(lambda: (tmp_path / "seen").exists() and (tmp_path / "state").exists())
        time.sleep(generator.random() * 0.05)
        process.kill()
        process.communicate(timeout=HANGS_S)
        state = json.loads((tmp_path / "state").read_text())
        lines = (tmp_path / "seen").read_text().splitlines()
        (tmp_path / "seen").unlink()
        new = [int(id) for line in lines for id in line.split()]
        assert state["epoch"] == 0
        # A batch may have been seen after the last state: it comes again,
        # which is what the state promises.
        done = (done + new)[: state["consumed"]]
        assert done == whole[: state["consumed"]]
    loader = numpy_loader(rows, batch_size=7, shuffle=True, seed=5)
    loader.load_state_dict(state)
    assert done + flat(loader) == whole


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + HANGS_S
    while not condition():
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.002)


def in_a_fork(work: Callable[[], Any]) -> str:
    """What ``work`` says in a forked child, within the time that it has."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = json.dumps(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], HANGS_S)
        if not ready:
            os.kill(child, signal.SIGKILL)
            return "hangs"
        return os.read(reading, 1 << 16).decode()
    finally:
        os.waitpid(child, 0)
        os.close(reading)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("threads", [0, 2])
def test_forked_child_goes_on_anew_and_the_parent_where_it_was(
    tmp_path: Path, threads: int
) -> None:
    rows = write_files(tmp_path / "rows", [4000], row_group=50)
    loader = numpy_loader(rows, batch_size=4, threads=threads)
    passing = iter(loader)
    next(passing)
    assert in_a_fork(lambda: len(flat(loader))) == "4000"
    assert in_a_fork(lambda: len(flat(numpy_loader(rows, filter=sm.col("id") < 100)))) == "100"
    assert in_a_fork(lambda: loader.metrics().rows) == "4"
    assert in_a_fork(loader.state_dict) == json.dumps(loader.state_dict())
    assert next(passing)["id"].tolist() == [4, 5, 6, 7]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pass_of_the_parent_is_refused_in_the_child_or_ends_there(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [400_000], row_group=10_000)
    loader = numpy_loader(rows, batch_size=4, threads=2, prefetch_bytes=1)
    passing: Any = iter(loader)
    next(passing)

    def rest() -> int:
        return sum(len(batch["id"]) for batch in passing)

    answer = in_a_fork(rest)
    assert answer.startswith("RuntimeError") and "fork" in answer, answer

    def dropped() -> str:
        nonlocal passing
        del passing
        return "dropped"

    assert in_a_fork(dropped) == '"dropped"'
    assert next(passing)["id"].tolist() == [4, 5, 6, 7]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_child_that_is_forked_while_a_large_image_is_decoded_decodes_its_own(
    tmp_path: Path,
) -> None:
    content = io.BytesIO()
    Image.new("RGB", (5_000, 4_000)).save(content, "PNG")
    pq.write_table(pa.table({"image": [content.getvalue()] * 40}), tmp_path / "x.parquet")
    data = sm.Dataset(tmp_path / "x.parquet", images=sm.Images("image", size=8, resample="nearest"))
    passing = iter(sm.Loader(data, batch_size=1, output="numpy", runtime=sm.Runtime(threads=2)))
    next(passing)
    # At nearly every moment, a thread of the parent is decoding one.
    for _ in range(examples(3, 2)):
        assert in_a_fork(lambda: len(data[0]["image"])) == "3"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["mixture", "packs"])
def test_children_that_are_forked_while_threads_plan_the_same_loader_plan_their_own(
    tmp_path: Path, kind: str
) -> None:
    if kind == "mixture":
        sources = [write_files(tmp_path / name, [2000], row_group=50) for name in ("a", "b")]
        loader = numpy_loader(sm.Mixture(sources), batch_size=4, threads=2, shuffle=True)
    else:
        rows = pa.table({"tokens": [[1] * (1 + row % 7) for row in range(4000)]})
        pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=50)
        packing = sm.Packing("tokens", length=16, plan="ahead", epoch_packs=1000)
        loader = numpy_loader(
            tmp_path / "rows.parquet", batch_size=4, threads=2, shuffle=True, packing=packing
        )

    def batches() -> int:
        return sum(1 for _ in loader)

    expected, is_done = batches(), threading.Event()

    def train() -> None:
        while not is_done.is_set():
            batches()

    trainer = threading.Thread(target=train)
    trainer.start()
    try:
        answers = {in_a_fork(batches) for _ in range(examples(10, 4))}
    finally:
        is_done.set()
        trainer.join()
    assert answers == {str(expected)}


def rest_of(loader: sm.Loader) -> tuple[list[int], dict[str, Any]]:
    state = loader.state_dict()
    return flat(loader), state


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_pickled_loader_is_the_same_in_another_process(tmp_path: Path, method: str) -> None:
    rows = write_files(tmp_path / "rows", [100, 50], row_group=9)
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "filter": sm.col("id") < 120}
    loader = numpy_loader(rows, **options)
    passing = iter(loader)
    for _ in range(3):
        next(passing)
    loader.load_state_dict(loader.state_dict())
    with multiprocessing.get_context(method).Pool(1) as pool:
        there, state = pool.apply(rest_of, (loader,))
    assert state == loader.state_dict()
    assert there == flat(loader)
    assert len(there) == 120 - 24


@pytest.mark.parametrize("output", ["torch", "numpy", "arrow", "dict"])
def test_loader_of_every_output_survives_pickle(tmp_path: Path, output: str) -> None:
    import pickle

    if output == "torch":
        pytest.importorskip("torch")
    rows = write_files(tmp_path / "rows", [30], row_group=9)
    loader = pickle.loads(
        pickle.dumps(sm.Loader(rows, batch_size=8, output=output, columns=["id"], tail="drop"))
    )
    assert [len(batch["id"]) for batch in loader] == [8, 8, 8]


def sum_of(batch: dict[str, Any]) -> int:
    return int(batch["id"].sum())


def slow_at_first(batch: dict[str, Any]) -> int:
    first = int(batch["id"][0])
    time.sleep(0.3 if first == 0 else 0.0)
    return first


def fails_at_twenty(batch: dict[str, Any]) -> list[int]:
    if 20 in batch["id"]:
        raise ZeroDivisionError("at twenty")
    return batch["id"].tolist()


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_transform_delivers_in_order_wherever_it_runs(tmp_path: Path, workers: int) -> None:
    rows = write_files(tmp_path / "rows", [40], row_group=5)
    loader = numpy_loader(rows, batch_size=4, transform=slow_at_first, transform_workers=workers)
    assert list(loader) == list(range(0, 40, 4))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_leaves_the_workers_of_a_transform_to_its_parent(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [400], row_group=50)
    loader = numpy_loader(rows, batch_size=4, transform=sum_of, transform_workers=2)
    passing: Any = iter(loader)
    first = next(passing)

    def rest() -> int:
        return sum(passing)

    answer = in_a_fork(rest)
    assert answer.startswith("ClosedError") and "fork" in answer, answer

    def closed() -> str:
        passing.close()
        return "closed"

    assert in_a_fork(closed) == '"closed"'
    assert [first, *passing] == [sum(range(start, start + 4)) for start in range(0, 400, 4)]


@pytest.mark.parametrize("workers", [0, 2])
def test_failing_transform_raises_at_the_place_of_its_batch(tmp_path: Path, workers: int) -> None:
    rows = write_files(tmp_path / "rows", [80], row_group=5)
    loader = numpy_loader(rows, batch_size=4, transform=fails_at_twenty, transform_workers=workers)
    seen = []
    with pytest.raises(ZeroDivisionError, match="at twenty"):
        for batch in loader:
            seen += batch
    assert seen == list(range(20))
    assert loader.state_dict()["consumed"] == 20


@pytest.mark.parametrize("workers", [0, 2])
def test_damaged_page_is_an_error_behind_the_transformed_batches_before_it(
    tmp_path: Path, workers: int
) -> None:
    rows = write_files(
        tmp_path / "rows", [100], row_group=20, write_page_checksum=True, compression="none"
    )
    path = rows / "000.parquet"
    start = pq.ParquetFile(path).metadata.row_group(3).column(0).dictionary_page_offset
    written = bytearray(path.read_bytes())
    written[start + 60] ^= 1
    path.write_bytes(written)
    loader = numpy_loader(rows, batch_size=4, transform=sum_of, transform_workers=workers)
    seen = []
    with pytest.raises(ValueError, match=r"000\.parquet"):
        for batch in loader:
            seen.append(batch)
    assert seen == [sum(range(start, start + 4)) for start in range(0, 60, 4)]


def test_left_pass_ends_its_transform_workers(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [400], row_group=5)
    passing: Any = iter(numpy_loader(rows, batch_size=4, transform=sum_of, transform_workers=2))
    next(passing)
    assert len(multiprocessing.active_children()) >= 2
    passing.close()
    wait_until(lambda: not multiprocessing.active_children())


def never_returns(batch: dict[str, Any]) -> None:
    if batch["id"][0] > 0:
        time.sleep(3600)


def test_left_pass_does_not_wait_for_the_transforms_that_run(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [400], row_group=5)
    passing: Any = iter(
        numpy_loader(rows, batch_size=4, transform=never_returns, transform_workers=2)
    )
    assert next(passing) is None
    passing.close()
    wait_until(lambda: not multiprocessing.active_children())


def is_interrupt_ignored(_batch: dict[str, Any]) -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_ctrl_c_does_not_reach_the_workers_of_a_transform(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [40], row_group=5)
    assert all(
        numpy_loader(rows, batch_size=4, transform=is_interrupt_ignored, transform_workers=2)
    )


class CountsPickles:
    """A function that knows how often it was sent."""

    sent = 0

    def __call__(self, batch: dict[str, Any]) -> int:
        return len(batch["id"])

    def __reduce__(self) -> Any:
        CountsPickles.sent += 1
        return CountsPickles, ()


def test_function_of_a_transform_is_not_sent_with_every_batch(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [400], row_group=5)
    loader = numpy_loader(rows, batch_size=4, transform=CountsPickles(), transform_workers=2)
    CountsPickles.sent = 0
    assert list(loader) == [4] * 100
    assert CountsPickles.sent == 1


def test_function_that_cannot_be_sent_is_refused_with_a_way_out(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [40], row_group=5)
    loader = numpy_loader(rows, batch_size=4, transform=lambda batch: batch, transform_workers=1)
    with pytest.raises(sm.OptionError, match="hint: define it at the top level of a module"):
        next(iter(loader))


def test_process_ends_with_unfinished_passes(tmp_path: Path) -> None:
    rows = write_files(tmp_path / "rows", [40_000], row_group=500)
    code = (
        "import sys, shardmill as sm\n"
        "loaders = [sm.Loader(sys.argv[1], batch_size=4, output='numpy', "
        "runtime=sm.Runtime(threads=2), shuffle=True) for _ in range(8)]\n"
        "passes = [iter(loader) for loader in loaders]\n"
        "[next(passing) for passing in passes]\n"
        "print('left', flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(rows)],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("left\n", "", 0)
