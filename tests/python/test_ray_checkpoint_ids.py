"""Ids that a repeated job could not load or compare stop the first run of a Ray Data job.

They stop it before it has written a row or a record.
"""

from __future__ import annotations

import decimal
import json
import os
import sys

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
from pyarrow.fs import LocalFileSystem
from ray.data.checkpoint import CheckpointConfig
from shardmill import errors
from shardmill.integrations.ray import checkpoint_config
from shardmill.integrations.ray_checkpoint import (
    ShardmillCheckpointFilter,
    ShardmillCheckpointManager,
)
from shardmill.integrations.ray_checkpoint import _run as run
from shardmill.integrations.ray_checkpoint._ids import IdCheck
from shardmill.resume import IdIndex

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
    )
    yield
    ray.shutdown()
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture
def context(cluster):
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.use_datasource_v2 = False
    yield context
    context.checkpoint_config = None


def write(path, values, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": values}), path, **options)
    return path


def write_lines(path, *values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": value}) + "\n" for value in values))


def identity(batch):
    return batch


def run_job(context, tmp_path, step=identity, read=ray.data.read_parquet, **options):
    context.checkpoint_config = checkpoint_config(
        id_column="id", checkpoint_path=tmp_path / "checkpoint", **options
    )
    read(str(tmp_path / "in")).map_batches(step, batch_format="pyarrow").write_parquet(
        str(tmp_path / "out")
    )


def files_in(directory):
    return (
        sorted(path for path in directory.rglob("*") if path.is_file())
        if directory.exists()
        else []
    )


def is_nothing_written(tmp_path):
    return files_in(tmp_path / "out") == [] == files_in(tmp_path / "checkpoint")


def check(tmp_path, *paths, allows_nulls=False, reads_all_rows=True):
    directory = tmp_path / "run"
    directory.mkdir(exist_ok=True)
    found = IdCheck("id", allows_nulls, LocalFileSystem(), str(directory))
    run.check_files(found, LocalFileSystem(), map(str, paths), reads_all_rows=reads_all_rows)


REFUSED = {
    "float32": pa.array([1.0, 2.0], pa.float32()),
    "float64": pa.array([1.0, float("nan")]),
    "half": pa.array([1.0, 2.0], pa.float32()).cast(pa.float16()),
    "list": pa.array([[1], [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "decimal256": pa.array([decimal.Decimal(10**50), decimal.Decimal(1)], pa.decimal256(60, 0)),
    "null": pa.nulls(2),
}
HELD = {
    "bool": pa.array([True, False]),
    "int8": pa.array([1, 2], pa.int8()),
    "uint64": pa.array([0, 2**64 - 1], pa.uint64()),
    "decimal": pa.array([decimal.Decimal("1.5"), decimal.Decimal("2.5")]),
    "string": pa.array(["a", "b"]),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "date": pa.array([1, 2], pa.date32()),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_file_whose_ids_identify_nothing_is_named_and_so_are_they_by_an_index(tmp_path, kind):
    file = write(tmp_path / "a.parquet", REFUSED[kind])

    with pytest.raises(errors.FormatError, match=r"`id`.*a\.parquet`\nhint:"):
        check(tmp_path, file)
    with pytest.raises((TypeError, ValueError)):
        index = IdIndex.build(str(file), "id", path=tmp_path / "index", progress=False)
        raise ValueError(f"{len(index)} ids of {index.info()['rows']} rows")


@pytest.mark.parametrize("kind", HELD)
def test_file_whose_ids_an_index_holds_passes(tmp_path, kind):
    file = write(tmp_path / "a.parquet", HELD[kind])
    check(tmp_path, file)
    index = IdIndex.build(str(file), "id", path=tmp_path / "index", progress=False)

    assert index.contains(HELD[kind]).to_pylist() == [True, True]


@pytest.mark.parametrize("statistics", [True, False])
def test_null_is_found_by_the_footer_or_without_one_and_its_row_is_that_of_the_file(
    tmp_path, statistics
):
    fine = write(tmp_path / "a.parquet", [1, 2, 3])
    values = [*range(25), None, *range(26, 30)]
    bad = write(tmp_path / "b.parquet", values, row_group_size=10, write_statistics=statistics)

    with pytest.raises(
        errors.FormatError, match=r"null in row 25 of `.*b\.parquet`\nhint: null_ids"
    ):
        check(tmp_path, fine, bad)
    check(tmp_path, fine, bad, allows_nulls=True)
    check(tmp_path, fine, bad, reads_all_rows=False)


def test_files_with_ids_of_two_types_are_both_named(tmp_path):
    files = [write(tmp_path / "a.parquet", [1, 2]), write(tmp_path / "b.parquet", ["1", "2"])]

    with pytest.raises(errors.IdTypeError) as caught:
        check(tmp_path, *files)

    for part in ("signed integer", "string", "a.parquet`", "b.parquet`", "hint: "):
        assert part in str(caught.value)


class Interrupted:
    """A local file system on which another task runs after each file was created.

    It runs before anything is written to the file.
    """

    def __init__(self, other):
        self.local, self.other = LocalFileSystem(), other

    def open_output_stream(self, path):
        file = self.local.open_output_stream(path)
        self.other()
        return file

    def __getattr__(self, name):
        return getattr(self.local, name)


def test_task_that_runs_while_another_records_its_type_never_sees_an_empty_place(tmp_path):
    def other():
        IdCheck("id", False, LocalFileSystem(), str(tmp_path)).check_type(
            pa.schema([("id", pa.string())]), "`b.parquet`"
        )

    with pytest.raises(
        errors.IdTypeError, match=r"integer in `a\.parquet` and string in `b\.parquet`\nhint: "
    ):
        IdCheck("id", False, Interrupted(other), str(tmp_path)).check_type(
            pa.schema([("id", pa.int64())]), "`a.parquet`"
        )


def test_widths_of_integers_and_kinds_of_strings_are_one_type(tmp_path):
    check(
        tmp_path,
        *(
            write(tmp_path / f"{type}.parquet", pa.array([1], type))
            for type in (pa.int8(), pa.int64())
        ),
    )
    (tmp_path / "texts").mkdir()
    texts = (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
    check(
        tmp_path / "texts",
        *(write(tmp_path / f"{n}.parquet", pa.array(["a"], type)) for n, type in enumerate(texts)),
    )


@pytest.mark.parametrize("is_newer_read", [False, True])
@pytest.mark.parametrize(
    ("values", "words"), [([1.0, 2.0], "double"), ([3, None], "null in row 1 of")]
)
def test_first_run_is_stopped_before_it_writes(tmp_path, context, values, words, is_newer_read):
    context.use_datasource_v2 = is_newer_read
    write(tmp_path / "in" / "a.parquet", [1, 2])
    bad = write(tmp_path / "in" / "b.parquet", values)

    with pytest.raises(errors.FormatError, match=words) as caught:
        run_job(context, tmp_path)

    assert f"`{bad}`" in str(caught.value)
    assert is_nothing_written(tmp_path)
    # Nothing of the refusal is left: with the file repaired, the same checkpoint serves.
    write(bad, [3, 4])
    for _ in range(2):
        run_job(context, tmp_path)
        assert sorted(
            row["id"]
            for file in files_in(tmp_path / "out")
            for row in pq.read_table(file).to_pylist()
        ) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ({"a": ["x"], "b": ["y", None]}, r"null in row 1 of `.*b\.jsonl`"),
        ({"a": [1, 2], "b": [0.5]}, r"double, which cannot identify a row, in `.*b\.jsonl`"),
        ({"a": [1], "b": ["x"]}, r"(?s)signed integer in `.*a\.jsonl`|string in `.*b\.jsonl`"),
        ({"a": [[1]]}, r"cannot identify a row, in `.*a\.jsonl`"),
    ],
    ids=["null", "float", "mixed", "nested"],
)
def test_file_that_has_no_footer_is_named_by_the_task_that_reads_it(
    tmp_path, context, lines, words
):
    for name, values in lines.items():
        write_lines(tmp_path / "in" / f"{name}.jsonl", *values)

    with pytest.raises(errors.FormatError, match=words):
        run_job(
            context,
            tmp_path,
            read=lambda path: ray.data.read_json(path, lines=True, override_num_blocks=8),
        )

    assert not [file for file in files_in(tmp_path / "out") if pq.read_table(file)["id"].null_count]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda ids: pc.cast(ids, pa.string()),
            r"string in a block to be written and signed integer in `.*a\.parquet`",
        ),
        (
            lambda ids: pc.cast(ids, pa.float64()),
            r"double, which cannot identify a row, in a block to be written",
        ),
        (
            lambda ids: pc.if_else(pc.equal(ids, 2), None, ids),
            r"null in row \d of a block to be written",
        ),
    ],
    ids=["type", "float", "null"],
)
def test_stage_that_spoils_ids_is_noticed_before_they_are_written(tmp_path, context, change, words):
    write(tmp_path / "in" / "a.parquet", [1, 2])

    with pytest.raises(errors.FormatError, match=words):
        run_job(context, tmp_path, lambda table: table.set_column(0, "id", change(table["id"])))

    # Ray reads two blocks; the other one may be fine.
    for file in [*files_in(tmp_path / "out"), *files_in(tmp_path / "checkpoint")]:
        assert pq.read_table(file)["id"].to_pylist() == [1]


def test_ids_of_another_type_than_those_of_the_checkpoint_are_refused_before_anything_is_read(
    tmp_path, context
):
    write(tmp_path / "in" / "a.parquet", [1, 2])
    write(tmp_path / "checkpoint" / "done.parquet", ["1"])

    with pytest.raises(
        errors.IdTypeError, match=r"signed integer in `.*a\.parquet` and string in the checkpoint"
    ):
        run_job(context, tmp_path)

    assert files_in(tmp_path / "out") == []


def test_rows_without_ids_pass_when_that_is_asked_for_and_are_done_again(tmp_path, context):
    write(tmp_path / "in" / "a.parquet", [1, None, 2])

    for times in (1, 2):
        run_job(context, tmp_path, null_ids="always_process")
        written = [
            row["id"]
            for file in files_in(tmp_path / "out")
            for row in pq.read_table(file).to_pylist()
        ]
        assert sorted(written, key=str) == [1, 2, *[None] * times]


def test_classes_of_ray_go_on_with_a_checkpoint_that_ours_have_begun_and_nothing_hidden_is_left(
    tmp_path, context
):
    write(tmp_path / "in" / "a.parquet", [1, 2])
    run_job(context, tmp_path)
    assert not [
        path for directory in ("checkpoint", "out") for path in (tmp_path / directory).rglob(".*")
    ]
    write(tmp_path / "in" / "b.parquet", [3])
    # As a driver that was killed leaves it.
    (tmp_path / "checkpoint" / f".shardmill-{'0' * 32}.run").mkdir()
    (tmp_path / "checkpoint" / f".shardmill-{'0' * 32}.run" / "string.id_type").write_text("`x`")

    path = str(tmp_path / "checkpoint")
    context.checkpoint_config = CheckpointConfig(
        id_column="id", checkpoint_path=path, delete_checkpoint_on_success=False
    )
    ray.data.read_parquet(str(tmp_path / "in")).write_parquet(str(tmp_path / "out"))
    run_job(context, tmp_path)

    written = [
        row["id"] for file in files_in(tmp_path / "out") for row in pq.read_table(file).to_pylist()
    ]
    assert sorted(written) == [1, 2, 3]


def test_classes_in_a_plain_config_check_too(tmp_path, context):
    write(tmp_path / "in" / "a.parquet", [1.5])
    context.checkpoint_config = CheckpointConfig(
        id_column="id",
        checkpoint_path=str(tmp_path / "checkpoint"),
        checkpoint_filter_cls=ShardmillCheckpointFilter,
        checkpoint_manager_cls=ShardmillCheckpointManager,
    )

    with pytest.raises(errors.IdTypeError, match=r"a\.parquet"):
        ray.data.read_parquet(str(tmp_path / "in")).write_parquet(str(tmp_path / "out"))


def test_driver_checks_each_input_file_once_in_a_first_and_in_a_resumed_job(
    tmp_path, context, monkeypatch
):
    files = [str(write(tmp_path / "in" / f"{number}.parquet", [number])) for number in range(3)]
    checked, check_files = [], run.check_files

    def counted(check, filesystem, paths, **options):
        checked.extend(paths)
        check_files(check, filesystem, paths, **options)

    monkeypatch.setattr(run, "check_files", counted)

    run_job(context, tmp_path)
    assert sorted(checked) == files
    checked.clear()
    run_job(context, tmp_path)
    assert sorted(checked) == files
