"""Options that name what is not there, shards without a document, values of another kind.

The outcome is an error, or they are counted and told.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shard_builders import curate, document, from_parquet, from_tar, image, write_parquet, write_tar
from shardmill import MissingColumnError
from shardmill.cli import _commands as commands
from shardmill.curate import Filter, Map, ParquetSink, Pipeline, SampleKeys, TableSource
from shardmill.errors import OptionError

PNG = image("PNG")
SAMPLE = {"texts": ["t", None], "images": [None, "a.png"], "key": "k", "lang": ["en"]}


def shards(directory: Path, *samples: dict[str, Any]) -> Path:
    for number, sample in enumerate(samples):
        write_tar(directory / f"{number}.tar", {"a.json": sample, "a.png": PNG})
    return directory


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("texts_field", "text_list"),
        ("images_field", "image"),
        ("sample_id_field", "id"),
        ("image_member_field", "file"),
        ("fields", ("key", "url")),
        ("per_image_fields", ("score",)),
        ("per_text_fields", ("langs",)),
    ],
)
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_key_that_no_sample_has_stops_the_job_before_anything_is_written(
    tmp_path: Path, option: str, names: Any, is_checkpointed: bool
) -> None:
    options: dict[str, Any] = {option: names}
    if isinstance(names, str):
        options = {"keys": SampleKeys(**options)}
    source = from_tar(shards(tmp_path / "in", *[SAMPLE] * 3), **options)
    checkpoint = str(tmp_path / "state") if is_checkpointed else None
    with pytest.raises(
        OptionError, match=rf"`{option}`.*none of the 3 samples has the key.*`images`.*`key`"
    ) as raised:
        Pipeline(source=source, sink=ParquetSink(tmp_path / "out"), checkpoint=checkpoint).run(
            progress=False
        )
    assert (names if isinstance(names, str) else names[-1]) in str(raised.value)
    assert not (tmp_path / "out").exists()
    # The job is free to begin with other options.
    good = Pipeline(
        source=from_tar(tmp_path / "in"), sink=ParquetSink(tmp_path / "out"), checkpoint=checkpoint
    )
    assert good.run(progress=False).counts("output")["samples"] == 3


def test_key_that_one_sample_of_the_last_shard_has_is_enough(tmp_path: Path, out: Any) -> None:
    directory = shards(tmp_path / "in", SAMPLE, SAMPLE, {**SAMPLE, "rare": 1})
    outcome = curate(from_tar(directory, fields=("rare",)), to=out())
    assert outcome.column("rare", "metadata") == [None, None, 1]
    assert outcome.report.warnings["field `rare` is missing in a sample"] == 2


def test_compressed_and_broken_shards_do_not_hide_a_key(tmp_path: Path, out: Any) -> None:
    directory = shards(tmp_path / "in", SAMPLE)
    (directory / "00.tar").write_bytes(b"no tar")
    write_tar(directory / "z.tar.gz", {"b.json": {**SAMPLE, "rare": 1}, "a.png": PNG}, "w:gz")
    outcome = curate(from_tar(directory, fields=("rare",)), to=out())
    assert outcome.column("rare", "metadata") == [None, 1]


def test_samples_that_are_not_documents_stop_the_job(tmp_path: Path) -> None:
    """Neither lists nor a caption beside the image."""
    for shard in range(2):
        members: list[tuple[str, Any]] = []
        for number in range(3):
            members += [
                (f"{number}.jpg", image()),
                (f"{number}.json", {"caption": "a cat", "url": "u"}),
            ]
        write_tar(tmp_path / "in" / f"{shard}.tar", members)
    with pytest.raises(
        OptionError,
        match="none of the 6 samples has the key `texts`, `images`; they have `caption`, `url`",
    ):
        Pipeline(source=from_tar(tmp_path / "in"), sink=ParquetSink(tmp_path / "out")).run(
            progress=False
        )
    assert not (tmp_path / "out").exists()


def test_key_that_the_only_sample_lacks_is_named(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", {"a.json": {"texts": ["x"], "url": "u"}})
    pipeline = Pipeline(
        source=from_tar(tmp_path / "a.tar", fields=["title"]), sink=ParquetSink(tmp_path / "out")
    )
    with pytest.raises(
        OptionError, match="the only sample does not have the key `title`; it has `texts`, `url`"
    ):
        pipeline.run(progress=False)


@pytest.mark.parametrize(
    "members",
    [{"a.jpg": PNG, "a.txt": "x"}, {"a.jsonl": "{}\n", "b.jsonl": "{}\n"}, {"noextension": "x"}],
)
def test_shard_with_members_and_no_document_is_quarantined(
    tmp_path: Path, out: Any, members: dict[str, Any]
) -> None:
    write_tar(tmp_path / "in" / "b.tar", members)
    shards(tmp_path / "in", SAMPLE)
    outcome = curate(from_tar(tmp_path / "in"), to=out())
    (item,) = outcome.report.quarantined
    assert (Path(item["path"]).name, item["is_shard"]) == ("b.tar", True)
    ending = Path(next(iter(members))).suffix or "no extension"
    assert (
        f"none of the {len(members)} members is a sample: no name ends in .json; json_extensions"
        in item["reason"]
    )
    assert ending in item["reason"]


@pytest.mark.parametrize(
    ("value", "kind"),
    [("a string", "a string"), (5, "a number"), ({"a": 1}, "an object"), (True, "a boolean")],
)
@pytest.mark.parametrize("field", ["texts", "images"])
def test_value_that_is_no_list_quarantines_its_sample(
    run_tar: Any, field: str, value: Any, kind: str
) -> None:
    outcome = run_tar([("a.json", {field: value, "content": []}), ("b.json", {"texts": ["t"]})])
    assert set(outcome.column("sample_id")) == {"b"}
    (item,) = outcome.report.quarantined
    assert (item["member"], item["is_shard"]) == ("a.json", False)
    assert (
        item["reason"]
        == f"`{field}` is {kind}, not a list; {field}_field names the list, and the keys there are "
        + ", ".join(f"`{key}`" for key in (field, "content"))
    )


def test_entries_of_another_kind_are_counted_with_their_keys(run_tar: Any) -> None:
    members = {
        "a.json": {
            "texts": [{"text": "t", "lang": "en"}, 5, "t", None],
            "images": [None, None, None, {"src": "a.png"}],
        },
        "a.png": PNG,
    }
    warnings = run_tar(members).report.warnings
    assert warnings == {
        "an entry of `texts` (texts_field) is an object with the keys `text`, `lang`, "
        "and became JSON text": 1,
        "an entry of `texts` (texts_field) is a number, and became JSON text": 1,
        "an entry of `images` (images_field) is an object with the keys `src`, "
        "not the name of a member": 1,
    }


def test_list_that_a_file_lacks_is_a_warning_with_the_keys_there(tmp_path: Path, out: Any) -> None:
    directory = shards(
        tmp_path / "in",
        {"texts": ["t"], "pictures": ["a.png"]},
        {"texts": ["t"], "pictures": ["a.png"]},
    )
    report = curate(from_tar(directory), to=out()).report
    warning = (
        "no sample of a file has the key `images` (images_field); "
        "the keys there are `pictures`, `texts`"
    )
    assert report.warnings == {warning: 2, "members (.png) that no document names": 2}
    assert f"warning: {warning} (2 times)" in str(report)


def test_id_without_a_value_is_a_counted_warning(run_tar: Any) -> None:
    members = [("a.json", {"texts": ["t"], "key": "k", "images": []}), ("b.json", {"texts": ["t"]})]
    outcome = run_tar(members, source={"keys": SampleKeys(sample_id_field="key")})
    assert outcome.column("sample_id", "metadata") == ["k", "b"]
    assert outcome.report.warnings == {
        "`key` (sample_id_field) has no value in a sample, whose id became the name of its JSON": 1
    }


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--texts-field", "text"], 1),
        (["--images-field", "image"], 1),
        (["--sample-id-field", "id"], 1),
        (["--image-member-field", "file"], 1),
        (["--fields", "url"], 1),
        (["--per-image-field", "score"], 1),
        (["--per-text-field", "score"], 1),
    ],
)
def test_command_fails_as_the_class_does(tmp_path: Path, options: list[str], code: int) -> None:
    shards(tmp_path / "in", SAMPLE)
    arguments = ["curate", str(tmp_path / "in"), str(tmp_path / "out"), "--to", "parquet", *options]
    assert (commands.run(arguments), (tmp_path / "out").exists()) == (code, code == 0)


def test_command_without_a_document_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(tmp_path / "a.tar", {"a.jsonl": "{}\n"})
    assert (
        commands.run(["curate", str(tmp_path / "a.tar"), str(tmp_path / "out"), "--to", "parquet"])
        == 1
    )
    assert ".jsonl (1)" in capsys.readouterr().err


def test_column_that_no_parquet_file_has_stops_the_job(tmp_path: Path, out: Any) -> None:
    c = pa.field("c", pa.int64())
    write_parquet(tmp_path / "in" / "a.parquet", document("a", "t", c=1), [c])
    write_parquet(tmp_path / "in" / "b.parquet", document("b", "t"))
    with pytest.raises(MissingColumnError, match="no file has the column `absent`; they have `c`"):
        Pipeline(
            source=from_parquet(tmp_path / "in", fields=("c", "absent")),
            sink=ParquetSink(tmp_path / "out"),
        ).run(progress=False)
    assert not (tmp_path / "out").exists()
    outcome = curate(from_parquet(tmp_path / "in", fields=("c",)), to=out())
    assert outcome.column("c", "metadata") == [1, None]
    assert outcome.report.warnings == {
        "column `c` (fields) is in no file of a split, and is null there": 1
    }


@pytest.mark.parametrize(
    ("options", "stages"),
    [
        ({"columns": ["absent"]}, []),
        ({"filter": "absent > 1"}, []),
        ({}, [Filter("a > 0"), Filter("absent > 1")]),
    ],
)
def test_column_that_no_table_has_stops_the_job_before_its_output_is_emptied(
    tmp_path: Path, options: dict[str, Any], stages: list[Any]
) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")
    source, sink = (
        TableSource(tmp_path / "a.parquet", **options),
        ParquetSink(tmp_path / "out", mode="overwrite"),
    )
    with pytest.raises(KeyError, match="absent"):
        Pipeline(source=source, stages=stages, sink=sink).run(progress=False)
    assert (tmp_path / "out" / "old").exists()


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_filter_on_a_key_that_no_document_has_stops_the_job_before_its_output_is_emptied(
    tmp_path: Path, kind: str
) -> None:
    sources = documents_of_two_files(tmp_path / "in")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")
    sink = ParquetSink(tmp_path / "out", mode="overwrite")
    with pytest.raises(MissingColumnError, match=r"`expression`: .*`wrods`.*`words`"):
        Pipeline(source=sources[kind], stages=[Filter("wrods > 1")], sink=sink).run(progress=False)
    assert (tmp_path / "out" / "old").exists()


@pytest.mark.parametrize("kind", ["tar", "parquet"])
@pytest.mark.parametrize(
    ("expression", "kept"), [("words > 1", ["a"]), ("words is null", ["b"]), ("words > 9", [])]
)
def test_key_that_a_file_lacks_is_null_for_a_filter(
    tmp_path: Path, out: Any, kind: str, expression: str, kept: list[str]
) -> None:
    outcome = curate(documents_of_two_files(tmp_path / "in")[kind], [Filter(expression)], to=out())
    assert outcome.column("sample_id", "metadata") == kept


def documents_of_two_files(directory: Path) -> dict[str, Any]:
    write_tar(directory / "tar" / "a.tar", {"a.json": {"texts": ["t"], "words": 5}})
    write_tar(directory / "tar" / "b.tar", {"b.json": {"texts": ["t"]}})
    words = pa.field("words", pa.int64())
    write_parquet(directory / "parquet" / "a.parquet", document("a", "t", words=5), [words])
    write_parquet(directory / "parquet" / "b.parquet", document("b", "t"))
    return {"tar": from_tar(directory / "tar"), "parquet": from_parquet(directory / "parquet")}


def test_filter_after_a_function_may_use_a_column_that_the_function_adds(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    added = Map(lambda table: table.append_column("b", pa.array([2])))
    source, sink = TableSource(tmp_path / "a.parquet"), ParquetSink(tmp_path / "out")
    Pipeline(source=source, stages=[added, Filter("b > 1")], sink=sink).run(progress=False)
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"a": 1, "b": 2}]


def test_losses_are_printed(run_tar: Any) -> None:
    members = [
        ("a.json", {"texts": ["1"], "images": ["gone.png"]}),
        ("d/a.json", {"texts": ["2"]}),
        ("b.json", '{"a": nan}'),
        ("c.json", json.dumps({"texts": 1})),
    ]
    text = str(run_tar(members, on_materialize_error="warn").report)
    for line in (
        "images without bytes: 1 (1 of them written)",
        "samples with the id of an earlier one in their split: 1",
        "quarantined: 2 samples, 0 shards",
    ):
        assert line in text.splitlines()
