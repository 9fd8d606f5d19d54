"""The peers read a store.

They are pyarrow with its own S3 client, torch-dataloader-utils over s3fs, and MosaicML Streaming
over boto3. Server, proxy, latency and clock are the same as for shardmill; a tool with settings
runs with several, and all are shown.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.remote.scenarios import RemoteOptions, Way, in_lists
from benchmarks.remote.store import BUCKET, Store


def pyarrow(options: RemoteOptions) -> dict[str, Way]:
    """The data set scanner, with several settings.

    There are more threads that wait, more that it reads ahead, and its batches cut by hand.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as fs

    def scan(store: Store, path: str, threads: int, ahead: int, rows: int) -> Iterator[Any]:
        pa.set_io_thread_count(threads)
        bucket = fs.S3FileSystem(
            access_key=store.server.access_key,
            secret_key=store.server.secret_key,
            endpoint_override=store.proxy.endpoint.removeprefix("http://"),
            scheme="http",
            region=store.server.region,
        )
        data = ds.dataset(path.removeprefix("s3://"), filesystem=bucket, format="parquet")
        reading = ds.ParquetFragmentScanOptions(pre_buffer=True)
        return data.to_batches(
            batch_size=rows,
            fragment_readahead=ahead,
            batch_readahead=16,
            use_threads=True,
            fragment_scan_options=reading,
        )

    def cut(store: Store, path: str, threads: int, ahead: int) -> Iterator[Any]:
        # The scanner's own size: it makes small batches slowly.
        for batch in scan(store, path, threads, ahead, 1 << 17):
            for first in range(0, batch.num_rows, options.batch_size):
                yield batch.slice(first, options.batch_size)

    ways: dict[str, Way] = {}
    for given in ((8, 4), (32, 4)):
        name = "io threads {}, fragments ahead {}".format(*given)
        ways[name] = lambda store, path, given=given: scan(store, path, *given, options.batch_size)
        ways[f"{name}, cut by hand"] = lambda store, path, given=given: cut(store, path, *given)
    return ways


def torch_dataloader_utils(options: RemoteOptions) -> dict[str, Way]:
    """Its loader, in this process and with workers."""
    from shardmill.integrations.torch import unchanged
    from torch_dataloader_utils import StructuredDataset

    def loader(store: Store, path: str, workers: int) -> Iterable[Any]:
        # It reads footers without the options that it was given, and takes a file as a whole when
        # that fails.
        os.environ.update(store.environment())
        return StructuredDataset.create_dataloader(
            path=path,
            format="parquet",
            batch_size=options.batch_size,
            num_workers=workers,
            output_format=options.form,
            collate_fn=unchanged,
            storage_options=store.fsspec_options(),
        )[0]

    return {
        f"{workers} workers": lambda store, path, workers=workers: loader(store, path, workers)
        for workers in (0, 2)
    }


def mosaicml(options: RemoteOptions) -> dict[str, Way]:
    """Shards are downloaded to a directory that is empty at the start of each pass."""
    import streaming
    from streaming.base.util import clean_stale_shared_memory

    directory = options.scratch / "shards"

    def rows(store: Store, _path: str) -> Any:
        os.environ.update(store.environment())
        # Ones of the same directory clash in shared memory.
        clean_stale_shared_memory()
        shutil.rmtree(directory, ignore_errors=True)
        size, remote = options.batch_size, f"s3://{BUCKET}/{options.data.name}"
        given = {"batch_size": size, "num_canonical_nodes": 1, "predownload": 1 << 20}
        return in_lists(
            streaming.StreamingDataset(remote=remote, local=str(directory), **given), size
        )

    return {"rows": rows}


SYSTEMS = {
    "pyarrow": pyarrow,
    "torch_dataloader_utils": torch_dataloader_utils,
    "mosaicml": mosaicml,
}
