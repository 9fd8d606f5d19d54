"""The files that a job leaves are bounded, however often it is resumed.

What it reads of its ids grows with their number alone.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import shardmill as sm
from checkpoint_jobs import Job
from shardmill.curate import _resumption as resumption
from shardmill.resume import _index_cache as index_cache


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    resumption._index.cache_clear()
    index_cache._private_directory.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def counts(job: Job, cache: Path) -> dict[str, int]:
    state = Counter(re.sub("-.*", "", path.parts[0]) for path in relative_files(job.directory()))
    return {**state, "cache": len(relative_files(cache))}


def relative_files(directory: Path) -> list[Path]:
    return [path.relative_to(directory) for path in directory.rglob("*") if path.is_file()]


def ids_loaded(caplog) -> list[int]:
    """How many ids each index that was built holds."""
    told = (
        re.match(r"Loaded checkpoint: ([\d,]+) ids", record.getMessage())
        for record in caplog.records
    )
    return [int(match[1].replace(",", "")) for match in told if match]


def test_fifty_resumes_leave_a_constant_number_of_files(job, cache, caplog):
    caplog.set_level(logging.INFO, "shardmill.resume")
    bound = {}
    for number in range(50):
        job.write(f"{number:03}", [f"{number}-{row}" for row in range(20)])
        assert job.run().committed_before == number
        resumption._index.cache_clear()
        now = counts(job, cache)
        assert now.pop("ids") == number + 1
        assert now.pop("cache") <= index_cache.MAX_LEVELS + 1
        if number >= 2:
            bound = bound or now
            assert now == bound, f"resume {number}"
    job.assert_ids(Counter(f"{number}-{row}" for number in range(50) for row in range(20)))
    # Each id is built into a level, and again when small levels become one.
    assert sum(ids_loaded(caplog)) <= 4 * 49 * 20


def test_resumes_without_new_files_leave_nothing(job, cache):
    job.write_numbers(files=4)
    job.stop(3)
    job.write("new", ["a", "b"])
    job.stop(1)
    seen = []
    for _ in range(5):
        job.stop(1)
        seen.append(counts(job, cache))
    # The records of the first of these runs become a pack in the next.
    assert seen[1:] == seen[1:2] * 4


def test_ids_of_six_runs_are_read_once_each(job, caplog):
    """1,200,000 ids come in six runs.

    A run builds an index of what the one before it has done, and of nothing else.
    """
    caplog.set_level(logging.INFO, "shardmill.resume")
    rows = 200_000
    for number in range(6):
        ids = pa.array(range(number * rows, (number + 1) * rows)).cast(pa.string())
        pq.write_table(pa.table({"id": ids}), job.source / f"{number}.parquet")
        # Some are there already.
        if number:
            pq.write_table(
                pa.table({"id": ids.slice(0, 10)}), job.source / f"again-{number - 1}.parquet"
            )
        job.run(stages=[])
        resumption._index.cache_clear()
    assert ids_loaded(caplog) == [rows] * 5


def test_growing_list_of_done_ids_is_read_once_each(job, tmp_path, caplog):
    caplog.set_level(logging.INFO, "shardmill.resume")
    done = tmp_path / "done"
    done.mkdir()
    expected = job.write_numbers(files=6)
    for number in range(5):
        pq.write_table(
            pa.table({"id": [str(id) for id in range(number * 10, number * 10 + 10)]}),
            done / f"{number}.parquet",
        )
        state = tmp_path / f"state-{number}"
        job.run(path=state, done=done, sink={"path": tmp_path / f"out-{number}"})
        resumption._index.cache_clear()
    assert ids_loaded(caplog) == [10] * 5
    found = pq.read_table(tmp_path / "out-4")["id"].to_pylist()
    assert sorted(found) == sorted(id for id in expected if int(id) >= 50)


def test_done_list_that_was_written_anew_is_read_again(job, tmp_path):
    done = tmp_path / "done.parquet"
    job.write_numbers(files=1)
    for number, ids in enumerate((["0", "1"], ["2"])):
        pq.write_table(pa.table({"id": ids}), done)
        out = tmp_path / f"out-{number}"
        job.run(path=tmp_path / f"state-{number}", done=done, sink={"path": out})
        assert not set(pq.read_table(out)["id"].to_pylist()) & set(ids)
        assert pq.read_table(out).num_rows == 10 - len(ids)


def test_earlier_part_of_a_plan_keeps_its_own_done_ids(job, caplog):
    """Rows that share an id are all processed when they were planned together.

    Whatever later parts of the plan know.
    """
    for number in range(4):
        job.write(f"{number}", [f"{number}", "twice"])
    expected = Counter(id for number in range(4) for id in (f"{number}", "twice"))
    for number in range(10):
        # One split of the first plan is committed by the first two runs; the later ones add files.
        job.stop(2 if number < 2 else 1)
        job.write(f"x{number}", [f"x{number}", "twice"])
        expected[f"x{number}"] += 1
    job.run()
    found = job.ids()
    assert {id for (id,) in found} == set(expected)
    assert found[("twice",)] >= 4
    assert all(count == 1 for (id,), count in found.items() if id != "twice")


def levels(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.ids"))


def grow(job: Job, runs: range) -> Counter:
    for number in runs:
        job.write(f"{number:03}", [f"{number}-{row}" for row in range(5)])
        job.run()
        resumption._index.cache_clear()
    return Counter(f"{number}-{row}" for number in range(runs.stop) for row in range(5))


def lay_out_anew(job: Job, expected: Counter) -> None:
    for file in job.source.iterdir():
        file.unlink()
    job.write("anew", sorted(expected))


@pytest.mark.parametrize(
    "lost", ["catalog", "first level", "last level", "all levels", "cut level", "foreign catalog"]
)
def test_cache_that_lost_a_part_is_built_again_and_no_row_is_done_twice(job, cache, lost):
    expected = grow(job, range(4))
    catalog = next(cache.rglob("*.json"))
    match lost:
        case "catalog":
            catalog.unlink()
        case "foreign catalog":
            catalog.write_text('[{"name": 7}]')
        case "first level":
            levels(cache)[0].unlink()
        case "last level":
            levels(cache)[-1].unlink()
        case "cut level":
            levels(cache)[0].write_bytes(levels(cache)[0].read_bytes()[:-40])
        case _:
            for path in levels(cache):
                path.unlink()
    lay_out_anew(job, expected)
    assert job.run().rows_dropped == {"done": len(expected)}
    named = json.loads(next(cache.rglob("*.json")).read_text())
    assert {entry["name"] for entry in named} == {path.name for path in levels(cache)}


def test_process_that_dies_between_a_merged_level_and_the_removal_of_the_old_ones_leaves_a_correct_cache(  # noqa: E501
    job, cache
):
    """The levels that were there before come back beside the merged one, with either's catalog."""
    expected = grow(job, range(index_cache.MAX_LEVELS + 1))
    old = {path: path.read_bytes() for path in levels(cache)}
    catalog = next(cache.rglob("*.json"))
    told = catalog.read_bytes()
    assert len(old) == index_cache.MAX_LEVELS
    expected = grow(job, range(index_cache.MAX_LEVELS + 1, index_cache.MAX_LEVELS + 2)) | expected
    assert len(levels(cache)) < index_cache.MAX_LEVELS
    for number, catalog_then in enumerate((told, catalog.read_bytes())):
        for path, content in old.items():
            path.write_bytes(content)
        catalog.write_bytes(catalog_then)
        resumption._index.cache_clear()
        for file in job.source.iterdir():
            file.unlink()
        job.write(f"anew-{number}", sorted(expected))
        assert job.run().rows_dropped == {"done": len(expected)}
        assert len(levels(cache)) <= index_cache.MAX_LEVELS


