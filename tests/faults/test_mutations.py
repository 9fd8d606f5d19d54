"""Damaged files of every format by every way to read them.

Rows that were written or an error, and `verify` knows which.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from breadth import examples
from forking import Forking, forking
from mutation_files import KINDS

SHORT, LONG = examples(80, 5), 3000
Judged = Callable[[str, int, int], Counter[str]]


judges = forking("mutation_judge")


@pytest.fixture
def judged(judges: Forking, tmp_path: Path) -> Judged:
    def judged(kind: str, first: int, count: int) -> Counter[str]:
        """Runs the mutations and gives how often each outcome was."""
        if kind.startswith("arrayrecord"):
            pytest.importorskip("array_record.python.array_record_module")
        code, out = judges.call(
            "mutation_judge", "main", kind, first, count, str(tmp_path), log=tmp_path / "log"
        )
        last = [line for line in out.splitlines() if line.startswith("begin ")][-1:]
        assert code == 0, f"{kind}: the process ends in {last} with {code}: {out[-6000:]}"
        assert "panicked" not in out, out[:4000]
        ends = [
            json.loads(line.removeprefix("end "))
            for line in out.splitlines()
            if line.startswith("end ")
        ]
        assert len(ends) == count
        broken = [
            f"{kind} {end['number']} ({end['how']}): {what}"
            for end in ends
            for what in end["problems"]
        ]
        assert not broken, "\n".join(broken[:20]) + f"\n{len(broken)} in all"
        return Counter(end["outcome"] for end in ends)

    return judged


@pytest.mark.parametrize("kind", KINDS)
def test_mutations_give_the_rows_or_an_error_and_verify_agrees(kind: str, judged: Judged) -> None:
    outcomes = judged(kind, 0, SHORT)
    assert outcomes["error"] >= max(SHORT // 10, 1), outcomes


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutations_give_the_rows_or_an_error_and_verify_agrees(
    kind: str, judged: Judged
) -> None:
    judged(kind, SHORT, LONG)
