"""Iceberg tables of a real catalog. The oracle is pyiceberg's own reader."""

import pickle

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from flat_options import flat_loader

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import AlwaysTrue, EqualTo, GreaterThan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType
from shardmill.integrations.iceberg import IcebergTable
from shardmill.integrations.iceberg import _planning as planning
from shardmill.integrations.iceberg._pruning import prunable

ROWS = 300


@pytest.fixture
def config(tmp_path):
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }


@pytest.fixture
def catalog(config):
    catalog = load_catalog(**config)
    catalog.create_namespace("db")
    yield catalog
    catalog.engine.dispose()


def rows_of(start, count=100):
    ids = list(range(start, start + count))
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "label": pa.array([one % 4 for one in ids], pa.int32()),
            "name": [f'it\'s "{one}"' for one in ids],
            "score": pa.array([one / 2 for one in ids], pa.float32()),
        }
    )


@pytest.fixture
def table(catalog):
    table = catalog.create_table(
        "db.events", schema=rows_of(0).schema, properties={"write.parquet.row-group-limit": "30"}
    )
    for start in range(0, ROWS, 100):
        table.append(rows_of(start))
    return table


def delivered(dataset, **options):
    loader = flat_loader(
        dataset, **({"batch_size": 32, "output": "arrow", "rank": 0, "world_size": 1} | options)
    )
    batches = list(loader)
    assert len(loader) == len(batches)
    return pa.Table.from_batches(batches) if batches else dataset.schema.empty_table()


def ids_of(dataset, **options):
    return sorted(delivered(dataset, **options)["id"].to_pylist())


def assert_equals_pyiceberg(dataset, table, **scan):
    own, other = delivered(dataset).sort_by("id"), table.scan(**scan).to_arrow().sort_by("id")
    assert own.to_pylist() == other.to_pylist()


def delete_by_position(table, rows):
    """Commits position deletes as Spark and Flink write them: a file of paths and positions."""
    path = f"{table.location()}/data/deletes-{len(rows)}-{rows[0][1]}.parquet"
    file_path, pos = zip(*rows, strict=True)
    schema = pa.schema(
        [
            pa.field(
                "file_path",
                pa.string(),
                nullable=False,
                metadata={"PARQUET:field_id": "2147483546"},
            ),
            pa.field(
                "pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}
            ),
        ]
    )
    pq.write_table(
        pa.table([list(file_path), list(pos)], schema=schema), path.removeprefix("file://")
    )
    commit_deletes(table, path, DataFileContent.POSITION_DELETES, len(rows))


def commit_deletes(table, path, content, count):
    with open(path.removeprefix("file://"), "rb") as opened:
        size = len(opened.read())
    from pyiceberg.typedef import Record

    file = DataFile.from_args(
        _table_format_version=2,
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=count,
        file_size_in_bytes=size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=None,
        equality_ids=[1] if content == DataFileContent.EQUALITY_DELETES else None,
        sort_order_id=None,
    )
    file.spec_id = 0
    with table.transaction() as transaction, DeleteFiles(transaction) as update:
        update.append_data_file(file)


def make_delete_files():
    from pyiceberg.manifest import (
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestWriterV2,
    )
    from pyiceberg.table.update.snapshot import _FastAppendFiles

    class Writer(ManifestWriterV2):
        def content(self):
            return ManifestContent.DELETES

        @property
        def _meta(self):
            return {**super()._meta, "content": "deletes"}

    class Update(_FastAppendFiles):
        def _manifests(self):
            output = self.new_manifest_output()
            with Writer(
                self._transaction.table_metadata.spec(),
                self._transaction.table_metadata.schema(),
                output,
                self._snapshot_id,
                "null",
            ) as writer:
                for file in self._added_data_files:
                    writer.add(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self._snapshot_id,
                            sequence_number=None,
                            file_sequence_number=None,
                            data_file=file,
                        )
                    )
            return [writer.to_manifest_file(), *self._existing_manifests()]

    return Update


def DeleteFiles(transaction):
    from pyiceberg.table.snapshots import Operation

    return make_delete_files()(
        operation=Operation.OVERWRITE, transaction=transaction, io=transaction._table.io
    )


def test_rows_are_those_of_pyiceberg(table):
    dataset = IcebergTable(table)
    assert len(dataset) == ROWS
    assert_equals_pyiceberg(dataset, table)
    assert delivered(dataset, columns=["score", "id"]).column_names == ["score", "id"]


