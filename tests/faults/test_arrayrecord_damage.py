"""ArrayRecord files that were cut or changed: the record that was written, or an error.

Never another record, never a crash.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest
from breadth import covering
from promptness import HANGS_S

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compat" / "arrayrecord"))
from file_builder import written
from implementations import CODECS, ORIGINAL
from own_process import run_python

RECORDS = [b"first record", b"", bytes(40), b"third " * 30, b"\x08\x01"]

START = """
import ast, sys
from pathlib import Path
from breadth import sample
from arrayrecord_judge import judge_all, report
from file_builder import walk
directory, records = Path(sys.argv[1]), ast.literal_eval(Path(sys.argv[1], "records").read_text())
whole = (directory / "whole").read_bytes()
"""
FLIPS = """
def used():
    words = {b"s": "signature", b"p": "padding"}
    chunks = walk(whole)
    data = [chunk for chunk in chunks if chunk.kind in b"rt"]
    for chunk in chunks:
        word = words.get(chunk.kind) or ("tail" if chunk in data[-2:] else "chunk")
        span = range(chunk.begin, chunk.end)
        # Of a padding, its header and both of its ends; of long records, what lies around block
        # borders and ends.
        near = [chunk.begin, *range(chunk.begin // 65536 * 65536, chunk.end, 65536)]
        for place in span:
            if len(span) < 2000 or (
                place % 3 == 0 and any(-26 <= place - each < 66 for each in near)
            ):
                yield word, place

def flipped():
    for word, place in sample(list(used()), 7):
        yield word, whole[:place] + bytes([whole[place] ^ 1 << place * 5 % 8]) + whole[place + 1 :]

report(judge_all(directory, records, flipped()))
"""
CUTS = """
def places():
    ends = [chunk.end for chunk in walk(whole)]
    borders = range(0, len(whole) + 1, 65536)
    used = set(range(ends[-5] + 100)) | set(range(ends[-3] + 24, ends[-2]))
    near = {place for border in [*borders, *ends] for place in range(border - 30, border + 70)}
    every = sorted(used | near | set(range(0, len(whole), 991)))
    yield from sample([place for place in every if 0 <= place < len(whole)], 7)

def changed():
    for place in places():
        yield "cut", whole[:place]
    for more in (1, 23, 24, 25, 40, 64, 65535, 65536, 65537, 131072):
        yield "tail", whole + bytes(more)
        # Twice the file is a file: its end is whole, and its offsets lead into the first copy.
        if more < len(whole):
            yield "tail", whole + whole[:more]
    for less in (1, 24, 64, 65536):
        yield "head", whole[less:]
        yield "head", bytes(less) + whole

report(judge_all(directory, records, changed()))
"""


def outcomes(body: str, directory: Path, file: bytes, records: list[bytes]) -> Counter[str]:
    (directory / "whole").write_bytes(file)
    (directory / "records").write_text(repr(records))
    return Counter(json.loads(run_python(START + body, directory, timeout=HANGS_S)))


@covering(1, codec=CODECS, group=[1, 3], kind=["", ",transpose"])
def test_flipped_bit_gives_the_written_records_or_an_error(codec, group, kind, tmp_path) -> None:
    path = ORIGINAL.write(tmp_path / "file", RECORDS, f"{codec},group_size:{group}{kind}")
    counts = outcomes(FLIPS, tmp_path, path.read_bytes(), RECORDS)
    # Hashes cover all that is read, and nothing else is.
    assert set(counts) == {
        "signature: whole",
        "padding: whole",
        "chunk: partly",
        "tail: refused",
    }, counts


def test_flipped_bit_around_block_borders(tmp_path) -> None:
    records = [b"a" * 65_300, b"b" * 66_000, b"", b"c" * 200]
    counts = outcomes(FLIPS, tmp_path, written(records, 1), records)
    assert set(counts) == {
        "signature: whole",
        "padding: whole",
        "chunk: partly",
        "tail: refused",
    }, counts


@pytest.mark.parametrize("options", ["zstd", "uncompressed,group_size:3", "snappy,transpose"])
def test_file_of_another_length_is_refused(options, tmp_path) -> None:
    path = ORIGINAL.write(tmp_path / "file", RECORDS, options)
    counts = outcomes(CUTS, tmp_path, path.read_bytes(), RECORDS)
    assert {key for key in counts if not key.startswith("head")} == {
        "cut: refused",
        "tail: refused",
    }, counts
    assert not counts["head: whole"]


CHANGED_IN_USE = """
import sys
from pathlib import Path
from shardmill.arrayrecord import ArrayRecordDataSource, ArrayRecordReader
from shardmill.errors import Error
path, change = Path(sys.argv[1]), sys.argv[2]
records = [b"record %d " % number * 500 for number in range(2000)]
reader, source = ArrayRecordReader(path), ArrayRecordDataSource(path)
assert reader.read() == records[0] and source[1] == records[1]
with path.open("r+b") as file:
    if change == "cut":
        file.truncate(100)
    elif change == "half":
        file.truncate(path.stat().st_size // 2)
    else:
        file.write(bytes(path.stat().st_size))
failed = 0
calls = [
    lambda: (reader.read_all(), records),
    lambda: (list(reader), records),
    lambda: (source.__getitems__(range(2000)), records),
]
for number in range(0, 2000, 13):
    calls.append(lambda number=number: (reader[number], records[number]))
    calls.append(lambda number=number: (reader.read([number]), [records[number]]))
    calls.append(lambda number=number: (source[number], records[number]))
for call in calls:
    try:
        found, expected = call()
    except (RuntimeError, OSError) as error:
        assert isinstance(error, Error), error
        failed += 1
    else:
        assert found == expected
assert failed > 100, failed
print("ok")
"""


@pytest.mark.parametrize("change", ["cut", "half", "zeros"])
def test_file_that_changes_under_an_open_reader_is_an_error(change, tmp_path) -> None:
    """A mapped file that gets shorter would be a SIGBUS."""
    records = [b"record %d " % number * 500 for number in range(2000)]
    path = ORIGINAL.write(tmp_path / "file", records, "uncompressed")
    assert run_python(CHANGED_IN_USE, path, change) == "ok\n"
