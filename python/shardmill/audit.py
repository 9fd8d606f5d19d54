"""Sums over the rows that were delivered, to prove that two runs saw the same."""

from __future__ import annotations

from dataclasses import dataclass

_MODULUS = 2**128


@dataclass(frozen=True)
class Audit:
    """What was delivered, as three numbers that add up over ranks and over the sessions of a run.

    Attributes:
        rows: how many.
        set: sum of the xxHash3 (128 bits) of each row's id: equal for the same rows, in whatever order.
        sequence: sum of the xxHash3 of each row's id together with its place in the sequence of global batches: equal only for the
            same rows at the same places.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> import shardmill as sm
        >>> first = sm.Loader("ten.parquet", batch_size=4, output="numpy", shuffle=True, audit=True)
        >>> batches = iter(first)
        >>> _ = next(batches)
        >>> resumed = sm.Loader("ten.parquet", batch_size=4, output="numpy", shuffle=True, audit=True)
        >>> resumed.load_state_dict(first.state_dict())
        >>> _ = list(resumed)
        >>> first.audit() + resumed.audit() == first.expected_audit()
        True
    """

    rows: int = 0
    set: int = 0
    sequence: int = 0

    def __add__(self, other: Audit) -> Audit:
        return Audit(
            self.rows + other.rows, (self.set + other.set) % _MODULUS, (self.sequence + other.sequence) % _MODULUS
        )

    def __str__(self) -> str:
        return f"{self.rows} rows, set {self.set:032x}, sequence {self.sequence:032x}"
