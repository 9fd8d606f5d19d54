"""Rows of files of one format and one schema."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, cast

from shardmill._native import load as _native
from shardmill._native.columns import rows_of
from shardmill._option_values import (
    check_kind,
    checked_schema,
    checked_seed,
    flag,
    listed,
    row_at,
    whole,
)
from shardmill._sizes import byte_count
from shardmill._stall import STALL_SECONDS, warn_of_stall
from shardmill._terminal import counted
from shardmill._threads import checked_threads
from shardmill._unknown_options import unknown_attribute
from shardmill._warnings import warn_caller
from shardmill.data._arrow import ArrowRows, as_pyarrow
from shardmill.data._decodings import decoded
from shardmill.data._error_policy import ErrorPolicy, error_policy
from shardmill.data._images import Images, checked_images, native_images
from shardmill.data._left_out import warn_of_left_out
from shardmill.data._opened_files import OpenedFiles
from shardmill.data._own_methods import own_method, refuse_own_rows
from shardmill.data._paths import is_list, paths_of
from shardmill.data._sequences import (
    Sequences,
    document_columns,
    native_sequences,
    part_columns,
)
from shardmill.data._shard_index import INDEX_NAME, warn_of_missing_index
from shardmill.data._splits import warn_of_mixed_splits
from shardmill.data._text_options import TextOptions, checked_text
from shardmill.data._token_files import (
    TOKEN_FORMATS,
    TokenFiles,
    check_concerns,
    checked_token_files,
)
from shardmill.data._tokenize import Tokenize, native_tokens
from shardmill.errors import OptionError
from shardmill.expressions import Expression, Value, expression_of
from shardmill.storage._configure import configure_all, pinned, still_needed
from shardmill.storage._paths import PathLike, served_path

#: Supported formats; ``"json"`` is an alias of ``"jsonl"``.
Format = Literal[
    "parquet",
    "orc",
    "csv",
    "json",
    "jsonl",
    "arrayrecord",
    "mds",
    "webdataset",
    "megatron",
    "datatrove",
    "bin",
    "npy",
]

#: Number of rows decoded at once in iteration; their objects fit into the cache of a core.
_ROWS_AT_ONCE = 256

#: Default shuffle-window size, in decoded bytes.
DEFAULT_WINDOW_BYTES = 64 << 20

#: Default limit of decoded bytes that wait for the consumer.
DEFAULT_PREFETCH_BYTES = 192 << 20


class TokenCounts(NamedTuple):
    """How many tokens the rows of a data set have."""

    rows: int
    #: Total number of tokens.
    total: int
    #: Number of tokens in the longest row.
    longest: int

    @property
    def mean(self) -> float:
        """Mean number of tokens per row; 0 if there are no rows."""
        return self.total / self.rows if self.rows else 0.0


class Dataset(ArrowRows):
    """Rows of Parquet, ORC, CSV, JSONL, ArrayRecord, MDS or WebDataset files, or of token files.

    Opening reads metadata only; rows are read on access.

    Files of a directory are ordered by the bytes of their relative paths; an explicit list keeps
    its order. Rows are numbered file after file. A file that a list names twice is read twice; one
    found through several directories or globs is read once. Columns are matched by name: their
    types are unified without changing a value, and a column that is missing from a file is null
    there. Links to files and directories are followed.

    Directories and globs skip hidden files, files and directories whose names start with ``_``, and
    files that accompany data: ``index.json``, ``metadata.json``, ``dataset_info.json``,
    ``dataset_infos.json``, ``dataset_dict.json``, ``state.json``, ``README.md``, ``LICENSE``,
    checksums such as ``*.crc`` and ``*.sha256``, ``*.idx``, ``*.provenance.parquet``, ``*~``,
    ``*.bak``, ``*.tmp``, ``*.swp``, and the ``.meta`` files of MosaicML Streaming. If the name does
    not identify the format, the first bytes do: Parquet, ORC, ArrayRecord and tar are recognized.
    Other files of unknown format, and ``.json`` files next to files of another format, are skipped
    with a warning. ``skipped`` lists all of them. A file given as an explicit path is always read.
    The directory of a Delta, Iceberg or Hudi table is an error; see ``shardmill.integrations``.

    Args:
        path: a file, a directory (read recursively), a glob, or a list of these; or an fsspec file
            system, whose files are all read.
        format: ``"parquet"``, ``"orc"``, ``"csv"``, ``"json"`` or ``"jsonl"`` (both
            newline-delimited JSON, or one JSON array of objects), ``"arrayrecord"``, whose rows
            have one binary column, ``record``, ``"mds"``, ``"webdataset"``, ``"megatron"``,
            ``"datatrove"``, ``"bin"`` or ``"npy"``, which are files of token ids; by default,
            inferred from the file names. A ``.bin`` with an ``.idx`` beside it is a pair of
            Megatron-LM, which may also be given as its ``.idx`` or its prefix. From a directory or
            a glob, the files with an extension of the format are read; if there are none, the files
            with an unknown extension or without one.
            If a directory has an ``index.json`` of MDS shards, the shards are read in its order and
            checked against it. Samples of WebDataset tars become rows with ``__key__`` and one
            column per extension, in byte order. The last part of the extension sets the type:
            ``txt``, ``text`` and ``transcript`` are strings, ``cls``, ``cls2``, ``class``,
            ``count``, ``index``, ``inx`` and ``id`` are integers, ``json`` and ``jsn`` are JSON,
            which is decoded in rows and dicts, and all others are bytes. Pickles stay bytes. From a
            plain tar only the selected members are read; a compressed one (gzip, zstd) is
            decompressed from its start each time. A tar without the two closing blocks of zeros is
            truncated, which is an error. Other bytes after the zeros are an error too, unless
            ``ignore_zeros``. Compressed CSV and JSONL files (``.csv.gz``, ``.jsonl.zst``) are
            decompressed once, into the directory for temporary files.
        columns: names of the columns to return, in this order; all by default. A path such as
            ``"meta.lang"`` selects the field of a struct as a column of that name: its values are
            null where the struct is null, and only the field is read. The field of a list of
            structs becomes a list. A top-level column of that name takes precedence.
        filter: an expression such as ``sm.col("label") == 0``, a string such as ``"label = 0"``, or
            a list of ``(column, op, value)``. It may use any column of the files, and paths into
            structs.
        storage_options: options for the object store of remote paths, see
            ``shardmill.storage.configure``. Pickles do not contain secrets.
        partitioning: ``"hive"`` adds columns from ``key=value`` directories: those below a
            directory or a glob, or all in the path of a file, or of each file of a list, as given.
        schema: Arrow schema of CSV and JSONL files; by default, inferred from the start of every
            file, and from later values that change a type. A JSONL field that the given schema
            lacks is ignored. Other formats contain their schema.
        text: delimiter, quotes and encoding of CSV and JSONL files, and whether ``NaN`` in JSON is
            an error; see ``TextOptions``.
        errors: what happens to files that cannot be opened, to lines of CSV and JSONL files that
            cannot be read, and to columns of pickles.
        max_decoded_bytes: the largest decoded size of one value, line, page, chunk or member, such
            as ``"4GiB"``. A larger one raises an error before memory is allocated for it. The
            default is 1 GiB.
        ignore_zeros: read WebDataset tars past the zeros that end an archive, like ``tar -i``, for
            archives concatenated with ``cat``. By default, bytes after the end raise an error.
        token_files: what a row of token files is, and their vocabulary; see ``TokenFiles``.
        tokenize: computes tokens from texts or messages, whose columns are then not among the
            columns by default.
        sequences: makes rows documents of texts and images, and computes tokens and pixels from
            these; see ``Sequences``. Not with ``tokenize`` or ``images``.
        images: computes pixels from columns of encoded images, which they replace: one ``Images``,
            or a list of them. ``ds[0]`` has the random crop and flip of seed 0, epoch 0.
        threads: number of reading threads; the number of cores by default.

    Raises:
        FileNotFoundError: If a path does not exist.
        ValueError: If the files have several formats or conflicting schemas, or a directory is that
            of a Delta, Iceberg or Hudi table.
        KeyError: If a column does not exist.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": [1, 2, 3], "y": ["a", "b", "c"]}), "rows.parquet")
        >>> import shardmill as sm
        >>> ds = sm.Dataset("rows.parquet", filter=sm.col("x") > 1)
        >>> len(ds), ds[0]
        (2, {'x': 2, 'y': 'b'})

        A data set is an Arrow stream, which polars, DuckDB, pandas and pyarrow read:

        >>> pa.table(ds).to_pydict()
        {'x': [2, 3], 'y': ['b', 'c']}
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        *,
        format: Format | None = None,
        columns: Sequence[str] | None = None,
        filter: Expression | Value | str | list[Any] | None = None,
        storage_options: Any = None,
        partitioning: Literal["hive"] | None = None,
        schema: Any = None,
        text: TextOptions | None = None,
        errors: ErrorPolicy | None = None,
        ignore_zeros: bool = False,
        max_decoded_bytes: int | str | None = None,
        token_files: TokenFiles | None = None,
        tokenize: Tokenize | None = None,
        sequences: Sequences | None = None,
        images: Images | Sequence[Images] = (),
        threads: int | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        inherited = set(vars(self))
        errors = error_policy(errors)
        if errors.rows != "raise":
            raise OptionError(
                "ErrorPolicy.rows applies only to a Loader; "
                "a Dataset raises if a row cannot be read"
            )
        checked_schema("schema", schema)
        if format is not None and not isinstance(format, str):
            raise OptionError(
                f"format must be the name of a format, such as 'parquet', not {format!r}"
            )
        check_kind("tokenize", tokenize, Tokenize, "sm.Tokenize('text', tokenizer=…)")
        check_kind("sequences", sequences, Sequences, "sm.Sequences(tokenizer=…)")
        for name, value in (("tokenize", tokenize), ("images", images)):
            if sequences is not None and value:
                raise OptionError(f"{name} cannot be combined with sequences")
        flag("ignore_zeros", ignore_zeros)
        if partitioning not in (None, "hive"):
            raise OptionError(f"partitioning must be None or 'hive', not {partitioning!r}")
        has_list = is_list(path)
        paths, storage_options = paths_of(path, storage_options)
        shown_options = configure_all(paths, storage_options)
        paths = [served_path(part) for part in paths]
        self._threads = checked_threads(threads)
        self._filter = None if filter is None else expression_of(filter)
        filter_tree = None if self._filter is None else self._filter.tree
        native = _native.Dataset(
            paths,
            format=format,
            hive=None if partitioning is None else "path" if has_list else "below",
            filter=filter_tree,
            schema=schema,
            text=checked_text(text),
            bad_lines=errors.lines,
            skip_bad_files=errors.files == "skip",
            has_pickle_bytes=errors.pickles == "bytes",
            ignores_zeros=ignore_zeros,
            token_files=checked_token_files(token_files),
            documents=None
            if sequences is None
            else sequences.images_from or part_columns(sequences),
            sizes=None if sequences is None else sequences.image_output.sizes,
            max_decoded_bytes=None
            if max_decoded_bytes is None
            else byte_count(max_decoded_bytes, "max_decoded_bytes"),
            threads=max(self._threads, 4),
        )
        if native.format not in ("csv", "jsonl", None) and (
            schema is not None or errors.lines != "raise"
        ):
            raise OptionError(
                "schema and ErrorPolicy.lines apply only to CSV and JSONL; "
                f"{native.format} files contain their types"
            )
        if ignore_zeros and native.format not in ("webdataset", None):
            raise OptionError(
                f"ignore_zeros is only for WebDataset tars, not for {native.format} files"
            )
        if token_files is not None:
            check_concerns(token_files, native.format)
        names = native.column_names
        if tokenize is not None and native.files:
            tokens, sources = native_tokens(tokenize, paths)
            native = native.with_tokens(
                tokens, native.column_numbers(names if sources is None else sources)
            )
            names = [
                name for name in names if sources is None or name not in sources
            ] + tokenize.outputs
        if sequences is not None and native.files:
            native = native.with_sequences(native_sequences(sequences, paths))
            names = document_columns(names, sequences)
        images = checked_images(images)
        for one in images if native.files else ():
            native = native.with_images(native_images(one))
            # A path into a struct becomes a column beside the struct.
            names = names if one.column in names else [*names, one.column]
        self._files = files = OpenedFiles(
            native,
            paths,
            partial(_native.RowPlan, native, filter=filter_tree, threads=self._threads),
            threads=self._threads,
            is_filtered=self._filter is not None,
            tokenize=[sequences if tokenize is None else tokenize],
            images=[images],
        )
        self._columns = files.delivered(
            names if columns is None else (columns := listed("columns", columns))
        )
        self._column_numbers = files.numbers_of(self._columns)
        if errors.pickles != "bytes" and native.format == "mds":
            files.refuse_pickles(self._columns)
        self._decodings = files.decodings_of(self._columns)
        self._arguments = given | {
            "path": paths if has_list else paths[0],
            "columns": columns,
            "filter": self._filter,
            # Secrets are not pickled: another process gets its own from its environment.
            "storage_options": pinned(paths, shown_options),
            "errors": errors,
            "images": images,
        }
        #: Any other attribute belongs to a subclass.
        self._attributes = {*vars(self), "_attributes"} - inherited
        self._warn()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_attribute(self, name)

    @property
    def format(self) -> Format | None:
        """Format of the files; ``None`` if there are no files and no format was given."""
        return cast("Format | None", self._files.native.format)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self._columns)

    @property
    def schema(self) -> Any:
        """Arrow schema of the rows.

        A ``pyarrow.Schema`` if pyarrow is installed, else an object with ``__arrow_c_schema__``.
        """
        return as_pyarrow(self._files.native.schema(self._column_numbers))

    @property
    def files(self) -> list[str]:
        """Paths of the files, in order."""
        return [path for path, *_ in self._files.native.files]

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Path of each file that was found below the paths but skipped, and the reason.

        These are files that accompany data, files skipped because of their format, and files
        skipped by ``ErrorPolicy(files="skip")``.
        """
        return self._files.native.skipped

    @property
    def row_filter(self) -> Expression | None:
        """The filter that was given; ``None`` if there is none."""
        return self._filter

    @property
    def ignore_zeros(self) -> bool:
        """Whether WebDataset tars are read past the zeros that end an archive."""
        return self._arguments["ignore_zeros"]

    @property
    def token_files(self) -> TokenFiles | None:
        """How token files are read, as it was given."""
        return self._arguments["token_files"]

    @property
    def num_rows(self) -> int:
        """Number of rows after the filter.

        With a filter, the columns that it uses are read once.
        """
        return (
            self._files.native.num_rows if self._filter is None else self._files.row_plan().num_rows
        )

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, index: int) -> dict[str, Any]:
        if isinstance(index, slice):
            raise TypeError(
                "a Dataset cannot be sliced\n"
                "hint: ds.take(range(10)) returns several rows as an Arrow record batch"
            )
        if isinstance(index, str):
            raise TypeError(
                f"a row is read by its index, not by {index!r}\n"
                f"hint: select a column with columns=[{index!r}]"
            )
        self._files.refuse_bits(self._columns)
        values = self._files.row_plan().row(row_at(index, len(self)), self._column_numbers)
        cells = zip(self._columns, values, self._decodings, strict=True)
        return {name: decoded([value], decoding)[0] for name, value, decoding in cells}

    def token_counts(self) -> TokenCounts:
        """Return how many tokens the rows have, after the filter.

        Rows that are not counted yet are tokenized once. The index of token files has the numbers.

        Returns:
            ``rows``, ``total``, ``mean`` and ``longest``.

        Raises:
            ValueError: If the data set has no ``tokenize``, and is not one of token files.
        """
        [tokenize] = self._files.tokenize
        is_stored = tokenize is None and self.format in TOKEN_FORMATS
        if tokenize is None and not is_stored:
            raise OptionError(
                "the data set has no tokens to count\n"
                "hint: pass tokenize=sm.Tokenize('text', tokenizer=…)"
            )
        if not self._files.native.files:
            return TokenCounts(0, 0, 0)
        [column] = self._files.numbers_of(["tokens" if tokenize is None else tokenize.output])
        lengths = self._files.lengths_of(column, source="lists", nulls_are_empty=False)
        return TokenCounts(*lengths.totals)

    def take(self, indices: Sequence[int]) -> Any:
        """Return rows by index, in the given order, as an Arrow record batch. Indices may repeat.

        Raises:
            IndexError: If an index is out of range.
        """
        self._files.refuse_bits(self._columns)
        rows = len(self)
        numbers = [row_at(index, rows) for index in indices]
        return as_pyarrow(self._files.row_plan().take(numbers, self._column_numbers))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if own_method(self, ["__getitem__"]):
            return (self[row] for row in range(len(self)))
        return self.iterate()

    def iterate(
        self, *, shuffle: bool = False, seed: int = 0, epoch: int = 0, start: int = 0
    ) -> Iterator[dict[str, Any]]:
        """Iterate over single rows, decoded ahead by native threads.

        The order is that of a ``Loader`` on one rank. Use a ``Loader`` for batches, several ranks,
        or saved states.

        Args:
            shuffle: shuffle the rows by ``seed`` and ``epoch``. By default, rows come in file
                order.
            seed: any signed 64-bit integer.
            epoch: each epoch has its own order.
            start: number of rows of the epoch to skip at its start.

        Raises:
            ValueError: If an option is not valid.

        Examples:
            >>> import pyarrow as pa, pyarrow.parquet as pq
            >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
            >>> import shardmill as sm
            >>> rows = sm.Dataset("ten.parquet").iterate(shuffle=True, seed=7)
            >>> sorted(row["x"] for row in rows)
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        """
        epoch, start, seed = whole("epoch", epoch, 0), whole("start", start, 0), checked_seed(seed)
        flag("shuffle", shuffle)
        self._files.refuse_bits(self._columns)
        order = self._files.row_plan().ordered(
            window_bytes=DEFAULT_WINDOW_BYTES if shuffle else None, seed=seed, lanes=1
        )
        return self._rows_of(order, epoch, start)

    def _rows_of(self, order: _native.RowPlan, epoch: int, start: int) -> Iterator[dict[str, Any]]:
        converter = self._files.converter(self._column_numbers, "dict")
        for content, rows in self._superbatches(order, converter, epoch, start):
            yield from rows_of(converter.names, content, self._decodings, 0, rows)

    def _arrow_schema(self) -> Any:
        self._files.refuse_bits(self._columns)
        return self._files.native.schema(self._column_numbers)

    def _arrow_batches(self) -> Iterator[Any]:
        refuse_own_rows(self, "an Arrow stream")
        order = self._files.row_plan().ordered(window_bytes=None, seed=0, lanes=1)
        converter = self._files.converter(self._column_numbers, "stream")
        pieces = self._superbatches(order, converter, 0, 0)
        return (piece for content, _ in pieces for piece in content)

    def _superbatches(
        self, order: _native.RowPlan, converter: _native.OutputConverter, epoch: int, start: int
    ) -> Iterator[tuple[Any, int]]:
        """Yield the converted rows of each superbatch, and their number."""
        if start >= order.num_places:
            return
        share = {"batch_size": _ROWS_AT_ONCE, "world_size": 1, "rank": 0, "tail": "uneven"}
        process = os.getpid()
        native = order.start(
            converter,
            share,
            epoch=epoch,
            consumed=start,
            threads=self._threads,
            prefetch_bytes=DEFAULT_PREFETCH_BYTES,
        )
        try:
            while (superbatch := native.next_superbatch(STALL_SECONDS, warn_of_stall)) is not None:
                content, sizes, *_ = superbatch
                yield content, sum(sizes)
        finally:
            # A forked child does not have the threads.
            if process == os.getpid():
                native.stop()

    def __repr__(self) -> str:
        count = len(self._files.native.files)
        files = counted(count, f"{self.format} file") if count else "no files"
        return f"Dataset({', '.join(self._files.paths)}: {files})"

    def __reduce__(self) -> tuple[Any, ...]:
        others = {name: value for name, value in vars(self).items() if name not in self._attributes}
        return _reopened, (type(self), self._arguments), others or None

    def _warn(self) -> None:
        native, paths = self._files.native, self._files.paths
        hint = (
            "Dataset.skipped lists them with reasons; "
            "a file given as an explicit path is always read"
        )
        warn_of_left_out(native.left_out, outcome="left out of the data set", hint=hint)
        is_mds = native.format == "mds"
        warn_of_mixed_splits(paths, self.files)
        if not native.files:
            # An index without shards means that there are no rows.
            if not is_mds or not all(Path(path, INDEX_NAME).exists() for path in paths):
                warn_caller(f"no data files in {', '.join(paths)}")
        elif is_mds:
            warn_of_missing_index(paths)


class _HasFiles(Protocol):
    _files: OpenedFiles


def opened_files(rows: _HasFiles) -> OpenedFiles:
    """Return the files of a ``Dataset`` or a ``Mixture``, for the modules that read their rows."""
    return rows._files  # pyright: ignore[reportPrivateUsage]


def _reopened(kind: type[Dataset], arguments: dict[str, Any]) -> Dataset:
    # `copy` hands over the arguments of the original itself.
    others = {name: value for name, value in arguments.items() if name != "path"}
    options = still_needed(arguments["path"], arguments["storage_options"])
    # A subclass may have other arguments.
    dataset = kind.__new__(kind)
    Dataset.__init__(dataset, arguments["path"], **{**others, "storage_options": options})
    return dataset
