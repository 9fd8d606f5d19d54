"""The documentation site builds strictly and is complete.

The README is short and says what the benchmarks say.
"""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
import shardmill
from shardmill import errors
from shardmill.cli._commands import shardmill as command

from benchmarks import overview
from benchmarks.report import Page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    arguments = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    built = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return out


def anchors_of(page):
    return set(re.findall(r'id="([^"]+)"', page.read_text(encoding="utf-8")))


def words_of(page):
    (article,) = re.findall(r"<article.*</article>", page.read_text(encoding="utf-8"), re.DOTALL)
    return len(re.sub(r"<[^>]+>", " ", article).split())


def public_names():
    for name in set(shardmill.__all__) - set(errors.__all__) - {"__version__"}:
        value = getattr(shardmill, name)
        names = value.__all__ if isinstance(value, ModuleType) else [""]
        yield from (f"shardmill.{name}.{member}".rstrip(".") for member in names)
    yield from (f"shardmill.Loader.{name}" for name in vars(shardmill.Loader) if name[0] != "_")


def test_every_public_name_is_in_the_reference(site):
    anchors = set().union(*map(anchors_of, site.glob("reference/api/*.html")))
    assert set(public_names()) - anchors == set()


def test_every_error_has_a_cause_and_a_remedy(site):
    text = (site / "reference" / "errors.html").read_text(encoding="utf-8")
    public = [name for name in shardmill.__all__ if hasattr(errors, name)]
    assert {name.lower() for name in public} - anchors_of(
        site / "reference" / "errors.html"
    ) == set()
    assert text.count("<strong>Remedy:</strong> ") == len(public)
    assert "<strong>Remedy:</strong> </p>" not in text


def test_every_command_is_in_the_reference(site):
    anchors = anchors_of(site / "reference" / "cli.html")
    context = click.Context(command)
    assert {f"shardmill-{name}" for name in command.list_commands(context)} - anchors == set()


def test_reference_shows_the_help_of_commands_as_they_print_it_and_whole(site):
    text = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert "-h, --help" in text
    assert not re.search(r"^ {2}\w.*\.\.\.$", text, re.MULTILINE)


def test_no_page_shows_markup_that_was_not_rendered(site):
    for page in site.glob("**/*.html"):
        body = re.sub(
            r"<(pre|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        for markup in (":class:", ":meth:", ":func:", ":attr:", "```", "&gt;&gt;&gt;"):
            assert markup not in body, f"{markup} in {page.relative_to(site)}"


def test_pages_of_the_api_are_short_and_hide_bases(site):
    pages = list(site.glob("reference/api/*.html"))
    assert {page.name: words_of(page) for page in pages if words_of(page) > 3000} == {}
    assert not [page.name for page in pages if "Bases:" in page.read_text(encoding="utf-8")]


def test_the_readme_and_guides_are_short():
    limits = {ROOT / "README.md": 500} | dict.fromkeys((ROOT / "docs/guides").glob("*.md"), 1800)
    words = {page: len(page.read_text(encoding="utf-8").split()) for page in limits}
    assert {page.name: words[page] for page in limits if words[page] > limits[page]} == {}


def test_the_committed_chart_table_and_sentence_are_those_of_all_pages(tmp_path):
    shown = overview.pages()
    assert set(shown) == {path.parent.name for path in overview.DOCS.glob("*/README.md")}
    overview.draw([ratio for _, ratio in overview.compared(shown)], tmp_path / "ratios.svg")
    assert (tmp_path / "ratios.svg").read_bytes() == overview.CHART.read_bytes()
    for path, text in overview.texts(shown):
        assert path.read_text(encoding="utf-8") == text


def test_the_range_is_that_of_all_pages():
    def page(ratios):
        block = {
            "ratios": [
                {
                    "work": f"w{ours}",
                    "ours": f"'s__1__o:r{ours}'",
                    "against": {"p": "'s__1__p:r'"},
                }
                for ours in ratios
            ]
        }
        entries = {
            "s__1__o": {f"r{ours}": [ours * 2.0] for ours in ratios},
            "s__1__p": {"r": [2.0]},
        }
        return Page(
            {"entries": {name: {"metrics": metrics} for name, metrics in entries.items()}}, block
        )

    shown = {"one": page([3, 50]), "two": page([1, 153])}
    assert overview.range_of(overview.compared(shown)) == "shardmill is 1 to 153 times"


@pytest.mark.parametrize(("better", "option"), [("higher", "threads 2"), ("lower", "threads 1")])
def test_option_of_a_peer_is_the_one_of_its_best_figure(better, option):
    metrics = {
        "s__own__o": {"x": [8.0]},
        "s__threads_1__p": {"x": [2.0]},
        "s__threads_2__p": {"x": [4.0]},
        "s__threads_4__p": {},
    }
    best = "best" if better == "higher" else "least"
    item = {
        "work": "w",
        "better": better,
        "ours": "'s__own__o:x'",
        "against": {"p": f"{best}('s__threads_*__p:x')"},
    }
    summary = {"entries": {name: {"metrics": one} for name, one in metrics.items()}}
    (ratio,) = Page(summary, {"ratios": [item]}).ratios()
    assert ratio.against() == f"p ({option})"
    assert ratio.times.median == (2.0 if better == "higher" else 0.25)
