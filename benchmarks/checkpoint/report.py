"""Turns the results of a session into a page with plots: ``python -m benchmarks.checkpoint.report RESULTS.json OUT_DIR``.

Enters: the ``results.json`` of a run whose entries are named ``<scenario>__<setting>__<system>``. Leaves: ``README.md``,
SVG plots and a copy of the results without the paths of this machine. Invariant: the same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.arrayrecord.rounds import Find, Measured, finder, measured_entries
from benchmarks.checkpoint.goals import MANY_FILES, NONE, OURS, PEER, PLUGIN, TITLES, goals, ratio, value
from benchmarks.checkpoint.sets import DONE_PERCENT, SHARES
from benchmarks.report import published, run_command
from benchmarks.report_conditions import command_lines, failure_lines, machine_lines, row_set_lines, versions_of
from benchmarks.report_goals import goal_table, summary
from benchmarks.report_plots import plot_bars

_SCENARIOS = {
    "full": "Full size: 100,000,000 ids in 10,000 files",
    "tenth": "1/10: 10,000,000 ids in 1,000 files",
    "hundredth": "1/100: 1,000,000 ids in 100 files",
    "wide": "1,000 rows with blobs of 1 MB, all done",
}
_COLUMNS = (
    *("done", "system", "wall s", "process s", "load s", "read s", "filter s", "write s", "M lookups/s"),
    *("rows out", "peak GB", "core-s", "asked MB", "from disk MB", "times as fast as Ray Data"),
)
_INDEX_COLUMNS = ("ids", "build s", "probe s", "M lookups/s", "B/id", "peak GB")
_Value = Callable[[str], float | None]


def main() -> None:
    """Writes the report that the command line asks for."""
    run_command(
        write_report, module="benchmarks.checkpoint.report", description=__doc__, example="docs/benchmarks/checkpoint"
    )


def write_report(results: dict[str, Any], out: Path) -> None:
    """Writes the page, its plots and the published copy of the results."""
    results = published(results, out)
    measured = measured_entries(results, TITLES)
    find = finder(measured)
    plots = _plots(find)
    for name, (axis, cases, series) in plots.items():
        plot_bars(out / f"{name}.svg", cases, series, axis)
    (out / "README.md").write_text(_page(results, measured, find, list(plots)))


def _page(results: dict[str, Any], measured: list[Measured], find: Find, plots: list[str]) -> str:
    lines = [
        "# Resume: rows that are done are not processed again",
        "",
        *summary(goals(find), nothing="Nothing that has a goal was measured in this session."),
        "",
    ]
    lines += failure_lines(results)
    lines += ["", *goal_table(goals(find)), *_reference(), ""]
    lines += [line for name in plots for line in (f"![{name}]({name}.svg)", "")]
    for scenario, title in _SCENARIOS.items():
        rows = [_row(find, one) for one in sorted(_of(measured, scenario), key=_order)]
        lines += [f"## {title}", "", *_head(_COLUMNS, words=2), *rows, ""] if rows else []
    indexes = [_index_row(find, one) for one in _of(measured, "index")]
    lines += ["## Index alone", "", *_head(_INDEX_COLUMNS, words=1), *indexes, ""] if indexes else []
    return "\n".join([*lines, *_explained(), "", "## How it was run", "", *_conditions(results, measured)]) + "\n"


def _reference() -> list[str]:
    return [
        f"The full size is the benchmark of ray-project/ray #60294: {DONE_PERCENT} % of the ids are done. It publishes 190 s on",
        "16 cores with 64 GB, and 680 s before that change; neither was measured here.",
    ]


def _explained() -> list[str]:
    return [
        "Wall seconds hold the load of the checkpoint, not the imports and not the start of Ray; process seconds hold all.",
        "Read, filter and write are sums over the threads. Peak memory sums the private pages of all processes and counts",
        "shared pages once. Asked is what read calls asked for, from disk what the kernel fetched; both of the job alone.",
        "A dash means that a system does not tell. After the clock, every id of the output is held against those that had",
        "to be there, each once.",
    ]


def _head(columns: tuple[str, ...], *, words: int) -> list[str]:
    return ["| " + " | ".join(columns) + " |", "|---" * words + "|" + "--:|" * (len(columns) - words)]


def _of(measured: list[Measured], scenario: str) -> list[Measured]:
    return [one for one in measured if one.scenario == scenario]


def _order(one: Measured) -> tuple[int, bool, int]:
    return _percent(one), one.setting == MANY_FILES, list(TITLES).index(one.system)


def _percent(one: Measured) -> int:
    return int(one.setting.split("_")[1])


def _row(find: Find, one: Measured) -> str:
    of = _values(find, one)
    peer = value(find, one.scenario, one.setting, PEER, "wall_s")
    cells = [
        f"{_percent(one)} %" + (", 10,000 files" if one.setting == MANY_FILES else ""),
        TITLES[one.system],
        *(_number(of(key), 2) for key in ("wall_s", "process_seconds", "load_s", "read_s", "filter_s", "write_s")),
        _number(ratio(of("lookups"), of("filter_s")), 1, 1e-6),
        _number(of("rows_out"), 0),
        _number(of("peak_rss_bytes"), 2, 1e-9),
        _number(of("cpu_seconds"), 1),
        *(_number(of(key), 1, 1e-6) for key in ("rchar", "read_bytes")),
        _number(ratio(peer, of("wall_s")), 1) if one.system != PEER else "-",
    ]
    return "| " + " | ".join(cells) + " |"


def _index_row(find: Find, one: Measured) -> str:
    of = _values(find, one)
    cells = [
        one.setting.replace("_", ", "),
        *(_number(of(key), 2) for key in ("build_s", "probe_s")),
        _number(ratio(of("probes"), of("probe_s")), 1, 1e-6),
        _number(of("bytes_per_id"), 3),
        _number(of("peak_rss_bytes"), 2, 1e-9),
    ]
    return "| " + " | ".join(cells) + " |"


def _values(find: Find, one: Measured) -> _Value:
    return lambda key: value(find, one.scenario, one.setting, one.system, key)


def _number(value: float | None, digits: int, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value * scale:,.{digits}f}"


def _plots(find: Find) -> dict[str, tuple[str, list[str], dict[str, list[float | None]]]]:
    """Axis, cases and series of each plot that has something to show."""
    shares = sorted({*SHARES, DONE_PERCENT})

    def series(size: str, key: str, scale: float = 1.0) -> dict[str, list[float | None]]:
        found = {}
        for system in (PEER, PLUGIN, NONE, OURS):
            values = [value(find, size, f"done_{share}", system, key) for share in shares]
            if any(one is not None for one in values):
                found[TITLES[system]] = [None if one is None else one * scale for one in values]
        return found

    plots = {
        "wall_seconds": ("seconds, load of the checkpoint included", "hundredth", "wall_s", 1.0),
        "wall_seconds_tenth": ("seconds, load of the checkpoint included", "tenth", "wall_s", 1.0),
        "peak_memory": ("GB, peak of all processes", "hundredth", "peak_rss_bytes", 1e-9),
    }
    made = {
        name: (f"{axis}; {_SCENARIOS[size]}", [f"{share} % done" for share in shares], series(size, key, scale))
        for name, (axis, size, key, scale) in plots.items()
    }
    return {name: plot for name, plot in made.items() if plot[2]}


def _conditions(results: dict[str, Any], measured: list[Measured]) -> list[str]:
    rounds = max((len(one.rounds) for one in measured), default=0)
    lines = [
        *machine_lines(results),
        *row_set_lines(results),
        f"* rounds: {rounds}; in each, every entry is a process of its own; medians are shown",
        "* page caches are warm, except for the rows with blobs, which are dropped from the cache before the clock",
        "* the function is the identity, called with 1,000 rows; every run starts with the imported list of ids and no other",
        "* Ray Data is told of three cores: its filter and its function keep one each, and with two no task ever starts",
    ]
    for system in (OURS, PEER):
        versions = versions_of(results, system)
        if versions:
            number = next((one.rounds[0].get("version", "") for one in measured if one.system == system), "")
            shown = ", ".join(f"{name} {version}" for name, version in versions.items())
            lines.append(f"* {f'{TITLES[system]} {number}'.strip()}: {shown}")
    return [*lines, *command_lines(results, "bench-checkpoint")]


if __name__ == "__main__":
    main()
