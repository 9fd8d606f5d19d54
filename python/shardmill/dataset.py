"""Files of one format and one schema, as rows."""

from __future__ import annotations

import json
import operator
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shardmill import storage
from shardmill._native import load as _native
from shardmill._native.columns import rows_of
from shardmill.arrow import as_pyarrow
from shardmill.decodings import Decoding, decoded, decodings_of
from shardmill.errors import FormatError, OptionError
from shardmill.expressions import Expression, expression_of
from shardmill.file_systems import is_file_system, located
from shardmill.shard_index import folders_without_index
from shardmill.shards import INDEX_NAME
from shardmill.sizes import byte_count
from shardmill.stall import STALL_SECONDS, warn_of_stall
from shardmill.threads import checked_threads
from shardmill.token_lengths import TokenLengths

PathLike = str | os.PathLike[str]

#: Their objects stay in the cache of a core while they are used one by one.
_ROWS_AT_ONCE = 256

#: Rows within a window of this many decoded bytes are shuffled.
DEFAULT_WINDOW_BYTES = 64 << 20

#: Decoded bytes that may wait for the trainer.
DEFAULT_PREFETCH_BYTES = 192 << 20

#: Of files that were left out, in a warning.
_NAMES_SHOWN = 5
_NAME_SHOWN = 200


