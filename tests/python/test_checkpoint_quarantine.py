"""Splits of documents of which something was left out.

They stay open, and a repaired file replaces their output.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("PIL")

import pyarrow.parquet as pq
from documents import write_tar
from shardmill.curate import (
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    WebDatasetSink,
    WebDatasetSource,
)
from shardmill.errors import CheckpointMismatchError
from shardmill.resume import Checkpoint

FINE = b'{"texts": ["x"], "images": []}'


class Shards:
    """Three shards of two documents each.

    Of the first one, a document is broken until it is repaired.
    """

    def __init__(self, directory: Path) -> None:
        self.source, self.out, self.state = directory / "in", directory / "out", directory / "state"
        for shard in range(3):
            self.write(shard, is_broken=shard == 0)

    def write(
        self, shard: int, *, is_broken: bool = False, names: tuple[str, ...] = ("a", "b")
    ) -> Path:
        members = {f"{shard}{name}.json": FINE for name in names}
        if is_broken:
            members[f"{shard}b.json"] = b"{"
        return write_tar(self.source / f"{shard}.tar", members)

    def run(self, executor: str = "local", per_split: int = 1, **options):
        return Pipeline(
            source=WebDatasetSource(self.source, files_per_partition=per_split),
            sink=ParquetSink(self.out),
            checkpoint=Checkpoint(self.state, **options),
        ).run(executor, progress=False)

    def documents(self) -> Counter:
        tables = [pq.read_table(path, columns=["sample_id"]) for path in sorted(self.out.iterdir())]
        return Counter(
            id.split("/")[-1].split(".")[0]
            for table in tables
            for id in set(table["sample_id"].to_pylist())
        )


@pytest.fixture
def shards(tmp_path):
    return Shards(tmp_path)


ALL = {f"{shard}{name}" for shard in range(3) for name in "ab"}


def files(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in directory.iterdir()}


@pytest.mark.parametrize(
    "executor", ["local", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.slow])]
)
@pytest.mark.parametrize("per_split", [1, 2])
def test_repaired_shard_is_run_again_and_its_output_replaced(shards, executor, per_split):
    if executor == "ray":
        pytest.importorskip("ray")
    first = shards.run(executor, per_split)
    assert len(first.quarantined) == 1
    names = sorted(path.name for path in shards.out.iterdir())
    assert shards.documents() == Counter(ALL - {"0b"})
    shards.write(0)
    again = shards.run(executor, per_split)

    assert [len(split["files"]) for split in again.splits] == [per_split]
    assert shards.documents() == Counter(ALL)
    assert sorted(path.name for path in shards.out.iterdir()) == names
    assert shards.run(executor, per_split).splits == []


def test_shard_that_is_still_broken_is_tried_again_and_its_output_left_alone(shards):
    shards.run()
    before = files(shards.out)
    for _ in range(2):
        report = shards.run()
        assert (report.committed_before, len(report.splits), len(report.quarantined)) == (2, 1, 1)
        assert files(shards.out) == before
    # The same bytes under another time are another version of the file.
    os.utime(shards.source / "0.tar", ns=(1, 1))
    shards.run()
    assert {name: content for name, (_, content) in files(shards.out).items()} == {
        name: content for name, (_, content) in before.items()
    }


def test_shard_that_got_worse_replaces_its_output_and_one_that_is_gone_leaves_it(shards):
    shards.run()
    (shards.source / "0.tar").rename(shards.source.parent / "aside.tar")
    assert shards.run().splits == []
    assert shards.documents() == Counter(ALL - {"0b"})
    (shards.source / "0.tar").write_bytes(b"no tar at all" * 100)
    assert len(shards.run().quarantined) == 1
    assert shards.documents() == Counter(ALL - {"0a", "0b"})
    shards.write(0)
    shards.run()
    assert shards.documents() == Counter(ALL)


def test_other_files_of_an_open_split_may_change_too(shards):
    shards.run(per_split=3)
    shards.write(0)
    shards.write(1, names=("a", "b", "c"))
    shards.run(per_split=3)
    assert shards.documents() == Counter({*ALL, "1c"})


@pytest.mark.parametrize("is_wide", [True, False])
def test_changed_shard_of_a_split_that_is_done_is_refused_and_reprocess_replaces_its_output(
    shards, is_wide
):
    """The hint of the refusal, followed."""
    shards.write(0)
    shards.run(per_split=2)
    shards.write(1, names=("a", "b", "c") if is_wide else ("b",))
    with pytest.raises(
        CheckpointMismatchError,
        match=r'1\.tar` changed since.*(?s:.)hint: .*changed_input="reprocess"',
    ):
        shards.run(per_split=2)
    report = shards.run(per_split=2, changed_input="reprocess")

    assert len(report.splits) == 1
    assert shards.documents() == Counter({*ALL, "1c"} if is_wide else ALL - {"1a"})
    assert shards.run(per_split=2, changed_input="reprocess").splits == []
    assert shards.run(per_split=2).splits == []


def test_fewer_output_files_of_a_repaired_shard_leave_none_of_the_old_ones(tmp_path):
    shards = Shards(tmp_path)

    def run():
        return Pipeline(
            source=WebDatasetSource(shards.source, files_per_partition=1, max_batch_bytes=1),
            sink=WebDatasetSink(shards.out),
            checkpoint=Checkpoint(shards.state),
        ).run(threads=1, progress=False)

    write_tar(
        shards.source / "0.tar", {f"0{name}.json": FINE for name in "abcdef"} | {"0g.json": b"{"}
    )
    run()
    many = {path.name for path in shards.out.iterdir()}
    shards.write(0, names=("a",))
    run()
    few = {path.name for path in shards.out.iterdir()}
    assert (len(many), len(few), len(few & many)) == (10, 5, 4)
    assert run().splits == []


def test_record_of_an_open_split_names_what_it_has_read(shards):
    shards.run()
    shards.run()
    [pack] = [
        path
        for path in next(shards.state.glob("*/packs")).iterdir()
        if not path.name.endswith(".copy")
    ]
    records = [json.loads(line) for line in pack.read_text().splitlines() if line.startswith("{")]
    [open_] = [record for record in records if record["quarantined"]]
    status = (shards.source / "0.tar").stat()
    assert [(file["path"], file["size"], file["modified_ns"]) for file in open_["read"]] == [
        ("@0/0.tar", status.st_size, status.st_mtime_ns)
    ]


def test_interleaved_parquet_that_was_cut_is_run_again_when_it_is_whole(tmp_path):
    shards = Shards(tmp_path)
    shards.write(0)
    Pipeline(source=WebDatasetSource(shards.source), sink=ParquetSink(tmp_path / "made")).run(
        progress=False
    )

    def run():
        return Pipeline(
            source=InterleavedParquetSource(tmp_path / "made"),
            sink=ParquetSink(shards.out),
            checkpoint=shards.state,
        ).run(threads=1, progress=False)

    broken = min((tmp_path / "made").iterdir())
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    assert len(run().quarantined) == 1
    assert len(shards.documents()) == 4
    broken.write_bytes(content)
    run()
    assert shards.documents() == Counter(ALL)
    assert run().splits == []
