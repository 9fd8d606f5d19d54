"""The ArrayRecord benchmark in miniature: its files, its clock and checks, its goals, its page."""

from __future__ import annotations

import json
import pickle
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

# The benchmarks are no part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmark_results import results_with

from benchmarks.arrayrecord.data import read_raw, write_raw, write_set
from benchmarks.arrayrecord.goals import Goal, goals
from benchmarks.arrayrecord.measure import System, WrongRecordsError, check_records, run_entry
from benchmarks.arrayrecord.options import SCENARIOS, Options, parse_options
from benchmarks.arrayrecord.report import write_report
from benchmarks.arrayrecord.rounds import finder, measured_entries
from benchmarks.arrayrecord.sets import CODECS, PUBLISHED_SIZES, RAW_SET, SETS
from benchmarks.runner.configuration import load_configuration
from benchmarks.runner.settings import Settings, read_settings
from benchmarks.runner.templating import Template

REPOSITORY = Path(__file__).resolve().parents[2]
WORDS = ("lorem", "ipsum", "dolor", "sit", "amet")
RECORDS = 300


class ListWriter:
    """A stand-in for both writers: a pickled list."""

    def __init__(self, path: str, options: str, threads: int = 1) -> None:
        self.path, self.records = Path(path), []

    def write(self, record: bytes) -> None:
        self.records.append(record)

    def write_all(self, records: list[bytes]) -> None:
        self.records += records

    def close(self) -> None:
        self.path.write_bytes(pickle.dumps(self.records))


class ListReader:
    """A stand-in for both readers, with the calls of either."""

    def __init__(self, path: str, options: str = "") -> None:
        self.records, self.cursor = pickle.loads(Path(path).read_bytes()), 0

    def num_records(self) -> int:
        return len(self.records)

    def record_index(self) -> int:
        return self.cursor

    def seek(self, number: int) -> None:
        self.cursor = number

    def read(self, *given: Any) -> Any:
        if not given:
            self.cursor += 1
            return self.records[self.cursor - 1]
        return self.records[slice(*given)] if len(given) == 2 else [self.records[number] for number in given[0]]

    def read_all(self) -> list[bytes]:
        return list(self.records)

    def read_arrow(self, numbers: list[int]) -> pa.LargeBinaryArray:
        return pa.array([self.records[number] for number in numbers], pa.large_binary())

    def __getitem__(self, number: int) -> bytes:
        return self.records[number]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.records)

    def close(self) -> None:
        self.records = []


class ListSource(ListReader):
    """A stand-in for both data sources."""

    def __len__(self) -> int:
        return len(self.records)

    def __getitems__(self, numbers: list[int]) -> list[bytes]:
        return self.read(numbers)

    def __enter__(self) -> ListSource:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def some_words(count: int) -> str:
    return " ".join(random.choices(WORDS, k=count))


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arrayrecord")
    assert write_raw(folder / RAW_SET, RECORDS, some_words)
    for one in SETS.values():
        assert write_set(one, folder / one.name, read_raw(folder / RAW_SET), ListWriter)
    return folder


def options_of(sets: Path, out: Path, scenario: str, *arguments: str, name: str = "zstd_1") -> Options:
    out.mkdir(exist_ok=True)
    given = ["--out", str(out), "--data", str(sets / name), "--raw", str(sets / RAW_SET), "--scenario", scenario]
    return parse_options("test", [*given, *arguments])


def system_of(reader: Any = ListReader, source: Any = ListSource, *, is_ours: bool = True) -> System:
    return System(reader, ListWriter, source, is_ours, "0")


