"""Configuration of object stores: endpoints, credentials, limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shardmill._native import storage as _native
from shardmill.errors import OptionError
from shardmill.metrics._snapshot import StorageMetrics
from shardmill.storage._fsspec import is_file_system, options_of_file_system
from shardmill.storage._obstore import is_store, options_of_store
from shardmill.storage._options import StorageOptions, texts_of
from shardmill.storage._paths import PathLike, text_of

#: Options that ``configure`` documents. Stores accept further ones.
_NAMES = (
    "access_key_id",
    "account_key",
    "account_name",
    "anon",
    "cache_bytes",
    "cache_dir",
    "endpoint",
    "endpoint_url",
    "key",
    "max_requests",
    "profile",
    "region",
    "request_timeout",
    "retry_timeout",
    "secret",
    "secret_access_key",
    "service_account",
    "session_token",
    "skip_signature",
    "token",
)


def configure(path: PathLike, storage_options: Any) -> None:
    """Set the options for everything this process opens below the bucket of ``path`` from now on.

    Functions with a ``storage_options`` argument call this themselves. Open files keep their
    options.

    Args:
        path: any path in the bucket, such as ``"s3://bucket"``.
        storage_options: a mapping, a store of obstore, or an fsspec file system. The keys of a
            mapping are the settings of `object_store <https://docs.rs/object_store>`_, e.g.
            ``endpoint``, ``region``, ``access_key_id``, ``secret_access_key``, ``session_token``,
            ``skip_signature`` (public buckets), ``account_name``, ``account_key``,
            ``service_account``; or the fsspec names (``key``, ``secret``, ``token``,
            ``endpoint_url``, ``anon``, ``profile``). Additional keys are ``max_requests``, the
            number of concurrent requests (64), ``request_timeout`` (15 s without a byte),
            ``retry_timeout`` (180 s for one read with its retries), and ``cache_dir``, a local
            directory that caches fetched data for all processes of this machine, up to
            ``cache_bytes`` (64 GiB); the environment variable ``SHARDMILL_CACHE_DIR`` sets it too.
            For ``hf://``, the keys are ``token`` and ``endpoint``. A store of obstore (``S3Store``,
            ``GCSStore``, ``AzureStore``, ``HTTPStore``) must have the bucket of the path. Its
            settings are copied, including its ``credential_provider``, which is called again before
            its credentials expire. Of an fsspec file system whose scheme is supported natively, the
            settings are copied. Any other one serves its own scheme in this process, read-only and
            slowly, because each read calls it.

    Raises:
        ValueError: If an option is not valid, or a store or file system does not serve the path.
        OSError: If ``cache_dir`` cannot be used.

    Examples:
        >>> import shardmill as sm
        >>> sm.storage.configure("s3://bucket", {"region": "eu-central-1", "skip_signature": True})
    """
    plain = text_of(path)
    if _native.is_local(plain):
        raise OptionError(f"storage_options are for object stores; {plain!r} is local")
    options = storage_options_of(plain, storage_options)
    try:
        _native.configure(plain, options.texts, options.credentials, options.files)
    except OptionError as error:
        if hint := _suggestion(options.texts):
            raise OptionError(f"{error}\nhint: {hint}") from None
        raise


def _suggestion(names: Iterable[str]) -> str:
    """Name the documented option that an unknown one resembles; empty if there is none."""
    from difflib import get_close_matches

    for name in names:
        if name not in _NAMES and (similar := get_close_matches(name, _NAMES, n=1, cutoff=0.8)):
            return f"did you mean {similar[0]!r}, not {name!r}?"
    return ""


def storage_options_of(path: str, given: Any) -> StorageOptions:
    """Return the options for ``path`` from ``given``.

    Raises:
        ValueError: If it has an unsupported type, or belongs to another bucket.
    """
    if isinstance(given, StorageOptions):
        return given
    if isinstance(given, Mapping):
        return StorageOptions(texts_of(given))
    if is_store(given):
        return options_of_store(path, given)
    if is_file_system(given):
        return options_of_file_system(path, given)
    raise OptionError(
        "storage_options must be a mapping, a store of obstore or an fsspec file system, "
        f"not {type(given).__name__}"
    )


def configure_all(paths: Sequence[str], storage_options: Any) -> dict[str, str] | None:
    """Call ``configure`` for the remote ones of ``paths``.

    Returns:
        The options that may be stored or sent. They contain no secrets.

    Raises:
        ValueError: If there are options but all paths are local, or if a path contains credentials.
    """
    refuse_keys(paths)
    if storage_options is None or storage_options == {}:
        return None
    remote = [path for path in paths if not _native.is_local(path)]
    if not remote:
        raise OptionError(
            "storage_options are for object stores; these paths are local"
            "\nhint: sm.storage.configure(url, …) sets the options for URLs in a column"
        )
    for path in remote:
        configure(path, storage_options)
    return shown(paths, storage_options)


def refuse_keys(paths: Sequence[str]) -> None:
    """Reject paths that contain credentials, because paths are stored and sent to other processes.

    Raises:
        ValueError: If a URL has a password, a token or a signature, or a path is not UTF-8.
    """
    for path in paths:
        if _native.has_keys(text_of(path)):
            if text_of(path).startswith(("http://", "https://")) and "?" in text_of(path):
                what, hint = (
                    "an address with a query, which may be a signature, is not read",
                    "pass it without the query",
                )
            else:
                what, hint = (
                    "a path must not contain keys, tokens or signatures",
                    "pass credentials in storage_options or the environment",
                )
            raise OptionError(f"{what}: {path}\nhint: {hint}, or download the file")


def still_needed(
    paths: str | Sequence[str], shown_options: dict[str, str] | None
) -> dict[str, str] | None:
    """Return the options that came without secrets and that this process does not have.

    Those it has may include keys.
    """
    remote = [
        path
        for path in ([paths] if isinstance(paths, str) else paths)
        if not _native.is_local(path)
    ]
    if shown_options and all(_native.is_reached_with(path, shown_options) for path in remote):
        return None
    return shown_options


def shown(paths: Sequence[str], storage_options: Any) -> dict[str, str] | None:
    """Return the options that may be stored or sent to another process.

    These are neither secrets nor objects that hold secrets.
    """
    if not storage_options:
        return None
    texts = {}
    for path in paths:
        texts.update(
            {} if _native.is_local(path) else storage_options_of(path, storage_options).texts
        )
    return _native.without_secrets(texts)


def pinned(paths: Sequence[str], shown_options: dict[str, str] | None) -> dict[str, str] | None:
    """Return the options that may be sent, with the commits of Hub data sets.

    With the commits, another process reads the same data.
    """
    revisions = " ".join(
        f"{root}={commit}" for root, commit in _native.pinned_revisions(list(paths))
    )
    return {**(shown_options or {}), "revisions": revisions} if revisions else shown_options


def metrics(path: PathLike | None = None) -> StorageMetrics:
    """Return the requests of this process to the bucket of ``path``, or to all stores.

    Examples:
        >>> import shardmill as sm
        >>> sm.storage.metrics("s3://bucket/train/").requests
        0
    """
    return StorageMetrics(**_native.request_counts(None if path is None else text_of(path)))
