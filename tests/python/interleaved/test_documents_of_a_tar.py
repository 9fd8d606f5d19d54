"""Which members of a tar are documents, what happens to the others, and what links point to."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shardmill as sm
from shard_builders import curate, from_tar, image, tiff, write_tar
from shardmill.curate import SampleKeys, verify

MAC = b"\0\5\x16\7\0\2\0\0Mac OS X"


def doc(text: str, *images: Any) -> bytes:
    return json.dumps({"texts": [text], "images": [None, *images]}).encode()


def zstd(body: bytes) -> bytes:
    return pa.compress(body, codec="zstd", asbytes=True)


def ids(outcome: Any) -> list[str]:
    return [found for found, position, _ in outcome.shape() if position == -1]


#: Members beside `a.json`, the documents that there are, and the only warning.
CASES: list[tuple[list[tuple[str, bytes]], list[str], str | None]] = [
    ([("b.JSON", doc("y")), ("c.Json", doc("y"))], ["a", "b", "c"], None),
    (
        [("b.json.gz", gzip.compress(doc("y"))), ("c.JSON.zst", zstd(doc("y")))],
        ["a", "b", "c"],
        None,
    ),
    (
        [("b.json.gz", doc("not compressed")), ("c.json", gzip.compress(doc("by its content")))],
        ["a", "b", "c"],
        None,
    ),
    (
        [("b.c.json", doc("y")), ("b.c.d.json", b'{"n": 1}'), ("c.x.json", b'{"n": 1}')],
        ["a", "b.c", "c.x"],
        "next to",
    ),
    ([("a.b.json", doc("y"))], ["a", "a.b"], None),
    ([("a.b.json", b'{"texts": null}')], ["a", "a.b"], None),
    (
        [("a.stats.json", b'{"count": 3}'), ("a.more.json", b"[1]"), ("a.n.json", b"7")],
        ["a"],
        "members (.json) next to",
    ),
    ([("00000_stats.json", b'{"count": 3}')], ["a", "00000_stats"], None),
    ([(".b.json", doc("y")), (".git/c.json", doc("y"))], ["a"], "hidden members (.json)"),
    (
        [("._a.json", MAC), ("__MACOSX/._a.json", MAC), ("__MACOSX/b.json", doc("y"))],
        ["a"],
        "hidden members (.json)",
    ),
    (
        [("b.jsonl", doc("y") + b"\n" + doc("z"))],
        ["a"],
        "members (.jsonl) that no document names; a document is one",
    ),
    (
        [("b.jsonl.gz", gzip.compress(doc("y")))],
        ["a"],
        "members (.jsonl.gz) that no document names; a document is one",
    ),
    ([("b.json ", doc("y"))], ["a"], "members (.json ) that no document names"),
    (
        [("b.cls", b"1"), ("c.cls", b"2"), ("a.cls", b"3")],
        ["a"],
        "members (.cls) that no document names",
    ),
    ([("README", b"1")], ["a"], "members (no extension) that no document names"),
]


def test_names_say_which_members_are_documents_and_the_other_ones_are_counted(run_tar: Any) -> None:
    wrong = []
    for members, documents, warning in CASES:
        # Whether `X.json` comes first or last makes no difference.
        for order in ([("a.json", doc("x")), *members], [*members, ("a.json", doc("x"))]):
            outcome = run_tar(order)
            others = len(members) + 1 - len(documents)
            warned = outcome.report.warnings
            is_counted = (
                list(warned.values()) == [others] and next(iter(warned)).startswith(warning)
                if warning
                else not warned
            )
            if warning == "next to":
                is_counted = list(warned) == [
                    "members (.json) next to a document with a shorter name, "
                    "without `texts` and `images`"
                ]
            if (
                sorted(ids(outcome)) != sorted(documents)
                or not is_counted
                or outcome.report.quarantined
            ):
                wrong.append((order, ids(outcome), warned, outcome.report.quarantined))
    assert not wrong


def test_named_images_are_not_counted_and_those_of_a_quarantined_document_went_with_it(
    run_tar: Any,
) -> None:
    members = [
        ("a.json", doc("x", "a.png", "x/b.png")),
        ("a.png", image("PNG")),
        ("x/b.png", image("PNG")),
        ("a.txt", b"t"),
        ("b.json", b"{"),
        ("b.png", image("PNG")),
        ("c.json", {"images": ["p0", "p1"]}),
        ("c.tiff", tiff((9, 9), (9, 9))),
    ]
    report = run_tar(members).report
    assert report.warnings == {"members (.txt) that no document names": 1}
    assert [item["member"] for item in report.quarantined] == ["b.json"]


def test_endings_that_the_user_names_are_documents_in_any_case(run_tar: Any) -> None:
    members = [
        ("a.meta.JSON", doc("x")),
        ("b.meta.json.gz", gzip.compress(doc("y"))),
        ("c.json", doc("z")),
        ("a.s.meta.json", b"{}"),
    ]
    outcome = run_tar(members, source={"keys": SampleKeys(json_extensions=(".Meta.json",))})
    assert ids(outcome) == ["a.meta", "b.meta"]


def test_compressed_document_has_a_limit_and_damage_is_quarantined(run_tar: Any) -> None:
    bomb = gzip.compress(b'{"texts": ["' + b"x" * 100_000 + b'"]}')
    members = [
        ("a.json.gz", bomb),
        ("b.json.gz", gzip.compress(doc("y"))[:-9]),
        ("c.json.zst", zstd(doc("z"))),
    ]
    members.append(("d.json", bz2.compress(doc("y"))))
    outcome = run_tar(members, source={"max_decoded_bytes": 50_000})
    assert ids(outcome) == ["c"]
    reasons = {item["member"]: item["reason"] for item in outcome.report.quarantined}
    assert (
        "max_decoded_bytes" in reasons["a.json.gz"]
        and "gzip stream ends early" in reasons["b.json.gz"]
    )
    assert "compressed with bzip2, which cannot be read" in reasons["d.json"]


def test_keys_are_searched_in_documents_only(tmp_path: Path) -> None:
    path = write_tar(
        tmp_path / "in" / "a.tar", [("a.stats.json", b'{"count": 3}'), ("a.json", doc("x"))]
    )
    with pytest.raises(sm.OptionError, match="count"):
        curate(from_tar(path, fields=("count",)), to=tmp_path / "out")
    alone = write_tar(tmp_path / "in" / "b.tar", [("a.b.json", b'{"count": 3}')])
    assert curate(from_tar(alone, fields=("count",)), to=tmp_path / "out").column("count") == [3]


@pytest.mark.parametrize("eager", [True, False])
def test_zstd_tar_is_curated_as_the_plain_one_and_damage_is_reported(
    tmp_path: Path, eager: bool
) -> None:
    members = [
        member
        for number in range(3)
        for member in (
            (f"{number}.json", doc(f"t{number}", f"{number}.png")),
            (f"{number}.png", image("PNG", color=(number, 0, 0))),
        )
    ]
    plain = write_tar(tmp_path / "plain" / "a.tar", members).read_bytes()
    outcomes = {}
    for name, body in {
        "a.tar": plain,
        "a.tar.zst": zstd(plain),
        "a.tar.gz": gzip.compress(plain),
    }.items():
        directory = tmp_path / name.replace(".", "_")
        directory.mkdir()
        (directory / name).write_bytes(body)
        outcomes[name] = curate(
            from_tar(directory, materialize_on_read=eager), to=tmp_path / f"out-{name}"
        )
        assert outcomes[name].report.quarantined == [] and outcomes[name].report.warnings == {}
        assert len(sm.Dataset(directory)) == 3
    values = [
        [outcome.column(name) for name in ("sample_id", "binary_content")]
        for outcome in outcomes.values()
    ]
    assert values[0] == values[1] == values[2]
    assert verify(tmp_path / "a_tar_zst")[0].is_valid
    cut = tmp_path / "cut" / "a.tar.zst"
    cut.parent.mkdir()
    cut.write_bytes(zstd(plain)[:-20])
    quarantined = curate(from_tar(cut), to=tmp_path / "out-cut").report.quarantined
    assert any("zstd stream ends early" in item["reason"] for item in quarantined)


def test_bzip2_and_xz_are_refused_by_name_by_both_readers(tmp_path: Path) -> None:
    plain = write_tar(tmp_path / "plain.tar", [("a.json", doc("x"))]).read_bytes()
    for name, body, codec in [
        ("a.tar.bz2", bz2.compress(plain), "bzip2"),
        ("a.tar.xz", lzma.compress(plain), "xz"),
        ("a.tar", lzma.compress(plain), "xz"),
    ]:
        directory = tmp_path / name.replace(".", "_") / codec
        directory.mkdir(parents=True)
        (directory / name).write_bytes(body)
        for path in (directory, directory / name):
            with pytest.raises(
                sm.FormatError, match=f"compressed with {codec}, which cannot be read"
            ):
                sm.Dataset(path)
            (item,) = curate(
                from_tar(path), to=tmp_path / "out", mode="overwrite"
            ).report.quarantined
            assert (
                item["is_shard"]
                and f"compressed with {codec}, which cannot be read" in item["reason"]
            )


def links_tar(
    path: Path, members: list[tuple[str, bytes | tuple[bytes, str]]], mode: str = "w"
) -> Path:
    """Files, and links as a pair of type and target."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, body in members:
            info = tarfile.TarInfo(name)
            if isinstance(body, tuple):
                info.type, info.linkname = body
                archive.addfile(info)
            else:
                info.size = len(body)
                archive.addfile(info, io.BytesIO(body))
    return path


