"""Shared by every benchmark script: options, the clock, memory, page cache, data sets, metrics.

The standard library is enough, because the interpreters of the peers import this module too.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

#: What a data set consists of, hidden from readers of whole directories.
RECORD = ".dataset.json"
Metrics = dict[str, Any]
_CHUNK_BYTES = 16 << 20


class WrongRowsError(AssertionError):
    """A system did not deliver the rows of the data set, each once."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that the runner gives to every script; a benchmark adds its own.

    Attributes:
        out: Directory of ``metrics.json``; its ``scratch`` is removed after the check.
        system: A key of the script's systems.
        scenario: The first part of the entry's name.
    """

    out: Path
    system: str = "shardmill"
    scenario: str = ""

    @property
    def scratch(self) -> Path:
        """Directory for what an entry writes."""
        return self.out / "scratch"


_Options = TypeVar("_Options")
_Entry = TypeVar("_Entry", bound=Options)


def read_options(kind: type[_Options], arguments: Sequence[str] | None = None) -> _Options:
    """Reads ``--name=value`` pairs into a dataclass, by the types of its fields."""
    types, values = get_type_hints(kind), {}
    for argument in sys.argv[1:] if arguments is None else arguments:
        name, _, text = argument.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if key not in types:
            sys.exit(
                f"unknown option {argument}; known: {', '.join(f'--{known}=' for known in types)}"
            )
        values[key] = _parsed(types[key], text)
    return kind(**values)


def _parsed(kind: Any, text: str) -> object:
    choices = [one for one in get_args(kind) if one is not NoneType]
    if get_origin(kind) is tuple:
        return tuple(text.split(","))
    if NoneType in get_args(kind):
        return None if text == "none" else _parsed(choices[0], text)
    if kind is Any or get_origin(kind) is Literal:
        return text
    return text.lower() in ("", "true") if kind is bool else kind(text)


def run_entry(kind: type[_Entry], measure: Callable[[_Entry], Metrics]) -> None:
    """Runs the entry of the command line and writes ``metrics.json``, of a failure too."""
    options = read_options(kind)
    params = {name: value for name, value in asdict(options).items() if not isinstance(value, Path)}
    write_json(options.out / "params.json", params)
    try:
        metrics = measure(options)
    except Exception as error:
        write_json(
            options.out / "metrics.json",
            {"is_success": False, "error": f"{type(error).__name__}: {error}"},
        )
        raise
    write_json(options.out / "metrics.json", {"is_success": True, **metrics})


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replaces a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.partial")
    staging.write_text(json.dumps(content, indent=2, default=str) + "\n")
    staging.replace(path)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Returns the seconds of a call, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def figure(records: int, seconds: float, **more: Any) -> Metrics:
    """A rate, as it is written to the metrics."""
    return {"records": records, "seconds": seconds, "per_s": records / seconds, **more}


def timed_rows(rows: int, action: Callable[[], int | None]) -> Metrics:
    """The figure of a call that may return how many rows it has seen.

    Raises:
        WrongRowsError: If these are not all.
    """
    seconds, seen = timed(action)
    if seen is not None and seen != rows:
        raise WrongRowsError(f"{seen:,} rows instead of {rows:,}")
    return figure(rows, seconds)


def in_processes(method: Literal["fork", "spawn"], calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each call returned, in a fresh process of its own, at the same time; none is left.

    Raises:
        ChildProcessError: If one failed; its message is in the log.
    """
    context: Any = multiprocessing.get_context(method)
    processes, receivers = [], []
    try:
        for call in calls:
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_answer, args=(sender, call))
            process.start()
            sender.close()
            processes.append(process)
            receivers.append(receiver)
        results = [receiver.recv() for receiver in receivers]
        for process in processes:
            process.join()
        return results
    except EOFError:
        raise ChildProcessError(
            "a process of the benchmark failed; its message is in the log"
        ) from None
    finally:
        for process in processes:
            process.kill()


def _answer(pipe: Connection, call: Callable[[], Any]) -> None:
    pipe.send(call())


def make_set(directory: Path, wanted: Metrics, write: Callable[[Path], Metrics | None]) -> bool:
    """Makes a data set, unless a complete one of the same description is there.

    Returns whether it was made.

    Args:
        directory: Appears under its name when it is complete.
        wanted: Everything that decides the content.
        write: Fills a directory, and may return more to be recorded.
    """
    record = directory / RECORD
    # Through JSON, which has no tuples.
    wanted = json.loads(json.dumps(wanted))
    if record.exists() and wanted.items() <= json.loads(record.read_text()).items():
        return False
    if directory.exists() and not record.exists():
        raise FileExistsError(
            f"{directory} holds no data set of the benchmarks; give another directory, or remove it"
        )
    staging = directory.with_name(f".{directory.name}.partial")
    for stale in (staging, directory):
        shutil.rmtree(stale, ignore_errors=True)
    staging.mkdir(parents=True)
    more = write(staging) or {}
    sizes = [path.stat().st_size for path in staging.rglob("*") if path.is_file()]
    write_json(staging / RECORD, {"num_files": len(sizes), "bytes": sum(sizes), **wanted, **more})
    staging.rename(directory)
    return True


def record_of(directory: Path) -> Metrics:
    """The description of a data set; empty where it has none."""
    path = directory / RECORD
    return json.loads(path.read_text()) if path.exists() else {}


def prepare_caches(state: str, places: Iterable[Path]) -> None:
    """Brings files, and those of directories, into the page cache or out of it.

    ``state`` is ``warm`` or ``cold``.
    """
    # What an earlier entry wrote would otherwise go to disk in the time of this one.
    os.sync()
    for path in (
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(place.rglob("*")))
    ):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                if state == "cold":
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while state == "warm" and file.read(_CHUNK_BYTES):
                    pass


def io_counters() -> dict[str, int]:
    """``/proc/self/io``; children count from the moment they were waited for.

    ``rchar`` is what read calls returned, from the page cache and from pipes too; ``read_bytes`` is
    what the disk gave.
    """
    lines = Path("/proc/self/io").read_text().splitlines()
    return {name: int(value) for name, value in (line.split(": ") for line in lines)}


def status_bytes(key: str = "VmRSS") -> int:
    """A size that the kernel keeps of this process: ``VmRSS``, ``RssAnon`` or ``VmHWM``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{key}:"))


def forget_peak() -> None:
    """Makes the present size the largest that the kernel remembers as ``VmHWM``."""
    Path("/proc/self/clear_refs").write_text("5")


def core_seconds() -> float:
    """Time of this process and of its worker processes that have ended, as they do with a pass."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def start_ray(cores: int) -> float:
    """Starts a cluster on this machine; returns the seconds until its workers have run a task."""
    import ray

    start = time.perf_counter()
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False)
    # Workers start with a first task.
    nap = ray.remote(lambda: time.sleep(0.2))
    ray.get([nap.remote() for _ in range(cores)])
    return time.perf_counter() - start
