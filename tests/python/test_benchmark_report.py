"""The page that is generated from a session.

Tables of ratios, notes about rounds and commits, omissions; goals.
"""

import json
import statistics
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
import yaml

# The benchmarks are not a part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.figures import Row
from benchmarks.goals import judged
from benchmarks.report import Page, summarize, write_report
from benchmarks.runner.series import Series, entry_spread
from benchmarks.runner.settings import read_settings

YAML = """
module: m
entries: []
report:
  title: Things
  make: bench-things
  names: {peer: The Peer}
  datasets: [num_rows]
  chart: {rows: "*", per: entry figure, value: per_s / 1e3, axis: thousand a second}
  ratios:
    - work: "{what} rows"
      matrix: {one: [{what: read, figure: read}, {what: lost, figure: none}]}
      ours: "'s__1__shardmill:{figure}/per_s'"
      against: {The Peer: "best('s__*__peer:{figure}/per_s')", absent: "'s__1__absent:read/per_s'"}
      limit: {a copy: "'s__1__cp:read/per_s'"}
    - work: whole process
      better: lower
      form: "{:.3g} s"
      ours: "'s__1__shardmill:process_seconds'"
      limit: {a copy: "'s__1__cp:process_seconds'"}
  limits: The copy is bound by the disk.
  tables:
    - title: Rates
      rows: s__*
      per: case figure
      labels: {call: "`{figure}`"}
      columns:
        shardmill: ["'{case}__shardmill:{figure}/per_s'", rate]
        ratio: ["'{case}__shardmill:{figure}/per_s' / '{case}__peer:{figure}/per_s'", ratio]
        peer: ["'{case}__peer:{figure}/per_s'", rate]
        published: {read: 9 K/s}
        absent: ["'{case}__absent:{figure}/per_s'", rate]
    - {title: Nothing, rows: none__*, columns: {x: [x, "{}"]}}
    - title: Seconds
      rows: s__*
      columns:
        s: [process_seconds, "{:.1f}"]
        ranks: ["'ranks/*'", "{:,.0f}"]
        told: [told/resume, told]
"""


OURS, THEIRS = (2_000, 9_000, 3_000), (500, 3_000, 1_500)


def entry(*rates, failures=(), **more):
    rounds = [
        {"figures": {"read": {"per_s": rate}}, "peak_rss_bytes": 20e6, "process_seconds": 1, **more}
        for rate in rates
    ]
    origin = {"commit": "abc", "started_utc": "2026-01-01", "seconds": 60.0}
    return origin | {"versions": {"python": "3.11"}, "failures": list(failures), "rounds": rounds}


@pytest.fixture
def results():
    entries = {
        "s__1__shardmill": entry(*OURS, ranks=[1_000, 2_000], told={"resume": "3 rows lost"})
        | {"is_repeated": True},
        "s__1__peer": entry(*THEIRS),
        "s__2__peer": entry(*(rate / 2 for rate in THEIRS)),
        "s__1__cp": entry(4_000, 4_000, 4_000),
        "s__3__peer": entry(failures=["exit code 1: /home/of/this/machine/log"]),
    }
    machine = {"cpu_model": "CPU", "cpu_cores": 2, "memory_bytes": 8e9, "kernel": "6"}
    return {
        "started_utc": "2026-01-01",
        "command": "python -m benchmarks.run",
        "commit": "abc",
        "machine": machine | {"disk_write_mb_per_s": 100.0, "disk_read_mb_per_s": 200.0},
        "datasets": {"set": {"num_rows": 5, "rows": [2, 3]}},
        "entries": entries,
    }


@pytest.fixture
def page(results, tmp_path):
    (tmp_path / "things.yaml").write_text(YAML)
    write_report(tmp_path / "things.yaml", results, tmp_path / "page")
    return tmp_path / "page"


def test_first_table_shows_paired_ratios_quartiles_and_the_share_of_the_limit(page):
    text = (page / "README.md").read_text()
    quotients = [ours / theirs for ours, theirs in zip(OURS, THEIRS, strict=True)]
    first, median, third = np.percentile(quotients, [25, 50, 75])
    assert median == statistics.median(quotients) != 3_000 / 1_500
    line = (
        f"| read rows | The Peer (1) | {median:.3g}× ({first:.3g}–{third:.3g}) "
        "| 75% of a copy | 3 K/s | 1.5 K/s |"
    )
    assert line in text
    assert "| whole process | - | - | 100% of a copy | 1 s | - |" in text
    assert "lost rows" not in text
    assert "absent" not in text
    assert "## What limits the speed\n\nThe copy is bound by the disk." in text


def test_tables_show_medians_ratios_words_and_published_values_and_no_empty_column(page):
    text = (page / "README.md").read_text()
    assert "| call | shardmill | ratio | peer | published |\n|---|--:|--:|--:|--:|\n" in text
    assert "\n| `read` | 3 K/s | 3× (2.5–3.5) | 1.5 K/s | 9 K/s |\n" in text
    assert (
        "| 1 | shardmill | 1.0 | 1,000, 2,000 | 3 rows lost |\n| 1 | The Peer | 1.0 | - | - |"
        in text
    )
    assert "Nothing" not in text
    assert "data set `set`: num rows 5\n" in text
    assert "* rounds: 3 (4 entries)\n" in text
    assert "more than 20 % apart: s__1__shardmill\n" in text
    assert not any(word in text for word in ("goal", " met", "missed"))


