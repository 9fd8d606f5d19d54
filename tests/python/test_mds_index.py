"""An index of MDS shards that is broken, or that knows better than a damaged shard.

The outcome is an error, and no row is lost in silence.
"""

import json
from pathlib import Path

import pytest
import shardmill as sm


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "set"
    with sm.Writer(
        directory, format="mds", columns={"i": "int"}, hashes=["sha1"], shard_bytes=600
    ) as writer:
        writer.write_rows([{"i": row} for row in range(300)])
    assert len(list(directory.glob("*.mds"))) > 6
    return directory


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_index_that_was_cut_is_an_error_and_not_a_smaller_set(
    directory: Path, share: float
) -> None:
    index = directory / "index.json"
    content = index.read_bytes()
    index.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(sm.FormatError, match=r"index\.json.*it was cut"):
        sm.Dataset(directory)
    assert sm.rebuild_index(directory) is not None
    assert index.read_bytes() == content


def test_index_that_cannot_be_opened_is_an_error_and_not_a_set_without_an_index(
    directory: Path,
) -> None:
    (directory / "index.json").unlink()
    (directory / "index.json").mkdir()
    with pytest.raises(sm.StorageError, match=r"Failed to open `.*index\.json`"):
        sm.Dataset(directory)


def test_byte_order_mark_of_an_index_is_ignored(directory: Path) -> None:
    index = directory / "index.json"
    index.write_text(index.read_text(), encoding="utf-8-sig")
    assert len(sm.Dataset(directory)) == 300


def test_field_of_another_type_is_named_with_its_shard(directory: Path) -> None:
    index = json.loads((directory / "index.json").read_text())
    index["shards"][1]["samples"] = "5"
    (directory / "index.json").write_text(json.dumps(index))
    with pytest.raises(
        sm.FormatError,
        match=r"Field `samples` of shard `shard\.00001\.mds` .*an integer of at least 0, not \"5\"",
    ):
        sm.Dataset(directory)


def test_index_that_lists_a_shard_twice_is_an_error(directory: Path) -> None:
    index = json.loads((directory / "index.json").read_text())
    index["shards"].append(index["shards"][0])
    (directory / "index.json").write_text(json.dumps(index))
    with pytest.raises(sm.FormatError, match="twice"):
        sm.Dataset(directory)


def test_repair_refuses_to_hide_damage_that_the_old_index_shows(directory: Path) -> None:
    shard = directory / "shard.00003.mds"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 8
    shard.write_bytes(content)
    before = (directory / "index.json").read_bytes()
    with pytest.raises(sm.FormatError, match=r"shard\.00003\.mds.*sha1"):
        sm.rebuild_index(directory)
    assert (directory / "index.json").read_bytes() == before


def test_repair_refuses_to_forget_a_shard_that_the_old_index_lists(directory: Path) -> None:
    (directory / "shard.00003.mds").unlink()
    with pytest.raises(sm.FormatError, match=r"shard\.00003\.mds.*not there"):
        sm.rebuild_index(directory)
    (directory / "index.json").unlink()
    sm.rebuild_index(directory)
    assert 0 < len(sm.Dataset(directory)) < 300


def test_repair_lists_shards_by_number_where_the_numbers_of_names_differ_in_length(
    tmp_path: Path,
) -> None:
    shards = {2: "shard.100000.mds", 1: "shard.99999.mds", 0: "shard.00002.mds"}
    for row, name in shards.items():
        with sm.Writer(tmp_path / str(row), format="mds", columns={"i": "int"}) as writer:
            writer.write({"i": row})
        (tmp_path / str(row) / "shard.00000.mds").rename(tmp_path / name)
    assert sm.rebuild_index(tmp_path) == (3, 3)
    assert [row["i"] for row in sm.Dataset(tmp_path)] == [0, 1, 2]


def test_directory_of_another_format_may_have_a_broken_index(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "set", format="parquet") as writer:
        writer.write({"x": 1})
    (tmp_path / "set" / "index.json").write_text("{")
    assert list(sm.Dataset(tmp_path / "set", format="parquet")) == [{"x": 1}]


def test_directory_without_an_index_is_read_with_a_warning_that_says_what_to_do(
    directory: Path, recwarn: pytest.WarningsRecorder
) -> None:
    assert len(sm.Dataset(directory)) == 300 and not recwarn
    (directory / "index.json").unlink()
    with pytest.warns(
        UserWarning, match=r"in .*set have no index.json.*\nhint: `shardmill repair-index .*set`"
    ) as warned:
        assert len(sm.Dataset(directory)) == 300
    assert len(warned) == 1
    recwarn.clear()
    assert len(sm.Dataset(sorted(map(str, directory.glob("*.mds"))))) == 300 and not recwarn


@pytest.mark.parametrize("format", [None, "mds"])
def test_index_without_shards_is_a_data_set_without_rows(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, format: str | None
) -> None:
    with sm.Writer(tmp_path / "none", format="mds", columns={"i": "int", "t": "str"}):
        pass
    dataset = sm.Dataset(tmp_path / "none", format=format)
    assert (len(dataset), list(dataset), dataset.format, dataset.files) == (0, [], "mds", [])
    assert list(sm.Loader(dataset, batch_size=4, output="arrow")) == []
    assert not recwarn


def test_shards_without_samples_have_columns(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "set", format="mds", columns={"t": "bytes"}, shard_bytes=1) as writer:
        writer.write({"t": b"x"})
    index = json.loads((tmp_path / "set" / "index.json").read_text())
    index["shards"] = [shard for shard in index["shards"] if shard["samples"] == 0]
    (tmp_path / "set" / "index.json").write_text(json.dumps(index))
    dataset = sm.Dataset(tmp_path / "set")
    assert index["shards"] and (len(dataset), dataset.columns) == (0, ["t"])


def test_missing_shard_of_an_index_may_be_skipped_and_a_missing_path_may_not(
    tmp_path: Path,
) -> None:
    skipping = sm.ErrorPolicy(files="skip")
    with sm.Writer(tmp_path / "mds", format="mds", columns={"x": "int"}, shard_bytes=300) as writer:
        writer.write_rows({"x": number} for number in range(100))
    lost = sorted((tmp_path / "mds").glob("*.mds"))[1]
    lost.unlink()
    dataset = sm.Dataset(tmp_path / "mds", errors=skipping)
    assert 0 < len(dataset) < 100 and str(lost) in [path for path, _ in dataset.skipped]
    for paths in ([tmp_path / "mds", tmp_path / "none.mds"], [tmp_path / "none*.mds"]):
        with pytest.raises(sm.NotFoundError, match="none"):
            sm.Dataset(paths, errors=skipping)
