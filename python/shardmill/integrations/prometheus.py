"""Metrics of loaders for Prometheus. Requires ``shardmill[prometheus]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "shardmill.integrations.prometheus needs prometheus_client\nhint: pip install 'shardmill[prometheus]'",
        name="prometheus_client",
    ) from missing

if TYPE_CHECKING:
    from shardmill.load._loader import Loader

__all__ = ["LoaderCollector", "register"]

_PREFIX = "shardmill_loader"
_COUNTERS = {
    "batches": "Batches delivered.",
    "rows": "Rows delivered, or packs.",
    "bytes_read": "Bytes read from files.",
    "elapsed_seconds": "Time during which a pass was running.",
    "startup_seconds": "Time up to the first batch.",
    "trainer_seconds": "Time of the trainer between two batches.",
    "superbatch_wait_seconds": "Time in next() without a finished superbatch.",
    "transform_wait_seconds": "Time in next() for the transform.",
    "without_room_seconds": "Time during which prefetch_bytes were in use.",
    "blocks_decoded": "Blocks decoded.",
    "superbatches": "Superbatches finished.",
    "tokens": "Tokens computed.",
    "text_bytes": "Bytes of the encoded texts.",
    "rows_without_labels": "Rows with tokens but no label.",
    "special_in_text": "Special tokens that are spelled out in texts.",
}
_GAUGES = {"epoch": "Epoch of the next batch.", "threads": "Decoding threads."}


class LoaderCollector:
    """Collector of ``Loader.metrics`` for a registry of ``prometheus_client``.

    Each number of ``LoaderMetrics`` has the name ``shardmill_loader_<field>``, with the suffix ``_total`` for counters; those of ``queue`` and
    ``storage`` have the name of their group before the field. ``shardmill_loader_stage_seconds_total`` has a label ``stage``, and
    ``shardmill_loader_wait_seconds`` is a histogram.

    Args:
        loader: the loader. A scrape reads its counters and disturbs nothing.
        labels: more labels, such as ``{"loader": "train"}`` to tell two loaders apart; ``rank`` is always one.
    """

    def __init__(self, loader: Loader, *, labels: Mapping[str, str] | None = None) -> None:
        self._loader = loader
        self._labels = {"rank": str(loader.rank), **(labels or {})}

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of this moment."""
        metrics = self._loader.metrics()
        for name, text in _COUNTERS.items():
            yield self._single(CounterMetricFamily, name, text, getattr(metrics, name))
        for name, text in _GAUGES.items():
            yield self._single(GaugeMetricFamily, name, text, getattr(metrics, name))
        for name, value in metrics.queue.to_dict().items():
            yield self._single(GaugeMetricFamily, f"queue_{name}", f"Field {name} of QueueMetrics.", value)
        for name, value in metrics.storage.to_dict().items():
            yield self._single(CounterMetricFamily, f"storage_{name}", f"Field {name} of StorageMetrics.", value)
        stages = CounterMetricFamily(
            f"{_PREFIX}_stage_seconds", "Time of threads by stage.", labels=[*self._labels, "stage"]
        )
        for name, value in metrics.stages.to_dict().items():
            stages.add_metric([*self._labels.values(), name], value)
        yield stages
        waits = HistogramMetricFamily(f"{_PREFIX}_wait_seconds", "Waits for a batch.", labels=list(self._labels))
        buckets = [(repr(bound), count) for bound, count in metrics.wait.buckets()]
        waits.add_metric(
            list(self._labels.values()), [*buckets, ("+Inf", metrics.wait.count)], sum_value=metrics.wait.seconds
        )
        yield waits

    def _single(
        self, family: type[CounterMetricFamily | GaugeMetricFamily], name: str, text: str, value: Any
    ) -> Metric:
        made = family(f"{_PREFIX}_{name}", text, labels=list(self._labels))
        made.add_metric(list(self._labels.values()), value)
        return made


def register(
    loader: Loader, *, registry: CollectorRegistry = REGISTRY, labels: Mapping[str, str] | None = None
) -> LoaderCollector:
    """Add the metrics of a loader to a registry, and return the collector, which ``registry.unregister`` takes.

    Args:
        loader: the loader.
        registry: the registry; that of the process by default.
        labels: as for ``LoaderCollector``.

    Examples:
        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": list(range(10))}), "ten.parquet")
        >>> import shardmill as sm
        >>> from prometheus_client import CollectorRegistry
        >>> from shardmill.integrations import prometheus
        >>> loader = sm.Loader("ten.parquet", batch_size=4, output="numpy")
        >>> registry = CollectorRegistry()
        >>> collector = prometheus.register(loader, registry=registry)
        >>> batches = list(loader)
        >>> registry.get_sample_value("shardmill_loader_batches_total", {"rank": "0"})
        3
    """
    collector = LoaderCollector(loader, labels=labels)
    registry.register(collector)
    return collector
