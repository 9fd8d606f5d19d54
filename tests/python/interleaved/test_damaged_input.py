"""Input that is broken (specification §2.5).

The run ends, the rest is written, what is left out is counted.
"""

import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest
from shard_builders import (
    curate,
    document,
    from_parquet,
    from_tar,
    image,
    tiff,
    write_parquet,
    write_tar,
)
from shardmill import CurateError
from shardmill.curate import ParquetSink, Pipeline, SampleKeys, WebDatasetSink, WebDatasetSource
from shardmill.curate._spec import native_pipeline

PNG = image("PNG")


def sample(number: int) -> list[tuple[str, Any]]:
    return [
        (f"{number}.json", {"texts": ["t"], "images": [None, f"{number}.png"]}),
        (f"{number}.png", PNG),
    ]


def ids(outcome: Any) -> list[str]:
    return [key for key, position, _ in outcome.shape() if position == -1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "broken JSON"),
        ("", "broken JSON"),
        ("[1, 2]", "not an object"),
        ('"text"', "not an object"),
        ('{"a": nan}', "broken JSON"),
        ('{"a": [1, -Infinity}', "expected `,` or `]` at line 1 column 20"),
        (
            '{"a": "\\ud800"}',
            r"the escape \ud800 at byte 7 of the JSON is half of a surrogate pair",
        ),
        (
            '{"\\ud83d\\ude00": "\\udc80"}',
            r"the escape \udc80 at byte 18 of the JSON is half of a surrogate pair",
        ),
        ("[" * 100_000, "broken JSON"),
        ('{"a":' * 100_000, "broken JSON"),
        (b'{"a": "\xff"}', "broken JSON"),
        (b"\x00" * 600, "broken JSON"),
    ],
)
def test_broken_json_quarantines_its_sample_only(run_tar: Any, text: Any, reason: str) -> None:
    outcome = run_tar([*sample(1), ("bad.json", text), *sample(2)])
    assert ids(outcome) == ["1", "2"]
    (item,) = outcome.report.quarantined
    assert (item["member"], item["is_shard"]) == ("bad.json", False)
    assert item["path"].endswith("in.tar")
    assert item["offset"] % 512 == 0
    assert reason in item["reason"]
    metrics = outcome.report.to_dict()
    assert (
        metrics["is_success"],
        metrics["quarantined_samples"],
        metrics["quarantined_shards"],
    ) == (True, 1, 0)


def test_json_with_byte_order_mark_and_surrogate_pair_is_read(run_tar: Any) -> None:
    outcome = run_tar({"a.json": b"\xef\xbb\xbf" + rb'{"c": "\ud83d\ude00"}'})
    assert outcome.column("c") == ["😀"]


def test_repeated_json_keys_take_the_last_as_python_does(run_tar: Any) -> None:
    assert run_tar({"a.json": '{"c": 1, "c": 2}'}).column("c") == [2]


def test_key_of_the_parser_itself_does_no_harm(run_tar: Any) -> None:
    outcome = run_tar(
        [
            ("x.json", '{"$serde_json::private::Number": "1"}'),
            ("y.json", '{"a": {"$serde_json::private::Number": "z"}}'),
            *sample(1),
        ]
    )
    assert "1" in ids(outcome)


@pytest.mark.parametrize("cut", ["payload", "header", "json"])
def test_truncated_tar_keeps_the_whole_samples_before_the_damage(
    tmp_path: Path, out: Any, cut: str
) -> None:
    path = write_tar(tmp_path / "a.tar", [*sample(1), *sample(2), *sample(3)])
    with tarfile.open(path) as archive:
        member = archive.getmember("3.json" if cut == "json" else "3.png")
    end = {
        "payload": member.offset_data + 3,
        "header": member.offset + 100,
        "json": member.offset_data + 3,
    }[cut]
    path.write_bytes(path.read_bytes()[:end])
    outcome = curate(from_tar(path), to=out())
    assert ids(outcome) == ["1", "2"]
    metrics = outcome.report.to_dict()
    assert (metrics["quarantined_shards"], metrics["quarantined_samples"]) == (
        1,
        0 if cut == "json" else 1,
    )


