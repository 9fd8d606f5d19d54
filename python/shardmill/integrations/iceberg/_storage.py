"""The paths and the store options of a table, for the native readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardmill._native.storage import is_local
from shardmill.storage._options import StorageOptions, texts_of

#: Schemes of Iceberg, with those of the native stores.
_SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "abfs",
    "abfss": "abfss",
    "wasb": "abfs",
    "wasbs": "abfss",
    "hf": "hf",
}

#: By scheme: native options, each with the properties of pyiceberg that set it.
#: The first property that is set counts.
_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "s3": {
        "endpoint": ("s3.endpoint",),
        "region": ("s3.region", "client.region"),
        "access_key_id": ("s3.access-key-id", "client.access-key-id"),
        "secret_access_key": ("s3.secret-access-key", "client.secret-access-key"),
        "session_token": ("s3.session-token", "client.session-token"),
        "profile": ("s3.profile-name", "client.profile-name"),
        "skip_signature": ("s3.anonymous",),
        "virtual_hosted_style_request": ("s3.force-virtual-addressing",),
        "proxy_url": ("s3.proxy-uri",),
    },
    "gs": {"endpoint": ("gcs.service.host",)},
    "abfs": {
        "account_name": ("adls.account-name",),
        "account_key": ("adls.account-key",),
        "sas_token": ("adls.sas-token",),
        "tenant_id": ("adls.tenant-id",),
        "client_id": ("adls.client-id",),
        "client_secret": ("adls.client-secret",),
        "bearer_token": ("adls.token",),
    },
    "hf": {"endpoint": ("hf.endpoint",), "token": ("hf.token",)},
}
_OPTIONS["abfss"] = _OPTIONS["abfs"]

#: Properties without which the store would be accessed as another user.
_UNSUPPORTED = {
    "s3": ("s3.signer", "s3.role-arn", "client.role-arn"),
    "abfs": ("adls.connection-string",),
    "abfss": ("adls.connection-string",),
}


def literal_path(path: str) -> str:
    """Return the path of a data file for the native readers.

    Iceberg does not escape paths, so nothing in it is decoded.

    Raises:
        NotImplementedError: If the file is on a file system that is not supported.
    """
    scheme, colon, rest = path.partition(":")
    if is_local(path):
        if not colon or scheme.lower() != "file":
            return path
        host, slash, below = (
            rest[2:].partition("/") if rest.startswith("//") else ("", "/", rest.lstrip("/"))
        )
        if host in ("", "localhost") and slash:
            return f"/{below}"
        raise NotImplementedError(f"{path}: the data file is on another host")
    if scheme not in _SCHEMES:
        raise NotImplementedError(
            f"{path}: data files on {scheme}:// are not supported"
            "\nhint: copy the table to a local directory, or to S3, Google Cloud Storage or Azure"
        )
    return f"{_SCHEMES[scheme]}:{rest}"


class _Token:
    """The access token of a catalog for the store of Google."""

    def __init__(self, token: str, expires_at_ms: Any) -> None:
        self._fetched = (
            {"token": token},
            None if expires_at_ms is None else float(expires_at_ms) / 1000,
        )
        #: Identifies the token.
        self.identity = hash(token)

    def fetch(self) -> tuple[dict[str, str], float | None]:
        """Return the credentials by name, and when they expire."""
        return self._fetched


def store_options(path: str, properties: Mapping[str, Any], table: str) -> StorageOptions | None:
    """Return the options of the store of ``path`` from the properties of a catalog, if it has any.

    Raises:
        NotImplementedError: If access depends on a property that is not supported.
    """
    scheme = path.partition(":")[0]
    for name in _UNSUPPORTED.get(scheme, ()):
        if properties.get(name):
            raise NotImplementedError(
                f"the catalog of {table} sets {name}, which is not supported"
                "\nhint: set the keys of the store, or a profile, in the catalog"
            )
    values = {
        option: next(
            (properties[name] for name in names if properties.get(name) not in (None, "")), None
        )
        for option, names in _OPTIONS.get(scheme, {}).items()
    }
    texts, token = texts_of(values), properties.get("gcs.oauth2.token") if scheme == "gs" else None
    if not texts and not token:
        return None
    return StorageOptions(
        texts,
        credentials=_Token(token, properties.get("gcs.oauth2.token-expires-at")) if token else None,
    )
