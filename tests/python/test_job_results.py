"""The files that a job writes: their columns and their pages.

Columns are declared, or decided by the first result of a function.
"""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import (
    Filter,
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    TableSource,
)

STRING = pa.string()


def write(directory: Path, *files: dict[str, Any]) -> Path:
    """Write a Parquet file of the columns of each of `files`."""
    directory.mkdir()
    for number, columns in enumerate(files):
        pq.write_table(pa.table(columns), directory / f"{number}.parquet")
    return directory


def run(
    source: Any, out: Path, *stages: Any, sink: dict[str, Any] | None = None, **options: Any
) -> pa.Table:
    """Run a job; its files must have one schema."""
    given = {name: options.pop(name) for name in ("checkpoint",) if name in options}
    Pipeline(source=source, stages=stages, sink=ParquetSink(out, **(sink or {})), **given).run(
        progress=False, **options
    )
    assert len({pq.read_schema(file) for file in out.glob("*.parquet")}) == 1
    return pa.table(sm.Dataset(out))


def adding(column: str, value: Callable[[pa.Table], Any]) -> Map:
    """A stage that adds a column to each table."""
    return Map(lambda table: table.append_column(column, pa.array(value(table))), name="add")


def value_of_row(values: list[Any]) -> Callable[[pa.Table], list[Any]]:
    return lambda table: [values[row] for row in table["row"].to_pylist()]


TEXTS = {
    "csv": "row,zip\n0,01234\n1,5\n",
    "jsonl": '{"row": 0, "zip": "01234"}\n{"row": 1, "zip": 5}\n',
    "jsonl.gz": '{"row": 0, "zip": "01234"}\n{"row": 1, "zip": 5}\n',
}


@pytest.mark.parametrize("name", TEXTS)
def test_declared_string_keeps_the_text_of_numbers(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    text = TEXTS[name].encode()
    (tmp_path / "in" / f"a.{name}").write_bytes(
        gzip.compress(text) if name.endswith(".gz") else text
    )
    source = TableSource(tmp_path / "in", schema_overrides={"zip": STRING})
    assert run(source, tmp_path / "out").to_pylist() == [
        {"row": 0, "zip": "01234"},
        {"row": 1, "zip": "5"},
    ]


@pytest.mark.parametrize("count", [1, 2])
def test_declared_type_stands_in_for_types_without_a_common_one(count: int, tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"v": [1]}, {"v": ["x"]})
    given = TableSource(source, files_per_partition=count, schema_overrides={"v": STRING})
    assert run(given, tmp_path / "out")["v"].to_pylist() == ["1", "x"]


