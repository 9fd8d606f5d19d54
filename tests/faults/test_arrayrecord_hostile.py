"""ArrayRecord files with wrong numbers but correct hashes.

Right records or an error, in little memory and time.
"""

import sys
from pathlib import Path

import pytest
from breadth import in_one

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compat" / "arrayrecord"))
from arrayrecord_hostile import CASES
from own_process import ProcessError, run_python

RUN = (
    "import sys; from pathlib import Path; from arrayrecord_hostile import CASES, main; "
    "main(Path(sys.argv[1]), list(CASES)[int(sys.argv[2]) :])"
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each file. After a crash or a hang a new process goes on with the next one."""
    found: dict[str, str] = {}
    names = list(CASES)
    while len(found) < len(names):
        rest = names[len(found) :]
        try:
            out, end = (
                run_python(RUN, tmp_path_factory.mktemp("hostile"), len(found), timeout=300),
                "no answer",
            )
        except ProcessError as error:
            out, end = error.out, str(error)
        for line in out.splitlines():
            number, word, *outcome = line.split(" ", 2)
            if word == "ends":
                found[rest[int(number)]] = outcome[0]
        if len(found) < len(names):
            found[names[len(found)]] = end
    return found


@in_one("case", CASES)
def test_lie_gives_right_records_or_an_error(case: str, outcomes: dict[str, str]) -> None:
    assert outcomes[case] in ("refused", "partly", "whole")
