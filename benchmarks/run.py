"""Runs a benchmark file: ``python -m benchmarks.run benchmarks/loader.yaml``.

Exit code 0 if every entry succeeded, 1 if one failed, 2 if the file is wrong.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.runner.session import Session
from benchmarks.runner.settings import ConfigurationError, read_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("file", type=Path, help="such as benchmarks/loader.yaml")
    parser.add_argument(
        "--session",
        help="name of a new directory below benchmark_results (default: file name and time)",
    )
    parser.add_argument(
        "--entries",
        default="",
        help="regular expression that is searched in the names of the entries",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        help="runs of each entry (default: five of a short entry, fewer of a long one)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue a session of the same commit, if there is one",
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="the same as --resume, but measure the chosen entries again",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the names of the chosen entries and stop"
    )
    options = parser.parse_args(arguments)
    try:
        settings = read_settings(options.file)
        entries = [entry for entry in settings.entries if re.search(options.entries, entry.name)]
        if options.list or not entries:
            print("\n".join(entry.name for entry in entries) or "no entry is chosen")
            return 0 if entries else 2
        name = options.session or f"{options.file.stem}__{datetime.now(UTC):%Y-%m-%d__%H-%M-%S}"
        directory = Path("benchmark_results").absolute() / name
        session = Session(settings, directory, options.rounds, options.resume, options.replace)
        given = sys.argv[1:] if arguments is None else arguments
        results = session.run(entries, shlex.join(["python", "-m", "benchmarks.run", *given]))
    except (ConfigurationError, FileExistsError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(session.directory / "results.json")
    return 1 if any(entry["failures"] for entry in results["entries"].values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
