"""Metrics of loaders for Prometheus. Requires ``shardmill[prometheus]``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from shardmill.errors import OptionError
from shardmill.load._loader import Loader
from shardmill.load._metrics import LoaderMetrics

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "shardmill.integrations.prometheus needs prometheus_client\nhint: pip install 'shardmill[prometheus]'",
        name="prometheus_client",
    ) from missing

__all__ = ["LoaderCollector", "register"]

_PREFIX = "shardmill_loader"
_COUNTERS = {
    "batches": "Batches delivered.",
    "rows": "Rows delivered, or packs.",
    "bytes_read": "Bytes of files that were asked for since the data set was opened, by all of its loaders.",
    "elapsed_seconds": "Startup, waits and time of the trainer.",
    "startup_seconds": "Time in iter() and next() up to the first batch.",
    "trainer_seconds": "Time of the trainer between batches and between passes, including the current step.",
    "plan_wait_seconds": "Time in iter() and next() for the plan of an epoch.",
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
_GAUGES = {
    "epoch": "Epoch of the next batch.",
    "threads": "Decoding threads.",
    "queue.superbatches_ready": "Finished superbatches that wait for the trainer.",
    "queue.superbatches_ahead": "Superbatches that are finished or in the work of a thread.",
    "queue.bytes": "Memory of superbatches ahead and of the decoded blocks that they need.",
    "queue.bytes_limit": "prefetch_bytes of the loader.",
}
_STORAGE = {
    "storage.requests": "Requests of this process to all stores, including retries and hedged requests.",
    "storage.hedged": "Requests that were sent a second time because the first answer was late.",
    "storage.retries": "Requests that were sent again after a temporary failure.",
    "storage.bytes": "Bytes received from stores.",
    "storage.cache_hits": "Ranges that were read from the local cache.",
    "storage.cache_misses": "Ranges that the local cache did not have.",
}

#: Labels that the metrics themselves have.
_OWN_LABELS = {"rank", "stage", "le"}
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


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
        self._loaders: dict[tuple[str, ...], Loader] = {}
        self._names: list[str] = []
        self.add(loader, labels=labels)

    def add(self, loader: Loader, *, labels: Mapping[str, str] | None = None) -> None:
        """Collect the metrics of another loader as well.

        Args:
            loader: the loader.
            labels: values of the same labels that tell it apart.
        """
        if not isinstance(loader, Loader):
            raise OptionError(f"loader must be a Loader, not {type(loader).__name__}")
        _check_labels(labels)
        taken = sorted(_OWN_LABELS & set(labels or {}))
        if taken:
            raise OptionError(f"labels must not contain {taken[0]!r}, which is a label of the metrics themselves")
        own = {"rank": str(loader.rank), **(labels or {})}
        if self._loaders and sorted(own) != sorted(self._names):
            raise OptionError(
                f"the loaders of a registry must have the same labels, not {list(own)} beside {self._names}\n"
                "hint: pass the same names in labels="
            )
        self._names = self._names or list(own)
        values = tuple(own[name] for name in self._names)
        if self._loaders.get(values, loader) is not loader:
            raise OptionError(
                f"another loader of this registry has the labels {own}\n"
                "hint: tell them apart by a label, such as labels={'loader': 'train'}"
            )
        self._loaders[values] = loader

    def describe(self) -> Iterator[Metric]:
        """Yield the metrics by which a registry knows the collector."""
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of this moment."""
        found = [(values, loader.metrics()) for values, loader in list(self._loaders.items())]

        def family(
            kind: type[CounterMetricFamily | GaugeMetricFamily],
            name: str,
            text: str,
            value: Callable[[LoaderMetrics], float],
        ) -> Metric:
            made = kind(f"{_PREFIX}_{name.replace('.', '_')}", text, labels=self._names)
            for values, metrics in found:
                made.add_metric(values, value(metrics))
            return made

        for name, text in (_COUNTERS | _STORAGE).items():
            yield family(CounterMetricFamily, name, text, attrgetter(name))
        for name, text in _GAUGES.items():
            yield family(GaugeMetricFamily, name, text, attrgetter(name))
        stages = CounterMetricFamily(
            f"{_PREFIX}_stage_seconds", "Time of threads by stage.", labels=[*self._names, "stage"]
        )
        waits = HistogramMetricFamily(
            f"{_PREFIX}_wait_seconds", "Waits for a batch; the sum includes one in progress.", labels=self._names
        )
        for values, metrics in found:
            for name, seconds in metrics.stages.to_dict().items():
                stages.add_metric([*values, name], seconds)
            buckets = [(repr(bound), count) for bound, count in metrics.wait.buckets()]
            waits.add_metric(values, [*buckets, ("+Inf", metrics.wait.count)], sum_value=metrics.wait.seconds)
        yield stages
        yield waits


def _check_labels(labels: Any) -> None:
    """Check labels now: each later scrape would fail, and with it that of all other metrics.

    Raises:
        ValueError: If they are not strings by name, or a name is not one of Prometheus.
    """
    if labels is not None and not isinstance(labels, Mapping):
        raise OptionError(f"labels must be a mapping of names to strings, not {labels!r}")
    given: dict[Any, Any] = dict(labels or {})
    for name, value in given.items():
        for what, text in (("name", name), ("value", value)):
            if not isinstance(text, str):
                raise OptionError(
                    f"the {what} of a label must be a string, not {text!r} in labels={given!r}\n"
                    f"hint: write {str(text)!r}"
                )
        if not _LABEL_NAME.fullmatch(name):
            raise OptionError(
                f"{name!r} in labels={given!r} is not a valid name of a label"
                "\nhint: a name matches [a-zA-Z_][a-zA-Z0-9_]* and does not start with __"
            )


_collectors: WeakKeyDictionary[CollectorRegistry, LoaderCollector] = WeakKeyDictionary()


def register(
    loader: Loader, *, registry: CollectorRegistry = REGISTRY, labels: Mapping[str, str] | None = None
) -> LoaderCollector:
    """Add the metrics of a loader to a registry, and return the collector, which ``registry.unregister`` takes.

    The loaders of a registry share one collector, because a metric may be there only once.

    Args:
        loader: the loader.
        registry: the registry; that of the process by default.
        labels: as for ``LoaderCollector``.

    Raises:
        ValueError: If labels are not strings, the name of one is not valid, or another loader of the registry has the same labels, or labels of
            other names.

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
    if not isinstance(registry, CollectorRegistry):
        raise OptionError(f"registry must be a prometheus_client.CollectorRegistry, not {type(registry).__name__}")
    collector = _collectors.get(registry)
    if collector is not None and _is_registered(collector, registry):
        collector.add(loader, labels=labels)
        return collector
    collector = LoaderCollector(loader, labels=labels)
    registry.register(collector)
    _collectors[registry] = collector
    return collector


def _is_registered(collector: LoaderCollector, registry: CollectorRegistry) -> bool:
    """A registry refuses metrics that it has."""
    try:
        registry.register(collector)
    except ValueError:
        return True
    registry.unregister(collector)
    return False
