"""What a loader consists of, from its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardmill._choices import check_choice
from shardmill._option_values import checked_seed, whole
from shardmill._threads import checked_threads
from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._error_policy import ErrorPolicy, error_policy
from shardmill.expressions import Expression, Value
from shardmill.load import _ranks as ranks
from shardmill.load._checks import MOST_LANES, dataset_of
from shardmill.load._conversion import Conversion
from shardmill.load._iteration import Iteration
from shardmill.load._ledger import Ledger
from shardmill.load._mixture import Mixture
from shardmill.load._options import (
    Output,
    OutputKind,
    Runtime,
    Shuffle,
    Tail,
    Transform,
    output_of,
    runtime_of,
    transform_of,
    window_bytes_of,
)
from shardmill.load._packing import Packing
from shardmill.load._packings import batch_size_of, packed_rows
from shardmill.load._plan import LoaderPlan
from shardmill.load._position import Cursor
from shardmill.load._progress import Progress
from shardmill.load._token_batches import TokenBatches
from shardmill.storage._paths import PathLike


def iteration_from(
    *,
    data: Dataset | Mixture | PathLike | Sequence[PathLike],
    batch_size: int | None,
    columns: Sequence[str] | None,
    filter: Expression | Value | str | list[Any] | None,
    storage_options: Any,
    shuffle: bool | Shuffle,
    seed: int,
    lanes: int | None,
    tail: Tail | None,
    rank: int | None,
    world_size: int | None,
    output: OutputKind | Output,
    packing: Packing | TokenBatches | None,
    transform: Callable[[Any], Any] | Transform | None,
    errors: ErrorPolicy | None,
    runtime: Runtime | None,
) -> Iteration:
    """Return what begins the passes of a loader with these options; see ``Loader``."""
    batch_size = batch_size_of(batch_size, packing)
    lanes = None if lanes is None else whole("lanes", lanes, 1, MOST_LANES)
    window_bytes, output = window_bytes_of(shuffle), output_of(output)
    transform, errors, runtime = (
        transform_of(transform),
        error_policy(errors),
        runtime_of(runtime),
    )
    seed = checked_seed(seed)
    has_share = None not in (rank, world_size)
    rank, world_size = ranks.resolve(rank, world_size)
    if tail is not None:
        check_choice("tail", tail, Tail)
    dataset = dataset_of(
        data,
        filter=filter,
        storage_options=storage_options,
        errors=errors,
        threads=runtime.threads,
        has_columns=columns is not None,
    )
    threads = checked_threads(runtime.threads)
    columns, packed = packed_rows(
        packing, dataset, columns, output, bad_rows=errors.rows, threads=threads
    )
    plan = LoaderPlan(
        dataset=dataset,
        packed=packed,
        window_bytes=window_bytes,
        seed=seed,
        asked_lanes=lanes,
        lanes=lanes or min(world_size, MOST_LANES),
        batch_size=batch_size,
        rank=rank,
        world_size=world_size,
        asked_tail=tail,
    )
    if plan.packed is not None:
        plan.packed.warn_of_balance(plan.lanes, plan.share(), int(runtime.prefetch_bytes))
    conversion = Conversion(plan, columns, output, runtime)
    if dataset is not data and errors.pickles == "raise":
        opened_files(dataset).refuse_pickles(conversion.names)
    cursor = Cursor(plan, Ledger(errors.rows, errors.max_rows, is_audited=runtime.audit))
    progress = Progress(cursor, runtime, threads, transform)
    return Iteration(cursor, conversion, progress, has_share)
