from collections.abc import Callable

__all__ = ["inspect_files"]

def inspect_files(files: list[str], options: str, workers: int, on_inspection: Callable[[str], object]) -> None: ...
