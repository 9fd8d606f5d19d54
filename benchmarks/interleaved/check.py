"""Counts and checks interleaved files, for every system alike, with ``shardmill.curate.verify``.

The runner starts it after the timed process with the directory of an entry. With ``--shards`` it
writes the Parquet inputs instead, which both systems read: unfiltered and with every image as it
is, by shardmill, because NeMo Curator would encode JPEG pages anew.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from shardmill.curate import ParquetSink, Pipeline, WebDatasetSource, verify

from benchmarks.measure import Metrics, make_set, read_options, record_of, write_json

_LONGEST_LIST = 20


def counts_of(directory: Path, *, is_output: bool) -> tuple[dict[str, float], list[str]]:
    """What the files of a directory hold, and what is wrong with it, each problem naming its file.

    Args:
        directory: Searched recursively.
        is_output: A filter has run, so positions must be 0 to n-1 without gaps.
    """
    layout = "written" if is_output else "source"
    files = verify(directory, layout=layout, is_renumbered=is_output, max_problems=_LONGEST_LIST)
    rows = {
        kind: sum(file.rows[kind] for file in files)
        for kind in ("metadata", "text", "image", "other")
    }
    counts = {
        "num_files": len(files),
        "total_mb": sum(file.bytes for file in files) / 1e6,
        "num_rows": sum(rows.values()),
        "num_samples": rows["metadata"],
        "num_texts": rows["text"],
        "num_images": rows["image"],
    }
    problems = [
        f"{Path(file.path).name}: {problem.what}" for file in files for problem in file.problems
    ]
    side = "output" if is_output else "input"
    return {f"{side}_{name}": count for name, count in counts.items()}, problems


def check_entry(data: Path, metrics: Metrics, output: Path) -> Metrics:
    """Counts, and what is wrong with them.

    They are compared with the files, with what the run counted, and with how the set was made.
    """
    (found, failures), (written, problems) = (
        counts_of(data, is_output=False),
        counts_of(output, is_output=True),
    )
    found |= written
    failures += problems
    names = ("output_num_rows", "output_num_samples", "input_num_rows", "input_num_samples")
    wrong = [name for name in names if metrics.get(name, found[name]) != found[name]]
    failures += [
        f"the run counted {name} {metrics[name]}, the files hold {found[name]}" for name in wrong
    ]
    made = record_of(data)
    for name, key in (
        *(
            ("input_num_rows", "rows"),
            ("input_num_samples", "samples"),
            ("output_num_samples", "samples"),
        ),
        *(
            ("output_num_rows", "kept_rows"),
            ("output_num_images", "kept_images"),
            ("output_num_texts", "texts"),
        ),
    ):
        if made.get(key, found[name]) != found[name]:
            failures.append(f"{name} is {found[name]}, the data set was made with {made[key]}")
    return found | {"failures": failures[:_LONGEST_LIST]}


def write_parquet(shards: Path, parquet: Path) -> bool:
    """Writes one Parquet file a shard, unless it was written from the same shards before."""

    def write(directory: Path) -> None:
        source = WebDatasetSource(
            str(shards), per_image_fields=("image_metadata",), materialize_on_read=True
        )
        sink = ParquetSink(str(directory), mode="overwrite")
        Pipeline(source=source, stages=[], sink=sink).run(executor="local", progress=False)

    made_with = {
        name: value
        for name, value in record_of(shards).items()
        if name not in ("num_files", "bytes")
    }
    return make_set(parquet, made_with, write)


@dataclass(frozen=True)
class _Options:
    out: Path
    shards: Path | None = None


def main() -> int:
    """Checks an entry, or writes a Parquet input."""
    options = read_options(_Options)
    if options.shards:
        write_parquet(options.shards, options.out)
        return 0
    params, metrics = (
        json.loads((options.out / name).read_text()) for name in ("params.json", "metrics.json")
    )
    checked = check_entry(Path(params["data"]), metrics, options.out / "scratch" / "output")
    write_json(options.out / "check.json", checked)
    print("\n".join(checked["failures"]), file=sys.stderr)
    return 1 if checked["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
