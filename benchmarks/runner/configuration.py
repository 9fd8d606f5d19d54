"""Reads YAML files into one mapping: deep merge, what is switched off removed, environment expanded.

Enters: paths of YAML files. Leaves: a plain mapping for ``settings``. Called by ``benchmarks.run``.
Invariant: a later file wins over an earlier one, and list items with the same ``name`` are one item.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from benchmarks.runner.errors import ConfigurationError

# Whatever YAML can hold.
Node: TypeAlias = Any

_ENVIRONMENT_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def load_configuration(paths: Sequence[Path], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the merged configuration of several files.

    Args:
        paths: At least one YAML file; later files win.
        environment: Where ``${NAME}`` is looked up; the process environment by default.

    Raises:
        ConfigurationError: If a file is no mapping, or names an environment variable that is not set and
            has no default. ``${NAME:-value}`` gives a default.
    """
    merged: Node = {}
    for path in paths:
        try:
            content = yaml.safe_load(path.read_text())
        except yaml.YAMLError as error:
            msg = f"{path} is not valid YAML: {error}"
            raise ConfigurationError(msg) from error
        if not isinstance(content, dict):
            msg = f"{path} must hold a mapping, not {type(content).__name__}"
            raise ConfigurationError(msg)
        merged = merge(merged, content)
    # Expanded last: an entry that is switched off may name a variable that is not set here.
    return expand_environment(remove_disabled(merged), os.environ if environment is None else environment)


def merge(below: Node, above: Node) -> Node:
    """Returns ``below`` overlaid with ``above``.

    Mappings merge key by key and lists of named mappings merge by name; anything else is replaced.
    """
    if isinstance(below, dict) and isinstance(above, dict):
        return {
            key: merge(below[key], above[key]) if key in below and key in above else above.get(key, below.get(key))
            for key in [*below, *(key for key in above if key not in below)]
        }
    if _is_named_list(below) and _is_named_list(above):
        overlay = {item["name"]: item for item in above}
        known = {item["name"] for item in below}
        return [merge(item, overlay.get(item["name"], {})) for item in below] + [
            item for item in above if item["name"] not in known
        ]
    return above


def remove_disabled(value: Node) -> Node:
    """Returns ``value`` without mappings that say ``enabled: false`` and without keys whose value is null."""
    if isinstance(value, dict):
        return {
            key: remove_disabled(item) for key, item in value.items() if item is not None and not _is_disabled(item)
        }
    if isinstance(value, list):
        return [remove_disabled(item) for item in value if not _is_disabled(item)]
    return value


def expand_environment(value: Node, environment: Mapping[str, str]) -> Node:
    """Returns ``value`` with ``${NAME}`` replaced in every string."""
    if isinstance(value, dict):
        return {key: expand_environment(item, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [expand_environment(item, environment) for item in value]
    if isinstance(value, str):
        return _ENVIRONMENT_VARIABLE.sub(lambda match: _variable(match, environment), value)
    return value


def _variable(match: re.Match[str], environment: Mapping[str, str]) -> str:
    found = environment.get(match["name"]) or match["default"]
    if found is None:
        msg = f"environment variable {match['name']} is not set\nhint: set it, or write ${{{match['name']}:-default}}"
        raise ConfigurationError(msg)
    return found


def _is_named_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value)


def _is_disabled(value: object) -> bool:
    return isinstance(value, dict) and value.get("enabled") is False