def check_order(shuffle: bool, seed: int) -> None:
    """Checks what decides the order of rows.

    Raises:
        ValueError: for a seed that is not an integer of 64 bits, and a ``shuffle`` that is not a bool.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise OptionError(f"seed is an integer of 64 bits, not {seed!r}")
    if not isinstance(shuffle, bool):
        raise OptionError(f"shuffle is True or False, not {shuffle!r}")


class Dataset:
    """Rows of Parquet, ORC, CSV, JSONL, ArrayRecord, MDS or WebDataset files. Opening reads metadata; rows are read when they are asked for.

    Files of a directory stand in byte order of their relative paths, an explicit list keeps its order; rows are numbered
    file after file. A file that an explicit list names twice is read twice; one that several directories or globs find is read once. Columns are
    matched by name: integers and floats are widened, and a column that a file lacks is null there.

    Directories and globs leave out hidden files, files and directories whose names start with ``_``, and files that accompany data:
    ``index.json``, ``metadata.json``, ``dataset_info.json``, ``dataset_infos.json``, ``dataset_dict.json``, ``state.json``, ``README.md``,
    ``LICENSE``, ``*.crc``, ``*.tar.idx`` and the ``.meta`` files of MosaicML Streaming. If a name does not tell the format, the first bytes
    do: Parquet, ORC, ArrayRecord and tar are recognised. Other files without a known format, and ``.json`` files beside files of another
    format, are left out with a warning. :attr:`skipped` lists all files that were left out. A file that a path names directly is read.

    Args:
        path: a file, a directory (read recursively), a glob, or a list of these; or a file system of fsspec, for all that is in it.
        format: ``"parquet"``, ``"orc"``, ``"csv"``, ``"json"`` or ``"jsonl"`` (both newline-delimited JSON, or one JSON array of objects),
            ``"arrayrecord"``, whose rows have one binary column, ``record``, ``"mds"`` or ``"webdataset"``; by the files' names when ``None``.
            A folder with an ``index.json`` of MDS shards has the shards that the index lists, in its order, and each is held against what
            the index says of it.
            Samples of WebDataset tars are rows: ``__key__`` and a column for each extension, in byte order. The last part of the extension
            says what it holds: ``txt``, ``text`` and ``transcript`` text, ``cls``, ``class``, ``count``, ``index``, ``inx`` and ``id`` whole
            numbers, ``json`` and ``jsn`` JSON, which is decoded in rows and in dicts, and all others bytes. Pickles stay bytes. Reading a plain
            tar takes the wanted members alone; one that is compressed (gzip, zstd) is decompressed from its start each time. A tar without the
            two blocks of zeros that end one was cut, and is an error. Other bytes after the zeros are an error too, unless ``ignore_zeros``.
            JSONL files that are compressed (``.jsonl.gz``, ``.jsonl.zst``) are unpacked once, into the folder for temporary files.
        columns: names of the columns to deliver, in this order; all when ``None``.
        filter: an expression such as ``sm.col("label") == 0``, or a list of ``(column, op, value)``. It may use any column of the files.
        storage_options: how the store of remote paths is reached, see :func:`shardmill.storage.configure`. Pickles leave secrets out.
        partitioning: ``"hive"`` turns ``key=value`` folders below the root into columns.
        schema: Arrow schema of CSV and JSONL files; inferred from the start of every file when ``None``. Other formats bring their own.
        bad_lines: of CSV and JSONL files: ``"error"`` names file and line, ``"skip"`` leaves the line out, ``"null"`` stores a null for
            the value. Elements of a JSON array are treated as lines. An array that is cut, or lacks a comma between two elements, is
            always an error, because its elements cannot be separated.
        on_bad_file: ``"error"``, or ``"skip"`` to leave out files that cannot be opened; :attr:`skipped` lists them.
        max_decoded_bytes: the largest decoded size of one value, line, page, chunk or member, such as ``"4GiB"``. A larger one is an error
            before memory is allocated for it. 1 GiB when ``None``.
        pickles: of columns of pickles in MDS shards, which are never decoded: ``"error"`` refuses a data set that would deliver one,
            ``"bytes"`` gives them as they are stored.
        ignore_zeros: read WebDataset tars past the zeros that end an archive, as ``tar -i`` does, for archives that were joined by ``cat``.
            Without it, bytes after the end are an error.
        threads: for reading; as many as there are cores when ``None``.

    Raises:
        FileNotFoundError: when a path does not exist.
        ValueError: when files are of several formats, or their schemas contradict each other.
        KeyError: when a column does not exist.

    Example:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": [1, 2, 3], "y": ["a", "b", "c"]}), "rows.parquet")
        >>> import shardmill as sm
        >>> ds = sm.Dataset("rows.parquet", filter=sm.col("x") > 1)
        >>> len(ds), ds[0]
        (2, {'x': 2, 'y': 'b'})
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        *,
        format: str | None = None,
        columns: Sequence[str] | None = None,
        filter: Expression | list[Any] | None = None,
        storage_options: Any = None,
        partitioning: str | None = None,
        schema: Any = None,
        bad_lines: str = "error",
        on_bad_file: str = "error",
        pickles: str = "error",
        ignore_zeros: bool = False,
        max_decoded_bytes: int | str | None = None,
        threads: int | None = None,
    ) -> None:
        if pickles not in ("error", "bytes"):
            raise OptionError(f"pickles is 'error' or 'bytes', not {pickles!r}")
        if on_bad_file not in ("error", "skip"):
            raise OptionError(f"on_bad_file is 'error' or 'skip', not {on_bad_file!r}")
        if partitioning not in (None, "hive"):
            raise OptionError(f"partitioning is None or 'hive', not {partitioning!r}")
        self._paths, storage_options = _located(path, storage_options)
        shown_options = storage.configure_all(self._paths, storage_options)
        self._paths = [storage.served_path(part) for part in self._paths]
        self._threads = checked_threads(threads)
        self._filter = None if filter is None else expression_of(filter)
        self._native = _native.Dataset(
            self._paths,
            format=format,
            hive=partitioning == "hive",
            filter=self._filter_json,
            schema=schema,
            bad_lines=bad_lines,
            skip_bad_files=on_bad_file == "skip",
            has_pickle_bytes=pickles == "bytes",
            ignores_zeros=ignore_zeros,
            max_decoded_bytes=None if max_decoded_bytes is None else byte_count(max_decoded_bytes, "max_decoded_bytes"),
            threads=max(self._threads, 4),
        )
        if self._native.format not in ("csv", "jsonl", None) and (schema is not None or bad_lines != "error"):
            raise OptionError(
                f"schema and bad_lines are for CSV and JSONL; {self._native.format} files bring their own types"
            )
        if ignore_zeros and self._native.format not in ("webdataset", None):
            raise OptionError(f"ignore_zeros is for WebDataset tars, not for {self._native.format} files")
        names = self._native.column_names
        self._columns = list(names) if columns is None else column_names(columns)
        self._column_numbers = self._numbers_of(self._columns)
        if pickles != "bytes" and self._native.format == "mds":
            self.refuse_pickles(self._columns)
        self._decodings = self.decodings(self._columns)
        self._arguments = {
            "path": self._paths,
            "format": format,
            "columns": columns,
            "filter": filter,
            # Secrets do not travel: another process has its own, from its environment.
            "storage_options": storage.pinned(self._paths, shown_options),
            "partitioning": partitioning,
            "schema": schema,
            "bad_lines": bad_lines,
            "on_bad_file": on_bad_file,
            "pickles": pickles,
            "ignore_zeros": ignore_zeros,
            "max_decoded_bytes": max_decoded_bytes,
            "threads": threads,
        }
        self._rows: _native.RowPlan | None = None
        #: For packing.
        self.token_lengths = TokenLengths(self.row_plan, self._threads)
        self._warn()

    @property
    def format(self) -> str | None:
        """The format of the files; ``None`` when there are none and it was not named."""
        return self._native.format

    @property
    def columns(self) -> list[str]:
        """Names of the columns that rows have, in order."""
        return list(self._columns)

    @property
    def schema(self) -> Any:
        """Arrow schema of the rows: a ``pyarrow.Schema`` where pyarrow is installed, else an object with ``__arrow_c_schema__``."""
        return as_pyarrow(self._native.schema(self._column_numbers))

    def disagreement(self, schema: Any) -> str | None:
        """What keeps rows of an Arrow schema from being added to the files: columns that either side lacks, or whose types differ."""
        return self._native.disagreement(schema)

    @property
    def files(self) -> list[str]:
        """Paths of the files, in order."""
        return [path for path, *_ in self._native.files]

    @property
    def file_rows(self) -> list[tuple[str, int]]:
        """Of each file its path below the root, as ``explain`` names it, and its rows before the filter."""
        return [(name, rows) for _, name, _, rows in self._native.files]

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Path and reason of each file that was found below the paths and is not part of the data set.

        These are files that accompany data, files that were left out because of their format, and files that ``on_bad_file="skip"`` left out.
        """
        return self._native.skipped

    @property
    def filter(self) -> Expression | None:
        """The condition on rows."""
        return self._filter

    @property
    def ignore_zeros(self) -> bool:
        """Whether WebDataset tars are read past the zeros that end an archive."""
        return self._arguments["ignore_zeros"]

    @property
    def is_filtered(self) -> bool:
        """Whether some rows of the files may be left out."""
        return self._filter is not None

    @property
    def num_rows(self) -> int:
        """Rows after the filter. With a filter, the columns that it names are read once."""
        return self._native.num_rows if self._filter is None else self.row_plan().num_rows

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if isinstance(index, slice):
            raise TypeError(
                "rows are taken one by one\nhint: ds.take(range(10)) gives several, as an Arrow record batch"
            )
        index, rows = operator.index(index), len(self)
        if not -rows <= index < rows:
            raise IndexError(f"row {index} of {rows}")
        values = self.row_plan().row(index % rows, self._column_numbers)
        cells = zip(self._columns, values, self._decodings, strict=True)
        return {name: decoded([value], decoding)[0] for name, value, decoding in cells}

    def take(self, indices: Sequence[int]) -> Any:
        """Rows by number, in the order given, as an Arrow record batch; a number may repeat.

        Raises:
            IndexError: when a number is outside of the rows.
        """
        rows = len(self)
        numbers = [operator.index(index) for index in indices]
        for index in numbers:
            if not -rows <= index < rows:
                raise IndexError(f"row {index} of {rows}")
        return as_pyarrow(self._take([index % rows for index in numbers]))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self.iterate()

    def iterate(
        self, *, shuffle: bool = False, seed: int = 0, epoch: int = 0, start: int = 0
    ) -> Iterator[dict[str, Any]]:
        """Rows one by one, decoded ahead by native threads.

        The order is that of a :class:`Loader` on one rank; use one for batches, for several ranks, and for states.

        Args:
            shuffle: rows in an order that ``seed`` and ``epoch`` decide. Otherwise the order of the files.
            seed: any whole number of 64 bits.
            epoch: each has an order of its own.
            start: so many rows of the epoch are left out at its start.

        Raises:
            ValueError: for an option that means nothing.

        Example:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> rows = sm.Dataset("ten.parquet").iterate(shuffle=True, seed=7)
            >>> sorted(row["x"] for row in rows)
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        """
        for name, value in (("epoch", epoch), ("start", start)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise OptionError(f"{name} is a whole number of at least 0, not {value!r}")
        check_order(shuffle, seed)
        order = self.row_plan().ordered(window_bytes=DEFAULT_WINDOW_BYTES if shuffle else None, seed=seed, lanes=1)
        return self._rows_of(order, epoch, start)

    def _rows_of(self, order: _native.RowPlan, epoch: int, start: int) -> Iterator[dict[str, Any]]:
        converter = _native.OutputConverter(
            self._native,
            columns=self._column_numbers,
            kind="dict",
            nulls="error",
            fill_values={},
            is_padded=False,
            is_filtered=self.is_filtered,
        )
        if start >= order.num_places:
            return
        share = {"batch_size": _ROWS_AT_ONCE, "world_size": 1, "rank": 0, "tail": "uneven"}
        process = os.getpid()
        native = order.start(
            converter, share, epoch=epoch, consumed=start, threads=self._threads, prefetch_bytes=DEFAULT_PREFETCH_BYTES
        )
        try:
            while (superbatch := native.next_superbatch(STALL_SECONDS, warn_of_stall)) is not None:
                content, sizes, *_ = superbatch
                yield from rows_of(converter.names, content, self._decodings, 0, sum(sizes))
        finally:
            # A forked child has none of the threads.
            if process == os.getpid():
                native.stop()

    def __repr__(self) -> str:
        return f"Dataset({', '.join(self._paths)}: {len(self._native.files)} {self.format} files)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self._arguments,)

    def row_plan(self) -> _native.RowPlan:
        """The rows after the filter, in file order; found once."""
        if self._rows is None:
            self._rows = _native.RowPlan(self._native, filter=self._filter_json, threads=self._threads)
        return self._rows

    def decodings(self, columns: Sequence[str]) -> list[Decoding | None]:
        """What makes objects of the values of these columns, where these are kept as texts or bytes."""
        return decodings_of(self._native.metadata(self._numbers_of(list(columns))))

    def _numbers_of(self, names: list[str]) -> list[int]:
        # An empty folder has no columns, and the job that will fill it asks for some.
        return self._native.column_numbers(names) if self._native.files else []

    def refuse_pickles(self, columns: Sequence[str]) -> None:
        """Checks that none of these columns would be delivered as pickles.

        Raises:
            ValueError: naming the column.
        """
        for name, metadata in zip(columns, self._native.metadata(self._numbers_of(list(columns))), strict=False):
            if metadata.get("mds.encoding") == "pkl":
                raise FormatError(
                    f"column {name!r} of {', '.join(self._paths)} holds pickles, which are never decoded"
                    "\nhint: leave it out with columns=, or take its bytes with pickles='bytes'"
                )

    def _warn(self) -> None:
        hint = "Dataset.skipped lists them with reasons; a file that is named itself is read"
        warn_of_left_out(self._native.left_out, outcome="left out of the data set", hint=hint, stacklevel=4)
        is_mds = self._native.format == "mds"
        if not self._native.files:
            # An index may list no shards, and then says that there are no rows.
            if not is_mds or not all(Path(path, INDEX_NAME).exists() for path in self._paths):
                warnings.warn(f"no data files in {', '.join(self._paths)}", stacklevel=3)
        elif is_mds and (folders := folders_without_index(self._paths)):
            warnings.warn(
                f"the MDS shards in {', '.join(folders)} have no {INDEX_NAME}, so nobody would notice that one is missing or was replaced\n"
                f"hint: `shardmill repair-index {folders[0]}` makes one of the shards, sm.merge() one of parts that have theirs",
                stacklevel=3,
            )

    @property
    def _filter_json(self) -> str | None:
        return None if self._filter is None else json.dumps(self._filter.tree)

    def _take(self, indices: list[int]) -> Any:
        return self.row_plan().take(indices, self._column_numbers)


def warn_of_left_out(
    paths: Sequence[str], *, outcome: str, hint: str = "a file that is named itself is read", stacklevel: int
) -> None:
    """Warns once about files that were found and are not read. The length of the warning is bounded."""
    if not paths:
        return
    shown = ", ".join(
        repr(path if len(path) <= _NAME_SHOWN else f"…{path[-_NAME_SHOWN:]}") for path in paths[:_NAMES_SHOWN]
    )
    more = f" and {len(paths) - _NAMES_SHOWN:,} more" if len(paths) > _NAMES_SHOWN else ""
    warnings.warn(
        f"{len(paths):,} {'file is' if len(paths) == 1 else 'files are'} {outcome}: {shown}{more}\nhint: {hint}",
        stacklevel=stacklevel,
    )


def _reopened(arguments: dict[str, Any]) -> Dataset:
    options = storage.still_needed(arguments["path"], arguments["storage_options"])
    return Dataset(arguments.pop("path"), **{**arguments, "storage_options": options})


def column_names(columns: Sequence[str]) -> list[str]:
    """``columns`` as a list.

    Raises:
        ValueError: for a single text, whose letters would be taken for names.
    """
    if isinstance(columns, str):
        raise OptionError(f"columns is a list of names, not {columns!r}\nhint: write columns=[{columns!r}]")
    return list(columns)


def _located(path: Any, storage_options: Any) -> tuple[list[str], Any]:
    paths = [path] if isinstance(path, str | os.PathLike) or is_file_system(path) else list(path)
    paths, storage_options = located(paths, storage_options)
    if not paths:
        raise OptionError("no path was given")
    return [part if isinstance(part, str) else str(Path(part)) for part in paths], storage_options
