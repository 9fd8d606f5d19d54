"""The two programs of Go that this folder stands on, built once into the cache; ``python -m remote.binary`` builds both."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GATEWAY = "v1.8.0"
GATEWAY_MODULE = f"github.com/versity/versitygw/cmd/versitygw@{GATEWAY}"
PROXY_SOURCES = Path(__file__).resolve().parent / "proxy"
NO_GO = "no Go here, so no S3 server to test against; install Go 1.25 or newer (https://go.dev/dl)"

#: Looked up before any test has another cache for a while: a build takes minutes.
TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shardmill" / "tools"


class MissingGoError(RuntimeError):
    """There is no Go to build with. What is in the cache already needs none."""

    def __init__(self) -> None:
        super().__init__(NO_GO)


def gateway_path() -> Path:
    """Of versitygw, an S3 server over a folder."""
    return _built(f"versitygw-{GATEWAY}", _install_gateway)


def proxy_path() -> Path:
    """Of the proxy, built anew when a source of it changed."""
    digest = hashlib.sha256()
    for source in sorted(PROXY_SOURCES.iterdir()):
        digest.update(f"{source.name}\0".encode() + source.read_bytes() + b"\0")
    return _built(f"fault-proxy-{digest.hexdigest()[:16]}", _build_proxy)


def _built(name: str, build) -> Path:
    tools = TOOLS
    path = tools / name
    if path.exists():
        return path
    if shutil.which("go") is None:
        raise MissingGoError
    tools.mkdir(parents=True, exist_ok=True)
    with _locked(tools / f".{name}.lock"):
        if not path.exists():
            print(f"building {name} …", file=sys.stderr)
            unfinished = tools / f".{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            # Renamed when it is whole, so a build that was killed leaves nothing to be taken for one.
            build(unfinished).rename(path)
            shutil.rmtree(unfinished)
    return path


def _install_gateway(folder: Path) -> Path:
    _go("install", GATEWAY_MODULE, environment={"GOBIN": str(folder)})
    return folder / "versitygw"


def _build_proxy(folder: Path) -> Path:
    folder.mkdir()
    _go("build", "-o", str(folder / "proxy"), ".", cwd=PROXY_SOURCES)
    return folder / "proxy"


def _go(*arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    done = subprocess.run(
        ["go", *arguments], env={**os.environ, **(environment or {})}, cwd=cwd, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"go {' '.join(arguments)} failed:\n{done.stderr[-4000:]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Fails where a build fails, and not where Go is missing: there the tests are skipped, and say so."""
    try:
        gateway_path()
        proxy_path()
    except MissingGoError as error:
        print(error, file=sys.stderr)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
