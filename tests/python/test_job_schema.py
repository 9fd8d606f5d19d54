"""One schema a job: splitting decides neither success nor types.

The oracle is the data set of the same files.
"""

import io
import json
import tarfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shardmill.curate import (
    InterleavedParquetSource,
    Map,
    ParquetSink,
    Pipeline,
    TableSource,
    WebDatasetSource,
)

#: Pairs of values of one column in two files.
PAIRS = {
    "integer-text": ([1], ["x"]),
    "integer-float": ([1], [0.5]),
    "lists": ([[1]], [[0.5]]),
    "structs": ([{"a": 1}], [{"a": 0.5, "b": "x"}]),
    "null": ([None], [1]),
}
DOCUMENT = {"position": pa.array([0], pa.int32()), "modality": ["text"], "text_content": ["t"]}


def write(directory: Path, pair: str) -> Path:
    """Write two files, each a document of one row."""
    directory.mkdir()
    for number, values in enumerate(PAIRS[pair]):
        table = pa.table({"sample_id": [str(number)], **DOCUMENT, "v": values})
        pq.write_table(table, directory / f"{number}.parquet")
    return directory


def outcome(run: Callable[[], Any]) -> Any:
    """What a call returns, or that it fails because of the types."""
    try:
        return run()
    except sm.FormatError:
        return "refused"


def types_of_job(source: Any, out: Path) -> Any:
    """The types of the column in the files of a job, which must have written one type."""

    def run() -> pa.DataType:
        Pipeline(source=source, stages=[], sink=ParquetSink(out)).run(progress=False)
        [found] = {pq.read_schema(file).field("v").type for file in out.glob("*.parquet")}
        return found

    found = outcome(run)
    assert found != "refused" or not list(out.glob("*.parquet"))
    return found


@pytest.mark.parametrize("pair", PAIRS)
def test_table_job_has_the_types_of_the_data_set_however_it_is_split(
    pair: str, tmp_path: Path
) -> None:
    source = write(tmp_path / "in", pair)
    expected = outcome(lambda: sm.Dataset(source).schema.field("v").type)
    found = [
        types_of_job(TableSource(source, files_per_partition=count), tmp_path / f"out-{count}")
        for count in (1, 2)
    ]
    assert found == [expected, expected]


