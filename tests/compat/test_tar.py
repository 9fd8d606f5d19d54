"""Archives of Python's `tarfile` and of GNU tar, walked by shardmill; the oracle is `tarfile`."""

import io
import os
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from breadth import in_one
from shardmill._native.formats import tar_members

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
GIB = 1 << 30

needs_gnu_tar = pytest.mark.skipif(
    shutil.which("tar") is None
    or b"GNU tar"
    not in subprocess.run(["tar", "--version"], capture_output=True, check=False).stdout,
    reason="GNU tar is not installed",
)


def oracle(path: Path) -> list[tuple[str, int, int]]:
    """Name, payload offset and size of each regular file, as `tarfile` reads them."""
    with tarfile.open(path, "r:") as archive:
        return [(m.name, m.offset_data, m.size) for m in archive if m.isreg() and not m.issparse()]


def add(archive: tarfile.TarFile, name: str, body: bytes = b"", **fields: object) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(body)
    for field, value in fields.items():
        setattr(info, field, value)
    archive.addfile(info, io.BytesIO(body))


def random_name(rng: random.Random, format: str) -> str:
    letters = "abcxyz019-_ ." + ("" if format == "ustar" else "äéß日本語🦀")
    lengths = [1, 20, 99, 100] + ([] if format == "ustar" else [101, 255, 256, 511, 512, 513, 1500])
    name = "".join(rng.choice(letters) for _ in range(rng.choice(lengths)))
    directory = "d" * rng.choice([0, 0, 1, 60, 99 if format == "ustar" else 300])
    return f"{directory}/{name}" if directory else name


@in_one("format", FORMATS)
@in_one("seed", range(20))
def test_random_archive_has_the_members_of_tarfile(tmp_path: Path, format: str, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=FORMATS[format]) as archive:
        for _ in range(rng.randrange(12)):
            add(
                archive,
                random_name(rng, format),
                rng.randbytes(rng.choice([0, 1, 511, 512, 513, 5000])),
            )

    members = tar_members(str(path))

    assert members == oracle(path)
    data = path.read_bytes()
    with tarfile.open(path) as archive:
        for info, (_, offset, size) in zip(archive, members, strict=True):
            body = archive.extractfile(info)
            assert body is not None
            assert body.read() == data[offset : offset + size]


def test_empty_archive_has_no_members(tmp_path: Path) -> None:
    path = tmp_path / "empty.tar"
    with tarfile.open(path, "w"):
        pass
    assert tar_members(str(path)) == []


@pytest.mark.parametrize("format", FORMATS)
def test_links_devices_and_directories_are_no_members(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a.tar"
    long_target = "t" * (100 if format == "ustar" else 300)
    types = [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.DIRTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
    ]
    with tarfile.open(path, "w", format=FORMATS[format]) as archive:
        for index, kind in enumerate(types):
            linkname = long_target if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            add(archive, f"other{index}", type=kind, linkname=linkname)
            add(archive, f"file{index}", b"body")
        add(archive, "contiguous", b"body", type=tarfile.CONTTYPE)
        add(archive, "old", b"body", type=tarfile.AREGTYPE)

    members = tar_members(str(path))

    assert members == oracle(path)
    assert [name for name, _, _ in members] == [f"file{i}" for i in range(6)] + [
        "contiguous",
        "old",
    ]


def test_leading_dot_slash_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "./a.jpg", b"body")
    assert [name for name, _, _ in tar_members(str(path))] == ["./a.jpg"]


def test_global_and_other_pax_records_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(
        path, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "0123abc"}
    ) as archive:
        add(
            archive,
            "a",
            b"body",
            mtime=1.5,
            uname="nütze",
            pax_headers={"SCHILY.xattr.user.x": "1\n2=3"},
        )
        add(archive, "b", b"body")
    assert tar_members(str(path)) == oracle(path)


@pytest.mark.parametrize("format", ["gnu", "pax"])
def test_file_beyond_8_gib_is_skipped_by_its_whole_size(tmp_path: Path, format: str) -> None:
    path = tmp_path / "big.tar"
    with path.open("wb") as out:
        info = tarfile.TarInfo("big")
        info.size = 9 * GIB
        out.write(info.tobuf(FORMATS[format]))
        out.seek(info.size, os.SEEK_CUR)  # a hole: the disk holds only the headers
        out.write(tarfile.TarInfo("behind").tobuf(FORMATS[format]) + bytes(1024))

    members = tar_members(str(path))

    assert members == oracle(path)
    assert [(name, size) for name, _, size in members] == [("big", 9 * GIB), ("behind", 0)]


def test_missing_end_of_archive_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "a", b"body")
    whole = tar_members(str(path))
    os.truncate(path, 1024)
    assert tar_members(str(path)) == whole == oracle(path)


def test_members_behind_zeros_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    header = tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT)
    for zeros in (512, 1024):
        path.write_bytes(header + bytes(zeros) + header)
        assert tar_members(str(path)) == oracle(path) == [("a", 512, 0)]


@pytest.mark.parametrize("data", [b"", b"{}", b"x" * 512, b"PK\x03\x04" + bytes(2000)])
def test_file_that_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(data)
    with pytest.raises(tarfile.ReadError):
        oracle(path)
    with pytest.raises(ValueError):
        tar_members(str(path))


@pytest.mark.parametrize("length", [513, 1000, 1500, 1536 + 512 + 100])
def test_cut_archive_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "a", b"x" * 1024)
        add(archive, "b", b"x" * 1024)
    os.truncate(path, length)
    with pytest.raises(ValueError):
        tar_members(str(path))


@needs_gnu_tar
@pytest.mark.parametrize("format", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_archive_of_gnu_tar_has_the_members_of_tarfile(tmp_path: Path, format: str) -> None:
    tree = tmp_path / "tree"
    (tree / "images").mkdir(parents=True)
    (tree / "images" / "größe 日本.jpg").write_bytes(b"x" * 1000)
    (tree / "empty").touch()
    (tree / "link").symlink_to("empty")
    os.link(tree / "images" / "größe 日本.jpg", tree / "hard")
    if format not in ("v7", "ustar"):
        deep = tree / ("d" * 120) / ("e" * 120)
        deep.mkdir(parents=True)
        (deep / ("n" * 150)).write_bytes(b"deep")
        (tree / "long link").symlink_to("t" * 200)
    path = tmp_path / "a.tar"
    subprocess.run(["tar", f"--format={format}", "-cf", path, "-C", tree, "."], check=True)

    members = tar_members(str(path))

    assert members == oracle(path)
    assert len(members) == (2 if format in ("v7", "ustar") else 3)


@needs_gnu_tar
@pytest.mark.parametrize("sparse_version", [None, "0.0", "0.1", "1.0"])
def test_sparse_file_is_refused_by_name(tmp_path: Path, sparse_version: str | None) -> None:
    form = (
        ["--format=posix", f"--sparse-version={sparse_version}"]
        if sparse_version
        else ["--format=gnu"]
    )
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as out:
        # More extents than the header holds, so that the GNU format adds map blocks.
        for extent in range(40):
            out.seek(extent * 200_000)
            out.write(b"data")
        out.truncate(10_000_000)
    path = tmp_path / "a.tar"
    subprocess.run(["tar", *form, "--sparse", "-cf", path, "-C", tmp_path, "sparse"], check=True)
    with tarfile.open(path) as archive:
        if not archive.getmembers()[0].issparse():
            pytest.skip("the file system keeps no holes")
    with pytest.raises(ValueError, match="`sparse`.*sparse file"):
        tar_members(str(path))
