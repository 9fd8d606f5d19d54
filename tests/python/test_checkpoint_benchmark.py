"""The checkpoint benchmark in miniature: its files, its check, its goals, its page."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# The benchmarks are no part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmark_results import results_with

from benchmarks.arrayrecord.rounds import finder, measured_entries
from benchmarks.checkpoint.check import check_ids, expected_ids
from benchmarks.checkpoint.data import blobs, decimal_ids, write_sets
from benchmarks.checkpoint.goals import TITLES, goals
from benchmarks.checkpoint.report import write_report
from benchmarks.checkpoint.sets import GROUPS, SETS, WIDE, DataSet, DoneSet
from benchmarks.report_goals import Goal
from benchmarks.runner.configuration import load_configuration
from benchmarks.runner.settings import Settings, read_settings
from benchmarks.runner.templating import Template

REPOSITORY = Path(__file__).resolve().parents[2]


def strings(rows: range) -> list[str]:
    return [str(row) for row in rows]


class TestSets:
    def test_full_size_is_the_published_benchmark(self) -> None:
        source, done = GROUPS["full"]
        assert (source.name, source.files, source.file_name(9_999)) == ("input_10k", 10_000, "9999.parquet")
        assert (source.file_rows(0), source.file_rows(9_999)) == (range(10_000), range(99_990_000, 100_000_000))
        assert (done.name, done.files, done.file_rows(0)) == ("done_80m", 1, range(80_000_000))

    def test_names_are_unique_where_the_content_is_not_the_same(self) -> None:
        for one in (one for group in GROUPS.values() for one in group):
            assert SETS[one.name].manifest() == one.manifest()

    def test_files_of_a_set_hold_every_row_once(self) -> None:
        for one in (*SETS.values(), DataSet("uneven", 3, 10)):
            rows = [one.file_rows(number) for number in range(one.files)]
            assert sum(map(len, rows)) == one.rows
            assert all(first.stop == second.start for first, second in zip(rows, rows[1:], strict=False))


class TestData:
    def test_files_are_those_that_the_writer_makes_of_the_same_strings_by_default(self, tmp_path: Path) -> None:
        assert write_sets([DataSet("input", 3, 30)], tmp_path) == [True]
        for number in range(3):
            pq.write_table(pa.table({"id": strings(range(number * 10, number * 10 + 10))}), tmp_path / "expected")
            assert (tmp_path / "input" / f"{number}.parquet").read_bytes() == (tmp_path / "expected").read_bytes()

    def test_checkpoint_of_several_row_groups_is_what_one_call_writes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("benchmarks.checkpoint.data._ROW_GROUP", 1_000)
        assert write_sets([DoneSet("done", 1, 2_500)], tmp_path) == [True]
        pq.write_table(pa.table({"id": strings(range(2_500))}), tmp_path / "expected", row_group_size=1_000)
        assert (tmp_path / "done" / "ids.parquet").read_bytes() == (tmp_path / "expected").read_bytes()

    def test_ids_are_decimal_strings_without_leading_zeros(self) -> None:
        assert decimal_ids(range(8, 12)).to_pylist() == ["8", "9", "10", "11"]

    def test_blobs_follow_from_the_row_and_do_not_get_shorter(self, tmp_path: Path) -> None:
        assert blobs(range(3, 5), 1_000)[1].equals(blobs(range(4, 5), 1_000)[0])
        write_sets([DataSet("wide", 2, 10, row_group=2, blob_bytes=5_000)], tmp_path)
        file = pq.ParquetFile(tmp_path / "wide" / "1.parquet")
        assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [2, 2, 1]
        assert file.read().column("id").to_pylist() == strings(range(5, 10))
        assert (tmp_path / "wide" / "1.parquet").stat().st_size > 25_000

    def test_set_that_is_there_is_kept_and_one_of_other_content_replaced(self, tmp_path: Path) -> None:
        one, other = DataSet("input", 2, 20), DataSet("input", 1, 20)
        assert write_sets([one, one], tmp_path, processes=2) == [True, True]
        assert write_sets([one], tmp_path) == [False]
        assert write_sets([other], tmp_path) == [True]
        assert sorted(path.name for path in tmp_path.rglob("*")) == [".dataset.json", "0.parquet", "input"]

    def test_only_files_of_rows_are_visible(self, tmp_path: Path) -> None:
        write_sets([DataSet("input", 2, 20)], tmp_path)
        assert pq.read_table(tmp_path / "input").num_rows == 20


class TestCheck:
    @pytest.mark.parametrize(
        ("entry", "expected"),
        [
            ("full__done_80__shardmill", range(80_000_000, 100_000_000)),
            ("hundredth__done_0__ray_none", range(1_000_000)),
            ("tenth__done_80_files__shardmill__run_3", range(8_000_000, 10_000_000)),
            ("wide__done_100__shardmill", range(1_000, 1_000)),
        ],
    )
    def test_name_of_an_entry_tells_what_is_left(self, entry: str, expected: range) -> None:
        assert expected_ids(entry) == expected

    @pytest.mark.parametrize(
        ("written", "failures"),
        [
            ([["7", "5"], ["6"]], []),
            ([["5", "6"], ["6"]], ["1 ids are missing", "1 ids are twice"]),
            ([["5", "6"], ["7", "8"]], ["1 ids are too much"]),
            ([], ["3 ids are missing"]),
        ],
    )
    def test_ids_must_be_there_once(self, tmp_path: Path, written: list[list[str]], failures: list[str]) -> None:
        for number, ids in enumerate(written):
            pq.write_table(pa.table({"id": ids}), tmp_path / f"{number}.parquet")
        checked = check_ids(tmp_path, range(5, 8))
        assert checked["check_failures"] == failures
        assert checked["checked_rows"] == sum(map(len, written))

    def test_folder_that_does_not_exist_holds_no_rows(self, tmp_path: Path) -> None:
        assert check_ids(tmp_path / "nothing", range(9, 9))["check_failures"] == []


class TestOurEntry:
    @pytest.mark.parametrize("done", [0, 13, 30])
    def test_rows_that_are_not_done_are_written_once(self, tmp_path: Path, done: int) -> None:
        resume = pytest.importorskip("shardmill.resume")
        if not hasattr(resume, "Checkpoint"):
            pytest.skip("this build has no checkpoint")
        from benchmarks.checkpoint.shardmill_entry import main

        write_sets([DataSet("input", 3, 30), DoneSet("done", 1, max(done, 1))], tmp_path)
        checkpoint, out, metrics = tmp_path / "done" if done else "none", tmp_path / "out", tmp_path / "metrics.json"
        given = {"input": tmp_path / "input", "checkpoint": checkpoint, "out": out, "json": metrics}
        assert main([f"--{name}={value}" for name, value in given.items()] + ["--batch-size=7"]) == 0
        assert check_ids(out / "data", range(done, 30))["check_failures"] == []
        found = json.loads(metrics.read_text())
        assert (found["is_success"], found["rows_out"]) == (True, 30 - done)
        assert found["rchar"] > 0


def settings() -> Settings:
    return read_settings(load_configuration([REPOSITORY / "benchmarks" / "checkpoint.yaml"], {}))


class TestConfiguration:
    def test_every_set_has_a_folder_and_a_step_that_makes_it(self) -> None:
        assert set(settings().datasets) == set(SETS)
        assert [step.name for step in settings().prepare] == [f"generate_{name}" for name in settings().datasets]
        for step in settings().prepare:
            template = Template(settings(), REPOSITORY, Path("entry"))
            made = template.fill(str(step.makes))
            out, _, name = template.arguments(step.args)
            assert made == f"{out}/{name}"

    def test_entries_have_the_inputs_and_the_row_counts_that_their_names_tell(self) -> None:
        for entry in settings().entries:
            size, setting, system = entry.name.split("__")
            assert system in TITLES
            if size == "index":
                continue
            given = Template(settings(), REPOSITORY, Path("entry")).arguments(entry.args)
            options = dict(one.removeprefix("--").split("=") for one in given if "=" in one)
            left = expected_ids(entry.name)
            assert [(one.metric, one.exact_value) for one in entry.requirements] == [("rows_out", len(left))]
            assert SETS[Path(options["input"]).name].rows == left.stop
            if left.start:
                assert SETS[Path(options["checkpoint"]).name].rows == left.start
            else:
                assert options["checkpoint"] == "none"
            assert Path(options["checkpoint"]).name.endswith("_files") == setting.endswith("_files")
            is_on_ray = system == "ray" or system.startswith("ray_")
            assert is_on_ray == entry.script.endswith("ray_checkpoint_entry.py")
            assert (options.get("manager") == "shardmill") == (system == "ray_plugin")
            assert (options.get("executor") == "ray") == (system == "shardmill_ray")
            assert ("--cold" in given) == (size == WIDE.name)

    def test_ray_gets_a_read_task_for_ten_files(self) -> None:
        for entry in settings().entries:
            if found := re.search(r"input_(\d+)(k?),.*--parallelism=(\d+)", entry.args):
                assert int(found[1]) * (1_000 if found[2] else 1) == 10 * int(found[3])


def entry_of(name: str, *rounds: dict[str, float]) -> dict[str, Any]:
    entry = {"name": name, "is_success": True, "failures": [], "versions": {"python": "3.11.7", "ray": "2.60.0"}}
    return entry | {"metrics": rounds[0], "all_metrics": list(rounds), "params": {}}


def results_of(*entries: dict[str, Any]) -> dict[str, Any]:
    record = SETS["input_100"].manifest() | {"bytes": 7_000_000}
    return results_with(*entries, datasets={"/home/someone/data/checkpoint/input_100": record})


def held(*entries: dict[str, Any]) -> dict[str, Goal]:
    return {goal.figure: goal for goal in goals(finder(measured_entries(results_of(*entries), TITLES)))}


def seconds(name: str, *values: float) -> dict[str, Any]:
    return entry_of(name, *({"wall_s": value} for value in values))


class TestGoals:
    def test_medians_of_the_rounds_decide(self) -> None:
        found = held(
            seconds("hundredth__done_80__ray", 10.0, 41.0, 90.0),
            seconds("hundredth__done_80__shardmill", 3.0, 1.0, 0.5),
        )
        goal = found["1/100 of the size against Ray Data with its checkpoint"]
        assert goal == Goal(goal.figure, "≥ 40×", "41×", True)

    def test_what_was_not_measured_leaves_the_goal_open(self) -> None:
        found = held(seconds("hundredth__done_80__shardmill", 1.0))
        assert {goal.is_met for goal in found.values()} == {None}
        assert {goal.measured for goal in found.values()} == {"-"}

    def test_full_size_has_three_goals(self) -> None:
        metrics = {"wall_s": 15.1, "rows_out": 20_000_000, "peak_rss_bytes": 1_400_000_000}
        found = [
            goal for name, goal in held(entry_of("full__done_80__shardmill", metrics)).items() if "full size" in name
        ]
        assert [(goal.measured, goal.is_met) for goal in found] == [
            ("15.1 s", False),
            ("20,000,000", True),
            ("1.4 GB", True),
        ]

    @pytest.mark.parametrize(("plugin", "is_met"), [(21.0, True), (21.2, False)])
    def test_plugin_is_held_against_ray_without_a_checkpoint(self, plugin: float, is_met: bool) -> None:
        found = held(seconds("tenth__done_0__ray_none", 20.0), seconds("tenth__done_80__ray_plugin", plugin))
        assert found["Ray Data, our plug-in against no checkpoint, 1/10"].is_met is is_met
        assert found["Ray Data, our plug-in against no checkpoint, 1/100"].is_met is None

    @pytest.mark.parametrize(
        ("rchar", "read_bytes", "measured", "is_met"),
        [
            (2_000_000, 1_000_000, "0.2 %", True),
            (2_000_000, 900_000_000, "90 %", False),
            (10_100_000, 0, "1.01 %", False),
        ],
    )
    def test_larger_counter_tells_how_much_of_the_blobs_was_read(
        self, rchar: int, read_bytes: int, measured: str, is_met: bool
    ) -> None:
        found = held(entry_of("wide__done_100__shardmill", {"rchar": rchar, "read_bytes": read_bytes}))
        goal = found["all rows done, blobs of 1 MB: read of them"]
        assert (goal.measured, goal.is_met) == (measured, is_met)

    def test_many_files_are_held_against_one_by_the_load_where_both_tell_it(self) -> None:
        many, one = "tenth__done_80_files__shardmill", "tenth__done_80__shardmill"
        both = [entry_of(many, {"wall_s": 2.0, "load_s": 0.9}), entry_of(one, {"wall_s": 1.5, "load_s": 0.3})]
        assert held(*both)["checkpoint of 10,000 files against one, load"].measured == "3×"
        none = [seconds(many, 3.0), entry_of(one, {"wall_s": 1.5, "load_s": 0.3})]
        assert held(*none)["checkpoint of 10,000 files against one, job"].measured == "2×"

    def test_index_has_goals_for_bytes_and_times(self) -> None:
        found = held(
            entry_of("index__uuid_80m__shardmill", {"bytes_per_id": 13.2, "build_s": 61.0, "probe_s": 3.9}),
            entry_of("index__decimal_80m__shardmill", {"bytes_per_id": 0.125}),
        )
        met = {name: goal.is_met for name, goal in found.items() if goal.is_met is not None}
        assert list(met.values()) == [True, True, False, True]


def whole_session() -> dict[str, Any]:
    """Every entry of the shipped file."""
    entries = []
    for entry in settings().entries:
        if entry.name.startswith("index__"):
            metrics = {"bytes_per_id": 0.5, "build_s": 10.0, "probe_s": 2.0, "probes": 20_000_000}
        else:
            rows = float(len(expected_ids(entry.name)))
            metrics = {
                "wall_s": 2.0,
                "rows_out": rows,
                "lookups": 8e6,
                "filter_s": 0.5,
                "rchar": 1e6,
                "read_bytes": 0.0,
            }
        metrics |= {"process_seconds": 3.0, "cpu_seconds": 4.0, "peak_rss_bytes": 1e9}
        entries.append(entry_of(entry.name, *([metrics] * 3)))
    return results_of(*entries)


class TestPage:
    def test_shipped_entries_measure_every_goal(self) -> None:
        found = goals(finder(measured_entries(whole_session(), TITLES)))
        assert [goal.figure for goal in found if goal.is_met is None] == []

    def test_page_has_goals_tables_and_conditions(self, tmp_path: Path) -> None:
        write_report(whole_session(), tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "| full size, load of the checkpoint included | ≤ 15 s | 2 s | met |" in page
        assert "Missed: 1/100 of the size against Ray Data with its checkpoint." in page
        cells = "| 80 % | shardmill | 2.00 | 3.00 | - | - | 0.50 | - | 16.0 | 20,000,000 | 1.00 | 4.0 | 1.0 | 0.0 | - |"
        assert cells in page
        assert "| 80 %, 10,000 files | shardmill |" in page
        assert "| uuid, 80m | 10.00 | 2.00 | 10.0 | 0.500 | 1.00 |" in page
        assert "It publishes 190 s" in page
        assert "* rounds: 3; " in page
        assert "`{datasets_path}/checkpoint/input_100`: 1,000,000 rows in 100 files, 7.0 MB" in page
        assert "make bench-checkpoint" in page

    def test_rows_are_ordered_by_what_is_done(self, tmp_path: Path) -> None:
        write_report(whole_session(), tmp_path)
        section = (tmp_path / "README.md").read_text().split("## 1/100")[1].split("##")[0]
        found: Sequence[str] = re.findall(r"^\| (\d+) % \|", section, re.MULTILINE)
        assert list(map(int, found)) == sorted(map(int, found))
        assert len(found) == 18

    def test_page_does_not_change_between_runs_and_holds_no_folder_of_this_machine(self, tmp_path: Path) -> None:
        for folder in ("one", "two"):
            write_report(whole_session(), tmp_path / folder)
        names = sorted(path.name for path in (tmp_path / "one").iterdir())
        assert names == ["README.md", "peak_memory.svg", "results.json", "wall_seconds.svg", "wall_seconds_tenth.svg"]
        for name in names:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
            assert "someone" not in (tmp_path / "one" / name).read_text()

    def test_failed_entry_is_named_and_the_rest_still_shown(self, tmp_path: Path) -> None:
        failed = seconds("hundredth__done_80__ray", 1.0) | {"is_success": False, "failures": ["1 ids are missing"]}
        write_report(results_of(failed, seconds("wide__done_100__shardmill", 0.2)), tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "**failed**: hundredth__done_80__ray: 1 ids are missing" in page
        assert "| 100 % | shardmill | 0.20 |" in page
        assert "Nothing that has a goal was measured" in page
        assert json.loads((tmp_path / "results.json").read_text())["entries"][0]["failures"] == ["1 ids are missing"]
