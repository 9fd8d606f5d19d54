"""Jobs with a checkpoint: what is done again, what is not, and what is refused."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import shardmill as sm
from checkpoint_jobs import Job
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource
from shardmill.errors import CheckpointBusyError, CheckpointDamagedError, CheckpointMismatchError, OptionError
from shardmill.resume import Checkpoint

DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Indexes of a test are its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


@pytest.mark.parametrize("state", ["missing", "empty", "foreign"])
def test_first_run_does_everything(job, state):
    expected = job.write_numbers()
    if state != "missing":
        job.state.mkdir()
    if state == "foreign":
        (job.state / "notes.txt").write_text("nothing of ours")
        pq.write_table(pa.table({"other": [1]}), job.state / "other.parquet")
        (job.state / "broken.parquet").write_bytes(b"PAR1")
    report = job.run()

    job.assert_ids(expected)
    assert report.committed_before == 0
    assert state != "foreign" or (job.state / "notes.txt").exists()


def test_run_after_the_last_one_does_nothing_and_writes_nothing(job):
    expected = job.write_numbers()
    job.run()
    before = {path: path.stat().st_mtime_ns for path in job.out.iterdir()}
    report = job.run()

    assert (report.splits, report.committed_before, job.work.calls) == ([], 5, 0)
    assert {path: path.stat().st_mtime_ns for path in job.out.iterdir()} == before
    job.assert_ids(expected)


@pytest.mark.parametrize("at", range(1, 6))
def test_stopped_run_is_resumed_and_does_no_split_again(job, at):
    expected = job.write_numbers()
    job.stop(at)
    done = set(job.ids())
    report = job.run()

    job.assert_ids(expected)
    assert report.committed_before == len(done) // 10
    assert not {(id,) for id in job.work.seen} & done


def test_rows_that_were_dropped_are_not_processed_again(job):
    expected = job.write_numbers(files=10)
    seen = Counter()

    def expensive(table, stop_at):
        seen.update(table["id"].to_pylist())
        if len(seen) > stop_at:
            raise ZeroDivisionError
        return table.filter(pa.array([int(id) % 2 == 0 for id in table["id"].to_pylist()]))

    def stages(stop_at):
        return [Map(lambda table: expensive(table, stop_at), name="expensive")]

    with pytest.raises(sm.CurateError):
        job.run(stages=stages(90))
    job.run(stages=stages(1000))

    job.assert_ids(Counter(id for id in expected if int(id) % 2 == 0))
    assert set(seen) == set(expected)
    again = [id for id, count in seen.items() if count > 1]
    assert len(again) <= 30, "only splits that were not committed are done again"


def test_rows_of_a_done_list_are_left_out(job):
    job.write("a", list(range(10)))
    job.state.mkdir()
    pq.write_table(pa.table({"id": [1, 3, 7]}), job.state / "done.parquet")
    report = job.run()

    job.assert_ids(Counter([0, 2, 4, 5, 6, 8, 9]))
    assert report.rows_dropped == {"done": 3}


@pytest.mark.parametrize("kind", ["file", "folder", "list", "glob-like folder", "path is a file", "csv"])
def test_done_list_may_be_a_file_or_a_folder(job, tmp_path, kind):
    job.write("a", [str(number) for number in range(10)])
    done = tmp_path / "done"
    done.mkdir()
    pq.write_table(pa.table({"id": ["1", "3"]}), done / "a.parquet")
    pq.write_table(pa.table({"id": ["7"]}), done / "b.parquet")
    options: dict = {}
    if kind == "file":
        pq.write_table(pa.table({"id": ["1", "3", "7"]}), tmp_path / "all.parquet")
        options = {"done": tmp_path / "all.parquet"}
    elif kind == "folder":
        options = {"done": str(done)}
    elif kind == "list":
        options = {"done": [done / "a.parquet", done / "b.parquet"]}
    elif kind == "glob-like folder":
        (done / "deep[1]").mkdir()
        (done / "b.parquet").rename(done / "deep[1]" / "b.parquet")
        options = {"done": done}
    elif kind == "path is a file":
        pq.write_table(pa.table({"id": ["1", "3", "7"]}), tmp_path / "all.parquet")
        options = {"path": tmp_path / "all.parquet"}
    else:
        (tmp_path / "all.jsonl").write_text('{"id": "1"}\n{"id": "3"}\n{"id": "7"}\n')
        options = {"done": tmp_path / "all.jsonl"}
    job.run(**options)
    job.assert_ids(Counter("024568") + Counter(["9"]))
    assert job.run(**options).splits == []
    if kind == "path is a file":
        assert (tmp_path / "all.parquet.resume" / "checkpoint.json").exists()


def test_checkpoint_of_ray_data_counts_but_not_what_it_did_not_commit(job):
    job.write("a", [str(number) for number in range(10)])
    job.state.mkdir()
    pq.write_table(pa.table({"id": ["1", "3"]}), job.state / "0123_abc_000001.parquet")
    pq.write_table(pa.table({"id": ["7"]}), job.state / "0123_abc_000002.pending.parquet")
    job.run()

    job.assert_ids(Counter("0245678") + Counter(["9"]))


def test_done_list_that_is_missing_or_unreadable_or_of_another_type_is_told(job, tmp_path, caplog):
    expected = job.write_numbers()
    with pytest.raises(OptionError, match="nowhere`, which does not exist"):
        job.run(done=tmp_path / "nowhere")
    pq.write_table(pa.table({"id": [1, 3, 7]}), tmp_path / "numbers.parquet")
    with pytest.raises(sm.Error, match=r"(?s)int.*string|string.*int|Int64.*Utf8|Utf8.*Int64"):
        job.run(done=tmp_path / "numbers.parquet", path=tmp_path / "state1")
    assert job.ids() == Counter()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing PAR1")
    job.run(done=tmp_path / "broken.parquet", path=tmp_path / "state2")
    assert "broken.parquet" in caplog.text
    job.assert_ids(expected)


FINGERPRINT = {
    "output": {"sink": {"path": "other"}},
    "id_column": {"id_column": None},
    "version": {"version": "2"},
    "stages": {"stages": []},
    "source": {"source": {"columns": ["id"]}},
    "done": {"done": "done.parquet"},
    "sink": {"sink": {"on_materialize_error": "warn"}},
}


@pytest.mark.parametrize("part", FINGERPRINT)
def test_another_job_is_refused_and_told_apart_by_name(job, part, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job.write_numbers()
    pq.write_table(pa.table({"id": ["1"]}), "done.parquet")
    job.stop(3)
    before = job.ids()
    with pytest.raises(CheckpointMismatchError, match=f"`{part}` was .* and is ") as caught:
        job.run(**FINGERPRINT[part])

    assert str(job.state) in str(caught.value)
    assert "hint: " in str(caught.value)
    assert job.ids() == before
    assert not (tmp_path / "other").exists()
    job.run()


def test_another_input_is_refused(job, tmp_path):
    job.write_numbers()
    job.stop(3)
    shutil.copytree(job.source, tmp_path / "copy")
    job.source = tmp_path / "copy"
    with pytest.raises(CheckpointMismatchError, match=r"`input` was \[.*/in\"\] and is \[.*/copy\"\]"):
        job.run()


@pytest.mark.parametrize(
    "id_column",
    [
        "id",
        None,
    ],
)
@pytest.mark.parametrize("is_relative_first", [True, False])
def test_other_spellings_of_the_same_paths_are_the_same_job(job, tmp_path, monkeypatch, is_relative_first, id_column):
    expected = job.write_numbers()
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    runs = [
        lambda run, **options: run(path="state", sink={"path": "./out/"}, id_column=id_column, **options),
        lambda run, **options: run(
            path=f"file://{tmp_path}/state/", sink={"path": tmp_path / "link" / "out"}, id_column=id_column, **options
        ),
    ]
    sources = [Path("in"), tmp_path / "link" / "in"]
    if not is_relative_first:
        runs, sources = runs[::-1], sources[::-1]
    job.source = sources[0]
    runs[0](lambda **options: job.stop(3, **options))
    if is_relative_first:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
    job.source = sources[1]
    report = runs[1](job.run)

    assert report.committed_before == 2
    job.assert_ids(expected)


def test_files_that_were_added_are_done_and_files_that_are_gone_are_not(job):
    expected = job.write_numbers()
    job.stop(3)
    (job.source / "004.parquet").unlink()
    job.write("005", ["a", "b"])
    job.write("000-1", ["c"])
    job.run()

    job.assert_ids(Counter(id for id in expected if int(id) < 40) + Counter("abc"))
    assert job.run().splits == []


def test_done_file_that_is_removed_changes_nothing(job):
    expected = job.write_numbers()
    job.stop(3)
    (job.source / "000.parquet").unlink()
    job.run()
    job.assert_ids(expected)


def test_file_that_was_away_for_a_run_is_done_when_it_is_back(job, tmp_path):
    """Two files make a split; one of them cannot be seen while the other is committed."""
    expected = job.write_numbers(files=4)
    job.stop(1, source={"files_per_partition": 2})
    (job.source / "001.parquet").rename(tmp_path / "aside")
    job.run(source={"files_per_partition": 2})
    job.assert_ids(Counter(id for id in expected if not 10 <= int(id) < 20))
    (tmp_path / "aside").rename(job.source / "001.parquet")
    job.run(source={"files_per_partition": 2})
    job.assert_ids(expected)


@pytest.mark.parametrize("was_done", [True, False])
def test_file_that_was_rewritten_stops_the_job(job, was_done):
    job.write_numbers()
    job.stop(3)
    before = job.ids()
    job.write("000" if was_done else "004", ["new"])
    with pytest.raises(CheckpointMismatchError, match=r"00[04]\.parquet` changed since.*(?s:.)hint: .*reprocess"):
        job.run()
    assert job.ids() == before


def test_rewritten_files_are_read_again_and_done_ids_are_skipped(job):
    expected = job.write_numbers()
    job.stop(3)
    job.write("000", [*(str(number) for number in range(10)), "new"])
    job.write("004", ["newer"])
    job.run(changed_input="reprocess")

    job.assert_ids(Counter(id for id in expected if int(id) < 40) + Counter(["new", "newer"]))
    assert job.run(changed_input="reprocess").splits == []
    # Back to what it was at first: nothing of it is new.
    job.write("000", [*(str(number) for number in range(10))])
    job.run(changed_input="reprocess")
    job.assert_ids(Counter(id for id in expected if int(id) < 40) + Counter(["new", "newer"]))


def test_input_may_be_laid_out_anew_between_runs(job):
    expected = job.write_numbers(files=6)
    for at, rows in ((3, 7), (3, 25), (2, 60)):
        job.stop(at)
        for file in job.source.iterdir():
            file.unlink()
        numbers = sorted(expected, key=lambda id: hash((rows, id)))
        for start in range(0, 60, rows):
            job.write(f"cut-{rows}-{start:03}", numbers[start : start + rows])
    job.run()

    job.assert_ids(expected)


def test_overwriting_is_refused_as_soon_as_something_is_done(job, tmp_path):
    expected = job.write_numbers()
    job.stop(3)
    before = job.ids()
    with pytest.raises(CheckpointMismatchError, match='mode="overwrite" would remove'):
        job.run(sink={"mode": "overwrite"})
    assert job.ids() == before
    job.run()
    job.assert_ids(expected)

    other = Job(tmp_path / "other")
    other.write("a", ["1", "2"])
    other.state.mkdir()
    pq.write_table(pa.table({"id": ["1"]}), other.state / "done.parquet")
    other.out.mkdir()
    (other.out / "kept.parquet").touch()
    with pytest.raises(CheckpointMismatchError, match='mode="overwrite"'):
        other.run(sink={"mode": "overwrite"})
    assert (other.out / "kept.parquet").exists()


@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_mode_holds_for_the_first_run(job, mode):
    expected = job.write_numbers()
    job.out.mkdir()
    (job.out / "old.parquet").touch()
    if mode == "error":
        with pytest.raises(sm.Error, match="out"):
            job.run(sink={"mode": mode})
        # A refusal is no beginning.
        with pytest.raises(sm.Error, match="out"):
            job.run(sink={"mode": mode})
        assert list(job.out.iterdir()) == [job.out / "old.parquet"]
        return
    job.run(sink={"mode": mode})
    job.assert_ids(expected)


def test_output_that_exists_because_of_an_earlier_run_is_no_error(job):
    expected = job.write_numbers()
    job.stop(3, sink={"mode": "error"})
    job.run(sink={"mode": "error"})
    job.assert_ids(expected)


def test_other_process_at_work_is_named(job):
    job.write_numbers()
    other = Job(job.source.parent)

    def meddle(table):
        with pytest.raises(CheckpointBusyError, match=f"(?s)process {os.getpid()} on .*hint: "):
            other.run(stages=[Map(meddle, name="work")])
        return table

    job.run(stages=[Map(meddle, name="work")])
    assert sum(job.ids().values()) == 50


HUGE = 2**60
TYPES = {
    "int8": (pa.int8(), range(-10, 10)),
    "int16": (pa.int16(), range(-(2**15), -(2**15) + 20)),
    "int32": (pa.int32(), range(-10, 10)),
    "int64": (pa.int64(), [*range(HUGE - 10, HUGE + 10)]),
    "negative": (pa.int64(), [-(2**63) + number for number in range(20)]),
    "uint64": (pa.uint64(), [2**64 - 1 - number for number in range(20)]),
    "bool": (pa.bool_(), [True, False] * 10),
    "string": (pa.string(), [f"https://example.com/page/{number}" for number in range(20)]),
    "digits": (pa.string(), ["0", "00", "7", "07", "007", "-7", "+7", " 7", "7 ", "", "18446744073709551615", "18446744073709551616", *map(str, range(20, 28))]),
    "large_string": (pa.large_string(), [str(number) for number in range(20)]),
    "string_view": (pa.string_view(), [f"a somewhat longer id {number}" for number in range(20)]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), [f"id {number}" for number in range(20)]),
    "binary": (pa.binary(), [bytes(number) for number in range(20)]),
    "fixed binary": (pa.binary(16), [bytes([number]) * 16 for number in range(20)]),
    "uuid": (pa.string(), [str(uuid.UUID(int=number << 64)) for number in range(10)] + [uuid.UUID(int=number << 64).hex for number in range(10)]),
    "upper uuid": (pa.string(), [case(str(uuid.UUID(int=(0xABC << 100) + number))) for number in range(10) for case in (str.upper, str.lower)]),
    "date": (pa.date32(), [DAY + datetime.timedelta(number) for number in range(20)]),
    "time": (pa.time64("us"), [datetime.time(0, number, 1) for number in range(20)]),
    "timestamp": (pa.timestamp("us"), [MOMENT + datetime.timedelta(microseconds=number) for number in range(20)]),
    "zone": (pa.timestamp("ms", "UTC"), [(MOMENT + datetime.timedelta(seconds=number)).replace(tzinfo=datetime.UTC) for number in range(20)]),
    "duration": (pa.duration("s"), [datetime.timedelta(seconds=number) for number in range(20)]),
    "decimal": (pa.decimal128(30, 3), [decimal.Decimal(number).scaleb(-3) for number in range(-10, 10)]),
    "unicode": (pa.string(), ["é", "e\u0301", "É", "\0", "\0\0", "a\0", "a", *(chr(0x1F600 + number) for number in range(13))]),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_ids_of_each_type_survive_an_interruption_and_another_layout(job, name):
    kind, values = TYPES[name]
    values = list(values)
    expected = Counter(values) if name != "bool" else Counter({True: 10, False: 10})
    for number in range(4):
        job.write(f"{number}", values[number * 5 : number * 5 + 5], kind)
    job.stop(3)
    for file in job.source.iterdir():
        file.unlink()
    if name == "bool":
        # All rows with either id are done; nothing is left to be told apart.
        job.write("anew", values[10:], kind)
        job.run()
        job.assert_ids(Counter({True: 5, False: 5}))
        return
    job.write("anew", values[::-1], kind)
    job.run()

    job.assert_ids(expected)
    assert job.work.seen == values[:9:-1]


def test_several_columns_make_an_id_together(job):
    rows = [(a, b) for a in ("", "1", "11") for b in ("", "1", "11", "111")]
    for number in range(4):
        one, two = zip(*rows[number * 3 : number * 3 + 3])
        job.write(f"{number}", list(one), id2=list(two))
    job.stop(3, id_column=["id", "id2"])
    for file in job.source.iterdir():
        file.unlink()
    one, two = zip(*rows)
    job.write("anew", list(one), id2=list(two))
    report = job.run(id_column=["id", "id2"])

    job.assert_ids(Counter(rows))
    assert report.rows_dropped == {"done": 6}


@pytest.mark.parametrize(
    "values", [pa.array([1.5, 2.5]), pa.array([[1], [2]]), pa.array([{"a": 1}] * 2), pa.array([[("k", 1)]] * 2, pa.map_(pa.string(), pa.int64()))]
)  # fmt: skip
def test_ids_that_identify_nothing_are_refused_before_anything_is_done(job, values):
    pq.write_table(pa.table({"id": values, "x": [1, 2]}), job.source / "a.parquet")
    with pytest.raises(sm.Error, match="`id`"):
        job.run()
    assert job.work.calls == 0
    assert not list(job.out.glob("*")) if job.out.exists() else True


def test_missing_id_column_is_refused_before_anything_is_done(job):
    job.write_numbers()
    with pytest.raises(sm.Error, match="nope"):
        job.run(id_column="nope")
    assert job.work.calls == 0


def test_type_of_ids_that_changed_is_an_error_that_names_both(job):
    job.write("0", ["1", "2"])
    job.write("1", ["3", "4"])
    job.stop(2)
    for file in job.source.iterdir():
        file.unlink()
    pq.write_table(pa.table({"id": [1, 2, 3, 4]}), job.source / "anew.parquet")
    with pytest.raises(sm.Error, match="Ids of column `id` are signed integer here and string in the index"):
        job.run()


def test_null_beside_large_numbers_changes_no_other_id(job):
    job.write("0", [HUGE, 5])
    job.stop(1)
    job.run()
    job.write("1", [HUGE, HUGE + 1, None, 2**53 + 1, 5, 6])
    with pytest.raises(sm.Error, match=r"1\.parquet.*row|row.*1\.parquet"):
        job.run()
    job.assert_ids(Counter([HUGE, 5]))


def test_rows_without_id_are_processed_with_their_split(job):
    job.write("0", [HUGE, None, 5])
    job.write("1", [HUGE + 2, None])
    job.stop(2, null_ids="always_process")
    job.run(null_ids="always_process")
    job.write("2", [HUGE, HUGE + 1, None, 2**53 + 1, 5, 6])
    job.run(null_ids="always_process")

    job.assert_ids(Counter([HUGE, None, 5, HUGE + 2, None, HUGE + 1, None, 2**53 + 1, 6]))
    assert job.run(null_ids="always_process").splits == []


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_rows_that_share_an_id_are_all_processed_in_whatever_run(job, at):
    job.write("0", ["a", "a", "b"])
    job.write("1", ["a", "c"])
    job.write("2", ["b", "a"])
    job.write("3", ["d"])
    job.stop(at)
    job.run()
    job.assert_ids(Counter("aabacbad"))


def test_strict_job_refuses_ids_that_come_twice_and_names_one(job, tmp_path):
    job.write("0", ["a", "b", "c"])
    job.write("1", ["d", "b"])
    with pytest.raises(CheckpointMismatchError, match=r"1 rows? of the input.*'?b'?"):
        job.run(duplicate_ids="strict")
    assert job.work.calls == 0
    job.write("1", ["d", "e"])
    job.run(duplicate_ids="strict", path=tmp_path / "state2")
    job.assert_ids(Counter("abcde"))


def test_checkpoint_is_removed_at_the_end_and_not_before(job):
    expected = job.write_numbers()
    job.stop(3, delete_on_success=True)
    assert (job.state / "checkpoint.json").exists()
    job.run(delete_on_success=True)
    job.assert_ids(expected)
    assert not (job.state / "checkpoint.json").exists()
    assert list(job.state.rglob("*")) == []


def test_checkpoint_that_cannot_be_removed_does_not_fail_the_job(job, caplog):
    if os.geteuid() == 0 and shutil.which("chattr") is None:
        pytest.skip("root may remove everything")
    expected = job.write_numbers()
    job.stop(3)
    plan = next(job.folder().glob("plan/*"))
    refused = subprocess.run(["chattr", "+i", str(plan)], capture_output=True, text=True, check=False)
    if refused.returncode:
        pytest.skip(f"chattr: {refused.stderr.strip()}")
    try:
        job.run(delete_on_success=True)
    finally:
        subprocess.run(["chattr", "-i", str(plan)], check=True)
    assert "not removed" in caplog.text
    job.assert_ids(expected)
    job.run()
    job.assert_ids(expected)


def test_done_rows_are_not_read_beyond_their_ids(job, tmp_path):
    script = tmp_path / "script.py"
    rows, blob = 40, 1 << 20
    for number in range(2):
        blobs = pa.array([os.urandom(blob) for _ in range(rows // 2)], pa.binary())
        ids = [f"{number}-{row}" for row in range(rows // 2)]
        pq.write_table(pa.table({"id": ids, "blob": blobs}), job.source / f"{number}.parquet", compression="none")
    job.state.mkdir()
    pq.write_table(
        pa.table({"id": [f"{number}-{row}" for number in range(2) for row in range(rows // 2)]}),
        job.state / "done.parquet",
    )
    script.write_text(
        "import sys\n"
        "from shardmill.curate import ParquetSink, Pipeline, TableSource\n"
        "read = lambda: int(open('/proc/self/io').readline().split()[1])\n"
        "job = lambda: Pipeline(source=TableSource(sys.argv[1]), sink=ParquetSink(sys.argv[2]), checkpoint={'path': sys.argv[3], 'id_column': 'id'})\n"
        "before = read()\n"
        "report = job().run(progress=False)\n"
        "print(read() - before, report.rows_dropped['done'])\n"
    )
    told = subprocess.run(
        [sys.executable, str(script), str(job.source), str(job.out), str(job.state)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert int(told[1]) == rows
    assert int(told[0]) < rows * blob / 10, "of 40 MB, with what Python reads of itself"
    assert list(job.out.glob("*.parquet")) == []


def test_count_and_schema_do_not_know_of_checkpoints(job):
    job.write_numbers()
    job.stop(3)
    assert sm.Dataset(job.source).num_rows == 50
    assert sm.Dataset(job.source).schema.names == ["id"]


def test_fifty_resumes_leave_few_files(job):
    expected = job.write_numbers(files=25, rows=2)
    for _ in range(24):
        job.stop(2)
    for _ in range(26):
        job.run()

    job.assert_ids(expected)
    files = Counter(path.parent.name.split("-")[0] for path in job.folder().rglob("*") if path.is_file())
    assert files.pop("ids") == 25
    assert files.pop("lease") <= 2 * 51
    assert sum(files.values()) < 25, files
    assert len([path for path in job.folder().iterdir() if path.name.startswith("units-")]) <= 1


def test_names_that_begin_with_one_another_are_splits_of_their_own(tmp_path):
    job = Job(tmp_path)
    names = ["1" * length for length in range(1, 60)] + [f"{number}" for number in range(2000, 2060)]
    for name in names:
        (job.source / f"{name}.jsonl").write_text(json.dumps({"id": name}) + "\n")
    job.stop(60)
    some = sum(job.ids().values())
    assert 0 < some < len(names)
    job.run()
    job.assert_ids(Counter(names))


@pytest.mark.slow
def test_splits_beyond_a_million_lose_nothing(tmp_path):
    """Names as they were padded to six digits by another system, of which one is the beginning of ten others."""
    job = Job(tmp_path)
    numbers = [*range(99_990, 100_010), *range(999_990, 1_000_110), *range(9_999_990, 10_000_010)]
    for number in numbers:
        (job.source / f"part_{number:06}.jsonl").write_text(json.dumps({"id": str(number)}) + "\n")
    for _ in range(10):
        job.stop(len(numbers) // 10)
    job.run()
    job.assert_ids(Counter(map(str, numbers)))


@pytest.mark.parametrize("form", ["text", "path", "dict", "checkpoint"])
def test_checkpoint_may_be_said_in_several_ways(job, form):
    expected = job.write_numbers()
    forms = {
        "text": str(job.state), "path": job.state, "dict": {"path": job.state, "id_column": "id", "version": "3"},
        "checkpoint": Checkpoint(job.state, "id"),
    }  # fmt: skip
    for _ in range(2):
        Pipeline(source=TableSource(job.source), sink=ParquetSink(job.out), checkpoint=forms[form]).run(progress=False)
    job.assert_ids(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "must be a folder"),
        ({"path": 7}, "must be a folder"),
        ({"path": "s3://bucket/state"}, "local or mounted"),
        ({"path": "x", "id_column": ""}, "`id_column` is ''"),
        ({"path": "x", "id_column": []}, "`id_column` is"),
        ({"path": "x", "id_column": ["a", "a"]}, "twice"),
        ({"path": "x", "id_column": ["a", 3]}, "`id_column` is"),
        ({"path": "x", "null_ids": "skip"}, "`null_ids` is 'skip'"),
        ({"path": "x", "duplicate_ids": "drop"}, "`duplicate_ids` is 'drop'"),
        ({"path": "x", "duplicate_ids": "strict"}, "needs an `id_column`"),
        ({"path": "x", "changed_input": "ignore"}, "`changed_input` is 'ignore'"),
        ({"path": "x", "changed_input": "reprocess"}, "needs an `id_column`"),
        ({"path": "x", "version": 2}, "must be a string"),
        ({"path": "x", "delete_on_success": "yes"}, "True or False"),
        ({"path": "x", "delete_on_success": 1}, "True or False"),
        ({"path": "x", "memory_bytes": 0}, "positive"),
        ({"path": "x", "memory_bytes": "1GB"}, "positive"),
        ({"path": "x", "done": "list.parquet"}, "needs an `id_column`"),
        ({"path": "x", "id_colum": "id"}, "no option 'id_colum'"),
        ({"id_column": "id"}, "names no `path`"),
        (7, "must be a Checkpoint, a path or a dict"),
    ],
)
def test_options_that_cannot_be_are_refused_when_the_pipeline_is_made(tmp_path, options, message):
    with pytest.raises(OptionError, match=message):
        Pipeline(source=TableSource("in"), sink=ParquetSink(tmp_path / "out"), checkpoint=options)


@pytest.mark.parametrize("place", ["out", "out/state", "in", "in/deep/state", "link/state"])
def test_checkpoint_within_input_or_output_is_refused(job, tmp_path, place):
    job.write_numbers()
    (tmp_path / "link").symlink_to(job.source, target_is_directory=True)
    with pytest.raises(OptionError, match="lies in the"):
        job.run(path=tmp_path / place)
    assert not job.out.exists()
    assert sorted(path.suffix for path in job.source.rglob("*")) == [".parquet"] * 5


def test_checkpoint_that_a_glob_of_the_input_reaches_is_refused(job, tmp_path):
    job.write_numbers()
    with pytest.raises(OptionError, match="lies in the input"):
        Pipeline(
            source=TableSource(f"{job.source}/**/*.parquet"),
            sink=ParquetSink(job.out),
            checkpoint=Checkpoint(job.source / "state", "id"),
        ).run(progress=False)


def test_file_as_checkpoint_of_splits_is_refused(job, tmp_path):
    job.write_numbers()
    (tmp_path / "state").touch()
    with pytest.raises(OptionError, match="is a file"):
        job.run(id_column=None)


def test_output_that_was_committed_and_is_gone_or_changed_is_named(job):
    job.write_numbers()
    job.stop(3)
    first = min(job.out.iterdir())
    content = first.read_bytes()
    first.unlink()
    with pytest.raises(CheckpointDamagedError, match=first.name):
        job.run()
    first.write_bytes(content[:-1])
    with pytest.raises(CheckpointDamagedError, match=first.name):
        job.run()


def test_output_that_is_gone_some_runs_later_is_named(job):
    job.write_numbers()
    job.run()
    job.run()
    first = min(job.out.iterdir())
    first.unlink()
    with pytest.raises(CheckpointDamagedError, match=first.name):
        job.run()


def test_urls_of_files_are_paths(job, tmp_path, monkeypatch):
    expected = job.write_numbers()
    urls = {"source": f"file://{job.source}", "out": f"file://{job.out}"}

    def run(stop_at=None):
        pipeline = job.pipeline(stop_at=stop_at, sink={"path": urls["out"]}, id_column=None, path=f"file://{job.state}")
        pipeline.source = TableSource(urls["source"], files_per_partition=1)
        return pipeline.run(workers=1, progress=False)

    with pytest.raises(sm.CurateError):
        run(3)
    (job.out / f".shardmill-job-{job.folder().name}-0123-unit-attempt-1.attempt").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    report = run()

    assert report.committed_before == 2
    job.assert_ids(expected)
    with pytest.raises(OptionError, match="lies in the"):
        job.run(sink={"path": urls["out"]}, path=job.out / "state")


def test_url_of_an_output_folder_is_its_path(job, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    job.write_numbers()
    job.out.mkdir()
    (job.out / "old.parquet").touch()
    job.run(sink={"path": f"file://{job.out}", "mode": "overwrite"})

    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (job.out / "old.parquet").exists()


def test_path_that_is_named_twice_is_read_as_often_as_without_a_checkpoint(job, tmp_path):
    job.write_numbers(files=2)
    source = TableSource([job.source, job.source / "000.parquet"], files_per_partition=1)
    Pipeline(source=source, sink=ParquetSink(tmp_path / "reference")).run(progress=False)
    expected = Counter(
        id for path in (tmp_path / "reference").iterdir() for id in pq.read_table(path)["id"].to_pylist()
    )
    pipeline = Pipeline(source=source, sink=ParquetSink(job.out), checkpoint=Checkpoint(job.state))
    pipeline.run(progress=False)

    job.assert_ids(expected)


def test_checkpoint_is_kept_when_an_earlier_run_has_quarantined_something(tmp_path):
    pytest.importorskip("PIL")
    from documents import write_tar
    from shardmill.curate import WebDatasetSource

    for shard in range(3):
        broken = {"broken.json": b"{"} if shard == 0 else {}
        write_tar(tmp_path / "in" / f"{shard}.tar", broken | {"fine.json": b'{"texts": ["x"], "images": []}'})

    def run(stop_at):
        def work(table):
            if stop_at and "2.tar" in str(table["source_ref"].to_pylist() + table["sample_id"].to_pylist()):
                raise ZeroDivisionError
            return table

        return Pipeline(
            source=WebDatasetSource(tmp_path / "in", files_per_partition=1),
            stages=[Map(work, name="work")],
            sink=ParquetSink(tmp_path / "out"),
            checkpoint=Checkpoint(tmp_path / "state", delete_on_success=True),
        ).run(workers=1, progress=False)

    first = run(None)
    assert len(first.quarantined) == 1
    assert (tmp_path / "state" / "checkpoint.json").exists()
    assert run(None).splits == []
    assert (tmp_path / "state" / "checkpoint.json").exists(), "nobody has looked at what was left out"


@pytest.mark.xfail(
    strict=True,
    reason="48 bits of a hash: at a million files one pair in five hundred jobs, and the later output replaces the earlier",
)
def test_files_whose_outputs_would_have_one_name_lose_no_row(job, tmp_path, monkeypatch):
    """Found by search among thirty million relative paths; with a checkpoint paths are absolute, and other pairs meet."""
    monkeypatch.chdir(tmp_path)
    job.write("633453", ["a"])
    job.write("9689972", ["b"])
    Pipeline(source=TableSource("in", files_per_partition=1), sink=ParquetSink("out")).run(progress=False)

    job.assert_ids(Counter("ab"))
