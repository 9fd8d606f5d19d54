"""`sm.Writer` for JSONL, WebDataset and MDS, and values that come row by row.

They arrive as they were, or are refused.
"""

import gzip
import io
import json
import math
import os
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest
import shardmill as sm
import zstandard
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "flag": st.none() | st.booleans(),
            "number": st.none() | st.integers(-(2**63), 2**63 - 1),
            "real": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "text": st.none() | TEXT,
            "list": st.none() | st.lists(st.integers(-1000, 1000), max_size=4),
            "object": st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.none() | TEXT}),
        }
    ),
    min_size=1,
    max_size=30,
)
SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("number", pa.int64()),
        ("real", pa.float64()),
        ("text", pa.string()),
        ("list", pa.list_(pa.int64())),
        ("object", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def lines(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def members(path: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        return [(member.name, archive.extractfile(member).read()) for member in archive]


@settings(max_examples=examples(40), deadline=None)
@given(rows=ROWS, threads=st.sampled_from([0, 2]))
def test_rows_of_jsonl_come_back_through_every_reader(tmp_path_factory, rows, threads) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    with sm.Writer(path, schema=SCHEMA, threads=threads) as writer:
        for row in rows:
            writer.write(row)
    assert lines(path) == rows
    assert list(sm.Dataset(path, schema=SCHEMA)) == rows
    options = pyarrow.json.ParseOptions(explicit_schema=SCHEMA, newlines_in_values=False)
    assert pyarrow.json.read_json(path, parse_options=options).to_pylist() == rows


@settings(max_examples=examples(40), deadline=None)
@given(rows=ROWS, cut=st.integers(0, 30))
def test_rows_and_batches_give_the_same_parquet(tmp_path_factory, rows, cut) -> None:
    directory = tmp_path_factory.mktemp("parquet")
    with sm.Writer(directory / "a.parquet", schema=SCHEMA) as writer:
        for row in rows[:cut]:
            writer.write(row)
        writer.write_batch(pa.Table.from_pylist(rows[cut:], schema=SCHEMA))
    table = pq.read_table(directory / "a.parquet")
    assert table.schema == SCHEMA
    assert table.to_pylist() == rows


@pytest.mark.parametrize("format", ["parquet", "jsonl", "webdataset", "mds"])
@pytest.mark.parametrize("threads", [1, 2])
def test_batches_of_another_order_are_written_by_name(
    tmp_path: Path, format: str, threads: int
) -> None:
    with sm.Writer(tmp_path / "out", format=format, threads=threads) as writer:
        writer.write_batch(pa.table({"txt": ["a"], "cls": [1]}))
        writer.write_batch(pa.table({"cls": [2], "txt": ["b"]}))
        writer.write_batch({"cls": [3], "txt": ["c"]})
    assert [(row["txt"], row["cls"]) for row in sm.Dataset(tmp_path / "out")] == [
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]


@pytest.mark.parametrize("format", ["jsonl", "webdataset"])
@pytest.mark.parametrize(
    "other", [{"txt": ["b"]}, {"txt": ["b"], "id": [1]}, {"txt": ["b"], "cls": [1], "id": [1]}]
)
def test_batches_of_other_columns_are_refused(tmp_path: Path, format: str, other: dict) -> None:
    with (
        pytest.raises(
            sm.FormatError, match="(?s)Rows have other columns than the rows of .* before.*hint: "
        ),
        sm.Writer(tmp_path / "out", format=format) as writer,
    ):
        writer.write_batch(pa.table({"txt": ["a"], "cls": [1]}))
        writer.write_batch(pa.table(other))


@pytest.mark.parametrize("threads", [1, 2])
def test_mds_batch_with_a_further_column_is_refused_if_the_first_rows_set_the_columns(
    tmp_path: Path, threads: int
) -> None:
    with (
        pytest.raises(
            sm.FormatError, match="(?s)Rows have other columns than the rows of .* before.*hint: "
        ),
        sm.Writer(tmp_path / "out", format="mds", threads=threads) as writer,
    ):
        writer.write_batch(pa.table({"a": [1]}))
        writer.write_batch(pa.table({"a": [2], "b": [3]}))
    for number, columns in enumerate((["a"], {"a": "int"})):
        with sm.Writer(
            tmp_path / str(number), format="mds", columns=columns, threads=threads
        ) as writer:
            writer.write_batch(pa.table({"a": [1]}))
            writer.write_batch(pa.table({"a": [2], "b": [3]}))
        assert list(sm.Dataset(tmp_path / str(number))) == [{"a": 1}, {"a": 2}]


def test_compressed_jsonl_is_one_stream_and_reproducible(tmp_path: Path) -> None:
    rows = [{"x": number, "y": "text " * (number % 50)} for number in range(20_000)]
    for name in ("a.jsonl.gz", "b.jsonl.gz", "a.jsonl.zst"):
        with sm.Writer(tmp_path / name) as writer:
            writer.write_rows(rows)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    text = gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes())
    assert [json.loads(line) for line in text.splitlines()] == rows
    assert (
        zstandard.ZstdDecompressor()
        .stream_reader(io.BytesIO((tmp_path / "a.jsonl.zst").read_bytes()))
        .read()
        == text
    )
    with sm.Writer(tmp_path / "out", format="jsonl", compression="zstd:9") as writer:
        writer.write_rows(rows)
    assert names(tmp_path / "out") == ["part-00000.jsonl.zst"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_number_that_json_lacks_names_row_and_column(tmp_path: Path, value: float) -> None:
    with (
        pytest.raises(
            ValueError,
            match=r"Row 3 has a number that is not finite(.|\n)*in column `x`(.|\n)*hint: ",
        ),
        sm.Writer(tmp_path / "a.jsonl") as writer,
    ):
        writer.write_rows({"x": x} for x in (1.0, 2.0, 3.0, value))
    assert names(tmp_path) == []


def test_binaries_are_refused_by_jsonl_with_a_hint(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"Column `x` is binary(.|\n)*hint: .*base64"),
        sm.Writer(tmp_path / "a.jsonl") as w,
    ):
        w.write({"x": b"bytes"})
    assert names(tmp_path) == []


def test_types_of_arrow_have_a_spelling_in_jsonl_that_our_reader_knows(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("zoned", pa.timestamp("ms", "UTC")),
            ("money", pa.decimal128(9, 2)),
            ("single", pa.float32()),
            ("big", pa.uint64()),
            ("word", pa.dictionary(pa.int8(), pa.string())),
        ]
    )
    moment = datetime(2024, 2, 29, 12, 30, 1, 250_000)
    rows = pa.table(
        {
            "day": [moment.date(), None],
            "at": [moment, None],
            "zoned": [moment.replace(tzinfo=UTC), None],
            "money": pa.array(["12.50", None]).cast(pa.decimal128(9, 2)),
            "single": pa.array([0.1, None], pa.float32()),
            "big": pa.array([2**64 - 1, None], pa.uint64()),
            "word": pa.array(["a", None])
            .dictionary_encode()
            .cast(pa.dictionary(pa.int8(), pa.string())),
        },
        schema=schema,
    )
    with sm.Writer(tmp_path / "a.jsonl") as writer:
        writer.write_batch(rows)
    plain = schema.set(6, pa.field("word", pa.string()))
    assert list(sm.Dataset(tmp_path / "a.jsonl", schema=plain)) == rows.to_pylist()


def test_samples_have_sorted_members_with_the_values_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with sm.Writer(path, modified=1_700_000_000) as writer:
        writer.write(
            {"txt": "füße", "cls": 7, "jpg": b"\xff\xd8", "json": {"b": [1, None], "a": "é"}}
        )
        writer.write({"txt": None, "cls": -1, "jpg": b"", "json": [1]})
    assert members(path) == [
        ("000000000.cls", b"7"),
        ("000000000.jpg", b"\xff\xd8"),
        ("000000000.json", b'{"b": [1, null], "a": "\\u00e9"}'),
        ("000000000.txt", "füße".encode()),
        ("000000001.cls", b"-1"),
        ("000000001.jpg", b""),
        ("000000001.json", b"[1]"),
    ]
    with tarfile.open(path) as archive:
        member = archive.getmembers()[0]
    assert (member.mode, member.uname, member.gname, member.mtime) == (
        0o444,
        "bigdata",
        "bigdata",
        1_700_000_000,
    )
    assert member.pax_headers == {}


def test_keys_name_samples_and_long_names_are_kept(tmp_path: Path) -> None:
    keys = ["a", "dir.v1/b", "long/" + "k" * 200]
    with sm.Writer(tmp_path / "a.tar") as writer:
        writer.write_batch({"__key__": keys, "txt": ["1", "2", "3"]})
    assert members(tmp_path / "a.tar") == [
        (f"{key}.txt", str(number).encode()) for number, key in enumerate(keys, 1)
    ]


@pytest.mark.parametrize("threads", [0, 3])
def test_bytes_of_archives_do_not_depend_on_threads_and_time_when_it_is_fixed(
    tmp_path: Path, threads: int
) -> None:
    table = pa.table(
        {"txt": [f"text {number}" * (number % 90) for number in range(5_000)], "cls": range(5_000)}
    )
    out = tmp_path / str(threads)
    with sm.Writer(
        out, format="webdataset", shard_bytes="1MB", modified=5, threads=threads
    ) as writer:
        writer.write_batch(table)
    with sm.Writer(
        tmp_path / "one", format="webdataset", shard_bytes="1MB", modified=5, threads=1
    ) as one:
        for start in range(0, 5_000, 700):
            one.write_batch(table[start : start + 700])
    assert len(writer.files) > 3
    assert [Path(path).read_bytes() for path in writer.files] == [
        Path(path).read_bytes() for path in one.files
    ]
    assert all(Path(path).stat().st_size <= 1_000_000 for path in writer.files)


@pytest.mark.parametrize("limit", [10_240, 20_480, 30_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_archive_with_its_end_has_the_limit_as_its_greatest_size(
    tmp_path: Path, limit: int, threads: int
) -> None:
    with sm.Writer(
        tmp_path / "out", format="webdataset", shard_bytes=limit, threads=threads
    ) as writer:
        writer.write_rows({"txt": "x"} for _ in range(100))
    counts = []
    for path in writer.files:
        assert Path(path).stat().st_size <= limit
        with tarfile.open(path) as archive:
            counts.append(len(archive.getnames()))
    # A sample is a header and a block. The last two blocks of an archive are zeros, and its size is
    # a multiple of 10,240.
    expected = (limit // 10_240 * 10_240 - 1024) // 1024
    assert counts == [expected] * (100 // expected) + [100 % expected]


@pytest.mark.parametrize("name", ["X.TAR.GZ", "x.Tgz", "X.JSONL.GZ", "x.jsonl.ZST", "X.TAR.ZST"])
def test_extension_in_capitals_implies_its_compression(tmp_path: Path, name: str) -> None:
    with sm.Writer(tmp_path / name) as writer:
        writer.write({"txt": "x"})
    magic = b"\x28\xb5\x2f\xfd" if name.lower().endswith("zst") else b"\x1f\x8b"
    assert (tmp_path / name).read_bytes().startswith(magic)


@pytest.mark.parametrize("suffix", ["tar.gz", "tgz", "tar.zst"])
def test_compressed_archives_are_read_by_tarfile(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.{suffix}"
    with sm.Writer(path) as writer:
        writer.write_rows({"txt": f"text {number}"} for number in range(2_000))
    data = path.read_bytes()
    plain = (
        gzip.decompress(data)
        if suffix != "tar.zst"
        else zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
    )
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        assert len(archive.getnames()) == 2_000


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"__key__": "a.b", "txt": "x"}], r"Row 0 has the key \"a\.b\", which has a dot"),
        ([{"__key__": None, "txt": "x"}], 'Row 0 has the key "", which is null'),
        ([{"__key__": "a/", "txt": "x"}], "no name after its last slash"),
        ([{"__key__": "__meta__/a", "txt": "x"}], "is one that readers skip"),
        ([{"__key__": "__a", "b__": "x"}], "is one that readers skip"),
        ([{"__key__": "../a", "txt": "x"}], "leads out of the directory"),
        ([{"__key__": "a/../../b", "txt": "x"}], "leads out of the directory"),
        (
            [{"__key__": "a", "txt": "x"}, {"__key__": "a", "txt": "y"}],
            'Row 1 has the key "a", which is that of the preceding row',
        ),
        ([{"txt": "x"}, {"txt": None}], "Row 1 has no values"),
        ([{"TXT": "x"}], "Column `TXT` cannot be the extension(.|\n)*hint: "),
        ([{"_x": "x"}], "names that begin with an underscore"),
        ([{"a/b": "x"}], "it has a slash"),
        (
            [{"score": 0.5}],
            "Column `score` is double, but a member of a tar holds bytes(.|\n)*hint: .*json",
        ),
    ],
)
def test_samples_that_readers_would_see_otherwise_are_refused(
    tmp_path: Path, rows: list, message: str
) -> None:
    with pytest.raises(ValueError, match=message), sm.Writer(tmp_path / "a.tar") as writer:
        writer.write_rows(rows)
    assert names(tmp_path) == []


def test_key_in_underscores_is_read_back(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "a.tar") as writer:
        writer.write({"__key__": "__a__", "txt": "x"})
    assert list(sm.Dataset(tmp_path / "a.tar")) == [{"__key__": "__a__", "txt": "x"}]


def test_equal_keys_in_consecutive_batches_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(
            ValueError, match='Row 1 has the key "a", which is that of the preceding row'
        ),
        sm.Writer(tmp_path / "a.tar") as w,
    ):
        w.write_batch({"__key__": ["a"], "txt": ["1"]})
        w.write_batch({"__key__": ["a"], "txt": ["2"]})


