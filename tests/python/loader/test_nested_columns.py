"""Fields inside structs as columns: values, filters and bytes beside pyarrow, polars and DuckDB."""

import io
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from PIL import Image
from shardmill.curate import ParquetSink, Pipeline, TableSource
from shardmill.data._dataset import opened_files

LANGUAGES = ["de", "en", "fr", "ja"]
MESSAGE = pa.struct([("role", pa.string()), ("turn", pa.int64())])
META = pa.struct(
    [
        ("lang", pa.string()),
        ("size", pa.int64()),
        ("source", pa.struct([("url", pa.string()), ("score", pa.float64())])),
        ("blob", pa.binary()),
    ]
)


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows with nulls at each level.

    They are nulls of the struct, of the struct inside, of their fields,
    and of lists and their items.
    """
    chance = random.Random(seed)

    def rare(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return [
        {
            "id": number,
            "meta": rare(
                {
                    "lang": rare(LANGUAGES[number * 4 // count]),
                    "size": rare(number),
                    "source": rare(
                        {"url": rare(f"https://example.com/{number}"), "score": rare(number / 7)}
                    ),
                    "blob": rare(bytes([number % 256]) * 20),
                }
            ),
            "messages": rare(
                [rare({"role": rare("user"), "turn": turn}) for turn in range(number % 4)]
            ),
        }
        for number in range(count)
    ]


def table(count: int = 4000, seed: int = 0) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("meta", META), ("messages", pa.list_(MESSAGE))])
    return pa.Table.from_pylist(rows(count, seed), schema)


def write(data: pa.Table, path: Path, kind: str) -> Path:
    path = path.with_suffix(f".{kind}")
    if kind == "parquet":
        pq.write_table(data, path, row_group_size=500, write_page_index=True, data_page_size=2000)
    elif kind == "orc":
        orc.write_table(data, path, stripe_size=20_000)
    else:
        path.write_text(
            "".join(json.dumps(row, default=lambda _: None) + "\n" for row in data.to_pylist())
        )
    return path


def leaf(data: pa.Table, path: str) -> list[Any]:
    """The oracle: pyarrow's own paths through structs."""
    first, *rest = path.split(".")
    return pc.struct_field(data[first], rest).to_pylist()


def loaded(path: Any, columns: list[str], **options: Any) -> dict[str, list[Any]]:
    batches = [
        pa.record_batch(batch)
        for batch in sm.Loader(path, batch_size=333, columns=columns, output="arrow", **options)
    ]
    return pa.Table.from_batches(batches).to_pydict() if batches else {name: [] for name in columns}


PATHS = ["meta.lang", "meta.size", "meta.source.url", "meta.source.score"]


@pytest.mark.parametrize("kind", ["parquet", "orc", "jsonl"])
def test_fields_of_structs_are_those_of_pyarrow(kind: str, tmp_path: Path) -> None:
    data = table()
    path = write(data, tmp_path / "rows", kind)
    names = [*PATHS, "id"] if kind == "jsonl" else ["meta.blob", *PATHS, "id"]
    found = loaded(path, names)
    assert list(found) == names
    for name in names:
        assert found[name] == (data[name].to_pylist() if name == "id" else leaf(data, name)), name


@pytest.mark.parametrize("kind", ["parquet", "orc", "jsonl"])
def test_field_of_structs_in_a_list_is_a_list(kind: str, tmp_path: Path) -> None:
    data = table()
    path = write(data, tmp_path / "rows", kind)
    expected = [
        None if messages is None else [message and message["role"] for message in messages]
        for messages in data["messages"].to_pylist()
    ]
    assert loaded(path, ["messages.role"])["messages.role"] == expected


@pytest.mark.parametrize("kind", ["parquet", "orc", "jsonl"])
def test_struct_and_its_fields_can_be_selected_together(kind: str, tmp_path: Path) -> None:
    data = table(600)
    path = write(data, tmp_path / "rows", kind)
    found = loaded(path, ["meta.source.url", "meta", "meta.source"])
    assert found["meta.source.url"] == leaf(data, "meta.source.url")
    assert found["meta.source"] == leaf(data, "meta.source")
    assert [meta and meta["size"] for meta in found["meta"]] == leaf(data, "meta.size")


