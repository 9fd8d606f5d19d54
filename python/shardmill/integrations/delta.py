"""Delta tables as data sets. deltalake reads the log; the native readers read the files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from shardmill._extras import package_for
from shardmill._native.storage import is_local, resolved_path
from shardmill._warnings import warn_caller
from shardmill.data._dataset import Dataset
from shardmill.expressions import Expression, Value, expression_of
from shardmill.integrations._table_files import (
    Planned,
    PlannedFile,
    TableColumn,
    TableFiles,
    configured,
    parts_of,
)
from shardmill.storage._configure import storage_options_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["dataset"]

#: Features of a table that do not change which rows its files have,
#: or that are checked for each table.
_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

_REWRITE = "hint: rewrite these files with REORG TABLE … APPLY (PURGE) of Spark"


def dataset(
    path: str | os.PathLike[str] | DeltaTable,
    version: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    filter: Expression | Value | str | list[Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    threads: int | None = None,
) -> Dataset:
    """Open one version of a Delta table. Requires ``deltalake``.

    The version is pinned: later commits are not seen, not even by another process that unpickles
    the data set. Partition columns have the types that the table declares. Files are in byte order
    of their paths relative to the table.

    Args:
        path: directory or URL of the table, or a ``deltalake.DeltaTable``.
        version: number of the version; the latest one by default.
        columns: names of the columns to return, in this order; all by default.
        filter: a row filter, as for ``shardmill.Dataset``.
        storage_options: options of the store, for deltalake and for
            ``shardmill.storage.configure``, such as ``endpoint``, ``access_key_id`` and
            ``secret_access_key``.
        threads: number of reading threads; the number of cores by default.

    Returns:
        A ``shardmill.Dataset``.

    Raises:
        ImportError: If deltalake is not installed.
        FileNotFoundError: If there is no table, or no such version.
        NotImplementedError: If the version has deletion vectors, or the table has column mapping or
            another feature that is not supported.

    Examples:
        >>> import pyarrow as pa, shardmill as sm
        >>> from deltalake import write_deltalake  # doctest: +SKIP
        >>> from shardmill.integrations import delta
        >>> write_deltalake("events", pa.table({"x": [1, 2, 3]}))  # doctest: +SKIP
        >>> loader = sm.Loader(delta.dataset("events"), batch_size=256)  # doctest: +SKIP
    """
    condition = None if filter is None else expression_of(filter)
    plan = _planned(_table(path, version, storage_options), storage_options)
    opened = TableFiles(plan, None if columns is None else list(columns), condition, threads)
    if not plan.files:
        warn_caller(f"no data files in {plan.name}")
    return opened


def _table(path: Any, version: int | None, storage_options: Mapping[str, Any] | None) -> DeltaTable:
    package_for("delta.dataset", "deltalake", extra="delta")
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    text = path.table_uri if isinstance(path, DeltaTable) else os.fspath(path)
    try:
        if isinstance(path, DeltaTable):
            if version is not None:
                path.load_as_version(version)
            return path
        place = resolved_path(text) if is_local(text) else text
        options = (
            None
            if storage_options is None
            else {name: str(value) for name, value in storage_options.items()}
        )
        return DeltaTable(place, version=version, storage_options=options)
    except TableNotFoundError as error:
        raise FileNotFoundError(f"no Delta table at {text}") from error
    except (DeltaError, OverflowError) as error:
        if version is None:
            raise
        raise FileNotFoundError(
            f"the Delta table at {text} has no version {version}: {error}"
        ) from error


def _planned(table: DeltaTable, storage_options: Mapping[str, Any] | None) -> Planned:
    import pyarrow as pa

    name = table.table_uri
    _check(table, name)
    schema = pa.schema(table.schema())
    actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    root = table.table_uri.rstrip("/")
    files = tuple(
        PlannedFile(
            path=_place(root, action["path"]),
            relative=unquote(action["path"]),
            constants=tuple(
                _constants(
                    action.get("partition") or {}, table.metadata().partition_columns, schema
                )
            ),
            deleted=(),
            partition=action.get("partition") or {},
        )
        for action in actions
    )
    given = (
        None
        if storage_options is None or not files
        else storage_options_of(files[0].path, storage_options)
    )
    return Planned(
        name=name,
        version=table.version(),
        schema=schema,
        columns=tuple(_column(field) for field in schema),
        files=files,
        storage_options=configured(files, given),
    )


def _check(table: DeltaTable, name: str) -> None:
    """Reject a table whose rows are not those of its files.

    Raises:
        NotImplementedError: If it has deletion vectors, column mapping, or a feature that is not
            known here.
    """
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise NotImplementedError(
            f"{name} has column mapping by {mode}, which is not supported"
            "\nhint: write its rows to a table or to Parquet files without column mapping"
        )
    features = set(table.protocol().reader_features or ())
    unknown = sorted(features - _FEATURES)
    if unknown:
        raise NotImplementedError(
            f"{name} has features that are not supported: {', '.join(unknown)}"
        )
    if "deletionVectors" not in features:
        return
    try:
        vectors = pa.table(table.deletion_vectors())
    except DeltaError as error:
        raise NotImplementedError(
            f"{name} has deletion vectors, which are not supported: {error}\n{_REWRITE}"
        ) from error
    if vectors.num_rows:
        raise NotImplementedError(
            f"{name} has deletion vectors for {vectors.num_rows} of its files, "
            f"such as {vectors['filepath'][0]}\n"
            f"{_REWRITE}"
        )


def _place(root: str, path: str) -> str:
    """Return the path of a file for the native readers.

    The log and the address of the table are percent-encoded; local paths are not.
    """
    url = unquote(path if "://" in path else f"{root}/{path}")
    return url.removeprefix("file://") if is_local(url) else url


def _constants(
    values: Mapping[str, Any], names: Sequence[str], schema: Any
) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa

    for name in names:
        number = schema.get_field_index(name)
        yield number, pa.array([values.get(name)], type=schema.field(number).type)


def _column(field: Any) -> TableColumn:
    """Return how a column, or a field inside of one, is found: by its name."""
    return TableColumn(
        id=None, names=(field.name,), parts=tuple(_column(part) for part in parts_of(field.type))
    )
