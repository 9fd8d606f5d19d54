"""`shardmill curate`: checkpoints, what resume means without one, pages."""

import json
from pathlib import Path

import pytest
from shard_files import source_sample, write_tar
from shardmill.cli._commands import run

REPEATS = "without --checkpoint, --mode resume processes all inputs again"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for number in range(4):
        write_tar(tmp_path / "in" / f"{number}.tar", source_sample(f"a{number}", words=number))
    return tmp_path / "in"


def curated(*arguments: object) -> int:
    return run(["curate", *map(str, arguments), "--to", "parquet", "--files-per-partition", "1"])


def times(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in directory.glob("*.parquet")}


def test_checkpoint_skips_what_is_done_and_the_report_counts_it(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (shards, tmp_path / "out", "--checkpoint", tmp_path / "state")
    assert curated(*arguments) == 0
    first = times(tmp_path / "out")
    assert len(first) == 4
    assert "done before" not in capsys.readouterr().out
    for number in range(4, 8):
        write_tar(shards / f"{number}.tar", source_sample(f"a{number}", words=number))
    assert curated(*arguments, "--mode", "resume") == 0
    shown = capsys.readouterr()
    assert "4 of 8 splits were done before" in shown.out
    assert REPEATS not in shown.err
    second = times(tmp_path / "out")
    assert (len(second), second | first) == (8, second)
    assert curated(*arguments, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["committed_before"], report["input_num_samples"]) == (8, 0)


def test_resume_without_a_checkpoint_says_that_it_repeats_work(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert curated(shards, tmp_path / "out") == 0
    first = times(tmp_path / "out")
    assert REPEATS not in capsys.readouterr().err
    assert curated(shards, tmp_path / "out", "--mode", "resume") == 0
    assert REPEATS in capsys.readouterr().err
    second = times(tmp_path / "out")
    assert first.keys() == second.keys()
    assert all(second[name] > first[name] for name in first)


def test_report_is_a_page_if_its_name_is_that_of_one(
    shards: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert curated(shards, tmp_path / "out", "--report", tmp_path / "pages" / "run.HTML") == 0
    assert "<title>Curation report</title>" in (tmp_path / "pages" / "run.HTML").read_text()
    (shards / "4.tar").write_bytes(b"x" * 2048)
    failing = (shards, tmp_path / "out", "--mode", "overwrite", "--max-errors", 0)
    assert curated(*failing, "--report", tmp_path / "failed.html") == 1
    assert "<title>Curation report</title>" in (tmp_path / "failed.html").read_text()
    assert curated(shards, tmp_path / "out", "--report", "s3://bucket/run.html") == 2
    assert "a page must be a local file" in capsys.readouterr().err
