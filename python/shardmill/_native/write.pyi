from typing import Any, final

__all__ = ["RowDigest", "Writer"]

@final
class Writer:
    def __new__(
        cls,
        path: str,
        *,
        format: str,
        options: str,
        columns: list[str] | None,
        schema: Any | None,
        first_shard: int | None,
        size_limit: int,
        replaces: bool,
        threads: int,
    ) -> Writer: ...
    @property
    def rows(self) -> int: ...
    def write_record(self, record: bytes) -> None: ...
    def write_batch(self, rows: Any) -> None: ...
    def close(self) -> list[str]: ...
    def abandon(self) -> None: ...

@final
class RowDigest:
    def __new__(cls) -> RowDigest: ...
    def update(self, rows: Any) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def value(self) -> str: ...
