"""Groups of options of a ``shardmill.Loader``, each a frozen dataclass that checks its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_kind
from shardmill._sizes import byte_count
from shardmill._stall import STALL_SECONDS, checked_stall_seconds
from shardmill._threads import checked_threads
from shardmill.data._dataset import DEFAULT_PREFETCH_BYTES, DEFAULT_WINDOW_BYTES
from shardmill.errors import OptionError
from shardmill.load._checks import at_least
from shardmill.load._nested import Side

OutputKind = Literal["torch", "numpy", "arrow", "dict", "rows"]
NullPolicy = Literal["raise", "fill", "mask"]
ListForm = Literal["auto", "ragged"]
Tail = Literal["uneven", "drop", "pad"]


@dataclass(frozen=True)
class Shuffle:
    """How rows are shuffled.

    Attributes:
        window_bytes: size of the shuffle window, in decoded bytes of all columns, such as
            ``"64MiB"``. Row groups are read in random order, and the rows of one window are
            shuffled together. A rank holds one window for each of its lanes.

    Examples:
        >>> import shardmill as sm
        >>> sm.Shuffle(window_bytes="16MiB").window_bytes
        16777216
    """

    window_bytes: int | str = DEFAULT_WINDOW_BYTES

    def __post_init__(self) -> None:
        # A window of 0 bytes shuffles the rows of one row group at a time.
        is_zero = not isinstance(self.window_bytes, bool) and self.window_bytes in (0, "0")
        size = 0 if is_zero else byte_count(self.window_bytes, "window_bytes")
        object.__setattr__(self, "window_bytes", size)

    @property
    def bytes(self) -> int:
        """Window size in bytes."""
        return int(self.window_bytes)


@dataclass(frozen=True)
class Output:
    """The type of the batches, the policy for nulls, and the form of lists.

    Attributes:
        kind: ``"torch"``, ``"numpy"`` and ``"dict"`` return dicts of columns, ``"rows"`` returns
            lists of rows, each a dict, and ``"arrow"`` returns record batches. A string or binary
            column with more than 2 GiB in one batch has 64-bit offsets in it, as ``large_string``
            or ``large_binary``.
        nulls: policy for integers, booleans, dates and times in ``"torch"`` and ``"numpy"``
            batches. ``"raise"`` raises with file, column and row; ``"fill"`` uses the value in
            ``fill_values``; ``"mask"`` adds a boolean column ``<name>__valid`` to every batch. Null
            floats become NaN unless a fill value is given.
        fill_values: value for each column, for ``nulls="fill"``.
        pad: for ``"torch"`` and ``"numpy"``: pad lists of numbers to a tensor ``[rows, length]``,
            and add their lengths as ``<name>__length``, int32. ``"longest"`` pads to the longest
            row of each batch. A number pads to this length, and a longer row raises. In lists of
            lists, a number is the length of the outer lists, and inner lists are padded to the
            longest of the batch.
        pad_value: padding value, or a mapping with a value for each column; columns without a value
            are padded with zeros. Labels that are computed by ``tokenize`` are padded with its
            ``ignore_index``, unless the mapping has a value for them.
        side: side on which rows are padded, ``"right"`` or ``"left"``.
        lists: form of variable-length lists without ``pad``. With ``"auto"``, a column whose lists
            are equally long in the whole data set becomes a tensor ``[rows, length]``, and any
            other a ``Ragged``. With ``"ragged"``, each becomes a ``Ragged``.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> pq.write_table(pa.table({"x": [1, None, 3]}), "nulls.parquet")
        >>> output = sm.Output("numpy", nulls="fill", fill_values={"x": -1})
        >>> [batch["x"].tolist() for batch in sm.Loader("nulls.parquet", output=output)]
        [[1, -1, 3]]

        >>> pq.write_table(pa.table({"tokens": [[1, 2, 3], [4], []]}), "tokens.parquet")
        >>> output = sm.Output("numpy", pad="longest", pad_value=-1)
        >>> batch = next(iter(sm.Loader("tokens.parquet", output=output)))
        >>> batch["tokens"].tolist(), batch["tokens__length"].tolist()
        ([[1, 2, 3], [4, -1, -1], [-1, -1, -1]], [3, 1, 0])
    """

    kind: OutputKind = "torch"
    nulls: NullPolicy = "raise"
    fill_values: Mapping[str, Any] | None = None
    pad: int | Literal["longest"] | None = None
    pad_value: Any = 0
    side: Side = "right"
    lists: ListForm = "auto"

    def __post_init__(self) -> None:
        check_fields(Output, vars(self), prefix="Output.")
        self._check_pad()
        if self.kind not in ("torch", "numpy") and (
            self.nulls != "raise" or self.fill_values is not None
        ):
            raise OptionError(
                'nulls and fill_values apply only to "torch" and "numpy" batches; '
                f'"{self.kind}" batches keep nulls'
            )
        if self.fill_values is not None:
            if not isinstance(self.fill_values, Mapping):
                raise OptionError(
                    "Output.fill_values must be a mapping of columns to values, "
                    f"not {self.fill_values!r}"
                )
            # A copy: the caller may go on to change its own.
            object.__setattr__(self, "fill_values", dict(self.fill_values))

    def _check_pad(self) -> None:
        if self.pad is None:
            changed = [
                name
                for name, value, default in self._pad_options()
                if value is not default and value != default
            ]
            if changed:
                raise OptionError(
                    f"Output.{changed[0]} needs Output.pad\nhint: set pad='longest', or a length"
                )
            return
        if self.pad != "longest":
            if isinstance(self.pad, str):
                raise OptionError(f"Output.pad must be 'longest' or a length, not {self.pad!r}")
            object.__setattr__(self, "pad", at_least("Output.pad", self.pad, 1))
        if self.kind not in ("torch", "numpy"):
            raise OptionError(f"Output.pad requires output='torch' or 'numpy', not {self.kind!r}")
        if self.lists != "auto":
            raise OptionError(
                f"Output.lists={self.lists!r} contradicts Output.pad, which pads all lists"
            )
        if isinstance(self.pad_value, Mapping):
            object.__setattr__(self, "pad_value", dict(self.pad_value))

    def _pad_options(self) -> list[tuple[str, Any, Any]]:
        return [("pad_value", self.pad_value, 0), ("side", self.side, "right")]


@dataclass(frozen=True)
class Transform:
    """A function that is called with each batch, in order.

    An exception of the function is raised at the position of its batch, with a note that names the
    batch. When a pass ends early, calls that are still running in workers are stopped.

    Attributes:
        function: called with a batch; returns the batch to deliver. With workers, the function,
            batches and results must be picklable; the function is sent to each worker once in a
            pass.
        workers: number of worker processes that run the function; 0 runs it in the process of the
            loader.

    Raises:
        ValueError: If ``function`` is not callable, or ``workers`` is negative.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq, shardmill as sm
        >>> pq.write_table(pa.table({"x": [1, 2, 3]}), "three.parquet")
        >>> transform = sm.Transform(lambda batch: batch["x"] * 10)
        >>> loader = sm.Loader("three.parquet", output="numpy", transform=transform)
        >>> [batch.tolist() for batch in loader]
        [[10, 20, 30]]
    """

    function: Callable[[Any], Any]
    workers: int = 0

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise OptionError(
                f"transform must be a function of a batch; {self.function!r} is not callable"
            )
        object.__setattr__(self, "workers", at_least("Transform.workers", self.workers, 0))


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Runtime settings of a loader. They never change which rows are returned, or their order.

    Attributes:
        threads: number of native decoding threads; by default, the number of cores available to
            this rank. With 0, the calling thread decodes.
        prefetch_bytes: maximum size of the decoded data that waits for the trainer, in bytes or as
            text such as ``"192MiB"``.
        device: copy torch tensors to this device, such as ``"cuda:0"``, one batch ahead; also those
            in dicts, lists and tuples that a transform returns.
        pin_memory: put torch tensors in page-locked memory, from which they can be copied to a GPU
            asynchronously.
        stall_seconds: warn if a batch takes longer than this many seconds, and report the activity
            of each thread; ``None`` never warns.
        audit: compute checksums of the delivered rows, for ``Loader.audit``.

    Raises:
        ValueError: If a setting has an invalid value. ``Loader`` raises it for a ``device`` or
            ``pin_memory`` without torch batches.

    Examples:
        >>> import shardmill as sm
        >>> sm.Runtime(threads=4, prefetch_bytes="64MiB").prefetch_bytes
        67108864
    """

    threads: int | None = None
    prefetch_bytes: int | str = DEFAULT_PREFETCH_BYTES
    device: Any = None
    pin_memory: bool = False
    stall_seconds: float | None = STALL_SECONDS
    audit: bool = False

    def __post_init__(self) -> None:
        checked_threads(self.threads)
        object.__setattr__(
            self, "prefetch_bytes", byte_count(self.prefetch_bytes, "prefetch_bytes")
        )
        checked_stall_seconds(self.stall_seconds)
        check_fields(Runtime, vars(self), prefix="Runtime.")


def window_bytes_of(shuffle: bool | Shuffle) -> int | None:
    """Return the size of the shuffle window; ``None`` for rows in file order.

    Raises:
        ValueError: If it is neither a bool nor a ``Shuffle``.
    """
    if isinstance(shuffle, Shuffle):
        return shuffle.bytes
    if not isinstance(shuffle, bool):
        raise OptionError(f"shuffle must be True, False or a Shuffle, not {shuffle!r}")
    return DEFAULT_WINDOW_BYTES if shuffle else None


def output_of(output: OutputKind | Output) -> Output:
    """Return the output options."""
    return output if isinstance(output, Output) else Output(output)


def transform_of(transform: Callable[[Any], Any] | Transform | None) -> Transform | None:
    """Return the transform options; ``None`` without a transform."""
    return (
        transform if transform is None or isinstance(transform, Transform) else Transform(transform)
    )


def runtime_of(runtime: Runtime | None) -> Runtime:
    """Return the runtime options.

    Raises:
        ValueError: If it is not a ``Runtime``.
    """
    check_kind("runtime", runtime, Runtime, "sm.Runtime(threads=4)")
    return runtime or Runtime()
