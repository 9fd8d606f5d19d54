"""Audits add up over ranks and sessions to that of the plan, and to no other."""

import io
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from row_files import damage, numpy_loader, write_files


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("audit"), [350, 0, 421, 30], row_group=100)


def loader(
    directory: Path, *, rank: int = 0, world_size: int = 1, batch_size: int = 64, **options: Any
) -> sm.Loader:
    """Of a run whose global batch has 64 rows."""
    return numpy_loader(
        directory,
        batch_size=batch_size // world_size,
        rank=rank,
        world_size=world_size,
        audit=True,
        **{"shuffle": True, "lanes": 4, "tail": "uneven", **options},
    )


@settings(max_examples=examples(25), deadline=None)
@given(
    first=st.sampled_from([1, 2, 4, 8]),
    second=st.sampled_from([1, 2, 4, 8]),
    stop=st.integers(0, 12),
    tail=st.sampled_from(["uneven", "pad", "drop"]),
    shuffle=st.booleans(),
)
def test_parts_of_an_interrupted_run_add_up_to_the_plan(
    directory: Path, first: int, second: int, stop: int, tail: str, shuffle: bool
) -> None:
    options = {"tail": tail, "shuffle": shuffle}
    before = [loader(directory, rank=rank, world_size=first, **options) for rank in range(first)]
    for one in before:
        batches = iter(one)
        for _ in range(stop):
            next(batches)
    after = [loader(directory, rank=rank, world_size=second, **options) for rank in range(second)]
    for one in after:
        one.load_state_dict(before[0].state_dict())
        list(one)
    total = sum((one.audit(0) for one in before + after), sm.Audit())
    expected = loader(directory, **options).expected_audit(epoch=0)
    assert total == expected
    assert expected.rows == (801 if tail != "drop" else 801 // 64 * 64)


def test_row_that_is_repeated_or_missing_shows(directory: Path) -> None:
    one = loader(directory)
    batches = iter(one)
    next(batches)
    again = loader(directory)
    list(again)
    assert one.audit() + again.audit() != again.expected_audit()
    assert one.audit() == again.expected_audit(end=64)
    assert again.expected_audit(end=64) + again.expected_audit(start=64) == again.expected_audit()


def test_order_shows_in_the_sequence_and_not_in_the_set(directory: Path) -> None:
    audits = []
    for seed in (1, 2):
        one = loader(directory, seed=seed)
        list(one)
        audits.append(one.audit())
    assert audits[0].set == audits[1].set
    assert audits[0].sequence != audits[1].sequence


def test_epochs_are_kept_apart_and_a_repeated_one_counts_once(directory: Path) -> None:
    one = loader(directory)
    next(iter(one))
    list(one)
    list(one)
    assert one.audit(0) == one.expected_audit(epoch=0)
    assert one.audit() == one.audit(1) == one.expected_audit(epoch=1)
    assert one.audit(0).sequence != one.audit(1).sequence


def test_loader_that_was_not_asked_keeps_none(directory: Path) -> None:
    with pytest.raises(sm.OptionError, match="audit=True"):
        numpy_loader(directory).audit()


def test_bad_rows_are_not_among_the_delivered(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    content = io.BytesIO()
    Image.new("RGB", (9, 7)).save(content, "PNG")
    images = [content.getvalue() if number % 5 else b"no image" for number in range(40)]
    pq.write_table(
        pa.table({"row": range(40), "image": images}),
        path,
        row_group_size=10,
        write_page_checksum=True,
    )
    damage(path, [2], column=1)
    data = sm.Dataset(path, images=sm.Images("image", size=8))
    good = [row for row in range(40) if row % 5 and not 20 <= row < 30]

    def audited(policy: Literal["skip", "replace"]) -> sm.Audit:
        one = sm.Loader(
            data,
            batch_size=7,
            output="numpy",
            errors=sm.ErrorPolicy(rows=policy),
            shuffle=True,
            runtime=sm.Runtime(audit=True),
        )
        rows = [row for batch in one for row in batch["row"].tolist()]
        assert len(rows) == (len(good) if policy == "skip" else 40) and set(rows) == set(good)
        assert one.audit(0) != one.expected_audit(epoch=0)
        return one.audit(0)

    skipped = audited("skip")
    assert skipped.rows == len(good) and skipped == audited("replace")


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_audits_of_sessions_without_their_bad_rows_add_up_to_those_of_the_good_rows(
    tmp_path: Path, policy: Literal["skip", "replace"]
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"row": range(40), "other": range(40)}),
        path,
        row_group_size=10,
        write_page_checksum=True,
    )
    damage(path, [2], column=1)

    def loader(batch_size: int = 7) -> sm.Loader:
        errors, runtime = sm.ErrorPolicy(rows=policy), sm.Runtime(audit=True)
        return sm.Loader(
            path, batch_size=batch_size, output="numpy", errors=errors, runtime=runtime
        )

    first, resumed, one_by_one = loader(), loader(), loader(1)
    batches = iter(first)
    for _ in range(4):
        next(batches)
    resumed.load_state_dict(first.state_dict())
    list(resumed)
    good = [row for row in range(40) if not 20 <= row < 30]
    expected = sum((one_by_one.expected_audit(start=row, end=row + 1) for row in good), sm.Audit())
    assert first.audit(0) + resumed.audit(0) == expected
