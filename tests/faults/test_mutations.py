"""Damaged files of every format by every way to read them: rows that were written or an error, and `verify` knows which."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from breadth import examples

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compat" / "arrayrecord"))
from mutation_files import KINDS
from own_process import ProcessError, run_python

SHORT, LONG = examples(80, 12), 3000
JUDGE = Path(__file__).parent / "mutation_judge.py"


def judged(kind: str, first: int, count: int, directory: Path) -> Counter[str]:
    """Runs the mutations and gives how often each outcome was."""
    if kind.startswith("arrayrecord"):
        pytest.importorskip("array_record.python.array_record_module")
    try:
        # Merged, so that a panic that was caught shows beside the mutation it belongs to.
        code = f"import os, runpy, sys; os.dup2(1, 2); runpy.run_path({str(JUDGE)!r}, run_name='__main__')"
        out = run_python(code, kind, first, count, directory, timeout=3600)
    except ProcessError as error:
        last = [line for line in error.out.splitlines() if line.startswith("begin ")][-1:]
        raise AssertionError(f"{kind}: the process ends in {last}: {error}") from None
    assert "panicked" not in out, out[:4000]
    ends = [json.loads(line.removeprefix("end ")) for line in out.splitlines() if line.startswith("end ")]
    assert len(ends) == count
    broken = [f"{kind} {end['number']} ({end['how']}): {what}" for end in ends for what in end["problems"]]
    assert not broken, "\n".join(broken[:20]) + f"\n{len(broken)} in all"
    return Counter(end["outcome"] for end in ends)


@pytest.mark.parametrize("kind", KINDS)
def test_mutations_give_the_rows_or_an_error_and_verify_agrees(kind: str, tmp_path: Path) -> None:
    outcomes = judged(kind, 0, SHORT, tmp_path)
    assert outcomes["error"] >= SHORT // 10, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutations_give_the_rows_or_an_error_and_verify_agrees(kind: str, tmp_path: Path) -> None:
    judged(kind, SHORT, LONG, tmp_path)
