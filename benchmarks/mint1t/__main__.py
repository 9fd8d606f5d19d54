"""Command line of the generator: ``python -m benchmarks.mint1t OUT --shards 8 --codec jpeg``."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from benchmarks.mint1t.pictures import CODECS
from benchmarks.mint1t.plan import FULL_SET_SHARDS
from benchmarks.mint1t.shards import write_dataset


def main() -> None:
    """Writes the set and prints its record as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mint1t", description=__doc__)
    parser.add_argument("out", type=Path, help="folder to write; a complete set made with the same options is kept")
    parser.add_argument("--shards", type=int, default=FULL_SET_SHARDS, help="how many shards to write (default: 80)")
    parser.add_argument("--of", type=int, default=FULL_SET_SHARDS, help="shards of the whole set (default: 80)")
    parser.add_argument("--codec", choices=sorted(CODECS), default="jpeg", help="TIFF codec (default: jpeg)")
    parser.add_argument("--threads", type=int, default=None, help="processes that draw (default: all cores)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another set with the same totals")
    options = parser.parse_args()

    start = time.perf_counter()
    record = write_dataset(
        options.out,
        shards=options.shards,
        of=options.of,
        codec=options.codec,
        processes=options.threads,
        seed=options.seed,
    )
    print(json.dumps(record | {"seconds": round(time.perf_counter() - start, 2)}))


if __name__ == "__main__":
    main()
