"""`sm.resume.IdIndex` against plain sets, over every type that an id may have."""

from __future__ import annotations

import datetime
import decimal
import logging
import multiprocessing
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from promptness import HANGS_S
from shardmill.errors import (
    FormatError,
    IdTypeError,
    MissingColumnError,
    NotFoundError,
    OptionError,
)

BIG = 1 << 60
WORDS = [
    "7",
    "007",
    "",
    " ",
    "7 ",
    "x" * 15,
    "x" * 16,
    "18446744073709551615",
    "18446744073709551616",
    "é",
    "e\u0301",
]
UUIDS = [str(uuid.UUID(int=number << 64 | 5)) for number in range(3)]

#: Arrow type, ids of the set, ids beside it.
CASES: list[tuple[pa.DataType, list[Any], list[Any]]] = [
    (pa.int8(), [-128, 0, 127], [-1, 1]),
    (pa.int16(), [-(1 << 15), 5], [4, (1 << 15) - 1]),
    (pa.int32(), [-5, 5, (1 << 31) - 1], [-6, 6]),
    (pa.int64(), [-(1 << 63), BIG, -7], [BIG + 1, BIG - 1, (1 << 63) - 1, 7]),
    (pa.uint8(), [0, 255], [1]),
    (pa.uint64(), [1 << 63, (1 << 64) - 1], [(1 << 63) - 1, (1 << 63) + 1, 0]),
    (pa.bool_(), [True], [False]),
    (
        pa.string(),
        [*WORDS[:6], *UUIDS[:2]],
        [*WORDS[6:], UUIDS[2], UUIDS[0].upper(), UUIDS[0].replace("-", "")],
    ),
    (pa.large_string(), WORDS[3:], WORDS[:3]),
    (pa.string_view(), WORDS[::2] + UUIDS[:1], WORDS[1::2] + UUIDS[1:]),
    (pa.dictionary(pa.int32(), pa.string()), WORDS[::2], WORDS[1::2]),
    (pa.binary(), [b"", b"\x00", b"a" * 16], [b"\x00\x00", b"a" * 15, b"a" * 17]),
    (pa.large_binary(), [b"7"], [b"07"]),
    (pa.binary(16), [uuid.UUID(UUIDS[0]).bytes], [uuid.UUID(UUIDS[1]).bytes]),
    (pa.binary(20), [b"a" * 20], [b"a" * 19 + b"b"]),
    (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2026, 1, 2)],
        [datetime.datetime(2026, 1, 2, 0, 0, 1)],
    ),
    (pa.date32(), [datetime.date(1969, 1, 1)], [datetime.date(2069, 1, 1)]),
    (pa.time64("us"), [datetime.time(1)], [datetime.time(2)]),
    (pa.duration("s"), [datetime.timedelta(seconds=-1)], [datetime.timedelta(seconds=1)]),
    (
        pa.decimal128(38, 2),
        [decimal.Decimal("-1.25"), decimal.Decimal(10) ** 35],
        [decimal.Decimal("1.25")],
    ),
]


def build(data: Any, column: str | list[str] = "id", **options: Any) -> sm.resume.IdIndex:
    return sm.resume.IdIndex.build(data, column, path="done.ids", **options)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(("kind", "stored", "others"), CASES, ids=[str(case[0]) for case in CASES])
def test_ids_of_a_type_are_found_and_their_neighbours_are_not(
    kind: pa.DataType, stored: list, others: list
) -> None:
    index = build(pa.table({"id": pa.array([*stored, None, *stored], kind)}))
    assert len(index) == len(stored)
    probed = [*others, None, *stored]
    assert index.contains(pa.array(probed, kind)).to_pylist() == [
        value in stored for value in probed
    ]


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.large_string())],
)
def test_strings_of_every_kind_are_one_type(kind: pa.DataType) -> None:
    index = build(pa.table({"id": pa.array(["7", "b"])}))
    assert index.contains(pa.array(["b", "c"], kind)).to_pylist() == [True, False]


