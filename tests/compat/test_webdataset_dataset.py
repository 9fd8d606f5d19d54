"""Samples of WebDataset tars as rows are those of the `webdataset` package.

The archives are by its writer, GNU tar and Python.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import shutil
import subprocess
import tarfile

import pytest
import shardmill as sm
from shardmill.data._dataset import opened_files

pa = pytest.importorskip("pyarrow")

# Readers of webdataset leave files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

TEXTS = {"txt", "text", "transcript"}
NUMBERS = {"cls", "cls2", "class", "count", "index", "inx", "id"}

#: Names that the pattern of the keys tells apart, in the order of an archive.
TRICKY = {
    "__meta__": b"about",
    "__index__/x.json": b"{}",
    "./a/b.seg.PNG": b"png",
    "./a/b.Cls": b"3",
    "nodot": b"between two members of a sample",
    "./a/b.x.y.z": b"two dots more",
    "dir.with.dots/c.txt": "ü".encode(),
    "x/__meta__/q.json": b'{"q": [1, null]}',
    ".hidden": b"-",
    "x/.hidden.bin": b"of the directory",
    "x/y.": b"no extension",
    "z.txt": b"",
    "z.pyd": pickle.dumps({"never": "decoded"}),
    "y/z.txt": b"another key",
}
AGAIN = ("dir.with.dots/c.txt", b"the same key later is another sample")


def written(path, members, *, tar_format=tarfile.PAX_FORMAT, mode="w", pax_headers=None):
    with tarfile.open(path, mode, format=tar_format) as archive:
        for name, body in members:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            member.pax_headers = pax_headers or {}
            archive.addfile(member, io.BytesIO(body))
    return path


def plain(extension, value):
    """What a row has for a value, of which the oracle gives the bytes."""
    last = extension.rpartition(".")[2]
    if last in TEXTS:
        return value.decode()
    if last in NUMBERS:
        return int(value)
    return json.loads(value) if last in ("json", "jsn") else value


def expected_rows(*paths):
    """Rows of the `webdataset` package, with nulls where a sample lacks an extension."""
    wds = pytest.importorskip("webdataset")
    samples = []
    for path in paths:
        dataset = wds.WebDataset(str(path), shardshuffle=False, empty_check=False)
        samples += [
            {
                name: value
                for name, value in sample.items()
                if name not in ("__url__", "__local_path__")
            }
            for sample in dataset
        ]
    names = sorted({name for sample in samples for name in sample if name != "__key__"})
    return [
        {
            "__key__": sample["__key__"],
            **{name: plain(name, sample[name]) if name in sample else None for name in names},
        }
        for sample in samples
    ]


@pytest.mark.parametrize(
    "tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
)
def test_tricky_names_make_the_samples_of_the_webdataset_package(tmp_path, tar_format):
    path = written(tmp_path / "a.tar", [*TRICKY.items(), AGAIN], tar_format=tar_format)
    rows = list(sm.Dataset(path))
    assert rows == expected_rows(path)


def test_tricky_names_make_these_samples(tmp_path):
    dataset = sm.Dataset(written(tmp_path / "a.tar", [*TRICKY.items(), AGAIN]))
    rows = [{name: value for name, value in row.items() if value is not None} for row in dataset]
    assert dataset.columns == [
        "__key__",
        "",
        "cls",
        "hidden.bin",
        "json",
        "pyd",
        "seg.png",
        "txt",
        "x.y.z",
    ]
    assert rows == [
        {"__key__": "./a/b", "seg.png": b"png", "cls": 3, "x.y.z": b"two dots more"},
        {"__key__": "dir.with.dots/c", "txt": "ü"},
        {"__key__": "x/__meta__/q", "json": {"q": [1, None]}},
        {"__key__": "x/", "hidden.bin": b"of the directory"},
        {"__key__": "x/y", "": b"no extension"},
        {"__key__": "z", "txt": "", "pyd": TRICKY["z.pyd"]},
        {"__key__": "y/z", "txt": "another key"},
        {"__key__": "dir.with.dots/c", "txt": AGAIN[1].decode()},
    ]


def random_members(seed, samples=200):
    random_numbers = random.Random(seed)
    for number in range(samples):
        key = f"{'long-directory/' * random_numbers.randrange(12)}sample-{number:05}"
        body = random_numbers.randbytes(random_numbers.randrange(3000))
        values = {
            "jpg": body,
            "cls": str(number).encode(),
            "json": json.dumps({"number": number, "ü": [None, 1.5]}).encode(),
            "left.txt": ("é" * random_numbers.randrange(600)).encode(),
        }
        for extension in random_numbers.sample(sorted(values), random_numbers.randrange(1, 5)):
            yield f"{key}.{extension}", values[extension]


@pytest.mark.parametrize(
    ("tar_format", "pax_headers"),
    [
        (tarfile.GNU_FORMAT, None),
        (tarfile.PAX_FORMAT, None),
        (tarfile.PAX_FORMAT, {"mtime": "1795213521.259755", "comment": "in front of each member"}),
    ],
)
def test_random_samples_with_long_names_are_those_of_the_webdataset_package(
    tmp_path, tar_format, pax_headers
):
    path = written(
        tmp_path / "a.tar", random_members(1), tar_format=tar_format, pax_headers=pax_headers
    )
    rows = list(sm.Dataset(path))
    assert len(rows) == 200
    assert rows == expected_rows(path)


def test_shards_of_the_webdataset_writer_are_read_in_order(tmp_path):
    wds = pytest.importorskip("webdataset")
    with wds.ShardWriter(str(tmp_path / "shard-%03d.tar"), maxcount=30, verbose=False) as writer:
        for number in range(100):
            sample = {
                "__key__": f"{number:04}",
                "cls": number,
                "txt": f"text {number}",
                "json": {"n": number},
            }
            # An extension that only one shard has.
            writer.write({**sample, **({"npy": b"raw"} if number == 70 else {})})
    shards = sorted(tmp_path.glob("*.tar"))
    dataset = sm.Dataset(tmp_path)
    assert dataset.format == "webdataset" and len(shards) == 4 and len(dataset) == 100
    assert dataset.columns == ["__key__", "cls", "json", "npy", "txt"]
    assert list(dataset) == expected_rows(*shards)


def test_gnu_tar_and_python_write_the_same_samples(tmp_path):
    if shutil.which("tar") is None:
        pytest.skip("there is no tar")
    members = list(random_members(2, samples=40))
    for name, body in members:
        target = tmp_path / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
    names = "\n".join(name for name, _ in members)
    for tar_format in ("gnu", "posix"):
        path = tmp_path / f"{tar_format}.tar"
        command = [
            "tar",
            f"--format={tar_format}",
            "-C",
            tmp_path / "files",
            "-T",
            "-",
            "-cf",
            path,
        ]
        subprocess.run(command, input=names, text=True, check=True)
        assert list(sm.Dataset(path)) == list(sm.Dataset(written(tmp_path / "python.tar", members)))


@pytest.mark.parametrize("extension", ["tar.gz", "tgz", "tar.zst"])
def test_compressed_tar_has_the_rows_of_the_plain_one(tmp_path, extension):
    plain_path = written(tmp_path / "a.tar", random_members(3))
    path = tmp_path / f"b.{extension}"
    content = plain_path.read_bytes()
    if extension == "tar.zst":
        path.write_bytes(pa.compress(content, codec="zstd", asbytes=True))
    else:
        path.write_bytes(gzip.compress(content))
    dataset = sm.Dataset(path)
    assert list(dataset) == list(sm.Dataset(plain_path))
    assert dataset[17] == sm.Dataset(plain_path)[17]


def test_row_by_number_equals_the_sequential_one_and_reads_its_members_alone(tmp_path):
    members = [
        (f"{number:03}.{extension}", bytes([number]) * 50_000)
        for number in range(60)
        for extension in "ab"
    ]
    dataset = sm.Dataset(written(tmp_path / "a.tar", members))
    rows = list(dataset)
    before = opened_files(dataset).native.bytes_read
    assert [dataset[number] for number in (59, 0, 31)] == [rows[number] for number in (59, 0, 31)]
    assert opened_files(dataset).native.bytes_read - before < 3 * 101_000 + 4096
    assert dataset.take([5, 5, 2]).column("a").to_pylist() == [
        rows[number]["a"] for number in (5, 5, 2)
    ]
    # Columns that are not selected are not read.
    before = opened_files(dataset).native.bytes_read
    assert sum(1 for _ in sm.Dataset(tmp_path / "a.tar", columns=["__key__"])) == 60
    assert opened_files(dataset).native.bytes_read == before


def test_shuffle_ranks_and_states_work_on_tars(tmp_path):
    for shard in range(3):
        members = [
            (f"{shard}/{number:04}.cls", str(shard * 500 + number).encode())
            for number in range(500)
        ]
        written(tmp_path / f"{shard}.tar", members)
    ranks = [
        sm.Loader(tmp_path, batch_size=50, shuffle=True, rank=rank, world_size=2, output="numpy")
        for rank in (0, 1)
    ]
    seen = sorted(int(value) for loader in ranks for batch in loader for value in batch["cls"])
    assert seen == list(range(1500))
    loader = sm.Loader(tmp_path, batch_size=100, shuffle=True, output="dict", rank=0, world_size=1)
    batches = iter(loader)
    first = [next(batches) for _ in range(4)]
    resumed = sm.Loader(tmp_path, batch_size=100, shuffle=True, output="dict", rank=0, world_size=1)
    resumed.load_state_dict(loader.state_dict())
    whole = list(
        sm.Loader(tmp_path, batch_size=100, shuffle=True, output="dict", rank=0, world_size=1)
    )
    assert first + list(resumed) == whole


def test_arrow_keeps_json_as_text_and_dicts_have_its_value(tmp_path):
    path = written(tmp_path / "a.tar", [("a.json", b'\xef\xbb\xbf{"x": 1}'), ("b.cls", b"1")])
    dataset = sm.Dataset(path)
    assert dataset.schema.field("json").metadata == {b"shardmill.decoding": b"json"}
    assert dataset.take([0]).column("json").to_pylist() == ['\ufeff{"x": 1}']
    for output in ("dict", "rows"):
        batches = list(sm.Loader(path, output=output, batch_size=2))
        values = batches[0]["json"] if output == "dict" else [row["json"] for row in batches[0]]
        assert values == [{"x": 1}, None]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("a.txt", b"\xff")], r"Member `a.txt` of `.*a.tar`, at byte \d+, is not valid UTF-8"),
        (
            [("a.cls", b"seven")],
            r"Member `a.cls` of `.*a.tar`, at byte \d+, is not a whole number of 64 bits: seven",
        ),
        ([("a.json", b"{")], r"Member `a.json` of `.*a.tar`, at byte \d+, is not valid JSON: EOF"),
        (
            [("a.txt", b"1"), ("a.TXT", b"2")],
            r"Member `a.TXT` of `.*a.tar`, at byte \d+, repeats the extension `txt`",
        ),
    ],
)
def test_member_that_is_not_what_it_is_called_is_an_error_that_names_it(tmp_path, members, message):
    path = written(tmp_path / "a.tar", members, tar_format=tarfile.GNU_FORMAT)
    with pytest.raises(sm.FormatError, match=message):
        list(sm.Dataset(path))


def test_cut_and_flipped_archives_are_an_error_or_rows(tmp_path):
    content = written(tmp_path / "a.tar", random_members(5, samples=6)).read_bytes()
    random_numbers = random.Random(6)
    path = tmp_path / "damaged.tar"
    for _ in range(300):
        damaged = bytearray(content)
        if random_numbers.random() < 0.3:
            del damaged[random_numbers.randrange(len(damaged)) :]
        else:
            damaged[random_numbers.randrange(len(damaged))] = random_numbers.randrange(256)
        path.write_bytes(
            gzip.compress(damaged, 1) if random_numbers.random() < 0.3 else bytes(damaged)
        )
        try:
            rows = list(sm.Dataset(path))
        except sm.FormatError as error:
            assert "damaged.tar" in str(error)
        else:
            assert len(rows) <= 8


def test_bad_archive_can_be_left_out(tmp_path):
    good = written(tmp_path / "a.tar", [("a.cls", b"1")])
    (tmp_path / "b.tar").write_bytes(good.read_bytes()[:600] + b"\1" * 512)
    with pytest.raises(sm.FormatError, match="b.tar"):
        sm.Dataset(tmp_path)
    dataset = sm.Dataset(tmp_path, errors=sm.ErrorPolicy(files="skip"))
    assert list(dataset) == [{"__key__": "a", "cls": 1}]
    assert [path for path, _ in dataset.skipped] == [str(tmp_path / "b.tar")]
