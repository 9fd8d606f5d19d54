"""Nested fields, paths and branches of Iceberg tables. The oracle is pyiceberg's own reader."""

import os

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import covering, examples

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from shardmill.integrations.iceberg import IcebergTable


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    path = tmp_path_factory.mktemp("ice")
    catalog = load_catalog(
        type="sql", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}/a%20warehouse"
    )
    catalog.create_namespace("db")
    yield catalog
    catalog.engine.dispose()


@pytest.fixture
def create(catalog):
    def create(schema, **options):
        name = "db.events"
        if catalog.table_exists(name):
            catalog.drop_table(name)
        return catalog.create_table(name, schema=schema, **options)

    return create


PAIR = pa.struct([("x", pa.int32()), ("y", pa.int64()), ("z", pa.string())])
VALUE = {"x": 1, "y": 10, "z": "old"}
#: By name: the type of the column, one value, and the path of its struct.
COLUMNS = {
    "struct": (PAIR, VALUE, ("s",)),
    "struct of structs": (
        pa.struct([("t", PAIR), ("n", pa.int64())]),
        {"t": VALUE, "n": 2},
        ("s", "t"),
    ),
    "list": (pa.list_(PAIR), [VALUE, VALUE], ("s", "element")),
    "map": (pa.map_(pa.string(), PAIR), [("k", VALUE)], ("s", "value")),
}
CHANGES = {
    "add": lambda update, at: update.add_column((*at, "w"), LongType()),
    "rename": lambda update, at: update.rename_column((*at, "x"), "xx"),
    "rename to a name that is dropped": lambda update, at: (
        update.delete_column((*at, "y")),
        update.rename_column((*at, "x"), "y2"),
    ),
    "delete": lambda update, at: update.delete_column((*at, "x")),
    "reorder": lambda update, at: update.move_first((*at, "z")),
    "promote": lambda update, at: update.update_column((*at, "x"), LongType()),
}


def read(table, **options):
    return pa.table(IcebergTable(table, **options)).to_pylist()


@covering(1, kind=list(COLUMNS), change=list(CHANGES))
def test_fields_inside_of_columns_are_matched_by_id(create, kind, change):
    data_type, value, at = COLUMNS[kind]
    table = create(pa.schema([("id", pa.int64()), ("s", data_type)]))
    rows = [{"id": 1, "s": value}, {"id": 2, "s": None}]
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    with table.update_schema() as update:
        CHANGES[change](update, at)
    assert read(table) == table.scan().to_arrow().to_pylist()
    # Rows of both schemas in one data set.
    table.append(table.scan().to_arrow())
    assert sorted(map(repr, read(table))) == sorted(map(repr, table.scan().to_arrow().to_pylist()))
    assert [row["id"] for row in read(table, columns=["id"])] == [1, 2, 1, 2]


def test_maps_inside_of_lists_are_matched_by_id(create):
    """The oracle is not pyiceberg: 0.12 returns the dropped field, and loses the renamed one."""
    table = create(pa.schema([("id", pa.int64()), ("s", pa.list_(pa.map_(pa.string(), PAIR)))]))
    table.append(
        pa.Table.from_pylist([{"id": 1, "s": [[("k", VALUE)]]}], schema=table.schema().as_arrow())
    )
    at = ("s", "element", "value")
    with table.update_schema() as update:
        update.delete_column((*at, "y"))
    with table.update_schema() as update:
        update.add_column((*at, "y"), LongType())
        update.rename_column((*at, "x"), "xx")
    assert read(table) == [{"id": 1, "s": [[("k", {"xx": 1, "z": "old", "y": None})]]}]


