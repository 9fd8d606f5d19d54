"""Table jobs: rows of plain files through stages into Parquet, against pyarrow and polars."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import re
import sys

import pytest

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")

import pyarrow.csv
import pyarrow.orc  # noqa: F401 - bound through pa
import pyarrow.parquet as pq
import shardmill as sm
from shardmill.curate import (
    AspectRatioFilter,
    BlurFilter,
    Filter,
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    ReencodeImages,
    TableSource,
    WebDatasetSink,
)
from shardmill.errors import (
    CurateError,
    FormatError,
    MissingColumnError,
    NotFoundError,
    OptionError,
    PlanError,
)


def write_files(directory, files=5, rows=20):
    directory.mkdir()
    for number in range(files):
        table = numbered(number * rows, rows)
        pq.write_table(table, directory / f"{number:03}.parquet")
    return directory


def numbered(start, rows):
    numbers = range(start, start + rows)
    return pa.table({"id": [str(number) for number in numbers], "x": pa.array(numbers, pa.int64())})


def run(source, tmp_path, *stages, **options):
    report = Pipeline(
        source=source, stages=stages, sink=ParquetSink(tmp_path / "out", **options)
    ).run(progress=False)
    return report, output(tmp_path / "out")


def output(directory):
    files = sorted(directory.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]) if files else None


def ids(table):
    return sorted(table["id"].to_pylist(), key=int)


def all_types():
    """Three rows, the last one null in each column that allows it."""
    day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
    values = {
        pa.bool_(): [True, False],
        **{
            kind: [1, 2]
            for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())
        },
        pa.float32(): [1.5, float("inf")],
        pa.float64(): [1.5, -0.0],
        pa.string(): ["a", "long enough for no inline view"],
        pa.large_string(): ["a", ""],
        pa.string_view(): ["a", "long enough for no inline view"],
        pa.binary(): [b"a", b"\0" * 20],
        pa.large_binary(): [b"a", b""],
        pa.binary(4): [b"abcd", b"efgh"],
        pa.date32(): [day, day],
        pa.time64("us"): [datetime.time(1, 2, 3), datetime.time(4, 5, 6)],
        pa.timestamp("us"): [moment, moment],
        pa.timestamp("ms", "Europe/Berlin"): [moment.replace(microsecond=0, tzinfo=datetime.UTC)]
        * 2,
        pa.duration("s"): [datetime.timedelta(seconds=5)] * 2,
        pa.decimal128(20, 3): [decimal.Decimal("1.234"), decimal.Decimal("-5.678")],
        pa.dictionary(pa.int32(), pa.string()): ["b", "a"],
        pa.list_(pa.int32()): [[1, 2], []],
        pa.list_(pa.string()): [["x", None], ["y"]],
        pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))]): [
            {"a": 1, "b": ["q"]},
            {"a": None, "b": []},
        ],
        pa.map_(pa.string(), pa.int64()): [[("k", 1)], []],
    }
    columns = {
        f"{number}: {kind}": pa.array([*some, None], kind)
        for number, (kind, some) in enumerate(values.items())
    }
    return pa.table(columns | {"nulls": pa.nulls(3)})


def same_rows(one, other):
    assert one.schema.names == other.schema.names
    assert {field.name: field.type for field in one.schema} == {
        field.name: field.type for field in other.schema
    }
    assert one.to_pydict() == other.to_pydict()


@pytest.mark.parametrize(
    "stages", [[], [Map(lambda table: table)], [Map(lambda table: table, batch_size=2)]]
)
def test_all_types_survive(tmp_path, stages):
    expected = all_types()
    pq.write_table(expected, tmp_path / "in.parquet")
    report, found = run(TableSource(tmp_path / "in.parquet"), tmp_path, *stages)

    same_rows(found, pq.read_table(tmp_path / "in.parquet"))
    assert report.counts("input")["rows"] == report.counts("output")["rows"] == 3


def test_function_gets_declared_types_and_may_return_a_polars_frame(tmp_path):
    polars = pytest.importorskip("polars")
    pq.write_table(numbered(0, 10), tmp_path / "in.parquet")
    seen = []

    def doubled(table):
        seen.append(table.schema)
        return polars.from_arrow(table).with_columns(polars.col("x") * 2)

    _report, found = run(TableSource(tmp_path / "in.parquet"), tmp_path, Map(doubled, batch_size=4))

    assert seen == [numbered(0, 1).schema] * 3
    assert found["x"].to_pylist() == list(range(0, 20, 2))


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "jsonl"])
def test_every_format_gives_its_rows_once(tmp_path, kind):
    (tmp_path / "in").mkdir()
    for number in range(3):
        table, path = numbered(number * 10, 10), tmp_path / "in" / f"{number}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path)
        elif kind == "orc":
            pa.orc.write_table(table, path)
        elif kind == "csv":
            pa.csv.write_csv(table, path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    (tmp_path / "in" / "_SUCCESS").touch()
    (tmp_path / "in" / f".hidden.{kind}").write_text("no data")
    report, found = run(TableSource(tmp_path / "in", files_per_partition=1), tmp_path)

    assert len(report.outputs) == 3
    assert sorted(found["x"].to_pylist()) == list(range(30))
    # Text has no quoted numbers here: both columns are inferred as numbers over all files.
    assert found.schema.field("id").type == (pa.int64() if kind == "csv" else pa.string())


def test_types_of_text_are_those_of_all_files_in_each_split(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("x\n1\n")
    (tmp_path / "in" / "b.csv").write_text("x\none\n")
    _report, found = run(TableSource(tmp_path / "in", files_per_partition=1), tmp_path)

    assert sorted(found["x"].to_pylist()) == ["1", "one"]


@pytest.mark.parametrize("wanted", [["x"], ["x", "id"]])
def test_columns_are_read_in_the_order_asked_for(tmp_path, wanted):
    _report, found = run(TableSource(write_files(tmp_path / "in"), columns=wanted), tmp_path)

    assert found.column_names == wanted
    assert found.num_rows == 100


def test_filters_of_source_and_stage_mean_what_pyarrow_says(tmp_path):
    directory = write_files(tmp_path / "in")
    source = TableSource(directory, columns=["id"], filter=(sm.col("x") > 10) & (sm.col("x") != 50))
    report, found = run(source, tmp_path, Filter(~sm.col("id").is_in(["20", "30", "nope"])))

    table = pq.read_table(directory)
    kept = table.filter((pc.field("x") > 10) & (pc.field("x") != 50)).filter(
        ~pc.field("id").isin(["20", "30"])
    )
    assert ids(found) == ids(kept)
    assert report.rows_dropped == {"source filter": 12, "filter expression": 2}
    assert report.pass_rates == {"filter": {"rows": 86 / 88}}


@pytest.mark.parametrize(
    ("batch_size", "rows"), [(7, 100), (1000, 100), (20, 100), (1, 13), (33, 99)]
)
def test_each_call_gets_exactly_batch_size_rows_but_the_last(tmp_path, batch_size, rows):
    directory = (
        write_files(tmp_path / "in", files=rows, rows=1)
        if rows != 100
        else write_files(tmp_path / "in")
    )
    sizes = []

    def seen(table):
        sizes.append(table.num_rows)
        return table

    _report, found = run(TableSource(directory), tmp_path, Map(seen, batch_size=batch_size))

    full, rest = divmod(rows, batch_size)
    assert sizes == [batch_size] * full + [rest] * bool(rest)
    assert found["x"].to_pylist() == list(range(rows))


def test_map_may_change_columns_make_rows_and_drop_rows(tmp_path):
    def exploded(table):
        numbers = [number for number in table["x"].to_pylist() for _ in range(number % 3)]
        return pa.table({"number": pa.array(numbers, pa.int32())})

    report, found = run(
        TableSource(write_files(tmp_path / "in")),
        tmp_path,
        Map(exploded, name="explode", batch_size=9),
    )

    assert found.schema == pa.schema([("number", pa.int32())])
    assert found["number"].to_pylist() == [
        number for number in range(100) for _ in range(number % 3)
    ]
    assert report.counts("output")["rows"] == 99
    assert report.rows_added.get("explode", 0) - report.rows_dropped.get("explode", 0) == -1


@pytest.mark.parametrize(("files", "rows", "batch_size"), [(4, 100, None), (1, 400, 100)])
def test_categories_of_all_calls_may_outnumber_the_keys_of_one(tmp_path, files, rows, batch_size):
    def named(table):
        keys = pa.array(range(len(table)), pa.int8())
        names = pa.array([f"name {number}" for number in table["x"].to_pylist()])
        return table.append_column("name", pa.DictionaryArray.from_arrays(keys, names))

    directory = write_files(tmp_path / "in", files=files, rows=rows)
    _report, found = run(TableSource(directory), tmp_path, Map(named, batch_size=batch_size))

    assert found["name"].to_pylist() == [f"name {number}" for number in range(400)]


def test_chained_maps_have_batch_sizes_of_their_own(tmp_path):
    sizes = {4: [], 10: []}

    def seen(table, size):
        sizes[size].append(table.num_rows)
        return table.filter(pc.greater_equal(table["x"], 2))

    stages = [
        Map(lambda table: seen(table, 10), batch_size=10),
        Map(lambda table: seen(table, 4), batch_size=4),
    ]
    _report, found = run(
        TableSource(write_files(tmp_path / "in", files=1, rows=25)), tmp_path, *stages
    )

    assert sizes == {10: [10, 10, 5], 4: [4, 4, 4, 4, 4, 3]}
    assert found["x"].to_pylist() == list(range(2, 25))


def test_empty_tables_of_a_function_write_no_file(tmp_path):
    report, found = run(
        TableSource(write_files(tmp_path / "in")), tmp_path, Map(lambda table: table.slice(0, 0))
    )

    assert found is None
    assert report.outputs == []
    assert report.rows_dropped == {"map": 100}


def test_resumed_group_without_remaining_rows_loses_its_earlier_file(tmp_path):
    source = TableSource(write_files(tmp_path / "in", files=2), files_per_partition=1)
    run(source, tmp_path, mode="resume")
    (tmp_path / "out" / "other.txt").write_text("of someone else")
    report, found = run(source, tmp_path, Filter(sm.col("x") >= 20), mode="resume")

    assert len(report.outputs) == 1
    same_rows(found, numbered(20, 20))
    assert (tmp_path / "out" / "other.txt").exists()


def test_files_without_rows_change_nothing(tmp_path):
    directory = write_files(tmp_path / "in", files=2)
    pq.write_table(
        pa.table({"id": pa.nulls(0), "other": pa.nulls(0)}), directory / "0-empty.parquet"
    )
    (directory / "wait").mkdir()
    _report, found = run(TableSource(directory), tmp_path)

    same_rows(found, numbered(0, 40))
    assert run(TableSource(directory / "0-empty.parquet"), tmp_path / "none")[1] is None


def test_many_small_files_are_packed_in_order_and_every_run_gives_the_same_files(tmp_path):
    directory = write_files(tmp_path / "in", files=60, rows=5)
    size = (directory / "000.parquet").stat().st_size
    report, found = run(TableSource(directory, partition_bytes=size * 10), tmp_path)
    again, _found = run(TableSource(directory, partition_bytes=size * 10), tmp_path, mode="resume")

    assert 5 < len(report.outputs) < 20
    assert [split["files"] for split in report.splits] != []
    listed = [file for split in report.splits for file in split["files"]]
    assert listed == sorted(listed)
    assert ids(found) == [str(number) for number in range(300)]
    assert [item["path"] for item in again.outputs] == [item["path"] for item in report.outputs]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_large_file_is_cut_and_each_row_is_written_once(tmp_path, kind):
    table = pa.table(
        {"x": range(200_000), "text": [f"text {number * 7919}" for number in range(200_000)]}
    )
    path = tmp_path / f"large.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=10_000)
    else:
        pa.orc.write_table(table, path, stripe_size=64 << 10, compression="uncompressed")
    report, found = run(TableSource(path, partition_bytes=path.stat().st_size // 5), tmp_path)

    assert len(report.outputs) >= 5
    assert len({item["path"] for item in report.outputs}) == len(report.outputs)
    same_rows(found.sort_by("x"), table)


@pytest.mark.parametrize("files_per_partition", [1, 2])
def test_files_of_several_types_are_written_in_one_that_holds_the_values_of_all(
    tmp_path, files_per_partition
):
    directory = tmp_path / "in"
    directory.mkdir()
    pq.write_table(pa.table({"x": pa.array([1], pa.int64()), "y": ["a"]}), directory / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([2], pa.int8())}), directory / "b.parquet")
    pq.write_table(
        pa.table({"x": pa.array([1.5], pa.float32()), "z": [3]}), directory / "c.parquet"
    )
    _report, found = run(TableSource(directory, files_per_partition=files_per_partition), tmp_path)

    assert found.to_pydict() == {"x": [1, 2, 1.5], "y": ["a", None, None], "z": [None, None, 3]}
    schemas = {pq.read_schema(file) for file in (tmp_path / "out").glob("*.parquet")}
    assert [field.type for field in schemas.pop()] == [pa.float64(), pa.string(), pa.int64()]
    assert not schemas


@pytest.mark.parametrize("files_per_partition", [1, 2])
def test_files_without_a_common_type_are_an_error_that_names_them(tmp_path, files_per_partition):
    directory = tmp_path / "in"
    directory.mkdir()
    pq.write_table(pa.table({"x": [1]}), directory / "a.parquet")
    pq.write_table(pa.table({"x": ["1"]}), directory / "b.parquet")

    with pytest.raises(
        FormatError, match="Column `x` is int64 in .*a.parquet` and string in .*b.parquet"
    ):
        run(TableSource(directory, files_per_partition=files_per_partition), tmp_path)
    assert not (tmp_path / "out").exists()


def test_row_groups_have_the_rows_asked_for(tmp_path):
    source = TableSource(write_files(tmp_path / "in", files=1, rows=50_000))
    run(source, tmp_path, row_group_size=20_000, compression="snappy")

    [file] = (tmp_path / "out").glob("*")
    metadata = pq.read_metadata(file)
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [
        20_000,
        20_000,
        10_000,
    ]
    assert metadata.row_group(0).column(0).compression == "SNAPPY"
    assert "RLE_DICTIONARY" not in metadata.row_group(0).column(0).encodings


def test_values_that_repeat_are_stored_once(tmp_path):
    pq.write_table(pa.table({"kind": ["first", "second"] * 5000}), tmp_path / "in.parquet")
    run(TableSource(tmp_path / "in.parquet"), tmp_path)

    [file] = (tmp_path / "out").glob("*")
    assert "RLE_DICTIONARY" in pq.read_metadata(file).row_group(0).column(0).encodings


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"columns": ["nope"]}, MissingColumnError, "No column `nope`; the data has `id`, `x`"),
        ({"filter": sm.col("nope") > 1}, MissingColumnError, "No column `nope`"),
        ({"columns": ["x", "x"]}, OptionError, "names `x` twice"),
        ({"columns": []}, OptionError, "names no column"),
        ({"columns": "x"}, OptionError, "must be a list of names, not 'x'"),
        ({"format": "xlsx"}, OptionError, "`xlsx` is not a known format"),
        ({"format": "orc"}, PlanError, "No orc file"),
        ({"partition_bytes": 10, "files_per_partition": 2}, OptionError, "mutually exclusive"),
        ({"max_batch_bytes": 10}, OptionError, "`max_batch_bytes` is only for documents"),
    ],
)
def test_options_that_cannot_be_are_refused(tmp_path, options, error, message):
    directory = write_files(tmp_path / "in")

    with pytest.raises(error, match=message):
        run(TableSource(directory, **options), tmp_path)


def test_missing_path_and_empty_directory_are_errors_and_the_output_is_not_touched(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(NotFoundError):
            run(TableSource(path), tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (AspectRatioFilter(), "`interleaved_aspect_ratio_filter`, which looks at images"),
        (BlurFilter(), "looks at images of documents"),
        (ReencodeImages(), "looks at images of documents"),
        (Map(lambda table: table, needs_bytes=True), "looks at images of documents"),
        (Filter(sm.col("x") > 1, per="sample"), "belongs to no sample"),
    ],
)
def test_stages_for_documents_are_refused_when_the_pipeline_is_made(tmp_path, stage, message):
    with pytest.raises(OptionError, match=message):
        Pipeline(source=TableSource("in"), stages=[stage], sink=ParquetSink(tmp_path / "out"))


def test_sink_and_batch_size_that_do_not_fit_the_source_are_refused(tmp_path):
    with pytest.raises(OptionError, match="written by ParquetSink"):
        Pipeline(source=TableSource("in"), sink=WebDatasetSink(tmp_path / "out"))
    with pytest.raises(OptionError, match="`batch_size` is for rows of a TableSource"):
        stages = [Map(lambda table: table, batch_size=5)]
        Pipeline(
            source=InterleavedParquetSource("in"), stages=stages, sink=ParquetSink(tmp_path / "out")
        )
    with pytest.raises(OptionError, match="batch_size must be an integer of at least 1, not 0"):
        Map(lambda table: table, batch_size=0)


def test_exception_of_a_function_names_stage_and_file_and_is_the_cause(tmp_path):
    directory = write_files(tmp_path / "in")

    def failing(table):
        if table["x"][0].as_py() >= 40:
            raise ZeroDivisionError("no")
        return table

    with pytest.raises(CurateError, match=r"in/002\.parquet`: divide") as caught:
        run(TableSource(directory), tmp_path, Map(failing, name="divide", batch_size=20))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert list((tmp_path / "out").glob("*")) == []


@pytest.mark.parametrize("batch_size", [10, 20, None])
def test_function_that_changes_its_types_is_an_error_that_names_the_stage(tmp_path, batch_size):
    def fickle(table):
        return (
            table
            if table["x"][0].as_py() < 40
            else table.set_column(1, "x", pa.array(["x"] * len(table)))
        )

    with pytest.raises(
        FormatError, match="Stage fickle returned .*column `x` is string, and was int64"
    ):
        run(
            TableSource(write_files(tmp_path / "in")),
            tmp_path,
            Map(fickle, name="fickle", batch_size=batch_size),
        )


def test_function_that_returns_no_table_is_an_error(tmp_path):
    with pytest.raises(CurateError, match="returned list, not an Arrow table"):
        run(
            TableSource(write_files(tmp_path / "in")),
            tmp_path,
            Map(lambda table: table.to_pylist()),
        )


def test_damaged_file_stops_the_job_and_is_named(tmp_path):
    directory = write_files(tmp_path / "in")
    (directory / "003.parquet").write_bytes(b"PAR1 nothing PAR1")

    with pytest.raises(FormatError, match="003.parquet"):
        run(TableSource(directory), tmp_path)


def test_report_tells_rows_and_not_samples(tmp_path):
    report, _found = run(TableSource(write_files(tmp_path / "in")), tmp_path)

    assert "rows/s" in str(report)
    assert "samples" not in str(report)
    assert report.params["reader_type"] == "table"
    metrics = report.to_dict()
    assert metrics["input_num_rows"] == metrics["output_num_rows"] == 100
    assert metrics["input_total_bytes"] == sum(
        file.stat().st_size for file in (tmp_path / "in").iterdir()
    )


@pytest.mark.slow
@pytest.mark.ray
def test_ray_writes_the_same_files(tmp_path):
    ray = pytest.importorskip("ray")
    # Workers cannot import a test module.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    directory = write_files(tmp_path / "in", files=6)
    stages = [
        Filter(sm.col("x") != 3),
        Map(lambda table: table.append_column("y", pc.add(table["x"], 1)), batch_size=7),
    ]

    def job(name):
        return Pipeline(
            source=TableSource(directory, files_per_partition=2),
            stages=stages,
            sink=ParquetSink(tmp_path / name),
        )

    ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="error")
    try:
        report = job("ray").run("ray", progress=False)
    finally:
        ray.shutdown()
    job("local").run(progress=False)

    local, remote = (
        {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        for name in ("local", "ray")
    )
    assert local == remote
    assert report.counts("output")["rows"] == 119


def test_outputs_are_named_after_their_first_input(tmp_path):
    (tmp_path / "in").mkdir()
    names = [
        "a.b.jsonl.gz",
        "_hidden.jsonl",
        "データ.jsonl",
        "é" * 90 + ".jsonl",
        "画" * 80 + ".jsonl",
    ]
    expected = ["a.b", "hidden", "データ", "é" * 80, "画" * 66]
    for number, name in enumerate(names):
        content = f'{{"x": {number}}}\n'.encode()
        (tmp_path / "in" / name).write_bytes(
            gzip.compress(content) if name.endswith("gz") else content
        )
    paths = [str(tmp_path / "in" / name) for name in names]
    for _ in range(2):
        run(TableSource(paths, files_per_partition=1), tmp_path, mode="resume")
        written = {
            path.name: pq.read_table(path)["x"].to_pylist() for path in (tmp_path / "out").iterdir()
        }
        stems = {
            values[0]: re.fullmatch("(.*)-[0-9a-f]{32}[.]parquet", name)[1]
            for name, values in written.items()
        }
        assert stems == dict(enumerate(expected))
