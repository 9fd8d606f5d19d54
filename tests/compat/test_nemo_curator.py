"""NeMo Curator reads what we write, and we read what it writes: equal rows, equal pixels.

Its stages run in a process with the interpreter of its own environment, which `SHARDMILL_PEERS`
names the directory of.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from promptness import HANGS_S

np = pytest.importorskip("numpy")
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
Image = pytest.importorskip("PIL.Image")

from shardmill.curate import (
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    SampleKeys,
    WebDatasetSink,
    WebDatasetSource,
)

PEER = Path(os.environ.get("SHARDMILL_PEERS", "")) / "nemo_curator" / "bin" / "python"
pytestmark = pytest.mark.skipif(
    "SHARDMILL_PEERS" not in os.environ or not PEER.exists(),
    reason="SHARDMILL_PEERS names no directory with nemo_curator/bin/python; "
    "benchmarks/peers/build.sh makes one",
)

# NeMo Curator encodes each TIFF page again, so only codecs without loss keep their pixels there.
CODECS = [None, "tiff_lzw", "packbits"]
IDS = ["plain", "dir/a.b:c", "größe 1"]


def picture(seed, width=60, height=40):
    random = np.random.default_rng(seed)
    return Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))


def encoded(image, format, **options):
    target = io.BytesIO()
    image.save(target, format, **options)
    return target.getvalue()


def documents():
    """Members and, for each id, the pictures in reading order."""
    members, pictures = {}, {}
    for index, (name, codec) in enumerate(zip(IDS, CODECS, strict=True)):
        pages = [picture(index * 10 + page, height=40 + page) for page in range(3)]
        options = {} if codec is None else {"compression": codec}
        members[f"{index}.tiff"] = encoded(
            pages[0], "TIFF", save_all=True, append_images=pages[1:], **options
        )
        body = {
            "sample_id": name,
            "texts": ["first", None, None, "zweiter: ü", None],
            "images": [None, "page_0_image_1", "page_0_image_2", None, "page_1_image_9"],
            "captions": ["a", None, "c"],
            "url": f"https://example.org/{index}",
            "words": index,
            "language": {"en": 0.5},
            "pages": f"{index}.tiff",
        }
        members[f"{index}.json"] = json.dumps(body).encode()
        pictures[name] = pages
    for index, (format, extension) in enumerate(
        [("PNG", "png"), ("JPEG", "jpg"), ("WEBP", "webp")], start=len(IDS)
    ):
        name = f"member-{extension}"
        image = picture(index)
        members[f"{index}.{extension}"] = encoded(image, format)
        body = {
            "sample_id": name,
            "texts": [None, "text"],
            "images": [f"{index}.{extension}", None],
            "words": index,
        }
        members[f"{index}.json"] = json.dumps(body).encode()
        pictures[name] = [Image.open(io.BytesIO(members[f"{index}.{extension}"]))]
    return members, pictures


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """`in`: the source. `ours`, `theirs`: outputs for it. `back`: ours by way of NeMo Curator."""
    import tarfile

    directory = tmp_path_factory.mktemp("peer")
    (directory / "in").mkdir()
    with tarfile.open(directory / "in" / "a.tar", "w") as archive:
        for name, body in documents()[0].items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    for sink in (ParquetSink, WebDatasetSink):
        curated(directory / "in", directory / "ours" / sink.format, sink)
    jobs = [
        {"source": "in", "suffix": ".tar", "target": "theirs/parquet", "writer": "parquet"},
        {"source": "in", "suffix": ".tar", "target": "theirs/webdataset", "writer": "webdataset"},
        {
            "source": "ours/parquet",
            "suffix": ".parquet",
            "target": "back/parquet",
            "writer": "parquet",
        },
        {
            "source": "ours/webdataset",
            "suffix": ".tar",
            "target": "back/webdataset",
            "writer": "parquet",
        },
    ]
    command = [PEER, Path(__file__).with_name("nemo_curator_stages.py"), json.dumps(jobs)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=HANGS_S
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return directory


def curated(source, target, sink=ParquetSink):
    if source.name == "parquet":
        reader = InterleavedParquetSource(source)
    else:
        reader = WebDatasetSource(
            source,
            per_image_fields=("captions",),
            keys=SampleKeys(sample_id_field="sample_id", image_member_field="pages"),
        )
    report = Pipeline(source=reader, sink=sink(target, mode="overwrite")).run()
    assert not report.quarantined
    return target


def rows(directory):
    tables = [pq.read_table(path) for path in sorted(directory.glob("*.parquet"))]
    assert tables
    return pa.concat_tables(tables).to_pylist()


def check_pictures(found):
    """Each image row shows the picture that its document has at this place."""
    for name, pictures in documents()[1].items():
        images = [row for row in found if row["sample_id"] == name and row["modality"] == "image"]
        assert [row["materialize_error"] for row in images] == [None] * len(pictures)
        for row, expected in zip(images, pictures, strict=True):
            shown = Image.open(io.BytesIO(row["binary_content"]))
            np.testing.assert_array_equal(
                np.asarray(shown.convert("RGB")), np.asarray(expected.convert("RGB"))
            )


def without_bytes(found):
    """What the rows say; where bytes came from is told apart by each writer."""
    ignored = ("binary_content", "source_ref")
    return [{name: value for name, value in row.items() if name not in ignored} for row in found]


def test_both_write_the_same_rows_and_pixels(directory):
    ours, theirs = rows(directory / "ours" / "parquet"), rows(directory / "theirs" / "parquet")

    assert without_bytes(ours) == without_bytes(theirs)
    check_pictures(ours)
    check_pictures(theirs)


@pytest.mark.parametrize("format", ["parquet", "webdataset"])
def test_nemo_curator_reads_our_output(directory, format):
    back = rows(directory / "back" / format)

    assert without_bytes(back) == without_bytes(rows(directory / "ours" / "parquet"))
    check_pictures(back)


@pytest.mark.parametrize("format", ["parquet", "webdataset"])
def test_we_read_the_output_of_nemo_curator(directory, format, tmp_path):
    found = rows(curated(directory / "theirs" / format, tmp_path / "out"))

    assert without_bytes(found) == without_bytes(rows(directory / "ours" / "parquet"))
    check_pictures(found)


def test_bytes_survive_parquet_on_both_sides(directory):
    bodies = [
        [row["binary_content"] for row in rows(directory / side / "parquet")]
        for side in ("ours", "back")
    ]

    assert bodies[0] == bodies[1]
