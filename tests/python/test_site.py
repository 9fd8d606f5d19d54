"""The documentation site builds strictly and is complete; the README is short and says what the benchmarks say."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import shardmill
from shardmill import errors
from shardmill.cli._commands import shardmill as command

from benchmarks import overview

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


def test_every_public_name_is_in_the_reference(site):
    anchors = anchors_of(site / "reference" / "api.html")
    kinds = {name for name in shardmill.__all__ if name[0] != "_" and not hasattr(errors, name)}
    assert {f"shardmill.{name}" for name in kinds} - anchors == set()


def test_every_error_has_a_cause_and_a_remedy(site):
    text = (site / "reference" / "errors.html").read_text(encoding="utf-8")
    public = [name for name in shardmill.__all__ if hasattr(errors, name)]
    assert {name.lower() for name in public} - anchors_of(site / "reference" / "errors.html") == set()
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
        body = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for markup in (":class:", ":meth:", ":func:", ":attr:", "```", "&gt;&gt;&gt;"):
            assert markup not in body, f"{markup} in {page.relative_to(site)}"


def test_the_readme_is_short_and_its_range_is_that_of_the_chart():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= 500
    ratios = [comparison.ratio() for comparison in overview.COMPARISONS]
    assert f"{min(ratios):.2g} to {max(ratios):.0f} times" in " ".join(readme.split())


def test_the_committed_chart_and_table_are_those_of_the_summaries(tmp_path):
    overview.draw(overview.COMPARISONS, tmp_path / "ratios.svg")
    assert (tmp_path / "ratios.svg").read_bytes() == overview.CHART.read_bytes()
    assert overview.table(overview.COMPARISONS) in overview.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("better", "option"), [("higher", "2 threads"), ("lower", "1 thread")])
def test_option_of_a_peer_is_the_one_of_its_best_figure(monkeypatch, better, option):
    entries = {name: {"metrics": {"x": [value]}} for name, value in (("own", 8.0), ("one", 2.0), ("two", 4.0))}
    entries["failed"] = {"metrics": {}}
    monkeypatch.setattr(overview, "_summary", lambda _name: {"entries": entries})
    theirs = {("failed", "x"): "no threads", ("one", "x"): "1 thread", ("two", "x"): "2 threads"}
    compared = overview.Comparison(work="w", peer="p", summary="s", ours=(("own", "x"),), theirs=theirs, better=better)
    assert compared.option() == option
    assert compared.values() == (8.0, 4.0 if better == "higher" else 2.0)
