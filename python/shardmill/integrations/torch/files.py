"""What describes files and parts of them, in the words of torch-dataloader-utils."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class DataFileInfo:
    """A data file.

    Attributes:
        path: where it is.
        file_size: in bytes, where that is known.
        record_count: rows, where that is known.
    """

    path: str
    file_size: int | None = None
    record_count: int | None = None


@dataclass
class IcebergDataFileInfo(DataFileInfo):
    """A data file of an Iceberg table.

    Attributes:
        partition: the partition's values, by the names of its fields.
        snapshot_id: of the snapshot that was planned.
    """

    partition: dict[str, str] | None = None
    snapshot_id: int | None = None


@dataclass
class RowRange:
    """Rows ``offset`` to ``offset + length`` of a file."""

    offset: int
    length: int


@dataclass
class Split:
    """A file, or a range of its rows."""

    file: DataFileInfo
    row_range: RowRange | None = None


@dataclass
class Shard:
    """Splits that belong together, with their sums."""

    id: int
    splits: list[Split] = field(default_factory=list)
    row_count: int | None = None
    size_bytes: int | None = None