def test_sample_in_quarantine_does_not_change_the_types_of_the_others(
    tmp_path: Path, out: Any
) -> None:
    samples = [
        (f"{key}.json", {"images": [f"{key}.png"], "score": score})
        for key, score in (("a", 3), ("b", "x"))
    ]
    path = write_tar(tmp_path / "in.tar", [("a.png", PNG), *samples, ("b.png", PNG)])
    path.write_bytes(path.read_bytes()[: path.read_bytes().rindex(PNG) + 20])
    outcome = curate(from_tar(path), to=out())
    assert (ids(outcome), outcome.column("score", "metadata")) == (["a"], [3])
    assert [item["member"] for item in outcome.report.quarantined] == ["b.json", "b.png"]


def test_truncated_gzip_keeps_the_whole_samples(tmp_path: Path, out: Any) -> None:
    import random

    noise = random.Random(1).randbytes(200_000)
    path = write_tar(
        tmp_path / "a.tar.gz",
        [*sample(1), ("2.json", {"images": ["2.png"]}), ("2.png", noise)],
        "w:gz",
    )
    path.write_bytes(path.read_bytes()[:100_000])
    outcome = curate(from_tar(path), to=out())
    assert ids(outcome) == ["1"]
    assert outcome.report.to_dict()["quarantined_shards"] == 1


@pytest.mark.parametrize(
    "content", [b"", b"no tar at all", b"x" * 5000, b"\x1f\x8b" + b"x" * 100, b"BZh9" + b"x" * 100]
)
def test_file_that_is_no_tar_is_a_quarantined_shard(
    tmp_path: Path, out: Any, content: bytes
) -> None:
    write_tar(tmp_path / "in" / "good.tar", sample(1))
    (tmp_path / "in" / "bad.tar").write_bytes(content)
    outcome = curate(from_tar(tmp_path / "in"), to=out())
    (item,) = outcome.report.quarantined
    assert item["is_shard"] is True
    assert item["path"].endswith("bad.tar")
    assert [row["sample_id"] for row in outcome.rows] == ["1"] * 3
    assert len(outcome.files) == 2, "an input without samples gives a file without rows"


@pytest.mark.parametrize("sink", [ParquetSink, WebDatasetSink])
def test_file_that_vanished_after_listing_is_a_quarantined_shard(tmp_path: Path, sink: Any) -> None:
    write_tar(tmp_path / "in" / "a.tar", sample(1))
    gone = write_tar(tmp_path / "in" / "b.tar", sample(2))
    pipeline = Pipeline(
        source=from_tar(tmp_path / "in", files_per_partition=2), sink=sink(tmp_path / "out")
    )
    native = native_pipeline(pipeline, may_replace=False)
    (split,), _ = native.splits(1)
    gone.unlink()
    report = native.run_split(split)
    assert [(Path(item["path"]).name, item["is_shard"]) for item in report["quarantined"]] == [
        ("b.tar", True)
    ]
    assert report["output"]["rows"] == 3


def test_gzip_of_several_streams_is_read_to_its_end(tmp_path: Path, out: Any) -> None:
    import gzip

    plain = write_tar(tmp_path / "plain.tar", [*sample(1), *sample(2)]).read_bytes()
    (tmp_path / "a.tgz").write_bytes(
        b"".join(gzip.compress(plain[at : at + 1000]) for at in range(0, len(plain), 1000))
    )
    assert ids(curate(from_tar(tmp_path / "a.tgz"), to=out())) == ["1", "2"]