#: Of the format's description: the file, its digests and the index, byte for byte.
MDS_COLUMNS = {"text": "str", "id": "int", "tok": "ndarray:uint16", "emb": "ndarray:float32:2"}
MDS_ROWS = [
    {
        "text": "hé",
        "id": 7,
        "tok": np.array([1, 2, 300], np.uint16),
        "emb": np.array([0.5, -1], np.float32),
    },
    {"text": "", "id": -1, "tok": np.array([[9]], np.uint16), "emb": np.array([2, 3], np.float32)},
]
MDS_ENTRY = (
    '{"column_encodings": ["ndarray:float32:2", "int", "str", "ndarray:uint16"], '
    '"column_names": ["emb", "id", "text", "tok"], '
    '"column_sizes": [8, 8, null, null], '
    '"compression": null, "format": "mds", "hashes": ["sha1", "xxh3_64"], '
    '"raw_data": {"basename": "shard.00000.mds", "bytes": 344, '
    '"hashes": {"sha1": "499827f61a32fb7702c8b09c45bc7618a22c04c0", '
    '"xxh3_64": "95349382529236ca"}}, '
    '"samples": 2, "size_limit": 67108864, "version": 2, "zip_data": null}'
)


@pytest.mark.parametrize("threads", [0, 2])
def test_golden_rows_make_the_golden_shard_and_index(tmp_path: Path, threads: int) -> None:
    with sm.Writer(
        tmp_path, format="mds", columns=MDS_COLUMNS, hashes=("xxh3_64", "sha1"), threads=threads
    ) as writer:
        writer.write_rows(MDS_ROWS)
    assert names(tmp_path) == ["index.json", "shard.00000.mds"]
    assert (tmp_path / "index.json").read_text() == f'{{"shards": [{MDS_ENTRY}], "version": 2}}'


