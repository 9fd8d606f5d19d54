"""The README of a package has no link that a package index cannot follow."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

sys.path.insert(0, str(ROOT / "packaging"))
import build


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[a](docs/a.md#b)", "[a](R/blob/v1/docs/a.md#b)"),
        ("![chart](docs/a.svg)", "![chart](R/raw/v1/docs/a.svg)"),
        (
            "[a](https://x.org) [b](#b) [c](mailto:c@x.org)",
            "[a](https://x.org) [b](#b) [c](mailto:c@x.org)",
        ),
        ("**[a](b.md)** and [c](d.md)", "**[a](R/blob/v1/b.md)** and [c](R/blob/v1/d.md)"),
    ],
)
def test_relative_links_lead_to_the_repository(markdown, expected):
    assert build.absolute_links(markdown, "R", "v1") == expected


def test_readme_of_the_package_links_to_files_of_the_repository():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = project["urls"]["Repository"]
    readme = build.absolute_links(
        (ROOT / "README.md").read_text(encoding="utf-8"), repository, "main"
    )
    targets = re.findall(rf"\]\({re.escape(repository)}/(?:blob|raw)/main/([^)#]+)", readme)
    assert len(targets) > 10
    assert [target for target in targets if not (ROOT / target).exists()] == []
    assert build.LINK.search(readme) is None


def test_export_has_the_files_of_the_last_commit(tmp_path):
    build.export(tmp_path)
    listed = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert sorted(listed.stdout.splitlines()) == sorted(
        str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()
    )
