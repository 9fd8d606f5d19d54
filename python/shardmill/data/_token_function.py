"""Tokens that a user function computes from record batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from shardmill.data._arrow import as_pyarrow
from shardmill.data._type_names import type_name
from shardmill.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TokenFunction:
    """A function that computes tokens from record batches.

    Attributes:
        function: called with a ``pyarrow.RecordBatch``. Returns a dict that maps
            ``Tokenize.output``, and ``Labels.output`` with ``labels="function"``, to a list of
            lists. It holds the GIL and may be called from several threads.
        version: change it whenever the results of the function change. It also stands for the
            arguments of a ``functools.partial`` and for the attributes of an object. Counts of
            other versions are not used. States of other versions are rejected with packing; without
            packing they are loaded with a warning.

    Raises:
        ValueError: If ``function`` is not callable, or ``version`` is not a string.

    Examples:
        >>> import shardmill as sm
        >>> def code_points(batch):
        ...     words = batch["word"].to_pylist()
        ...     return {"tokens": [[ord(letter) for letter in word] for word in words]}
        >>> sm.Tokenize("word", function=sm.TokenFunction(code_points, version="1")).outputs
        ['tokens']
    """

    function: Callable[[Any], Mapping[str, Any]]
    version: str

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError(f"TokenFunction.function must be callable, not {self.function!r}")
        if not isinstance(self.version, str):
            raise OptionError(
                "TokenFunction.version must be a string that changes "
                f"when the results of the function change, not {self.version!r}"
            )


def token_lists(
    function: Callable[[Any], Any], types: Mapping[str, str], batch: Any
) -> list[pa.Array]:
    """Call a function with a record batch, and return Arrow arrays of its lists.

    Args:
        function: returns a mapping with a list of lists for each output.
        types: the type of the values of each output.
        batch: the record batch.

    Raises:
        TypeError: If the function returns something else.
    """
    import pyarrow as pa

    result = function(as_pyarrow(batch))
    if not isinstance(result, Mapping) or any(name not in result for name in types):
        found = list(result) if isinstance(result, Mapping) else type(result).__name__
        raise TypeError(f"the function must return a dict with {' and '.join(types)}, not {found}")
    kinds = {
        name: pa.list_(pa.field("item", pa.type_for_alias(of), nullable=False))
        for name, of in types.items()
    }
    return [_integers(name, pa.array(result[name]), kind) for name, kind in kinds.items()]


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, of the one that a partial calls, or of a class.

    The class is that of an object that can be called.
    """
    while isinstance(function, partial):
        function = function.func
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _integers(name: str, lists: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists with the type of tokens or labels.

    A conversion of floats by pyarrow would truncate them.
    """
    import pyarrow as pa

    values = getattr(lists.type, "value_type", lists.type)
    if not (pa.types.is_integer(values) or pa.types.is_null(values)):
        raise TypeError(
            f"the function must return lists of integers as {name!r}, not {type_name(lists.type)}"
        )
    return lists.cast(kind)
