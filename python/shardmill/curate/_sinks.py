"""Sinks for documents: one file per partition, published atomically."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from os import PathLike, fspath
from typing import Any, ClassVar, Literal

from shardmill._choices import check_fields
from shardmill._option_values import checked_schema, whole
from shardmill._warnings import warn_caller
from shardmill.curate._sources import described
from shardmill.errors import AppendModeError, OptionError
from shardmill.storage._configure import refuse_keys, shown
from shardmill.storage._paths import path_of

Mode = Literal["error", "overwrite", "resume"]
OnMaterializeError = Literal["raise", "warn", "drop_row", "drop_sample"]


@dataclass(frozen=True, repr=False)
class Sink:
    """Base class of all sinks. The constructor does not touch the disk.

    Args:
        path: the output directory.
        mode: what happens to an output directory that has files. ``"error"`` rejects it,
            ``"overwrite"`` empties it when the run starts, ``"resume"`` keeps its files, processes
            all inputs again and replaces the files of the same inputs. If an input can no longer be
            read, its earlier file stays, with a warning in the report. The schema of the files that
            are written depends only on the current inputs; if a Parquet file with another schema
            stays, the run warns. Only a ``checkpoint`` of the pipeline skips finished work; with a
            matching checkpoint, the job continues in any mode.
        materialize_on_write: fetch image bytes that no stage has fetched before.
        on_materialize_error: what happens to a row whose image cannot be read. ``"raise"`` stops
            the run, ``"warn"`` keeps the row without bytes, ``"drop_row"`` removes it,
            ``"drop_sample"`` removes its document. If the store does not respond or rejects the
            credentials, or a disk is full, the run stops in any case.
        schema: the exact columns of the output (anything with ``__arrow_c_schema__``).
        schema_overrides: types and columns that override those of the rows, a dict or a schema.
            Values are converted without loss. Of rows that a ``Map`` returns, other columns have
            the types of its first result; see ``Map``.
        storage_options: options for the store of remote paths, see ``shardmill.storage.configure``.
    """

    path: str | PathLike[str]
    _: KW_ONLY
    mode: Mode = "error"
    materialize_on_write: bool = True
    on_materialize_error: OnMaterializeError = "raise"
    schema: Any = None
    schema_overrides: Any = None
    storage_options: Any = None

    format: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | PathLike) or not fspath(self.path):
            raise OptionError(f"the path of a sink must be a directory, not {self.path!r}")
        checked_schema("schema", self.schema)
        if not isinstance(self.schema_overrides, dict):
            checked_schema("schema_overrides", self.schema_overrides)
        refuse_keys([fspath(self.path)])
        if self.mode == "append":
            raise AppendModeError(
                "a sink cannot append\n"
                'hint: mode="resume" keeps existing files '
                "and replaces only those of the same inputs"
            )
        check_fields(Sink, vars(self))
        if self.schema is not None and self.schema_overrides is not None:
            warn_caller("`schema` fixes all columns; `schema_overrides` has no effect")

    def __getstate__(self) -> dict[str, Any]:
        # Secrets, and objects that hold secrets, are not pickled.
        return {
            **self.__dict__,
            "storage_options": shown([fspath(self.path)], self.storage_options),
        }

    def __repr__(self) -> str:
        return described(self)


@dataclass(frozen=True, repr=False)
class ParquetSink(Sink):
    """Write Parquet. Images of documents are stored uncompressed, other columns are compressed.

    All files of a job of documents have one schema. Its last column, ``rescued``, holds the values
    that do not fit the others.

    Rows of a ``TableSource`` become one file per group of input files, with their original types;
    a group without remaining rows has no file, and loses its earlier one with ``mode="resume"``.
    ``materialize_on_write``, ``on_materialize_error``, ``binary_compression`` and ``image_sizes``
    are only for documents.

    Args:
        path: see ``Sink``, also for all other arguments that are not listed here.
        compression: codec of the other columns: zstd, snappy, gzip, brotli, lz4 or none.
        binary_compression: codec of the image column. Images are usually compressed already.
        row_group_size: number of rows in a row group; by default, as many as have about 8 MiB in
            memory, as a ``Writer`` makes them. A row group ends between documents.
        image_sizes: add the int32 columns ``width`` and ``height``: the size of each image as it is
            displayed, from its header. They are null on other rows, and where the header cannot be
            read. They take the place of columns of the input with these names.

    Raises:
        ValueError: If an option has an invalid value. An unknown codec is reported by ``Pipeline``.

    Examples:
        >>> from shardmill.curate import ParquetSink
        >>> ParquetSink("out", mode="resume", on_materialize_error="drop_row").compression
        'zstd'
    """

    format = "parquet"

    compression: str = "zstd"
    binary_compression: str = "none"
    row_group_size: int | None = None
    image_sizes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(ParquetSink, vars(self))
        for option in ("compression", "binary_compression"):
            if not isinstance(codec := getattr(self, option), str):
                raise OptionError(
                    f"{option} must be the name of a codec, such as 'zstd', not {codec!r}"
                )
        if self.row_group_size is not None:
            object.__setattr__(
                self, "row_group_size", whole("row_group_size", self.row_group_size, 1)
            )


@dataclass(frozen=True, repr=False)
class WebDatasetSink(Sink):
    """Write WebDataset tars: for each document its images in reading order, then its JSON.

    Values of the column ``rescued`` return to their keys.

    Args:
        path: see ``Sink``, also for all other arguments.

    Raises:
        ValueError: If an option has an invalid value.

    Examples:
        >>> from shardmill.curate import WebDatasetSink
        >>> WebDatasetSink("out", on_materialize_error="drop_sample").mode
        'error'
    """

    format = "webdataset"


def sink_options(sink: Sink) -> dict[str, Any]:
    """Return the options of the native writer."""
    own = ("format", "mode", "materialize_on_write", "on_materialize_error")
    of_parquet = ("compression", "binary_compression", "row_group_size", "image_sizes")
    return {
        "path": path_of(sink.path),
        **{name: getattr(sink, name) for name in own},
        **{name: getattr(sink, name, getattr(ParquetSink, name)) for name in of_parquet},
    }
