"""Loaders from options without groups: property tests vary each option on its own."""

from __future__ import annotations

from typing import Any

import shardmill as sm

_OF_DATASET = ("format", "partitioning", "schema", "max_decoded_bytes")
_RUNTIME = ("threads", "prefetch_bytes", "device", "pin_memory", "stall_seconds", "audit")
_ERRORS = {
    "on_bad_rows": "rows",
    "max_bad_rows": "max_rows",
    "bad_files": "files",
    "bad_lines": "lines",
}


def flat_loader(data: Any, **options: Any) -> sm.Loader:
    """A ``Loader`` whose options are the fields of its option classes.

    They are ``Runtime``, ``Output``, ``Shuffle``, ``Transform`` and ``ErrorPolicy``.
    """

    def taken(names: Any) -> dict[str, Any]:
        return {name: options.pop(name) for name in names if name in options}

    if runtime := taken(_RUNTIME):
        options["runtime"] = sm.Runtime(**runtime)
    if errors := taken(_ERRORS):
        options["errors"] = sm.ErrorPolicy(
            **{_ERRORS[name]: value for name, value in errors.items()}
        )
    if output := taken(("nulls", "fill_values")):
        options["output"] = sm.Output(options.get("output", "torch"), **output)
    if "transform_workers" in options:
        options["transform"] = sm.Transform(options["transform"], options.pop("transform_workers"))
    if "shuffle_window_bytes" in options:
        window = sm.Shuffle(options.pop("shuffle_window_bytes"))
        options["shuffle"] = window if options.get("shuffle") else False
    if dataset := taken(_OF_DATASET):
        data = sm.Dataset(data, **dataset, **taken(("filter", "storage_options")))
    return sm.Loader(data, **options)
