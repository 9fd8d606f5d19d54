"""The public surface as text: names, signatures, properties and bases.

``python tests/python/public_api.py`` writes the snapshot.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

SNAPSHOT = Path(__file__).with_name("public_api.txt")
MODULES = (
    "shardmill",
    "shardmill.arrayrecord",
    "shardmill.curate",
    "shardmill.resume",
    "shardmill.storage",
    "shardmill.integrations.accelerate",
    "shardmill.integrations.delta",
    "shardmill.integrations.grain",
    "shardmill.integrations.iceberg",
    "shardmill.integrations.lightning",
    "shardmill.integrations.megatron",
    "shardmill.integrations.open_clip",
    "shardmill.integrations.ray",
    "shardmill.integrations.ray_checkpoint",
    "shardmill.integrations.torch",
    "shardmill.integrations.transformers",
)
#: Special methods that users call by syntax.
_SYNTAX = {
    "__len__",
    "__iter__",
    "__getitem__",
    "__getitems__",
    "__enter__",
    "__exit__",
    "__contains__",
    "__add__",
}


def surface() -> str:
    """One line for each public name of each public module."""
    return "".join(f"{line}\n" for name in MODULES for line in _module(import_module(name)))


def _module(module: ModuleType) -> Iterator[str]:
    yield f"[{module.__name__}]"
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    for name in sorted(names):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield from _class(name, value)
        elif callable(value):
            yield f"{name}{_signature(value)}"
        elif not isinstance(value, ModuleType):
            yield f"{name}: {type(value).__name__}"
    yield ""


def _class(name: str, kind: type) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in kind.__bases__ if base is not object)
    is_error = issubclass(kind, BaseException)
    yield f"class {name}({bases})" + ("" if is_error else f": {_signature(kind)}")
    if is_error:
        return
    for member in sorted({name for base in kind.__mro__ for name in vars(base) if _is_ours(base)}):
        if member.startswith("_") and member not in _SYNTAX:
            continue
        value = inspect.getattr_static(kind, member)
        if isinstance(value, property):
            annotation = inspect.signature(value.fget).return_annotation if value.fget else Any
            yield f"    {member}: {annotation}"
        elif isinstance(value, classmethod | staticmethod):
            yield f"    {type(value).__name__} {member}{_signature(value.__func__)}"
        elif callable(value):
            yield f"    {member}{_signature(value)}"


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("shardmill.") and not kind.__module__.startswith(
        "shardmill._native"
    )


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):
        return "(…)"


if __name__ == "__main__":
    SNAPSHOT.write_text(surface(), encoding="utf-8")
    print(f"wrote {SNAPSHOT.name}", file=sys.stderr)
