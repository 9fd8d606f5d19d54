"""Bounds of what `shardmill view` shows.

Numbers that floats hardly tell apart, documents longer than a page, tars that were joined.
"""

import io
import tarfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from shardmill.storage import configure
from shardmill.view._session import Opened, Source
from view_client import serving


def test_figures_of_numbers_that_floats_hardly_tell_apart(tmp_path):
    last = 2**63 - 1
    table = {
        "sum": [0.3, 0.1 + 0.2, 0.3],
        "id": [2**60, 2**60 + 256, 2**60 + 512],
        "nanosecond": pa.array([10**18 + 1, 10**18 + 2, last]).view(pa.timestamp("ns")),
        "near": pa.array([10**18 + 1, 10**18 + 2, 10**18 + 3]).view(pa.timestamp("ns")),
    }
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    with serving(tmp_path) as client:
        status, answer = client.get("data/columns")
        assert status == 200, answer
        assert client.request(f"/{client.server.token}/view?view=columns")[0] == 200
    columns = {column["name"]: column for column in answer["columns"]}
    assert [sum(columns[name]["histogram"]) for name in table] == [3] * 4
    bounds = {
        name: [columns[name][bound] for bound in ("low", "median", "high")]
        for name in ("nanosecond", "near")
    }
    first = "2001-09-09 01:46:40.00000000"
    assert bounds["nanosecond"] == [f"{first}1", f"{first}2", "2262-04-11 23:47:16.854775807"]
    assert bounds["near"] == [f"{first}1", f"{first}2", f"{first}3"]


def test_pages_of_documents_that_are_longer_than_a_page_lead_on_and_back(tmp_path):
    texts = 5_000
    columns = {
        "sample_id": [name for name in "ab" for _ in range(1 + texts)],
        "position": [*range(-1, texts)] * 2,
        "modality": ["metadata", *["text"] * texts] * 2,
        "text_content": [None, *map(str, range(texts))] * 2,
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with serving(tmp_path) as client:

        def page(row):
            return client.get("data/documents", start=row, count=1)[1]

        pages = [page(0)]
        while pages[-1]["next"] is not None and len(pages) < 9:
            pages.append(page(pages[-1]["next"]))
        assert [found["start"] for found in pages] == [0, 4_096, 5_001, 9_097]
        back = [pages[-1]]
        while back[-1]["start"] and len(back) < 9:
            back.append(page(back[-1]["previous"]))
        assert [found["start"] for found in back] == [9_097, 5_001, 0]


def tar(texts, first):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for number, text in enumerate(texts, first):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return target.getvalue()


def test_condition_on_joined_tars_of_the_same_name_keeps_the_rows_that_it_selects(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.tar").write_bytes(tar(["no", "yes"], 0) + tar(["yes", "no"], 2))
    opened = Opened(Source([str(tmp_path / name) for name in "ab"], ignore_zeros=True))
    division = opened.division(sm.col("txt") == "yes")
    assert (division.kept(0, 9), division.dropped(0, 9)) == ([1, 2, 5, 6], [0, 3, 4, 7])


def test_partitions_of_the_same_name_below_two_roots_are_told_apart_under_a_filter(tmp_path):
    paths = [
        tmp_path / root / f"lang={lang}" / "x.parquet" for root in "ab" for lang in ("de", "en")
    ]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"x": [2 * number, 2 * number + 1]}), path)
    source = Source(
        [str(tmp_path / root) for root in "ab"], filter=sm.col("lang") == "en", partitioning="hive"
    )
    opened = Opened(source)
    assert [opened.place_of(row) for row in range(4)] == [
        ("lang=en/x.parquet", row) for row in (0, 1, 0, 1)
    ]
    division = opened.division(sm.col("x") > 2)
    assert (division.kept(0, 9), division.dropped(0, 9)) == ([1, 2, 3], [0])


def test_condition_on_a_column_that_a_file_of_the_same_name_lacks_keeps_the_rows_that_have_it(
    tmp_path,
):
    for name, columns in {"a": {"x": [1, 2], "y": [1, 2]}, "b": {"x": [3, 4]}}.items():
        (tmp_path / name).mkdir()
        pq.write_table(pa.table(columns), tmp_path / name / "x.parquet")
    division = Opened(Source([str(tmp_path / name) for name in "ab"])).division(sm.col("y") > 1)
    assert (division.kept(0, 9), division.dropped(0, 9)) == ([1], [0, 2, 3])


def test_size_of_files_that_are_not_local_is_that_of_the_data_set(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    content = (tmp_path / "x.parquet").read_bytes()
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/{tmp_path.name}/x.parquet", content)
    path = f"memory://{tmp_path.name}/x.parquet"
    configure(path, memory)
    with serving(path) as client:
        assert client.get("data/files")[1]["bytes"] == len(content)
