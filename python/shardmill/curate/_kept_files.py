"""Files of earlier runs that stay in the output of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shardmill._warnings import warn_caller
from shardmill.curate._report import Report
from shardmill.curate._sinks import ParquetSink
from shardmill.data._dataset import Dataset, opened_files
from shardmill.errors import FormatError


def warn_of_other_schema(sink: ParquetSink, report: Report) -> None:
    """Warn if a file of an earlier run has another schema than the files of this run."""
    written = {Path(file["path"]).name: file["path"] for file in report.outputs}
    if not written:
        return
    schema = Dataset(next(iter(written.values())), format="parquet").schema
    kept = [
        path
        for path in Path(sink.path).glob("*.parquet")
        if path.name not in written and path.is_file()
    ]
    differing = {
        str(path): found for path in sorted(kept) if (found := _disagreement(path, schema))
    }
    if differing:
        path, found = next(iter(differing.items()))
        more = f"; {len(differing) - 1:,} more files differ too" if len(differing) > 1 else ""
        warn_caller(
            f"{path} stays in the output, but has another schema than the files of this run: "
            f"{found}{more}\n"
            "hint: remove it, or run the job with a checkpoint, which keeps the schema of its files"
        )


def _disagreement(path: Path, schema: Any) -> str | None:
    try:
        dataset = Dataset(path, format="parquet")
    except FormatError:
        # It may be the file of another program.
        return None
    return opened_files(dataset).native.disagreement(schema)
