"""Prints the options by which uv installs the extras: ``extras.py --without clip``.

The extras are those of pyproject.toml.
"""

import argparse
import tomllib
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--without", nargs="*", default=[], metavar="EXTRA")
without = parser.parse_args().without
text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
project = tomllib.loads(text)["project"]
print(*(f"--extra {extra}" for extra in project["optional-dependencies"] if extra not in without))
