"""How a tar ends: every reader says that members are missing, or reads all of them.

Oracles: tar(1), Python's tarfile, webdataset.
"""

import gzip
import io
import json
import random
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm
from shard_builders import curate, from_tar, image, write_tar
from shardmill import CurateError
from shardmill.cli import _commands as commands
from shardmill.curate import inspect, verify

PNG = image("PNG")


def shard(path: Path, numbers: range) -> Path:
    members: list[tuple[str, Any]] = []
    for number in numbers:
        members += [
            (f"{number:03}.json", {"texts": [str(number)], "images": [None, f"{number:03}.png"]}),
            (f"{number:03}.png", PNG),
        ]
    return write_tar(path, members)


def starts(path: Path) -> list[int]:
    """Where each sample begins, and where the members end."""
    with tarfile.open(path) as archive:
        offsets = [member.offset for member in archive if member.name.endswith(".json")]
        return [*offsets, archive.offset]


def run(*arguments: Any) -> int:
    """The exit code of a command."""
    return commands.run([str(argument) for argument in arguments])


def cut(path: Path, keep: int) -> int:
    """Leaves the first samples of a shard, without an end."""
    end = starts(path)[keep]
    path.write_bytes(path.read_bytes()[:end])
    return end


def zeroed(path: Path, keep: int) -> int:
    at = starts(path)[keep]
    content = bytearray(path.read_bytes())
    content[at : at + 512] = bytes(512)
    path.write_bytes(content)
    return at + 512


def joined(path: Path, keep: int) -> int:
    """What `cat` makes of the first samples and the others."""
    count = len(starts(path)) - 1
    first, second = (
        shard(path.with_name(f"{name}.part"), part)
        for name, part in (("a", range(keep)), ("b", range(keep, count)))
    )
    path.write_bytes(first.read_bytes() + second.read_bytes())
    offset = first.stat().st_size
    first.unlink()
    second.unlink()
    return offset


HARMS = {"cut": cut, "zeroed": zeroed, "joined": joined}


@pytest.mark.parametrize("pack", ["tar", "tar.gz"])
@pytest.mark.parametrize("harm", HARMS)
def test_every_reader_says_that_a_part_of_a_shard_is_missing(
    tmp_path: Path, out: Any, harm: str, pack: str
) -> None:
    path = shard(tmp_path / "in" / "a.tar", range(25))
    offset = HARMS[harm](path, 10)
    with tarfile.open(path) as oracle:
        assert len(oracle.getnames()) == 20, "tarfile takes it for a smaller archive"
    if pack == "tar.gz":
        compressed = path.with_name("a.tar.gz")
        compressed.write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        path = compressed

    outcome = curate(from_tar(path), to=out())
    assert outcome.report.counts("output")["samples"] == 10, "what stands before is written"
    (item,) = outcome.report.quarantined
    assert (item["path"], item["offset"], item["is_shard"]) == (str(path), offset, True)
    assert str(offset) in item["reason"]
    assert "quarantined: 0 samples, 1 shard" in str(outcome.report)

    (check,) = verify(path)
    assert [(problem.rule, problem.offset) for problem in check.problems] == [("readable", offset)]
    (inspected,) = inspect(path).files
    assert [damage["offset"] for damage in inspected.damage] == [offset]
    with pytest.raises(sm.FormatError, match=rf"{offset}"):
        sm.Dataset(path)
    with pytest.warns(UserWarning, match="no data files"):
        dataset = sm.Dataset(path.parent, errors=sm.ErrorPolicy(files="skip"))
    assert [skipped for skipped, _ in dataset.skipped] == [str(path)]

    assert run("verify", path) == 1
    assert run("head", path) == 1
    for options, code in (([], 0), (["--fail-on-quarantine"], 1)):
        assert run("curate", path, out(), "--to", "parquet", *options) == code


def test_budget_of_errors_counts_the_missing_end(tmp_path: Path, out: Any) -> None:
    path = shard(tmp_path / "a.tar", range(3))
    cut(path, 2)
    with pytest.raises(CurateError, match="1 quarantined item exceeds the limit of 0"):
        curate(from_tar(path), to=out(), max_errors=0)


