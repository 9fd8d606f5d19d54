"""Reports of a loader about its batches and itself."""

from __future__ import annotations

from typing import Any

from shardmill._extras import pyarrow_for
from shardmill.errors import OptionError
from shardmill.load import _mixture_state as mixture_state
from shardmill.load import _ranks as ranks
from shardmill.load._audit import Audit
from shardmill.load._bad_rows import BadRow
from shardmill.load._checks import at_least, tail_of
from shardmill.load._plan import LoaderPlan

_FILES_SHOWN = 4


class LoaderReports(LoaderPlan):
    """The read-only part of a ``shardmill.Loader``."""

    @property
    def bad_rows(self) -> list[BadRow]:
        """The rows of this epoch that could not be decoded, in the batches that this rank received."""
        return list(self._ledger.rows)

    def audit(self, epoch: int | None = None) -> Audit:
        """Return the audit of what this rank received in an epoch, since the loader was created or a state was loaded.

        Audits are additive: those of all ranks and sessions together equal ``expected_audit`` if every row was delivered once, in its place.
        Bad rows that were skipped or replaced are not counted, nor are the rows that replace them.
        Places depend on ``batch_size * world_size``; if that changed within the epoch, only ``rows`` and ``set`` are equal.

        Args:
            epoch: the epoch; the last one by default.

        Raises:
            ValueError: If the loader was created without ``Runtime(audit=True)``.
        """
        if not self._is_audited:
            raise OptionError(
                "this loader does not compute an audit\nhint: create it with runtime=sm.Runtime(audit=True)"
            )
        return self._audits.get(max(self._audits, default=0) if epoch is None else epoch, Audit())

    def expected_audit(self, *, start: int = 0, end: int | None = None, epoch: int | None = None) -> Audit:
        """Return the audit of all ranks together between two positions of an epoch, from the plan. No data is read.

        Args:
            start: first row (or pack) of the range in the epoch, as in ``state_dict()["consumed"]``.
            end: end of the range; the end of the epoch by default.
            epoch: the epoch; the last one of ``audit`` by default.
        """
        asked = max(self._audits, default=self._position.epoch) if epoch is None else at_least("epoch", epoch, 0)
        plan, share = self._plan(asked), self._share()
        return Audit(*plan.audit(asked, start, plan.end(start, share) if end is None else end, share))

    def explain(
        self,
        *,
        step: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int | None = None,
        epoch: int | None = None,
    ) -> dict[str, Any]:
        """Explain which rows a batch contains and why, for this or another topology, without reading row data.

        Steps count from the start of the epoch. Lanes are those of this loader, as after a resume on that topology.

        Returns:
            For the batch: ``rows`` as ``(file, first row, count)`` in batch order, ``None`` past the last step;
            ``repeats``, the number of rows at the end that pad the last step; ``places``, the positions in the global sequence that its
            step covers; ``lanes`` as ``(lane, position in plan order, count)``.

            For the epoch: ``steps``, ``rows_of_epoch``, ``blocks``, ``tail``, ``lanes_of_rank`` as a range, and ``ranks``,
            which has ``batches``, ``blocks``, ``decoded_bytes`` (in memory, selected columns) and ``stored_bytes``
            (in the files, all columns) of each rank. ``decode_amplification`` is the bytes decoded by all ranks over the bytes of the data.

            For the shuffle: ``windows``, ``window_bytes`` of the largest window in memory, and ``mixing_distance``, the average number of rows
            by which the shuffle moves a row within its window. All are 0 without shuffle.

            For a mixture, without ``packing``: ``sources``, rows of the batch by source, and ``sources_of_epoch``.

            With ``packing``, ``places`` and ``repeats`` count packs, ``lanes`` has packs of each lane, and ``packs`` lists
            the pieces of each pack of the batch as ``(file, row, first token, tokens)``. For the epoch there are also
            ``packs_of_epoch``, ``tokens_of_epoch``, ``fill_rate`` (tokens over the capacity of the packs),
            ``truncated_tokens``, ``dropped_tokens`` and ``dropped_rows``. ``ranks`` has upper bounds.

            With ``plan="ahead"``, packs of a lane are numbered over all epochs, and the tokens up to the step are counted unless their
            counts are known. ``rows_of_epoch``, ``ranks`` and the figures of the shuffle are those of one pass; totals of tokens are ``None``
            unless all packs are full.

        Examples:
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
        asked = self._position.epoch if epoch is None else at_least("epoch", epoch, 0)
        columns = self._output_arguments["columns"]
        answer = self._plan(asked).explain(asked, step, share, columns)
        return {**mixture_state.by_name(answer, self._dataset), "tail": share["tail"]}

    def explain_table(
        self,
        *,
        step: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int | None = None,
        epoch: int | None = None,
    ) -> Any:
        """Return the source of each row of a batch as a ``pyarrow.Table``, without reading row data. Requires pyarrow.

        Args:
            step: as for ``explain``.
            rank: as for ``explain``.
            world_size: as for ``explain``.
            batch_size: as for ``explain``.
            epoch: as for ``explain``.

        Returns:
            A row for each row of the batch, in order: ``row_of_batch``, ``file`` and ``row``, its number in the file. With ``packing``, a row
            for each piece of a pack: ``pack``, its number in the batch, ``file``, ``row``, ``first_token`` and ``tokens``.

        Raises:
            ValueError: If the epoch has no such step on this rank.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> loader.explain_table(step=2).to_pylist()
            [{'row_of_batch': 0, 'file': 'ten.parquet', 'row': 8}, {'row_of_batch': 1, 'file': 'ten.parquet', 'row': 9}]
        """
        pa = pyarrow_for("explain_table")
        answer = self.explain(step=step, rank=rank, world_size=world_size, batch_size=batch_size, epoch=epoch)
        parts: list[Any] | None = answer.get("packs", answer["rows"])
        if parts is None:
            raise OptionError(f"step {step} is not in the epoch, which has {answer['steps']} steps")
        integer = pa.int64()
        if "packs" in answer:
            names = ("pack", "file", "row", "first_token", "tokens")
            rows = [(number, *piece) for number, pack in enumerate(parts) for piece in pack]
        else:
            names = ("row_of_batch", "file", "row")
            pairs = ((file, first + row) for file, first, count in parts for row in range(count))
            rows = [(number, *pair) for number, pair in enumerate(pairs)]
        schema = pa.schema([(name, pa.string() if name == "file" else integer) for name in names])
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema)

    def _described(self, epoch: int, start: int, consumed: int) -> str:
        """Return the place and the files of a batch, for a note.

        Args:
            epoch: epoch of the batch.
            start: rows of the epoch that were consumed when the pass started.
            consumed: rows of the epoch that are consumed with the batch.
        """
        size = self._batch_size * self._world_size
        step, is_whole = (consumed - 1) // size, start % size == 0
        place = f"batch {step:,}" if is_whole else f"the batch before row {consumed:,}"
        described = f"{place} of epoch {epoch} on rank {self._rank} of {self._world_size}"
        # The steps of a pass that continues another batch size are not those of the plan.
        rows = self.explain(step=step, epoch=epoch)["rows"] if is_whole else None
        files = list(dict.fromkeys(file for file, *_ in rows or ()))
        if not files:
            return described
        more = f" and {len(files) - _FILES_SHOWN} more files" if len(files) > _FILES_SHOWN else ""
        return f"{described}, with rows of {', '.join(files[:_FILES_SHOWN])}{more}"
