"""One native data plane for AI training data.

Names are loaded when they are first used, so that ``import shardmill`` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardmill._native import __version__

if TYPE_CHECKING:
    from shardmill import arrayrecord, curate, resume, storage
    from shardmill.audit import Audit
    from shardmill.bad_rows import BadRow
    from shardmill.dataset import Dataset
    from shardmill.errors import (
        BadRowLimitError,
        CheckpointBusyError,
        CheckpointDamagedError,
        CheckpointMismatchError,
        CurateError,
        Error,
        FormatError,
        IdTypeError,
        MissingColumnError,
        NotFoundError,
        OptionError,
        PlanError,
        StorageError,
        SupersededError,
    )
    from shardmill.expressions import Expression, col
    from shardmill.loader import Loader
    from shardmill.mds import rebuild_index
    from shardmill.merging import merge
    from shardmill.mixture import Mixture
    from shardmill.packing import Packing
    from shardmill.stall import StallWarning
    from shardmill.writer import Writer

_LOCATIONS = {
    "Audit": "shardmill.audit",
    "BadRow": "shardmill.bad_rows",
    "BadRowLimitError": "shardmill.errors",
    "CheckpointBusyError": "shardmill.errors",
    "CheckpointDamagedError": "shardmill.errors",
    "CheckpointMismatchError": "shardmill.errors",
    "CurateError": "shardmill.errors",
    "Dataset": "shardmill.dataset",
    "Error": "shardmill.errors",
    "Expression": "shardmill.expressions",
    "FormatError": "shardmill.errors",
    "IdTypeError": "shardmill.errors",
    "Loader": "shardmill.loader",
    "MissingColumnError": "shardmill.errors",
    "Mixture": "shardmill.mixture",
    "NotFoundError": "shardmill.errors",
    "OptionError": "shardmill.errors",
    "Packing": "shardmill.packing",
    "PlanError": "shardmill.errors",
    "StallWarning": "shardmill.stall",
    "StorageError": "shardmill.errors",
    "SupersededError": "shardmill.errors",
    "Writer": "shardmill.writer",
    "col": "shardmill.expressions",
    "merge": "shardmill.merging",
    "rebuild_index": "shardmill.mds",
}

__all__ = [
    "Audit",
    "BadRow",
    "BadRowLimitError",
    "CheckpointBusyError",
    "CheckpointDamagedError",
    "CheckpointMismatchError",
    "CurateError",
    "Dataset",
    "Error",
    "Expression",
    "FormatError",
    "IdTypeError",
    "Loader",
    "MissingColumnError",
    "Mixture",
    "NotFoundError",
    "OptionError",
    "Packing",
    "PlanError",
    "StallWarning",
    "StorageError",
    "SupersededError",
    "Writer",
    "__version__",
    "arrayrecord",
    "col",
    "curate",
    "merge",
    "rebuild_index",
    "resume",
    "storage",
]


def __getattr__(name: str) -> Any:
    if name in ("arrayrecord", "curate", "resume", "storage"):
        return import_module(f"shardmill.{name}")
    if name in _LOCATIONS:
        return getattr(import_module(_LOCATIONS[name]), name)
    raise AttributeError(f"module 'shardmill' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
