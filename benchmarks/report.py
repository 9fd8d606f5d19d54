"""Makes the page, the chart and the summary of a session.

Called as ``python -m benchmarks.report FILE.yaml RESULTS.json OUT_DIR``. ``RESULTS.json`` is
``results.json`` of a session, or the ``summary.json`` of a page that is to be regenerated. Entries
that a session did not measure are taken from the summary in ``OUT_DIR``. The ``report`` block of
the YAML file defines the page, by the expressions of ``benchmarks.figures``. What was not measured
is shown as ``-``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chart import draw
from benchmarks.figures import Figures, Row, three_digits
from benchmarks.runner.series import Series, by_figure
from benchmarks.runner.settings import Settings, read_settings

_TURNS = (
    (
        "* in each round, the systems of a scenario run in turn, each in its own process; "
        "every second round is in reverse order"
    ),
    (
        "* *times as fast* is the median of the ratios of the rounds, with their quartiles; "
        "other cells are medians; [summary.json](summary.json) has the values of all rounds"
    ),
)


def summarize(results: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of each entry round by round, without what names this machine."""
    entries = {
        name: {
            **{key: value for key, value in entry.items() if key != "rounds"},
            "failures": [re.sub(r"/\S+/", "", failure) for failure in entry["failures"]],
            # An entry of which one round failed has no figures.
            "metrics": {} if entry["failures"] else by_figure(entry["rounds"]),
        }
        for name, entry in results["entries"].items()
    }
    records = results["datasets"].items()
    datasets = {
        name: {key: one[key] for key in one if isinstance(one[key], str | int)}
        for name, one in records
    }
    return {**results, "datasets": datasets, "entries": entries}


