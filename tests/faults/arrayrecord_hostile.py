"""ArrayRecord files whose every hash is right and whose numbers lie.

Runs in a process of its own, within a limit of memory.

Each file is listed with the records that a reader may find in it: these, or an error. ``None``: an
error, and nothing else.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from arrayrecord_judge import REFUSED, judge
from file_builder import MAGIC, Chunk, IndexRecord, build, field, raw_chunk, simple_chunk, varint
from shardmill.arrayrecord import ArrayRecordReader
from shardmill.errors import RecordError
from transposed_builder import (
    INLINE,
    MESSAGE_START,
    NO_OP,
    OPAQUE,
    STRING,
    SUBMESSAGE_END,
    SUBMESSAGE_START,
    State,
    message_chunk,
    opaque_chunk,
    tag,
    transposed_data,
)

HUGE = (2**31, 2**32, 2**40, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
TEN = [b"record %d" % number for number in range(10)]
SINGLE = [simple_chunk([record]) for record in TEN]
Case = tuple[str, Callable[[], bytes], list[bytes] | None]


def changed(number: int, **values: int) -> Callable[[list[IndexRecord]], list[IndexRecord]]:
    return lambda index: [
        each._replace(**values) if at == number else each for at, each in enumerate(index)
    ]


def grouped(*sizes: int) -> list[Chunk]:
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    return [simple_chunk(TEN[end - size : end]) for size, end in zip(sizes, ends)]


def simple(sizes: bytes, values: bytes, records: int, decoded: int) -> Chunk:
    return Chunk(b"r", b"\0" + varint(len(sizes)) + sizes + values, records, decoded)


def index_cases() -> Iterator[Case]:
    for huge in (0, 1, 24, 63, 65, 65536, 65537, 131071, 131072, *HUGE):
        yield (
            f"offset of {huge}",
            lambda huge=huge: build(SINGLE, index=changed(4, offset=huge)),
            TEN,
        )
        yield (
            f"first offset of {huge}",
            lambda huge=huge: build(SINGLE, index=changed(0, offset=huge)),
            TEN,
        )
        yield (
            f"last offset of {huge}",
            lambda huge=huge: build(SINGLE, index=changed(9, offset=huge)),
            TEN,
        )
    for huge in HUGE:
        yield (
            f"size of {huge} in the index",
            lambda huge=huge: build(SINGLE, index=changed(4, decoded_size=huge)),
            TEN,
        )
        yield (
            f"{huge} records in the index",
            lambda huge=huge: build(SINGLE, index=changed(4, num_records=huge)),
            None,
        )
        yield (
            f"{huge} records in the metadata",
            lambda huge=huge: build(SINGLE, num_records=huge),
            TEN,
        )
        yield (
            f"{huge} chunks in the metadata",
            lambda huge=huge: build(SINGLE, num_chunks=huge),
            TEN,
        )
        yield (
            f"footer at {huge}",
            lambda huge=huge: build(SINGLE, postscript=lambda _: field(1, huge) + field(2, MAGIC)),
            None,
        )
        yield f"version {huge}", lambda huge=huge: build(SINGLE, version=huge), None
    for count in (0, 1, 5, 9, 11, 20):
        yield (
            f"{count} records in the metadata",
            lambda count=count: build(SINGLE, num_records=count),
            TEN,
        )
        yield (
            f"{count} chunks in the metadata",
            lambda count=count: build(SINGLE, num_chunks=count),
            TEN,
        )
    yield "offsets that descend", lambda: build(SINGLE, index=lambda index: index[::-1]), TEN[::-1]
    yield (
        "offsets that are all one",
        lambda: build(SINGLE, index=lambda index: index[:1] * 10),
        TEN[:1] * 10,
    )
    yield (
        "two offsets turned",
        lambda: build(SINGLE, index=lambda i: [*i[:3], i[4], i[3], *i[5:]]),
        [*TEN[:3], TEN[4], TEN[3], *TEN[5:]],
    )
    yield (
        "offset within a chunk",
        lambda: build(SINGLE, index=lambda i: changed(4, offset=i[4].offset + 1)(i)),
        TEN,
    )
    yield (
        "offset of the footer",
        lambda: build(SINGLE, index=lambda i: changed(9, offset=i[9].offset + 51)(i)),
        TEN,
    )
    yield "size one too large", lambda: build(SINGLE, index=changed(4, decoded_size=9)), TEN
    yield "size one too small", lambda: build(SINGLE, index=changed(4, decoded_size=7)), TEN
    yield "size of nothing", lambda: build(SINGLE, index=changed(4, decoded_size=0)), TEN
    yield (
        "no record in an entry",
        lambda: build(SINGLE, index=changed(4, num_records=0)),
        [*TEN[:4], *TEN[5:]],
    )
    yield (
        "no record in the first entry",
        lambda: build(SINGLE, index=changed(0, num_records=0)),
        TEN[1:],
    )
    yield "two records in an entry", lambda: build(SINGLE, index=changed(4, num_records=2)), None
    yield "an entry too few", lambda: build(SINGLE, index=lambda index: index[:-1]), TEN[:-1]
    yield (
        "an entry too many",
        lambda: build(SINGLE, index=lambda index: [*index, index[-1]]),
        [*TEN, TEN[-1]],
    )
    yield "no entry", lambda: build(SINGLE, index=lambda _: []), []
    yield (
        "empty entry",
        lambda: build(SINGLE, index=lambda index: [*index[:4], b"", *index[5:]]),
        [*TEN[:4], *TEN[5:]],
    )
    yield (
        "entry that is not a message",
        lambda: build(SINGLE, index=lambda index: [*index[:4], b"\xff", *index[5:]]),
        None,
    )
    yield (
        "entry of 11 bytes a varint",
        lambda: build(SINGLE, index=lambda i: [*i[:4], b"\x08" + b"\xff" * 10 + b"\1", *i[5:]]),
        None,
    )
    yield "no postscript record", lambda: build(SINGLE, copies=0), None
    yield (
        "footer at the postscript",
        lambda: build(SINGLE, postscript=lambda _: field(1, 65536) + field(2, MAGIC)),
        None,
    )
    yield "footer at itself, of one record", lambda: build([], metadata=b""), None
    yield "irregular groups", lambda: build(grouped(3, 1, 4, 2)), TEN
    yield "irregular groups that grow", lambda: build(grouped(1, 2, 3, 4)), TEN
    yield "irregular groups, one empty", lambda: build(grouped(3, 0, 7)), TEN
    yield "empty groups at both ends", lambda: build(grouped(0, 5, 5, 0)), TEN
    yield "first group short", lambda: build(grouped(2, 4, 4)), TEN
    yield "last group long", lambda: build(grouped(2, 2, 6)), TEN
    yield (
        "groups told as regular",
        lambda: build(grouped(3, 1, 4, 2), index=lambda i: [e._replace(num_records=3) for e in i]),
        None,
    )


def chunk_cases() -> Iterator[Case]:
    for huge in HUGE:
        yield (
            f"chunk of {huge} decoded bytes",
            lambda huge=huge: build([simple_chunk([b"a"], decoded_size=huge)]),
            None,
        )
        yield (
            f"chunk of a size of {huge}",
            lambda huge=huge: build([simple(varint(huge), b"a", 1, 1)]),
            None,
        )
        yield (
            f"chunk of {huge}, told twice",
            lambda huge=huge: build([simple(varint(huge), b"a", 1, huge)]),
            None,
        )
        wrap = varint(huge) + varint(2**64 - huge + 1)
        yield (
            f"sizes that wrap around {huge}",
            lambda wrap=wrap: build([simple(wrap, b"a", 2, 1)]),
            None,
        )
        yield (
            f"sizes block of {huge}",
            lambda huge=huge: build([Chunk(b"r", b"\0" + varint(huge) + b"\1a", 1, 1)]),
            None,
        )
        for codec in (b"z", b"b", b"s"):
            body = codec + b"\x0b" + varint(huge) + bytes(20)
            yield (
                f"{codec} of {huge} decoded bytes",
                lambda body=body: build([Chunk(b"r", body, 1, 1)]),
                None,
            )
            long = codec + b"\x01\x01" + varint(huge) + bytes(20)
            yield (
                f"{codec} values of {huge}",
                lambda long=long, huge=huge: build([Chunk(b"r", long, 1, huge)]),
                None,
            )
    for count in (2, 3, 1000, 70_000):
        yield (
            f"{count} records of one size",
            lambda count=count: build([simple(b"\1", b"a", count, 1)]),
            None,
        )
    yield "sizes left over", lambda: build([simple(b"\1\1", b"ab", 1, 2)]), None
    yield "values left over", lambda: build([simple(b"\1", b"ab", 1, 1)]), None
    yield "values too few", lambda: build([simple(b"\3", b"ab", 1, 3)]), None
    yield "size of 11 bytes", lambda: build([simple(b"\xff" * 10 + b"\1", b"a", 1, 1)]), None
    yield "size cut", lambda: build([simple(b"\x81", b"a", 1, 1)]), None
    yield "no data", lambda: build([Chunk(b"r", b"", 1, 1)]), None
    yield "no data, no bytes", lambda: build([Chunk(b"r", b"", 1, 0)]), None
    for kind in (b"s", b"m", b"p", b"?", b"\0", b"\xff"):
        yield (
            f"records in a chunk of the kind {kind}",
            lambda kind=kind: build([raw_chunk(kind, SINGLE[0].data, TEN[:1])]),
            None,
        )
    for codec in (b"x", b"Z", b"\1", b"\xff"):
        yield (
            f"codec {codec}",
            lambda codec=codec: build([raw_chunk(b"r", codec + b"\1\1a", [b"a"])]),
            None,
        )
        yield (
            f"codec {codec}, transposed",
            lambda codec=codec: build(
                [raw_chunk(b"t", codec + opaque_chunk([b"a"]).data[1:], [b"a"])]
            ),
            None,
        )
    # One block of 100 times the same byte, in a frame that says 128 MB.
    bomb = (
        bytes.fromhex("28b52ffda0")
        + (2**27).to_bytes(4, "little")
        + (100 << 3 | 3).to_bytes(3, "little")
        + b"a"
    )
    yield (
        "frame that decodes to less than it says",
        lambda: build([Chunk(b"r", b"z\1\1" + varint(2**27) + bomb, 1, 2**27)]),
        None,
    )


def transposed_cases() -> Iterator[Case]:
    one = [State(OPAQUE, 0, buffer=0)]

    def chunk(
        buffers: list[bytes],
        states: list[State],
        first: int,
        transitions: bytes = b"",
        /,
        **told: object,
    ) -> Callable[[], bytes]:
        data = transposed_data(buffers, states, first, transitions, **told)
        return lambda: build([raw_chunk(b"t", data, [b"abc"])])

    for huge in HUGE:
        for count in ("buckets", "buffers", "states", "header_length", "buffer_length"):
            yield (
                f"transposed, {count} of {huge}",
                chunk([b"abc", b"\3"], one, 0, **{count: huge}),
                None,
            )
        yield f"transposed, first state {huge}", chunk([b"abc", b"\3"], one, huge), None
        yield (
            f"transposed, next state {huge}",
            chunk([b"abc", b"\3"], [State(OPAQUE, huge, buffer=0)], 0, b"\0"),
            None,
        )
        yield (
            f"transposed, buffer {huge}",
            chunk([b"abc", b"\3"], [State(OPAQUE, 0, buffer=huge)], 0),
            None,
        )
        yield f"transposed, record of {huge}", chunk([b"abc", varint(huge)], one, 0), None
        yield f"transposed, tag {huge}", chunk([b"abc", b"\3"], [State(huge | 7, 0)], 0), None
        string = message_chunk([(tag(1, STRING), None, varint(huge) + b"a")], b"abc")
        yield f"transposed, string of {huge}", lambda string=string: build([string]), None
        told = {"decoded_size": huge}
        yield (
            f"transposed, {huge} decoded bytes",
            lambda told=told: build([opaque_chunk([b"abc"], **told)]),
            [b"abc"],
        )
    for count in (2, 1000, 70_000):
        yield (
            f"transposed, {count} records of one",
            lambda count=count: build([opaque_chunk([b"abc"], num_records=count)]),
            None,
        )
    yield "transposed, implicit circle of one", chunk([b"abc", b"\3"], [State(NO_OP, 1)], 1), None
    yield (
        "transposed, implicit circle of two",
        chunk([b"abc", b"\3"], [State(NO_OP, 3), State(NO_OP, 2)], 2),
        None,
    )
    circle = [State(tag(1, 0), 1, subtype=INLINE)]
    yield "transposed, circle that writes", chunk([], circle, 1), None
    yield "transposed, circle of records", chunk([], [State(MESSAGE_START, 1)], 1), None
    yield "transposed, circle that pushes", chunk([], [State(tag(1, SUBMESSAGE_END), 1)], 1), None
    yield (
        "transposed, many steps to nothing",
        chunk([b"abc", b"\3"], [State(NO_OP, 0)], 0, b"\3" * 100_000),
        None,
    )
    yield "transposed, no state", chunk([b"abc", b"\3"], [], 0), None
    yield "transposed, lengths run out", chunk([b"abc", b""], one, 0), None
    yield "transposed, values run out", chunk([b"ab", b"\3"], one, 0), None
    yield "transposed, one record too many", chunk([b"abcdef", b"\3\3"], one, 0, b"\0"), None
    yield "transposed, transition beyond the states", chunk([b"abc", b"\3"], one, 0, b"\xff"), None
    yield "transposed, no record begins", chunk([b"abc", b"\3"], [State(NO_OP, 0)], 0), None
    yield (
        "transposed, pop of nothing",
        lambda: build([message_chunk([(SUBMESSAGE_START, None, None)], b"abc")]),
        None,
    )
    push = [(tag(1, SUBMESSAGE_END), None, None)]
    yield "transposed, push without a pop", lambda: build([message_chunk(push, b"abc")]), None
    yield (
        "transposed, bucket that two buffers span",
        chunk([b"abc", b"\3"], one, 0, per_bucket=[1]),
        None,
    )
    yield "transposed, bytes after the end", chunk([b"abc", b"\3"], one, 0, b"\0\0\0"), None
    yield "transposed, no data", lambda: build([Chunk(b"t", b"", 1, 3)]), None


CASES: dict[str, Case] = {
    case[0]: case for cases in (index_cases, chunk_cases, transposed_cases) for case in cases()
}


def main(directory: Path, names: list[str]) -> None:
    """Print one line before a file and one after it: a crash is found between them."""
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    for number, name in enumerate(names):
        print(f"{number} begins", flush=True)
        _, content, records = CASES[name]
        path = directory / f"hostile{number}"
        path.write_bytes(content())
        # Of the processor: time taken by other processes does not count.
        begin = time.process_time()
        try:
            outcome = judge_lie(path, records)
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        if (seconds := time.process_time() - begin) > 3:
            outcome = f"{seconds:.0f} seconds for {outcome}"
        path.unlink()
        print(f"{number} ends {outcome}".replace("\n", " "), flush=True)


def judge_lie(path: Path, records: list[bytes] | None) -> str:
    """The number of records may be told wrong, where each call that meets the lie raises."""
    try:
        reader = ArrayRecordReader(path)
    except RecordError:
        return judge(path, [])
    if records is not None and len(reader) == len(records):
        return judge(path, records)
    for call in (reader.read_all, lambda: list(reader)):
        try:
            found = call()
        except RecordError:
            continue
        return f"an answer: {str(found)[:100]}"
    for number in {0, 1, 4, 5, min(len(reader), 2**31) - 1}:
        try:
            found = reader.read([number])
        except (RecordError, IndexError):
            continue
        if (records is not None and found != records[number : number + 1]) or found[0] not in [
            *TEN,
            b"a",
            b"abc",
        ]:
            return f"an answer for {number}: {found}"
    return REFUSED


if __name__ == "__main__":
    main(Path(sys.argv[1]), list(CASES)[int(sys.argv[2]) :])
