"""The README and the guides: their Python runs, in order, on a small data set; links are valid."""

import re
from math import prod
from pathlib import Path
from textwrap import dedent

import pytest
from breadth import in_one
from shardmill.load._balance import obstacle

from benchmarks.mint1t import write_dataset

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("**/*.md")),
]
WITH_CODE = [page for page in PAGES if "```python\n" in page.read_text(encoding="utf-8")]
#: Pages that the build of the site makes.
GENERATED = {"errors.md", "cli.md"}

_BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    directory = tmp_path_factory.mktemp("docs") / "shards"
    write_dataset(directory, shards=1)
    return directory


def marked(page):
    """The page, with marks if it starts Ray or imports several trainers, for up to a minute."""
    text = page.read_text(encoding="utf-8")
    imported = set(re.findall(r"^\s*(?:import|from) (ray|lightning)\b", text, re.MULTILINE))
    marks = [pytest.mark.slow] if imported else []
    return pytest.param(page, marks=[*marks, *([pytest.mark.ray] if "ray" in imported else [])])


@pytest.mark.parametrize(
    "page",
    [marked(page) for page in WITH_CODE],
    ids=[name_of(page) for page in WITH_CODE],
)
def test_python_of_the_page_runs(page, shards, tmp_path, monkeypatch):
    """Blocks of a page share their names and their directory.

    So they do for a user who runs them one after the other.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shards").symlink_to(shards)
    text = page.read_text(encoding="utf-8")
    names = {"__name__": "__main__"}
    for match in _BLOCK.finditer(text):
        flags, code = match[1].strip(), match[2]
        if flags == "no-run":
            continue
        assert not flags, f"unknown mark on a block: {flags}"
        for needed in re.findall(
            r"^(?:import|from) (torch|lightning|megatron|shardmill\.integrations\.\w+)\b",
            code,
            re.MULTILINE,
        ):
            pytest.importorskip(needed)
        # Line numbers of a failure are those of the page.
        padding = "\n" * text.count("\n", 0, match.start(2))
        exec(compile(padding + code, name_of(page), "exec"), names)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python no-run\n" in page.read_text()], ids=name_of
)
def test_python_of_the_page_that_does_not_run_is_valid(page):
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match[1].strip() == "no-run":
            padding = "\n" * text.count("\n", 0, match.start(2))
            compile(padding + dedent(match[2]), name_of(page), "exec")


@in_one("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page):
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if (
            not target.startswith(("http://", "https://", "mailto:"))
            and Path(target).name not in GENERATED
        ):
            assert (page.parent / target).exists(), f"{target} in {name_of(page)}"


def test_values_for_parallel_ranks_give_equal_work():
    page = (ROOT / "docs/guides/parallel-ranks.md").read_text(encoding="utf-8")
    tables = re.findall(r"(?<=-:\|\n)(?:\| \d+ \|.*\n)+", page)
    assert len(tables) == 4
    for table in tables:
        rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
        assert {gpus for gpus, *_ in rows} == {"8", "64", "512"}
        for gpus, *mesh, ranks, lanes, batch_size, accumulation, per_step in rows:
            sizes = [part.split() for part in mesh[0].split(", ")] if mesh else [("dp", gpus)]
            assert prod(int(size) for _, size in sizes) == int(gpus)
            data = prod(int(size) for name, size in sizes if name.startswith("dp"))
            assert data == int(ranks)
            share = {"batch_size": int(batch_size), "world_size": data}
            assert obstacle(int(lanes), 0, share) is None
            packs = int(batch_size) * int(accumulation) * data
            assert packs == int(per_step) * int(lanes) and int(per_step) >= 4
