"""Where the tokens of token files come from: the file that `shardmill tokenize` writes beside."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, NamedTuple

from shardmill._extras import pyarrow_for
from shardmill._option_values import whole
from shardmill.data._chat_template import ChatTemplate
from shardmill.data._dataset import Dataset
from shardmill.data._source_documents import SourceDocument, SourceDocuments
from shardmill.data._token_files import TokenDtype, TokenFiles
from shardmill.data._token_options import TextPolicy
from shardmill.data._tokenize import Tokenize
from shardmill.data._tokenizer import Tokenizer
from shardmill.errors import OptionError, RowIndexError
from shardmill.storage._configure import configure_all
from shardmill.storage._paths import PathLike, served_path

#: Documents that are compared at once, and tokens of a row of a file without an index.
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
    ``row``. Its metadata has the options of ``Tokenize`` and their fingerprint. ``sm.merge``, and
    ``shardmill convert`` between these formats, keep it. Requires pyarrow.

    Args:
        path: the token data set: the prefix of a pair of Megatron-LM, a directory of shards, one of
            their files, or the provenance file. Of one shard of several, tokens count from its
            start.
        storage_options: see ``shardmill.storage.configure``.

    Raises:
        FileNotFoundError: If the provenance file or the token files do not exist.
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
        self._documents = SourceDocuments(served_path(path))
        self._metadata = self._documents.metadata

    @property
    def path(self) -> str:
        """The provenance file."""
        return self._documents.path

    @property
    def num_documents(self) -> int:
        """Number of documents in the provenance."""
        return self._documents.num_documents

    @property
    def num_tokens(self) -> int:
        """Number of tokens of the token data set, or of the shard that was given."""
        return self._documents.given.tokens

    @property
    def dtype(self) -> TokenDtype:
        """How the token files store an id."""
        return self._documents.dtype

    @property
    def files(self) -> list[str]:
        """Paths of the token files, in order."""
        return self._documents.files

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
                f"token {token} is out of range: {self.path!r} names the sources of "
                f"{self.num_tokens} tokens, counted from 0"
            )
        token += self._documents.given.first
        document = self._documents.documents(token, token + 1)[0]
        return TokenSource(document.file, document.row, token - document.first_token)

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
        tokenize, root = self.tokenize(tokenizer), served_path(source).rstrip("/")
        drawn = random.Random(seed).sample(
            range(self.num_documents), min(whole("sample", sample, 1), self.num_documents)
        )
        numbers, opened = sorted(drawn), _OpenedSources(root, tokenize, self._metadata["source"])
        tokens, mismatches = 0, []
        for at in range(0, len(numbers), _DOCUMENTS_AT_ONCE):
            part = numbers[at : at + _DOCUMENTS_AT_ONCE]
            documents = self._documents.numbered(part)
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

    def _stored(
        self, numbers: Sequence[int], documents: Sequence[SourceDocument]
    ) -> Iterator[list[int]]:
        """Yield the stored tokens of documents."""
        if self._metadata["format"] == "megatron":
            stored = Dataset(self.files, format="megatron", columns=["tokens"])
            if len(stored) != self.num_documents:
                raise self._documents.of_others(f"the index has {len(stored)} documents")
            yield from stored.take(numbers).column(0).to_pylist()
            return
        layout = TokenFiles(dtype=self.dtype, row_tokens=_ROW_TOKENS)
        stored = Dataset(self.files, format="bin", token_files=layout, columns=["tokens"])
        for document in documents:
            found: list[int] = []
            first, stop = document.first_token, document.first_token + document.tokens
            row = 0
            for shard in self._documents.shards:
                low, high = max(first - shard.first, 0), min(stop - shard.first, shard.tokens)
                if low < high:
                    rows = range(low // _ROW_TOKENS, -(-high // _ROW_TOKENS))
                    read = stored.take([row + number for number in rows]).column(0).flatten()
                    skipped = low - rows.start * _ROW_TOKENS
                    found += read.slice(skipped, high - low).to_pylist()
                row += -(-shard.tokens // _ROW_TOKENS)
            yield found


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
                f"{self._root}/{file}",
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


def _first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    if left == right:
        return None
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))