@pytest.mark.parametrize(
    ("lengths", "limit", "shards"),
    [
        ([5000, 10], "1kb", [(0, 172), (1, 5180), (1, 190)]),
        ([10, 5000, 10], "1kb", [(1, 190), (1, 5180), (1, 190)]),
        ([100] * 7, 494, [(2, 387), (2, 387), (2, 387), (1, 279)]),
        ([100] * 7, 495, [(3, 495), (3, 495), (1, 279)]),
        ([100] * 3, 1, [(0, 169), (1, 277), (1, 277), (1, 277)]),
        ([50] * 3, 300, [(2, 287), (1, 229)]),
    ],
)
def test_mds_shards_end_where_those_of_mosaicml_do(
    tmp_path: Path, lengths: list, limit, shards: list
) -> None:
    with sm.Writer(tmp_path, format="mds", columns={"b": "bytes"}, shard_bytes=limit) as writer:
        writer.write_rows({"b": bytes(length)} for length in lengths)
    index = json.loads((tmp_path / "index.json").read_text())
    assert [(shard["samples"], shard["raw_data"]["bytes"]) for shard in index["shards"]] == shards
    assert [Path(path).stat().st_size for path in writer.files] == [size for _, size in shards]


def test_mds_without_rows_is_an_index_without_shards(tmp_path: Path) -> None:
    with sm.Writer(tmp_path / "out", format="mds", columns={"b": "bytes"}):
        pass
    assert (tmp_path / "out" / "index.json").read_text() == '{"shards": [], "version": 2}'
    assert names(tmp_path / "out") == ["index.json"]


