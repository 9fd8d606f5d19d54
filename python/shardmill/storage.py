"""How object stores are reached: endpoints, credentials, limits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from shardmill._native import storage as _native
from shardmill.errors import OptionError
from shardmill.file_systems import is_file_system, options_of_file_system
from shardmill.storage_options import StorageOptions, cache_path, texts_of
from shardmill.store_objects import is_store, options_of_store

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]


def configure(path: PathLike, storage_options: Any) -> None:
    """Options for everything that is opened below the bucket of ``path`` in this process, from now on.

    What takes ``storage_options`` calls this itself. Files that are open keep what they were opened with.

    Args:
        path: any path in the bucket, such as ``"s3://bucket"``.
        storage_options: what `object_store <https://docs.rs/object_store>`_ calls its settings, e.g. ``endpoint``, ``region``,
            ``access_key_id``, ``secret_access_key``, ``session_token``, ``skip_signature`` (public buckets), ``account_name``,
            ``account_key``, ``service_account``; and what fsspec calls them (``key``, ``secret``, ``token``, ``endpoint_url``,
            ``anon``, ``profile``). Ours are ``max_requests`` at once (64), ``request_timeout`` (15 s without a byte) and
            ``retry_timeout`` (180 s for one read with its repetitions), and ``cache_dir``, a folder of this machine that keeps what was
            fetched for all of its processes, up to ``cache_bytes`` (64 GiB); the environment variable ``SHARDMILL_CACHE_DIR`` names it too.
            Of ``hf://`` they are ``token`` and ``endpoint``.
            In place of a mapping, a store of obstore (``S3Store``, ``GCSStore``, ``AzureStore``, ``HTTPStore``) whose bucket is that of the
            path: what it is made of is taken over, its ``credential_provider`` included, which is called again before its keys end.
            Or a file system of fsspec: settings of those whose scheme is served here are taken over; any other one serves its own scheme in
            this process, read only, and slowly, since each read calls it.

    Raises:
        OSError: for an option that the store does not know, or a path that is local.
        ValueError: for a store or a file system that does not serve the path.

    Example:
        >>> import shardmill as sm
        >>> sm.storage.configure("s3://bucket", {"region": "eu-central-1", "skip_signature": True})
    """
    plain = os.fspath(path)
    options = storage_options_of(plain, storage_options)
    _native.configure(plain, options.texts, options.credentials, options.files)


def storage_options_of(path: str, given: Any) -> StorageOptions:
    """The options that ``given`` stands for at ``path``.

    Raises:
        ValueError: when it is something else, or belongs to another bucket.
    """
    if isinstance(given, Mapping):
        return StorageOptions(texts_of(given))
    if is_store(given):
        return options_of_store(path, given)
    if is_file_system(given):
        return options_of_file_system(path, given)
    raise OptionError(
        f"storage_options is a mapping, a store of obstore or a file system of fsspec, not {type(given).__name__}"
    )


def configure_all(paths: Sequence[str], storage_options: Any) -> dict[str, str] | None:
    """:func:`configure` for the remote ones of ``paths``.

    Returns:
        The options that may be stored or sent: none of them is a secret.

    Raises:
        ValueError: if there are options and all paths are local, or if a path holds credentials.
    """
    refuse_keys(paths)
    if storage_options is None or storage_options == {}:
        return None
    remote = [path for path in paths if not _native.is_local(path)]
    if not remote:
        raise OptionError("storage_options are for object stores; these paths are local")
    for path in remote:
        configure(path, storage_options)
    return shown(paths, storage_options)


def refuse_keys(paths: Sequence[str]) -> None:
    """Refuses paths that hold credentials: paths are stored and sent to other processes.

    Raises:
        ValueError: for a URL with a password, a token or a signature.
    """
    for path in paths:
        if _native.has_keys(path):
            raise OptionError(
                f"a path must not contain keys, tokens or signatures: {path}"
                "\nhint: pass credentials in storage_options or the environment, or download the file"
            )


def still_needed(paths: Sequence[str], shown_options: dict[str, str] | None) -> dict[str, str] | None:
    """Of options that came without secrets, those that this process has not: what it has may hold keys."""
    remote = [path for path in paths if not _native.is_local(path)]
    if shown_options and all(_native.is_reached_with(path, shown_options) for path in remote):
        return None
    return shown_options


def shown(paths: Sequence[str], storage_options: Any) -> dict[str, str] | None:
    """The options that may be stored or sent to another process: none of them is a secret, nor an object that holds one."""
    if not storage_options:
        return None
    texts = {}
    for path in paths:
        texts.update({} if _native.is_local(path) else storage_options_of(path, storage_options).texts)
    return _native.without_secrets(texts)


def pinned(paths: Sequence[str], shown_options: dict[str, str] | None) -> dict[str, str] | None:
    """Options that may be sent, with the commits that are read of data sets of the Hub: another process is to read the same ones."""
    revisions = " ".join(f"{root}={commit}" for root, commit in _native.pinned_revisions(list(paths)))
    return {**(shown_options or {}), "revisions": revisions} if revisions else shown_options


def path_of(path: PathLike) -> str:
    """A path as a string; for a file URL (``file:/abs``, ``file:///abs``, ``file://localhost/abs``), its local path.

    Raises:
        ValueError: for a file URL of another host, or without an absolute path.
    """
    text = os.fspath(path)
    return _native.resolved_path(text) if _native.is_local(text) else text


def served_path(path: PathLike) -> str:
    """As :func:`path_of`, and checks that a store serves the path.

    Raises:
        ValueError: for a scheme that no store serves.
    """
    return _native.resolved_path(os.fspath(path))


def path_list(paths: Paths) -> list[str]:
    """One path or several as a list of strings."""
    if isinstance(paths, str | os.PathLike):
        return [path_of(paths)]
    return [path_of(path) for path in paths]


def absolute(path: PathLike) -> str:
    """A local path from the root on, with its links; URLs stay."""
    plain = path_of(path)
    return plain if not _native.is_local(plain) else os.path.abspath(plain)  # noqa: PTH100 - links stay


def real(path: PathLike) -> str:
    """The one name of a local path, without links; of a remote one, the path without a slash at its end."""
    plain = served_path(path)
    return plain.rstrip("/") if is_remote(plain) else os.path.realpath(plain)


def is_remote(path: PathLike) -> bool:
    """Whether ``path`` is served over a network.

    Example:
        >>> import shardmill as sm
        >>> sm.storage.is_remote("s3://bucket/train"), sm.storage.is_remote("train/")
        (True, False)
    """
    return _native.is_remote(os.fspath(path))


def request_counts(path: PathLike) -> dict[str, int]:
    """Requests of this process to the bucket of ``path``: ``requests``, those ``hedged`` (asked twice), and ``bytes`` received."""
    return _native.request_counts(os.fspath(path)) or {"requests": 0, "hedged": 0, "bytes": 0}


def cache_folder(folder: PathLike | None = None) -> str:
    """The cache folder that is meant: the one named, or that of ``SHARDMILL_CACHE_DIR``.

    Raises:
        ValueError: when there is neither.
    """
    named = os.environ.get("SHARDMILL_CACHE_DIR") if folder is None else folder
    if not named:
        raise OptionError("no cache folder is named\nhint: give one, or set SHARDMILL_CACHE_DIR")
    return cache_path(named)


def cache_entries(folder: PathLike | None = None) -> list[tuple[str, int, int, float]]:
    """What a cache folder holds, the latest used first.

    Returns:
        Of each object its path, its bytes on the disk, its whole size, and when it was used, in seconds since 1970.
    """
    return _native.cache_entries(cache_folder(folder))


def clear_cache(folder: PathLike | None = None) -> int:
    """Empties a cache folder; gives the bytes that were there. Processes that read from it go on, and fetch what they need."""
    return _native.clear_cache(cache_folder(folder))
