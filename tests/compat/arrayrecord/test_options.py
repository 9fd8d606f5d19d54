"""Option strings: what is taken, what is refused at once, and what a file records of them."""

import pytest
from breadth import in_one
from implementations import ORIGINAL, Implementation

START = "group_size:{},transpose:false,pad_to_block_boundary:false,"
PLAIN = START.format(1)
ZSTD = "zstd:3,window_log:20,max_parallelism:1"
RECORDED = {
    "": PLAIN + ZSTD,
    "default": PLAIN + ZSTD,
    "default:x": PLAIN + ZSTD,
    "default,group_size:2": START.format(2) + ZSTD,
    ",,": PLAIN + ZSTD,
    ",group_size:2,": START.format(2) + ZSTD,
    "group_size:2147483647": START.format(2147483647) + ZSTD,
    "group_size:+7": START.format(7) + ZSTD,
    "group_size:7 ": START.format(7) + ZSTD,
    "group_size:\t007": START.format(7) + ZSTD,
    "group_size: 7": START.format(7) + ZSTD,
    "uncompressed": PLAIN + "uncompressed,max_parallelism:1",
    "zstd": PLAIN + ZSTD,
    "zstd:": PLAIN + ZSTD,
    "uncompressed:": PLAIN + "uncompressed,max_parallelism:1",
    "snappy:": PLAIN + "snappy,max_parallelism:1",
    "zstd:+5": PLAIN + "zstd:5,window_log:20,max_parallelism:1",
    "zstd: 5": PLAIN + "zstd:5,window_log:20,max_parallelism:1",
    "zstd:0": PLAIN + "zstd:0,window_log:20,max_parallelism:1",
    "zstd:22": PLAIN + "zstd:22,window_log:20,max_parallelism:1",
    "zstd:-131072": PLAIN + "zstd:-131072,window_log:20,max_parallelism:1",
    "zstd,window_log:10": PLAIN + "zstd:3,window_log:10,max_parallelism:1",
    "zstd,window_log:31": PLAIN + "zstd:3,window_log:31,max_parallelism:1",
    "window_log:auto": PLAIN + ZSTD,
    "window_log:24,zstd:1": PLAIN + "zstd:1,window_log:24,max_parallelism:1",
    "brotli": PLAIN + "brotli:6,max_parallelism:1",
    "brotli:0": PLAIN + "brotli:0,max_parallelism:1",
    "brotli:11": PLAIN + "brotli:11,max_parallelism:1",
    "brotli,window_log:auto": PLAIN + "brotli:6,max_parallelism:1",
    "brotli,window_log:10": PLAIN + "brotli:6,window_log:10,max_parallelism:1",
    "brotli,window_log:30": PLAIN + "brotli:6,window_log:30,max_parallelism:1",
    "snappy": PLAIN + "snappy,max_parallelism:1",
    "snappy:1": PLAIN + "snappy,max_parallelism:1",
    "snappy:2": PLAIN + "snappy,max_parallelism:1",
    "pad_to_block_boundary": PLAIN + ZSTD,
    "pad_to_block_boundary:": PLAIN + ZSTD,
    "pad_to_block_boundary:false": PLAIN + ZSTD,
    "pad_to_block_boundary:true": "group_size:1,transpose:false,pad_to_block_boundary:true," + ZSTD,
    "transpose:false": PLAIN + ZSTD,
    "transpose:false,transpose_bucket_size:8": PLAIN + ZSTD,
    "transpose": (
        "group_size:1,transpose:true,pad_to_block_boundary:false,transpose_bucket_size:256," + ZSTD
    ),
    "transpose:": (
        "group_size:1,transpose:true,pad_to_block_boundary:false,transpose_bucket_size:256," + ZSTD
    ),
    "transpose:true,transpose_bucket_size:1": (
        "group_size:1,transpose:true,pad_to_block_boundary:false,transpose_bucket_size:1," + ZSTD
    ),
    "transpose,transpose_bucket_size:auto": (
        "group_size:1,transpose:true,pad_to_block_boundary:false,transpose_bucket_size:256," + ZSTD
    ),
    "transpose,transpose_bucket_size:4K": (
        "group_size:1,transpose:true,pad_to_block_boundary:false,transpose_bucket_size:4096," + ZSTD
    ),
    "max_parallelism:8": PLAIN + ZSTD,
    "max_parallelism:auto": PLAIN + ZSTD,
    "max_parallelism:2147483647": PLAIN + ZSTD,
    "saturation_delay_ms:1": PLAIN + ZSTD,
    "saturation_delay_ms:2147483647": PLAIN + ZSTD,
    "snappy,transpose:true,pad_to_block_boundary:true,group_size:3": (
        "group_size:3,transpose:true,pad_to_block_boundary:true,transpose_bucket_size:256,"
        "snappy,max_parallelism:1"
    ),
}
WRONG_FOR_THE_WRITER = [
    "no_such", "no_such:1", "Group_size:2", "GROUP_SIZE:2", " group_size:2",
    "uncompressed, group_size:2", "group_size=2",
    "group_size", "group_size:", "group_size:0", "group_size:-1", "group_size:2147483648",
    "group_size:x", "group_size:1.5", "group_size:0x10", "group_size:++2", "group_size:+ 2",
    "group_size:1_000", "group_size:2:3", "group_size:1,group_size:1", "group_size:1K",
    "group_size:auto",
    "uncompressed:1", "uncompressed:true", "uncompressed,window_log:20", "uncompressed,zstd",
    "zstd,brotli", "brotli,snappy", "zstd,zstd", "zstd:3,zstd:3", "uncompressed,uncompressed",
    "brotli:12", "brotli:-1", "brotli:x",
    "zstd:23", "zstd:-131073", "zstd:x", "zstd:1.5", "zstd:auto",
    "snappy:0", "snappy:3", "snappy:x", "snappy,window_log:20",
    "window_log:9", "window_log:32", "brotli,window_log:9", "brotli,window_log:31",
    "zstd,window_log:9", "zstd,window_log:32",
    "window_log:x", "window_log", "window_log:", "window_log:auto,window_log:auto",
    "pad_to_block_boundary:1", "pad_to_block_boundary:True", "pad_to_block_boundary:yes",
    "pad_to_block_boundary:auto",
    "transpose:1", "transpose:TRUE", "transpose:no", "transpose,transpose",
    "transpose_bucket_size:0", "transpose_bucket_size:-1", "transpose_bucket_size:x",
    "transpose_bucket_size", "transpose_bucket_size:", "transpose_bucket_size:0.0001",
    "transpose_bucket_size:1KB", "transpose_bucket_size:1g", "transpose_bucket_size:K",
    "transpose: true", "transpose:true ", "pad_to_block_boundary: true", "window_log:auto ",
    "group_size :2",
    "max_parallelism:0", "max_parallelism:-1", "max_parallelism:x", "max_parallelism:2147483648",
    "max_parallelism",
    "saturation_delay_ms:0", "saturation_delay_ms:-1", "saturation_delay_ms:x",
    "saturation_delay_ms", "saturation_delay_ms:2147483648", "saturation_delay_ms:auto",
    "group_size:2,default", "default,default",
    "readahead_buffer_size:0", "index_storage_option:in_memory", "blah",
]  # fmt: skip
RIGHT_FOR_THE_READER = [
    "", ",", ",,max_parallelism:0,", "max_parallelism:auto", "max_parallelism:1",
    "max_parallelism:2147483647", "max_parallelism: 3", "max_parallelism:+3",
    "readahead_buffer_size:auto", "readahead_buffer_size:0", "readahead_buffer_size:1",
    "readahead_buffer_size:16M", "readahead_buffer_size:1G", "readahead_buffer_size:1073741824",
    "readahead_buffer_size:64K", "readahead_buffer_size:1.5M", "readahead_buffer_size:64k",
    "readahead_buffer_size:1024M", "readahead_buffer_size: 16M", "readahead_buffer_size:16 M",
    "readahead_buffer_size:1073741824.4", "readahead_buffer_size:1e3", "readahead_buffer_size:64B",
    "readahead_buffer_size:0.9G", "max_parallelism:1 ",
    "index_storage_option:offloaded,footer_prefetch_bytes:0K",
    "readahead_buffer_size:0,max_parallelism:0",
    "index_storage_option", "index_storage_option:", "index_storage_option:in_memory",
    "index_storage_option:offloaded,footer_prefetch_bytes:0",
    "footer_prefetch_bytes:0,index_storage_option:offloaded",
    "footer_prefetch_bytes:auto", "footer_prefetch_bytes:0", "footer_prefetch_bytes:1G",
    "footer_prefetch_bytes:512K", "index_storage_option:in_memory,footer_prefetch_bytes:2M",
]  # fmt: skip
WRONG_FOR_THE_READER = [
    "blah", "blah:1", "Max_parallelism:1", " max_parallelism:1",
    "max_parallelism:0, readahead_buffer_size:0",
    "readahead_buffer_size=0", "readahead_buffer_size:-1", "readahead_buffer_size:x",
    "readahead_buffer_size", "readahead_buffer_size:", "readahead_buffer_size:1073741825",
    "readahead_buffer_size:2G", "readahead_buffer_size:1025M", "readahead_buffer_size:16m",
    "readahead_buffer_size:16MB", "readahead_buffer_size:16M ",
    "readahead_buffer_size:1073741824.5", "readahead_buffer_size:0,readahead_buffer_size:0",
    "max_parallelism:-1", "max_parallelism:x", "max_parallelism", "max_parallelism:2147483648",
    "max_parallelism:1,max_parallelism:1",
    "index_storage_option:disk", "index_storage_option:Offloaded", "index_storage_option:offloaded",
    "index_storage_option:offloaded,footer_prefetch_bytes:1",
    "index_storage_option:offloaded,footer_prefetch_bytes:auto",
    "footer_prefetch_bytes:-1", "footer_prefetch_bytes:x", "footer_prefetch_bytes",
    "footer_prefetch_bytes:2G", "footer_prefetch_bytes:1073741825",
    "group_size:1", "zstd", "default",
]  # fmt: skip


