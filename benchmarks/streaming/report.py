"""Turns the results of a session into a page with plots: ``python -m benchmarks.streaming.report RESULTS.json OUT_DIR``.

Enters: the ``results.json`` of a run whose entries are named ``imdb__<protocol>__<system>``. Leaves: ``README.md``, SVG
plots and a copy of the results without the paths of this machine. Invariant: the same results give the same bytes; a
system that was not measured has no column, and the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.arrayrecord.rounds import Find, Measured, finder, measured_entries, rate_of, shown_rate
from benchmarks.report import published, run_command
from benchmarks.report_conditions import command_lines, failure_lines, machine_lines, row_set_lines, versions_of
from benchmarks.report_goals import goal_table, summary
from benchmarks.report_plots import plot_bars
from benchmarks.streaming.goals import CEILING, CHINI, OURS, PEER, TITLES, goals

_PROTOCOLS = {
    "verbatim": (
        "The report's own protocol",
        "One run without a warm-up, the source becoming Python objects inside of the clock, and so are workers that start. The parallel "
        "write is four parts one after the other, as the report does it.",
    ),
    "fair": (
        "The same rows, measured fairly",
        "The source is a list of dicts, there are ten shards or more, each figure has a warm-up, workers have started, and the parallel write "
        "is one of two processes. Cold is without the page cache.",
    ),
    "mds": ("Files that MosaicML wrote", "The same MDS shards, read by both."),
}
_PUBLISHED = {
    "write": (126_888, 139_425),
    "parallel write + merge": (51_562, 108_138),
    "read, sequential": (13_779, 439_258),
    "read, shuffled": (12_298, 459_032),
    "read, merged": (13_662, 463_930),
    "DataLoader, 0 workers": (13_238, 363_728),
    "DataLoader, 2 workers": (1_801, 2_218),
    "DataLoader, 4 workers": (1_067, 1_164),
}


def main() -> None:
    """Writes the report that the command line asks for."""
    run_command(
        write_report, module="benchmarks.streaming.report", description=__doc__, example="docs/benchmarks/streaming"
    )


def write_report(results: dict[str, Any], out: Path) -> None:
    """Writes the page, its plots and the published copy of the results."""
    results = published(results, out)
    measured = measured_entries(results, TITLES)
    find = finder(measured)
    for name, (cases, series) in _plots(find).items():
        plot_bars(out / f"{name}.svg", cases, series, "thousand rows a second, median of the rounds")
    (out / "README.md").write_text(_page(results, measured, find))


def _page(results: dict[str, Any], measured: list[Measured], find: Find) -> str:
    lines = ["# Streaming: the rows of the streaming report", "", *_summary(find), ""]
    lines += failure_lines(results)
    lines += ["", *goal_table(goals(find))]
    lines += [line for name in _plots(find) for line in (f"![{name}]({name}.svg)", "")]
    for protocol, (title, explained) in _PROTOCOLS.items():
        table = list(_table(find, protocol))
        lines += [f"## {title}", "", explained, "", *table, ""] if table else []
    lines += [*_starts(find), *_plan(find)]
    return "\n".join([*lines, "## How it was run", "", *_conditions(results, measured)]) + "\n"


def _summary(find: Find) -> list[str]:
    nothing = "Nothing that has a goal was measured in this session."
    lines = summary(goals(find), nothing=nothing)
    if lines != [nothing] and not any(find("imdb", protocol, CHINI) for protocol in _PROTOCOLS):
        lines += [
            "ChiniDataset was not at hand in this session (it is not on PyPI; `CHINIDATASET` names a checkout), so it has no column."
        ]
    return lines


def _systems(find: Find, protocol: str) -> list[str]:
    also = {"fair": {CEILING: "ceiling"}}.get(protocol, {})
    return [system for system in TITLES if find("imdb", also.get(system, protocol), system)]


def _entry(find: Find, protocol: str, system: str) -> Measured | None:
    return find("imdb", "ceiling" if system == CEILING else protocol, system)


def _table(find: Find, protocol: str) -> Iterator[str]:
    """A line a figure: rows a second of each system, and ours against MosaicML's."""
    systems = _systems(find, protocol)
    figures = dict.fromkeys(
        call for system in systems if (entry := _entry(find, protocol, system)) for call in entry.calls()
    )
    if not figures:
        return
    published_head = ["published: MDS", "published: Chini"] if protocol == "verbatim" else []
    heads = ["rows a second", *(TITLES[system] for system in systems), "shardmill against MosaicML", *published_head]
    yield "| " + " | ".join(heads) + " |"
    yield "|---|" + "--:|" * (len(heads) - 1)
    for figure in figures:
        rates = {system: rate_of(_entry(find, protocol, system), figure) for system in systems}
        ours, theirs = rates.get(OURS), rates.get(PEER)
        cells = [shown_rate(rate and rate.median) for rate in rates.values()]
        cells.append(f"{ours.median / theirs.median:.3g}×" if ours and theirs else "-")
        if protocol == "verbatim":
            cells += [shown_rate(rate) for rate in _PUBLISHED.get(figure, (None, None))]
        yield "| " + " | ".join([figure, *cells]) + " |"