FILTERS = [
    ("meta.lang = 'en'", sm.col("meta.lang") == "en"),
    ("meta.size > 3900", sm.col("meta.size") > 3900),
    ("meta.lang IS NULL", sm.col("meta.lang").is_null()),
    ("meta.source.score < 2 AND id >= 3", (sm.col("meta.source.score") < 2) & (sm.col("id") >= 3)),
    (
        "meta.source.url IS NOT NULL AND meta.lang = 'zz'",
        ~sm.col("meta.source.url").is_null() & (sm.col("meta.lang") == "zz"),
    ),
]


@pytest.mark.parametrize("writer", ["parquet", "orc", "jsonl", "polars", "duckdb", "no statistics"])
def test_filters_on_fields_keep_the_rows_that_duckdb_keeps(writer: str, tmp_path: Path) -> None:
    data = table()
    if writer == "polars":
        path = tmp_path / "rows.parquet"
        pl.from_arrow(data).write_parquet(path, row_group_size=500, statistics="full")
    elif writer == "duckdb":
        path = tmp_path / "rows.parquet"
        duckdb.sql("SELECT * FROM data").write_parquet(str(path), row_group_size=2048)
    elif writer == "no statistics":
        path = tmp_path / "rows.parquet"
        pq.write_table(data, path, row_group_size=500, write_statistics=False)
    else:
        path = write(data, tmp_path / "rows", writer)
    for text, expression in FILTERS:
        expected = duckdb.sql(
            f"SELECT id, meta.lang, meta.source.url FROM data WHERE {text} ORDER BY id"
        ).fetchall()
        found = loaded(path, ["id", "meta.lang", "meta.source.url"], filter=expression)
        assert list(zip(*found.values(), strict=True)) == expected, text


@pytest.mark.parametrize("writer", ["pyarrow", "orc", "polars", "duckdb"])
def test_nulls_of_a_struct_are_nulls_of_a_field_that_has_none_itself(
    writer: str, tmp_path: Path
) -> None:
    required = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    values = [{"a": 1}, None, {"a": 3}, {"a": 4}]
    data = pa.table({"s": pa.array(values, required), "t": pa.array(values)})
    path = tmp_path / "rows.parquet"
    if writer == "pyarrow":
        pq.write_table(data, path, row_group_size=2, write_page_index=True)
    elif writer == "orc":
        orc.write_table(data, path := tmp_path / "rows.orc")
    elif writer == "polars":
        pl.from_arrow(data).write_parquet(path, row_group_size=2, statistics="full")
    else:
        duckdb.sql("SELECT * FROM data").write_parquet(str(path))
    for name in ("s.a", "t.a"):
        assert len(sm.Dataset(path, filter=sm.col(name).is_null())) == 1, name
        assert loaded(path, [name], filter=~sm.col(name).is_null()) == {name: [1, 3, 4]}
        assert loaded(path, [name], filter=sm.col(name) < 4) == {name: [1, 3]}


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    written = io.BytesIO()
    Image.fromarray(pixels).resize((256, 256)).save(written, "JPEG", quality=90)
    return written.getvalue()


def test_path_of_an_image_set_is_read_without_its_images(tmp_path: Path) -> None:
    images = [{"bytes": jpeg(number), "path": f"train/{number:06}.jpg"} for number in range(400)]
    column = pa.array(images, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    path = tmp_path / "images.parquet"
    pq.write_table(pa.table({"image": column, "label": list(range(400))}), path, row_group_size=100)
    dataset = sm.Dataset(path)
    found = loaded(dataset, ["image.path"])
    assert found["image.path"] == [image["path"] for image in images]
    assert opened_files(dataset).native.bytes_read <= path.stat().st_size * 0.02
    assert loaded(dataset, ["image.bytes"])["image.bytes"] == [image["bytes"] for image in images]


def test_statistics_of_a_field_spare_row_groups(tmp_path: Path) -> None:
    data = table()
    path = write(data, tmp_path / "rows", "parquet")
    read = []
    for name in ("meta.size", "id"):
        dataset = sm.Dataset(path, columns=["meta.source.url"], filter=sm.col(name) > 3990)
        opened = opened_files(dataset).native.bytes_read
        assert len(dataset) == sum(
            1
            for value in (leaf(data, name) if "." in name else data[name].to_pylist())
            if value and value > 3990
        )
        read.append(opened_files(dataset).native.bytes_read - opened)
    chunks = [
        pq.ParquetFile(path).metadata.row_group(group).column(2).total_compressed_size
        for group in range(8)
    ]
    assert read[0] < 2 * max(chunks) < sum(chunks), "one row group of eight"


def test_json_path_keeps_bad_values_and_other_members_apart(tmp_path: Path) -> None:
    lines = [
        '{"s": {"a": 1, "b": [1, {"c": 2}]}, "x": 1}',
        '{"s": {"b": []}}',
        '{"s": null}',
        "{}",
        '{"s": {"a": "no"}}',
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    schema = pa.schema(
        [("s", pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])), ("x", pa.int64())]
    )
    lenient = sm.Dataset(path, schema=schema, errors=sm.ErrorPolicy(lines="null"))
    assert loaded(lenient, ["s.a"]) == {"s.a": [1, None, None, None, None]}
    with pytest.raises(ValueError, match=r"Line 5 .*s\.a"):
        loaded(sm.Dataset(path, schema=schema), ["s.a"])


