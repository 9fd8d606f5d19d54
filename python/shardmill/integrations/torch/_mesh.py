"""Equal batches on all ranks of a replica, of which only one reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, Literal

from shardmill._choices import check_choice
from shardmill.data._own_methods import refuse_own_batches
from shardmill.errors import ClosedError, MissingColumnError, OptionError
from shardmill.integrations.torch._broadcast import Form
from shardmill.integrations.torch._replica import replica_of_group, replica_of_mesh
from shardmill.integrations.torch._rounds import Rounds
from shardmill.load._checks import at_least
from shardmill.load._loader import Loader, iteration_of, loader_with
from shardmill.load._metrics import LoaderMetrics

Share = Literal["broadcast", "read"]


class MeshLoader:
    """Batches of a ``Loader`` in a job with tensor, pipeline or context parallelism.

    The ranks that train one replica of the model together receive equal batches. Rows are divided
    over the *data ranks*, one for each replica. The first rank of a replica reads and decodes. The
    others open no file. They receive each batch in a broadcast while the trainer processes the
    previous batch: tensors in host memory by gloo, tensors on a device by the backend of the job.
    Batches must contain only tensors and numbers.

    All ranks of a replica create the loader, iterate, and call ``steps``, ``set_epoch``, ``skip``,
    ``set_weights`` and ``load_state_dict`` in the same order and with the same arguments. Each of
    these calls, and each ``next()``, waits for the other ranks of the replica. If the calls differ,
    all of these ranks raise an ``EngineError``. An error on the rank that reads is raised on all
    ranks of its replica, at the same batch. ``state_dict``, ``len``, ``epoch`` and ``metrics`` do
    not wait for other ranks.

    Passes, epochs and ``steps`` work as in ``Loader``, but a pass begins with its first ``next()``.
    The loader has its own process groups, so the collectives of the model may run between batches.

    Args:
        loader: a ``Loader`` that was created without ``rank`` and ``world_size``; or a function
            without arguments that creates it. The function is called only on ranks that read.
            Creating a ``Loader`` lists the files and reads their footers.
        mesh: the device mesh of the job.
        data: names of the dimensions over which rows are divided. By default ``"dp"``, or
            ``"batch"``, or ``"dp_replicate"`` and ``"dp_shard"``. With ``[]``, all ranks receive
            equal batches.
        columns: the columns that the ranks receive that are neither first nor last in a dimension,
            such as ``{"pp": ["segment_ids", "document_lengths"]}`` for the middle stages of a
            pipeline. Their other columns are tensors on the device ``"meta"``, which have a type
            and a shape but no values.
        data_parallel: in place of ``mesh``: the data rank, and the number of data ranks.
        replica: in place of ``mesh``: a process group of the ranks with this data rank. It is not
            used for communication.
        share: with ``"read"``, each rank reads for itself, and batches may be of any kind.
        timeout: longest time in seconds that a rank waits for the others of its replica.

    Raises:
        ValueError: If an option is not valid, if the dimensions over which rows are divided are not
            clear from the mesh, or if batches contain strings or other objects. With a
            ``transform``, the error is raised at the batch that contains them.
        KeyError: If ``columns`` names a column that batches do not have.
        EngineError: If a rank of the replica does not call in time, or makes another call.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(6))}), "six.parquet")
        >>> import shardmill as sm
        >>> from shardmill.integrations.torch import MeshLoader
        >>> from torch.distributed import HashStore, destroy_process_group, init_process_group
        >>> from torch.distributed.device_mesh import init_device_mesh
        >>> init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        >>> loader = MeshLoader(sm.Loader("six.parquet", batch_size=4), mesh)
        >>> [batch["x"].tolist() for batch in loader]
        [[0, 1, 2, 3], [4, 5]]
        >>> destroy_process_group()
    """

    def __init__(
        self,
        loader: Loader | Callable[[], Loader],
        mesh: Any = None,
        data: str | Sequence[str] | None = None,
        columns: Mapping[str, Sequence[str]] | None = None,
        *,
        data_parallel: tuple[int, int] | None = None,
        replica: Any = None,
        share: Share = "broadcast",
        timeout: float = 300.0,
    ) -> None:
        check_choice("share", share, Share)
        if not callable(loader) and not isinstance(loader, Loader):
            raise OptionError(
                f"loader must be a Loader, or a function that creates it, not {loader!r}"
            )
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise OptionError(f"timeout must be a positive number of seconds, not {timeout!r}")
        if columns is not None and share == "read":
            raise OptionError(
                'columns applies to share="broadcast", and each rank reads for itself\n'
                "hint: select columns of the Loader"
            )
        if mesh is not None:
            if data_parallel is not None or replica is not None:
                raise OptionError(
                    "mesh and data_parallel are mutually exclusive\nhint: leave out one of them"
                )
            self._replica = replica_of_mesh(mesh, data, columns)
        elif data is not None or columns is not None:
            raise OptionError("data and columns name dimensions of a mesh\nhint: pass mesh=")
        else:
            self._replica = replica_of_group(data_parallel, replica)
        self._is_closed = False
        self._loader: Loader | None = None
        is_alone = share == "read" or len(self._replica.members) == 1
        self._rounds = None if is_alone else Rounds(self._replica, timeout)
        whole = [self.rank, self.world_size, sorted(self._replica.columns or [])]
        try:
            self._move("MeshLoader", whole, partial(self._made, loader))
        except BaseException:
            self.close()
            raise

    def _made(self, loader: Loader | Callable[[], Loader]) -> None:
        """Create the loader of this data rank."""
        if not isinstance(loader, Loader) and not isinstance(loader := loader(), Loader):
            raise OptionError(f"the function must return a Loader, not {loader!r}")
        refuse_own_batches(loader, "a MeshLoader")
        stage = iter if self._rounds is None else self._rounds.ahead.over
        iteration = iteration_of(loader).of_rank(self.rank, self.world_size, stage)
        self._loader = loader_with(loader, iteration)
        if self._rounds is None:
            return
        self._rounds.loader = self._loader
        if iteration.progress.transform is not None:
            return
        conversion = iteration.conversion
        if conversion.cutter.kind != "torch":
            raise OptionError(
                f"other ranks receive only tensors, not output={conversion.cutter.kind!r}\n"
                'hint: use output="torch", or let each rank read for itself with share="read"'
            )
        Form(conversion.empty(), None)
        names = conversion.converter.names
        for name in sorted(self._replica.columns or ()):
            if name not in names:
                raise MissingColumnError(
                    f"columns names {name!r}, and batches have {', '.join(names)}"
                )

    @property
    def loader(self) -> Loader | None:
        """The loader of this data rank, for example for ``explain``.

        It is ``None`` on ranks that do not read. Iterate over the ``MeshLoader`` instead.
        """
        return self._loader

    @property
    def rank(self) -> int:
        """Data rank of this process."""
        return self._replica.rank

    @property
    def world_size(self) -> int:
        """Number of data ranks."""
        return self._replica.size

    @property
    def epoch(self) -> int:
        """Epoch of the next batch."""
        return self._rounds.state["epoch"] if self._rounds else self._own.epoch

    def __len__(self) -> int:
        """Number of batches of a whole epoch on this data rank.

        With ``packing`` and ``shuffle``, it is that of the epoch in which the newest pass began.
        """
        return self._rounds.length if self._rounds else len(self._own)

    def __iter__(self) -> Iterator[Any]:
        self._check_open()
        return self._rounds.begin(None) if self._rounds else iter(self._own)

    def steps(self, n: int) -> Iterator[Any]:
        """Iterate over the next ``n`` batches, like ``shardmill.Loader.steps``.

        Raises:
            ValueError: If ``n`` is not an integer of at least 0.
        """
        self._check_open()
        n = at_least("n", n, 0)
        return self._rounds.begin(n) if self._rounds else self._own.steps(n)

    def set_epoch(self, epoch: int) -> None:
        """Move to an epoch, like ``shardmill.Loader.set_epoch``. Call it on all ranks."""
        self._move("set_epoch", epoch, lambda: self._own.set_epoch(epoch))

    def skip(self, steps: int) -> None:
        """Move past steps, like ``shardmill.Loader.skip``. Call it on all ranks."""
        self._move("skip", steps, lambda: self._own.skip(steps))

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the batch that this rank returned last.

        It is the same on all ranks, and the same as that of ``shardmill.Loader.state_dict``.
        """
        return deepcopy(self._rounds.state) if self._rounds else self._own.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the last batch recorded in ``state``. Call it on all ranks.

        The state may have been saved on another mesh, or by a ``Loader``; see
        ``shardmill.Loader.load_state_dict``.

        Raises:
            CheckpointMismatchError: If the state is not valid, or was saved with other data or
                another order. It is a ``ValueError``.
        """
        # Bad rows are counted by each data rank.
        place = [state.get("epoch"), state.get("consumed")] if isinstance(state, dict) else None
        self._move("load_state_dict", place, lambda: self._own.load_state_dict(state))

    def set_weights(self, weights: Mapping[str, float], group: Any = None) -> int:
        """Change the weights of a mixture, like ``shardmill.Loader.set_weights``.

        Call it on all ranks.

        Args:
            weights: the share of each source.
            group: a process group of the first rank of each replica, which reads. With
                ``plan="ahead"`` and several data ranks, the default group is used if each replica
                has one rank. The other ranks of a replica ignore ``group``.

        Raises:
            ValueError: As for ``shardmill.Loader.set_weights``.
        """
        if self._rounds is not None:
            # The batch on its way may be of other weights.
            self._rounds.drop()
        shown = sorted(weights.items()) if isinstance(weights, Mapping) else repr(weights)
        self._move("set_weights", shown, lambda: self._own.set_weights(weights, group))
        mixture = self.state_dict()["mixture"]
        return mixture["set_weights"]["stages"][-1][0] * mixture["epoch_rows"]

    def metrics(self, *, since_last: bool = False) -> LoaderMetrics:
        """Return the counters of this rank; see ``shardmill.Loader.metrics``.

        A rank that does not read counts its batches, rows and waits, and 0 bytes read. On the rank
        that reads, the time of a broadcast counts as time of the trainer.
        """
        if self._loader is not None or self._rounds is None:
            return self._own.metrics(since_last=since_last)
        return self._rounds.metrics(since_last=since_last)

    def close(self) -> None:
        """Leave the process groups of the loader. Call it on all ranks of a replica.

        If a rank closes its loader, ranks that wait for it raise an ``EngineError``.
        """
        if self._rounds is not None and not self._is_closed:
            self._rounds.close()
        self._is_closed = True

    @property
    def _own(self) -> Loader:
        assert self._loader is not None
        return self._loader

    def _move(self, operation: str, argument: Any, act: Callable[[], object]) -> None:
        self._check_open()
        if self._rounds is None:
            act()
        else:
            self._rounds.move(operation, argument, act)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this MeshLoader is closed\nhint: create another one on all ranks")
