"""Turns the results of a session into a page with plots: ``python -m benchmarks.loader.report RESULTS.json OUT_DIR``.

Enters: the ``results.json`` of a run whose entries are named ``<scenario>__<setting>__<system>``. Leaves: ``README.md``,
SVG plots and a copy of the results without the paths of this machine. Invariant: the same results give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.loader.goals import Find, goal_lines, goals
from benchmarks.report import published, run_command
from benchmarks.report_conditions import command_lines, failure_lines, machine_lines, versions_of
from benchmarks.report_goals import summary
from benchmarks.report_plots import Bar, plot_ranking

TITLES = {
    "shardmill": "shardmill",
    "shardmill_dataloader": "shardmill create_dataloader",
    "torch_dataloader_utils": "torch-dataloader-utils",
    "pyarrow_loop": "pyarrow loop",
    "manual_sharded": "manual_sharded",
    "naive_iterable": "naive_iterable",
    "hf_datasets": "HF datasets",
}
SCENARIOS = {
    "s1": "S1: throughput, 66 columns",
    "s2": "S2: files of unequal size",
    "s3": "S3: one file of ten million rows",
    "s4": "S4: one rank of many",
    "s5": "S5: two of 66 columns",
    "s6": "S6: filter that keeps one row in ten",
    "s7": "S7: first batch",
    "s8": "S8: formats",
    "memory": "Memory over three epochs",
}
_COLUMNS = (
    *("setting", "system", "rows", "median s", "p25 to p75", "min s", "rows/s"),
    *("build ms", "first batch ms", "MB asked", "MB from disk", "peak MB"),
)


@dataclass(frozen=True)
class Measured:
    """One entry that succeeded."""

    scenario: str
    setting: str
    system: str
    metrics: dict[str, Any]
    params: dict[str, Any]

    @property
    def words(self) -> str:
        """The setting as words."""
        return self.setting.replace("_", " ")


def main() -> None:
    """Writes the report that the command line asks for."""
    run_command(
        write_report,
        module="benchmarks.loader.report",
        description=__doc__,
        example="docs/benchmarks/loader",
    )


def write_report(results: dict[str, Any], out: Path) -> None:
    """Writes the page, its plots and the published copy of the results."""
    results = published(results, out)
    measured = measured_entries(results)
    for scenario in _present(measured):
        plot_ranking(out / f"{scenario}.svg", *_bars(scenario, _of(measured, scenario)))
    (out / "README.md").write_text(_page(results, measured))


def measured_entries(results: dict[str, Any]) -> list[Measured]:
    """The entries that succeeded."""
    found = []
    for entry in results["entries"]:
        parts = entry["name"].split("__")
        if entry["is_success"] and len(parts) == 3 and parts[2] in TITLES:
            scenario, setting, system = parts
            found.append(Measured(scenario, setting, system, entry["metrics"], entry.get("params", {})))
    return found


def finder(measured: Sequence[Measured]) -> Find:
    """Looks entries up by scenario, setting and system."""
    entries = {(one.scenario, one.setting, one.system): one.metrics for one in measured}
    return lambda scenario, setting, system: entries.get((scenario, setting, system))


def _page(results: dict[str, Any], measured: list[Measured]) -> str:
    find = finder(measured)
    lines = [
        "# Tables into training batches",
        "",
        *summary(goals(find), nothing="Only the peers were measured in this session."),
        "",
    ]
    lines += failure_lines(results)
    lines += ["", *goal_lines(find)]
    for scenario in _present(measured):
        entries = _of(measured, scenario)
        lines += [f"## {SCENARIOS[scenario]}", "", *_explained(scenario), "", f"![{scenario}]({scenario}.svg)", ""]
        lines += ["| " + " | ".join(_COLUMNS) + " |", "|---|---|" + "--:|" * (len(_COLUMNS) - 2)]
        lines += [_row(one) for one in entries]
        lines += ["", *_ranks(entries), *_epochs(entries), *(_naive_ddp(find) if scenario == "s4" else [])]
    return "\n".join([*lines, "## How it was run", "", *_conditions(results, measured)]) + "\n"


def _explained(scenario: str) -> list[str]:
    return {
        "s1": ["Batches of 1,024 rows. The pyarrow loop reads 65,536 rows at a time and slices: the honest ceiling."],
        "s2": ["20 files of 10,000 to 320,000 rows. The clock runs from the first rank's start to the last one's end."],
        "s3": ["In turn is the peer's own simulation: eight ranks one after another, the longest one's time is shown."],
        "s4": ["Rank 0 alone in a process, then sixteen ranks at the same time."],
        "s5": ["manual_sharded reads all columns, then selects, as the peer's benchmark defines it."],
        "s6": ["Rows are those delivered. shardmill's clock starts before the loader is built: it selects rows there."],
        "s7": ["The median of fresh loaders in a process that has imported everything and read one batch before."],
        "s8": ["500,000 rows in 10 files. ORC files are mapped into memory by pyarrow, which MB asked does not show."],
        "memory": ["Peak MB is that of the whole process, interpreter and imports included."],
    }[scenario]


def _row(one: Measured) -> str:
    metrics = one.metrics
    is_first = one.params.get("mode") == "first_batch"
    cells = [
        one.words,
        TITLES[one.system],
        f"{metrics['rows']:,}",
        f"{metrics['median_s']:.3f}",
        f"{metrics['p25_s']:.3f} to {metrics['p75_s']:.3f}",
        f"{metrics['min_s']:.3f}",
        "-" if is_first else f"{metrics['rows_per_s']:,.0f}",
        f"{metrics['construct_s'] * 1000:.1f}",
        f"{metrics['first_batch_s'] * 1000:.1f}",
        f"{metrics['asked_bytes'] / 1e6:,.1f}",
        f"{metrics['disk_bytes'] / 1e6:,.1f}",
        f"{metrics['peak_rss_bytes'] / 1e6:,.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _ranks(entries: Sequence[Measured]) -> list[str]:
    lines = []
    for one in entries:
        rows = one.metrics.get("rows_of_ranks") or one.metrics.get("rows_of_workers")
        if rows and len(rows) > 1:
            spread = (max(rows) - min(rows)) / (sum(rows) / len(rows))
            shown = ", ".join(f"{count:,}" for count in rows)
            lines.append(f"| {one.words} | {TITLES[one.system]} | {shown} | {spread:.1%} |")
    head = ["| setting | system | rows of each rank or worker | (max − min) / mean |", "|---|---|---|--:|"]
    return [*head, *lines, ""] if lines else []


def _epochs(entries: Sequence[Measured]) -> list[str]:
    lines = [
        f"| {one.words} | {TITLES[one.system]} | {one.metrics['decoded_bytes'] / 1e9:.2f} | "
        + ", ".join(f"{peak / 1e6:,.0f}" for peak in one.metrics["epoch_peak_rss_bytes"])
        + " |"
        for one in entries
        if "epoch_peak_rss_bytes" in one.metrics
    ]
    head = ["| setting | system | GB of values an epoch | peak MB of each epoch |", "|---|---|--:|---|"]
    return [*head, *lines, ""] if lines else []


def _naive_ddp(find: Find) -> list[str]:
    """Every rank reads everything and keeps its share, so its rate is that of one reader by the ranks."""
    reader = find("s1", "arrow_workers_0", "naive_iterable")
    if reader is None:
        return []
    shown = ", ".join(f"{ranks}: {reader['rows_per_s'] / ranks:,.0f}" for ranks in (1, 2, 4, 8, 16))
    return [f"naive_ddp, computed from one reader of S1, rows/s of a rank by the number of ranks: {shown}.", ""]


def _bars(scenario: str, entries: Sequence[Measured]) -> tuple[list[Bar], str]:
    def bar(one: Measured, value: float) -> Bar:
        return Bar(f"{one.words}, {TITLES[one.system]}", TITLES[one.system].split(" create")[0], value)

    if scenario == "s7":
        return [bar(one, one.metrics["first_batch_s"] * 1000) for one in entries], "milliseconds to the first batch"
    if scenario == "memory":
        return [bar(one, one.metrics["peak_rss_bytes"] / 1e6) for one in entries], "MB, peak of the process"
    return [bar(one, one.metrics["rows_per_s"] / 1e6) for one in entries], "million rows a second"


def _conditions(results: dict[str, Any], measured: list[Measured]) -> list[str]:
    runs = sorted({len(one.metrics["all_seconds"]) for one in measured})
    arrow = next((one.metrics["arrow_threads"] for one in measured if "arrow_threads" in one.metrics), "?")
    lines = [
        *machine_lines(results, also=f"; pyarrow uses {arrow} threads"),
        "* each entry is a process of its own: one pass that warms up, in which the sum of all row numbers is compared "
        f"too, then {' or '.join(map(str, runs))} timed passes, each with a fresh loader; all counts are asserted",
        "* the clock starts when the loader is built, and worker processes start after that; where rows/s and rows are "
        "smaller than the set, a slow tool read its first files only",
        "* MB asked is rchar of /proc/self/io, what read calls returned, pipes from worker processes included; files "
        "are in the page cache unless the setting says cold, where they were dropped from it before each pass",
        "* peak MB is that of the process tree of the whole entry; all systems run in one interpreter, and tools that "
        "need torch import it",
        *_data_sets(results),
    ]
    for system, title in TITLES.items():
        versions = versions_of(results, system)
        if versions:
            lines.append(f"* {title}: " + ", ".join(f"{name} {number}" for name, number in versions.items()))
    return [*lines, *command_lines(results, "bench-loader")]


def _data_sets(results: dict[str, Any]) -> list[str]:
    return [
        f"* `{place}`: {record['rows']:,} rows in {record['files']} files of {record['format']}, "
        f"{record['bytes'] / 1e6:,.1f} MB, row groups of {record['row_group']:,}"
        for place, record in results.get("datasets", {}).items()
        if record
    ]


def _present(measured: Sequence[Measured]) -> list[str]:
    found = {one.scenario for one in measured}
    return [scenario for scenario in SCENARIOS if scenario in found]


def _of(measured: Sequence[Measured], scenario: str) -> list[Measured]:
    return [one for one in measured if one.scenario == scenario]


if __name__ == "__main__":
    main()
