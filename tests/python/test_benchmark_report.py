"""The page that is made of a session: its table, its goals, and what it leaves out."""

import json
import sys
from pathlib import Path

import pytest

# The benchmarks are not a part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.report import Page, Row, summarize, write_report

YAML = """
module: m
entries: []
report:
  title: Things
  make: bench-things
  names: {peer: The Peer}
  datasets: [num_rows]
  chart: {rows: "*", per: entry figure, value: per_s / 1e3, axis: thousand a second}
  goals:
    - {figure: faster, at_least: 2, value: "'s__1__shardmill:read/per_s' / 's__1__peer:read/per_s'"}
    - {figure: much faster, at_least: 4, value: "'s__1__shardmill:read/per_s' / 's__1__peer:read/per_s'"}
    - {figure: memory, at_most: 10, form: "{:.3g} MB", value: "'s__1__shardmill:peak_rss_bytes' / 1e6"}
    - {figure: other, at_least: 2, value: "'s__2__shardmill:read/per_s'"}
  tables:
    - title: Rates
      rows: s__*
      per: case figure
      labels: {call: "`{figure}`"}
      columns:
        shardmill: ["'{case}__shardmill:{figure}/per_s'", rate]
        its best: ["'{case}__shardmill:{figure}/per_s@max'", rate]
        peer: ["'{case}__peer:{figure}/per_s'", rate]
        published: {read: 9 K/s}
        absent: ["'{case}__absent:{figure}/per_s'", rate]
    - {title: Nothing, rows: none__*, columns: {x: [x, "{}"]}}
    - {title: Seconds, rows: s__*, columns: {s: [process_seconds, "{:.1f}"], ranks: ["'ranks/*'", "{:,.0f}"]}}
"""


def entry(*rates, failures=(), **more):
    rounds = [
        {"figures": {"read": {"per_s": rate}}, "peak_rss_bytes": 20e6, "process_seconds": 1, **more} for rate in rates
    ]
    return {"versions": {"python": "3.11"}, "failures": list(failures), "rounds": rounds}


@pytest.fixture
def results():
    entries = {
        "s__1__shardmill": entry(2_000, 9_000, 3_000, ranks=[1_000, 2_000]),
        "s__1__peer": entry(1_000),
        "s__3__peer": entry(failures=["exit code 1: /home/of/this/machine/log"]),
    }
    machine = {"cpu_model": "CPU", "cpu_cores": 2, "memory_bytes": 8e9, "kernel": "6"}
    return {
        "started_utc": "2026-01-01",
        "command": "python -m benchmarks.run",
        "commit": "abc",
        "rounds": 3,
        "machine": machine | {"disk_write_mb_per_s": 100.0, "disk_read_mb_per_s": 200.0},
        "datasets": {"set": {"num_rows": 5, "rows": [2, 3]}},
        "entries": entries,
    }


@pytest.fixture
def page(results, tmp_path):
    (tmp_path / "things.yaml").write_text(YAML)
    write_report(tmp_path / "things.yaml", results, tmp_path / "page")
    return tmp_path / "page"


def test_tables_show_medians_best_and_published_values_and_no_empty_column(page):
    text = (page / "README.md").read_text()
    assert (
        "| call | shardmill | its best | peer | published |\n|---|--:|--:|--:|--:|\n| `read` | 3 K/s | 9 K/s | 1 K/s | 9 K/s |"
        in text
    )
    assert "| 1 | shardmill | 1.0 | 1,000, 2,000 |\n| 1 | The Peer | 1.0 | - |" in text
    assert "Nothing" not in text
    assert "data set `set`: num rows 5\n" in text


def test_goals_are_met_missed_or_not_measured(page):
    text = (page / "README.md").read_text()
    assert "1 of 4 goals are met, 1 were not measured." in text
    for line in (
        "| faster | ≥ 2× | 3× | met |",
        "| much faster | ≥ 4× | 3× | **missed** |",
        "| memory | ≤ 10 MB | 20 MB | **missed** |",
        "| other | ≥ 2× | - | not measured |",
    ):
        assert line in text


def test_failed_entry_is_named_without_the_paths_of_this_machine(page):
    text = (page / "README.md").read_text() + (page / "summary.json").read_text()
    assert "* **failed**: s__3__peer: exit code 1: log" in text
    assert "/home" not in text


def test_page_of_a_summary_is_that_of_its_session(page, tmp_path):
    summary = json.loads((page / "summary.json").read_text())
    assert summary["entries"]["s__1__shardmill"]["metrics"]["read/per_s"] == [3_000, 2_000, 9_000]
    write_report(tmp_path / "things.yaml", summary, tmp_path / "again")
    for name in ("README.md", "summary.json", "chart.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (page / name).read_bytes()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("process_seconds * 2 + 1", 3),
        ("-'s__1__peer:read/per_s'", -1_000),
        ("max('s__1__*:read/per_s')", 3_000),
        ("min('s__1__peer:read/per_s', 's__2__peer:read/per_s')", None),
        ("best('s__1__peer:read/per_s', 's__2__peer:read/per_s')", 1_000),
        ("sum('ranks/*')", 3_000),
        ("'machine:disk_write_mb_per_s' / 0", None),
        ("'{case}__peer:read/per_s@min'", 1_000),
    ],
)
def test_expression(results, expression, value):
    page = Page(summarize(results), {})
    assert page.value(expression, Row("s__1__shardmill")) == value


def test_expression_that_is_not_arithmetic_is_refused(results):
    with pytest.raises(ValueError, match="cannot read"):
        Page(summarize(results), {}).value("[1, 2]")
