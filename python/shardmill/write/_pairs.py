"""Merges pairs of Megatron-LM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardmill._extras import pyarrow_for
from shardmill._native import storage
from shardmill.errors import FormatError, PlanError
from shardmill.storage._paths import PathLike, served_path
from shardmill.write._output import exists_hint
from shardmill.write._token_layout import columns_of_pairs, pair_prefix


def is_pair(path: PathLike) -> bool:
    """Return whether a path names a pair: its prefix, its tokens or its index."""
    return storage.size(f"{_prefix(path)}.idx") is not None


def merged_pairs(out: str, parts: Sequence[PathLike]) -> list[str]:
    """Write the documents of pairs, in this order, to the pair ``out``; return its path."""
    from shardmill.data._dataset import Dataset
    from shardmill.write._copied_provenance import copied_provenance
    from shardmill.write._writer import Writer

    pyarrow_for("sm.merge of pairs of Megatron-LM")
    pairs: list[Any] = []
    for part in parts:
        if not is_pair(part):
            raise PlanError(
                f"the part {served_path(part)!r} is not a pair of Megatron-LM, and others are\n"
                "hint: pass the paths of pairs without .bin and .idx"
            )
        tokens = f"{_prefix(part)}.bin"
        columns = columns_of_pairs(Dataset(tokens, format="megatron"))
        pairs.append(Dataset(tokens, format="megatron", columns=columns))
    first = pairs[0]
    for pair in pairs:
        for what, of in (("tokens of", _dtype), ("the columns", _columns)):
            if of(pair) != of(first):
                raise FormatError(
                    f"the parts differ: {pair.files[0]!r} has {what} {of(pair)}, "
                    f"{first.files[0]!r} {of(first)}\n"
                    "hint: `shardmill convert --to megatron --stored-dtype` stores other types"
                )
    with exists_hint(f"merge into another path, or remove {_prefix(out)}.bin and .idx"):
        writer = Writer(out, format="megatron")
    # The provenance is published after the tokens.
    with copied_provenance(out, pairs, format="megatron"), writer:
        for pair in pairs:
            writer.write_batch(pair)
    return writer.files


def _prefix(path: PathLike) -> str:
    return pair_prefix(served_path(path).rstrip("/"))


def _dtype(pair: Any) -> str:
    return pair.schema.field("tokens").metadata[b"tokens.dtype"].decode()


def _columns(pair: Any) -> str:
    return ", ".join(pair.columns)
