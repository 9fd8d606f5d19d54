"""Reads a YAML file into entries: environment, matrix, templates.

An item of ``entries`` stands for each system and each combination of its ``matrix``; its name
becomes ``<name>__<system>``. ``{key}`` is a value of the matrix, ``{dataset:NAME}`` the path of a
data set, which is made when a chosen entry uses it.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_PLACE = re.compile(r"\{([a-z_]+)\}")
_DATASET = re.compile(r"\{dataset:(\w+)\}")
_KEYS = {"module", "python", "check", "timeout_s"}


class ConfigurationError(ValueError):
    """The YAML file cannot be run as it is; the message names the place."""


@dataclass(frozen=True)
class Step:
    """A module to run: an entry, or the maker of a data set.

    Attributes:
        args: Become ``--key=value``.
        check: Module that is run with the directory of the entry after its clock.
        datasets: Names of those that ``args`` point to.
    """

    name: str
    module: str
    args: Mapping[str, str]
    python: str | None = None
    check: str | None = None
    timeout_s: float = 1800.0
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """A benchmark file.

    ``paths`` and ``makers`` are those of its data sets, ``report`` is for ``benchmarks.report``.

    Attributes:
        budget_s: After this number of seconds, an entry gets one round and is not repeated.
    """

    entries: tuple[Step, ...]
    paths: Mapping[str, Path] = field(default_factory=dict)
    makers: Mapping[str, Step] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    budget_s: float = math.inf


def read_settings(path: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """Reads a file; ``${NAME:-default}`` is looked up in the environment.

    Raises:
        ConfigurationError: For an unknown key or place, a variable that is not set,
            or a name given twice.
    """
    known = os.environ if environment is None else environment

    def variable(match: re.Match[str]) -> str:
        value = known.get(match[1]) or match[2]
        if value is None:
            raise ConfigurationError(f"environment variable {match[1]} is not set")
        return value

    content = yaml.safe_load(_VARIABLE.sub(variable, path.read_text()))
    _refuse_unknown(
        content,
        {"data", "args", "datasets", "systems", "entries", "report", "budget_s", *_KEYS},
        path.name,
    )
    data = Path(content.get("data", ".")).absolute()
    sets: dict[str, dict[str, Any]] = content.get("datasets", {})
    paths = {name: data / one["path"] for name, one in sets.items()}
    makers = {
        name: _step(name, [{"args": {"out": paths[name]}}, one["make"]], {}, paths)
        for name, one in sets.items()
    }
    common = {key: content[key] for key in (*_KEYS, "args") if key in content}
    entries = []
    for item in content["entries"]:
        _refuse_unknown(item, {"name", "systems", "matrix", "args", *_KEYS}, item["name"])
        axes = item.get("matrix", {})
        for chosen, system in itertools.product(itertools.product(*axes.values()), item["systems"]):
            values: dict[str, Any] = {"system": system}
            for axis, value in zip(axes, chosen, strict=True):
                values |= value if isinstance(value, dict) else {axis: value}
            name = f"{_filled(item['name'], values)}__{system}"
            given = {"args": {"system": system, "scenario": name.partition("__")[0]}}
            entries.append(
                _step(name, [common, given, content["systems"][system] or {}, item], values, paths)
            )
    names = [entry.name for entry in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigurationError(f"{', '.join(twice)} is given more than once")
    return Settings(
        tuple(entries),
        paths,
        makers,
        content.get("report", {}),
        float(content.get("budget_s", math.inf)),
    )


def _step(
    name: str, layers: list[dict[str, Any]], values: Mapping[str, Any], paths: Mapping[str, Path]
) -> Step:
    """Later layers win, ``args`` key by key; what is null is left out."""
    args: dict[str, Any] = {
        key: value for layer in layers for key, value in layer.get("args", {}).items()
    }
    given = {key: value for layer in layers for key, value in layer.items() if key in _KEYS}
    keys: dict[str, Any] = {
        key: _filled(value, values) for key, value in given.items() if value is not None
    }
    if "module" not in keys:
        raise ConfigurationError(f"{name} names no module")
    if "timeout_s" in keys:
        keys["timeout_s"] = float(keys["timeout_s"])
    args = {key: _filled(value, values) for key, value in args.items() if value is not None}
    used = tuple(name for value in args.values() for name in _DATASET.findall(value))
    return Step(
        name,
        args={key: _filled(value, paths, _DATASET) for key, value in args.items()},
        datasets=used,
        **keys,
    )


def _filled(text: object, known: Mapping[str, Any], place: re.Pattern[str] = _PLACE) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ConfigurationError(f"unknown place {match[0]}; known: {', '.join(known)}")
        return str(known[match[1]])

    return place.sub(value, str(text))


def _refuse_unknown(item: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(item) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown key {', '.join(unknown)} in {where}; known: {', '.join(sorted(known))}"
        )
