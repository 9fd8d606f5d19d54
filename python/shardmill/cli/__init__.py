"""The command ``shardmill``. Data goes to stdout, talk to stderr.

Exit codes: 0 fine; 1 an error, or problems were found; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line of this process and exits."""
    try:
        import click  # noqa: F401
    except ImportError:
        print("shardmill: the command line needs click; pip install 'shardmill[cli]'", file=sys.stderr)
        sys.exit(2)
    try:
        from shardmill.cli.commands import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
