"""Turns the results of a session into a page with plots: ``python -m benchmarks.report RESULTS.json OUT_DIR``.

Enters: the ``results.json`` of a run whose entries are named ``<path>__<codec>__<system>``. Leaves: ``README.md``,
SVG plots and a copy of the results without the paths of this machine. Invariant: the same results give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report_conditions import failure_lines, machine_lines, versions_of
from benchmarks.report_goals import goal_lines
from benchmarks.report_plots import plot_bars, plot_stages

OURS, PEER = "shardmill", "nemo_curator"
TITLES = {OURS: "shardmill", PEER: "NeMo Curator"}
PATHS = {
    "wds_to_parquet": "WebDataset → Parquet",
    "wds_to_wds": "WebDataset → WebDataset",
    "pq_to_parquet": "Parquet → Parquet",
    "pq_to_wds": "Parquet → WebDataset",
}
STAGES = {
    "reader": ("webdataset_reader", "interleaved_parquet_reader"),
    "filter": ("interleaved_aspect_ratio_filter",),
    "writer": ("interleaved_parquet_writer", "interleaved_webdataset_writer"),
}


_COLUMNS = (
    *("case", "system", "wall s", "inner s", "samples/s", "rows/s", "in MB", "out MB"),
    *("peak GB", "core-s", "reader s", "filter s", "writer s", "times faster"),
)


@dataclass(frozen=True)
class Measured:
    """One entry that succeeded."""

    path: str
    codec: str
    system: str
    metrics: dict[str, Any]

    @property
    def label(self) -> str:
        """Name of the case, the same for both systems."""
        return f"{PATHS.get(self.path, self.path)}, {self.codec}"

    def stage_seconds(self, stage: str) -> float | None:
        """Seconds of a stage summed over its tasks, or None if the system does not tell them apart."""
        names = [f"task_{name}_process_time_sum" for name in STAGES[stage]]
        found = [float(self.metrics[name]) for name in names if name in self.metrics]
        return sum(found) if found else None


def main() -> None:
    """Writes the report that the command line asks for."""
    run_command(write_report, module="benchmarks.report", description=__doc__, example="docs/benchmarks/interleaved_io")


def run_command(
    write: Callable[[dict[str, Any], Path], None], *, module: str, description: str | None, example: str
) -> None:
    """The command line that all reports have: results in, a folder out."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("results", type=Path, help="results.json of a session")
    parser.add_argument("out", type=Path, help=f"folder to write, such as {example}")
    options = parser.parse_args()
    write(json.loads(options.results.read_text()), options.out)
    print(options.out / "README.md")


def published(results: dict[str, Any], out: Path) -> dict[str, Any]:
    """Makes the folder, puts a copy of the results without the paths of this machine into it, and gives that copy."""
    out.mkdir(parents=True, exist_ok=True)
    results = without_machine_paths(results)
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    return results


def write_report(results: dict[str, Any], out: Path) -> None:
    """Writes the page, its plots and the published copy of the results."""
    results = published(results, out)
    measured = _measured(results)
    cases = list(dict.fromkeys(one.label for one in measured))
    by_system = {
        system: {one.label: one for one in measured if one.system == system}
        for system in (PEER, OURS)
        if any(one.system == system for one in measured)
    }
    limits = {label: _limit_s(results, by_system, label) for label in cases}
    for name, key, scale, axis in (
        ("wall_seconds", "process_seconds", 1.0, "seconds, process start to exit"),
        ("peak_memory", "peak_rss_bytes", 1e-9, "GB, peak of the process tree"),
        ("cpu_seconds", "cpu_seconds", 1.0, "core-seconds of the process tree"),
    ):
        series = {
            TITLES[system]: [_scaled(entries.get(label), key, scale) for label in cases]
            for system, entries in by_system.items()
        }
        lines = [limits[label] for label in cases] if name == "wall_seconds" else None
        plot_bars(out / f"{name}.svg", cases, series, axis, lines)
    plot_stages(
        out / "stage_seconds.svg",
        [
            (label, TITLES[system], _stages(entries.get(label)))
            for label in cases
            for system, entries in by_system.items()
        ],
    )
    (out / "README.md").write_text(_page(results, measured, cases, by_system, limits))


