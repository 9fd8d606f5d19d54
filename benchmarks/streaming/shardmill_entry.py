"""shardmill writes and reads the rows of the streaming report, as Parquet.

Enters: the options of ``benchmarks.streaming.options``. Leaves: ``params.json`` and ``metrics.json``. Started by the
runner. Invariant: only the public API is used; values are not compressed, as those of the others are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.streaming.measure import BATCH_SIZE, Rows, System, run_entry
from benchmarks.streaming.options import parse_options
from benchmarks.streaming.sets import SHARD_BYTES

_COLUMNS = {"text": "str", "label": "int32"}
_BATCH_ROWS = 1_024


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one entry and returns the exit code."""
    options, _ = parse_options("The streaming report with shardmill.", arguments)
    return run_entry(options, system())


def system() -> System:
    """Our side."""
    import shardmill as sm

    return System(
        version=sm.__version__,
        write=write,
        merge=lambda out, parts: sm.merge(out, parts),
        rows=rows,
        loader=loader,
        more_writes={
            "write, column batches": write_columns,
            "write_rows, transform, 1 worker": lambda rows, out: write_rows(rows, out, 1),
            "write_rows, transform, 2 workers": lambda rows, out: write_rows(rows, out, 2),
        },
        more_reads={
            "batches of rows": lambda folder: sum(len(batch) for batch in batches(folder, "rows")),
            "batches of columns": lambda folder: sum(batch.num_rows for batch in batches(folder, "arrow")),
            "batches of columns, shuffled": lambda folder: sum(
                batch.num_rows for batch in batches(folder, "arrow", shuffle=True)
            ),
            "batches of lists": lambda folder: sum(len(batch["label"]) for batch in batches(folder, "dict")),
        },
    )


def _writer(out: Path, size_limit: int | None) -> Any:
    import shardmill as sm

    return sm.Writer(str(out), columns=_COLUMNS, format="parquet", compression="none", size_limit=size_limit)


def write(rows: Rows, out: Path, size_limit: int | None) -> None:
    """Row by row."""
    with _writer(out, size_limit) as writer:
        for row in rows:
            writer.write(row)


def write_columns(rows: list[dict[str, Any]], out: Path) -> None:
    """The rows as Arrow batches, which are made on the way."""
    import pyarrow as pa

    schema = pa.schema([("text", pa.string()), ("label", pa.int32())])
    with _writer(out, SHARD_BYTES) as writer:
        for first in range(0, len(rows), _BATCH_ROWS):
            part = rows[first : first + _BATCH_ROWS]
            columns = {name: [row[name] for row in part] for name in _COLUMNS}
            writer.write_batch(pa.record_batch(columns, schema=schema))


def write_rows(rows: list[dict[str, Any]], out: Path, workers: int) -> None:
    """With a function of Python on each row."""
    with _writer(out, SHARD_BYTES) as writer:
        writer.write_rows(rows, workers=workers, transform=squeezed)


def squeezed(row: dict[str, Any]) -> dict[str, Any]:
    """The words of a text, each with a capital: work of the kind that a preparation does."""
    return {"text": " ".join(word.capitalize() for word in row["text"].split()), "label": row["label"]}


class _RowsOf:
    """Rows of a folder."""

    def __init__(self, dataset: Any, *, shuffle: bool) -> None:
        self._dataset, self._shuffle = dataset, shuffle

    def __iter__(self) -> Any:
        return self._dataset.iterate(shuffle=True, seed=7) if self._shuffle else iter(self._dataset)


def rows(folder: Path, is_shuffled: bool) -> Iterable[Any]:
    """Each a dict."""
    import shardmill as sm

    return _RowsOf(sm.Dataset(str(folder)), shuffle=is_shuffled)


def batches(folder: Path, output: str, *, shuffle: bool = False) -> Any:
    """Of many rows."""
    import shardmill as sm

    return sm.Loader(str(folder), batch_size=_BATCH_ROWS, output=output, shuffle=shuffle, rank=0, world_size=1)


def loader(folder: Path, workers: int, is_persistent: bool) -> Iterable[Any]:
    """A ``DataLoader`` over batches that are made already."""
    import shardmill as sm
    from shardmill.integrations.torch import BatchDataset, unchanged
    from torch.utils.data import DataLoader

    dataset = BatchDataset(sm.Loader(str(folder), batch_size=BATCH_SIZE, output="torch", rank=0, world_size=1))
    return DataLoader(
        dataset,
        batch_size=None,
        collate_fn=unchanged,
        num_workers=workers,
        persistent_workers=is_persistent and workers > 0,
    )


if __name__ == "__main__":
    raise SystemExit(main())