def test_entries_of_another_session_stay_with_their_commit_and_their_ratios_are_those_of_medians(
    page, results, tmp_path
):
    newer = {
        **results,
        "commit": "def",
        "entries": {"s__1__shardmill": entry(8_000, 2_000, 6_000) | {"commit": "def"}},
    }
    write_report(tmp_path / "things.yaml", newer, page)
    text = (page / "README.md").read_text()
    assert "* commit def, started" in text
    assert (
        "measured in another session, on commit abc, started 2026-01-01 UTC; a ratio of one of "
        "these entries and any other is not of one session: s__1__peer, s__2__peer" in text
    )
    assert "| read rows | The Peer (1) | 4× | 150% of a copy | 6 K/s | 1.5 K/s |" in text
    assert (
        json.loads((page / "summary.json").read_text())["entries"]["s__1__peer"]["commit"] == "abc"
    )


@pytest.mark.parametrize(
    "values", [[4.0], [1.0, 2.0], [5.0, 1.0, 2.0, 9.0], [0.1, 0.2, 0.3, 0.5, 0.7]]
)
def test_median_and_quartiles_are_those_of_numpy(values):
    series = Series(values, "run")
    first, median, third = np.percentile(values, [25, 50, 75])
    assert series.quartiles == pytest.approx((first, third))
    assert series.median == pytest.approx(median)
    assert series.spread == pytest.approx((third - first) / median)


def test_spread_of_an_entry_is_that_of_its_rates_or_of_its_process():
    assert (
        entry_spread(
            [{"rows_per_s": 1.0, "process_seconds": 1}, {"rows_per_s": 1.0, "process_seconds": 9}]
        )
        == 0
    )
    assert entry_spread([{"process_seconds": 1.0}, {"process_seconds": 3.0}]) == 0.5
    assert entry_spread([]) == 0


def test_goals_are_met_missed_or_not_measured(page, tmp_path):
    goals = [
        {"work": "read *", "against": "The Peer", "at_least": 2},
        {"work": "read rows", "share": True, "at_least": 0.8},
        {
            "figure": "memory",
            "at_most": 10,
            "form": "{:.3g} MB",
            "value": "'s__1__shardmill:peak_rss_bytes' / 1e6",
        },
        {"work": "other", "against": "The Peer", "at_least": 2},
    ]
    summary = json.loads((page / "summary.json").read_text())
    assert list(judged(Page(summary, read_settings(tmp_path / "things.yaml").report), goals)) == [
        ("read rows, against The Peer", "≥ 2×", "3×", "met"),
        ("read rows, against a copy", "≥ 0.8×", "0.75×", "missed"),
        ("memory", "≤ 10 MB", "20 MB", "missed"),
        ("other, against The Peer", "≥ 2×", "-", "not measured"),
    ]


def test_every_goal_bounds_a_ratio_of_its_suite_or_an_expression():
    directory, lost = Path(__file__).parents[2] / "benchmarks", []
    for suite, goals in yaml.safe_load((directory / "goals.yaml").read_text()).items():
        page = Page(
            {"entries": {}, "machine": {}}, read_settings(directory / f"{suite}.yaml", {}).report
        )
        for goal in goals:
            if "value" in goal:
                page.value(goal["value"])
                continue
            items = [
                item
                for item in page.items()
                if fnmatchcase(item["work"], goal["work"].replace("[", "[[]"))
            ]
            if not any(
                "limit" in item if "share" in goal else goal["against"] in item["against"]
                for item in items
            ):
                lost.append((suite, goal))
    assert not lost


def test_failed_entry_is_named_without_the_paths_of_this_machine(page):
    text = (page / "README.md").read_text() + (page / "summary.json").read_text()
    assert "* **failed**: s__3__peer: exit code 1: log" in text
    assert "/home" not in text


def test_page_of_a_summary_is_that_of_its_session(page, tmp_path):
    summary = json.loads((page / "summary.json").read_text())
    assert summary["entries"]["s__1__shardmill"]["metrics"]["read/per_s"] == list(OURS)
    write_report(tmp_path / "things.yaml", summary, tmp_path / "again")
    for name in ("README.md", "summary.json", "chart.svg"):
        assert (tmp_path / "again" / name).read_bytes() == (page / name).read_bytes()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("process_seconds * 2 + 1", 3),
        ("-'s__1__peer:read/per_s'", -1_500),
        ("max('s__1__*:read/per_s')", 4_000),
        ("least('s__*__peer:read/per_s')", 750),
        ("min('s__1__peer:read/per_s', 's__4__peer:read/per_s')", None),
        ("best('s__1__peer:read/per_s', 's__4__peer:read/per_s')", 1_500),
        ("sum('ranks/*')", 3_000),
        ("'machine:disk_write_mb_per_s' / 0", None),
        ("'{case}__peer:read/per_s'", 1_500),
    ],
)
def test_expression(results, expression, value):
    page = Page(summarize(results), {})
    found = page.value(expression, Row("s__1__shardmill"))
    assert (found and found.median) == value


def test_expression_that_is_not_arithmetic_is_refused(results):
    with pytest.raises(ValueError, match="cannot read"):
        Page(summarize(results), {}).value("[1, 2]")
