"""One native data plane for AI training data.

Names are imported on first use, so that ``import shardmill`` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from shardmill import errors
from shardmill._native import __version__
from shardmill.errors import *  # noqa: F403

if TYPE_CHECKING:
    from shardmill import arrayrecord, curate, resume, storage
    from shardmill._stall import StallWarning
    from shardmill.data._chat_template import ChatTemplate
    from shardmill.data._dataset import Dataset
    from shardmill.data._error_policy import ErrorPolicy
    from shardmill.data._image_tokens import ImageTokens
    from shardmill.data._images import ImagePaths, Images, RandomCrop
    from shardmill.data._mds_index import rebuild_index
    from shardmill.data._provenance import Provenance, SourceCheck, SourceMismatch, TokenSource
    from shardmill.data._sequences import ImageOutput, Sequences
    from shardmill.data._text_options import TextOptions
    from shardmill.data._token_files import TokenFiles
    from shardmill.data._token_function import TokenFunction
    from shardmill.data._token_options import Labels, TextPolicy
    from shardmill.data._tokenize import Tokenize
    from shardmill.data._tokenizer import Tokenizer
    from shardmill.expressions import Expression, col
    from shardmill.load._audit import Audit
    from shardmill.load._bad_rows import BadRow
    from shardmill.load._balance import Balance
    from shardmill.load._cost import Cost
    from shardmill.load._diagnosis import Diagnosis
    from shardmill.load._loader import Loader
    from shardmill.load._metrics import CostTerms, LoaderMetrics, QueueMetrics
    from shardmill.load._mixture import Mixture
    from shardmill.load._nested import Ragged, Struct
    from shardmill.load._objects import BinaryArray, ObjectArray, StringArray
    from shardmill.load._options import Output, Runtime, Shuffle, Transform
    from shardmill.load._packing import Packing
    from shardmill.load._token_batches import TokenBatches
    from shardmill.metrics._snapshot import StageSeconds, StorageMetrics
    from shardmill.metrics._waits import WaitTimes
    from shardmill.write._merge import merge
    from shardmill.write._metrics import WriterMetrics
    from shardmill.write._token_layout import TokenLayout
    from shardmill.write._writer import Writer

__all__ = [
    "Audit",
    "BadRow",
    "Balance",
    "BinaryArray",
    "ChatTemplate",
    "Cost",
    "CostTerms",
    "Dataset",
    "Diagnosis",
    "ErrorPolicy",
    "Expression",
    "ImageOutput",
    "ImagePaths",
    "ImageTokens",
    "Images",
    "Labels",
    "Loader",
    "LoaderMetrics",
    "Mixture",
    "ObjectArray",
    "Output",
    "Packing",
    "Provenance",
    "QueueMetrics",
    "Ragged",
    "RandomCrop",
    "Runtime",
    "Sequences",
    "Shuffle",
    "SourceCheck",
    "SourceMismatch",
    "StageSeconds",
    "StallWarning",
    "StorageMetrics",
    "StringArray",
    "Struct",
    "TextOptions",
    "TextPolicy",
    "TokenBatches",
    "TokenFiles",
    "TokenFunction",
    "TokenLayout",
    "TokenSource",
    "Tokenize",
    "Tokenizer",
    "Transform",
    "WaitTimes",
    "Writer",
    "WriterMetrics",
    "__version__",
    "arrayrecord",
    "col",
    "curate",
    "merge",
    "rebuild_index",
    "resume",
    "storage",
]

__all__ += errors.__all__

#: Module of each public name; names not listed are subpackages.
_MODULES = {
    "StallWarning": "_stall",
    "ChatTemplate": "data._chat_template",
    "Dataset": "data._dataset",
    "ErrorPolicy": "data._error_policy",
    "ImageTokens": "data._image_tokens",
    "ImagePaths": "data._images",
    "Images": "data._images",
    "RandomCrop": "data._images",
    "rebuild_index": "data._mds_index",
    "Provenance": "data._provenance",
    "SourceCheck": "data._provenance",
    "SourceMismatch": "data._provenance",
    "TokenSource": "data._provenance",
    "ImageOutput": "data._sequences",
    "Sequences": "data._sequences",
    "TextOptions": "data._text_options",
    "TokenFiles": "data._token_files",
    "TokenFunction": "data._token_function",
    "Labels": "data._token_options",
    "TextPolicy": "data._token_options",
    "Tokenize": "data._tokenize",
    "Tokenizer": "data._tokenizer",
    "Expression": "expressions",
    "col": "expressions",
    "Audit": "load._audit",
    "BadRow": "load._bad_rows",
    "Balance": "load._balance",
    "Cost": "load._cost",
    "Diagnosis": "load._diagnosis",
    "Loader": "load._loader",
    "LoaderMetrics": "load._metrics",
    "CostTerms": "load._metrics",
    "QueueMetrics": "load._metrics",
    "Mixture": "load._mixture",
    "Ragged": "load._nested",
    "Struct": "load._nested",
    "BinaryArray": "load._objects",
    "ObjectArray": "load._objects",
    "StringArray": "load._objects",
    "Output": "load._options",
    "Runtime": "load._options",
    "Shuffle": "load._options",
    "Transform": "load._options",
    "Packing": "load._packing",
    "TokenBatches": "load._token_batches",
    "StageSeconds": "metrics._snapshot",
    "StorageMetrics": "metrics._snapshot",
    "WaitTimes": "metrics._waits",
    "merge": "write._merge",
    "Writer": "write._writer",
    "WriterMetrics": "write._metrics",
    "TokenLayout": "write._token_layout",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'shardmill' has no attribute {name!r}")
    if name.islower() and name not in _MODULES:
        return import_module(f"shardmill.{name}")
    from shardmill._unknown_options import explain

    names = globals()
    names[name] = getattr(import_module(f"shardmill.{_MODULES[name]}"), name)
    explain(names, [name])
    return names[name]


def __dir__() -> list[str]:
    return __all__
