"""Batches for one rank of a training job."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from inspect import isfunction, unwrap
from typing import Any

from shardmill._choices import check_choice
from shardmill._native import load as _native
from shardmill._option_values import checked_seed, listed, whole
from shardmill._stall import checked_stall_seconds
from shardmill._threads import checked_threads
from shardmill.data._arrow import ArrowRows
from shardmill.data._dataset import Dataset, opened_files
from shardmill.data._error_policy import ErrorPolicy, error_policy
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Value
from shardmill.load import _ranks as ranks
from shardmill.load._bad_rows import Ledger
from shardmill.load._batches import SuperbatchCutter, cutter_of
from shardmill.load._checks import MOST_LANES, at_least, dataset_of, tail_of
from shardmill.load._columns import check_fill, equal_lists, output_form
from shardmill.load._iteration import LoaderIteration
from shardmill.load._metrics import Counters
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
    shuffle_of,
    transform_of,
)
from shardmill.load._packing import PackedRows, Packing, packed_columns, warn_of_joined
from shardmill.load._pass import Position
from shardmill.load._position import LoaderPosition
from shardmill.load._progress import LoaderProgress
from shardmill.load._reports import LoaderReports
from shardmill.load._transforming import Transforming
from shardmill.storage._paths import PathLike


class Loader(LoaderIteration, ArrowRows):
    """Iterator over the batches of one rank, decoded by native threads in this process.

    The sequence of global batches depends only on the data, the filter, ``seed``, ``shuffle``, ``lanes`` and
    ``batch_size * world_size``. It does not depend on ranks, threads or earlier passes. A state saved on eight ranks therefore continues
    on four with the same batches.

    Iterating to the end moves to the next epoch. After ``break``, the next pass repeats the epoch,
    with a warning. To train for a number of steps, iterate over ``loader.steps(n)``, which
    continues at the next batch and into the following epochs. In an epoch into which a state was
    loaded, each pass continues after the last batch that was returned. A pass that is left after a
    single batch, such as ``next(iter(loader))``, is a peek: the next one begins with the same
    batch. Only the newest iterator is valid; continuing an older one raises a ``RuntimeError``.

    A loader without ``transform`` is also an Arrow stream, ``__arrow_c_stream__``, of the rows of the next pass. The stream has a position of
    its own: it neither moves that of the loader nor ends an iterator. ``output`` does not apply to it.

    Args:
        data: a ``Dataset`` or a ``Mixture``, or the paths of a data set. Options that describe the files, such as ``format`` and
            ``schema``, are set on ``Dataset``.
        batch_size: number of rows per batch of this rank.
        columns: names of the columns to return, in this order; all by default. May be paths into structs, such as ``"meta.lang"``, as for
            ``Dataset``.
        filter: as for ``Dataset``; only if ``data`` is paths.
        storage_options: as for ``Dataset``; only if ``data`` is paths.
        shuffle: ``True`` or a ``Shuffle`` for a new row order in every epoch. By default, rows come in file order.
        seed: seed of the order; any 64-bit integer.
        lanes: number of contiguous runs of equal length into which the ordered rows are cut; each global batch takes rows from all of
            them. By default the world size of the first run, so that each rank reads only its own part of the files. Saved in the state. At most
            1,048,576.
        tail: what happens to the rows that do not fill a whole global batch. ``"uneven"`` distributes them as evenly as possible, ``"drop"``
            drops them, ``"pad"`` adds rows from the start of the epoch; batches then have a boolean column ``__padded`` that
            marks the added rows. The default is ``"uneven"`` on one rank and ``"pad"`` on several.
        rank: rank of this process. By default it comes from ``torch.distributed``, else from the environment variable ``RANK``.
        world_size: number of ranks that share the rows. By default it comes from ``torch.distributed``, else from ``WORLD_SIZE``.
        output: ``"torch"``, ``"numpy"``, ``"arrow"``, ``"dict"`` or ``"rows"``, or an ``Output``, which also sets the policy for nulls.
        packing: pack rows of tokens into rows of equal length; see ``Packing``. Then ``batch_size`` counts packs, and ``columns``
            defaults to the columns of the packing.
        transform: a function that is called with each batch, in order, and returns the batch to deliver; or a ``Transform``, which
            runs it in worker processes.
        errors: what happens to rows, files and lines that cannot be read. If ``data`` is a ``Dataset``, files and lines are set there.
        runtime: threads, memory, device, warnings and audit; see ``Runtime``.

    Raises:
        ValueError: If an option is not valid.
        KeyError: If a column does not exist.
        FileNotFoundError: If a path does not exist.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> import shardmill as sm
        >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
        >>> [batch["x"].tolist() for batch in loader]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

        Take a state after four rows; another loader continues from there with another batch size:

        >>> batches = iter(loader)
        >>> _ = next(batches)
        >>> resumed = sm.Loader("ten.parquet", batch_size=3, output="numpy")
        >>> resumed.load_state_dict(loader.state_dict())
        >>> [batch["x"].tolist() for batch in resumed]
        [[4, 5, 6], [7, 8, 9]]

        Read the rows of a rank as Arrow, in their order:

        >>> pa.table(sm.Loader("ten.parquet", rank=1, world_size=2, tail="uneven"))["x"].to_pylist()
        [5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        data: Dataset | Mixture | PathLike | Sequence[PathLike],
        *,
        batch_size: int = 1024,
        columns: Sequence[str] | None = None,
        filter: Expression | Value | str | list[Any] | None = None,
        storage_options: Any = None,
        shuffle: bool | Shuffle = False,
        seed: int = 0,
        lanes: int | None = None,
        tail: Tail | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        output: OutputKind | Output = "torch",
        packing: Packing | None = None,
        transform: Callable[[Any], Any] | Transform | None = None,
        errors: ErrorPolicy | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        batch_size = at_least("batch_size", batch_size, 1)
        lanes = None if lanes is None else whole("lanes", lanes, 1, MOST_LANES)
        order, output = shuffle_of(shuffle), output_of(output)
        transform, errors, runtime = transform_of(transform), error_policy(errors), runtime_of(runtime)
        seed = checked_seed(seed)
        self._rank, self._world_size = ranks.resolve(rank, world_size)
        self._origin = {"made_in": os.getpid(), "has_share": None not in (rank, world_size)}
        if tail is not None:
            check_choice("tail", tail, Tail)
        self._tail_asked, self._tail = tail, tail_of(tail, self._world_size)
        self._dataset = dataset_of(
            data,
            filter=filter,
            storage_options=storage_options,
            errors=errors,
            threads=runtime.threads,
            # The delivered columns are determined below.
            has_columns=columns is not None,
        )
        if packing is not None:
            columns = packed_columns(packing, columns, output)
        files = opened_files(self._dataset)
        self._columns = self._dataset.columns if columns is None else files.delivered(listed("columns", columns))
        if isinstance(self._dataset, Dataset) and self._dataset is not data:
            files.refuse_pickles(self._columns)
        self._batch_size = batch_size
        self._shuffle, self._seed = order, seed
        # Unless requested, lanes are those of the run that saved the state.
        self._asked_lanes, self._lanes = lanes, lanes or min(self._world_size, MOST_LANES)
        self._threads = checked_threads(runtime.threads)
        self._prefetch_bytes = int(runtime.prefetch_bytes)
        decodings = files.decodings_of(self._columns)
        bfloat16 = [name for name in self._columns if name in files.bfloat16_columns]
        check_fill(output, bfloat16)
        self._cutter = cutter_of(
            output.kind,
            decodings=decodings,
            bfloat16=bfloat16,
            pin_memory=runtime.pin_memory,
            device=runtime.device,
        )
        self._ledger, self._is_audited = Ledger(errors.rows, errors.max_rows), runtime.audit
        self._audits = {}
        self._stall_seconds = checked_stall_seconds(runtime.stall_seconds)
        self._counters = Counters()
        self._transform = None if transform is None else Transforming(transform, self._stall_seconds, self._counters)
        # Packs have lists of their own.
        lists = equal_lists(output, files, self._columns) if packing is None else {}
        label_pads = {name: pad for name, pad in files.label_pads.items() if name in self._columns}
        # Everything that can be validated is validated here: names, types, fill values.
        self._output_arguments = {
            "columns": files.numbers_of(self._columns),
            "form": output_form(output, self._cutter.kind, lists, label_pads),
            "is_padded": self._tail == "pad",
            "is_filtered": files.is_filtered,
            "is_lent": self._cutter.is_pinned,
        }
        self._packed = None
        if packing is not None and errors.rows != "raise":
            raise OptionError(
                "packs are planned from the lengths of all rows, so every row must be readable"
                "\nhint: use ErrorPolicy(rows='raise'), or load without packing"
            )
        if packing is not None:
            warn_of_joined(files.tokenize)
            self._packed = PackedRows(packing, self._dataset, nulls=output.nulls, threads=max(self._threads, 1))
        self._converter = self._new_converter(self._cutter.kind)
        self._cutter.check(self._converter)
        self._position = Position()
        self._asked = None
        self._newest_pass = 0
        self._has_warned_of_restart = False
        self._rows = None

    @property
    def dataset(self) -> Dataset | Mixture:
        """The data set or mixture that is loaded."""
        return self._dataset

    @property
    def rank(self) -> int:
        """Rank of this process."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Number of ranks that share the rows."""
        return self._world_size

    @property
    def threads(self) -> int:
        """Number of decoding threads; 0 means the calling thread."""
        return self._threads

    @property
    def epoch(self) -> int:
        """Epoch of the next batch."""
        return self._position.epoch

    def __len__(self) -> int:
        """Number of batches of a whole epoch on this rank; with ``packing`` and ``shuffle``, of the current epoch."""
        return self._plan(self._position.epoch).batches_left(0, self._share())

    def __getitem__(self, index: Any) -> Any:
        # A DataLoader takes unknown objects for map-style data sets, and its own error would not help.
        raise TypeError(
            "a Loader cannot be indexed"
            "\nhint: iterate it directly; if you need a DataLoader, pass it "
            "shardmill.integrations.torch.BatchDataset(loader), with batch_size=None"
        )

    def __getstate__(self) -> dict[str, Any]:
        # Files are reopened when this is unpickled.
        kept = {name: value for name, value in self.__dict__.items() if name != "_identity"}
        return {**kept, "_converter": None, "_rows": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._converter = self._new_converter(self._cutter.kind)

    def _new_converter(self, kind: str) -> _native.OutputConverter:
        if self._packed is not None:
            return self._packed.converter(kind=kind, is_padded=self._tail == "pad")
        arguments = dict(self._output_arguments)
        if kind != self._cutter.kind:
            arguments["form"] = arguments["form"] | {"kind": kind, "pad": None, "list_lengths": {}}
        return _native.OutputConverter(opened_files(self._dataset).native, **arguments)

    def _arrow_schema(self) -> Any:
        opened_files(self._dataset).refuse_bits(self._columns)
        return self._new_converter("arrow").schema

    def _arrow_batches(self) -> Iterator[Any]:
        if self._transform is not None:
            raise OptionError(
                "a transform returns batches of any kind, so they are not an Arrow stream"
                "\nhint: read the stream of a Loader without transform"
            )
        # The same rows with a position and counters of their own, so that a pass of this loader is not disturbed.
        other = copy(self)
        other._rows, other._cutter, other._converter = (
            self._row_plan(),
            SuperbatchCutter(),
            self._new_converter("stream"),
        )
        other._ledger, other._counters = self._ledger.emptied(), Counters()
        other._audits, other._is_audited = {}, False
        # The stream does not move the loader, so no batch is repeated for it.
        other._has_warned_of_restart = True
        return (piece for pieces in iter(other) if pieces is not None for piece in pieces)

    def __repr__(self) -> str:
        return f"Loader({self._dataset!r}, batch_size={self._batch_size}, rank={self._rank} of {self._world_size})"


# Python names a method by this in the error for a wrong call.
for _part in (LoaderPosition, LoaderProgress, LoaderReports, LoaderIteration):
    for _name, _method in vars(_part).items():
        if isfunction(_method) and not _name.startswith("_"):
            unwrap(_method).__qualname__ = _method.__qualname__ = f"{Loader.__name__}.{_name}"
