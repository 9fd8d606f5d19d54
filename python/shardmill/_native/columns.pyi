from collections.abc import Callable
from typing import Any, TypeAlias, final

from numpy import bool_, int64, object_
from numpy.typing import NDArray

__all__ = ["Converter", "Objects", "rows_of", "to_pylist"]

_Part: TypeAlias = NDArray[Any] | tuple[NDArray[Any], NDArray[int64], NDArray[bool_] | None] | Objects

@final
class Converter:
    def __new__(
        cls, schema: Any, kind: str, nulls: str, fill_values: dict[str, bool | int | float | str]
    ) -> Converter: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def wide_unsigned(self) -> str | None: ...
    def convert(self, batch: Any) -> list[_Part]: ...

@final
class Objects:
    def __len__(self) -> int: ...
    def to_list(self, start: int, stop: int) -> list[Any]: ...
    def to_array(self, start: int, stop: int) -> NDArray[object_]: ...

def rows_of(
    names: list[str], parts: list[Objects], decodings: list[Callable[[Any], Any] | None], start: int, stop: int
) -> list[dict[str, Any]]: ...
def to_pylist(array: Any) -> list[Any]: ...