def test_widths_of_signed_integers_are_one_type_and_unsigned_ones_another() -> None:
    index = build(pa.table({"id": pa.array([1, -2], pa.int64())}))
    assert index.contains(pa.array([-2, 3], pa.int8())).to_pylist() == [True, False]
    with pytest.raises(IdTypeError, match="unsigned integer here and signed integer in the index"):
        index.contains(pa.array([1], pa.uint64()))


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        (pa.timestamp("s"), datetime.datetime(2026, 1, 2), datetime.datetime(2026, 1, 2, 0, 0, 1)),
        (
            pa.timestamp("s", "UTC"),
            datetime.datetime(2026, 1, 2),
            datetime.datetime(2026, 1, 2, 0, 0, 1),
        ),
        (pa.time32("s"), datetime.time(1), datetime.time(2)),
        (pa.date64(), datetime.date(1969, 1, 1), datetime.date(2069, 1, 1)),
    ],
    ids=str,
)
def test_times_are_the_same_ids_after_they_were_written_to_parquet(
    kind: pa.DataType, value: Any, other: Any, directory: Path
) -> None:
    ids = pa.table({"id": pa.array([value], kind), "n": [1]})
    with sm.Writer(directory / "a.parquet") as writer:
        writer.write_batch(ids)
    probed = pa.array([value, other], kind)
    assert build(str(directory / "a.parquet")).contains(probed).to_pylist() == [True, False]
    index = build(ids)
    assert index.contains(probed).to_pylist() == [True, False]
    assert index.contains(pq.read_table(directory / "a.parquet")["id"]).to_pylist() == [True]
    assert build(ids, ["id", "n"]).contains([probed, pa.array([1, 1])]).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        (pa.string(), pa.int64()),
        (pa.timestamp("us"), pa.timestamp("ms")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
    ],
)
def test_ids_of_another_type_are_refused(kind: pa.DataType, other: pa.DataType) -> None:
    index = build(pa.table({"id": pa.array([None], kind)}))
    with pytest.raises(TypeError, match="in the index"):
        index.contains(pa.array([None], other))


@pytest.mark.parametrize(
    "kind",
    [pa.float64(), pa.float16(), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()],
)
def test_types_that_identify_nothing_are_refused_at_the_start(kind: pa.DataType) -> None:
    with pytest.raises(IdTypeError, match="column `id`"):
        build(pa.table({"id": pa.array([None], kind)}))


def test_null_beside_large_integers_changes_none_of_them() -> None:
    index = build(pa.table({"id": [BIG, None]}))
    assert index.contains(pa.array([BIG + 1, None, BIG])).to_pylist() == [False, False, True]
    assert index.info()["nulls"] == 1


def test_two_columns_are_one_id_together() -> None:
    rows = {"shard": ["a", "ab", "a", None], "row": [1, 1, 2, 3]}
    index = build(pa.table(rows), ["shard", "row"])
    assert len(index) == 3
    probed = [pa.array(["a", "ab", "ab", None, "a"]), pa.chunked_array([[2, 1], [2, 3, 1]])]
    assert index.contains(probed).to_pylist() == [True, True, False, False, True]
    assert index.columns == ["shard", "row"]


def test_chunked_and_sliced_arrays_answer_row_by_row() -> None:
    index = build(pa.table({"id": [str(number) for number in range(0, 5000, 3)]}))
    ids = pa.array([str(number) for number in range(9000)])
    expected = [number < 5000 and number % 3 == 0 for number in range(9000)]
    assert (
        index.contains(pa.chunked_array([ids[:10], ids[10:10], ids[10:]])).to_pylist() == expected
    )
    assert index.contains(ids[1234:]).to_pylist() == expected[1234:]
    assert index.contains(pa.chunked_array([], pa.string())).to_pylist() == []


