"""Tokens that a user function computes from record batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from shardmill._extras import pyarrow_for
from shardmill.data._arrow import as_pyarrow
from shardmill.data._type_names import type_name

if TYPE_CHECKING:
    import pyarrow as pa


class TokenFunction:
    """Calls a function and returns Arrow arrays of its lists.

    Args:
        function: takes a record batch, and returns a mapping with a list of lists for each output.
        outputs: names of the tokens, and of the labels if there are any.
        dtype: type of the tokens, ``"int32"`` or ``"int64"``; labels are int64.
    """

    def __init__(self, function: Callable[[Any], Any], outputs: list[str], dtype: str) -> None:
        # Says it now instead of in a thread that tokenizes.
        pyarrow_for("Tokenize with a function")
        self._function, self._outputs, self._types = function, outputs, [dtype, "int64"]

    def __call__(self, batch: Any) -> list[pa.Array]:
        """Return the lists of a record batch.

        Raises:
            TypeError: If the function returns something else.
        """
        import pyarrow as pa

        result = self._function(as_pyarrow(batch))
        if not isinstance(result, Mapping) or any(name not in result for name in self._outputs):
            found = list(result) if isinstance(result, Mapping) else type(result).__name__
            raise TypeError(f"the function must return a dict with {' and '.join(self._outputs)}, not {found}")
        types = [pa.list_(pa.field("item", pa.type_for_alias(name), nullable=False)) for name in self._types]
        lists = zip(self._outputs, types, strict=False)
        return [_integers(name, pa.array(result[name]), kind) for name, kind in lists]


def name_of(function: Callable[[Any], Any]) -> str:
    """Return the name of a function, of the one that a partial calls, or of the class of an object that can be called."""
    while isinstance(function, partial):
        function = function.func
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _integers(name: str, lists: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists with the type of tokens or labels. A conversion of floats by pyarrow would truncate them."""
    import pyarrow as pa

    values = getattr(lists.type, "value_type", lists.type)
    if not (pa.types.is_integer(values) or pa.types.is_null(values)):
        raise TypeError(f"the function must return lists of integers as {name!r}, not {type_name(lists.type)}")
    return lists.cast(kind)