KILLED = """
import os, signal, sys
from shardmill.resume import _index_cache as index_cache
from pathlib import Path
root = Path(sys.argv[1])
paths = sorted(root.glob("*.parquet"))[:7]
files = [index_cache.Source(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
def build(files, path):
    return index_cache.read_index(
        [f.path for f in files], ["id"],
        path=path, format=None, memory_bytes=1 << 20, threads=1, is_shown=False,
    )
for count in range(1, 7):
    index_cache.levels(files[:count], ["id"], build)
keep = index_cache._keep
if sys.argv[2] == "before the catalog":
    index_cache._keep = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
else:
    Path.unlink = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
index_cache.levels(files, ["id"], build)
"""


@pytest.mark.parametrize("moment", ["before the catalog", "before the removal"])
def test_killed_merge_of_levels_is_finished_by_the_next_process(tmp_path, cache, moment):
    for number in range(7):
        pq.write_table(pa.table({"id": [number, number + 100]}), tmp_path / f"{number}.parquet")
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), moment], capture_output=True, check=False
    )
    assert process.returncode == -9, process.stderr.decode()
    left = len(levels(cache))
    assert left > index_cache.MAX_LEVELS
    found = index_cache.levels(sources_in(tmp_path), ["id"], built)
    held = [sm.resume.IdIndex.open(path) for path in found]
    wanted = [*range(7), *range(100, 107)]
    hits = [index.contains(pa.array(wanted)).to_pylist() for index in held]
    assert [sum(hit) for hit in zip(*hits)] == [1] * len(wanted)
    assert sorted(levels(cache)) == sorted(map(Path, found))


