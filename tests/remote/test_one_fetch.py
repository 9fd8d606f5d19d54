"""Images that rows point to are fetched once a run.

However many rows, filters, threads and files name them.
"""

import io
import json
import tarfile
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from PIL import Image
from shardmill.curate import AspectRatioFilter, InterleavedParquetSource, Map, ParquetSink, Pipeline
from shardmill.curate._filters import ImageStage

from .fault_proxy import Fault, network

FILES = 4
ROWS = 20


class Look(ImageStage):
    """A filter that sees the bytes of every image."""

    name, drop_invalid_rows = "look", True

    def keep_images(self, images, texts):
        return [bool(image) for image in images]


STAGES = [
    AspectRatioFilter(0.5, 3.0),
    AspectRatioFilter(1.0, 2.0),
    Look(),
    AspectRatioFilter(0.1, 9.0),
]


def picture(number: int, size: int = 0) -> bytes:
    """A small PNG; with a size, padded to this number of bytes."""
    target = io.BytesIO()
    Image.new("RGB", (40 + number, 30), (number, 7, 9)).save(target, "PNG")
    return target.getvalue().ljust(size, b"\0")


def tiff(pages: int) -> bytes:
    target = io.BytesIO()
    images = [Image.new("RGB", (40, 30 - page), (page, 1, 2)) for page in range(pages)]
    images[0].save(target, "TIFF", save_all=True, append_images=images[1:])
    return target.getvalue()


def write_rows(directory, refs) -> None:
    """Files of one document a row; the rows of each file name all refs in turn."""
    directory.mkdir()
    for number in range(FILES):
        rows = [
            {
                "sample_id": f"{number}-{row}",
                "position": 0,
                "modality": "image",
                "content_type": "image/png",
                "source_ref": json.dumps(refs[(row + number) % len(refs)]),
            }
            for row in range(ROWS)
        ]
        schema = pa.schema([(name, pa.string()) for name in rows[0]]).set(
            1, pa.field("position", pa.int32())
        )
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), directory / f"{number}.parquet")


def run(tmp_path, stages=(), **options):
    source = InterleavedParquetSource(tmp_path / "in", **options)
    pipeline = Pipeline(
        source=source, stages=list(stages), sink=ParquetSink(tmp_path / "out", mode="overwrite")
    )
    report = pipeline.run(threads=4, progress=False)
    table = pa.concat_tables(pq.read_table(output["path"]) for output in report.outputs)
    return report, table.column("binary_content").to_pylist()


def gets(proxy, *names) -> dict[str, int]:
    """GETs of objects by name."""
    found = Counter(
        request["target"].split("?")[0].rsplit("/", 1)[1]
        for request in proxy.requests()
        if request["method"] == "GET"
    )
    return {name: found[name] for name in names}


@pytest.fixture
def near(server, proxy, bucket):
    """The bucket is named by its options, so rows may point there.

    Its answers take a while, so that threads meet.
    """
    proxy.faults(*network(round_trip_s=0.01))
    sm.storage.configure(
        f"s3://{bucket.name}", {**server.storage_options(), "endpoint": proxy.endpoint}
    )
    return bucket


