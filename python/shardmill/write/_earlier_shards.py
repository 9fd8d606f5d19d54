"""Existing shards in the directory of a writer that appends.

Their columns must match, and sample numbers continue. MDS, and Parquet with an index, compare with
their index; other formats inspect the files themselves.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from shardmill._native import storage
from shardmill.data._shard_index import index_path
from shardmill.errors import PlanError
from shardmill.write._formats import EXTENSIONS, WrittenFormat, is_one_file
from shardmill.write._output import Mode

#: Formats whose files have no index that says what their columns are.
COMPARED = ("parquet", "jsonl", "webdataset")


class _Rows(Protocol):
    """New rows."""

    @property
    def schema(self) -> Any | None:
        """Their Arrow schema, once there are some."""
        ...


class EarlierShards:
    """The shards that exist when a writer is opened.

    Args:
        out: the directory.
        format: format of the writer.
        mode: mode of the writer; the shards are inspected only with ``"append"``.
        files: data files of the directory, in name order.

    Raises:
        ValueError: If the writer would append to files of another format.
    """

    def __init__(self, out: str, format: WrittenFormat, mode: Mode, files: list[str]) -> None:
        if mode == "append" and (
            other := next((path for path in files if not _is_of(path, format)), None)
        ):
            raise PlanError(
                f"cannot append {format} shards to {out!r}, which has files of another format, "
                f"such as {Path(other).name!r}\n"
                "hint: a data set has one format; append in the format of the existing files, "
                "or write to another directory"
            )
        self._out = out
        self._format: WrittenFormat = format
        is_asked = mode == "append" and format in COMPARED and storage.size(index_path(out)) is None
        self._files = [path for path in files if is_asked and is_one_file(path, format)]
        self._is_checked = not self._files

    @property
    def next_key(self) -> int:
        """Return the number of the first new sample, if samples are numbered."""
        if self._format == "webdataset":
            for path in reversed(self._files):
                keys = self._opened([path], columns=["__key__"])
                if len(keys):
                    name = keys[len(keys) - 1]["__key__"].rpartition("/")[2]
                    return int(name) + 1 if name.isdecimal() and len(name) < 19 else 0
        return 0

    def check(self, rows: _Rows, alternatives: Collection[str] = ()) -> None:
        """Compare the columns of the new rows with those of the last shard with rows, once.

        Args:
            rows: what knows the columns of the new rows, once there are some.
            alternatives: columns of which the existing shards may lack some.

        Raises:
            ValueError: If they differ. The message names the columns.
        """
        if self._is_checked or (schema := rows.schema) is None:
            return
        self._is_checked = True
        if alternatives:
            import pyarrow as pa

            known = set(self._opened(self._files).columns)
            fields = [
                field
                for field in pa.schema(schema)
                if field.name in known or field.name not in alternatives
            ]
            schema = pa.schema(fields)
        found = self._disagreement(self._last_with_rows(), schema)
        # A column that is null throughout a shard has no member there.
        if found is not None and self._format == "webdataset" and len(self._files) > 1:
            found = self._disagreement(self._files, schema)
        if found is not None:
            raise PlanError(
                f"the new rows do not fit the shards in {self._out!r}: {found}\n"
                "hint: write the same columns with the same types, or write to another directory"
            )

    def _last_with_rows(self) -> list[str]:
        """Return the last shard with rows, if there is one.

        A shard without rows may have no columns.
        """
        return next(([path] for path in reversed(self._files) if len(self._opened([path]))), [])

    def _disagreement(self, files: list[str], schema: Any) -> str | None:
        from shardmill.data._dataset import opened_files

        return opened_files(self._opened(files)).native.disagreement(schema) if files else None

    def _opened(self, files: list[str], **options: Any) -> Any:
        from shardmill.data._dataset import Dataset

        return Dataset(files, format=self._format, **options)


def _is_of(path: str, format: WrittenFormat) -> bool:
    name = path.rpartition("/")[2].lower()
    # A file that is only called ``.json`` describes the others. Shards may be numbered, or
    # compressed, after the extension.
    if name.endswith(".json"):
        return True
    if format in ("mds", "arrayrecord"):
        return any(extension in name for extension in EXTENSIONS[format] or (".mds",))
    return is_one_file(name, format)
