"""Ids of jobs with a checkpoint: of each type, null, twice, of several columns."""

from __future__ import annotations

import datetime
import decimal
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import shardmill as sm
from checkpoint_jobs import Job, hashable
from promptness import HANGS_S
from shardmill.curate import Map
from shardmill.errors import CheckpointMismatchError, FormatError, IdTypeError, MissingColumnError

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
    "digits": (
        pa.string(),
        [
            "0",
            "00",
            "7",
            "07",
            "007",
            "-7",
            "+7",
            " 7",
            "7 ",
            "",
            "18446744073709551615",
            "18446744073709551616",
            *map(str, range(20, 28)),
        ],
    ),
    "large_string": (pa.large_string(), [str(number) for number in range(20)]),
    "string_view": (pa.string_view(), [f"a somewhat longer id {number}" for number in range(20)]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), [f"id {number}" for number in range(20)]),
    "binary": (pa.binary(), [bytes(number) for number in range(20)]),
    "fixed binary": (pa.binary(16), [bytes([number]) * 16 for number in range(20)]),
    "uuid": (
        pa.string(),
        [str(uuid.UUID(int=number << 64)) for number in range(10)]
        + [uuid.UUID(int=number << 64).hex for number in range(10)],
    ),
    "upper uuid": (
        pa.string(),
        [
            case(str(uuid.UUID(int=(0xABC << 100) + number)))
            for number in range(10)
            for case in (str.upper, str.lower)
        ],
    ),
    "date": (pa.date32(), [DAY + datetime.timedelta(number) for number in range(20)]),
    "time": (pa.time64("us"), [datetime.time(0, number, 1) for number in range(20)]),
    "timestamp": (
        pa.timestamp("us"),
        [MOMENT + datetime.timedelta(microseconds=number) for number in range(20)],
    ),
    "seconds": (
        pa.timestamp("s"),
        [MOMENT + datetime.timedelta(seconds=number) for number in range(20)],
    ),
    "date64": (
        pa.date64(),
        [MOMENT.date() + datetime.timedelta(days=number) for number in range(20)],
    ),
    "zone": (
        pa.timestamp("ms", "UTC"),
        [
            (MOMENT + datetime.timedelta(seconds=number)).replace(tzinfo=datetime.UTC)
            for number in range(20)
        ],
    ),
    "duration": (pa.duration("s"), [datetime.timedelta(seconds=number) for number in range(20)]),
    "decimal": (
        pa.decimal128(30, 3),
        [decimal.Decimal(number).scaleb(-3) for number in range(-10, 10)],
    ),
    "unicode": (
        pa.string(),
        [
            "é",
            "e\u0301",
            "É",
            "\0",
            "\0\0",
            "a\0",
            "a",
            *(chr(0x1F600 + number) for number in range(13)),
        ],
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_ids_of_each_type_survive_an_interruption_and_another_layout(job, name):
    kind, values = TYPES[name]
    values = list(values)
    expected = Counter(values) if name != "bool" else Counter({True: 10, False: 10})
    for number in range(4):
        job.write(f"{number}", values[number * 5 : number * 5 + 5], kind)
    job.stop(3)
    # Two splits run at once, so any two of the first three may be done.
    done = job.ids()
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
    assert job.work.seen == [value for value in values[::-1] if hashable((value,)) not in done]


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
    "values",
    [
        pa.array([1.5, 2.5]),
        pa.array([[1], [2]]),
        pa.array([{"a": 1}] * 2),
        pa.array([[("k", 1)]] * 2, pa.map_(pa.string(), pa.int64())),
    ],
)
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
    with pytest.raises(
        sm.Error,
        match=r"Ids of column `id` are signed integer in `.*anew\.parquet` "
        r"and string in earlier runs",
    ):
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


def test_file_whose_ids_are_all_null_is_processed_like_single_rows_without_an_id(job):
    job.write("0", [None, None], pa.null())
    job.write("1", ["a", None])
    job.run(null_ids="always_process")
    job.write("2", [None], pa.null())
    job.write("3", ["a", "b"])
    job.run(null_ids="always_process")

    job.assert_ids(Counter(["a", "b", None, None, None, None]))
    assert job.run(null_ids="always_process").splits == []