HARD, SOFT, DIR = tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_images_and_documents_that_are_links_are_those_of_tarfile(
    tmp_path: Path, mode: str
) -> None:
    members = [
        ("d/early.png", (SOFT, "../late.png")),
        ("x.png", image("PNG", color=(1, 0, 0))),
        ("hard.png", (HARD, "x.png")),
        ("d/soft.png", (SOFT, "../hard.png")),
        ("late.png", image("PNG", color=(2, 0, 0))),
        ("a.json", doc("t", "hard.png", "d/soft.png", "d/early.png")),
        ("b.json", (HARD, "a.json")),
        ("d/c.json", (SOFT, "../a.json")),
    ]
    path = links_tar(tmp_path / "in" / "a.tar", members, mode)
    for eager in (True, False):
        outcome = curate(from_tar(path, materialize_on_read=eager), to=tmp_path / f"out{eager}")
        assert ids(outcome) == ["a", "b", "c"]
        assert outcome.report.quarantined == []
        # The members that the links lead to.
        assert outcome.report.warnings == {"members (.png) that no document names": 2}
        with tarfile.open(path) as archive:
            expected = [
                archive.extractfile(name).read()
                for name in ("hard.png", "d/soft.png", "d/early.png")
            ]
        assert outcome.column("binary_content", "image") == expected * 3


