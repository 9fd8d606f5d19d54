"""Files, in the terms of torch-dataloader-utils."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class DataFileInfo:
    """A data file.

    Attributes:
        path: path of the file.
        file_size: size in bytes, if known.
        record_count: number of rows, if known.
    """

    path: str
    file_size: int | None = None
    record_count: int | None = None


@dataclass
class IcebergDataFileInfo(DataFileInfo):
    """A data file of an Iceberg table.

    Attributes:
        partition: values of the partition, by field name.
        snapshot_id: id of the planned snapshot.
    """

    partition: dict[str, str] | None = None
    snapshot_id: int | None = None
