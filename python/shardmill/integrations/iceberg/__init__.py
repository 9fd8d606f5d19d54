"""Iceberg tables as data sets. pyiceberg plans, the native readers read."""

from shardmill.integrations.iceberg.planning import Planned, PlannedFile
from shardmill.integrations.iceberg.table import IcebergTable

__all__ = ["IcebergTable", "Planned", "PlannedFile"]
