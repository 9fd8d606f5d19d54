"""Rows that cannot be decoded: an error, a shorter batch, or another row; and written down.

The caller chooses which.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shardmill as sm
from breadth import covering
from row_files import damage, flat, ids, numpy_loader, write_files

ROWS = 4000
GROUP = 500
#: Row groups of which a page is damaged, by file.
DAMAGED = {0: [1], 1: [0, 3]}
BAD = {
    file * 2000 + group * GROUP + row
    for file, groups in DAMAGED.items()
    for group in groups
    for row in range(GROUP)
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = write_files(tmp_path, [2000, 2000], row_group=GROUP, write_page_checksum=True)
    for file, groups in DAMAGED.items():
        damage(directory / f"{file:03}.parquet", groups)
    return directory


def test_bad_row_is_an_error_by_default(directory: Path) -> None:
    with pytest.raises(sm.FormatError, match=r"000\.parquet"):
        list(numpy_loader(directory, batch_size=64))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("threads", [0, 1, 3])
def test_skipped_rows_are_missing_and_no_others(
    directory: Path, shuffle: bool, threads: int
) -> None:
    loader = numpy_loader(
        directory, batch_size=96, shuffle=shuffle, threads=threads, on_bad_rows="skip"
    )
    batches = ids(loader)
    assert sorted(row for batch in batches for row in batch) == sorted(set(range(ROWS)) - BAD)
    assert len(batches) == len(loader) == -(-ROWS // 96)


def test_column_that_is_whole_is_read_from_bad_row_groups_too(directory: Path) -> None:
    loader = numpy_loader(directory, batch_size=64, columns=["id"], on_bad_rows="skip")
    assert flat(loader) == list(range(ROWS))
    assert loader.bad_rows == []


@pytest.mark.parametrize("shuffle", [False, True])
def test_replaced_rows_stand_in_the_place_of_bad_ones_whatever_the_topology(
    directory: Path, shuffle: bool
) -> None:
    options: dict[str, Any] = {"shuffle": shuffle, "seed": 3, "lanes": 2, "on_bad_rows": "replace"}
    whole = ids(numpy_loader(directory, batch_size=60, threads=2, **options))
    assert sum(map(len, whole)) == ROWS
    assert not BAD & {row for batch in whole for row in batch}
    good = ids(
        numpy_loader(
            directory,
            batch_size=60,
            columns=["id"],
            threads=2,
            **{**options, "on_bad_rows": "raise"},
        )
    )
    for batch, intact in zip(whole, good, strict=True):
        assert [row if row not in BAD else None for row in intact] == [
            row if row_intact not in BAD else None
            for row, row_intact in zip(batch, intact, strict=True)
        ]
    ranks = [
        ids(
            numpy_loader(
                directory,
                batch_size=20,
                rank=rank,
                world_size=3,
                tail="uneven",
                threads=1,
                **options,
            )
        )
        for rank in range(3)
    ]
    for step, batch in enumerate(whole):
        assert [row for rank in ranks for part in rank[step : step + 1] for row in part] == batch


def test_epochs_replace_by_other_rows(directory: Path) -> None:
    loader = numpy_loader(directory, batch_size=ROWS, seed=1, on_bad_rows="replace")
    first, second = flat(loader), flat(loader)
    assert first != second
    assert [row for row in first if row not in BAD][:GROUP] == list(range(GROUP))


def test_bad_rows_are_listed_with_file_row_and_cause_once_their_batch_is_handed_out(
    directory: Path,
) -> None:
    loader = numpy_loader(directory, batch_size=100, on_bad_rows="skip")
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    assert loader.bad_rows == []
    next(batches)
    assert [(Path(row.path).name, row.row) for row in loader.bad_rows] == [
        ("000.parquet", GROUP + row) for row in range(100)
    ]
    assert "checksum" in loader.bad_rows[0].cause
    list(batches)
    assert {int(Path(row.path).stem) * 2000 + row.row for row in loader.bad_rows} == BAD
    list(loader)
    assert len(loader.bad_rows) == len(BAD), "those of the last epoch alone"


@pytest.mark.parametrize("limit", [99, 0.02])
def test_limit_that_is_passed_ends_the_run_with_the_causes(directory: Path, limit: float) -> None:
    loader = numpy_loader(directory, batch_size=100, on_bad_rows="skip", max_bad_rows=limit)
    with pytest.raises(sm.BadRowLimitError, match=r"row 500: .*\n(.*\n)*.*and 90 more"):
        list(loader)
    assert loader.state_dict()["consumed"] == 500, (
        "the batch that was one too many was not handed out"
    )


def test_batch_that_is_one_too_many_is_neither_counted_nor_audited(directory: Path) -> None:
    loader = numpy_loader(
        directory, batch_size=100, on_bad_rows="replace", max_bad_rows=150, audit=True
    )
    with pytest.raises(sm.BadRowLimitError, match="^200 rows"):
        list(loader)
    assert loader.state_dict()["bad_rows"]["count"] == len(loader.bad_rows) == 100
    assert loader.audit().rows == 500
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(sm.BadRowLimitError, match="^200 rows"):
        list(loader)


def test_limit_that_is_kept_changes_nothing(directory: Path) -> None:
    loader = numpy_loader(directory, batch_size=100, on_bad_rows="skip", max_bad_rows=len(BAD))
    assert len(flat(loader)) == ROWS - len(BAD)


def test_state_counts_bad_rows_and_goes_on_counting(directory: Path) -> None:
    options: dict[str, Any] = {"batch_size": 100, "on_bad_rows": "replace", "shuffle": True}
    whole = numpy_loader(directory, **options)
    batches = iter(whole)
    states = []
    for _ in range(40):
        next(batches)
        states.append(whole.state_dict())
    resumed = numpy_loader(directory, **options)
    resumed.load_state_dict(json.loads(json.dumps(states[19])))
    rest = iter(resumed)
    for _ in range(19):
        next(rest)
    assert resumed.state_dict() == states[38]
    assert states[38]["bad_rows"]["count"] > 1000
    assert len(json.dumps(states[38])) < 4096


def test_rows_of_one_bad_record_alone_are_skipped_with_it(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "x.array_record", compression="none") as writer:
        for row in range(50):
            writer.write(b"record %04d" % row)
    content = bytearray((tmp_path / "x.array_record").read_bytes())
    content[content.index(b"record 0017") + 2] ^= 0xFF
    (tmp_path / "x.array_record").write_bytes(content)
    loader = sm.Loader(
        tmp_path / "x.array_record", batch_size=7, output="dict", errors=sm.ErrorPolicy(rows="skip")
    )
    assert [record for batch in loader for record in batch["record"]] == [
        b"record %04d" % row for row in range(50) if row != 17
    ]
    assert [row.row for row in loader.bad_rows] == [17]


def test_data_without_a_good_row_is_an_error_when_rows_are_to_be_replaced(tmp_path: Path) -> None:
    directory = write_files(tmp_path, [1000], row_group=500, write_page_checksum=True)
    damage(directory / "000.parquet", [0, 1])
    assert flat(numpy_loader(directory, on_bad_rows="skip")) == []
    with pytest.raises(sm.FormatError, match="No row could be read"):
        list(numpy_loader(directory, on_bad_rows="replace"))


@covering(1, output=["torch", "numpy", "arrow", "dict"], policy=["skip", "replace"])
def test_every_output_is_whole(directory: Path, output: str, policy: str) -> None:
    loader = sm.Loader(
        directory,
        batch_size=128,
        output=output,
        columns=["id", "half", "text"],
        errors=sm.ErrorPolicy(rows=policy),
    )
    rows = 0
    for batch in loader:
        columns = batch.to_pydict() if isinstance(batch, pa.RecordBatch) else batch
        numbers = [int(number) for number in columns["id"]]
        assert [float(half) for half in columns["half"]] == [number / 2 for number in numbers]
        assert list(columns["text"]) == [f"row {number}" for number in numbers]
        rows += len(numbers)
    assert rows == (ROWS if policy == "replace" else ROWS - len(BAD))


def test_padded_marks_stay_with_their_rows(directory: Path) -> None:
    sizes: list[tuple[int, int]] = []
    for rank in range(3):
        loader = numpy_loader(
            directory, batch_size=450, rank=rank, world_size=3, tail="pad", on_bad_rows="skip"
        )
        batches = list(loader)
        assert len(batches) == 3
        sizes.append(
            (
                sum(len(batch["id"]) for batch in batches),
                sum(int(batch["__padded"].sum()) for batch in batches),
            )
        )
        assert all(len(batch["id"]) == len(batch["__padded"]) for batch in batches)
    assert sum(rows - padded for rows, padded in sizes) == ROWS - len(BAD)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_bad_rows": "ignore"}, "one of 'raise', 'skip', 'replace'"),
        ({"on_bad_rows": "skip", "max_bad_rows": -1}, "max_rows"),
        ({"on_bad_rows": "skip", "max_bad_rows": "1"}, "max_rows"),
        ({"max_bad_rows": 3}, 'rows="skip"'),
    ],
)
def test_option_that_means_nothing_is_refused(
    directory: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(sm.OptionError, match=message):
        numpy_loader(directory, **options)


def test_limit_counts_the_bad_rows_before_a_resume(directory: Path) -> None:
    options: dict[str, Any] = {"batch_size": 100, "on_bad_rows": "skip"}
    stopped = numpy_loader(directory, **options)
    batches = iter(stopped)
    while stopped.state_dict()["bad_rows"]["count"] < 600:
        next(batches)
    resumed = numpy_loader(directory, max_bad_rows=len(BAD) - 1, **options)
    resumed.load_state_dict(stopped.state_dict())
    with pytest.raises(sm.BadRowLimitError, match=f"^{len(BAD):,} rows of the epoch"):
        list(resumed)


def test_skip_at_the_start_of_an_epoch_does_not_count_the_bad_rows_of_the_last_one(
    directory: Path,
) -> None:
    loader = numpy_loader(directory, batch_size=100, on_bad_rows="skip", max_bad_rows=len(BAD))
    list(loader)
    loader.skip(1)
    assert loader.bad_rows == []
    assert len(flat(loader)) == ROWS - len(BAD) - 100
    assert len(loader.bad_rows) == len(BAD)
