"""The page that is made of benchmark results, and the check of output files."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

# The benchmarks are no part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmark_results import results_with

from benchmarks.report import without_machine_paths, write_report


def results_of(*entries: dict[str, Any]) -> dict[str, Any]:
    disk = {"write_fsync_mb_per_s": 100.0, "read_mb_per_s": 200.0}
    machine = {"cpu_cores": 2, "disk": disk}
    return results_with(*entries, machine=machine, caches="cold", datasets={"/home/someone/data/set": {}})


def entry_of(system: str, seconds: float, **keys: Any) -> dict[str, Any]:
    sizes = {"input_total_mb": 200.0, "output_total_mb": 100.0, "output_num_rows": 10, "output_num_samples": 2}
    metrics = sizes | {"process_seconds": seconds, "cpu_seconds": 1.0, "peak_rss_bytes": 10**9}
    entry = {"name": f"wds_to_wds__raw__{system}", "is_success": True, "failures": [], "metrics": metrics}
    return entry | {"command": ["/home/someone/venv/bin/python"], "versions": {"python": "3.11.7"}} | keys


def test_page_compares_and_does_not_change_between_runs(tmp_path: Path) -> None:
    results = results_of(entry_of("nemo_curator", 12.0), entry_of("shardmill", 2.0))
    for folder in ("one", "two"):
        write_report(results, tmp_path / folder)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) == 6
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    page = (tmp_path / "one" / "README.md").read_text()
    assert "6.0 to 6.0 times as fast" in page
    # 200 MB at 200 MB/s and 100 MB at 100 MB/s.
    assert "| WebDataset → WebDataset, raw | 2.00 |" in page


def test_goals_are_held_against_what_was_measured(tmp_path: Path) -> None:
    write_report(results_of(entry_of("nemo_curator", 12.0), entry_of("shardmill", 2.0)), tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "| wds_to_wds, raw, speed-up over NeMo Curator | ≥ 10× | 6× | **missed** |" in page
    assert "| pq_to_wds, raw, speed-up over NeMo Curator | ≥ 10× | - | not measured |" in page


def test_failed_entry_is_named_and_not_compared(tmp_path: Path) -> None:
    failed = entry_of("shardmill", 0.1, is_success=False, failures=["exit code 1"])
    write_report(results_of(entry_of("nemo_curator", 12.0), failed), tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "**failed**: wds_to_wds__raw__shardmill: exit code 1" in page
    assert "times as fast" not in page


def test_published_results_hold_no_folder_of_this_machine() -> None:
    assert "someone" not in json.dumps(without_machine_paths(results_of(entry_of("shardmill", 1.0))))


def write_tar(path: Path, members: dict[str, Any]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            payload = content if isinstance(content, bytes) else json.dumps(content).encode()
            member = tarfile.TarInfo(name)
            member.size = len(payload)
            tar.addfile(member, io.BytesIO(payload))


@pytest.mark.parametrize(
    ("document", "is_order_kept", "is_layout_kept"),
    [
        ({"sample_id": "a", "texts": [None, "t"], "images": ["a.0.tiff", None]}, True, True),
        ({"sample_id": "a", "texts": ["s", "t"], "images": [None, None]}, True, False),
        ({"sample_id": "a", "texts": [None, None, "t"], "images": ["a.0.tiff", None, None]}, False, True),
        ({"sample_id": "a", "texts": ["both"], "images": ["a.0.tiff"]}, False, True),
        ({"sample_id": "a", "texts": [None], "images": ["b.0.tiff"]}, True, False),
        ({"sample_id": "a", "texts": [], "images": ["a.0.tiff"]}, True, False),
        ({"texts": [None], "images": ["a.0.tiff"]}, True, False),
    ],
)
def test_defect_in_one_of_several_tars_is_found(
    tmp_path: Path, document: dict[str, Any], is_order_kept: bool, is_layout_kept: bool
) -> None:
    pytest.importorskip("pyarrow")
    from benchmarks.interleaved.counting import count_folder

    write_tar(tmp_path / "first.tar", {"z.json": {"sample_id": "z", "texts": ["t", "t"], "images": [None, None]}})
    write_tar(tmp_path / "second.tar", {"a.0.tiff": b"II", "a.json": document})
    side = count_folder(tmp_path, "wds", is_renumbered=True, has_own_members=True)
    assert (side.num_files, side.rows["metadata"]) == (2, 2)
    assert (side.order_problems == []) is is_order_kept
    assert (side.layout_problems == []) is is_layout_kept


def test_rows_out_of_order_in_parquet_are_found(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    from benchmarks.interleaved.counting import count_folder

    def problems_of(positions: list[int], modalities: list[str]) -> list[str]:
        columns = {
            "sample_id": ["a"] * len(positions),
            "position": positions,
            "modality": modalities,
            "materialize_error": arrow.nulls(len(positions), arrow.string()),
        }
        parquet.write_table(arrow.table(columns), tmp_path / "one.parquet")
        return count_folder(tmp_path, "parquet", is_renumbered=True, has_own_members=True).order_problems

    assert problems_of([-1, 0, 1], ["metadata", "text", "image"]) == []
    assert problems_of([-1, 1, 0], ["metadata", "text", "image"]) != []
    assert problems_of([-1, 0, 2], ["metadata", "text", "image"]) != []
    assert problems_of([0, -1], ["text", "metadata"]) != []
    assert problems_of([-1, -1], ["metadata", "metadata"]) != []


def test_truncated_tar_is_found(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from benchmarks.interleaved.counting import count_folder

    write_tar(tmp_path / "one.tar", {"a.0.tiff": b"I" * 4000, "a.json": {"sample_id": "a"}})
    whole = (tmp_path / "one.tar").read_bytes()
    (tmp_path / "one.tar").write_bytes(whole[:1024])
    side = count_folder(tmp_path, "wds", is_renumbered=True, has_own_members=True)
    assert side.layout_problems
