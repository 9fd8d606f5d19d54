"""Batches for PyTorch: the torch-dataloader-utils API, and a data set for any ``DataLoader``."""

from shardmill._extras import missing_module

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    raise missing_module(
        __name__, name="torch", shown="PyTorch", install="'shardmill[torch]'"
    ) from missing

from shardmill.integrations.torch._dataloader import (
    BatchLoader,
    StructuredDataset,
    create_dataloader,
)
from shardmill.integrations.torch._files import DataFileInfo, IcebergDataFileInfo
from shardmill.integrations.torch._iceberg import IcebergDataset
from shardmill.integrations.torch._iterable import BatchDataset, unchanged
from shardmill.integrations.torch._loader_state import LoaderState
from shardmill.integrations.torch._mesh import MeshLoader
from shardmill.integrations.torch._metrics import WorkerMetrics

__all__ = [
    "BatchDataset",
    "BatchLoader",
    "DataFileInfo",
    "IcebergDataFileInfo",
    "IcebergDataset",
    "LoaderState",
    "MeshLoader",
    "StructuredDataset",
    "WorkerMetrics",
    "create_dataloader",
    "unchanged",
]
