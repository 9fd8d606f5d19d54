"""Shards of `sm.Writer`, read by the libraries whose formats they are."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st

ROWS = 500


def rows() -> list[dict]:
    rng = np.random.default_rng(3)
    return [
        {
            "text": f"föö {number}" * (number % 30),
            "id": number - 7,
            "tokens": rng.integers(0, 60_000, number % 9 + 1).astype(np.uint16),
            "box": rng.random((2, 2)).astype(np.float32),
            "any": rng.integers(-5, 5, (number % 3 + 1, 2)).astype(np.int32),
            "meta": {"k": [number, None, "é"]},
            "raw": bytes([number % 256]) * (number % 50),
            "score": number / 7,
        }
        for number in range(ROWS)
    ]


COLUMNS = {
    "text": "str",
    "id": "int",
    "tokens": "ndarray:uint16",
    "box": "ndarray:float32:2,2",
    "any": "ndarray",
    "meta": "json",
    "raw": "bytes",
    "score": "float64",
}


def assert_same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape)
            assert (found[name] == value).all()
        else:
            assert found[name] == value


@pytest.mark.parametrize("compression", [None, "zstd", "gz:6", "br:5", "bz2", "snappy"])
def test_mosaicml_reads_rows_and_writes_the_same_bytes(
    tmp_path: Path, compression: str | None
) -> None:
    streaming = pytest.importorskip("streaming")
    options = {
        "columns": COLUMNS,
        "compression": compression,
        "hashes": ["sha1", "xxh64"],
        "shard_bytes": 20_000,
    }
    with sm.Writer(tmp_path / "ours", format="mds", **options) as writer:
        writer.write_rows(rows())
    with streaming.MDSWriter(out=str(tmp_path / "theirs"), **options) as other:
        for row in rows():
            other.write(row)
    assert len(writer.files) > 5
    found = list(
        streaming.StreamingDataset(local=str(tmp_path / "ours"), batch_size=1, shuffle=False)
    )
    for one, expected in zip(found, rows(), strict=True):
        assert_same(one, expected)
    if compression is None:
        for path in (tmp_path / "theirs").iterdir():
            assert (tmp_path / "ours" / path.name).read_bytes() == path.read_bytes(), path.name


def test_mosaicml_reads_a_merged_directory(tmp_path: Path) -> None:
    streaming = pytest.importorskip("streaming")
    for part in range(4):
        with sm.Writer(
            tmp_path / f"{part:05}", format="mds", columns=COLUMNS, shard_bytes=30_000
        ) as writer:
            writer.write_rows(rows()[part * 125 : part * 125 + 125])
    sm.merge(tmp_path)
    found = streaming.StreamingDataset(local=str(tmp_path), batch_size=1, shuffle=False)
    for one, expected in zip(found, rows(), strict=True):
        assert_same(one, expected)


@settings(max_examples=examples(25), deadline=None)
@given(
    samples=st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
            st.integers(-99, 99),
            st.binary(max_size=700),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_webdataset_reads_the_samples(tmp_path_factory, samples) -> None:
    webdataset = pytest.importorskip("webdataset")
    path = tmp_path_factory.mktemp("tar") / "a.tar"
    with sm.Writer(path) as writer:
        writer.write_rows(
            {"txt": text, "cls": number, "bin": data, "json": {"n": number, "t": text}}
            for text, number, data in samples
        )
    found = list(webdataset.WebDataset(str(path), shardshuffle=False).decode())
    assert [(one["txt"], one["cls"], one["bin"]) for one in found] == samples
    assert [one["json"] for one in found] == [
        {"n": number, "t": text} for text, number, _ in samples
    ]
    assert [one["__key__"] for one in found] == [f"{number:09}" for number in range(len(samples))]


@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_webdataset_reads_directories_of_shards_in_order(tmp_path: Path, suffix: str) -> None:
    webdataset = pytest.importorskip("webdataset")
    compression = "gz" if suffix == "tar.gz" else None
    options = {"format": "webdataset", "shard_bytes": "50kB", "compression": compression}
    array = io.BytesIO()
    np.save(array, np.arange(3))
    with sm.Writer(tmp_path, **options) as writer:
        writer.write_rows(
            {"__key__": f"dir/{number}", "txt": "x" * 900, "seg.npy": np.arange(3)}
            for number in range(200)
        )
    assert len(writer.files) > 3
    found = list(webdataset.WebDataset(writer.files, shardshuffle=False))
    assert [one["__key__"] for one in found] == [f"dir/{number}" for number in range(200)]
    assert all(one["seg.npy"] == array.getvalue() for one in found)


def test_members_are_those_that_webdataset_writes(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    sample = {"__key__": "a/b", "txt": "é", "cls": 3, "json": {"x": [1, None]}, "bin": b"\x00"}
    with webdataset.TarWriter(str(tmp_path / "theirs.tar"), mtime=5) as other:
        other.write(sample)
    with sm.Writer(tmp_path / "ours.tar", modified=5) as writer:
        writer.write(sample)
    ours, theirs = (
        [
            {k: v for k, v in one.items() if k not in ("__url__", "__local_path__")}
            for one in webdataset.WebDataset(str(tmp_path / name), shardshuffle=False)
        ]
        for name in ("ours.tar", "theirs.tar")
    )
    assert ours == theirs
    assert json.loads(ours[0]["json"]) == sample["json"]
