"""Damaged checkpoints: rebuilt, or refused with an error that names the file.

No row is lost or repeated.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import shardmill as sm
from breadth import beginning, covering
from checkpoint_jobs import Job, stopped_twice
from shardmill.curate import _resumption as resumption

DAMAGES = {
    "removed": lambda path: path.unlink(),
    "flipped": lambda path: path.write_bytes(flipped(path.read_bytes(), 5)),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut by a byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "foreign": lambda path: path.write_bytes(b"PAR1 of something else"),
}
OBJECTS = (
    "checkpoint.json",
    "lease/*2",
    "plan/000000",
    "plan/000001",
    "units-*/*",
    "packs/*",
    "ids/*",
)
# Two files a split: files that are added between others would be cut otherwise if all
# were planned anew.
SOURCE = {"files_per_partition": 2}


def flipped(content: bytes, place: int) -> bytes:
    at = len(content) * place // 11
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def job(tmp_path):
    return stopped_twice(Job(tmp_path), ids_of, source=SOURCE)


EXPECTED = [id for number in (0, 1, 2, 3, 5, 7, 9, 11) for id in (f"{number}-a", f"{number}-b")]


def ids_of(number: int) -> list[str]:
    return [f"{number}-a", f"{number}-b"]


def found(job: Job, pattern: str) -> Path:
    path = (
        job.state / pattern if pattern == "checkpoint.json" else min(job.directory().glob(pattern))
    )
    assert path.is_file()
    return path


def refusal(job: Job) -> str | None:
    try:
        job.run(source=SOURCE)
    except sm.Error as error:
        return str(error)
    return None


def assert_none_too_many(job: Job) -> None:
    surplus = job.ids() - Counter((id,) for id in EXPECTED)
    assert not surplus, list(surplus.items())[:5]


@pytest.mark.parametrize("damage", beginning(2, list(DAMAGES)))
@pytest.mark.parametrize("pattern", OBJECTS)
def test_damaged_object_is_refused_by_name_or_does_no_harm(job, pattern, damage):
    if (pattern, damage) == ("checkpoint.json", "removed"):
        pytest.skip("then there is no checkpoint")
    path = found(job, pattern)
    content = path.read_bytes()
    DAMAGES[damage](path)
    refused = refusal(job)

    if refused is None:
        job.assert_ids(Counter(EXPECTED))
        return
    assert path.name in refused or path.parent.name in refused, refused
    assert_none_too_many(job)
    # The directory of a term is gone once a later run has closed it.
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    job.run(source=SOURCE)
    job.assert_ids(Counter(EXPECTED))


def lay_out_anew(job: Job) -> None:
    for file in job.source.iterdir():
        file.unlink()
    for start in range(0, len(EXPECTED), 3):
        job.write(f"anew-{start:03}", EXPECTED[start : start + 3])


@covering(1, pattern=OBJECTS, damage=list(DAMAGES))
def test_damage_does_no_harm_when_the_input_is_laid_out_anew(job, pattern, damage):
    """Now a row that is done can be told by its id alone."""
    if pattern in ("checkpoint.json", "packs/*", "units-*/*") and damage == "removed":
        pytest.skip("nothing tells that it was ever there")
    lay_out_anew(job)
    path = found(job, pattern)
    DAMAGES[damage](path)
    refused = refusal(job)

    if refused is None:
        job.assert_ids(Counter(EXPECTED))
    else:
        assert path.name in refused or path.parent.name in refused, refused
        assert_none_too_many(job)


@pytest.mark.parametrize("damage", [name for name in DAMAGES if name != "removed"])
def test_new_file_that_shares_ids_with_a_damaged_record_waits_until_its_split_is_done_again(
    tmp_path, damage
):
    job = Job(tmp_path)
    job.write("a", list(range(100)))
    job.run()
    DAMAGES[damage](found(job, "units-*/*"))
    job.write("b", list(range(50, 150)))
    report = job.run()

    assert report.rows_done == 50
    job.assert_ids(Counter(range(150)))


def flip_and_resume(job: Job, path: Path, tmp_path: Path, places: Iterable[int]) -> None:
    """A bit at each of these places; each time the job is as it was before."""
    content = path.read_bytes()
    for directory in (job.state, job.out):
        shutil.copytree(directory, tmp_path / "saved" / directory.name)
    for at in places:
        path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        resumption._index.cache_clear()
        if refusal(job) is None:
            job.assert_ids(Counter(EXPECTED))
        assert_none_too_many(job)
        for directory in (job.state, job.out):
            shutil.rmtree(directory)
            shutil.copytree(tmp_path / "saved" / directory.name, directory)


def test_flipped_bits_in_recorded_ids_are_noticed(job, tmp_path):
    """Anywhere in the file: also where Parquet itself has no checksum."""
    lay_out_anew(job)
    path = next(
        path
        for path in job.directory().glob("ids/*")
        if "1-a" in pq.read_table(path)["id"].to_pylist()
    )
    flip_and_resume(job, path, tmp_path, range(4, 100, 2))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_index_in_the_cache_is_built_anew(job, damage, tmp_path):
    lay_out_anew(job)
    job.stop(1, source=SOURCE)
    files = [
        path
        for path in (tmp_path / "cache").rglob("*")
        if path.is_file() and path.stat().st_size > 64
    ]
    assert files, "an index"
    for path in files:
        DAMAGES[damage](path)
    # Another process has nothing in memory.
    resumption._index.cache_clear()
    refused = refusal(job)

    assert refused is None, refused
    job.assert_ids(Counter(EXPECTED))


def test_flipped_bits_of_an_index_in_the_cache_are_noticed(job, tmp_path):
    lay_out_anew(job)
    job.stop(1, source=SOURCE)
    path = max(
        (path for path in (tmp_path / "cache").rglob("*") if path.is_file()),
        key=lambda path: path.stat().st_mtime_ns,
    )
    size = path.stat().st_size
    flip_and_resume(job, path, tmp_path, range(0, size, max(1, size // 40)))


def test_plan_that_is_gone_is_noticed_when_records_are_there(tmp_path):
    """Without ids, what is planned anew is cut otherwise.

    Nothing else tells which rows are done.
    """
    job = Job(tmp_path)
    options: dict = {"source": SOURCE, "id_column": None}
    for number in range(1, 12, 2):
        job.write(f"{number:03}", ids_of(number))
    job.stop(3, **options)
    job.write("000", ids_of(0))
    job.write("002", ids_of(2))
    found(job, "plan/000000").unlink()
    try:
        job.run(**options)
    except sm.Error as error:
        assert "plan" in str(error)
    assert_none_too_many(job)


@pytest.mark.parametrize(
    "damage", [name for name in DAMAGES if name not in ("removed", "a directory")]
)
def test_damaged_done_list_is_told_and_counts_for_nothing_or_is_refused(tmp_path, damage, caplog):
    job = Job(tmp_path)
    expected = job.write_numbers()
    done = tmp_path / "done.parquet"
    pq.write_table(pa.table({"id": ["1", "2", "3"]}), done)
    DAMAGES[damage](done)
    try:
        job.run(done=done)
    except sm.Error as error:
        assert "done.parquet" in str(error)
    else:
        if "done.parquet" in caplog.text:
            job.assert_ids(expected)
        else:
            # What Parquet itself does not notice.
            assert not job.ids() - Counter((id,) for id in expected)


def test_leftovers_of_a_run_that_died_are_removed_and_strangers_are_not(job):
    leftovers = [
        job.state / ".new-0123",
        job.directory() / "plan" / ".new-0123",
        job.directory() / "packs" / ".new-0123",
        job.directory() / "lease" / ".new-0123",
        job.out / f".shardmill-job-{job.directory().name}-0123-unit-attempt-1.attempt",
        job.directory()
        / "ids"
        / f".shardmill-job-{job.directory().name}-0123-unit-attempt-1.attempt",
    ]
    strangers = [
        job.out / "part-0.parquet.crc",
        job.out / "_SUCCESS",
        job.state / "notes.txt",
        job.out / ".hidden",
        job.out / ".shardmill-job-4567-0123-unit-attempt-1.attempt",
    ]
    for path in leftovers + strangers:
        path.write_bytes(b"")
    job.run(source=SOURCE)

    assert [path for path in leftovers if path.exists()] == []
    assert [path for path in strangers if not path.exists()] == []
    for stranger in strangers:
        stranger.unlink()
    job.assert_ids(Counter(EXPECTED))


def test_job_of_which_both_copies_are_damaged_is_refused(job):
    for path in (job.state / "checkpoint.json", job.directory() / "checkpoint.json"):
        path.write_text(path.read_text().replace('"format":3', '"format":9'))
    refused = refusal(job)
    assert refused is not None
    assert "checkpoint.json" in refused
    assert "start over" in refused
