"""Which files of a crate use which: a graph of `use` declarations and paths.

A path leads to the file that defines its last known name, through re-exports of `mod.rs`. So a
`mod.rs` is used where one of its own items is.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]
_USE = re.compile(r"^\s*(?P<public>pub(?:\([^)]*\))? )?use (?P<tree>[^;]*);", re.MULTILINE)
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
_DECLARED = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE)


def module_graph(source: Path) -> dict[Module, set[Module]]:
    """The modules that each module of a crate uses.

    `mod.rs` and `lib.rs` have the names of their directories.
    """
    files = [
        file
        for file in source.rglob("*.rs")
        if "tests" not in file.parts and not file.stem.endswith("tests")
    ]
    texts = {_name(file.relative_to(source)): _code(file) for file in files}
    exports = {name: _exports(name, text, texts.keys()) for name, text in texts.items()}
    graph: dict[Module, set[Module]] = {}
    for name, text in texts.items():
        used = {_resolve(name, path, exports) for path in _paths(text, name, texts.keys())}
        graph[name] = {other for other in used if other is not None} - {name}
    return graph


def cycles(graph: dict[Module, set[Module]]) -> list[set[Module]]:
    """The groups of modules that all reach one another, by Gabow's path-based algorithm (2000)."""
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


def arrows_back_up(graph: dict[Module, set[Module]]) -> int:
    """The uses between rooms of a crate that no order of the rooms makes point down.

    The order puts rooms one above the other. A room is a file or a directory at the top
    of the crate.
    """
    arrows = Counter(
        (module[0], other[0])
        for module, used in graph.items()
        for other in used
        if module and other and module[0] != other[0]
    )
    rooms: dict[Module, set[Module]] = {(room,): set() for arrow in arrows for room in arrow}
    for room, other in arrows:
        rooms[(room,)].add((other,))
    return sum(_least_against([room for (room,) in circle], arrows) for circle in cycles(rooms))


def _least_against(rooms: list[str], arrows: Counter[tuple[str, str]]) -> int:
    """The number of arrows against the best order.

    By dynamic programming over the sets of lower rooms.
    """
    least = {frozenset[str](): 0}
    for size in range(len(rooms)):
        for lower in map(frozenset, itertools.combinations(rooms, size)):
            for room in set(rooms) - lower:
                # What `room` uses and is not below it yet.
                against = sum(
                    arrows[room, other] for other in rooms if other not in lower and other != room
                )
                above = lower | {room}
                least[above] = min(least.get(above, against + least[lower]), against + least[lower])
    return least[frozenset(rooms)]


def _name(file: Path) -> Module:
    parts = file.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def _code(file: Path) -> str:
    return re.sub(r"//.*", "", file.read_text().split("#[cfg(test)]\nmod tests {")[0])


def _exports(name: Module, text: str, modules: set[Module]) -> dict[str, list[str]]:
    """The names that a module re-exports, with the paths that they stand for."""
    exports = {}
    for use in _USE.finditer(text):
        if use["public"]:
            for path in _expanded([], re.sub(r"\s+", " ", use["tree"])):
                shown = path[-1].split(" as ")
                exports[shown[-1].strip()] = [part.split(" as ")[0].strip() for part in path]
    return exports


def _paths(text: str, name: Module, modules: set[Module]) -> Iterator[list[str]]:
    for use in _USE.finditer(text):
        if not use["public"]:
            for path in _expanded([], re.sub(r"\s+|\bas \w+", "", use["tree"])):
                if path[0] in ("crate", "super", "self") or (*name, path[0]) in modules:
                    yield path
    rest = _DECLARED.sub("", _USE.sub("", text))
    yield from (path.group().split("::") for path in _PATH.finditer(rest))


def _expanded(prefix: list[str], tree: str) -> Iterator[list[str]]:
    """`a::{b, c::{d}}` as the paths that it stands for."""
    depth, part = 0, ""
    for character in tree + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character != "," or depth:
            part += character
            continue
        head, brace, rest = part.partition("{")
        names = [name.strip() for name in head.split("::") if name.strip()]
        if brace:
            yield from _expanded([*prefix, *names], rest.rstrip()[:-1])
        elif names != ["self"] or not prefix:
            yield [*prefix, *names]
        else:
            yield prefix
        part = ""


def _resolve(
    module: Module, path: list[str], exports: dict[Module, dict[str, list[str]]], depth: int = 8
) -> Module | None:
    """The module that defines what a path leads to."""
    at = list(module)
    if path[0] == "crate":
        at = []
    while path and path[0] in ("crate", "self", "super"):
        at = at[:-1] if path[0] == "super" else at
        path = path[1:]
    for index, name in enumerate(path):
        if (*at, name) in exports:
            at.append(name)
        elif (known := exports.get(tuple(at), {}).get(name)) and depth:
            inner = [*known, *path[index + 1 :]]
            if inner[0] in ("crate", "self", "super") or (*at, inner[0]) in exports:
                return _resolve(tuple(at), inner, exports, depth - 1)
            return None
        else:
            break
    return tuple(at) if tuple(at) in exports else None
