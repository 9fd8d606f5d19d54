"""Curate interleaved text/image documents: source → stages → sink.

Examples:
    >>> from shardmill.curate import AspectRatioFilter, ParquetSink, Pipeline, WebDatasetSource
    >>> pipeline = Pipeline(
    ...     source=WebDatasetSource("shards/"),
    ...     stages=[AspectRatioFilter(min=1.0, max=2.0)],
    ...     sink=ParquetSink("curated/"),
    ... )
    >>> report = pipeline.run()  # doctest: +SKIP
"""

from shardmill._unknown_options import explain
from shardmill.curate._filters import (
    AspectRatioFilter,
    BlurFilter,
    ClipScoreFilter,
    DamageFilter,
    Filter,
    ImageStage,
    ImageToTextRatioFilter,
    Map,
    QRCodeFilter,
    ReencodeImages,
    SizeFilter,
)
from shardmill.curate._inspection import FileInspection, Inspection, inspect
from shardmill.curate._metrics import PipelineMetrics
from shardmill.curate._pipeline import Pipeline
from shardmill.curate._pixels import phash
from shardmill.curate._record_sources import (
    DocumentKeys,
    InterleavedJsonlSource,
    InterleavedParquetSource,
)
from shardmill.curate._report import Report
from shardmill.curate._sinks import ParquetSink, WebDatasetSink
from shardmill.curate._sources import SampleKeys, WebDatasetSource
from shardmill.curate._table_source import TableSource
from shardmill.curate._verification import FileCheck, Problem, verify

__all__ = [
    "AspectRatioFilter",
    "BlurFilter",
    "ClipScoreFilter",
    "DamageFilter",
    "DocumentKeys",
    "FileCheck",
    "FileInspection",
    "Filter",
    "ImageStage",
    "ImageToTextRatioFilter",
    "Inspection",
    "InterleavedJsonlSource",
    "InterleavedParquetSource",
    "Map",
    "ParquetSink",
    "Pipeline",
    "PipelineMetrics",
    "Problem",
    "QRCodeFilter",
    "ReencodeImages",
    "Report",
    "SampleKeys",
    "SizeFilter",
    "TableSource",
    "WebDatasetSink",
    "WebDatasetSource",
    "inspect",
    "phash",
    "verify",
]

explain(globals(), __all__)
