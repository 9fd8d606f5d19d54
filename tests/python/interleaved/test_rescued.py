"""Values of documents that the schema of their job cannot hold: the column `rescued`."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shard_builders import (
    RESCUED,
    Outcome,
    curate,
    document,
    from_parquet,
    from_tar,
    image,
    write_parquet,
    write_tar,
)
from shardmill.curate import Filter, Map, ParquetSink, Pipeline, SampleKeys, WebDatasetSink

PNG = image("PNG")


@pytest.fixture
def grow(tmp_path: Path) -> Any:
    """Runs a job over its first inputs and again after others were added.

    Returns what the second run wrote.
    """

    def run(
        first: Any,
        second: Any,
        write: Any,
        source: Any,
        *,
        sink: Any = ParquetSink,
        stages: Any = (),
    ) -> Outcome:
        directory, target = tmp_path / "in", tmp_path / "out"
        job = Pipeline(
            source=source(directory),
            stages=list(stages),
            sink=sink(target),
            checkpoint=tmp_path / "state",
        )
        write(directory / "0", first)
        job.run(progress=False)
        write(directory / "1", second)
        return Outcome(job.run(progress=False), target)

    return run


def shard(path: Path, samples: Any) -> None:
    members = [(f"{path.name}-{number}.json", sample) for number, sample in enumerate(samples)]
    write_tar(path.with_suffix(".tar"), [*members, ("a.png", PNG), ("b.png", PNG), ("c.png", PNG)])


def rows(path: Path, table: Any) -> None:
    write_parquet(path.with_suffix(".parquet"), table)


FIRST = {"texts": ["t"], "n": 1, "s": "x", "f": 0.5}


def test_later_shard_keeps_the_schema_and_its_other_values_are_rescued_with_their_digits(
    grow: Any,
) -> None:
    late = (
        '{"texts": ["t"], "n": 1.50, "s": null, "f": 9007199254740993, '
        '"new": {"a": [1]}, "rescued": 7, "none": null}'
    )
    outcome = grow([FIRST], [late, {**FIRST, "n": 2}], shard, from_tar)
    first, second = (pq.read_schema(file) for file in sorted(outcome.directory.glob("*.parquet")))
    assert first.equals(second, check_metadata=True)
    assert first.field(-1).equals(RESCUED, check_metadata=True)
    assert (outcome.column("n", "metadata"), outcome.column("f", "metadata")) == (
        [None, 2],
        [None, 0.5],
    )
    text = '{"n": 1.50, "f": 9007199254740993, "new": {"a": [1]}, "rescued": 7}'
    assert outcome.column("rescued") == [text, None, None, None]
    assert outcome.report.rescued == {"n": 1, "f": 1, "new": 1, "rescued": 1}
    assert "rescued: new (1 value)" in str(outcome.report)
    assert outcome.report.to_dict()["rescued"] == outcome.report.rescued


def test_tar_gets_each_rescued_value_back_under_its_key(grow: Any) -> None:
    late = {"texts": ["t"], "n": "odd", "s": "x", "f": [1, None], "new": {"a": 1}, "rescued": 7}
    outcome = grow([FIRST], [late], shard, from_tar, sink=WebDatasetSink)
    (found,) = outcome.samples
    assert found == {"sample_id": "1-0", "images": [None], **late}
    assert outcome.report.rescued == {"n": 1, "f": 1, "new": 1, "rescued": 1}


PER_IMAGE = {"per_image_fields": ("meta",), "per_text_fields": ("lang",)}


def images(meta: Any, lang: Any) -> dict[str, Any]:
    return {
        "texts": [None, "t", None, None],
        "images": ["a.png", None, "b.png", "c.png"],
        "meta": meta,
        "lang": lang,
    }


def test_value_of_an_image_is_rescued_in_its_row_and_returns_to_its_place(
    grow: Any, out: Any
) -> None:
    source = lambda path: from_tar(path, **PER_IMAGE)  # noqa: E731
    outcome = grow([images([1, 2, 3], ["de"])], [images([4, "five", 6], [8])], shard, source)
    assert outcome.column("meta", "image") == [4, None, 6]
    assert outcome.column("rescued", "image") == [None, '{"meta": "five"}', None]
    assert outcome.column("rescued", "text") == ['{"lang": 8}']
    again = curate(from_parquet(outcome.directory), to=out(), sink="webdataset")
    lists = {found["sample_id"]: (found["meta"], found["lang"]) for found in again.samples}
    assert lists == {"0-0": ([1, 2, 3], ["de"]), "1-0": ([4, "five", 6], [8])}
    assert again.report.rescued == {}


@pytest.mark.parametrize(
    ("first", "second", "cells", "rescued"),
    [
        (pa.array([1]), pa.array([0.5]), [None], ['{"v": 0.5}']),
        (pa.array([1]), pa.array([2.0]), [2], [None]),
        (pa.array([1], pa.int8()), pa.array([300]), [None], ['{"v": 300}']),
        (pa.array([0.5]), pa.array([(1 << 53) + 1]), [None], ['{"v": 9007199254740993}']),
        (pa.array([1]), pa.array(["7"]), [None], ['{"v": "7"}']),
        (pa.array(["x"]), pa.array([b"\1"]), [None], ['{"v": "AQ=="}']),
        (pa.array([1]), pa.array([None], pa.string()), [None], [None]),
        (pa.array([1]), pa.array([2], pa.int8()), [2], [None]),
        (pa.array([[1]]), pa.array([[0.5]]), [None], ['{"v": [0.5]}']),
        (
            pa.array([{"a": 1}]),
            pa.array([{"a": 1, "b": "x"}]),
            [None],
            ['{"v": {"a": 1, "b": "x"}}'],
        ),
    ],
)
def test_later_file_is_narrowed_to_the_planned_type_or_rescued(
    grow: Any, first: Any, second: Any, cells: Any, rescued: Any
) -> None:
    def with_value(values: Any, key: str) -> pa.Table:
        columns = {"sample_id": [key], "position": pa.array([0], pa.int32()), "modality": ["text"]}
        return pa.table({**columns, "text_content": ["t"], "v": values})

    outcome = grow(with_value(first, "a"), with_value(second, "b"), rows, from_parquet)
    assert (outcome.column("v"), outcome.column("rescued")) == (cells, rescued)
    assert outcome.schema.field("v").type == first.type
    assert outcome.report.rescued == ({} if rescued == [None] else {"v": 1})


def test_new_column_of_a_later_file_is_rescued_and_a_missing_one_is_null(grow: Any) -> None:
    def with_columns(key: str, **columns: Any) -> pa.Table:
        marks = {"sample_id": [key], "position": pa.array([0], pa.int32()), "modality": ["text"]}
        return pa.table({**marks, "text_content": ["t"], **columns})

    later = with_columns("b", new=[[1]], rescued=[5])
    outcome = grow(with_columns("a", v=[1]), later, rows, from_parquet)
    assert (outcome.column("v"), outcome.column("rescued")) == (
        [None],
        ['{"new": [1], "rescued": 5}'],
    )
    assert outcome.report.rescued == {"new": 1, "rescued": 1}


@pytest.mark.parametrize("kind", ["schema", "schema_overrides"])
@pytest.mark.parametrize("place", ["source", "sink"])
def test_value_that_a_declared_type_does_not_hold_is_an_error(
    grow: Any, kind: str, place: str
) -> None:
    names = ["sample_id", "position", "modality"]
    columns = [
        pa.field(name, pa.int32() if name == "position" else pa.string(), nullable=False)
        for name in names
    ]
    declared = {kind: pa.schema([*(columns if kind == "schema" else ()), ("n", pa.int64())])}
    source = lambda path: from_tar(path, **(declared if place == "source" else {}))  # noqa: E731
    sink = lambda path: ParquetSink(path, **(declared if place == "sink" else {}))  # noqa: E731
    with pytest.raises(sm.FormatError, match="`n`"):
        grow([FIRST], [{**FIRST, "n": "odd"}], shard, source, sink=sink)


def test_declared_text_takes_numbers_of_each_shard_alike(grow: Any) -> None:
    source = lambda path: from_tar(path, schema_overrides={"n": pa.string()})  # noqa: E731
    outcome = grow([FIRST], [{"n": "odd"}, {"n": 2.50}, {"n": [1]}], shard, source)
    assert outcome.column("n", "metadata") == ["odd", "2.5", "[1]"]
    assert outcome.report.rescued == {}


def test_function_sees_the_column_and_may_change_it(grow: Any) -> None:
    seen: list[Any] = []

    def keep(table: pa.Table) -> pa.Table:
        seen.append(table.column("rescued").to_pylist())
        return pa.table({name: table.column(name) for name in reversed(table.schema.names)})

    outcome = grow([FIRST], [{**FIRST, "new": 1}], shard, from_tar, stages=[Map(keep)])
    assert seen[1] == ['{"new": 1}', None]
    assert outcome.schema.names[-1] == "rescued"
    assert outcome.schema.field("rescued").equals(RESCUED, check_metadata=True)
    assert outcome.column("rescued") == ['{"new": 1}', None]


def test_filter_selects_documents_by_it(grow: Any) -> None:
    complete = Filter(sm.col("rescued").is_null())
    outcome = grow([FIRST], [{**FIRST, "new": 1}, FIRST], shard, from_tar, stages=[complete])
    assert outcome.column("sample_id", "metadata") == ["1-1"]


def test_key_with_the_name_of_the_column_is_not_a_field(run_tar: Any) -> None:
    with pytest.raises(ValueError, match="`fields` names reserved keys: rescued"):
        run_tar({"a.json": {}}, source={"fields": ("rescued",)})
    outcome = run_tar({"a.json": {"rescued": "own"}}, sink="webdataset")
    assert outcome.samples[0]["rescued"] == "own"


def test_selected_fields_are_the_only_ones_that_are_rescued(grow: Any, out: Any) -> None:
    outcome = grow(
        [FIRST],
        [{**FIRST, "n": "odd", "new": 1}],
        shard,
        lambda path: from_tar(path, fields=("n",)),
    )
    assert outcome.column("rescued", "metadata") == ['{"n": "odd"}']
    late = document("b", n=None, rescued='{"n": "odd", "new": 1}')
    table = pa.Table.from_pylist(late, schema=pa.schema([*outcome.schema]))
    path = write_parquet(out() / "late.parquet", table)
    assert curate(from_parquet(path, fields=("n",)), to=out()).column("rescued") == ['{"n": "odd"}']
    assert curate(from_parquet(path), to=out()).column("rescued") == ['{"n": "odd", "new": 1}']


def test_dropped_column_of_rescued_values_is_counted(grow: Any) -> None:
    columns = pa.schema(
        [("sample_id", pa.string()), ("position", pa.int32()), ("modality", pa.string())]
    )
    outcome = grow(
        [FIRST],
        [{**FIRST, "new": 1}],
        shard,
        from_tar,
        sink=lambda path: ParquetSink(path, schema=columns),
    )
    assert outcome.schema.names == columns.names
    assert outcome.report.keys_dropped["column `rescued` is not in the schema"] == 1


def test_large_job_decides_by_the_first_documents_of_distant_shards(
    tmp_path: Path, out: Any
) -> None:
    """66 shards with more than 64 MiB of JSON: the sample has one document of each of 64 shards."""
    text = "x" * (1_100_000)
    for number in range(66):
        late: dict[str, Any] = {"texts": ["t"], "c": number, "id": f"late-{number}"}
        late |= {3: {"c": "odd"}, 4: {"new": [1.50]}, 65: {"named": 2}}.get(number, {})
        samples = [{"texts": [text], "c": number, "id": f"{number}"}, late]
        write_tar(
            tmp_path / "in" / f"{number:02}.tar",
            [(f"{at}.json", sample) for at, sample in enumerate(samples)],
        )
    source = from_tar(tmp_path / "in", keys=SampleKeys(sample_id_field="id"))
    named = Filter(sm.col("named").is_null() | (sm.col("named") == 2))
    outcome = curate(source, [named], to=out(), workers=2)
    types = {name: dict(outcome.report.params["schema"])[name] for name in ("c", "named")}
    assert types == {"c": "int64", "named": "int64"}
    assert len({pq.read_schema(file).to_string() for file in outcome.files}) == 1
    assert outcome.report.rescued == {"c": 1, "new": 1}
    late = {
        row["sample_id"]: row
        for row in outcome.rows
        if row["position"] == -1 and row["sample_id"][0] == "l"
    }
    assert (late["late-3"]["c"], late["late-3"]["rescued"]) == (None, '{"c": "odd"}')
    assert (late["late-4"]["c"], late["late-4"]["rescued"]) == (4, '{"new": [1.5]}')
    assert late["late-65"]["named"] == 2
    tars = curate(source, to=out(), sink="webdataset")
    found = {sample["sample_id"]: sample for sample in tars.samples}
    assert (found["late-3"]["c"], found["late-4"]["new"]) == ("odd", [1.5])
