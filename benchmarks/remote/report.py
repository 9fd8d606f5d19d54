"""Turns the results of a session into a page with plots: ``python -m benchmarks.remote.report RESULTS.json OUT_DIR``.

Enters: the ``results.json`` of a run whose entries are named ``<scenario>__<setting>__<system>``. Leaves: ``README.md``, SVG plots
and a copy of the results without the paths of this machine. Invariant: the same results give the same bytes; what was not measured
has no line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.arrayrecord.rounds import Find, Measured, finder, measured_entries, shown_rate
from benchmarks.remote.goals import (
    BESIDE,
    CURATOR,
    FORMS,
    JOBS,
    OURS,
    PATHS,
    SETS,
    TITLES,
    curation_factor,
    goals,
    median,
    seconds,
    share_of_server,
    shown,
)
from benchmarks.remote.reading import FAR, LOCAL, NEAR, OUTPUTS
from benchmarks.report import published, run_command
from benchmarks.report_conditions import command_lines, failure_lines, machine_lines, row_set_lines, versions_of
from benchmarks.report_goals import goal_table, summary
from benchmarks.report_plots import plot_bars

Plots = dict[str, tuple[list[str], dict[str, list[float | None]], str]]


def main() -> None:
    """Writes the report that the command line asks for."""
    run_command(write_report, module="benchmarks.remote.report", description=__doc__, example="docs/benchmarks/remote")


def write_report(results: dict[str, Any], out: Path) -> None:
    """Writes the page, its plots and the published copy of the results."""
    results = published(results, out)
    measured = measured_entries(results, TITLES)
    find = finder(measured)
    plots = _plots(find)
    for name, (cases, series, axis) in plots.items():
        plot_bars(out / f"{name}.svg", cases, series, axis)
    lines = ["# Remote storage", "", *summary(goals(find), nothing="Nothing was measured in this session."), ""]
    lines += [*failure_lines(results), "", *goal_table(goals(find))]
    lines += [line for name in plots for line in (f"![{name}]({name}.svg)", "")]
    for section in (_reading, _opening, _cached, _ranks, _beside, _curation, _faults):
        lines += section(find)
    lines += ["## How it was run", "", *_conditions(results, measured)]
    (out / "README.md").write_text("\n".join(lines) + "\n")


def _reading(find: Find) -> Iterator[str]:
    entries = [(name, words, entry) for name, words in SETS.items() if (entry := find("reading", name, OURS))]
    if not entries:
        return
    yield from _head(
        "A table from the store", "output", "from", "rows a second", "MB/s", "against the server", "against local files"
    )
    for name, words, entry in entries:
        size = entry.median("set_bytes")
        for output in OUTPUTS:
            local = seconds(entry, f"{output}, {LOCAL}")
            for place in (LOCAL, NEAR, FAR):
                taken, rate = seconds(entry, f"{output}, {place}"), entry.rate(f"{output}, {place}")
                if taken is None or rate is None or local is None:
                    continue
                server = share_of_server(find, name, output, place) or 0.0
                cells = [
                    f"{output}, {words}",
                    place,
                    shown_rate(rate.median),
                    f"{size / taken / 1e6:,.0f}",
                    f"{server:.0%}",
                ]
                yield "| " + " | ".join([*cells, f"{local / taken:.0%}"]) + " |"
    yield ""
    for _, words, entry in entries:
        rates = {setting: rate / 1e6 for one in entry.rounds for setting, rate in one["server_rates"].items()}
        best = max(rates, key=lambda setting: rates[setting])
        yield (
            f"* {words}: {entry.median('set_bytes') / 1e6:,.0f} MB in {entry.median('row_groups'):,.0f} row groups; the server gives "
            f"{entry.median('server_bytes_per_s') / 1e6:,.0f} MB/s at best to plain ranged GETs of 8 MiB (processes × connections: {best}), "
            f"and {entry.median('requests_per_row_group'):.2f} requests were sent for a row group"
        )
    yield ""
    yield "Server, proxy and client share the cores of one machine, so the server's rate is what is left of them to a client that does nothing."
    yield "Where local files are read slower than that, decoding decides and not the store."
    yield ""


def _opening(find: Find) -> Iterator[str]:
    entry = find("opening", "many", OURS)
    if entry is None:
        return
    yield "## Many files"
    yield ""
    yield (
        f"* the first batch of {entry.median('files'):,.0f} files: {entry.median('first_batch_s') * 1e3:,.0f} ms and "
        f"{entry.median('requests'):,.0f} requests; all rows: {entry.median('whole_s'):.2f} s"
    )
    yield (
        f"* a client that asks for the last 16 KiB of each of them and does nothing else, with its best number of connections: "
        f"{entry.median('plain_s') * 1e3:,.0f} ms"
    )
    yield ""


def _cached(find: Find) -> Iterator[str]:
    entry = find("cached", "tables", OURS)
    if entry is None:
        return
    yield from _head("The second epoch from the cache", "output, from", "rows a second")
    for figure in entry.calls():
        rate = entry.rate(figure)
        yield f"| {figure} | {shown_rate(rate and rate.median)} |"
    yield ""
    later = sum(counts["later"] for one in entry.rounds for counts in one["requests"].values())
    yield f"* requests of all later epochs: {later:,}"
    yield ""


def _ranks(find: Find) -> Iterator[str]:
    entry = find("ranks", "tables", OURS)
    if entry is None:
        return
    yield from _head(
        "4 ranks with one cache", "order", "seconds of the slowest", "requests", "bytes fetched against the set"
    )
    for figure, found in entry.rounds[0]["figures"].items():
        yield (
            f"| {figure} | {seconds(entry, figure) or 0:.2f} | {found['requests']:,} | {entry.rounds[0]['fetched'][figure]:.4f}× |"
        )
    yield ""


def _beside(find: Find) -> Iterator[str]:
    rows = []
    for form, peer in BESIDE.items():
        for system in (OURS, peer):
            entry = find("beside", form, system)
            for call in entry.calls() if entry else ():
                rate, found = entry.rate(call), entry.rounds[0]["figures"][call]  # pyright: ignore[reportOptionalMemberAccess]
                cells = [
                    FORMS[form],
                    TITLES[system],
                    call,
                    shown_rate(rate and rate.median),
                    f"{rate.records:,}" if rate else "-",
                ]
                cells += [f"{found['first_batch_s'] * 1e3:,.0f}", f"{found['requests']:,}", f"{found['in_flight_max']}"]
                rows.append("| " + " | ".join(cells) + " |")
    if rows:
        heads = ("form", "system", "setting", "rows a second", "rows", "first batch ms", "requests", "at once")
        yield from _head("Beside others, 10 ms away", *heads)
        yield from rows
        yield ""


def _curation(find: Find) -> Iterator[str]:
    paths = [path for path in PATHS if find("curation", path, OURS) or find("curation", path, CURATOR)]
    if not paths:
        return
    heads = ("path", "system", "process s", "job s", "requests", "MB fetched", "times faster")
    yield from _head("Interleaved shards from bucket to bucket, 10 ms away", *heads)
    for path in paths:
        for system in (CURATOR, OURS):
            entry = find("curation", path, system)
            if entry is None:
                continue
            factor = curation_factor(find, path) if system == OURS else None
            cells = [path, TITLES[system], f"{entry.median('job_s'):.2f}", f"{entry.median('time_taken_s'):.2f}"]
            cells += [shown(median(entry, "requests")), shown(entry.median("bytes_sent") / 1e6)]
            yield "| " + " | ".join([*cells, f"{factor:.1f}" if factor else "-"]) + " |"
    yield ""


def _faults(find: Find) -> Iterator[str]:
    entries = [(words, entry) for name, words in JOBS.items() if (entry := find("faults", name, OURS))]
    if not entries:
        return
    yield from _head(
        "A store that fails", "job", "faults", "requests", "rows", "seconds", "rows lost", "doubled", "hangs"
    )
    for words, entry in entries:
        (figure,) = entry.calls()
        rate = entry.rate(figure)
        cells = [words, *[shown(median(entry, key)) for key in ("faults", "requests")], shown(rate and rate.records)]
        cells += [
            f"{seconds(entry, figure) or 0:.1f}",
            *[shown(median(entry, key)) for key in ("lost", "doubled", "hangs")],
        ]
        yield "| " + " | ".join(cells) + " |"
    yield ""
    for words, entry in entries:
        kinds = ", ".join(
            f"{kind} {count:,}" for kind, count in sorted(entry.rounds[0]["kinds"].items()) if kind != "latency"
        )
        yield f"* {words}: {kinds}"
    yield ""


def _head(title: str, *columns: str) -> list[str]:
    return [f"## {title}", "", "| " + " | ".join(columns) + " |", "|---|" + "--:|" * (len(columns) - 1)]


def _plots(find: Find) -> Plots:
    plots: Plots = {}
    for form, peer in BESIDE.items():
        found = {system: entry for system in (peer, OURS) if (entry := find("beside", form, system))}
        if len(found) == 2:
            cases = list(dict.fromkeys(call for entry in found.values() for call in entry.calls()))
            series = {TITLES[system]: [_thousands(entry, call) for call in cases] for system, entry in found.items()}
            plots[f"beside_{form}"] = (cases, series, f"thousand rows a second, {FORMS[form]}, 10 ms away")
    paths = [path for path in PATHS if curation_factor(find, path)]
    if paths:
        series = {
            TITLES[one]: [median(find("curation", path, one), "job_s") for path in paths] for one in (CURATOR, OURS)
        }
        plots["curation"] = (paths, series, "seconds from process start to exit, 10 ms away")
    return plots


def _data_sets(results: dict[str, Any]) -> list[str]:
    records = {place: record for place, record in results.get("datasets", {}).items() if record}
    tables = {place: record for place, record in records.items() if "files" in record}
    shards = [
        f"* `{place}`: {made['shards']} of {made['of']} interleaved shards, {made['codec']} pages"
        for place, record in records.items()
        if "shards" in (made := record.get("source", record))
    ]
    return [*row_set_lines({"datasets": tables}), *shards]


def _thousands(entry: Measured, call: str) -> float | None:
    rate = entry.rate(call)
    return rate.median / 1e3 if rate else None


def _conditions(results: dict[str, Any], measured: list[Measured]) -> list[str]:
    rounds = max((len(one.rounds) for one in measured), default=0)
    lines = [
        *machine_lines(results, also="; server, proxy and client share them"),
        *_data_sets(results),
        f"* rounds: {rounds}; in each, every entry is a process of its own with a server and a proxy of its own; medians are shown",
        "* the server is versitygw on loopback over a folder in the page cache; all requests of all systems go through one proxy, which counts "
        "them, and which waits 10 ms before each answer where the store is far away",
        "* each figure has a warm-up, in which the sum of all row numbers is held against the set; the clock starts before a reader is made",
        "* a peer's figure is the best of the settings shown; torch-dataloader-utils and NeMo Curator also find keys and endpoint in the "
        "environment, because parts of them do not pass on the options they were given",
    ]
    for system, title in TITLES.items():
        if versions := versions_of(results, system):
            lines.append(f"* {title}: {', '.join(f'{name} {version}' for name, version in versions.items())}")
    return [*lines, *command_lines(results, "bench-remote")]


if __name__ == "__main__":
    main()
