"""Access to object stores: endpoints, credentials, limits, and the local cache."""

from shardmill.storage._cache import cache_directory, cache_entries, clear_cache
from shardmill.storage._configure import configure, metrics
from shardmill.storage._paths import is_remote

__all__ = ["cache_directory", "cache_entries", "clear_cache", "configure", "is_remote", "metrics"]
