"""Metrics of a loader as Prometheus reads them, by the parser of its client."""

from collections.abc import Iterator
from dataclasses import fields

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

client = pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families
from shardmill.integrations import prometheus


@pytest.fixture
def loader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sm.Loader]:
    directory = tmp_path_factory.mktemp("rows")
    pq.write_table(pa.table({"x": list(range(1_000))}), directory / "rows.parquet", row_group_size=100)
    yield sm.Loader(directory, batch_size=10, output="numpy", rank=1, world_size=2)


def test_text_has_each_number_of_the_snapshot_with_its_rank(loader: sm.Loader) -> None:
    registry = client.CollectorRegistry()
    collector = prometheus.register(loader, registry=registry, labels={"loader": "train"})
    list(loader)
    metrics = loader.metrics()
    families = {
        family.name: family for family in text_string_to_metric_families(client.generate_latest(registry).decode())
    }
    samples = {
        (sample.name, sample.labels.get("stage", sample.labels.get("le"))): sample
        for family in families.values()
        for sample in family.samples
    }
    prefix = "shardmill_loader"
    assert all({"rank": "1", "loader": "train"}.items() <= sample.labels.items() for sample in samples.values())
    for name in ("batches", "rows", "bytes_read", "blocks_decoded", "trainer_seconds", "startup_seconds"):
        assert samples[f"{prefix}_{name}_total", None].value == pytest.approx(getattr(metrics, name)), name
        assert families[f"{prefix}_{name}"].type == "counter"
    for field in fields(metrics.stages):
        value = samples[f"{prefix}_stage_seconds_total", field.name].value
        assert value == pytest.approx(getattr(metrics.stages, field.name))
    for group, kind, suffix in ((metrics.queue, "gauge", ""), (metrics.storage, "counter", "_total")):
        name = "queue" if kind == "gauge" else "storage"
        for field in fields(group):
            assert families[f"{prefix}_{name}_{field.name}"].type == kind
            assert samples[f"{prefix}_{name}_{field.name}{suffix}", None].value == getattr(group, field.name)
    assert families[f"{prefix}_wait_seconds"].type == "histogram"
    assert samples[f"{prefix}_wait_seconds_count", None].value == metrics.wait.count == 49
    assert samples[f"{prefix}_wait_seconds_sum", None].value == pytest.approx(metrics.wait.seconds)
    assert samples[f"{prefix}_wait_seconds_bucket", "+Inf"].value == 49
    registry.unregister(collector)
    assert client.generate_latest(registry) == b""


def test_each_field_of_the_snapshot_is_exported(loader: sm.Loader) -> None:
    names = {family.name.removeprefix("shardmill_loader_") for family in prometheus.LoaderCollector(loader).collect()}
    groups = {"stages": "stage_seconds", "wait": "wait_seconds", "queue": "queue_bytes", "storage": "storage_requests"}
    # The ranks are labels, and the workers an option.
    for field in fields(sm.LoaderMetrics):
        if field.name not in ("rank", "world_size", "transform_workers"):
            assert groups.get(field.name, field.name) in names
