"""The index of the shards of one writer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shardmill._native import storage
from shardmill.errors import OptionError
from shardmill.row_batches import RowBatches
from shardmill.shard_index import (
    add_to_index,
    check_same_columns,
    columns_entry,
    index_path,
    known_shards,
    mds_entry,
    parquet_entry,
    write_index,
)
from shardmill.shards import Mode

#: Rows, bytes and what an index says, of each file.
Shards = list[tuple[int, int, str | None]]


class WrittenIndex:
    """Writes an index, where the format has one, after the files have their names.

    Args:
        out: the folder.
        format: of the files.
        index: which index Parquet files get.
        hashes: algorithms of the digests.
        mode: of the writer.
        compression: of the files.
        size_limit: of a shard, in bytes.

    Raises:
        ValueError: for an index or digests that the format does not have.
    """

    def __init__(
        self,
        out: str,
        format: str,
        index: str | None,
        *,
        hashes: Sequence[str],
        mode: Mode,
        compression: str | None,
        size_limit: int,
    ) -> None:
        if index not in (None, "chinidataset") or (index is not None and format != "parquet"):
            raise OptionError(f"index is None, or 'chinidataset' for Parquet, not {index!r} for {format}")
        self._is_mds = format == "mds"
        self._is_written = self._is_mds or index is not None
        self.hashes = [hashes] if isinstance(hashes, str) else list(hashes)
        if self.hashes and not self._is_written:
            raise OptionError(
                "hashes are kept in an index, and these files have none\nhint: write MDS, or Parquet with index='chinidataset'"
            )
        self._out, self._mode = out, mode
        self._options = {
            "compression": None if compression == "none" else compression or "zstd",
            "size_limit": size_limit,
        }
        self.paths: list[str] = []

    def begin(self, shards: Shards, batches: RowBatches, *, is_appended: bool) -> list[dict[str, Any]]:
        """The shards that stay in the index. Where files will be replaced, the index goes first, for it would lie.

        Raises:
            ValueError: when shards are appended to others of other columns, or without an index.
        """
        path = index_path(self._out)
        if not self._is_written:
            if self._mode == "append" and storage.size(path) is not None:
                raise OptionError(
                    f"the folder {self._out!r} has an index, which would not know the new shards\nhint: index='chinidataset'"
                )
            return []
        if self._mode == "append":
            known = known_shards(self._out, has_data=is_appended)
            if known and shards:
                text = shards[0][2]
                new = columns_entry(batches.schema) if text is None else json.loads(text)["shards"][0]
                check_same_columns([*known, new], "the new shards do not fit those that are there")
            return known
        if self._mode == "overwrite":
            storage.remove(path)
        return []

    def end(self, known: list[dict[str, Any]], shards: Shards, files: Sequence[str], batches: RowBatches) -> None:
        """Writes the index."""
        if not self._is_written:
            return
        entries = [self._entry(path, shard, batches) for path, shard in zip(files, shards, strict=True)]
        is_indented = not self._is_mds
        if self._mode == "append" and storage.is_remote(self._out):
            self.paths = [add_to_index(self._out, entries, is_indented=is_indented)]
        else:
            self.paths = [write_index(self._out, [*known, *entries], is_indented=is_indented)]

    def _entry(self, path: str, shard: tuple[int, int, str | None], batches: RowBatches) -> dict[str, Any]:
        rows, _, text = shard
        if text is not None:
            return mds_entry(text, path)
        return columns_entry(batches.schema) | parquet_entry(path, rows=rows, hashes=self.hashes, options=self._options)
