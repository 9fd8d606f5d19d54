"""MosaicML Streaming and ChiniDataset write and read the rows of the streaming report.

Enters: the options of ``benchmarks.streaming.options``, and ``--tool``. Leaves: ``params.json`` and ``metrics.json``.
Started by the runner in the peers' interpreter. Invariant: the calls are those of the report.

ChiniDataset comes from a checkout, which the environment variable ``CHINIDATASET`` names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.streaming.measure import BATCH_SIZE, Rows, System, run_entry
from benchmarks.streaming.options import parse_options

CHECKOUT = "CHINIDATASET"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one entry and returns the exit code."""
    options, values = parse_options("The streaming report with its two systems.", arguments)
    return run_entry(options, mosaicml() if values.tool == "mosaicml" else chinidataset())


def mosaicml() -> System:
    """MosaicML Streaming."""
    import streaming
    from streaming.base.util import merge_index

    def write(rows: Rows, out: Path, size_limit: int | None) -> None:
        limit = {} if size_limit is None else {"size_limit": size_limit}
        with streaming.MDSWriter(out=str(out), columns={"text": "str", "label": "int"}, **limit) as writer:
            for row in rows:
                writer.write({"text": row["text"], "label": row["label"]})

    def write_again(rows: Any, out: Path, size_limit: int | None) -> None:
        # The report takes the text and the label out of the source in two look-ups.
        texts = (row["text"] for row in rows)
        labels = (row["label"] for row in rows)
        pairs = zip(texts, labels, strict=True)
        write(({"text": text, "label": label} for text, label in pairs), out, size_limit)

    def rows(folder: Path, is_shuffled: bool) -> Any:
        # Ones of the same folder clash in shared memory.
        streaming.base.util.clean_stale_shared_memory()
        more = {"num_canonical_nodes": 1} if is_shuffled else {}
        return streaming.StreamingDataset(local=str(folder), shuffle=is_shuffled, batch_size=BATCH_SIZE, **more)

    return System(
        version=streaming.__version__,
        write=write,
        write_again=write_again,
        merge=lambda out, parts: merge_index(str(out)),
        rows=rows,
        loader=lambda folder, workers, is_persistent: _loader(rows(folder, False), workers, is_persistent),
    )


def chinidataset() -> System:
    """ChiniDataset."""
    sys.path.insert(0, os.environ[CHECKOUT])
    import chinidataset  # pyright: ignore[reportMissingImports] - a checkout
    from chinidataset.util import merge_index  # pyright: ignore[reportMissingImports]

    def write(rows: Rows, out: Path, size_limit: int | None) -> None:
        limit = {} if size_limit is None else {"size_limit": size_limit}
        with chinidataset.ParquetWriter(out=str(out), columns={"text": "str", "label": "int32"}, **limit) as writer:
            for row in rows:
                writer.write(row)

    def rows(folder: Path, is_shuffled: bool) -> Any:
        return chinidataset.StreamingDataset(local=str(folder), shuffle=is_shuffled)

    return System(
        version=getattr(chinidataset, "__version__", "checkout"),
        write=write,
        merge=lambda out, parts: merge_index(str(out)),
        rows=rows,
        loader=lambda folder, workers, is_persistent: _loader(rows(folder, False), workers, is_persistent),
    )


def _loader(dataset: Any, workers: int, is_persistent: bool) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    return DataLoader(
        dataset, batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=is_persistent and workers > 0
    )


if __name__ == "__main__":
    raise SystemExit(main())
