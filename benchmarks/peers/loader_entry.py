"""The peers turn tables into batches: the side of the loader benchmark that we want to beat.

Enters: the options of ``benchmarks.loader.options``. Leaves: ``params.json`` and ``metrics.json``. The runner starts it
with the interpreter of ``build.sh``. Invariant: the same clock, counts and files as for us; nothing is patched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

from benchmarks.loader.measure import Build, measure
from benchmarks.loader.options import Options, parse_options

TOOLS = ("torch_dataloader_utils", "pyarrow_loop", "manual_sharded", "naive_iterable", "hf_datasets")


def main() -> int:
    """Runs one entry and returns the exit code."""
    options = parse_options("Batches with a peer.", tools=TOOLS)
    options.write_params()
    try:
        metrics = measure(options, _tool(options))
    except Exception as error:
        options.write_metrics({"is_success": False, "error": f"{type(error).__name__}: {error}"})
        raise
    import pyarrow

    options.write_metrics(
        metrics | {"arrow_threads": pyarrow.cpu_count(), "arrow_io_threads": pyarrow.io_thread_count()}
    )
    return 0


def _tool(options: Options) -> Build:
    if options.tool == "torch_dataloader_utils":
        # Imported here, before a clock starts, and only what this tool needs: imports show in the peak memory.
        import torch_dataloader_utils  # noqa: F401

        return torch_dataloader_utils_loader
    if options.tool == "hf_datasets":
        # Without it, the library asks its hub for the name "parquet".
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["HF_HOME"] = str(options.out / "scratch" / "hf")
        import datasets  # noqa: F401

        return hf_datasets_loader
    from benchmarks.peers import loader_baselines

    return loader_baselines.TOOLS[options.tool]


def torch_dataloader_utils_loader(options: Options, rank: int) -> Iterable[Any]:
    """``StructuredDataset.create_dataloader`` of torch-dataloader-utils."""
    import pyarrow.compute as pc
    from torch_dataloader_utils import StructuredDataset

    return StructuredDataset.create_dataloader(
        path=options.pattern,
        format=options.format,
        batch_size=options.batch_size,
        columns=list(options.columns) if options.columns else None,
        filters=pc.field("label") == options.label if options.label is not None else None,
        shuffle=options.shuffle,
        split_bytes=options.split_bytes,
        split_rows=options.split_rows,
        num_workers=options.workers,
        output_format=options.output,
        collate_fn=with_worker if options.by_worker else identity,
        num_ranks=options.ranks,
        rank=rank,
    )[0]


def hf_datasets_loader(options: Options, _rank: int) -> Iterable[Any]:
    """Hugging Face ``datasets``, streaming; projection and filter by its Parquet reader."""
    import datasets
    import pyarrow.compute as pc

    given: dict[str, Any] = {}
    if options.columns:
        given["columns"] = list(options.columns)
    if options.label is not None:
        given["filters"] = pc.field("label") == options.label
    files = [str(path) for path in options.paths()]
    stream = datasets.load_dataset(options.format, data_files=files, split="train", streaming=True, **given)
    return stream.with_format(options.output).iter(batch_size=options.batch_size)


def identity(batch: Any) -> Any:
    """A collate function that leaves the batch as it is."""
    return batch


def with_worker(batch: Any) -> Any:
    """A collate function that tells which worker read the batch."""
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return (info.id if info else 0), batch


if __name__ == "__main__":
    sys.exit(main())
