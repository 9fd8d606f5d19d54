"""Metrics of a loader as Prometheus reads them, by the parser of its client."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

client = pytest.importorskip("prometheus_client")

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_text
from prometheus_client.parser import text_string_to_metric_families
from shardmill.integrations import prometheus


@pytest.fixture
def loader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sm.Loader]:
    directory = tmp_path_factory.mktemp("rows")
    pq.write_table(
        pa.table({"x": list(range(1_000))}), directory / "rows.parquet", row_group_size=100
    )
    yield sm.Loader(directory, batch_size=10, output="numpy", rank=1, world_size=2)


def test_text_has_each_number_of_the_snapshot_with_its_rank(loader: sm.Loader) -> None:
    registry = client.CollectorRegistry()
    collector = prometheus.register(loader, registry=registry, labels={"loader": "train"})
    list(loader)
    metrics = loader.metrics()
    families = {
        family.name: family
        for family in text_string_to_metric_families(client.generate_latest(registry).decode())
    }
    samples = {
        (sample.name, sample.labels.get("stage", sample.labels.get("le"))): sample
        for family in families.values()
        for sample in family.samples
    }
    prefix = "shardmill_loader"
    assert all(
        {"rank": "1", "loader": "train"}.items() <= sample.labels.items()
        for sample in samples.values()
    )
    for name in (
        "batches",
        "rows",
        "bytes_read",
        "blocks_decoded",
        "trainer_seconds",
        "startup_seconds",
    ):
        assert samples[f"{prefix}_{name}_total", None].value == pytest.approx(
            getattr(metrics, name)
        ), name
        assert families[f"{prefix}_{name}"].type == "counter"
    for field in fields(metrics.stages):
        value = samples[f"{prefix}_stage_seconds_total", field.name].value
        assert value == pytest.approx(getattr(metrics.stages, field.name))
    for group, kind, suffix in (
        (metrics.queue, "gauge", ""),
        (metrics.storage, "counter", "_total"),
    ):
        name = "queue" if kind == "gauge" else "storage"
        for field in fields(group):
            assert families[f"{prefix}_{name}_{field.name}"].type == kind
            assert samples[f"{prefix}_{name}_{field.name}{suffix}", None].value == getattr(
                group, field.name
            )
    assert families[f"{prefix}_wait_seconds"].type == "histogram"
    assert samples[f"{prefix}_wait_seconds_count", None].value == metrics.wait.count == 49
    assert samples[f"{prefix}_wait_seconds_sum", None].value == pytest.approx(metrics.wait.seconds)
    assert samples[f"{prefix}_wait_seconds_bucket", "+Inf"].value == 49
    registry.unregister(collector)
    assert client.generate_latest(registry) == b""


def test_loaders_of_a_registry_share_their_metrics(loader: sm.Loader, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": list(range(30))}), tmp_path / "more.parquet")
    other = sm.Loader(tmp_path / "more.parquet", batch_size=10, output="numpy")
    registry = client.CollectorRegistry()
    collector = prometheus.register(loader, registry=registry, labels={"loader": "train"})
    assert prometheus.register(other, registry=registry, labels={"loader": "test"}) is collector
    list(other)
    rows = {
        (sample.labels["rank"], sample.labels["loader"]): sample.value
        for family in openmetrics.text_string_to_metric_families(
            openmetrics_text(registry).decode()
        )
        for sample in family.samples
        if sample.name == "shardmill_loader_rows_total"
    }
    assert rows == {("1", "train"): 0, ("0", "test"): 30}
    registry.unregister(collector)
    assert prometheus.register(other, registry=registry) is not collector


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"loader": "train"}, "another loader of this registry has the labels"),
        (
            {"split": "test"},
            r"the same labels, not \['rank', 'split'\] beside \['rank', 'loader'\]",
        ),
        ({"rank": "7"}, "must not contain 'rank'"),
        ({"loader": "x", "le": "1"}, "must not contain 'le'"),
    ],
)
def test_labels_that_do_not_tell_loaders_apart_are_refused(
    loader: sm.Loader, labels: dict[str, str], message: str
) -> None:
    registry = client.CollectorRegistry()
    prometheus.register(loader, registry=registry, labels={"loader": "train"})
    other = sm.Loader(loader.dataset, batch_size=10, output="numpy", rank=1, world_size=2)
    with pytest.raises(ValueError, match=message):
        prometheus.register(other, registry=registry, labels=labels)
    with pytest.raises(ValueError, match="loader must be a Loader, not int"):
        prometheus.register(5, registry=registry)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"job": 3}, "the value of a label must be a string, not 3(.|\n)*hint: write '3'"),
        ({"job": None}, "the value of a label must be a string, not None"),
        ({3: "job"}, "the name of a label must be a string, not 3"),
        (["job"], "labels must be a mapping of names to strings"),
        ({"": "1"}, "'' in labels={'': '1'} is not a valid name of a label"),
        ({"__x": "1"}, "does not start with __"),
        ({"a-b": "1"}, "'a-b' in labels"),
        ({"9th": "1"}, r"a name matches \[a-zA-Z_\]\[a-zA-Z0-9_\]\*"),
        ({"a\n": "1"}, "is not a valid name of a label"),
        ({"größe": "1"}, "is not a valid name of a label"),
    ],
)
def test_labels_that_would_break_each_scrape_are_refused(
    loader: sm.Loader, labels: Any, message: str
) -> None:
    registry = client.CollectorRegistry()
    with pytest.raises(sm.OptionError, match=message):
        prometheus.register(loader, registry=registry, labels=labels)
    assert client.generate_latest(registry) == b""


@pytest.mark.parametrize("registry", [None, "default", {}])
def test_what_is_not_a_registry_is_refused(loader: sm.Loader, registry: Any) -> None:
    with pytest.raises(
        sm.OptionError, match=r"registry must be a prometheus_client\.CollectorRegistry, not "
    ):
        prometheus.register(loader, registry=registry)


def test_each_metric_has_a_description_of_its_own(loader: sm.Loader) -> None:
    texts = [family.documentation for family in prometheus.LoaderCollector(loader).collect()]
    assert len(set(texts)) == len(texts)
    assert not any("Field" in text for text in texts)


def test_counters_that_are_scraped_during_a_pass_never_decrease(loader: sm.Loader) -> None:
    registry = client.CollectorRegistry()
    prometheus.register(loader, registry=registry)
    names = [
        f"shardmill_loader_{name}_seconds_total"
        for name in ("elapsed", "startup", "trainer", "plan_wait")
    ]
    before = [0.0] * 5
    for _ in range(3):
        for _ in loader:
            now = [registry.get_sample_value(name, {"rank": "1"}) or 0 for name in names]
            now.append(
                registry.get_sample_value("shardmill_loader_wait_seconds_sum", {"rank": "1"}) or 0
            )
            assert all(early <= late for early, late in zip(before, now, strict=True))
            before = now


def test_each_field_of_the_snapshot_is_exported(loader: sm.Loader) -> None:
    names = {
        family.name.removeprefix("shardmill_loader_")
        for family in prometheus.LoaderCollector(loader).collect()
    }
    groups = {
        "stages": "stage_seconds",
        "wait": "wait_seconds",
        "queue": "queue_bytes",
        "storage": "storage_requests",
        "cost_terms": "cost_terms_token",
    }
    # The ranks are labels, and the workers an option.
    for field in fields(sm.LoaderMetrics):
        if field.name not in ("rank", "world_size", "transform_workers"):
            assert groups.get(field.name, field.name) in names
