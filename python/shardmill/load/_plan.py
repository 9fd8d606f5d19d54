"""What a loader was made with, and the plans of rows that follow from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardmill.data._dataset import opened_files

if TYPE_CHECKING:
    from shardmill._native import load as _native
    from shardmill.data._dataset import Dataset
    from shardmill.load._audit import Audit
    from shardmill.load._bad_rows import Ledger
    from shardmill.load._batches import Cutter
    from shardmill.load._metrics import Counters
    from shardmill.load._mixture import Mixture
    from shardmill.load._options import Shuffle
    from shardmill.load._packing import PackedRows
    from shardmill.load._pass import Position
    from shardmill.load._transforming import Transforming


class LoaderPlan:
    """The part of a ``shardmill.Loader`` that all others use."""

    _dataset: Dataset | Mixture
    _rank: int
    _world_size: int
    _batch_size: int
    _tail_asked: str | None
    _tail: str
    _shuffle: Shuffle | None
    _seed: int
    _asked_lanes: int | None
    _lanes: int
    _threads: int
    _prefetch_bytes: int
    _stall_seconds: float
    _origin: dict[str, Any]
    _output_arguments: dict[str, Any]
    _packed: PackedRows | None
    _converter: _native.OutputConverter
    _cutter: Cutter
    _transform: Transforming | None
    _counters: Counters
    _ledger: Ledger
    _is_audited: bool
    _audits: dict[int, Audit]
    _position: Position
    #: Start of the next pass, if an older pass continues after ``set_epoch``.
    _asked: Position | None
    _newest_pass: int
    _has_warned_of_restart: bool
    _rows: _native.RowPlan | None

    @property
    def _window_bytes(self) -> int | None:
        return None if self._shuffle is None else self._shuffle.bytes

    def _plan(self, epoch: int) -> _native.RowPlan:
        """Return the plan of an epoch: rows, or packs of rows."""
        rows = self._row_plan()
        return rows if self._packed is None else self._packed.of_epoch(rows, epoch)

    def _row_plan(self) -> _native.RowPlan:
        if self._rows is None:
            rows = opened_files(self._dataset).row_plan()
            self._rows = rows.ordered(window_bytes=self._window_bytes, seed=self._seed, lanes=self._lanes)
        return self._rows

    def _share(self) -> dict[str, Any]:
        return {"batch_size": self._batch_size, "world_size": self._world_size, "rank": self._rank, "tail": self._tail}
