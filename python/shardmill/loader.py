"""Batches for one rank of a training job."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from shardmill import mixture_state, ranks
from shardmill._native import load as _native
from shardmill.audit import Audit
from shardmill.bad_rows import BadRow, Ledger
from shardmill.batches import Cutter, Delivery, close, cutter_of
from shardmill.columns import plain_fill_values
from shardmill.dataset import DEFAULT_PREFETCH_BYTES, DEFAULT_WINDOW_BYTES, Dataset, PathLike, check_order, column_names
from shardmill.errors import CheckpointMismatchError, OptionError
from shardmill.expressions import Expression
from shardmill.loader_metrics import LoaderMetrics
from shardmill.loader_options import at_least, dataset_of, tail_of
from shardmill.loader_pass import Pass, Position
from shardmill.loader_reports import LoaderReports
from shardmill.loader_state import OrderSettings, parsed
from shardmill.mixture import Mixture
from shardmill.packing import PackedRows, Packing, packed_columns
from shardmill.stall import STALL_SECONDS, checked_stall_seconds, warn_of_stall
from shardmill.threads import checked_threads
from shardmill.transform import Transform

TAILS = ("uneven", "drop", "pad")


#: By the place behind a batch: its bad rows and its audit.
_Notes = dict[int, list[BadRow | Audit]]


class Loader(LoaderReports):
    """Batches of one rank, decoded by native threads in this process.

    The sequence of global batches depends on the data, the filter, ``seed``, ``shuffle``, ``shuffle_window_bytes``,
    ``lanes`` and ``batch_size * world_size``, and on nothing else: not on ranks, threads, or earlier passes. So a state
    saved on eight ranks continues on four with the same batches.

    Iterating to the end moves to the next epoch. A pass that is left by ``break`` does not; the next one starts the same
    epoch again. After :meth:`load_state_dict`, the current epoch is not restarted: each pass continues after the last batch
    that was returned. Only the newest iterator counts; an older one raises a ``RuntimeError`` when it is continued.

    Args:
        path: a :class:`Dataset` or a :class:`Mixture`, or what a data set is made of.
        batch_size: rows in a batch of this rank.
        columns: names of the columns to deliver, in this order; all when ``None``.
        filter: as for :class:`Dataset`; for a path only.
        shuffle: a new order of rows in every epoch. Otherwise the order of the files.
        seed: of the order; any whole number of 64 bits.
        shuffle_window_bytes: rows of so many bytes in memory, counted with all columns, are mixed with one another: those
            of whole row groups that were chosen at random. A rank holds one window for each of its lanes.
        lanes: the rows in order are cut into so many runs of equal length, and each global batch draws from all of them.
            ``None`` is the world size of the first run, which makes each rank read only its own part of the files.
            Travels in the state.
        rank: of this process. ``None`` asks ``torch.distributed``, then the environment variable ``RANK``.
        world_size: how many ranks share the rows. ``None`` asks ``torch.distributed``, then ``WORLD_SIZE``.
        tail: what becomes of the rows that fill no whole global batch: ``"uneven"`` shares them as evenly as possible,
            ``"drop"`` leaves them out, ``"pad"`` fills up with rows from the start of the epoch; batches then have a
            boolean column ``__padded`` that marks them. ``None`` is ``"uneven"`` on one rank and ``"pad"`` on several.
        output: ``"torch"``, ``"numpy"`` and ``"dict"`` give dicts by column; ``"rows"`` gives lists of rows, each a dict; ``"arrow"`` gives
            record batches.
        nulls: for integers, booleans, dates and times as torch or numpy: ``"error"``, ``"fill"`` with ``fill_values``, or
            ``"mask"``, which adds a boolean column ``<name>__valid`` to every batch. Floats become NaN.
        fill_values: by column, for ``nulls="fill"``.
        packing: rows of tokens are packed into rows of equal length; see :class:`Packing`. Then ``batch_size`` counts packs,
            and ``columns`` are those of the packing.
        threads: that decode; as many as this rank has cores when ``None``. With 0 the caller's thread does the work.
        prefetch_bytes: decoded bytes that may wait for the trainer.
        transform: called with each batch, in order; what it returns is delivered.
        transform_workers: processes that run ``transform``; 0 runs it here.
        pin_memory: torch tensors in page-locked memory.
        device: torch tensors on this device, copied one batch ahead.
        on_bad_rows: rows that cannot be decoded: ``"raise"`` an error in place of their batch, ``"skip"`` them, which makes their batch
            shorter, or ``"replace"`` each by another row, the same one in every run. :attr:`bad_rows` lists them.
        max_bad_rows: more of them in an epoch of this rank are an error: a number, or as a float a part of the rows of the epoch.
        audit: sums up which rows are delivered, for :meth:`audit`.
        stall_seconds: a batch that takes longer to come is warned of, with what the threads are at; never when ``None``.
        format: as for :class:`Dataset`, and so are the next seven; for a path only.
        storage_options: see there.
        partitioning: see there.
        schema: see there.
        bad_lines: see there.
        on_bad_file: see there.
        pickles: see there.
        max_decoded_bytes: see there.

    Raises:
        ValueError: for an option that means nothing.
        KeyError: when a column does not exist.
        FileNotFoundError: when a path does not exist.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> import shardmill as sm
        >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
        >>> [batch["x"].tolist() for batch in loader]
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

        Four rows in, a state is taken; another loader goes on from there, with other batches:

        >>> batches = iter(loader)
        >>> _ = next(batches)
        >>> resumed = sm.Loader("ten.parquet", batch_size=3, output="numpy")
        >>> resumed.load_state_dict(loader.state_dict())
        >>> [batch["x"].tolist() for batch in resumed]
        [[4, 5, 6], [7, 8, 9]]
    """

    def __init__(
        self,
        path: Dataset | Mixture | PathLike | Sequence[PathLike],
        *,
        batch_size: int = 1024,
        columns: Sequence[str] | None = None,
        filter: Expression | list[Any] | None = None,
        shuffle: bool = False,
        seed: int = 0,
        shuffle_window_bytes: int = DEFAULT_WINDOW_BYTES,
        lanes: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        tail: str | None = None,
        output: str = "torch",
        nulls: str = "error",
        fill_values: dict[str, Any] | None = None,
        packing: Packing | None = None,
        threads: int | None = None,
        prefetch_bytes: int = DEFAULT_PREFETCH_BYTES,
        transform: Callable[[Any], Any] | None = None,
        transform_workers: int = 0,
        pin_memory: bool = False,
        device: Any = None,
        on_bad_rows: str = "raise",
        max_bad_rows: float | None = None,
        audit: bool = False,
        stall_seconds: float | None = STALL_SECONDS,
        format: str | None = None,
        storage_options: Any = None,
        partitioning: str | None = None,
        schema: Any = None,
        bad_lines: str = "error",
        on_bad_file: str = "error",
        pickles: str = "error",
        max_decoded_bytes: int | str | None = None,
    ) -> None:
        batch_size = at_least("batch_size", batch_size, 1)
        prefetch_bytes = at_least("prefetch_bytes", prefetch_bytes, 1)
        transform_workers = at_least("transform_workers", transform_workers, 0)
        lanes = None if lanes is None else at_least("lanes", lanes, 1)
        shuffle_window_bytes = at_least("shuffle_window_bytes", shuffle_window_bytes, 0)
        check_order(shuffle, seed)
        if transform is not None and not callable(transform):
            raise OptionError(f"transform is called with each batch, and {transform!r} cannot be called")
        self._rank, self._world_size = ranks.resolve(rank, world_size)
        if tail is not None and tail not in TAILS:
            raise OptionError(f"tail is one of {', '.join(TAILS)}, not {tail!r}")
        self._tail_asked, self._tail = tail, tail_of(tail, self._world_size)
        options_of_dataset = {
            "filter": filter,
            "format": format,
            "storage_options": storage_options,
            "partitioning": partitioning,
            "schema": schema,
            "max_decoded_bytes": max_decoded_bytes,
        }
        self._dataset = dataset_of(
            path,
            columns=columns,
            threads=threads,
            options=options_of_dataset,
            bad_lines=bad_lines,
            on_bad_file=on_bad_file,
            pickles=pickles,
        )
        if packing is not None:
            columns = packed_columns(packing, columns, fill_values)
        self._columns = self._dataset.columns if columns is None else column_names(columns)
        if isinstance(self._dataset, Dataset) and self._dataset is not path and pickles == "error":
            self._dataset.refuse_pickles(self._columns)
        self._batch_size = batch_size
        self._shuffle, self._seed = shuffle, seed
        self._window_bytes = shuffle_window_bytes
        # Lanes that nobody asked for are those of the run that the state comes from.
        self._asked_lanes, self._lanes = lanes, lanes or self._world_size
        self._threads = checked_threads(threads)
        self._prefetch_bytes = prefetch_bytes
        decodings = self._dataset.decodings(self._columns)
        self._cutter: Cutter = cutter_of(output, decodings=decodings, pin_memory=pin_memory, device=device)
        self._ledger, self._is_audited = Ledger(on_bad_rows, max_bad_rows), audit
        self._audits: dict[int, Audit] = {}
        self._stall_seconds = checked_stall_seconds(stall_seconds)
        self._transform = None if transform is None else Transform(transform, transform_workers, self._stall_seconds)
        if transform is None and transform_workers:
            raise OptionError("transform_workers are for a transform, and there is none")
        # Everything that can be refused is refused here: names, types, fill values.
        self._output_arguments: dict[str, Any] = {
            "columns": self._dataset._numbers_of(self._columns),
            "kind": self._cutter.kind,
            "nulls": nulls,
            "fill_values": plain_fill_values(fill_values),
            "is_padded": self._tail == "pad",
            "is_filtered": self._dataset.is_filtered,
        }
        self._packed = None
        if packing is not None and on_bad_rows != "raise":
            raise OptionError(
                "packs are planned from the lengths of all rows, so a row that cannot be read is an error"
                "\nhint: leave on_bad_rows away, or packing"
            )
        if packing is not None:
            self._packed = PackedRows(packing, self._dataset, nulls=nulls, threads=max(self._threads, 1))
        self._converter = self._new_converter()
        self._cutter.check(self._converter)
        self._position = Position()
        #: Where the next pass begins, when a pass goes on after :meth:`set_epoch`.
        self._asked: Position | None = None
        self._newest_pass = 0
        self._metrics = LoaderMetrics()
        self._rows: _native.RowPlan | None = None

    @property
    def dataset(self) -> Dataset | Mixture:
        """What the batches are made of."""
        return self._dataset

    @property
    def rank(self) -> int:
        """Of this process."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many ranks share the rows."""
        return self._world_size

    @property
    def threads(self) -> int:
        """Threads that decode; with 0 it is the caller's."""
        return self._threads

    @property
    def epoch(self) -> int:
        """Where the loader stands: the epoch of the next batch."""
        return self._position.epoch

    def __len__(self) -> int:
        """Batches of one whole epoch on this rank; with ``packing`` and ``shuffle``, of the epoch that the loader is in."""
        return self._plan(self._position.epoch).batches_left(0, self._share())

    def __iter__(self) -> Iterator[Any]:
        self._warn_of_nothing()
        begun, self._asked = self._asked or self._position, None
        self._newest_pass += 1
        self._position = position = Position(begun.epoch, begun.consumed if begun.is_loaded else 0, begun.is_loaded)
        notes: _Notes = {}
        if position.consumed == 0:
            self._ledger.restart()
            self._audits.pop(position.epoch, None)
        batches = self._batches(replace(position), 1, self._threads, notes)
        if self._transform is not None:
            batches = self._transform.over(batches)
        return Pass(partial(self._is_newest, self._newest_pass), position, self._delivered(batches, position, notes))

    def __getitem__(self, index: Any) -> Any:
        # A DataLoader takes what it does not know for a sequence of rows, and its own error would say nothing.
        raise TypeError(
            "a Loader is iterated: it makes whole batches"
            "\nhint: it needs no DataLoader around it; where one is wanted, give it "
            "shardmill.integrations.torch.BatchDataset(loader), with batch_size=None"
        )

    def set_epoch(self, epoch: int) -> None:
        """Moves to the start of ``epoch``. In the epoch that the loader is in already, it keeps its position.

        Never needed: a pass that ends moves to the next epoch by itself. A pass that goes on afterwards ends in its own epoch, and until then
        :meth:`state_dict` counts for that one.
        """
        at_least("epoch", epoch, 0)
        self._asked = None
        if epoch != self._position.epoch:
            self._position = Position(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch that was handed out: plain JSON values, under 4 KiB, the same on every rank.

        Batches that were prefetched do not count. Taking it disturbs nothing; take it at the same step on all ranks.
        """
        state = self._settings().state(self._position.epoch, self._position.consumed)
        if self._packed is None:
            state = mixture_state.with_consumed(state, self._row_plan())
        return state if self._ledger.policy == "raise" else {**state, "bad_rows": self._ledger.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next pass continues after the last batch that ``state`` knows, on any number of ranks and threads.

        Iterators that take no batch do not change the position. Every batch that is taken counts, even by ``next(iter(loader))``:
        :meth:`state_dict` counts it, and the next pass of this epoch continues after it.

        Raises:
            CheckpointMismatchError: when data set, filter, seed, shuffle, window or lanes are others than those of the
                state. It is a ``ValueError``. The loader stays as it was.
        """
        state = parsed(state, lanes=self._asked_lanes)
        if state["order_version"] != _native.ORDER_VERSION:
            raise CheckpointMismatchError(
                f"the state has order version {state['order_version']}, this shardmill has {_native.ORDER_VERSION}"
            )
        lanes = self._asked_lanes or state["lanes"]
        settings = self._settings(lanes)
        mixture_state.check(state.get("mixture"), settings.mixture)
        settings.check(state, [relative for _, relative, *_ in self._dataset._native.files])
        before = self._lanes, self._rows
        if lanes != self._lanes:
            self._lanes, self._rows = lanes, None
        position = Position(state["epoch"], state["consumed"], is_loaded=True)
        try:
            self._check_position(state)
        except CheckpointMismatchError:
            self._lanes, self._rows = before
            raise
        self._position, self._asked = position, None
        self._newest_pass += 1
        self._ledger.load(state.get("bad_rows"))
        self._audits.clear()
        self._normalize(self._position)

    @property
    def start(self) -> tuple[int, int]:
        """Where the next pass begins: its epoch, and the rows of the epoch that come before it."""
        return self._position.epoch, self._position.consumed if self._position.is_loaded else 0

    def restart_epoch(self) -> None:
        """Moves to the start of the epoch that the loader is in."""
        self._position, self._asked = Position(self._position.epoch), None

    def every(self, stride: int, *, first: int, epoch: int, consumed: int, threads: int | None = None) -> Iterator[Any]:
        """One batch in ``stride``: those with the numbers ``first``, ``first + stride``, … of the ones behind ``consumed`` in an epoch.

        For processes that share the batches of a rank among themselves. The position of the loader stays where it is.
        """
        start = consumed + first * self._batch_size * self._world_size
        if start >= self._plan(epoch).num_places:
            return
        batches = self._batches(Position(epoch, start), stride, self._threads if threads is None else threads, {})
        if self._transform is not None:
            batches = self._transform.over(batches)
        try:
            for batch, rows, _ in self._cutter.staged(batches):
                self._metrics.rows += rows
                self._metrics.batches += 1
                yield batch
        finally:
            close(batches)

    def __getstate__(self) -> dict[str, Any]:
        # The files are opened anew where this is unpickled.
        kept = {name: value for name, value in self.__dict__.items() if name != "_identity"}
        return {**kept, "_converter": None, "_rows": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._converter = self._new_converter()

    def _new_converter(self) -> _native.OutputConverter:
        if self._packed is not None:
            return self._packed.converter(kind=self._cutter.kind, is_padded=self._tail == "pad")
        return _native.OutputConverter(self._dataset._native, **self._output_arguments)

    def _plan(self, epoch: int) -> _native.RowPlan:
        """What steps deal out in an epoch: rows, or packs of them."""
        rows = self._row_plan()
        return rows if self._packed is None else self._packed.of_epoch(rows, epoch)

    def _row_plan(self) -> _native.RowPlan:
        if self._rows is None:
            self._rows = self._plan_of(self._lanes)
        return self._rows

    def _plan_of(self, lanes: int) -> _native.RowPlan:
        window = self._window_bytes if self._shuffle else None
        return self._dataset.row_plan().ordered(window_bytes=window, seed=self._seed, lanes=lanes)

    def _check_position(self, state: dict[str, Any]) -> None:
        places = self._plan(state["epoch"]).num_places
        if state["consumed"] > places:
            raise CheckpointMismatchError(
                f"the state is damaged: place {state['consumed']} of {places} in epoch {state['epoch']}"
            )
        if self._packed is None:
            mixture_state.check_consumed(state, self._row_plan())

    def _settings(self, lanes: int | None = None) -> OrderSettings:
        return OrderSettings(
            order_version=_native.ORDER_VERSION,
            rows=self._row_plan().num_rows,
            seed=self._seed,
            shuffle=self._shuffle,
            shuffle_window_bytes=self._window_bytes if self._shuffle else None,
            lanes=lanes or self._lanes,
            packing=None if self._packed is None else self._packed.identity(),
            **self._identity,
        )

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What the data set puts into a state: it takes a hash over all blocks, and a state may be taken after every batch."""
        native = self._dataset._native
        files = {"files": len(native.files), "dataset": native.fingerprint}
        if isinstance(self._dataset, Mixture):
            return {**files, **mixture_state.settings_of(self._dataset)}
        digests = OrderSettings.digests_shown(native.file_digests)
        return {**files, "filter": OrderSettings.filter_text(self._dataset.filter), "file_digests": digests}

    def _share(self) -> dict[str, Any]:
        return {"batch_size": self._batch_size, "world_size": self._world_size, "rank": self._rank, "tail": self._tail}

    def _normalize(self, position: Position) -> None:
        if position.consumed and self._plan(position.epoch).steps_left(position.consumed, self._share()) == 0:
            position.end_epoch()

    def _warn_of_nothing(self) -> None:
        plan, share = self._plan(self._position.epoch), self._share()
        if plan.num_places and not plan.steps_left(0, share):
            needed, what = self._batch_size * self._world_size, "rows" if self._packed is None else "packs"
            warnings.warn(
                f'tail="drop" leaves out all {plan.num_places:,} {what}: a step needs {needed:,}\n'
                "hint: take a smaller batch_size or another tail",
                stacklevel=3,
            )

    def _batches(self, start: Position, stride: int, threads: int, notes: _Notes) -> Iterator[Delivery]:
        native = self._plan(start.epoch).start(
            self._converter,
            self._share(),
            epoch=start.epoch,
            consumed=start.consumed,
            threads=threads,
            prefetch_bytes=self._prefetch_bytes,
            stride=stride,
            on_bad_rows=self._ledger.policy,
            is_audited=self._is_audited,
        )
        process = os.getpid()
        self._metrics.begin(native)
        try:
            while (superbatch := native.next_superbatch(self._stall_seconds, warn_of_stall)) is not None:
                content, rows, consumed, bad_rows, audits = superbatch
                for batch, path, row, cause in bad_rows:
                    notes.setdefault(consumed[batch], []).append(BadRow(path, row, cause))
                for place, sums in zip(consumed, audits, strict=False):
                    notes.setdefault(place, []).append(Audit(*sums))
                yield from zip(self._cutter.cut(content, rows), rows, consumed, strict=True)
        finally:
            # A forked child has none of the threads.
            if process == os.getpid():
                native.stop()
                self._metrics.end(native)

    def _delivered(self, batches: Iterator[Delivery], position: Position, notes: _Notes) -> Iterator[Any]:
        epoch = position.epoch
        end, metrics = self._plan(epoch).end(position.consumed, self._share()), self._metrics
        try:
            for batch, rows, consumed in self._cutter.staged(batches):
                if consumed in notes:
                    self._note(notes.pop(consumed), epoch)
                if self._position is not position:
                    # set_epoch() was called during this pass.
                    self._asked, self._position = self._position, position
                if consumed < end:
                    position.consumed = consumed
                else:
                    self._end_epoch(position)
                metrics.rows += rows
                metrics.batches += 1
                yield batch
            # A rank may have nothing in the last step.
            if position.epoch == epoch:
                self._end_epoch(position)
        finally:
            close(batches)

    def _end_epoch(self, position: Position) -> None:
        position.end_epoch()
        if self._asked is not None:
            self._position, self._asked = self._asked, None

    def _is_newest(self, number: int) -> bool:
        return number == self._newest_pass

    def _note(self, notes: list[BadRow | Audit], epoch: int) -> None:
        """What is known of a batch counts once it is handed out."""
        for note in notes:
            if isinstance(note, Audit):
                self._audits[epoch] = self._audits.get(epoch, Audit()) + note
        self._ledger.add((note for note in notes if isinstance(note, BadRow)), self._plan(epoch).num_places)

    def __repr__(self) -> str:
        return f"Loader({self._dataset!r}, batch_size={self._batch_size}, rank={self._rank} of {self._world_size})"