def test_duplicate_ids_are_counted_and_never_merged(run_tar: Any) -> None:
    outcome = run_tar(
        [("a.json", {"texts": ["1"]}), ("a.json", {"texts": ["2"]}), ("d/a.json", {"texts": ["3"]})]
    )
    assert outcome.shape() == [("a", -1, "metadata"), ("a", 0, "text")] * 3
    assert outcome.column("text_content", "text") == ["1", "2", "3"]
    assert outcome.report.to_dict()["duplicate_sample_ids"] == 2


@pytest.mark.parametrize(
    "key", ["a/b:c.d", "../../etc/passwd", "ü日本 🦀", "%2E", "a+2", " ", "x" * 300, "."]
)
@pytest.mark.parametrize("sink", ["parquet", "webdataset"])
def test_odd_ids_survive(run_tar: Any, sink: str, key: str) -> None:
    outcome = run_tar(
        {"a.json": {"key": key, "texts": ["t"]}},
        source={"keys": SampleKeys(sample_id_field="key")},
        sink=sink,
    )
    assert (
        outcome.column("sample_id")[0] if sink == "parquet" else outcome.samples[0]["sample_id"]
    ) == key


def frames(outcome: Any) -> list[tuple[bool, str | None]]:
    return [
        (row["binary_content"] is not None, row["materialize_error"])
        for row in outcome.rows
        if row["modality"] == "image"
    ]


@pytest.mark.parametrize("eager", [True, False])
def test_frame_beyond_the_last_page_is_an_error_without_bytes(run_tar: Any, eager: bool) -> None:
    members = {"d.json": {"images": ["p0", "p1", "p2"]}, "d.tiff": tiff((9, 9), (8, 8))}
    outcome = run_tar(members, source={"materialize_on_read": eager}, on_materialize_error="warn")
    assert frames(outcome) == [
        (True, None),
        (True, None),
        (False, "failed to extract frame 2 from 'd.tiff'"),
    ]


def directory(entries: list[tuple[int, int, int, int]], next_offset: int) -> bytes:
    return (
        struct.pack("<H", len(entries))
        + b"".join(struct.pack("<HHII", *entry) for entry in entries)
        + struct.pack("<I", next_offset)
    )