def test_encodings_of_mds_follow_from_the_first_row(tmp_path: Path) -> None:
    with sm.Writer(tmp_path, format="mds") as writer:
        writer.write(
            {
                "a": 1,
                "b": "x",
                "c": 0.5,
                "d": {"k": 1},
                "e": np.zeros((2, 3), np.int16),
                "f": b"x",
                "g": [1, 2],
            }
        )
        writer.write(
            {
                "a": 2,
                "b": "y",
                "c": 1.5,
                "d": {"l": 2},
                "e": np.zeros((1, 1), np.int16),
                "f": b"",
                "g": ["z"],
            }
        )
    shard = json.loads((tmp_path / "index.json").read_text())["shards"][0]
    encodings = dict(zip(shard["column_names"], shard["column_encodings"], strict=True))
    assert encodings == {
        "a": "int",
        "b": "str",
        "c": "float64",
        "d": "json",
        "e": "ndarray:int16",
        "f": "bytes",
        "g": "json",
    }


@pytest.mark.parametrize(
    ("columns", "row", "error", "message"),
    [
        ({"x": "int"}, {"x": "a"}, ValueError, "row 1 has the value 'a' in column 'x'"),
        ({"x": "int"}, {"x": 2**63}, ValueError, f"row 1 has the value {2**63} in column 'x'"),
        ({"x": "uint8"}, {"x": 256}, ValueError, "row 1 has the value 256 in column 'x'"),
        ({"x": "int"}, {"y": 1}, KeyError, "row 1 has no column 'x'"),
        ({"x": "int"}, {"x": None}, ValueError, "Column `x` is null in row `1`"),
        (
            {"x": "ndarray:int8"},
            {"x": np.zeros(2, np.int16)},
            ValueError,
            "row 1 has the value .* in column 'x'.*an array of int16",
        ),
        ({"x": "ndarray:int8:2"}, {"x": np.zeros(3, np.int8)}, ValueError, "an array of the shape"),
        (
            {"x": "json"},
            {"x": {1, 2}},
            ValueError,
            "row 1 has the value {1, 2} in column 'x'.*not JSON serializable",
        ),
    ],
)
def test_value_that_does_not_fit_names_row_column_and_value(
    tmp_path: Path, columns, row, error, message: str
) -> None:
    fitting = {
        "int": 1,
        "uint8": 1,
        "ndarray:int8": np.zeros(1, np.int8),
        "ndarray:int8:2": np.zeros(2, np.int8),
        "json": 1,
    }
    with (
        pytest.raises(error, match=message),
        sm.Writer(tmp_path, format="mds", columns=columns) as writer,
    ):
        writer.write({"x": fitting[columns["x"]]})
        writer.write(row)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"x": "int9"}}, "int9"),
        ({"columns": {"x": "pkl"}}, "pickles"),
        ({"columns": {"x": 7}}, "is not a string"),
        ({"hashes": ["sha9"]}, "sha9"),
        ({"compression": "lzma"}, "lzma"),
        ({"shard_bytes": 2**32}, "below 4 GiB"),
        ({"index": "chinidataset"}, "index must be None"),
        ({"modified": 1}, "modified is only for WebDataset"),
    ],
)
def test_options_of_mds_that_mean_nothing_are_refused(
    tmp_path: Path, options: dict, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sm.Writer(tmp_path / "out", format="mds", **options)


def test_types_by_name_are_those_of_parquet_columns(tmp_path: Path) -> None:
    columns = {
        "a": "str",
        "b": "int32",
        "c": "uint32[]",
        "d": "jpeg",
        "e": "ndarray:float32:2,2",
        "f": "bool",
        "g": "json",
        "h": "float16",
    }
    row = {
        "a": "x",
        "b": 1,
        "c": np.array([1, 2], np.uint32),
        "d": b"jpg",
        "e": [[1, 2], [3, 4]],
        "f": True,
        "g": {"k": 1},
        "h": np.float16(0.5),
    }
    with sm.Writer(tmp_path / "a.parquet", columns=columns) as writer:
        writer.write(row)
        writer.write_batch({name: [value] for name, value in row.items()})
    table = pq.read_table(tmp_path / "a.parquet")
    assert [str(field.type) for field in table.schema] == [
        "string",
        "int32",
        "list<item: uint32>",
        "binary",
        "fixed_size_list<item: fixed_size_list<item: float>[2]>[2]",
        "bool",
        "string",
        "halffloat",
    ]
    assert table.to_pylist()[0] == table.to_pylist()[1]
    assert table.to_pylist()[0]["g"] == '{"k": 1}'


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([1, True, 2], pa.int64()),
        ([1, np.int32(5), 3], pa.int64()),
        ([0.5, 1, np.float32(0.25)], pa.float64()),
        (["a", np.str_("b"), None, "c"], pa.string()),
        ([b"a", bytearray(b"b"), memoryview(b"c")], pa.binary()),
        ([2**63, 1, None], pa.uint64()),
        ([0.1, 1e30, 1e-300], pa.float32()),
        ([1, 1.0], pa.int8()),
        (["a", "\ud800"], pa.string()),
        ([True, False, None, 1], pa.bool_()),
    ],
)
def test_values_one_by_one_become_what_pyarrow_makes_of_them(
    tmp_path: Path, values: list, data_type: pa.DataType
) -> None:
    try:
        expected = pa.array(values, data_type)
    except Exception:
        expected = None
    writer = sm.Writer(tmp_path / "a.parquet", schema=pa.schema([("x", data_type)]))
    if expected is None:
        with pytest.raises(ValueError, match=r"row \d has the value .* in column 'x'"), writer:
            writer.write_rows({"x": value} for value in values)
    else:
        with writer:
            writer.write_rows({"x": value} for value in values)
        assert pq.read_table(tmp_path / "a.parquet").column("x").combine_chunks().equals(expected)
