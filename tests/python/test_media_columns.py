"""Files within rows are written as files that the readers of a format decode.

The rows hold ``{bytes, path}``, as in Hugging Face data sets.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from PIL import Image
from shardmill.cli._commands import run
from shardmill.write._media import Media, extension_of

PEER = Path(os.environ.get("SHARDMILL_PEERS", "")) / "streaming" / "bin" / "python"


def picture(format: str, shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (9, 7), (shade, 3, 9)).save(out, format)
    return out.getvalue()


WAVE = b"RIFF\x24\0\0\0WAVEfmt " + bytes(40)
FILES = [
    {"bytes": picture("JPEG", 0), "path": "a/0.JPG"},
    {"bytes": picture("PNG", 20), "path": None},
    {"bytes": picture("PNG", 40), "path": "x.png"},
    {"bytes": picture("WEBP", 60), "path": "without extension"},
    {"bytes": picture("JPEG", 80), "path": "x.y.jpeg"},
    {"bytes": picture("TIFF", 100), "path": "x.unknown"},
]
EXTENSIONS = ["jpg", "png", "png", "webp", "jpeg", "tiff"]


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path / "a.parquet", **options)
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns = {
        "cls": range(6),
        "image": pa.array(FILES, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
    }
    return written(tmp_path_factory.mktemp("media"), columns, row_group_size=2)


def sizes(contents: list[bytes]) -> list[tuple[str | None, tuple[int, int], Any]]:
    opened = [Image.open(io.BytesIO(content)) for content in contents]
    return [(image.format, image.size, image.convert("RGB").getpixel((0, 0))) for image in opened]


def convert(*arguments: object) -> int:
    return run(["convert", *map(str, arguments)])


def members(path: Path) -> dict[str, bytes]:
    found = {}
    for archive in sorted(path.glob("*.tar")):
        with tarfile.open(archive) as tar:
            found |= {
                member.name: tar.extractfile(member).read()  # pyright: ignore
                for member in tar
            }
    return found


def samples(path: Path) -> list[dict[str, Any]]:
    """The samples as the library webdataset decodes them."""
    webdataset = pytest.importorskip("webdataset")
    urls = [str(archive) for archive in sorted(path.glob("*.tar"))]
    with warnings.catch_warnings():
        # webdataset leaves its files open.
        warnings.simplefilter("ignore")
        return list(webdataset.WebDataset(urls, shardshuffle=False).decode("pil"))


WAYS = {
    "command": lambda source, out, format: convert(source, out, "--to", format),
    "batch": lambda source, out, format: _write(source, out, format, sm.Writer.write_batch),
    "rows": lambda source, out, format: _write(source, out, format, sm.Writer.write_rows),
}


def _write(source: Path, out: Path, format: Any, write: Any) -> None:
    with sm.Writer(out, format=format) as writer:
        write(writer, sm.Dataset(source))


@pytest.mark.parametrize("way", WAYS)
def test_pictures_become_members_that_webdataset_decodes(
    source: Path, tmp_path: Path, way: str
) -> None:
    WAYS[way](source, tmp_path / "out", "webdataset")
    expected = {
        f"{row:09}.{extension}": FILES[row]["bytes"] for row, extension in enumerate(EXTENSIONS)
    }
    found = members(tmp_path / "out")
    assert {
        name: content for name, content in found.items() if not name.endswith(".cls")
    } == expected
    decoded = samples(tmp_path / "out")
    assert [sample["cls"] for sample in decoded] == [*range(6)]
    # Its decoder knows neither webp nor tiff.
    pictures = [decoded[row][EXTENSIONS[row]] for row in (0, 1, 2, 4)]
    assert [picture.size for picture in pictures] == [(9, 7)] * 4
    again = sm.Dataset(tmp_path / "out")
    assert {*again.columns} == {"__key__", "cls", *EXTENSIONS}


@pytest.mark.parametrize("way", WAYS)
def test_pictures_get_an_encoding_of_mds_that_opens_all_of_them(
    source: Path, tmp_path: Path, way: str
) -> None:
    WAYS[way](source, tmp_path / "out", "mds")
    again = sm.Dataset(tmp_path / "out")
    assert again.schema.field("image").metadata == {b"mds.encoding": b"jpeg"}
    rows = list(again)
    assert [row["image"] for row in rows] == [file["bytes"] for file in FILES]
    images = sm.Images("image", size=4, on_error="null")
    loader = sm.Loader(
        sm.Dataset(tmp_path / "out", images=images), output="numpy", rank=0, world_size=1
    )
    assert next(iter(loader))["image"][:5].shape == (5, 3, 4, 4)


@pytest.mark.skipif(
    not PEER.is_file(), reason="SHARDMILL_PEERS names no directory with streaming/bin/python"
)
def test_streaming_of_mosaicml_reads_the_pictures(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", "--to", "mds")
    program = (
        "import streaming, sys\n"
        "rows = streaming.StreamingDataset(local=sys.argv[1], batch_size=1, shuffle=False)\n"
        "print([(row['image'].format, row['image'].size, "
        "row['image'].convert('RGB').getpixel((0, 0))) for row in rows])"
    )
    done = subprocess.run(
        [PEER, "-c", program, tmp_path / "out"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(sizes([file["bytes"] for file in FILES]))


def test_command_notes_that_paths_are_lost_and_compares_the_bytes(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for format in ("mds", "webdataset"):
        assert convert(source, tmp_path / format, "--to", format, "--no-progress") == 0
        text = capsys.readouterr().err
        assert "note: of the files in 'image', only the bytes are written, not the paths" in text
        assert "only the number of rows is compared" not in text
    assert convert(source, tmp_path / "a.array_record", "--column", "image") == 0
    assert [row["record"] for row in sm.Dataset(tmp_path / "a.array_record")] == [
        file["bytes"] for file in FILES
    ]


def test_appended_pictures_may_have_other_extensions(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for rows in (slice(0, 2), slice(2, 6), slice(0, 1)):
        with sm.Writer(out, format="webdataset", mode="append") as writer:
            writer.write_batch(pa.table(sm.Dataset(source))[rows])
    assert len(sm.Dataset(out)) == 7
    with (
        pytest.raises(sm.PlanError, match="do not fit the shards"),
        sm.Writer(out, format="webdataset", mode="append") as writer,
    ):
        writer.write_batch(pa.table({"txt": ["a"], "image": FILES[:1]}))


def test_members_are_named_for_the_column_where_the_extension_is_not_enough(tmp_path: Path) -> None:
    one = FILES[:1]
    cases = {
        ("image", "mask"): ({"image": one, "mask": FILES[1:2]}, ["image.jpg", "mask.png"]),
        ("image", "jpg"): ({"image": one, "jpg": [b"other"]}, ["image.jpg", "jpg"]),
        ("jpg",): ({"jpg": FILES[1:2]}, ["jpg"]),
        ("Image",): ({"Image": one}, ["jpg"]),
        ("sound",): ({"sound": [{"bytes": WAVE, "path": None}]}, ["wav"]),
        ("speech",): ({"speech": [{"bytes": b"?", "path": "x.FLAC"}]}, ["flac"]),
        ("thing",): ({"thing": [{"bytes": b"?", "path": "x.dat"}]}, ["thing"]),
    }
    wrong = []
    for number, (names, (columns, expected)) in enumerate(cases.items()):
        for way, data in (
            ("write_batch", pa.table(columns)),
            ("write_rows", pa.table(columns).to_pylist()),
        ):
            out = tmp_path / f"{way}{number}"
            with sm.Writer(out, format="webdataset") as writer:
                getattr(writer, way)(data)
            found = [name.partition(".")[2] for name in members(out)]
            if found != expected:
                wrong.append((names, way, found))
    assert wrong == []


def test_null_pictures_have_no_member_and_mds_refuses_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [FILES[0], None, {"bytes": None, "path": None}]
    source = written(tmp_path / "in", {"cls": range(3), "image": files})
    for way in WAYS:
        WAYS[way](source, tmp_path / way, "webdataset")
        assert [*members(tmp_path / way)] == [
            "000000000.cls",
            "000000000.jpg",
            "000000001.cls",
            "000000002.cls",
        ]
    capsys.readouterr()
    assert convert(source, tmp_path / "mds", "--to", "mds") != 0
    text = capsys.readouterr().err
    assert "column 'image' has 2 nulls" in text
    assert '--filter "image.bytes is not null"' in text
    assert (
        convert(source, tmp_path / "mds", "--to", "mds", "--filter", "image.bytes is not null") == 0
    )
    assert len(sm.Dataset(tmp_path / "mds")) == 1


def test_path_without_bytes_names_the_row(tmp_path: Path) -> None:
    files = [FILES[0], FILES[1], {"bytes": None, "path": "elsewhere.jpg"}]
    source = written(tmp_path / "in", {"image": files}, row_group_size=1)
    for format in ("webdataset", "mds"):
        for way in ("batch", "rows"):
            with pytest.raises(ValueError, match=r"row 2 has .*elsewhere\.jpg"):
                WAYS[way](source, tmp_path / format, format)


def test_encodings_that_are_named_apply(source: Path, tmp_path: Path) -> None:
    # Python objects are stored as bytes only if they are bytes.
    for encoding, ways in {
        "png": [sm.Writer.write_batch, sm.Writer.write_rows],
        "bytes": [sm.Writer.write_batch],
    }.items():
        for way in ways:
            with sm.Writer(
                tmp_path / "out", format="mds", columns={"image": encoding}, mode="overwrite"
            ) as writer:
                way(writer, sm.Dataset(source, columns=["image"]))
            again = sm.Dataset(tmp_path / "out")
            assert again.schema.field("image").metadata == {b"mds.encoding": encoding.encode()}
            assert again[5] == {"image": FILES[5]["bytes"]}
    assert convert(source, tmp_path / "two", "--to", "mds", "--columns", "image=png,cls") == 0
    assert sm.Dataset(tmp_path / "two").columns == ["cls", "image"]


def test_bytes_that_are_selected_alone_are_named_by_their_first_bytes(
    source: Path, tmp_path: Path
) -> None:
    for format, columns in (
        ("webdataset", "image.bytes"),
        ("webdataset", "cls,image.bytes"),
        ("mds", "image.bytes"),
    ):
        out = tmp_path / f"{format}{len(columns)}"
        assert convert(source, out, "--to", format, "--columns", columns) == 0
        if format == "mds":
            assert sm.Dataset(out).schema.field("image.bytes").metadata == {
                b"mds.encoding": b"jpeg"
            }
        else:
            found = [name.partition(".")[2] for name in members(out) if not name.endswith(".cls")]
            assert found == ["jpg", "png", "png", "webp", "jpg", "tiff"]


def test_sound_is_bytes_in_mds(tmp_path: Path) -> None:
    source = written(tmp_path / "in", {"audio": [{"bytes": WAVE, "path": "a.wav"}]})
    convert(source, tmp_path / "out", "--to", "mds")
    assert sm.Dataset(tmp_path / "out").schema.field("audio").metadata == {
        b"mds.encoding": b"bytes"
    }


def test_pictures_of_mds_become_members_with_their_extension(source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "mds", "--to", "mds")
    convert(tmp_path / "mds", tmp_path / "out", "--to", "webdataset")
    assert [name for name in members(tmp_path / "out") if "cls" not in name][:2] == [
        "000000000.jpg",
        "000000001.png",
    ]


def test_other_structs_stay_what_they_are(tmp_path: Path) -> None:
    types = [
        pa.struct([("bytes", pa.binary())]),
        pa.struct([("bytes", pa.binary()), ("path", pa.int64())]),
        pa.struct([("bytes", pa.string()), ("path", pa.string())]),
        pa.struct([("bytes", pa.binary()), ("path", pa.string()), ("width", pa.int64())]),
        pa.binary(),
    ]
    for format in ("mds", "webdataset"):
        assert [Media(pa.schema([("x", of)]), format).columns for of in types] == [{}] * len(types)


def test_extension_comes_from_the_path_and_else_from_the_bytes() -> None:
    cases = {
        (FILES[1]["bytes"], "x.jpg"): "jpg",
        (FILES[0]["bytes"], "x.parquet"): "jpg",
        (picture("GIF", 1)[:64], ""): "gif",
        (picture("BMP", 1)[:64], None): "bmp",
        (WAVE[:64], "x"): "wav",
        (b"ID3\4", None): "mp3",
        (b"", "x.tar.PNG"): "png",
        (b"", None): None,
        (b"plain", "x"): None,
    }
    assert {key: extension_of(*key) for key in cases} == cases
