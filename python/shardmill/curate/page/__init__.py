"""One HTML file that shows what a run did: numbers, bars, damaged samples, and pictures with their texts.

Reports enter, one file leaves. It needs no network, no script and no other file; whatever the data set holds is shown as text, never run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from shardmill._native import __version__
from shardmill.curate.page import gallery, numbers
from shardmill.curate.page.markup import Html, element, escaped
from shardmill.curate.page.pictures import Thumbnailer
from shardmill.errors import OptionError

if TYPE_CHECKING:
    from shardmill.curate.report import Report

__all__ = ["write_page"]

# The browser refuses whatever is not in the file itself, should text ever be taken for markup.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(
    path: str | os.PathLike[str],
    runs: Mapping[str, Report] | Report,
    *,
    samples: int = 6,
    title: str = "Curation report",
    introduction: str | None = None,
) -> Path:
    """Writes the page; a file of that name is replaced.

    Pictures need Pillow (``shardmill[images]``), documents of Parquet outputs need pyarrow (``shardmill[arrow]``). Without them the page
    says what is missing.

    Args:
        path: the HTML file.
        runs: one report, or several by the name under which they are compared. Documents are shown from the first.
        samples: how many documents of the output to show at most.
        title: heading of the page.
        introduction: a sentence below it.

    Returns:
        The path of the page.

    Raises:
        shardmill.OptionError: there is no run to show, or ``samples`` is negative.
    """
    if not isinstance(runs, Mapping):
        runs = {f"{_format(runs, 'reader_type')} → {_format(runs, 'writer_format')}": runs}
    if not runs:
        raise OptionError("`runs` is empty; pass at least one report")
    if samples < 0:
        raise OptionError("`samples` must not be negative")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = _page(runs, samples=samples, title=title, introduction=introduction)
    # Replaced in one step: a browser that reloads never sees half a page.
    staging = target.with_name(f".{target.name}.partial")
    staging.write_text(text, encoding="utf-8")
    staging.replace(target)
    return target


def _page(runs: Mapping[str, Report], *, samples: int, title: str, introduction: str | None) -> str:
    thumbnailer = Thumbnailer()
    name, first = next(iter(runs.items()))
    lead = introduction or f"{name}: what was read, what was kept, what was left out, and how long it took."
    failures = [
        element("p", element("strong", f"{name} stopped: "), report.error, class_="alarm")
        for name, report in runs.items()
        if report.error is not None
    ]
    main = element(
        "main",
        [
            section
            for section in (
                numbers.runs_table(runs),
                numbers.modality_table(runs),
                numbers.filter_table(runs),
                gallery.document_section(first, thumbnailer, samples, origin=name) if samples else None,
                gallery.rejected_section(first, thumbnailer) if samples else None,
                numbers.seconds_table(runs),
                numbers.dropped_table(runs),
                numbers.quarantine_table(runs),
                numbers.settings_table(runs),
            )
            if section is not None
        ],
    )
    header = element("header", element("h1", title), element("p", lead, class_="lead"), failures, numbers.tiles(runs))
    footer = element("footer", element("div", f"Made by shardmill {__version__}."))
    style = (files("shardmill.curate.page") / "style.css").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(_POLICY)}">'
        f"<title>{escaped(title)}</title><style>{style}</style>"
    )
    body = element("body", header, main, footer)
    return f'<!doctype html>\n<html lang="en"><head>{Html(head)}</head>{body}</html>\n'


def _format(report: Report, key: str) -> str:
    return "WebDataset" if report.params.get(key) == "wds" else "Parquet"
