"""The data source on the original and on ours.

Forms of paths, mapping of keys to files, batches, pickles and names.
"""

import copy
import dataclasses
import hashlib
import logging
import pathlib
import pickle
from types import SimpleNamespace

import pytest
from implementations import ORIGINAL, STRICT, Implementation, numbered

np = pytest.importorskip("numpy")
cloudpickle = pytest.importorskip("cloudpickle")


@dataclasses.dataclass
class FileInstruction:
    filename: str | pathlib.Path
    skip: int
    take: int
    examples_in_shard: int = 0


@pytest.fixture
def files(tmp_path) -> list[str]:
    """Ten digits in two files, and three letters."""
    contents = {
        "a": [b"0", b"1", b"2", b"3", b"4"],
        "b": [b"5", b"6", b"7", b"8", b"9"],
        "c": [b"x", b"y", b"z"],
    }
    return [
        str(ORIGINAL.write(tmp_path / name, records, "group_size:1"))
        for name, records in contents.items()
    ]


FORMS = {
    "str": (lambda a, b, c: a, b"01234"),
    "Path": (lambda a, b, c: pathlib.Path(a), b"01234"),
    "instruction": (lambda a, b, c: FileInstruction(a, 1, 3), b"123"),
    "instruction of a Path": (lambda a, b, c: FileInstruction(pathlib.Path(a), 1, 3), b"123"),
    "instruction of another class": (
        lambda a, b, c: SimpleNamespace(filename=a, skip=0, take=2, examples_in_shard=5),
        b"01",
    ),
    "brackets": (lambda a, b, c: f"{a}[1:3]", b"12"),
    "brackets of a Path": (lambda a, b, c: pathlib.Path(f"{a}[1:3]"), b"12"),
    "whole in brackets": (lambda a, b, c: f"{a}[0:5]", b"01234"),
    "nothing in brackets": (lambda a, b, c: [f"{a}[2:2]", b], b"56789"),
    "zeros in brackets": (lambda a, b, c: f"{a}[01:0003]", b"12"),
    "list": (lambda a, b, c: [a, b], b"0123456789"),
    "tuple": (lambda a, b, c: (b, a), b"5678901234"),
    "mixed": (
        lambda a, b, c: [pathlib.Path(b), f"{a}[3:5]", FileInstruction(c, 2, 1), c],
        b"5678934zxyz",
    ),
    "one file twice": (lambda a, b, c: [a, a], b"0123401234"),
    "parts of one file": (lambda a, b, c: [f"{a}[3:5]", f"{a}[0:2]", a], b"340101234"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_paths_gives_its_records(form, any_mode: Implementation, files) -> None:
    paths, text = FORMS[form]
    expected = [bytes([letter]) for letter in text]
    source = any_mode.data_source(paths(*files))
    assert len(source) == len(expected)
    assert [source[key] for key in range(len(source))] == expected
    assert list(source) == expected
    backwards = list(range(len(expected)))[::-1]
    assert source.__getitems__(backwards) == expected[::-1]
    assert isinstance(source._paths, list)
    assert all(type(path) is str for path in source._paths)


@pytest.mark.parametrize(
    "paths",
    [
        [], (), "", None, 1, 1.5, b"file", {"file"}, iter(["file"]), {"file": 1}, [1],
        ["file[0:1]", None], [b"file"], [["file"]], object(),
    ],
    ids=lambda value: f"{type(value).__name__} {value!r}".split(" at 0x")[0][:30],
)  # fmt: skip
def test_what_is_no_path_is_a_value_error(paths, any_mode: Implementation) -> None:
    # "" is a path, of a file that cannot be opened.
    with pytest.raises(RuntimeError if paths == "" else ValueError):
        any_mode.data_source(paths)


@pytest.mark.parametrize(
    "name", ["f[1:]", "f[:2]", "f[1]", "f[a:b]", "f[-1:2]", "f[1:2]x", "f[1:2:3]", "f[ 1:2]", "f[]"]
)
def test_other_brackets_are_part_of_the_name(name, any_mode: Implementation, tmp_path) -> None:
    source = any_mode.data_source(str(ORIGINAL.write(tmp_path / name, [b"a", b"b"])))
    assert list(source) == [b"a", b"b"]
    assert source._paths == [str(tmp_path / name)]


def test_only_the_last_brackets_select(any_mode: Implementation, tmp_path) -> None:
    path = ORIGINAL.write(tmp_path / "f[0:1]", [b"a", b"b", b"c"])
    source = any_mode.data_source(f"{path}[1:3]")
    assert source._paths == [str(path)]
    assert list(source) == [b"b", b"c"]


def test_missing_file_is_a_runtime_error_at_once(any_mode: Implementation, files, tmp_path) -> None:
    with pytest.raises(RuntimeError):
        any_mode.data_source([files[0], str(tmp_path / "missing")])


def test_damaged_file_is_a_runtime_error_at_once(any_mode: Implementation, tmp_path) -> None:
    (tmp_path / "damaged").write_bytes(b"no array record" * 10_000)
    with pytest.raises(RuntimeError):
        any_mode.data_source(tmp_path / "damaged")


@pytest.mark.parametrize("kind", ["brackets", "instruction"])
def test_selection_is_not_checked_before_it_is_read(
    kind, implementation: Implementation, files, tmp_path
) -> None:
    def part(path, start, end):
        return (
            f"{path}[{start}:{end}]"
            if kind == "brackets"
            else FileInstruction(path, start, end - start)
        )

    source = implementation.data_source([part(files[0], 3, 8), part(tmp_path / "missing", 0, 2)])
    assert len(source) == 7
    assert [source[0], source[1]] == [b"3", b"4"]
    for key in (2, 4, 5, 6):
        with pytest.raises(RuntimeError):
            source[key]
    assert source[1] == b"4"
    with pytest.raises(RuntimeError):
        source.__getitems__([0, 2])
    reversed_part = implementation.data_source(part(files[0], 5, 2))
    with pytest.raises(ValueError):
        len(reversed_part)


def test_selection_beyond_the_file_is_an_error_of_the_strict_mode_at_the_first_read(files) -> None:
    source = STRICT.data_source([f"{files[0]}[3:8]", files[1]])
    assert len(source) == 10
    for _ in range(2):
        with pytest.raises((IndexError, RuntimeError), match="a"):
            source[0]
    assert source[9] == b"9"


def test_keys_map_to_files_and_positions(any_mode: Implementation) -> None:
    source = any_mode.data_source(
        [FileInstruction("1", 0, 2), FileInstruction("2", 2, 3), FileInstruction("3", 10, 1)]
    )
    found = [source._reader_idx_and_position(key) for key in range(len(source))]
    assert found == [(0, 0), (0, 1), (1, 2), (1, 3), (1, 4), (2, 10)]
    assert source._reader_idx_and_position(np.int64(5)) == (2, 10)
    for key in (-1, 6, 2**70):
        with pytest.raises(ValueError):
            source._reader_idx_and_position(key)


@pytest.mark.parametrize("key", [-1, -10, 10, 11, 2**63, 2**70, -(2**70)])
def test_key_outside_is_a_value_error(key, any_mode: Implementation, files) -> None:
    source = any_mode.data_source(files[:2])
    with pytest.raises(ValueError):
        source[key]
    with pytest.raises(ValueError):
        source.__getitems__([0, key])
    assert source[0] == b"0"


@pytest.mark.parametrize("key", [slice(0, 2), 1.0, "1", None, [1], np.array([1.5])], ids=repr)
def test_key_that_is_no_integer_is_refused(key, any_mode: Implementation, files) -> None:
    with pytest.raises((AttributeError, TypeError)):
        any_mode.data_source(files[:2])[key]


def test_anything_with_an_index_is_a_key(any_mode: Implementation, files) -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

    source = any_mode.data_source(files[:2])
    keys = [Seven(), np.int64(7), np.uint8(7), True]
    assert [source[key] for key in keys] == [b"7", b"7", b"7", b"1"]
    assert source.__getitems__(keys) == [b"7", b"7", b"7", b"1"]


@pytest.mark.parametrize(
    "kind",
    [list, tuple, np.array, lambda keys: range(9, 4, -1)],
    ids=["list", "tuple", "array", "range"],
)
def test_batch_keeps_the_order_of_its_keys(kind, any_mode: Implementation, files) -> None:
    source = any_mode.data_source(files[:2])
    keys = kind([9, 0, 5, 5, 4, 0])
    batch = source.__getitems__(keys)
    assert type(batch) is list
    assert batch == [b"%d" % key for key in keys]


def test_batch_of_nothing_is_a_value_error(any_mode: Implementation, files) -> None:
    with pytest.raises(ValueError):
        any_mode.data_source(files[:2]).__getitems__([])


def test_batch_over_many_files(any_mode: Implementation, tmp_path) -> None:
    records = numbered(300)
    paths = [ORIGINAL.write(tmp_path / f"{n:02}", records[n * 5 : n * 5 + 5]) for n in range(60)]
    source = any_mode.data_source(paths)
    keys = np.random.default_rng(3).integers(0, 300, 2000)
    assert source.__getitems__(keys) == [records[key] for key in keys]
    assert [source[key] for key in keys[:500]] == [records[key] for key in keys[:500]]


def test_readers_open_when_needed_and_close_with_the_block(any_mode: Implementation, files) -> None:
    with any_mode.data_source(files[:2]) as source:
        assert source._readers == [None, None]
        assert source[7] == b"7"
        assert [reader is None for reader in source._readers] == [True, False]
        source.__getitems__([0, 9])
        assert None not in source._readers
    assert source._readers == [None, None]
    assert source[3] == b"3"
    with source as again:
        assert again is source
    assert source._readers == [None, None]


@pytest.mark.parametrize(
    "options", [{"readahead_buffer_size": "16M"}, {"blah": "1"}, {"max_parallelism": "x"}], ids=str
)
def test_wrong_reader_options_are_found_at_the_first_read(
    options, any_mode: Implementation, files
) -> None:
    source = any_mode.data_source(files[0], options)
    assert len(source) == 5
    for _ in range(2):
        with pytest.raises(ValueError):
            source[0]
    with pytest.raises(ValueError):
        source.__getitems__([0])


@pytest.mark.parametrize(
    "options",
    [
        None,
        {},
        {"max_parallelism": "0"},
        {"index_storage_option": "offloaded", "footer_prefetch_bytes": 0},
    ],
    ids=str,
)
def test_reader_options_change_no_record(options, any_mode: Implementation, files) -> None:
    assert list(any_mode.data_source(files[:2], reader_options=options)) == [
        b"%d" % key for key in range(10)
    ]


@pytest.mark.parametrize(
    "pickling", [pickle, cloudpickle, copy], ids=["pickle", "cloudpickle", "deepcopy"]
)
def test_copy_reads_the_same_records_and_leaves_the_readers(
    pickling, any_mode: Implementation, files
) -> None:
    source = any_mode.data_source([f"{files[0]}[1:4]", files[1]], {"max_parallelism": "0"})
    assert source[0] == b"1"
    twin = copy.deepcopy(source) if pickling is copy else pickling.loads(pickling.dumps(source))
    assert type(twin) is type(source)
    assert twin._readers == [None, None]
    assert repr(twin) == repr(source)
    assert list(twin) == list(source) == [b"1", b"2", b"3", b"5", b"6", b"7", b"8", b"9"]
    assert twin != source
    assert source == source


@pytest.mark.parametrize("form", FORMS)
def test_name_is_the_hash_of_the_paths(form, any_mode: Implementation, files) -> None:
    """Grain compares it when it restores a checkpoint."""
    paths = FORMS[form][0](*files)
    source = any_mode.data_source(paths)
    digest = hashlib.sha1("".join(source._paths).encode()).hexdigest()
    assert repr(source) == f"ArrayRecordDataSource(hash_of_paths={digest})"
    assert repr(source) == repr(ORIGINAL.data_source(paths))


def test_name_of_a_path_beyond_ascii(any_mode: Implementation, tmp_path) -> None:
    path = ORIGINAL.write(tmp_path / "größe", [b"a"])
    source = any_mode.data_source(path)
    assert repr(source) == repr(ORIGINAL.data_source(path))
    assert list(source) == [b"a"]


def test_file_of_larger_groups_logs_one_error_and_reads_right(
    any_mode: Implementation, tmp_path, caplog
) -> None:
    records = numbered(1000)
    path = ORIGINAL.write(tmp_path / "grouped", records, "group_size:256")
    source = any_mode.data_source([path, path])
    with caplog.at_level(logging.ERROR):
        assert [source[key] for key in (0, 999, 3, 500)] == [
            records[key] for key in (0, 999, 3, 500)
        ]
        assert source.__getitems__([5, 900]) == [records[5], records[900]]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert str(path) in caplog.text
    assert "group size 256" in caplog.text


def test_class_can_be_subclassed(any_mode: Implementation, files) -> None:
    base = any_mode.data_source
    base = getattr(base, "func", base)

    class Traced(base):
        def __init__(self, paths, reader_options=None) -> None:
            super().__init__(paths, reader_options)
            self.seen = []

        def __getitem__(self, key):
            self.seen.append(key)
            return super().__getitem__(key)

    source = Traced(files[:2])
    assert source[4] == b"4"
    assert list(source) == [b"%d" % key for key in range(10)]
    assert source.seen == [4, *range(10)]
