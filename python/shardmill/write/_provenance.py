"""Writes beside token files where their tokens come from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Any

from shardmill._extras import pyarrow_for
from shardmill.data._dataset import opened_files
from shardmill.data._provenance import saved_tokenize
from shardmill.data._source_documents import METADATA, VERSION
from shardmill.data._token_files import PROVENANCE, base_of
from shardmill.storage._paths import absolute
from shardmill.write._output import Mode
from shardmill.write._writer import Writer

if TYPE_CHECKING:
    from shardmill.data._dataset import Dataset
    from shardmill.data._tokenize import Tokenize
    from shardmill.write._token_layout import TokenLayout

#: Rows whose places are asked for at once.
_ROWS_AT_ONCE = 1 << 16


class ProvenanceWriter:
    """Writes ``P.provenance.parquet`` for the token files ``P``; see ``sm.Provenance``.

    Use it outside of the writer of the tokens, so that it is published after them.

    Args:
        out: the token files ``P``.
        dataset: the rows that are tokenized, in this order.
        tokenize: how.
        tokenizer: the path of its tokenizer, with the options ``pattern`` and ``special_tokens``.
        format: format of the token files.
        layout: their layout.
        hive: whether directories of the data set are columns.
        mode: what happens to an existing file.
    """

    def __init__(
        self,
        out: str,
        dataset: Dataset,
        tokenize: Tokenize,
        *,
        tokenizer: dict[str, Any],
        format: str,
        layout: TokenLayout | None,
        hive: bool,
        mode: Mode,
    ) -> None:
        self._pa = pyarrow_for("a provenance file")
        metadata = {
            "version": VERSION,
            "fingerprint": tokenize.fingerprint,
            "tokenize": saved_tokenize(tokenize),
            "tokenizer": tokenizer
            | {
                "path": absolute(tokenizer["path"]),
                "fingerprint": tokenize.tokenizer and tokenize.tokenizer.fingerprint,
            },
            "source": {
                "paths": opened_files(dataset).paths,
                "format": dataset.format,
                "hive": hive,
                "ignore_zeros": dataset.ignore_zeros,
            },
            "format": format,
            "header": layout and layout.header,
        }
        self._schema = provenance_schema(metadata)
        self._places = places(dataset)
        self._names = source_names(opened_files(dataset).native.files)
        self._token = 0
        self._writer = Writer(
            f"{base_of(out)}{PROVENANCE}", format="parquet", schema=self._schema, mode=mode
        )

    def add(self, lengths: Sequence[int]) -> None:
        """Add the next rows, which have these numbers of tokens."""
        pa = self._pa
        found = [next(self._places) for _ in lengths]
        ends = list(accumulate(lengths, initial=self._token))
        self._token = ends.pop()
        numbers = pa.array([file for file, _ in found], pa.int32()).dictionary_encode()
        names = [self._names[number] for number in numbers.dictionary.to_pylist()]
        columns = [
            pa.array(ends, pa.int64()),
            pa.array(lengths, pa.int32()),
            pa.DictionaryArray.from_arrays(numbers.indices, pa.array(names, pa.string())),
            pa.array([row for _, row in found], pa.int64()),
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def __enter__(self) -> ProvenanceWriter:
        self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, traceback)


def provenance_schema(metadata: dict[str, Any]) -> Any:
    """Return the schema of a provenance file."""
    pa = pyarrow_for("a provenance file")
    fields = [
        pa.field("first_token", pa.int64(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("file", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
    ]
    return pa.schema(fields, metadata={METADATA: json.dumps(metadata)})


def places(dataset: Dataset) -> Iterator[tuple[int, int]]:
    """Yield the number of the file, and the row in it, of each row of a data set."""
    plan = opened_files(dataset).row_plan()
    ordered = plan.ordered(window_bytes=None, seed=0, lanes=1)
    share = {"batch_size": _ROWS_AT_ONCE, "world_size": 1, "rank": 0, "tail": "uneven"}
    for step in range(-(-plan.num_rows // _ROWS_AT_ONCE)):
        explained = ordered.explain(0, step, share, [])
        for file, (_, first, rows) in zip(explained["row_files"], explained["rows"], strict=True):
            for row in range(first, first + rows):
                yield file, row


def source_names(files: Sequence[tuple[str, str, int, int]]) -> list[str]:
    """Return the names of files below the paths of a data set.

    If two have the same, all are named below the directory that they have in common.

    Examples:
        >>> source_names([("d/a/x", "x", 1, 1), ("d/b/x", "x", 1, 1)])
        ['a/x', 'b/x']
    """
    names = [relative for _, relative, *_ in files]
    if len(set(names)) == len(names):
        return names
    parts = [path.split("/") for path, *_ in files]
    shared = 0
    while all(len(one) > shared + 1 and one[shared] == parts[0][shared] for one in parts):
        shared += 1
    return ["/".join(one[shared:]) for one in parts]