INTEGERS = st.integers(-100, 100) | st.sampled_from([2**53 - 1, 2**53 + 1])
FLOATS = st.sampled_from([0.5, -2.0, 1e300])
#: Types of a column, with values.
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-100, 100)),
    (pa.int64(), INTEGERS),
    (pa.float64(), FLOATS),
    (pa.string(), st.sampled_from(["", "x"])),
    (pa.large_string(), st.sampled_from(["", "y"])),
    (pa.null(), st.none()),
    (pa.list_(pa.int64()), st.lists(INTEGERS, max_size=2)),
    (pa.list_(pa.float64()), st.lists(FLOATS, max_size=2)),
    (pa.struct([("a", pa.int32())]), st.fixed_dictionaries({"a": st.integers(0, 9)})),
    (
        pa.struct([("b", pa.string()), ("a", pa.float64())]),
        st.fixed_dictionaries({"b": st.just("x"), "a": FLOATS}),
    ),
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of a few rows, maybe none, with some of the columns `u`, `v` and `w`."""
    rows = draw(st.integers(0, 3))
    columns = {"row": pa.array(range(rows), pa.int64())}
    for name in draw(st.sets(st.sampled_from("uvw"))):
        data_type, values = draw(st.sampled_from(COLUMNS))
        values = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(values, data_type)
    return pa.table(columns)


def contents(dataset: sm.Dataset) -> Any:
    """The types and the rows of a data set."""
    types = dict(zip(dataset.schema.names, dataset.schema.types, strict=True))
    try:
        return types, pa.table(dataset).to_pylist()
    except pa.ArrowInvalid as error:
        # The C stream carries the text of an error, and no class.
        assert "FormatError" in str(error)
        raise sm.FormatError(str(error)) from error


@settings(max_examples=examples(300, 25), deadline=None)
@given(
    files=st.lists(tables(), min_size=1, max_size=4),
    count=st.integers(1, 4),
    threads=st.integers(1, 3),
)
def test_job_gives_the_rows_and_types_of_the_data_set_however_it_is_split(
    files: list[pa.Table], count: int, threads: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("files")
    (root / "in").mkdir()
    for number, table in enumerate(files):
        pq.write_table(table, root / "in" / f"{number}.parquet")
    expected = outcome(lambda: contents(sm.Dataset(root / "in")))
    has_rows = any(len(table) for table in files)
    splits = [
        {"files_per_partition": count},
        {"partition_bytes": 1},
        {"files_per_partition": count},
    ]
    for number, options in enumerate(splits):
        out = root / f"out-{number}"

        def run(out: Path = out, number: int = number, options: Any = options) -> Any:
            checkpoint = root / "state" if number == 2 else None
            source, sink = TableSource(root / "in", **options), ParquetSink(out)
            Pipeline(source=source, sink=sink, checkpoint=checkpoint).run(
                threads=threads, progress=False
            )
            return contents(sm.Dataset(out)) if has_rows else expected

        assert outcome(run) == expected


def test_null_column_does_not_decide_the_type_that_others_have(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, values in {
        "a": pa.array([None, None], pa.int64()),
        "b": ["x"],
        "c": pa.array([], pa.bool_()),
    }.items():
        pq.write_table(pa.table({"v": values}), tmp_path / "in" / f"{name}.parquet")
    expected = {"v": pa.string()}, [{"v": None}, {"v": None}, {"v": "x"}]
    assert contents(sm.Dataset(tmp_path / "in")) == expected
    Pipeline(source=TableSource(tmp_path / "in"), sink=ParquetSink(tmp_path / "out")).run(
        progress=False
    )
    assert contents(sm.Dataset(tmp_path / "out")) == expected


@pytest.mark.parametrize(
    ("later", "problem"),
    [
        (
            {"v": [1], "w": [0]},
            "Column `w` of .*1.parquet` is int64, and the files that the checkpoint has planned",
        ),
        (
            {"v": [0.5]},
            "Column `v` of .*1.parquet` is double, and the checkpoint has planned it as int64",
        ),
        ({"v": pa.array([2], pa.int8())}, None),
        ({"row": [1]}, None),
        ({"v": [None], "row": [1]}, None),
    ],
)
def test_file_that_is_added_to_a_job_has_the_planned_types_or_is_refused(
    later: Any, problem: str | None, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    required = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("v", "row")])
    pq.write_table(pa.table({"v": [1], "row": [0]}, required), tmp_path / "in" / "0.parquet")
    sink = ParquetSink(tmp_path / "out")
    pipeline = Pipeline(
        source=TableSource(tmp_path / "in"), sink=sink, checkpoint=tmp_path / "state"
    )
    pipeline.run(progress=False)
    pq.write_table(pa.table(later), tmp_path / "in" / "1.parquet")
    if problem is None:
        pipeline.run(progress=False)
        assert sm.Dataset(tmp_path / "out").schema.types == [pa.int64(), pa.int64()]
    else:
        with pytest.raises(sm.CheckpointMismatchError, match=problem):
            pipeline.run(progress=False)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == (2 if problem is None else 1)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("0AB", "007"), ["0AB", "007"]),
        (("2024-01-01 05:00:00", "2024-01-02"), [datetime(2024, 1, 1, 5), datetime(2024, 1, 2)]),
    ],
    ids=["strings", "times"],
)
def test_csv_file_of_a_narrower_type_is_added_to_a_column(
    texts: tuple[str, str], expected: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    pipeline = Pipeline(
        source=TableSource(tmp_path / "in"),
        sink=ParquetSink(tmp_path / "out"),
        checkpoint=tmp_path / "state",
    )
    for name, text in zip("ab", texts, strict=True):
        (tmp_path / "in" / f"{name}.csv").write_text(f"v\n{text}\n")
        pipeline.run(progress=False)
    found = [row["v"] for row in pa.table(sm.Dataset(tmp_path / "out")).to_pylist()]
    assert sorted(found) == sorted(expected)


def test_extension_type_is_kept_only_if_all_files_have_it(tmp_path: Path) -> None:
    def tensors(shape: list[int]) -> pa.Array:
        values = pa.array(
            [[0.5] * shape[0] * shape[1]], pa.list_(pa.float32(), shape[0] * shape[1])
        )
        return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), shape), values)

    booleans = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1], pa.int8()))
    cases = {
        "equal": ([tensors([2, 2]), tensors([2, 2])], tensors([2, 2]).type),
        "shapes": ([tensors([2, 2]), tensors([3, 1])], pa.list_(pa.float32())),
        "plain": ([booleans, pa.array([2], pa.int8())], pa.int8()),
    }
    for name, (columns, expected) in cases.items():
        for number, order in enumerate((columns, columns[::-1])):
            source = tmp_path / f"{name}-{number}"
            source.mkdir()
            for file, column in enumerate(order):
                pq.write_table(pa.table({"v": column}), source / f"{file}.parquet")
            found = types_of_job(TableSource(source), tmp_path / f"out-{name}-{number}")
            assert found == expected, (name, number)


def test_encoding_of_mds_is_kept_only_if_all_shards_have_it(tmp_path: Path) -> None:
    for encoding, value in (("float32", 2.5), ("float64", 0.1)):
        with sm.Writer(tmp_path / encoding, format="mds", columns={"x": encoding}) as writer:
            writer.write({"x": value})
    with sm.Writer(tmp_path / "out", format="mds") as writer:
        writer.write_batch(sm.Dataset([tmp_path / "float32", tmp_path / "float64"]))
    assert [row["x"] for row in sm.Dataset(tmp_path / "out")] == [2.5, 0.1]


@pytest.mark.parametrize("pair", PAIRS)
def test_document_job_has_one_type_however_it_is_split(pair: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", pair)
    found = [
        types_of_job(
            InterleavedParquetSource(source, files_per_partition=count), tmp_path / f"out-{count}"
        )
        for count in (1, 2)
    ]
    assert found[0] == found[1] != "refused"


def write_tars(directory: Path, shards: list[list[dict[str, Any]]]) -> Path:
    """Write a tar for each list of documents."""
    directory.mkdir()
    for number, documents in enumerate(shards):
        with tarfile.open(directory / f"{number}.tar", "w") as archive:
            for index, document in enumerate(documents):
                body = json.dumps(document).encode()
                member = tarfile.TarInfo(f"{number}-{index}.json")
                member.size = len(body)
                archive.addfile(member, io.BytesIO(body))
    return directory


@pytest.mark.parametrize(
    ("pair", "expected", "cells"),
    [
        ("integer-text", pa.string(), ["1", '"x"']),
        ("integer-float", pa.float64(), [1.0, 0.5]),
        ("lists", pa.string(), ["[1]", "[0.5]"]),
        ("null", pa.int64(), [None, 1]),
    ],
)
def test_job_over_tars_has_one_type_however_it_is_split(
    pair: str, expected: pa.DataType, cells: Any, tmp_path: Path
) -> None:
    source = write_tars(tmp_path / "in", [[{"texts": [], "v": value}] for (value,) in PAIRS[pair]])
    for count in (1, 2):
        out = tmp_path / f"out-{count}"
        assert types_of_job(WebDatasetSource(source, files_per_partition=count), out) == expected
        assert [row["v"] for row in pa.table(sm.Dataset(out)).to_pylist()] == cells


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | INTEGERS
    | st.integers(-(2**65), 2**65)
    | FLOATS
    | st.sampled_from(["", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=3,
)
DOCUMENTS = st.dictionaries(st.sampled_from("uvw"), JSON_VALUES)


@settings(max_examples=examples(200, 20), deadline=None)
@given(
    shards=st.lists(st.lists(DOCUMENTS, max_size=3), min_size=1, max_size=4),
    count=st.integers(2, 4),
    threads=st.integers(1, 3),
)
def test_documents_of_tars_have_one_schema_and_none_of_their_values_is_rescued(
    shards: list[list[dict[str, Any]]],
    count: int,
    threads: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    root = tmp_path_factory.mktemp("tars")
    documents = [[{"texts": ["t"], **document} for document in documents] for documents in shards]
    source = write_tars(root / "in", documents)
    found = []
    splits = [
        {},
        {"files_per_partition": count},
        {"partition_bytes": 1 << 20},
        {"max_batch_bytes": 1},
        {},
    ]
    for number, options in enumerate(splits):
        out, checkpoint = root / f"out-{number}", root / "state" if number == 4 else None
        job = Pipeline(
            source=WebDatasetSource(source, **options), sink=ParquetSink(out), checkpoint=checkpoint
        )
        report = job.run(threads=threads, progress=False)
        assert report.rescued == {}
        [schema] = {
            pq.read_schema(file).to_string(show_field_metadata=True)
            for file in out.glob("*.parquet")
        }
        rows = [row for file in out.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
        found.append(
            (schema, sorted((row["sample_id"], row["position"], repr(row)) for row in rows))
        )
    assert all(other == found[0] for other in found)


class Work:
    """Returns its table, or fails."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def __call__(self, table: pa.Table) -> pa.Table:
        if self.fails:
            raise ValueError("stopped")
        return table


