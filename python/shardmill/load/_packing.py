"""Packing rows of tokens: batches of equal length without padding between documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_kind, listed, whole
from shardmill.errors import OptionError
from shardmill.load import _varlen
from shardmill.load._balance import Balance
from shardmill.load._packing_checks import (
    LONGEST,
    checked_budgets,
    checked_inside,
    column_names,
    epoch_packs_of,
    refuse_bad_rows,
)
from shardmill.load._varlen import Per, VarlenStyle

if TYPE_CHECKING:
    from shardmill.load._options import Output

Strategy = Literal["concat", "best_fit", "first_fit"]
Long = Literal["split", "truncate", "drop", "raise"]
Plan = Literal["epoch", "ahead"]

#: The search for the fullest pack scans all open packs.
_MOST_OPEN = 65536


@dataclass(frozen=True, init=False)
class Packing:
    """How a ``Loader`` packs rows of tokens into rows of ``length`` tokens.

    A batch is then a dict with ``[batch_size, length]`` arrays: each packed column;
    ``segment_ids``, int32, which number the documents of a pack from 1 and are 0 after the last
    document; ``positions``, int32, which count from 0 in each document (also if it continues from
    an earlier pack). ``document_lengths``, int32, has the tokens of each document of each pack: a
    ``shardmill.Ragged``, or lists; ``cu_seqlens`` converts a batch to the input of variable-length
    attention kernels.

    The rows of a lane are packed in epoch order, and packs are distributed to steps and ranks like
    rows: ``batch_size``, ``tail``, ``len()`` and ``consumed`` in a state count packs. The number of
    packs may differ from epoch to epoch if rows are shuffled. The last packs of a lane are short
    and padded, with every ``tail``.

    By default, the token counts of all rows are needed before the first batch. With
    ``plan="ahead"``, lanes never end, and only the counts of the rows that are read next are
    needed. After its last row, a lane continues with its rows of the next pass, which are other
    rows if rows are shuffled. An epoch then consists of ``epoch_packs`` packs, and the next epoch
    continues where the previous one stopped.

    Args:
        columns: a list column of tokens, or several columns whose lists have equal lengths in each
            row, such as tokens and labels.
        length: number of tokens of a pack.
        strategy: ``"concat"`` concatenates the tokens of all rows and cuts every ``length`` tokens.
            ``"best_fit"`` keeps rows whole: each goes into the fullest open pack that has room for
            it, else a new pack is opened. ``"first_fit"`` uses the pack that was opened first. The
            tokens of an image are never cut: they go into the next pack as a whole, and what is
            left of a pack is padded.
        open_packs: maximum number of open packs. If one more is needed, the fullest is closed. Not
            for ``"concat"``.
        long: what happens to a row with more than ``length`` tokens; not for ``"concat"``.
            ``"split"`` fills whole packs and packs the rest like a row; ``"truncate"`` keeps the
            first tokens; ``"drop"`` drops the row; ``"raise"`` raises. Rows with images are cut
            between images, and parts that do not fill a pack are packed like rows. An image that no
            pack has room for is left out of its document, if rows are cut;
            ``LoaderMetrics.images_left_out`` counts these.
        lengths: an integer column with the number of tokens of each row. Without it, the tokens are
            read one more time to make the plan. It is compared with each row that is read.
        plan: ``"epoch"`` packs each row once per epoch, and counts all tokens first. ``"ahead"``
            counts tokens while it reads; ``"concat"`` then has no padding at the end, and other
            strategies pack 65,536 rows of a lane at a time.
        epoch_packs: number of packs in an epoch, over all ranks; only for ``plan="ahead"``.
        epoch_tokens: length of an epoch in tokens, in place of ``epoch_packs``; rounded up to whole
            packs.
        pad_value: value after the last document of a pack, for the first column; or a dict with
            values for several columns. Labels that are computed by ``tokenize`` are padded with its
            ``ignore_index``, and other labels of ``next_token`` with -100, unless the dict has a
            value for them.
        multiple_of: pads each piece of a document inside its pack to a multiple of this number of
            tokens, as context parallelism (twice the number of ranks) and FP8 require. ``length``
            must be a multiple of it. The padding has the ``segment_ids`` of the document, and
            ``positions`` continue in it; a mask from ``segment_ids`` is therefore exact only for
            causal attention. ``document_lengths`` count tokens without padding. An additional list
            column, ``padded_lengths``, includes the padding.
        overlap: with 1, each pack of a lane begins with the last token of the previous pack, so
            that a model that shifts labels itself loses no target. Only for ``"concat"``, and not
            for documents with images.
        next_token: shifts labels, for models that do not shift them. The label of a token is that
            of the next token of its row, even if that token is in another pack or cut off. At the
            last token of a row, it is the pad value. This changes the packed column ``"labels"``
            and labels that are computed by ``tokenize``. If there are no labels, a column
            ``"labels"``, int64, is made from the first column. Other columns are not shifted.
        across: the label of the last token of a document is that of the first token of the next
            document in the pack. For ``"concat"``, it is the next document in the lane, so the last
            token of a pack has a label too.
        max_images: maximum number of images in a pack of documents from ``Sequences``, which then
            go into packs with room for their tokens, their images and the patches of these.
            ``long`` also decides about a document that has more images or patches than a pack.
            ``None`` is unlimited.
        max_patches: maximum number of patches of these images, likewise. It bounds the size of
            ``pixel_values``.
        balance: order packs so that all ranks have equal work at each step; see ``Balance``.
            ``epoch_packs`` is then rounded up to a multiple of the lanes.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> table = pa.table({"tokens": [[1, 2, 3], [4, 5], [6, 7, 8, 9]]})
        >>> pq.write_table(table, "documents.parquet")
        >>> import shardmill as sm
        >>> packing = sm.Packing("tokens", length=5)
        >>> loader = sm.Loader("documents.parquet", packing=packing, batch_size=2, output="numpy")
        >>> batch = next(iter(loader))
        >>> batch["tokens"].tolist(), batch["segment_ids"].tolist()
        ([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]], [[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]])
    """

    columns: tuple[str, ...]
    length: int
    strategy: Strategy = "concat"
    open_packs: int | None = None
    long: Long | None = None
    lengths: str | None = None
    plan: Plan = "epoch"
    epoch_packs: int | None = None
    pad_value: Any = field(default=0)
    multiple_of: int = 1
    overlap: int = 0
    next_token: bool = False
    across: bool = False
    max_images: int | None = None
    max_patches: int | None = None
    balance: Balance | None = None

    def __init__(
        self,
        columns: str | Sequence[str],
        *,
        length: int,
        strategy: Strategy = "concat",
        open_packs: int | None = None,
        long: Long | None = None,
        lengths: str | None = None,
        plan: Plan = "epoch",
        epoch_packs: int | None = None,
        epoch_tokens: int | None = None,
        pad_value: int | float | bool | Mapping[str, int | float | bool] = 0,
        multiple_of: int = 1,
        overlap: int = 0,
        next_token: bool = False,
        across: bool = False,
        max_images: int | None = None,
        max_patches: int | None = None,
        balance: Balance | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        names = column_names("a Packing", columns, is_optional=False)
        check_fields(Packing, given)
        if strategy == "concat":
            for name, value in (("open_packs", open_packs), ("long", long)):
                if value is not None:
                    raise OptionError(
                        f"{name} is for strategies that keep rows whole, "
                        "and strategy='concat' cuts them\n"
                        "hint: use strategy='best_fit'"
                    )
        else:
            open_packs = whole(
                "open_packs", 64 if open_packs is None else open_packs, 1, _MOST_OPEN
            )
            long = "split" if long is None else long
        if lengths is not None and not isinstance(lengths, str):
            raise OptionError(f"lengths is the name of a column, not {lengths!r}")
        length = whole("length", length, 1, LONGEST)
        check_kind("balance", balance, Balance, "sm.Balance(sm.Cost(), per_step=4)")
        values = {
            **checked_inside(length, strategy, given),
            **checked_budgets(given),
            "columns": names,
            "length": length,
            "strategy": strategy,
            "open_packs": open_packs,
            "long": long,
            "lengths": lengths,
            "plan": plan,
            "epoch_packs": epoch_packs_of(plan, length, epoch_packs, epoch_tokens),
            "pad_value": dict(pad_value) if isinstance(pad_value, Mapping) else pad_value,
            "balance": balance,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def cu_seqlens(self, batch: Mapping[str, Any]) -> Any:
        """Return the document boundaries in the flattened batch for flash attention.

        This is ``cu_seqlens``, int32. The padding after the last document of a pack counts as one
        more document, so the values go from 0 to ``packs * length``. For batches of
        ``output="torch"`` or ``"numpy"``.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> table = pa.table({"tokens": [[1, 2, 3], [4, 5], [6, 7, 8, 9]]})
            >>> pq.write_table(table, "documents.parquet")
            >>> import shardmill as sm
            >>> packing = sm.Packing("tokens", length=5)
            >>> loader = sm.Loader(
            ...     "documents.parquet", packing=packing, batch_size=2, output="numpy"
            ... )
            >>> packing.cu_seqlens(next(iter(loader))).tolist()
            [0, 3, 5, 9, 10]
        """
        return _varlen.cu_seqlens(self, batch)

    def varlen(
        self, batch: Mapping[str, Any], *, style: VarlenStyle, max_documents: int | None = None
    ) -> Any:
        """Return the arguments of a variable-length attention kernel for the flattened batch.

        Bounds are those of ``cu_seqlens``, int32, on the device of the batch. With ``multiple_of``,
        they include the padding of documents. Lengths are Python integers, computed on the host.

        Args:
            batch: a whole batch of a loader with ``output="torch"`` or ``"numpy"``.
            style: ``"flash"`` returns a dict for ``flash_attn_varlen_func``: ``cu_seqlens_q``,
                ``cu_seqlens_k``, ``max_seqlen_q``, ``max_seqlen_k``. ``"torch"``, for
                ``torch.nn.attention.varlen``: ``cu_seq_q``, ``cu_seq_k``, ``max_q``, ``max_k``.
                ``"transformers"``, for models of transformers: ``cu_seq_lens_q``,
                ``cu_seq_lens_k``, ``max_length_q``, ``max_length_k`` and ``seq_idx``, int32
                ``[1, packs * length]``, which numbers documents from 0. ``"megatron"`` returns the
                ``PackedSeqParams`` of Megatron Core with ``qkv_format="thd"``; its ``cu_seqlens_q``
                and ``cu_seqlens_kv`` count tokens without padding. ``cu_seqlens_q_padded`` and
                ``cu_seqlens_kv_padded``, which are set only with ``multiple_of``, include it.
            max_documents: repeats the last bound up to a fixed number of documents, and returns
                ``length`` as the longest length, for CUDA graphs and ``torch.compile``. The padding
                of a pack counts as a document.

        Raises:
            ValueError: If an option is not valid, or the batch has more than ``max_documents``.
            ImportError: If Megatron Core is not installed and ``style`` requires it.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> import shardmill as sm
            >>> rows = pa.table({"tokens": [[1, 2, 3], [4, 5], [6, 7, 8, 9]]})
            >>> pq.write_table(rows, "documents.parquet")
            >>> packing = sm.Packing("tokens", length=5)
            >>> loader = sm.Loader("documents.parquet", packing=packing, output="numpy")
            >>> arguments = packing.varlen(next(iter(loader)), style="flash")
            >>> arguments["cu_seqlens_q"].tolist(), arguments["max_seqlen_q"]
            ([0, 3, 5, 9, 10], 4)
        """
        return _varlen.varlen(self, batch, style, max_documents)

    def context_parallel(
        self,
        batch: Mapping[str, Any],
        rank: int,
        size: int,
        *,
        per: Per = "document",
        labels: str | None = None,
    ) -> dict[str, Any]:
        """Return the part of a batch for one rank of context parallelism.

        Each document is cut into ``2 * size`` chunks, of which the rank takes number ``rank`` and
        number ``2 * size - 1 - rank``, so that all ranks have equal work under a causal mask. All
        arrays of the batch become ``[packs, length // size]``. Labels become those of the next
        token before they are cut, because the next token may be on another rank; the loss of the
        whole batch is therefore the sum over the ranks.

        Args:
            batch: a whole batch of a loader with ``output="torch"`` or ``"numpy"``.
            rank: the rank among those that share the batch.
            size: the number of these ranks.
            per: what is cut: ``"document"``, including the padding of a pack, for kernels that take
                documents of different lengths (THD), or ``"row"``, the whole pack.
            labels: the column of labels, ``"labels"`` by default. If the batch has no labels, they
                are made from the first column.

        Returns:
            The batch with the parts of its arrays. In place of the labels, it has ``shift_labels``,
            int64: the label of the next token in the document; at the last token, -100 or the
            ``pad_value`` of the labels. With ``next_token=True``, they are the labels of the batch.
            ``cu_seqlens`` are the bounds of the documents in the whole batch, and
            ``local_cu_seqlens`` those of their parts.

        Raises:
            ValueError: If documents or rows cannot be cut into equal chunks.
            KeyError: If the batch has no such labels.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> import shardmill as sm
            >>> rows = pa.table({"tokens": [[1, 2, 3, 4], [5, 6, 7]]})
            >>> pq.write_table(rows, "documents.parquet")
            >>> packing = sm.Packing("tokens", length=8, multiple_of=4)
            >>> loader = sm.Loader("documents.parquet", packing=packing, output="numpy")
            >>> part = packing.context_parallel(next(iter(loader)), 0, 2)
            >>> part["tokens"].tolist(), part["shift_labels"].tolist()
            ([[1, 4, 5, 0]], [[2, -100, 6, -100]])
        """
        return _varlen.context_parallel(self, batch, rank, size, per, labels)


def packed_columns(
    packing: Any, columns: Sequence[str] | None, output: Output, bad_rows: str
) -> list[str]:
    """Return the columns that a loader with packing delivers.

    Args:
        packing: the packing options.
        columns: the columns that were asked for.
        output: the output options.
        bad_rows: what happens to rows that cannot be read.

    Raises:
        ValueError: If it is not a ``Packing``, or an option cannot be combined with packing.
    """
    if not isinstance(packing, Packing):
        raise OptionError(f"packing must be a shardmill.Packing or TokenBatches, not {packing!r}")
    if output.pad is not None:
        raise OptionError(
            "pad cannot be used with packing: packs are equally long\n"
            "hint: set pad_value of the Packing"
        )
    if output.fill_values:
        raise OptionError(
            "fill_values cannot be used with packing\nhint: set pad_value of the Packing"
        )
    packed = list(packing.columns)
    if columns is not None and set(listed("columns", columns)) != set(packed):
        raise OptionError(
            f"columns={list(columns)!r} with a packing of {packed!r}: "
            "a pack holds tokens of several rows, so it cannot hold a value per row\n"
            "hint: omit columns; Packing([…]) accepts several columns whose lists are equally long"
        )
    refuse_bad_rows(bad_rows)
    if output.nulls == "mask":
        raise OptionError(
            "packing supports nulls='raise', and 'fill' for empty rows in place of nulls, "
            f"not {output.nulls!r}"
        )
    return packed