def test_types_of_ids_may_change_until_something_is_committed(job):
    job.write("0", [1, 2])
    job.stop(1)
    job.write("0", ["1", "2"])
    job.run()
    job.assert_ids(Counter("12"))


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_rows_that_share_an_id_are_all_processed_in_whatever_run(job, at):
    job.write("0", ["a", "a", "b"])
    job.write("1", ["a", "c"])
    job.write("2", ["b", "a"])
    job.write("3", ["d"])
    job.stop(at)
    job.run()
    job.assert_ids(Counter("aabacbad"))


def test_row_of_a_failed_file_is_skipped_when_a_file_that_was_added_later_has_done_its_id(job):
    def run(fails_after: int | None):
        stage = Map(FailsAtZero(job.out, fails_after), name="work", batch_size=1000)
        # The other files do not wait for the first result.
        sink = {"schema": pa.schema([("id", pa.int64())])}
        return job.pipeline(stages=[stage], sink=sink).run(threads=2, progress=False)

    job.write("0", list(range(100)))
    with pytest.raises(sm.Error, match="zero"):
        run(fails_after=0)
    job.write("1", list(range(50, 150)))
    with pytest.raises(sm.Error, match="zero"):
        run(fails_after=1)
    assert job.ids() == Counter((id,) for id in range(50, 150))
    report = run(fails_after=None)

    assert report.rows_done == 50
    job.assert_ids(Counter(range(150)))


class FailsAtZero:
    """Raises at the file with id 0, when a number of others are committed."""

    def __init__(self, out: Path, after: int | None) -> None:
        self.out, self.after = out, after

    def __call__(self, table):
        if self.after is None or 0 not in table["id"].to_pylist():
            return table
        deadline = time.monotonic() + HANGS_S
        while len(list(self.out.glob("*.parquet"))) < self.after and time.monotonic() < deadline:
            time.sleep(0.002)
        raise ValueError("zero")


def test_strict_job_refuses_ids_that_come_twice_and_names_one(job, tmp_path):
    job.write("0", ["a", "b", "c"])
    job.write("1", ["d", "b"])
    with pytest.raises(CheckpointMismatchError, match=r"1 rows? of the input.*'?b'?"):
        job.run(duplicate_ids="strict")
    assert job.work.calls == 0
    job.write("1", ["d", "e"])
    job.run(duplicate_ids="strict", path=tmp_path / "state2")
    job.assert_ids(Counter("abcde"))


def test_strict_job_accepts_rows_without_an_id(job):
    job.write("0", ["a", None, "b", None])
    job.write("1", [None, "c"])
    job.write("2", [None], pa.null())
    job.run(duplicate_ids="strict", null_ids="always_process")
    job.assert_ids(Counter(["a", "b", "c", None, None, None, None]))


def test_strict_job_reads_ids_in_the_format_of_its_source(job):
    options = {"duplicate_ids": "strict", "source": {"format": "jsonl", "files_per_partition": 1}}
    (job.source / "0.txt").write_text('{"id": "a"}\n{"id": "b"}\n')
    job.run(**options)
    job.assert_ids(Counter("ab"))
    (job.source / "1.txt").write_text('{"id": "c"}\n{"id": "c"}\n')
    with pytest.raises(CheckpointMismatchError, match=r"1 rows? of the input.*'?c'?"):
        job.run(**options)
    job.assert_ids(Counter("ab"))


def refused_before_a_commit(job, error, match, **options):
    """The run is refused, its message names the file, and nothing of any split was committed."""
    with pytest.raises(error, match=match) as caught:
        job.run(**options)
    assert "hint: " in str(caught.value) or error is MissingColumnError
    assert job.work.calls == 0
    assert not list(job.out.glob("*"))


