"""The goals of the ArrayRecord benchmark, and what a session measured for each.

Enters: a ``Find`` over the entries that succeeded. Leaves: lines of Markdown. Called by ``report``. Invariant: a figure
that was not measured is shown as missing, never as met; medians over the rounds decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import report_goals
from benchmarks.arrayrecord.rounds import OURS, PEER, Find, Rate, rate_of, shown_rate
from benchmarks.arrayrecord.sets import CODECS, GROUPS, PUBLISHED_SIZES, RECORDS

# By codec: times as fast as the original.
INDIVIDUAL = {"zstd": 12.0, "brotli": 12.0, "snappy": 25.0, "none": 40.0}
AGAINST_BEST = {"zstd": 1.4, "brotli": 1.4, "snappy": 2.5, "none": 2.5}
BATCH = {"zstd": 1.8, "brotli": 1.4, "snappy": 2.5, "none": 3.0}
ARROW, WRITE, GRAIN = 1.3, 1.7, 10.0
SEQUENTIAL = {1: 3.0, 256: 1.3}
# What is held against our iteration: the call of its documentation, with its defaults. Other options stand beside, without a goal.
REPEATED_READS = ("read()",)
# Faster than what is documented, to one record; neither time grows with the file.
BEST_OPTIONS = ("read(i, i + 1)", "seek + read, max_parallelism:0")
_GROWTH, _OPEN_MS, _OPEN_MB, _SIZE_PERCENT = 1.5, 10.0, 10.0, 1.0


@dataclass(frozen=True)
class Goal(report_goals.Goal):
    """One line of the table, the peers beside."""

    ours: str
    theirs: str
    best: str = "-"


def goals(find: Find) -> list[Goal]:
    """Holds a session against the goals."""
    return [
        *_one_record(find),
        *_batch(find),
        *_sequential(find),
        *[
            _faster(
                f"write, group 1, 2 threads, {codec}",
                WRITE,
                rate_of(find("write", codec, OURS), "group 1, write"),
                rate_of(find("write", codec, PEER), "group 1, write"),
            )
            for codec in CODECS
        ],
        *_opening(find),
        *[_size(find, group) for group in GROUPS],
        _faster(
            "Grain MapDataset, one thread",
            GRAIN,
            *(rate_of(find("grain", "zstd", system), "MapDataset[i]") for system in (OURS, PEER)),
        ),
    ]


def goal_lines(find: Find) -> list[str]:
    """The table as Markdown."""
    words = {True: "met", False: "**missed**", None: "not measured"}
    return [
        "## Goals",
        "",
        "| figure | goal | measured | | shardmill | array_record | best of the rounds |",
        "|---|--:|--:|---|--:|--:|--:|",
        *[
            f"| {goal.figure} | {goal.wanted} | {goal.measured} | {words[goal.is_met]} "
            f"| {goal.ours} | {goal.theirs} | {goal.best} |"
            for goal in goals(find)
        ],
        "",
    ]


def ratio(ours: Rate | None, theirs: Rate | None) -> float | None:
    """How many times as fast, by the medians."""
    return ours.median / theirs.median if ours and theirs else None


def best_ratio(ours: Rate | None, theirs: Rate | None) -> float | None:
    """The same by the best rounds."""
    return ours.best / theirs.best if ours and theirs else None


def shown_ratio(value: float | None) -> str:
    """A ratio for a table."""
    return "-" if value is None else f"{value:.3g}×"


def _one_record(find: Find) -> Iterator[Goal]:
    for codec in CODECS:
        ours, theirs = (rate_of(find("individual", codec, system), "ds[i]") for system in (OURS, PEER))
        yield _faster(f"individual `ds[i]`, {codec}", INDIVIDUAL[codec], ours, theirs)
    for codec in CODECS:
        ours = rate_of(find("individual", codec, OURS), "ds[i]")
        theirs = rate_of(find("calls", codec, PEER), *BEST_OPTIONS)
        figure = f"individual `ds[i]` against its best option, {codec}"
        yield _faster(figure, AGAINST_BEST[codec], ours, theirs, is_named=True)
    growths = [_growth(find, system) for system in (OURS, PEER)]
    yield _bound("individual time at 1 K and at 512 K records, apart", _GROWTH, "×", *growths)


def _batch(find: Find) -> Iterator[Goal]:
    for codec in CODECS:
        ours, theirs = (rate_of(find("batch", codec, system), "read(list)") for system in (OURS, PEER))
        yield _faster(f"batch, list of bytes, {codec}", BATCH[codec], ours, theirs)
    for codec in CODECS:
        entry = find("batch", codec, OURS)
        arrow, ours = rate_of(entry, "read_arrow(list)"), rate_of(entry, "read(list)")
        yield _faster(f"batch as Arrow against our list of bytes, {codec}", ARROW, arrow, ours, is_own=True)


def _sequential(find: Find) -> Iterator[Goal]:
    for group, wanted in SEQUENTIAL.items():
        for codec in CODECS:
            ours = rate_of(find("sequential", f"{codec}_{group}", OURS), "for record in reader")
            theirs = rate_of(find("sequential", f"{codec}_{group}", PEER), *REPEATED_READS)
            yield _faster(f"sequential iteration, group {group}, {codec}", wanted, ours, theirs, is_named=True)


def _opening(find: Find) -> Iterator[Goal]:
    entries = [find("open", "large", system) for system in (OURS, PEER)]
    rates = [rate_of(entry, "open") for entry in entries]
    yield _bound("open 512 K records", _OPEN_MS, " ms", *(rate and rate.records / rate.median * 1e3 for rate in rates))
    for key, word in (("steady_bytes", "held"), ("peak_bytes", "at most")):
        grown = [entry.median(key) / 1e6 if entry else None for entry in entries]
        yield _bound(f"memory of open 512 K records, {word}", _OPEN_MB, " MB", *grown)


def _growth(find: Find, system: str) -> float | None:
    short, long = (rate_of(find("growth", setting, system), "ds[i]") for setting in ("small", "large"))
    apart = ratio(short, long)
    return max(apart, 1 / apart) if apart else None


def _size(find: Find, group: int) -> Goal:
    """The codec whose size is furthest from the published one."""

    def furthest(system: str) -> float | None:
        apart = []
        for codec in CODECS:
            entry = find("write", codec, system)
            # Smaller files than the published one are padded by a larger part.
            if entry is None or entry.rounds[0]["records"] != RECORDS:
                return None
            apart.append(abs(size_percent(entry.rounds[0], group) / PUBLISHED_SIZES[codec, group] - 1) * 100)
        return max(apart)

    figure = f"compressed size against the published, group {group}, furthest codec"
    return _bound(figure, _SIZE_PERCENT, " %", furthest(OURS), furthest(PEER))


def size_percent(metrics: dict[str, object], group: int) -> float:
    """Size of the file that an entry wrote, in % of the records' bytes."""
    sizes, raw = metrics["sizes"], metrics["raw_bytes"]
    assert isinstance(sizes, dict)
    assert isinstance(raw, int)
    return 100 * sizes[str(group)] / raw


def _faster(
    figure: str,
    wanted: float,
    ours: Rate | None,
    theirs: Rate | None,
    *,
    is_named: bool = False,
    is_own: bool = False,
) -> Goal:
    """A line that holds one rate against another.

    Args:
        figure: Name of the line.
        wanted: Times as fast.
        ours: The numerator.
        theirs: The denominator.
        is_named: Their call is one of several, so the line tells which.
        is_own: The denominator is ours as well, so the original has no figure.
    """
    measured = ratio(ours, theirs)
    shown = shown_rate(theirs.median) + (f", `{theirs.call}`" if is_named else "") if theirs and not is_own else "-"
    return Goal(
        figure,
        f"≥ {wanted:g}×",
        shown_ratio(measured),
        None if measured is None else measured >= wanted,
        shown_rate(ours and ours.median),
        shown,
        shown_ratio(best_ratio(ours, theirs)),
    )


def _bound(figure: str, wanted: float, unit: str, ours: float | None, theirs: float | None) -> Goal:
    shown = ["-" if value is None else f"{value:.3g}{unit}" for value in (ours, theirs)]
    is_met = None if ours is None else ours <= wanted
    return Goal(figure, f"≤ {wanted:g}{unit}", shown[0], is_met, *shown)