def merged(settings: Settings, old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """A summary with the new entries, and old entries where there are no new ones.

    They have the order of the file.
    """
    known = {**old.get("entries", {}), **new["entries"]}
    names = [entry.name for entry in settings.entries] or list(known)
    return {
        **new,
        "datasets": {**old.get("datasets", {}), **new["datasets"]},
        "entries": {name: known[name] for name in names if name in known},
    }


@dataclass(frozen=True)
class Ratio:
    """One line of the first table.

    It is the same work by shardmill and by a peer, and a limit that was measured beside them.

    Attributes:
        peer: Its name; empty if the work is compared with a limit only.
        times: How many times as fast shardmill is, round by round.
        share: The part of the limit's rate that shardmill reaches.
        form: How the figures of both are shown.
    """

    work: str
    peer: str
    ours: Series
    theirs: Series | None
    times: Series | None
    limit: str
    share: Series | None
    form: str

    def cells(self) -> list[str]:
        """The line of the page."""
        ours, theirs = (shown(one and one.median, self.form) for one in (self.ours, self.theirs))
        share = f"{self.share.median:.0%} of {self.limit}" if self.share else "-"
        return [self.work, self.against(), spread_of(self.times), share, ours, theirs]

    def against(self) -> str:
        """The peer, and its best option."""
        choice = self.theirs.choice if self.theirs else ()
        return f"{self.peer} ({', '.join(choice)})" if choice else self.peer or "-"


@dataclass(frozen=True)
class Page(Figures):
    """A summary as a page."""

    def items(self) -> Iterator[Any]:
        """The items of ``ratios``, one for each combination of their matrix."""
        for item in self.block.get("ratios", ()):
            axes = item.get("matrix", {})
            for chosen in itertools.product(*axes.values()):
                values: dict[str, Any] = {}
                for axis, value in zip(axes, chosen, strict=True):
                    values |= value if isinstance(value, dict) else {axis: value}
                yield _filled(item, values)

    def ratios(self) -> Iterator[Ratio]:
        """The lines of the first table."""
        for item in self.items():
            yield from self._ratios_of(item)

    def _ratios_of(self, item: Mapping[str, Any]) -> Iterator[Ratio]:
        is_time = item.get("better") == "lower"

        def rate(part: Series | None, whole: Series | None) -> Series | None:
            """How many times as fast the first one is."""
            first, second = (whole, part) if is_time else (part, whole)
            return (
                first.with_other(operator.truediv, second)
                if first and second and all(second.values)
                else None
            )

        if (ours := self.value(item["ours"])) is None:
            return
        limits = {
            name: rate(ours, self.value(expression))
            for name, expression in item.get("limit", {}).items()
        }
        limit, share = next(((name, share) for name, share in limits.items() if share), ("", None))
        form = item.get("form", "rate")
        found = (
            (name, self.value(expression)) for name, expression in item.get("against", {}).items()
        )
        measured: list[Any] = [one for one in found if one[1]] or ([("", None)] if share else [])
        for peer, theirs in measured:
            yield Ratio(
                item["work"],
                peer,
                ours,
                theirs,
                rate(ours, theirs),
                limit,
                share,
                form,
            )

    def table(self, table: Mapping[str, Any]) -> list[str]:
        """A table as Markdown; nothing when it has no line."""
        rows = self.rows(table)
        if not rows:
            return []
        # A column without any value belongs to a system that did not take part.
        cells = {
            title: [self._cell(column, row) for row in rows]
            for title, column in table["columns"].items()
        }
        cells = {title: shown for title, shown in cells.items() if set(shown) != {"-"}}
        labels = table.get("labels", {"setting": "{setting}", "system": "{system}"})
        lines = [
            f"## {table['title']}",
            "",
            *([table["text"].strip(), ""] if "text" in table else []),
        ]
        lines += _heads(labels, cells)
        for number, row in enumerate(rows):
            words = {
                key: self.named(text) if key != "figure" else text
                for key, text in row.places().items()
            }
            shown = [text.format(**words) for text in labels.values()] + [
                column[number] for column in cells.values()
            ]
            lines.append(_line(shown))
        return [*lines, ""]

    def _cell(self, column: Any, row: Row) -> str:
        if isinstance(column, dict):
            found = column.get(row.figure, column.get(row.places()["setting"]))
            return "-" if found is None else str(found)
        expression, form = column
        if form == "told":
            (found,) = self.found(expression, row)
            return " / ".join(dict.fromkeys(map(str, found.values))) if found else "-"
        if expression.endswith("/*'"):
            several = self.found(expression.strip("'"), row)
            return ", ".join(shown(one and one.median, form) for one in several)
        value = self.value(expression, row)
        return spread_of(value) if form == "ratio" else shown(value and value.median, form)

    def markdown(self) -> str:
        """The whole page."""
        summary = self.summary
        lines = [f"# {self.block['title']}", ""]
        lines += [
            f"{text.strip()}\n" for text in (self.block.get("text"), summary.get("note")) if text
        ]
        lines += [
            f"* **failed**: {name}: {'; '.join(one['failures'])}"
            for name, one in summary["entries"].items()
            if one["failures"]
        ]
        if ratios := [ratio.cells() for ratio in self.ratios()]:
            lines += [
                "",
                *_heads(
                    ["work", "against"],
                    ["times as fast", "share of the limit", "shardmill", "peer"],
                ),
            ]
            lines += map(_line, ratios)
        lines += ["", f"![{self.block['chart']['axis']}](chart.svg)", ""]
        lines += [line for table in self.block["tables"] for line in self.table(table)]
        if "limits" in self.block:
            lines += ["## What limits the speed", "", self.block["limits"].strip(), ""]
        return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, *self._conditions()])) + "\n"

    def _conditions(self) -> list[str]:
        summary, machine = self.summary, self.summary["machine"]
        lines = [
            "## How it was run",
            "",
            (
                f"* {machine['cpu_cores']} cores of {machine['cpu_model']}, "
                f"{machine['memory_bytes'] / 1e9:.0f} GB memory, Linux {machine['kernel']}; "
                f"the disk wrote {machine['disk_write_mb_per_s']:,.0f} MB/s with fsync "
                f"and read {machine['disk_read_mb_per_s']:,.0f} MB/s"
            ),
            f"* commit {summary['commit']}, started {summary['started_utc']} UTC",
            *self._origins(),
            # A session with a note was run differently.
            *(() if "note" in summary else _TURNS),
            f"* rounds: {self._rounds()}",
            *(f"* {note.strip()}" for note in self.block.get("notes", ())),
        ]
        if repeated := [name for name, one in summary["entries"].items() if one.get("is_repeated")]:
            lines.append(
                "* measured twice, because the quartiles were more than 20 % apart: "
                f"{', '.join(repeated)}"
            )
        for name, record in summary["datasets"].items():
            told = ", ".join(
                f"{key.replace('_', ' ')} {record[key]}"
                for key in self.block.get("datasets", ())
                if key in record
            )
            lines.append(f"* data set `{name}`: {told}")
        versions: dict[str, list[str]] = {}
        for name, one in summary["entries"].items():
            text = ", ".join(f"{package} {number}" for package, number in one["versions"].items())
            systems = versions.setdefault(text, [])
            systems += (
                [system] if (system := self.named(name.rpartition("__")[2])) not in systems else []
            )
        lines += [f"* {'; '.join(systems)}: {text}" for text, systems in versions.items()]
        return [
            *lines,
            "",
            "```bash",
            f"make {self.block['make']}",
            "# which runs",
            summary["command"],
            "```",
        ]

    def _origins(self) -> Iterator[str]:
        """The entries of other sessions, by commit."""
        summary = self.summary
        found: dict[str, list[str]] = {}
        for name, one in summary["entries"].items():
            found.setdefault(f"{one['commit']}, started {one['started_utc']} UTC", []).append(name)
        found.pop(f"{summary['commit']}, started {summary['started_utc']} UTC", None)
        for origin, names in found.items():
            yield (
                f"* measured in another session, on commit {origin}; a ratio of one of these "
                f"entries and any other is not of one session: {', '.join(names)}"
            )

    def _rounds(self) -> str:
        """The number of entries for each number of rounds."""
        counts = [
            max(map(len, one["metrics"].values()))
            for one in self.summary["entries"].values()
            if one["metrics"]
        ]
        return ", ".join(
            f"{number} ({entries} {'entry' if entries == 1 else 'entries'})"
            for number, entries in sorted(Counter(counts).items(), reverse=True)
        )


