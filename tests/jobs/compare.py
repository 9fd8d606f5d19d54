"""Lists the jobs whose outputs differ in two records.

Called as ``python tests/jobs/compare.py before.jsonl after.jsonl``.
"""

import json
import sys
from pathlib import Path
from typing import Any


def records(path: str) -> dict[tuple[str, int], dict[str, Any]]:
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return {(line.pop("test"), line.pop("job")): line for line in lines}


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = dict.fromkeys([*before, *after])
        return [
            line
            for key in keys
            for line in differences(before.get(key), after.get(key), f"{place}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        parts = enumerate(zip(before, after, strict=True))
        return [
            line
            for number, (old, new) in parts
            for line in differences(old, new, f"{place}/{number}")
        ]
    return [] if before == after else [f"{place}: {before!r} → {after!r}"]


def main() -> None:
    before, after = map(records, sys.argv[1:])
    common = [job for job in before if job in after]
    changed = {job: found for job in common if (found := differences(before[job], after[job]))}
    for (test, number), lines in changed.items():
        print(f"{test} job {number}", *lines[:8], sep="\n    ")
    print(
        f"{len(common)} jobs in both, {len(changed)} differ, "
        f"{len(before) - len(common)} only before",
        file=sys.stderr,
    )


main()
