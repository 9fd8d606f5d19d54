"""Files of the tests of DataLoaders, and the ids in their batches."""

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
from flat_options import flat_loader
from torch.utils.data import DataLoader, _utils

ROWS = 250

# Seconds that a DataLoader waits for a worker whose data set has failed, five by default.
_utils.MP_STATUS_CHECK_INTERVAL = 0.5


def write_rows(path):
    """Write 250 rows to three files, and return their directory."""
    for number, start in enumerate((0, 100, 200)):
        ids = list(range(start, min(start + 100, ROWS)))
        columns = {
            "id": ids,
            "label": [one % 5 for one in ids],
            "name": [f"row {one}" for one in ids],
        }
        pq.write_table(pa.table(columns), path / f"{number}.parquet", row_group_size=30)
    return path


def loader_of(directory, **options):
    given = {
        "batch_size": 16,
        "columns": ["id"],
        "rank": 0,
        "world_size": 1,
        "threads": 1,
    } | options
    return flat_loader(directory, **given)


def ids_of(batches):
    return [batch["id"].tolist() for batch in batches]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


def in_workers(dataset, workers, **options):
    return DataLoader(dataset, batch_size=None, num_workers=workers, **options)
