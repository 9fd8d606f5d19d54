"""Indexes in the user's cache directory. Each is built once, even if several processes ask for it.

The index of one set of files (``cached``) is one file. The ids of a job grow from run to run, so
its index consists of several files, the *levels* (``levels``). Each level holds the ids of some
files of the job, and each file belongs to one level. New files become a new level. When there are
too many levels, the small ones are merged. So each id is read only a few times over the life of a
job, and the number of files is bounded.

A catalog next to the levels lists the files from which each level was built. The invariant: a level
is used only if the catalog lists exactly its files, by path, size and time of change, and all of
them are requested. A process that dies may leave levels that no catalog names, which are removed,
or two levels of the same files, of which one is used.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from shardmill._digests import digest
from shardmill._native import resume as _native
from shardmill._progress import Progress
from shardmill.errors import FormatError, StorageError
from shardmill.storage._cache import user_directory

_logger = logging.getLogger("shardmill.resume")
_POLL_S = 0.2
_KEPT_S = 14 * 24 * 3600
#: Levels that a set of files may have; each costs a look-up for every row.
MAX_LEVELS = 6
# Levels of other sets of the same family, such as those done before an earlier part of the plan.
_MAX_OTHERS = 6


def read_index(
    paths: list[str],
    columns: list[str],
    *,
    path: str,
    format: str | None,
    memory_bytes: int,
    threads: int,
    is_shown: bool,
) -> _native.IdIndex:
    """Build the index of files at ``path``, with a progress bar."""
    more = f" and {len(paths) - 1:,} more files" if len(paths) > 1 else ""
    _logger.info("Loading checkpoint %s%s…", paths[0], more)
    counts = _native.BuildProgress()
    is_done = threading.Event()
    watcher = (
        threading.Thread(target=_watch, args=(counts, is_done), daemon=True) if is_shown else None
    )
    if watcher is not None:
        watcher.start()
    try:
        index = _native.IdIndex.build_files(
            paths,
            columns,
            path=path,
            format=format,
            memory_bytes=memory_bytes,
            threads=threads,
            progress=counts,
        )
    finally:
        is_done.set()
        if watcher is not None:
            watcher.join()
    _logger.info("Loaded checkpoint: %s ids, %s bytes", f"{len(index):,}", f"{index.nbytes:,}")
    return index


def _watch(counts: _native.BuildProgress, is_done: threading.Event) -> None:
    bar: Progress | None = None
    seen = (0, 0)
    while not is_done.wait(_POLL_S):
        files, done, rows = counts.counts
        if bar is None and files:
            bar = Progress(total=files, is_shown=True, noun="files")
        if bar is not None:
            for step in range(seen[0], done):
                bar.count(samples=rows - seen[1] if step == seen[0] else 0, size=0)
            seen = (done, rows)
    if bar is not None:
        bar.__exit__()


def cached(name: str, build: Callable[[str], _native.IdIndex]) -> _native.IdIndex:
    """Return the index with this name: mapped if it exists, else built.

    One of the processes that need it builds it.

    Args:
        name: name of the file, which changes with the content of the index.
        build: builds the index at a path.
    """
    index = _opened(index_directory() / name)
    if index is not None:
        return index
    with _locked(name) as directory:
        index = _opened(directory / name)
        if index is None:
            _forget(directory)
            index = build(str(directory / name))
        return index


@dataclass(frozen=True)
class Source:
    """The current version of a file of ids.

    Attributes:
        path: path of the file.
        size: size in bytes.
        changed: modification time in nanoseconds.
        xxh3: recorded hash of its content; empty if there is none.
    """

    path: str
    size: int
    changed: int
    xxh3: str = ""

    def version(self) -> str:
        """A digest that changes with each attribute."""
        return digest([self.path, self.size, self.changed, self.xxh3])


@dataclass(frozen=True)
class _Level:
    name: str
    size: int
    versions: frozenset[str]


def levels(
    sources: Collection[Source],
    columns: Sequence[str],
    build: Callable[[list[Source], str], _native.IdIndex],
    *,
    protected: Collection[str] = (),
) -> list[str]:
    """Return the paths of indexes that together hold the ids of ``sources``.

    Each file is in one index.

    Args:
        sources: the files; at least one.
        columns: the columns that make an id.
        build: builds the index of some of the files at a path.
        protected: paths that an earlier call returned and that must not be removed.
    """
    family = _family(sources, columns)
    wanted = {source.version(): source for source in sources}
    with _locked(family, lambda directory: _missing(directory, family, wanted) == []) as directory:
        catalog = _catalog(directory, family)
        used = _cover(directory, catalog, wanted)
        new = _uncovered(used, wanted)
        absorbed: list[_Level] = []
        if new:
            size = sum(source.size for source in new)
            absorbed = _absorbed(used, size, {Path(path).name for path in protected})
            versions = frozenset(source.version() for source in new).union(
                *(level.versions for level in absorbed)
            )
            name = f"{family}-{digest(sorted(versions))}.ids"
            _forget(directory)
            build(
                [wanted[version] for version in wanted if version in versions],
                str(directory / name),
            )
            size += sum(level.size for level in absorbed)
            used = [
                *(level for level in used if level not in absorbed),
                _Level(name, size, versions),
            ]
        if os.access(directory, os.W_OK):
            others = [level for level in catalog if level not in used and level not in absorbed]
            others = [level for level in others if _is_of_use(directory, level, used, protected)]
            needed = [level for level in others if str(directory / level.name) in protected]
            others = [level for level in others if level not in needed]
            # The last ones are the most recently used.
            _keep(directory, family, [*others[-_MAX_OTHERS:], *needed, *used])
        return [str(directory / level.name) for level in used]


def _family(sources: Collection[Source], columns: Sequence[str]) -> str:
    """Return the name shared by levels that may replace one another.

    Their columns are the same, and their files are in the same directories.
    """
    directories = sorted({source.path.rpartition("/")[0] for source in sources})
    return digest([_native.INDEX_VERSION, list(columns), directories])


def _catalog(directory: Path, family: str) -> list[_Level]:
    try:
        entries = json.loads((directory / f"{family}.json").read_bytes())
        return [
            _Level(entry["name"], entry["size"], frozenset(entry["versions"])) for entry in entries
        ]
    except OSError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _logger.warning(
            "`%s` is damaged (%s); its indexes are built again", directory / f"{family}.json", error
        )
        return []


def _cover(directory: Path, catalog: list[_Level], wanted: dict[str, Source]) -> list[_Level]:
    """Return levels that contain only wanted files, each file once, the largest level first."""
    used: list[_Level] = []
    covered: set[str] = set()
    for level in sorted(catalog, key=lambda level: len(level.versions), reverse=True):
        if (
            level.versions <= wanted.keys()
            and covered.isdisjoint(level.versions)
            and _opened(directory / level.name)
        ):
            used.append(level)
            covered |= level.versions
    return used


def _uncovered(used: list[_Level], wanted: dict[str, Source]) -> list[Source]:
    covered = set[str]().union(*(level.versions for level in used))
    return [source for version, source in wanted.items() if version not in covered]


def _missing(directory: Path, family: str, wanted: dict[str, Source]) -> list[Source]:
    return _uncovered(_cover(directory, _catalog(directory, family), wanted), wanted)


def _absorbed(used: list[_Level], size: int, protected: set[str]) -> list[_Level]:
    """Return the levels to merge into a new level of a given size.

    They are small ones, so that ids are seldom read again.
    """
    absorbed: list[_Level] = []
    if len(used) < MAX_LEVELS:
        return absorbed
    for level in sorted(
        (level for level in used if level.name not in protected), key=lambda level: level.size
    ):
        if level.size > 2 * size and len(used) - len(absorbed) < MAX_LEVELS:
            break
        absorbed.append(level)
        size += level.size
    return absorbed


def _is_of_use(
    directory: Path, level: _Level, used: list[_Level], protected: Collection[str]
) -> bool:
    """Return whether another set of files may use a level.

    A level contained in a larger one is not needed.
    """
    path = directory / level.name
    return path.exists() and (
        str(path) in protected or not any(level.versions < other.versions for other in used)
    )


def _keep(directory: Path, family: str, kept: list[_Level]) -> None:
    """Write the catalog, then remove levels of the family that it does not name.

    Processes that have mapped one keep it.
    """
    entries = [
        {"name": level.name, "size": level.size, "versions": sorted(level.versions)}
        for level in kept
    ]
    content = json.dumps(entries)
    path = directory / f"{family}.json"
    if not path.exists() or path.read_text() != content:
        new = directory / f".{family}.json.new"
        new.write_text(content)
        new.replace(path)
    os.utime(path)
    names = {level.name for level in kept}
    for other in directory.glob(f"{family}-*.ids"):
        if other.name not in names:
            other.unlink(missing_ok=True)


@contextmanager
def _locked(
    name: str, is_enough: Callable[[Path], bool] = lambda _directory: False
) -> Iterator[Path]:
    """A directory for indexes, locked against other processes that build an index of the same name.

    This is the cache directory. If that cannot be written and does not hold all that is needed, it
    is a temporary directory of this process.
    """
    directory = index_directory()
    try:
        lock = _lock(directory, name)
    except OSError as error:
        if is_enough(directory):
            yield directory
            return
        directory = _private_directory(str(directory), error.strerror or str(error))
        lock = _lock(directory, name)
    try:
        yield directory
    finally:
        # Removed while it is held: a waiting process finds its file gone, and creates another.
        (directory / f"{name}.lock").unlink(missing_ok=True)
        os.close(lock)


def _lock(directory: Path, name: str) -> int:
    """Take a lock.

    The system releases it when the process ends, so a killed process does not block others.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise PermissionError(13, "it cannot be written")
    path = directory / f"{name}.lock"
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except FileNotFoundError:
            pass
        os.close(lock)


