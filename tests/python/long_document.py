"""Tokenizes one document in a loader, and tells what it took; run by test_long_documents.py.

Arguments: a Parquet file with one row, a tokenizer, a number of threads, a file for the ids. The
last line has the peak memory before and after.
"""

import re
import sys
from pathlib import Path

import numpy as np
import shardmill as sm


def peak_mib() -> float:
    """The largest resident size so far."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


if __name__ == "__main__":
    path, tokenizer, threads, ids = sys.argv[1:]
    data = sm.Dataset(path, tokenize=sm.Tokenize("text", tokenizer=tokenizer))
    before = peak_mib()
    [batch] = sm.Loader(data, output="numpy", runtime=sm.Runtime(threads=int(threads)))
    after = peak_mib()
    np.save(
        ids,
        batch["tokens"].values if isinstance(batch["tokens"], sm.Ragged) else batch["tokens"][0],
    )
    print(before, after)
