"""Checksums over the delivered rows, to prove that two runs delivered the same rows."""

from __future__ import annotations

from dataclasses import dataclass

_MODULUS = 2**128


@dataclass(frozen=True)
class Audit:
    """Checksums over delivered rows. They are additive over ranks and over the sessions of a run.

    Attributes:
        rows: number of rows.
        set: sum of the 128-bit xxHash3 of each row id. Equal for the same rows in any order.
        sequence: sum of the 128-bit xxHash3 of each row id and its position in the sequence of
            global batches. Equal only for the same rows at the same positions.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> import shardmill as sm
        >>> runtime = sm.Runtime(audit=True)
        >>> options = dict(batch_size=4, output="numpy", shuffle=True, runtime=runtime)
        >>> first = sm.Loader("ten.parquet", **options)
        >>> batches = iter(first)
        >>> _ = next(batches)
        >>> resumed = sm.Loader("ten.parquet", **options)
        >>> resumed.load_state_dict(first.state_dict())
        >>> _ = list(resumed)
        >>> first.audit() + resumed.audit() == first.expected_audit()
        True
    """

    rows: int = 0
    set: int = 0
    sequence: int = 0

    def __add__(self, other: Audit) -> Audit:
        if not isinstance(other, Audit):
            return NotImplemented
        return Audit(
            self.rows + other.rows,
            (self.set + other.set) % _MODULUS,
            (self.sequence + other.sequence) % _MODULUS,
        )

    def __str__(self) -> str:
        return f"{self.rows} rows, set {self.set:032x}, sequence {self.sequence:032x}"
