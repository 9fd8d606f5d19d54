"""Batches by length: rows of about equal length, up to a number of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_filled, check_kind, listed, whole
from shardmill.errors import OptionError
from shardmill.load._balance import Balance
from shardmill.load._packing_checks import LONGEST, column_names, refuse_bad_rows

if TYPE_CHECKING:
    from shardmill.load._options import Output

LongRow = Literal["raise", "truncate", "drop"]

#: The entry of a batch with the length of each row.
LENGTHS = "lengths"

_MOST_ROWS = 2**32 - 1


@dataclass(frozen=True, init=False)
class TokenBatches:
    """How a ``Loader`` makes batches of rows of about equal length, with little padding.

    Pass it as ``packing``. Rows are not joined. The rows of a lane, in epoch order, are cut into
    windows. The rows of a window are sorted by length and cut into batches. Padded to the longest
    row, a batch has at most ``tokens`` tokens. Batches come in random order, so their lengths do
    not depend on their position.

    A batch is a dict with an array ``[rows, longest]`` for each of ``columns``. All other columns
    are as without ``TokenBatches``. ``lengths``, ``[rows]``, has the number of tokens of each row,
    as int32, or as float32 if the column of lengths has floats. ``tokens_of_rank`` and
    ``tokens_of_step`` are the tokens of the batch, and of the batches of all ranks at the same
    step. They can be used to weight a loss.

    Batches are distributed to steps and ranks like rows, one to each rank. Omit ``batch_size``.
    ``tail``, ``len()`` and ``consumed`` in a state count batches. All ranks take the same number of
    steps. With ``tail="pad"``, a rank may repeat a batch in the last step. Such a batch has
    ``tokens_of_rank`` 0, and ``tokens_of_step`` does not count it. If rows are shuffled, the number
    of batches may differ from epoch to epoch.

    The lengths of all rows are needed before the first batch. A rank keeps the rows of one window
    of each of its lanes in memory, and of two while it changes to the next window.

    Args:
        columns: list columns that are padded to the longest row of a batch. Without ``lengths``,
            the lists of a row must be equally long. With it, ``columns`` may be empty.
        tokens: maximum number of tokens in a batch, including padding; in the unit of ``lengths``.
        max_rows: maximum number of rows in a batch.
        window_rows: number of consecutive rows of a lane that are sorted together. Larger windows
            need less padding, and more memory.
        multiple_of: the padded length is rounded up to a multiple of this number of tokens; 8 by
            default, or 1 if ``tokens`` is less than 8. Not for lengths that are floats.
        lengths: a column of integers or floats with the length of each row, such as seconds of
            audio. Without it, the lists of the first column are read one more time to make the
            plan. With it, a batch also has ``<column>__length``, int32, for each padded column.
        long: what happens to a row with more than ``tokens`` tokens, rounded down to
            ``multiple_of``. ``"raise"`` raises; ``"truncate"`` keeps the first tokens of each
            padded column; ``"drop"`` drops the row.
        pad_value: as for ``Packing``.
        balance: order batches so that all ranks have equal work at each step; see ``Balance``. Its
            ``window_packs`` and ``per_step`` then count batches. The cost of a batch is that of its
            rows. Each counts with the length of the longest row; with ``count_padding=False``, with
            its own.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> table = pa.table({"id": range(4), "tokens": [[1, 2, 3], [4], [5, 6, 7], [8, 9]]})
        >>> pq.write_table(table, "documents.parquet")
        >>> import shardmill as sm
        >>> packing = sm.TokenBatches("tokens", tokens=6, multiple_of=1)
        >>> loader = sm.Loader("documents.parquet", packing=packing, output="numpy")
        >>> for batch in loader:
        ...     print(batch["tokens"].tolist(), batch["id"].tolist(), batch["lengths"].tolist())
        [[4, 0], [8, 9]] [1, 3] [1, 2]
        [[1, 2, 3], [5, 6, 7]] [0, 2] [3, 3]
    """

    columns: tuple[str, ...]
    tokens: int = 65_536
    max_rows: int | None = None
    window_rows: int = 65_536
    multiple_of: int | None = None
    lengths: str | None = None
    long: LongRow = "raise"
    pad_value: Any = field(default=0)
    balance: Balance | None = None

    def __init__(
        self,
        columns: str | Sequence[str],
        *,
        tokens: int = 65_536,
        max_rows: int | None = None,
        window_rows: int = 65_536,
        multiple_of: int | None = None,
        lengths: str | None = None,
        long: LongRow = "raise",
        pad_value: int | float | bool | Mapping[str, int | float | bool] = 0,
        balance: Balance | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        names = column_names("TokenBatches", columns)
        check_filled("lengths", lengths, is_optional=True)
        if not names and lengths is None:
            raise OptionError(
                "TokenBatches without columns requires lengths\n"
                "hint: name the list columns to pad, or the column with the lengths of rows"
            )
        check_fields(TokenBatches, given)
        tokens = whole("tokens", tokens, 1, LONGEST)
        multiple_of = None if multiple_of is None else whole("multiple_of", multiple_of, 1)
        if (multiple_of or 1) > tokens:
            raise OptionError(
                f"multiple_of={multiple_of} is more than tokens={tokens}\n"
                "hint: set tokens to the number of tokens of a batch"
            )
        check_kind("balance", balance, Balance, "sm.Balance(sm.Cost(), per_step=4)")
        values = {
            **given,
            "columns": names,
            "tokens": tokens,
            "max_rows": None if max_rows is None else whole("max_rows", max_rows, 1, _MOST_ROWS),
            "window_rows": whole("window_rows", window_rows, 1, _MOST_ROWS),
            "multiple_of": multiple_of,
            "pad_value": dict(pad_value) if isinstance(pad_value, Mapping) else pad_value,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def batched_columns(
    packing: TokenBatches,
    columns: Sequence[str] | None,
    every: Sequence[str],
    output: Output,
    bad_rows: str,
) -> list[str]:
    """Return the columns that a loader with batches by length delivers.

    Args:
        packing: the options of the batches.
        columns: the requested columns.
        every: all columns of the data set.
        output: the output options.
        bad_rows: what happens to rows that cannot be read.

    Raises:
        ValueError: If an option cannot be combined with batches by length.
    """
    if output.kind not in ("torch", "numpy"):
        raise OptionError(
            f"TokenBatches requires output='torch' or 'numpy', not {output.kind!r}\n"
            "hint: lists of other kinds of batches are not padded"
        )
    if output.pad is not None:
        raise OptionError(
            "pad cannot be used with TokenBatches, which pads its columns\n"
            "hint: set pad_value of the TokenBatches, and name the columns to pad there"
        )
    refuse_bad_rows(bad_rows)
    asked = list(every) if columns is None else listed("columns", columns)
    if missing := [name for name in packing.columns if columns is not None and name not in asked]:
        raise OptionError(
            f"columns={asked!r} has no {missing[0]!r}, which TokenBatches pads\n"
            "hint: add it, or omit columns"
        )
    # Batches have this entry already.
    return [name for name in asked if not name == packing.lengths == LENGTHS]
