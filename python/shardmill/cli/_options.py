"""Types of option values: ranges, sizes, lists."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from shardmill._native import formats
from shardmill._sizes import byte_count
from shardmill.cli._messages import is_quiet
from shardmill.errors import OptionError
from shardmill.storage._configure import configure_all
from shardmill.storage._paths import is_remote


class Place(click.ParamType):
    """A path or URL, as it was typed.

    The shell completes names of files, or of directories only.
    """

    name = "path"

    def __init__(self, *, is_directory: bool = False) -> None:
        self._kind = "dir" if is_directory else "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path unchanged."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Leave the completion of names to the shell."""
        return [CompletionItem(incomplete, type=self._kind)]


PATH, DIRECTORY = Place(), Place(is_directory=True)


class Range(click.ParamType):
    """``MIN:MAX``; a missing side is unlimited."""

    name = "MIN:MAX"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Return both numbers, in order."""
        low, colon, high = value.partition(":")
        try:
            bounds = (float(low) if low.strip() else 0.0, float(high) if high.strip() else math.inf)
        except ValueError:
            bounds = (math.nan, math.nan)
        if not colon or not bounds[0] <= bounds[1]:
            self.fail(
                f"{value!r} is not a range; "
                "write MIN:MAX with MIN not above MAX, such as 1:2 or 0.5:",
                param,
                ctx,
            )
        return bounds


class Size(click.ParamType):
    """A number of bytes: ``128MB``, ``64MiB`` or ``1000000``."""

    name = "SIZE"

    def __init__(self, *, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes."""
        if value == "0" and self._least == 0:
            return 0
        try:
            return byte_count(value, param.name or "size" if param else "size")
        except OptionError:
            self.fail(f"{value!r} is not a size; write 128MB, 64MiB or 1000000", param, ctx)


class JsonObject(click.ParamType):
    """A JSON object."""

    name = "JSON"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        """Return the object as a dict."""
        try:
            parsed = json.loads(value)
        except ValueError as error:
            self.fail(f"{value!r} is not JSON: {error}", param, ctx)
        if not isinstance(parsed, dict):
            self.fail(f"{value!r} is not a JSON object, such as '{{\"name\": 1}}'", param, ctx)
        return parsed


class Names(click.ParamType):
    """Comma-separated names."""

    name = "NAME,NAME,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names; empty parts are not allowed."""
        return tuple(name.strip() for name in value.split(",") if name.strip())


class TypedNames(click.ParamType):
    """Comma-separated names, each optionally followed by ``=`` and a type."""

    name = "NAME[=TYPE],…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str | None]:
        """Return the types by name, in order; ``None`` if no type was given."""
        types: dict[str, str | None] = {}
        last = ""
        for part in (part.strip() for part in value.split(",") if part.strip()):
            name, equals, of = (text.strip() for text in part.partition("="))
            shaped = types.get(last)
            # The sizes of an array are separated by commas as well: ndarray:float32:2,3
            if part.isdigit() and shaped is not None and shaped.count(":") == 2:
                types[last] = f"{shaped},{part}"
                continue
            if not name or (equals and not of):
                self.fail(f"{part!r} is neither a name nor NAME=TYPE", param, ctx)
            last = name
            types[name] = of or None
        return types


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


#: A whole number, from 0 or from 1 on.
FROM_0: dict[str, Any] = {"type": click.IntRange(min=0), "metavar": "N", "show_default": True}
FROM_1: dict[str, Any] = FROM_0 | {"type": click.IntRange(min=1)}


def one_of(*names: str) -> dict[str, Any]:
    """Declare a choice of these names; the first one is the default."""
    return {"type": click.Choice(names), "default": names[0], "show_default": True}