BAD = {
    "floats": (pa.table({"id": [1.0, 2.0]}), IdTypeError, r"4\.parquet.*`id` are double"),
    "text": (
        pa.table({"id": ["1", "2"]}),
        IdTypeError,
        r"`id` are string in .*4\.parquet` and signed integer in .*0\.parquet`",
    ),
    "unsigned": (
        pa.table({"id": pa.array([1], pa.uint64())}),
        IdTypeError,
        r"(?s)unsigned integer in .*4\.parquet`.*an id of another type is another id",
    ),
    "no such column": (pa.table({"other": [1]}), MissingColumnError, r"4\.parquet.*No column `id`"),
    "a null": (
        pa.table({"id": pa.array([41, 42, None, 44])}),
        FormatError,
        r"null in row 2 of .*4\.parquet`",
    ),
    "nothing but nulls": (
        pa.table({"id": pa.array([None, None])}),
        FormatError,
        r"null in row 0 of .*4\.parquet`",
    ),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_ids_that_a_footer_shows_to_be_wrong_in_the_fifth_file_stop_the_job_before_its_first_commit(
    job, name, kind
):
    table, error, match = BAD[name]
    if kind == "orc" and name in ("unsigned", "nothing but nulls"):
        pytest.skip("ORC has no such type")
    write = pq.write_table if kind == "parquet" else pytest.importorskip("pyarrow.orc").write_table
    for number in range(4):
        write(
            pa.table({"id": [number * 10 + row for row in range(3)]}),
            job.source / f"{number}.{kind}",
        )
    write(table, job.source / f"4.{kind}")
    refused_before_a_commit(job, error, match.replace("parquet", kind))
    (job.source / f"4.{kind}").unlink()
    job.run()
    assert len(job.ids()) == 12


def test_null_in_a_later_row_group_is_named_by_its_row_in_the_file(job):
    job.write("0", list(range(10)))
    pq.write_table(
        pa.table({"id": [*range(100, 125), None, *range(200, 210)]}),
        job.source / "1.parquet",
        row_group_size=10,
    )
    refused_before_a_commit(job, FormatError, r"null in row 25 of .*1\.parquet`")


def test_ids_of_other_types_than_earlier_runs_had_are_refused_before_a_commit(job):
    job.write("0", ["1", "2"])
    job.run()
    before = job.ids()
    job.write("1", ["3"])
    pq.write_table(pa.table({"id": [4]}), job.source / "2.parquet")
    with pytest.raises(
        IdTypeError, match=r"signed integer in .*2\.parquet` and string in earlier runs of this job"
    ):
        job.run()
    assert job.ids() == before


def test_ids_of_other_types_than_those_that_are_done_are_refused_before_a_commit(job, tmp_path):
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "done.parquet")
    job.write("0", ["1", "2"])
    refused_before_a_commit(
        job,
        IdTypeError,
        r"string in .*0\.parquet` and signed integer in the ids",
        done=tmp_path / "done.parquet",
    )


@pytest.mark.parametrize("extension", ["csv", "jsonl"])
def test_null_id_that_no_footer_tells_stops_its_split_and_is_named_with_file_and_row(
    job, extension
):
    lines = {"csv": ["id,x", "1,a", ",b"], "jsonl": ['{"id": 1}', '{"id": null}']}[extension]
    for number in range(2):
        good = [line for line in lines if "1" in line or "id," in line]
        (job.source / f"{number}.{extension}").write_text(
            "\n".join(good if number == 0 else lines) + "\n"
        )
    with pytest.raises(FormatError, match=rf"null in row 1 of .*1\.{extension}`"):
        job.run()
    assert len(job.ids()) == 1


def test_widths_and_kinds_of_one_type_pass(job):
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), job.source / "0.parquet")
    pq.write_table(pa.table({"id": pa.array([2], pa.int64())}), job.source / "1.parquet")
    pq.write_table(pa.table({"id": pa.array([], pa.float64())}), job.source / "2.parquet")
    job.run()
    assert sorted(id for (id,) in job.ids()) == [1, 2]


def test_index_of_files_names_the_file_whose_ids_are_wrong(job):
    for number in range(4):
        job.write(f"{number}", [f"id {number}"])
    for table, match in (
        (pa.table({"id": [1.5]}), r"4\.parquet.*double"),
        (pa.table({"id": [1]}), r"4\.parquet.*signed integer here and string in the index"),
        (pa.table({"x": [1]}), r"4\.parquet.*No column `id`"),
    ):
        pq.write_table(table, job.source / "4.parquet")
        with pytest.raises(FormatError, match=match):
            sm.resume.IdIndex.build(job.source, "id")
