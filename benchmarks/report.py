"""Makes the page, the chart and the summary of a session: ``python -m benchmarks.report FILE.yaml RESULTS.json OUT_DIR``.

``RESULTS.json`` is ``results.json`` of a session, or the ``summary.json`` of a page that is to be made anew. What the page shows
is the ``report`` block of the YAML file, as expressions over medians: ``rows / median_s`` names metrics of a row's entry,
``'s1__arrow_threads_2__shardmill:rows_per_s'`` that of another one, ``@min`` and ``@max`` after a metric its extremes over the
rounds. ``{entry}``, ``{case}`` (the entry without its system), ``{scenario}``, ``{setting}``, ``{system}`` and ``{figure}``
are filled in. ``*`` in a reference stands for several values, for ``min``, ``max``, ``sum``, which need all of them, and
``best``, the largest of those that there are. What was not measured is shown as ``-``, and no goal is met by it.
"""

from __future__ import annotations

import argparse
import ast
import json
import operator
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks.runner.settings import read_settings

#: Median, smallest and largest of the rounds.
Spread = list[float]
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_PLACES = {"": 0, "@min": 1, "@max": 2}
# Colours that stay apart for colour-blind readers and in print.
_COLOURS = ("#9aa5b1", "#33658a", "#f6ae2d", "#c8553d", "#86608e", "#5b8e7d")
_OURS = "#0b6e4f"


def summarize(results: Mapping[str, Any]) -> dict[str, Any]:
    """Medians, smallest and largest values over the rounds, without what names this machine."""
    entries = {
        name: {
            "versions": entry["versions"],
            "failures": [re.sub(r"/\S+/", "", failure) for failure in entry["failures"]],
            # An entry of which one round failed has no figures.
            "metrics": {} if entry["failures"] else _spreads([dict(_flat(one)) for one in entry["rounds"]]),
        }
        for name, entry in results["entries"].items()
    }
    records = results["datasets"].items()
    datasets = {name: {key: one[key] for key in one if isinstance(one[key], str | int)} for name, one in records}
    return {**results, "datasets": datasets, "entries": entries}