@pytest.mark.parametrize("count", [1, 2])
def test_value_that_a_declared_type_cannot_hold_stops_the_job(count: int, tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"v": [1, 2]}, {"v": [3, 300]})
    given = TableSource(source, files_per_partition=count, schema_overrides={"v": pa.int8()})
    with pytest.raises(sm.FormatError, match=r"Row 1 of .*1\.parquet`: 300 in column `v` .*int8"):
        run(given, tmp_path / "out")
    assert not [
        file
        for file in tmp_path.glob("out/*.parquet")
        if 300 in pq.read_table(file)["v"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("values", "data_type", "problem"),
    [
        (pa.array([1.9]), pa.list_(pa.int64()), "double cannot be converted to list<int64>"),
        (pa.array(["[1]"]), pa.list_(pa.int64()), "cannot be delivered as list<int64>"),
        (pa.array([b"a"]), pa.list_(STRING), "cannot be delivered as list<string>"),
        (pa.array([[1.5]]), pa.list_(pa.list_(pa.int64())), "double cannot be converted"),
        (pa.array([{"a": 1}]), pa.struct([("a", pa.list_(pa.int8()))]), "int64 cannot be"),
        (pa.array(["a"]).dictionary_encode(), pa.list_(STRING), "string cannot be converted"),
        (pa.array([["a, b"]]), STRING, "list<string> cannot be converted to string"),
        (pa.array(["16777217"]), pa.float32(), "16777217 in column `v`"),
        (pa.array(["1e39"]), pa.float32(), "1e39 in column `v`"),
        (pa.array(["1e400"]), pa.float64(), "1e400 in column `v`"),
        (pa.array([90_000_000_000]), pa.time64("us"), "90000000000 in column `v`"),
        (pa.array([-5], pa.int32()), pa.time32("s"), "-5 in column `v`"),
    ],
    ids=str,
)
def test_declared_type_that_would_change_values_stops_the_job(
    values: pa.Array, data_type: pa.DataType, problem: str, tmp_path: Path
) -> None:
    source = TableSource(write(tmp_path / "in", {"v": values}), schema_overrides={"v": data_type})
    with pytest.raises(sm.FormatError, match=problem):
        run(source, tmp_path / "out")


def test_inferred_string_refuses_a_number_after_the_sample_as_the_data_set_does(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    lines = [{"v": "x" * 100}] * 30_000 + [{"v": 5}]
    (tmp_path / "in" / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(
        sm.FormatError, match="Line 30001 of .*`5` in column `v` is not a valid string"
    ):
        run(TableSource(tmp_path / "in"), tmp_path / "out")
    table = run(TableSource(tmp_path / "in", schema_overrides={"v": STRING}), tmp_path / "declared")
    assert table["v"][-1].as_py() == "5"


def test_selected_columns_of_text_skip_the_others(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"v": 1, "other": 2}\n')
    assert run(TableSource(tmp_path / "in", columns=["v"]), tmp_path / "out").to_pylist() == [
        {"v": 1}
    ]


def test_declared_column_lets_a_job_grow(tmp_path: Path) -> None:
    source = write(tmp_path / "in", {"v": [1]})

    def grow() -> pa.Table:
        given = TableSource(source, schema_overrides={"v": pa.float64(), "w": STRING})
        return run(given, tmp_path / "out", checkpoint=tmp_path / "state")

    assert grow().to_pylist() == [{"v": 1.0, "w": None}]
    pq.write_table(pa.table({"v": [0.5], "w": ["x"]}), source / "1.parquet")
    assert grow().to_pylist() == [{"v": 1.0, "w": None}, {"v": 0.5, "w": "x"}]


@pytest.mark.parametrize("part", ["source", "sink"])
def test_other_declared_columns_are_another_job(part: str, tmp_path: Path) -> None:
    inputs = write(tmp_path / "in", {"v": [1]})

    def job(data_type: pa.DataType) -> None:
        given = {"schema_overrides": {"v": data_type}}
        source = TableSource(inputs, **given if part == "source" else {})
        sink = given if part == "sink" else {}
        run(source, tmp_path / "out", sink=sink, checkpoint=tmp_path / "state")

    job(pa.int32())
    job(pa.int32())
    with pytest.raises(sm.CheckpointMismatchError, match=part):
        job(pa.int16())


def test_declared_type_leaves_the_metadata_of_the_schema(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"v": [1]}).replace_schema_metadata({"owner": "a"}), tmp_path / "in" / "0.parquet"
    )
    given = {"schema_overrides": {"v": pa.float64()}}
    run(TableSource(tmp_path / "in", **given), tmp_path / "out", sink=given)
    [file] = (tmp_path / "out").glob("*.parquet")
    assert pq.read_schema(file).metadata[b"owner"] == b"a"


def test_declared_id_column_is_refused(tmp_path: Path) -> None:
    source = TableSource(write(tmp_path / "in", {"id": [1]}), schema_overrides={"id": STRING})
    checkpoint = {"path": str(tmp_path / "state"), "id_column": "id"}
    with pytest.raises(sm.OptionError, match="`schema_overrides` declares the id column `id`"):
        run(source, tmp_path / "out", checkpoint=checkpoint)


def test_sink_decides_the_columns_of_rows_without_a_function(tmp_path: Path) -> None:
    source = TableSource(
        write(tmp_path / "in", {"a": [1], "b": ["x"]}, {"a": [2], "c": [0.5]}),
        files_per_partition=1,
    )
    schema = pa.schema([("c", pa.float32()), ("a", pa.int8()), ("new", STRING)])
    table = run(source, tmp_path / "exact", Filter("a > 0"), sink={"schema": schema})
    assert table.schema == schema
    assert table.to_pylist() == [{"c": None, "a": 1, "new": None}, {"c": 0.5, "a": 2, "new": None}]
    table = run(
        source, tmp_path / "some", sink={"schema_overrides": {"a": STRING, "new": pa.int8()}}
    )
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == {
        "a": STRING,
        "b": STRING,
        "c": pa.float64(),
        "new": pa.int8(),
    }


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_first_result_decides_the_columns_of_all_files(
    threads: int, count: int, batch_size: int | None, tmp_path: Path
) -> None:
    source = write(tmp_path / "in", *({"row": [2 * file, 2 * file + 1]} for file in range(4)))
    stage = Map(
        lambda table: (
            table.append_column("v", pa.array([float(row) for row in table["row"].to_pylist()]))
            if 0 in table["row"].to_pylist()
            else pa.table({"v": pa.array(table["row"].to_pylist(), pa.int8()), "row": table["row"]})
        ),
        batch_size=batch_size,
    )
    table = run(
        TableSource(source, files_per_partition=count), tmp_path / "out", stage, threads=threads
    )
    assert table.to_pylist() == [{"row": row, "v": float(row)} for row in range(8)]
    assert table.schema.field("v").type == pa.float64()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            [1, "x"],
            "column `v` is string, and was int64: "
            "x of type string cannot be converted exactly to int64",
        ),
        (
            [1, 0.5],
            "column `v` is double, and was int64: "
            "0.5 of type double cannot be converted exactly to int64",
        ),
    ],
)
def test_later_result_of_another_type_stops_the_job_however_it_is_split(
    count: int, values: list[Any], problem: str, tmp_path: Path
) -> None:
    source = TableSource(
        write(tmp_path / "in", {"row": [0]}, {"row": [1]}), files_per_partition=count
    )
    stage = Map(
        lambda table: table.append_column("v", pa.array(value_of_row(values)(table))),
        name="add",
        batch_size=1,
    )
    with pytest.raises(
        sm.FormatError, match=rf"Stage add returned .*{problem}\nhint: declare .*schema_overrides"
    ):
        run(source, tmp_path / "out", stage)
    table = run(source, tmp_path / "declared", stage, sink={"schema_overrides": {"v": STRING}})
    assert table["v"].to_pylist() == [str(value) for value in values]


