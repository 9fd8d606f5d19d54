from typing import Any, final

from shardmill._native.load import Dataset, RowPlan

__all__ = ["Lengths", "PackColumns", "packed"]

@final
class PackColumns:
    def __new__(
        cls,
        dataset: Dataset,
        *,
        columns: list[int],
        length: int,
        pad_values: dict[str, Any],
        nulls_are_empty: bool,
    ) -> PackColumns: ...

@final
class Lengths:
    def __new__(
        cls, rows: RowPlan, *, column: int, is_stated: bool, nulls_are_empty: bool, threads: int
    ) -> Lengths: ...
    @property
    def digest(self) -> str: ...

def packed(
    rows: RowPlan,
    columns: PackColumns,
    lengths: Lengths,
    *,
    epoch: int,
    length: int,
    strategy: str,
    open_packs: int,
    long: str,
    threads: int,
) -> RowPlan: ...