def _starts(find: Find) -> Iterator[str]:
    systems = [system for system in (PEER, CHINI, OURS) if find("imdb", "fair", system)]
    if not systems:
        return
    yield "## Workers that start"
    yield ""
    yield "The first epoch of a `DataLoader` less the second one, in seconds."
    yield ""
    yield "| system | 0 workers | 2 workers | 4 workers |"
    yield "|---|--:|--:|--:|"
    for system in systems:
        entry = find("imdb", "fair", system)
        assert entry is not None
        yield (
            f"| {TITLES[system]} | "
            + " | ".join(f"{entry.median(f'start_{workers}_s'):.2f}" for workers in (0, 2, 4))
            + " |"
        )
    yield ""


def _plan(find: Find) -> Iterator[str]:
    entry = find("imdb", "plan", OURS)
    if entry is None:
        return
    yield "## Plans"
    yield ""
    yield (
        f"* {entry.median('plan_rows'):,.0f} rows in 100 files with open footers, one of {entry.median('plan_ranks'):.0f} ranks, shuffled: "
        f"{entry.median('plan_s') * 1e3:.3g} ms and {entry.median('plan_bytes') / 1e6:.3g} MB for a loader that knows its epoch"
    )
    yield (
        f"* {entry.median('image_bytes') / 1e9:.2f} GB of values in {entry.median('blocks'):.0f} blocks, shuffled: stated amplification "
        f"{entry.median('amplification'):.3g}, blocks that were decoded {entry.median('blocks_decoded'):.0f}"
    )
    yield ""


def _plots(find: Find) -> dict[str, tuple[list[str], dict[str, list[float | None]]]]:
    plots = {}
    for protocol in ("verbatim", "fair"):
        systems = [system for system in (PEER, CHINI, OURS) if find("imdb", protocol, system)]
        cases = [
            figure
            for figure in _PUBLISHED
            if any(rate_of(find("imdb", protocol, system), figure) for system in systems)
        ]
        if cases:
            plots[protocol] = (
                cases,
                {
                    TITLES[system]: [_thousands(find, protocol, system, figure) for figure in cases]
                    for system in systems
                },
            )
    return plots


def _thousands(find: Find, protocol: str, system: str, figure: str) -> float | None:
    rate = rate_of(find("imdb", protocol, system), figure)
    return rate.median / 1e3 if rate else None


def _conditions(results: dict[str, Any], measured: list[Measured]) -> list[str]:
    rounds = max((len(one.rounds) for one in measured), default=0)
    lines = [
        *machine_lines(results),
        *row_set_lines(results),
        f"* rounds: {rounds}; in each, every entry is a process of its own; medians are shown",
        "* the rows are made by a fixed seed: as many, as long and as labelled as the test split of IMDB; the source is an Arrow table, which "
        "becomes Python objects some rows at once, in place of Hugging Face datasets",
        "* nothing is compressed; ours are Parquet files; after the clock every row is held against the source",
    ]
    for system, title in TITLES.items():
        versions = versions_of(results, system)
        if versions:
            number = next((one.rounds[0].get("version", "") for one in measured if one.system == system), "")
            lines.append(
                f"* {f'{title} {number}'.strip()}: {', '.join(f'{name} {version}' for name, version in versions.items())}"
            )
    return [*lines, *command_lines(results, "bench-streaming")]


if __name__ == "__main__":
    main()