def test_rows_are_read_one_by_one(table):
    dataset = IcebergTable(table)
    expected = table.scan().to_arrow().sort_by("id").to_pylist()
    assert sorted(dataset, key=lambda row: row["id"]) == expected
    assert [dataset[row] for row in range(ROWS)] == list(dataset)


def test_attributes_of_a_data_set_are_there_on_a_table(table):
    dataset = IcebergTable(table)
    names = [
        name for name in dir(IcebergTable) if isinstance(getattr(IcebergTable, name), property)
    ]
    assert {"ignore_zeros", "format", "skipped"} <= set(names)
    for one in (dataset, pickle.loads(pickle.dumps(dataset))):
        for name in names:
            getattr(one, name)
        assert (one.format, one.ignore_zeros, one.skipped, one.row_filter) == (
            "parquet",
            False,
            [],
            None,
        )
        with pytest.raises(sm.OptionError, match="no tokens to count"):
            one.token_counts()


def test_tokens_of_a_table_are_packed(catalog):
    tokens = pa.table({"tokens": pa.array([[1, 2, 3], [4, 5]], pa.list_(pa.int32()))})
    table = catalog.create_table("db.tokens", schema=tokens.schema)
    table.append(tokens)
    packing = sm.Packing("tokens", length=5)
    for dataset in (IcebergTable(table), pickle.loads(pickle.dumps(IcebergTable(table)))):
        loader = sm.Loader(dataset, packing=packing, output="numpy", rank=0, world_size=1)
        assert [batch["tokens"].tolist() for batch in loader] == [[[1, 2, 3, 4, 5]]]


def test_table_is_found_by_name_and_pickles_without_its_catalog(table, config, tmp_path):
    dataset = IcebergTable(
        "db.events", catalog_config=config, filter=sm.col("label") == 1, columns=["id"]
    )
    pickled = pickle.dumps(dataset)
    (tmp_path / "catalog.db").unlink()
    copy = pickle.loads(pickled)
    assert ids_of(copy) == ids_of(dataset) == list(range(1, ROWS, 4))
    assert copy.columns == ["id"]


def test_namespace_of_several_levels(catalog, config):
    for name in ("a", "a.b", "a.b.c"):
        catalog.create_namespace(name)
    catalog.create_table("a.b.c.events", schema=rows_of(0).schema).append(rows_of(0))
    assert ids_of(IcebergTable("a.b.c.events", catalog_config=config)) == list(range(100))


def test_later_commits_are_not_seen(table):
    first = table.current_snapshot().snapshot_id
    dataset = IcebergTable(table)
    table.append(rows_of(ROWS))
    table.delete(EqualTo("label", 0))
    assert ids_of(dataset) == list(range(ROWS))
    assert ids_of(pickle.loads(pickle.dumps(dataset))) == list(range(ROWS))
    assert ids_of(IcebergTable(table, snapshot_id=first)) == list(range(ROWS))
    assert_equals_pyiceberg(IcebergTable(table), table)
    with pytest.raises(ValueError, match="no snapshot 1"):
        IcebergTable(table, snapshot_id=1)


def test_table_without_snapshot_is_empty(catalog):
    dataset = IcebergTable(catalog.create_table("db.empty", schema=rows_of(0).schema))
    assert (len(dataset), dataset.snapshot_id) == (0, None)
    assert list(sm.Loader(dataset, rank=0, world_size=1)) == []


def test_scan_that_prunes_everything_is_empty(table):
    assert len(IcebergTable(table, scan_filter=GreaterThan("id", 10_000))) == 0
    assert len(IcebergTable(table, filter=sm.col("id") > 10_000)) == 0


def test_scan_filter_leaves_out_files_and_filter_rows(table):
    assert ids_of(IcebergTable(table, scan_filter=EqualTo("id", 150))) == list(range(100, 200))
    assert ids_of(IcebergTable(table, scan_filter="id < 20")) == list(range(100))
    assert ids_of(IcebergTable(table, scan_filter="id < 20", filter=pc.field("id") < 5)) == list(
        range(5)
    )


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("id") == 7,
        (pc.field("id") > 150) & (pc.field("label") == 2),
        (pc.field("id") < 10) | (pc.field("score") > 140),
        ~(pc.field("id") < 290),
        pc.field("name") == 'it\'s "42"',
        pc.field("name").isin(['it\'s "1"', 'it\'s "299"']),
        pc.field("id") != 5,
        pc.field("name").is_null(),
        pc.field("id") > 2**40,
    ],
)
def test_filter_equals_the_one_of_pyarrow(table, condition):
    expected = table.scan().to_arrow().filter(condition)
    assert ids_of(IcebergTable(table, filter=condition)) == sorted(expected["id"].to_pylist())


