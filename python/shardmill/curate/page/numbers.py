"""The tables and bars of the page: reports enter, sections leave. Each function answers one question about a run or several."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any

from shardmill.curate.page.charts import Part, bar, stacked
from shardmill.curate.page.markup import Child, Html, element, joined, table

if TYPE_CHECKING:
    from shardmill.curate.report import Report

Runs = Mapping[str, "Report"]

# A page is read by a person; the whole list is in quarantine.jsonl.
_MOST_QUARANTINED = 60
_MODALITIES = {"texts": "text", "images": "image", "metadata": "metadata", "other": "other"}


def tiles(runs: Runs) -> Html:
    """The numbers that matter most, large."""
    reports = list(runs.values())
    first = reports[0]
    before, after = first.counts("input"), first.counts("output")
    left_out = sum(len(report.quarantined) for report in reports)
    is_one = len(reports) == 1
    speeds = [_rate(report.counts("output")["samples"], report.seconds) for report in reports]
    bytes_per_second = [_rate(_input_bytes(report), report.seconds) / 1e6 for report in reports]
    figures: list[tuple[str, str]] = [
        (
            f"{after['samples']:,}",
            f"documents written, of {before['samples']:,} read{'' if is_one else ' on each path'}",
        ),
        (_percentage(after["images"], before["images"]), f"of {before['images']:,} images kept"),
        (f"{max(speeds):,.0f}", f"documents per second{'' if is_one else ' on the fastest path'}"),
        (f"{max(bytes_per_second):,.0f} MB/s", f"of input{'' if is_one else ' at most'}"),
    ]
    figures.append((f"{left_out:,}", "damaged samples or files left out"))
    return element(
        "dl",
        [element("div", element("dt", label), element("dd", figure)) for figure, label in figures],
        class_="tiles",
    )


def runs_table(runs: Runs) -> Html | None:
    """How several runs compare."""
    if len(runs) < 2:
        return None
    fastest = max(_rate(report.counts("output")["samples"], report.seconds) for report in runs.values())
    rows: list[list[Child]] = []
    for name, report in runs.items():
        samples_per_second = _rate(report.counts("output")["samples"], report.seconds)
        rows.append(
            [
                element("span", name, class_="name"),
                f"{samples_per_second:,.0f}",
                bar(samples_per_second, fastest, label=f"{name}: {samples_per_second:,.0f} documents per second"),
                f"{report.seconds:.2f}",
                f"{report.counts('input')['rows']:,}",
                f"{report.counts('output')['rows']:,}",
                f"{_input_bytes(report) / 1e6:,.1f}",
                f"{_output_bytes(report) / 1e6:,.1f}",
            ]
        )
    head = ["path", "documents/s", "", "seconds", "rows in", "rows out", "MB in", "MB out"]
    return _section(
        "The paths side by side",
        table(head, rows, caption="Speed and size of each path", numbers=frozenset({1, 3, 4, 5, 6, 7})),
        note="Wall time of the whole run: planning, reading, filtering, writing, and waiting until the files are on disk.",
    )


def modality_table(runs: Runs) -> Html:
    """What went in and what came out."""

    def content(report: Report) -> Html:
        before, after = report.counts("input"), report.counts("output")
        rows: list[list[Child]] = []
        for key, name in {"rows": "all rows", **_MODALITIES, "samples": "documents"}.items():
            if not before[key] and not after[key]:
                continue
            label = f"{name}: {after[key]:,} of {before[key]:,}"
            share = _percentage(after[key], before[key])
            rows.append([name, f"{before[key]:,}", f"{after[key]:,}", share, bar(after[key], before[key], label=label)])
        return table(["", "in", "out", "kept", ""], rows, caption="Rows in and out", numbers=frozenset({1, 2, 3}))

    def key(report: Report) -> Hashable:
        return tuple(report.counts("input").items()), tuple(report.counts("output").items())

    return _section("What went in, what came out", _by_run(runs, key, content))


def filter_table(runs: Runs) -> Html | None:
    """What each stage between reader and writer let through."""
    if not any(_stages(report) for report in runs.values()):
        return None

    def content(report: Report) -> Html:
        rows: list[list[Child]] = []
        for name, before, after in _stages(report):
            label = f"{name}: {after:,} of {before:,} rows passed"
            share = _percentage(after, before)
            passed = bar(after, before, label=label)
            rows.append([_spoken(name), f"{before:,}", f"{before - after:,}", share, passed])
        head = ["stage", "rows in", "rows dropped", "passed", ""]
        return table(head, rows, caption="Pass rates of the stages", numbers=frozenset({1, 2, 3}))

    return _section("What each stage let through", _by_run(runs, lambda report: tuple(_stages(report)), content))


def seconds_table(runs: Runs) -> Html:
    """Where the time went."""
    totals = {name: _series(report, lambda stage: (stage["name"], stage["seconds"])) for name, report in runs.items()}
    longest = max((sum(map(sum, stages.values())) for stages in totals.values()), default=0.0)
    rows: list[list[Child]] = []
    for name, stages in totals.items():
        parts = [
            Part(f"{_spoken(stage)}: {sum(series):.3f} s", sum(series), _tone(stage))
            for stage, series in stages.items()
        ]
        whole = stacked(parts, longest, label=f"{name}: " + ", ".join(part.label for part in parts))
        if len(runs) > 1:
            rows.append([element("strong", name), f"{sum(map(sum, stages.values())):.3f}", "", whole])
        for (stage, series), part in zip(stages.items(), parts, strict=True):
            own = bar(part.value, longest, label=part.label, tone=part.tone)
            spoken = element("span", _spoken(stage), class_="part") if len(runs) > 1 else _spoken(stage)
            rows.append([spoken, f"{sum(series):.3f}", f"{1000 * fmean(series):.2f}", own])
    head = ["stage", "seconds", "ms per split", ""]
    legend = element(
        "ul",
        [
            element(
                "li", element("svg", element("rect", class_=tone, width="100%", height=11), width=11, height=11), tone
            )
            for tone in _tones(totals.values())
        ],
        class_="legend",
    )
    return _section(
        "Where the time went",
        table(head, rows, caption="Seconds in each stage", numbers=frozenset({1, 2})),
        legend,
        note="Summed over all threads, so that the sum can exceed the wall time. The writer's seconds hold the wait for the disk.",
    )


def dropped_table(runs: Runs) -> Html | None:
    """Which rows are not in the output, and why; which keys were not taken over; what looked odd."""

    def counters(report: Report) -> list[tuple[str, str, int]]:
        metrics = report.to_dict()
        found = [("rows dropped", reason, count) for reason, count in report.rows_dropped.items()]
        found += [("keys dropped", reason, count) for reason, count in metrics["keys_dropped"].items()]
        found += [("noticed", warning, count) for warning, count in report.warnings.items()]
        if metrics["duplicate_sample_ids"]:
            found.append(("noticed", "sample id that occurred before", metrics["duplicate_sample_ids"]))
        return found

    if not any(map(counters, runs.values())):
        return None

    def content(report: Report) -> Html:
        found = counters(report)
        largest = max((count for _, _, count in found), default=0)
        rows: list[list[Child]] = [
            [reason, kind, f"{count:,}", bar(count, largest, label=f"{reason}: {count:,}", tone="lost")]
            for kind, reason, count in found
        ]
        return table(["reason", "", "count", ""], rows, caption="What was dropped, by reason", numbers=frozenset({2}))

    return _section("What was dropped, and why", _by_run(runs, lambda report: tuple(counters(report)), content))


def quarantine_table(runs: Runs) -> Html:
    """What was left out because it is damaged."""
    title = "Left out because it is damaged"
    if not any(report.quarantined for report in runs.values()):
        return _section(title, element("p", "Nothing: every sample of every file could be read."))

    def content(report: Report) -> Html:
        found = report.quarantined
        rows: list[list[Child]] = [
            [
                element("code", item["path"]),
                element("code", item["member"]) if item["member"] else "—",
                "—" if item["offset"] is None else f"{item['offset']:,}",
                "rest of the file" if item["is_shard"] else "sample",
                item["reason"],
            ]
            for item in found[:_MOST_QUARANTINED]
        ]
        head = ["file", "sample", "byte", "lost", "reason"]
        more = len(found) - len(rows)
        return joined(
            table(head, rows, caption="Damaged samples and files", numbers=frozenset({2})),
            element("p", f"and {more:,} more: see quarantine.jsonl.", class_="note") if more > 0 else None,
        )

    def key(report: Report) -> Hashable:
        return tuple(tuple(item.items()) for item in report.quarantined)

    return _section(title, _by_run(runs, key, content))


def settings_table(runs: Runs) -> Html:
    """How the runs were configured."""
    shown = ("input_path", "output_path", "stages", "executor", "workers", "mode", "on_materialize_error")

    rows: list[list[Child]] = []
    for name in shown:
        by_value: dict[str, list[str]] = {}
        for run, report in runs.items():
            by_value.setdefault(_written(report.params.get(name)), []).append(run)
        for value, users in by_value.items():
            used_by = "all paths" if len(users) == len(runs) else ", ".join(users)
            rows.append([name.replace("_", " "), *([] if len(runs) == 1 else [used_by]), element("code", value)])
    head = ["setting", *([] if len(runs) == 1 else ["path"]), "value"]
    return _section("How it was configured", table(head, rows, caption="Settings"))


def _section(title: str, *children: Child, note: str | None = None) -> Html:
    return element("section", element("h2", title), element("p", note, class_="note") if note else None, *children)


def _by_run(runs: Runs, key: Callable[[Report], Hashable], content: Callable[[Report], Html]) -> list[Html]:
    """The content once for all runs that agree in ``key``, under their names."""
    groups: dict[Hashable, list[str]] = {}
    for name, report in runs.items():
        groups.setdefault(key(report), []).append(name)
    parts: list[Html] = []
    for names in groups.values():
        if len(groups) > 1:
            parts.append(element("h3", ", ".join(names)))
        elif len(runs) > 1:
            parts.append(element("p", f"The same on all {len(runs)} paths.", class_="note"))
        parts.append(content(runs[names[0]]))
    return parts


def _stages(report: Report) -> list[tuple[str, int, int]]:
    """Name, rows in and rows out of what lies between source and sink, summed over the splits."""
    before = _series(report, lambda stage: (stage["name"], stage["rows_in"]), between=True)
    after = _series(report, lambda stage: (stage["name"], stage["rows_out"]), between=True)
    return [(name, int(sum(series)), int(sum(after[name]))) for name, series in before.items()]


def _series(
    report: Report, pick: Callable[[dict[str, Any]], tuple[str, float]], *, between: bool = False
) -> dict[str, list[float]]:
    """One number a split for each stage, by the stage's name."""
    series: dict[str, list[float]] = {}
    for split in report.splits:
        for stage in split["stages"][1:-1] if between else split["stages"]:
            name, value = pick(stage)
            series.setdefault(name, []).append(value)
    return series


def _tones(totals: Any) -> list[str]:
    return list(dict.fromkeys(_tone(stage) for stages in totals for stage in stages))


def _tone(stage: str) -> str:
    for tone in ("reader", "filter", "writer"):
        if stage.endswith(tone):
            return tone
    return "other"


def _spoken(stage: str) -> str:
    return stage.removeprefix("interleaved_").replace("_", " ")


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else str(value)


def _input_bytes(report: Report) -> int:
    return sum(split["input_bytes"] for split in report.splits)


def _output_bytes(report: Report) -> int:
    return sum(output["bytes"] for output in report.outputs)


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds else 0.0


def _percentage(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "—"