def shown(value: float | None, form: str) -> str:
    """A number as a cell; the form ``rate`` is records a second."""
    if value is None:
        return "-"
    if form == "rate":
        return f"{value / 1e6:.3g} M/s" if value >= 1e6 else f"{value / 1e3:.3g} K/s"
    return form.format(value)


def spread_of(ratio: Series | None) -> str:
    """A ratio with its quartiles, if there are several rounds."""
    if ratio is None:
        return "-"
    quartiles = (
        f" ({'–'.join(map(three_digits, ratio.quartiles))})" if len(ratio.values) > 1 else ""
    )
    return f"{three_digits(ratio.median)}×{quartiles}"


def _filled(item: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(item, dict):
        return {
            _filled(key, values): _filled(value, values)
            for key, value in item.items()
            if key != "matrix"
        }
    if isinstance(item, str):
        for name, value in values.items():
            item = item.replace(f"{{{name}}}", str(value))
    return item


def _heads(
    labels: Sequence[str] | Mapping[str, Any], cells: Sequence[str] | Mapping[str, Any]
) -> list[str]:
    return [_line([*labels, *cells]), "|---" * len(labels) + "|" + "--:|" * len(cells)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def read_summary(directory: Path) -> dict[str, Any]:
    """The summary of a page; empty if there is none."""
    path = directory / "summary.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_report(file: Path, results: Mapping[str, Any], out: Path) -> None:
    """Writes ``README.md``, ``chart.svg`` and ``summary.json``."""
    settings = read_settings(file)
    is_raw = any("rounds" in entry for entry in results["entries"].values())
    new = summarize(results) if is_raw else results
    page = Page(merged(settings, read_summary(out), new), settings.report)
    out.mkdir(parents=True, exist_ok=True)
    entries = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(one)}" for name, one in page.summary["entries"].items()
    )
    head = json.dumps(
        {key: value for key, value in page.summary.items() if key != "entries"}, indent=1
    )
    (out / "summary.json").write_text(
        f'{head.removesuffix("}").rstrip()},\n "entries": {{\n{entries}\n}}}}\n'
    )
    (out / "README.md").write_text(page.markdown())
    draw(page, out / "chart.svg")


def main() -> None:
    """Writes the report that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("file", type=Path, help="benchmark file, such as benchmarks/loader.yaml")
    parser.add_argument("results", type=Path, help="results.json of a session, or a summary.json")
    parser.add_argument("out", type=Path, help="directory to write, such as docs/benchmarks/loader")
    options = parser.parse_args()
    write_report(options.file, json.loads(options.results.read_text()), options.out)
    print(options.out / "README.md")


if __name__ == "__main__":
    main()
