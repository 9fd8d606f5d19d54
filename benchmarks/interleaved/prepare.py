"""Writes the Parquet inputs that both systems read: the shards of a folder, unfiltered, with every image as it is.

shardmill writes them, because it copies pages without decoding; NeMo Curator would re-compress JPEG pages.
Run as ``python benchmarks/interleaved/prepare.py SHARDS PARQUET``; what is there already is kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import shardmill
from shardmill.curate import ParquetSink, Pipeline, WebDatasetSource

from benchmarks.mint1t.shards import RECORD_NAME


def main() -> None:
    """Reads the command line and writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards", type=Path, help="folder made by python -m benchmarks.mint1t")
    parser.add_argument("parquet", type=Path, help="folder to write")
    options = parser.parse_args()
    write_parquet(options.shards, options.parquet)


def write_parquet(shards: Path, parquet: Path) -> None:
    """Writes one Parquet file a shard, unless the folder was written from the same shards before."""
    source_record = json.loads((shards / RECORD_NAME).read_text())
    prepared = parquet / RECORD_NAME
    if prepared.exists() and json.loads(prepared.read_text())["source"] == source_record:
        return

    if parquet.exists():
        shutil.rmtree(parquet)
    Pipeline(
        source=WebDatasetSource(str(shards), per_image_fields=("image_metadata",), materialize_on_read=True),
        stages=[],
        sink=ParquetSink(str(parquet), mode="overwrite"),
    ).run(executor="local", progress=False)
    writer = f"shardmill {shardmill.__version__}"
    prepared.write_text(json.dumps({"writer": writer, "source": source_record}, indent=2) + "\n")


if __name__ == "__main__":
    main()
