"""Stores of obstore as storage options.

The native client accesses the same bucket with the same credentials. Objects of obstore belong to
its own build of the client, so their settings are copied instead of the objects themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from shardmill.errors import OptionError
from shardmill.storage._options import StorageOptions, texts_of

#: Path schemes of each class, and its name for the bucket.
_CLASSES = {
    "S3Store": (("s3", "s3a"), "bucket"),
    "GCSStore": (("gs", "gcs"), "bucket"),
    "AzureStore": (("az", "azure", "adl", "abfs", "abfss"), "container_name"),
    "HTTPStore": (("http", "https"), None),
}
_ELSEWHERE = {
    "LocalStore": "pass the path of the directory, without storage_options",
    "MemoryStore": "its objects are in the memory of obstore; use fsspec's memory:// instead",
}


def _class_name(given: Any) -> str | None:
    names = (
        kind.__name__
        for kind in type(given).__mro__
        if kind.__name__ in _CLASSES or kind.__name__ in _ELSEWHERE
    )
    return (
        next(names, None)
        if hasattr(given, "__getnewargs_ex__") or hasattr(given, "head_async")
        else None
    )


def is_store(given: Any) -> bool:
    """Return whether it is a store of obstore, or of a package that exports the same classes."""
    return _class_name(given) is not None


def options_of_store(path: str, store: Any) -> StorageOptions:
    """Return options that access the same data as ``store``.

    Raises:
        ValueError: If the path is not in the store, or the store has an unsupported setting.
    """
    name = _class_name(store)
    if name in _ELSEWHERE:
        raise OptionError(f"{name} is not a remote store\nhint: {_ELSEWHERE[name]}")
    schemes, bucket_option = _CLASSES[name or ""]
    place = urlsplit(path)
    if place.scheme not in schemes:
        raise OptionError(f"{path!r} is not a path of a {name}, which serves {schemes[0]}://")
    if bucket_option is None:
        _hold_below(path, f"{store.url.rstrip('/')}/", str(store))
        return StorageOptions(_client(store))
    config = dict(store.config)
    bucket = config.pop(bucket_option, None) or config.pop("bucket", None)
    # abfss://container@account
    asked = (
        place.netloc if place.scheme != "abfss" else place.netloc.partition("@")[0]
    ).rpartition("@")[2]
    if bucket is not None and bucket != asked:
        raise OptionError(f"the store has the bucket {bucket!r}, and {path!r} is in {asked!r}")
    if store.prefix:
        root = f"{place.scheme}://{place.netloc}"
        _hold_below(path, f"{root}/{str(store.prefix).strip('/')}/", str(store))
    provider = store.credential_provider
    texts = {**texts_of(config, _hint(store)), **_client(store)}
    return StorageOptions(texts, None if provider is None else Provider(provider))


def _hint(store: Any) -> str:
    return f"pass storage_options as a mapping of strings instead of {type(store).__name__}"


def _hold_below(path: str, root: str, store: str) -> None:
    if not f"{path.rstrip('/')}/".startswith(root):
        raise OptionError(
            f"{path!r} is outside of {store}\nhint: use full paths, which start with {root!r}"
        )


def _client(store: Any) -> dict[str, str]:
    texts = texts_of(store.client_options or {}, _hint(store))
    patience = (store.retry_config or {}).get("retry_timeout")
    if patience is not None:
        texts["retry_timeout"] = str(patience.total_seconds())
    return texts


class Provider:
    """Fetch credentials from an obstore credential provider, which may be asynchronous."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        #: Identifies the provider.
        self.identity = id(provider)

    def fetch(self) -> tuple[dict[str, str], float | None]:
        """Return the credentials by name, and when they expire."""
        given = self._provider()
        if isinstance(given, Awaitable):
            # Its import takes longer than all others of a local writer.
            import asyncio

            given = asyncio.run(_result(given))
        if not isinstance(given, Mapping):
            raise TypeError(f"it returned {type(given).__name__}, not a dict")
        keys = {
            name: value
            for name, value in given.items()
            if name != "expires_at" and value is not None
        }
        signature = keys.get("sas_token")
        if signature is not None and not isinstance(signature, str):
            keys["sas_token"] = urlencode(signature)
        return {name: str(value) for name, value in keys.items()}, _seconds(given.get("expires_at"))


async def _result(awaitable: Any) -> Any:
    return await awaitable


def _seconds(expires: datetime | None) -> float | None:
    if expires is None:
        return None
    return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).timestamp()
