"""The scenario that writes: one call a record, from the constructor to the end of close().

Enters: the bare records, ``Options`` and a ``System``. Leaves: figures by group size and call, and the sizes of the
files. Called by ``measure``. Invariant: each file is read back before it is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.arrayrecord.data import read_raw
from benchmarks.arrayrecord.measure import Figure, System, check_records, timed
from benchmarks.arrayrecord.options import Options
from benchmarks.arrayrecord.sets import CODECS, FILE, GROUPS


def measure_write(options: Options, system: System) -> dict[str, Any]:
    """Writes all records with the data set's codec, in groups of 1 and of 256."""
    if options.raw is None:
        msg = "writing needs the bare records\nhint: --raw names their folder"
        raise ValueError(msg)
    records = read_raw(options.raw)
    figures: dict[str, Figure] = {}
    sizes: dict[str, int] = {}
    for group in GROUPS:
        given = f"group_size:{group},{CODECS[options.manifest['codec']]}"
        figures[f"group {group}, write"], sizes[str(group)] = _write(options, system, records, given, options.threads)
    if system.is_ours:
        given = f"group_size:1,{CODECS[options.manifest['codec']]}"
        figures["group 1, write, threads=1"], _ = _write(options, system, records, given, 1)
        figures["group 1, write_all"], _ = _write(options, system, records, given, options.threads, at_once=True)
    return {"figures": figures, "sizes": sizes, "raw_bytes": sum(map(len, records))}


def _write(
    options: Options, system: System, records: Sequence[bytes], given: str, threads: int, *, at_once: bool = False
) -> tuple[Figure, int]:
    folder = options.out / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE

    def loop() -> None:
        writer = system.writer(str(path), given, threads)
        if at_once:
            writer.write_all(records)
        else:
            for record in records:
                writer.write(record)
        writer.close()

    seconds, _ = timed(loop)
    size = path.stat().st_size
    reader = system.reader(str(path))
    numbers = list(options.sample)
    check_records(options, f"what was written with {given}", zip(numbers, reader.read(numbers), strict=True))
    reader.close()
    path.unlink()
    return Figure(len(records), seconds), size