def test_dropped_field_that_is_added_again_is_empty_in_rows_filters_and_paths(create):
    failures = []
    for kind, (data_type, value, at) in COLUMNS.items():
        table = create(pa.schema([("id", pa.int64()), ("s", data_type)]))
        table.append(
            pa.Table.from_pylist([{"id": 1, "s": value}], schema=table.schema().as_arrow())
        )
        with table.update_schema() as update:
            update.delete_column((*at, "y"))
        with table.update_schema() as update:
            update.add_column((*at, "y"), LongType())
        if read(table) != table.scan().to_arrow().to_pylist():
            failures.append(kind)
    assert failures == []
    table = create(pa.schema([("id", pa.int64()), ("s", PAIR)]))
    table.append(pa.Table.from_pylist([{"id": 1, "s": VALUE}], schema=table.schema().as_arrow()))
    with table.update_schema() as update:
        update.delete_column(("s", "y"))
    with table.update_schema() as update:
        update.add_column(("s", "y"), LongType())
        update.rename_column(("s", "x"), "first")
    assert (
        len(IcebergTable(table, filter=sm.col("s.y") == 10))
        == table.scan(row_filter="s.y = 10").to_arrow().num_rows
    )
    assert len(IcebergTable(table, filter=sm.col("s.y").is_null())) == 1
    assert len(IcebergTable(table, filter=sm.col("s.first") == 1)) == 1
    assert read(table, columns=["s.first", "s.y"]) == [{"s.first": 1, "s.y": None}]
    loader = sm.Loader(IcebergTable(table), columns=["s.z"], output="arrow", rank=0, world_size=1)
    assert [batch["s.z"].to_pylist() for batch in loader] == [["old"]]


NAMES = st.sampled_from("abcd")


@settings(
    max_examples=examples(15, 6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "drop", "rename", "first", "append"]), NAMES, NAMES),
        max_size=6,
    )
)
def test_any_history_of_a_struct_reads_as_in_pyiceberg(create, changes):
    table = create(pa.schema([("s", pa.struct([("a", pa.int64()), ("b", pa.int64())]))]))
    number = 0
    for change, name, other in [("append", "", ""), *changes, ("append", "", "")]:
        known = [field.name for field in table.schema().find_field("s").field_type.fields]
        if change == "append":
            number += 1
            rows = [{"s": {key: number * 10 + place for place, key in enumerate(known)}}]
            table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
            continue
        with table.update_schema() as update:
            if change == "add" and name not in known:
                update.add_column(("s", name), LongType())
            elif change == "drop" and name in known and len(known) > 1:
                update.delete_column(("s", name))
            elif change == "rename" and name in known and other not in known:
                update.rename_column(("s", name), other)
            elif change == "first" and name in known:
                update.move_first(("s", name))
    expected = table.scan().to_arrow()
    assert sorted(map(repr, read(table))) == sorted(map(repr, expected.to_pylist()))
    for field in table.schema().find_field("s").field_type.fields:
        values = [row[f"s.{field.name}"] for row in read(table, columns=[f"s.{field.name}"])]
        key = lambda value: (value is None, value)  # noqa: E731
        assert sorted(values, key=key) == sorted(
            pc.struct_field(expected["s"], field.name).to_pylist(), key=key
        )


def test_default_of_an_added_field_is_filled_in_at_every_level(create):
    failures = []
    for kind, (data_type, value, at) in COLUMNS.items():
        table = create(pa.schema([("id", pa.int64()), ("s", data_type)]))
        rows = [{"id": 1, "s": value}, {"id": 2, "s": None}]
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
        with table.update_schema() as update:
            update.add_column((*at, "w"), LongType(), default_value=7)
            update.add_column("top", StringType(), default_value="t")
        table.append(table.scan().to_arrow())
        if sorted(map(repr, read(table))) != sorted(map(repr, table.scan().to_arrow().to_pylist())):
            failures.append(f"{kind}: {read(table)}")
        if kind in ("struct", "struct of structs"):
            column = ".".join((*at, "w"))
            found = [row[column] for row in read(table, columns=[column])]
            if (
                found != [7, None, 7, None]
                or len(IcebergTable(table, filter=sm.col(column) == 7)) != 2
            ):
                failures.append(f"{column}: {found}")
    assert failures == []


PARTITIONS = ["plain", "a b", "c/d", "a:b", "ü", "100%", "x+y", "%2F", "..", "a=b", "a?b#c", "*"]