@pytest.mark.parametrize("size", [0, 60_000, 70_000, 900_000])
@pytest.mark.parametrize(
    "stages", [[], STAGES, [Map(lambda table: table), *STAGES]], ids=["sink", "filters", "map"]
)
def test_image_that_many_rows_name_is_fetched_once(near, proxy, tmp_path, size, stages):
    names = [f"{number}.png" for number in range(5)]
    bodies = [picture(number, size) for number in range(5)]
    for name, body in zip(names, bodies, strict=True):
        near.publish(f"images/{name}", body)
    write_rows(tmp_path / "in", [{"path": f"s3://{near.name}/images/{name}"} for name in names])
    report, found = run(tmp_path, stages)
    assert Counter(found) == Counter(dict.fromkeys(bodies, FILES * ROWS // 5))
    assert report.counts("output")["materialize_errors"] == 0
    assert gets(proxy, *names) == dict.fromkeys(names, 1)
    assert {request["method"] for request in proxy.requests()} == {"GET"}


def test_range_of_a_tar_that_many_rows_name_is_fetched_once(near, proxy, tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(5):
            info = tarfile.TarInfo(f"{number}.png")
            info.size = len(picture(number, 200_000))
            archive.addfile(info, io.BytesIO(picture(number, 200_000)))
    near.publish("a.tar", path)
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    at = f"s3://{near.name}/a.tar"
    write_rows(
        tmp_path / "in",
        [
            {
                "path": at,
                "member": found.name,
                "byte_offset": found.offset_data,
                "byte_size": found.size,
            }
            for found in members
        ],
    )
    _, found = run(tmp_path, STAGES)
    assert Counter(found) == Counter(
        {picture(number, 200_000): FILES * ROWS // 5 for number in range(5)}
    )
    # Each member, and the archive's end and start, which tell its version and that it
    # is not compressed.
    assert gets(proxy, "a.tar")["a.tar"] <= 5 + 2
    ranges = [request["range"] for request in proxy.requests() if request["method"] == "GET"]
    assert len(ranges) == len(set(ranges))


def test_members_without_a_range_cost_one_reading_of_the_archive(near, proxy, tmp_path):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(5):
            info = tarfile.TarInfo(f"{number}.png")
            info.size = len(picture(number, 50_000))
            archive.addfile(info, io.BytesIO(picture(number, 50_000)))
    near.publish("a.tar", path)
    write_rows(
        tmp_path / "in",
        [{"path": f"s3://{near.name}/a.tar", "member": f"{number}.png"} for number in range(5)],
    )
    _, found = run(tmp_path, STAGES)
    assert Counter(found) == Counter(
        {picture(number, 50_000): FILES * ROWS // 5 for number in range(5)}
    )
    assert gets(proxy, "a.tar")["a.tar"] <= 2


def test_all_pages_of_a_tiff_cost_one_request(near, proxy, tmp_path):
    near.publish("pages.tiff", tiff(6))
    at = f"s3://{near.name}/pages.tiff"
    write_rows(tmp_path / "in", [{"path": at, "frame_index": page} for page in range(6)])
    _, found = run(tmp_path, [AspectRatioFilter(0.5, 3.0), Look()])
    assert len(set(found)) == 6 and None not in found
    assert gets(proxy, "pages.tiff") == {"pages.tiff": 1}


def test_image_that_is_not_there_is_an_error_of_its_rows_only(near, proxy, tmp_path):
    near.publish("images/0.png", picture(0))
    refs = [{"path": f"s3://{near.name}/images/{name}.png"} for name in ("0", "none")]
    write_rows(tmp_path / "in", refs)
    sink = ParquetSink(tmp_path / "out", on_materialize_error="warn")
    report = Pipeline(source=InterleavedParquetSource(tmp_path / "in"), sink=sink).run(
        threads=4, progress=False
    )
    assert report.counts("output")["materialize_errors"] == FILES * ROWS // 2
    assert gets(proxy, "0.png", "none.png")["0.png"] == 1
    assert gets(proxy, "none.png")["none.png"] <= FILES


def test_failed_response_is_requested_again_and_never_used_in_part(near, proxy, tmp_path):
    near.publish("images/0.png", picture(0, 500_000))
    proxy.faults(Fault(kind="cut", operations=("GetObject",), count=2, seed=3))
    write_rows(tmp_path / "in", [{"path": f"s3://{near.name}/images/0.png"}])
    _, found = run(tmp_path, STAGES)
    assert set(found) == {picture(0, 500_000)}


def test_rows_read_other_prefixes_of_a_store_only_when_it_was_named(
    server, proxy, bucket, tmp_path
):
    """In its own process: what was configured stays."""
    import os
    import subprocess
    import sys

    bucket.publish("here/x.png", picture(1))
    bucket.publish("there/x.png", picture(2))
    refs = [{"path": f"s3://{bucket.name}/{name}/x.png"} for name in ("here", "there")]
    write_rows(tmp_path / "in", refs)
    bucket.publish("here", tmp_path / "in")
    code = """
import json, sys
from shardmill.curate import InterleavedParquetSource, ParquetSink, Pipeline
path, out = sys.argv[1:3]
options, roots = json.loads(sys.argv[3]), json.loads(sys.argv[4])
source = InterleavedParquetSource(path, storage_options=options, allowed_roots=roots)
sink = ParquetSink(out, mode="resume", on_materialize_error="warn")
print(Pipeline(source=source, sink=sink).run(progress=False).counts("output")["materialize_errors"])
"""
    keys = server.storage_options()
    names = {
        "endpoint": "AWS_ENDPOINT_URL",
        "access_key_id": "AWS_ACCESS_KEY_ID",
        "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    }
    names |= {"region": "AWS_REGION", "allow_http": "AWS_ALLOW_HTTP"}
    environment = {
        **os.environ,
        **{
            names[name]: str(value).lower() if isinstance(value, bool) else value
            for name, value in keys.items()
            if name in names
        },
    }
    environment["AWS_ALLOW_HTTP"] = "true"

    def errors(options, roots):
        arguments = [
            f"s3://{bucket.name}/here",
            str(tmp_path / "out"),
            json.dumps(options),
            json.dumps(roots),
        ]
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert errors(None, []) == FILES * ROWS // 2
    assert errors(None, [f"s3://{bucket.name}/there"]) == 0
    assert errors(keys, []) == 0
