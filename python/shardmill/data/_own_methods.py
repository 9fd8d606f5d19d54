"""Methods of a user's subclass, which native readers do not call."""

from __future__ import annotations

from collections.abc import Iterable

from shardmill.errors import OptionError

#: Methods that decide which rows a data set has, or that return rows.
_OF_ROWS = (
    "__getitem__",
    "__getitems__",
    "__iter__",
    "__len__",
    "iterate",
    "take",
    "num_rows",
    "__arrow_c_stream__",
)


def own_method(thing: object, names: Iterable[str]) -> str | None:
    """Return the first of these methods that a class outside of this package defines.

    The name has the form ``Class.method``.
    """
    for name in names:
        owner = next((kind for kind in type(thing).__mro__ if name in vars(kind)), object)
        if owner is not object and owner.__module__.partition(".")[0] != "shardmill":
            return f"{owner.__name__}.{name}"
    return None


def refuse_own_rows(data: object, reader: str) -> None:
    """Reject a data set that changes its rows in Python.

    ``reader`` would return the rows of the files.

    Raises:
        ValueError: If its class defines one of these methods. The message names it.
    """
    if method := own_method(data, _OF_ROWS):
        raise OptionError(
            f"{reader} reads the files of the data set itself, so {method} would have no effect\n"
            "hint: change batches with sm.Loader(sm.Dataset(path), transform=function), "
            "where output='rows' passes a list of rows to the function; "
            "or pass the data set to a torch DataLoader, which calls its methods for each row"
        )


def refuse_own_batches(loader: object, reader: str) -> None:
    """Reject a loader that changes its batches in ``__iter__``, for a reader that does not call it.

    Raises:
        ValueError: If its class defines ``__iter__``.
    """
    if method := own_method(loader, ["__iter__"]):
        raise OptionError(
            f"{reader} does not iterate over the loader, so {method} would have no effect"
            "\nhint: change batches with sm.Loader(…, transform=function)"
        )
