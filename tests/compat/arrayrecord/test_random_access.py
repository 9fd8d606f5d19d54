"""Many threads on one source, and a price of one record that does not grow with the file."""

import threading
import time

import pytest
from breadth import examples
from implementations import STRICT, numbered
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader, ArrayRecordWriter

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("group", [1, 50])
def test_sixteen_threads_read_what_one_reads(group, tmp_path) -> None:
    records = numbered(3000)
    paths = [
        STRICT.write(
            tmp_path / f"{part}", records[part * 1000 : part * 1000 + 1000], f"group_size:{group}"
        )
        for part in range(3)
    ]
    source = ArrayRecordDataSource(paths)
    wrong: list[object] = []
    start = threading.Barrier(16)

    def work(seed: int) -> None:
        keys = np.random.default_rng(seed).integers(0, 3000, examples(10_000, 3_000)).tolist()
        start.wait()
        try:
            wrong.extend(key for key in keys if source[key] != records[key])
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_sixteen_threads_mix_all_calls_of_one_reader(tmp_path) -> None:
    records = numbered(2000)
    reader = ArrayRecordReader(STRICT.write(tmp_path / "file", records, "group_size:4"))
    wrong: list[object] = []

    def work(seed: int) -> None:
        keys = np.random.default_rng(seed).integers(0, 2000, examples(300, 100)).tolist()
        try:
            for key in keys:
                stop = min(key + 10, 2000)
                found = [
                    reader[key],
                    *reader.read([key, 0]),
                    reader[key:stop],
                    reader.read(key, stop),
                    bytes(reader.view(key)),
                ]
                if found != [
                    records[key],
                    records[key],
                    records[0],
                    records[key:stop],
                    records[key:stop],
                    records[key],
                ]:
                    wrong.append(key)
            if list(reader) != records or reader.read_all() != records:
                wrong.append("all")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_price_of_one_record_does_not_grow_with_the_file(tmp_path) -> None:
    """1,000 records against 512,000: the original scans its list of chunks for each call."""
    readers = {}
    for count in (1000, 512_000):
        with ArrayRecordWriter(tmp_path / f"{count}", "uncompressed") as writer:
            writer.write_all(b"%d" % number for number in range(count))
        readers[count] = ArrayRecordReader(tmp_path / f"{count}")
    # The same keys, so that the processor's caches see the same bytes of either file.
    keys = np.random.default_rng(42).integers(0, 1000, 5000).tolist()
    best = dict.fromkeys(readers, float("inf"))
    for _ in range(9):
        for count, reader in readers.items():
            begin = time.thread_time()
            for key in keys:
                reader.read([key])
            best[count] = min(best[count], time.thread_time() - begin)
    assert best[512_000] < 1.5 * best[1000], best
