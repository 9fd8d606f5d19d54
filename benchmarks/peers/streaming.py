"""MosaicML Streaming and ChiniDataset write and read the rows of the streaming report.

The calls are those of the report. ChiniDataset comes from a checkout, which the environment
variable ``CHINIDATASET`` names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.streaming import BATCH_SIZE, Rows, System


def mosaicml() -> System:
    """MosaicML Streaming."""
    import streaming
    from streaming.base.util import merge_index

    def write(rows: Rows, out: Path, size_limit: int | None) -> None:
        limit = {} if size_limit is None else {"size_limit": size_limit}
        with streaming.MDSWriter(
            out=str(out), columns={"text": "str", "label": "int"}, **limit
        ) as writer:
            for row in rows:
                writer.write({"text": row["text"], "label": row["label"]})

    def write_again(rows: Any, out: Path, size_limit: int | None) -> None:
        # The report takes the text and the label out of the source in two look-ups.
        pairs = zip((row["text"] for row in rows), (row["label"] for row in rows), strict=True)
        write(({"text": text, "label": label} for text, label in pairs), out, size_limit)

    def rows(directory: Path, is_shuffled: bool) -> Any:
        # Ones of the same directory clash in shared memory.
        streaming.base.util.clean_stale_shared_memory()
        more = {"num_canonical_nodes": 1} if is_shuffled else {}
        return streaming.StreamingDataset(
            local=str(directory), shuffle=is_shuffled, batch_size=BATCH_SIZE, **more
        )

    return System(write, lambda out, _: merge_index(str(out)), rows, _loader(rows), write_again)


def chinidataset() -> System:
    """ChiniDataset."""
    sys.path.insert(0, os.environ["CHINIDATASET"])
    import chinidataset
    from chinidataset.util import merge_index

    def write(rows: Rows, out: Path, size_limit: int | None) -> None:
        limit = {} if size_limit is None else {"size_limit": size_limit}
        with chinidataset.ParquetWriter(
            out=str(out), columns={"text": "str", "label": "int32"}, **limit
        ) as writer:
            for row in rows:
                writer.write(row)

    def rows(directory: Path, is_shuffled: bool) -> Any:
        return chinidataset.StreamingDataset(local=str(directory), shuffle=is_shuffled)

    return System(write, lambda out, _: merge_index(str(out)), rows, _loader(rows))


def _loader(rows: Callable[[Path, bool], Any]) -> Callable[[Path, int, bool], Iterable[Any]]:
    from torch.utils.data import DataLoader

    def loader(directory: Path, workers: int, is_persistent: bool) -> Iterable[Any]:
        persistent = is_persistent and workers > 0
        dataset = rows(directory, False)
        return DataLoader(
            dataset, batch_size=BATCH_SIZE, num_workers=workers, persistent_workers=persistent
        )

    return loader


SYSTEMS = {"mosaicml": mosaicml, "chinidataset": chinidataset}