def test_error_for_a_wide_struct_names_the_nearest_fields(tmp_path: Path) -> None:
    pq.write_table(
        pa.table(
            {"s": [{f"field_{number}": number for number in range(300)} | {"language": "en"}]}
        ),
        tmp_path / "a.parquet",
    )
    with pytest.raises(
        KeyError, match=r"`s` has no field `lnaguage`, it has `language`, .* and 281 more"
    ):
        sm.Dataset(tmp_path / "a.parquet", columns=["s.lnaguage"])


def test_head_takes_paths(tmp_path: Path) -> None:
    path = write(table(50), tmp_path / "rows", "parquet")
    options = [
        "--columns",
        "meta.lang,id",
        "--filter",
        "meta.size = 4 or meta.source.score > 6",
        "--json",
    ]
    found = subprocess.run(
        [sys.executable, "-m", "shardmill", "head", str(path), *options],
        capture_output=True,
        text=True,
        check=True,
    )
    data = table(50)
    keep = zip(
        data["id"].to_pylist(),
        leaf(data, "meta.lang"),
        leaf(data, "meta.size"),
        leaf(data, "meta.source.score"),
        strict=True,
    )
    expected = [
        {"meta.lang": lang, "id": id}
        for id, lang, size, score in keep
        if size == 4 or (score or 0) > 6
    ]
    assert [json.loads(line) for line in found.stdout.splitlines()] == expected[:10]


def test_path_into_a_format_without_structs_says_so(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n")
    with pytest.raises(KeyError, match="`b` is string and has no field `c`"):
        sm.Dataset(tmp_path / "rows.csv", columns=["b.c"])


def test_top_level_name_with_a_dot_wins(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [{"b": 1}], "a.b": [2]}), tmp_path / "a.parquet")
    assert loaded(tmp_path / "a.parquet", ["a.b"]) == {"a.b": [2]}
    pq.write_table(pa.table({"a": [{"b.c": 1, "d": 2}]}), tmp_path / "b.parquet")
    assert loaded(tmp_path / "b.parquet", ["a.b.c", "a.d"]) == {"a.b.c": [1], "a.d": [2]}


def test_field_is_null_in_files_that_lack_its_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "s": [{"a": 1, "b": "x"}]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [2]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"s": [{"a": 3, "b": "y"}], "id": [3]}), tmp_path / "c.parquet")
    assert loaded(tmp_path, ["s.b", "id"]) == {"s.b": ["x", None, "y"], "id": [1, 2, 3]}
    assert loaded(tmp_path, ["id"], filter=sm.col("s.a").is_null()) == {"id": [2]}
    assert loaded(tmp_path, ["id"], filter=sm.col("s.a") > 1) == {"id": [3]}


def test_sources_of_a_mixture_contribute_fields_by_path(tmp_path: Path) -> None:
    first, second = (
        write(table(200), tmp_path / "a", "parquet"),
        write(table(200, 1), tmp_path / "b", "orc"),
    )
    selected = sm.Mixture(
        {
            "a": sm.Dataset(first, columns=["meta.lang", "id"]),
            "b": sm.Dataset(second, columns=["meta.lang"]),
        }
    )
    assert selected.columns == ["meta.lang", "id"]
    whole = sm.Mixture(
        {"a": sm.Dataset(first, columns=["meta"]), "b": sm.Dataset(second, columns=["meta"])}
    )
    expected = sorted(map(str, [*leaf(table(200), "meta.lang"), *leaf(table(200, 1), "meta.lang")]))
    for mixture in (selected, whole):
        assert sorted(map(str, loaded(mixture, ["meta.lang"])["meta.lang"])) == expected