def test_links_that_lead_nowhere_are_errors_of_their_rows_and_documents_are_quarantined(
    tmp_path: Path,
) -> None:
    members = [
        ("soon.png", (HARD, "x.png")),
        ("x.png", image("PNG")),
        ("out.png", (SOFT, "../x.png")),
        ("abs.png", (SOFT, "/x.png")),
        ("loop.png", (SOFT, "loop.png")),
        ("gone.png", (SOFT, "gone")),
        ("dir", (DIR, "")),
        ("dir.png", (SOFT, "dir")),
        ("lost.json", (HARD, "nothing.json")),
        (
            "a.json",
            doc("t", "soon.png", "out.png", "abs.png", "loop.png", "gone.png", "dir.png", "x.png"),
        ),
    ]
    path = links_tar(tmp_path / "in" / "a.tar", members)
    outcome = curate(from_tar(path), to=tmp_path / "out", on_materialize_error="warn")
    errors = outcome.column("materialize_error", "image")
    assert errors.pop() is None and all(error.startswith("missing member") for error in errors)
    assert ["hard link to `x.png`" in errors[0], "outside of the archive" in errors[1]] == [
        True,
        True,
    ]
    (item,) = outcome.report.quarantined
    assert item["member"] == "lost.json" and "not an earlier member" in item["reason"]
    assert outcome.report.warnings["a link that does not point to a file of its archive"] == 5
    assert not verify(path)[0].is_valid


def test_file_that_gnu_tar_stores_twice_is_one_member(tmp_path: Path) -> None:
    for name, body in (("a.png", image("PNG")), ("a.json", doc("t", "a.png"))):
        (tmp_path / name).write_bytes(body)
    path = tmp_path / "in" / "a.tar"
    path.parent.mkdir()
    subprocess.run(
        ["tar", "-cf", path, "-C", tmp_path, "a.png", "a.json", "a.png", "a.json"], check=True
    )
    outcome = curate(from_tar(path), to=tmp_path / "out")
    assert outcome.column("binary_content", "image") == [image("PNG")] and ids(outcome) == ["a"]


def test_list_with_a_value_per_image_warns_once_with_the_option(run_tar: Any) -> None:
    def body(count: int, **extra: Any) -> dict[str, Any]:
        return {"texts": ["t"], "images": [None, *[f"{k}.png" for k in range(count)]], **extra}

    pictures = [(f"{k}.png", image("PNG")) for k in range(3)]
    documents = [
        body(3, meta=[1, 2, 3], tags=["x"]),
        body(1, meta=[{"w": 1}], tags=["x", "y"]),
        body(2, meta=None),
    ]
    members = [*pictures, *[(f"d{number}.json", value) for number, value in enumerate(documents)]]
    warned = run_tar(members).report.warnings
    assert list(warned.values()) == [1]
    assert 'per_image_fields=("meta",) (--per-image-field meta)' in next(iter(warned))
    named = run_tar(members, source={"per_image_fields": ("meta",)}).report.warnings
    assert not any("per image" in text for text in named)
