"""Builders of shards by Python's tarfile, pyarrow and Pillow, and readers of what a run wrote."""

import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from shardmill.curate import (
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    Report,
    WebDatasetSink,
    WebDatasetSource,
)

RESERVED = (
    "sample_id",
    "position",
    "modality",
    "content_type",
    "text_content",
    "binary_content",
    "source_ref",
    "materialize_error",
)
#: The last column of each Parquet file that a job writes.
RESCUED = pa.field(
    "rescued", pa.string(), metadata={"content_type": "application/json", "shardmill": "rescued"}
)
SCHEMA = pa.schema(
    [
        pa.field("sample_id", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("modality", pa.string(), nullable=False),
        pa.field("content_type", pa.string()),
        pa.field("text_content", pa.string()),
        pa.field("binary_content", pa.large_binary()),
        pa.field("source_ref", pa.string()),
        pa.field("materialize_error", pa.string()),
    ]
)
#: The columns of documents without columns of the user.
OUTPUT = pa.schema([*SCHEMA, RESCUED])


def image(
    codec: str = "JPEG",
    size: tuple[int, int] = (30, 20),
    color: Any = (200, 30, 60),
    **options: Any,
) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, color).save(target, codec, **options)
    return target.getvalue()


def tiff(*sizes: tuple[int, int], **options: Any) -> bytes:
    """One page a size, each with a colour of its own."""
    pages = [
        Image.new("RGB", size, (40 * number % 256, 90, 10)) for number, size in enumerate(sizes)
    ]
    target = io.BytesIO()
    pages[0].save(target, "TIFF", save_all=True, append_images=pages[1:], **options)
    return target.getvalue()


def body_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode()


def write_tar(
    path: Path, members: Sequence[tuple[str, Any]] | dict[str, Any], mode: str = "w"
) -> Path:
    """Members by name; what is not bytes or text becomes JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, value in members.items() if isinstance(members, dict) else members:
            body = body_of(value)
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return path


def row(
    sample_id: str | None, position: int | None, modality: str | None, **values: Any
) -> dict[str, Any]:
    return {"sample_id": sample_id, "position": position, "modality": modality, **values}


def document(sample_id: str, *content: str | bytes | None, **extras: Any) -> list[dict[str, Any]]:
    """Rows of one document: metadata with `extras`, then texts (str) and images (bytes).

    None is a gap.
    """
    rows = [row(sample_id, -1, "metadata", content_type="application/json", **extras)]
    for position, value in enumerate(content):
        if isinstance(value, str):
            rows.append(
                row(sample_id, position, "text", content_type="text/plain", text_content=value)
            )
        elif value is not None:
            rows.append(
                row(sample_id, position, "image", content_type="image/jpeg", binary_content=value)
            )
    return rows


def table(
    rows: Sequence[dict[str, Any]], extras: Sequence[pa.Field] = (), schema: pa.Schema | None = None
) -> pa.Table:
    if schema is None:
        nullable = [field.with_nullable(True) for field in SCHEMA]
        schema = pa.schema([*nullable, *extras])
    return pa.Table.from_pylist(list(rows), schema=schema)


def write_parquet(path: Path, rows: Any, extras: Sequence[pa.Field] = (), **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows if isinstance(rows, pa.Table) else table(rows, extras), path, **options)
    return path


def written(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as a job writes them that rescues no value."""
    return [dict.fromkeys([*RESERVED, RESCUED.name]) | found for found in rows]


@dataclass
class Outcome:
    report: Report
    directory: Path

    @property
    def files(self) -> list[Path]:
        return [Path(output["path"]) for output in self.report.outputs]

    @property
    def file(self) -> Path:
        (file,) = self.files
        return file

    @property
    def schema(self) -> pa.Schema:
        return pq.read_schema(self.file)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [found for file in self.files for found in pq.read_table(file).to_pylist()]

    @property
    def members(self) -> list[tuple[str, bytes]]:
        found = []
        for file in self.files:
            with tarfile.open(file, "r:") as archive:
                found += [(member.name, archive.extractfile(member).read()) for member in archive]
        return found

    @property
    def samples(self) -> list[dict[str, Any]]:
        return [json.loads(body) for name, body in self.members if name.endswith(".json")]

    def column(self, name: str, modality: str | None = None) -> list[Any]:
        return [found[name] for found in self.rows if modality in (None, found["modality"])]

    def shape(self) -> list[tuple[str, int, str]]:
        return [(found["sample_id"], found["position"], found["modality"]) for found in self.rows]

    def bytes_of_files(self) -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in self.files}


def check(report: Report, directory: Path) -> None:
    """What holds for every run, whatever it did."""
    into, out = report.counts("input"), report.counts("output")
    dropped, added = sum(report.rows_dropped.values()), sum(report.rows_added.values())
    assert into["rows"] - out["rows"] == dropped - added, report.rows_dropped
    for counts in (into, out):
        assert counts["rows"] == sum(
            counts[name] for name in ("texts", "images", "metadata", "other")
        )
    assert out["rows"] == sum(output["rows"] for output in report.outputs)
    assert out["samples"] == sum(output["samples"] for output in report.outputs)
    files = {Path(output["path"]) for output in report.outputs}
    assert len(files) == len(report.outputs)
    for output in report.outputs:
        path = Path(output["path"])
        assert path.stat().st_size == output["bytes"]
        if path.suffix == ".parquet":
            assert pq.read_metadata(path).num_rows == output["rows"]
        else:
            with tarfile.open(path, "r:") as archive:
                assert (
                    sum(name.endswith(".json") for name in archive.getnames()) == output["samples"]
                )
    assert not [path for path in directory.iterdir() if path.name.startswith(".")]
    metrics = report.to_dict()
    assert metrics["input_num_rows"] == into["rows"]
    assert metrics["output_num_rows"] == out["rows"]
    json.dumps(metrics)


def curate(
    source: Any, stages: Sequence[Any] = (), *, to: Path, sink: str = "parquet", **options: Any
) -> Outcome:
    """Runs a pipeline and holds its report against its files.

    `max_errors` and `memory_bytes` go to the pipeline, the other options to the sink.
    """
    own = {name: options.pop(name) for name in ("max_errors", "memory_bytes") if name in options}
    workers = options.pop("workers", 1)
    target = (ParquetSink if sink == "parquet" else WebDatasetSink)(to, **options)
    report = Pipeline(source=source, stages=list(stages), sink=target, **own).run(
        threads=workers, progress=False
    )
    check(report, to)
    return Outcome(report, to)


def from_tar(path: Any, **options: Any) -> WebDatasetSource:
    return WebDatasetSource(path, **options)


def from_parquet(path: Any, **options: Any) -> InterleavedParquetSource:
    return InterleavedParquetSource(path, **options)