def test_job_over_tars_that_was_stopped_before_its_first_commit_takes_the_columns_of_added_files_too(  # noqa: E501
    tmp_path: Path,
) -> None:
    inputs = write_tars(tmp_path / "in", [[{"texts": ["t"], "v": None}]])

    def run(fails: bool) -> sm.curate.Report:
        stages, sink = [Map(Work(fails), name="work")], ParquetSink(tmp_path / "out")
        job = Pipeline(
            source=WebDatasetSource(inputs), stages=stages, sink=sink, checkpoint=tmp_path / "state"
        )
        return job.run(progress=False)

    with pytest.raises(sm.CurateError, match="stopped"):
        run(fails=True)
    write_tars(tmp_path / "more", [[], [{"texts": ["t"], "v": 1, "w": 0.5}]])
    (tmp_path / "more" / "1.tar").rename(inputs / "1.tar")
    assert run(fails=False).rescued == {}
    rows = pa.table(sm.Dataset(tmp_path / "out", filter=sm.col("position") == -1)).to_pylist()
    assert {row["sample_id"]: (row["v"], row["w"]) for row in rows} == {
        "0-0": (None, None),
        "1-0": (1, 0.5),
    }


@pytest.mark.parametrize("source", [TableSource, InterleavedParquetSource])
def test_job_that_was_stopped_before_its_first_commit_takes_the_columns_of_added_files_too(
    source: Any, tmp_path: Path
) -> None:
    inputs = write(tmp_path / "in", "null")
    (inputs / "0.parquet").unlink()

    def run(fails: bool) -> None:
        stages, sink = [Map(Work(fails), name="work")], ParquetSink(tmp_path / "out")
        job = Pipeline(
            source=source(inputs), stages=stages, sink=sink, checkpoint=tmp_path / "state"
        )
        job.run(progress=False)

    with pytest.raises(sm.CurateError, match="stopped"):
        run(fails=True)
    pq.write_table(pa.table({"sample_id": ["2"], **DOCUMENT, "w": [0.5]}), inputs / "2.parquet")
    run(fails=False)
    rows = {
        row["sample_id"]: (row["v"], row["w"])
        for row in pa.table(sm.Dataset(tmp_path / "out")).to_pylist()
    }
    assert rows == {"1": (1, None), "2": (None, 0.5)}


