"""The command ``shardmill``. Data is written to stdout, messages to stderr.

Exit codes: 0 success; 1 an error, or problems were found; 2 wrong usage; 130 interrupted.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        from shardmill.cli._commands import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)