def test_streams_and_lists_of_batches_are_read() -> None:
    table = pa.table({"id": range(100)})
    for data in (
        table.to_reader(10),
        table.to_batches(10),
        (batch for batch in table.to_batches(7)),
        table.to_batches()[0],
    ):
        assert len(build(data)) == 100


def test_stream_whose_file_system_is_written_in_python_is_read(directory: Path) -> None:
    files = [str(directory / f"{number}.parquet") for number in range(3)]
    for file in files:
        pq.write_table(pa.table({"id": [file]}), file)
    program = """
import sys, time
import fsspec
import pyarrow.dataset
from pyarrow.fs import FSSpecHandler, PyFileSystem
import shardmill as sm

class Slow(FSSpecHandler):
    def open_input_file(self, path):
        time.sleep(0.5)
        return super().open_input_file(path)

slow = PyFileSystem(Slow(fsspec.filesystem("file")))
data = pyarrow.dataset.dataset(sys.argv[1:], filesystem=slow)
rows = data.scanner(fragment_readahead=1).to_reader()
print(len(sm.resume.IdIndex.build(rows, "id", path="done.ids")))
"""
    # In its own process: a reader that holds the interpreter while it waits never ends.
    run = subprocess.run(
        [sys.executable, "-c", program, *files],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=True,
    )
    assert run.stdout == "3\n"


@pytest.mark.parametrize("format", ["parquet", "orc", "csv", "jsonl"])
def test_files_of_every_format_are_read(directory: Path, format: str) -> None:
    data = directory / "in"
    data.mkdir()
    for number in range(3):
        table = pa.table({"n": range(50), "id": [f"k-{number * 40 + row}" for row in range(50)]})
        path = data / f"{number}.{format}"
        if format == "parquet":
            pq.write_table(table, path, row_group_size=20)
        elif format == "orc":
            pyarrow.orc.write_table(table, path)
        elif format == "csv":
            pyarrow.csv.write_csv(table, path)
        else:
            path.write_text(
                "".join(f'{{"n": {row["n"]}, "id": "{row["id"]}"}}\n' for row in table.to_pylist())
            )
    index = build(str(data))
    assert len(index) == 130
    assert index.contains(pa.array(["k-0", "k-129", "k-130"])).to_pylist() == [True, True, False]


def test_large_row_groups_and_many_files_are_read_whole(directory: Path) -> None:
    ids = pc.cast(pa.array(range(1_300_000)), pa.string())
    pq.write_table(pa.table({"id": ids}), "one.parquet", row_group_size=1_300_000)
    (directory / "many").mkdir()
    for number in range(100):
        pq.write_table(
            pa.table({"id": ids[number * 13_000 : (number + 1) * 13_000]}),
            directory / f"many/{number}.parquet",
        )
    for source in ("one.parquet", "many"):
        index = build(source)
        assert (len(index), index.info()["rows"]) == (1_300_000, 1_300_000)
        assert index.nbytes < 10_000


def test_pending_files_of_a_checkpoint_are_not_read(directory: Path) -> None:
    (directory / "in").mkdir()
    pq.write_table(pa.table({"id": [1]}), "in/a.parquet")
    pq.write_table(pa.table({"id": [2]}), "in/b.pending.parquet")
    assert len(build("in")) == 1


@pytest.mark.parametrize(
    "paths", ["ids/done.parquet", "ids", "ids/*.parquet", ["ids/other.parquet", "link"]]
)
def test_index_does_not_replace_a_file_of_its_ids(paths: str | list[str]) -> None:
    Path("ids").mkdir()
    Path("link").symlink_to("ids", target_is_directory=True)
    for name in ("done", "other"):
        pq.write_table(pa.table({"id": ["a", "b"]}), f"ids/{name}.parquet")
    before = Path("ids/done.parquet").read_bytes()
    with pytest.raises(
        OptionError, match="`ids/done.parquet` is a file of ids, which the index would replace"
    ):
        sm.resume.IdIndex.build(paths, "id", path="ids/done.parquet")
    assert Path("ids/done.parquet").read_bytes() == before


