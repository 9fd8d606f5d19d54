"""One rank that counts tokens together with others; run by test_shared_counts.py.

It writes `counting ROW` for each block that it is about to count, with the first row of the block;
`waiting` when only blocks of others are left; and at the end `done TOKENS DIGEST`. Its first block
waits for a line on the standard input.
"""

import logging
import sys
import threading

import pyarrow as pa
import shardmill as sm

first = threading.Lock()
has_begun = False


def say(text: str) -> None:
    # In one piece, because several threads write.
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def lists(batch: pa.RecordBatch) -> dict[str, list[list[int]]]:
    """A row has as many tokens as its number says, up to six."""
    global has_begun
    ids = batch.column("id").to_pylist()
    say(f"counting {ids[0]}")
    with first:
        if not has_begun:
            sys.stdin.readline()
        has_begun = True
    return {"tokens": [[number] * (number % 7) for number in ids]}


class Said(logging.Handler):
    """Tells when only blocks of others are left."""

    def emit(self, record: logging.LogRecord) -> None:
        if "by other processes" in record.getMessage():
            say("waiting")


if __name__ == "__main__":
    directory, counts, rank, world_size = sys.argv[1:]
    logging.getLogger("shardmill").setLevel(logging.INFO)
    logging.getLogger("shardmill").addHandler(Said())
    tokenize = sm.Tokenize("id", function=sm.TokenFunction(lists, version="1"), counts=counts)
    loader = sm.Loader(
        sm.Dataset(directory, tokenize=tokenize),
        packing=sm.Packing("tokens", length=16),
        batch_size=1,
        output="numpy",
        rank=int(rank),
        world_size=int(world_size),
        runtime=sm.Runtime(threads=1),
    )
    tokens = loader.explain()["tokens_of_epoch"]
    say(f"done {tokens} {loader.state_dict()['packing']['lengths_digest']}")