class TestDataSets:
    def test_records_are_the_same_each_time(self, sets: Path, tmp_path: Path) -> None:
        write_raw(tmp_path / "again", RECORDS, some_words)
        assert read_raw(tmp_path / "again") == read_raw(sets / RAW_SET)
        assert {record.count(b" ") for record in read_raw(sets / RAW_SET)} == {199}

    def test_short_and_long_file_hold_the_records_a_part_or_eight_times_over(self, sets: Path) -> None:
        records = read_raw(sets / RAW_SET)
        held = {name: pickle.loads((sets / name / "records.array_record").read_bytes()) for name in ("small", "large")}
        assert held == {"small": records[: RECORDS // 64], "large": records * 8}

    def test_sizes_are_those_of_the_specification(self) -> None:
        sizes = {name: (one.size(65_536), one.writer_options) for name, one in SETS.items()}
        assert sizes["zstd_256"] == (65_536, "group_size:256,zstd:3")
        assert sizes["none_1"] == (65_536, "group_size:1,uncompressed")
        assert (sizes["small"][0], sizes["large"][0]) == (1_024, 524_288)
        assert {(one.codec, one.group) for one in SETS.values()} == set(PUBLISHED_SIZES)

    def test_complete_folder_is_kept_and_another_is_replaced(self, sets: Path, tmp_path: Path) -> None:
        records = read_raw(sets / RAW_SET)
        one, folder = SETS["zstd_1"], tmp_path / "zstd_1"
        assert write_set(one, folder, records, ListWriter)
        assert not write_set(one, folder, records, ListWriter)
        assert write_set(one, folder, records[:100], ListWriter)
        (folder / "manifest.json").unlink()
        assert write_set(one, folder, records[:100], ListWriter)


class TestMeasuring:
    @pytest.mark.parametrize("is_ours", [True, False])
    @pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one != "grain"])
    def test_scenario_leaves_figures(self, sets: Path, tmp_path: Path, scenario: str, is_ours: bool) -> None:
        options = options_of(sets, tmp_path / "out", scenario, "--calls=100", "--slow-calls=50")
        assert run_entry(options, system_of(is_ours=is_ours)) == 0
        metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
        assert (metrics["is_success"], metrics["records"]) == (True, RECORDS)
        assert all(figure["seconds"] > 0 for figure in metrics["figures"].values())
        counts = {name: figure["records"] for name, figure in metrics["figures"].items()}
        own = {
            "calls": {"reader[i]"},
            "batch": {"read_arrow(list)"},
            "sequential": {"for record in reader"},
            "write": {"group 1, write_all", "group 1, write, threads=1"},
        }.get(scenario, set())
        assert own <= set(counts) if is_ours else not own & set(counts)
        if scenario == "calls":
            assert (counts["read([i])"], counts["read(i, i + 1)"], counts["seek + read"]) == (50, 100, 5)
        elif scenario == "individual":
            assert counts == {"ds[i]": 50}
        else:
            assert set(counts.values()) == {RECORDS}

    def test_more_calls_than_records_go_over_the_permutation_again(self, sets: Path, tmp_path: Path) -> None:
        options = options_of(sets, tmp_path / "out", "individual")
        numbers = options.numbers(2 * RECORDS + 1)
        assert numbers[:RECORDS] == numbers[RECORDS:-1] == options.permutation
        assert sorted(options.permutation) == list(range(RECORDS))
        assert all(type(number) is int for number in numbers)

    @pytest.mark.parametrize("scenario", ["individual", "calls", "batch", "sequential", "open", "write"])
    def test_wrong_record_is_an_error(self, sets: Path, tmp_path: Path, scenario: str) -> None:
        class Damaged(ListSource):
            def __init__(self, path: str, options: str = "") -> None:
                super().__init__(path, options)
                self.records[RECORDS - 1] = b"another"

        options = options_of(sets, tmp_path / "out", scenario)
        with pytest.raises(WrongRecordsError, match="another record 299"):
            run_entry(options, system_of(Damaged, Damaged))
        assert not json.loads((tmp_path / "out" / "metrics.json").read_text())["is_success"]

    def test_record_that_does_not_come_is_an_error(self, sets: Path, tmp_path: Path) -> None:
        options = options_of(sets, tmp_path / "out", "sequential")
        records = list(enumerate(read_raw(sets / RAW_SET)))
        check_records(options, "all", records)
        with pytest.raises(WrongRecordsError, match="did not give record 299"):
            check_records(options, "all but one", records[:-1])

    def test_our_entry_runs_every_scenario(self, sets: Path, tmp_path: Path) -> None:
        ours = pytest.importorskip("shardmill.arrayrecord")
        from benchmarks.arrayrecord.shardmill_entry import main

        records = read_raw(sets / RAW_SET)
        write_set(SETS["zstd_1"], tmp_path / "zstd_1", records, lambda path, text: ours.ArrayRecordWriter(path, text))
        for scenario in SCENARIOS:
            if scenario != "grain":
                given = ["--out", tmp_path, "--data", tmp_path / "zstd_1", "--raw", sets / RAW_SET, "--calls", 20]
                assert main(["--scenario", scenario, *map(str, given)]) == 0


