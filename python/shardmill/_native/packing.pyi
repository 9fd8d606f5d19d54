from typing import Any, final

from shardmill._native.load import Dataset, Outlet, Pass, RowPlan

__all__ = ["Lengths", "PackColumns", "PackPlan"]

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

@final
class PackPlan:
    def __new__(
        cls,
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
    ) -> PackPlan: ...
    @property
    def num_places(self) -> int: ...
    def steps_left(self, consumed: int, share: dict[str, Any]) -> int: ...
    def batches_left(self, consumed: int, share: dict[str, Any]) -> int: ...
    def end(self, consumed: int, share: dict[str, Any]) -> int: ...
    def start(
        self,
        outlet: Outlet,
        share: dict[str, Any],
        *,
        epoch: int,
        consumed: int,
        threads: int,
        prefetch_bytes: int,
        stride: int = 1,
        on_bad_rows: str = "raise",
        is_audited: bool = False,
    ) -> Pass: ...
    def audit(self, epoch: int, start: int, end: int, share: dict[str, Any]) -> tuple[int, int, int]: ...
    def explain(self, epoch: int, step: int, share: dict[str, Any], columns: list[int]) -> dict[str, Any]: ...
