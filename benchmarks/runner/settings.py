"""The keys of a benchmark file, checked: what is misspelt is an error, not a default.

Enters: the mapping of ``configuration``. Leaves: ``Settings``. Called by ``benchmarks.run``.

Keys beyond those of NeMo Curator's runner: ``python`` (interpreter of an entry), ``check`` (a script that runs
after an entry, outside its time, and whose JSON is added to the metrics), ``prepare`` (scripts that run before all
entries), ``caches`` (``warm``, ``cold`` or ``unchanged``), and ``x-…`` (ignored, a place for YAML anchors).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from benchmarks.runner.errors import ConfigurationError

CACHES = ("warm", "cold", "unchanged")
_PATH_KEYS = ("results_path", "datasets_path", "model_weights_path")
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class RaySettings:
    """What an entry may take of the machine when it starts Ray."""

    num_cpus: int | None = None
    num_gpus: int | None = None
    enable_object_spilling: bool = False

    def __post_init__(self) -> None:
        for name in ("num_cpus", "num_gpus"):
            value = getattr(self, name)
            # A value from the environment arrives as text.
            if isinstance(value, str) and value.isdigit():
                object.__setattr__(self, name, int(value))
            elif value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                msg = f"ray.{name} must be a whole number, not {value!r}"
                raise ConfigurationError(msg)


@dataclass(frozen=True)
class Requirement:
    """A condition on one metric: a range, or one exact value."""

    metric: str
    min_value: float | None = None
    max_value: float | None = None
    exact_value: Any = None

    def __post_init__(self) -> None:
        has_range = self.min_value is not None or self.max_value is not None
        if has_range == (self.exact_value is not None):
            msg = f"requirement on {self.metric}: give either exact_value, or min_value and max_value"
            raise ConfigurationError(msg)


@dataclass(frozen=True)
class Step:
    """A script that is run but not timed.

    Attributes:
        makes: Template of the dataset that it writes; it runs only if a chosen entry, or a later step that
            runs, names this dataset. A step that makes nothing always runs.
    """

    name: str
    script: str
    args: str = ""
    python: str | None = None
    makes: str | None = None
    enabled: bool = True


@dataclass(frozen=True)
class Entry:
    """One timed process."""

    name: str
    script: str
    args: str = ""
    python: str | None = None
    enabled: bool = True
    timeout_s: float = 7200.0
    ray: RaySettings = field(default_factory=RaySettings)
    object_store_size: float = 0.5
    delete_scratch: bool = True
    check: str | None = None
    check_python: str | None = None
    sink_data: tuple[dict[str, Any], ...] = ()
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True)
class Settings:
    """A whole benchmark file."""

    paths: dict[str, str]
    datasets: dict[str, dict[str, str]]
    entries: tuple[Entry, ...]
    prepare: tuple[Step, ...] = ()
    sinks: tuple[dict[str, Any], ...] = ()
    caches: str = "unchanged"


def read_settings(configuration: dict[str, Any]) -> Settings:
    """Checks a configuration.

    Raises:
        ConfigurationError: For an unknown or missing key, a value of the wrong type, or a name given twice.
    """
    known = {*_PATH_KEYS, "paths", "datasets", "entries", "prepare", "sinks", "caches"}
    inherited = {"default_timeout_s": "timeout_s", "delete_scratch": "delete_scratch"}
    inherited["object_store_size"] = "object_store_size"
    content = {key: value for key, value in configuration.items() if not key.startswith("x-")}
    _refuse_unknown(content, known | set(inherited), "the top level")
    defaults = {entry_key: content[key] for key, entry_key in inherited.items() if key in content}
    entries = tuple(_entry(defaults | item) for item in _list_of_mappings(content, "entries"))
    steps = tuple(_record(Step, item, "a prepare step") for item in _list_of_mappings(content, "prepare"))
    _refuse_twice([entry.name for entry in entries], "entries")
    _refuse_twice([step.name for step in steps], "prepare steps")
    caches = content.get("caches", "unchanged")
    if caches not in CACHES:
        msg = f"caches is {caches!r}; expected one of {', '.join(CACHES)}"
        raise ConfigurationError(msg)
    sinks = tuple(_list_of_mappings(content, "sinks"))
    return Settings(_paths(content), _datasets(content), entries, steps, sinks, caches)


def _entry(item: dict[str, Any]) -> Entry:
    name = item.get("name", "without a name")
    where = f"entry {name}"
    nested = dict(item)
    if "ray" in nested:
        nested["ray"] = _record(RaySettings, nested["ray"], f"{where}, ray")
    nested["sink_data"] = tuple(nested.get("sink_data", ()))
    nested["requirements"] = tuple(
        _record(Requirement, requirement, f"{where}, requirements") for requirement in nested.get("requirements", ())
    )
    entry = _record(Entry, nested, where)
    if not isinstance(entry.timeout_s, int | float) or entry.timeout_s <= 0:
        msg = f"{where}: timeout_s must be a positive number, not {entry.timeout_s!r}"
        raise ConfigurationError(msg)
    return entry


def _paths(content: dict[str, Any]) -> dict[str, str]:
    old_style = {key: content[key] for key in _PATH_KEYS if key in content}
    if "paths" not in content:
        missing = [key for key in _PATH_KEYS if key not in old_style]
        if missing:
            msg = f"missing {', '.join(missing)}\nhint: give all of {', '.join(_PATH_KEYS)}, or a list of paths"
            raise ConfigurationError(msg)
        paths = old_style
    elif old_style:
        msg = f"paths and {next(iter(old_style))} cannot be combined"
        raise ConfigurationError(msg)
    else:
        items = _list_of_mappings(content, "paths")
        for item in items:
            _refuse_unknown(item, {"name", "host_path"}, "paths")
        _refuse_twice([item["name"] for item in items], "paths")
        paths = {item["name"]: item["host_path"] for item in items}
        if "results_path" not in paths:
            msg = "paths must name a results_path"
            raise ConfigurationError(msg)
    for name, path in paths.items():
        if not isinstance(path, str):
            msg = f"{name} must be a string, not {type(path).__name__}"
            raise ConfigurationError(msg)
    return paths


def _datasets(content: dict[str, Any]) -> dict[str, dict[str, str]]:
    datasets: dict[str, dict[str, str]] = {}
    items = _list_of_mappings(content, "datasets")
    _refuse_twice([item.get("name") for item in items], "datasets")
    for item in items:
        _refuse_unknown(item, {"name", "formats"}, "datasets")
        formats = _list_of_mappings(item, "formats")
        for one_format in formats:
            _refuse_unknown(one_format, {"type", "path"}, f"dataset {item['name']}")
        _refuse_twice([one_format["type"] for one_format in formats], f"dataset {item['name']}")
        datasets[item["name"]] = {one_format["type"]: one_format["path"] for one_format in formats}
    return datasets


def _record(kind: Callable[..., _Record], item: dict[str, Any], where: str) -> _Record:
    _refuse_unknown(item, {one.name for one in fields(kind)}, where)  # type: ignore[arg-type]
    try:
        return kind(**item)
    except TypeError as error:
        msg = f"{where}: {error}"
        raise ConfigurationError(msg) from error


def _list_of_mappings(content: dict[str, Any], key: str) -> list[dict[str, Any]]:
    items = content.get(key, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        msg = f"{key} must be a list of mappings"
        raise ConfigurationError(msg)
    return items


def _refuse_unknown(item: dict[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(str(key) for key in item if key not in known)
    if unknown:
        msg = f"unknown key {', '.join(unknown)} in {where}\nhint: known keys are {', '.join(sorted(known))}"
        raise ConfigurationError(msg)


def _refuse_twice(names: list[Any], where: str) -> None:
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        msg = f"{', '.join(twice)} is given more than once in {where}"
        raise ConfigurationError(msg)
