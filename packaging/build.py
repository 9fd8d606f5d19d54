"""Build the sdist and the wheel of HEAD: ``make wheels``.

A package index shows README.md without the files that its links name. So the build runs in an
export of HEAD whose README links to the repository. The wheel is built from the sdist, which shows
that the sdist is complete.
"""

import argparse
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|mailto:|#)([^)\s]+)\)")
# Zig links against the C library of RHEL 8 and Debian 10 whatever the system has; elsewhere the
# tool chain of the system decides.
LINUX = ("--zig", "--compatibility", "manylinux_2_28")


def main() -> int:
    """Export, rewrite, build."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "build" / "wheels",
        help="directory of the wheel and the sdist",
    )
    parser.add_argument(
        "--source", type=Path, default=ROOT / "build" / "package", help="directory of the export"
    )
    parser.add_argument(
        "--target",
        metavar="TRIPLE",
        help="build for this processor, for which Rust has its standard library and Zig compiles",
    )
    parser.add_argument("--profile", default="release", help="profile of Cargo")
    options = parser.parse_args()
    for directory in (options.out, options.source):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

    export(options.source)
    readme = options.source / "README.md"
    project = tomllib.loads((options.source / "pyproject.toml").read_text(encoding="utf-8"))
    repository = project["project"]["urls"]["Repository"]
    readme.write_text(
        absolute_links(readme.read_text(encoding="utf-8"), repository, revision()), encoding="utf-8"
    )
    maturin = [
        sys.executable,
        "-m",
        "maturin",
        "build",
        "--profile",
        options.profile,
        "--locked",
        "--sdist",
        "--interpreter",
        sys.executable,
    ]
    extra = LINUX if sys.platform == "linux" else ()
    extra += ("--target", options.target) if options.target else ()
    return subprocess.run(
        [*maturin, *extra, "--out", str(options.out.resolve())], cwd=options.source, check=False
    ).returncode


def export(directory: Path) -> None:
    """Write the files of HEAD.

    They get the present time, so that cargo does not take objects of another commit for theirs.
    """
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(directory, filter="data")
    for path in directory.rglob("*"):
        path.touch()


def revision() -> str:
    """The tag of HEAD, so that a release links to its own files, or else the main branch."""
    described = subprocess.run(
        ["git", "describe", "--tags", "--exact-match"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return described.stdout.strip() or "main"


def absolute_links(markdown: str, repository: str, revision: str) -> str:
    """Point relative links to the repository: images to the file, other links to its page."""

    def target(match: re.Match[str]) -> str:
        kind = "raw" if match[1] else "blob"
        return f"{match[1]}{match[2]}({repository}/{kind}/{revision}/{match[3]})"

    return LINK.sub(target, markdown)


if __name__ == "__main__":
    sys.exit(main())
