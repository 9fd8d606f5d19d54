"""Check what ``make wheels`` built.

The checks are of size, platform, dependencies, and the description that a package index shows.
"""

import email
import re
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

from build import LINK, ROOT

BUILT = ROOT / "build" / "wheels"
LARGEST_BYTES = 25_000_000
#: Newest C library that the wheel may need.
GLIBC = 28
DEPENDENCIES = {"numpy", "click"}


def main() -> int:
    """Run all checks, and print what was measured."""
    wheels, sdists = sorted(BUILT.glob("*.whl")), sorted(BUILT.glob("*.tar.gz"))
    if len(wheels) != 1 or len(sdists) != 1:
        return fail(
            f"expected one wheel and one sdist in {BUILT}, "
            f"found {[path.name for path in (*wheels, *sdists)]}"
        )
    (wheel,), (sdist,) = wheels, sdists
    metadata = metadata_of(wheel)
    needed = {
        re.split(r"[^\w-]", text)[0]
        for text in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in text
    }
    if needed != DEPENDENCIES:
        return fail(f"the wheel requires {sorted(needed)}, not {sorted(DEPENDENCIES)}")
    if relative := LINK.search(str(metadata.get_payload())):
        return fail(f"the description has a relative link, {relative[0]}")
    if wheel.stat().st_size > LARGEST_BYTES:
        return fail(f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {LARGEST_BYTES:,}")
    if sys.platform == "linux" and not suits_old_systems(wheel):
        return fail(f"{wheel.name} does not run on systems with glibc 2.{GLIBC}")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
    for path in (wheel, sdist):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


def metadata_of(wheel: Path) -> Message:
    """Return METADATA of a wheel, whose payload is the description."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def suits_old_systems(wheel: Path) -> bool:
    """Ask auditwheel, which looks at the symbols that the module needs, not at the wheel's name."""
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel],
        check=True,
        capture_output=True,
        text=True,
    )
    print(shown.stdout.strip())
    found = re.search(r'following\s+platform\s+tag:\s+"manylinux_2_(\d+)_', shown.stdout)
    return found is not None and int(found[1]) <= GLIBC


def fail(problem: str) -> int:
    """Print the problem, and return the status of a failure."""
    print(f"error: {problem}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
