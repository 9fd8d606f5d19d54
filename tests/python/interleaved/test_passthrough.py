"""Columns that travel with a document (specification §1.4, §1.5)."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from shard_builders import curate, from_tar, image, write_tar
from shardmill.curate import SampleKeys

JSON_METADATA = {b"content_type": b"application/json"}


def columns_of(run_tar: Any, *samples: Any, **source: Any) -> Any:
    return run_tar(
        [(f"{number:03}.json", sample) for number, sample in enumerate(samples)], source=source
    )


def column(run_tar: Any, *values: Any) -> tuple[pa.Field, list[Any]]:
    """The column `c` for samples with these values; `...` leaves the key out."""
    outcome = columns_of(run_tar, *[{} if value is ... else {"c": value} for value in values])
    return outcome.schema.field("c"), outcome.column("c")


@pytest.mark.parametrize(
    ("values", "kind", "cells"),
    [
        ((1, 2), pa.int64(), [1, 2]),
        ((None, 2), pa.int64(), [None, 2]),
        ((..., True), pa.bool_(), [None, True]),
        ((1, 2.5), pa.float64(), [1.0, 2.5]),
        ((1 << 60, 0.5), pa.float64(), [float(1 << 60), 0.5]),
        ((1, float("inf")), pa.float64(), [1.0, float("inf")]),
        ((float("-inf"), ...), pa.float64(), [float("-inf"), None]),
        (("a", None, ...), pa.string(), ["a", None, None]),
        ((None, None), pa.string(), [None, None]),
    ],
)
def test_scalars_keep_their_type(run_tar: Any, values: Any, kind: Any, cells: Any) -> None:
    field, found = column(run_tar, *values)
    assert (field.type, field.metadata, field.nullable, found) == (kind, None, True, cells)


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ((7, "x"), ["7", '"x"']),
        ((7, ..., "x"), ["7", None, '"x"']),
        ((True, 1), ["true", "1"]),
        ((float("nan"), "x"), ["NaN", '"x"']),
        (([1, float("nan")], {"NaN": float("-inf")}), ["[1, NaN]", '{"NaN": -Infinity}']),
        (({"page": 3, "ü": "é"}, [1, None]), ['{"page": 3, "ü": "é"}', "[1, null]"]),
        (("text", {"a": 1}), ['"text"', '{"a": 1}']),
        (((1 << 53) + 1, 0.5), ["9007199254740993", "0.5"]),
        ((1 << 63, 1), ["9223372036854775808", "1"]),
        ((-(1 << 63) - 1,), ["-9223372036854775809"]),
    ],
)
def test_other_mixes_become_json_text_in_every_cell(run_tar: Any, values: Any, cells: Any) -> None:
    field, found = column(run_tar, *values)
    assert (field.type, field.metadata, found) == (pa.string(), JSON_METADATA, cells)


def test_number_beyond_the_largest_double_keeps_its_digits(run_tar: Any) -> None:
    outcome = run_tar({"a.json": '{"c": 1e400}', "b.json": '{"c": 1.5}'})
    assert [cell.lower().replace("+", "") for cell in outcome.column("c")] == ["1e400", "1.5"]


def test_key_of_the_500th_sample_is_kept_and_null_before(run_tar: Any) -> None:
    samples = [{"texts": ["t"]} for _ in range(499)] + [{"texts": ["t"], "late": "here"}]
    outcome = columns_of(run_tar, *samples)
    assert outcome.column("late", "metadata") == [None] * 499 + ["here"]


def test_columns_are_the_union_over_all_shards_of_a_task(tmp_path: Path, out: Any) -> None:
    (tmp_path / "in").mkdir()
    write_tar(tmp_path / "in/a.tar", {"a.json": {"c": 1}})
    write_tar(tmp_path / "in/b.tar", {"b.json": {"c": "x", "d": 2}})
    outcome = curate(from_tar(tmp_path / "in", files_per_partition=2), to=out())
    assert (outcome.column("c"), outcome.column("d")) == (["1", '"x"'], [None, 2])


def test_values_sit_on_the_metadata_row_only(run_tar: Any) -> None:
    outcome = run_tar(
        {"a.json": {"texts": ["t"], "images": [None, "x.png"], "c": 1}, "x.png": image("PNG")}
    )
    assert outcome.column("c") == [1, None, None]


def test_lists_of_the_sample_are_no_columns(run_tar: Any) -> None:
    outcome = columns_of(run_tar, {"texts": ["t"], "images": [], "aux": {"page": 3}})
    assert outcome.schema.names[8:] == ["aux", "rescued"]
    assert outcome.column("aux", "metadata") == ['{"page": 3}']


def test_reserved_keys_are_left_out_and_counted(run_tar: Any) -> None:
    outcome = columns_of(run_tar, {"sample_id": "x", "modality": 1, "c": 1}, {"modality": 2})
    assert outcome.column("sample_id") == ["000", "001"]
    dropped = outcome.report.to_dict()["keys_dropped"]
    assert sorted(dropped.values()) == [1, 2]
    assert any("modality" in reason for reason in dropped)


def test_requested_fields_alone_are_carried_and_missing_ones_are_null(run_tar: Any) -> None:
    samples = [{"p_hash": "h", "other": 1, "images": [], "texts": []}, {"rare": None}]
    outcome = columns_of(run_tar, *samples, fields=("p_hash", "rare"))
    assert outcome.schema.names[8:] == ["p_hash", "rare", "rescued"]
    assert (outcome.column("p_hash"), outcome.column("rare")) == (["h", None], [None, None])
    assert outcome.schema.field("rare").type == pa.string()
    assert outcome.report.warnings == {
        "field `p_hash` is missing in a sample": 1,
        "field `rare` is missing in a sample": 1,
    }


def test_no_fields_at_all_leave_the_reserved_columns(run_tar: Any) -> None:
    assert columns_of(run_tar, {"c": 1}, fields=()).schema.names[8:] == ["rescued"]


def test_fields_appear_also_without_any_sample(run_tar: Any) -> None:
    outcome = run_tar({}, source={"fields": ("p_hash",), "per_image_fields": ("meta",)})
    assert (outcome.rows, outcome.report.quarantined) == ([], [])
    assert outcome.schema.names[8:] == ["p_hash", "meta", "rescued"]


@pytest.mark.parametrize(
    "options",
    [
        {"fields": ("sample_id",)},
        {"fields": ("texts",)},
        {"fields": ("images", "c")},
        {"fields": ("key",), "keys": SampleKeys(sample_id_field="key")},
        {"fields": ("file",), "keys": SampleKeys(image_member_field="file")},
        {"fields": ("meta",), "per_image_fields": ("meta",)},
        {"fields": ("meta",), "per_text_fields": ("meta",)},
        {"per_image_fields": ("position",)},
        {"per_text_fields": ("texts",)},
        {"per_image_fields": ("images",)},
    ],
)
def test_reserved_and_excluded_fields_are_refused(run_tar: Any, options: Any) -> None:
    with pytest.raises(ValueError, match="`fields` names reserved keys"):
        run_tar({"a.json": {}}, source=options)


IMAGES = {"i.png": image("PNG"), "j.png": image("PNG")}


def test_per_image_value_goes_to_the_kth_image_not_to_the_index(run_tar: Any) -> None:
    sample = {
        "images": [None, "i.png", None, "j.png"],
        "texts": ["t"],
        "meta": [{"p": 1}, {"p": 2}],
    }
    outcome = run_tar({"a.json": sample} | IMAGES, source={"per_image_fields": ("meta",)})
    assert outcome.column("meta") == [None, None, '{"p": 1}', '{"p": 2}']
    assert outcome.schema.field("meta").metadata == JSON_METADATA


def test_per_text_value_goes_to_the_kth_text(run_tar: Any) -> None:
    sample = {"images": ["i.png"], "texts": [None, "a", "", "b"], "lang": ["en", "de", None]}
    outcome = run_tar({"a.json": sample} | IMAGES, source={"per_text_fields": ("lang",)})
    assert outcome.column("lang", "text") == ["en", "de", None]
    assert outcome.column("lang", "image") + outcome.column("lang", "metadata") == [None, None]


@pytest.mark.parametrize(
    ("values", "cells"), [([1, 2, 3], [1, 2]), ([1], [1, None]), ([], [None, None])]
)
def test_count_mismatch_warns_and_fills_with_null(run_tar: Any, values: Any, cells: Any) -> None:
    sample = {"images": ["i.png", "j.png"], "meta": values}
    outcome = run_tar({"a.json": sample} | IMAGES, source={"per_image_fields": ("meta",)})
    assert outcome.column("meta", "image") == cells
    assert any("another number of values" in warning for warning in outcome.report.warnings)


def test_absent_per_row_field_warns_and_a_later_sample_still_has_its_values(run_tar: Any) -> None:
    members = [
        ("a.json", {"images": ["i.png"]}),
        ("b.json", {"images": ["i.png"], "meta": [7]}),
        *IMAGES.items(),
    ]
    outcome = run_tar(members, source={"per_image_fields": ("meta",)})
    assert outcome.column("meta", "image") == [None, 7]
    assert any("`meta` is missing" in warning for warning in outcome.report.warnings)


@pytest.mark.parametrize("value", ["no list", {"a": 1}, 5])
def test_per_row_field_that_is_no_list_quarantines_its_sample(run_tar: Any, value: Any) -> None:
    members = [
        ("a.json", {"images": ["i.png"], "meta": value}),
        ("b.json", {"images": ["i.png"], "meta": [1]}),
        *IMAGES.items(),
    ]
    outcome = run_tar(members, source={"per_image_fields": ("meta",)})
    assert set(outcome.column("sample_id")) == {"b"}
    (item,) = outcome.report.quarantined
    assert (item["member"], item["is_shard"]) == ("a.json", False)
    assert "`meta` is not a list" in item["reason"]


def test_field_of_images_and_texts_has_a_value_for_each_in_reading_order(run_tar: Any) -> None:
    sample = {"texts": ["a", None, "b"], "images": [None, "i.png", "j.png"], "score": [1, 2, 3, 4]}
    outcome = run_tar(
        {"a.json": sample} | IMAGES,
        source={"per_image_fields": ("score",), "per_text_fields": ("score",)},
    )
    assert outcome.column("score") == [None, 1, 2, 3, 4]
