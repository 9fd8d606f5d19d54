"""`sm.merge`: one index over the shards of several parts."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def listed(directory: Path) -> list[str]:
    return [
        shard["raw_data"]["basename"]
        for shard in json.loads((directory / "index.json").read_text())["shards"]
    ]


def part(directory: Path, *texts: str, format: str = "mds", **options) -> None:
    with sm.Writer(directory, format=format, **options) as writer:
        writer.write_rows({"txt": text} for text in texts)


def test_merged_index_lists_shards_of_all_parts_in_the_order_of_paths(tmp_path: Path) -> None:
    for name in ("b", "a/2", "a/10"):
        part(tmp_path / name, name)
    contents = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    files = sm.merge(tmp_path)
    expected = ["a/10/shard.00000.mds", "a/2/shard.00000.mds", "b/shard.00000.mds"]
    assert files == [f"{tmp_path}/{name}" for name in expected]
    assert listed(tmp_path) == expected
    assert all(path.read_bytes() == content for path, content in contents.items())
    assert sm.merge(tmp_path) == files, "its own index is not a part"


def test_part_that_was_merged_before_counts_once(tmp_path: Path) -> None:
    for name in ("a/1", "a/2", "b"):
        part(tmp_path / name, name)
    sm.merge(tmp_path / "a")
    part(tmp_path / "a/3", "a/3")
    expected = [f"{name}/shard.00000.mds" for name in ("a/1", "a/2", "a/3", "b")]
    assert sm.merge(tmp_path) == [f"{tmp_path}/{name}" for name in expected]
    assert listed(tmp_path) == expected
    assert [row["txt"] for row in sm.Dataset(tmp_path)] == ["a/1", "a/2", "a/3", "b"]


def test_files_of_nested_parts_without_an_index_count_once(tmp_path: Path) -> None:
    part(tmp_path / "a/b", "x", format="jsonl")
    assert sm.merge(tmp_path, [tmp_path / "a", tmp_path / "a/b"]) == [
        f"{tmp_path}/a/b/part-00000.jsonl"
    ]


def test_index_that_would_list_a_shard_twice_is_refused(tmp_path: Path) -> None:
    part(tmp_path, "x")
    index = json.loads((tmp_path / "index.json").read_text())
    index["shards"] *= 2
    (tmp_path / "index.json").write_text(json.dumps(index))
    with (
        pytest.raises(sm.FormatError, match=r"would list 'shard\.00000\.mds' twice\nhint: rebuild"),
        sm.Writer(tmp_path, format="mds", mode="append") as writer,
    ):
        writer.write({"txt": "y"})
    assert names(tmp_path) == ["index.json", "shard.00000.mds"]


def test_given_parts_keep_their_order_and_count_once(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        part(tmp_path / name, name)
    sm.merge(tmp_path, [tmp_path / "c", tmp_path / "a" / "index.json", str(tmp_path / "c")])
    assert listed(tmp_path) == ["c/shard.00000.mds", "a/shard.00000.mds"]


@pytest.mark.parametrize("format", ["mds", "parquet"])
def test_shards_of_the_root_stay_in_its_index_before_those_of_the_parts(
    tmp_path: Path, format: str
) -> None:
    options = {"index": "chinidataset"} if format == "parquet" else {}
    part(tmp_path / "p0", "p0", format=format, **options)
    part(tmp_path, "root", format=format, mode="append", **options)
    for added in ([], ["later"]):
        if added:
            part(tmp_path, *added, format=format, mode="append", **options)
        own = [f"shard.{number:05}.{format}" for number in range(1 + len(added))]
        expected = [*own, f"p0/shard.00000.{format}"]
        assert sm.merge(tmp_path) == [f"{tmp_path}/{name}" for name in expected]
        assert listed(tmp_path) == expected
        assert sorted(row["txt"] for row in sm.Dataset(tmp_path)) == sorted(["root", *added, "p0"])


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ([], sm.OptionError, "^parts is empty\nhint: omit parts"),
        (
            "10",
            sm.OptionError,
            r"^parts must be a list of paths, not '10'\nhint: write parts=\['10'\]",
        ),
        (
            ["10"],
            sm.NotFoundError,
            "^there is no part '10'\nhint: .* relative to the working directory.*pass 'm/10'",
        ),
        (["11"], sm.NotFoundError, "^there is no part '11'\nhint: pass directories or index files"),
    ],
)
def test_parts_that_name_nothing_are_refused_with_a_hint(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    parts: list[str],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    part(Path("m/10"), "x")
    with pytest.raises(error, match=message):
        sm.merge("m", parts)


def test_shard_of_another_size_is_refused_with_a_hint(tmp_path: Path) -> None:
    part(tmp_path / "a", "x")
    shard = tmp_path / "a" / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes() + b"x")
    message = r"lists 'shard.00000.mds' with \d+ bytes, but it has \d+\nhint: copy the shard again"
    with pytest.raises(sm.FormatError, match=message):
        sm.merge(tmp_path)


def test_parts_that_do_not_fit_are_refused_and_the_index_stays(tmp_path: Path) -> None:
    part(tmp_path / "a", "x")
    sm.merge(tmp_path)
    before = (tmp_path / "index.json").read_bytes()
    with sm.Writer(tmp_path / "b", format="mds", columns={"txt": "bytes"}) as writer:
        writer.write({"txt": b"x"})
    with pytest.raises(
        ValueError, match="the parts differ: shard 'b/shard.00000.mds' has column_encodings"
    ):
        sm.merge(tmp_path)
    (tmp_path / "b" / "shard.00000.mds").unlink()
    with pytest.raises(FileNotFoundError, match="lists 'shard.00000.mds', which does not exist"):
        sm.merge(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no part"):
        sm.merge(tmp_path, [tmp_path / "z"])
    (tmp_path / "b" / "index.json").write_text("{}")
    with pytest.raises(ValueError, match="lists no shards"):
        sm.merge(tmp_path)
    part(tmp_path.with_name(f"{tmp_path.name}-else"), "x")
    with pytest.raises(ValueError, match="is not below"):
        sm.merge(tmp_path, [tmp_path.with_name(f"{tmp_path.name}-else")])
    assert (tmp_path / "index.json").read_bytes() == before


def test_parts_of_chinidataset_are_merged_too(tmp_path: Path) -> None:
    for name in ("0", "1"):
        part(tmp_path / name, name, format="parquet", index="chinidataset")
    sm.merge(tmp_path)
    assert listed(tmp_path) == ["0/shard.00000.parquet", "1/shard.00000.parquet"]


def test_parts_without_an_index_are_compared_and_listed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        part(tmp_path / name, name, format="parquet")
    assert sm.merge(tmp_path) == [f"{tmp_path}/{name}/part-00000.parquet" for name in ("a", "b")]
    assert not (tmp_path / "index.json").exists()
    pq.write_table(pa.table({"txt": [1]}), tmp_path / "c.parquet")
    with pytest.raises(ValueError, match="differ|contradict|type"):
        sm.merge(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        FileNotFoundError, match="no parts to merge in '.*empty'\nhint: parts are directories"
    ):
        sm.merge(tmp_path / "empty")


def test_parts_of_two_formats_are_no_data_set(tmp_path: Path) -> None:
    part(tmp_path / "a", "a", format="parquet")
    part(tmp_path / "b", "b", format="jsonl")
    with pytest.raises(
        ValueError, match=r"'.*b' has jsonl files, and '.*a/part-00000.parquet' is parquet\nhint: "
    ):
        sm.merge(tmp_path, [tmp_path / "a", tmp_path / "b"])


def test_index_of_another_library_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.json").write_text('{"chunks": [], "config": {}, "updated_at": "0"}')
    with pytest.raises(
        ValueError,
        match=r"a/index.json' is not an index: .*\n"
        r"hint: an index.json of MDS or of ChiniDataset is expected",
    ):
        sm.merge(tmp_path)


def test_append_without_an_index_to_indexed_shards_has_a_hint_for_the_format(
    tmp_path: Path,
) -> None:
    part(tmp_path / "a", "x")
    sm.merge(tmp_path)
    for format, hint in (
        ("jsonl", "append in the format of the existing shards"),
        ("parquet", "pass index='chinidataset'"),
    ):
        with (
            pytest.raises(
                sm.OptionError, match=f"would not list the new {format} shards\nhint: {hint}"
            ),
            sm.Writer(tmp_path, format=format, mode="append") as writer,
        ):
            writer.write({"txt": "y"})
    assert names(tmp_path) == ["a", "index.json"]
