"""Writes the provenance of copied token files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from shardmill._extras import pyarrow_for
from shardmill._warnings import warn_caller
from shardmill.data._dataset import Dataset
from shardmill.data._source_documents import SourceDocuments, provenance_of
from shardmill.data._token_files import PROVENANCE, base_of
from shardmill.errors import FormatError, NotFoundError, PlanError
from shardmill.write._provenance import provenance_schema
from shardmill.write._writer import Writer

if TYPE_CHECKING:
    from shardmill.write._token_layout import TokenHeader


@contextmanager
def copied_provenance(
    out: str, copied: Sequence[Dataset], *, format: str, header: TokenHeader | None = None
) -> Iterator[None]:
    """Write the provenance of token files beside their copy when the block ends.

    The provenance is read before the block begins, because the copy may replace these files. If
    there is none, nothing is written. If only part of it could be kept, nothing is written either,
    and a warning says why.

    Args:
        out: the copy.
        copied: the token files, whose documents follow one another in the copy.
        format: format of the copy.
        header: header of the copy.
    """
    try:
        sources = _sources([file for dataset in copied for file in dataset.files])
        if format == "megatron" and sources:
            _check_rows(copied, sources)
    except (FormatError, NotFoundError, PlanError) as error:
        warn_caller(f"no provenance is written for {out!r}: {error}")
        sources = []
    if not sources:
        yield
        return
    pa, total = pyarrow_for("a provenance file"), 0
    schema = provenance_schema(_metadata(sources) | {"format": format, "header": header})
    # The mode of the copy decides whether it may replace earlier files.
    path = f"{base_of(out)}{PROVENANCE}"
    with Writer(path, format="parquet", schema=schema, mode="overwrite") as writer:
        for source in sources:
            for batch in _batches(Dataset(source.path)):
                first = pa.compute.add(batch["first_token"], total)
                columns = [first, *batch.columns[1:]]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            total += source.given.tokens
        yield


def _sources(files: Sequence[str]) -> list[SourceDocuments]:
    """Return the provenance of token files, in order; none if no file has any."""
    paths = [provenance_of(file) for file in files]
    if not any(paths):
        return []
    sources: list[SourceDocuments] = []
    number = 0
    while number < len(files):
        path = paths[number]
        if path is None:
            raise PlanError(f"{files[number]!r} has no provenance, but other files have it")
        source = SourceDocuments(path)
        shards = source.files
        if [*files[number : number + len(shards)]] != shards:
            raise PlanError(f"{path!r} is for {len(shards)} files, but only some are copied")
        sources.append(source)
        number += len(shards)
    _check_options(sources)
    return sources


def _check_options(sources: Sequence[SourceDocuments]) -> None:
    """Check that the sources can be joined in one provenance file."""
    first = sources[0]
    owners: dict[str, SourceDocuments] = {}
    for source in sources:
        if _options(source) != _options(first):
            raise PlanError(
                f"{source.path!r} and {first.path!r} have different options of Tokenize"
            )
        names = {
            name
            for batch in _batches(Dataset(source.path, columns=["file"]))
            for name in batch.column(0).unique().to_pylist()
        }
        for name in names:
            owner = owners.setdefault(name, source)
            if _paths(owner) != _paths(source):
                raise PlanError(
                    f"the source {name!r} is below {', '.join(_paths(owner))} in {owner.path!r}, "
                    f"but below {', '.join(_paths(source))} in {source.path!r}"
                )


def _check_rows(copied: Sequence[Dataset], sources: Sequence[SourceDocuments]) -> None:
    """Check that each row of the token files is a document of their sources."""
    options = ({"format": one.format, "token_files": one.token_files} for one in copied)
    rows = [
        Dataset(one.files, columns=["num_tokens"], **given)
        for one, given in zip(copied, options, strict=True)
    ]
    documents = [Dataset(source.path, columns=["tokens"]) for source in sources]
    if any(one != other for one, other in zip_longest(_values(rows), _values(documents))):
        raise PlanError(
            f"the rows of {copied[0].files[0]!r} are not the documents of its provenance"
        )


def _options(source: SourceDocuments) -> dict[str, Any]:
    """Return the metadata that must be equal: how sources are read and tokenized."""
    tokenizer = source.metadata["tokenizer"] | {"path": None}
    files = source.metadata["source"] | {"paths": None}
    copy = {"format": None, "header": None}
    return source.metadata | copy | {"tokenizer": tokenizer, "source": files}


def _metadata(sources: Sequence[SourceDocuments]) -> dict[str, Any]:
    first = sources[0].metadata
    paths = list(dict.fromkeys(chain.from_iterable(map(_paths, sources))))
    return first | {"source": first["source"] | {"paths": paths}}


def _paths(source: SourceDocuments) -> list[str]:
    return source.metadata["source"]["paths"]


def _batches(dataset: Dataset) -> Any:
    return pyarrow_for("a provenance file").RecordBatchReader.from_stream(dataset)


def _values(datasets: Sequence[Dataset]) -> Iterator[int]:
    """Yield the values of the only column."""
    for batch in chain.from_iterable(map(_batches, datasets)):
        yield from batch.column(0).to_pylist()
