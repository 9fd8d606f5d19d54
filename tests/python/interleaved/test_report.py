"""Counts, metrics and their files (specification §7.3, §7.4)."""

import json
from pathlib import Path
from typing import Any

from shard_builders import (
    curate,
    document,
    from_parquet,
    from_tar,
    image,
    tiff,
    write_parquet,
    write_tar,
)
from shardmill.curate import AspectRatioFilter

SIDES = [
    "num_files",
    "total_bytes",
    "total_mb",
    "num_rows",
    "num_samples",
    "num_texts",
    "num_images",
    "num_metadata",
    "modality_counts",
    "materialize_error_count",
]


def test_metrics_have_the_keys_of_the_report(tmp_path: Path, out: Any) -> None:
    for number, size in enumerate([(10, 10), (90, 10)]):
        members = {
            "a.json": {"texts": ["t"], "images": [None, "i.png", "p"]},
            "i.png": image("PNG", size),
            "a.tiff": tiff((9, 9), (8, 8)),
        }
        write_tar(tmp_path / "in" / f"{number}.tar", members)
    outcome = curate(from_tar(tmp_path / "in"), [AspectRatioFilter()], to=out())
    metrics = outcome.report.to_dict()
    assert {f"{side}_{key}" for side in ("input", "output") for key in SIDES} <= set(metrics)
    assert metrics["input_modality_counts"] == {"text": 2, "image": 4, "metadata": 2}
    assert metrics["output_modality_counts"] == {"text": 2, "image": 3, "metadata": 2}
    assert (metrics["input_num_rows"], metrics["output_num_rows"], metrics["input_num_files"]) == (
        8,
        7,
        2,
    )
    assert metrics["input_total_bytes"] == sum(
        path.stat().st_size for path in (tmp_path / "in").iterdir()
    )
    assert metrics["output_total_mb"] == sum(path.stat().st_size for path in outcome.files) / 1e6
    assert metrics["throughput_rows_per_sec"] == 7 / metrics["time_taken_s"]
    stages = ("webdataset_reader", "interleaved_aspect_ratio_filter", "interleaved_parquet_writer")
    names = ("process_time", "actor_idle_time", "input_data_size_mb", "num_items_processed")
    for key in [
        f"task_{stage}_{name}_{kind}"
        for stage in stages
        for name in names
        for kind in ("sum", "mean", "std")
    ]:
        assert key in metrics
    custom = (
        "rows_out image_rows image_rows_missing_binary "
        "materialize_fetch_binary_s materialize_errors"
    )
    for name in f"{custom} materialize_dataframe_total_s parquet_write_s".split():
        assert f"task_interleaved_parquet_writer_custom.{name}_sum" in metrics
    assert metrics["task_interleaved_parquet_writer_custom.rows_out_sum"] == 7
    required = (
        "quarantined_samples quarantined_shards rows_dropped duplicate_sample_ids "
        "pages_remuxed pages_fallback"
    )
    assert set(f"{required} peak_rss_bytes is_success".split()) <= set(metrics)
    assert metrics["pages_remuxed"] == 2, "the second token of a sample names the first page"


def test_tar_writer_and_parquet_reader_have_their_names(tmp_path: Path, out: Any) -> None:
    path = write_parquet(tmp_path / "a.parquet", document("a", "t"))
    metrics = curate(from_parquet(path), to=out(), sink="webdataset").report.to_dict()
    assert metrics["task_interleaved_parquet_reader_num_items_processed_sum"] == 1
    assert metrics["task_interleaved_webdataset_writer_custom.samples_written_sum"] == 1


def test_files_of_the_report_are_replaced_not_merged(run_tar: Any, tmp_path: Path) -> None:
    directory = tmp_path / "report"
    run_tar({"a.json": "["}).report.write(directory)
    assert (directory / "quarantine.jsonl").exists()
    outcome = run_tar({"a.json": {}})
    outcome.report.write(directory)
    assert not (directory / "quarantine.jsonl").exists()
    assert json.loads((directory / "metrics.json").read_text())["quarantined_samples"] == 0
    params = json.loads((directory / "params.json").read_text())
    keys = (
        "executor input_path output_path reader_type writer_format "
        "files_per_partition input_partition_bytes"
    )
    keys += (
        " materialize_on_read materialize_on_write on_materialize_error"
        " reader_fields per_image_fields per_text_fields"
    )
    assert set(
        f"{keys} output_max_batch_bytes parquet_row_group_size parquet_compression mode".split()
    ) <= set(params)


def test_duplicate_ids_are_counted_within_a_partition(tmp_path: Path, out: Any) -> None:
    for number in range(3):
        write_tar(tmp_path / "in" / f"{number}.tar", {"same.json": {"texts": ["t"]}})
    report = curate(from_tar(tmp_path / "in", files_per_partition=3), to=out()).report
    assert report.to_dict()["duplicate_sample_ids"] == 2


def test_run_without_rows_has_rates_of_zero(run_tar: Any) -> None:
    metrics = run_tar({"readme": "x"}).report.to_dict()
    assert (metrics["throughput_rows_per_sec"], metrics["throughput_samples_per_sec"]) == (0.0, 0.0)
