"""Batches for one rank of a training job."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from shardmill.data._arrow import ArrowRows
from shardmill.data._dataset import Dataset
from shardmill.data._error_policy import ErrorPolicy
from shardmill.data._own_methods import own_method, refuse_own_batches
from shardmill.expressions import Expression, Value
from shardmill.load._assembly import iteration_from
from shardmill.load._audit import Audit
from shardmill.load._bad_rows import BadRow
from shardmill.load._checks import at_least
from shardmill.load._diagnosis import Diagnosis
from shardmill.load._explained_documents import with_documents
from shardmill.load._explanation import table_of
from shardmill.load._iteration import Iteration
from shardmill.load._metrics import LoaderMetrics
from shardmill.load._mixture import Mixture
from shardmill.load._options import (
    Output,
    OutputKind,
    Runtime,
    Shuffle,
    Tail,
    Transform,
)
from shardmill.load._packing import Packing
from shardmill.load._reweighting import set_weights
from shardmill.load._token_batches import TokenBatches
from shardmill.storage._paths import PathLike


class Loader(ArrowRows):
    """Iterator over the batches of one rank, decoded by native threads in this process.

    The sequence of global batches depends only on the data, the filter, ``seed``, ``shuffle``,
    ``lanes`` and ``batch_size * world_size``. It does not depend on ranks, threads or earlier
    passes. A state saved on eight ranks therefore continues on four with the same batches.

    Iterating to the end moves to the next epoch. After ``break``, the next pass repeats the epoch,
    with a warning. To train for a number of steps, iterate over ``loader.steps(n)``, which
    continues at the next batch and into the following epochs. In an epoch into which a state was
    loaded, each pass continues after the last batch that was returned. A pass that is left after a
    single batch, such as ``next(iter(loader))``, is a peek: the next one begins with the same
    batch. Only the newest iterator is valid; continuing an older one raises a ``RuntimeError``.

    A loader without ``transform`` is also an Arrow stream, ``__arrow_c_stream__``, of the rows of
    the next pass. The stream has a position of its own: it neither moves that of the loader nor
    ends an iterator. ``output`` does not apply to it.

    Args:
        data: a ``Dataset`` or a ``Mixture``, or the paths of a data set. Options that describe the
            files, such as ``format`` and ``schema``, are set on ``Dataset``.
        batch_size: number of rows per batch of this rank; 1,024 by default.
        columns: names of the columns to return, in this order; all by default. May be paths into
            structs, such as ``"meta.lang"``, as for ``Dataset``.
        filter: as for ``Dataset``, where ``data`` is paths.
        storage_options: as for ``Dataset``, where ``data`` is paths.
        shuffle: ``True`` or a ``Shuffle`` for a new row order in every epoch. By default, rows come
            in file order.
        seed: seed of the order; any signed 64-bit integer.
        lanes: number of contiguous runs of equal length into which the ordered rows are cut; each
            global batch takes rows from all of them. By default the world size of the first run, so
            that each rank reads only its own part of the files. Saved in the state. At most
            1,048,576.
        tail: what happens to the rows that do not fill a whole global batch. ``"uneven"``
            distributes them as evenly as possible, ``"drop"`` drops them, ``"pad"`` adds rows from
            the start of the epoch; batches then have a boolean column ``__padded`` that marks the
            added rows. The default is ``"uneven"`` on one rank and ``"pad"`` on several.
        rank: rank of this process. By default it comes from ``torch.distributed``, else from the
            environment variable ``RANK``.
        world_size: number of ranks that share the rows. By default it comes from
            ``torch.distributed``, else from ``WORLD_SIZE``.
        output: ``"torch"``, ``"numpy"``, ``"arrow"``, ``"dict"`` or ``"rows"``, or an ``Output``,
            which also sets the policy for nulls.
        packing: pack rows of tokens into rows of equal length; see ``Packing``. Then ``batch_size``
            counts packs, and ``columns`` defaults to the columns of the packing.
            With ``TokenBatches``, batches consist of rows of about equal length.
        transform: a function that is called with each batch, in order, and returns the batch to
            deliver; or a ``Transform``, which runs it in worker processes.
        errors: what happens to rows, files and lines that cannot be read. If ``data`` is a
            ``Dataset``, files and lines are set there.
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
        batch_size: int | None = None,
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
        packing: Packing | TokenBatches | None = None,
        transform: Callable[[Any], Any] | Transform | None = None,
        errors: ErrorPolicy | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self._use(iteration_from(**given))

    def _use(self, iteration: Iteration) -> None:
        #: Begins passes, which move the cursor, convert rows to batches, and count their progress.
        self._iteration = iteration
        #: The plan of the rows, the position in it, and the bad rows and audits up to there.
        self._cursor = iteration.cursor
        #: What the batches are: columns, kind, memory.
        self._conversion = iteration.conversion
        #: Metrics and diagnosis.
        self._progress = iteration.progress

    @property
    def dataset(self) -> Dataset | Mixture:
        """The data set or mixture that is loaded."""
        return self._cursor.plan.dataset

    @property
    def rank(self) -> int:
        """Rank of this process."""
        return self._cursor.plan.rank

    @property
    def world_size(self) -> int:
        """Number of ranks that share the rows."""
        return self._cursor.plan.world_size

    @property
    def threads(self) -> int:
        """Number of decoding threads; 0 means the calling thread."""
        return self._progress.threads

    @property
    def epoch(self) -> int:
        """Epoch of the next batch."""
        return self._cursor.position.epoch

    def __len__(self) -> int:
        """Number of batches of a whole epoch on this rank.

        With ``packing`` and ``shuffle``, it is that of the current epoch.
        """
        return self._cursor.plan.of_epoch(self.epoch).batches_left(0, self._cursor.plan.share())

    def __iter__(self) -> Iterator[Any]:
        return self._iteration.begin()

    def steps(self, n: int) -> Iterator[Any]:
        """Iterate over the next ``n`` batches, and continue into the following epochs.

        It is meant for a training loop with a fixed number of steps.

        The first batch is the one at the position of ``state_dict``: after the last batch that was
        returned. If the last pass over the loader was left after a single batch, it is that batch.
        Every batch that ``steps`` returns counts: after a loop that was left early, the next call
        continues at the next batch, and so does a pass over the loader. ``state_dict`` returns the
        position after the last batch at any time. The length of the iterator is the number of
        batches that are left.

        All ranks take the same steps. With ``tail="uneven"``, a rank may have no batch in the last
        step of an epoch.

        Args:
            n: number of batches.

        Raises:
            ValueError: If ``n`` is not an integer of at least 0, or an epoch has no batches.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> [batch["x"].tolist() for batch in loader.steps(4)]
            [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
            >>> [batch["x"].tolist() for batch in loader.steps(1)]
            [[4, 5, 6, 7]]
        """
        n = at_least("n", n, 0)
        if not own_method(self, ["steps"]):
            refuse_own_batches(self, "steps()")
        return self._iteration.begin(steps=n)

    def set_epoch(self, epoch: int) -> None:
        """Move to the start of ``epoch``.

        If the loader is already in this epoch, its position is kept.

        This is never required: a pass that ends moves to the next epoch by itself. A pass that
        continues after this call ends in its own epoch, and until then ``state_dict`` refers to
        that epoch. Call it on all ranks.

        Args:
            epoch: number of the epoch, from 0.

        Raises:
            ValueError: If ``epoch`` is not an integer of at least 0.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> loader = sm.Loader("ten.parquet", batch_size=4, shuffle=True)
            >>> loader.set_epoch(3)
            >>> loader.state_dict()["epoch"]
            3
        """
        self._cursor.set_epoch(at_least("epoch", epoch, 0))

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last returned batch as plain JSON values.

        The state takes less than 4 KiB, and is the same on every rank. After ``set_weights``, it
        takes more if there are many sources or lanes. Before the first batch of a pass, it is the
        position where the pass begins. Prefetched batches do not count. The call has no side
        effects. Call it at the same step on all ranks.
        """
        return self._cursor.state(self._cursor.position.epoch, self._cursor.position.consumed)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the next pass after the last batch recorded in ``state``.

        The pass may run on any number of ranks and threads.

        Later passes of this epoch continue, too, after the last batch that was returned. As in any
        epoch, a pass that is left after a single batch, such as ``next(iter(loader))``, moves
        nothing: the next pass begins with that batch. If the state is rejected or cannot be loaded,
        the loader is unchanged.

        Args:
            state: what ``state_dict`` returned, also after a round trip through JSON.

        Raises:
            shardmill.CheckpointMismatchError: If the state is not valid, or was saved with another
                data set, filter, seed, shuffle, window, lanes, mixture, packing or version. It is a
                ``ValueError``.
            shardmill.StorageError: If rows are packed and their lengths cannot be read.
        """
        self._cursor.load(state)

    def skip(self, steps: int) -> None:
        """Move past ``steps`` steps of all ranks without reading them.

        This is useful to pass a loss spike, for example. The time does not depend on ``steps``.
        There are two exceptions, both with packing and shuffled or mixed rows. With
        ``plan="epoch"``, epochs have different numbers of packs, and each epoch in between is
        planned. With ``plan="ahead"``, the next batch follows from the token counts of each pass in
        between, except for ``strategy="concat"`` of the shuffled rows of a single lane.

        As after ``load_state_dict``, the position counts from the last returned batch, the next
        pass continues there, and older iterators are no longer valid. ``state_dict`` equals that of
        a loader that has consumed the steps, except for ``bad_rows``: skipped rows are in no audit
        and no list of bad rows. Call it on all ranks. At the end of an epoch, skipping continues in
        the next one.

        Raises:
            ValueError: If ``steps`` is negative, or an epoch has no steps.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> loader.skip(2)
            >>> [batch["x"].tolist() for batch in loader]
            [[8, 9]]
        """
        self._cursor.skip(at_least("steps", steps, 0))

    def set_weights(self, weights: Mapping[str, float], group: Any = None) -> int:
        """Change the weights of a mixture from the next epoch on.

        If no batch of the current epoch was delivered, the weights apply to that epoch. With
        ``plan="ahead"``, they apply from the first pass that no lane has begun at the position of
        ``state_dict``. Rows and packs before this do not change, and a running pass continues. To
        apply weights sooner, use a smaller ``epoch_rows`` of the mixture. Sources continue where
        they stopped, so no row is drawn twice before all rows of its source were drawn once.
        Windows of the shuffle keep the shares of the weights with which the mixture was created.

        A state contains the new weights, and its size does not depend on the number of calls. With
        ``plan="ahead"``, it also contains a position of each lane. The weights of epochs before the
        last one are not kept: ``set_epoch`` rejects these epochs, unless all of them had the
        weights with which the mixture was created.

        Call it on all ranks, after the same step. With ``plan="ahead"`` and several ranks, the call
        is one all-reduce, because lanes of other ranks may be in later passes.

        Args:
            weights: the share of each source, on any scale. Sources within nested mixtures are
                named ``outer/inner``. 0 leaves a source out.
            group: a process group of the ranks that share the rows. If it is given, ranks compare
                their weights. With ``plan="ahead"``, it defaults to the default group.

        Returns:
            The row from which the weights apply, counted over all epochs, as in the ``weights`` of
            a ``Mixture``.

        Raises:
            ValueError: If a weight is missing or not valid, a source with a positive weight has no
                rows, ranks pass different weights, the data is not a mixture with weights, its
                weights are interpolated, or ``plan="ahead"`` has no process group of all ranks.
            EngineError: If the call failed on another rank.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(100))}), "web.parquet")
            >>> pq.write_table(pa.table({"x": list(range(100, 200))}), "code.parquet")
            >>> import shardmill as sm
            >>> sources = {"web": "web.parquet", "code": "code.parquet"}
            >>> mixture = sm.Mixture(sources, weights={"web": 0.75, "code": 0.25}, epoch_rows=16)
            >>> loader = sm.Loader(mixture, batch_size=16, output="numpy")
            >>> loader.set_weights({"web": 0.5, "code": 0.5})
            0
            >>> int((next(iter(loader))["x"] >= 100).sum())
            8
        """
        return set_weights(self._cursor, self._conversion, weights, group)

    def metrics(self, *, since_last: bool = False) -> LoaderMetrics:
        """Return the counters of this loader. It may be called at any time and from any thread.

        Args:
            since_last: count from the last call with ``since_last=True`` instead of from the
                creation of the loader. Without it, the call has no side effects. The difference of
                any two results, ``later - earlier``, are the counters of the time between.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> batches = list(loader)
            >>> metrics = loader.metrics()
            >>> metrics.batches, metrics.rows, metrics.wait.count
            (3, 10, 2)
            >>> metrics.stages.decode > 0
            True
        """
        return self._progress.metrics(since_last=since_last)

    def diagnosis(self) -> Diagnosis:
        """Return how long the trainer waited for data, and which stage held it up.

        The diagnosis is that of the current pass, or of the last one.

        The time up to the first batch of the loader is not judged; ``startup_seconds`` has it. The
        first batch of a later epoch is, because the trainer is running then, and so is the time of
        the trainer since the pass before. At the end of each epoch, the logger ``shardmill.load``
        gets the diagnosis as a line of level INFO.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> print(loader.diagnosis())
            nothing to judge: fewer than two batches were taken
        """
        return self._progress.diagnosis()

    @property
    def bad_rows(self) -> list[BadRow]:
        """The rows in the batches of this rank and epoch that were bad, or have a filled image."""
        return list(self._cursor.ledger.rows)

    def audit(self, epoch: int | None = None) -> Audit:
        """Return the audit of what this rank received in an epoch.

        It covers what was received since the loader was created or a state was loaded.

        Audits are additive: those of all ranks and sessions together equal ``expected_audit`` if
        every row was delivered once, in its place. Bad rows that were skipped or replaced are not
        counted, nor are the rows that replace them. Places depend on ``batch_size * world_size``;
        if that changed within the epoch, only ``rows`` and ``set`` are equal.

        Args:
            epoch: the epoch; the last one by default.

        Raises:
            ValueError: If the loader was created without ``Runtime(audit=True)``.
        """
        return self._cursor.ledger.audit(epoch)

    def expected_audit(
        self, *, start: int = 0, end: int | None = None, epoch: int | None = None
    ) -> Audit:
        """Return the audit of all ranks together between two positions of an epoch.

        It follows from the plan. No data is read.

        Args:
            start: first row (or pack) of the range in the epoch, as in
                ``state_dict()["consumed"]``.
            end: end of the range; the end of the epoch by default.
            epoch: the epoch; the last one of ``audit`` by default.
        """
        return self._cursor.expected_audit(start, end, epoch)

    def explain(
        self,
        *,
        step: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int | None = None,
        epoch: int | None = None,
        documents: bool = False,
    ) -> dict[str, Any]:
        """Explain which rows a batch contains and why, for this or another topology.

        No row data is read, unless ``documents=True``. Lanes are those of this loader.

        Returns:
            For the batch: ``rows`` as ``(file, first row, count)`` in batch order, ``None`` past
            the last step; ``row_files``, the numbers of these files in the data set, because
            names may be equal; ``repeats``, the number of rows at the end that pad the last step;
            ``places``, the positions in the global sequence that its step covers; ``lanes`` as
            ``(lane, position in plan order, count)``.

            For the epoch: ``steps``, ``rows_of_epoch``, ``blocks``, ``tail``, ``lanes_of_rank`` as
            a range, and ``ranks``, which has ``batches``, ``blocks``, ``decoded_bytes`` (in memory,
            selected columns) and ``stored_bytes`` (in the files, all columns) of each rank.
            ``decode_amplification`` is the bytes decoded by all ranks over the bytes of the data.

            For the shuffle: ``windows``, ``window_bytes`` of the largest window in memory, and
            ``mixing_distance``, the average number of rows by which the shuffle moves a row within
            its window. All are 0 without shuffle.

            For a mixture, without ``packing``: ``sources``, rows of the batch by source, and
            ``sources_of_epoch``.

            With ``packing``, ``places`` and ``repeats`` count packs, ``lanes`` has packs of each
            lane, ``packs`` lists the pieces of each pack of the batch as ``(file, row, first token,
            tokens)``, and ``pack_files`` the numbers of their files. For the epoch there are also
            ``packs_of_epoch``, ``tokens_of_epoch``, ``fill_rate`` (tokens over the capacity of the
            packs, 0 without packs), ``padded_tokens`` (added to documents by ``multiple_of``),
            ``truncated_tokens``, ``dropped_tokens`` and ``dropped_rows``. ``ranks`` has upper
            bounds. With ``TokenBatches``, these entries describe batches in place of packs, and
            rows in place of pieces; ``padded_tokens`` counts all padding, and ``fill_rate`` is the
            share of tokens that are not padding.

            For token files with provenance, ``documents`` has the source documents of each row of
            the batch, or of each piece of each pack, as ``(file, row, first token, tokens)``. With
            ``documents=True``, documents of packs with images are read, and ``documents`` has a
            dict for each: ``pack``, ``file``, ``row``, ``sample_id``, ``first_token`` in the pack,
            ``tokens``, and ``images``, each with ``first_token``, ``tokens``, ``grid`` (``None``
            without patches) and ``patches``.

            With ``plan="ahead"``, packs of a lane are numbered over all epochs, and the tokens up
            to the step are counted unless their counts are known. ``rows_of_epoch``, ``ranks`` and
            the figures of the shuffle are those of one pass; totals of tokens are ``None`` unless
            all packs are full of tokens.

            With ``balance``, there are also ``rank_costs``, the cost of each rank in the step;
            ``cost_imbalance``, which has for the orders ``balanced`` and ``as_packed`` the sum of
            the largest costs of the steps over the sum of the mean costs, and the same ratio of the
            worst step, for ``all_steps`` and for those ``before_first_end`` of a lane;
            ``steps_after_first_end``; ``step_mix``, the minimum and maximum over optimizer steps of
            ``documents`` per pack and of the share of tokens of each source; ``balance_bytes``, the
            size of the rows that a rank keeps for its windows; ``is_equal_work``, whether all ranks
            take packs with the same index in the order by cost, from the position of the loader on;
            and ``unequal_because``, which names the number to change. With ``plan="ahead"``, these
            figures are those of the windows of the step.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> loader.explain(step=1)["rows"]
            [('ten.parquet', 4, 4)]
            >>> loader.explain(rank=1, world_size=2, batch_size=2)["rows"]
            [('ten.parquet', 2, 2)]
        """
        share = self._cursor.plan.share(rank, world_size, batch_size)
        answer = self._cursor.explain(epoch, step, share, self._conversion.columns)
        return with_documents(answer, self._cursor.plan, step, has_images=documents)

    def explain_table(
        self,
        *,
        step: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int | None = None,
        epoch: int | None = None,
    ) -> Any:
        """Return the source of each row of a batch as a ``pyarrow.Table``.

        No row data is read. Requires pyarrow.

        Args:
            step: as for ``explain``.
            rank: as for ``explain``.
            world_size: as for ``explain``.
            batch_size: as for ``explain``.
            epoch: as for ``explain``.

        Returns:
            A row for each row of the batch, in order: ``row_of_batch``, ``file`` and ``row``, its
            number in the file. With ``packing``, a row for each piece of a pack: ``pack``, its
            number in the batch, ``file``, ``row``, ``first_token`` and ``tokens``.

        Raises:
            ValueError: If the epoch has no such step on this rank.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
            >>> loader.explain_table(step=2).to_pylist()[1]
            {'row_of_batch': 1, 'file': 'ten.parquet', 'row': 9}
        """
        share = self._cursor.plan.share(rank, world_size, batch_size)
        answer = self._cursor.explain(epoch, step, share, self._conversion.columns)
        return table_of(answer, step)

    def __getitem__(self, index: Any) -> Any:
        # A DataLoader takes unknown objects for map-style data sets; its own error would not help.
        raise TypeError(
            "a Loader cannot be indexed"
            "\nhint: iterate it directly; if you need a DataLoader, pass it "
            "shardmill.integrations.torch.BatchDataset(loader), with batch_size=None; "
            "for a Trainer of transformers, use shardmill.integrations.transformers.LoaderMixin"
        )

    def _arrow_schema(self) -> Any:
        return self._conversion.arrow_schema

    def _arrow_batches(self) -> Iterator[Any]:
        # A position and counters of its own, so that a pass of this loader is not disturbed.
        other = loader_with(self, self._iteration.for_stream())
        return (piece for pieces in iter(other) if pieces is not None for piece in pieces)

    def __repr__(self) -> str:
        plan = self._cursor.plan
        return (
            f"Loader({plan.dataset!r}, batch_size={plan.batch_size}, "
            f"rank={plan.rank} of {plan.world_size})"
        )


def iteration_of(loader: Loader) -> Iteration:
    """Return what begins the passes of a loader, for callers that do not use ``iter``."""
    return loader._iteration  # pyright: ignore[reportPrivateUsage]


def loader_with(loader: Loader, iteration: Iteration) -> Loader:
    """Return a loader of the same class and data with another iteration."""
    other = copy(loader)
    other._use(iteration)  # pyright: ignore[reportPrivateUsage]
    return other
