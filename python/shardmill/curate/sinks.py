"""Where documents go: one file a partition, published whole or not at all."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from os import PathLike, fspath
from typing import Any, ClassVar, Literal

from shardmill.curate.sources import described
from shardmill.errors import OptionError
from shardmill.storage import path_of, refuse_keys, shown

Mode = Literal["ignore", "overwrite", "error", "append"]
OnMaterializeError = Literal["error", "warn", "drop_row", "drop_sample"]


@dataclass(frozen=True, repr=False)
class Sink:
    """What all sinks share. Making one touches nothing on disk.

    Args:
        path: the output folder.
        mode: ``ignore`` keeps what is there and replaces only files of the same inputs; ``overwrite`` empties the
            folder when the run starts; ``error`` refuses a folder that exists; ``append`` is not implemented.
        materialize_on_write: fetch image bytes that no stage has fetched before.
        on_materialize_error: what to do with an image that cannot be had: ``error`` stops the run, ``warn`` keeps the
            row without bytes, ``drop_row`` removes it, ``drop_sample`` removes its document.
        schema: exactly these columns (anything with ``__arrow_c_schema__``).
        schema_overrides: types and columns merged over those of the rows.
        storage_options: how the store of remote paths is reached, see :func:`shardmill.storage.configure`.
    """

    path: str | PathLike[str]
    _: KW_ONLY
    mode: Mode = "ignore"
    materialize_on_write: bool = True
    on_materialize_error: OnMaterializeError = "error"
    schema: Any = None
    schema_overrides: Any = None
    storage_options: Any = None

    format: ClassVar[str]

    def __post_init__(self) -> None:
        refuse_keys([fspath(self.path)])
        if self.schema is not None and self.schema_overrides is not None:
            warnings.warn("`schema` fixes all columns; `schema_overrides` has no effect beside it", stacklevel=3)

    def __getstate__(self) -> dict[str, Any]:
        # Secrets do not travel, nor objects that hold some.
        return {**self.__dict__, "storage_options": shown([fspath(self.path)], self.storage_options)}

    def __repr__(self) -> str:
        return described(self)

    def options(self) -> dict[str, Any]:
        """What the native writer needs to know."""
        for option, allowed in (("mode", Mode), ("on_materialize_error", OnMaterializeError)):
            names = allowed.__args__
            if getattr(self, option) not in names:
                raise OptionError(f"`{option}` is {getattr(self, option)!r}; one of {', '.join(names)}")
        return {
            "path": path_of(self.path),
            "format": self.format,
            "mode": self.mode,
            "materialize_on_write": self.materialize_on_write,
            "on_materialize_error": self.on_materialize_error,
            "compression": "zstd",
            "row_group_size": 128_000,
            "binary_compression": "none",
        }


@dataclass(frozen=True, repr=False)
class ParquetSink(Sink):
    """Parquet. Images of documents are stored as they are, other columns compressed; row groups are cut by bytes.

    Rows of a :class:`TableSource` become one file for each group of input files, with the types that they came with;
    a group without rows that are left gives no file. ``materialize_on_write``, ``on_materialize_error``, ``schema``,
    ``schema_overrides`` and ``binary_compression`` are for documents.

    Args:
        path: see :class:`Sink`, as for all further arguments that are not listed here.
        compression: codec of the other columns: zstd, snappy, gzip, brotli, lz4 or none.
        binary_compression: codec of the image column. Images are compressed already, mostly.
        row_group_size: most rows in a row group.
    """

    format = "parquet"

    compression: str = "zstd"
    binary_compression: str = "none"
    row_group_size: int = 128_000

    def options(self) -> dict[str, Any]:
        """What the native writer needs to know."""
        own = {
            "compression": self.compression,
            "binary_compression": self.binary_compression,
            "row_group_size": self.row_group_size,
        }
        return super().options() | own


@dataclass(frozen=True, repr=False)
class WebDatasetSink(Sink):
    """WebDataset tars: per document its images in reading order, then its JSON.

    Args:
        path: see :class:`Sink`, as for all further arguments.
    """

    format = "webdataset"