def options_of(kind: type[Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return those options of a command that a class of options has, under the same names."""
    return {field.name: options[field.name] for field in fields(kind) if field.name in options}


def together(*options: Decorator) -> Decorator:
    """Combine options that several commands share, in this order."""
    return lambda function: functools.reduce(
        lambda made, option: option(made), reversed(options), function
    )


def paths_argument(metavar: str) -> Decorator:
    """Declare the paths of a command."""
    return click.argument("paths", nargs=-1, required=True, type=PATH, metavar=metavar)


#: Whether tars are read past their end marker.
ignore_zeros_option = click.option(
    "--ignore-zeros",
    is_flag=True,
    help="Read tars that were joined by cat up to their last member, as tar -i does.",
)


def refuse(names: set[str], reason: str) -> None:
    """Check that none of these options is given.

    Raises:
        click.UsageError: If one of them is given.
    """
    context = click.get_current_context()
    for option in context.command.params:
        if (
            option.name in names
            and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        ):
            raise click.UsageError(f"{option.opts[0]} {reason}")


def parameters(*declared: Decorator) -> set[str]:
    """Return the names of the parameters that options declare."""
    command = click.command()(together(*declared)(lambda: None))
    return {option.name or "" for option in command.params}


#: How the JSON of a tar sample is to be read.
sample_options = together(
    click.option(
        "--texts-field",
        default="texts",
        metavar="NAME",
        show_default=True,
        help="Key of the list of texts.",
    ),
    click.option(
        "--images-field",
        default="images",
        metavar="NAME",
        show_default=True,
        help="Key of the list of images.",
    ),
    click.option(
        "--sample-id-field",
        metavar="NAME",
        help="Key of the id; else the member's name without its extension.",
    ),
    click.option(
        "--image-member-field",
        metavar="NAME",
        help="Key that names the member for entries that name none.",
    ),
    ignore_zeros_option,
)

threads_option = click.option(
    "--threads", **FROM_1, help="Number of threads; default: one per core."
)

#: Whether a bar is shown.
progress_option = click.option(
    "--progress/--no-progress",
    default=True,
    callback=lambda _ctx, _parameter, value: value and not is_quiet(),
    help="Show a progress bar on a terminal if the work takes longer than two seconds.",
)

#: Whether the result is a JSON document.
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write the result as JSON to stdout."
)


def write_json(result: Any) -> None:
    """Write a JSON document to stdout."""
    click.echo(json.dumps(result, indent=2, ensure_ascii=False))


def storage_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the object stores of remote paths."""

    @functools.wraps(function)
    def configured(*, storage_option: tuple[str, ...], **given: Any) -> Any:
        texts = [
            text
            for value in given.values()
            for text in (value if isinstance(value, tuple) else (value,))
        ]
        _configure(
            [text for text in texts if isinstance(text, str) and is_remote(text)], storage_option
        )
        return function(**given)

    option = click.option(
        "--storage-option",
        multiple=True,
        metavar="NAME=VALUE",
        help="Option for the store of s3:// and other remote paths, such as region=eu-west-1; "
        "may be repeated. Pass credentials in the environment.",
    )
    return option(configured)


def limit_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for the largest decoded size of one value, line, page or member."""

    @functools.wraps(function)
    def limited(*, max_decoded_bytes: int | None, **given: Any) -> Any:
        if max_decoded_bytes is not None:
            formats.set_max_decoded_bytes(max_decoded_bytes)
        return function(**given)

    option = click.option(
        "--max-decoded-bytes",
        type=Size(),
        metavar="SIZE",
        help="Reject a value, line, page or member with a larger decoded size; default: 1 GiB.",
    )
    return option(limited)


#: A parameter with its value, as Python writes them; calls are not for the command line. A note
#: that names the option already is dropped.
_ASSIGNED = re.compile(
    r"[\w.]+\([^()]*\)"
    r"""|(?<![\w./`-])(\w+)=('[^']*'|"[^"]*"|\{[^}]*\}|\[[^]]*\]|\w+|…)?"""
    r"(?: of sm\.\w+)?(?: \(--[\w-]+\))?"
)
#: An option with its values; only the first one has lost its quotes.
_CHOICES = re.compile(r'--[\w-]+ \w+(?:, "\w+")* or "\w+"')
#: The name of a parameter of several words, not quoted.
_NAMED = re.compile(r"(?<![\w./`'\"-])([a-z]+(?:_[a-z]+)+)\b(?![`'\"=.(/])(?: \(--[\w-]+\))?")


def with_options(message: str, command: click.Command) -> str:
    """Return a message with the options of the command in place of parameters of Python.

    A parameter for which the command has no option stays as it is.
    """
    options = _by_parameter(command)

    def assigned(found: re.Match[str]) -> str:
        name, value = found.groups()
        return options[name] + _as_argument(value or "") if name in options else found.group()

    def named(found: re.Match[str]) -> str:
        return options.get(found[1]) or found.group()

    message = _ASSIGNED.sub(assigned, message)
    told, *hints = _CHOICES.sub(lambda found: found[0].replace('"', ""), message).split("\nhint: ")
    return "\nhint: ".join([told, *(_NAMED.sub(named, hint) for hint in hints)])


def _by_parameter(command: click.Command) -> dict[str, str]:
    """Return the options of a command by the names that parameters have in Python."""
    options = {}
    for option in command.params:
        if isinstance(option, click.Option):
            longest = max(option.opts, key=len)
            names = {option.name or "", longest.lstrip("-").replace("-", "_")}
            options |= dict.fromkeys(
                names | ({f"{name}s" for name in names} if option.multiple else set()), longest
            )
    return options


def _as_argument(value: str) -> str:
    """Return a value of Python as it follows an option. A flag has none."""
    if value in ("", "True"):
        return ""
    if value[0] == "{":
        return f" '{value}'"
    return " " + ",".join(part.strip(" '\"") for part in value.strip("[]").split(","))


def _configure(paths: list[str], settings: tuple[str, ...]) -> None:
    options = {name: value for name, _, value in (setting.partition("=") for setting in settings)}
    nameless = next((setting for setting in settings if "=" not in setting.lstrip("=")), None)
    if nameless is not None:
        # The value may be a secret without its name, so it is not shown.
        raise click.UsageError("a --storage-option is not NAME=VALUE")
    if options and not paths:
        raise click.UsageError("--storage-option requires paths of object stores; these are local")
    configure_all(paths, options)
