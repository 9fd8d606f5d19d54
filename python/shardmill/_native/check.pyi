from collections.abc import Callable
from typing import Any

__all__ = ["checkable_files", "data_formats", "inspect_files", "label_masks", "verify_files"]

def checkable_files(paths: list[str], has_dtype: bool) -> tuple[list[str], list[str]]: ...
def data_formats(paths: list[str]) -> list[str]: ...
def inspect_files(
    files: list[str],
    options: dict[str, Any],
    workers: int,
    on_file: Callable[[dict[str, Any]], object],
) -> None: ...
def label_masks(paths: list[str], masks: list[str]) -> dict[str, str]: ...
def verify_files(
    files: list[str],
    options: dict[str, Any],
    workers: int,
    on_file: Callable[[dict[str, Any]], object],
) -> None: ...
