"""The documents of a batch of packs, for attention kernels and context parallelism."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from shardmill._choices import check_choice
from shardmill._option_values import whole
from shardmill.errors import MissingColumnError, OptionError

if TYPE_CHECKING:
    import numpy

    from shardmill.load._packing import Packing

VarlenStyle = Literal["flash", "megatron", "transformers", "torch"]
Per = Literal["document", "row"]

#: The column of labels, unless another one is named.
LABELS = "labels"

#: The label that losses ignore.
IGNORED = -100


@dataclass(frozen=True)
class Documents:
    """The documents of a batch in order. The padding at the end of a pack is one more document.

    Attributes:
        tokens: tokens of each document, int64; 0 for the padding of a pack.
        room: the same with the padding inside documents; the sum is the size of the batch.
        packs: number of packs.
    """

    tokens: numpy.ndarray
    room: numpy.ndarray
    packs: int

    @classmethod
    def of(cls, batch: Mapping[str, Any], length: int) -> Documents:
        """Return the documents of a batch.

        Raises:
            ValueError: If the batch is not a whole batch of packs of ``length`` tokens.
        """
        import numpy

        from shardmill.load._nested import Ragged
        from shardmill.load._selection import on_host

        found = batch if isinstance(batch, Mapping) else {}
        lists, segments = found.get("document_lengths"), found.get("segment_ids")
        shape = tuple(getattr(segments, "shape", ()))
        if not isinstance(lists, Ragged) or shape != (len(lists), length):
            raise OptionError(
                f"the batch does not consist of arrays with packs of {length} tokens\n"
                "hint: pass a whole batch of a Loader with this packing and output='torch' or "
                "'numpy'"
            )
        offsets = on_host(lists.offsets)
        tokens, room = (
            on_host(one.values).astype(numpy.int64)
            for one in (lists, found.get("padded_lengths", lists))
        )
        ends = numpy.concatenate(([0], room.cumsum()))[offsets]
        tokens = numpy.insert(tokens, offsets[1:], 0)
        room = numpy.insert(room, offsets[1:], length - numpy.diff(ends))
        return cls(tokens[room > 0], room[room > 0], len(lists))


def bounds_of(lengths: numpy.ndarray) -> numpy.ndarray:
    """Return cumulative lengths, starting with 0, as int32."""
    import numpy

    return numpy.concatenate(([0], lengths.cumsum())).astype(numpy.int32)


def beside(array: numpy.ndarray, other: Any) -> Any:
    """Return ``array`` as a tensor on the device of ``other``, or unchanged if that is an array."""
    import numpy

    if isinstance(other, numpy.ndarray):
        return array
    import torch  # pyright: ignore[reportMissingImports] - an extra

    return torch.from_numpy(array).to(other.device)


def cu_seqlens(packing: Packing, batch: Mapping[str, Any]) -> Any:
    """See ``Packing.cu_seqlens``."""
    return beside(bounds_of(Documents.of(batch, packing.length).room), batch["segment_ids"])


def varlen(
    packing: Packing, batch: Mapping[str, Any], style: VarlenStyle, max_documents: int | None
) -> Any:
    """See ``Packing.varlen``."""
    import numpy

    check_choice("style", style, VarlenStyle)
    documents = Documents.of(batch, packing.length)
    count, longest = len(documents.room), int(documents.room.max(initial=0))
    if max_documents is not None:
        if count > whole("max_documents", max_documents, 1):
            raise OptionError(
                f"max_documents={max_documents}, but the batch has {count} documents; the padding "
                "at the end of a pack counts as one\n"
                f"hint: set max_documents to at least {count}"
            )
        # A captured kernel is started for the longest document that it may meet.
        longest = packing.length

    def bounds(lengths: numpy.ndarray) -> Any:
        more = 0 if max_documents is None else max_documents - count
        return beside(numpy.pad(bounds_of(lengths), (0, more), mode="edge"), batch["segment_ids"])

    places = bounds(documents.room)
    if style == "flash":
        return _each("qk", cu_seqlens_=places, max_seqlen_=longest)
    if style == "torch":
        return _each("qk", cu_seq_=places, max_=longest)
    if style == "transformers":
        numbers = numpy.repeat(numpy.arange(count, dtype=numpy.int32), documents.room)[None]
        return {
            **_each("qk", cu_seq_lens_=places, max_length_=longest),
            "seq_idx": beside(numbers, batch["segment_ids"]),
        }
    # Kernels expect tokens in every document, so the padding of a pack counts as such.
    tokens = numpy.where(documents.tokens > 0, documents.tokens, documents.room)
    has_padding = "padded_lengths" in batch
    return _packed_seq_params(
        qkv_format="thd",
        **_each(("q", "kv"), cu_seqlens_=bounds(tokens), max_seqlen_=longest),
        **_each(("q_padded", "kv_padded"), cu_seqlens_=places if has_padding else None),
        total_tokens=documents.packs * packing.length,
    )


def context_parallel(
    packing: Packing, batch: Mapping[str, Any], rank: int, size: int, per: Per, labels: str | None
) -> dict[str, Any]:
    """See ``Packing.context_parallel``."""
    import numpy

    check_choice("per", per, Per)
    size = whole("size", size, 1)
    rank = whole("rank", rank, 0, size - 1)
    documents = Documents.of(batch, packing.length)
    packs, length = documents.packs, packing.length
    parts = documents.room if per == "document" else numpy.full(packs, length)
    wrong = parts[parts % (2 * size) > 0]
    if size > 1 and wrong.size:
        what, option = "document", f"multiple_of={2 * size}"
        if per == "row":
            what, option = "pack", f"a length that is a multiple of {2 * size}"
        raise OptionError(
            f"a {what} of {wrong[0]} tokens cannot be cut into {2 * size} equal chunks, two for "
            f"each of {size} ranks\n"
            f"hint: give the Packing {option}"
        )
    places = _zigzag(parts, rank, size) if size > 1 else numpy.arange(packs * length)
    name, target = _labels(packing, batch, labels)
    columns = {other: value for other, value in batch.items() if other != name}
    pads = packing.pad_value if isinstance(packing.pad_value, dict) else {}
    columns["shift_labels"] = (
        target if packing.next_token else _shifted(target, documents, pads.get(name, IGNORED))
    )
    taken, bounds = beside(places, batch["segment_ids"]), bounds_of(documents.room)
    return {
        **{
            other: value.reshape(-1)[taken].reshape(packs, -1)
            if tuple(getattr(value, "shape", ())) == (packs, length)
            else value
            for other, value in columns.items()
        },
        "cu_seqlens": beside(bounds, taken),
        "local_cu_seqlens": beside(numpy.searchsorted(places, bounds).astype(numpy.int32), taken),
    }


def _each(ends: Iterable[str], **values: Any) -> dict[str, Any]:
    """Return each value under its name with each of ``ends`` appended."""
    return {f"{name}{end}": value for name, value in values.items() for end in ends}


def _packed_seq_params(**values: Any) -> Any:
    """Return the values as an object of Megatron Core.

    Raises:
        ImportError: If Megatron Core is not installed.
    """
    try:
        kind = import_module("megatron.core.packed_seq_params").PackedSeqParams
    except ImportError as error:
        raise ImportError(
            "style='megatron' requires megatron.core\nhint: pip install megatron-core"
        ) from error
    # Versions up to 0.16 have no ``total_tokens``.
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})


def _zigzag(parts: numpy.ndarray, rank: int, size: int) -> numpy.ndarray:
    """Return the indices of chunks ``rank`` and ``2 * size - 1 - rank`` of each part, ascending.

    With a causal mask, all ranks have equal work, as with ``thd_get_partitioned_indices`` of
    Transformer Engine, and with https://github.com/zhuzilin/ring-flash-attention.
    """
    import numpy

    starts, chunks = parts.cumsum() - parts, parts // (2 * size)
    begins = numpy.stack((starts + rank * chunks, starts + (2 * size - 1 - rank) * chunks), axis=1)
    chunks = chunks.repeat(2)
    return numpy.arange(chunks.sum()) + (begins.ravel() - (chunks.cumsum() - chunks)).repeat(chunks)


def _labels(packing: Packing, batch: Mapping[str, Any], named: str | None) -> tuple[str, Any]:
    """Return the labels of a batch and their name. If there are none, the tokens are the labels.

    Raises:
        KeyError: If there is no such column, or none with the labels of the next token.
    """
    name = named or LABELS
    if name in batch:
        return name, batch[name]
    if named is None and not packing.next_token:
        return name, batch[packing.columns[0]]
    raise MissingColumnError(
        f"the batch has no column {name!r}, it has {', '.join(batch)}\n"
        "hint: labels= names the column of labels"
    )


def _shifted(labels: Any, documents: Documents, ignored: int) -> Any:
    """Return the label of the next token of the same document, int64, or ``ignored``."""
    import numpy

    starts = documents.room.cumsum() - documents.room
    size = labels.reshape(-1).shape[0]
    in_document = numpy.arange(size) - starts.repeat(documents.room)
    has_next = in_document + 1 < documents.tokens.repeat(documents.room)
    if isinstance(labels, numpy.ndarray):
        return numpy.where(
            has_next, numpy.roll(labels.ravel(), -1).astype(numpy.int64), ignored
        ).reshape(labels.shape)
    import torch  # pyright: ignore[reportMissingImports] - an extra

    following = labels.reshape(-1).roll(-1).long()
    return torch.where(beside(has_next, labels), following, ignored).reshape(labels.shape)
