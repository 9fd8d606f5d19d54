"""Checks of the options of a packing, and of what is packed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shardmill._option_values import whole
from shardmill._warnings import warn_caller
from shardmill.data._tokenize import Tokenize
from shardmill.errors import MissingColumnError, OptionError
from shardmill.load._blend import Blend
from shardmill.load._mixture import Mixture

if TYPE_CHECKING:
    from shardmill.data._sequences import Sequences
    from shardmill.load._packing import Packing

#: Positions of packs, counted over all epochs, must fit in 63 bits.
_MOST_PACKS = 2**62

#: Arrow list lengths are 32-bit; a pack is far shorter.
LONGEST = 2**30


#: The options of how many images a pack holds.
BUDGETS = ("max_images", "max_patches")

#: Images and patches of a pack are counted in 32 bits.
_MOST_IMAGES = 2**32 - 2

#: The options of what is inside a pack, with the values that change nothing.
INSIDE: Mapping[str, int | bool] = {
    "multiple_of": 1,
    "overlap": 0,
    "next_token": False,
    "across": False,
}


def column_names(option: str, columns: Any, *, is_optional: bool = True) -> tuple[str, ...]:
    """Return the names in ``columns``, which is a name or several names; or none if optional.

    Raises:
        ValueError: If it is anything else.
    """
    is_list = isinstance(columns, Iterable) and not isinstance(columns, str)
    names: tuple[Any, ...] = tuple(columns) if is_list else (columns,)
    if not (names or is_optional) or not all(isinstance(name, str) for name in names):
        raise OptionError(f"columns of {option} must be a name or a list of names, not {columns!r}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise OptionError(f"column {twice[0]!r} is packed twice\nhint: name each column once")
    return names


def checked_inside(length: int, strategy: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that decide what is inside a pack of ``length`` tokens.

    Raises:
        ValueError: If one contradicts another, the length or the strategy.
    """
    multiple_of = whole("multiple_of", given["multiple_of"], 1)
    overlap = whole("overlap", given["overlap"], 0, 1)
    if length % multiple_of:
        below = length // multiple_of * multiple_of
        raise OptionError(
            f"length={length} is not a multiple of multiple_of={multiple_of}\n"
            f"hint: set length to {f'{below} or ' if below else ''}{below + multiple_of}"
        )
    if given["across"] and not given["next_token"]:
        raise OptionError(
            "across requires next_token=True, without which a label is that of its own token\n"
            "hint: set next_token=True, or omit across"
        )
    others = {
        f"strategy={strategy!r}": strategy != "concat",
        "length=1": length == 1,
        f"multiple_of={multiple_of}": multiple_of > 1,
        "next_token=True": given["next_token"],
    }
    for other, is_given in others.items():
        if overlap and is_given:
            raise OptionError(
                f"overlap=1 cannot be combined with {other}\n"
                "hint: omit overlap; next_token=True gives the last token of a pack a label too"
            )
    inside = {"multiple_of": multiple_of, "overlap": overlap}
    return {name: given[name] for name in INSIDE} | inside


