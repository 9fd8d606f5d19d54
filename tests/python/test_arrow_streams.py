"""Data sets and loaders as Arrow streams, read by the libraries that users have.

Writers take what these libraries hold.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from promptness import HANGS_S

pytest.importorskip("torch")

ROWS = 1200
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int32()),
        "text": pa.array([None if n % 7 == 0 else f"row {n}" for n in range(ROWS)]),
        "score": pa.array([None if n % 5 == 0 else n / 4 for n in range(ROWS)]),
        "tags": pa.array([None if n % 11 == 0 else ["a", None] * (n % 3) for n in range(ROWS)]),
        "at": pa.array(
            [None if n % 13 == 0 else n for n in range(ROWS)], pa.timestamp("us", "UTC")
        ),
        "box": pa.array(
            [None if n % 3 == 0 else {"left": n, "name": None} for n in range(ROWS)],
            pa.struct({"left": pa.int64(), "name": pa.string()}),
        ),
    }
)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    directory = tmp_path / "shards"
    directory.mkdir()
    for number in range(4):
        pq.write_table(
            TABLE.slice(number * 300, 300), directory / f"{number}.parquet", row_group_size=100
        )
    return directory


@pytest.fixture
def damaged(shards: Path) -> Path:
    """The pages of the last file are overwritten, its footer is not."""
    path = shards / "3.parquet"
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    return shards


def of_duckdb(rows) -> pa.Table:
    return duckdb.sql("from rows").to_arrow_table()


def of_hugging_face(rows) -> pa.Table:
    datasets = pytest.importorskip("datasets")
    return datasets.Dataset(pa.table(rows)).with_format("arrow")[:]


def of_daft(rows) -> pa.Table:
    return pytest.importorskip("daft").from_arrow(rows).to_arrow()


READERS = {
    "pyarrow.table": pa.table,
    "pyarrow.RecordBatchReader": lambda rows: pa.RecordBatchReader.from_stream(rows).read_all(),
    "polars.DataFrame": lambda rows: pl.DataFrame(rows).to_arrow(),
    "pandas": lambda rows: pa.Table.from_pandas(
        pd.DataFrame.from_arrow(rows), preserve_index=False
    ),
    "duckdb": of_duckdb,
    "datasets": of_hugging_face,
    "daft": of_daft,
}


@pytest.mark.parametrize("reader", READERS)
def test_library_reads_the_rows_of_a_data_set(shards: Path, reader: str) -> None:
    rows = READERS[reader](sm.Dataset(shards, columns=["text", "id"], filter=sm.col("score") < 200))
    assert rows.column_names == ["text", "id"]
    kept = [row for row in TABLE.to_pylist() if row["score"] is not None and row["score"] < 200]
    assert rows["id"].to_pylist() == [row["id"] for row in kept]
    assert rows["text"].to_pylist() == [row["text"] for row in kept]


@pytest.mark.parametrize(
    "reader", ["pyarrow.table", "polars.DataFrame", "duckdb", "datasets", "daft"]
)
def test_library_reads_nulls_and_nested_columns_of_a_data_set(shards: Path, reader: str) -> None:
    assert READERS[reader](sm.Dataset(shards)).to_pylist() == TABLE.to_pylist()


def test_stream_has_the_schema_of_the_data_set(shards: Path) -> None:
    dataset = sm.Dataset(shards)
    assert pa.schema(dataset).equals(dataset.schema, check_metadata=True)
    assert pa.RecordBatchReader.from_stream(dataset).schema.equals(
        dataset.schema, check_metadata=True
    )
    assert pl.DataFrame(dataset).schema == pl.DataFrame(TABLE).schema


@pytest.mark.filterwarnings("ignore:no data files")
def test_stream_without_rows_has_the_columns(shards: Path, tmp_path: Path) -> None:
    assert (
        pl.DataFrame(sm.Dataset(shards, filter=sm.col("id") < 0)).schema
        == pl.DataFrame(TABLE).schema
    )
    (tmp_path / "empty").mkdir()
    assert pa.table(sm.Dataset(tmp_path / "empty", format="parquet")).shape == (0, 0)


def test_every_format_is_a_stream(tmp_path: Path) -> None:
    rows = {"text": ["a", "b", "c"], "label": [1, 2, 3]}
    for format in ("parquet", "jsonl", "mds"):
        with sm.Writer(tmp_path / format, format=format) as writer:
            writer.write_batch(rows)
        assert pl.DataFrame(sm.Dataset(tmp_path / format)).to_dict(as_series=False) == rows


def test_data_set_may_be_streamed_many_times_and_at_once(shards: Path) -> None:
    dataset = sm.Dataset(shards, columns=["id"])
    first, second = (
        pa.RecordBatchReader.from_stream(dataset),
        pa.RecordBatchReader.from_stream(dataset),
    )
    begun = first.read_next_batch()
    assert second.read_all()["id"].to_pylist() == list(range(ROWS))
    assert begun.num_rows + first.read_all().num_rows == ROWS
    assert duckdb.sql("select count(*) from dataset a join dataset b using (id)").fetchall() == [
        (ROWS,)
    ]


def test_abandoned_stream_ends_its_threads(shards: Path) -> None:
    dataset = sm.Dataset(shards)
    assert len(pa.table(dataset)) == ROWS
    before = len(os.listdir("/proc/self/task"))
    reader = pa.RecordBatchReader.from_stream(
        sm.Loader(dataset, output="numpy", columns=["id"], batch_size=1)
    )
    reader.read_next_batch()
    del reader
    assert len(os.listdir("/proc/self/task")) == before


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import polars, shardmill
dataset = shardmill.Dataset(sys.argv[1])
loader = shardmill.Loader(dataset, output="numpy")
print(polars.DataFrame(dataset).shape, polars.DataFrame(loader).shape)
with shardmill.Writer(sys.argv[2]) as writer:
    writer.write_batch(dataset)
    writer.write_batch(polars.DataFrame(dataset).lazy().select("id", "name").collect())
"""


