"""Files and option strings to hold two ArrayRecord implementations against each other.

Right ones, damaged ones, and ones whose hashes are right while their numbers lie.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import field as default
from pathlib import Path
from typing import Any

from file_builder import (
    BLOCK,
    MAGIC,
    Chunk,
    IndexRecord,
    build,
    field,
    simple_chunk,
    varint,
    walk,
    without_block_headers,
)
from transposed_builder import message_chunk, opaque_chunk, tag

CODECS = ("uncompressed", "zstd", "snappy", "brotli:3")
HUGE = (0, 1, 2, 127, 128, 2**16, 2**31, 2**32 - 1, 2**40, 2**56 - 1, 2**63, 2**64 - 1)
COUNT_MAX = 2**56 - 1
FILLED_MAX = 100_000
"""A chunk is at least as long as it says that it has records, up to here."""


@dataclass(frozen=True)
class LyingChunk(Chunk):
    told: int = 0

    def header(self) -> bytes:
        return Chunk(self.kind, self.data, self.told, self.decoded_size).header()


@dataclass
class Case:
    content: bytes
    how: list[str] = default(default_factory=list)
    """What was done to it."""
    records: list[bytes] | None = None
    """What it holds, where that is known whatever was done: a record that is delivered is one of
    these, at its place.
    """
    lies: set[str] = default(default_factory=set)
    """Of DIFFERENCES, those that may show."""


@dataclass
class Written:
    content: bytes
    records: list[bytes]
    chunks: list[tuple[Chunk, list[bytes]]]
    codec: str


class Cases:
    """Endless, and the same for the same seed."""

    def __init__(self, seed: int, write: Callable[[list[bytes], str], bytes]) -> None:
        self.random = random.Random(seed)
        self.pool = [
            self.written(write, codec, group, shape)
            for codec in CODECS
            for group in (1, 4)
            for shape in ("", ",transpose")
        ]
        self.plain = [each for each in self.pool if each.codec == "uncompressed"]

    def written(
        self, write: Callable[[list[bytes], str], bytes], codec: str, group: int, shape: str
    ) -> Written:
        records = [self.record(bool(shape)) for _ in range(self.random.randrange(5, 14))]
        if group == 4 and not shape:
            records[3] = self.random.randbytes(70_000)
        content = write(records, f"group_size:{group},{codec}{shape}")
        chunks = []
        for number, found in enumerate(
            [each for each in walk(content) if each.kind in (b"r", b"t")][:-2]
        ):
            size = struct.unpack("<Q", without_block_headers(content, found.begin, 16)[8:])[0]
            data = without_block_headers(content, found.begin, 40 + size)[40:]
            chunk = Chunk(found.kind, data, found.num_records, found.decoded_size)
            chunks.append((chunk, records[number * group : (number + 1) * group]))
        return Written(content, records, chunks, codec)

    def record(self, is_message: bool) -> bytes:
        roll = self.random.random()
        if not is_message or roll < 0.2:
            return self.random.choice(
                (
                    b"",
                    b"text " * self.random.randrange(9),
                    self.random.randbytes(self.random.randrange(60)),
                )
            )
        inner = field(1, self.random.getrandbits(self.random.choice((2, 9, 40, 64)))) + field(
            2, b"inner" * self.random.randrange(4)
        )
        return (
            field(1, self.random.randrange(300))
            + field(2, b"name") * self.random.randrange(3)
            + field(3, inner)
            + b"\x25abcd"
        )

    def next_file(self) -> Case:
        return self.random.choice(
            (self.damaged, self.built, self.built, self.built, self.spliced)
        )()

    def damaged(self) -> Case:
        """Bytes are changed, but no hash: a record that comes out is the one that was written."""
        source = self.random.choice(self.pool)
        content, how = bytearray(source.content), []
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            area = self.random.choice(
                (
                    (0, 64),
                    (64, 900),
                    (64, 900),
                    (len(content) - BLOCK, len(content) - BLOCK + 150),
                    (0, len(content)),
                )
            )
            place = min(self.random.randrange(*area), len(content) - 1)
            length = self.random.choice((1, 1, 1, 8, 40))
            change = self.random.choice(("bit", "random", "zero", "copy"))
            if change == "bit":
                content[place] ^= 1 << self.random.randrange(8)
            else:
                other = self.random.randrange(len(content) - 40)
                new = {
                    "random": self.random.randbytes(length),
                    "zero": bytes(length),
                    "copy": bytes(content[other : other + length]),
                }[change]
                content[place : place + length] = new[: len(content) - place]
            how.append(f"{change} {place} {length}")
        return Case(bytes(content), ["damaged", *how], source.records)

    def spliced(self) -> Case:
        """Whole blocks, cut and put together."""
        first, second = self.random.choice(self.plain), self.random.choice(self.pool)
        blocks = [
            each.content[at : at + BLOCK]
            for each in (first, second)
            for at in range(0, len(each.content), BLOCK)
        ]
        count = self.random.choice((1, 2, 2, 3, 4))
        chosen = [self.random.choice(blocks) for _ in range(count - 1)] + [
            self.random.choice((blocks[-1], blocks[len(first.content) // BLOCK - 1]))
        ]
        content = b"".join(chosen)
        if self.random.random() < 0.1:
            content = content[: self.random.randrange(len(content))]
        return Case(content, ["spliced"], None, {"spliced"})

    def built(self) -> Case:
        case = Case(b"", ["built"], [])
        chunks = (
            [self.chunk(case) for _ in range(self.random.randrange(7))]
            if self.random.random() < 0.3
            else self.regular(case)
        )
        settings: dict[str, Any] = {
            "padded": self.random.random() < 0.1,
            "copies": self.random.choice((3, 3, 3, 1, 2, 7)),
        }
        if self.random.random() < 0.3:
            settings["writer_options"] = self.random.choice(
                (None, "", "group_size:4,zstd", "größe")
            )
        if self.random.random() < 0.35:
            settings |= self.lie_of_index(case, len(chunks))
        case.content = build(chunks, **settings)
        return case

    def regular(self, case: Case) -> list[Chunk]:
        source = self.random.choice(self.pool)
        assert case.records is not None
        case.records += source.records
        chunks = [chunk for chunk, _ in source.chunks]
        if self.random.random() < 0.5:
            place = self.random.randrange(len(chunks))
            chunks[place] = self.lie_of_chunk(case, chunks[place])
        return chunks

    def chunk(self, case: Case) -> Chunk:
        records = [self.record(True) for _ in range(self.random.choice((1, 1, 1, 2, 4)))]
        roll = self.random.random()
        if roll < 0.4:
            chunk, records = self.random.choice(self.random.choice(self.pool).chunks)
        elif roll < 0.6:
            chunk = simple_chunk(records)
        elif roll < 0.8:
            chunk = opaque_chunk(records)
        else:
            number, text = (
                self.random.randrange(1, 20),
                self.random.randbytes(self.random.randrange(5)),
            )
            records = [field(number, text) + field(1, 5)]
            chunk = message_chunk(
                [(tag(1, 0), 10 + 5, None), (tag(number, 2), None, varint(len(text)) + text)],
                records[0],
            )
        if case.records is not None:
            case.records += records
        return self.lie_of_chunk(case, chunk) if self.random.random() < 0.3 else chunk

    def lie_of_chunk(self, case: Case, chunk: Chunk) -> Chunk:
        what = self.random.choice(("data", "data", "data", "num_records", "decoded_size", "kind"))
        case.how.append(what)
        case.records = None
        case.lies |= {"values"} if chunk.decoded_size == 0 or what == "decoded_size" else set()
        case.lies |= {"blocks"} if chunk.data[0] else set()
        if what == "data":
            return replace(chunk, data=self.changed(chunk.data[:2000]) + chunk.data[2000:])
        if what == "kind":
            return replace(chunk, kind=self.random.choice((b"r", b"t", b"p", b"m", b"s", b"?")))
        if what == "num_records":
            told = min(COUNT_MAX, self.near(chunk.num_records))
            return (
                replace(chunk, num_records=told)
                if told < FILLED_MAX
                else LyingChunk(**vars(chunk), told=told)
            )
        return replace(chunk, decoded_size=self.near(chunk.decoded_size))

    def near(self, value: int) -> int:
        return self.random.choice(
            (max(0, value + self.random.choice((-1, 1, 2, 7))), self.random.choice(HUGE))
        )

    def changed(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            place = self.random.randrange(len(changed) + 1)
            end = place + self.random.choice((1, 1, 2, 5))
            new = (
                b"",
                bytes([self.random.randrange(256)]),
                varint(self.random.choice(HUGE)),
                bytes(changed[place:end]) * 2,
            )
            if place < len(changed) and self.random.random() < 0.5:
                changed[place] = (changed[place] + self.random.choice((-1, 1, 4, 128))) % 256
            else:
                changed[place:end] = self.random.choice(new)
        return bytes(changed)

    def lie_of_index(self, case: Case, count: int) -> dict[str, Any]:
        what = self.random.choice(
            (
                "entry",
                "entry",
                "order",
                "fewer",
                "more",
                "counts",
                "metadata",
                "postscript",
                "raw",
                "footer",
            )
        )
        case.how.append(what)
        case.records = None
        place = self.random.randrange(count) if count else 0

        def changed_entry(entries: list[IndexRecord]) -> list[IndexRecord]:
            if entries:
                which = self.random.choice(("offset", "decoded_size", "num_records"))
                entries[place] = entries[place]._replace(
                    **{which: self.near(getattr(entries[place], which))}
                )
            return entries

        def raw_entry(entries: list[IndexRecord]) -> list[IndexRecord | bytes]:
            return [
                *entries[:place],
                self.changed(entries[place].encoded() if entries else b"\x08\x40"),
                *entries[place + 1 :],
            ]

        def footer(records: list[bytes]) -> Chunk:
            chunk = simple_chunk(records)
            return replace(chunk, data=self.changed(chunk.data))

        def postscript(at: int) -> bytes:
            return self.changed(field(1, at) + field(2, MAGIC))

        match what:
            case "entry":
                return {"index": changed_entry}
            case "order":
                return {"index": lambda entries: self.random.sample(entries, len(entries))}
            case "fewer":
                return {
                    "index": lambda entries: entries[:place] + entries[place + 1 :],
                    "num_chunks": max(0, count - 1),
                }
            case "more":
                return {"index": lambda entries: entries + entries[place : place + 1]}
            case "counts":
                return {self.random.choice(("num_chunks", "num_records")): self.near(count)}
            case "metadata":
                return {
                    "metadata": self.changed(
                        field(1, field(1, 1) + field(2, count) + field(3, count))
                    )
                }
            case "raw":
                return {"index": raw_entry}
            case "footer":
                return {"footer": footer}
            case _:
                return {"postscript": postscript}

    def next_options(self) -> tuple[str, str]:
        """For a writer or a reader, and the string."""
        kind = self.random.choice(("writer", "writer", "reader"))
        keys = WRITER_KEYS if kind == "writer" else READER_KEYS
        items = []
        for _ in range(self.random.choice((0, 1, 1, 2, 2, 3, 5))):
            key = self.random.choice(keys)
            value = self.random.choice(VALUES)
            items.append(key if self.random.random() < 0.15 else f"{key}:{value}")
        text = ",".join(items)
        if text and self.random.random() < 0.3:
            place = self.random.randrange(len(text))
            text = (
                text[:place] + self.random.choice(SCRAPS) + text[place + self.random.randrange(2) :]
            )
        return kind, text


WRITER_KEYS = (
    "group_size", "group_size", "transpose", "transpose_bucket_size", "uncompressed", "brotli",
    "zstd", "snappy", "window_log", "window_log", "pad_to_block_boundary", "max_parallelism",
    "saturation_delay_ms", "default",
)  # fmt: skip
READER_KEYS = (
    "readahead_buffer_size",
    "readahead_buffer_size",
    "max_parallelism",
    "index_storage_option",
    "footer_prefetch_bytes",
)
VALUES = (
    "", "1", "2", "3", "10", "20", "0", "-1", "+4", " 5", "6 ", "007", "auto", "true", "false",
    "1.5", "1e2", "4K", "1.5M", "1G", "2G", "16E", ".5", "5.", "0x10", "inf", "nan", "-inf",
    "infinity", "1e400", "1e-400", "-0", "--1", "+-1", "1_0", "1,5", "2147483647", "2147483648",
    "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
    "in_memory", "offloaded", "K", "1KB", "1k", "1 K", "1K ", "0x1p3", "1e", "1e+3", "-131072",
    "22", "23", "11", "12", "30", "31", "9", "\t7", "7\n", "7\x0b", "\x0c7", "\u0661",
)  # fmt: skip
SCRAPS = (",", ":", " ", "=", "x", "0", "\0", "é", "\n", ",,", "::", "-", "+", ".", "e", "K")


def save(directory: Path, name: str, case: Case) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_bytes(case.content)
    return path
