"""Metrics of loaders for Prometheus. Requires ``shardmill[prometheus]``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any
from weakref import WeakKeyDictionary

from shardmill._docstrings import first_sentences
from shardmill._extras import missing_module
from shardmill.errors import OptionError
from shardmill.load._loader import Loader
from shardmill.metrics._snapshot import Snapshot, StageSeconds, is_state
from shardmill.metrics._waits import WaitTimes

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
except ModuleNotFoundError as missing:
    raise missing_module(
        __name__, name="prometheus_client", install="'shardmill[prometheus]'"
    ) from missing

__all__ = ["LoaderCollector", "register"]

_PREFIX = "shardmill_loader"
#: Fields that are labels, or options of the loader.
_NOT_METRICS = {"rank", "world_size", "transform_workers"}

#: Labels that the metrics themselves have.
_OWN_LABELS = {"rank", "stage", "le"}
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class LoaderCollector:
    """Collector of ``Loader.metrics`` for a registry of ``prometheus_client``.

    Each number of ``LoaderMetrics`` has the name ``shardmill_loader_<field>``, with the suffix
    ``_total`` for counters; those of ``queue`` and ``storage`` have the name of their group before
    the field. ``shardmill_loader_stage_seconds_total`` has a label ``stage``, and
    ``shardmill_loader_wait_seconds`` is a histogram.

    Args:
        loader: the loader. A scrape reads its counters and disturbs nothing.
        labels: more labels, such as ``{"loader": "train"}`` to tell two loaders apart; ``rank`` is
            always one.
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
            raise OptionError(
                f"labels must not contain {taken[0]!r}, which is a label of the metrics themselves"
            )
        own = {"rank": str(loader.rank), **(labels or {})}
        if self._loaders and sorted(own) != sorted(self._names):
            raise OptionError(
                "the loaders of a registry must have the same labels, "
                f"not {list(own)} beside {self._names}\n"
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
        yield from self._families(
            _PREFIX, [(values, loader.metrics()) for values, loader in list(self._loaders.items())]
        )

    def _families(self, prefix: str, found: list[tuple[tuple[str, ...], Any]]) -> Iterator[Metric]:
        """Yield the metrics of the fields of snapshots, each with the labels of its loader."""
        group = type(found[0][1])
        texts = first_sentences(group)
        for item in fields(group):
            if item.name in _NOT_METRICS:
                continue
            name, text = f"{prefix}_{item.name}", texts.get(item.name, item.name)
            current = [(labels, getattr(snapshot, item.name)) for labels, snapshot in found]
            value = current[0][1]
            if isinstance(value, StageSeconds):
                family = CounterMetricFamily(
                    f"{prefix}_stage_seconds", text, labels=[*self._names, "stage"]
                )
                for labels, stages in current:
                    for stage, seconds in stages.to_dict().items():
                        family.add_metric([*labels, stage], seconds)
            elif isinstance(value, WaitTimes):
                family = HistogramMetricFamily(f"{name}_seconds", text, labels=self._names)
                for labels, wait in current:
                    buckets = [(repr(bound), count) for bound, count in wait.buckets()]
                    family.add_metric(
                        labels, [*buckets, ("+Inf", wait.count)], sum_value=wait.seconds
                    )
            elif isinstance(value, Snapshot):
                yield from self._families(name, current)
                continue
            else:
                family = (GaugeMetricFamily if is_state(item) else CounterMetricFamily)(
                    name, text, labels=self._names
                )
                for labels, number in current:
                    family.add_metric(labels, number)
            yield family


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
    loader: Loader,
    *,
    registry: CollectorRegistry = REGISTRY,
    labels: Mapping[str, str] | None = None,
) -> LoaderCollector:
    """Add the metrics of a loader to a registry, and return the collector.

    ``registry.unregister`` takes the collector. The loaders of a registry share one collector,
    because a metric may be there only once.

    Args:
        loader: the loader.
        registry: the registry; that of the process by default.
        labels: as for ``LoaderCollector``.

    Raises:
        ValueError: If labels are not strings, the name of one is not valid, or another loader of
            the registry has the same labels, or labels of other names.

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
        raise OptionError(
            f"registry must be a prometheus_client.CollectorRegistry, not {type(registry).__name__}"
        )
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
