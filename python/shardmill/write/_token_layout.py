"""How written files store token ids."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from shardmill._choices import check_fields
from shardmill._native import storage
from shardmill._option_values import check_kind, whole
from shardmill._warnings import warn_caller
from shardmill.data._token_files import HEADER_BYTES, PROVENANCE, TokenDtype, base_of
from shardmill.errors import OptionError

if TYPE_CHECKING:
    from shardmill.data._dataset import Dataset

TokenHeader = Literal["llm.c"]

#: The formats that are written.
WRITTEN_TOKENS = ("megatron", "bin")

#: Readers of Megatron-LM number sequences with 32 bits.
_MOST_SEQUENCES = 2**31


@dataclass(frozen=True, kw_only=True)
class TokenLayout:
    """How written files store token ids.

    An id that does not fit raises a ``FormatError``, and nothing is published.

    Attributes:
        dtype: how an id is stored. By default, it follows from ``vocab_size``: as for
            ``DType.optimal_dtype`` of Megatron-LM, uint16 below 65,500 ids, otherwise int32; for
            ``"bin"``, uint16 up to 65,536 ids, otherwise uint32. Without either, it is that of the
            files that the rows come from, or of their column. Python integers and 64-bit columns
            become int32, or uint32 for ``"bin"``.
        vocab_size: number of ids in the vocabulary, one more than the highest. Other ids raise an
            error.
        header: ``"llm.c"`` begins each file of ``"bin"`` with the header of llm.c and
            modded-nanogpt. Ids are then uint16 or uint32.
        cut_documents: whether a document of ``"bin"`` may begin in one shard and end in the next,
            as in modded-nanogpt. Otherwise, shards end at whole documents, and a document that is
            larger than ``shard_bytes`` gets a shard of its own.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import shardmill as sm
        >>> layout = sm.TokenLayout(vocab_size=50257)
        >>> with sm.Writer("corpus", format="megatron", token_layout=layout) as writer:
        ...     writer.write({"tokens": [1, 2, 3]})
        ...     writer.write({"tokens": []})
        >>> sorted(os.listdir())
        ['corpus.bin', 'corpus.idx']
        >>> list(sm.Dataset("corpus"))
        [{'tokens': [1, 2, 3]}, {'tokens': []}]
    """

    dtype: TokenDtype | None = None
    vocab_size: int | None = None
    header: TokenHeader | None = None
    cut_documents: bool = False

    def __post_init__(self) -> None:
        check_fields(TokenLayout, vars(self), prefix="TokenLayout.")
        if self.vocab_size is not None:
            whole("TokenLayout.vocab_size", self.vocab_size, 1)


def layout_options(layout: TokenLayout | None, format: str, out: str, mode: str) -> dict[str, Any]:
    """Return the options for native code; none for other formats.

    Raises:
        ValueError: If an option is not an option of the format.
    """
    check_kind("token_layout", layout, TokenLayout, "sm.TokenLayout(vocab_size=50257)")
    if format not in WRITTEN_TOKENS:
        if layout is not None:
            raise OptionError(
                f"token_layout is for files of token ids, not for {format} files\n"
                "hint: leave token_layout out"
            )
        return {}
    if mode == "append":
        # Nothing says how the ids of files without an index are stored.
        raise OptionError(
            f"mode='append' is not for {format} files\n"
            "hint: write to another path; a data set reads several, and sm.merge joins pairs of "
            "Megatron-LM"
        )
    layout = layout or TokenLayout()
    options: dict[str, Any] = {"dtype": layout.dtype, "vocab_size": layout.vocab_size}
    if format == "bin":
        if out.endswith(".bin") and storage.size(f"{pair_prefix(out)}.idx") is not None:
            raise OptionError(
                f"{out!r} has the tokens of a pair of Megatron-LM, and its index would be wrong\n"
                "hint: write to another name, or remove the .idx file"
            )
        if layout.header is not None:
            _check_header(layout)
        return options | {
            "has_header": layout.header is not None,
            "cuts_documents": layout.cut_documents,
        }
    if layout.header is not None or layout.cut_documents:
        name = "cut_documents" if layout.header is None else "header"
        raise OptionError(
            f"TokenLayout.{name} concerns bin files, not megatron files\nhint: leave it out"
        )
    if layout.dtype == "uint32":
        raise OptionError(
            "TokenLayout.dtype is 'uint32', and Megatron-LM has no such type\n"
            "hint: int32 holds ids below 2**31"
        )
    return options


def _check_header(layout: TokenLayout) -> None:
    if layout.dtype not in (None, "uint16", "uint32"):
        raise OptionError(
            f"TokenLayout.dtype is {layout.dtype!r}, and files with the header of llm.c have "
            "uint16 or uint32\nhint: leave dtype or header out"
        )


def check_shard_bytes(options: dict[str, Any], limit: int | None) -> None:
    """Check that a shard has room for more than its header.

    Raises:
        ValueError: If it has none.
    """
    if options.get("has_header") and limit is not None and limit <= HEADER_BYTES:
        raise OptionError(
            f"shard_bytes={limit} has no room for a token after the header of llm.c, which has "
            f"{HEADER_BYTES} bytes\nhint: raise shard_bytes, or leave TokenLayout.header out"
        )


def pair_prefix(path: str) -> str:
    """Return the path of a pair of Megatron-LM, its tokens or its index without the extension."""
    return re.sub(r"\.(idx|bin)$", "", path)


def columns_of_pairs(dataset: Dataset) -> list[str]:
    """Return the columns with all that the pairs of a data set hold.

    By default, a data set has no lengths of sequences.
    """
    return ["tokens", "sequence_lengths", *dataset.columns[1:]]


def pair_location(out: str) -> tuple[str, str]:
    """Return the directory and the name of a pair of Megatron-LM without its extensions.

    Raises:
        ValueError: If the path does not have a name.

    Examples:
        >>> pair_location("data/corpus"), pair_location("corpus.idx")
        (('data', 'corpus'), ('.', 'corpus'))
    """
    directory, name = os.path.split(pair_prefix(out))
    if not name:
        raise OptionError(
            f"out {out!r} is a directory, but a pair of Megatron-LM has a name\n"
            f"hint: pass {out + 'corpus'!r}, which writes corpus.bin and corpus.idx"
        )
    return directory or ".", name


def names_of_pair(name: str) -> re.Pattern[str]:
    """Return the pattern of the names of the files of a pair, with and without numbers."""
    return re.compile(rf"{re.escape(name)}(_\d{{5,}})?\.(bin|idx)")


def remove_provenance(out: str) -> None:
    """Remove the provenance of earlier tokens, which would be wrong for new ones."""
    if storage.size(path := f"{base_of(out)}{PROVENANCE}") is not None:
        storage.remove(path)


def begin_pairs(out: str, replaced: Iterable[str], sequences: int) -> None:
    """Prepare publishing pairs of Megatron-LM with at most ``sequences`` sequences each."""
    for path in replaced:
        # An old index of new tokens would be wrong.
        if path.endswith(".idx"):
            storage.remove(path)
    if sequences >= _MOST_SEQUENCES:
        warn_caller(
            f"a pair of {out!r} has {sequences:,} sequences, and readers of Megatron-LM "
            "number them with 32 bits\nhint: pass shard_bytes to write several pairs"
        )
