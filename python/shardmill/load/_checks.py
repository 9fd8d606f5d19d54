"""Checks of loader options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardmill._option_values import index_of, whole
from shardmill.data._dataset import Dataset
from shardmill.data._error_policy import ErrorPolicy
from shardmill.data._own_methods import refuse_own_rows
from shardmill.errors import OptionError
from shardmill.load._mixture import Mixture
from shardmill.storage._paths import PathLike

#: Numbers are passed to native code as 64 bits.
_MOST = 2**63 - 1

#: Maximum number of lanes, also of those in a state. Each lane holds a window in memory; a run has
#: as many lanes as ranks, or a small multiple.
MOST_LANES = 2**20


def at_least(name: str, value: Any, least: int) -> int:
    """Return ``value`` as an integer.

    Raises:
        ValueError: If it is not an integer, or below ``least``.
    """
    number = index_of(value)
    if number is not None and number > _MOST:
        counted = " that counts passes over the data" if name == "epoch" else ""
        raise OptionError(
            f"{name} must be at most 2^63 - 1, not {number}\n"
            f"hint: give {name} as a 63-bit number{counted}"
        )
    return whole(name, value, least)


def dataset_of(
    data: Dataset | Mixture | PathLike | Sequence[PathLike],
    *,
    filter: Any,
    storage_options: Any,
    errors: ErrorPolicy,
    threads: int | None,
    has_columns: bool,
) -> Dataset | Mixture:
    """Return ``data`` if it is a data set, else open the data set at these paths.

    Raises:
        ValueError: If ``data`` is a data set and an option is given that belongs to the data set.
    """
    if isinstance(data, Dataset | Mixture):
        refuse_own_rows(data, "a Loader")
        given = [
            name
            for name, value in (("filter", filter), ("storage_options", storage_options))
            if value is not None
        ]
        given += [
            f"ErrorPolicy.{name}"
            for name in ("files", "lines", "pickles")
            if getattr(errors, name) != "raise"
        ]
        if given:
            owner = (
                "Dataset"
                if isinstance(data, Dataset)
                else "sources of the Mixture, each a sm.Dataset"
            )
            raise OptionError(
                f"{', '.join(given)} must be set on the {owner}\nhint: pass them there"
            )
        return data
    return Dataset(
        data,
        filter=filter,
        storage_options=storage_options,
        errors=replace(
            errors,
            rows="raise",
            max_rows=None,
            pickles="bytes" if has_columns else errors.pickles,
        ),
        threads=threads,
    )
