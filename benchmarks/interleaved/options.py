"""The options of an interleaved benchmark script, the same for every system under test.

Enters: a command line. Leaves: ``Options`` and the ``params.json`` of the run. Called by the entry scripts.
Invariant: the standard library is enough, because the peer's interpreter imports this file too.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_READER_FIELDS = (
    "image_metadata",
    "url",
    "language_id_whole_page_fasttext",
    "pdf_name",
    "previous_word_count",
    "bff_contained_ngram_count_before_dedupe",
)
MIN_ASPECT_RATIO = 1.0
MAX_ASPECT_RATIO = 2.0


@dataclass(frozen=True)
class Options:
    """A parsed command line; the field names are those of the options."""

    benchmark_results_path: Path
    input_path: str
    output_path: str
    executor: str
    reader_type: str
    writer_format: str
    files_per_partition: int | None
    input_blocksize: str | None
    output_max_batch_bytes: int | None
    reader_fields: tuple[str, ...]
    materialize_on_read: bool
    materialize_on_write: bool
    on_materialize_error: str
    no_filter: bool
    parquet_row_group_size: int | None
    parquet_compression: str | None
    mode: str
    per_image_fields: tuple[str, ...]
    per_text_fields: tuple[str, ...]

    def params(self) -> dict[str, object]:
        """Returns the content of ``params.json``: the options and what the runner set for this entry."""
        return {
            "object_store_size_bytes": _number_from("BENCHMARK_OBJECT_STORE_SIZE_BYTES"),
            "ray_num_cpus": ray_num_cpus(),
            "ray_num_gpus": _number_from("BENCHMARK_RAY_NUM_GPUS"),
            "ray_enable_object_spilling": os.environ.get("BENCHMARK_RAY_ENABLE_OBJECT_SPILLING") == "true",
            "entry_timeout_s": _number_from("BENCHMARK_ENTRY_TIMEOUT_S"),
            "executor": self.executor,
            "input_path": self.input_path,
            "output_path": self.output_path,
            "reader_type": self.reader_type,
            "writer_format": self.writer_format,
            "files_per_partition": self.files_per_partition,
            "input_blocksize": self.input_blocksize,
            "output_max_batch_bytes": self.output_max_batch_bytes,
            "materialize_on_read": self.materialize_on_read,
            "materialize_on_write": self.materialize_on_write,
            "on_materialize_error": self.on_materialize_error,
            "reader_fields": list(self.reader_fields),
            "no_filter": self.no_filter,
            "per_image_fields": list(self.per_image_fields),
            "per_text_fields": list(self.per_text_fields),
            "parquet_row_group_size": self.parquet_row_group_size,
            "parquet_compression": self.parquet_compression,
            "mode": self.mode,
        }

    def write_params(self) -> None:
        """Writes ``params.json``; called before the run starts, so that a crash leaves it behind."""
        write_json(self.benchmark_results_path / "params.json", self.params())

    def write_metrics(self, metrics: dict[str, object]) -> None:
        """Replaces ``metrics.json``."""
        write_json(self.benchmark_results_path / "metrics.json", metrics)


def parse_options(description: str, *, executors: tuple[str, ...]) -> Options:
    """Reads the command line.

    Args:
        description: First line of ``--help``.
        executors: Values of ``--executor`` that this system knows; the first is the default.
    """
    parser = argparse.ArgumentParser(description=description)
    switch = argparse.BooleanOptionalAction
    parser.add_argument("--benchmark-results-path", type=Path, required=True, help="folder of params and metrics")
    parser.add_argument("--input-path", required=True, help="folder of shards")
    parser.add_argument("--output-path", required=True, help="folder that is written")
    parser.add_argument("--executor", choices=executors, default=executors[0])
    parser.add_argument("--reader-type", choices=("wds", "parquet"), default="wds")
    parser.add_argument("--writer-format", choices=("parquet", "wds"), default="parquet")
    parser.add_argument("--files-per-partition", type=int, default=None, help="default: 1, unless a block size is set")
    parser.add_argument("--input-blocksize", default=None)
    parser.add_argument("--output-max-batch-bytes", type=int, default=None)
    parser.add_argument("--reader-fields", nargs="*", default=list(DEFAULT_READER_FIELDS), help="Parquet reader only")
    parser.add_argument("--materialize-on-read", action=switch, default=True)
    parser.add_argument("--materialize-on-write", action=switch, default=True)
    parser.add_argument("--on-materialize-error", choices=("error", "warn", "drop_row", "drop_sample"), default="error")
    parser.add_argument("--no-filter", action="store_true", help="move only, judge no aspect ratio")
    parser.add_argument("--parquet-row-group-size", type=int, default=None)
    parser.add_argument("--parquet-compression", default=None)
    parser.add_argument("--mode", choices=("ignore", "overwrite", "append", "error"), default="overwrite")
    parser.add_argument("--per-image-fields", nargs="*", default=["image_metadata"])
    parser.add_argument("--per-text-fields", nargs="*", default=[])
    values = vars(parser.parse_args())
    for name in ("reader_fields", "per_image_fields", "per_text_fields"):
        values[name] = tuple(values[name])
    if values["input_blocksize"] is None and values["files_per_partition"] is None:
        values["files_per_partition"] = 1
    return Options(**values)


def storage_options() -> dict[str, Any]:
    """How the object store of the paths is reached, if they lie in one; from the environment, since it holds keys."""
    return json.loads(os.environ.get("BENCHMARK_STORAGE_OPTIONS") or "{}")


def ray_num_cpus() -> int:
    """Cores that the entry may use: the entry's ``ray.num_cpus``, else all that this process may run on."""
    return int(_number_from("BENCHMARK_RAY_NUM_CPUS") or len(os.sched_getaffinity(0)))


def write_json(path: Path, content: dict[str, object]) -> None:
    """Replaces a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.partial")
    staging.write_text(json.dumps(content, indent=2, default=str) + "\n")
    staging.replace(path)


def _number_from(variable: str) -> int | None:
    text = os.environ.get(variable)
    return int(text) if text else None
