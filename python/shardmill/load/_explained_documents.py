"""The documents of an explained batch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any

from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._source_documents import SourceDocument, SourceDocuments, provenance_of
from shardmill.load._explained_images import documents_of
from shardmill.load._mixture import Mixture

if TYPE_CHECKING:
    from shardmill.load._plan import LoaderPlan

#: The formats that are written with provenance.
_FORMATS = ("megatron", "bin")


def with_documents(
    answer: dict[str, Any], plan: LoaderPlan, step: int, *, has_images: bool
) -> dict[str, Any]:
    """Return an explanation with the documents of its rows, if a file has provenance.

    Args:
        answer: the explanation of a batch.
        plan: that of the loader.
        step: the number of the batch, for errors.
        has_images: whether to return documents with images; see ``Loader.explain``.

    Raises:
        ValueError: If there are no documents with images.
    """
    if has_images:
        return answer | {"documents": documents_of(plan, answer, step)}
    dataset = plan.dataset
    sources = dataset.sources.values() if isinstance(dataset, Mixture) else [dataset]
    has_tokens = any(source.format in _FORMATS for source in sources)
    # Without pyarrow, no provenance is read.
    if not has_tokens or not answer["rows"] or find_spec("pyarrow") is None:
        return answer
    files = [(path, source) for source in sources for path, *_ in opened_files(source).native.files]
    groups = list(_pieces(answer))
    wanted: dict[int, set[int]] = {}
    for file, row, *_ in chain.from_iterable(groups):
        wanted.setdefault(file, set()).add(row)
    # Shards share a provenance file.
    opened = cache(SourceDocuments)
    read = {
        file: _TokenFile(opened(provenance), *files[file], sorted(rows))
        for file, rows in wanted.items()
        if files[file][1].format in _FORMATS
        and (provenance := provenance_of(files[file][0])) is not None
    }
    if not read:
        return answer
    documents = [
        [
            read[file].documents(row, first, tokens) if file in read else None
            for file, row, first, tokens in group
        ]
        for group in groups
    ]
    return answer | {"documents": documents if "packs" in answer else documents[0]}


def _pieces(answer: dict[str, Any]) -> Iterator[list[tuple[int, int, int, int | None]]]:
    """Yield the pieces of each pack, or those of all rows, with numbers of files."""
    if "packs" in answer:
        for files, pack in zip(answer["pack_files"], answer["packs"], strict=True):
            yield [(file, *piece[1:]) for file, piece in zip(files, pack, strict=True)]
    else:
        runs = zip(answer["row_files"], answer["rows"], strict=True)
        yield [
            (file, row, 0, None)
            for file, (_, first, count) in runs
            for row in range(first, first + count)
        ]


class _TokenFile:
    """Rows of a token file with provenance.

    Args:
        provenance: the documents of the file and of its other shards.
        path: the file.
        dataset: a data set with the file.
        rows: the rows that are asked for, in order.
    """

    def __init__(
        self, provenance: SourceDocuments, path: str, dataset: Dataset, rows: list[int]
    ) -> None:
        self._provenance, self._shard = provenance, provenance.shard(path)
        options = dataset.token_files
        if dataset.format == "megatron" and (options is None or options.rows == "documents"):
            before = provenance.files[: provenance.shards.index(self._shard)]
            counts = {file: count for file, *_, count in opened_files(dataset).native.files}
            first = sum(
                counts[file] if file in counts else len(Dataset(file, format="megatron"))
                for file in before
            )
            found = provenance.numbered([first + row for row in rows])
            self._known = dict(zip(rows, found, strict=True))
            self._spans = {row: (one.first_token, one.tokens) for row, one in self._known.items()}
        else:
            self._known: dict[int, SourceDocument] = {}
            self._spans = dict(zip(rows, self._spans_of(path, dataset, rows), strict=True))

    def documents(
        self, row: int, first: int, tokens: int | None
    ) -> list[tuple[str, int, int, int]]:
        """Return file, row, first token and number of tokens of the documents of a piece."""
        start, length = self._spans[row]
        start, stop = start + first, start + (length if tokens is None else first + tokens)
        known = self._known.get(row)
        found = [known] if known else self._provenance.documents(start, stop)
        pieces = []
        for one in found:
            low, high = max(start, one.first_token), min(stop, one.first_token + one.tokens)
            pieces.append((one.file, one.row, low - one.first_token, high - low))
        return pieces

    def _spans_of(self, path: str, dataset: Dataset, rows: list[int]) -> Iterator[tuple[int, int]]:
        """Yield the first token and the number of tokens of each row, from the lengths of all."""
        pa, pc = import_module("pyarrow"), import_module("pyarrow.compute")
        stated = Dataset(
            path, format=dataset.format, token_files=dataset.token_files, columns=["num_tokens"]
        )
        token, row, left = self._shard.first, 0, iter(rows)
        wanted = next(left, None)
        for batch in pa.RecordBatchReader.from_stream(stated):
            lengths = batch.column(0)
            while wanted is not None and wanted < row + len(lengths):
                before = pc.sum(lengths.slice(0, wanted - row)).as_py() or 0
                yield token + before, lengths[wanted - row].as_py()
                wanted = next(left, None)
            if wanted is None:
                return
            token, row = token + (pc.sum(lengths).as_py() or 0), row + len(lengths)
