"""Runs a benchmark file: ``python -m benchmarks.run --config benchmarks/interleaved_io.yaml``.

Exit code 0 if and only if every entry succeeded, 1 if one failed, 2 if the configuration is wrong.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.runner.configuration import load_configuration
from benchmarks.runner.errors import ConfigurationError, UnknownNameError
from benchmarks.runner.selection import is_selected
from benchmarks.runner.session import Session
from benchmarks.runner.settings import read_settings
from benchmarks.runner.sinks import send_to_sinks

REPOSITORY = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description=__doc__,
        epilog="example: python -m benchmarks.run --config benchmarks/interleaved_io.yaml --entries 'jpeg and not ray'",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, action="append", required=True, help="YAML file; later files win")
    parser.add_argument("--session-name", help="folder below results_path (default: file name and UTC time)")
    parser.add_argument("--entries", help="which entries, such as 'wds_to_wds and not jpeg'")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each entry; the median one is reported")
    parser.add_argument("--list", action="store_true", help="print the names of the chosen entries and stop")
    options = parser.parse_args(arguments)
    try:
        settings = read_settings(load_configuration(options.config))
        entries = [entry for entry in settings.entries if is_selected(options.entries, entry.name)]
        if options.list:
            print("\n".join(entry.name for entry in entries))
            return 0
        if not entries:
            msg = "no entry is chosen\nhint: --list prints the names"
            raise ConfigurationError(msg)
        name = options.session_name or f"{options.config[0].stem}__{datetime.now(UTC):%Y-%m-%d__%H-%M-%S}"
        results_path = Path(settings.paths["results_path"]).absolute()
        session = Session(settings, results_path / name, REPOSITORY, repeats=max(1, options.repeats))
        given = [str(argument) for argument in (arguments if arguments is not None else sys.argv[1:])]
        results = session.run(entries, shlex.split("python -m benchmarks.run") + given)
    except (ConfigurationError, UnknownNameError, FileExistsError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    send_to_sinks(settings.sinks, results)
    print(session.folder / "results.json")
    return 0 if results["is_success"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
