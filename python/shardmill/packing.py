"""Rows of tokens as packs: batches of equal length without padding between documents."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardmill._native import packing as _native
from shardmill.columns import plain_fill_values
from shardmill.dataset import Dataset, column_names
from shardmill.errors import MissingColumnError, OptionError

if TYPE_CHECKING:
    from shardmill._native import load
    from shardmill.mixture import Mixture

#: Of the algorithms: a change of which tokens stand together needs a new number, which old states refuse.
PACKING_VERSION = 1

STRATEGIES = ("concat", "best_fit", "first_fit")
LONG = ("split", "truncate", "drop", "error")

#: Lengths are 32-bit numbers in Arrow; a pack is far shorter.
_LONGEST = 2**30

#: The search for the fullest one looks at each.
_MOST_OPEN = 65536

#: A loader needs the packs of the epoch that it is in, and of the one that it was in.
_EPOCHS_KEPT = 2


@dataclass(frozen=True, init=False)
class Packing:
    """How a :class:`Loader` packs rows of tokens into rows of ``length`` tokens.

    A batch is then a dict with ``[batch_size, length]`` arrays: each packed column; ``segment_ids``, int32, which count the
    documents of a pack from 1 and are 0 behind them; ``positions``, int32, which count from 0 in each document (also where
    it goes on from an earlier pack). ``document_lengths``, int32, has the tokens of each document of each pack: a
    :class:`~shardmill.columns.Ragged`, or lists; :meth:`cu_seqlens` makes of a batch what kernels for attention over
    documents of different lengths take.

    The rows of a lane are packed one after another in the order of the epoch, and packs are dealt out to steps and ranks as
    rows are: ``batch_size``, ``tail``, ``len()`` and ``consumed`` in a state count packs. How many there are may
    differ from epoch to epoch when rows are shuffled. The last packs of a lane are short, and padded, under every ``tail``.

    Args:
        columns: a list column of tokens, or several whose lists are equally long in each row, such as tokens and labels.
        length: tokens of a pack.
        strategy: ``"concat"`` puts the tokens of all rows one after another and cuts every ``length`` tokens.
            ``"best_fit"`` keeps rows whole: each goes into the fullest open pack that has room for it, else a new one is
            opened. ``"first_fit"`` takes the pack that was opened first.
        open_packs: when as many are open, and one more is needed, the fullest is closed; not for ``"concat"``.
        long: a row with more than ``length`` tokens, not for ``"concat"``: ``"split"`` fills whole packs and packs what is
            left as if it was a row; ``"truncate"`` keeps the first tokens; ``"drop"`` leaves the row out; ``"error"``.
        lengths: a column of whole numbers that says how many tokens each row has. Otherwise the tokens are read once more,
            when the plan is made. It is compared with each row that is read.
        pad_value: behind the last document of a pack, for the first column; or a dict with values for several columns.

    Raises:
        ValueError: for an option that means nothing.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"tokens": [[1, 2, 3], [4, 5], [6, 7, 8, 9]]}), "documents.parquet")
        >>> import shardmill as sm
        >>> packing = sm.Packing("tokens", length=5)
        >>> loader = sm.Loader("documents.parquet", packing=packing, batch_size=2, output="numpy")
        >>> batch = next(iter(loader))
        >>> batch["tokens"].tolist(), batch["segment_ids"].tolist()
        ([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]], [[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]])
    """

    columns: tuple[str, ...]
    length: int
    strategy: str = "concat"
    open_packs: int | None = None
    long: str | None = None
    lengths: str | None = None
    pad_value: Any = field(default=0)

    def __init__(
        self,
        columns: str | Sequence[str],
        *,
        length: int,
        strategy: str = "concat",
        open_packs: int | None = None,
        long: str | None = None,
        lengths: str | None = None,
        pad_value: int | float | bool | Mapping[str, int | float | bool] = 0,
    ) -> None:
        names = (columns,) if isinstance(columns, str) else tuple(columns)
        if not names or not all(isinstance(name, str) for name in names):
            raise OptionError(f"columns of a Packing is a name or a list of names, not {columns!r}")
        if strategy not in STRATEGIES:
            raise OptionError(f"strategy is one of {', '.join(STRATEGIES)}, not {strategy!r}")
        if strategy == "concat":
            for name, value in (("open_packs", open_packs), ("long", long)):
                if value is not None:
                    raise OptionError(
                        f"{name} is for rows that stay whole, and strategy='concat' cuts them"
                        "\nhint: choose strategy='best_fit'"
                    )
        else:
            open_packs = _whole("open_packs", 64 if open_packs is None else open_packs, _MOST_OPEN)
            long = "split" if long is None else long
            if long not in LONG:
                raise OptionError(f"long is one of {', '.join(LONG)}, not {long!r}")
        if lengths is not None and not isinstance(lengths, str):
            raise OptionError(f"lengths is the name of a column, not {lengths!r}")
        values = {
            "columns": names,
            "length": _whole("length", length, _LONGEST),
            "strategy": strategy,
            "open_packs": open_packs,
            "long": long,
            "lengths": lengths,
            "pad_value": dict(pad_value) if isinstance(pad_value, Mapping) else pad_value,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def cu_seqlens(self, batch: Mapping[str, Any]) -> Any:
        """Where documents begin in the flattened batch, as flash attention takes it: ``cu_seqlens``, int32.

        What a pack has behind its last document counts as one document more, so the numbers go from 0 to
        ``packs * length``. For a batch of ``output="torch"`` or ``"numpy"``.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"tokens": [[1, 2, 3], [4, 5], [6, 7, 8, 9]]}), "documents.parquet")
            >>> import shardmill as sm
            >>> packing = sm.Packing("tokens", length=5)
            >>> loader = sm.Loader("documents.parquet", packing=packing, batch_size=2, output="numpy")
            >>> packing.cu_seqlens(next(iter(loader))).tolist()
            [0, 3, 5, 9, 10]
        """
        import numpy

        segments, documents = batch["segment_ids"], batch["document_lengths"]
        lengths, offsets = _on_host(documents["values"]), _on_host(documents["offsets"])
        packs, length = segments.shape
        starts = numpy.arange(packs, dtype=numpy.int64) * length
        ends = numpy.cumsum(lengths)
        before = numpy.concatenate(([0], ends))[offsets]
        # What is filled up in the packs in front shifts the documents behind.
        shift = numpy.repeat(starts - before[:-1], offsets[1:] - offsets[:-1])
        bounds = numpy.unique(numpy.concatenate((starts, ends + shift, [packs * length]))).astype(numpy.int32)
        if isinstance(segments, numpy.ndarray):
            return bounds
        import torch  # pyright: ignore[reportMissingImports] - an extra

        return torch.from_numpy(bounds).to(segments.device)


def _on_host(values: Any) -> Any:
    import numpy

    return numpy.asarray(values.cpu() if hasattr(values, "cpu") else values, dtype=numpy.int64)


def _whole(name: str, value: Any, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or not 1 <= number <= most:
        raise OptionError(f"{name} is a whole number from 1 to {most:,}, not {value!r}")
    return number


def packed_columns(packing: Any, columns: Sequence[str] | None, fill_values: Any) -> list[str]:
    """The columns that a loader delivers of packs.

    Raises:
        ValueError: for what is no packing, and options that packs have no place for.
    """
    if not isinstance(packing, Packing):
        raise OptionError(f"packing is a shardmill.Packing, not {packing!r}")
    if fill_values:
        raise OptionError("fill_values are for columns that are not packed\nhint: give the Packing a pad_value")
    packed = list(packing.columns)
    if columns is not None and set(column_names(columns)) != set(packed):
        raise OptionError(
            f"columns={list(columns)!r} with a packing of {packed!r}: a pack holds tokens of several rows, so a value of a row "
            "has no place in it\nhint: leave columns out; Packing([…]) takes several columns whose lists are equally long"
        )
    return packed


class PackedRows:
    """The packs of a loader, epoch by epoch. What costs a pass over the tokens is found when it is needed, and once.

    Args:
        packing: what the user asked for.
        dataset: whose rows are packed.
        nulls: the policy of the loader: with "fill", a null list is an empty row.
        threads: that plan the packs of a shuffled epoch.
    """

    def __init__(self, packing: Packing, dataset: Dataset | Mixture, *, nulls: str, threads: int) -> None:
        if nulls not in ("error", "fill"):
            raise OptionError(f"packed rows have nulls='error', or 'fill' for empty rows in their place, not {nulls!r}")
        self.packing, self._dataset = packing, dataset
        self._nulls_are_empty, self._threads = nulls == "fill", threads
        self._plans: dict[int, load.RowPlan] = {}
        self._rows: load.RowPlan | None = None
        self.column_numbers = dataset._numbers_of(list(packing.columns))
        self._lengths_number = None if packing.lengths is None else dataset._numbers_of([packing.lengths])
        self.columns = self._pack_columns()

    def converter(self, *, kind: str, is_padded: bool) -> load.OutputConverter:
        """Makes batches of packs."""
        from shardmill._native import load

        return load.OutputConverter.of_packs(self.columns, kind=kind, is_padded=is_padded)

    def of_epoch(self, rows: load.RowPlan, epoch: int) -> load.RowPlan:
        """The plan of the packs of an epoch of ``rows``, which has the order."""
        if rows is not self._rows:
            self._rows, self._plans = rows, {}
        plan = self._plans.get(epoch)
        if plan is None:
            packing = self.packing
            plan = _native.packed(
                rows,
                self.columns,
                self._lengths(),
                epoch=epoch,
                length=packing.length,
                strategy=packing.strategy,
                open_packs=packing.open_packs or 1,
                long=packing.long or "split",
                threads=self._threads,
            )
            while len(self._plans) >= _EPOCHS_KEPT:
                del self._plans[next(iter(self._plans))]
            self._plans[epoch] = plan
        return plan

    def identity(self) -> dict[str, Any]:
        """What a state has to agree about: all that decides which tokens stand together."""
        packing = self.packing
        return {
            "version": PACKING_VERSION,
            "column": packing.columns[0],
            "length": packing.length,
            "strategy": packing.strategy,
            "open_packs": packing.open_packs,
            "long": packing.long,
            "lengths_digest": self._lengths().digest,
        }

    def _lengths(self) -> _native.Lengths:
        is_stated = self._lengths_number is not None
        numbers = self.column_numbers if self._lengths_number is None else self._lengths_number
        # A folder without files has no columns, and no rows to look at. What a column states is not null.
        return self._dataset.token_lengths.of_column(
            numbers[0] if numbers else 0,
            is_stated=is_stated,
            nulls_are_empty=self._nulls_are_empty and not is_stated,
        )

    def _pack_columns(self) -> _native.PackColumns:
        packing = self.packing
        pads = packing.pad_value
        if not isinstance(pads, dict):
            # Zero is what every type has, and a column of booleans too.
            pads = {packing.columns[0]: pads} if pads else {}
        for name in pads:
            if name not in packing.columns:
                raise MissingColumnError(
                    f"pad_value names column {name!r}, and those that are packed are {', '.join(packing.columns)}"
                )
        return _native.PackColumns(
            self._dataset._native,
            columns=self.column_numbers,
            length=packing.length,
            pad_values=plain_fill_values(pads),
            nulls_are_empty=self._nulls_are_empty,
        )

    def __getstate__(self) -> dict[str, Any]:
        # The files are opened anew where this is unpickled.
        return {**self.__dict__, "columns": None, "_plans": {}, "_rows": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.columns = self._pack_columns()
