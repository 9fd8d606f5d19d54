"""Grain reads the same through ours as through the original; each continues the other's states."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from breadth import IS_WHOLE
from implementations import ORIGINAL, STRICT
from own_process import run_python
from promptness import HANGS_S

pytest.importorskip("grain")

from shardmill.arrayrecord import ArrayRecordDataSource

JOB = Path(__file__).with_name("grain_job.py")
COUNT = 51


@pytest.fixture
def paths(tmp_path) -> list[str]:
    """51 records in three files, one of them written by shardmill."""
    records = [b"%d is the number of this record" % number for number in range(COUNT)]
    return [
        str(
            (STRICT if part == 1 else ORIGINAL).write(
                tmp_path / f"{part}", records[part * 17 : part * 17 + 17]
            )
        )
        for part in range(3)
    ]


def job(
    kind: str, paths: list[str], pipelines: list[str], states: Path, restored: list[str]
) -> list[dict]:
    arguments = (kind, json.dumps(paths), json.dumps(pipelines), states, json.dumps(restored))
    return json.loads(run_python(JOB, *arguments, timeout=HANGS_S).splitlines()[-1])


def assert_same_everywhere(
    paths: list[str], pipelines: list[str], states: Path, processes: list[str]
) -> None:
    """The original, then the others, then the original from the states of the others."""
    [expected] = job("original", paths, pipelines, states, ["itself"])
    for pipeline in pipelines:
        assert sorted(number for batch in expected[pipeline] for number in batch) == list(
            range(COUNT)
        )
    kinds = [kind for process in processes for kind in process.split("+")]
    found = [
        each
        for process in processes
        for each in job(process, paths, pipelines, states, ["itself", "original"])
    ]
    assert found == [expected] * len(kinds)
    assert job("original", paths, pipelines, states, kinds) == [expected]


def test_pipelines_in_one_process(paths, tmp_path) -> None:
    pipelines = ["map-0", *(["threads-0"] if IS_WHOLE else []), "threads-16", "loader-0"]
    assert_same_everywhere(paths, pipelines, tmp_path, ["installed+direct"])


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["loader-2", "processes-2"])
def test_pipelines_of_several_processes(pipeline, paths, tmp_path) -> None:
    assert_same_everywhere(paths, [pipeline], tmp_path, ["installed", "direct"])


def test_loader_of_two_workers_reads_what_one_process_reads(paths, tmp_path) -> None:
    [found] = job("installed", paths, ["loader-2", "loader-0"], tmp_path, [])
    assert [
        sorted(number for batch in found[name] for number in batch)
        for name in ("loader-0", "loader-2")
    ] == [list(range(COUNT))] * 2


def test_indices_wrap_around_the_source(paths) -> None:
    """MapDataset takes them modulo the length; the source itself refuses them."""
    import grain

    dataset = grain.MapDataset.source(ArrayRecordDataSource(paths))
    assert len(dataset) == COUNT
    assert dataset[COUNT] == dataset[0] == b"0 is the number of this record"
    repeated = dataset.repeat(2)
    assert [repeated[index] for index in range(2 * COUNT)] == [
        dataset[index] for index in range(COUNT)
    ] * 2


def test_slices_and_shards_of_the_source(paths) -> None:
    import grain

    dataset = grain.MapDataset.source(ArrayRecordDataSource(paths)).map(
        lambda record: int(record.split()[0])
    )
    assert list(dataset[1::2]) == list(range(1, COUNT, 2))
    assert list(dataset[-5:]) == list(range(46, 51))
    assert sorted(dataset.shuffle(seed=1)[0::4]) != list(range(13))


def test_grain_with_reader_options(paths, tmp_path) -> None:
    code = """
import sys
from shardmill.arrayrecord import ArrayRecordDataSource, install_as_array_record
install_as_array_record()
import grain, array_record.python.array_record_module as module
from array_record.python import array_record_data_source
assert array_record_data_source.PathLikeOrFileInstruction
source = grain.sources.ArrayRecordDataSource(sys.argv[1:], reader_options={"max_parallelism": "0"})
assert isinstance(source, array_record_data_source.ArrayRecordDataSource)
assert list(source) == [b"%d is the number of this record" % number for number in range(51)]
reader = module.ArrayRecordReader("/no/such/file")
assert not reader.ok()
reader = module.ArrayRecordReader(sys.argv[1], no_such_keyword=1)
reader.seek(-1)
assert reader.record_index() == 17
print("ok")
"""
    assert run_python(code, *paths) == "ok\n"


def test_rows_of_a_batched_read_are_those_of_single_reads(tmp_path) -> None:
    """Grain reads single rows or batches, as its options say."""
    from shardmill.errors import RecordKeyError
    from shardmill.integrations.grain import DatasetSource

    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.json")
            content = json.dumps({"number": number}).encode()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    source = DatasetSource(tmp_path / "a.tar")
    assert [row["json"] for row in source._getitems([2, 0])] == [{"number": 2}, {"number": 0}]
    assert source._getitems([2, 0]) == [source[2], source[0]]
    with pytest.raises(RecordKeyError):
        source._getitems([-1])
