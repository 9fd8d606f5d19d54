"""The chart, the table of ratios and the sentence in the README, from the committed summaries.

    python -m benchmarks.overview

The ratios are those of the pages. The chart draws the largest and the smallest one to each peer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from benchmarks.figures import three_digits
from benchmarks.report import Page, Ratio, read_summary
from benchmarks.runner.series import Series
from benchmarks.runner.settings import read_settings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "benchmarks"
PAGE, README = DOCS / "README.md", ROOT / "README.md"
CHART = DOCS / "ratios.svg"
_SHOWN_MARK = "<!-- ratios -->"
_RANGE = re.compile(r"shardmill is \S+ to \S+ times")
#: Where the name of a peer ends, and how it is used begins.
_MANNER = re.compile(r",| in threads| by hand")
#: Ratios above this one have an axis of their own.
_FAR = 10
_WIDTH, _LEFT, _BAR_WIDTH = 560, 12, 330
_TITLE = "Times as fast as each peer: the largest and the smallest ratio. Bars are linear."
_NEAR_TITLE = f"Peers with ratios below {_FAR}, at a larger scale:"
#: The page has a colour of its own, because a site may be dark where the system is not.
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.peer, .times { font-weight: 600 }
.rate { fill: #59636e }
rect { fill: #3b6ea8 }
.page { fill: #ffffff }
.slower { fill: #c8553d }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.rate { fill: #9da7b3 }
rect { fill: #5b93d3 }
.slower { fill: #e5806a }
.page { fill: #151b23 }
}
"""


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
    return f"shardmill is {min(found):.2g} to {three_digits(max(found))} times"


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


@dataclass(frozen=True)
class Bar:
    """One bar: a ratio to a peer, and the name of the peer where its bars begin."""

    peer: str
    ratio: Ratio
    times: Series

    def svg(self, top: int, unit: float) -> list[str]:
        """The label, the bar from the left margin, and the figures beside it."""
        width = max(self.times.median * unit, 1)
        slower = ' class="slower"' if self.times.median < 1 else ""
        *_, ours, theirs = self.ratio.cells()
        detail = self.ratio.peer.removeprefix(library_of(self.ratio)).lstrip(", ").replace("`", "")
        times = f"{three_digits(self.times.median)}×"
        work = escape(self.ratio.work + (f" ({detail})" if detail else ""))
        return [
            f'<text x="{_LEFT}" y="{top + 12}"><tspan class="peer">{escape(self.peer)}</tspan>'
            f"{work}</text>",
            f'<rect{slower} x="{_LEFT}" y="{top + 17}" width="{width:.1f}" height="10"/>',
            f'<text x="{_LEFT + width + 6:.1f}" y="{top + 26}"><tspan class="times">{times}</tspan>'
            f' <tspan class="rate">{ours}, peer {theirs}</tspan></text>',
        ]


def library_of(ratio: Ratio) -> str:
    """The name of a peer without the way that it is used."""
    return _MANNER.split(ratio.peer)[0]


def bars(ratios: list[Ratio]) -> list[list[Bar]]:
    """The largest and the smallest ratio to each peer; the peers with the largest come first."""
    found: dict[str, list[tuple[Series, Ratio]]] = {}
    for ratio in ratios:
        if ratio.times:
            found.setdefault(library_of(ratio), []).append((ratio.times, ratio))
    groups: list[list[Bar]] = []
    for peer, known in found.items():
        known.sort(key=lambda one: one[0].median, reverse=True)
        ends = known if len(known) == 1 else [known[0], known[-1]]
        groups.append(
            [
                Bar("" if number else f"{peer}: ", ratio, times)
                for number, (times, ratio) in enumerate(ends)
            ]
        )
    return sorted(groups, key=lambda group: group[0].times.median, reverse=True)


def draw(ratios: list[Ratio], path: Path) -> None:
    """Draw the ratios as bars, in two parts with linear axes of their own."""
    groups = bars(ratios)
    parts = [
        [group for group in groups if (group[0].times.median > _FAR) is is_far]
        for is_far in (True, False)
    ]
    lines: list[str] = []
    top = 8
    for part in filter(None, parts):
        unit = _BAR_WIDTH / part[0][0].times.median
        told = _NEAR_TITLE if lines else _TITLE
        lines.append(f'<text class="rate" x="{_LEFT}" y="{top + 12}">{told}</text>')
        top += 22
        for group in part:
            for bar in group:
                lines += bar.svg(top, unit)
                top += 31
            top += 6
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}" '
        f'viewBox="0 0 {_WIDTH} {top}">'
    )
    page = f'<rect class="page" width="{_WIDTH}" height="{top}" rx="6"/>'
    text = "\n".join([head, f"<style>{_STYLE}</style>", page, *lines, "</svg>\n"])
    path.write_text(text, encoding="utf-8")


def texts(shown: dict[str, Page]) -> Iterator[tuple[Path, str]]:
    """The expected texts of the page of all ratios and of the README."""
    ratios = compared(shown)
    before, _, after = PAGE.read_text(encoding="utf-8").split(_SHOWN_MARK)
    yield PAGE, f"{before}{_SHOWN_MARK}\n{table(ratios)}\n\n{origin(shown)}\n{_SHOWN_MARK}{after}"
    yield README, _RANGE.sub(range_of(ratios), README.read_text(encoding="utf-8"))


def main() -> None:
    """Write the chart, the table and the sentence."""
    shown = pages()
    draw([ratio for _, ratio in compared(shown)], CHART)
    for path, text in texts(shown):
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