def test_loader_of_fields_resumes_and_the_columns_do_not_change_the_order(tmp_path: Path) -> None:
    data = table()
    path = write(data, tmp_path / "rows", "parquet")
    options: dict[str, Any] = {
        "batch_size": 100,
        "shuffle": sm.Shuffle(window_bytes=20_000),
        "seed": 3,
        "output": "dict",
    }
    loader = sm.Loader(path, columns=["meta.lang", "id"], **options)
    batches = iter(loader)
    for _ in range(7):
        next(batches)
    state = loader.state_dict()
    rest = [(batch["id"], batch["meta.lang"]) for batch in batches]
    resumed = sm.Loader(path, columns=["meta.lang", "id"], **options)
    resumed.load_state_dict(state)
    assert [(batch["id"], batch["meta.lang"]) for batch in resumed] == rest
    flat = sm.Loader(path, columns=["id"], **options)
    flat.load_state_dict(state)
    assert [batch["id"] for batch in flat] == [ids for ids, _ in rest]


def test_table_source_and_rows_take_paths(tmp_path: Path) -> None:
    data = table(500)
    path = write(data, tmp_path / "rows", "parquet")
    source = TableSource(path, columns=["meta.lang", "id"], filter=sm.col("meta.size") >= 100)
    Pipeline(source=source, stages=[], sink=ParquetSink(tmp_path / "out")).run()
    written = pq.read_table(tmp_path / "out")
    kept = [row for row in data.to_pylist() if row["meta"] and (row["meta"]["size"] or 0) >= 100]
    assert written.to_pylist() == [
        {"meta.lang": row["meta"]["lang"], "id": row["id"]} for row in kept
    ]
    dataset = sm.Dataset(path, columns=["meta.lang"])
    assert dataset[3] == {"meta.lang": leaf(data, "meta.lang")[3]}
    assert pa.schema(dataset.schema) == pa.schema([("meta.lang", pa.string())])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("meta.lnag", "`meta` has no field `lnag`, it has `lang`, `size`, `source`, `blob`"),
        ("meta.source.uri.x", "`meta.source` has no field `uri`"),
        ("meta.lang.x", "`meta.lang` is string and has no field `x`"),
        ("id.x", "`id` is int64 and has no field `x`"),
        ("data.lang", "No column `data.lang`; the data has `id`, `meta`, `messages`"),
        ("meta..lang", "a part of the path is empty"),
        (".meta", "a part of the path is empty"),
        ("meta.", "a part of the path is empty"),
        ("meta" + ".a" * 5000, "`meta` has no field `a`"),
    ],
)
def test_path_that_does_not_exist_names_the_part_that_is_missing(
    name: str, message: str, tmp_path: Path
) -> None:
    path = write(table(50), tmp_path / "rows", "parquet")
    with pytest.raises(KeyError) as selected:
        sm.Loader(path, columns=[name])
    with pytest.raises(KeyError) as filtered:
        sm.Dataset(path, filter=sm.col(name) == 1)
    assert message in str(selected.value) and message in str(filtered.value)


def test_category_in_a_struct_has_the_values_of_all_files(tmp_path: Path) -> None:
    values = [[f"{part}-{number}" for number in range(100)] for part in range(3)]
    for part, texts in enumerate(values):
        column = pa.array(texts).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string()))
        pq.write_table(
            pa.table({"s": pa.StructArray.from_arrays([column], ["c"])}),
            tmp_path / f"{part}.parquet",
        )
    assert loaded(tmp_path, ["s.c"]) == {"s.c": [*itertools.chain(*values)]}


def test_deep_path_is_read_at_any_depth_that_the_format_allows(tmp_path: Path) -> None:
    value: Any = 7
    for depth in range(40):
        value = {f"f{depth}": value}
    pq.write_table(pa.table({"x": [value, None]}), tmp_path / "deep.parquet")
    name = ".".join(["x", *(f"f{depth}" for depth in reversed(range(40)))])
    assert loaded(tmp_path / "deep.parquet", [name]) == {name: [7, None]}
