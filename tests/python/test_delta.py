"""Delta tables as data sets. The oracle is deltalake's own reader."""

import datetime as dt
import decimal
import json
import os
import pickle
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm

pytest.importorskip("deltalake")

from deltalake import DeltaTable, write_deltalake
from shardmill.integrations import delta

VALUES = {
    "text": pa.array(["plain", "a b", "c/d", "a:b", "ü", "100%", "x+y=", "%2F", None]),
    "number": pa.array([7, -1, None], pa.int16()),
    "big": pa.array([2**40, None]),
    "day": pa.array([dt.date(2024, 1, 2), None]),
    "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
    "time": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5, 678), None], pa.timestamp("us", "UTC")),
    "flag": pa.array([True, False, None]),
    "share": pa.array([0.5, None]),
    "digits": pa.array(["7", "8"]),
}


def rows_of(dataset):
    table = pa.table(dataset)
    return sorted(map(repr, table.to_pylist()))


def expected(path, **options):
    table = DeltaTable(path, **options).to_pyarrow_table()
    return sorted(map(repr, table.to_pylist()))


def test_partition_values_have_the_declared_types_and_may_be_null(tmp_path):
    failures = []
    for name, values in VALUES.items():
        path = str(tmp_path / name)
        write_deltalake(
            path, pa.table({"id": list(range(len(values))), name: values}), partition_by=[name]
        )
        dataset = delta.dataset(path)
        if rows_of(dataset) != expected(path) or dataset.schema.field(name).type != values.type:
            failures.append((name, rows_of(dataset), dataset.schema.field(name).type))
        where = sm.col(name).is_null()
        if len(delta.dataset(path, filter=where)) != values.null_count:
            failures.append((name, "filter"))
    assert failures == []


def test_rows_are_those_of_a_version(tmp_path):
    path = str(tmp_path / "a table")
    write_deltalake(path, pa.table({"id": [1, 2, 3]}))
    write_deltalake(
        path, pa.table({"id": [4, 5], "new": ["x", "y"]}), mode="overwrite", schema_mode="overwrite"
    )
    DeltaTable(path).delete("id = 4")
    write_deltalake(path, pa.table({"id": [6]}), mode="append", schema_mode="merge")
    latest = delta.dataset(path)
    for version in range(4):
        assert rows_of(delta.dataset(path, version)) == expected(path, version=version)
    assert (
        rows_of(delta.dataset(tmp_path / "a table"))
        == rows_of(delta.dataset(DeltaTable(path)))
        == rows_of(latest)
    )
    write_deltalake(path, pa.table({"id": [7], "new": ["z"]}), mode="append")
    assert sorted(row["id"] for row in pickle.loads(pickle.dumps(latest))) == [5, 6]
    assert delta.dataset(path, columns=["new"], filter="id = 7")[0] == {"new": "z"}
    loader = sm.Loader(delta.dataset(path), output="numpy", rank=0, world_size=1, columns=["id"])
    assert sorted(id for batch in loader for id in batch["id"].tolist()) == [5, 6, 7]


def test_nested_columns_are_read_as_declared(tmp_path):
    path = str(tmp_path / "t")
    nested = pa.table(
        {
            "s": [{"a": 1, "b": {"c": "x"}}, None],
            "l": [[{"d": 1}], []],
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    write_deltalake(path, nested)
    assert rows_of(delta.dataset(path)) == expected(path)
    assert [row["s.b.c"] for row in delta.dataset(path, columns=["s.b.c"])] == ["x", None]


def test_files_of_pyarrow_with_field_ids_are_matched_by_name(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [1], "name": ["x"]}))
    (file,) = (tmp_path / "t").glob("*.parquet")
    fields = [("name", pa.string(), "1"), ("id", pa.int64(), "2")]
    schema = pa.schema(
        [pa.field(name, kind, metadata={"PARQUET:field_id": id}) for name, kind, id in fields]
    )
    pq.write_table(pa.table([["x"], [1]], schema=schema), file)
    assert delta.dataset(path)[0] == {"id": 1, "name": "x"}


def test_list_of_files_keeps_its_partitions(tmp_path):
    failures = []
    for name in ("text", "number", "day"):
        path, values = str(tmp_path / name), VALUES[name]
        write_deltalake(
            path, pa.table({"id": list(range(len(values))), name: values}), partition_by=[name]
        )
        dataset = sm.Dataset(DeltaTable(path).file_uris(), partitioning="hive")
        got = {row["id"]: row[name] for row in dataset}
        want = dict(enumerate(values.to_pylist()))
        if {id: None if v is None else str(v) for id, v in got.items()} != {
            id: None if v is None else str(v) for id, v in want.items()
        }:
            failures.append((name, got))
    assert failures == []


