"""Where the tokens of token files come from: the file that `shardmill tokenize` writes beside."""

from __future__ import annotations

import json
import os
import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from itertools import count, groupby
from typing import Any, NamedTuple

from shardmill._extras import pyarrow_for
from shardmill._native import storage
from shardmill._option_values import whole
from shardmill.data._chat_template import ChatTemplate
from shardmill.data._dataset import Dataset
from shardmill.data._token_files import HEADER_BYTES, PROVENANCE, TokenDtype, TokenFiles, base_of
from shardmill.data._token_options import TextPolicy
from shardmill.data._tokenize import Tokenize
from shardmill.data._tokenizer import Tokenizer
from shardmill.errors import FormatError, NotFoundError, OptionError, RowIndexError
from shardmill.storage._configure import configure_all
from shardmill.storage._paths import PathLike, served_path

#: The key of the metadata.
METADATA = b"shardmill.provenance"
VERSION = 1

_DTYPES: dict[int, TokenDtype] = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}
#: Documents that a search reads at once, and how many of such chunks are kept.
_CHUNK, _CHUNKS = 1 << 14, 32
#: Documents that are read at once, and tokens of a row of a file without an index.
_DOCUMENTS_AT_ONCE = 64
_ROW_TOKENS = 1 << 12


class TokenSource(NamedTuple):
    """Where a token comes from."""

    #: Path of the source file below the directory that was tokenized.
    file: str
    #: Row in that file.
    row: int
    #: Place of the token among the tokens of the row.
    offset: int


class SourceDocument(NamedTuple):
    """A document of token files, and the row that it was made of."""

    first_token: int
    tokens: int
    file: str
    row: int


class SourceMismatch(NamedTuple):
    """The first token at which a document differs from its source."""

    #: Number of the document.
    document: int
    file: str
    row: int
    #: Place of the token in the document.
    offset: int
    #: The id in the token files; ``None`` if the document ends before.
    stored: int | None
    #: The id that the source has; ``None`` if it ends before.
    found: int | None

    def __str__(self) -> str:
        stored, found = ("no token" if id is None else str(id) for id in (self.stored, self.found))
        return (
            f"document {self.document}: {self.file}, row {self.row}, token {self.offset}: "
            f"stored is {stored}, and the source has {found}"
        )


@dataclass(frozen=True)
class SourceCheck:
    """The outcome of ``Provenance.verify``.

    Attributes:
        documents: number of documents that were tokenized again.
        tokens: number of their tokens.
        mismatches: documents that differ, in order.
    """

    documents: int
    tokens: int
    mismatches: list[SourceMismatch]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        mismatches = [mismatch._asdict() for mismatch in self.mismatches]
        return {"documents": self.documents, "tokens": self.tokens, "mismatches": mismatches}


