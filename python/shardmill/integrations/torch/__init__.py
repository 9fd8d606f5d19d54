"""Batches for PyTorch: the calls of torch-dataloader-utils, and a data set for any ``DataLoader``."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "shardmill.integrations.torch needs PyTorch\nhint: pip install 'shardmill[torch]'", name="torch"
    ) from missing

from shardmill.integrations.torch.dataloader import BatchLoader, StructuredDataset, create_dataloader
from shardmill.integrations.torch.files import DataFileInfo, IcebergDataFileInfo, RowRange, Shard, Split
from shardmill.integrations.torch.iceberg import IcebergDataset
from shardmill.integrations.torch.iterable import BatchDataset, unchanged
from shardmill.integrations.torch.metrics import WorkerMetrics

__all__ = [
    "BatchDataset",
    "BatchLoader",
    "DataFileInfo",
    "IcebergDataFileInfo",
    "IcebergDataset",
    "RowRange",
    "Shard",
    "Split",
    "StructuredDataset",
    "WorkerMetrics",
    "create_dataloader",
    "unchanged",
]
