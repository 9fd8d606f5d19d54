"""Page checksums of the Parquet files that are written here: zlib and pyarrow are the oracles."""

import random
import sys
import zlib
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from parquet_pages import pages
from shardmill.cli._commands import run
from shardmill.curate import Map, ParquetSink, Pipeline, TableSource, WebDatasetSource
from shardmill.errors import FormatError, OptionError
from shardmill.resume import Checkpoint

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
from shard_files import source_sample, write_tar

ROWS = 30_000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "few": [f"value {row % 7}" for row in range(ROWS)],
        "text": [f"text {row * 7919 % ROWS} " * 3 for row in range(ROWS)],
        "list": [list(range(row % 4)) for row in range(ROWS)],
        "null": pa.array([None if row % 3 else row / 7 for row in range(ROWS)]),
        "struct": [{"a": row, "b": str(row % 5)} for row in range(ROWS)],
    }
)


def check(path: Path) -> int:
    """Every page has the checksum of its bytes, and the footer describes what is there."""
    data, count = path.read_bytes(), 0
    for page in pages(path):
        assert page.crc == zlib.crc32(data[page.start : page.end]), page
        count += 1
    return count


def verified(path: Path) -> pa.Table:
    return pq.ParquetFile(path, page_checksum_verification=True).read()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
def test_pages_have_checksums_and_other_readers_agree(
    tmp_path: Path, compression: str, threads: int
) -> None:
    path = tmp_path / "rows.parquet"
    with sm.Writer(path, compression=compression, threads=threads) as writer:
        for batch in TABLE.to_batches(max_chunksize=7_000):
            writer.write_batch(batch)
    assert check(path) > 14
    assert verified(path).equals(TABLE)
    assert polars.read_parquet(path).equals(polars.from_arrow(TABLE))
    assert pa.Table.from_batches(list(sm.Loader(path, output="arrow", batch_size=1000))).equals(
        TABLE
    )


def test_page_index_leads_to_the_rows(tmp_path: Path) -> None:
    """Rows that the page index chooses, of columns with a dictionary and without, in many pages."""
    path = tmp_path / "rows.parquet"
    rows = pa.table(
        {"id": pa.array(range(200_000)), "few": [str(row // 5000) for row in range(200_000)]}
    )
    with sm.Writer(path) as writer:
        writer.write_batch(rows)
    assert check(path) > 20
    assert pq.read_metadata(path).row_group(0).column(0).has_offset_index
    wanted = (sm.col("id") >= 123_456) & (sm.col("id") < 123_470)
    found = pa.Table.from_batches(
        list(sm.Loader(path, filter=wanted, output="arrow", batch_size=5))
    )
    assert found.equals(rows.slice(123_456, 14))
    lazy = polars.scan_parquet(path).filter(polars.col("id").is_between(123_456, 123_469)).collect()
    assert lazy.equals(polars.from_arrow(rows.slice(123_456, 14)))


def test_every_way_to_write_parquet_makes_checksums(tmp_path: Path) -> None:
    sm_file = tmp_path / "in" / "rows.parquet"
    sm_file.parent.mkdir()
    pq.write_table(TABLE, sm_file)
    write_tar(
        tmp_path / "tars" / "0.tar", [*source_sample("a", words=3), *source_sample("b", words=4)]
    )
    Pipeline(
        source=WebDatasetSource(tmp_path / "tars"),
        stages=[],
        sink=ParquetSink(tmp_path / "curated"),
    ).run()
    Pipeline(
        source=TableSource(sm_file.parent),
        stages=[Map(lambda rows: rows)],
        sink=ParquetSink(tmp_path / "mapped"),
        checkpoint=Checkpoint(tmp_path / "state", id_column="id"),
    ).run()
    assert run(["convert", str(sm_file), str(tmp_path / "converted.parquet")]) == 0
    written = [path for path in tmp_path.rglob("*.parquet") if path != sm_file]
    assert {path.relative_to(tmp_path).parts[0] for path in written} >= {
        "curated",
        "mapped",
        "converted.parquet",
        "state",
    }
    assert all(check(path) for path in written)


def test_flip_in_a_page_is_an_error_that_names_file_row_group_and_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with sm.Writer(path) as writer:
        writer.write_batch(TABLE.slice(0, 3000))
    written, rng = path.read_bytes(), random.Random(3)
    for page in pages(path):
        flipped = bytearray(written)
        flipped[rng.randrange(page.start, page.end)] ^= 1 << rng.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(FormatError) as caught:
            list(sm.Loader(path, output="arrow", batch_size=500))
        message = str(caught.value)
        assert f"column `{page.column}` in row group {page.row_group} of `{path}`" in message
        with pytest.raises(OSError):
            verified(path)


def test_checksums_can_be_left_out_of_parquet_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with sm.Writer(path, page_checksums=False) as writer:
        writer.write_batch(TABLE)
    assert {page.crc for page in pages(path)} == {None}
    assert verified(path).equals(TABLE)
    with pytest.raises(OptionError, match="page_checksums"):
        sm.Writer(tmp_path / "rows.jsonl", page_checksums=False)
    with pytest.raises(OptionError, match="page_checksums"):
        sm.Writer(
            tmp_path / "b.parquet",
            page_checksums="no",  # pyright: ignore[reportArgumentType]
        )