def hostile_tiffs() -> dict[str, bytes]:
    """A page that is fine, then what the name says."""
    header, pixel = b"II*\0" + struct.pack("<I", 16), b"\x07" * 8
    fine = [
        (256, 3, 1, 2),
        (257, 3, 1, 4),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (277, 3, 1, 1),
        (278, 3, 1, 4),
        (279, 4, 1, 8),
    ]
    next_at = 16 + len(directory(fine, 0))

    def pages(second: list[tuple[int, int, int, int]], after: int = 0) -> bytes:
        return header + pixel + directory(fine, next_at) + directory(second, after)

    def but(**changes: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
        return [changes.get(f"t{entry[0]}", entry) for entry in fine]

    return {
        "loop": header + pixel + directory(fine, 16),
        "next_past_end": header + pixel + directory(fine, 1 << 31),
        "strip_past_end": pages(but(t273=(273, 4, 1, 0xFFFFFFF0))),
        "strip_length_past_end": pages(but(t279=(279, 4, 1, 0xFFFFFFFF))),
        "count_of_strips": pages(but(t273=(273, 4, 0xFFFFFFFF, 8), t279=(279, 4, 0xFFFFFFFF, 8))),
        "count_of_colours": pages([*fine, (320, 3, 0xFFFFFFFF, 8)]),
    }


@pytest.mark.parametrize("kind", hostile_tiffs())
@pytest.mark.parametrize("eager", [True, False])
def test_hostile_tiff_costs_its_own_page_only(run_tar: Any, kind: str, eager: bool) -> None:
    members = {"d.json": {"images": ["p0", "p1"]}, "d.tiff": hostile_tiffs()[kind]}
    outcome = run_tar(members, source={"materialize_on_read": eager}, on_materialize_error="warn")
    assert frames(outcome) == [(True, None), (False, "failed to extract frame 1 from 'd.tiff'")]


def test_image_of_180_megapixels_is_judged_by_its_header(run_tar: Any) -> None:
    from shardmill.curate import AspectRatioFilter

    png = bytearray(PNG)
    png[16:24] = struct.pack(">II", 20_000, 10_000)
    outcome = run_tar({"d.json": {"images": ["x.png"]}, "x.png": bytes(png)}, [AspectRatioFilter()])
    assert outcome.column("binary_content", "image") == [bytes(png)]


def test_damaged_parquet_keeps_the_whole_documents_before_the_damage(
    tmp_path: Path, out: Any
) -> None:
    import pyarrow.parquet as pq

    rows = [
        row
        for number in range(40)
        for row in document(f"d{number}", "text", image("PNG", color=(number, 0, 0)))
    ]
    path = write_parquet(
        tmp_path / "in" / "a.parquet",
        rows,
        row_group_size=30,
        compression="none",
        use_dictionary=False,
    )
    write_parquet(tmp_path / "in" / "b.parquet", document("fine", "text"))
    column = pq.read_metadata(path).row_group(2).column(5)
    content = bytearray(path.read_bytes())
    start = column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    outcome = curate(from_parquet(tmp_path / "in"), to=out())
    found = outcome.column("sample_id", "metadata")
    assert found[-1] == "fine"
    assert found[:-1] == [f"d{number}" for number in range(19)], (
        "the document before the damage may go on in the lost rows"
    )
    assert outcome.report.to_dict()["quarantined_shards"] == 1
    assert sum(outcome.report.rows_dropped.values()) == 3


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\xff" * 50 + b"PAR1", b"no parquet"])
def test_file_that_is_no_parquet_is_a_quarantined_shard(
    tmp_path: Path, out: Any, content: bytes
) -> None:
    write_parquet(tmp_path / "in" / "good.parquet", document("fine", "text"))
    (tmp_path / "in" / "bad.parquet").write_bytes(content)
    outcome = curate(from_parquet(tmp_path / "in"), to=out())
    assert outcome.column("sample_id") == ["fine"] * 2
    assert outcome.report.to_dict()["quarantined_shards"] == 1


def test_errors_beyond_the_budget_stop_the_run(run_tar: Any) -> None:
    bad = [(f"{number}.json", "{") for number in range(3)]
    assert len(run_tar(bad, max_errors=3).report.quarantined) == 3
    with pytest.raises(CurateError, match=r"3 quarantined items exceed the limit of 2.*\.tar"):
        run_tar(bad, max_errors=2)


def test_quarantine_is_written_beside_the_metrics(run_tar: Any, tmp_path: Path) -> None:
    outcome = run_tar([("a.json", "{"), ("ü.json", "[]")])
    outcome.report.write(tmp_path / "report")
    lines = (tmp_path / "report" / "quarantine.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["member"] for line in lines] == ["a.json", "ü.json"]
    assert set(json.loads(lines[0])) >= {"path", "member", "offset", "reason"}


def test_files_of_a_directory_are_recognized_or_named_in_one_warning(tmp_path: Path) -> None:
    directory = tmp_path / "in"
    directory.mkdir()
    for number, name in enumerate(["a.tar", "b", "c.tar.zst"]):
        write_tar(directory / "plain", sample(number))
        (directory / "plain").rename(directory / name)
    for name in ("d.jsonl", "e.parquet", "f.unknown"):
        (directory / name).write_bytes(b"{}\n")
    (directory / "g.png").write_bytes(PNG)
    pipeline = Pipeline(source=WebDatasetSource(directory), sink=ParquetSink(tmp_path / "out"))
    with pytest.warns(
        UserWarning, match=r"3 files are left out of the job.*d\.jsonl.*e\.parquet.*f\.unknown"
    ) as raised:
        report = pipeline.run(progress=False)
    assert len(raised) == 1
    assert report.counts("output")["samples"] == 3