def settings() -> Settings:
    return read_settings(load_configuration([REPOSITORY / "benchmarks" / "arrayrecord.yaml"], {}))


class TestConfiguration:
    def test_every_entry_of_the_shipped_file_has_a_valid_command_line(self) -> None:
        assert set(settings().datasets) == {RAW_SET, *SETS}
        for entry in settings().entries:
            scenario, setting, system = entry.name.split("__")
            options = parse_options("test", Template(settings(), REPOSITORY, Path("entry")).arguments(entry.args))
            assert options.scenario == ("individual" if scenario == "growth" else scenario)
            assert options.data.name in SETS
            assert setting in (options.data.name, options.data.name.removesuffix("_1"))
            assert (options.raw is not None) == (scenario == "write")
            is_slow = system == "array_record" and scenario in ("individual", "calls", "growth", "grain")
            assert options.slow_calls == (5_000 if is_slow else 65_536)

    def test_ours_and_theirs_take_turns(self) -> None:
        names = [entry.name.rsplit("__", 1) for entry in settings().entries]
        assert [system for _, system in names] == ["shardmill", "array_record"] * (len(names) // 2)
        assert [name for name, _ in names[::2]] == [name for name, _ in names[1::2]]


def entry_of(name: str, *rounds: dict[str, float], **more: Any) -> dict[str, Any]:
    """An entry whose calls had the given records a second in each round."""
    made = [
        {
            "is_success": True,
            "records": 65_536,
            "figures": {call: {"records": 1_000, "seconds": 1_000 / rate} for call, rate in one.items()},
            **more,
        }
        for one in rounds
    ]
    entry = {"name": name, "is_success": True, "failures": [], "versions": {"python": "3.11.7"}}
    return entry | {"metrics": made[0], "all_metrics": made, "params": {}}


def results_of(*entries: dict[str, Any]) -> dict[str, Any]:
    return results_with(
        *entries,
        datasets={
            "/home/someone/data/zstd_1": {
                "name": "zstd_1",
                "codec": "zstd",
                "group": 1,
                "records": 65_536,
                "raw_bytes": 97_230_848,
                "bytes": 52_625_408,
            }
        },
    )


def held(*entries: dict[str, Any]) -> dict[str, Goal]:
    return {goal.figure: goal for goal in goals(finder(measured_entries(results_of(*entries))))}


def size_entries(**sizes: int) -> list[dict[str, Any]]:
    return [
        entry_of(
            f"write__{codec}__shardmill",
            {"group 1, write": 100.0},
            raw_bytes=100_000,
            sizes={str(group): sizes.get(f"{codec}_{group}", round(PUBLISHED_SIZES[codec, group] * 1_000)) for group in (1, 256)},
        )
        for codec in CODECS
    ]  # fmt: skip


class TestGoals:
    def test_medians_of_the_rounds_decide(self) -> None:
        ours = entry_of("individual__zstd__shardmill", {"ds[i]": 130e3}, {"ds[i]": 900e3}, {"ds[i]": 100e3})
        theirs = entry_of("individual__zstd__array_record", {"ds[i]": 10e3}, {"ds[i]": 5e3}, {"ds[i]": 30e3})
        goal = held(ours, theirs)["individual `ds[i]`, zstd"]
        assert goal == Goal("individual `ds[i]`, zstd", "≥ 12×", "13×", True, "130 K/s", "10 K/s", "30×")

    def test_side_that_was_not_measured_leaves_the_goal_open(self) -> None:
        goal = held(entry_of("individual__zstd__shardmill", {"ds[i]": 1e6}))["individual `ds[i]`, zstd"]
        assert (goal.is_met, goal.measured, goal.ours, goal.theirs) == (None, "-", "1 M/s", "-")

    def test_best_option_is_the_faster_of_two_and_is_named(self) -> None:
        ours = entry_of("individual__none__shardmill", {"ds[i]": 500e3})
        calls = {"read([i])": 9e6, "read(i, i + 1)": 200e3, "seek + read, max_parallelism:0": 250e3}
        goal = held(ours, entry_of("calls__none__array_record", calls))[
            "individual `ds[i]` against its best option, none"
        ]
        assert (goal.measured, goal.is_met) == ("2×", False)
        assert goal.theirs == "250 K/s, `seek + read, max_parallelism:0`"

    def test_sequential_iteration_is_held_against_repeated_reads_with_defaults(self) -> None:
        ours = entry_of(
            "sequential__snappy_256__shardmill", {"for record in reader": 1.3e6, "read()": 1.0, "read_all()": 9e6}
        )
        calls = {
            "read()": 1e6,
            "read(), max_parallelism:0": 1.1e6,
            "read(), readahead_buffer_size:16M": 2e6,
            "read_all()": 5e6,
        }
        goal = held(ours, entry_of("sequential__snappy_256__array_record", calls))[
            "sequential iteration, group 256, snappy"
        ]
        assert (goal.wanted, goal.measured, goal.is_met) == ("≥ 1.3×", "1.3×", True)
        assert goal.theirs == "1 M/s, `read()`"

    def test_arrow_is_held_against_our_own_list(self) -> None:
        goal = held(entry_of("batch__zstd__shardmill", {"read(list)": 100.0, "read_arrow(list)": 131.0}))
        assert goal["batch as Arrow against our list of bytes, zstd"].is_met

    @pytest.mark.parametrize(("long", "is_met"), [(70e3, True), (60e3, False), (160e3, False)])
    def test_time_of_one_record_may_not_depend_on_the_file_either_way(self, long: float, is_met: bool) -> None:
        entries = [
            entry_of("growth__small__shardmill", {"ds[i]": 100e3}),
            entry_of("growth__large__shardmill", {"ds[i]": long}),
        ]
        assert held(*entries)["individual time at 1 K and at 512 K records, apart"].is_met is is_met

    def test_opening_has_three_bounds(self) -> None:
        entry = entry_of(
            "open__large__shardmill",
            {"open": 1_000 / 0.011},
            steady_bytes=9_000_000,
            private_bytes=1,
            peak_bytes=10_100_000,
        )
        found = held(entry)
        met = [found[name] for name in found if "open 512 K" in name]
        assert [(goal.measured, goal.is_met) for goal in met] == [("11 ms", False), ("9 MB", True), ("10.1 MB", False)]

    def test_size_of_the_furthest_codec_counts_in_either_direction(self) -> None:
        found = held(*size_entries(brotli_1=52_500, snappy_256=38_420))
        one, many = (
            found[f"compressed size against the published, group {group}, furthest codec"] for group in (1, 256)
        )
        assert (one.measured, one.is_met) == ("1.15 %", False)
        assert (many.measured, many.is_met) == ("0.182 %", True)

    def test_size_of_a_shorter_file_says_nothing(self) -> None:
        entries = size_entries()
        for entry in entries:
            entry["all_metrics"][0]["records"] = 4_096
        assert held(*entries)["compressed size against the published, group 1, furthest codec"].is_met is None


def whole_session() -> dict[str, Any]:
    """Every entry of the shipped file, with every call."""
    calls = {"individual": ["ds[i]"], "growth": ["ds[i]"], "batch": ["read(list)", "ds.__getitems__(list)"]}
    calls |= {"calls": ["read([i])", "read(i, i + 1)", "seek + read, max_parallelism:0"], "open": ["open"]}
    calls |= {"sequential": ["read()", "read(), max_parallelism:0", "read_all()"], "grain": ["MapDataset[i]"]}
    calls |= {"write": ["group 1, write", "group 256, write"]}
    own = {"sequential": ["for record in reader"], "batch": ["read_arrow(list)"], "calls": ["reader[i]"]}
    entries = []
    for entry in settings().entries:
        scenario, _, system = entry.name.split("__")
        names = calls[scenario] + (own.get(scenario, []) if system == "shardmill" else [])
        rounds = [dict.fromkeys(names, rate) for rate in (1e5, 2e5, 4e5)]
        more = {"steady_bytes": 1, "private_bytes": 1, "peak_bytes": 2, "sizes": {"1": 50, "256": 25}, "raw_bytes": 100}
        entries.append(entry_of(entry.name, *rounds, **more))
    return results_of(*entries)


class TestPage:
    def test_shipped_entries_measure_every_goal(self) -> None:
        found = goals(finder(measured_entries(whole_session())))
        assert [goal.figure for goal in found if goal.is_met is None] == []
        assert [goal.figure for goal in found if goal.theirs == "-" and "Arrow" not in goal.figure] == []

    def test_page_has_goals_tables_and_conditions(self, tmp_path: Path) -> None:
        write_report(whole_session(), tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "| individual `ds[i]`, none | ≥ 40× | 1× | **missed** | 200 K/s | 200 K/s | 1× |" in page
        assert [f"## {codec}" in page for codec in CODECS] == [True] * 4
        assert "| individual: `ds[i]` | 200 K/s | 400 K/s | 200 K/s | 400 K/s | 1× | 1× |" in page
        assert "| one record: `reader[i]` | 200 K/s | 400 K/s | - | - | - | - |" in page
        assert "| group 256, write | 200 K/s |" in page
        assert "* rounds: 3; " in page
        assert "`{datasets_path}/zstd_1`: 65,536 records of 1,484 bytes on average, zstd, groups of 1, 52.6 MB" in page
        assert "* group 256: zstd 1×, brotli 1×, snappy 1×, none 1×" in page
        assert "make bench-arrayrecord" in page

    def test_page_does_not_change_between_runs_and_holds_no_folder_of_this_machine(self, tmp_path: Path) -> None:
        results = whole_session()
        for folder in ("one", "two"):
            write_report(results, tmp_path / folder)
        names = sorted(path.name for path in (tmp_path / "one").iterdir())
        assert names == ["README.md", "batch.svg", "individual.svg", "results.json", "sequential.svg", "write.svg"]
        for name in names:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
            assert "someone" not in (tmp_path / "one" / name).read_text()

    def test_failed_entry_is_named_and_the_rest_still_shown(self, tmp_path: Path) -> None:
        failed = entry_of("batch__zstd__shardmill", {"read(list)": 1.0}) | {
            "is_success": False,
            "failures": ["exit code 1"],
        }
        write_report(results_of(failed, entry_of("grain__zstd__array_record", {"MapDataset[i]": 5e3})), tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "**failed**: batch__zstd__shardmill: exit code 1" in page
        assert "| `MapDataset[i]` | - | - | 5 K/s | 5 K/s | - | - |" in page
        assert "Nothing was measured for both sides" in page
