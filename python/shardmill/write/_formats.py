"""The formats of a writer and their options."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path, PurePath
from typing import Any, Literal

from shardmill._option_values import flag, whole
from shardmill._sizes import byte_count
from shardmill.errors import OptionError

WrittenFormat = Literal["arrayrecord", "parquet", "jsonl", "webdataset", "mds", "megatron", "bin"]

EXTENSIONS: dict[WrittenFormat, tuple[str, ...]] = {
    "arrayrecord": (".array_record", ".arrayrecord", ".arecord"),
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst"),
    "webdataset": (".tar", ".tar.gz", ".tgz", ".tar.zst"),
    "mds": (),
    "bin": (".bin",),
    # A `.bin` without `format=` has no index.
    "megatron": (".idx", ".bin"),
}
#: Extensions of files that ``shardmill.Dataset`` reads and that are not written by their name.
READ_EXTENSIONS = (".csv", ".orc", ".json", ".mds")
_ALIASES: dict[str, WrittenFormat] = {"array_record": "arrayrecord", "wds": "webdataset"}
_ARRAYRECORD_CODECS = ("zstd", "brotli", "snappy", "none", "uncompressed")
_PARQUET_CODECS = ("zstd", "snappy", "gzip", "brotli", "lz4", "none")
_STREAM_CODECS = ("gz", "zstd", "none")
_NAMES = ", ".join(map(repr, EXTENSIONS))
_SHARD_BYTES = 256 << 20
#: More than any pair has: by default, there is one.
_PAIR_BYTES = 2**63 - 1
#: Default shard size of MDS and ChiniDataset, and the maximum of an MDS shard.
_STREAMING_SHARD_BYTES, MDS_MOST_BYTES = 1 << 26, (1 << 32) - 1


def format_of(out: str, format: str | None) -> WrittenFormat:
    """Return the name of the format.

    It is ``format``, else that of the extension of ``out``; Parquet for a directory.

    Raises:
        ValueError: If the format or the extension is unknown.
    """
    if format is not None:
        for name in EXTENSIONS:
            if name == _ALIASES.get(format, format):
                _refuse_extension(out, name)
                return name
        raise OptionError(f"format must be one of {_NAMES}, not {format!r}")
    for name, extensions in EXTENSIONS.items():
        if extensions and out.lower().endswith(extensions):
            return name
    if not PurePath(out).suffix or out.endswith("/") or Path(out).is_dir():
        return "parquet"
    if out.lower().endswith(READ_EXTENSIONS):
        raise OptionError(
            f"{out!r} has an extension that can be read, but not written\n"
            "hint: use .parquet, .jsonl, .tar or .array_record for one file, "
            "or no extension for a directory of shards"
        )
    raise OptionError(
        f"the extension of {out!r} does not match a format\nhint: pass format=, one of {_NAMES}"
    )


def _refuse_extension(out: str, format: WrittenFormat) -> None:
    """Check that a directory of shards does not have the name of a file of another format."""
    others = (
        *(extension for extensions in EXTENSIONS.values() for extension in extensions),
        *READ_EXTENSIONS,
    )
    found = next((extension for extension in others if out.lower().endswith(extension)), None)
    if found is not None and not is_one_file(out, format):
        one = f"; one file ends in {EXTENSIONS[format][0]}" if EXTENSIONS[format] else ""
        raise OptionError(
            f"{out!r} has the file extension {found}, "
            f"but as {format} it would be a directory of shards\n"
            f"hint: omit the extension for a directory{one}"
        )


def is_one_file(out: str, format: WrittenFormat) -> bool:
    """Return whether ``out`` is a file rather than a directory of shards."""
    extensions = EXTENSIONS[format]
    return bool(extensions) and out.lower().endswith(extensions)


def native_options(
    format: WrittenFormat,
    *,
    out: str,
    compression: str | None,
    group_size: int | None,
    hashes: Sequence[str],
    encodings: Mapping[str, str] | None,
    size_limit: int | None,
    modified: float | None,
    page_checksums: bool = True,
    next_key: int = 0,
    tokens: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the format options for native code; ``tokens`` are those of token files.

    Raises:
        ValueError: If the format does not support an option.
    """
    if compression is not None and not isinstance(compression, str):
        raise OptionError(
            f'compression must be the name of a codec, such as "zstd", not {compression!r}'
        )
    if compression is not None and tokens:
        raise OptionError(f"compression is {compression!r}, but files of token ids have none")
    if group_size is not None and format != "arrayrecord":
        raise OptionError("group_size is only for ArrayRecord")
    if modified is not None and format != "webdataset":
        raise OptionError("modified is only for WebDataset")
    flag("page_checksums", page_checksums)
    if not page_checksums and format != "parquet":
        raise OptionError("page_checksums is only for Parquet")
    options: dict[str, Any] = {}
    if format == "mds":
        options = {
            "columns": None if encodings is None else list(encodings.items()),
            "size_limit": size_limit,
            "compression": None if compression == "none" else compression,
            "hashes": list(hashes),
        }
    elif format == "parquet":
        options["compression"] = _parquet_codec(compression)
        options["page_checksums"] = page_checksums
    elif tokens:
        options = dict(tokens)
    elif format == "arrayrecord":
        options["options"] = _record_options(compression, group_size)
    else:
        options["compression"] = _stream_codec(format, out, compression)
        if format == "webdataset":
            options["modified"] = _seconds(modified)
            options["first_key"] = next_key
    return {format: options}


