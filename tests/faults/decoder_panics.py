"""Reads damaged copies of a file, and counts the ones whose decoder panicked.

Usage: decoder_panics.py PATH FIRST END, the seeds of the damage
"""

import random
import sys
import tempfile
from pathlib import Path

import shardmill as sm


def main() -> None:
    path, seeds = Path(sys.argv[1]), range(int(sys.argv[2]), int(sys.argv[3]))
    content, panics, refused = path.read_bytes(), 0, 0
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / path.name
        for number in seeds:
            source = random.Random(number)
            damaged = bytearray(content)
            for _ in range(source.randint(1, 8)):
                damaged[source.randrange(len(damaged))] = source.randrange(256)
            copy.write_bytes(damaged)
            try:
                for _ in sm.Loader(
                    sm.Dataset(copy),
                    output="arrow",
                    runtime=sm.Runtime(threads=source.randint(0, 1)),
                ):
                    pass
            except sm.Error as error:
                refused += 1
                assert path.name in str(error), error
                panics += "the decoder failed" in str(error) or "inconsistent" in str(error)
    print(panics, refused)


if __name__ == "__main__":
    main()
