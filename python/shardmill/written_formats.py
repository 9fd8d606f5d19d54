"""The formats that a writer knows, and what they can be told."""

from __future__ import annotations

from shardmill.errors import OptionError

EXTENSIONS = {
    "arrayrecord": (".array_record", ".arrayrecord", ".arecord"),
    "parquet": (".parquet", ".pq"),
}
_ARRAYRECORD_CODECS = ("zstd", "brotli", "snappy", "none", "uncompressed")
_PARQUET_CODECS = ("zstd", "snappy", "none")


def format_of(out: str, format: str | None) -> str:
    """The name of the format: ``format``, or what the extension of ``out`` tells.

    Raises:
        ValueError: when neither does.
    """
    if format is not None:
        name = {"array_record": "arrayrecord"}.get(format, format)
        if name not in EXTENSIONS:
            raise OptionError(f"format is 'arrayrecord' or 'parquet', not {format!r}")
        return name
    for name, extensions in EXTENSIONS.items():
        if out.lower().endswith(extensions):
            return name
    raise OptionError(f"the name {out!r} does not tell a format\nhint: give format='arrayrecord' or format='parquet'")


def writer_options(format: str, compression: str | None, group_size: int | None) -> str:
    """What native code wants to know: the option string of ArrayRecord, or the codec of Parquet.

    Raises:
        ValueError: for what the format does not have.
    """
    codec, _, level = ("zstd" if compression is None else compression).partition(":")
    if format == "parquet":
        if group_size is not None:
            raise OptionError("group_size is for ArrayRecord")
        if codec not in _PARQUET_CODECS or level:
            raise OptionError(f"compression of Parquet is one of {', '.join(_PARQUET_CODECS)}, not {compression!r}")
        return codec
    if codec not in _ARRAYRECORD_CODECS:
        names = ", ".join(_ARRAYRECORD_CODECS[:-1])
        raise OptionError(f"compression of ArrayRecord is one of {names}, not {compression!r}")
    if group_size is not None and (isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 1):
        raise OptionError(f"group_size is a whole number from 1 on, not {group_size!r}")
    codec = "uncompressed" if codec == "none" else codec
    return f"group_size:{group_size or 1},{codec}" + (f":{level}" if level else "")