@lru_cache(maxsize=1)
def _private_directory(cache: str, reason: str) -> Path:
    _logger.warning(
        "The cache directory `%s` cannot be used (%s); "
        "indexes of ids go to a temporary directory and are built again by each process\n"
        "hint: set XDG_CACHE_HOME to a directory that can be written",
        cache,
        reason,
    )
    directory, owner = Path(tempfile.mkdtemp(prefix="shardmill-indexes-")), os.getpid()

    def remove() -> None:
        # A forked child ends too.
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def _forget(directory: Path) -> None:
    """Remove files that were not used for two weeks.

    Processes that have mapped an index keep it.
    """
    for path in [*directory.glob("*.ids"), *directory.glob("*.json"), *directory.glob("*.lock")]:
        try:
            if time.time() - path.stat().st_mtime > _KEPT_S:
                path.unlink(missing_ok=True)
        except FileNotFoundError:
            continue


def _opened(target: Path) -> _native.IdIndex | None:
    try:
        index = _native.IdIndex.open(str(target))
        # Verified before use, because a cache is long-lived and its content decides which rows are
        # done. It takes a moment per gigabyte.
        index.verify()
    except StorageError:
        # Usually there is none. One that cannot be read is ignored.
        return None
    except FormatError as error:
        _logger.warning("%s; it is built again", error)
        return None
    try:
        os.utime(target)
    except OSError:
        _logger.debug("`%s` is read-only", target)
    return index


def index_directory() -> Path:
    """Where indexes of this user are kept."""
    return user_directory("indexes")


def name_of(paths: list[str], columns: list[str], format: str | None) -> str:
    """Return a name that changes with the columns, the files and the layout of the index.

    A file counts by its path, size and time of change.
    """
    versions = sorted(_native.versions_of(paths, format=format))
    return f"{digest([_native.INDEX_VERSION, columns, format, versions])}.ids"