@pytest.mark.parametrize("pack", ["tar", "tar.gz"])
@pytest.mark.parametrize("sink", ["parquet", "webdataset"])
def test_joined_archives_are_read_on_as_tar_does(
    tmp_path: Path, out: Any, pack: str, sink: str
) -> None:
    path = shard(tmp_path / "a.tar", range(25))
    joined(path, 10)
    listed = subprocess.run(
        ["tar", "-itf", path], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(listed) == 50
    if pack == "tar.gz":
        # Two streams of gzip are one file as well.
        path = path.rename(tmp_path / "plain")
        content = path.read_bytes()
        path = tmp_path / "a.tar.gz"
        path.write_bytes(gzip.compress(content[:7000]) + gzip.compress(content[7000:]))

    outcome = curate(from_tar(path, ignore_zeros=True), to=out(), sink=sink)
    assert (outcome.report.counts("output")["samples"], outcome.report.quarantined) == (25, [])
    (check,) = verify(path, ignore_zeros=True)
    assert (check.is_valid, check.samples) == (True, 25)
    (inspected,) = inspect(path, ignore_zeros=True).files
    assert (inspected.samples, inspected.damage) == (25, [])
    dataset = sm.Dataset(path, ignore_zeros=True)
    assert [row["__key__"] for row in dataset] == [f"{number:03}" for number in range(25)]
    assert len(sm.Loader(dataset, batch_size=5)) == 5

    for command in (
        ["verify", path],
        ["inspect", path],
        ["head", path, "--columns", "json"],
        ["curate", path, out(), "--to", "parquet", "--fail-on-quarantine"],
        ["explain", path],
    ):
        assert run(*command, "--ignore-zeros") == 0, command


def test_convert_reads_joined_archives(tmp_path: Path) -> None:
    path = shard(tmp_path / "a.tar", range(6))
    joined(path, 2)
    arguments = ["convert", path, tmp_path / "rows.parquet", "--columns", "json,png"]
    assert (run(*arguments), run(*arguments, "--ignore-zeros")) == (1, 0)
    assert len(sm.Dataset(tmp_path / "rows.parquet")) == 6


def test_source_refs_of_joined_archives_are_found_again(tmp_path: Path, out: Any) -> None:
    path = shard(tmp_path / "plain.tar", range(4))
    joined(path, 2)
    compressed = tmp_path / "a.tar.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    from shard_builders import from_parquet

    for source in (path, compressed):
        refs = curate(from_tar(source, ignore_zeros=True), to=out(), materialize_on_write=False)
        assert refs.column("binary_content", "image") == [None] * 4
        again = curate(from_parquet(refs.file, allowed_roots=source.parent), to=out())
        assert again.column("binary_content", "image") == [PNG] * 4


def test_second_archive_that_was_cut_is_told_when_zeros_are_ignored(
    tmp_path: Path, out: Any
) -> None:
    path = shard(tmp_path / "a.tar", range(25))
    joined(path, 10)
    content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content + bytes(-len(content) % 512))
    outcome = curate(from_tar(path, ignore_zeros=True), to=out())
    assert outcome.report.counts("output")["samples"] == 25
    assert [item["offset"] for item in outcome.report.quarantined] == [path.stat().st_size]
    with pytest.raises(sm.FormatError, match="without the zeros that end an archive"):
        sm.Dataset(path, ignore_zeros=True)


def test_ignoring_zeros_is_for_tars_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    with pytest.raises(
        ValueError, match="ignore_zeros is only for WebDataset tars, not for jsonl files"
    ):
        sm.Dataset(tmp_path / "a.jsonl", ignore_zeros=True)
    assert run("head", tmp_path / "a.jsonl", "--ignore-zeros") == 1
    (tmp_path / "a.parquet").touch()
    assert (
        run("curate", tmp_path / "a.parquet", tmp_path / "out", "--to", "parquet", "--ignore-zeros")
        == 2
    )
    assert "--ignore-zeros: only for tars" in capsys.readouterr().err