def test_paths_of_data_files_are_literal(create):
    failures = []
    for value in PARTITIONS:
        spec = PartitionSpec(
            PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="k")
        )
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "k", StringType()))
        table = create(schema, partition_spec=spec)
        table.append(pa.table({"id": [1], "k": [value]}))
        try:
            got = read(table)
        except OSError as error:
            got = error
        if got != [{"id": 1, "k": value}]:
            failures.append((value, got))
    assert failures == []


def test_file_at_the_decoded_path_is_not_read(create):
    table = create(pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    (path,) = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    decoy = path.replace("a%20warehouse", "a warehouse")
    assert decoy != path
    os.makedirs(os.path.dirname(decoy), exist_ok=True)
    whole = pq.read_table(path)
    pq.write_table(whole.set_column(0, whole.schema.field(0), pa.array([999])), decoy)
    assert read(table) == table.scan().to_arrow().to_pylist() == [{"id": 1}]


def test_branches_and_tags_are_read_by_name(create):
    table = create(pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "first").commit()
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    table.append(pa.table({"id": [2]}), branch="audit")
    table.append(pa.table({"id": [3]}))
    for name in ("first", "audit", "main"):
        assert sorted(row["id"] for row in read(table, branch=name)) == sorted(
            table.scan().use_ref(name).to_arrow()["id"].to_pylist()
        )
    with pytest.raises(ValueError, match="no branch or tag 'x'; it has 'audit', 'first', 'main'"):
        IcebergTable(table, branch="x")
    with pytest.raises(ValueError, match="snapshot_id or branch, not both"):
        IcebergTable(table, branch="main", snapshot_id=1)


def test_nested_fields_of_files_without_ids_are_found_by_the_name_mapping(create, tmp_path):
    table = create(pa.schema([("id", pa.int64()), ("s", PAIR)]))
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"id": [1], "s": pa.array([VALUE], PAIR)}), path)
    table.add_files([f"file://{path}"])
    with table.update_schema() as update:
        update.rename_column(("s", "x"), "first")
        update.move_first(("s", "z"))
    assert read(table) == table.scan().to_arrow().to_pylist()
    with table.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    with pytest.raises(ValueError, match="without field ids"):
        IcebergTable(table)


def test_required_field_that_a_file_lacks_is_refused_by_name(create):
    table = create(pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))]))
    table.append(pa.table({"id": [1], "s": [{"x": 1}]}))
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column(("s", "needed"), IntegerType(), required=True)
    with pytest.raises(ValueError, match="Column `needed` has no value"):
        IcebergTable(table)


@pytest.mark.parametrize(
    "path", ["hdfs://host/w/x.parquet", "oss://b/x.parquet", "file://host/x.parquet"]
)
def test_data_files_on_other_file_systems_are_refused_by_their_path(path):
    from shardmill.integrations.iceberg._storage import literal_path

    with pytest.raises(NotImplementedError, match=path.replace(".", r"\.")):
        literal_path(path)


def test_store_options_are_those_of_the_catalog():
    from shardmill.integrations.iceberg._storage import literal_path, store_options

    assert literal_path("s3n://b/a%20b") == "s3://b/a%20b"
    assert literal_path("file:/a%20b/c:d") == literal_path("file:///a%20b/c:d") == "/a%20b/c:d"
    properties = {
        "s3.endpoint": "http://h:1",
        "client.access-key-id": "k",
        "s3.secret-access-key": "s",
        "uri": "x",
    }
    options = store_options("s3://b/x", properties, "db.t")
    assert options.texts == {
        "endpoint": "http://h:1",
        "access_key_id": "k",
        "secret_access_key": "s",
    }
    assert store_options("s3://b/x", {"uri": "x"}, "db.t") is None
    assert store_options("gs://b/x", {"gcs.oauth2.token": "t"}, "db.t").credentials.fetch() == (
        {"token": "t"},
        None,
    )
    with pytest.raises(NotImplementedError, match=r"db\.t sets s3\.role-arn"):
        store_options("s3://b/x", {"s3.role-arn": "r"}, "db.t")
