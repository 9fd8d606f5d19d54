"""The goals of the checkpoint benchmark, and what a session measured for each.

Enters: a ``Find`` over the entries that succeeded. Leaves: ``Goal`` lines. Called by ``report``. Invariant: a figure that
was not measured is shown as missing, never as met; medians over the rounds decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.arrayrecord.rounds import Find
from benchmarks.checkpoint.sets import BLOB_BYTES, DONE_PERCENT, FILE_ROWS, SIZES, WIDE
from benchmarks.report_goals import Goal, at_least, at_most

# Ours, ours with its tasks on Ray, Ray Data with its own checkpoint, with ours plugged in, and with none.
OURS, OURS_ON_RAY, PEER, PLUGIN, NONE = "shardmill", "shardmill_ray", "ray", "ray_plugin", "ray_none"
TITLES = {
    OURS: "shardmill",
    OURS_ON_RAY: "shardmill, executor ray",
    PEER: "Ray Data",
    PLUGIN: "Ray Data, our plug-in",
    NONE: "Ray Data, no checkpoint",
}
# The setting of the published benchmark; the same with a checkpoint of many files.
PUBLISHED = f"done_{DONE_PERCENT}"
MANY_FILES = f"{PUBLISHED}_files"
# Names of ``benchmarks.checkpoint.index`` runs.
INDEX_RANDOM, INDEX_DENSE = "uuid_80m", "decimal_80m"
_ROWS_OUT = SIZES["full"] * FILE_ROWS * (100 - DONE_PERCENT) // 100


def goals(find: Find) -> list[Goal]:
    """Holds a session against the goals."""
    hundredth = [value(find, "hundredth", PUBLISHED, system, "wall_s") for system in (PEER, OURS)]
    return [
        *_full(find),
        at_most("index, 80 M random ids, each", _index(find, INDEX_RANDOM, "bytes_per_id"), 16, " B"),
        at_most("index, 80 M dense ids, each", _index(find, INDEX_DENSE, "bytes_per_id"), 1, " B"),
        at_least("1/100 of the size against Ray Data with its checkpoint", ratio(*hundredth), 40),
        *_plugin(find),
        at_most("80 M UUID strings, build", _index(find, INDEX_RANDOM, "build_s"), 60, " s"),
        at_most("80 M UUID strings, probe of 20 M", _index(find, INDEX_RANDOM, "probe_s"), 4, " s"),
        at_most("all rows done, blobs of 1 MB: read of them", _blobs_percent(find), 1, " %"),
        _many_files(find),
    ]


def value(find: Find, scenario: str, setting: str, system: str, key: str) -> float | None:
    """Median of a figure over the rounds, if all of them have it."""
    entry = find(scenario, setting, system)
    if entry is None or any(key not in one for one in entry.rounds):
        return None
    return float(entry.median(key))


def ratio(over: float | None, under: float | None) -> float | None:
    """How many times as much."""
    return over / under if over is not None and under else None


def _full(find: Find) -> Iterator[Goal]:
    def of(key: str, scale: float = 1.0) -> float | None:
        found = value(find, "full", PUBLISHED, OURS, key)
        return None if found is None else found * scale

    rows = of("rows_out")
    yield at_most("full size, load of the checkpoint included", of("wall_s"), 15, " s")
    yield Goal(
        "full size, rows out",
        f"{_ROWS_OUT:,}",
        "-" if rows is None else f"{rows:,.0f}",
        None if rows is None else rows == _ROWS_OUT,
    )
    yield at_most("full size, peak memory of all processes", of("peak_rss_bytes", 1e-9), 1.5, " GB")


def _plugin(find: Find) -> Iterator[Goal]:
    for size, words in (("hundredth", "1/100"), ("tenth", "1/10")):
        plugin = value(find, size, PUBLISHED, PLUGIN, "wall_s")
        none = value(find, size, "done_0", NONE, "wall_s")
        yield at_most(f"Ray Data, our plug-in against no checkpoint, {words}", ratio(plugin, none), 1.05, "×")


def _index(find: Find, setting: str, key: str) -> float | None:
    return value(find, "index", setting, OURS, key)


def _blobs_percent(find: Find) -> float | None:
    # Mapped files are not asked for with read calls, and what the kernel had already is not read from the disk.
    counters = [value(find, WIDE.name, "done_100", OURS, key) for key in ("rchar", "read_bytes")]
    known = [counter for counter in counters if counter is not None]
    return 100 * max(known) / (WIDE.rows * BLOB_BYTES) if len(known) == len(counters) else None


def _many_files(find: Find) -> Goal:
    """By the load alone where the job tells it, because the rest of the job hides a slow one."""

    def apart(key: str) -> float | None:
        return ratio(*(value(find, "tenth", setting, OURS, key) for setting in (MANY_FILES, PUBLISHED)))

    load = apart("load_s")
    words, measured = ("job", apart("wall_s")) if load is None else ("load", load)
    return at_most(f"checkpoint of 10,000 files against one, {words}", measured, 2, "×")
