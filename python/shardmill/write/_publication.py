"""Gives the complete files of a writer their names, and writes their index."""

from __future__ import annotations

from shardmill._native import write as _native
from shardmill.write._formats import WrittenFormat
from shardmill.write._index import WrittenIndex
from shardmill.write._output import OutputDirectory
from shardmill.write._row_batches import RowBatches
from shardmill.write._token_layout import WRITTEN_TOKENS, begin_pairs, remove_provenance


class Publication:
    """The published files of a writer.

    Args:
        out: the output, as it was given to the writer.
        format: format of the files.
        directory: where they are.
        index: their index.
    """

    def __init__(
        self, out: str, format: WrittenFormat, directory: OutputDirectory, index: WrittenIndex
    ) -> None:
        self._out, self._directory, self._index = out, directory, index
        self._format: WrittenFormat = format
        #: Paths without the index.
        self.files: list[str] = []
        #: Size without the index.
        self.bytes = 0
        #: How the ids of token files are stored.
        self.dtype: str | None = None

    def publish(self, native: _native.Writer, batches: RowBatches) -> None:
        """Complete the files of ``native``, and publish them.

        Raises:
            FileExistsError: If a file was created under one of the names in the meantime.
        """
        is_pair = self._format == "megatron"
        shards = native.finish()
        with self._directory.locked(), self._directory.publishing():
            first = self._directory.first_number()
            known = self._index.begin(shards, batches, is_appended=first > 0)
            if is_pair:
                replaced = self._directory.data_files() if self._directory.replaces else ()
                begin_pairs(self._out, replaced, max(rows for rows, _, _ in shards[1::2]))
            if self._format in WRITTEN_TOKENS:
                remove_provenance(self._out)
            published = native.publish(first)
            self.files = published[:: 2 if is_pair else 1]
            if self._format in WRITTEN_TOKENS:
                self.dtype = shards[0][2]
            self.bytes = sum(size for _, size, _ in shards)
            try:
                self._index.end(known, shards, self.files, batches)
            except BaseException:
                self._withdraw()
                raise
            self._directory.remove_replaced([*published, *self._index.paths])

    def _withdraw(self) -> None:
        """Remove published files whose index cannot be written.

        They stay if they replaced others, or if the index is visible but not synced.
        """
        if self._directory.replaces or self._index.may_list(self.files):
            return
        self._directory.remove(self.files)
        self.files, self.bytes = [], 0