def test_filter_opens_only_files_that_the_manifests_do_not_rule_out(table):
    assert len(IcebergTable(table, filter=(sm.col("id") >= 100) & (sm.col("id") < 120)).files) == 1


def test_negation_and_floats_are_left_to_the_rows():
    schema = Schema(
        NestedField(1, "x", IntegerType()),
        NestedField(2, "f", FloatType()),
        NestedField(3, "s", StringType()),
    )
    known = sm.col("x") == 1
    for unknown in (
        ~known,
        sm.col("f") == 1.0,
        sm.col("f") == 1,
        sm.col("s") == 1,
        sm.col("x") == "1",
        sm.col("x").is_null(),
    ):
        assert prunable(unknown.tree, schema) == AlwaysTrue()
        assert prunable((known | unknown).tree, schema) == AlwaysTrue()
        assert str(prunable((known & unknown).tree, schema)) == str(prunable(known.tree, schema))


def test_position_deletes_take_each_row_once(table):
    paths = sorted(task.file.file_path for task in table.scan().plan_files())
    gone = [(paths[0], 0), (paths[0], 29), (paths[0], 30), (paths[0], 99), (paths[1], 50)]
    delete_by_position(table, gone)
    delete_by_position(table, [(paths[1], 50), (paths[2], 10**6)])
    dataset = IcebergTable(table)
    assert len(dataset) == ROWS - 5
    assert_equals_pyiceberg(dataset, table)
    assert dataset.take([0, 1, 28]).num_rows == 3
    for shuffle in (False, True):
        assert len(set(ids_of(dataset, shuffle=shuffle, batch_size=7))) == ROWS - 5
    condition = pc.field("label") < 2
    expected = sorted(table.scan().to_arrow().filter(condition)["id"].to_pylist())
    assert ids_of(IcebergTable(table, filter=condition)) == expected


def test_state_of_a_table_with_other_deletes_is_refused(table):
    before = IcebergTable(table)
    paths = [task.file.file_path for task in table.scan().plan_files()]
    delete_by_position(table, [(paths[0], 3)])
    state = sm.Loader(before, rank=0, world_size=1).state_dict()
    with pytest.raises(sm.CheckpointMismatchError):
        sm.Loader(IcebergTable(table), rank=0, world_size=1).load_state_dict(state)


def test_file_whose_rows_are_all_deleted_gives_none(table):
    path = min(task.file.file_path for task in table.scan().plan_files())
    delete_by_position(table, [(path, row) for row in range(100)])
    assert len(IcebergTable(table)) == ROWS - 100
    assert_equals_pyiceberg(IcebergTable(table), table)


def test_null_in_a_deleted_row_is_not_refused(catalog):
    rows = pa.table({"x": pa.array([0, None, 2], pa.int32())})
    table = catalog.create_table("db.gaps", schema=rows.schema)
    table.append(rows)
    with pytest.raises(sm.FormatError, match="has nulls in"):
        sm.Loader(IcebergTable(table), output="numpy", rank=0, world_size=1)
    (path,) = [task.file.file_path for task in table.scan().plan_files()]
    delete_by_position(table, [(path, 1)])
    loader = sm.Loader(IcebergTable(table), output="numpy", rank=0, world_size=1)
    assert [batch["x"].tolist() for batch in loader] == [[0, 2]]


def test_equality_deletes_are_refused(table):
    path = f"{table.location()}/data/equality.parquet"
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), path.removeprefix("file://"))
    commit_deletes(table, path, DataFileContent.EQUALITY_DELETES, 1)
    with pytest.raises(NotImplementedError, match="equality deletes"):
        IcebergTable(table)


def test_columns_are_found_by_id(table):
    with table.update_schema() as update:
        update.rename_column("name", "title")
        update.add_column("added", StringType())
        update.update_column("id", LongType())
        update.update_column("score", DoubleType())
        update.delete_column("label")
    with table.update_schema() as update:
        # A new column that is called as an old one was.
        update.add_column("name", IntegerType())
    dataset = IcebergTable(table)
    assert dataset.columns == ["id", "title", "score", "added", "name"]
    assert dataset.schema.field("id").type == pa.int64()
    assert dataset.schema.field("score").type == pa.float64()
    assert_equals_pyiceberg(dataset, table)
    table.append(
        pa.table(
            {
                "id": [1000],
                "title": ["new"],
                "score": [0.5],
                "added": ["yes"],
                "name": pa.array([3], pa.int32()),
            }
        )
    )
    assert_equals_pyiceberg(IcebergTable(table), table)
    assert ids_of(IcebergTable(table, filter=sm.col("added") == "yes")) == [1000]


