"""The index of the shards of a writer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardmill._extras import pyarrow_for
from shardmill._native import storage
from shardmill._option_values import listed
from shardmill.data._shard_index import (
    add_to_index,
    basename_of,
    check_same_columns,
    columns_entry,
    index_path,
    known_shards,
    mds_entry,
    parquet_entry,
    read_index,
    write_index,
)
from shardmill.errors import OptionError
from shardmill.write._output import Mode
from shardmill.write._row_batches import RowBatches

#: Rows, bytes and index entry of each file.
Shards = list[tuple[int, int, str | None]]


class WrittenIndex:
    """Write an index, if the format has one, after the files have been renamed.

    Args:
        out: the directory.
        format: format of the files.
        index: the kind of index for Parquet files.
        hashes: algorithms of the digests.
        mode: mode of the writer.
        compression: compression of the files.
        size_limit: maximum size of a shard, in bytes.

    Raises:
        ValueError: If the format does not support the index or the digests.
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
            raise OptionError(
                f"index must be None, or 'chinidataset' for Parquet, not {index!r} for {format}"
            )
        if index is not None:
            pyarrow_for(f"index={index!r}")
        self._format = format
        self._is_mds = format == "mds"
        self._is_written = self._is_mds or index is not None
        self.hashes = [hashes] if isinstance(hashes, str) else listed("hashes", hashes)
        if self.hashes and not self._is_written:
            raise OptionError(
                "hashes are stored in an index, and these files have none\n"
                "hint: write MDS, or Parquet with index='chinidataset'"
            )
        self._out, self._mode = out, mode
        self._options = {
            "compression": None if compression == "none" else compression or "zstd",
            "size_limit": size_limit,
        }
        self.paths: list[str] = []
        #: Size of the written index; 0 without one.
        self.bytes = 0

    def begin(
        self, shards: Shards, batches: RowBatches, *, is_appended: bool
    ) -> list[dict[str, Any]]:
        """Return the shards that stay in the index.

        If files will be replaced, the index is removed first, because it would be wrong.

        Raises:
            ValueError: If shards are appended to shards with other columns, or without an index.
        """
        path = index_path(self._out)
        if not self._is_written:
            if self._mode == "append" and storage.size(path) is not None:
                raise OptionError(
                    f"the directory {self._out!r} has an index, "
                    f"which would not list the new {self._format} shards\n"
                    "hint: "
                    + (
                        "pass index='chinidataset' if the index lists Parquet shards, "
                        "or write to another directory"
                        if self._format == "parquet"
                        else "append in the format of the existing shards, "
                        "or write to another directory"
                    )
                )
            return []
        if self._mode == "append":
            known = known_shards(self._out, has_data=is_appended)
            if known and shards:
                text = shards[0][2]
                new = (
                    columns_entry(batches.schema) if text is None else json.loads(text)["shards"][0]
                )
                check_same_columns([*known, new], "the new shards do not fit those that are there")
            return known
        if self._mode == "overwrite":
            storage.remove(path)
        return []

    def end(
        self, known: list[dict[str, Any]], shards: Shards, files: Sequence[str], batches: RowBatches
    ) -> None:
        """Write the index."""
        if not self._is_written:
            return
        entries = [
            self._entry(path, shard, batches) for path, shard in zip(files, shards, strict=True)
        ]
        is_indented = not self._is_mds
        if self._mode == "append" and storage.is_remote(self._out):
            self.bytes = add_to_index(self._out, entries, is_indented=is_indented)
        else:
            self.bytes = write_index(self._out, [*known, *entries], is_indented=is_indented)
        self.paths = [index_path(self._out)]

    def may_list(self, files: Sequence[str]) -> bool:
        """Return whether the index lists one of the files, or cannot be read."""
        path = index_path(self._out)
        try:
            if storage.size(path) is None:
                return False
            listed = {basename_of(shard) for shard in read_index(path)["shards"]}
        except (OSError, ValueError):
            return True
        return any(Path(file).name in listed for file in files)

    def _entry(
        self, path: str, shard: tuple[int, int, str | None], batches: RowBatches
    ) -> dict[str, Any]:
        rows, _, text = shard
        if text is not None:
            return mds_entry(text, path)
        return columns_entry(batches.schema) | parquet_entry(
            path, rows=rows, hashes=self.hashes, options=self._options
        )
