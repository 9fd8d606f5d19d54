"""A pytest plugin that records what each job of a test run writes.

It serves to compare two versions of the library:

    PYTHONPATH=python:tests/jobs pytest -p record --record before.jsonl \\
        --basetemp build/jobs --hypothesis-seed 0 tests/python/interleaved …

`compare.py` lists the differences. A job is identified by its test and its number within the test.
Names of outputs depend on the paths of inputs, so both runs need the same directory.
"""

import hashlib
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

#: Figures that depend on the machine.
UNSTABLE = re.compile(r"seconds|_s$|bytes|peak|storage|time")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", help="the file to which the outputs of all jobs are appended")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    from shardmill.curate import Pipeline

    run, records = Pipeline.run, []

    def recorded(self: Any, *args: Any, **options: Any) -> Any:
        record: dict[str, Any] = {"test": item.nodeid, "job": len(records)}
        records.append(record)
        root = re.compile(re.escape(str(item.funcargs.get("tmp_path", "//"))))
        try:
            report = run(self, *args, **options)
        except BaseException as error:
            record["error"] = [type(error).__name__, root.sub("", str(error))]
            raise
        finally:
            record["files"] = files_of(Path(str(self.sink.path)))
        record["counts"] = counts_of(json.loads(root.sub("", json.dumps(report.splits))))
        return report

    Pipeline.run = recorded
    try:
        yield
    finally:
        Pipeline.run = run
    target = item.config.getoption("--record")
    with Path(target).open("a") as lines:
        lines.writelines(json.dumps(record, sort_keys=True) + "\n" for record in records)


def files_of(directory: Path) -> dict[str, Any]:
    """The visible files of an output directory.

    Each has schema, number of rows, and a digest of the rows in order.
    """
    files = sorted(
        file for file in directory.rglob("*") if file.is_file() and not file.name.startswith(".")
    )
    return {str(file.relative_to(directory)): content_of(file) for file in files}


def content_of(file: Path) -> Any:
    try:
        if file.suffix == ".parquet":
            table = pq.read_table(file)
            schema = table.schema
            fields = {
                field.name: [str(field.type), field.nullable, told(field.metadata)]
                for field in schema
            }
            return {
                "fields": fields,
                "metadata": told(schema.metadata),
                "rows": len(table),
                "digest": digest(table),
            }
        if tarfile.is_tarfile(file):
            with tarfile.open(file) as archive:
                members = [
                    (member.name, archive.extractfile(member))
                    for member in archive
                    if member.isfile()
                ]
                return {
                    name: hashlib.sha256(body.read()).hexdigest() for name, body in members if body
                }
    except (OSError, pa.ArrowException) as error:
        return {"unreadable": type(error).__name__}
    return {"bytes": file.stat().st_size}


def told(metadata: dict[bytes, bytes] | None) -> dict[str, str]:
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (metadata or {}).items()
    }


def digest(table: pa.Table) -> str:
    """Of the values alone, so that equal rows have equal digests in string and large_string."""
    return hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest()


def counts_of(splits: list[dict[str, Any]]) -> list[Any]:
    """The reports of the splits, without figures that depend on the machine."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: kept(part) for key, part in value.items() if not UNSTABLE.search(key)}
        return [kept(part) for part in value] if isinstance(value, list) else value

    return [kept(split) for split in splits]
