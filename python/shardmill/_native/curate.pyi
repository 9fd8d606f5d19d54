from collections.abc import Callable
from typing import Any, final

__all__ = ["Pipeline"]

@final
class Pipeline:
    def __new__(
        cls,
        spec: str,
        user_stages: list[Any],
        *,
        source_schema: Any | None = None,
        source_overrides: Any | None = None,
        sink_schema: Any | None = None,
        sink_overrides: Any | None = None,
        checkpoint: str | None = None,
        schema: str | None = None,
    ) -> Pipeline: ...
    def splits(self, threads: int) -> tuple[list[str], list[str]]: ...
    def schema(self) -> str | None: ...
    def check_names(self, splits: list[str]) -> None: ...
    def prepare(self, splits: list[str], *, is_resumed: bool) -> None: ...
    def run(self, splits: list[str], workers: int, on_report: Callable[[str], object]) -> None: ...
    def run_split(self, split: str) -> str: ...
