"""Data sets of MosaicML Streaming: what its writer makes is read row for row, and damage is named.

Golden directories that its 0.13.0 wrote lie beside the Rust tests, so most of this runs without it.
The rest runs it in a process with the interpreter of its own environment, which `SHARDMILL_PEERS`
names the directory of.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from decimal import Decimal
from pathlib import Path

import mds_peer
import pytest
import shardmill as sm

np = pytest.importorskip("numpy")

HERE = Path(__file__).parent
GOLDEN = HERE.parents[1] / "crates/formats/src/mds/tests/golden"
PEER = Path(os.environ.get("SHARDMILL_PEERS", "")) / "streaming" / "bin" / "python"
needs_peer = pytest.mark.skipif(
    "SHARDMILL_PEERS" not in os.environ or not PEER.exists(),
    reason="SHARDMILL_PEERS names no directory with streaming/bin/python, "
    "an environment with mosaicml-streaming 0.13",
)
FAMILIES = ["br", "bz2", "gz", "snappy", "zstd"]
BLOBS = {"jpeg", "jpegs", "list_jpeg", "list_png", "list_pil", "pil", "png"}
EDGES = [0, 1, -1, 127, -128]


def peer(*arguments):
    command = [PEER, HERE / "mds_peer.py", *arguments]
    return subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, text=True
    ).stdout


def expected(number):
    """The row that `mds_peer.py` writes, without its images."""
    edge = EDGES[number % len(EDGES)]
    float16, float32 = (
        0.5 * number,
        float("nan") if number == 3 else float(np.float32(0.1 * number)),
    )
    return {
        "a_bytes": bytes(range(number % 40)),
        "a_str": "hé\u0000\U0001f600" * (number % 3) + str(number),
        "an_int": edge * 2**56,
        "float16": float16,
        "float32": float32,
        "float64": float("inf") if number == 2 else 0.1 * number,
        "int16": edge * 256,
        "int32": edge * 2**24,
        "int64": edge * 2**56,
        "int8": edge,
        "json": {
            "b": [1, 2.5, None, 1e22, 0.1],
            "a": 'é\n"\U0001f600',
            "n": number,
            "deep": {"x": [{"y": number % 2 == 0}]},
        },
        "nd_any": (np.arange(1 + number % 300, dtype=np.float64).reshape(-1, 1) * 0.25).tolist(),
        "nd_fixed": (np.arange(6, dtype=np.float32).reshape(2, 3) + number).tolist(),
        "nd_typed": (np.arange(3 * (1 + number % 2)) - number).tolist(),
        "str_decimal": Decimal("1.50") * number,
        "str_float": [0.1, 1e22, -2.5e-7, 1e16, 100.0][number % 5],
        "str_int": 10 ** (number % 60),
        "uint16": number % 65536,
        "uint32": 2**32 - 1 - number,
        "uint64": 2**64 - 1 - number,
        "uint8": number % 256,
    }


def check(row, number):
    known = {name: value for name, value in row.items() if name not in BLOBS}
    assert repr(known) == repr(expected(number))
    blob = row["pil"]
    assert struct.unpack("<3I", blob[:12]) == (2, 1, 3) and blob[12:] == b"RGB" + bytes(
        [number % 256, 1, 2] * 2
    )
    assert row["list_pil"] == [blob] * (number % 3 + 1)
    assert len(row["list_png"]) == number % 2 + 1 and set(row["list_png"]) == {row["png"]}
    assert len(row["jpegs"]) == number % 3 + 1 and set(row["jpegs"]) == {row["jpeg"]}
    assert all(value.startswith(b"\xff\xd8") for value in [row["jpeg"], *row["list_jpeg"]])


@pytest.mark.parametrize("name", ["plain", *FAMILIES])
def test_golden_directory_is_read_row_for_row(name):
    dataset = sm.Dataset(GOLDEN / name)
    assert dataset.format == "mds"
    rows = list(dataset)
    assert len(rows) == len(dataset) == (4 if name == "plain" else 2)
    for number, row in enumerate(rows):
        check(row, number)
        check(dataset[number], number)
    batches = list(
        sm.Loader(
            GOLDEN / name, batch_size=1, output="dict", columns=["json", "str_int", "a_bytes"]
        )
    )
    assert [batch["json"][0]["n"] for batch in batches] == list(range(len(rows)))
    assert [batch["str_int"][0] for batch in batches] == [10**number for number in range(len(rows))]


def test_single_shards_open_by_themselves(tmp_path):
    for name in FAMILIES:
        shard = next((GOLDEN / name).glob("shard.*"))
        copy = shutil.copy(shard, tmp_path / f"{name}{''.join(shard.suffixes[1:])}")
        for number, row in enumerate(sm.Dataset(copy)):
            check(row, number)


def test_shard_that_a_reader_unpacked_is_read_in_place_of_the_compressed_one(tmp_path):
    directory = shutil.copytree(GOLDEN / "bz2", tmp_path / "x")
    import bz2

    zipped = directory / "shard.00000.mds.bz2"
    (directory / "shard.00000.mds").write_bytes(bz2.decompress(zipped.read_bytes()))
    zipped.unlink()
    rows = list(sm.Dataset(directory))
    assert len(rows) == 2
    check(rows[1], 1)


def copied(tmp_path, name="plain"):
    return Path(shutil.copytree(GOLDEN / name, tmp_path / name))


def change_index(directory, change):
    index = json.loads((directory / "index.json").read_text())
    change(index["shards"])
    (directory / "index.json").write_text(json.dumps(index))


def test_foreign_and_unfinished_files_beside_an_index_are_not_data(tmp_path):
    directory = copied(tmp_path)
    shutil.copy(directory / "shard.00000.mds", directory / "shard.00099.mds")
    (directory / "shard.00004.mds.tmp").write_bytes(b"half")
    (directory / "notes.jsonl").write_text("{}\n")
    assert len(sm.Dataset(directory)) == 4


def test_order_is_that_of_the_index_and_samples_of_merged_directories_follow_one_another(tmp_path):
    shards = []
    for part in ("b", "a/deep"):
        directory = shutil.copytree(GOLDEN / "plain", tmp_path / part)
        entries = json.loads((directory / "index.json").read_text())["shards"]
        for entry in entries:
            entry["raw_data"]["basename"] = f"{part}/{entry['raw_data']['basename']}"
        shards += entries
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    rows = list(sm.Dataset(tmp_path))
    assert len(rows) == 8
    for number, row in enumerate(rows):
        check(row, number % 4)


def test_empty_index_has_no_rows(tmp_path):
    (tmp_path / "index.json").write_text('{"shards": [], "version": 2}')
    dataset = sm.Dataset(tmp_path)
    assert (len(dataset), list(dataset), dataset.format) == (0, [], "mds")


def _lower_samples(shards):
    shards[1]["samples"] -= 1


def _change_bytes(shards):
    shards[1]["raw_data"]["bytes"] += 1


def _change_version(shards):
    shards[1]["version"] = 3


def _change_format(shards):
    shards[1]["format"] = "jsonl"


def _change_columns(shards):
    shards[1]["column_names"][0] = "A"


def _change_encodings(shards):
    shards[1]["column_encodings"][2] = "int64"


def _escape(shards):
    shards[1]["raw_data"]["basename"] = "../shard.00001.mds"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (_lower_samples, "`samples`"),
        (_change_bytes, "`bytes`"),
        (_change_version, "`version`"),
        (_change_format, "`format`"),
        (_change_columns, "`column_names`"),
        (_change_encodings, "`column_encodings`"),
        (_escape, "`basename`"),
    ],
)
def test_wrong_field_of_the_index_is_named_with_its_shard_at_open(tmp_path, change, field):
    directory = copied(tmp_path)
    change_index(directory, change)
    with pytest.raises(sm.FormatError, match=r"shard\.00001\.mds") as raised:
        sm.Dataset(directory)
    assert field in str(raised.value)


def test_wrong_hash_is_named_and_no_row_of_its_shard_is_served(tmp_path):
    directory = copied(tmp_path)

    def change(shards):
        shards[1]["raw_data"]["hashes"]["md5"] = "0" * 32

    change_index(directory, change)
    dataset = sm.Dataset(directory)
    first = json.loads((directory / "index.json").read_text())["shards"][0]["samples"]
    check(dataset[0], 0)
    for _ in range(2):
        with pytest.raises(
            sm.FormatError, match=r"Hash `md5` of shard .*shard\.00001\.mds.* the index says `0000"
        ):
            dataset[first]
    served = []
    with pytest.raises(sm.FormatError, match="Hash `md5`"):
        served.extend(dataset)
    assert len(served) <= first


def test_offset_that_was_changed_is_named_with_its_shard(tmp_path):
    directory = copied(tmp_path)
    shard = directory / "shard.00000.mds"
    content = bytearray(shard.read_bytes())
    content[8:12] = struct.pack("<I", 2**31)
    shard.write_bytes(content)
    with pytest.raises(sm.FormatError, match=r"shard\.00000\.mds. is damaged, offsets"):
        sm.Dataset(directory)


def test_missing_shard_is_named(tmp_path):
    directory = copied(tmp_path)
    (directory / "shard.00001.mds").unlink()
    with pytest.raises(sm.NotFoundError, match=r"shard\.00001\.mds"):
        sm.Dataset(directory)


def by_hand(directory, columns, rows):
    """A directory of one shard; `rows` have the bytes of each column."""
    names = sorted(columns)
    config = json.dumps(
        {
            "column_encodings": [columns[name] for name in names],
            "column_names": names,
            "column_sizes": [None] * len(names),
            "compression": None,
            "format": "mds",
            "hashes": [],
            "size_limit": None,
            "version": 2,
        },
        sort_keys=True,
    )
    samples = [struct.pack(f"<{len(row)}I", *map(len, row)) + b"".join(row) for row in rows]
    offset = 4 * (len(rows) + 2) + len(config)
    offsets = [offset]
    for sample in samples:
        offsets.append(offsets[-1] + len(sample))
    content = (
        struct.pack(f"<{len(rows) + 2}I", len(rows), *offsets) + config.encode() + b"".join(samples)
    )
    directory.mkdir()
    (directory / "shard.00000.mds").write_bytes(content)
    files = {
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(content), "hashes": {}},
        "zip_data": None,
    }
    entry = json.loads(config) | files | {"samples": len(rows)}
    (directory / "index.json").write_text(
        json.dumps({"shards": [entry], "version": 2}, sort_keys=True)
    )
    return directory


def test_pickles_are_refused_by_name_unless_they_are_left_out_or_wanted_as_bytes(tmp_path):
    directory = by_hand(tmp_path / "x", {"p": "pkl", "s": "str"}, [[b"\x80\x04N.", b"text"]])
    for refused in (sm.Dataset, sm.Loader):
        with pytest.raises(sm.FormatError, match="column 'p'"):
            refused(directory)
    assert list(sm.Dataset(directory, columns=["s"])) == [{"s": "text"}]
    stored = sm.ErrorPolicy(pickles="bytes")
    data = sm.Dataset(directory, errors=stored)
    assert list(data) == [{"p": b"\x80\x04N.", "s": "text"}]
    assert [batch["s"] for batch in sm.Loader(directory, columns=["s"], output="dict")] == [
        ["text"]
    ]
    for loader in (
        sm.Loader(data, output="dict"),
        sm.Loader(directory, errors=stored, output="dict"),
    ):
        assert [batch["p"] for batch in loader] == [[b"\x80\x04N."]]
    with pytest.raises(sm.OptionError, match="pickles"):
        sm.ErrorPolicy(pickles="load")


def test_array_of_another_shape_than_the_first_is_named_by_shard_and_sample(tmp_path):
    arrays = [b"\x08\x04\x02\x01\x02", b"\x08\x04\x01\x03", b"\x09\x04\x01\x03"]
    directory = by_hand(tmp_path / "x", {"a": "ndarray"}, [[array] for array in arrays])
    dataset = sm.Dataset(directory)
    assert [dataset[row]["a"] for row in (0, 1)] == [[1, 2], [3]]
    with pytest.raises(
        sm.FormatError, match=r"Column `a` of sample `2` in shard .*shard\.00000\.mds"
    ):
        dataset[2]


def test_rebuilt_index_is_the_one_that_was_lost(tmp_path):
    for name in ("plain", *FAMILIES):
        directory = copied(tmp_path, name)
        lost = (directory / "index.json").read_bytes()
        (directory / "index.json").unlink()
        shards = json.loads(lost)["shards"]
        assert sm.rebuild_index(directory) == (
            len(shards),
            sum(shard["samples"] for shard in shards),
        )
        assert (directory / "index.json").read_bytes() == lost


def test_damaged_shard_is_named_and_no_index_is_written(tmp_path):
    directory = copied(tmp_path)
    (directory / "index.json").write_text("old")
    shard = directory / "shard.00001.mds"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(sm.FormatError, match=r"shard\.00001\.mds"):
        sm.rebuild_index(directory)
    assert (directory / "index.json").read_text() == "old"
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"No `shard\.\*\.mds` file in"):
        sm.rebuild_index(tmp_path / "empty")


def test_verify_reports_each_bad_shard_of_a_directory(tmp_path):
    from shardmill.curate import verify

    directory = copied(tmp_path)
    (sound,) = verify(directory)
    assert (sound.is_valid, sound.samples) == (True, 4)

    def change(shards):
        shards[0]["raw_data"]["hashes"]["sha1"] = "0" * 40
        shards[1]["samples"] += 1

    change_index(directory, change)
    (check_,) = verify(directory)
    assert [problem.member for problem in check_.problems] == ["shard.00000.mds", "shard.00001.mds"]
    assert "sha1" in check_.problems[0].what and "samples" in check_.problems[1].what


@needs_peer
@pytest.mark.parametrize("compression", ["none", *FAMILIES, "br:1", "bz2:1", "gz:1", "zstd:19"])
def test_many_shards_of_the_peer_are_read_row_for_row(tmp_path, compression):
    peer("write", tmp_path / "x", 40, compression, "sha1,xxh3_64", 9000)
    dataset = sm.Dataset(tmp_path / "x")
    assert len(dataset.files) >= 10
    for number, row in enumerate(dataset):
        check(row, number)
    lost = (tmp_path / "x/index.json").read_bytes()
    (tmp_path / "x/index.json").unlink()
    sm.rebuild_index(tmp_path / "x")
    assert (tmp_path / "x/index.json").read_bytes() == lost


@needs_peer
def test_every_hash_of_the_peer_is_checked(tmp_path):
    names = (
        "blake2b,blake2s,md5,sha1,sha224,sha256,sha384,sha3_224,sha3_256,sha3_384,sha3_512,sha512"
    )
    names += ",xxh128,xxh32,xxh3_128,xxh3_64,xxh64"
    peer("write", tmp_path / "x", 2, "zstd", names, 0)
    assert len(list(sm.Dataset(tmp_path / "x"))) == 2
    shards = json.loads((tmp_path / "x/index.json").read_text())["shards"]
    for part in ("raw_data", "zip_data"):
        for name in names.split(","):

            def change(entries, part=part, name=name):
                entries[0][part]["hashes"][name] = "0"

            (tmp_path / "x/index.json").write_text(json.dumps({"shards": shards, "version": 2}))
            change_index(tmp_path / "x", change)
            with pytest.raises(sm.FormatError, match=f"Hash `{name}`"):
                list(sm.Dataset(tmp_path / "x", columns=["uint8"]))


@needs_peer
def test_merged_partitions_of_the_peer_are_one_data_set(tmp_path):
    for part in range(4):
        peer("write", tmp_path / f"x/{part:05}", f"{part * 6}:{part * 6 + 6}", "zstd", "sha1", 5000)
    peer("merge", tmp_path / "x")
    rows = list(sm.Dataset(tmp_path / "x"))
    assert len(rows) == 24
    for number, row in enumerate(rows):
        check(row, number)


#: What MosaicML's writer stores although the column cannot hold it: fractions are cut, texts are
#: parsed, null floats become NaN.
LOSSY = {"float", "float32", "float64", "decimal", "str", "numpy_str", "bytes", "none"}


@needs_peer
def test_scalars_of_python_and_numpy_give_the_bytes_of_mosaicml(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    peer("scalars", theirs)
    refused = set()
    for encoding in mds_peer.SCALAR_ENCODINGS:
        for name, value in mds_peer.SCALARS.items():
            directory = ours / f"{encoding}-{name}"
            try:
                with sm.Writer(directory, format="mds", columns={"x": encoding}) as writer:
                    writer.write_rows([{"x": value}, {"x": value}])
            except sm.FormatError:
                refused.add((encoding, name))
            else:
                for file in (theirs / directory.name).glob("*"):
                    assert (directory / file.name).read_bytes() == file.read_bytes(), file
    numbers = {
        encoding
        for encoding in mds_peer.SCALAR_ENCODINGS
        if encoding.startswith(("int", "uint", "float"))
    }
    written = {tuple(path.name.split("-", 1)) for path in theirs.iterdir()}
    lossy = {(encoding, name) for encoding in numbers for name in LOSSY} | {("str_int", "true")}
    assert written & refused <= lossy
    assert ("json", "none") in written - refused and ("float16", "float32") in written - refused


@pytest.mark.parametrize("value", [True, np.True_, np.int8(1), np.uint64(1), np.float32(1)])
def test_numbers_of_mds_take_bools_and_scalars_of_numpy_also_after_the_first_rows(tmp_path, value):
    columns = {"i": "int", "u": "uint8", "f": "float32", "h": "float16"}
    rows = [dict.fromkeys(columns, 1)] * 2_000 + [dict.fromkeys(columns, value)] * 2
    with sm.Writer(tmp_path, format="mds", columns=columns) as writer:
        writer.write_rows(rows)
    assert [sm.Dataset(tmp_path)[number] for number in (0, 2_000, 2_001)] == [
        dict.fromkeys(columns, 1)
    ] * 3


def test_null_in_a_json_column_of_mds_is_the_null_of_json(tmp_path):
    with sm.Writer(tmp_path, format="mds", columns={"x": "json"}) as writer:
        writer.write_rows([{"x": None}, {"x": [1]}, {"x": np.array([2])}])
    assert [row["x"] for row in sm.Dataset(tmp_path)] == [None, [1], [2]]


def test_bool_is_still_refused_in_a_column_of_numbers_of_parquet(tmp_path):
    refused = pytest.raises(
        sm.FormatError, match="row 0 has the value True in column 'x', which is not of type int64"
    )
    with refused, sm.Writer(tmp_path, columns={"x": "int64"}) as writer:
        writer.write({"x": True})
