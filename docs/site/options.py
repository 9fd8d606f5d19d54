"""Tables of options, from signatures and docstrings.

A line ``{{ options shardmill.Loader }}`` of a page becomes a table.
"""

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

MARK = re.compile(r"^\{\{ options ([\w.]+) \}\}$", re.MULTILINE)
_LINK = re.compile(r"`([^`<]+?) <([^>]+)>`_")


def with_tables(markdown: str) -> str:
    """Put the tables into a page."""
    return MARK.sub(lambda match: option_table(match[1]), markdown)


def option_table(path: str) -> str:
    """Return the options of a class or a method. Options that a base class documents are left out.

    Raises:
        ValueError: If the docstring does not describe an option.
    """
    module, *names = re.split(r"\.(?=[A-Z]|\w+$)", path)
    target: Any = import_module(module)
    for name in names:
        target = getattr(target, name)
    described = _described(target)
    inherited = set[str]()
    for base in getattr(target, "__mro__", ())[1:-1]:
        inherited |= set(_described(base))
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for name, parameter in inspect.signature(target).parameters.items():
        if name == "self" or (name in inherited and described.get(name, "see").startswith("see")):
            continue
        if name not in described:
            raise ValueError(f"the docstring of {path} does not describe {name}")
        lines.append(
            f"| `{name}` | `{parameter.annotation}` | {_default(parameter)} | "
            f"{_line(described[name])} |"
        )
    return "\n".join(lines)


def _described(target: Any) -> dict[str, str]:
    docstring = griffe.Docstring(inspect.cleandoc(target.__doc__ or ""))
    kinds = (griffe.DocstringSectionKind.parameters, griffe.DocstringSectionKind.attributes)
    sections = docstring.parse("google", warnings=False)
    return {
        item.name: item.description
        for section in sections
        if section.kind in kinds
        for item in section.value
    }


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is parameter.empty:
        return "required"
    # A size is easier to read in the form in which a user would write it.
    is_size = parameter.name.endswith("_bytes") and isinstance(value, int) and value % 2**20 == 0
    return f'`"{value >> 20}MiB"`' if is_size else f"`{value!r}`"


def _line(description: str) -> str:
    text = " ".join(_LINK.sub(r"[\1](\2)", description.replace("``", "`")).split())
    return f"{text[0].upper()}{text[1:]}".replace("|", "\\|")
