"""Passes over text files and tars as tasks elsewhere give the plan that a job makes by itself."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from breadth import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shard_files import write_tar
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.curate._spec import native_pipeline
from shardmill.errors import CurateError, FormatError

#: Larger than the sample of a file.
LONG = 1 << 20


def job(path: Path, **options: Any) -> Pipeline:
    return Pipeline(source=TableSource(path / "in", **options), sink=ParquetSink(path / "out"))


def passed(pipeline: Pipeline) -> Any:
    """A native pipeline with passes that another one made; what they exchange is pickled."""
    planner = native_pipeline(pipeline, may_replace=True)
    if (passes := planner.passes(None, 2)) is not None:
        sent = pickle.loads(pickle.dumps({**passes, "paths": []}))
        worker = native_pipeline(pipeline, may_replace=True)
        found = [worker.pass_over(sent, path) for path in passes["paths"]]
        planner.add_passed(passes, pickle.loads(pickle.dumps(found)))
        assert planner.passes(None, 2) is None
    return planner


def plan_of(planner: Any) -> tuple[Any, ...]:
    splits, left_out = planner.splits(2)
    return planner.schema(), [pickle.dumps(split) for split in splits], left_out


def outcome(plan: Callable[[], Any]) -> Any:
    try:
        return plan()
    except (FormatError, CurateError) as error:
        return type(error), str(error)


def late_csv(directory: Path) -> None:
    rows = "1,,a\n" * (LONG // 5)
    (directory / "a.csv").write_text("n,later,s\n" + rows + "0.5,2024-01-01,b\n")
    (directory / "b.csv").write_text("n,s\n7,c\n")


def late_jsonl(directory: Path) -> None:
    line = json.dumps({"n": 1, "more": None, "of": {"x": 1}}) + "\n"
    last = json.dumps({"n": 2**63, "more": [0.5], "of": {"x": 1, "y": "z"}, "new": True})
    (directory / "a.jsonl").write_text(line * (LONG // len(line) + 1) + last + "\n")
    (directory / "b.jsonl").write_text(json.dumps({"n": 1.5, "new": None}) + "\n")


def tars(directory: Path) -> None:
    write_tar(directory / "a.tar", [("1.txt", b"a"), ("1.cls", b"1"), ("2.txt", b"b")])
    write_tar(directory / "b.tar", [("3.json", b"{}"), ("3.txt", b"c")])
    write_tar(directory / "c.tar", [])


@pytest.mark.parametrize("write", [late_csv, late_jsonl, tars])
@pytest.mark.parametrize("options", [{}, {"files_per_partition": 1}, {"partition_bytes": 4096}])
def test_passes_give_the_columns_and_splits_of_a_local_plan(
    tmp_path: Path, write: Callable[[Path], None], options: dict[str, Any]
) -> None:
    (tmp_path / "in").mkdir()
    write(tmp_path / "in")
    pipeline = job(tmp_path, **options)
    wanted = plan_of(native_pipeline(pipeline, may_replace=True))
    planner = passed(pipeline)
    for file in (tmp_path / "in").iterdir():
        # The planner does not open the files again.
        known = file.stat()
        file.write_bytes(bytes(known.st_size))
        os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))
    assert plan_of(planner) == wanted


def test_columns_that_the_user_declares_need_no_pass(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    late_csv(tmp_path / "in")
    schema = pa.schema({"n": pa.float64(), "later": pa.date32(), "s": pa.string()})
    planner = native_pipeline(job(tmp_path, schema=schema), may_replace=True)
    assert planner.passes(None, 2) is None


def test_parquet_files_need_no_pass(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "in/a.parquet")
    assert native_pipeline(job(tmp_path), may_replace=True).passes(None, 2) is None


values = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text("ab")
nested = values | st.lists(values, max_size=2) | st.fixed_dictionaries({}, optional={"z": values})
rows = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys("abc", nested)), max_size=3)


@settings(max_examples=examples(50), deadline=None)
@example(files=[([{}], [{"a": None}])])
@given(files=st.lists(st.tuples(rows, rows), min_size=1, max_size=3))
def test_random_late_types_are_those_of_a_local_plan(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[list[Any], list[Any]]]
) -> None:
    path = tmp_path_factory.mktemp("job")
    (path / "in").mkdir()
    for number, (early, late) in enumerate(files):
        # White space after the first rows ends the sample there.
        lines = (
            [json.dumps(row) for row in early] + [" " * LONG] + [json.dumps(row) for row in late]
        )
        (path / f"in/{number}.jsonl").write_text("\n".join(lines))
    pipeline = job(path)
    wanted = outcome(lambda: plan_of(native_pipeline(pipeline, may_replace=True)))
    assert outcome(lambda: plan_of(passed(pipeline))) == wanted