def test_new_column_of_a_later_result_stops_the_job(tmp_path: Path) -> None:
    source = TableSource(write(tmp_path / "in", {"row": [0]}, {"row": [1]}), files_per_partition=1)
    stage = Map(
        lambda table: (
            table if 0 in table["row"].to_pylist() else table.append_column("w", table["row"])
        )
    )
    with pytest.raises(sm.FormatError, match=r"column `w` \(int64\) is new"):
        run(source, tmp_path / "out", stage)
    table = run(source, tmp_path / "some", stage, sink={"schema_overrides": {"w": pa.int64()}})
    assert table["w"].to_pylist() == [None, 1]
    schema = pa.schema([("row", pa.int64())])
    assert run(source, tmp_path / "exact", stage, sink={"schema": schema}).schema == schema


def test_result_with_two_columns_of_one_name_stops_the_job(tmp_path: Path) -> None:
    source = TableSource(write(tmp_path / "in", {"row": [0]}, {"row": [1]}), files_per_partition=1)
    stage = Map(lambda table: table.append_column("row", table["row"]))
    with pytest.raises(sm.FormatError, match="two columns named `row`"):
        run(source, tmp_path / "out", stage)
    assert not list(tmp_path.glob("out/*.parquet"))


def test_null_column_of_the_first_result_asks_for_a_type(tmp_path: Path) -> None:
    source = TableSource(write(tmp_path / "in", {"row": [0]}, {"row": [1]}), files_per_partition=1)
    stage = adding("v", value_of_row([None, "x"]))
    with pytest.raises(
        sm.FormatError, match="only nulls without a type in column `v` of its first result"
    ):
        run(source, tmp_path / "out", stage)
    assert not list(tmp_path.glob("out/*.parquet"))
    table = run(source, tmp_path / "declared", stage, sink={"schema_overrides": {"v": STRING}})
    assert table["v"].to_pylist() == [None, "x"]


def test_split_without_results_does_not_decide(tmp_path: Path) -> None:
    source = TableSource(
        write(tmp_path / "in", {"row": [0]}, {"row": [1]}, {"row": [2]}), files_per_partition=1
    )

    def kept(table: pa.Table) -> pa.Table:
        if 0 in table["row"].to_pylist():
            return pa.table({"empty": []})
        return pa.table({"v": pa.array([0.5] if 1 in table["row"].to_pylist() else [2])})

    assert run(source, tmp_path / "out", Map(kept), threads=3)["v"].to_pylist() == [0.5, 2.0]


def test_function_between_others_gives_them_one_type(tmp_path: Path) -> None:
    source = TableSource(write(tmp_path / "in", {"row": [0]}, {"row": [1]}), files_per_partition=1)
    seen = []

    def last(table: pa.Table) -> pa.Table:
        seen.append(table.schema.field("v").type)
        return table

    run(source, tmp_path / "out", adding("v", value_of_row([0.5, 1])), Filter("v > 0"), Map(last))
    assert seen == [pa.float64()] * 2


