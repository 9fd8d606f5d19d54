"""Errors for unknown options. They say what to use instead, also for names of other libraries."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import wraps
from inspect import getattr_static, signature
from operator import attrgetter
from types import FunctionType
from typing import Any

#: What replaces the names that users of other libraries type most: an option, wherever it is, or a
#: sentence. docs/guides/coming-from.md has more names.
_REPLACEMENTS = {
    "num_workers num_proc": "threads: native threads replace worker processes",
    "persistent_workers worker_init_fn": "remove it: native threads replace worker processes",
    "prefetch_factor predownload": "prefetch_bytes: prefetching is limited by size in bytes",
    "timeout": "stall_seconds, which warns about late batches",
    "drop_last": 'tail="drop"',
    "collate_fn": (
        'use output="rows", transform=…: the function gets a list of samples, each a dict'
    ),
    "sampler batch_sampler": "use shuffle=, filter= or sm.Mixture, and rank= and world_size=",
    "generator shuffle_seed": "seed",
    "buffer_size": "window_bytes",
    "num_replicas": "world_size",
    "streams": "sources",
    "epoch_size": "epoch_rows",
    "probabilities": "weights",
    "epochs": "write a loop around the loader: each pass over it is one epoch",
    "max_steps": (
        "iterate over loader.steps(n), which returns the next n batches, also across epochs"
    ),
    "split": 'name its files, such as "data/train-*.parquet"',
    "data_files local remote": "pass the path first, local or remote",
    "filesystem token cache_dir": "storage_options",
    "features": "schema",
    "sep": "delimiter",
    "max_length truncation": "use packing=sm.Packing(…, length=…), or output=sm.Output(pad=…)",
    "size_limit": 'shard_bytes, such as "64MiB": a new file begins at this size',
    "exist_ok overwrite": 'mode="overwrite", which replaces the existing output',
    "decoder": (
        "remove it: libjpeg-turbo decodes every JPEG, "
        "because decoders in Rust give other pixels than Pillow"
    ),
    "row_group_size": "remove it: the size of row groups is limited in bytes",
    "map": "transform: a function that is called with each batch",
    "batch": "batch_size",
    "labels_output": "use labels=sm.Labels(…, output=…)",
    "to_pandas": "pass the data set itself, as in pa.table(dataset) or pl.DataFrame(dataset)",
}

#: Calls that may have an option that a call of these classes lacks.
_CALLS = {
    **dict.fromkeys(
        ("Dataset", "Loader", "Mixture", "Shuffle"),
        (
            "sm.Loader(…, runtime=sm.Runtime({}))",
            "sm.Loader(…, output=sm.Output({}))",
            "sm.Loader(…, shuffle=sm.Shuffle({}))",
            "sm.Loader(…, transform=sm.Transform(…, {}))",
            "sm.Loader(…, errors=sm.ErrorPolicy({}))",
            "sm.Dataset(…, text=sm.TextOptions({}))",
            "sm.Dataset(…, {})",
            "sm.Loader(…, {})",
            "sm.Mixture(…, {})",
            "sm.Loader(…, packing=sm.Packing(…, {}))",
        ),
    ),
    "Tokenize": (
        "sm.Tokenize(…, chat_template=sm.ChatTemplate({}))",
        "sm.Tokenize(…, labels=sm.Labels(…, {}))",
        "sm.Tokenize(…, text_policy=sm.TextPolicy({}))",
        "sm.Tokenize(…, function=sm.TokenFunction(…, {}))",
    ),
    "Images": ("sm.Images(…, source=sm.ImagePaths({}))",),
    "WebDatasetSource": ("sm.curate.WebDatasetSource(…, keys=sm.curate.SampleKeys({}))",),
    "Pipeline": ("sm.curate.Pipeline.run({})",),
}


def explain(names: dict[str, Any], public: Iterable[str]) -> None:
    """Let public classes and functions say what to use when they are called with an unknown option.

    Args:
        names: the namespace of a package. Functions are replaced in it, classes are changed.
        public: the names of the classes and functions.
    """
    for name in public:
        value = names[name]
        if isinstance(value, FunctionType):
            names[name] = _checked(value, name)
            # A function is pickled as a name in its module.
            setattr(sys.modules[value.__module__], name, names[name])
        for key in dir(value) if isinstance(value, type) else ():
            member = getattr_static(value, key)
            # Other methods have no options, and some are called for each row.
            has_options = key[0] != "_" and getattr(member, "__kwdefaults__", None)
            if isinstance(member, FunctionType) and (has_options or key == "__init__"):
                setattr(value, key, _checked(member, f"{name}.{key}".removesuffix(".__init__")))


def _checked(function: FunctionType, shown: str) -> Any:
    options = signature(function).parameters

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_options(shown, kwargs, options)
        return function(*args, **kwargs)

    return checked


def check_options(shown: str, given: Iterable[str], options: Iterable[str]) -> None:
    """Refuse unknown options of a call.

    Raises:
        TypeError: If there is one. The message says what to use instead.
    """
    for name in given:
        if name not in options:
            hint = _hint(name, shown.split(".")[0], sorted({*options} - {"self"}), is_option=True)
            raise TypeError(f"{shown}() got an unexpected keyword argument {name!r}\nhint: {hint}")


def unknown_attribute(owner: object, name: str) -> AttributeError:
    """Return the error for an unknown attribute of a ``Dataset``, with what to use instead."""
    message = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):
        known = [attribute for attribute in dir(type(owner)) if attribute[0] != "_"]
        message += f"\nhint: {_hint(name, 'Dataset', known)}"
    return AttributeError(message, name=name, obj=owner)


def _hint(unknown: str, kind: str, known: list[str], *, is_option: bool = False) -> str:
    """Return what to use in place of an unknown option or attribute of a class."""
    from difflib import get_close_matches

    found = (text for names, text in _REPLACEMENTS.items() if unknown in names.split())
    replacement = next(found, unknown)
    parts = re.fullmatch(r'(\w+)(="\w+")?([,:].*)?', replacement)
    if not parts:
        return replacement
    option, value, reason = parts.groups("")
    argument = option + (value or "=…")
    if option in known:
        return f"use {argument}{reason}" if is_option else f"use {option}"
    for call in _CALLS.get(kind, ()):
        *outer, path = re.findall(r"sm\.([\w.]+)", call)
        has_option = option in signature(attrgetter(path)(sys.modules["shardmill"])).parameters
        if has_option and (is_option or not outer):
            return f"use {call.format(argument)}{reason}"
    # Below this ratio, names of other libraries are similar by chance.
    if close := get_close_matches(unknown, known, n=1, cutoff=0.77):
        return f"did you mean {close[0]!r}?"
    noun = "options" if is_option else "attributes"
    others = "docs/guides/coming-from.md has the names of other libraries"
    return f"the {noun} are {', '.join(known)}; {others}"
