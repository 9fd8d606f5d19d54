"""Access to fsspec file systems, by their settings or by calling them.

Settings of natively supported schemes are translated; others are read by calling the file system.
This is slow: each read waits for the GIL and usually for one request.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from shardmill._native import storage as _native
from shardmill._native.storage import is_local
from shardmill.errors import OptionError
from shardmill.storage._options import StorageOptions, texts_of

_LOCAL = ("file", "local")
_S3 = {
    "key": "access_key_id",
    "username": "access_key_id",
    "secret": "secret_access_key",
    "password": "secret_access_key",
    "token": "session_token",
    "endpoint_url": "endpoint",
    "anon": "skip_signature",
    "profile": "profile",
    "requester_pays": "request_payer",
    "region_name": "region",
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
_AZURE = {
    "account_name": "account_name",
    "account_key": "account_key",
    "sas_token": "sas_token",
    "client_id": "client_id",
    "client_secret": "client_secret",
    "tenant_id": "tenant_id",
    "anon": "skip_signature",
}
#: Settings that would be needed but cannot be translated.
_UNABLE = {
    "s3": ("session",),
    "az": ("connection_string", "credential"),
    "http": ("get_client", "client_kwargs", "headers"),
}
#: Settings of the location, which are not secrets.
_PLAIN = (
    "account_name",
    "addressing_style",
    "branch",
    "cache_storage",
    "endpoint",
    "endpoint_url",
    "fo",
    "host",
    "path",
    "profile",
    "project",
    "protocol",
    "ref",
    "region",
    "region_name",
    "repo",
    "repo_id",
    "revision",
    "target_protocol",
    "url",
)
#: Keys in a listing entry that identify the version, the most reliable first.
_MARKS = (
    "ETag",
    "etag",
    "md5Hash",
    "content_md5",
    "checksum",
    "CRC",
    "mtime",
    "LastModified",
    "last_modified",
    "modified",
    "created",
)


def is_file_system(given: Any) -> bool:
    """Return whether it is an fsspec file system, without importing fsspec."""
    module = sys.modules.get("fsspec.spec")
    return module is not None and isinstance(given, module.AbstractFileSystem)


def listed_paths(given: Any) -> list[Any]:
    """Return one path or several as a list.

    Raises:
        ValueError: If one is neither a path nor a file system.
    """
    is_one = isinstance(given, str | bytes) or is_file_system(given)
    paths = [given] if is_one or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(path, str | os.PathLike) or is_file_system(path) for path in paths):
        raise OptionError(f"the path must be a string, a Path, or a list of these, not {given!r}")
    return paths


def located(paths: list[Any], given: Any) -> tuple[list[Any], Any]:
    """Return the paths with their schemes, and their options.

    A path may be a file system, which means all files in it. Paths without a scheme are in the file
    system that is given as options.
    """
    systems = [path for path in paths if is_file_system(path)]
    if systems:
        others = {id(system) for system in systems} | ({id(given)} if given is not None else set())
        if len(others) > 1:
            raise OptionError(
                "only one file system can be used at a time\n"
                "hint: pass it as storage_options, and its files as paths"
            )
        given = systems[0]
    if not is_file_system(given):
        return paths, given
    scheme = _schemes(given)[0]
    whole = ["" if is_file_system(path) else os.fspath(path) for path in paths]
    if scheme in _LOCAL:
        return whole, None
    return [path if not is_local(path) else f"{scheme}://{path}" for path in whole], given


def options_of_file_system(path: str, system: Any) -> StorageOptions:
    """Return options that read the same data as ``system``.

    Raises:
        ValueError: If it does not serve the path, or has settings that cannot be translated.
    """
    schemes, scheme = _schemes(system), urlsplit(path).scheme
    if scheme not in schemes:
        raise OptionError(
            f"{path!r} is not a path of {type(system).__name__}, which serves {schemes[0]}://"
        )
    settings = dict(system.storage_options)
    # Its exceptions may quote the settings.
    _native.hide([*_texts(settings), *_texts(list(system.storage_args))])
    for kind, served, translate in _OURS:
        if scheme in served:
            if system.storage_args or any(settings.get(name) for name in _UNABLE.get(kind, ())):
                raise OptionError(
                    f"the settings of this {type(system).__name__} cannot be translated"
                    "\nhint: pass storage_options as a mapping, see sm.storage.configure"
                )
            return StorageOptions(texts_of(translate(settings)))
    return StorageOptions({}, files=Files(system))


def _texts(settings: Any) -> Iterator[str]:
    """Yield all strings of nested settings.

    Any of them may be a secret; only the file system knows.
    """
    if isinstance(settings, str):
        yield settings
    elif isinstance(settings, bytes):
        yield settings.decode(errors="replace")
    elif isinstance(settings, Mapping):
        for name, value in settings.items():
            if name not in _PLAIN:
                yield from _texts(value)
    elif isinstance(settings, list | tuple | set):
        for value in settings:
            yield from _texts(value)


def _schemes(system: Any) -> tuple[str, ...]:
    protocol = system.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _renamed(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        names[name]: value
        for name, value in settings.items()
        if name in names and value not in (None, "")
    }


def _s3(settings: Mapping[str, Any]) -> dict[str, Any]:
    options = {**_renamed(settings.get("client_kwargs") or {}, _S3), **_renamed(settings, _S3)}
    style = ((settings.get("config_kwargs") or {}).get("s3") or {}).get("addressing_style")
    if style == "virtual":
        options["virtual_hosted_style_request"] = True
    if str(options.get("endpoint", "")).startswith("http://"):
        options["allow_http"] = True
    return options


def _gcs(settings: Mapping[str, Any]) -> dict[str, Any]:
    token = settings.get("token")
    if token in (None, "google_default", "cloud", "cache"):
        return {}
    if token == "anon":
        return {"skip_signature": True}
    if isinstance(token, str):
        return {"service_account": token}
    if isinstance(token, dict) and token.get("type") == "service_account":
        return {"service_account_key": json.dumps(token)}
    raise OptionError(
        "the token of this GCSFileSystem cannot be translated\n"
        "hint: pass the path of a key file as service_account"
    )


def _hub(settings: Mapping[str, Any]) -> dict[str, Any]:
    token = settings.get("token")
    named = (
        {"skip_signature": True}
        if token is False
        else {"token": token if isinstance(token, str) else None}
    )
    return {**named, "endpoint": settings.get("endpoint")}


_OURS = (
    ("s3", ("s3", "s3a"), _s3),
    ("gs", ("gs", "gcs"), _gcs),
    ("az", ("az", "azure", "adl", "abfs", "abfss"), partial(_renamed, names=_AZURE)),
    ("hf", ("hf",), _hub),
    ("http", ("http", "https"), partial(_renamed, names={})),
)


class Files:
    """A file system as called by native code.

    Names are returned with their scheme, as they were passed.
    """

    def __init__(self, system: Any) -> None:
        self._system = system
        #: Identifies the file system.
        self.identity = id(system)

    def info(self, path: str) -> tuple[str, int, str | None] | None:
        """Return path, size and version of a file; ``None`` if it is not a file."""
        try:
            entry = self._system.info(path)
        except FileNotFoundError:
            return None
        return None if entry.get("type") == "directory" else _file(path, entry)

    def find(self, path: str) -> list[tuple[str, int, str | None]]:
        """Return ``info`` of all files at or below a path."""
        root = self._system._strip_protocol(path).strip("/")
        found = self._system.find(path, detail=True)
        return [
            _file(_below(path, root, name), entry)
            for name, entry in found.items()
            if entry.get("type") != "directory"
        ]

    def read(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``."""
        return bytes(self._system.cat_file(path, start=start, end=end))


def _below(path: str, root: str, name: str) -> str:
    plain = name.strip("/")
    if plain == root:
        return path
    tail = plain.removeprefix(f"{root}/") if root else plain
    return f"{path}{tail}" if path.endswith("/") else f"{path}/{tail}"


def _file(path: str, entry: Mapping[str, Any]) -> tuple[str, int, str | None]:
    size = entry.get("size")
    if size is None:
        raise ValueError(f"the file system does not report the size of {path!r}")
    mark = next((entry[name] for name in _MARKS if entry.get(name) is not None), None)
    return (
        path,
        int(size),
        None if mark is None else str(mark.timestamp() if isinstance(mark, datetime) else mark),
    )
