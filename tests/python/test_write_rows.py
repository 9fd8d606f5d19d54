"""`Writer.write_rows`: a transform runs in other processes, rows keep their order.

What goes wrong is told.
"""

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import shardmill as sm
from promptness import HANGS_S
from shardmill.write._row_workers import transformed


def kept_unless_fifth(number: int) -> dict | None:
    time.sleep(0.001 * (number % 3))
    return None if number % 5 == 0 else {"x": number, "process": os.getpid()}


def half_sent(marker: Path | None) -> dict:
    """Send the header of a result and nothing of it, as a worker that is killed there does."""
    if marker is not None:
        frame = sys._getframe()
        while "result_queue" not in frame.f_locals:
            frame = frame.f_back
        os.write(frame.f_locals["result_queue"]._writer.fileno(), struct.pack("!i", 1000))
        marker.touch()
        signal.pause()
    return {}


def failing_at_100(number: int) -> dict:
    if number == 100:
        raise ZeroDivisionError("the hundredth")
    return {"x": number}


class TwoPartsError(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def failing_in_two_parts(number: int) -> dict:
    raise TwoPartsError(number, 2) from OSError("why")


def dying_at_50(number: int) -> dict:
    if number == 50:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": number}


def unpicklable(number: int) -> object:
    return lambda: number


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_keep_the_order_of_the_rows_and_none_is_left_out(
    tmp_path: Path, workers: int
) -> None:
    with sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write_rows(range(300), workers=workers, transform=kept_unless_fifth)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column("x").to_pylist() == [number for number in range(300) if number % 5]
    assert (os.getpid() in table.column("process").to_pylist()) == (workers == 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_exception_names_the_row_and_leaves_nothing(tmp_path: Path, workers: int) -> None:
    with (
        pytest.raises(ZeroDivisionError, match="the hundredth") as raised,
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows(range(1_000), workers=workers, transform=failing_at_100)
    assert "row 100 of write_rows" in raised.value.__notes__[-1]
    assert names(tmp_path) == []


def test_exception_of_a_worker_brings_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as raised, sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write_rows(range(1_000), workers=1, transform=failing_at_100)
    frames = raised.value.__notes__[0]
    assert "in failing_at_100" in frames
    assert 'raise ZeroDivisionError("the hundredth")' in frames


def test_exception_that_cannot_be_unpickled_is_told_with_its_text_and_cause(tmp_path: Path) -> None:
    with (
        pytest.raises(
            sm.EngineError, match="transform raised TwoPartsError, .*: 1 and 2\nhint: use workers=0"
        ) as raised,
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows([1], workers=1, transform=failing_in_two_parts)
    assert repr(raised.value.__cause__) == "OSError('why')"
    assert "in failing_in_two_parts" in raised.value.__notes__[0]
    assert "row 0 of write_rows" in raised.value.__notes__[-1]


def test_exception_of_the_rows_comes_behind_those_before_it(tmp_path: Path) -> None:
    def rows():
        yield from range(40)
        raise OSError("the source is gone")

    with (
        pytest.raises(OSError, match="the source is gone"),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        try:
            writer.write_rows(rows(), workers=2, transform=kept_unless_fifth)
        finally:
            assert writer.num_rows == 32
    assert names(tmp_path) == []


def test_rows_are_taken_only_a_little_ahead(tmp_path: Path) -> None:
    taken = 0

    def numbers():
        nonlocal taken
        while taken < 1_000_000:
            taken += 1
            yield taken

    with pytest.raises(ZeroDivisionError), sm.Writer(tmp_path / "a.parquet") as writer:
        writer.write_rows(numbers(), workers=2, transform=failing_at_100)
    assert taken < 20_000


def test_worker_stopped_while_it_sends_a_result_is_not_waited_for(tmp_path: Path) -> None:
    rows = transformed([None, tmp_path / "half"], half_sent, workers=1)
    next(rows)
    while not (tmp_path / "half").exists():
        time.sleep(0.01)
    rows.close()


def test_worker_that_dies_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="a worker of write_rows died"),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows(range(100), workers=2, transform=dying_at_50)
    assert names(tmp_path) == []


def test_function_that_cannot_be_sent_is_refused_with_a_hint(tmp_path: Path) -> None:
    with (
        pytest.raises(
            ValueError,
            match="cannot be sent to other processes(.|\n)*"
            "hint: define it at the top level of a module",
        ),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows(range(10), workers=1, transform=lambda number: {"x": number})


def test_result_that_cannot_be_sent_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(Exception, match="local object 'unpicklable"),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows(range(10), workers=1, transform=unpicklable)
    assert names(tmp_path) == []


@pytest.mark.parametrize("workers", [-1, True, 1.5])
def test_workers_that_are_no_number_are_refused(tmp_path: Path, workers) -> None:
    with (
        pytest.raises(
            ValueError, match=f"^workers must be an integer of at least 0, not {workers}$"
        ),
        sm.Writer(tmp_path / "a.parquet") as writer,
    ):
        writer.write_rows([], workers=workers, transform=failing_at_100)


INTERRUPTED = """
import sys, time
import shardmill as sm

def slow(number):
    time.sleep(0.05)
    return {"x": number}

def rows():
    for number in range(100_000):
        if number == 20:
            print("ready", flush=True)
        yield number

if __name__ == "__main__":
    with sm.Writer(sys.argv[1]) as writer:
        writer.write_rows(rows(), workers=2, transform=slow)
"""


def test_ctrl_c_ends_workers_and_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script), str(tmp_path / "out.parquet")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=HANGS_S)
    assert "KeyboardInterrupt" in errors
    assert process.returncode != 0
    assert names(tmp_path) == ["interrupted.py"]
    with pytest.raises(ProcessLookupError):
        for _ in range(10 * HANGS_S):
            os.killpg(process.pid, 0)
            time.sleep(0.1)
