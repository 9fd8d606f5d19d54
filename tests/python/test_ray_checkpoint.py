"""Our checkpoint in Ray Data leaves the rows that Python and Ray's own classes leave.

A crash loses and repeats nothing.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import uuid

import pytest

pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
import ray
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from ray.data.checkpoint import CheckpointConfig
from ray.data.checkpoint.interfaces import InvalidCheckpointingConfig
from shardmill import errors
from shardmill.integrations.ray import checkpoint_config
from shardmill.integrations.ray_checkpoint import (
    ShardmillCheckpointFilter,
    ShardmillCheckpointManager,
)
from shardmill.integrations.ray_checkpoint import _recovery as recovery
from shardmill.integrations.ray_checkpoint._index_file import _mapped

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

# A write of Ray: of which data set, which execution, which task.
BASE = "0351fd0E7dx3HxX8cQrE5v_a77a431a434c481aa67606895dd0f554_"


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    # Workers inherit it: no test may find an index that another run has built.
    cache = tmp_path_factory.mktemp("cache")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(cache)
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="error",
        log_to_driver=False,
    )
    yield cache
    ray.shutdown()
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(autouse=True)
def context():
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    # The other way of reading starts eight actors for the footers, which is most of the time of a
    # small job.
    context.use_datasource_v2 = False
    yield context
    context.checkpoint_config = None


class Identity:
    def __call__(self, batch):
        return batch


def write(directory, values, name="part.parquet", files=1, **columns):
    directory.mkdir(parents=True, exist_ok=True)
    table = pa.table({"id": values, **columns})
    for number in range(files):
        part = table.slice(
            number * len(table) // files,
            (number + 1) * len(table) // files - number * len(table) // files,
        )
        pq.write_table(part, directory / (name if files == 1 else f"{number}.parquet"))
    return directory


def ids_in(directory):
    return sorted(
        value
        for path in directory.rglob("*.parquet")
        if directory.exists()
        for value in pq.read_table(path)["id"].to_pylist()
    )


def run_job(source, out, config, step=Identity):
    ray.data.DataContext.get_current().checkpoint_config = config
    ray.data.read_parquet(str(source)).map_batches(step, batch_size=4).write_parquet(str(out))
    return ids_in(out)


def loaded(config, data_directory=None):
    manager = ShardmillCheckpointManager(
        checkpoint_config=config, data_context=ray.data.DataContext.get_current().copy()
    )
    return manager.load_checkpoint(data_directory and str(data_directory), None)


def filter_of(tmp_path, done, **options):
    checkpoint = write(tmp_path / "checkpoint", done, "done.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint, **options)
    return ShardmillCheckpointFilter(config, loaded(config)[0])


@pytest.mark.slow
def test_job_on_two_cpus_does_what_is_left_and_a_repeated_one_nothing(tmp_path):
    source = write(tmp_path / "in", [str(number) for number in range(10)], files=2)
    checkpoint = write(tmp_path / "checkpoint", ["1", "3", "7"], "done.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)

    left = run_job(source, tmp_path / "out", config)
    files = sorted((tmp_path / "out").iterdir())
    again = run_job(source, tmp_path / "out", config)

    assert left == ["0", "2", "4", "5", "6", "8", "9"]
    assert again == left
    assert sorted((tmp_path / "out").iterdir()) == files
    assert ids_in(checkpoint) == [str(number) for number in range(10)]


@pytest.mark.slow
def test_files_that_are_listed_by_tasks_are_filtered_too(tmp_path, context):
    context.use_datasource_v2 = True
    source = write(tmp_path / "in", [1, 2, 3, 4])
    checkpoint = write(tmp_path / "checkpoint", [2, 3], "done.parquet")

    assert run_job(
        source, tmp_path / "out", checkpoint_config(id_column="id", checkpoint_path=checkpoint)
    ) == [1, 4]


def test_rows_are_those_of_the_default_classes(tmp_path):
    values = [f"{number * 7919 % 5000}" for number in range(2000)]
    source = write(tmp_path / "in", values, files=3, wide=[b"x" * 100] * 2000)
    results = []
    for name, make in (("ours", checkpoint_config), ("default", CheckpointConfig)):
        checkpoint = write(tmp_path / name / "checkpoint", values[::3], "done.parquet")
        config = make(
            id_column="id", checkpoint_path=str(checkpoint), delete_checkpoint_on_success=False
        )
        # A function, because the default has no CPU left to read with if there is another
        # pool of actors.
        results.append(run_job(source, tmp_path / name / "out", config, step=lambda batch: batch))

    assert results[0] == results[1]
    assert results[0] == sorted(set(values) - set(values[::3]))


@pytest.mark.slow
def test_union_of_reads_is_filtered_on_both_sides_and_the_checkpoint_goes_when_asked(
    tmp_path, context
):
    first, second = write(tmp_path / "a", [1, 2, 3]), write(tmp_path / "b", [4, 5, 6])
    checkpoint = write(tmp_path / "checkpoint", [2, 5], "done.parquet")
    context.checkpoint_config = checkpoint_config(
        id_column="id", checkpoint_path=checkpoint, delete_checkpoint_on_success=True
    )

    ray.data.read_parquet(str(first)).union(ray.data.read_parquet(str(second))).write_parquet(
        str(tmp_path / "out")
    )

    assert ids_in(tmp_path / "out") == [1, 3, 4, 6]
    assert not checkpoint.exists()


@pytest.mark.slow
def test_actors_filter_when_read_tasks_must_not_and_classes_work_in_a_plain_config(
    tmp_path, context
):
    source = write(tmp_path / "in", [1, 2, 3, 4])
    checkpoint = write(tmp_path / "checkpoint", [2, 3], "done.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint, in_read_tasks=False)
    assert run_job(source, tmp_path / "out", config, step=lambda batch: batch) == [1, 4]

    write(tmp_path / "in", [5, 6], "more.parquet")
    context.checkpoint_config = {
        "id_column": "id",
        "checkpoint_path": str(checkpoint),
        "checkpoint_filter_cls": ShardmillCheckpointFilter,
        "checkpoint_manager_cls": ShardmillCheckpointManager,
        "delete_checkpoint_on_success": False,
    }
    assert run_job(source, tmp_path / "out", context.checkpoint_config) == [1, 4, 5, 6]


def test_error_of_a_read_task_reaches_the_driver_as_what_it_is(tmp_path, context):
    (tmp_path / "part.jsonl").write_text('{"id": "x"}\n{"id": null}\n')
    checkpoint = write(tmp_path / "checkpoint", ["x"], "done.parquet")
    context.checkpoint_config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)

    with pytest.raises(errors.FormatError, match=r"null in row 1 of `.*part.jsonl`(.|\n)*hint"):
        ray.data.read_json(str(tmp_path / "part.jsonl"), lines=True).write_parquet(
            str(tmp_path / "out")
        )


def test_counts_and_schemas_do_not_see_the_checkpoint(tmp_path, context):
    source = write(tmp_path / "in", [1, 2, 3, 4])
    checkpoint = write(tmp_path / "checkpoint", [2, 3], "done.parquet")
    context.checkpoint_config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)

    data = ray.data.read_parquet(str(source))

    assert data.count() == 4
    assert data.schema().names == ["id"]


def test_config_keeps_the_checkpoint_and_reserves_no_gigabytes(tmp_path):
    config = checkpoint_config(id_column="id", checkpoint_path=tmp_path / "checkpoint")
    assert isinstance(config, CheckpointConfig)
    assert config.checkpoint_actor_memory_bytes <= 64 << 20
    assert config.delete_checkpoint_on_success is False
    write(tmp_path / "checkpoint", [str(number) for number in range(100_000)], "done.parquet")

    reference, size = loaded(config)

    assert size < 10_000
    assert len(ray.cloudpickle.dumps(ray.get(reference))) < 10_000


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"null_ids": "drop"}, errors.OptionError),
        ({"memory_bytes": 0}, errors.OptionError),
        ({"id_column": ""}, InvalidCheckpointingConfig),
        ({"checkpoint_path": "relative"}, InvalidCheckpointingConfig),
        ({"checkpoint_filter_cls": object}, InvalidCheckpointingConfig),
    ],
)
def test_wrong_option_is_refused_at_construction(options, error):
    with pytest.raises(error):
        checkpoint_config(**{"id_column": "id", "checkpoint_path": "/checkpoint", **options})


def test_unknown_option_is_refused_and_the_right_one_named():
    with pytest.raises(
        TypeError,
        match=r"^checkpoint_config\(\) got .* 'num_threads'\n"
        r"hint: did you mean 'write_num_threads'",
    ):
        checkpoint_config(id_column="id", checkpoint_path="/checkpoint", num_threads=3)


def test_memory_may_be_text(tmp_path):
    config = checkpoint_config(
        id_column="id", checkpoint_path=tmp_path, memory_bytes="64MiB", write_num_threads=2
    )
    assert config.memory_bytes == 64 << 20


def test_dict_form_refuses_unknown_options(context):
    with pytest.raises(TypeError, match="nothing"):
        context.checkpoint_config = {
            "id_column": "id",
            "checkpoint_path": "/checkpoint",
            "nothing": 1,
        }


def test_executor_of_pipelines_does_not_import_ray_data():
    code = "import sys, shardmill.integrations._ray_tasks; sys.exit('ray.data' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_planned_without_committed_files(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)
    assert loaded(config) == (None, 0)
    checkpoint.mkdir()
    assert loaded(config) == (None, 0)
    (checkpoint / "notes.txt").write_text("a foreign file")
    write(checkpoint, ["1"], f"{BASE}000000.pending.parquet")
    assert loaded(config) == (None, 0)


def test_partition_filter_chooses_among_the_files(tmp_path):
    from ray.data.datasource import PartitionStyle, PathPartitionFilter

    write(tmp_path / "checkpoint" / "day=1", [1], "done.parquet")
    write(tmp_path / "checkpoint" / "day=2", [2], "done.parquet")
    chosen = PathPartitionFilter.of(
        lambda values: values["day"] == "2",
        PartitionStyle.HIVE,
        base_dir=str(tmp_path / "checkpoint"),
    )
    config = checkpoint_config(
        id_column="id",
        checkpoint_path=tmp_path / "checkpoint",
        checkpoint_path_partition_filter=chosen,
    )

    left = ShardmillCheckpointFilter(config, loaded(config)[0]).filter_rows_for_block(
        pa.table({"id": [1, 2, 3]})
    )

    assert left["id"].to_pylist() == [1, 3]


def test_checkpoint_in_another_file_system_is_read_through_it(tmp_path):
    write(tmp_path / "checkpoint", ["1"], "a.parquet")
    write(tmp_path / "checkpoint", ["3"], "b.parquet")
    config = checkpoint_config(
        id_column="id",
        checkpoint_path="checkpoint",
        override_filesystem=SubTreeFileSystem(str(tmp_path), LocalFileSystem()),
    )

    left = ShardmillCheckpointFilter(config, loaded(config)[0]).filter_rows_for_block(
        pa.table({"id": ["1", "2", "3", "03"]})
    )

    assert left["id"].to_pylist() == ["2", "03"]


def test_index_of_a_grown_checkpoint_takes_the_place_of_the_old_one(tmp_path, cluster):
    checkpoint = write(tmp_path / "checkpoint", [1], "a.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)
    before = set(cluster.rglob("*.ids"))
    loaded(config)
    (first,) = set(cluster.rglob("*.ids")) - before
    write(checkpoint, [2], "b.parquet")

    grown = ShardmillCheckpointFilter(config, loaded(config)[0])

    assert not first.exists()
    assert len(set(cluster.rglob("*.ids")) - before) == 1
    assert grown.filter_rows_for_block(pa.table({"id": [1, 2, 3]}))["id"].to_pylist() == [3]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "cut", "foreign"])
def test_node_without_a_sound_index_builds_it(tmp_path, cluster, damage):
    checkpoint = write(tmp_path / "checkpoint", [1, 2], "a.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)
    before = set(cluster.rglob("*.ids"))
    reference, _size = loaded(config)
    (index,) = set(cluster.rglob("*.ids")) - before
    content = index.read_bytes()
    index.unlink()
    if damage != "missing":
        index.write_bytes(content[: len(content) // 2] if damage == "cut" else b"something else")
    _mapped.clear()

    left = ShardmillCheckpointFilter(config, reference).filter_rows_for_block(
        pa.table({"id": [1, 2, 3]})
    )

    assert left["id"].to_pylist() == [3]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([str(number) for number in range(20)]),
        pa.array([f"document {number} of a long name" for number in range(20)], pa.large_string()),
        pa.array([str(uuid.UUID(int=number)) for number in range(20)]),
        pa.array(range(-10, 10), pa.int64()),
        pa.array(range(2**64 - 20, 2**64), pa.uint64()),
        pa.array([str(number % 5) for number in range(20)]).dictionary_encode(),
        pa.array([bytes([number]) * 16 for number in range(20)], pa.binary(16)),
    ],
    ids=["decimal", "long", "uuid", "int64", "uint64", "dictionary", "fixed"],
)
def test_rows_left_are_those_that_python_leaves(tmp_path, values):
    done = set(values.to_pylist()[3:11])
    table = pa.table({"id": values, "row": range(20)})

    left = filter_of(tmp_path, values[3:11]).filter_rows_for_block(table)

    assert left.schema == table.schema
    assert left.to_pylist() == [row for row in table.to_pylist() if row["id"] not in done]


def test_null_beside_large_integers_changes_none_of_them(tmp_path):
    block = pa.table({"id": [2**60, None, 2**60 + 1, 2**60 + 2]})

    left = filter_of(tmp_path, [2**60, 2**60 + 2], null_ids="always_process").filter_rows_for_block(
        block
    )

    assert left["id"].to_pylist() == [None, 2**60 + 1]


def test_null_is_an_error_that_names_column_and_row_by_default(tmp_path):
    with pytest.raises(errors.FormatError, match=r"`id` is null in row 1 of a block"):
        filter_of(tmp_path, [1]).filter_rows_for_block(pa.table({"id": pa.array([1, None])}))


def test_ids_of_another_type_are_an_error_that_names_both(tmp_path):
    with pytest.raises(TypeError, match="integer.*string"):
        filter_of(tmp_path, ["1", "2"]).filter_rows_for_block(pa.table({"id": [1, 2]}))


def test_block_without_the_column_is_an_error_that_names_it(tmp_path):
    with pytest.raises(errors.MissingColumnError, match="`id`.*`name`"):
        filter_of(tmp_path, [1]).filter_rows_for_block(pa.table({"name": ["x"]}))


def test_blocks_of_which_nothing_is_done_are_not_copied(tmp_path):
    done = filter_of(tmp_path, [1, 2])
    untouched, empty = pa.table({"id": [3, 4]}), pa.table({"id": pa.array([], pa.int64())})
    assert done.filter_rows_for_block(untouched) is untouched
    assert done.filter_rows_for_block(empty).num_rows == 0
    assert done.filter_rows_for_block(pa.table({"id": [1, 2]})).num_rows == 0


def test_wide_block_of_pandas_keeps_its_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"id": ["a", "b", "c"], **{f"column{number}": [1.5, 2.5, 3.5] for number in range(60)}}
    )

    left = filter_of(tmp_path, ["b"]).filter_rows_for_block(frame)

    assert left["id"].to_pylist() == ["a", "c"]
    assert left.num_columns == 61
    assert left["column59"].to_pylist() == [1.5, 3.5]


def recovered(tmp_path, records, files):
    """What is left of these records and files of rows."""
    for name in records:
        write(tmp_path / "checkpoint", [name], name)
    for name in files:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_bytes(b"rows")
    filesystem = LocalFileSystem()
    recovery.undo_uncommitted(
        filesystem, str(tmp_path / "checkpoint"), filesystem, str(tmp_path / "out")
    )
    out = tmp_path / "out"
    return (
        sorted(path.name for path in (tmp_path / "checkpoint").iterdir()),
        sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()),
    )


def test_rows_of_an_uncommitted_write_are_removed_and_no_others(tmp_path):
    kept = [
        f"{BASE}000002-0.parquet",
        f"{BASE}000001-0.parquet.bak-0",
        f"{BASE}000001-x.parquet",
        f"{BASE}0000010-0.parquet",
        f"{BASE}000001_5-0.parquet",
        f"other_{BASE}000001-0.parquet",
        "notes.txt",
    ]
    removed = [
        f"{BASE}000001-0.parquet",
        f"{BASE}000001-17.parquet",
        f"year=2026/{BASE}000001-0.parquet",
        f"{BASE}000001.csv",
        f"{BASE}000001_000000_000005.png",
    ]

    records, files = recovered(
        tmp_path, [f"{BASE}000001.pending.parquet", f"{BASE}000002.parquet"], kept + removed
    )

    assert records == [f"{BASE}000002.parquet"]
    assert files == sorted(kept)


def test_committed_task_whose_number_begins_like_that_of_a_pending_one_keeps_its_rows(tmp_path):
    committed = [f"{BASE}1000000.parquet", f"{BASE}1000001.parquet"]
    pending = [f"{BASE}100000.pending.parquet", f"{BASE}10000010.pending.parquet"]
    files = [f"{BASE}{task}-0.parquet" for task in (100_000, 1_000_000, 1_000_001, 10_000_010)]

    assert recovered(tmp_path, committed + pending, files) == (committed, [files[1], files[2]])


def test_committed_record_keeps_its_rows_when_the_pending_one_is_still_there(tmp_path):
    # A copy instead of a rename leaves both.
    records = [f"{BASE}000001.pending.parquet", f"{BASE}000001.parquet"]

    assert recovered(tmp_path, records, [f"{BASE}000001-0.parquet"]) == (
        [records[1]],
        [f"{BASE}000001-0.parquet"],
    )


def test_name_that_a_pending_and_a_committed_write_may_claim_is_kept(tmp_path):
    records, files = recovered(
        tmp_path, ["a.pending.parquet", "a-1.parquet"], ["a-1.parquet", "a-0.parquet"]
    )

    assert (records, files) == (["a-1.parquet"], ["a-1.parquet"])


def test_pending_ids_are_not_done_and_stay_when_there_is_no_directory_to_clean(tmp_path):
    checkpoint = write(tmp_path / "checkpoint", [1], "done.parquet")
    write(checkpoint, [2], f"{BASE}000001.pending.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)

    left = ShardmillCheckpointFilter(config, loaded(config)[0]).filter_rows_for_block(
        pa.table({"id": [1, 2]})
    )

    assert left["id"].to_pylist() == [2]
    assert (checkpoint / f"{BASE}000001.pending.parquet").exists()


@pytest.mark.slow
def test_job_after_a_crash_undoes_the_write_and_does_it_again(tmp_path):
    source = write(tmp_path / "in", [1, 2, 3, 4])
    checkpoint = write(tmp_path / "checkpoint", [1, 2], f"{BASE}000000.parquet")
    write(checkpoint, [3, 4], f"{BASE}000001.pending.parquet")
    write(tmp_path / "out", [1, 2], f"{BASE}000000-0.parquet")
    write(tmp_path / "out", [3], f"{BASE}000001-0.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)

    assert run_job(source, tmp_path / "out", config) == [1, 2, 3, 4]
    assert run_job(source, tmp_path / "out", config) == [1, 2, 3, 4]


def test_ray_without_the_parts_that_the_rule_stands_on_filters_in_actors(
    tmp_path, monkeypatch, caplog
):
    checkpoint = write(tmp_path / "checkpoint", [1], "done.parquet")
    config = checkpoint_config(id_column="id", checkpoint_path=checkpoint)
    monkeypatch.setitem(sys.modules, "shardmill.integrations.ray_checkpoint._plan", None)
    monkeypatch.delattr("shardmill.integrations.ray_checkpoint._plan")
    importlib.reload(sys.modules["shardmill.integrations.ray_checkpoint"])

    reference, _size = loaded(config)

    assert "filtered in actors" in caplog.text
    assert "checked only when a job is resumed" in caplog.text
    assert (
        ShardmillCheckpointFilter(config, reference)
        .filter_rows_for_block(pa.table({"id": [1, 2]}))
        .num_rows
        == 1
    )
