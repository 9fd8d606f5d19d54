"""Documents survive WebDataset → Parquet → WebDataset and back (acceptance 31, 32)."""

import json
import tempfile
from pathlib import Path
from typing import Any

from breadth import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shard_builders import curate, from_parquet, from_tar, write_parquet, write_tar
from shardmill.curate import SampleKeys

PER_ITEM = {"per_image_fields": ("meta",), "per_text_fields": ("lang",)}

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalar = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
value = st.recursive(
    scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
filled = value.filter(lambda found: found is not None)
content = st.one_of(st.none(), text, st.binary(min_size=1, max_size=40))
sample = st.fixed_dictionaries(
    {
        "id": text,
        "content": st.lists(content, max_size=6),
        "extras": st.dictionaries(st.sampled_from(["k", "ü", "deep.key"]), filled, max_size=3),
        "meta": st.lists(value, min_size=6, max_size=6),
        "lang": st.lists(text, min_size=6, max_size=6),
    }
)


def without_tail(values: list[Any]) -> list[Any]:
    while values and values[-1] is None:
        values = values[:-1]
    return values


def members_of(samples: list[Any]) -> tuple[list[tuple[str, Any]], list[Any]]:
    """The tar, and each document in a form that does not depend on names of members."""
    members: list[tuple[str, Any]] = []
    documents = []
    for number, found in enumerate(samples):
        content = without_tail(found["content"])
        images = [
            f"{number}-{at}.bin" if isinstance(body, bytes) else None
            for at, body in enumerate(content)
        ]
        texts = [body if isinstance(body, str) else None for body in content]
        members += [(name, body) for name, body in zip(images, content, strict=True) if name]
        lists = {}
        for name, rows in (("meta", images), ("lang", texts)):
            values = found[name][: sum(row is not None for row in rows)]
            if any(value is not None for value in values):
                lists[name] = values
        body = (
            {"sample_id": found["id"], "texts": texts, "images": images} | found["extras"] | lists
        )
        members.append((f"{number}.json", body))
        documents.append((found["id"], content, found["extras"] | lists))
    return members, documents


def documents_of(outcome: Any) -> list[Any]:
    """The same form, from what a WebDataset sink wrote."""
    bodies = dict(outcome.members)
    documents = []
    for found in outcome.samples:
        texts, images = found.pop("texts"), found.pop("images")
        assert len(texts) == len(images)
        content = [
            text if name is None else bodies[name] for text, name in zip(texts, images, strict=True)
        ]
        documents.append((found.pop("sample_id"), content, found))
    return documents


def exact(documents: list[Any]) -> Any:
    """1, 1.0 and True are equal in Python; their JSON is not."""
    return [
        (key, content, {name: json.dumps(value) for name, value in sorted(extras.items())})
        for key, content, extras in documents
    ]


def without_source(outcome: Any) -> list[Any]:
    return [
        {name: cell for name, cell in found.items() if name != "source_ref"}
        for found in outcome.rows
    ]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(sample, max_size=4), st.sampled_from([1, 1 << 25]))
def test_webdataset_to_parquet_to_webdataset_keeps_documents(
    samples: list[Any], memory_bytes: int
) -> None:
    members, documents = members_of(samples)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        written = {name for _, _, extras in documents for name in extras}
        declared = {
            option: tuple(name for name in names if name in written)
            for option, names in PER_ITEM.items()
        }
        declared |= {"keys": SampleKeys(sample_id_field="sample_id")}
        source = from_tar(write_tar(root / "in.tar", members), **declared)
        rows = curate(source, to=root / "rows", memory_bytes=memory_bytes)
        again = curate(
            from_parquet(root / "rows"),
            to=root / "again",
            sink="webdataset",
            memory_bytes=memory_bytes,
        )
        assert floats(documents_of(again)) == floats(documents)
        straight = curate(
            source, to=root / "straight", sink="webdataset", memory_bytes=memory_bytes
        )
        assert [body for _, body in straight.members] == [body for _, body in again.members]
        back = curate(from_tar(root / "again", **declared), to=root / "back")
        assert without_source(back) == without_source(rows)
        assert back.schema.equals(rows.schema, check_metadata=True)


def as_float(value: Any) -> Any:
    if isinstance(value, list):
        return [as_float(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return float(value) if float(value) == value else value


def floats(documents: list[Any]) -> Any:
    """An int beside floats of its column is stored as a double where that is exact.

    So 1 may come back as 1.0.
    """
    return exact(
        [
            (key, content, {name: as_float(value) for name, value in extras.items()})
            for key, content, extras in documents
        ]
    )


def test_nested_structure_stays_structure(run_tar: Any) -> None:
    outcome = run_tar({"a.json": {"nested": {"a": [1]}}}, sink="webdataset")
    assert outcome.samples[0]["nested"] == {"a": [1]}


def test_parquet_to_webdataset_to_parquet_keeps_documents(tmp_path: Path) -> None:
    import pyarrow as pa
    from shard_builders import document, image

    extras = [
        pa.field("score", pa.float64()),
        pa.field("lang", pa.string()),
        pa.field("meta", pa.string()),
    ]
    rows = [
        *document("a/b", "t", image(), None, "ü", image(), score=0.5),
        *document("c", image()),
        *document("a/b", "again"),
        *document("e", score=2.0),
    ]
    for found in rows:
        if found["modality"] == "text":
            found["lang"] = "de"
        if found["modality"] == "image":
            found["meta"] = f"{found['position']}"
    path = write_parquet(tmp_path / "in.parquet", rows, extras)
    straight = curate(from_parquet(path), to=tmp_path / "straight")
    curate(from_parquet(path), to=tmp_path / "tars", sink="webdataset")
    back = curate(
        from_tar(tmp_path / "tars", keys=SampleKeys(sample_id_field="sample_id"), **PER_ITEM),
        to=tmp_path / "back",
    )
    names = [name for name in straight.schema.names if name != "source_ref"]
    assert [[found[name] for name in names] for found in back.rows] == [
        [found[name] for name in names] for found in straight.rows
    ]