def sources_in(directory: Path) -> list[index_cache.Source]:
    status = {str(path): path.stat() for path in sorted(directory.glob("*.parquet"))}
    return [index_cache.Source(path, of.st_size, of.st_mtime_ns) for path, of in status.items()]


def built(files: list[index_cache.Source], path: str):
    options = {"format": None, "memory_bytes": 1 << 20, "threads": 1, "is_shown": False}
    return index_cache.read_index([file.path for file in files], ["id"], path=path, **options)


def test_levels_of_all_parts_of_a_plan_are_kept_until_its_run_has_mapped_them(tmp_path, cache):
    for number in range(12):
        pq.write_table(pa.table({"id": [number]}), tmp_path / f"{number}.parquet")
    named: list[str] = []
    for source in sources_in(tmp_path):
        named += index_cache.levels([source], ["id"], built, protected=named)
    assert [path for path in named if not Path(path).exists()] == []


def test_cache_directory_that_cannot_be_made_falls_back_with_one_warning(
    job, tmp_path, monkeypatch, caplog
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    expected = grow(job, range(4))
    lay_out_anew(job, expected)
    assert job.run().rows_dropped == {"done": len(expected)}
    assert len(sm.resume.IdIndex.build(job.source, "id")) == len(expected)
    warnings = [
        record.getMessage() for record in caplog.records if "cache directory" in record.getMessage()
    ]
    assert len(warnings) == 1, warnings
    assert "XDG_CACHE_HOME" in warnings[0] and str(tmp_path / "file") in warnings[0]


READ_ONLY = """
import logging, os, sys
logging.basicConfig(level=logging.WARNING)
sys.path[:0] = sys.argv[2:]
access = os.access
from pathlib import Path
from checkpoint_jobs import Job
job = Job(Path(sys.argv[1]))
print(job.run().rows_dropped)
"""


def test_read_only_cache_directory_serves_what_it_holds_and_nothing_is_built_there(
    job, cache, tmp_path
):
    if os.geteuid() != 0:
        pytest.skip("needs a mount")
    expected = grow(job, range(3))
    lay_out_anew(job, expected)
    held = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    tests = Path(__file__).parent
    script = (
        f"mount --bind '{cache}' '{cache}' && mount -o remount,bind,ro '{cache}' && exec \"$@\""
    )
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-c",
        READ_ONLY,
        str(tmp_path),
    ]
    process = subprocess.run(
        [*command, str(tests), str(tests.parent)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    if "unshare" in process.stderr or "mount:" in process.stderr:
        pytest.skip("no mounts here")
    assert process.returncode == 0, process.stderr
    assert f"{{'done': {len(expected)}}}" in process.stdout
    assert process.stderr.count("cannot be used") == 1
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == held
