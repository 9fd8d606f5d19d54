"""Draw mutants for a test of the tests.

    cargo mutants --list --json | python tests/mutants/draw.py

The order is a function of the seed and the list. Every fourth mutant is of a file that commits,
resumes or orders.
"""

import json
import random
import re
import sys

SEED = 35
CRITICAL = re.compile(r"crates/resume/|/order/|commit|crates/write/src/staged")


def drawn(mutants: list[dict]) -> list[dict]:
    """All mutants in the order in which they are drawn."""
    generator = random.Random(SEED)
    every = sorted(mutants, key=lambda mutant: mutant["name"])
    critical = [mutant for mutant in every if CRITICAL.search(mutant["file"])]
    generator.shuffle(every)
    generator.shuffle(critical)
    result: list[dict] = []
    taken: set[str] = set()
    for number in range(len(mutants)):
        source = critical if number % 4 == 3 else every
        while source and source[-1]["name"] in taken:
            source.pop()
        if source:
            result.append(source.pop())
            taken.add(result[-1]["name"])
    return result


if __name__ == "__main__":
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for mutant in drawn(json.load(sys.stdin))[:limit]:
        print(mutant["name"])
