"""Seeds of the ArrayRecord targets: files of our writer as the short scripts that the targets read (fuzz_targets/arrayrecord/script.rs).

usage: python fuzz/arrayrecord_seeds.py    # writes fuzz/seeds/arrayrecord_*/
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path

FUZZ = Path(__file__).parent
sys.path.insert(0, str(FUZZ.parent / "tests" / "compat" / "arrayrecord"))

from file_builder import field, varint, walk, without_block_headers
from shardmill.arrayrecord import ArrayRecordWriter

CODECS = {"uncompressed": 0, "zstd": 1, "snappy": 2, "brotli:3": 3}
SIMPLE, COMPRESSED_SIMPLE, COMPRESSED_TRANSPOSED, SKIP, TO_BOUNDARY, ENTRY, METADATA, RAW_METADATA = range(8)
POSTSCRIPT, RAW_POSTSCRIPT, FOOTER_CODEC, FOOTER, DAMAGE, DAMAGE_AT_END, RAW_ENTRY, PAD = range(8, 16)
HONEST = b"\0"

TEXTS = [b"record %d " % number * (number % 4) for number in range(9)]
MESSAGES = [
    field(1, number)
    + field(2, b"name %d" % number)
    + field(3, field(1, number * 300) + field(2, b"inner"))
    + b"\x25abcd"
    for number in range(8)
] + [b"", b"\xff no message", field(4, 2**64 - 1)]


def part(data: bytes) -> bytes:
    return struct.pack("<H", len(data)) + data


def chunks_of(records: list[bytes], options: str) -> list[tuple[bytes, int, int, bytes]]:
    """Kind, num_records, decoded size and data of each chunk of users."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        with ArrayRecordWriter(path, options) as writer:
            writer.write_all(records)
        file = path.read_bytes()
    users = [found for found in walk(file) if found.kind in (b"r", b"t")][:-2]
    out = []
    for found in users:
        size = struct.unpack("<Q", without_block_headers(file, found.begin, 16)[8:])[0]
        out.append(
            (
                found.kind,
                found.num_records,
                found.decoded_size,
                without_block_headers(file, found.begin, 40 + size)[40:],
            )
        )
    return out