def test_archive_of_an_end_alone_is_empty_and_half_an_end_is_a_cut_one(
    tmp_path: Path, out: Any
) -> None:
    path = tmp_path / "a.tar"
    for length, is_whole in ((10_240, True), (1024, True), (512, False)):
        path.write_bytes(bytes(length))
        assert verify(path)[0].is_valid is is_whole
        outcome = curate(from_tar(path), to=out())
        assert (outcome.rows, len(outcome.report.quarantined)) == ([], 0 if is_whole else 1)
        if is_whole:
            assert len(sm.Dataset(path)) == 0
        else:
            with pytest.raises(sm.FormatError, match="without the zeros"):
                sm.Dataset(path)


def test_lone_block_of_zeros_at_the_end_is_told_as_tar_tells_it(tmp_path: Path, out: Any) -> None:
    path = shard(tmp_path / "a.tar", range(3))
    path.write_bytes(path.read_bytes()[: starts(path)[-1] + 512])
    listed = subprocess.run(["tar", "-tf", path], capture_output=True, text=True, check=True)
    assert "A lone zero block" in listed.stderr
    outcome = curate(from_tar(path), to=out())
    assert (outcome.report.counts("output")["samples"], len(outcome.report.quarantined)) == (3, 1)


def test_stream_of_gzip_that_ends_early_is_told_also_between_members(
    tmp_path: Path, out: Any
) -> None:
    plain = shard(tmp_path / "plain", range(6))
    ends = starts(plain)
    # One stream a sample, so that a cut between two is a cut between two members.
    streams = [
        gzip.compress(plain.read_bytes()[start:end])
        for start, end in zip(ends, ends[1:], strict=False)
    ]
    path = tmp_path / "a.tar.gz"
    for cut_off in (0, 5):
        content = b"".join(streams[:4])
        path.write_bytes(content[: len(content) - cut_off])
        outcome = curate(from_tar(path), to=out())
        assert outcome.report.counts("output")["samples"] <= 4
        assert sum(item["is_shard"] for item in outcome.report.quarantined) == 1
        assert not verify(path)[0].is_valid
        with pytest.raises(sm.FormatError):
            sm.Dataset(path)


@pytest.mark.parametrize("seed", range(40))
def test_random_harm_to_blocks_is_told_or_all_members_are_read(
    tmp_path: Path, out: Any, seed: int
) -> None:
    chance = random.Random(seed)
    formats = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
    target = io.BytesIO()
    expected = 0
    for part in range(chance.choice([1, 1, 2])):
        tar_format = chance.choice(formats)
        with tarfile.open(fileobj=(single := io.BytesIO()), mode="w", format=tar_format) as archive:
            for number in range(chance.randrange(1, 6)):
                # Names of more than 100 bytes have headers of their own, but in the oldest format.
                umlauts = chance.choice([0, 0, 60 * (tar_format != tarfile.USTAR_FORMAT)])
                stem = f"{'ü' * umlauts}{part}-{number}"
                body = json.dumps(
                    {"texts": ["t" * chance.randrange(900)], "images": [f"{stem}.png"]}
                ).encode()
                for name, content in ((f"{stem}.json", body), (f"{stem}.png", PNG)):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
                expected += 1
        target.write(single.getvalue())
    content = bytearray(target.getvalue())
    last = -(-len(content.rstrip(b"\0")) // 512)
    if chance.random() < 0.5:
        at = 512 * chance.randrange(last)
        content[at : at + 512] = bytes(512)
    if chance.random() < 0.5:
        del content[512 * chance.randrange(1, last + 1) :]
    path = tmp_path / "a.tar"
    path.write_bytes(content)

    outcome = curate(from_tar(path), to=out(), on_materialize_error="warn")
    read = outcome.report.counts("output")
    assert read["samples"] == expected or outcome.report.quarantined
    is_sound = verify(path)[0].is_valid
    try:
        rows = len(sm.Dataset(path))
    except sm.FormatError:
        assert outcome.report.quarantined
        assert not is_sound
    else:
        assert rows == expected
