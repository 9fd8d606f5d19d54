"""Links and macOS metadata in the tars of a data set.

The oracles are `tarfile` for links, and `webdataset` for samples.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile

import pytest
import shardmill as sm

pa = pytest.importorskip("pyarrow")

HARD, SOFT, DIR = tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE
MAC = b"\0\5\x16\7\0\2\0\0Mac OS X"


def written(path, members, mode="w", **options):
    """Files, and links as a pair of type and target."""
    with tarfile.open(path, mode, **options) as archive:
        for name, body in members:
            info = tarfile.TarInfo(name)
            if isinstance(body, tuple):
                info.type, info.linkname = body
                archive.addfile(info)
            else:
                info.size = len(body)
                archive.addfile(info, io.BytesIO(body))
    return path


def expected_rows(path):
    """The rows of an archive whose members `key.extension` are adjacent, by tarfile."""
    samples = {}
    with tarfile.open(path) as archive:
        for member in archive:
            key, _, extension = member.name.rpartition(".")
            samples.setdefault(key, {"__key__": key})[extension] = archive.extractfile(
                member
            ).read()
    return list(samples.values())


def packed(path, kind):
    content = path.read_bytes()
    if kind == "zst":
        path = path.with_suffix(".tar.zst")
        path.write_bytes(pa.compress(content, codec="zstd", asbytes=True))
    return path


LONG = "directory/" * 20

MEMBERS = [
    ("0.bin", (SOFT, "2.bin")),
    ("0.jpg", b"image 0" * 500),
    ("1.bin", (HARD, "0.jpg")),
    ("1.jpg", (HARD, "0.jpg")),
    ("2.bin", b"later" * 900),
    ("2.jpg", (HARD, "1.jpg")),
    ("d/3.bin", (SOFT, "../2.bin")),
    ("d/3.jpg", (SOFT, "./../d/3.bin")),
    (f"{LONG}4.bin", (HARD, "2.bin")),
    (f"{LONG}4.jpg", b""),
    ("5.bin", (SOFT, f"{LONG}4.jpg")),
    ("5.jpg", (HARD, f"{LONG}4.bin")),
]


@pytest.mark.parametrize("kind", ["plain", "zst"])
@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_links_are_the_files_of_tarfile_in_any_order_and_selection(tmp_path, kind, tar_format):
    plain = written(tmp_path / "a.tar", MEMBERS, format=tar_format)
    expected = expected_rows(plain)
    dataset = sm.Dataset(packed(plain, kind))
    assert list(dataset) == expected
    assert dataset.take([5, 0, 3]).to_pylist() == [expected[5], expected[0], expected[3]]
    assert list(sm.Dataset(packed(plain, kind), columns=["jpg"])) == [
        {"jpg": row["jpg"]} for row in expected
    ]


def test_tar_of_files_with_several_names_has_all_rows(tmp_path):
    if shutil.which("tar") is None:
        pytest.skip("there is no tar")
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(4):
        (tree / f"{number}.jpg").write_bytes(b"image %d" % number)
        (tree / f"{number}.cls").write_text(str(number))
    for name, target in (("2.jpg", "1.jpg"), ("3.jpg", "1.jpg"), ("3.cls", "1.cls")):
        (tree / name).unlink()
        os.link(tree / target, tree / name)
    (tree / "data.v2").symlink_to("data.v1")
    (tree / "data.v1").mkdir()
    path = tmp_path / "a.tar"
    subprocess.run(["tar", "--sort=name", "-cf", path, "-C", tree, "."], check=True)
    rows = list(sm.Dataset(path))
    assert [row["__key__"] for row in rows] == [f"./{number}" for number in range(4)]
    assert [(row["cls"], row["jpg"]) for row in rows] == [
        (0, b"image 0"),
        (1, b"image 1"),
        (2, b"image 1"),
        (1, b"image 1"),
    ]
    assert sm.Dataset(path).columns == ["__key__", "cls", "jpg"]
    for command in (["verify", path], ["convert", path, tmp_path / "a.parquet"]):
        subprocess.run(
            [sys.executable, "-m", "shardmill", *map(str, command)], check=True, capture_output=True
        )
    assert list(sm.Dataset(tmp_path / "a.parquet")) == rows


@pytest.mark.parametrize(
    "link",
    [
        (HARD, "later.jpg"),
        (SOFT, "../0.jpg"),
        (SOFT, "/etc/hostname"),
        (SOFT, "1.jpg"),
        (SOFT, "no"),
    ],
)
def test_link_that_leads_nowhere_is_an_error_of_its_row(tmp_path, link):
    members = [
        ("0.jpg", b"0"),
        ("0.cls", b"0"),
        ("1.jpg", link),
        ("1.cls", b"1"),
        ("later.jpg", b"2"),
        ("later.cls", b"2"),
    ]
    path = written(tmp_path / "a.tar", members)
    dataset = sm.Dataset(path)
    assert len(dataset) == 3
    assert dataset[0] == {"__key__": "0", "cls": 0, "jpg": b"0"}
    with pytest.raises(
        sm.FormatError,
        match=r"Member `1.jpg` of `.*a.tar`, at byte \d+, cannot be read: it is a .* link to `",
    ):
        dataset[1]
    assert [row["cls"] for row in sm.Dataset(path, columns=["cls"])] == [0, 1, 2]
    loader = sm.Loader(path, batch_size=3, output="rows", errors=sm.ErrorPolicy(rows="skip"))
    assert [row["__key__"] for batch in loader for row in batch] == ["0", "later"]


def test_blocks_of_links_are_bounded_by_what_they_lead_to(tmp_path):
    body = os.urandom(1 << 20)
    path = written(
        tmp_path / "a.tar",
        [("0.bin", body), *[(f"{number}.bin", (HARD, "0.bin")) for number in range(1, 40)]],
    )
    loader = sm.Loader(path, batch_size=1, output="rows", shuffle=True)
    assert all(row["bin"] == body for batch in loader for row in batch)
    assert sm.Dataset(path)[39]["bin"] == body


def test_members_of_macos_are_neither_rows_nor_columns(tmp_path):
    files = [
        ("d/0.jpg", b"i"),
        ("d/0.txt", b"t"),
        ("d/1.jpg", b"i"),
        ("d/1.txt", b"t"),
        ("d/.hidden.bin", b"h"),
    ]
    path = written(tmp_path / "plain.tar", files)
    expected = list(sm.Dataset(path))
    assert {row["__key__"] for row in expected} == {"d/0", "d/1", "d/"}
    with_mac = [("d/._0.jpg", MAC), ("./._d", MAC)]
    for name, body in files:
        with_mac += [(f"d/._{name[2:]}", MAC), (f"__MACOSX/{name}", MAC), (name, body)]
    assert list(sm.Dataset(written(tmp_path / "mac.tar", with_mac))) == expected
