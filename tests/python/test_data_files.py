"""Which files below a path are data, which are left out, and how often a file counts."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import tarfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from flat_options import flat_loader
from shardmill.arrayrecord import ArrayRecordWriter
from shardmill.curate import (
    InterleavedParquetSource,
    ParquetSink,
    Pipeline,
    TableSource,
    WebDatasetSource,
    verify,
)


def write(path: Path, first: int, rows: int = 3, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": list(range(first, first + rows))}), path, **options)
    return path


def xs(path: Any, **options: Any) -> list[int]:
    return [row["x"] for row in sm.Dataset(path, **options)]


def skipped_names(dataset: sm.Dataset) -> list[str]:
    return sorted(os.path.basename(path) for path, _ in dataset.skipped)


def test_copies_have_the_columns_and_the_filter_of_the_call(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "y": [3, 4]}), tmp_path / "a.parquet")
    columns, condition = ["y"], [("x", ">", 1)]
    dataset = sm.Dataset(tmp_path / "a.parquet", columns=columns, filter=condition)
    columns.append("x")
    condition[0] = ("x", ">", 0)
    assert list(pickle.loads(pickle.dumps(dataset))) == list(dataset) == [{"y": 4}]
    names: Any = {"x": 0}.keys()
    assert pickle.loads(
        pickle.dumps(sm.Dataset(tmp_path / "a.parquet", columns=names))
    ).columns == ["x"]


def test_parquet_of_any_name_is_recognized_by_its_first_bytes(tmp_path: Path) -> None:
    names = [
        "a.parquet",
        "b.parq",
        "c.pq",
        "d",
        "e.parquet.gz",
        "f.PARQUET",
        "g.snappy",
        "part-00000-of-00002",
    ]
    for number, name in enumerate(names):
        write(tmp_path / name, 3 * number)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = sm.Dataset(tmp_path)
    assert (dataset.format, len(dataset), dataset.skipped) == ("parquet", 24, [])
    assert xs(f"{tmp_path}/*") == list(range(24))
    assert xs(tmp_path / "d") == [9, 10, 11], "also where it is named"
    assert sum(len(batch["x"]) for batch in sm.Loader(tmp_path, output="numpy")) == 24


def test_orc_array_record_and_tar_are_recognized(tmp_path: Path) -> None:
    (tmp_path / "orc").mkdir()
    orc.write_table(pa.table({"x": [1, 2]}), tmp_path / "orc/part-0")
    assert (sm.Dataset(tmp_path / "orc").format, len(sm.Dataset(tmp_path / "orc"))) == ("orc", 2)
    (tmp_path / "records").mkdir()
    with ArrayRecordWriter(tmp_path / "records/part-0", "group_size:1") as writer:
        writer.write(b"one")
    assert sm.Dataset(tmp_path / "records").format == "arrayrecord"
    (tmp_path / "samples").mkdir()
    with tarfile.open(tmp_path / "samples/part-0", "w") as tar:
        info = tarfile.TarInfo("1.txt")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"one"))
    assert sm.Dataset(tmp_path / "samples")[0]["txt"] == "one"


def test_table_job_reads_files_that_are_recognized(tmp_path: Path) -> None:
    write(tmp_path / "in/a.parq", 0)
    write(tmp_path / "in/b", 3)
    Pipeline(
        source=TableSource(str(tmp_path / "in")), stages=[], sink=ParquetSink(str(tmp_path / "out"))
    ).run(progress=False)
    assert sorted(pq.read_table(tmp_path / "out")["x"].to_pylist()) == list(range(6))


def test_what_is_left_out_is_warned_of_once_and_listed(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 0)
    (tmp_path / "stats.json").write_text('{"rows": 3}')
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "packed.parquet.gz").write_bytes(
        gzip.compress((tmp_path / "a.parquet").read_bytes())
    )
    for number in range(40):
        (tmp_path / f"{number}.{'long' * 20}").write_bytes(bytes(8))
    with pytest.warns(UserWarning, match="44 files are left out") as raised:
        dataset = sm.Dataset(tmp_path)
    assert len(raised) == 1
    assert len(str(raised[0].message)) < 2000
    reasons = {os.path.basename(path): reason for path, reason in dataset.skipped}
    assert len(reasons) == 44
    assert "text" in reasons["notes.txt"]
    assert "gzip" in reasons["packed.parquet.gz"]
    assert "empty" in reasons["empty"]
    assert xs_quietly(tmp_path) == [0, 1, 2]


def xs_quietly(path: Any) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xs(path)


def test_file_that_is_named_is_read_or_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    write(tmp_path / "a.parquet", 0)
    with pytest.raises(ValueError, match=r"notes\.txt.*look like text"):
        sm.Dataset([tmp_path / "a.parquet", tmp_path / "notes.txt"])
    (tmp_path / "stats.json").write_text('{"x": 3}')
    with pytest.raises(ValueError, match="one format"):
        sm.Dataset([tmp_path / "a.parquet", tmp_path / "stats.json"])


@pytest.mark.parametrize("name", ["a.feather", "a.ipc", "named"])
def test_arrow_files_of_any_name_are_refused_by_what_they_are(tmp_path: Path, name: str) -> None:
    import pyarrow.feather as feather

    feather.write_feather(pa.table({"x": [1]}), tmp_path / name)
    with pytest.raises(sm.PlanError, match="is an Arrow file, which a data set does not read"):
        sm.Dataset(tmp_path / name if name == "named" else tmp_path)


def test_cut_parquet_of_any_name_is_an_error(tmp_path: Path) -> None:
    content = write(tmp_path / "part-0", 0).read_bytes()
    (tmp_path / "part-0").write_bytes(content[:-20])
    with pytest.raises(ValueError, match="part-0"):
        sm.Dataset(tmp_path)


SIDE_CARS = [
    "index.json",
    "metadata.json",
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
    "_SUCCESS",
    "_metadata",
    "README.md",
    "LICENSE",
    "a.json.crc",
    ".a.crc",
    "b.tar.idx",
]


@pytest.mark.parametrize("extension", ["json", "jsonl", "parquet", "csv"])
def test_side_cars_are_listed_and_neither_read_nor_warned_of(
    tmp_path: Path, extension: str
) -> None:
    for directory in (tmp_path, tmp_path / "below"):
        directory.mkdir(exist_ok=True)
        for name in SIDE_CARS:
            (directory / name).write_text('{"features": {}, "x": 7}')
        if extension == "parquet":
            write(directory / "rows.parquet", 0)
        else:
            (directory / f"rows.{extension}").write_text(
                "x\n0\n" if extension == "csv" else '{"x": 0}\n'
            )
    for path in (tmp_path, f"{tmp_path}/**/*"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dataset = sm.Dataset(path)
        assert {row["x"] for row in dataset} <= {0, 1, 2}
        assert len(dataset.files) == 2
    assert skipped_names(sm.Dataset(tmp_path)) == sorted(SIDE_CARS * 2)
    assert xs(tmp_path, format=extension) == xs(tmp_path)


@pytest.mark.parametrize("name", ["index.json", "metadata.json", "state.json"])
def test_side_car_that_is_named_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / name).write_text('{"x": 7}\n')
    assert xs(tmp_path / "below" / name) == [7]
    assert xs(f"{tmp_path}/*/{name}") == [7]


def write_json_shards(directory: Path, shards: Sequence[int], format: str = "json") -> None:
    """As ``streaming.JSONWriter`` and ``streaming.XSVWriter`` do.

    Text shards with their offsets beside them, and an index.
    """
    directory.mkdir()
    entries, number = [], 0
    for shard, rows in enumerate(shards):
        name = f"shard.{shard:05}.{format}"
        lines = [f'{{"x": {number + row}}}\n'.encode() for row in range(rows)]
        number += rows
        (directory / name).write_bytes(b"".join(lines))
        offsets = [sum(map(len, lines[:row])) for row in range(rows + 1)]
        meta = (
            b"".join(value.to_bytes(4, "little") for value in [rows, *offsets])
            + b'{"columns": {"x": "int"}}'
        )
        (directory / f"{name}.meta").write_bytes(meta)
        stated = {"bytes": sum(map(len, lines)), "hashes": {}}
        entries.append(
            {
                "columns": {"x": "int"},
                "compression": None,
                "format": format,
                "hashes": [],
                "newline": "\n",
                "raw_data": {"basename": name, **stated},
                "raw_meta": {"basename": f"{name}.meta", "bytes": len(meta), "hashes": {}},
                "samples": rows,
                "size_limit": 1 << 26,
                "version": 2,
                "zip_data": None,
                "zip_meta": None,
            }
        )
    (directory / "index.json").write_text(
        json.dumps({"shards": entries, "version": 2}, sort_keys=True)
    )


def test_json_directory_of_mosaicml_is_read_by_its_index(tmp_path: Path) -> None:
    directory = tmp_path / "set"
    write_json_shards(directory, [100, 150, 50])
    (directory / "shard.00009.json").write_text('{"x": -1}\n')
    for path in (directory, f"{directory}/", [directory]):
        assert xs(path) == list(range(300))
    assert (
        sum(len(batch["x"]) for batch in sm.Loader(directory, output="numpy", batch_size=7)) == 300
    )
    (directory / "shard.00001.json").write_text('{"x": 0}\n')
    with pytest.raises(ValueError, match=r"shard\.00001\.json.*1 rows.*150"):
        sm.Dataset(directory)
    (directory / "shard.00001.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"shard\.00001\.json"):
        sm.Dataset(directory)


def test_shards_that_an_index_does_not_list_are_skipped_with_a_reason(tmp_path: Path) -> None:
    write_json_shards(tmp_path / "json", [3])
    with sm.Writer(tmp_path / "mds", format="mds") as writer:
        writer.write_rows([{"x": row} for row in range(3)])
    for directory, name in (("json", "shard.00009.json"), ("mds", "shard.00009.mds")):
        (tmp_path / directory / name).write_bytes(b"{}\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            dataset = sm.Dataset(tmp_path / directory)
        reasons = {os.path.basename(path): reason for path, reason in dataset.skipped}
        assert "index" in reasons[name]
        assert [row["x"] for row in dataset] == [0, 1, 2]


def test_integers_beyond_int64_keep_every_digit(tmp_path: Path) -> None:
    large = 2**64 - 1
    (tmp_path / "a.jsonl").write_text(f'{{"id": 3, "mixed": -1}}\n{{"id": {large}, "mixed": 1}}\n')
    dataset = sm.Dataset(tmp_path / "a.jsonl")
    assert [row["id"] for row in dataset] == [3, large]
    assert [str(field.type) for field in pa.schema(dataset.schema)] == ["uint64", "int64"]


def test_json_that_is_called_csv_is_an_error(tmp_path: Path) -> None:
    for content in ('{"x": 1, "y": 2}\n{"x": 3, "y": 4}\n', '[{"x": 1}]', '\n{\n  "x": 1\n}\n'):
        (tmp_path / "a.csv").write_text(content)
        with pytest.raises(sm.FormatError, match=r"a\.csv.*JSON"):
            sm.Dataset(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("{x},[y]\n1,2\n")
    assert sm.Dataset(tmp_path / "a.csv")[0] == {"{x}": 1, "[y]": 2}


@pytest.mark.parametrize("format", ["csv", "tsv", "xsv"])
def test_separated_directory_of_mosaicml_is_refused_by_what_it_is(
    tmp_path: Path, format: str
) -> None:
    write_json_shards(tmp_path / "set", [3], format)
    with pytest.raises(ValueError, match=f"{format} shards of MosaicML"):
        sm.Dataset(tmp_path / "set")


def test_json_index_names_no_file_outside_of_its_directory(tmp_path: Path) -> None:
    write_json_shards(tmp_path / "set", [3])
    index = tmp_path / "set/index.json"
    index.write_text(index.read_text().replace("shard.00000.json", "../shard.00000.json"))
    with pytest.raises(ValueError, match="does not lie below"):
        sm.Dataset(tmp_path / "set")


def test_glob_has_the_same_names_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "_in/k=1/d/year=2024/a.parquet", 0)
    monkeypatch.chdir(tmp_path)
    for path in (
        "_in/k=1/d/*/*.parquet",
        "./_in/k=1/d/*/*.parquet",
        "./_in//k=1/d/*",
        f"{tmp_path}//_in/k=1/d/*",
    ):
        dataset = sm.Dataset(path, partitioning="hive")
        assert (dataset.columns, len(dataset)) == (["x", "year"], 3), path


def test_two_stars_at_the_end_of_a_path_take_files_of_every_depth(tmp_path: Path) -> None:
    for number, path in enumerate(("a.parquet", "b/c.parquet", "b/d/e.parquet")):
        write(tmp_path / path, number)
    assert len(sm.Dataset(f"{tmp_path}/**").files) == 3


def test_file_that_is_named_twice_is_read_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = write(tmp_path / "d/a.parquet", 0), write(tmp_path / "d/b.parquet", 3)
    assert xs([a, a]) == [0, 1, 2] * 2
    assert xs([a, b, a]) == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    monkeypatch.chdir(tmp_path)
    assert xs([a, "d/a.parquet", f"file://{a}", "./d/../d/a.parquet"]) == [0, 1, 2] * 4
    assert xs([a, a], filter=sm.col("x") > 1) == [2, 2]
    assert sm.Dataset([a, a])[5] == {"x": 2}
    assert sm.Dataset([a, a]).take([0, 3]).to_pydict() == {"x": [0, 0]}


def test_file_that_is_found_twice_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "d"
    a, _ = write(directory / "a.parquet", 0), write(directory / "b.parquet", 3)
    whole = list(range(6))
    monkeypatch.chdir(tmp_path)
    for paths in (
        [directory, directory],
        [f"{directory}/*.parquet", f"{directory}/a*"],
        [f"{directory}/a*", directory],
        [directory, a],
        [directory, "d", "./d/", f"file://{directory}"],
    ):
        assert xs(paths) == whole, paths
    assert xs([directory, a, a]) == [*whole, 0, 1, 2], "once found and named, then named again"
    assert xs([a, directory, a]) == [0, 1, 2, 3, 4, 5, 0, 1, 2]


def test_linked_directory_is_read_like_its_glob(tmp_path: Path) -> None:
    write(tmp_path / "root/a.parquet", 0)
    write(tmp_path / "elsewhere/sub/b.parquet", 3)
    (tmp_path / "root/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/sub/up").symlink_to("..")
    assert xs(tmp_path / "root") == xs(f"{tmp_path}/root/**/*.parquet") == list(range(6))
    assert [check.path for check in verify(tmp_path / "root")] == [
        f"{tmp_path}/root/a.parquet",
        f"{tmp_path}/root/link/sub/b.parquet",
    ]


@pytest.mark.parametrize("target", ["real", "../in", "."])
def test_file_that_links_lead_to_again_counts_once(tmp_path: Path, target: str) -> None:
    (tmp_path / "in/real").mkdir(parents=True)
    with sm.Writer(tmp_path / "in/real/a.tar") as writer:
        writer.write({"__key__": "x", "json": b'{"texts": ["x"], "images": [null]}'})
    (tmp_path / "in/link").symlink_to(target)
    assert len(sm.Dataset(tmp_path / "in")) == 1
    source = WebDatasetSource(tmp_path / "in")
    report = Pipeline(source=source, sink=ParquetSink(tmp_path / "out")).run(progress=False)
    assert report.counts("input")["samples"] == 1


def test_file_that_several_links_of_a_directory_lead_to_counts_once(tmp_path: Path) -> None:
    target, other = (
        write(tmp_path / "blobs/one.parquet", 0),
        write(tmp_path / "blobs/two.parquet", 3),
    )
    (tmp_path / "in").mkdir()
    for name, blob in (("a", target), ("b", other), ("c", target)):
        (tmp_path / f"in/{name}.parquet").symlink_to(blob)
    assert xs(tmp_path / "in") == xs(f"{tmp_path}/in/*") == list(range(6))
    assert xs([tmp_path / "in", tmp_path / "blobs"]) == list(range(6))
    named = [tmp_path / "in/a.parquet", tmp_path / "in/c.parquet"]
    assert xs(named) == [0, 1, 2, 0, 1, 2], "a list is read as it is given"


@pytest.mark.parametrize(
    "read",
    [
        sm.Dataset,
        lambda path: Pipeline(source=TableSource(path), sink=ParquetSink(path.parent / "out")).run(
            progress=False
        ),
        lambda path: Pipeline(
            source=InterleavedParquetSource(path), sink=ParquetSink(path.parent / "out")
        ).run(progress=False),
    ],
)
def test_link_without_a_target_is_not_found(tmp_path: Path, read: Any) -> None:
    write(tmp_path / "in/a.parquet", 0)
    (tmp_path / "in/b.parquet").symlink_to("missing")
    (tmp_path / "in/.hidden.parquet").symlink_to("missing")
    with pytest.raises(sm.NotFoundError, match=r"in/b\.parquet"):
        read(tmp_path / "in")


def test_link_without_a_target_fails_verification_and_may_be_skipped(tmp_path: Path) -> None:
    write(tmp_path / "in/a.parquet", 0)
    (tmp_path / "in/b.parquet").symlink_to("missing")
    assert [check.is_valid for check in verify(tmp_path / "in")] == [True, False]
    dataset = sm.Dataset(tmp_path / "in", errors=sm.ErrorPolicy(files="skip"))
    assert (len(dataset), skipped_names(dataset)) == (3, ["b.parquet"])


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_loader_over_a_file_that_is_named_twice_resumes_exactly(tmp_path: Path, stop: int) -> None:
    a, b = (
        write(tmp_path / "a.parquet", 0, 20, row_group_size=4),
        write(tmp_path / "b.parquet", 100, 5),
    )

    def loader(**options: Any) -> sm.Loader:
        return flat_loader([a, b, a], batch_size=5, shuffle=True, seed=1, output="numpy", **options)

    whole = [batch["x"].tolist() for batch in loader()]
    assert sorted(x for batch in whole for x in batch) == sorted(
        [*range(20), *range(20), *range(100, 105)]
    )
    first = loader()
    batches = iter(first)
    for expected in whole[:stop]:
        assert next(batches)["x"].tolist() == expected
    second = loader(threads=1)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [batch["x"].tolist() for batch in second] == whole[stop:]
    once = sm.Loader([a, b], batch_size=5, shuffle=True, seed=1, output="numpy")
    with pytest.raises(sm.CheckpointMismatchError):
        once.load_state_dict(first.state_dict())


@pytest.mark.parametrize("source", [TableSource, WebDatasetSource])
def test_pipeline_refuses_a_path_that_is_listed_twice(
    tmp_path: Path, source: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = write(tmp_path / "d/a.parquet", 0), write(tmp_path / "d/b.parquet", 3)
    monkeypatch.chdir(tmp_path)
    for again in (str(a), "d/a.parquet", f"file://{a}"):
        pipeline = Pipeline(
            source=source([str(a), str(b), again]),
            stages=[],
            sink=ParquetSink(str(tmp_path / "out")),
        )
        with pytest.raises(ValueError, match=r"a\.parquet.*listed twice"):
            pipeline.run(progress=False)
    assert not (tmp_path / "out").exists()


def test_pipeline_counts_files_of_overlapping_globs_once(tmp_path: Path) -> None:
    a = write(tmp_path / "d/a.parquet", 0)
    write(tmp_path / "d/b.parquet", 3)
    source = TableSource([f"{tmp_path}/d/*.parquet", str(tmp_path / "d"), str(a)])
    Pipeline(source=source, stages=[], sink=ParquetSink(str(tmp_path / "out"))).run(progress=False)
    assert sorted(pq.read_table(tmp_path / "out")["x"].to_pylist()) == list(range(6))