def test_partitions_prune_and_are_read_from_files_that_lack_them(catalog, tmp_path):
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "day", IntegerType()))
    spec = PartitionSpec(
        PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="day")
    )
    table = catalog.create_table("db.days", schema=schema, partition_spec=spec)
    for day in range(3):
        table.append(
            pa.table({"id": pa.array([day * 10], pa.int32()), "day": pa.array([day], pa.int32())})
        )
    dataset = IcebergTable(table, filter=sm.col("day") == 1)
    assert len(dataset.files) == 1
    assert delivered(dataset).to_pylist() == [{"id": 10, "day": 1}]
    (file,) = dataset._plan.files
    assert file.partition == {"day": 1}
    # As tables do that were made of Hive directories: the value stands in the manifest only.
    field = pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array([10], pa.int32())], schema=pa.schema([field])), file.path)
    assert delivered(IcebergTable(table, filter=sm.col("day") == 1)).to_pylist() == [
        {"id": 10, "day": 1}
    ]


def test_unknown_columns_and_options_are_named(table):
    with pytest.raises(KeyError, match="nothing"):
        IcebergTable(table, columns=["nothing"])
    with pytest.raises(KeyError, match="nothing"):
        IcebergTable(table, filter=sm.col("nothing") == 1)
    with pytest.raises(ValueError, match="catalog_config"):
        IcebergTable(table, catalog_config={})


def test_missing_pyiceberg_is_an_error_with_a_hint(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyiceberg.catalog", None)
    with pytest.raises(ImportError, match="pip install"):
        IcebergTable("db.events")


def test_state_continues_in_another_process_of_the_snapshot(table):
    dataset = IcebergTable(table)
    loader = sm.Loader(dataset, batch_size=32, output="arrow", shuffle=True, rank=0, world_size=1)
    batches = iter(loader)
    seen = [one for _ in range(3) for one in next(batches)["id"].to_pylist()]
    rest = sm.Loader(
        pickle.loads(pickle.dumps(dataset)),
        batch_size=32,
        output="arrow",
        shuffle=True,
        rank=0,
        world_size=1,
    )
    rest.load_state_dict(loader.state_dict())
    assert sorted(seen + [one for batch in rest for one in batch["id"].to_pylist()]) == list(
        range(ROWS)
    )


def test_files_of_several_formats_are_refused_by_name(table):
    from types import SimpleNamespace

    tasks = [
        SimpleNamespace(
            file=SimpleNamespace(file_format=kind, file_path=f"one.{kind.value}"),
            delete_files=set(),
        )
        for kind in (FileFormat.PARQUET, FileFormat.ORC)
    ]
    with pytest.raises(ValueError, match="one.ORC"):
        planning._check(table, tasks)
    with pytest.raises(NotImplementedError, match="ORC"):
        planning._check(table, tasks[1:])


def test_calls_of_torch_dataloader_utils(table, config):
    pytest.importorskip("torch")
    from shardmill.integrations.torch import IcebergDataset
    from torch.utils.data import DataLoader

    paths = sorted(task.file.file_path for task in table.scan().plan_files())
    delete_by_position(table, [(paths[0], 0)])
    expected = sorted(table.scan().to_arrow()["id"].to_pylist())
    seen = []
    for rank in range(2):
        loader, dataset = IcebergDataset.create_dataloader(
            "db.events",
            config,
            batch_size=16,
            columns=["id"],
            num_ranks=2,
            rank=rank,
            split_rows=10,
        )
        seen += [one for batch in loader for one in batch["id"].tolist()]
    assert sorted(seen) == expected
    assert sum(file.record_count for file in dataset.files) == ROWS - 1
    dataset = IcebergDataset(
        "db.events", config, columns=["id"], batch_size=16, filters=pc.field("id") < 50
    )
    own = [batch["id"].tolist() for batch in dataset]
    workers = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    dataset.set_epoch(0)
    assert [batch["id"].tolist() for batch in workers] == own
    with pytest.raises(TypeError, match="filters"):
        IcebergDataset("db.events", config, filters="id < 50")
    with pytest.raises(ValueError, match="output_format"):
        IcebergDataset("db.events", config, output_format="pandas")
