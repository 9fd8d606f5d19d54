"""Documents that are rows of Parquet files: OBELICS, OmniCorpus, image columns, chats."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shard_builders import curate, from_parquet, image, write_parquet
from shardmill.curate import DocumentKeys, ParquetSink, Pipeline
from shardmill.errors import MissingColumnError

JPEG, PNG = image(), image("PNG", (7, 9))
OUTSIDE = "path outside of the input's directory and of allowed_roots"
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TURN = pa.struct([("role", pa.string()), ("content", pa.string())])


@pytest.fixture
def run(tmp_path: Path, out: Any) -> Any:
    """Curates a table whose rows are documents; images may be files beside it."""

    def run(columns: dict[str, Any] | pa.Table, **options: Any) -> Any:
        source = {name: options.pop(name) for name in ("keys", "fields") if name in options}
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        path = write_parquet(tmp_path / "in" / "web.parquet", table)
        return curate(from_parquet(path, **source), to=out(), **options)

    return run


def content(outcome: Any) -> list[tuple[Any, ...]]:
    """Position and content of each row that is not metadata."""
    return [
        (row["sample_id"], row["position"], row["text_content"] or row["binary_content"])
        for row in outcome.rows
        if row["modality"] != "metadata"
    ]


def obelics(*images: Any, kind: pa.DataType | None = None) -> dict[str, Any]:
    texts = [None if found is not None else f"text {place}" for place, found in enumerate(images)]
    about = [found and {"src": f"u{place}"} for place, found in enumerate(images)]
    return {
        "images": pa.array([images], pa.list_(kind or pa.string())),
        "metadata": [json.dumps(about)],
        "general_metadata": ['{"url": "https://example.org"}'],
        "texts": pa.array([texts], pa.list_(pa.string())),
    }


def test_obelics_of_urls_keeps_references_that_are_not_fetched(run: Any) -> None:
    url = "https://example.org/cat.jpg?size=9"
    outcome = run(obelics(None, url, None), materialize_on_write=False)
    assert outcome.shape() == [
        ("web-0", -1, "metadata"),
        ("web-0", 0, "text"),
        ("web-0", 1, "image"),
        ("web-0", 2, "text"),
    ]
    (found,) = [row for row in outcome.rows if row["modality"] == "image"]
    assert json.loads(found["source_ref"])["path"] == url
    assert (found["content_type"], found["binary_content"], found["materialize_error"]) == (
        "image/jpeg",
        None,
        None,
    )
    assert outcome.rows[0]["general_metadata"] == '{"url": "https://example.org"}'


def test_obelics_of_urls_is_not_fetched_from_hosts_that_nobody_named(run: Any) -> None:
    outcome = run(obelics("https://example.org/cat.jpg"), on_materialize_error="warn")
    assert outcome.column("materialize_error", "image") == [OUTSIDE]


def test_obelics_with_bytes_or_files_is_written_with_its_images(run: Any, tmp_path: Path) -> None:
    (tmp_path / "in" / "pictures").mkdir(parents=True)
    (tmp_path / "in" / "pictures" / "a.png").write_bytes(PNG)
    images = [None, {"bytes": JPEG, "path": "x.jpg"}, {"bytes": None, "path": "pictures/a.png"}]
    keys = DocumentKeys(per_image_fields=("metadata",))
    outcome = run(obelics(*images, kind=IMAGE), keys=keys)
    assert content(outcome) == [("web-0", 0, "text 0"), ("web-0", 1, JPEG), ("web-0", 2, PNG)]
    assert outcome.column("content_type", "image") == ["image/jpeg", "image/png"]
    assert outcome.column("metadata", "image") == ['{"src": "u1"}', '{"src": "u2"}']
    assert outcome.column("metadata", "text") == [None]


def test_both_lists_at_one_index_give_a_text_and_an_image_and_null_gives_a_gap(run: Any) -> None:
    columns = {
        "texts": pa.array([["a", None, ""], None], pa.list_(pa.string())),
        "images": pa.array([[JPEG, None], [PNG]], pa.list_(pa.binary())),
        "n": [3, 4],
    }
    outcome = run(columns)
    assert content(outcome) == [
        ("web-0", 0, "a"),
        ("web-0", 0, JPEG),
        ("web-0", 2, None),
        ("web-1", 0, PNG),
    ]
    assert outcome.column("text_content", "text") == ["a", ""]
    assert outcome.column("n") == [3, None, None, None, 4, None]


@pytest.mark.parametrize(
    ("reference", "is_read"),
    [("a.png", True), ("x/../a.png", True), ("../a.png", False), ("x/../../a.png", False)],
)
def test_reference_that_leaves_its_root_is_refused(
    run: Any, tmp_path: Path, reference: str, is_read: bool
) -> None:
    for directory in (tmp_path / "in", tmp_path / "in" / "root", tmp_path / "in" / "root" / "x"):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "a.png").write_bytes(PNG)
    # Even if the directory of the input has it.
    keys = DocumentKeys(image_root=tmp_path / "in" / "root")
    outcome = run(obelics(reference), keys=keys, on_materialize_error="warn")
    assert outcome.column("binary_content", "image") == [PNG if is_read else None]
    assert outcome.column("materialize_error", "image") == [None if is_read else OUTSIDE]


def test_root_of_images_may_be_outside_of_the_input(run: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.png").write_bytes(PNG)
    keys = DocumentKeys(image_root=tmp_path / "elsewhere")
    assert run(obelics("a.png"), keys=keys).column("binary_content", "image") == [PNG]
    (tmp_path / "secret").write_bytes(JPEG)
    (tmp_path / "elsewhere" / "link").symlink_to(tmp_path / "secret")
    outcome = run(obelics("link"), keys=keys, on_materialize_error="warn")
    assert outcome.column("materialize_error", "image") == [OUTSIDE]


@pytest.mark.parametrize("kind", [IMAGE, pa.binary(), pa.list_(IMAGE), pa.large_binary()])
def test_image_column_beside_a_text_is_a_pair(run: Any, kind: pa.DataType) -> None:
    values: Any = JPEG
    if kind != pa.binary() and kind != pa.large_binary():
        values = {"bytes": JPEG, "path": "a.jpg"}
    if pa.types.is_list(kind):
        values = [values, {"bytes": PNG, "path": None}]
    outcome = run(
        {"photo": pa.array([values, None], kind), "alt": ["a cat", "nothing"], "score": [0.5, 1.5]}
    )
    images = [JPEG, PNG] if pa.types.is_list(kind) else [JPEG]
    first = [("web-0", place, found) for place, found in enumerate([*images, "a cat"])]
    assert content(outcome) == [*first, ("web-1", 0, "nothing")]
    assert outcome.column("score", "metadata") == [0.5, 1.5]


def test_parts_name_columns_in_reading_order_and_others_keep_their_types(run: Any) -> None:
    columns = {
        "title": ["t"],
        "photo": pa.array([JPEG], pa.binary()),
        "alt": ["a"],
        "mask": pa.array([PNG], pa.binary()),
        "when": pa.array([5], pa.timestamp("ms")),
        "key": ["k"],
    }
    keys = DocumentKeys(parts=("title", "photo", "alt"), sample_id_field="key")
    outcome = run(columns, keys=keys)
    assert content(outcome) == [("k", 0, "t"), ("k", 1, JPEG), ("k", 2, "a")]
    assert outcome.schema.field("when").type == pa.timestamp("ms")
    assert outcome.column("mask", "metadata") == [PNG]


@pytest.mark.parametrize(
    "columns",
    [
        {"photo": pa.array([JPEG], pa.binary()), "title": ["a"], "alt": ["b"]},
        {"image": pa.array([JPEG], pa.binary()), "text": ["a"], "caption": ["b"]},
        {"a": pa.array([JPEG], pa.binary()), "b": pa.array([PNG], pa.binary()), "alt": ["b"]},
        {"text": ["a"], "url": ["b"]},
    ],
)
def test_layout_with_two_readings_is_an_error_that_names_the_option(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    path = write_parquet(tmp_path / "web.parquet", pa.table(columns))
    pipeline = Pipeline(source=from_parquet(path), sink=ParquetSink(tmp_path / "out"))
    with pytest.raises(MissingColumnError, match=r"web\.parquet` have no known layout") as caught:
        pipeline.run(progress=False)
    assert all(f"`{name}`" in str(caught.value) for name in columns)
    assert "DocumentKeys(parts=" in str(caught.value)
    assert not list((tmp_path / "out").glob("*.parquet"))


@pytest.mark.parametrize(
    "keys",
    [
        DocumentKeys(per_image_fields=("absent",)),
        DocumentKeys(parts=("texts", "absent")),
        DocumentKeys(sample_id_field="absent"),
    ],
)
def test_key_that_no_file_has_stops_the_job(run: Any, keys: DocumentKeys) -> None:
    with pytest.raises(MissingColumnError, match="`keys`: no file has the column `absent`"):
        run(obelics(None), keys=keys)


def chat(*turns: tuple[str, str], images: list[bytes] | None = None) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in turns]
    return {
        "messages": pa.array([messages], pa.list_(TURN)),
        "images": pa.array([images], pa.list_(IMAGE if images is None else pa.binary())),
    }


def test_chat_has_a_row_for_each_text_and_image_with_its_turn(run: Any) -> None:
    turns = [("system", ""), ("user", "Is <image> or<image>a cat?"), ("assistant", "The second.")]
    outcome = run(chat(*turns, images=[JPEG, PNG]))
    assert content(outcome) == [
        ("web-0", 0, None),
        ("web-0", 1, "Is "),
        ("web-0", 2, JPEG),
        ("web-0", 3, " or"),
        ("web-0", 4, PNG),
        ("web-0", 5, "a cat?"),
        ("web-0", 6, "The second."),
    ]
    assert outcome.column("role")[1:] == ["system", *["user"] * 5, "assistant"]
    assert outcome.column("turn")[1:] == [0, 1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize("images", [[], [JPEG], [JPEG, PNG, JPEG]])
def test_chat_with_another_number_of_images_than_markers_is_quarantined(
    run: Any, images: list[bytes]
) -> None:
    outcome = run(chat(("user", "<image><image>"), images=images))
    (item,) = outcome.report.quarantined
    named = "1 image" if len(images) == 1 else f"{len(images)} images"
    assert item["reason"] == f"row 0: its texts have 2 places for images, and it has {named}"
    assert outcome.rows == []


def test_pair_with_markers_has_its_images_in_their_places(run: Any) -> None:
    columns = {
        "text": ["a<image>b<image>", "a<image>", "plain"],
        "images": pa.array([[JPEG, PNG], [JPEG, PNG], [PNG]], pa.list_(pa.binary())),
    }
    outcome = run(columns)
    assert content(outcome) == [
        ("web-0", 0, "a"),
        ("web-0", 1, JPEG),
        ("web-0", 2, "b"),
        ("web-0", 3, PNG),
        ("web-2", 0, PNG),
        ("web-2", 1, "plain"),
    ]
    (item,) = outcome.report.quarantined
    assert item["reason"] == "row 1: its texts have 1 place for images, and it has 2 images"


def test_files_of_several_layouts_are_one_job(tmp_path: Path, out: Any) -> None:
    write_parquet(tmp_path / "in" / "a.parquet", pa.table(obelics(None)))
    write_parquet(tmp_path / "in" / "b.parquet", pa.table({**chat(("user", "hi")), "n": [1]}))
    outcome = curate(from_parquet(tmp_path / "in"), to=out())
    assert len({str(pq.read_schema(file)) for file in outcome.files}) == 1
    assert outcome.column("role", "text") == [None, "user"]
    assert outcome.column("n", "metadata") == [None, 1]


def test_columns_with_reserved_names_are_counted(run: Any) -> None:
    outcome = run({**obelics(None), "source_ref": ["x"], "position": [9]})
    assert outcome.report.keys_dropped == {
        "column `position` has the name of a reserved one": 1,
        "column `source_ref` has the name of a reserved one": 1,
    }


def test_documents_survive_a_tar_and_small_batches(tmp_path: Path, run: Any, out: Any) -> None:
    count = 40
    columns = {
        "texts": [["a", None, f"b{number}"] for number in range(count)],
        "images": pa.array(
            [[None, image(color=(number, 9, 9))] for number in range(count)], pa.list_(pa.binary())
        ),
    }
    plain = run(columns)
    small = run(columns, memory_bytes=4000)
    assert small.rows == plain.rows
    tar = run(columns, sink="webdataset")
    (sample, *_) = tar.samples
    assert (sample["sample_id"], sample["texts"]) == ("web-0", ["a", None, "b0"])
    assert len([name for name, _ in tar.members if name.endswith(".jpg")]) == count
