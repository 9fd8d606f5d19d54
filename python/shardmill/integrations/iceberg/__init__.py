"""Iceberg tables as data sets. pyiceberg plans, the native readers read."""

from shardmill.integrations.iceberg._table import IcebergTable

__all__ = ["IcebergTable"]
