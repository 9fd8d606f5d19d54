"""Holds our ArrayRecord reader and option strings against array_record 0.8.6.

usage: python fuzz/arrayrecord_differential.py SECONDS [--seed N]

Where the original answers, ours gives the same answer or an error for a documented reason
(DIFFERENCES); ours never crashes, never takes longer than 5 s and never delivers other records. A
crash of the original is a refusal. Failing inputs are
kept in fuzz/artifacts/arrayrecord_differential/.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FUZZ = Path(__file__).parent
COMPAT = FUZZ.parent / "tests" / "compat" / "arrayrecord"
sys.path.insert(0, str(COMPAT))

from arrayrecord_answers import PROBED, Answer, Answers, Implementation
from arrayrecord_cases import Case, Cases, save
from file_builder import BLOCK, legal_boundary, without_block_headers
from implementations import ORIGINAL

ARTIFACTS = FUZZ / "artifacts" / "arrayrecord_differential"
OURS_TIMEOUT, ORIGINAL_TIMEOUT = 5, 10

DIFFERENCES = {
    "groups": "the original takes every chunk for as large as the first; "
    "ours goes by the count of each",
    "counts": "the numbers of the metadata are not those of the entries: "
    "the original believes the metadata, ours refuses the file",
    "order": "entries overlap, descend or lie where no chunk can be: "
    "the original reads what is there, ours refuses the file",
    "chunk": "a chunk has another number of records than its entry says: ours refuses the chunk",
    "empty": "asked for record 0 of a file without records the original delivers an empty one; "
    "ours raises",
    "values": "the original does not look at the values of a chunk that decodes to nothing; "
    "ours does, and may refuse them",
    "blocks": "a compressed block has not the length that it states: "
    "the original reads what it needs, ours refuses the chunk",
    "text": "options of a writer that are no UTF-8: the original raises UnicodeDecodeError, "
    "ours gives them with the replacement character",
    "hexadecimal": "byte sizes such as 0x1p3: C's strtod takes them, ours refuses them",
    "spliced": "the index is that of another file, "
    "and what its entries lead to was not looked at here",
}

ONE_WAY = {"values": ("error", "value"), "blocks": ("error", "value")}
"""What ours and the original come to, where a difference is of that kind alone."""


class Finding(Exception):
    pass


def fields(message: bytes, wire_type: int) -> dict[int, Any]:
    """Numbers are of wire type 0, bytes of 2; the last of each field counts."""
    out: dict[int, Any] = {}
    at = 0
    while at < len(message):
        tag, at = number_at(message, at)
        value: Any = None
        match tag & 7:
            case 0:
                value, at = number_at(message, at)
            case 1 | 5:
                at += 8 if tag & 7 == 1 else 4
            case 2:
                length, at = number_at(message, at)
                value, at = message[at : at + length], at + length
        if tag & 7 == wire_type:
            out[tag >> 3] = value
    return out


def number_at(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def bytes_at(content: bytes, begin: int, count: int) -> bytes:
    if not 0 <= begin <= begin + count + (count // BLOCK + 2) * 24 <= len(content):
        raise IndexError
    return without_block_headers(content, begin, count)


def header_at(content: bytes, begin: int) -> tuple[int, int, int]:
    """Size of the data, number of records, decoded size."""
    header = bytes_at(content, begin, 40)
    words = [int.from_bytes(header[at : at + 8], "little") for at in range(8, 40, 8)]
    return words[0], words[2] >> 8, words[3]


def simple_records(content: bytes, begin: int) -> list[bytes]:
    size, count, _ = header_at(content, begin)
    data = bytes_at(content, begin, 40 + size)[40:]
    if data[0]:
        raise ValueError("compressed")
    at = number_at(data, 1)[1]
    lengths = []
    for _ in range(count):
        length, at = number_at(data, at)
        lengths.append(length)
    return [
        data[at + sum(lengths[:number]) : at + sum(lengths[: number + 1])]
        for number in range(count)
    ]


def oddities(content: bytes) -> set[str]:
    """What the index of a file says that is not so.

    Nothing where it is compressed, for those indexes come from writers.
    """
    try:
        footer = fields(simple_records(content, len(content) - BLOCK)[0], 0)[1]
        metadata, *entries = simple_records(content, footer)
        told = fields(fields(metadata, 2)[1], 0)
        return set(lies_of(content, footer, told, [fields(entry, 0) for entry in entries]))
    except (IndexError, KeyError, ValueError, MemoryError):
        return set()


def lies_of(
    content: bytes, footer: int, told: dict[int, int], index: list[dict[int, int]]
) -> Iterator[str]:
    counts = [entry.get(3, 0) for entry in index]
    offsets = [entry.get(1, 0) for entry in index]
    if not sum(counts):
        yield "empty"
    if counts and (0 in counts or set(counts[:-1]) - {counts[0]} or counts[-1] > counts[0]):
        yield "groups"
    if (told.get(2, 0), told.get(3, 0)) != (len(index), sum(counts)):
        yield "counts"
    borders = [24, *offsets, footer]
    if any(after - before < 40 for before, after in zip(borders, borders[1:])) or any(
        legal_boundary(at) != at for at in offsets
    ):
        yield "order"
        return
    for offset, count, end in zip(offsets, counts, borders[2:]):
        if end > len(content) or count > end - offset:
            yield "order"
        elif header_at(content, offset)[1] != count:
            yield "chunk"


def compare_files(case: Case, ours: Answers, original: Answers, counts: Counter[str]) -> None:
    if ours.end != "done":
        raise Finding(f"ours: {ours.end}")
    is_whole = ours.get("read_all", ("", None))[0] == "value"
    if case.records is not None:
        check_records(case.records, ours)
    if is_whole:
        check_records(ours["read_all"][1], ours)
    reasons = oddities(case.content) | case.lies
    if original.get("options") == ("error", ["UnicodeDecodeError", "UnicodeError", "ValueError"]):
        counts["documented: text"] += 1
        del original["options"]
    is_open = original.get("open", ("", [False]))[1][0] is True
    if not is_open:
        outcome = "opens" if ours["open"][1][0] else "refuses"
        counts[f"file that the original refuses or dies of, ours {outcome}"] += 1
        if ours["open"][1][0] and original.end == "done" and not reasons:
            counts["opens what the original refuses"] += 1
            raise Finding("ours opens what the original refuses")
        return
    counts["file that the original opens"] += 1
    if original.end != "done":
        counts[f"of these, the original dies later: {original.end}"] += 1
    for name, answer in original.items():
        compare(name, ours.get(name, ("error", ["absent"])), answer, reasons, counts)
        if not ours["open"][1][0]:
            return


def compare(
    name: str, ours: Answer, original: Answer, reasons: set[str], counts: Counter[str]
) -> None:
    if ours == original or (ours[0] == original[0] == "error" and original[1][0] in ours[1]):
        counts["same " + original[0]] += 1
        return
    if name not in ("at the end", "after", "close"):
        reasons = {
            reason
            for reason in reasons
            if ONE_WAY.get(reason, (ours[0], original[0])) == (ours[0], original[0])
        }
    if reasons and (ours[0] == "value" or {"RuntimeError", "IndexError"} & set(ours[1])):
        counts[f"documented: {', '.join(sorted(reasons))}"] += 1
        return
    raise Finding(f"{name}: ours {str(ours)[:300]}, the original {str(original)[:300]}")


def check_records(records: list[bytes], ours: Answers) -> None:
    """Whatever the original makes of the file, what ours delivers is in it, by every way."""
    count = len(records)
    probed = records[:PROBED]
    expected = {f"one {number}": [record] for number, record in enumerate(probed)}
    expected |= {
        "last": records[-1:],
        "turned": probed[::-1],
        "part": records[count // 2 : count // 2 + PROBED],
    }
    expected |= {"read_all": records, "in order": records}
    for name, (kind, value) in ours.items():
        if (
            kind == "value"
            and name in expected
            and value != expected[name]
            and ours["open"][1][2] > 0
        ):
            raise Finding(
                f"{name}: ours {str(value)[:300]}, written was {str(expected[name])[:300]}"
            )
        if kind == "value" and name == "open" and value[0] and value[2] != count:
            raise Finding(f"{value[2]} records, written were {count}")


def compare_options(
    kind: str, text: str, ours: Answers, original: Answers, counts: Counter[str]
) -> None:
    if ours.end != "done":
        raise Finding(f"ours: {ours.end}")
    if original.end != "done":
        counts[f"options: the original {original.end}"] += 1
        return
    for name, answer in original.items():
        mine = ours.get(name, ("error", ["absent"]))
        if answer[0] == "value" and mine[0] == "error" and "0x" in text.lower():
            counts["documented: hexadecimal"] += 1
            continue
        if mine != answer and not (mine[0] == answer[0] == "error" and answer[1][0] in mine[1]):
            raise Finding(f"{kind} {text!r}: {name}: ours {mine}, the original {answer}")
        counts[f"options: same {answer[0]}"] += 1
    if set(ours) != set(original):
        raise Finding(f"{kind} {text!r}: ours {ours}, the original {original}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    ours, original = (
        Implementation("ours", OURS_TIMEOUT),
        Implementation("original", ORIGINAL_TIMEOUT),
    )
    counts: Counter[str] = Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        directory = Path(name)
        pool = directory / "pool"
        cases = Cases(
            arguments.seed,
            lambda records, options: ORIGINAL.write(pool, records, options).read_bytes(),
        )
        good = ORIGINAL.write(directory / "good", [b"a", b"bc", b""], "group_size:2")
        end, number = time.monotonic() + arguments.seconds, 0
        while time.monotonic() < end:
            number += 1
            case, kind, text = None, "file", ""
            try:
                if number % 4:
                    case = cases.next_file()
                    # A new name each: the clock of a file system is too coarse to tell two contents
                    # of one file apart.
                    file = save(directory, f"file{number}", case)
                    answers = [each.ask(kind="file", path=str(file)) for each in (ours, original)]
                    file.unlink()
                    compare_files(case, answers[0], answers[1], counts)
                else:
                    kind, text = cases.next_options()
                    answers = [
                        each.ask(
                            kind=kind,
                            path=str(good if kind == "reader" else directory / each.name),
                            options=text,
                        )
                        for each in (ours, original)
                    ]
                    compare_options(kind, text, answers[0], answers[1], counts)
            except Finding as finding:
                what = case.how if case else []
                findings.append(f"{number}: {what} {finding}")
                keep(f"seed{arguments.seed}_{number}", case, findings[-1])
        counts["inputs"] = number
        counts["the original died between two inputs"] = original.died
        if ours.died:
            findings.append("ours died between two inputs")
    ours.stop()
    original.stop()
    for line, count in sorted(counts.items()):
        print(f"{count:8} {line}")
    for finding in findings[:20]:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0


def keep(name: str, case: Case | None, finding: str) -> None:
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    (ARTIFACTS / f"{name}.txt").write_text(finding + "\n")
    if case:
        save(ARTIFACTS, f"{name}.array_record", case)


if __name__ == "__main__":
    sys.exit(main())
