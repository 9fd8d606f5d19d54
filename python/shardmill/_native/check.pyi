from collections.abc import Callable
from typing import Any

__all__ = ["checkable_files", "data_formats", "inspect_files", "verify_files"]

def checkable_files(paths: list[str], has_dtype: bool) -> tuple[list[str], list[str]]: ...
def data_formats(paths: list[str]) -> list[str]: ...
def inspect_files(
    files: list[str],
    options: dict[str, Any],
    workers: int,
    on_file: Callable[[dict[str, Any]], object],
) -> None: ...
def verify_files(
    files: list[str],
    options: dict[str, Any],
    workers: int,
    on_file: Callable[[dict[str, Any]], object],
) -> None: ...