def test_streams_work_without_pyarrow(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", None]}), tmp_path / "a.parquet")
    command = [sys.executable, "-c", WITHOUT_PYARROW, tmp_path / "a.parquet", tmp_path / "b.jsonl"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S)
    assert run.stdout == "(2, 2) (2, 2)\n", run.stderr
    assert (tmp_path / "b.jsonl").read_text().splitlines() == [
        '{"id":1,"name":"a"}',
        '{"id":2,"name":null}',
    ] * 2


def test_requested_schema_is_a_lossless_conversion(shards: Path) -> None:
    dataset = sm.Dataset(shards, columns=["id", "text"])
    wide = pa.schema({"id": pa.int64(), "text": pa.large_string()})
    rows = pa.RecordBatchReader.from_stream(dataset, schema=wide).read_all()
    assert rows.schema == wide
    assert rows["id"].to_pylist() == list(range(ROWS))
    narrow = pa.RecordBatchReader.from_stream(
        dataset, schema=pa.schema({"id": pa.int8(), "text": pa.string()})
    )
    with pytest.raises(ValueError, match="128 not in range"):
        narrow.read_all()


@pytest.mark.parametrize(
    "wanted",
    [{"id": pa.int32()}, {"id": pa.list_(pa.int32()), "text": pa.string()}],
    ids=["columns", "types"],
)
def test_requested_schema_that_cannot_be_had_is_an_error(shards: Path, wanted: dict) -> None:
    with pytest.raises(sm.OptionError, match="cannot be converted to the requested schema"):
        pa.RecordBatchReader.from_stream(
            sm.Dataset(shards, columns=["id", "text"]), schema=pa.schema(wanted)
        )


DAMAGE = r"FormatError: Page 0 of column `id` in row group 0 of `.*3\.parquet`"


@pytest.mark.parametrize("reader", [name for name in READERS if name != "datasets"])
@pytest.mark.parametrize("kind", [sm.Dataset, sm.Loader])
def test_damaged_file_is_an_error_in_every_library(
    damaged: Path, reader: str, kind: Callable
) -> None:
    with pytest.raises(Exception, match=DAMAGE):
        READERS[reader](kind(damaged, columns=["id"]))


def test_rows_before_a_damaged_file_are_streamed(damaged: Path) -> None:
    reader = pa.RecordBatchReader.from_stream(
        sm.Loader(
            damaged, columns=["id"], batch_size=1, runtime=sm.Runtime(threads=1, prefetch_bytes=1)
        )
    )
    assert reader.read_next_batch()["id"][0].as_py() == 0
    with pytest.raises(pa.ArrowInvalid, match=DAMAGE):
        reader.read_all()


@pytest.mark.parametrize("output", ["torch", "numpy", "arrow", "rows"])
@pytest.mark.parametrize("tail", ["uneven", "pad", "drop"])
def test_stream_of_a_loader_has_the_rows_of_its_rank_in_order(
    shards: Path, tail: str, output: str
) -> None:
    for rank in range(3):
        options = {"columns": ["id"], "shuffle": True, "seed": 3, "batch_size": 7, "tail": tail}
        loader, plain = (
            sm.Loader(shards, rank=rank, world_size=3, output=kind, **options)
            for kind in (output, "arrow")
        )
        assert pa.table(loader).equals(pa.Table.from_batches(list(plain)))


def test_stream_that_is_released_inside_of_a_call_ends_with_the_gil_held(
    shards: Path, tmp_path: Path
) -> None:
    held = [pa.RecordBatchReader.from_stream(sm.Loader(shards, columns=["id"], batch_size=1))]
    batch = held[0].read_next_batch()

    class Batch:
        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            # pyarrow releases the GIL for it.
            held.clear()
            return batch.__arrow_c_array__(requested_schema)

    with sm.Writer(tmp_path / "out") as writer:
        writer.write_batch(Batch())
    assert (held, writer.num_rows) == ([], batch.num_rows)


def test_stream_of_a_loader_follows_its_epoch_and_state(shards: Path) -> None:
    def loader() -> sm.Loader:
        return sm.Loader(shards, columns=["id"], shuffle=True, batch_size=100, output="numpy")

    first, second = loader(), loader()
    epochs = [[row for batch in first for row in batch["id"].tolist()] for _ in range(2)]
    assert pa.table(second)["id"].to_pylist() == pa.table(second)["id"].to_pylist() == epochs[0]
    second.set_epoch(1)
    assert pl.DataFrame(second)["id"].to_list() == epochs[1]
    batches = iter(second)
    assert next(batches)["id"].tolist() == epochs[1][:100]
    third = loader()
    third.load_state_dict(second.state_dict())
    assert pa.table(third)["id"].to_pylist() == epochs[1][100:]


def test_stream_of_a_loader_leaves_an_iteration_alone(shards: Path) -> None:
    loader = sm.Loader(
        shards, columns=["id"], batch_size=100, output="numpy", runtime=sm.Runtime(audit=True)
    )
    batches = iter(loader)
    got, state = [next(batches)], loader.state_dict()
    stream = pa.RecordBatchReader.from_stream(loader)
    stream.read_next_batch()
    assert loader.state_dict() == state
    got += batches
    assert [row for batch in got for row in batch["id"].tolist()] == list(range(ROWS))
    stream.read_all()
    assert (loader.epoch, loader.metrics().batches, loader.audit()) == (
        1,
        12,
        loader.expected_audit(),
    )


def test_stream_of_a_mixture_and_of_packs_is_what_the_loader_gives(
    shards: Path, tmp_path: Path
) -> None:
    pq.write_table(
        pa.table({"tokens": [list(range(n % 9)) for n in range(500)]}), tmp_path / "tokens.parquet"
    )
    for options in (
        {
            "data": sm.Mixture({"a": shards, "b": shards}, weights={"a": 1, "b": 2}),
            "columns": ["id"],
            "shuffle": True,
        },
        {"data": tmp_path / "tokens.parquet", "packing": sm.Packing("tokens", length=32)},
    ):
        batches = list(sm.Loader(**options, batch_size=16, output="arrow"))
        assert pa.table(sm.Loader(**options, batch_size=16)).equals(pa.Table.from_batches(batches))


def test_stream_of_a_loader_keeps_to_its_policy_on_bad_rows(damaged: Path) -> None:
    def loader(max_rows: int) -> sm.Loader:
        return sm.Loader(
            damaged, columns=["id"], errors=sm.ErrorPolicy(rows="skip", max_rows=max_rows)
        )

    patient = loader(1000)
    good = pa.table(patient)["id"].to_pylist()
    assert good[:900] == list(range(900))
    assert len(good) < ROWS
    assert patient.bad_rows == []
    with pytest.raises(pa.ArrowInvalid, match="BadRowLimitError"):
        pa.table(loader(1))


def test_loader_with_a_transform_is_not_a_stream(shards: Path) -> None:
    with pytest.raises(sm.OptionError, match="a Loader without transform"):
        pa.table(sm.Loader(shards, columns=["id"], transform=lambda batch: batch))


#: A column has the name of an attribute that the objects of other libraries have.
COLUMNS = {"schema": [1, 2, 3], "text": ["a", None, "c"]}


def daft_frame() -> object:
    return pytest.importorskip("daft").from_pydict(COLUMNS)


HOLDERS = {
    "polars": lambda: pl.DataFrame(COLUMNS),
    "pyarrow.Table": lambda: pa.table(COLUMNS),
    "pyarrow.RecordBatch": lambda: pa.record_batch(COLUMNS),
    "pyarrow.RecordBatchReader": lambda: pa.table(COLUMNS).to_reader(),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "duckdb": lambda: duckdb.connect().sql(
        "select * from (values (1, 'a'), (2, null), (3, 'c')) as rows(schema, text)"
    ),
    "daft": daft_frame,
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_writer_takes_what_a_library_holds(tmp_path: Path, holder: str, format: str) -> None:
    with sm.Writer(tmp_path / "out", format=format) as writer:
        writer.write_batch(HOLDERS[holder]())
        assert writer.num_rows == 3
    assert pl.DataFrame(sm.Dataset(tmp_path / "out")).to_dict(as_series=False) == COLUMNS


def test_writer_takes_the_batches_of_a_hugging_face_data_set(tmp_path: Path) -> None:
    rows = pytest.importorskip("datasets").Dataset.from_dict(COLUMNS)
    with (
        pytest.raises(TypeError, match="hint: .*with_format"),
        sm.Writer(tmp_path / "out") as writer,
    ):
        writer.write_batch(rows)
    with sm.Writer(tmp_path / "out") as writer:
        for batch in rows.with_format("arrow").iter(2):
            writer.write_batch(batch)
    assert pa.table(sm.Dataset(tmp_path / "out")).to_pydict() == COLUMNS


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_writer_takes_another_data_set_and_the_order_of_a_loader(
    shards: Path, tmp_path: Path, format: str
) -> None:
    dataset = sm.Dataset(shards, columns=["id", "tags"], filter=sm.col("id") >= 1000)
    loader = sm.Loader(dataset, shuffle=True, seed=1)
    with sm.Writer(tmp_path / "out", format=format) as writer:
        writer.write_batch(dataset)
        writer.write_batch(loader)
    expected = pa.concat_tables([pa.table(dataset), pa.table(loader)])
    assert pa.table(sm.Dataset(tmp_path / "out")).to_pydict() == expected.to_pydict()


def test_writer_may_replace_the_data_set_that_it_reads(shards: Path) -> None:
    with sm.Writer(shards, mode="overwrite") as writer:
        writer.write_batch(sm.Dataset(shards, filter=sm.col("id") < 10))
    assert pl.DataFrame(sm.Dataset(shards))["id"].to_list() == list(range(10))


@pytest.mark.parametrize(
    "rows",
    [TABLE.slice(0, 0), pl.DataFrame(TABLE.slice(0, 0)), TABLE.schema.empty_table().to_reader()],
    ids=["table", "polars", "reader"],
)
def test_stream_without_rows_writes_its_columns(tmp_path: Path, rows: object) -> None:
    with sm.Writer(tmp_path / "out") as writer:
        writer.write_batch(rows)
    assert sm.Dataset(tmp_path / "out").columns == TABLE.column_names


LAYOUTS = {
    "text": [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    "image": [pa.binary(), pa.large_binary(), pa.binary_view()],
    "tags": [
        pa.list_(pa.string()),
        pa.large_list(pa.string_view()),
        pa.list_view(pa.large_string()),
    ],
    "box": [pa.struct({"name": layout}) for layout in (pa.string(), pa.string_view())],
}
VALUES = {
    "text": ["a", None],
    "image": [b"a", None],
    "tags": [["a", None], None],
    "box": [{"name": "a"}, None],
}


@pytest.mark.parametrize("column", LAYOUTS)
@pytest.mark.parametrize("out", ["file.parquet", "out"])
def test_writer_takes_the_same_values_in_other_layouts(
    tmp_path: Path, column: str, out: str
) -> None:
    for first in LAYOUTS[column]:
        with sm.Writer(tmp_path / out, mode="overwrite") as writer:
            for layout in [first, *LAYOUTS[column]]:
                writer.write_batch(pa.table({column: pa.array(VALUES[column], layout)}))
        written = pa.table(sm.Dataset(tmp_path / out))
        assert written[column].to_pylist() == VALUES[column] * (1 + len(LAYOUTS[column]))
        # Parquet stores views of lists as lists, which all readers know.
        expected = pa.list_(first.value_type) if pa.types.is_list_view(first) else first
        assert written.schema.field(column).type == expected


def test_given_schema_decides_the_layout(tmp_path: Path) -> None:
    rows = pa.table({"text": ["a", None], "tags": [["x"], []]})
    for mode in ("error", "append"):
        with sm.Writer(tmp_path / "out", mode=mode, schema=rows.schema) as writer:
            writer.write_batch(pl.DataFrame(rows))
    assert pq.read_table(tmp_path / "out") == pa.concat_tables([rows, rows])


def test_stream_of_other_values_than_before_is_an_error(tmp_path: Path) -> None:
    for first, second in (([1], [1.5]), (["1"], [1]), ([b"a"], ["a"])):
        with (
            pytest.raises(sm.FormatError, match="Rows do not have the columns"),
            sm.Writer(tmp_path / "a.parquet") as writer,
        ):
            writer.write_batch(pl.DataFrame({"x": first}))
            writer.write_batch(pa.table({"x": second}))


def test_stream_without_rows_and_columns_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="it has no rows and no schema"),
        sm.Writer(tmp_path / "out") as writer,
    ):
        writer.write_batch(pa.table({}))
    assert not (tmp_path / "out").exists()


def failing() -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"id": [1, 2]})
    raise ConnectionError("the source went away")