def _flat(metrics: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Numbers by their path; those of lists by their place."""
    for name, value in metrics.items():
        if isinstance(value, list):
            value = {str(place): one for place, one in enumerate(value)}
        if isinstance(value, dict):
            # The figures are the only level that is not named.
            yield from _flat(value, prefix if name == "figures" else f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value


def _spreads(rounds: list[dict[str, float]]) -> dict[str, Spread]:
    found = {}
    for name in rounds[0]:
        values = [one[name] for one in rounds if name in one]
        found[name] = [statistics.median(values), min(values), max(values)]
    return found


@dataclass(frozen=True)
class Row:
    """What the expressions of a line of a table refer to."""

    entry: str
    figure: str = ""

    def places(self) -> dict[str, str]:
        """Values of the places in braces."""
        case, _, system = self.entry.rpartition("__")
        scenario, _, setting = case.partition("__")
        named = {"case": case, "scenario": scenario, "setting": setting, "system": system}
        return {"entry": self.entry, **named, "figure": self.figure}


@dataclass(frozen=True)
class Page:
    """A summary and the ``report`` block that says what is shown of it."""

    summary: Mapping[str, Any]
    block: Mapping[str, Any]

    def value(self, expression: str, row: Row | None = None) -> float | None:
        """The value of an expression; None when something in it was not measured."""
        return self._one(ast.parse(expression, mode="eval").body, row or Row(""))

    def _one(self, node: ast.expr, row: Row) -> float | None:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._one(ast.BinOp(ast.Constant(0), ast.Sub(), operand), row)
            case ast.BinOp(left=left, op=sign, right=right):
                values = self._one(left, row), self._one(right, row)
                if values[0] is None or values[1] is None or (isinstance(sign, ast.Div) and not values[1]):
                    return None
                return _OPERATORS[type(sign)](values[0], values[1])
            case ast.Call(func=ast.Name(id=name), args=args):
                found = [value for one in args for value in self._several(one, row)]
                known = [value for value in found if value is not None]
                if not known or (name != "best" and len(known) < len(found)):
                    return None
                return {"min": min, "max": max, "best": max, "sum": sum}[name](known)
            case ast.Name(id=text) | ast.Constant(value=str(text)):
                return self._found(text, row)[0]
        raise ValueError(f"cannot read {ast.unparse(node)}")

    def _several(self, node: ast.expr, row: Row) -> Sequence[float | None]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self._found(node.value, row)
        return [self._one(node, row)]

    def _found(self, reference: str, row: Row) -> Sequence[float | None]:
        """The values that a reference stands for; one that is None where there is no value."""
        text = reference.format(**row.places()) if "{" in reference else reference
        entry, is_other, metric = (
            text.partition(":") if "__" in text or text.startswith("machine:") else (row.entry, "", text)
        )
        if entry == "machine":
            return [self.summary["machine"].get(metric)]
        metric, place = (metric[:-4], metric[-4:]) if metric[-4:] in _PLACES else (metric, "")
        if row.figure and not is_other:
            metric = f"{row.figure}/{metric}"
        return [
            spread[_PLACES[place]]
            for name, one in self.summary["entries"].items()
            if _is_like(name, entry)
            for key, spread in one["metrics"].items()
            if _is_like(key, metric)
        ] or [None]

    def rows(self, table: Mapping[str, Any]) -> list[Row]:
        """The lines of a table: one an entry, or one a case whose systems are columns; of each of its figures."""
        names = [
            name for name, one in self.summary["entries"].items() if one["metrics"] and _matches(name, table["rows"])
        ]
        if table.get("per", "entry").startswith("case"):
            names = list({name.rpartition("__")[0]: name for name in reversed(names)}.values())[::-1]
        if not table.get("per", "entry").endswith("figure"):
            return [Row(name) for name in names]
        found = []
        for name in names:
            like = f"{name.rpartition('__')[0]}__*" if table["per"].startswith("case") else name
            metrics = [
                key for other, one in self.summary["entries"].items() if _is_like(other, like) for key in one["metrics"]
            ]
            found += [Row(name, key.removesuffix("/per_s")) for key in dict.fromkeys(metrics) if key.endswith("/per_s")]
        return found

    def named(self, text: str) -> str:
        """A system or setting as it is shown."""
        return self.block.get("names", {}).get(text, text.replace("_", " "))

    def table(self, table: Mapping[str, Any]) -> list[str]:
        """A table as Markdown; nothing when it has no line."""
        rows = self.rows(table)
        if not rows:
            return []
        # A column without any value belongs to a system that did not take part.
        cells = {title: [self._cell(column, row) for row in rows] for title, column in table["columns"].items()}
        cells = {title: shown for title, shown in cells.items() if set(shown) != {"-"}}
        labels = table.get("labels", {"setting": "{setting}", "system": "{system}"})
        heads = [*labels, *cells]
        lines = [f"## {table['title']}", "", *([table["text"].strip(), ""] if "text" in table else [])]
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(labels) + "|" + "--:|" * len(cells)]
        for number, row in enumerate(rows):
            words = {key: self.named(text) if key != "figure" else text for key, text in row.places().items()}
            shown = [text.format(**words) for text in labels.values()] + [column[number] for column in cells.values()]
            lines.append("| " + " | ".join(shown) + " |")
        return [*lines, ""]

    def _cell(self, column: Any, row: Row) -> str:
        if isinstance(column, dict):
            found = column.get(row.figure, column.get(row.places()["setting"]))
            return "-" if found is None else str(found)
        expression, form = column
        if expression.endswith("/*'"):
            return ", ".join(shown(value, form) for value in self._found(expression.strip("'"), row))
        return shown(self.value(expression, row), form)

    def goals(self) -> list[tuple[str, str, str, bool | None]]:
        """Figure, goal, what was measured, and whether the goal is met."""
        found = []
        for goal in self.block.get("goals", ()):
            value, form = self.value(goal["value"]), goal.get("form", "{:.3g}×")
            sign, holds, wanted = (
                ("≥", operator.ge, goal["at_least"]) if "at_least" in goal else ("≤", operator.le, goal["at_most"])
            )
            bound = f"{sign} {shown(float(wanted), form.replace('.3g', 'g'))}"
            is_met = None if value is None else holds(value, float(wanted))
            found.append((goal["figure"], bound, shown(value, form), is_met))
        return found

    def markdown(self) -> str:
        """The whole page."""
        summary, goals = self.summary, self.goals()
        lines = [f"# {self.block['title']}", ""]
        lines += [f"{text.strip()}\n" for text in (self.block.get("text"), summary.get("note")) if text]
        lines += [
            f"* **failed**: {name}: {'; '.join(one['failures'])}"
            for name, one in summary["entries"].items()
            if one["failures"]
        ]
        if goals:
            words = {True: "met", False: "**missed**", None: "not measured"}
            count = {word: [words[goal[3]] for goal in goals].count(word) for word in words.values()}
            told = f"{count['met']} of {len(goals)} goals are met, {count['not measured']} were not measured."
            lines += ["", told, "", "| figure | goal | measured | |", "|---|--:|--:|---|"]
            lines += [f"| {figure} | {bound} | {value} | {words[is_met]} |" for figure, bound, value, is_met in goals]
        lines += ["", f"![{self.block['chart']['axis']}](chart.svg)", ""]
        lines += [line for table in self.block["tables"] for line in self.table(table)]
        return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, *self._conditions()])) + "\n"

    def _conditions(self) -> list[str]:
        summary, machine = self.summary, self.summary["machine"]
        lines = [
            "## How it was run",
            "",
            f"* {machine['cpu_cores']} cores of {machine['cpu_model']}, {machine['memory_bytes'] / 1e9:.0f} GB memory, "
            f"Linux {machine['kernel']}; the disk wrote {machine['disk_write_mb_per_s']:,.0f} MB/s with fsync and read "
            f"{machine['disk_read_mb_per_s']:,.0f} MB/s",
            f"* commit {summary['commit']}, started {summary['started_utc']} UTC",
            f"* rounds: {summary['rounds']}; in each, every entry is a process of its own; medians are shown, and "
            "[summary.json](summary.json) also has the smallest and largest values",
            *(f"* {note.strip()}" for note in self.block.get("notes", ())),
        ]
        for name, record in summary["datasets"].items():
            told = ", ".join(
                f"{key.replace('_', ' ')} {record[key]}" for key in self.block.get("datasets", ()) if key in record
            )
            lines.append(f"* data set `{name}`: {told}")
        versions: dict[str, list[str]] = {}
        for name, one in summary["entries"].items():
            text = ", ".join(f"{package} {number}" for package, number in one["versions"].items())
            systems = versions.setdefault(text, [])
            systems += [system] if (system := self.named(name.rpartition("__")[2])) not in systems else []
        lines += [f"* {'; '.join(systems)}: {text}" for text, systems in versions.items()]
        return [*lines, "", "```bash", f"make {self.block['make']}", "# which runs", summary["command"], "```"]

    def chart(self, path: Path) -> None:
        """Draws one bar a line, coloured by system; the same numbers give the same bytes."""
        import matplotlib as mpl
        from matplotlib.figure import Figure

        chart = self.block["chart"]
        rows = self.rows(chart)
        # Systems side by side.
        cases, figures = [row.places()["case"] for row in rows], [row.figure for row in rows]
        rows.sort(key=lambda row: (cases.index(row.places()["case"]), figures.index(row.figure)))
        bars = [(row, value) for row in rows if (value := self.value(chart["value"], row)) is not None]
        svg = {"svg.hashsalt": "shardmill", "svg.fonttype": "none"}
        settings: Any = {**svg, "font.size": 9, "font.family": "sans-serif"}
        systems = list(dict.fromkeys(row.places()["system"] for row, _ in bars))
        others = [system for system in systems if not system.startswith("shardmill")]
        with mpl.rc_context(settings):
            figure = Figure(figsize=(8, 0.8 + 0.24 * len(bars)), layout="constrained")
            axes = figure.subplots()
            for system in systems:
                places = [place for place, (row, _) in enumerate(bars) if row.places()["system"] == system]
                colour = _COLOURS[others.index(system) % len(_COLOURS)] if system in others else _OURS
                drawn = axes.barh(
                    places, [bars[place][1] for place in places], 0.75, label=self.named(system), color=colour
                )
                axes.bar_label(drawn, fmt=lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}", padding=3)
            label = chart.get("label", "{setting}, {system}")
            texts = [label.format(**{key: self.named(text) for key, text in row.places().items()}) for row, _ in bars]
            axes.set_yticks(range(len(bars)), texts)
            axes.invert_yaxis()
            axes.set_xlabel(chart["axis"])
            axes.margins(x=0.12, y=0.01)
            axes.spines[["top", "right"]].set_visible(False)
            figure.legend(loc="outside upper left", ncols=3, frameon=False)
            figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def shown(value: float | None, form: str) -> str:
    """A number as a cell; the form ``rate`` is records a second."""
    if value is None:
        return "-"
    if form == "rate":
        return f"{value / 1e6:.3g} M/s" if value >= 1e6 else f"{value / 1e3:.3g} K/s"
    return form.format(value)


def _is_like(name: str, pattern: str) -> bool:
    # Names hold brackets, which are no pattern.
    return fnmatchcase(name, pattern.replace("[", "[[]")) if "*" in pattern else name == pattern


def _matches(name: str, patterns: str) -> bool:
    return any(_is_like(name, pattern) for pattern in patterns.split())


def write_report(file: Path, results: Mapping[str, Any], out: Path) -> None:
    """Writes ``README.md``, ``chart.svg`` and ``summary.json``."""
    is_raw = any("rounds" in entry for entry in results["entries"].values())
    page = Page(summarize(results) if is_raw else results, read_settings(file).report)
    out.mkdir(parents=True, exist_ok=True)
    entries = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in page.summary["entries"].items())
    head = json.dumps({key: value for key, value in page.summary.items() if key != "entries"}, indent=1)
    (out / "summary.json").write_text(f'{head.removesuffix("}").rstrip()},\n "entries": {{\n{entries}\n}}}}\n')
    (out / "README.md").write_text(page.markdown())
    page.chart(out / "chart.svg")


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