def test_file_of_another_schema_that_stays_in_a_resumed_output_is_a_warning(
    tmp_path: Path,
) -> None:
    first, second, out = tmp_path / "0.parquet", tmp_path / "1.parquet", tmp_path / "out"
    pq.write_table(pa.table({"v": [1]}), first)
    Pipeline(source=TableSource([first]), sink=ParquetSink(out)).run(progress=False)
    pq.write_table(pa.table({"v": ["x"]}), second)
    resumed = Pipeline(source=TableSource([second]), sink=ParquetSink(out, mode="resume"))
    with pytest.warns(
        UserWarning, match="another schema .*`v` is int64 .*string.*\nhint: remove it"
    ):
        report = resumed.run(progress=False)
    [kept] = {path.name for path in out.glob("*.parquet")} - {
        Path(file["path"]).name for file in report.outputs
    }
    assert pq.read_table(out / kept).to_pylist() == [{"v": 1}]


def test_file_of_the_same_schema_stays_in_a_resumed_output_without_a_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    for name in ("0", "1"):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"v": [1]}), path)
        sink = ParquetSink(tmp_path / "out", mode="resume")
        Pipeline(source=TableSource([path]), sink=sink).run(progress=False)
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 2
    assert [str(warning.message) for warning in recwarn] == []


def test_damaged_file_that_stays_in_a_resumed_output_is_left_alone(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    source, out = tmp_path / "0.parquet", tmp_path / "out"
    pq.write_table(pa.table({"v": [1]}), source)
    out.mkdir()
    (out / "other.parquet").write_bytes(b"not Parquet")
    (out / "directory.parquet").mkdir()
    sink = ParquetSink(out, mode="resume")
    report = Pipeline(source=TableSource([source]), sink=sink).run(progress=False)
    assert pq.read_table(report.outputs[0]["path"]).to_pylist() == [{"v": 1}]
    assert (out / "other.parquet").read_bytes() == b"not Parquet"
    assert [str(warning.message) for warning in recwarn] == []
