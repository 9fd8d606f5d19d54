"""Iceberg and Delta tables in a store, with the keys of their catalog.

The oracles are pyiceberg and deltalake.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shardmill as sm

from .conftest import Bucket

ROWS = pa.table({"id": [1, 2, 3], "k": ["a b", "c/d", "ü%"]})


def rows_of(dataset: Any) -> list[dict[str, Any]]:
    return sorted(pa.table(dataset).to_pylist(), key=lambda row: row["id"])


def test_iceberg_table_is_read_with_the_keys_of_its_catalog(bucket: Bucket, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("s3fs")
    from pyiceberg.catalog import load_catalog
    from shardmill.integrations.iceberg import IcebergTable

    options = bucket.server.storage_options()
    catalog = load_catalog(
        type="sql",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=f"s3://{bucket.name}/warehouse",
        **{
            # pyarrow's client uploads each file in parts. The server refuses some of these uploads,
            # and decodes keys twice.
            "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
            "s3.endpoint": options["endpoint"],
            "s3.access-key-id": options["access_key_id"],
            "s3.secret-access-key": options["secret_access_key"],
            "s3.region": options["region"],
        },
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=ROWS.schema)
    with table.update_spec() as update:
        update.add_identity("k")
    table.append(ROWS)
    table.delete("id = 2")
    dataset = IcebergTable(table)
    assert rows_of(dataset) == sorted(
        table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]
    )
    assert all(path.startswith(f"s3://{bucket.name}/warehouse/db") for path in dataset.files)
    pickled = pickle.dumps(dataset)
    assert options["secret_access_key"].encode() not in pickled
    assert options["access_key_id"].encode() not in pickled
    assert rows_of(pickle.loads(pickled)) == rows_of(dataset)
    catalog.engine.dispose()  # pyright: ignore[reportAttributeAccessIssue]


def test_delta_table_is_read_with_the_options_of_the_call(bucket: Bucket) -> None:
    pytest.importorskip("deltalake")
    from deltalake import DeltaTable, write_deltalake
    from shardmill.integrations import delta

    url, options = f"s3://{bucket.name}/t", bucket.server.storage_options()
    given = {**options, "allow_http": "true"}
    write_deltalake(url, ROWS, partition_by=["k"], storage_options=given)
    DeltaTable(url, storage_options=given).delete("id = 2")
    dataset = delta.dataset(url, storage_options=given)
    assert rows_of(dataset) == rows_of(delta.dataset(url, 1, storage_options=given))
    assert rows_of(dataset) == [row for row in ROWS.to_pylist() if row["id"] != 2]
    assert options["secret_access_key"].encode() not in pickle.dumps(dataset)
    assert rows_of(pickle.loads(pickle.dumps(dataset))) == rows_of(dataset)
    uris = [
        f"s3://{bucket.name}/t/{file.relative}"
        for file in dataset._plan.files  # type: ignore[attr-defined]
    ]
    hive = sm.Dataset(uris, partitioning="hive", storage_options=given)
    assert rows_of(hive) == rows_of(dataset)
    with pytest.raises(sm.PlanError, match="directory of a Delta table"):
        sm.Dataset(url, storage_options=given)
