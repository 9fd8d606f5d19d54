"""The command `shardmill`, forked from a process that has imported its modules.

A call takes hundredths of a second. Tests of imports, of startup time, of signals and of forks
start fresh processes instead.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

MODULES = (
    "numpy",
    "pyarrow.compute",
    "pyarrow.parquet",
    "shardmill",
    "shardmill.curate",
    "shardmill.resume",
)
COMMANDS = Path(__file__).parents[1] / "python" / "shardmill" / "cli"


def shardmill(
    *arguments: object, columns: int = 100, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command with additional variables, as on a terminal with this number of columns."""
    server = _server(os.getpid())
    assert server.stdin is not None
    assert server.stdout is not None
    command = [
        "shardmill",
        *(os.fsdecode(part) if isinstance(part, bytes) else str(part) for part in arguments),
    ]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        request = {
            "command": command,
            "environment": {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", **environment},
            "directory": str(cwd or Path.cwd()),
            "streams": [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err)],
        }
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = json.loads(server.stdout.readline())
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


@cache
def _server(_process: int) -> subprocess.Popen[str]:
    """One server for each test process. It ends when its standard input is closed."""
    return subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _serve() -> None:
    for name in (*MODULES, *(f"shardmill.cli.{path.stem}" for path in COMMANDS.glob("_[a-z]*.py"))):
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(**request)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _become(
    command: list[str], environment: dict[str, str], directory: str, streams: list[str]
) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(streams, 1):
        os.dup2(os.open(path, os.O_WRONLY), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv = command
    from shardmill.cli import main

    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
