"""The chart and the table of ratios in the README, drawn from the committed summaries: ``python -m benchmarks.overview``.

A ratio compares shardmill with the fastest documented way of the peer to do the same work, in the same session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

DOCS = Path(__file__).parents[1] / "docs" / "benchmarks"
PAGE = DOCS / "README.md"
CHART = DOCS / "ratios.svg"
SHOWN_MARK = "<!-- ratios -->"

Figure = tuple[str, str]
"""An entry of a summary, and one of its metrics."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One bar: the same work by shardmill and by a peer, each at its best of the listed figures.

    Attributes:
        theirs: Figures of the peer, and the option that gave each.
    """

    work: str
    peer: str
    summary: str
    ours: tuple[Figure, ...]
    theirs: dict[Figure, str]
    better: Literal["higher", "lower"] = "higher"

    def values(self) -> tuple[float, float]:
        """Medians of shardmill and of the peer."""
        ours, theirs = (self._median(self._best(figures)) for figures in (self.ours, self.theirs))
        return ours, theirs

    def option(self) -> str:
        """What the peer was called with."""
        return self.theirs[self._best(self.theirs)]

    def _best(self, figures: Iterable[Figure]) -> Figure:
        # An entry that failed has no figures, and its page says so.
        measured = [figure for figure in figures if _summary(self.summary)["entries"][figure[0]]["metrics"]]
        return (max if self.better == "higher" else min)(measured, key=self._median)

    def _median(self, figure: Figure) -> float:
        entry, metric = figure
        return _summary(self.summary)["entries"][entry]["metrics"][metric][0]

    def ratio(self) -> float:
        """How many times as fast shardmill is."""
        ours, theirs = self.values()
        return ours / theirs if self.better == "higher" else theirs / ours


_OWN_TORCH = tuple((f"s1__torch_threads_{threads}__shardmill", "rows_per_s") for threads in (1, 2, 4))
_OWN_IMAGES = (("small__exact_threads_2__shardmill", "images_per_s"),)
_OWN_RECORD = (("individual__zstd__shardmill", "ds[i]/per_s"),)

COMPARISONS = [
    Comparison(
        work="curate shards, WebDataset to Parquet, JPEG",
        peer="NeMo Curator",
        summary="interleaved_io",
        ours=(("wds_to_parquet__jpeg__shardmill", "process_seconds"),),
        theirs={("wds_to_parquet__jpeg__nemo_curator", "process_seconds"): "its pipeline on Ray, start included"},
        better="lower",
    ),
    Comparison(
        work="curate shards, Parquet to Parquet, raw TIFF",
        peer="NeMo Curator",
        summary="interleaved_io",
        ours=(("pq_to_parquet__raw__shardmill", "process_seconds"),),
        theirs={("pq_to_parquet__raw__nemo_curator", "process_seconds"): "its pipeline on Ray, start included"},
        better="lower",
    ),
    Comparison(
        work="resume a job, 80 % of 1 M ids done",
        peer="Ray Data",
        summary="checkpoint",
        ours=(("hundredth__done_80__shardmill", "wall_s"),),
        theirs={("hundredth__done_80__ray", "wall_s"): "with its checkpoint"},
        better="lower",
    ),
    Comparison(
        work="Parquet to torch, 66 columns",
        peer="torch-dataloader-utils",
        summary="loader",
        ours=_OWN_TORCH,
        theirs={
            (
                f"s1__torch_workers_{workers}__torch_dataloader_utils",
                "rows_per_s",
            ): f"{workers} workers, its best number"
            for workers in (0, 2)
        },
    ),
    Comparison(
        work="Parquet to torch, 66 columns",
        peer="pyarrow",
        summary="loader",
        ours=_OWN_TORCH,
        theirs={("s1__torch_threads_2__pyarrow_loop", "rows_per_s"): "batches cut by hand"},
    ),
    Comparison(
        work="rows of a streaming data set, in order",
        peer="MosaicML Streaming",
        summary="streaming",
        ours=(("fair__imdb__shardmill", "read, sequential/per_s"),),
        theirs={
            ("fair__imdb__mosaicml", "read, sequential/per_s"): "StreamingDataset, its best way",
            **{
                (
                    "fair__imdb__mosaicml",
                    f"DataLoader, {workers} workers/per_s",
                ): f"{workers} DataLoader workers, its best number"
                for workers in (0, 2, 4)
            },
        },
    ),
    Comparison(
        work="write a streaming data set, row by row",
        peer="MosaicML Streaming",
        summary="streaming",
        ours=(("fair__imdb__shardmill", "write, row by row/per_s"),),
        theirs={("fair__imdb__mosaicml", "write, row by row/per_s"): "MDSWriter"},
    ),
    Comparison(
        work="records by index, zstd",
        peer="array_record",
        summary="arrayrecord",
        ours=_OWN_RECORD,
        theirs={("individual__zstd__array_record", "ds[i]/per_s"): "source[i], as documented"},
    ),
    Comparison(
        work="records by index, zstd",
        peer="array_record",
        summary="arrayrecord",
        ours=_OWN_RECORD,
        theirs={
            ("calls__zstd__array_record", f"{call}/per_s"): f"{call}, its fastest call"
            for call in ("read(i, i + 1)", "seek + read, max_parallelism:0")
        },
    ),
    Comparison(
        work="texts to token ids",
        peer="tokenizers",
        summary="tokens",
        ours=tuple((f"encode__threads_{threads}__shardmill", "mb_per_s") for threads in (1, 2)),
        theirs={("encode__threads_2__tokenizers", "mb_per_s"): "encode_batch_fast, 2 threads"},
    ),
    Comparison(
        work="texts to token ids",
        peer="tiktoken",
        summary="tokens",
        ours=tuple((f"encode__threads_{threads}__shardmill", "mb_per_s") for threads in (1, 2)),
        theirs={
            ("encode__threads_1__tiktoken", "mb_per_s"): "encode_ordinary_batch, 1 thread",
            ("encode__threads_2__tiktoken", "mb_per_s"): "encode_ordinary_batch, 2 threads",
        },
    ),
    Comparison(
        work="Parquet text to packed tensors",
        peer="DataLoader, tokenizers",
        summary="tokens",
        ours=(("packed__threads_2__shardmill", "mb_per_s"),),
        theirs={("packed__threads_2__dataloader", "mb_per_s"): "2 workers"},
    ),
    Comparison(
        work="JSONL to files of tokens",
        peer="datatrove",
        summary="tokens",
        ours=(("write__threads_2__shardmill", "mb_per_s"),),
        theirs={("write__threads_2__datatrove", "mb_per_s"): "2 tasks"},
    ),
    Comparison(
        work="JPEG to batches of pixels, 224 x 224",
        peer="DataLoader, PIL",
        summary="images",
        ours=_OWN_IMAGES,
        theirs={("small__exact_threads_2__dataloader", "images_per_s"): "2 workers"},
    ),
    Comparison(
        work="JPEG to batches of pixels, 224 x 224",
        peer="torchvision",
        summary="images",
        ours=_OWN_IMAGES,
        theirs={
            ("small__exact_threads_2__torchvision", "images_per_s"): "decode_jpeg in 2 threads, its best",
            ("small__exact_threads_2__torchvision_workers", "images_per_s"): "decode_jpeg in 2 workers, its best",
        },
    ),
]


def table(comparisons: list[Comparison]) -> str:
    """The ratios as a Markdown table."""
    lines = ["| work | peer | option of the peer | ratio | all figures |", "|---|---|---|--:|---|"]
    lines += [
        f"| {c.work} | {c.peer} | {c.option()} | {c.ratio():.3g}× | [{c.summary}]({c.summary}/README.md) |"
        for c in comparisons
    ]
    return "\n".join([*lines, "", origin(comparisons)])


def origin(comparisons: list[Comparison]) -> str:
    """Where the figures are from: one run of all suites, if their pages have the same commit."""
    commits = {str(_summary(one.summary)["commit"]).split()[0] for one in comparisons}
    if len(commits) > 1:
        return "These figures come from different commits, which the pages name."
    return f"These figures come from one run of `make bench`, on commit {commits.pop()[:12]}."


def _summary(name: str) -> dict[str, Any]:
    return json.loads((DOCS / name / "summary.json").read_text(encoding="utf-8"))


def draw(comparisons: list[Comparison], path: Path) -> None:
    """Draw the ratios as bars on a logarithmic axis."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # Text stays text, and the same figures give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ratios", "font.size": 10}):
        canvas = Canvas(figsize=(9, 0.52 * len(comparisons) + 0.9), layout="constrained")
        axes = canvas.subplots()
        shown = comparisons[::-1]
        ratios = [comparison.ratio() for comparison in shown]
        bars = axes.barh(range(len(shown)), ratios, color="#3b6ea8")
        axes.bar_label(bars, [f" {ratio:.3g}×" for ratio in ratios])
        axes.set_yticks(range(len(shown)), [f"{c.work}\n{c.peer}: {c.option()}" for c in shown])
        axes.set_xscale("log")
        axes.set_xlim(1, max(ratios) * 2)
        axes.set_xlabel("times as fast as the peer, logarithmic")
        axes.spines[["top", "right"]].set_visible(False)
        canvas.savefig(path, metadata={"Date": None})


def main() -> None:
    """Write the chart, and the table into the page."""
    draw(COMPARISONS, CHART)
    before, _, after = PAGE.read_text(encoding="utf-8").split(SHOWN_MARK)
    PAGE.write_text(f"{before}{SHOWN_MARK}\n{table(COMPARISONS)}\n{SHOWN_MARK}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
