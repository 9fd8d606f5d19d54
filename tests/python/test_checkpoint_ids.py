"""Ids of jobs with a checkpoint: of each type, null, twice, of several columns."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections import Counter

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import shardmill as sm
from checkpoint_jobs import Job
from shardmill.errors import CheckpointMismatchError

DAY, MOMENT = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Indexes of a test are its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


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
