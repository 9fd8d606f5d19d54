"""shardmill turns tables into batches.

Enters: the options of ``benchmarks.loader.options``. Leaves: ``params.json`` and ``metrics.json``. Started by the
runner. Invariant: only the public API is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.loader.measure import Build, measure
from benchmarks.loader.options import Options, parse_options

# The peers' interpreter, which has torch, imports the checkout's package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one entry and returns the exit code."""
    options = parse_options("Batches with shardmill.", tools=tuple(TOOLS), arguments=arguments)
    options.write_params()
    try:
        metrics = measure(options, TOOLS[options.tool])
    except Exception as error:
        options.write_metrics({"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    options.write_metrics(metrics)
    return 0


def loader(options: Options, rank: int) -> Iterable[Any]:
    """``shardmill.Loader``."""
    import shardmill as sm

    given: dict[str, Any] = {"columns": _columns(options), "threads": options.threads}
    if options.label is not None:
        given["filter"] = sm.col("label") == options.label
    if options.shuffle:
        given |= {"shuffle": True, "seed": 0}
    if options.ranks > 1:
        # As many lanes as ranks: each rank reads its own part of the files.
        given |= {"lanes": options.ranks, "rank": rank, "world_size": options.ranks, "tail": "uneven"}
    given = {name: value for name, value in given.items() if value is not None}
    return sm.Loader(options.pattern, batch_size=options.batch_size, output=options.output, **given)


def dataloader(options: Options, rank: int) -> Iterable[Any]:
    """The call that is compatible with torch-dataloader-utils; its ``num_workers`` are our threads."""
    from shardmill.integrations.torch import create_dataloader

    given: dict[str, Any] = {"columns": _columns(options), "num_workers": options.threads}
    if options.label is not None:
        import pyarrow.compute as pc

        given["filters"] = pc.field("label") == options.label
    if options.ranks > 1:
        given |= {"num_ranks": options.ranks, "rank": rank}
    given = {name: value for name, value in given.items() if value is not None}
    return create_dataloader(
        path=options.pattern,
        format=options.format,
        batch_size=options.batch_size,
        output_format=options.output,
        split_rows=options.split_rows,
        split_bytes=options.split_bytes,
        **given,
    )[0]


def _columns(options: Options) -> list[str] | None:
    return list(options.columns) if options.columns else None


TOOLS: dict[str, Build] = {"loader": loader, "dataloader": dataloader}


if __name__ == "__main__":
    raise SystemExit(main())
