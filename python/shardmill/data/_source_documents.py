"""The documents of token files with provenance: which row each was made of."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import count
from typing import Any, NamedTuple

from shardmill._native import storage
from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._token_files import HEADER_BYTES, PROVENANCE, TokenDtype, base_of
from shardmill.errors import FormatError, NotFoundError

#: The key of the metadata of a provenance file.
METADATA = b"shardmill.provenance"
VERSION = 1

_DTYPES: dict[int, TokenDtype] = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}
#: Documents that a search reads at once, and how many of such chunks are kept.
_CHUNK, _CHUNKS = 1 << 14, 32


class SourceDocument(NamedTuple):
    """A document of token files, and the row that it was made of."""

    first_token: int
    tokens: int
    file: str
    row: int


class TokenShard(NamedTuple):
    """A token file, with the number of its first token."""

    path: str
    first: int
    tokens: int


class SourceDocuments:
    """The documents of a token data set, as its provenance file names them.

    Args:
        path: the token data set, one of its files, or the provenance file.

    Raises:
        FileNotFoundError: If the provenance file or the token files do not exist.
        ValueError: If the provenance is that of other tokens.
    """

    def __init__(self, path: str) -> None:
        found = provenance_of(path)
        if found is None:
            raise NotFoundError(
                f"the provenance file {base_of(path) + PROVENANCE!r} of {path!r} does not exist\n"
                "hint: `shardmill tokenize --to megatron` and `--to bin` write it, "
                "unless --no-provenance is given"
            )
        #: The provenance file.
        self.path = found
        self._rows = rows = Dataset(found, threads=1)
        self._first_of, self._chunk = cache(self._read_first), lru_cache(_CHUNKS)(self._read_chunk)
        self.metadata = _metadata_of(rows, found)
        self.num_documents = len(rows)
        last = rows[self.num_documents - 1] if self.num_documents else None
        self._total = 0 if last is None else last["first_token"] + last["tokens"]
        self.shards = self._located(_files_of(found))
        #: The tokens that ``path`` has.
        self.given = self._named(path) or TokenShard(path, 0, self._total)

    @property
    def files(self) -> list[str]:
        """Paths of the token files, in order."""
        return [shard.path for shard in self.shards]

    def documents(self, start: int, stop: int) -> list[SourceDocument]:
        """Return the documents that have one of the tokens from ``start`` to ``stop``.

        Both are numbers in the whole token data set. Documents without tokens are left out.
        """
        if start >= stop or not self.num_documents:
            return []
        chunks = range(-(-self.num_documents // _CHUNK))
        # Most of the search is among the first documents of chunks, each of which is read once.
        first = bisect_right(chunks, start, lo=1, key=self._first_of) - 1
        found: list[SourceDocument] = []
        for chunk in chunks[first:]:
            firsts, documents = self._chunk(chunk)
            at = max(bisect_right(firsts, start) - 1, 0)
            for place in range(at, len(firsts)):
                if firsts[place] >= stop:
                    return found
                document = SourceDocument(*(column[place].as_py() for column in documents))
                if document.tokens and document.first_token + document.tokens > start:
                    found.append(document)
        return found

    def numbered(self, documents: Sequence[int]) -> list[SourceDocument]:
        """Return the documents with these numbers.

        Raises:
            IndexError: If there is none with a number.
        """
        rows = self._rows.take(documents).to_pylist()
        return [SourceDocument(**row) for row in rows]

    def shard(self, file: str) -> TokenShard:
        """Return a token file with the number of its first token.

        Raises:
            FileNotFoundError: If it is not one of ``files``.
        """
        shard = self._named(file)
        if shard is None:
            raise NotFoundError(f"{file!r} is not one of the token files of {self.path!r}")
        return shard

    def _named(self, path: str) -> TokenShard | None:
        base = base_of(path)
        return next((shard for shard in self.shards if base_of(shard.path) == base), None)

    def _read_first(self, chunk: int) -> int:
        files = opened_files(self._rows)
        [first] = files.row_plan().row(chunk * _CHUNK, files.numbers_of(["first_token"]))
        return first

    def _read_chunk(self, chunk: int) -> tuple[list[int], list[Any]]:
        """Return the first tokens of the documents of a chunk, and all columns."""
        stop = min((chunk + 1) * _CHUNK, self.num_documents)
        columns = self._rows.take(range(chunk * _CHUNK, stop)).columns
        return columns[0].to_pylist(), columns

    def _located(self, files: Sequence[str]) -> list[TokenShard]:
        """Return the token files with the numbers of their tokens.

        The width of an id follows from the sizes.
        """
        header = HEADER_BYTES if self.metadata["header"] else 0
        sizes = [(storage.size(file) or 0) - header for file in files]
        if not files:
            raise NotFoundError(f"the token files of {self.path!r} do not exist")
        width, rest = divmod(sum(sizes), self._total) if self._total else (2, sum(sizes))
        if rest or width not in _DTYPES or any(size < 0 or size % width for size in sizes):
            raise self.of_others(f"{files[0]!r} and its shards have {sum(sizes):,} bytes")
        #: How the token files store an id.
        self.dtype: TokenDtype = _DTYPES[width]
        first, shards = 0, []
        for file, size in zip(files, sizes, strict=True):
            shards.append(TokenShard(file, first, size // width))
            first += size // width
        return shards

    def of_others(self, what: str) -> FormatError:
        """Return the error for token files that do not fit."""
        return FormatError(
            f"{self.path!r} is the provenance of other tokens: it has {self._total:,} tokens of "
            f"{self.num_documents:,} documents, and {what}\nhint: remove it, or tokenize again"
        )


def provenance_of(path: str) -> str | None:
    """Return the provenance file of a token data set or of one of its files, if there is one."""
    base = base_of(path)
    shared = re.sub(r"/part-\d{5,}$|_\d{5,}$", "", base)
    candidates = dict.fromkeys(f"{one}{PROVENANCE}" for one in (base, shared))
    return next((one for one in candidates if storage.size(one) is not None), None)


def _files_of(provenance: str) -> list[str]:
    """Return the token files of a provenance file, in order."""
    base = base_of(provenance)
    if storage.size(f"{base}.bin") is not None:
        return [f"{base}.bin"]
    for name in (f"{base}_", f"{base}/part-"):
        files: list[str] = []
        for number in count():
            if storage.size(f"{name}{number:05}.bin") is None:
                break
            files.append(f"{name}{number:05}.bin")
        if files:
            return files
    return []


def _metadata_of(rows: Dataset, path: str) -> dict[str, Any]:
    found = (rows.schema.metadata or {}).get(METADATA)
    metadata = {} if found is None else json.loads(found)
    if metadata.get("version") != VERSION:
        raise FormatError(
            f"{path!r} is not a provenance file that this version of shardmill reads\n"
            "hint: `shardmill tokenize --to megatron` or `--to bin` writes one"
        )
    return metadata
