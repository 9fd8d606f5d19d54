"""Values of options as people write them: ranges, sizes, lists."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import click

from shardmill._native import formats
from shardmill.errors import OptionError
from shardmill.sizes import byte_count
from shardmill.storage import configure_all, is_remote


class Range(click.ParamType):
    """``MIN:MAX``; a side that is left out has no limit."""

    name = "MIN:MAX"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Both numbers, in order."""
        if isinstance(value, tuple):
            return value
        low, colon, high = value.partition(":")
        try:
            bounds = (float(low) if low.strip() else 0.0, float(high) if high.strip() else math.inf)
        except ValueError:
            bounds = (math.nan, math.nan)
        if not colon or not bounds[0] <= bounds[1]:
            self.fail(f"{value!r} is no range; write MIN:MAX with MIN not above MAX, such as 1:2 or 0.5:", param, ctx)
        return bounds


class Size(click.ParamType):
    """A number of bytes: ``128MB``, ``64MiB`` or ``1000000``."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        try:
            return byte_count(value, param.name or "size" if param else "size")
        except OptionError:
            self.fail(f"{value!r} is no size; write 128MB, 64MiB or 1000000", param, ctx)


class Names(click.ParamType):
    """Names that are separated by commas."""

    name = "NAME,NAME,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names; an empty text is no name."""
        if isinstance(value, tuple):
            return value
        return tuple(name.strip() for name in value.split(",") if name.strip())


class TypedNames(click.ParamType):
    """Names that are separated by commas, each with a type behind ``=`` if it likes."""

    name = "NAME[=TYPE],…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str | None]:
        """The types by name, in order; ``None`` where none was given."""
        if isinstance(value, dict):
            return value
        types: dict[str, str | None] = {}
        last = ""
        for part in (part.strip() for part in value.split(",") if part.strip()):
            name, equals, of = (text.strip() for text in part.partition("="))
            shaped = types.get(last)
            # The sizes of an array have commas between them as well: ndarray:float32:2,3
            if part.isdigit() and shaped is not None and shaped.count(":") == 2:
                types[last] = f"{shaped},{part}"
                continue
            if not name or (equals and not of):
                self.fail(f"{part!r} is neither a name nor NAME=TYPE", param, ctx)
            last = name
            types[name] = of or None
        return types


_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def sample_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """How the JSON of a tar sample is to be read."""
    decorators: list[_Decorator] = [
        click.option(
            "--texts-field", default="texts", metavar="NAME", show_default=True, help="Key of the list of texts."
        ),
        click.option(
            "--images-field", default="images", metavar="NAME", show_default=True, help="Key of the list of images."
        ),
        click.option(
            "--sample-id-field", metavar="NAME", help="Key of the id; else the member's name without its extension."
        ),
        click.option(
            "--image-member-field", metavar="NAME", help="Key that names the member for entries that name none."
        ),
        ignore_zeros_option,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def ignore_zeros_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whether tars are read past their end marker."""
    option = click.option(
        "--ignore-zeros",
        is_flag=True,
        help="Read tars that were joined by cat up to their last member, as tar -i does.",
    )
    return option(function)


def workers_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """How many threads."""
    option = click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Files at once; else one a core.")
    return option(function)


def progress_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whether a bar is shown."""
    option = click.option(
        "--progress/--no-progress", default=True, help="Show a bar on a terminal when it takes longer than two seconds."
    )
    return option(function)


def storage_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """How the object stores of the paths among the arguments are reached."""

    @functools.wraps(function)
    def configured(*, storage_option: tuple[str, ...], **given: Any) -> Any:
        texts = [text for value in given.values() for text in (value if isinstance(value, tuple) else (value,))]
        _configure([text for text in texts if isinstance(text, str) and is_remote(text)], storage_option)
        return function(**given)

    option = click.option(
        "--storage-option",
        multiple=True,
        metavar="NAME=VALUE",
        help="Of the store of s3:// and other remote paths, such as region=eu-west-1; again for more. Keys are best left to the environment.",
    )
    return option(configured)


def limit_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The largest decoded size of one value, line, page or member."""

    @functools.wraps(function)
    def limited(*, max_decoded_bytes: int | None, **given: Any) -> Any:
        if max_decoded_bytes is not None:
            formats.set_max_decoded_bytes(max_decoded_bytes)
        return function(**given)

    option = click.option(
        "--max-decoded-bytes",
        type=Size(),
        metavar="SIZE",
        help="Refuse a value, line, page or member with a larger decoded size; default 1 GiB.",
    )
    return option(limited)


def _configure(paths: list[str], settings: tuple[str, ...]) -> None:
    options = {name: value for name, _, value in (setting.partition("=") for setting in settings)}
    nameless = next((setting for setting in settings if "=" not in setting.lstrip("=")), None)
    if nameless is not None:
        # It may be a secret whose name was forgotten.
        raise click.UsageError("a --storage-option is not NAME=VALUE")
    if options and not paths:
        raise click.UsageError("--storage-option is for paths of object stores; these are local")
    configure_all(paths, options)
