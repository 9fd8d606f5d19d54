"""What the shards of a folder have, to which a writer appends others: columns that have to be the same, and numbers of samples that go on.

MDS, and Parquet with an index, compare what their index says; here the files themselves are asked.
"""

from __future__ import annotations

from typing import Any

from shardmill._native import storage
from shardmill._native import write as _native
from shardmill.errors import PlanError
from shardmill.shard_index import index_path
from shardmill.shards import Mode
from shardmill.written_formats import is_one_file

_COMPARED = ("parquet", "jsonl", "webdataset")


class EarlierShards:
    """The shards that are there when a writer is opened.

    Args:
        out: the folder.
        format: of the writer.
        mode: of the writer; nothing is asked but with ``"append"``.
        files: data files of the folder, in the order of their names.
    """

    def __init__(self, out: str, format: str, mode: Mode, files: list[str]) -> None:
        self._out, self._format = out, format
        is_asked = mode == "append" and format in _COMPARED and storage.size(index_path(out)) is None
        self._files = [path for path in files if is_asked and is_one_file(path, format)]
        self._is_checked = not self._files

    @property
    def next_key(self) -> int:
        """The number of the first new sample, where samples are numbered."""
        if self._format == "webdataset":
            for path in reversed(self._files):
                keys = self._opened([path], columns=["__key__"])
                if len(keys):
                    name = keys[len(keys) - 1]["__key__"].rpartition("/")[2]
                    return int(name) + 1 if name.isdecimal() and len(name) < 19 else 0
        return 0

    def check(self, rows: _native.Writer) -> None:
        """Compares the columns of the new rows with those of the last shard, once.

        Args:
            rows: what takes the new rows, and knows their columns when there are some.

        Raises:
            ValueError: naming the columns that differ.
        """
        if self._is_checked or (schema := rows.schema) is None:
            return
        self._is_checked = True
        found = self._disagreement(self._files[-1:], schema)
        # A column that is null throughout a shard has no member there.
        if found is not None and self._format == "webdataset" and len(self._files) > 1:
            found = self._disagreement(self._files, schema)
        if found is not None:
            raise PlanError(
                f"the new rows do not fit the shards in {self._out!r}: {found}\n"
                "hint: write the same columns with the same types, or write to another folder"
            )

    def _disagreement(self, files: list[str], schema: Any) -> str | None:
        dataset = self._opened(files)
        # A shard without rows may not know its columns.
        return dataset.disagreement(schema) if len(dataset) else None

    def _opened(self, files: list[str], **options: Any) -> Any:
        from shardmill.dataset import Dataset

        return Dataset(files, format=self._format, **options)
