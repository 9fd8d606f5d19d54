"""The chart, the table of ratios and the sentence in the README, from the committed summaries.

    python -m benchmarks.overview

The ratios are those of the pages. The chart draws those that their ``report`` blocks
name in ``chart``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Page, Ratio, read_summary, spread_of
from benchmarks.runner.settings import read_settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "benchmarks"
PAGE, README = DOCS / "README.md", ROOT / "README.md"
CHART = DOCS / "ratios.svg"
_SHOWN_MARK = "<!-- ratios -->"
_RANGE = re.compile(r"shardmill is \S+ to \S+ times")


def pages() -> dict[str, Page]:
    """The pages that have a summary, by name."""
    files = [
        file
        for file in sorted((ROOT / "benchmarks").glob("*.yaml"))
        if (DOCS / file.stem / "summary.json").exists()
    ]
    return {
        file.stem: Page(read_summary(DOCS / file.stem), read_settings(file).report)
        for file in files
    }


def compared(shown: dict[str, Page]) -> list[tuple[str, Ratio]]:
    """The ratios to peers on all pages, with the name of the page."""
    return [(name, ratio) for name, page in shown.items() for ratio in page.ratios() if ratio.times]


def table(ratios: list[tuple[str, Ratio]]) -> str:
    """The ratios as a Markdown table."""
    lines = [
        "| work | against | times as fast | share of the limit | page |",
        "|---|---|--:|--:|---|",
    ]
    for name, ratio in ratios:
        work, against, times, share, *_ = ratio.cells()
        lines.append(f"| {work} | {against} | {times} | {share} | [{name}]({name}/README.md) |")
    return "\n".join(lines)


def range_of(ratios: list[tuple[str, Ratio]]) -> str:
    """The sentence with the smallest and the largest ratio of all pages."""
    found = [ratio.times.median for _, ratio in ratios if ratio.times]
    return f"shardmill is {min(found):.2g} to {max(found):.3g} times"


def origin(shown: dict[str, Page]) -> str:
    """The origin of the figures.

    It is one run of all suites, if all of their entries have the same commit.
    """
    commits = {
        str(entry["commit"]).split()[0]
        for page in shown.values()
        for entry in page.summary["entries"].values()
    }
    if len(commits) > 1:
        return "These figures come from different commits, which the pages name."
    return f"These figures come from one run of `make bench`, on commit {commits.pop()[:12]}."


def draw(ratios: list[Ratio], path: Path) -> None:
    """Draw the ratios, with their quartiles, as bars on a logarithmic axis."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    bars = [(ratio, ratio.times) for ratio in reversed(ratios) if ratio.times]
    places, values = range(len(bars)), [times.median for _, times in bars]
    # Text stays text, and the same figures give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ratios", "font.size": 10}):
        canvas = Canvas(figsize=(9, 0.52 * len(bars) + 0.9), layout="constrained")
        axes = canvas.subplots()
        errors = [
            [abs(times.median - times.quartiles[side]) for _, times in bars] for side in (0, 1)
        ]
        drawn = axes.barh(places, values, color="#3b6ea8", xerr=errors, ecolor="#9aa5b1")
        axes.bar_label(drawn, [f" {spread_of(times)}" for _, times in bars])
        axes.set_yticks(places, [f"{ratio.work}\n{ratio.against()}" for ratio, _ in bars])
        axes.set_xscale("log")
        axes.set_xlim(min(1, *values) / 1.2, max(values) * 4)
        axes.set_xlabel("times as fast as the peer, logarithmic")
        axes.spines[["top", "right"]].set_visible(False)
        canvas.savefig(path, metadata={"Date": None})


def texts(shown: dict[str, Page]) -> Iterator[tuple[Path, str]]:
    """The expected texts of the page of all ratios and of the README."""
    ratios = compared(shown)
    before, _, after = PAGE.read_text(encoding="utf-8").split(_SHOWN_MARK)
    yield PAGE, f"{before}{_SHOWN_MARK}\n{table(ratios)}\n\n{origin(shown)}\n{_SHOWN_MARK}{after}"
    yield README, _RANGE.sub(range_of(ratios), README.read_text(encoding="utf-8"))


def main() -> None:
    """Write the chart, the table and the sentence."""
    shown = pages()
    draw([ratio for _, ratio in compared(shown) if ratio.is_charted], CHART)
    for path, text in texts(shown):
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
