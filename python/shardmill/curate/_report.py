"""Results of a run: counts, seconds, outputs, and everything that was dropped or quarantined."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from shardmill._terminal import counted, escape
from shardmill.curate._metrics import PipelineMetrics, metrics_of
from shardmill.errors import OptionError
from shardmill.metrics._snapshot import StorageMetrics
from shardmill.storage._paths import is_remote, served_path

_COUNTS = ("rows", "samples", "texts", "images", "metadata")

#: As in the native reports, which have at most this number of texts of row errors among the
#: warnings of a split.
_MAX_ROW_ERRORS = 20
_ROW_ERROR = "materialize: "
_OTHER_ERRORS = "materialize, other errors"


@dataclass
class Report:
    """The outcome of ``Pipeline.run``.

    Attributes:
        params: configuration of the run; ``"schema"`` has the types of the columns of the job, in
            which every split reads its files.
        splits: one native report per split, in order.
        seconds: wall time from the check of the options to the last published file.
        error: the error that stopped the run. ``Pipeline.run`` raises it instead of returning a
            report; the command ``shardmill curate`` writes it to ``metrics.json``.
        committed_before: number of splits committed by earlier runs of a job with a checkpoint;
            they are not in ``splits``.
        checkpoint_load_s: seconds spent loading or building the index of completed ids.
        planning_s: seconds spent finding the columns of the files, and dividing them into splits.
            For this, table jobs read their text files and tars; other files have a footer.
        storage: requests to stores during the run: those of this process, and those of the tasks of
            Ray that returned.
    """

    params: dict[str, Any]
    splits: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    peak_rss_bytes: int = 0
    error: str | None = None
    committed_before: int = 0
    checkpoint_load_s: float = 0.0
    planning_s: float = 0.0
    storage: StorageMetrics = field(default_factory=StorageMetrics)

    @property
    def is_success(self) -> bool:
        """Whether every split was written, or quarantined as the policies allow.

        True for each report that ``Pipeline.run`` returns.
        """
        return self.error is None

    @property
    def quarantined(self) -> list[dict[str, Any]]:
        """Quarantined samples and shards, with path, member, offset and reason."""
        return [item for split in self.splits for item in split["quarantined"]]

    @property
    def row_errors(self) -> list[dict[str, Any]]:
        """Rows with an error instead of their bytes: path, sample_id, position, error.

        At most 1000 per split; the counts are complete.
        """
        return [error for split in self.splits for error in split["row_errors"]]

    @property
    def pass_rates(self) -> dict[str, dict[str, float]]:
        """Fraction of rows and of images that each stage kept, by stage name."""
        seen: dict[str, Counter[str]] = {}
        for stage in (stage for split in self.splits for stage in split["stages"][1:-1]):
            numbers = {
                name: stage[name] for name in ("rows_in", "rows_out", "images_in", "images_out")
            }
            seen.setdefault(stage["name"], Counter()).update(numbers)
        return {
            name: {
                what: total[f"{what}_out"] / total[f"{what}_in"]
                for what in ("rows", "images")
                if total[f"{what}_in"]
            }
            for name, total in seen.items()
        }

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The published files, with their rows and bytes."""
        return [output for split in self.splits for output in split["outputs"]]

    @property
    def rows_dropped(self) -> dict[str, int]:
        """Number of rows that are not in the output, by reason."""
        return summed(split["rows_dropped"] for split in self.splits)

    @property
    def rows_done(self) -> int:
        """Number of rows that were skipped because their ids were done."""
        return self.rows_dropped.get("done", 0)

    @property
    def rows_added(self) -> dict[str, int]:
        """Number of rows that came from no input, by the stage that created them."""
        return summed(split["rows_added"] for split in self.splits)

    @property
    def keys_dropped(self) -> dict[str, int]:
        """Keys and columns that were not copied to the output, by reason."""
        return summed(split["keys_dropped"] for split in self.splits)

    @property
    def rescued(self) -> dict[str, int]:
        """Number of values of documents that the schema of the job cannot hold, by key.

        The column ``rescued`` holds them.
        """
        return summed(split["rescued"] for split in self.splits)

    @property
    def warnings(self) -> dict[str, int]:
        """Warnings and how often they occurred.

        Row errors beyond the first 20 texts are counted together.
        """
        return _bounded(summed(split["warnings"] for split in self.splits))

    def metrics(self) -> PipelineMetrics:
        """Return the counters of the run, under the names of ``Loader.metrics``."""
        return metrics_of(self.splits, elapsed_seconds=self.seconds, storage=self.storage)

    def counts(self, side: str) -> dict[str, int]:
        """Return rows, samples, texts, images and metadata of the ``"input"`` or ``"output"``."""
        return {
            name: sum(split[side][name] for split in self.splits)
            for name in (*_COUNTS, "other", "materialize_errors")
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics under the keys of ``metrics.json``."""
        seconds = self.seconds
        outputs = self.counts("output")
        quarantined = self.quarantined
        metrics: dict[str, Any] = {
            "is_success": self.is_success,
            "time_taken_s": seconds,
            "committed_before": self.committed_before,
            "checkpoint_load_s": self.checkpoint_load_s,
            "planning_s": self.planning_s,
            "throughput_rows_per_sec": _rate(outputs["rows"], seconds),
            "throughput_samples_per_sec": _rate(outputs["samples"], seconds),
        }
        sizes = {
            "input": [split["input_bytes"] for split in self.splits],
            "output": [output["bytes"] for output in self.outputs],
        }
        files = {
            "input": sum(len(split["files"]) for split in self.splits),
            "output": len(self.outputs),
        }
        for side in ("input", "output"):
            counts = self.counts(side)
            total = sum(sizes[side])
            metrics[f"{side}_num_files"] = files[side]
            metrics[f"{side}_total_bytes"] = total
            metrics[f"{side}_total_mb"] = total / 1e6
            metrics |= {f"{side}_num_{name}": counts[name] for name in _COUNTS}
            modalities = {
                "text": counts["texts"],
                "image": counts["images"],
                "metadata": counts["metadata"],
            }
            metrics[f"{side}_modality_counts"] = modalities | (
                {"other": counts["other"]} if counts["other"] else {}
            )
            metrics[f"{side}_materialize_error_count"] = counts["materialize_errors"]
        metrics |= self._stage_metrics()
        metrics |= {
            "quarantined_samples": sum(not item["is_shard"] for item in quarantined),
            "quarantined_shards": sum(item["is_shard"] for item in quarantined),
            "rows_dropped": self.rows_dropped,
            "rows_added": self.rows_added,
            "filter_pass_rates": self.pass_rates,
            "keys_dropped": self.keys_dropped,
            "rescued": self.rescued,
            "warnings": self.warnings,
            "empty_output_files": sum(output["rows"] == 0 for output in self.outputs),
            "peak_rss_bytes": self.peak_rss_bytes,
        }
        for name in ("duplicate_sample_ids", "pages_remuxed", "pages_whole", "pages_fallback"):
            metrics[name] = sum(split[name] for split in self.splits)
        if self.error is not None:
            metrics["error"] = self.error
        return metrics

    def _stage_metrics(self) -> dict[str, float]:
        values: dict[str, list[float]] = {}
        for split in self.splits:
            for stage in split["stages"]:
                prefix = f"task_{stage['name']}"
                values.setdefault(f"{prefix}_process_time", []).append(stage["seconds"])
                values.setdefault(f"{prefix}_actor_idle_time", []).append(0.0)
                values.setdefault(f"{prefix}_input_data_size_mb", []).append(
                    stage["input_bytes"] / 1e6
                )
                values.setdefault(f"{prefix}_num_items_processed", []).append(stage["items"])
                for name, value in stage["custom"].items():
                    values.setdefault(f"{prefix}_custom.{name}", []).append(value)
        metrics: dict[str, float] = {}
        for name, series in values.items():
            metrics |= {
                f"{name}_sum": sum(series),
                f"{name}_mean": fmean(series),
                f"{name}_std": pstdev(series),
            }
        return metrics

    def write(self, directory: str | Path) -> None:
        """Write ``metrics.json`` and ``params.json``.

        ``quarantine.jsonl`` and ``row_errors.jsonl`` are written if they are not empty.
        """
        if is_remote(served_path(directory)):
            raise OptionError(
                f"the directory of a report is {fspath(directory)!r}; it must be local"
            )
        directory = Path(served_path(directory))
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "metrics.json").write_text(
            json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8"
        )
        (directory / "params.json").write_text(
            json.dumps(self.params, indent=2, default=str) + "\n", encoding="utf-8"
        )
        for name, items in (
            ("quarantine.jsonl", self.quarantined),
            ("row_errors.jsonl", self.row_errors),
        ):
            side_file = directory / name
            if items:
                side_file.write_text(
                    "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items),
                    encoding="utf-8",
                )
            else:
                side_file.unlink(missing_ok=True)

    def write_html(
        self, path: str | PathLike[str], *, samples: int = 6, title: str = "Curation report"
    ) -> Path:
        """Write one HTML file with statistics, damaged samples, and documents of the output.

        Documents are shown with their images. Requires ``shardmill[report]``.

        Args:
            path: the file; an existing file is replaced.
            samples: maximum number of documents to show.
            title: heading of the page.

        Returns:
            The path of the page.
        """
        from shardmill.curate._page import write_page

        return write_page(path, self, samples=samples, title=title)

    def __str__(self) -> str:
        counts = {side: self.counts(side) for side in ("input", "output")}
        lines = [f"{'':10}{'in':>12}{'out':>12}"]
        # Rows of tables do not belong to a sample.
        names = (
            _COUNTS if counts["input"]["samples"] or not counts["input"]["rows"] else _COUNTS[:1]
        )
        lines += [
            f"{name:10}{counts['input'][name]:12,}{counts['output'][name]:12,}" for name in names
        ]
        unit = "rows" if len(names) == 1 else "samples"
        if self.committed_before:
            splits = self.committed_before + len(self.splits)
            lines.append(
                f"{self.committed_before:,} of {counted(splits, 'split')} were done before"
            )
        rate = _rate(counts["output"][unit], self.seconds)
        lines.append(
            f"{self.seconds:.2f} s, {rate:,.0f} {unit}/s, {counted(len(self.outputs), 'file')}"
        )
        lines += [
            f"dropped: {counted(rows, 'row')}, {escape(reason)}"
            for reason, rows in self.rows_dropped.items()
        ]
        lines += [
            f"not taken over: {escape(what)} ({counted(times, 'time')})"
            for what, times in self.keys_dropped.items()
        ]
        lines += [
            f"rescued: {escape(key)} ({counted(values, 'value')})"
            for key, values in self.rescued.items()
        ]
        lines += [
            f"warning: {escape(what)} ({counted(times, 'time')})"
            for what, times in self.warnings.items()
        ]
        missing = max(side["materialize_errors"] for side in counts.values())
        if missing:
            lines.append(
                f"images without bytes: {missing:,} "
                f"({counts['output']['materialize_errors']:,} of them written)"
            )
        duplicates = sum(split["duplicate_sample_ids"] for split in self.splits)
        if duplicates:
            lines.append(f"samples with the id of an earlier one in their split: {duplicates:,}")
        if self.quarantined:
            shards = sum(item["is_shard"] for item in self.quarantined)
            lines.append(
                f"quarantined: {counted(len(self.quarantined) - shards, 'sample')}, "
                f"{counted(shards, 'shard')}"
            )
        return "\n".join(lines)


def summed(counters: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the counts of all dicts together, by name."""
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return dict(total)


def _bounded(warnings: dict[str, int]) -> dict[str, int]:
    """Return the warnings with at most as many texts of row errors as those of one split."""
    texts = [text for text in warnings if text.startswith(_ROW_ERROR)][_MAX_ROW_ERRORS:]
    if not texts:
        return warnings
    others = sum(warnings.pop(text) for text in texts)
    return {**warnings, _OTHER_ERRORS: warnings.get(_OTHER_ERRORS, 0) + others}


def _rate(count: int, seconds: float) -> float:
    return count / seconds if count and seconds else 0.0