class Provenance:
    """Where the tokens of a token data set come from.

    ``shardmill tokenize --to megatron`` or ``bin`` writes ``P.provenance.parquet`` beside its
    output ``P``: a row for each document, in order, with ``first_token``, ``tokens``, ``file`` and
    ``row``. Its metadata has the options of ``Tokenize`` and their fingerprint. Requires pyarrow.

    Args:
        path: the token data set: the prefix of a pair of Megatron-LM, a directory of shards, one of
            their files, or the provenance file. Of one shard of several, tokens count from its
            start.
        storage_options: see ``shardmill.storage.configure``.

    Raises:
        FileNotFoundError: If there is no provenance file, or no token file.
        ValueError: If the provenance is that of other tokens.

    Examples:
        >>> import shardmill as sm
        >>> provenance = sm.Provenance("corpus")  # doctest: +SKIP
        >>> provenance.source(1_000_000)  # doctest: +SKIP
        TokenSource(file='en/0001.jsonl', row=17, offset=204)
    """

    def __init__(self, path: PathLike, *, storage_options: Any = None) -> None:
        pyarrow_for("Provenance")
        configure_all([os.fspath(path)], storage_options)
        asked = served_path(path)
        found = provenance_of(asked)
        if found is None:
            raise NotFoundError(
                f"there is no provenance of {asked!r}: {base_of(asked)}{PROVENANCE} "
                "does not exist\n"
                "hint: `shardmill tokenize --to megatron` and `--to bin` write it, "
                "unless --no-provenance is given"
            )
        #: The provenance file.
        self.path = found
        self._rows = rows = Dataset(found, threads=1)
        self._firsts = Dataset(found, columns=["first_token"], threads=1)
        self._first_of, self._chunk = cache(self._read_first), lru_cache(_CHUNKS)(self._read_chunk)
        self._metadata = _metadata_of(rows, found)
        #: Number of documents in the provenance.
        self.num_documents = len(rows)
        last = rows[self.num_documents - 1] if self.num_documents else None
        self._total = 0 if last is None else last["first_token"] + last["tokens"]
        self._shards = self._located(_files_of(found))
        shard = next((shard for shard in self._shards if _is_of(asked, shard.path)), None)
        if shard is None or len(self._shards) == 1:
            shard = _Shard(found, 0, self._total)
        self._start = shard.first
        #: Number of tokens of the token data set, or of the shard that was given.
        self.num_tokens = shard.tokens

    @property
    def files(self) -> list[str]:
        """Paths of the token files, in order."""
        return [shard.path for shard in self._shards]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the ``Tokenize`` that made the tokens."""
        return self._metadata["fingerprint"]

    @property
    def tokenizer(self) -> str | None:
        """Path of the tokenizer at that time."""
        return self._metadata["tokenizer"]["path"]

    def source(self, token: int) -> TokenSource:
        """Return the source of a token.

        Args:
            token: its number in the token data set, from 0 on.

        Raises:
            IndexError: If there is no such token.
        """
        token = whole("token", token, 0)
        if token >= self.num_tokens:
            raise RowIndexError(
                f"there is no token {token}: {self.path!r} has those of {self.num_tokens}"
            )
        token += self._start
        document = self.documents(token, token + 1)[0]
        return TokenSource(document.file, document.row, token - document.first_token)

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

    def first_token(self, file: str) -> int:
        """Return the number of the first token of a token file.

        Raises:
            FileNotFoundError: If it is not one of ``files``.
        """
        shard = next((shard for shard in self._shards if _is_of(file, shard.path)), None)
        if shard is None:
            raise NotFoundError(f"{file!r} is not one of the token files of {self.path!r}")
        return shard.first

    def tokenize(self, tokenizer: Tokenizer | PathLike | None = None) -> Tokenize:
        """Return the ``Tokenize`` that made the tokens.

        Args:
            tokenizer: the tokenizer, or its path; by default, the path at that time.

        Raises:
            ValueError: If the tokenizer, or its chat template, is another one.
        """
        saved = self._metadata["tokenizer"]
        if not isinstance(tokenizer, Tokenizer):
            given = saved["path"] if tokenizer is None else os.fspath(tokenizer)
            options = {name: saved[name] for name in ("pattern", "special_tokens")}
            tokenizer = Tokenizer(given, **options)
        if tokenizer.fingerprint != saved["fingerprint"]:
            raise OptionError(
                f"the tokens of {self.path!r} were made by a tokenizer with the fingerprint "
                f"{saved['fingerprint']}, and {tokenizer!r} is another\n"
                "hint: pass the tokenizer of that time"
            )
        options = self._metadata["tokenize"]
        made = Tokenize(
            **options
            | {
                "tokenizer": tokenizer,
                "chat_template": ChatTemplate(**options["chat_template"]),
                "text_policy": TextPolicy(**options["text_policy"]),
            }
        )
        if made.fingerprint != self.fingerprint:
            raise OptionError(
                f"the tokens of {self.path!r} were made with the fingerprint {self.fingerprint}, "
                f"and now it is {made.fingerprint}\n"
                "hint: the tokenizer has another chat template or other special tokens, or a "
                "version of shardmill with other ids made the tokens"
            )
        return made

    def verify(
        self,
        source: PathLike,
        *,
        tokenizer: Tokenizer | PathLike | None = None,
        sample: int = 1000,
        seed: int = 0,
    ) -> SourceCheck:
        """Tokenize a sample of the documents again, and compare the tokens with the stored ones.

        Args:
            source: the directory of the source files, which may have moved since.
            tokenizer: as for ``tokenize``.
            sample: number of documents, drawn at random; all if there are fewer.
            seed: seed of the sample.

        Raises:
            ValueError: If the tokenizer is another one.
            FileNotFoundError: If a source file does not exist.
        """
        tokenize, root = self.tokenize(tokenizer), served_path(source).rstrip("/") or "/"
        drawn = random.Random(seed).sample(
            range(self.num_documents), min(whole("sample", sample, 1), self.num_documents)
        )
        numbers, opened = sorted(drawn), _OpenedSources(root, tokenize, self._metadata["source"])
        tokens, mismatches = 0, []
        for at in range(0, len(numbers), _DOCUMENTS_AT_ONCE):
            part = numbers[at : at + _DOCUMENTS_AT_ONCE]
            documents = self.numbered(part)
            now = opened.tokens(documents)
            for number, document, stored, found in zip(
                part, documents, self._stored(part, documents), now, strict=True
            ):
                tokens += len(stored)
                if (offset := _first_difference(stored, found)) is not None:
                    ids = (ids[offset] if offset < len(ids) else None for ids in (stored, found))
                    mismatches.append(
                        SourceMismatch(number, document.file, document.row, offset, *ids)
                    )
        return SourceCheck(len(numbers), tokens, mismatches)

    def __repr__(self) -> str:
        return f"Provenance({self.path!r}: {self.num_documents:,} documents)"

    def _read_first(self, chunk: int) -> int:
        return self._firsts.take([chunk * _CHUNK]).column(0)[0].as_py()

    def _read_chunk(self, chunk: int) -> tuple[list[int], list[Any]]:
        """Return the first tokens of the documents of a chunk, and all columns."""
        stop = min((chunk + 1) * _CHUNK, self.num_documents)
        columns = self._rows.take(range(chunk * _CHUNK, stop)).columns
        return columns[0].to_pylist(), columns

    def _stored(
        self, numbers: Sequence[int], documents: Sequence[SourceDocument]
    ) -> Iterator[list[int]]:
        """Yield the stored tokens of documents."""
        if self._metadata["format"] == "megatron":
            stored = Dataset(self.files, format="megatron", columns=["tokens"])
            if len(stored) != self.num_documents:
                raise self._of_others(f"the index has {len(stored)} documents")
            yield from stored.take(numbers).column(0).to_pylist()
            return
        layout = TokenFiles(dtype=self.dtype, row_tokens=_ROW_TOKENS)
        stored = Dataset(self.files, format="bin", token_files=layout, columns=["tokens"])
        for document in documents:
            found: list[int] = []
            first, stop = document.first_token, document.first_token + document.tokens
            row = 0
            for shard in self._shards:
                low, high = max(first - shard.first, 0), min(stop - shard.first, shard.tokens)
                if low < high:
                    rows = range(low // _ROW_TOKENS, -(-high // _ROW_TOKENS))
                    read = stored.take([row + number for number in rows]).column(0).flatten()
                    skipped = low - rows.start * _ROW_TOKENS
                    found += read.slice(skipped, high - low).to_pylist()
                row += -(-shard.tokens // _ROW_TOKENS)
            yield found

    def _located(self, files: Sequence[str]) -> list[_Shard]:
        """Return the token files with the numbers of their tokens.

        The width of an id follows from the sizes.
        """
        header = HEADER_BYTES if self._metadata["header"] else 0
        sizes = [(storage.size(file) or 0) - header for file in files]
        if not files:
            raise NotFoundError(f"the token files of {self.path!r} do not exist")
        width, rest = divmod(sum(sizes), self._total) if self._total else (2, sum(sizes))
        if rest or width not in _DTYPES or any(size < 0 or size % width for size in sizes):
            raise self._of_others(f"{files[0]!r} and its shards have {sum(sizes):,} bytes")
        #: How the token files store an id.
        self.dtype: TokenDtype = _DTYPES[width]
        first, shards = 0, []
        for file, size in zip(files, sizes, strict=True):
            shards.append(_Shard(file, first, size // width))
            first += size // width
        return shards

    def _of_others(self, what: str) -> FormatError:
        return FormatError(
            f"{self.path!r} is the provenance of other tokens: it has {self._total:,} tokens of "
            f"{self.num_documents:,} documents, and {what}\nhint: remove it, or tokenize again"
        )


class _Shard(NamedTuple):
    path: str
    first: int
    tokens: int


class _OpenedSources:
    """The source files, with the tokens that they have now."""

    def __init__(self, root: str, tokenize: Tokenize, options: dict[str, Any]) -> None:
        self._root, self._tokenize = root, tokenize
        self._format, self._hive = options["format"], options["hive"]
        self._ignore_zeros = options["ignore_zeros"]
        self._opened: tuple[str, Dataset] | None = None

    def tokens(self, documents: Sequence[SourceDocument]) -> Iterator[list[int]]:
        """Yield the tokens of the sources of documents; none where there is no such row."""
        for file, group in groupby(documents, lambda document: document.file):
            dataset, rows = self._dataset(file), [document.row for document in group]
            known = [row for row in rows if row < len(dataset)]
            found = iter(dataset.take(known).column(0).to_pylist())
            yield from (next(found) if row < len(dataset) else [] for row in rows)

    def _dataset(self, file: str) -> Dataset:
        if self._opened is None or self._opened[0] != file:
            dataset = Dataset(
                f"{self._root.rstrip('/')}/{file}",
                format=self._format,
                partitioning="hive" if self._hive else None,
                ignore_zeros=self._ignore_zeros,
                tokenize=self._tokenize,
                columns=[self._tokenize.output],
            )
            self._opened = file, dataset
        return self._opened[1]


def saved_tokenize(tokenize: Tokenize) -> dict[str, Any]:
    """Return what ``Provenance.tokenize`` needs of a ``Tokenize``, as JSON values."""
    names = ("text", "messages", "prompt", "completion", "bos", "eos")
    options = {name: getattr(tokenize, name) for name in (*names, "add_special_tokens")}
    chat_template, text_policy = tokenize.chat_template, tokenize.text_policy
    return options | {
        "separator": tokenize.separator,
        "chat_template": asdict(chat_template),
        "text_policy": asdict(text_policy),
    }


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


def _is_of(path: str, file: str) -> bool:
    return base_of(path) == base_of(file)


def _metadata_of(rows: Dataset, path: str) -> dict[str, Any]:
    found = (rows.schema.metadata or {}).get(METADATA)
    metadata = {} if found is None else json.loads(found)
    if metadata.get("version") != VERSION:
        raise FormatError(
            f"{path!r} is not a provenance file that this version of shardmill reads\n"
            "hint: `shardmill tokenize --to megatron` or `--to bin` writes one"
        )
    return metadata


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    if left == right:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))