def _seconds(modified: float | None) -> int:
    if modified is None:
        return int(time.time())
    if (
        isinstance(modified, bool)
        or not isinstance(modified, Real)
        or not 0 <= float(modified) < 8**11
    ):
        raise OptionError(f"modified must be a number of seconds since 1970, not {modified!r}")
    return int(modified)


def _parquet_codec(compression: str | None) -> str:
    codec = "zstd" if compression is None else compression
    if codec not in _PARQUET_CODECS:
        raise OptionError(
            f"compression of Parquet must be one of {', '.join(_PARQUET_CODECS)}, "
            f"not {compression!r}"
        )
    return codec


def _stream_codec(format: WrittenFormat, out: str, compression: str | None) -> str:
    name = out.lower()
    named = "gz" if name.endswith((".gz", ".tgz")) else "zstd" if name.endswith(".zst") else None
    codec = compression or named or "none"
    if codec.partition(":")[0] not in _STREAM_CODECS:
        raise OptionError(
            f"compression of {format} must be one of {', '.join(_STREAM_CODECS)}, "
            f"not {compression!r}"
        )
    if is_one_file(out, format) and (named or "none") != codec.partition(":")[0]:
        raise OptionError(
            f"compression is {codec!r}, but the name {out!r} implies {named or 'none'!r}\n"
            "hint: omit compression, or rename the file"
        )
    return codec


def _record_options(compression: str | None, group_size: int | None) -> str:
    codec, _, level = ("zstd" if compression is None else compression).partition(":")
    if codec not in _ARRAYRECORD_CODECS:
        names = ", ".join(_ARRAYRECORD_CODECS[:-1])
        raise OptionError(f"compression of ArrayRecord must be one of {names}, not {compression!r}")
    group_size = 1 if group_size is None else whole("group_size", group_size, 1)
    codec = "uncompressed" if codec == "none" else codec
    return f"group_size:{group_size},{codec}" + (f":{level}" if level else "")


def shard_limit(shard_bytes: int | str | None, format: WrittenFormat, *, is_streaming: bool) -> int:
    """Return the shard size in bytes; 0 means no limit, which only MDS supports.

    Args:
        shard_bytes: the size that was asked for.
        format: format of the shards.
        is_streaming: whether the default is that of MDS and ChiniDataset.

    Raises:
        ValueError: If it is not a valid size, or too large for the format.
    """
    if shard_bytes is None and format == "megatron":
        return _PAIR_BYTES
    if shard_bytes is None:
        return _STREAMING_SHARD_BYTES if is_streaming else _SHARD_BYTES
    if format == "mds" and shard_bytes == 0 and not isinstance(shard_bytes, bool):
        return 0
    limit = byte_count(shard_bytes, "shard_bytes")
    if format == "mds" and limit > MDS_MOST_BYTES:
        raise OptionError(f"shard_bytes of MDS must be below 4 GiB, not {shard_bytes!r}")
    return limit
