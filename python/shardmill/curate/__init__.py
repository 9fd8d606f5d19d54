"""Curate interleaved text/image documents: source → stages → sink.

Example:
    >>> from shardmill.curate import AspectRatioFilter, ParquetSink, Pipeline, WebDatasetSource
    >>> pipeline = Pipeline(
    ...     source=WebDatasetSource("shards/"),
    ...     stages=[AspectRatioFilter(min=1.0, max=2.0)],
    ...     sink=ParquetSink("curated/"),
    ... )
    >>> report = pipeline.run()  # doctest: +SKIP
"""

from shardmill.curate.filters import (
    AspectRatioFilter,
    BlurFilter,
    ClipScoreFilter,
    Filter,
    ImageToTextRatioFilter,
    Map,
    QRCodeFilter,
    ReencodeImages,
)
from shardmill.curate.inspection import FileInspection, Inspection, inspect
from shardmill.curate.pipeline import Pipeline
from shardmill.curate.report import Report
from shardmill.curate.sinks import ParquetSink, WebDatasetSink
from shardmill.curate.sources import InterleavedParquetSource, WebDatasetSource
from shardmill.curate.table_source import TableSource
from shardmill.curate.verification import FileCheck, Problem, verify

__all__ = [
    "AspectRatioFilter",
    "BlurFilter",
    "ClipScoreFilter",
    "FileCheck",
    "FileInspection",
    "Filter",
    "ImageToTextRatioFilter",
    "Inspection",
    "InterleavedParquetSource",
    "Map",
    "ParquetSink",
    "Pipeline",
    "Problem",
    "QRCodeFilter",
    "ReencodeImages",
    "Report",
    "TableSource",
    "WebDatasetSink",
    "WebDatasetSource",
    "inspect",
    "verify",
]
