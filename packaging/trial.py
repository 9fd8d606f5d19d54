"""Install the wheel into an empty environment and use it: ``make test-wheels``.

Needs no compiler and nothing else of this checkout, except for the demo. First with the two
dependencies alone, then with what the demo needs, and with ``--torch`` also with torch, which is a
large download.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("cc", "gcc", "clang", "cargo", "rustc")

# Without pyarrow, the writer takes Arrow streams, such as that of a data set, and records.
WRITE = """
import json, pathlib, shardmill as sm

pathlib.Path("data").mkdir()
with open("rows.jsonl", "w") as rows, open("samples.jsonl", "w") as samples:
    for i in range(1000):
        print(json.dumps({"number": i, "score": i / 999, "text": f"row {i}"}), file=rows)
        print(json.dumps({"number.cls": i, "text.txt": f"row {i}"}), file=samples)
for format in ("parquet", "mds", "jsonl", "webdataset"):
    with sm.Writer(f"data/{format}", format=format) as writer:
        writer.write_batch(sm.Dataset("samples.jsonl" if format == "webdataset" else "rows.jsonl"))
with sm.Writer("data/text.array_record") as writer:
    writer.write_rows(f"row {i}" for i in range(1000))
"""
LOAD = """
import sys, numpy as np, shardmill as sm

for format in ("parquet", "mds", "jsonl"):
    loader = sm.Loader(
        f"data/{format}", batch_size=64, filter=sm.col("score") > 0.5, shuffle=True, output="numpy"
    )
    numbers = np.concatenate([batch["number"] for batch in loader])
    assert sorted(numbers) == list(range(500, 1000)), format
samples = sm.Loader("data/webdataset", batch_size=64, output="numpy")
assert np.concatenate([batch["number.cls"] for batch in samples]).tolist() == list(range(1000))
records = [row["record"] for row in sm.Dataset("data/text.array_record")]
assert records == [f"row {i}".encode() for i in range(1000)]
assert not {"torch", "pyarrow"} & set(sys.modules)
"""
TORCH = """
import torch, shardmill as sm

batches = list(sm.Loader("data/parquet", batch_size=100))
assert all(isinstance(batch["number"], torch.Tensor) for batch in batches)
assert torch.cat([batch["number"] for batch in batches]).tolist() == list(range(1000))
"""


class Environment:
    """A virtual environment whose programs see no others."""

    def __init__(self, directory: Path) -> None:
        venv.create(directory, with_pip=True)
        self.bin = directory / "bin"
        self._work = directory / "work"
        self._work.mkdir()
        # Neither compilers nor this checkout.
        self._variables = {
            name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
        }
        self._variables["PATH"] = str(self.bin)
        for compiler in COMPILERS:
            assert shutil.which(compiler, path=str(self.bin)) is None

    def run(self, program: str, *arguments: str | Path) -> str:
        """Run a program of the environment, and return what it printed."""
        command = [self.bin / program, *arguments]
        done = subprocess.run(
            command,
            cwd=self._work,
            env=self._variables,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(
                f"{done.stdout}\n"
                f"error: {program} {' '.join(map(str, arguments))[:200]} "
                f"ended with {done.returncode}"
            )
        return done.stdout

    def install(self, *requirements: str | Path) -> None:
        """Install packages, without building any."""
        self.run(
            "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
            *requirements,
        )

    def packages(self) -> set[str]:
        """Return the names of the installed packages, but those that every environment has."""
        listed = json.loads(
            self.run("python", "-m", "pip", "list", "--format=json", "--disable-pip-version-check")
        )
        return {package["name"] for package in listed} - {"pip", "setuptools"}


def main() -> int:
    """Try the wheel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--wheels", type=Path, default=ROOT / "build" / "wheels", help="directory of the wheel"
    )
    parser.add_argument("--torch", action="store_true", help="try a loader of torch tensors too")
    options = parser.parse_args()
    wheels = sorted(options.wheels.resolve().glob("*.whl"))
    if len(wheels) != 1:
        print(
            f"expected one wheel in {options.wheels}, found {len(wheels)}\n"
            "hint: run make wheels first",
            file=sys.stderr,
        )
        return 1
    (wheel,) = wheels

    with tempfile.TemporaryDirectory() as directory:
        environment = Environment(Path(directory))
        start = time.perf_counter()
        environment.install(wheel)
        installed = time.perf_counter()
        environment.run("shardmill", "--help")
        say(
            f"pip install {installed - start:.1f} s, "
            f"shardmill --help {time.perf_counter() - installed:.1f} s"
        )
        about = environment.run("shardmill", "--version", "--verbose")
        assert "with SIMD" in about, f"the wheel has no SIMD; for x86-64 it needs nasm:\n{about}"
        found = environment.packages()
        if found != {"shardmill", "numpy", "click"}:
            raise SystemExit(f"error: installed {sorted(found)}")
        environment.run("python", "-c", WRITE)
        for name in ("parquet", "mds", "jsonl", "webdataset", "text.array_record"):
            environment.run("shardmill", "head", f"data/{name}", "--rows", "3")
            environment.run("shardmill", "verify", f"data/{name}")
        environment.run("python", "-c", LOAD)
        say("numpy alone: written, shown, verified and loaded")

        environment.install(f"{wheel}[view]", "pillow", "-c", ROOT / "requirements-demo.txt")
        environment.run("python", ROOT / "examples" / "demo.py", "--shards", "1")
        say("pyarrow and Pillow: the demo ran")

        if options.torch:
            pins = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
            environment.install(*(pin for pin in pins if pin.startswith("torch==")))
            environment.run("python", "-c", TORCH)
            say("torch: loaded")
    return 0


def say(line: str) -> None:
    """Print at once, since the next step may take minutes."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
