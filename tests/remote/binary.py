"""The servers and the proxy that these tests use.

`make s3-server`, which runs `python -m remote.binary`, builds them once into the cache.
"""

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
GOOGLE = "v1.56.1"
GOOGLE_MODULE = f"github.com/fsouza/fake-gcs-server@{GOOGLE}"
AZURITE = "3.35.0"
NO_GO = "no Go here, so no S3 server to test against; install Go 1.25 or newer (https://go.dev/dl)"
NO_NODE = (
    "no Node.js here, so no Azure server to test against; "
    "install Node.js 18 or newer with npm (https://nodejs.org)"
)

#: Looked up before any test has another cache for a while: a build takes minutes.
TOOLS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shardmill" / "tools"


#: Tests do not build: a build takes minutes, and a test that waits for it looks slow.
BUILDS = False


class UnavailableError(RuntimeError):
    """A program is missing, and tests that need it are skipped.

    A build that fails is a different error.
    """


class NotBuiltError(UnavailableError):
    """It is not in the cache."""

    def __init__(self) -> None:
        super().__init__("the servers are not built; run: make s3-server")


class MissingGoError(UnavailableError):
    """There is no Go to build with."""

    def __init__(self) -> None:
        super().__init__(NO_GO)


class MissingNodeError(UnavailableError):
    """There is no Node.js, which the Azure server also runs on."""

    def __init__(self) -> None:
        super().__init__(NO_NODE)


class UnreachableError(UnavailableError):
    """It cannot be fetched. The tests of S3 do not depend on it."""


def gateway_path() -> Path:
    """Of versitygw, an S3 server over a directory."""
    return _built(f"versitygw-{GATEWAY}", _install_gateway)


def google_path() -> Path:
    """Of fake-gcs-server, which speaks as Google's store does to those who read."""
    return _built(f"fake-gcs-server-{GOOGLE}", _install_google)


def azurite_path() -> Path:
    """Of Azurite's blob server, a program for Node.js."""
    if shutil.which("node") is None:
        raise MissingNodeError
    return (
        _built(f"azurite-{AZURITE}", _install_azurite, needs="npm")
        / "node_modules/azurite/dist/src/blob/main.js"
    )


def proxy_path() -> Path:
    """Of the proxy, built anew when a source of it changed."""
    digest = hashlib.sha256()
    for source in sorted(PROXY_SOURCES.iterdir()):
        digest.update(f"{source.name}\0".encode() + source.read_bytes() + b"\0")
    return _built(f"fault-proxy-{digest.hexdigest()[:16]}", _build_proxy)


def _built(name: str, build, *, needs: str = "go") -> Path:
    tools = TOOLS
    path = tools / name
    if path.exists():
        return path
    if not BUILDS:
        raise NotBuiltError
    if needs == "go" and shutil.which("go") is None:
        raise MissingGoError
    tools.mkdir(parents=True, exist_ok=True)
    with _locked(tools / f".{name}.lock"):
        if not path.exists():
            print(f"building {name} …", file=sys.stderr)
            unfinished = tools / f".{name}.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            # Renamed when it is whole, so a build that was killed leaves nothing to be
            # taken for one.
            build(unfinished).rename(path)
            shutil.rmtree(unfinished, ignore_errors=True)
    return path


def _install_gateway(directory: Path) -> Path:
    _go("install", GATEWAY_MODULE, environment={"GOBIN": str(directory)})
    return directory / "versitygw"


def _install_google(directory: Path) -> Path:
    try:
        _go("install", GOOGLE_MODULE, environment={"GOBIN": str(directory)})
    except RuntimeError as error:
        raise UnreachableError(f"the server of Google's store cannot be built: {error}") from error
    return directory / "fake-gcs-server"


def _install_azurite(directory: Path) -> Path:
    if shutil.which("npm") is None:
        raise MissingNodeError
    directory.mkdir()
    options = [
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
        "--loglevel",
        "error",
    ]
    done = subprocess.run(
        ["npm", "install", *options, "--prefix", str(directory), f"azurite@{AZURITE}"],
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise UnreachableError(
            f"the Azure server cannot be installed by npm: {done.stderr[-2000:].strip()}"
        )
    return directory


def _build_proxy(directory: Path) -> Path:
    directory.mkdir()
    _go("build", "-o", str(directory / "proxy"), ".", cwd=PROXY_SOURCES)
    return directory / "proxy"


def _go(
    *arguments: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> None:
    done = subprocess.run(
        ["go", *arguments],
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"go {' '.join(arguments)} failed:\n{done.stderr[-4000:]}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Fails where a build fails.

    It does not fail where Go or Node.js is missing, nor where the servers of Google and Azure
    cannot be fetched: there the tests are skipped, and say so.
    """
    global BUILDS
    BUILDS = True
    for path_of in (gateway_path, proxy_path, google_path, azurite_path):
        try:
            path_of()
        except (MissingNodeError, UnreachableError) as error:
            print(error, file=sys.stderr)
        except MissingGoError as error:
            if path_of is gateway_path:
                print(error, file=sys.stderr)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
