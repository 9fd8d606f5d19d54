"""Parquet of pyarrow in many shapes.

What our look at footers and page headers lets pass, and what it must not.
"""

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from breadth import examples
from promptness import assert_prompt
from shardmill.curate import InterleavedParquetSource, ParquetSink, Pipeline

SEEDS = Path(__file__).parents[2] / "fuzz" / "seeds" / "interleaved_parquet"


def through(path: Path, out: Path) -> pa.Table:
    report = Pipeline(
        source=InterleavedParquetSource(path), sink=ParquetSink(out, mode="overwrite")
    ).run()
    assert report.quarantined == []
    return pq.read_table(report.outputs[0]["path"])


def assert_same(written: pa.Table, expected: pa.Table) -> None:
    for name in expected.column_names:
        assert written[name].equals(expected[name]), name


def table(rows: int, **columns: list) -> pa.Table:
    fixed = {
        "sample_id": [f"s{row}" for row in range(rows)],
        "position": pa.array([-1] * rows, pa.int32()),
        "modality": ["metadata"] * rows,
    }
    return pa.table(fixed | columns)


OPTIONS = {
    "version": ["1.0", "2.4", "2.6"],
    "data_page_version": ["1.0", "2.0"],
    "compression": ["zstd", "snappy", "gzip", "brotli", "lz4", "none"],
    "write_statistics": [True, False],
    "write_page_index": [True, False],
    "write_page_checksum": [True, False],
}


@pytest.mark.parametrize("seed", range(24))
def test_every_way_to_write_is_read(seed, tmp_path) -> None:
    choices = random.Random(seed).sample(list(itertools.product(*OPTIONS.values())), 1)[0]
    rows = table(
        3,
        text=["a", None, "x" * 100_000],
        number=[1.5, None, -0.0],
        flag=[True, None, False],
        bytes=[b"", None, b"y"],
    )
    pq.write_table(rows, tmp_path / "a.parquet", **dict(zip(OPTIONS, choices, strict=True)))
    assert_same(through(tmp_path / "a.parquet", tmp_path / "out"), rows)


@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("data_page_version", ["1.0", "2.0"])
def test_small_pages_of_nested_columns(use_dictionary, data_page_version, tmp_path) -> None:
    """The decoder looks at the headers of such pages ahead, and returns for their content alone."""
    rng = random.Random(7)
    lists = [[rng.getrandbits(62) for _ in range(rng.randrange(9))] for _ in range(5_000)]
    rows = table(5_000, lists=lists, deep=[[{"bytes": [rng.randbytes(7)]}] for _ in lists])
    pq.write_table(
        rows,
        tmp_path / "a.parquet",
        data_page_size=3_000,
        use_dictionary=use_dictionary,
        data_page_version=data_page_version,
    )
    assert_same(through(tmp_path / "a.parquet", tmp_path / "out"), rows)


@pytest.mark.parametrize("compression", ["zstd", "brotli", "none"])
def test_dictionaries_that_compress_well(compression, tmp_path) -> None:
    count = examples(100_000, 30_000)
    rows = table(
        count,
        steps=[row * 1_000 for row in range(count)],
        texts=["0" * 300 + str(row) for row in range(count)],
    )
    pq.write_table(
        rows, tmp_path / "a.parquet", compression=compression, dictionary_pagesize_limit=1 << 26
    )
    assert_same(through(tmp_path / "a.parquet", tmp_path / "out"), rows)


@pytest.mark.parametrize("name", ["footer_of_booleans", "dictionary_of_gigabytes"])
def test_hostile_file_is_quarantined_at_once(name, tmp_path) -> None:
    """Found by fuzzing: one kept the decoder counting, the other made it ask for 8 GB."""
    (tmp_path / "a.parquet").write_bytes((SEEDS / name).read_bytes())

    def quarantined() -> float:
        source = InterleavedParquetSource(tmp_path / "a.parquet")
        report = Pipeline(source=source, sink=ParquetSink(tmp_path / "out", mode="overwrite")).run()
        assert [item["is_shard"] for item in report.quarantined] == [True]
        return report.seconds

    assert_prompt(0.5, quarantined)
