"""What a loader tells about its batches and itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardmill import mixture_state, ranks
from shardmill.audit import Audit
from shardmill.bad_rows import BadRow, Ledger
from shardmill.errors import OptionError
from shardmill.loader_metrics import LoaderMetrics
from shardmill.loader_options import at_least, tail_of

if TYPE_CHECKING:
    from shardmill.dataset import Dataset
    from shardmill.mixture import Mixture


class LoaderReports:
    """The part of a :class:`shardmill.Loader` that is asked and changes nothing."""

    _dataset: Dataset | Mixture
    _ledger: Ledger
    _audits: dict[int, Audit]
    _is_audited: bool
    _metrics: LoaderMetrics
    _position: Any
    _batch_size: int
    _rank: int
    _world_size: int
    _tail_asked: str | None
    _output_arguments: dict[str, Any]

    @property
    def bad_rows(self) -> list[BadRow]:
        """The rows of this epoch that could not be decoded, in batches that this rank was handed out."""
        return list(self._ledger.rows)

    def audit(self, epoch: int | None = None) -> Audit:
        """What this rank was handed out of an epoch, since this loader was made or a state was loaded; of the last one when ``None``.

        Audits add up: those of all ranks and sessions together equal :meth:`expected_audit`, if every row was delivered once and in its place.
        Places follow from ``batch_size * world_size``; where that changed in the middle of the epoch, only ``rows`` and ``set`` are equal.

        Raises:
            ValueError: for a loader without ``audit=True``.
        """
        if not self._is_audited:
            raise OptionError("this loader keeps no audit\nhint: make it with audit=True")
        return self._audits.get(max(self._audits, default=0) if epoch is None else epoch, Audit())

    def expected_audit(self, *, start: int = 0, end: int | None = None, epoch: int | None = None) -> Audit:
        """The audit of all ranks together between two positions of an epoch, as the plan has it. Nothing is read.

        Args:
            start: rows of the epoch, or packs, that come before, as ``state_dict()["consumed"]`` has them.
            end: where it ends; the end of the epoch when ``None``.
            epoch: the last one of :meth:`audit` when ``None``.
        """
        asked = max(self._audits, default=int(self._position.epoch)) if epoch is None else epoch
        plan, share = self._plan(asked), self._share()
        return Audit(*plan.audit(asked, start, plan.end(start, share) if end is None else end, share))

    def metrics(self) -> dict[str, Any]:
        """What the loader has done since it was made. Reading it disturbs nothing.

        Returns:
            ``rows`` and ``batches`` that were delivered; ``bytes_read`` from the files, footers included; ``elapsed_seconds``
            of all passes; ``decode_seconds``, ``assemble_seconds`` and ``convert_seconds``, summed over threads;
            ``wait_seconds`` that the trainer waited; ``blocks_decoded`` and ``superbatches``.
        """
        return self._metrics.report(self._dataset._native.bytes_read)

    def explain(
        self,
        *,
        step: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int | None = None,
        epoch: int | None = None,
    ) -> dict[str, Any]:
        """Which rows a batch holds and why, for this or another topology, without reading row data.

        Steps count from the start of the epoch. Lanes stay those of this loader, as they would after a resume on that topology.

        Returns:
            Of the batch: ``rows`` as ``(file, first row, count)`` in its order, ``None`` behind the last step;
            ``repeats``, how many of them, at the end, fill up the last step; ``places`` of the global sequence that its
            step covers; ``lanes`` as ``(lane, place in plan order, count)``.

            Of the epoch: ``steps``, ``rows_of_epoch``, ``blocks``, ``tail``, ``lanes_of_rank`` as a range, and ``ranks``,
            which has ``batches``, ``blocks``, ``decoded_bytes`` (in memory, the delivered columns) and ``stored_bytes``
            (in the files, all columns) of each. ``decode_amplification`` is what all ranks decode, over what there is.

            Of the shuffle: ``windows``, ``window_bytes`` of the largest in memory, and ``mixing_distance``, how many rows
            the shuffle of a window moves a row on the average. All are 0 without shuffle.

            Of a mixture: ``sources``, rows of the batch by source, and ``sources_of_epoch``.

            With ``packing``, ``places`` and ``repeats`` count packs, ``lanes`` has packs of each lane, and ``packs`` lists
            the pieces of each pack of the batch as ``(file, row, first token, tokens)``. Of the epoch there are also
            ``packs_of_epoch``, ``tokens_of_epoch``, ``fill_rate`` (tokens over what packs have room for),
            ``truncated_tokens``, ``dropped_tokens`` and ``dropped_rows``. ``ranks`` say what each does at most.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> loader.explain(step=1)["rows"]
            [('ten.parquet', 4, 4)]
            >>> [loader.explain(rank=rank, world_size=2, batch_size=2)["rows"] for rank in (0, 1)]
            [[('ten.parquet', 0, 2)], [('ten.parquet', 2, 2)]]
        """
        at_least("step", step, 0)
        at_least("epoch", 0 if epoch is None else epoch, 0)
        at_least("batch_size", self._batch_size if batch_size is None else batch_size, 1)
        size = self._world_size if world_size is None else world_size
        own = rank if rank is not None else self._rank if size == self._world_size else 0
        ranks.resolve(own, size)
        share = {
            "batch_size": self._batch_size if batch_size is None else batch_size,
            "world_size": size,
            "rank": own,
            "tail": tail_of(self._tail_asked, size),
        }
        asked = int(self._position.epoch) if epoch is None else epoch
        columns = self._output_arguments["columns"]
        answer = self._plan(asked).explain(asked, step, share, columns)
        return {**mixture_state.by_name(answer, self._dataset), "tail": share["tail"]}

    def _plan(self, epoch: int) -> Any:
        raise NotImplementedError

    def _share(self) -> dict[str, Any]:
        raise NotImplementedError