@pytest.mark.parametrize(
    "executor", ["local", pytest.param("ray", marks=[pytest.mark.slow, pytest.mark.ray])]
)
def test_resumed_job_keeps_the_columns_of_its_first_result(executor: Any, tmp_path: Path) -> None:
    source = TableSource(
        write(tmp_path / "in", {"row": [0]}, {"row": [1]}, {"row": [2]}), files_per_partition=1
    )

    def job(is_first: bool) -> pa.Table:
        def add(table: pa.Table) -> pa.Table:
            [row] = table["row"].to_pylist()
            if is_first and row > 0:
                # The first split is committed: a job without a commit decides anew.
                while not list((tmp_path / "out").glob("*.parquet")):
                    time.sleep(0.01)
                raise ValueError("stopped")
            return table.append_column("v", pa.array([0.5 if is_first else 1]))

        stage, options = Map(add, name="add"), {"threads": 2} if executor == "local" else {}
        return run(
            source,
            tmp_path / "out",
            stage,
            executor=executor,
            checkpoint=tmp_path / "state",
            **options,
        )

    with pytest.raises(sm.CurateError, match="stopped"):
        job(is_first=True)
    assert job(is_first=False)["v"].to_pylist() == [0.5, 1.0, 1.0]


def test_job_that_committed_nothing_decides_anew(tmp_path: Path) -> None:
    source = TableSource(write(tmp_path / "in", {"row": [0]}))

    def job(values: list[Any], fails: bool) -> pa.Table:
        def stop(table: pa.Table) -> pa.Table:
            if fails:
                raise ValueError("stopped")
            return table

        stages = [adding("v", value_of_row(values)), Map(stop, name="stop")]
        return run(source, tmp_path / "out", *stages, checkpoint=tmp_path / "state")

    with pytest.raises(sm.CurateError, match="stopped"):
        job([1], fails=True)
    assert job(["x"], fails=False)["v"].to_pylist() == ["x"]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("count", [1, 2])
def test_first_result_decides_the_columns_of_all_documents(
    threads: int, count: int, tmp_path: Path
) -> None:
    document = {"position": pa.array([0], pa.int32()), "modality": ["text"], "text_content": ["t"]}
    source = write(tmp_path / "in", *({"sample_id": [name], **document} for name in "abc"))

    def stage(values: dict[str, Any]) -> Map:
        # Which rows are in one call depends on the split; each row has the type of its value.
        def add(table: pa.Table) -> pa.Table:
            return table.append_column(
                "v", pa.array([values[id] for id in table["sample_id"].to_pylist()])
            )

        return Map(add, name="add")

    given = InterleavedParquetSource(source, files_per_partition=count)
    table = run(given, tmp_path / "out", stage({"a": 0.5, "b": 1, "c": None}), threads=threads)
    assert (table["v"].to_pylist(), table.schema.names[-1]) == ([0.5, 1.0, None], "rescued")
    assert table.schema.field("v").type == pa.float64()
    with pytest.raises(sm.FormatError, match="column `v` is string, and was double"):
        run(
            InterleavedParquetSource(source, files_per_partition=1),
            tmp_path / "refused",
            stage({"a": 0.5, "b": "x", "c": 1}),
            threads=threads,
        )


def pages(path: Path) -> Any:
    """The bytes of a Parquet file before its footer, and what the footer says about them."""
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    metadata = pq.read_metadata(path)
    return content[:-footer], [
        metadata.row_group(number).to_dict() for number in range(metadata.num_row_groups)
    ]


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "brotli", "lz4", "none"])
def test_writer_and_job_write_the_same_file(tmp_path: Path, compression: str) -> None:
    rows = 250_000
    columns = {
        "id": [f"id-{row}" for row in range(rows)],
        "kind": ["ab"[row % 2] for row in range(rows)],
    }
    lists = pa.array(
        [[row, None] if row % 3 else None for row in range(rows)], pa.list_(pa.int64())
    )
    table = pa.table(columns | {"x": pa.array(range(rows)), "lists": lists})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=7000)
    table = pa.table(sm.Dataset(tmp_path / "in.parquet"))
    with sm.Writer(tmp_path / "written.parquet", compression=compression) as writer:
        for start in range(0, rows, 4000):
            writer.write_batch(table.slice(start, 4000))
    sink = ParquetSink(tmp_path / "out", compression=compression)
    Pipeline(source=TableSource(tmp_path / "in.parquet"), sink=sink).run(progress=False)
    [job] = (tmp_path / "out").glob("*.parquet")
    found, expected = pages(job), pages(tmp_path / "written.parquet")
    assert found == expected
    assert len(found[1]) > 1