def number_at(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def as_it_is(kind: bytes, num_records: int, decoded_size: int, data: bytes) -> bytes:
    return bytes([SIMPLE]) + kind + HONEST + varint(num_records) + varint(decoded_size) + part(data)


def taken_apart(codec: int, kind: bytes, num_records: int, decoded_size: int, data: bytes) -> bytes:
    """An uncompressed chunk, for the target to compress with ``codec``. Without the step's own byte."""
    head = bytes([codec]) + HONEST + varint(num_records) + varint(decoded_size)
    length, at = number_at(data, 1)
    first, rest = data[at : at + length], data[at + length :]
    if kind == b"r":
        return head + part(first) + part(rest)
    count, at = number_at(first, 0)
    num_buffers, at = number_at(first, at)
    buckets = b""
    for _ in range(count):
        length, at = number_at(first, at)
        buckets += part(rest[:length])
        rest = rest[length:]
    return head + bytes([count]) + buckets + varint(num_buffers) + part(first[at:]) + part(rest)


def file_seeds() -> dict[str, bytes]:
    seeds = {"empty": b"\0", "raw": b"\1" + part(b"Riegeli") + b"\x83\xaf\x70"}
    for codec in CODECS:
        for group in (1, 3, 100):
            for shape, records in (("simple", TEXTS), ("transpose", MESSAGES)):
                options = f"group_size:{group},{codec}" + (",transpose" if shape == "transpose" else "")
                chunks = b"".join(as_it_is(*chunk) for chunk in chunks_of(records, options))
                seeds[f"{shape}_{codec.partition(':')[0]}_{group}"] = (
                    b"\0" + chunks + bytes([FOOTER_CODEC, CODECS[codec]])
                )
    one = as_it_is(*chunks_of([b"one"], "uncompressed")[0])
    two = as_it_is(*chunks_of([b"two", b""], "group_size:2,zstd")[0])
    noise = as_it_is(*chunks_of([bytes(number * 7919 % 251 for number in range(40_000))], "snappy")[0])
    empty = as_it_is(*chunks_of([b""] * 300, "group_size:300,zstd")[0])
    seeds |= {
        "irregular": b"\0" + two + one + two + two + one,
        "padded": b"\0" + one + bytes([PAD]) + two + bytes([PAD]) + one,
        "over_blocks": b"\0" + noise + noise + one,
        "header_over_blocks": b"\0" + one + bytes([TO_BOUNDARY, 20]) + one + bytes([TO_BOUNDARY, 0]) + two,
        "empty_records": b"\0" + empty + one,
        "gap": b"\0" + one + bytes([SKIP]) + varint(1000) + two,
        "entry_removed": b"\0" + one + two + one + bytes([ENTRY, 1, 4, 0]),
        "entry_of_more_records": b"\0" + one + two + bytes([ENTRY, 0, 3, 9]),
        "entry_moved": b"\0" + one + two + bytes([ENTRY, 1, 0, 1]),
        "more_chunks_told": b"\0" + one + bytes([METADATA, 1, 1, 1]) + part(b""),
        "metadata_raw": b"\0" + one + bytes([RAW_METADATA]) + part(field(1, field(1, 1) + field(2, 1) + field(3, 1))),
        "entry_raw": b"\0" + bytes([METADATA, 1, 1, 0]) + part(b"") + bytes([RAW_ENTRY]) + part(b"\x08\x40\x10\x00\x18\x00"),
        "postscript_lies": b"\0" + one + bytes([POSTSCRIPT, 1, 0, 1]),
        "postscript_raw": b"\0" + one + bytes([RAW_POSTSCRIPT]) + part(field(1, 108) + field(2, 0x71930E704FDAE05E)),
        "footer_lies": b"\0" + one + bytes([FOOTER, 64, 5]),
        "claims": b"\0" + bytes([SIMPLE]) + b"r" + HONEST + varint(1) + varint(1 << 40) + part(b"\0\1\5hello"),
        "data_size_lies": b"\0" + bytes([SIMPLE]) + b"r\1" + varint(1 << 50) + varint(1) + varint(5) + part(b"\0\1\5hello"),
        "damage": b"\0" + one + two + bytes([DAMAGE]) + varint(90) + part(b"\1") + bytes([DAMAGE_AT_END, 30]) + part(b"\4"),
    }  # fmt: skip
    return seeds


def chunk_seeds() -> dict[str, bytes]:
    seeds = {}
    for codec, number in CODECS.items():
        name = codec.partition(":")[0]
        for shape, records in (("simple", TEXTS), ("transpose", MESSAGES)):
            options = "group_size:100,uncompressed" + (",transpose" if shape == "transpose" else "")
            chunk = chunks_of(records, options)[0]
            seeds[f"{shape}_{name}"] = bytes([shape == "transpose"]) + taken_apart(number, *chunk)
            flags = number | (4 if shape == "transpose" else 0)
            lengths = b"".join(bytes([len(record)]) + record for record in records)
            seeds[f"written_{shape}_{name}"] = bytes([2, flags, 3, 4]) + lengths
    seeds["written_over_blocks"] = (
        bytes([2, 2, 3, 2]) + b"\xff\x20" + bytes(range(255)) + b"\0\1a" + b"\xff\x40" + bytes(range(255))
    )
    seeds["written_padded"] = bytes([2, 8, 3, 1]) + b"\1a\2bc\0"
    return seeds


OPTIONS = [
    "", "default", "group_size:2,zstd:5,window_log:20", "brotli:6,window_log:25", "snappy:1,max_parallelism:auto", "uncompressed,group_size: +7",
    "transpose,transpose_bucket_size:1.5K,pad_to_block_boundary:true", "transpose:true,transpose_bucket_size:16E", "saturation_delay_ms:1",
    "readahead_buffer_size:16M,max_parallelism:0", "index_storage_option:offloaded,footer_prefetch_bytes:0", "footer_prefetch_bytes:auto",
]  # fmt: skip


def main() -> None:
    options = {f"{number:02}": text.encode() for number, text in enumerate(OPTIONS)}
    for target, seeds in (("file", file_seeds()), ("chunk", chunk_seeds()), ("options", options)):
        folder = FUZZ / "seeds" / f"arrayrecord_{target}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds.items():
            (folder / name).write_bytes(seed)


if __name__ == "__main__":
    main()
