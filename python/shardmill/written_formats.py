"""The formats that a writer knows, and what they can be told."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from shardmill.errors import OptionError

EXTENSIONS = {
    "arrayrecord": (".array_record", ".arrayrecord", ".arecord"),
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".jsonl.zst"),
    "webdataset": (".tar", ".tar.gz", ".tgz", ".tar.zst"),
    "mds": (),
}
_ALIASES = {"array_record": "arrayrecord", "wds": "webdataset"}
_ARRAYRECORD_CODECS = ("zstd", "brotli", "snappy", "none", "uncompressed")
_PARQUET_CODECS = ("zstd", "snappy", "none")
_STREAM_CODECS = ("gz", "zstd", "none")
_NAMES = ", ".join(map(repr, EXTENSIONS))


def format_of(out: str, format: str | None) -> str:
    """The name of the format: ``format``, or what the extension of ``out`` tells.

    Raises:
        ValueError: when neither does.
    """
    if format is not None:
        name = _ALIASES.get(format, format)
        if name not in EXTENSIONS:
            raise OptionError(f"format is one of {_NAMES}, not {format!r}")
        return name
    for name, extensions in EXTENSIONS.items():
        if extensions and out.lower().endswith(extensions):
            return name
    raise OptionError(f"the name {out!r} does not tell a format\nhint: give format=, one of {_NAMES}")


def is_one_file(out: str, format: str) -> bool:
    """Whether ``out`` is the name of a file rather than of a folder of shards."""
    extensions = EXTENSIONS[format]
    return bool(extensions) and out.lower().endswith(extensions)


def native_options(
    format: str,
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
) -> str:
    """What native code wants to know of the format, as JSON.

    Raises:
        ValueError: for what the format does not have.
    """
    if group_size is not None and format != "arrayrecord":
        raise OptionError("group_size is for ArrayRecord")
    if modified is not None and format != "webdataset":
        raise OptionError("modified is for WebDataset")
    if not isinstance(page_checksums, bool):
        raise OptionError(f"page_checksums is True or False, not {page_checksums!r}")
    if not page_checksums and format != "parquet":
        raise OptionError("page_checksums is for Parquet")
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
    elif format == "arrayrecord":
        options["options"] = _record_options(compression, group_size)
    else:
        options["compression"] = _stream_codec(format, out, compression)
        if format == "webdataset":
            options["modified"] = _seconds(modified)
            options["first_key"] = next_key
    return json.dumps({format: options})


def _seconds(modified: float | None) -> int:
    if modified is None:
        return int(time.time())
    if isinstance(modified, bool) or not isinstance(modified, int | float) or not 0 <= modified < 8**11:
        raise OptionError(f"modified is a number of seconds since 1970, not {modified!r}")
    return int(modified)


def _parquet_codec(compression: str | None) -> str:
    codec = "zstd" if compression is None else compression
    if codec not in _PARQUET_CODECS:
        raise OptionError(f"compression of Parquet is one of {', '.join(_PARQUET_CODECS)}, not {compression!r}")
    return codec


def _stream_codec(format: str, out: str, compression: str | None) -> str:
    named = "gz" if out.endswith((".gz", ".tgz")) else "zstd" if out.endswith(".zst") else None
    codec = compression or named or "none"
    if codec.partition(":")[0] not in _STREAM_CODECS:
        raise OptionError(f"compression of {format} is one of {', '.join(_STREAM_CODECS)}, not {compression!r}")
    if is_one_file(out, format) and (named or "none") != codec.partition(":")[0]:
        raise OptionError(
            f"compression is {codec!r}, and the name {out!r} says {named or 'none'!r}\nhint: leave compression out, or rename"
        )
    return codec


def _record_options(compression: str | None, group_size: int | None) -> str:
    codec, _, level = ("zstd" if compression is None else compression).partition(":")
    if codec not in _ARRAYRECORD_CODECS:
        names = ", ".join(_ARRAYRECORD_CODECS[:-1])
        raise OptionError(f"compression of ArrayRecord is one of {names}, not {compression!r}")
    if group_size is not None and (isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 1):
        raise OptionError(f"group_size is a whole number from 1 on, not {group_size!r}")
    codec = "uncompressed" if codec == "none" else codec
    return f"group_size:{group_size or 1},{codec}" + (f":{level}" if level else "")