class Stream:
    """A stream of a library that is none of those that are known."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(
            pa.schema({"id": pa.int64()}), failing()
        ).__arrow_c_stream__()


@pytest.mark.parametrize("format", ["parquet", "mds", "jsonl", "webdataset"])
def test_stream_that_fails_publishes_nothing_and_keeps_its_exception(
    tmp_path: Path, format: str
) -> None:
    with (
        pytest.raises(ConnectionError, match="the source went away"),
        sm.Writer(tmp_path / "out", format=format) as writer,
    ):
        writer.write_batch(
            pa.RecordBatchReader.from_batches(pa.schema({"id": pa.int64()}), failing())
        )
    with (
        pytest.raises(OSError, match="ConnectionError: the source went away"),
        sm.Writer(tmp_path / "out", format=format) as writer,
    ):
        writer.write_batch(Stream())
    assert not (tmp_path / "out").exists()


def test_damaged_data_set_publishes_nothing(damaged: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(sm.FormatError, match=r"row group 0 of `.*3\.parquet`"),
        sm.Writer(tmp_path / "out") as writer,
    ):
        writer.write_batch(sm.Dataset(damaged))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("format", "rows", "message"),
    [
        (
            "mds",
            {"at": pa.array([1], pa.timestamp("us"))},
            r"Column `at` of type timestamp\[us\] has no MDS encoding",
        ),
        ("mds", {"text": ["a", None]}, "Column `text` is null in row `1`"),
        ("jsonl", {"image": [b"png"]}, "Column `image` is binary"),
        ("webdataset", {"score": [0.5]}, "Column `score` is double"),
    ],
)
def test_types_that_a_format_cannot_hold_are_refused(
    tmp_path: Path, format: str, rows: dict, message: str
) -> None:
    for data in (pa.table(rows), pl.DataFrame(pa.table(rows))):
        with (
            pytest.raises(sm.FormatError, match=message),
            sm.Writer(tmp_path / "out", format=format) as writer,
        ):
            writer.write_batch(data)
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    with (
        pytest.raises(sm.FormatError, match=message),
        sm.Writer(tmp_path / "out", format=format) as writer,
    ):
        writer.write_batch(sm.Dataset(tmp_path / "rows.parquet"))
    assert not (tmp_path / "out").exists()
