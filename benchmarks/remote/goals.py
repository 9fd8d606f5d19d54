"""The goals of the remote benchmark, and what a session measured for each.

Enters: a ``Find`` over the entries that succeeded. Leaves: ``Goal`` lines. Called by ``report``. Invariant: a figure that was not
measured is shown as missing, never as met; medians over the rounds decide.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks.arrayrecord.rounds import Find, Measured, rate_of
from benchmarks.remote.reading import FAR, NEAR
from benchmarks.report_goals import Goal, at_least, at_most

OURS, CURATOR = "shardmill", "nemo_curator"
TITLES = {
    OURS: "shardmill",
    "pyarrow": "pyarrow",
    "torch_dataloader_utils": "torch-dataloader-utils",
    "mosaicml": "MosaicML Streaming",
    CURATOR: "NeMo Curator",
}
SETS = {
    "plain": "values as they are in memory",
    "tables": "dictionaries and Snappy",
}
#: What is read beside a peer, and who that is.
BESIDE = {"arrow": "pyarrow", "plain": "pyarrow", "torch": "torch_dataloader_utils", "mds": "mosaicml"}
FORMS = {
    "arrow": "Parquet to Arrow batches",
    "plain": "plain Parquet to Arrow batches",
    "torch": "Parquet to tensors",
    "mds": "MDS to rows",
}
PATHS = ("wds_to_parquet", "wds_to_wds", "pq_to_parquet", "pq_to_wds")
JOBS = {"loader": "epochs of a loader", "job": "a job with a checkpoint"}
FAULTS = 1_000


def goals(find: Find) -> list[Goal]:
    """Holds a session against the goals."""
    return [
        *[
            at_least(f"Loader over S3 against what the server gives, Arrow, {words}", share_of_server(find, name, "arrow"), 0.6)
            for name, words in SETS.items()
        ],
        at_least("Loader with 10 ms against none, Arrow, slower set", worst(min, [far_share(find, name) for name in SETS]), 0.8),
        at_most(
            "requests for a row group of 66 columns, opening included, worse set",
            worst(max, [median(find("reading", name, OURS), "requests_per_row_group") for name in SETS]),
            2,
            "",
        ),
        at_most("first batch of 1,000 files, 10 ms", scaled(median(find("opening", "many", OURS), "first_batch_s"), 1e3), 400, " ms"),
        at_least(
            "second epoch from the cache against local files, slower output",
            worst(min, [cached_share(find, output) for output in ("arrow", "torch")]),
            0.85,
        ),
        at_most("bytes that 4 ranks with one cache fetch, against the set", median(find("ranks", "tables", OURS), "worst"), 1.02, "×"),
        *[
            at_least(f"{FORMS[form]}, 10 ms, against {TITLES[peer]}", speed_up(find, form), 3)
            for form, peer in BESIDE.items()
        ],
        *[at_least(f"{path}, S3 to S3, 10 ms, against NeMo Curator", curation_factor(find, path), 10) for path in PATHS],
        *[line for name in JOBS for line in _fault_lines(find, name)],
    ]  # fmt: skip


def _fault_lines(find: Find, name: str) -> list[Goal]:
    entry = find("faults", name, OURS)
    given = median(entry, "faults")
    rows = worst(sum, [median(entry, "lost"), median(entry, "doubled")])
    is_met = None if given is None else given >= FAULTS
    return [
        Goal(f"faults of mixed kinds that {JOBS[name]} went through", f"≥ {FAULTS:,}", shown(given), is_met),
        at_most(f"rows lost or doubled, {JOBS[name]}", rows, 0, ""),
        at_most(f"hangs, {JOBS[name]}", median(entry, "hangs"), 0, ""),
    ]


def share_of_server(find: Find, name: str, output: str, place: str = NEAR) -> float | None:
    """Of the bytes a second that the server gives to a client that throws them away."""
    entry = find("reading", name, OURS)
    taken = seconds(entry, f"{output}, {place}")
    if entry is None or taken is None:
        return None
    return entry.median("set_bytes") / taken / entry.median("server_bytes_per_s")


def far_share(find: Find, name: str, output: str = "arrow") -> float | None:
    """Rate with latency against that without."""
    entry = find("reading", name, OURS)
    return ratio(seconds(entry, f"{output}, {NEAR}"), seconds(entry, f"{output}, {FAR}"))


def cached_share(find: Find, output: str) -> float | None:
    """Rate of the cache against that of local files."""
    entry = find("cached", "tables", OURS)
    return ratio(seconds(entry, f"{output}, local files"), seconds(entry, f"{output}, cache"))


def speed_up(find: Find, form: str) -> float | None:
    """Ours in the peer's form against the best of its settings."""
    ours, theirs = find("beside", form, OURS), find("beside", form, BESIDE[form])
    calls = {"rows"} if form == "mds" else {"Loader"}
    mine, best = rate_of(ours, *calls), rate_of(theirs, *(theirs.calls() if theirs else ()))
    return mine.median / best.median if mine and best else None


def curation_factor(find: Find, path: str) -> float | None:
    """Seconds of the processes, start-up included."""
    ours, theirs = find("curation", path, OURS), find("curation", path, CURATOR)
    return ratio(median(theirs, "job_s"), median(ours, "job_s"))


def seconds(entry: Measured | None, figure: str) -> float | None:
    """Median over the rounds."""
    found = [one["figures"][figure]["seconds"] for one in entry.rounds if figure in one["figures"]] if entry else []
    return statistics.median(found) if found else None


def median(entry: Measured | None, key: str) -> float | None:
    """Of a number that every round has."""
    return entry.median(key) if entry and all(key in one for one in entry.rounds) else None


def worst(choose: Callable[[list[float]], float], values: list[float | None]) -> float | None:
    """Of all values, or of none when one is missing."""
    found = [value for value in values if value is not None]
    return choose(found) if found and len(found) == len(values) else None


def ratio(over: float | None, under: float | None) -> float | None:
    """None when either is missing."""
    return over / under if over is not None and under else None


def scaled(value: float | None, scale: float) -> float | None:
    """In another unit."""
    return None if value is None else value * scale


def shown(value: float | None) -> str:
    """A count for a table."""
    return "-" if value is None else f"{value:,.0f}"
