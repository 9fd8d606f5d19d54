from typing import Any, final

from shardmill._native.load import Dataset, RowPlan

__all__ = [
    "MOST_WINDOW_PACKS",
    "PACK_WINDOW_ROWS",
    "AheadPacks",
    "Lengths",
    "PackColumns",
    "batched",
    "pack_costs",
    "packed",
]

MOST_WINDOW_PACKS: int
PACK_WINDOW_ROWS: int

@final
class PackColumns:
    def __new__(
        cls,
        dataset: Dataset,
        *,
        columns: list[int],
        length: int,
        multiple_of: int,
        next_token: list[str],
        across: bool,
        pad_values: dict[str, Any],
        nulls_are_empty: bool,
    ) -> PackColumns: ...
    @property
    def row_bytes(self) -> int: ...

@final
class Lengths:
    def __new__(
        cls,
        rows: RowPlan,
        *,
        column: int,
        source: str,
        nulls_are_empty: bool,
        threads: int,
    ) -> Lengths: ...
    @property
    def digest(self) -> str: ...
    @property
    def totals(self) -> tuple[int, int, int]: ...
    @property
    def image_totals(self) -> tuple[int, int]: ...
    @property
    def warnings(self) -> list[str]: ...

def batched(
    rows: RowPlan,
    counted: list[int],
    lengths: Lengths,
    *,
    epoch: int,
    tokens: int,
    max_rows: int,
    window_rows: int,
    multiple_of: int,
    long: str,
    threads: int,
    balance: dict[str, Any] | None = None,
) -> RowPlan: ...
def pack_costs(
    packs: list[list[int]], cost: dict[str, Any], *, length: int, multiple_of: int
) -> list[int]: ...
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
    multiple_of: int,
    overlaps: bool,
    looks_ahead: bool,
    max_images: int | None,
    max_patches: int | None,
    threads: int,
    balance: dict[str, Any] | None = None,
) -> RowPlan: ...

@final
class AheadPacks:
    def __new__(
        cls,
        rows: RowPlan,
        columns: PackColumns,
        *,
        column: int,
        source: str,
        nulls_are_empty: bool,
        length: int,
        strategy: str,
        open_packs: int,
        long: str,
        multiple_of: int,
        overlaps: bool,
        looks_ahead: bool,
        max_images: int | None,
        max_patches: int | None,
        threads: int,
        starts: list[tuple[int, int, int, int]],
        balance: dict[str, Any] | None = None,
    ) -> AheadPacks: ...
    @property
    def warnings(self) -> list[str]: ...
    def reordered(
        self, rows: RowPlan, from_pass: int, starts: list[tuple[int, int, int, int]]
    ) -> AheadPacks: ...
    def of_epoch(self, rows: RowPlan, *, epoch: int, epoch_packs: int) -> RowPlan: ...
