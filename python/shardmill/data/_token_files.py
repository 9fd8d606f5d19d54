"""How files of token ids are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_kind, keep_iterated, whole
from shardmill.data._counts_directory import default_counts
from shardmill.errors import OptionError
from shardmill.storage._paths import Paths, path_list

TokenRows = Literal["documents", "sequences"]
TokenDtype = Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64"]

#: The formats whose rows are lists of tokens.
TOKEN_FORMATS = ("megatron", "datatrove", "bin", "npy")

#: Size of the header of llm.c.
HEADER_BYTES = 1024

#: The end of the name of a provenance file. Data sets leave such files out.
PROVENANCE = ".provenance.parquet"


@dataclass(frozen=True, kw_only=True)
class TokenFiles:
    r"""How files of token ids are read.

    A row is a document; its ids are the column ``tokens``. Two more columns are
    for filters, and delivered if ``columns`` names them: ``num_tokens``, from the index of the
    files, and ``sequence_lengths``, the lengths of the sequences of a document of Megatron-LM. The
    modes of its sequences, if the files have any, are the column ``modes``.

    The loss of a token of datatrove is the column ``loss_mask``.

    Files without an index are read with ``format="bin"``: those of llm.c and modded-nanogpt, which
    have a header, and those of nanoGPT, which need ``dtype``. Their rows are separated by ``bos``
    or ``eos``, and otherwise all of one length. They are found by reading a file once, and kept in
    ``counts``. What precedes the first ``bos`` or follows the last ``eos`` of a file is a row too.

    Files of OLMo-core and dolma are read with ``format="npy"`` and ``dtype``. The rows of ``X.npy``
    are those of ``X.csv.gz``. Their masks, which ``label_mask_paths`` names as in OLMo-core, are
    the column ``loss_mask``.

    Ids are int32; only stored int64 stays int64.

    Attributes:
        rows: of Megatron-LM: with ``"sequences"``, a row is what its ``IndexedDataset`` returns for
            a number.
        vocab_size: number of ids of the vocabulary. An id that is negative, or not below it, is an
            error with its file and byte.
        dtype: how a file without a header stores an id.
        bos: the id that starts a row, and belongs to it.
        eos: the id that ends a row, and belongs to it.
        row_tokens: number of tokens of a row without ``bos`` and ``eos``.
        counts: directory of the rows that were found, local or in an object store; by default that
            of the token counts of ``Tokenize``.
        label_mask_paths: files, directories or globs of the masks of ``.npy`` files: one file for
            each file of tokens, in the same order, with one bool for each token.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import struct, shardmill as sm
        >>> with open("train.bin", "wb") as file:
        ...     _ = file.write(struct.pack("<5H", 1, 2, 3, 4, 5))
        >>> with open("train.idx", "wb") as file:
        ...     _ = file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2, 3))
        ...     _ = file.write(struct.pack("<2i2q3q", 3, 2, 0, 6, 0, 1, 2))
        >>> sm.Dataset("train", token_files=sm.TokenFiles(vocab_size=6))[1]
        {'tokens': [4, 5]}
    """

    rows: TokenRows = "documents"
    vocab_size: int | None = None
    dtype: TokenDtype | None = None
    bos: int | None = None
    eos: int | None = None
    row_tokens: int = 1 << 16
    counts: str | None = None
    label_mask_paths: Paths | None = None

    def __post_init__(self) -> None:
        keep_iterated(self)
        check_fields(TokenFiles, vars(self), prefix="TokenFiles.")
        if self.vocab_size is not None:
            whole("TokenFiles.vocab_size", self.vocab_size, 1)
        for name, value in (("bos", self.bos), ("eos", self.eos)):
            if value is not None:
                whole(f"TokenFiles.{name}", value, 0)
        if self.bos is not None and self.eos is not None:
            raise OptionError(
                "TokenFiles.bos and TokenFiles.eos are mutually exclusive\n"
                "hint: a row that starts with bos and ends with eos is separated by either of them"
            )
        whole("TokenFiles.row_tokens", self.row_tokens, 1, 2**31 - 1)


def check_concerns(token_files: TokenFiles, format: str | None) -> None:
    """Check that the options say something about files of this format.

    Raises:
        ValueError: If one does not.
    """
    if format is None:
        return
    if format not in TOKEN_FORMATS:
        raise OptionError(
            f"token_files is only for files of token ids, not for {format} files\n"
            "hint: leave token_files out"
        )
    plain = TokenFiles()
    concerned = {"rows": ("megatron",), "dtype": ("bin", "npy"), "label_mask_paths": ("npy",)}
    concerned |= dict.fromkeys(("bos", "eos", "row_tokens", "counts"), ("bin",))
    for name, wanted in concerned.items():
        if format not in wanted and getattr(token_files, name) != getattr(plain, name):
            raise OptionError(
                f"TokenFiles.{name} concerns {' and '.join(wanted)} files, not {format} files\n"
                "hint: leave it out"
            )


def checked_token_files(token_files: TokenFiles | None) -> TokenFiles | None:
    """Return ``token_files``, with the directory of counts and a list of masks.

    Raises:
        ValueError: If it is not a ``TokenFiles``.
    """
    check_kind("token_files", token_files, TokenFiles, "sm.TokenFiles(vocab_size=50257)")
    if token_files is None:
        return None
    counts, masks = token_files.counts, token_files.label_mask_paths
    return replace(
        token_files,
        counts=f"{default_counts()}/token-files" if counts is None else counts,
        label_mask_paths=None if masks is None else path_list(masks),
    )


def base_of(path: str) -> str:
    """Return the path of token files without the ends of their names.

    Examples:
        >>> [base_of(path) for path in ("tokens/", "p.bin", "p.provenance.parquet")]
        ['tokens', 'p', 'p']
    """
    return re.sub(r"(\.provenance\.parquet|\.bin|\.idx)$", "", path.rstrip("/"))