@in_one("options", RECORDED)
def test_file_records_its_options(options, any_mode: Implementation, tmp_path) -> None:
    path = any_mode.write(tmp_path / "file", [b"a", b"bc", b""], options)
    for reader in (any_mode.reader(str(path)), ORIGINAL.reader(str(path))):
        assert reader.writer_options_string() == RECORDED[options]
        assert reader.read_all() == [b"a", b"bc", b""]


@in_one(
    "size, recorded",
    [
        ("1B", 1), ("1k", 1024), ("1.5K", 1536), ("1 K", 1024), (".5K", 512), ("1.K", 1024),
        ("0.4K", 410), ("+4", 4), (" 4", 4), ("1 ", 1), ("0.5", 1), ("1.4", 1), ("2.5", 3),
        ("1e3", 1000), ("1M", 2**20), ("1G", 2**30), ("1T", 2**40), ("1P", 2**50), ("1E", 2**60),
        ("15E", 15 * 2**60), ("16E", 2**64 - 1), ("18446744073709551616", 2**64 - 1),
        ("9223372036854775808", 2**63),
    ],
)  # fmt: skip
def test_byte_size_is_a_real_number_with_a_suffix(
    size, recorded, any_mode: Implementation, tmp_path
) -> None:
    path = any_mode.write(tmp_path / "file", [b"a"], f"transpose,transpose_bucket_size:{size}")
    assert (
        f",transpose_bucket_size:{recorded}," in any_mode.reader(str(path)).writer_options_string()
    )