def without_machine_paths(results: dict[str, Any]) -> dict[str, Any]:
    """Returns the results with the folders of this machine replaced by their names."""
    text = json.dumps(results)
    places = {**results.get("paths", {}), "repository": results.get("repository", "")}
    for name, place in sorted(places.items(), key=lambda item: -len(item[1])):
        if place:
            text = text.replace(place, f"{{{name}}}")
    # What is left are interpreters and extra configuration files.
    return json.loads(re.sub(r'"/[^"]*/([^"/]+)"', r'"\1"', text))


def _measured(results: dict[str, Any]) -> list[Measured]:
    measured = []
    for entry in results["entries"]:
        parts = entry["name"].split("__")
        if entry["is_success"] and len(parts) == 3 and parts[2] in TITLES:
            measured.append(Measured(parts[0], parts[1], parts[2], entry["metrics"]))
    return measured


def _finder(results: dict[str, Any]) -> Callable[[str, str, str], dict[str, Any] | None]:
    entries = {entry["name"]: entry["metrics"] for entry in results["entries"] if entry["is_success"]}
    return lambda path, codec, system: entries.get(f"{path}__{codec}__{system}")


def _scaled(one: Measured | None, key: str, scale: float) -> float | None:
    return float(one.metrics[key]) * scale if one and key in one.metrics else None


def _stages(one: Measured | None) -> dict[str, float]:
    return {stage: (one.stage_seconds(stage) or 0.0) if one else 0.0 for stage in STAGES}


def _limit_s(results: dict[str, Any], by_system: dict[str, dict[str, Measured]], label: str) -> float | None:
    disk = results.get("machine", {}).get("disk")
    # A lossless tool writes more bytes than one that re-compresses, so its own bytes set the limit.
    one = by_system.get(OURS, {}).get(label) or by_system.get(PEER, {}).get(label)
    if not disk or one is None:
        return None
    read_s = 0.0 if results["caches"] == "warm" else one.metrics["input_total_mb"] / disk["read_mb_per_s"]
    return read_s + one.metrics["output_total_mb"] / disk["write_fsync_mb_per_s"]


def _page(
    results: dict[str, Any],
    measured: list[Measured],
    cases: list[str],
    by_system: dict[str, dict[str, Measured]],
    limits: dict[str, float | None],
) -> str:
    machine, disk = results.get("machine", {}), results.get("machine", {}).get("disk", {})
    lines = ["# Interleaved input and output", ""]
    lines += _summary(cases, by_system)
    lines += failure_lines(results)
    lines += [
        "",
        "![Wall seconds](wall_seconds.svg)",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|---|---|" + "--:|" * (len(_COLUMNS) - 2),
    ]
    for label in cases:
        lines += [_row(entries[label], by_system) for entries in by_system.values() if label in entries]
    lines += [
        "",
        "Wall seconds run from the start of the process to its exit, interpreter, imports and Ray included; inner",
        "seconds from the construction of the pipeline to its end, Ray's start included. Rows and samples are those",
        "written, per wall second. Stage seconds are sums over all tasks; a dash means that a system does not tell.",
        "Peak memory sums the private pages of all processes and counts shared pages once.",
        "",
        *goal_lines(_finder(results)),
        "## Physical limits",
        "",
        f"The disk wrote {disk.get('write_fsync_mb_per_s', '?')} MB/s with fsync and read back",
        f"{disk.get('read_mb_per_s', '?')} MB/s, dropped from the cache before, with the better of one",
        "stream and one stream a core; one thread copies",
        f"{machine.get('memory_copy_gb_per_s', '?')} GB/s",
        "in memory. The line in the plot is the time that the output bytes, and with cold caches the input bytes, take",
        "at these speeds. A system that does not fsync may end before its bytes are on the disk.",
        "",
        "| case | limit s |",
        "|---|--:|",
        *[f"| {label} | {_number(limits[label], 2)} |" for label in cases],
        "",
        "## Stages, memory and processor time",
        "",
        "![Seconds by stage](stage_seconds.svg)",
        "",
        "![Peak memory](peak_memory.svg)",
        "",
        "![Core-seconds](cpu_seconds.svg)",
        "",
        "## How it was run",
        "",
        *_conditions(results, measured),
    ]
    return "\n".join(lines) + "\n"


