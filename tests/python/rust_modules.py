"""Which files of a crate use which: a graph of `use` declarations and paths, without those to re-exports of a parent module."""

import re
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]
_USE = re.compile(r"^\s*(?P<public>pub(?:\([^)]*\))? )?use (?P<tree>(?:crate|super|self)\b[^;]*);", re.MULTILINE)
_PATH = re.compile(r"\b(?:crate|super)(?:::\w+)+")


def module_graph(source: Path) -> dict[Module, set[Module]]:
    """The modules that each module of a crate uses."""
    files = [file for file in source.rglob("*.rs") if "tests" not in file.parts and not file.stem.endswith("tests")]
    modules = {_name(file.relative_to(source)): file for file in files}
    parents = {name[:end] for name in modules for end in range(len(name))}
    graph = {}
    for name, file in modules.items():
        if name in parents:
            continue
        used = {_resolve(name, path, modules.keys()) for path in _paths(file.read_text())}
        graph[name] = {other for other in used if other is not None} - parents - {name}
    return graph


def cycles(graph: dict[Module, set[Module]]) -> list[set[Module]]:
    """The groups of modules that all reach one another, by the path-based algorithm of Gabow (2000)."""
    order: dict[Module, int] = {}
    stack: list[Module] = []
    borders: list[Module] = []
    done: set[Module] = set()
    found: list[set[Module]] = []

    def visit(module: Module) -> None:
        order[module] = len(order)
        stack.append(module)
        borders.append(module)
        for other in graph[module]:
            if other not in order:
                visit(other)
            elif other not in done:
                while order[borders[-1]] > order[other]:
                    borders.pop()
        if borders[-1] == module:
            borders.pop()
            start = stack.index(module)
            found.append(set(stack[start:]))
            done.update(stack[start:])
            del stack[start:]

    for module in graph:
        if module not in order:
            visit(module)
    return [group for group in found if len(group) > 1]


def _name(file: Path) -> Module:
    parts = file.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def _paths(text: str) -> Iterator[list[str]]:
    text = re.sub(r"//.*", "", text.split("#[cfg(test)]\nmod tests")[0])
    for use in _USE.finditer(text):
        if not use["public"]:
            yield from _expanded([], re.sub(r"\s+|\bas \w+", "", use["tree"]))
    yield from (path.group().split("::") for path in _PATH.finditer(_USE.sub("", text)))


def _expanded(prefix: list[str], tree: str) -> Iterator[list[str]]:
    """`a::{b, c::{d}}` as the paths that it stands for."""
    depth, part = 0, ""
    for character in tree + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character != "," or depth:
            part += character
            continue
        head, brace, rest = part.partition("{")
        names = [name for name in head.split("::") if name]
        if brace:
            yield from _expanded([*prefix, *names], rest[:-1])
        else:
            yield [*prefix, *names]
        part = ""


def _resolve(module: Module, path: list[str], modules: set[Module]) -> Module | None:
    """The longest part of a path that is a module."""
    at = list(module)
    if path[0] == "crate":
        at = []
    while path and path[0] in ("crate", "self", "super"):
        at = at[:-1] if path[0] == "super" else at
        path = path[1:]
    for name in path:
        if (*at, name) not in modules:
            break
        at.append(name)
    return tuple(at) if tuple(at) in modules else None