def checked_budgets(given: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the most images and patches of a pack.

    Raises:
        ValueError: If one is not a number, or no pack is planned from images.
    """
    for name in BUDGETS:
        if given[name] is not None and given["lengths"] is not None:
            raise OptionError(
                f"{name} cannot be combined with lengths={given['lengths']!r}, a column that says "
                "nothing about images\nhint: omit lengths; tokens and images are then counted"
            )
    return {
        name: None if given[name] is None else whole(name, given[name], 1, _MOST_IMAGES)
        for name in BUDGETS
    }


def epoch_packs_of(plan: Any, length: int, packs: int | None, tokens: int | None) -> int | None:
    """Return the number of packs of an epoch; ``None`` with ``plan="epoch"``.

    Raises:
        ValueError: If an option is missing, or does not apply to the plan.
    """
    given = [
        name
        for name, value in (("epoch_packs", packs), ("epoch_tokens", tokens))
        if value is not None
    ]
    if plan == "epoch":
        if given:
            raise OptionError(
                f"{given[0]} requires plan='ahead'; with plan='epoch', an epoch contains each row "
                "once"
                f"\nhint: use plan='ahead', or omit {given[0]}"
            )
        return None
    if len(given) > 1:
        raise OptionError(
            "epoch_packs and epoch_tokens are mutually exclusive\nhint: omit one of them"
        )
    if packs is not None:
        return whole("epoch_packs", packs, 1, _MOST_PACKS)
    if tokens is not None:
        return -(-whole("epoch_tokens", tokens, 1, _MOST_PACKS) // length)
    raise OptionError(
        "plan='ahead' requires epoch_packs or epoch_tokens, since its lanes never end"
        "\nhint: set epoch_packs to the number of packs after which an epoch ends"
    )


def refuse_bad_rows(bad_rows: str) -> None:
    """Check that bad rows raise an error, because packs need every row.

    Raises:
        ValueError: If bad rows are left out or replaced.
    """
    if bad_rows != "raise":
        raise OptionError(
            "packs are planned from the lengths of all rows, so every row must be readable"
            "\nhint: use ErrorPolicy(rows='raise'), or load without packing"
        )


def warn_of_joined(sources: Iterable[Tokenize | Sequences | None]) -> None:
    """Warn if packs join documents without a separating token, which is rarely intended."""
    for source in sources:
        if source is None or source.bos is not None or source.eos is not None:
            continue
        if source.messages is not None or (
            isinstance(source, Tokenize)
            and (not source.text or source.function is not None or source.add_special_tokens)
        ):
            continue
        warn_caller(
            "packs join documents without a token between them, because "
            f"{type(source).__name__} has neither bos nor eos"
        )
        return


def cuts(packing: Packing) -> bool:
    """Return whether a packing cuts rows."""
    return packing.strategy == "concat" or packing.long in ("split", "truncate")


def check_images(packing: Packing, has_images: bool) -> None:
    """Check that images of documents are not cut, and that only documents are limited by images.

    Raises:
        ValueError: If a document could be cut inside of an image, or has no images to count.
    """
    if not has_images:
        for name in BUDGETS:
            if getattr(packing, name) is not None:
                raise OptionError(
                    f"{name}={getattr(packing, name)} limits the images of documents, and this "
                    "data set has none\n"
                    f"hint: pass sm.Dataset(…, sequences=sm.Sequences(images=…)), or omit {name}"
                )
        return
    if packing.overlap:
        raise OptionError(
            "overlap=1 would repeat a token of an image without the image\n"
            "hint: omit overlap; next_token=True gives the last token of a pack a label too"
        )
    if packing.lengths is not None and cuts(packing):
        option = "strategy" if packing.strategy == "concat" else "long"
        raise OptionError(
            f"{option}={getattr(packing, option)!r} cuts documents outside of their images, and "
            f"lengths={packing.lengths!r} says nothing about images\n"
            "hint: omit lengths, or use strategy='best_fit' with long='drop' or 'raise'"
        )


def check_sources(mixture: Mixture, columns: Sequence[str], shares: Blend) -> None:
    """Check that every source that is drawn has the packed columns.

    Otherwise, nulls would take the place of tokens, with another length than other columns.

    Raises:
        KeyError: If a source lacks a column that another source has.
    """
    for number, (name, source) in enumerate(mixture.sources.items()):
        if not shares.is_drawn(number) or not source.files:
            continue
        for column in columns:
            # A column may be a path into a struct.
            top = column if column in mixture.columns else column.partition(".")[0]
            if top in mixture.columns and top not in source.columns:
                raise MissingColumnError(
                    f"source {name!r} has no column {column!r}, which is packed, and other sources "
                    "have it"
                    '\nhint: pack columns that every source has; labels="all" of Tokenize computes '
                    "labels"
                )
