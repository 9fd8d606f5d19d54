"""One schema a job: splitting decides neither success nor types. The oracle is the data set of the same files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.curate import InterleavedParquetSource, ParquetSink, Pipeline, TableSource

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


@pytest.mark.xfail(reason="each split of a table job decides its types", strict=True)
@pytest.mark.parametrize("pair", PAIRS)
def test_table_job_has_the_types_of_the_data_set_however_it_is_split(pair: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", pair)
    expected = outcome(lambda: sm.Dataset(source).schema.field("v").type)
    found = [
        types_of_job(TableSource(source, files_per_partition=count), tmp_path / f"out-{count}") for count in (1, 2)
    ]
    assert found == [expected, expected]


@pytest.mark.xfail(reason="each split of a document job decides its types", strict=True)
@pytest.mark.parametrize("pair", PAIRS)
def test_document_job_has_one_type_however_it_is_split(pair: str, tmp_path: Path) -> None:
    source = write(tmp_path / "in", pair)
    found = [
        types_of_job(InterleavedParquetSource(source, files_per_partition=count), tmp_path / f"out-{count}")
        for count in (1, 2)
    ]
    assert found[0] == found[1] != "refused"
