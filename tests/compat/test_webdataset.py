"""The `webdataset` package reads our archives, and we read archives by its writers."""

from __future__ import annotations

import io
import json

import pytest

np = pytest.importorskip("numpy")
wds = pytest.importorskip("webdataset")
pq = pytest.importorskip("pyarrow.parquet")
Image = pytest.importorskip("PIL.Image")

from shardmill.curate import ParquetSink, Pipeline, WebDatasetSink, WebDatasetSource

# Its readers leave files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def picture(seed):
    random = np.random.default_rng(seed)
    return Image.fromarray(random.integers(0, 256, (30 + seed, 50, 3), dtype=np.uint8))


def encoded(image, format):
    target = io.BytesIO()
    image.save(target, format)
    return target.getvalue()


def samples():
    """Two images and two texts a sample, in the form that the writers of webdataset take."""
    for index in range(4):
        key = f"dir/{index:04}"
        body = {
            "texts": [f"text {index}", None, None, "ü"],
            "images": [None, f"{index:04}.first.png", f"{index:04}.second.jpg", None],
            "number": index,
        }
        yield {
            "__key__": key,
            "first.png": encoded(picture(2 * index), "PNG"),
            "second.jpg": encoded(picture(2 * index + 1), "JPEG"),
            "json": body,
        }


def check(rows):
    for index, sample in enumerate(samples()):
        own = [row for row in rows if row["sample_id"] == f"{index:04}"]
        assert [row["position"] for row in own] == [-1, 0, 1, 2, 3]
        assert [row["number"] for row in own] == [index, None, None, None, None]
        assert [own[1]["text_content"], own[4]["text_content"]] == [f"text {index}", "ü"]
        assert [own[2]["binary_content"], own[3]["binary_content"]] == [
            sample["first.png"],
            sample["second.jpg"],
        ]


def curated(source, out, sink=ParquetSink):
    report = Pipeline(source=WebDatasetSource(source), sink=sink(out)).run()
    assert not report.quarantined
    return out


def rows(directory):
    return [
        row
        for path in sorted(directory.glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "in").mkdir()
    with wds.TarWriter(str(tmp_path / "in" / "a.tar")) as writer:
        for sample in samples():
            writer.write(sample)
    return tmp_path / "in"


def test_we_read_the_archive_of_a_tar_writer(archive, tmp_path):
    check(rows(curated(archive, tmp_path / "out")))


def test_we_read_a_compressed_archive_of_a_tar_writer(tmp_path):
    (tmp_path / "in").mkdir()
    with wds.TarWriter(str(tmp_path / "in" / "a.tar.gz"), compress=True) as writer:
        for sample in samples():
            writer.write(sample)

    check(rows(curated(tmp_path / "in", tmp_path / "out")))


def test_we_read_the_archives_of_a_shard_writer(tmp_path):
    (tmp_path / "in").mkdir()
    with wds.ShardWriter(str(tmp_path / "in" / "%03d.tar"), maxcount=2, verbose=0) as writer:
        for sample in samples():
            writer.write(sample)
    out = curated(tmp_path / "in", tmp_path / "out")

    assert len(list(out.iterdir())) == 2
    check(rows(out))


def test_webdataset_reads_our_archive(archive, tmp_path):
    [written] = curated(archive, tmp_path / "out", WebDatasetSink).iterdir()

    found = list(wds.WebDataset(str(written), shardshuffle=False))

    assert [sample["__key__"] for sample in found] == [f"{index:04}" for index in range(4)]
    for sample, source in zip(found, samples(), strict=True):
        body = json.loads(sample["json"])
        assert body["texts"] == source["json"]["texts"]
        assert body["number"] == source["json"]["number"]
        assert body["images"] == [
            None,
            f"{sample['__key__']}.1.png",
            f"{sample['__key__']}.2.jpg",
            None,
        ]
        assert sample["1.png"] == source["first.png"]
        assert sample["2.jpg"] == source["second.jpg"]


def test_webdataset_decodes_our_archive_to_the_same_pixels(archive, tmp_path):
    [written] = curated(archive, tmp_path / "out", WebDatasetSink).iterdir()

    for index, sample in enumerate(wds.WebDataset(str(written), shardshuffle=False).decode("rgb8")):
        np.testing.assert_array_equal(sample["1.png"], np.asarray(picture(2 * index)))
        jpeg = Image.open(io.BytesIO(encoded(picture(2 * index + 1), "JPEG")))
        np.testing.assert_array_equal(sample["2.jpg"], np.asarray(jpeg))


def test_ids_with_dots_stay_one_sample_for_webdataset(tmp_path):
    (tmp_path / "in").mkdir()
    body = {"texts": ["x", None], "images": [None, "a.b.c.png"]}
    with wds.TarWriter(str(tmp_path / "in" / "a.tar")) as writer:
        writer.write(
            {
                "__key__": "a",
                "b.c.png": encoded(picture(1), "PNG"),
                "b.c.json": json.dumps(body).encode(),
            }
        )
    [written] = curated(tmp_path / "in", tmp_path / "out", WebDatasetSink).iterdir()

    [sample] = wds.WebDataset(str(written), shardshuffle=False)

    assert json.loads(sample["json"])["sample_id"] == "a.b.c"
    assert sample["1.png"] == encoded(picture(1), "PNG")
