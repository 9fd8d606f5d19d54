"""Turns the results of a session into a page with plots: ``python -m benchmarks.arrayrecord.report RESULTS.json OUT_DIR``.

Enters: the ``results.json`` of a run whose entries are named ``<scenario>__<setting>__<system>``. Leaves: ``README.md``,
SVG plots and a copy of the results without the paths of this machine. Invariant: the same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.arrayrecord.goals import BEST_OPTIONS, best_ratio, goal_lines, goals, ratio, shown_ratio, size_percent
from benchmarks.arrayrecord.rounds import (
    OURS,
    PEER,
    Find,
    Measured,
    Rate,
    finder,
    measured_entries,
    rate_of,
    repeated_reads,
    shown_rate,
)
from benchmarks.arrayrecord.sets import CODECS, GROUPS, PUBLISHED_SIZES
from benchmarks.report import published, run_command
from benchmarks.report_conditions import command_lines, failure_lines, machine_lines, versions_of
from benchmarks.report_goals import summary
from benchmarks.report_plots import plot_bars

# Title of a row and scenario; of the sequential one by group.
_SCENARIOS = (
    *(("individual", "individual", ""), ("one record", "calls", ""), ("batch", "batch", "")),
    *((f"sequential, group {group}", "sequential", f"_{group}") for group in GROUPS),
    ("write", "write", ""),
)
_BEST_CALL = f"{PEER}, best call"
_HEAD = ("shardmill", "its best", "array_record", "its best", "ratio", "ratio of the best")


def main() -> None:
    """Writes the report that the command line asks for."""
    run_command(
        write_report,
        module="benchmarks.arrayrecord.report",
        description=__doc__,
        example="docs/benchmarks/arrayrecord",
    )


def write_report(results: dict[str, Any], out: Path) -> None:
    """Writes the page, its plots and the published copy of the results."""
    results = published(results, out)
    measured = measured_entries(results)
    find = finder(measured)
    for name, (cases, series) in _plots(find).items():
        plot_bars(out / f"{name}.svg", cases, series, "thousand records a second, median of the rounds")
    (out / "README.md").write_text(_page(results, measured, find))


def _page(results: dict[str, Any], measured: list[Measured], find: Find) -> str:
    lines = [
        "# ArrayRecord files",
        "",
        *summary(goals(find), nothing="Nothing was measured for both sides in this session."),
        "",
    ]
    lines += failure_lines(results)
    lines += ["", *goal_lines(find), *_explained(), "", *_fastest_lines(find), ""]
    lines += [line for name in _plots(find) for line in (f"![{name}]({name}.svg)", "")]
    for codec in CODECS:
        rows = list(_codec_rows(find, codec))
        lines += [f"## {codec}", "", *_table("call", rows), ""] if rows else []
    lines += _length_lines(find) + _opening_lines(find) + _size_lines(find) + _grain_lines(find)
    return "\n".join([*lines, "## How it was run", "", *_conditions(results, measured)]) + "\n"


def _explained() -> list[str]:
    return [
        "Measured is the ratio of the medians over all rounds, except where a unit says otherwise; the last column is the",
        "ratio of each side's best round. Against its best option means the faster of two calls for one record, neither of",
        "which its documentation mentions. In order, array_record reads by repeated `read()` with its defaults; what other",
        "options give stands below.",
    ]


def _fastest_lines(find: Find) -> list[str]:
    """Our iteration against whatever option of the original is fastest, for which there is no goal."""
    lines = []
    for group in GROUPS:
        shown = []
        for codec in CODECS:
            ours, entry = (find("sequential", f"{codec}_{group}", system) for system in (OURS, PEER))
            apart = ratio(rate_of(ours, "for record in reader"), rate_of(entry, *repeated_reads(entry)))
            shown.append(f"{codec} {shown_ratio(apart)}")
        lines.append(f"* group {group}: {', '.join(shown)}")
    head = "Iteration against the fastest repeated `read()` of all options that were tried, read-ahead included:"
    return [head, "", *lines]


def _table(first: str, rows: Sequence[tuple[str, Rate | None, Rate | None]]) -> list[str]:
    def row(name: str, ours: Rate | None, theirs: Rate | None) -> str:
        rates = [
            shown_rate(value) for one in (ours, theirs) for value in ((one.median, one.best) if one else (None,) * 2)
        ]
        return "| " + " | ".join(
            [name, *rates, shown_ratio(ratio(ours, theirs)), shown_ratio(best_ratio(ours, theirs))]
        ) + " |"  # fmt: skip

    head = ["| " + " | ".join([first, *_HEAD]) + " |", "|---|" + "--:|" * len(_HEAD)]
    return [*head, *(row(*one) for one in rows)]


def _codec_rows(find: Find, codec: str) -> Iterator[tuple[str, Rate | None, Rate | None]]:
    for title, scenario, suffix in _SCENARIOS:
        entries = [find(scenario, f"{codec}{suffix}", system) for system in (OURS, PEER)]
        calls = dict.fromkeys(call for entry in entries if entry for call in entry.calls())
        for call in calls:
            # Writing names the group in the call.
            name = call if scenario == "write" else f"{title}: `{call}`"
            yield name, rate_of(entries[0], call), rate_of(entries[1], call)
        ours, theirs = (_fastest(entry) for entry in entries)
        if ours and theirs:
            yield f"{title}, fastest: `{ours.call}` against `{theirs.call}`", ours, theirs


def _fastest(entry: Measured | None) -> Rate | None:
    """Where a scenario has several calls that give the same thing."""
    if entry is None or entry.scenario not in ("calls", "sequential"):
        return None
    return rate_of(entry, *(call for call in entry.calls() if call != "read_all()"))


def _length_lines(find: Find) -> list[str]:
    rows = []
    for scenario, setting in (("growth", "small"), ("individual", "zstd"), ("growth", "large")):
        ours, theirs = (find(scenario, setting, system) for system in (OURS, PEER))
        found = ours or theirs
        if found:
            rows.append((f"{found.rounds[0]['records']:,}", rate_of(ours, "ds[i]"), rate_of(theirs, "ds[i]")))
    return ["## `ds[i]` by records of the file, zstd", "", *_table("records", rows), ""] if rows else []


def _opening_lines(find: Find) -> list[str]:
    lines = []
    for system in (OURS, PEER):
        entry = find("open", "large", system)
        rate = rate_of(entry, "open")
        if entry and rate:
            times = [1e3 * rate.records / value for value in (rate.median, rate.best)]
            grown = [entry.median(key) / 1e6 for key in ("steady_bytes", "private_bytes", "peak_bytes")]
            lines.append(f"| {system} | {rate.records:,} | " + " | ".join(f"{n:.1f}" for n in (*times, *grown)) + " |")
    head = [
        "| system | records | median ms | best ms | MB held | of these private | MB at most |",
        "|---|" + "--:|" * 6,
    ]
    text = "The first file that a fresh process opens; by how much its resident memory grows, mapped pages included."
    return ["## Opening", "", text, "", *head, *lines, ""] if lines else []


def _size_lines(find: Find) -> list[str]:
    lines = []
    for codec in CODECS:
        cells = []
        for group in GROUPS:
            for system in (OURS, PEER):
                entry = find("write", codec, system)
                cells.append(f"{size_percent(entry.rounds[0], group):.2f}" if entry else "-")
            cells.append(f"{PUBLISHED_SIZES[codec, group]:.2f}")
        if set(cells[:2] + cells[3:5]) != {"-"}:
            lines.append(f"| {codec} | " + " | ".join(cells) + " |")
    names = [f"group {group}, {name}" for group in GROUPS for name in (OURS, PEER, "published")]
    head = ["| codec | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    text = "In % of the records' bytes. Published is the performance guide of array_record, of 65,536 records."
    return ["## Size of the files", "", text, "", *head, *lines, ""] if lines else []


def _grain_lines(find: Find) -> list[str]:
    entries = [find("grain", "zstd", system) for system in (OURS, PEER)]
    calls = dict.fromkeys(call for entry in entries if entry for call in entry.calls())
    rows = [(f"`{call}`", rate_of(entries[0], call), rate_of(entries[1], call)) for call in calls]
    text = "The data source of each side below the same Grain; the iterators go over the shuffled data set."
    return ["## Grain, zstd", "", text, "", *_table("loop", rows), ""] if rows else []


def _plots(find: Find) -> dict[str, tuple[list[str], dict[str, list[float | None]]]]:
    """Cases and series of each plot that has something to show."""

    def thousands(rate: Rate | None) -> float | None:
        return rate.median / 1e3 if rate else None

    def by_codec(scenario: str, system: str, *calls: str) -> list[float | None]:
        return [thousands(rate_of(find(scenario, codec, system), *calls)) for codec in CODECS]

    runs = [(codec, group) for group in GROUPS for codec in CODECS]
    in_turn = {}
    for system in (PEER, OURS):
        entries = [find("sequential", f"{codec}_{group}", system) for codec, group in runs]
        best = [
            rate_of(entry, *(["for record in reader"] if system == OURS else repeated_reads(entry)))
            for entry in entries
        ]
        in_turn[_BEST_CALL if system == PEER else system] = [thousands(rate) for rate in best]
    codecs = list(CODECS)
    plots = {
        "individual": (
            [f"individual, {codec}" for codec in codecs],
            {
                PEER: by_codec("individual", PEER, "ds[i]"),
                _BEST_CALL: by_codec("calls", PEER, *BEST_OPTIONS),
                OURS: by_codec("individual", OURS, "ds[i]"),
            },
        ),
        "batch": (
            [f"batch, {codec}" for codec in codecs],
            {system: by_codec("batch", system, "read(list)") for system in (PEER, OURS)},
        ),
        "sequential": ([f"sequential, group {group}, {codec}" for codec, group in runs], in_turn),
        "write": (
            [f"write, group 1, {codec}" for codec in codecs],
            {system: by_codec("write", system, "group 1, write") for system in (PEER, OURS)},
        ),
    }
    return {name: plot for name, plot in plots.items() if any(value for values in plot[1].values() for value in values)}


def _conditions(results: dict[str, Any], measured: list[Measured]) -> list[str]:
    rounds = max((len(one.rounds) for one in measured), default=0)
    slow = next((one for one in measured if one.scenario == "individual" and one.system == PEER), None)
    calls = f"{rate.records:,}" if (rate := rate_of(slow, "ds[i]")) else "?"
    lines = [
        *machine_lines(results),
        "* a record is 200 words of lorem-text; every file was written by array_record, and both sides read the same one",
        *_data_sets(results),
        f"* rounds: {rounds}; in each, every entry is a process of its own, ours and theirs in turn; a batch is the best of "
        "three in one process",
        "* page caches are warm: the file was read just before the process started",
        "* record numbers are those of `numpy.random.default_rng(42).permutation(n)`, as Python integers; "
        f"array_record's `ds[i]` and `read([i])`, whose time grows with the file, make the first {calls} calls of it, "
        "`seek + read` a tenth of that",
        "* opening a file for reading is outside of the clock; writing runs from the constructor to the end of close()",
        "* each entry compares hashes of a sample of the records, got by the same call, with those of the words",
        "* sequential reading by array_record: repeated read() with its defaults; three more sets of options stand beside",
    ]
    for system in (OURS, PEER):
        versions = versions_of(results, system)
        if versions:
            number = next((one.rounds[0].get("version", "") for one in measured if one.system == system), "")
            others = (f"{name} {version}" for name, version in versions.items() if name != PEER)
            lines.append(f"* {system} {number}: " + ", ".join(others))
    return [*lines, *command_lines(results, "bench-arrayrecord")]


def _data_sets(results: dict[str, Any]) -> list[str]:
    return [
        f"* `{place}`: {record['records']:,} records of {record['raw_bytes'] / record['records']:,.0f} bytes on average, "
        f"{record['codec']}, groups of {record['group']}, {record['bytes'] / 1e6:,.1f} MB"
        for place, record in results.get("datasets", {}).items()
        if record and "codec" in record
    ]


if __name__ == "__main__":
    main()