LONG = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


def commit(path, *, fields=(LONG,), protocol=(1, 2, ()), configuration=None, files=()):
    """Write version 0 of a table as another engine would.

    Each file is (name, rows, deletion vector).
    """
    (path / "_delta_log").mkdir(parents=True)
    reader, writer, features = protocol
    names = {"readerFeatures": list(features), "writerFeatures": list(features)} if features else {}
    lines = [
        {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **names}},
        {
            "metaData": {
                "id": "a1cd70d0-5ed3-40f8-baf0-01c42218097b",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
                "partitionColumns": [],
                "createdTime": 1,
                "configuration": configuration or {},
            }
        },
    ]
    for name, rows, vector in files:
        pq.write_table(rows, path / name)
        action = {
            "path": name,
            "partitionValues": {},
            "size": os.path.getsize(path / name),
            "modificationTime": 1,
        }
        stats = json.dumps({"numRecords": len(rows)})
        more = {"dataChange": True, "stats": stats} | ({"deletionVector": vector} if vector else {})
        lines.append({"add": action | more})
    (path / "_delta_log" / "00000000000000000000.json").write_text(
        "\n".join(map(json.dumps, lines))
    )
    return str(path)


def vector_of_row_1():
    """An inline deletion vector: a 64-bit Roaring bitmap in the text form of the protocol."""
    bitmap = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 1)
    content = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    content += bytes(-len(content) % 4)
    alphabet = (
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
    text = ""
    for at in range(0, len(content), 4):
        number, digits = int.from_bytes(content[at : at + 4], "big"), ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = alphabet[digit] + digits
        text += digits
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(content),
        "cardinality": 1,
    }


def test_deletion_vectors_are_refused_by_name_and_the_feature_alone_is_not(tmp_path):
    rows, protocol = pa.table({"id": [1, 2, 3]}), (3, 7, ["deletionVectors"])
    path = commit(
        tmp_path / "with", protocol=protocol, files=[("a.parquet", rows, vector_of_row_1())]
    )
    with pytest.raises(
        NotImplementedError, match=r"deletion vectors for 1 of its files, such as .*a\.parquet"
    ):
        delta.dataset(path)
    bad = vector_of_row_1() | {"pathOrInlineDv": "00000"}
    path = commit(tmp_path / "bad", protocol=protocol, files=[("a.parquet", rows, bad)])
    with pytest.raises(NotImplementedError, match="has deletion vectors"):
        delta.dataset(path)
    path = commit(tmp_path / "without", protocol=protocol, files=[("a.parquet", rows, None)])
    assert [row["id"] for row in delta.dataset(path)] == [1, 2, 3]


def test_column_mapping_is_refused_by_name(tmp_path):
    mapped = LONG | {
        "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    }
    for mode in ("name", "id"):
        path = commit(
            tmp_path / mode,
            fields=[mapped],
            protocol=(2, 5, ()),
            configuration={
                "delta.columnMapping.mode": mode,
                "delta.columnMapping.maxColumnId": "1",
            },
            files=[("a.parquet", pa.table({"col-1": [1]}), None)],
        )
        with pytest.raises(NotImplementedError, match=f"column mapping by {mode}"):
            delta.dataset(path)


def test_unknown_features_are_refused_by_name(tmp_path):
    path = commit(
        tmp_path / "t",
        protocol=(3, 7, ["variantType"]),
        files=[("a.parquet", pa.table({"id": [1]}), None)],
    )
    with pytest.raises(NotImplementedError, match="variantType"):
        delta.dataset(path)


def test_missing_table_and_missing_version_are_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Delta table at"):
        delta.dataset(tmp_path / "nothing")
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}))
    for version in (7, -1):
        for table in (tmp_path / "t", DeltaTable(tmp_path / "t")):
            with pytest.raises(FileNotFoundError, match=f"no version {version}"):
                delta.dataset(table, version=version)


def test_table_without_files_is_empty_with_a_warning(tmp_path):
    DeltaTable.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    with pytest.warns(UserWarning, match="no data files"):
        dataset = delta.dataset(tmp_path / "t")
    assert (len(dataset), dataset.columns) == (0, ["id"])


def test_missing_deltalake_is_an_error_with_a_hint(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "deltalake", None)
    with pytest.raises(ImportError, match=r"pip install 'shardmill\[delta\]'"):
        delta.dataset("t")
