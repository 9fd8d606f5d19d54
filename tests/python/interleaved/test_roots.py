"""Paths in rows lead to what the user named, and nowhere else (issue: hostile input)."""

import json
import os
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from shard_builders import curate, from_parquet, from_tar, image, row, write_parquet, write_tar

OUTSIDE = "path outside of the input's directory and of allowed_roots"


def ref(path: Any, **values: Any) -> str:
    return json.dumps({"path": str(path), **values})


def outcome_of(path: Path, refs: list[str], out: Path, **source: Any) -> Any:
    rows = [row("a", number, "image", source_ref=text) for number, text in enumerate(refs)]
    write_parquet(path, rows)
    return curate(
        from_parquet(path, **source), to=out, on_materialize_error="warn", mode="overwrite"
    )


def farm(root: Path) -> list[str]:
    """Files and links of every kind, inside and outside of `root/in`.

    Gives the names that paths are made of.
    """
    for directory in ("in/deep/er", "inside", "out/er"):
        (root / directory).mkdir(parents=True)
    for name in ("in/a", "in/deep/b", "in/deep/er/c", "inside/d", "out/e", "out/er/f"):
        (root / name).write_text(name)
    links = {
        "in/up": "..",
        "in/self": ".",
        "in/leave": "../out",
        "in/back": "../in/deep",
        "in/abs": str(root / "in" / "deep"),
        "in/abs_out": str(root / "out"),
        "in/file_out": "../out/e",
        "in/file_in": "deep/b",
        "in/chain": "file_out",
        "in/loop": "loop",
        "in/gone": "nothing",
        "out/home": "../in",
        "alias": "in",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return [
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
        "in",
        "inside",
        "out",
        "deep",
        "er",
        "..",
        ".",
        "",
        "alias",
    ] + [name.partition("/")[2] for name in links if "/" in name]


@pytest.mark.parametrize("given_as", ["directory", "link", "file", "glob"])
def test_no_path_leads_out_of_the_root_whatever_links_there_are(
    tmp_path: Path, given_as: str
) -> None:
    """The oracle is os.path: what its realpath lies below the root's is read, and nothing else."""
    names = farm(tmp_path)
    root = tmp_path / "in"
    source = {
        "directory": root,
        "link": tmp_path / "alias",
        "file": root / "rows.parquet",
        "glob": f"{root}/*.parquet",
    }
    starts = st.sampled_from(
        [str(tmp_path), str(root), f"file://{root}", os.path.relpath(root), "/", ""]
    )
    parts = st.lists(st.sampled_from(names), min_size=1, max_size=6).map("/".join)
    paths = st.lists(
        st.builds(lambda start, rest: f"{start}/{rest}", starts, parts), min_size=1, max_size=40
    )

    @settings(max_examples=examples(25), deadline=None)
    @given(paths)
    def check(paths: list[str]) -> None:
        # Of the paths that were drawn, and of each with a file at its end.
        paths = paths + [f"{path}/{name}" for path in paths[:8] for name in ("a", "b", "e")]
        write_parquet(
            root / "rows.parquet",
            [row("a", at, "image", source_ref=ref(p)) for at, p in enumerate(paths)],
        )
        found = curate(
            from_parquet(source[given_as]),
            to=tmp_path / "written",
            on_materialize_error="warn",
            mode="overwrite",
        )
        for path, made in zip(paths, found.rows, strict=True):
            real = os.path.realpath(path.removeprefix("file://"))
            is_below = os.path.commonpath([real, os.path.realpath(root)]) == os.path.realpath(root)
            is_file = os.path.isfile(real) and os.path.exists(path.removeprefix("file://"))
            expected = Path(real).read_bytes() if is_below and is_file else None
            assert made["binary_content"] == expected, path
            assert (made["materialize_error"] is None) == (expected is not None), path
            if is_file and not is_below:
                assert made["materialize_error"] == OUTSIDE, path

    check()


def test_roots_that_are_named_are_read_too_and_the_option_travels(tmp_path: Path) -> None:
    for name in ("in", "pictures", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_bytes(name.encode())
    refs = [ref(tmp_path / name / "x.png") for name in ("in", "pictures", "secret")]
    plain = outcome_of(tmp_path / "in" / "a.parquet", refs, tmp_path / "out")
    assert plain.column("binary_content") == [b"in", None, None]
    assert plain.column("materialize_error") == [None, OUTSIDE, OUTSIDE]
    assert plain.report.counts("output")["materialize_errors"] == 2
    named = outcome_of(
        tmp_path / "in" / "a.parquet", refs, tmp_path / "out", allowed_roots=[tmp_path / "pictures"]
    )
    assert named.column("binary_content") == [b"in", b"pictures", None]
    assert "pictures" in repr(from_parquet("in", allowed_roots=tmp_path / "pictures"))


def test_policy_decides_about_rows_that_lead_out(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "in" / "a.parquet", [row("a", 0, "image", source_ref=ref("/etc/passwd"))]
    )
    with pytest.raises(sm.CurateError, match="outside of the input's directory"):
        curate(from_parquet(path), to=tmp_path / "out")
    dropped = curate(from_parquet(path), to=tmp_path / "out", on_materialize_error="drop_row")
    assert dropped.report.rows_dropped["materialize_error"] == 1
    assert dropped.report.row_errors[0]["path"] == "/etc/passwd"


@pytest.mark.parametrize(
    "values",
    [
        {"byte_offset": -1, "byte_size": 4},
        {"byte_offset": 0, "byte_size": -4},
        {"byte_offset": "-1", "byte_size": "4"},
        {"byte_offset": 1.5, "byte_size": 4},
        {"byte_offset": 2**64, "byte_size": 4},
        {"byte_offset": 2**64 - 1, "byte_size": 4},
        {"byte_offset": 2**63, "byte_size": 2**63},
        {"byte_offset": 0, "byte_size": 2**40},
        {"byte_offset": 2**40, "byte_size": 1},
        {"byte_offset": True, "byte_size": 4},
        {"frame_index": -1},
        {"frame_index": 2**64},
    ],
)
@pytest.mark.parametrize("member", [None, "x.png"])
def test_number_that_no_file_has_is_an_error_of_its_row(
    tmp_path: Path, values: Any, member: str | None
) -> None:
    path = write_tar(tmp_path / "in" / "a.tar", {"x.png": image("PNG")})
    bad = ref(path, member=member, **values) if member else ref(path, **values)
    found = outcome_of(
        tmp_path / "in" / "a.parquet", [bad, ref(path, member="x.png")], tmp_path / "out"
    )
    assert found.column("binary_content") == [None, image("PNG")]
    assert found.column("materialize_error")[0] is not None


@pytest.mark.parametrize(
    "path", ["/etc/passwd\0.png", "\0", "a\0/../x.png", "file:///etc/passwd", "/proc/self/environ"]
)
def test_odd_path_is_an_error_of_its_row(tmp_path: Path, path: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.png").write_bytes(b"x")
    refs = [ref(path), ref(tmp_path / "in" / "x.png")]
    assert outcome_of(tmp_path / "in" / "a.parquet", refs, tmp_path / "out").column(
        "binary_content"
    ) == [None, b"x"]


def test_links_of_a_tar_lead_to_nothing_outside_of_it(tmp_path: Path) -> None:
    """A token that names a link is a missing image, and never a file of this machine."""
    (tmp_path / "secret.png").write_bytes(image("PNG"))
    path = tmp_path / "in" / "a.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as archive:
        for name, kind, target in (
            ("soft.png", tarfile.SYMTYPE, str(tmp_path / "secret.png")),
            ("up.png", tarfile.SYMTYPE, "../secret.png"),
            ("hard.png", tarfile.LNKTYPE, "../secret.png"),
            ("passwd.png", tarfile.LNKTYPE, "/etc/passwd"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        body = json.dumps(
            {"images": ["soft.png", "up.png", "hard.png", "passwd.png", "../secret.png"]}
        ).encode()
        info = tarfile.TarInfo("a.json")
        info.size = len(body)
        import io

        archive.addfile(info, io.BytesIO(body))
    found = curate(from_tar(path), to=tmp_path / "out", on_materialize_error="warn")
    assert found.column("binary_content", "image") == [None] * 5
    assert all(
        error.startswith("missing member") for error in found.column("materialize_error", "image")
    )


def test_rows_of_a_tar_that_is_a_link_are_found_again_behind_a_map(tmp_path: Path) -> None:
    """The user named the link, so its target is the user's own."""
    from shardmill.curate import Map

    write_tar(
        tmp_path / "store" / "a.tar", {"a.json": {"images": ["x.png"]}, "x.png": image("PNG")}
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.tar").symlink_to(tmp_path / "store" / "a.tar")
    found = curate(from_tar(tmp_path / "in"), [Map(lambda table: table)], to=tmp_path / "out")
    assert found.column("binary_content", "image") == [image("PNG")]


def test_link_that_is_swapped_while_rows_are_read_gives_no_other_bytes(tmp_path: Path) -> None:
    """The descriptor is judged, not the name.

    A race is lost as an error, never as bytes from outside.
    """
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good").write_bytes(b"inside")
    (tmp_path / "bad").write_bytes(b"outside")
    link = tmp_path / "in" / "link"
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("good", "../bad"):
                fresh = tmp_path / "in" / "fresh"
                fresh.symlink_to(target)
                fresh.rename(link)

    link.symlink_to("good")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(20):
            paths = [f"{tmp_path}/in/{'./' * number}link" for number in range(40)]
            found = outcome_of(
                tmp_path / "in" / "a.parquet", [ref(path) for path in paths], tmp_path / "out"
            )
            assert set(found.column("binary_content")) <= {b"inside", None}
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    "name", ["../x.mds", "/etc/passwd", "a/../../x.mds", "link.mds", "directory/shard.mds"]
)
def test_index_of_mds_shards_lists_nothing_outside_of_its_directory(
    tmp_path: Path, name: str
) -> None:
    with sm.Writer(tmp_path / "out", format="mds", columns={"id": "int"}) as writer:
        writer.write({"id": 1})
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    shard = index["shards"][0]["raw_data"]["basename"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.mds").symlink_to(tmp_path / "out" / shard)
    (tmp_path / "in" / "directory").symlink_to(tmp_path / "out")
    (tmp_path / "out" / "shard.mds").write_bytes((tmp_path / "out" / shard).read_bytes())
    (tmp_path / "x.mds").write_bytes((tmp_path / "out" / shard).read_bytes())
    index["shards"][0]["raw_data"]["basename"] = name
    (tmp_path / "in" / "index.json").write_text(json.dumps(index))
    with pytest.raises(sm.FormatError, match="basename"):
        sm.Dataset(tmp_path / "in")
