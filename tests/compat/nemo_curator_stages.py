"""Reads and writes with NeMo Curator's own stages.

Its interpreter runs this: nemo_curator_stages.py JOBS, a JSON list of conversions.
"""

import json
import sys
from pathlib import Path

from nemo_curator.stages.interleaved.io.readers.parquet import InterleavedParquetReaderStage
from nemo_curator.stages.interleaved.io.readers.webdataset import InterleavedWebdatasetReaderStage
from nemo_curator.stages.interleaved.io.writers.tabular import InterleavedParquetWriterStage
from nemo_curator.stages.interleaved.io.writers.webdataset import InterleavedWebdatasetWriterStage
from nemo_curator.tasks import FileGroupTask


def convert(source: str, suffix: str, target: str, writer: str) -> None:
    """Files of a directory, one task each; the stages are called as an executor calls them."""
    if suffix == ".tar":
        reader = InterleavedWebdatasetReaderStage(
            sample_id_field="sample_id",
            image_member_field="pages",
            per_image_fields=("captions",),
            materialize_on_read=True,
        )
    else:
        reader = InterleavedParquetReaderStage()
    make = {
        "parquet": InterleavedParquetWriterStage,
        "webdataset": InterleavedWebdatasetWriterStage,
    }[writer]
    sink = make(path=target, mode="overwrite")
    Path(target).mkdir(parents=True, exist_ok=True)
    for path in sorted(Path(source).glob(f"*{suffix}")):
        sink.process(reader.process(FileGroupTask(dataset_name="test", data=[str(path)])))


for job in json.loads(sys.argv[1]):
    convert(**job)