def test_files_without_ids_may_have_columns_of_any_type(directory: Path) -> None:
    (directory / "in").mkdir()
    for number, ids in enumerate(
        [pa.array([], pa.float64()), pa.nulls(2), pa.array(["a"]), pa.nulls(0), pa.nulls(1)]
    ):
        pq.write_table(pa.table({"id": ids}), f"in/{number}.parquet")
    index = build("in")
    assert (len(index), index.id_type) == (1, "string")
    assert index.contains(pa.array(["a", "b"])).to_pylist() == [True, False]


def test_random_uuids_take_less_than_16_bytes_each_and_all_are_found() -> None:
    ids = pa.array([str(uuid.uuid4()) for _ in range(50_000)])
    index = build(pa.table({"id": ids}), memory_bytes=1 << 20)
    assert index.nbytes < 16 * len(index)
    assert pc.all(index.contains(ids)).as_py()
    assert not pc.any(index.contains(pa.array([str(uuid.uuid4()) for _ in range(1000)]))).as_py()


def test_missing_columns_and_files_are_named() -> None:
    with pytest.raises(MissingColumnError, match="`key`"):
        build(pa.table({"id": [1]}), "key")
    with pytest.raises(NotFoundError):
        build("nothing.parquet")
    with pytest.raises(OptionError, match="path="):
        sm.resume.IdIndex.build(pa.table({"id": [1]}), "id")
    with pytest.raises(NotFoundError):
        sm.resume.IdIndex.open("nothing.ids")


def test_damaged_index_is_refused(directory: Path) -> None:
    index = build(pa.table({"id": ["a", "b"]}))
    content = bytearray(Path(index.path).read_bytes())
    content[20] ^= 1
    (directory / "damaged.ids").write_bytes(content)
    (directory / "foreign.ids").write_bytes(b"PAR1" * 20)
    for name in ("damaged.ids", "foreign.ids"):
        with pytest.raises(FormatError, match=name):
            sm.resume.IdIndex.open(directory / name)


def test_cached_index_is_found_again_until_the_files_change(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "shardmill.resume")
    pq.write_table(pa.table({"id": [1, 2]}), "in.parquet")
    first = sm.resume.IdIndex.build("in.parquet", "id")
    assert "Loading checkpoint" in caplog.text
    caplog.clear()
    again = sm.resume.IdIndex.build(str(directory / "in.parquet"), ["id"])
    assert (again.path, caplog.text) == (first.path, "")
    pq.write_table(pa.table({"id": [1, 2, 3]}), "in.parquet")
    assert len(sm.resume.IdIndex.build("in.parquet", "id")) == 3


def test_damaged_cached_index_is_built_again() -> None:
    pq.write_table(pa.table({"id": [1, 2]}), "in.parquet")
    path = Path(sm.resume.IdIndex.build("in.parquet", "id").path)
    path.write_bytes(path.read_bytes()[:-5])
    assert len(sm.resume.IdIndex.build("in.parquet", "id")) == 2


def _length(path: str) -> int:
    return len(sm.resume.IdIndex.build(path, "id"))


def test_several_processes_share_one_build(directory: Path) -> None:
    pq.write_table(pa.table({"id": range(1000)}), "in.parquet")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(_length, [str(directory / "in.parquet")] * 4) == [1000] * 4
    assert len(list((directory / "cache/shardmill/indexes").glob("*.ids"))) == 1


def test_ranges_without_ids_are_known_without_a_look() -> None:
    index = build(pa.table({"id": [str(number) for number in range(1000, 2000)]}))

    def may_contain(low: str, high: str) -> bool:
        return index._native.may_contain(pa.array([low]), pa.array([high]))

    assert may_contain("1", "3")
    assert may_contain("1999", "3")
    assert not may_contain("2", "3")
    assert not may_contain("20", "99999")
    assert may_contain("", "~")
