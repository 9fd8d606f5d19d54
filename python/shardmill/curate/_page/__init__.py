"""One HTML file with the results of a run.

It shows statistics, bars, damaged samples, and images with their texts. It needs no network, no
script and no other file. The templates escape all text, so the content of the data set is shown and
never executed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from shardmill._native import __version__
from shardmill.curate._page import _gallery as gallery
from shardmill.curate._pictures import Thumbnail, has_pillow, thumbnail_of
from shardmill.curate._templates import environment
from shardmill.errors import OptionError

if TYPE_CHECKING:
    from shardmill.curate._report import Report

__all__ = ["write_page"]

# Characters that HTML forbids, and lone surrogates, which UTF-8 cannot encode.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_SETTINGS = (
    "input_path",
    "output_path",
    "stages",
    "executor",
    "at_once",
    "mode",
    "on_materialize_error",
)
_PICTURE_BYTES = 3_000_000


def write_page(
    path: str | os.PathLike[str],
    runs: Mapping[str, Report] | Report,
    *,
    samples: int = 6,
    title: str = "Curation report",
    introduction: str | None = None,
) -> Path:
    """Write the page; an existing file is replaced.

    Requires ``shardmill[report]``. Documents need pyarrow and images need Pillow; without them the
    page says what is missing.

    Args:
        path: path of the HTML file.
        runs: one report, or several by the name under which they are compared. Documents are shown
            from the first.
        samples: maximum number of output documents to show.
        title: heading of the page.
        introduction: a sentence below the heading.

    Returns:
        The path of the page.

    Raises:
        shardmill.OptionError: If there is no run, or ``samples`` is negative.
        ImportError: If Jinja2 is not installed.
    """
    if not isinstance(runs, Mapping):
        runs = {f"{_format(runs, 'reader_type')} → {_format(runs, 'writer_format')}": runs}
    if not runs:
        raise OptionError("`runs` is empty; pass at least one report")
    if samples < 0:
        raise OptionError("`samples` must not be negative")
    template = environment("curate/_page", extra="report").get_template("page.html")
    text = template.render(
        runs=[_Run(name, report) for name, report in runs.items()],
        samples=samples,
        gallery=gallery,
        grouped=grouped,
        has_pillow=has_pillow(),
        has_pyarrow=find_spec("pyarrow") is not None,
        title=title,
        introduction=introduction,
        setting_names=_SETTINGS,
        thumbnail=Thumbnailer().thumbnail,
        version=__version__,
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Replaced atomically: a browser that reloads never sees a partial page.
    staging = target.with_name(f".{target.name}.partial")
    staging.write_text(_UNPRINTABLE.sub("�", text), encoding="utf-8")
    staging.replace(target)
    return target


def grouped(runs: list[_Run], content: str) -> list[tuple[list[str], Any]]:
    """Group the names of runs that agree in an attribute, with its value."""
    groups: list[tuple[list[str], Any]] = []
    for run in runs:
        value = getattr(run, content)
        names = next((names for names, other in groups if other == value), [])
        if not names:
            groups.append((names, value))
        names.append(run.name)
    return groups


@dataclass
class Thumbnailer:
    """Create thumbnails until the page is full."""

    left_bytes: int = _PICTURE_BYTES

    def thumbnail(self, payload: bytes | None) -> Thumbnail | str:
        """Return the image, or a sentence that explains why it cannot be shown."""
        if payload is None:
            return "There are no bytes of this image."
        if self.left_bytes <= 0:
            return "Not shown, to keep this page small."
        picture = thumbnail_of(payload)
        if isinstance(picture, Thumbnail):
            self.left_bytes -= len(picture.uri)
        return picture


@dataclass
class _Run:
    """A report with the statistics shown on the page."""

    name: str
    report: Report

    def __post_init__(self) -> None:
        report = self.report
        self.counts = {side: report.counts(side) for side in ("input", "output")}
        self.input_mb = sum(split["input_bytes"] for split in report.splits) / 1e6
        self.output_mb = sum(output["bytes"] for output in report.outputs) / 1e6
        self.samples_per_s = (
            self.counts["output"]["samples"] / report.seconds if report.seconds else 0.0
        )
        self.mb_per_s = self.input_mb / report.seconds if report.seconds else 0.0
        self.quarantined = report.quarantined
        self.settings = {name: _written(report.params.get(name)) for name in _SETTINGS}
        self.stages = _stages(report)
        self.seconds_of_stages = sum(stage["seconds"] for stage in self.stages)
        self.passed = [
            {key: stage[key] for key in ("name", "rows_in", "rows_out")}
            for stage in self.stages
            if stage["is_between"]
        ]

    @property
    def left_out(self) -> list[tuple[str, str, int]]:
        """Return kind, reason and count of what is not in the output, and of warnings."""
        duplicates = sum(split["duplicate_sample_ids"] for split in self.report.splits)
        kinds = {
            "rows dropped": self.report.rows_dropped,
            "keys dropped": self.report.keys_dropped,
            "values rescued": self.report.rescued,
            "noticed": self.report.warnings
            | ({"sample id that occurred before": duplicates} if duplicates else {}),
        }
        return [
            (kind, reason, count)
            for kind, counts in kinds.items()
            for reason, count in counts.items()
        ]


def _stages(report: Report) -> list[dict[str, Any]]:
    """Return the results of each stage, summed over the splits."""
    found: dict[tuple[str, bool], list[dict[str, Any]]] = {}
    for split in report.splits:
        last = len(split["stages"]) - 1
        for at, stage in enumerate(split["stages"]):
            found.setdefault((stage["name"], 0 < at < last), []).append(stage)
    return [
        {
            "name": name.removeprefix("interleaved_").replace("_", " "),
            "tone": next(
                (tone for tone in ("reader", "filter", "writer") if name.endswith(tone)), "other"
            ),
            "is_between": is_between,
            "ms": 1000 * fmean(stage["seconds"] for stage in stages),
        }
        | {key: sum(stage[key] for stage in stages) for key in ("rows_in", "rows_out", "seconds")}
        for (name, is_between), stages in found.items()
    ]


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else str(value)


def _format(report: Report, key: str) -> str:
    return "WebDataset" if report.params.get(key) == "wds" else "Parquet"