@in_one("options", WRONG_FOR_THE_WRITER, ids=repr)
def test_wrong_option_of_the_writer_is_a_value_error_and_makes_no_file(
    options, any_mode: Implementation, tmp_path
) -> None:
    with pytest.raises(ValueError):
        any_mode.writer(str(tmp_path / "file"), options)
    assert list(tmp_path.iterdir()) == []


@in_one("options", RIGHT_FOR_THE_READER, ids=repr)
def test_right_option_of_the_reader_is_taken(options, any_mode: Implementation, file_of) -> None:
    reader = any_mode.reader(str(file_of([b"a", b"b", b"c"], "group_size:2")), options)
    assert reader.read() == b"a"
    assert reader.read_all() == [b"a", b"b", b"c"]
    assert reader.read([2, 1]) == [b"c", b"b"]


@in_one("options", WRONG_FOR_THE_READER, ids=repr)
def test_wrong_option_of_the_reader_is_a_value_error(
    options, any_mode: Implementation, file_of, tmp_path
) -> None:
    with pytest.raises(ValueError):
        any_mode.reader(str(file_of([b"a"])), options)


def test_wrong_option_is_found_before_the_missing_file(any_mode: Implementation, tmp_path) -> None:
    with pytest.raises(ValueError):
        any_mode.reader(str(tmp_path / "missing"), "blah")
    with pytest.raises(ValueError):
        any_mode.writer(str(tmp_path / "missing" / "file"), "blah")


def test_message_of_a_wrong_option_names_it(any_mode: Implementation, file_of, tmp_path) -> None:
    with pytest.raises(ValueError, match="blah"):
        any_mode.reader(str(file_of([b"a"])), "blah:1")
    with pytest.raises(ValueError, match="group_size"):
        any_mode.writer(str(tmp_path / "file"), "group_size:x")