def _summary(cases: list[str], by_system: dict[str, dict[str, Measured]]) -> list[str]:
    factors = [factor for label in cases if (factor := _factor(by_system, label)) is not None]
    if not factors:
        return ["Only one of the two systems was measured in this session."]
    return [
        f"tl;dr: shardmill is {min(factors):.1f} to {max(factors):.1f} times as fast as NeMo Curator,",
        "start-up included, on the same shards, on the same machine, in the same session.",
    ]


def _factor(by_system: dict[str, dict[str, Measured]], label: str) -> float | None:
    ours, peer = by_system.get(OURS, {}).get(label), by_system.get(PEER, {}).get(label)
    return peer.metrics["process_seconds"] / ours.metrics["process_seconds"] if ours and peer else None


def _row(one: Measured, by_system: dict[str, dict[str, Measured]]) -> str:
    metrics = one.metrics
    wall = metrics["process_seconds"]
    factor = _factor(by_system, one.label) if one.system == OURS else None
    cells = [
        one.label,
        TITLES[one.system],
        f"{wall:.2f}",
        _number(metrics.get("time_taken_s"), 2),
        f"{metrics['output_num_samples'] / wall:,.0f}",
        f"{metrics['output_num_rows'] / wall:,.0f}",
        f"{metrics['input_total_mb']:,.0f}",
        f"{metrics['output_total_mb']:,.0f}",
        f"{metrics['peak_rss_bytes'] / 1e9:.2f}",
        f"{metrics['cpu_seconds']:.1f}",
        *[_number(one.stage_seconds(stage), 2) for stage in STAGES],
        _number(factor, 1),
    ]
    return "| " + " | ".join(cells) + " |"


def _conditions(results: dict[str, Any], measured: list[Measured]) -> list[str]:
    first = measured[0].metrics if measured else {}
    command = " ".join(results["command_line"])
    counts = {name: f"{first.get(name, 0):,}" for name in ("input_num_samples", "input_num_texts", "input_num_images")}
    lines = [
        *machine_lines(results),
        "* in: {input_num_samples} samples, {input_num_texts} texts, {input_num_images} images".format(**counts),
        f"* the aspect ratio filter 1.0 to 2.0 keeps {first.get('output_num_images', 0):,} images",
        f"* page caches: {results['caches']}; the dirty pages of an entry are flushed before the next one starts",
        f"* runs of each entry: {results.get('repeats', 1)}; the one of median wall time is shown",
        *_data_sets(results),
        "* NeMo Curator decodes and encodes every page that it reads from a tar file, which makes JPEG pages smaller",
        "  and changes their pixels; shardmill copies the page's bytes",
        "* both systems read the same files; one program counts and checks every output file after the timed process",
    ]
    for system in (PEER, OURS):
        versions = versions_of(results, system)
        if versions:
            lines.append(f"* {TITLES[system]}: " + ", ".join(f"{name} {number}" for name, number in versions.items()))
    return [*lines, "", "Repeat it with:", "", "```bash", "benchmarks/peers/build.sh .peers", command, "```", "",
            "The numbers above are those of [results.json](results.json)."]  # fmt: skip


def _data_sets(results: dict[str, Any]) -> list[str]:
    lines = []
    for place, record in results.get("datasets", {}).items():
        if not record:
            lines.append(f"* `{place}`: its folder does not say how it was made")
            continue
        writer = record.get("writer", "benchmarks.mint1t")
        made = record.get("source", record)
        shards = f"{made.get('shards')} of {made.get('of')} shards, {made.get('codec')} pages"
        lines.append(f"* `{place}`: written by {writer}, {shards}")
    return lines


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()
