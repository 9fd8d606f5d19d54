"""What `shardmill view` shows: values, conditions, documents, figures, and sets that are odd."""

import datetime
import decimal
import io
import json
import os
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from shardmill.view._session import Opened, Source
from view_client import cells_of, rows_of, serving


def write(path, columns, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return path


@settings(deadline=None, max_examples=examples(40))
@given(
    files=st.lists(st.lists(st.none() | st.integers(0, 3), max_size=30), min_size=1, max_size=4),
    start=st.integers(0, 40),
    count=st.integers(1, 25),
    has_own_filter=st.booleans(),
    are_names_shared=st.booleans(),
)
def test_kept_and_dropped_rows_are_those_of_pyarrow(
    tmp_path_factory, files, start, count, has_own_filter, are_names_shared
):
    directory = tmp_path_factory.mktemp("divided")
    paths = []
    for number, values in enumerate(files):
        name = f"{number}/x.parquet" if are_names_shared else f"{number}.parquet"
        table = pa.table(
            {"x": pa.array(values, pa.int64()), "n": pa.array(range(len(values)), pa.int64())}
        )
        paths.append(str(write(directory / name, table, row_group_size=7)))
    table = pa.concat_tables([pq.read_table(path) for path in paths])
    if has_own_filter:
        table = table.filter(pc.field("n") != 2)
    expected = [bool(kept) for kept in pc.less(table["x"], 2).to_pylist()]
    rows = range(len(expected))
    kept = [row for row in rows if expected[row]]
    dropped = [row for row in rows if not expected[row]]

    opened = Opened(Source(paths, filter=sm.col("n") != 2 if has_own_filter else None))
    division = opened.division(sm.col("x") < 2)
    assert (division.kept_count, division.dropped_count) == (len(kept), len(dropped))
    assert division.kept(start, count) == kept[start : start + count]
    assert division.dropped(start, count) == dropped[start : start + count]
    shown = [row for row in range(start, start + count) if row < len(rows)]
    assert division.is_kept(start, len(shown)) == [expected[row] for row in shown]
    places = [
        (row, number)
        for values in files
        for number, row in enumerate(values)
        if not (has_own_filter and number == 2)
    ]
    for row in shown:
        assert opened.place_of(row)[1] == places[row][1]


def test_filter_shows_kept_rows_beside_dropped_ones_and_an_unknown_is_dropped(tmp_path):
    path = write(tmp_path / "x.parquet", {"label": pa.array([1, None, 2, 1, None, 3])})
    with serving(path) as client:
        page = client.page(filter="label = 1", show="both")
        assert (page["kept"], page["dropped"], page["rows"]) == (2, 4, 6)
        assert rows_of(page["samples"]) == [0, 3]
        assert rows_of(page["dropped_samples"]) == [1, 2, 4, 5]
        marked = client.page(filter="label = 1", show="all")["samples"]
        assert [sample["kept"] for sample in marked] == [True, False, False, True, False, False]
        assert rows_of(
            client.page(filter="label = 1", show="dropped", start=2, count=1)["samples"]
        ) == [4]
        nothing = client.page(filter="label > 9", show="both")
        assert (nothing["kept"], nothing["samples"]) == (0, [])


SEARCHED = {
    "text": (pa.array(["a", " b ", "a'b\"c"]), " b ", [1]),
    "number": (pa.array([1, 2**62, -3]), str(2**62), [1]),
    "float": (pa.array([0.5, 1.5, 0.5]), "0.5", [0, 2]),
    "flag": (pa.array([True, False, True]), "false", [1]),
    "day": (pa.array([datetime.date(2025, 1, day) for day in (1, 2, 3)]), "2025-01-02", [1]),
    "moment": (
        pa.array([datetime.datetime(2025, 1, 1, hour) for hour in (1, 2, 3)]),
        "2025-01-01T02:00",
        [1],
    ),
    "zoned": (
        pa.array(
            [datetime.datetime(2025, 1, 1, hour) for hour in (1, 2, 3)], pa.timestamp("us", "UTC")
        ),
        "2025-01-01 02:00",
        [1],
    ),
    "nanosecond": (
        pa.array([10**9 + 1, 10**9, 10**9 + 1_000]).view(pa.timestamp("ns")),
        "1970-01-01 00:00:01.000000001",
        [0],
    ),
    "zoned nanosecond": (
        pa.array([10**9, 10**9 + 1], pa.int64()).view(pa.timestamp("ns", "Asia/Tokyo")),
        "1970-01-01T09:00:01.000000001+09:00",
        [1],
    ),
    "time": (pa.array([10**9 + 1, 10**9 + 1_000]).view(pa.time64("ns")), "00:00:01.000001", [1]),
    "nanosecond of a day": (
        pa.array([10**9 + 1, 10**9]).view(pa.time64("ns")),
        "00:00:01.000000001",
        [0],
    ),
    "microsecond": (
        pa.array([10**6, 10**6 + 1]).view(pa.timestamp("us")),
        "1970-01-01 00:00:01.000000001",
        [],
    ),
    "decimal": (pa.array([decimal.Decimal("1.10"), decimal.Decimal("2.20"), None]), "1.1", [0]),
    "bytes": (pa.array([b"a", b"b", b"a"]), "a", [0, 2]),
    "category": (pa.array(["u", "v", "u"]).dictionary_encode(), "u", [0, 2]),
    'of `odd` " name': (pa.array(["k0", "k1", "k2"]), "k2", [2]),
}


@pytest.mark.parametrize("column", SEARCHED)
def test_search_finds_exact_values_of_each_type(tmp_path, column):
    values, value, expected = SEARCHED[column]
    with serving(write(tmp_path / "x.parquet", {column: values})) as client:
        page = client.page(column=column, value=value, show="kept")
        assert rows_of(page["samples"]) == expected


@pytest.mark.parametrize("value", ["1970-01-01 00:00:01.0000000011", "1970-01-01 25:00", "x"])
def test_time_that_is_not_valid_is_refused(tmp_path, value):
    path = write(tmp_path / "x.parquet", {"t": pa.array([1]).view(pa.timestamp("ns"))})
    with serving(path) as client:
        status, content = client.get("data/samples", column="t", value=value)
        assert (status, "is not a valid value of column 't'" in content["error"]) == (400, True)


def test_search_and_filter_go_together(tmp_path):
    path = write(tmp_path / "x.parquet", {"a": [1, 1, 2], "b": ["x", "y", "x"]})
    with serving(path) as client:
        assert rows_of(
            client.page(filter="a = 1", column="b", value="x", show="kept")["samples"]
        ) == [0]


def test_search_in_a_list_is_refused(tmp_path):
    with serving(write(tmp_path / "x.parquet", {"a": [[1], [2]]})) as client:
        status, content = client.get("data/samples", column="a", value="1")
        assert (status, "only plain values" in content["error"]) == (400, True)


def test_values_are_shown_whatever_their_type(tmp_path):
    moment = pa.array([1], pa.int64()).view(pa.timestamp("ns"))
    columns = {
        "large": [2**63 - 1],
        "nan": [float("nan")],
        "infinite": [float("-inf")],
        "flag": [True],
        "nanosecond": moment,
        "nanosecond_of_a_day": moment.view(pa.time64("ns")),
        "nanoseconds": moment.view(pa.duration("ns")),
        "far": pa.array([2**52], pa.int64()).view(pa.timestamp("s")),
        "nothing": pa.array([None], pa.string()),
        "bytes": [bytes(range(200))],
        "text_in_bytes": ["grüße\n".encode()],
        "struct": [{"a": 1, "b": [None, "x"]}],
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
        "empty": [[]],
        "fixed": pa.array([[1.5, 2.5]], pa.list_(pa.float32(), 2)),
        "category": pa.array(["v"]).dictionary_encode(),
    }
    with serving(write(tmp_path / "x.parquet", columns)) as client:
        cells = cells_of(client.page()["samples"][0])
    value = lambda text: {"kind": "value", "text": text}  # noqa: E731
    text = lambda text: {"kind": "text", "text": text}  # noqa: E731
    assert cells["large"] == value("9223372036854775807")
    assert (cells["nan"], cells["infinite"], cells["flag"]) == (
        value("nan"),
        value("-inf"),
        value("true"),
    )
    assert cells["nanosecond"] == value("1970-01-01 00:00:00.000000001")
    assert cells["nanosecond_of_a_day"] == value("00:00:00.000000001")
    assert cells["nanoseconds"] == value("0:00:00.000000001")
    assert cells["far"]["kind"] == "value"
    assert cells["nothing"] == {"kind": "null"}
    assert cells["bytes"] == {
        "kind": "bytes",
        "text": bytes(range(24)).hex(" "),
        "length": 200,
        "cut": True,
    }
    assert cells["text_in_bytes"] == text("grüße\n")
    inner = {"kind": "list", "items": [{"kind": "null"}, text("x")], "length": 2}
    assert cells["struct"] == {
        "kind": "struct",
        "fields": [["a", value("1")], ["b", inner]],
        "length": 2,
    }
    assert cells["map"]["items"][0]["fields"] == [["key", text("k")], ["value", value("1")]]
    assert cells["empty"] == {"kind": "list", "items": [], "length": 0}
    assert cells["fixed"]["items"] == [value("1.5"), value("2.5")]
    assert cells["category"] == text("v")


def test_every_kind_of_cell_is_on_the_page(tmp_path):
    tiff = io.BytesIO()
    pages = [Image.new("RGB", (4, 4), (page, 0, 0)) for page in range(14)]
    pages[0].save(tiff, format="TIFF", save_all=True, append_images=pages[1:])
    listed = {"texts": ["of the document", None, None], "images": [None, "x.tiff", "missing"]}
    columns = {
        "nothing": pa.array([None], pa.string()),
        "empty": [""],
        "number": [12.5],
        "long": ["x" * 5_000],
        "bytes": [bytes(range(200))],
        "broken": [b"\xff\xd8\xff"],
        "tiff": [tiff.getvalue()],
        "other": [tiff.getvalue()],
        "numbers": [[None, *range(100)]],
        "words": [[f"word {number}" for number in range(100)]],
        "wide": [{f"field {number}": number for number in range(60)}],
        "deep": [[[[[[[[[[1]]]]]]]]]],
        "json": [json.dumps(listed)],
    }
    with serving(write(tmp_path / "x.parquet", columns)) as client:
        for layout in ("cards", "table"):
            status, _, body = client.request(f"/{client.server.token}/view?layout={layout}")
            text = body.decode()
            assert status == 200
            for shown in [
                '<span class="null">null</span>', "empty text", "12.5", "show more of 4.9 KiB",
                "00 01 02", "200 bytes", "its header cannot be read", "101 items]",
                "… and 76 items more", "… and 12 fields more", "deeper values are not shown",
                "of the document", "missing image missing", "shown in the document",
            ]:  # fmt: skip
                assert shown in text, shown
    columns = {"tiff": columns["tiff"], "value": [None]}
    with serving(write(tmp_path / "y.parquet", columns)) as client:
        _, _, body = client.request(f"/{client.server.token}/view")
        assert [f"page {page}<" in body.decode() for page in (1, 12, 13)] == [True, True, False]
        assert "… 14 pages" in body.decode()
        for view in ("columns", "files", "nothing"):
            assert client.request(f"/{client.server.token}/view?view={view}")[0] == 200


def test_huge_values_are_cut_and_say_so(tmp_path):
    text = "é" * 3_000_000
    table = {
        "text": [text],
        "bytes": [b"\xff" * 5_000_000],
        "list": [list(range(200_000))],
        "inner": [[text, text]],
    }
    with serving(write(tmp_path / "x.parquet", table)) as client:
        status, _, body = client.request(f"/{client.server.token}/data/samples")
        assert status == 200 and len(body) < 40_000
        cells = cells_of(json.loads(body)["samples"][0])
        assert cells["text"] == {
            "kind": "text",
            "text": "é" * 2_000,
            "cut": True,
            "length": 6_000_000,
        }
        assert cells["bytes"]["length"] == 5_000_000
        assert (len(cells["list"]["items"]), cells["list"]["length"]) == (24, 200_000)
        more = client.get("data/text", row=0, path='["inner", 1]')[1]
        assert (more["text"], more["cut"]) == ("é" * 500_000, True)


def test_wide_rows_are_cut_more_so_that_a_page_stays_small(tmp_path):
    table = {f"column {number}": ["x" * 5_000] * 200 for number in range(60)}
    with serving(write(tmp_path / "x.parquet", table)) as client:
        status, _, body = client.request(f"/{client.server.token}/data/samples?count=200")
        assert status == 200 and len(body) < 8_000_000


HOSTILE = [
    "<b>",
    "__proto__",
    "constructor",
    "a.b",
    "`",
    '"',
    "'; drop",
    "\u202e",
    "",
    "image?row=1&path=[",
    "é\n",
]


def test_hostile_names_of_columns_are_names(tmp_path):
    png = io.BytesIO()
    Image.new("RGB", (3, 2)).save(png, format="PNG")
    with serving(
        write(tmp_path / "x.parquet", {name: [png.getvalue()] for name in HOSTILE})
    ) as client:
        assert [column["name"] for column in client.get("data/files")[1]["columns"]] == HOSTILE
        assert [name for name, _ in client.page()["samples"][0]["fields"]] == HOSTILE
        for name in HOSTILE:
            status, content = client.get("data/text", row=0, path=json.dumps([name]))
            assert status == 200, content
        assert [column["name"] for column in client.get("data/columns")[1]["columns"]] == HOSTILE


def test_images_inside_of_lists_and_structs_are_found(tmp_path):
    png = io.BytesIO()
    Image.new("RGB", (3, 2)).save(png, format="PNG")
    table = {"images": [[{"bytes": png.getvalue(), "path": "a.png"}]]}
    with serving(write(tmp_path / "x.parquet", table)) as client:
        cell = cells_of(client.page()["samples"][0])["images"]["items"][0]["fields"][0][1]
        assert (cell["kind"], cell["path"], cell["width"]) == ("image", ["images", 0, 0], 3)
        # Also when it is no longer kept from the page.
        client.server.session.opened().recent.clear()
        _, headers, body = client.request(
            f"/{client.server.token}/data/image?row=0&path=[%22images%22,0,0]"
        )
        assert (headers["Content-Type"], body) == ("image/png", png.getvalue())


@pytest.mark.filterwarnings("ignore:no data files")
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_set_without_rows_is_shown_as_empty(tmp_path, kind):
    if kind == "file":
        write(tmp_path / "x.parquet", {"a": pa.array([], pa.int64())})
    with serving(tmp_path) as client:
        for view in ("samples", "columns", "files"):
            assert client.request(f"/{client.server.token}/view?view={view}")[0] == 200
        assert client.get("data/files")[1]["rows"] == 0
        assert client.page()["samples"] == []
        assert client.get("data/columns")[1]["sampled"] == 0
        if kind == "file":
            assert client.page(filter="a = 1", show="both")["kept"] == 0


@pytest.mark.parametrize("change", ["rewritten", "removed", "added"])
def test_files_that_change_are_told_and_a_reload_shows_them(tmp_path, change):
    write(tmp_path / "a.parquet", {"a": [1, 2, 3]})
    write(tmp_path / "b.parquet", {"a": [4]})
    with serving(tmp_path) as client:
        assert client.page()["rows"] == 4
        if change == "removed":
            os.remove(tmp_path / "b.parquet")
        elif change == "added":
            write(tmp_path / "c.parquet", {"a": [5]})
        else:
            write(tmp_path / "b.parquet", {"a": [7, 8, 9]})
        for route in ["data/samples", "data/columns"]:
            status, content = client.get(route)
            # A new file beside them changes nothing about those that are shown.
            assert status == (200 if change == "added" else 409)
            assert status == 200 or "Reload" in content["error"]
        # What has to be opened again would have other rows.
        assert client.get("data/samples", filter="a > 1")[0] == 409
        status, _, body = client.request(f"/{client.server.token}/view")
        assert status == (200 if change == "added" else 409) and (
            change == "added" or b"Reload" in body
        )
        rows = {"rewritten": 6, "removed": 3, "added": 5}[change]
        assert client.get("data/files")[1]["rows"] == rows
        assert client.page()["rows"] == rows


def test_set_that_can_no_longer_be_opened_is_told(tmp_path):
    path = write(tmp_path / "a.parquet", {"a": [1]})
    with serving(path) as client:
        path.write_bytes(b"PAR1 and nothing more")
        status, content = client.get("data/files")
        assert status in (400, 500) and "a.parquet" in content["error"]


FORMATS = {
    "data.csv": "id,text\n1,one\n2,two\n",
    "data.jsonl": '{"id": 1, "text": "one"}\n{"id": 2, "text": "two"}\n',
}


@pytest.mark.parametrize("name", FORMATS)
def test_other_formats_are_shown_alike(tmp_path, name):
    (tmp_path / name).write_text(FORMATS[name])
    with serving(tmp_path / name) as client:
        samples = client.page(filter="id = 2", show="kept")["samples"]
        assert [cells_of(sample)["text"]["text"] for sample in samples] == ["two"]


def test_partition_columns_are_shown_and_filtered(tmp_path):
    for year in (2024, 2025):
        write(tmp_path / f"year={year}" / "x.parquet", {"a": [year, year + 1]})
    with serving(tmp_path, partitioning="hive") as client:
        page = client.page(filter="year = 2025", show="both")
        assert (rows_of(page["samples"]), rows_of(page["dropped_samples"])) == ([2, 3], [0, 1])


def test_filter_of_the_command_may_leave_out_partitions(tmp_path):
    for year in (2024, 2025):
        write(tmp_path / f"year={year}" / "x.parquet", {"a": [year, year + 1]})
    with serving(tmp_path, partitioning="hive", filter=sm.col("year") == 2025) as client:
        page = client.page(filter="a = 2026", show="both")
        assert (rows_of(page["samples"]), rows_of(page["dropped_samples"])) == ([1], [0])
        assert [(row["file"], row["file_row"]) for row in page["samples"]] == [
            ("year=2025/x.parquet", 1)
        ]


def test_figures_of_a_small_set_are_exact(tmp_path):
    table = {
        "number": pa.array([1, 2, 2, None, 10]),
        "float": [0.0, 1.0, float("nan"), float("inf"), 4.0],
        "label": ["cat", "dog", "cat", None, "cat"],
        "same": [7] * 5,
        "tokens": [[1], [1, 2], [], None, [1, 2, 3]],
        "bytes": [b"\xff", b"", None, b"\xff" * 9, b"\xff"],
        "day": [datetime.date(2025, 1, day) for day in range(1, 6)],
        "struct": [{"a": 1}] * 5,
    }
    with serving(write(tmp_path / "x.parquet", table)) as client:
        answer = client.get("data/columns")[1]
    assert (answer["rows"], answer["sampled"]) == (5, 5)
    columns = {column["name"]: column for column in answer["columns"]}
    number = columns["number"]
    assert (number["nulls"], number["low"], number["high"], number["median"]) == (1, "1", "10", "2")
    assert sum(number["histogram"]) == 4 and number["top"][0] == ["2", 2]
    assert (columns["float"]["not_finite"], columns["float"]["high"]) == (2, "4")
    assert columns["label"]["top"] == [["cat", 3], ["dog", 1]]
    assert columns["same"]["histogram"] == [5]
    assert (columns["tokens"]["lengths"]["low"], columns["tokens"]["lengths"]["high"]) == ("0", "3")
    assert (columns["bytes"]["nulls"], columns["bytes"]["lengths"]["high"]) == (1, "9")
    assert (columns["day"]["low"], columns["day"]["high"]) == ("2025-01-01", "2025-01-05")
    assert columns["struct"] == {"name": "struct", "seen": 5, "nulls": 0}


def test_figures_of_a_struct_are_followed_by_those_of_its_fields(tmp_path):
    inner = [
        {"lang": "en", "score": 1.0},
        None,
        {"lang": "de", "score": None},
        {"lang": "en", "score": 3.0},
    ]
    values = [
        {"id": 1, "inner": inner[0]},
        {"id": 2, "inner": inner[1]},
        None,
        {"id": 4, "inner": inner[3]},
    ]
    image = [{"bytes": b"x" * row, "path": f"{row}.jpg"} for row in range(4)]
    with serving(
        write(tmp_path / "x.parquet", {"meta": values, "image": image, "last": range(4)})
    ) as client:
        columns = client.get("data/columns")[1]["columns"]
        page = client.request(f"/{client.server.token}/view?view=columns")[2].decode()
    names = ["meta", "meta.id", "meta.inner", "meta.inner.lang", "meta.inner.score"]
    names += ["image", "image.bytes", "image.path", "last"]
    assert [column["name"] for column in columns] == names
    by_name = {column["name"]: column for column in columns}
    assert {name: by_name[name]["nulls"] for name in names[:5]} == dict(
        zip(names, [1, 1, 2, 2, 2], strict=False)
    )
    assert (by_name["meta.id"]["low"], by_name["meta.id"]["high"]) == ("1", "4")
    assert by_name["meta.inner.lang"]["top"] == [["en", 2]]
    assert by_name["meta.inner.score"]["type"] == "double"
    assert by_name["image.bytes"]["lengths"]["high"] == "3"
    assert by_name["image.path"]["distinct"] == 4
    assert by_name["last"]["high"] == "3"
    types = re.findall(r'<h3>([\w.]+)</h3>\s*<p class="type">([^<]+)</p>', page)
    assert ("meta.inner.score", "double") in types
    assert ("last", "int64") in types


def test_figures_of_a_large_set_are_of_a_sample_that_is_spread_and_said(tmp_path):
    path = write(tmp_path / "x.parquet", {"id": np.arange(200_000)}, row_group_size=10_000)
    with serving(path) as client:
        answer = client.get("data/columns")[1]
    assert (answer["rows"], answer["sampled"]) == (200_000, 10_000)
    (column,) = answer["columns"]
    assert (column["low"], column["high"]) == ("0", "199,999")
    assert min(column["histogram"]) > 0


DOCUMENT_COLUMNS = [
    "sample_id",
    "position",
    "modality",
    "content_type",
    "text_content",
    "binary_content",
    "url",
]


def documents_table(documents):
    png = io.BytesIO()
    Image.new("RGB", (3, 2)).save(png, format="PNG")
    rows = []
    for name, entries in documents:
        rows.append([name, -1, "metadata", "application/json", None, None, f"https://{name}"])
        for position, kind in enumerate(entries):
            if kind == "t":
                rows.append(
                    [name, position, "text", "text/plain", f"text {position} of {name}", None, None]
                )
            else:
                rows.append(
                    [
                        name,
                        position,
                        "image",
                        "image/png",
                        None,
                        png.getvalue() if kind == "i" else None,
                        None,
                    ]
                )
    columns = dict(zip(DOCUMENT_COLUMNS, map(list, zip(*rows))))
    return pa.table(
        columns | {"binary_content": pa.array(columns["binary_content"], pa.large_binary())}
    )


def test_documents_are_runs_of_rows_with_texts_and_images_in_order(tmp_path):
    table = documents_table([("a", "tit"), ("a", "t"), ("b", "im"), ("c", "t" * 300)])
    with serving(write(tmp_path / "x.parquet", table, row_group_size=3)) as client:
        assert client.get("data/files")[1]["interleaved"]
        page = client.get("data/documents", count=3)[1]
        assert [(found["id"], found["row"], found["rows"]) for found in page["documents"]] == [
            ("a", 0, 4),
            ("a", 4, 2),
            ("b", 6, 3),
        ]
        first = page["documents"][0]
        assert [entry["cell"]["kind"] for entry in first["entries"]] == ["text", "image", "text"]
        assert first["facts"][-1] == ["url", {"kind": "text", "text": "https://a"}]
        assert first["entries"][1]["cell"]["path"] == ["binary_content"]
        assert page["next"] == 9
        last = client.get("data/documents", start=page["next"], count=3)[1]
        assert ([found["rows"] for found in last["documents"]], last["next"]) == ([301], None)
        # From the middle of a document, its beginning.
        for row, previous in [(0, 0), (4, 0), (6, 0), (9, 4)]:
            assert client.get("data/documents", start=row, count=2)[1]["previous"] == previous
        for row, start in [(3, 0), (5, 4), (8, 6), (9, 9), (250, 9), (10**9, 9)]:
            assert client.get("data/documents", start=row, count=1)[1]["start"] == start
        _, headers, _ = client.request(
            f"/{client.server.token}/data/image?row=7&path=[%22binary_content%22]"
        )
        assert headers["Content-Type"] == "image/png"
        _, _, body = client.request(f"/{client.server.token}/view?count=2")
        assert (
            b"text 0 of a" in body
            and b"https://a" in body
            and b"rows 0" in body
            and b"text 0 of b" not in body
        )
        status, content = client.get("data/image", row=8, path='["binary_content"]')
        assert (status, content["error"]) == (404, "there are no bytes of this image")


def test_documents_of_other_rows_are_refused(tmp_path):
    with serving(write(tmp_path / "x.parquet", {"a": [1]})) as client:
        assert client.get("data/documents")[0] == 404


def test_sample_whose_json_lists_texts_and_images_is_a_document(tmp_path):
    pages = [Image.new("RGB", (20, 10 + page), (page * 90, 0, 0)) for page in range(3)]
    tiff, png = io.BytesIO(), io.BytesIO()
    pages[0].save(tiff, format="TIFF", save_all=True, append_images=pages[1:])
    pages[0].save(png, format="PNG")
    listed = {
        "texts": ["one", None, "two", None, None],
        "images": [None, "page_0_image_3", None, "page_1_image_9", "k.extra.PNG"],
    }
    table = {
        "__key__": ["k"],
        "json": [json.dumps(listed).encode()],
        "tiff": [tiff.getvalue()],
        "extra.png": [png.getvalue()],
    }
    with serving(write(tmp_path / "x.parquet", table)) as client:
        cells = cells_of(client.page()["samples"][0])
        shown = [
            entry["cell"].get("text") or (entry["cell"]["path"][0], entry["cell"].get("page"))
            for entry in cells["json"]["entries"]
        ]
        assert shown == ["one", ("tiff", 0), "two", ("tiff", 1), ("extra.png", None)]
        assert cells["tiff"]["kind"] == "note"
        _, headers, body = client.request(
            f"/{client.server.token}/data/image?row=0&path=[%22tiff%22]&page=1"
        )
        assert headers["Content-Type"] == "image/jpeg"
        assert Image.open(io.BytesIO(body)).size == (20, 11)


@pytest.mark.parametrize(
    "text",
    [b"{", b"[]", b'{"texts": [1]}', b'{"texts": ["a"], "images": []}', b"[" * 100_000, b"\xff"],
    ids=range(6),
)
def test_other_json_is_shown_as_it_is(tmp_path, text):
    with serving(write(tmp_path / "x.parquet", {"json": [text]})) as client:
        assert cells_of(client.page()["samples"][0])["json"]["kind"] in ("text", "bytes")
