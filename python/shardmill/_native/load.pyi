from typing import Any, final

__all__ = ["ORDER_VERSION", "Dataset", "Outlet", "Pass", "RowPlan"]

ORDER_VERSION: int

@final
class Dataset:
    def __new__(
        cls,
        paths: list[str],
        *,
        format: str | None = None,
        hive: bool = False,
        filter: str | None = None,
        schema: Any | None = None,
        bad_lines: str = "error",
        skip_bad_files: bool = False,
        threads: int = 1,
    ) -> Dataset: ...
    @staticmethod
    def of_table(
        schema: Any,
        columns: list[tuple[int, list[str]]],
        files: list[tuple[str, str, list[tuple[int, Any]], list[int]]],
        *,
        filter: str | None = None,
        threads: int = 1,
    ) -> Dataset: ...
    @property
    def format(self) -> str | None: ...
    def schema(self, columns: list[int]) -> Any: ...
    @property
    def column_names(self) -> list[str]: ...
    def column_numbers(self, names: list[str]) -> list[int]: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def files(self) -> list[tuple[str, str, int, int]]: ...
    @property
    def skipped(self) -> list[tuple[str, str]]: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def file_digests(self) -> list[str]: ...

@final
class Outlet:
    def __new__(
        cls,
        dataset: Dataset,
        *,
        columns: list[int],
        kind: str,
        nulls: str,
        fill_values: dict[str, Any],
        is_padded: bool,
        is_filtered: bool,
    ) -> Outlet: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def schema(self) -> Any: ...
    @property
    def wide_unsigned(self) -> str | None: ...

@final
class RowPlan:
    def __new__(cls, dataset: Dataset, *, filter: str | None = None, threads: int = 1) -> RowPlan: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def decoded_bytes(self) -> int: ...
    def ordered(self, *, window_bytes: int | None, seed: int, lanes: int) -> RowPlan: ...
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
    def row(self, id: int, columns: list[int]) -> list[Any]: ...
    def take(self, ids: list[int], columns: list[int]) -> Any: ...

@final
class Pass:
    def next_slab(
        self, stall_seconds: float, on_stall: Any
    ) -> tuple[Any, list[int], list[int], list[tuple[int, str, int, str]], list[tuple[int, int, int]]] | None: ...
    def stop(self) -> None: ...
    def metrics(self) -> dict[str, float]: ...
