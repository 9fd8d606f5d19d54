"""The loader benchmark in miniature: its data sets, its clock and counts, its page."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet
import pytest

# The benchmarks are no part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmark_results import results_with

from benchmarks.loader.data import rows_table, write_set
from benchmarks.loader.gate import regressions
from benchmarks.loader.goals import goals
from benchmarks.loader.measure import WrongRowsError, measure
from benchmarks.loader.options import Options, parse_options
from benchmarks.loader.report import TITLES, finder, measured_entries, write_report
from benchmarks.loader.sets import COLUMNS, SETS, DataSet
from benchmarks.runner.configuration import load_configuration
from benchmarks.runner.settings import read_settings
from benchmarks.runner.templating import Template

REPOSITORY = Path(__file__).resolve().parents[2]
MINI = DataSet("mini", (1_000, 2_500, 700), 300)


@pytest.fixture(scope="module")
def mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "mini"
    assert write_set(MINI, folder)
    return folder


def options_of(data: Path, *arguments: str) -> Options:
    given = ["--out", str(data.parent / "out"), "--data", str(data), *arguments]
    return parse_options("test", tools=("stand_in",), arguments=given)


def read_files(options: Options, rank: int) -> Iterator[pa.RecordBatch]:
    """A stand-in for a loader: whole files by rank, filtered the plain way."""
    for path in options.paths()[rank :: options.ranks]:
        for batch in pa.parquet.ParquetFile(path).iter_batches(options.batch_size):
            yield batch if options.label is None else batch.filter(pa.compute.field("label") == options.label)


class TestDataSets:
    def test_sizes_are_those_of_the_specification(self) -> None:
        rows = {name: (len(one.rows), one.total_rows, one.row_group) for name, one in SETS.items()}
        assert rows == {
            "tiny": (4, 40_000, 2_000),
            "small": (10, 500_000, 5_000),
            "small_orc": (10, 500_000, 5_000),
            "small_csv": (10, 500_000, 5_000),
            "large": (50, 25_000_000, 50_000),
            "large_sorted": (50, 25_000_000, 50_000),
            "unequal": (20, 1_920_000, 5_000),
            "single_large": (1, 10_000_000, 50_000),
        }
        thousands = [20, 320, 40, 160, 80, 20, 80, 10, 10, 10, 320, 160, 20, 320, 40, 160, 20, 40, 10, 80]
        assert [count // 1000 for count in SETS["unequal"].rows] == thousands

    def test_rows_follow_the_formula(self) -> None:
        table = rows_table(24_999_950, 130)
        assert table.schema.names == list(COLUMNS)
        types = [table.schema.field(name).type for name in ("row_id", "feat_00", "feat_63", "label")]
        assert types == [pa.int32(), pa.float32(), pa.float32(), pa.int32()]
        for row in table.to_pylist():
            number = row["row_id"]
            assert row["label"] == number % 10
            for feature in (0, 1, 9, 37, 63):
                wanted = pa.scalar(((number + feature) % 100) / 100, pa.float32()).as_py()
                assert row[f"feat_{feature:02d}"] == wanted
        assert table["row_id"].to_pylist() == list(range(24_999_950, 25_000_080))

    def test_sorted_file_has_one_label_a_row_group_and_keeps_the_rows_whole(self, tmp_path: Path) -> None:
        one = DataSet("sorted", (1_000,), 100, is_sorted=True)
        write_set(one, tmp_path / "set")
        file = pa.parquet.ParquetFile(tmp_path / "set" / one.file_name(0))
        label = COLUMNS.index("label")
        statistics = [file.metadata.row_group(number).column(label).statistics for number in range(10)]
        assert [(found.min, found.max) for found in statistics] == [(number, number) for number in range(10)]
        assert file.read().sort_by("row_id").equals(rows_table(0, 1_000))

    def test_files_number_their_rows_on_and_have_the_wanted_row_groups(self, mini: Path) -> None:
        files = [pa.parquet.ParquetFile(mini / MINI.file_name(number)) for number in range(3)]
        assert pa.concat_tables([file.read() for file in files]).equals(rows_table(0, 4_200))
        groups = [[file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] for file in files]
        assert groups == [[300, 300, 300, 100], [300] * 8 + [100], [300, 300, 100]]

    def test_file_is_the_one_that_pyarrow_writes_by_default(self, mini: Path, tmp_path: Path) -> None:
        pa.parquet.write_table(rows_table(1_000, 2_500), tmp_path / "plain.parquet", row_group_size=300)
        assert (tmp_path / "plain.parquet").read_bytes() == (mini / MINI.file_name(1)).read_bytes()

    @pytest.mark.parametrize("processes", [1, 2])
    def test_second_writing_gives_the_same_bytes(self, mini: Path, tmp_path: Path, processes: int) -> None:
        write_set(MINI, tmp_path / "set", processes=processes)
        digests = [
            {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
            for folder in (mini, tmp_path / "set")
        ]
        assert digests[0] == digests[1]

    def test_folder_that_is_complete_is_kept_and_another_is_replaced(self, tmp_path: Path) -> None:
        small, other = DataSet("set", (10,), 5), DataSet("set", (20,), 5)
        assert write_set(small, tmp_path / "set")
        assert not write_set(small, tmp_path / "set")
        assert write_set(other, tmp_path / "set")
        (tmp_path / "set" / "manifest.json").unlink()
        assert write_set(other, tmp_path / "set")

    @pytest.mark.parametrize("kind", ["orc", "csv"])
    def test_other_formats_hold_the_same_rows(self, tmp_path: Path, kind: str) -> None:
        one = DataSet("set", (120, 80), 50, kind=kind)
        write_set(one, tmp_path / "set")
        paths = [tmp_path / "set" / one.file_name(number) for number in range(2)]
        read = pa.orc.read_table if kind == "orc" else pa.csv.read_csv
        found = pa.concat_tables([read(path) for path in paths])
        assert found.cast(rows_table(0, 0).schema).equals(rows_table(0, 200))


class TestExpectedRows:
    def test_pattern_and_label_choose_rows_whose_sum_is_exact(self, mini: Path) -> None:
        options = options_of(mini, "--files=part_000[12].parquet", "--label=3")
        numbers = [number for number in range(1_000, 4_200) if number % 10 == 3]
        assert options.expected() == (len(numbers), sum(numbers))

    def test_pattern_without_a_file_is_an_error_that_names_it(self, mini: Path) -> None:
        with pytest.raises(FileNotFoundError, match="nothing"):
            options_of(mini, "--files=nothing*").expected()


class TestMeasuring:
    def test_figures_of_a_stream(self, mini: Path) -> None:
        metrics = measure(options_of(mini, "--batch-size=100", "--runs=4"), read_files)
        assert metrics["is_success"]
        assert (metrics["rows"], metrics["batches"], len(metrics["all_seconds"])) == (4_200, 42, 4)
        assert metrics["min_s"] <= metrics["p25_s"] <= metrics["median_s"] <= metrics["p75_s"]
        assert 0 < metrics["first_batch_s"] < metrics["median_s"]
        assert metrics["rows_per_s"] == pytest.approx(4_200 / metrics["median_s"])
        size = sum(path.stat().st_size for path in mini.glob("*.parquet"))
        assert metrics["data_bytes"] == size
        # Footers are read besides, some of them twice.
        assert 0.5 * size < metrics["asked_bytes"] < 3 * size

    def test_filter_counts_delivered_rows(self, mini: Path) -> None:
        assert measure(options_of(mini, "--label=0"), read_files)["rows"] == 420

    def test_clock_starts_when_the_loader_is_built_or_before_it(self, mini: Path) -> None:
        import time

        def slow_to_build(options: Options, rank: int) -> Iterator[pa.RecordBatch]:
            time.sleep(0.5)
            return read_files(options, rank)

        # The best of several runs, since any of them may be late for other reasons.
        after = measure(options_of(mini, "--runs=4"), slow_to_build)
        before = measure(options_of(mini, "--runs=4", "--timed-from-construction"), slow_to_build)
        assert after["construct_s"] >= 0.5
        assert after["min_s"] < 0.5 <= before["min_s"]

    def test_lost_row_is_an_error(self, mini: Path) -> None:
        with pytest.raises(WrongRowsError, match="4,199 rows"):
            measure(options_of(mini), lambda options, rank: [rows_table(1, 4_199)])

    def test_row_lost_and_another_doubled_is_an_error(self, mini: Path) -> None:
        def shifted(_options: Options, _rank: int) -> list[pa.RecordBatch]:
            return [rows_table(1, 4_200).combine_chunks().to_batches()[0]]

        with pytest.raises(WrongRowsError, match="sum up to"):
            measure(options_of(mini), shifted)

    def test_first_batch_leaves_the_rest(self, mini: Path) -> None:
        metrics = measure(options_of(mini, "--mode=first_batch", "--batch-size=64"), read_files)
        assert (metrics["rows"], metrics["batches"]) == (64, 1)

    def test_memory_is_sampled_in_each_epoch(self, mini: Path) -> None:
        import time

        def slow(options: Options, rank: int) -> Iterator[pa.RecordBatch]:
            for batch in read_files(options, rank):
                time.sleep(0.02)
                yield batch

        metrics = measure(options_of(mini, "--mode=memory", "--epochs=3"), slow)
        assert len(metrics["epoch_peak_rss_bytes"]) == 3
        assert min(metrics["epoch_peak_rss_bytes"]) > 1 << 20
        assert metrics["decoded_bytes"] == 4_200 * 66 * 4

    def test_cold_run_still_counts(self, mini: Path) -> None:
        assert measure(options_of(mini, "--cold", "--warm-ups=0"), read_files)["rows"] == 4_200

    def test_workers_are_told_apart(self, mini: Path) -> None:
        def of_two(options: Options, _rank: int) -> Iterator[tuple[int, pa.RecordBatch]]:
            yield from ((number % 2, batch) for number, batch in enumerate(read_files(options, 0)))

        metrics = measure(options_of(mini, "--by-worker", "--batch-size=1000"), of_two)
        assert sum(metrics["rows_of_workers"]) == 4_200
        assert len(metrics["rows_of_workers"]) == 2


class TestRanks:
    @pytest.mark.parametrize("mode", ["ranks", "ranks_in_turn"])
    def test_all_ranks_together_are_the_data_set(self, mini: Path, mode: str) -> None:
        metrics = measure(options_of(mini, f"--mode={mode}", "--ranks=2", "--runs=1"), read_files)
        assert metrics["rows_of_ranks"] == [1_700, 2_500]
        assert metrics["rows"] == 4_200
        assert metrics["imbalance"] == pytest.approx(800 / 2_100)
        assert all(count > 0 for count in metrics["asked_bytes_of_ranks"])

    def test_rank_0_alone_counts_its_own_rows(self, mini: Path) -> None:
        metrics = measure(options_of(mini, "--mode=rank_0", "--ranks=3", "--runs=1"), read_files)
        assert (metrics["rows"], metrics["rows_of_ranks"]) == (1_000, [1_000])

    def test_rank_that_reads_what_another_reads_is_an_error(self, mini: Path) -> None:
        with pytest.raises(WrongRowsError, match="8,400 rows"):
            measure(
                options_of(mini, "--mode=ranks", "--ranks=2"),
                lambda options, _rank: read_files(options, 0) if options.ranks == 1 else [rows_table(0, 4_200)],
            )

    def test_rank_that_fails_is_named_and_does_not_hang_the_others(self, mini: Path) -> None:
        def failing(options: Options, rank: int) -> Iterator[pa.RecordBatch]:
            if rank == 1:
                raise OSError
            return read_files(options, rank)

        with pytest.raises(WrongRowsError, match=r"rank .*1.* of 2 failed"):
            measure(options_of(mini, "--mode=ranks", "--ranks=2", "--warm-ups=0"), failing)


class TestConfiguration:
    def test_every_entry_of_the_shipped_file_has_a_valid_command_line(self, mini: Path) -> None:
        settings = read_settings(load_configuration([REPOSITORY / "benchmarks" / "loader.yaml"], {}))
        assert set(settings.datasets) == set(SETS)
        assert {one: next(iter(kinds)) for one, kinds in settings.datasets.items()} == {
            name: one.kind for name, one in SETS.items()
        }
        for entry in settings.entries:
            scenario, _, system = entry.name.split("__")
            assert re.fullmatch(r"s[1-8]|memory", scenario)
            template = Template(settings, REPOSITORY, Path("entry"))
            given = [word for word in template.arguments(entry.args) if not word.startswith("--data=")]
            tools = ("loader", "dataloader") if system.startswith("shardmill") else tuple(TITLES)
            options = parse_options("test", tools=tools, arguments=[*given, f"--data={mini}"])
            assert len(template.used_datasets) == 1
            assert options.tool == {"shardmill": "loader", "shardmill_dataloader": "dataloader"}.get(system, system)
            # Its globs know * and ? only.
            assert "[" not in options.files or system != "torch_dataloader_utils"
            assert options.mode != "ranks" or options.ranks > 1
            assert options.label is None or options.timed_from_construction == (system == "shardmill")

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["--label=0", "--timed-from-construction"],
            ["--columns", "row_id", "label", "--shuffle"],
            ["--output=numpy", "--threads=2"],
            ["--mode=ranks", "--ranks=2", "--threads=1"],
            ["--mode=first_batch"],
        ],
    )
    def test_our_entry_delivers_every_row(self, mini: Path, tmp_path: Path, arguments: list[str]) -> None:
        from benchmarks.loader.shardmill_entry import main

        assert main(["--out", str(tmp_path), "--data", str(mini), "--runs=1", *arguments]) == 0
        assert json.loads((tmp_path / "metrics.json").read_text())["is_success"]


def entry_of(name: str, **metrics: Any) -> dict[str, Any]:
    basis = {"rows": 1_000, "median_s": 0.5, "p25_s": 0.4, "p75_s": 0.6, "min_s": 0.3, "rows_per_s": 2_000.0}
    basis |= {"construct_s": 0.01, "first_batch_s": 0.02, "asked_bytes": 10**6, "disk_bytes": 0, "data_bytes": 10**6}
    basis |= {"peak_rss_bytes": 10**8, "all_seconds": [0.3, 0.5, 0.7], "rows_of_workers": []}
    entry = {"name": name, "is_success": True, "failures": [], "params": {"mode": "stream"}}
    return entry | {"metrics": basis | metrics, "versions": {"python": "3.11.7"}}


class TestPage:
    def test_goal_is_met_missed_or_not_measured(self, tmp_path: Path) -> None:
        entries = [
            entry_of("s1__arrow_threads_1__shardmill", rows_per_s=19e6),
            entry_of("s1__arrow_threads_2__shardmill", rows_per_s=15e6),
            entry_of("s1__arrow_workers_0__torch_dataloader_utils", rows_per_s=2.5e6),
            entry_of("s3__ranks_8_in_turn__torch_dataloader_utils", median_s=0.6),
            entry_of("s6__sorted_threads_2__shardmill", rows_per_s=7e6, asked_bytes=11),
            entry_of("s6__sorted_unfiltered_threads_2__shardmill", asked_bytes=100),
        ]
        write_report(results_with(*entries), tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "best number of threads or workers | ≥ 18 M/s | 19 M/s | met | 2.5 M/s | - |" in page
        assert "| S1 more threads against fewer, worst step | ≥ 0.97× | 0.789× | **missed** |" in page
        assert "| S3 one file, one process | ≤ 0.8 s | - | not measured | 0.6 s | - |" in page
        assert "| S6 sorted, delivered rows | ≥ 8 M/s | 7 M/s | **missed** |" in page
        assert "| S6 sorted, bytes against reading all | ≤ 12 % | 11 % | met |" in page
        assert "2 of 22 goals are met" in page

    def test_shipped_entries_measure_every_goal(self) -> None:
        settings = read_settings(load_configuration([REPOSITORY / "benchmarks" / "loader.yaml"], {}))
        more = {"rows_of_ranks": [1] * 16, "asked_bytes_of_ranks": [1] * 16, "imbalance": 0.0}
        more |= {"epoch_peak_rss_bytes": [1, 1, 1]}
        results = results_with(*[entry_of(entry.name, **more) for entry in settings.entries])
        held = goals(finder(measured_entries(results)))
        assert [goal.figure for goal in held if goal.is_met is None] == []
        # The peer shuffles files only.
        without_peer = [goal.figure for goal in held if goal.peer == "-"]
        assert all("shuffled" in figure for figure in without_peer)

    def test_shares_and_bytes_of_ranks_are_those_of_the_worst(self) -> None:
        ranks = entry_of("s4__ranks_16__shardmill", rows_of_ranks=[100] * 15 + [116], asked_bytes_of_ranks=[60] * 16)
        alone = entry_of("s4__rank_0_of_1__shardmill", asked_bytes=800)
        held = {goal.figure: goal for goal in goals(finder(measured_entries(results_with(ranks, alone))))}
        share = next(goal for name, goal in held.items() if name.startswith("S4 share"))
        read = next(goal for name, goal in held.items() if name.startswith("S4 bytes"))
        assert (share.is_met, share.measured) == (False, f"{(116 / 1616 - 1 / 16) * 100:.3g} points")
        assert (read.is_met, read.measured) == (False, "1.2×")

    def test_page_does_not_change_between_runs_and_holds_no_folder_of_this_machine(self, tmp_path: Path) -> None:
        entries = [
            entry_of("s2__ranks_2__shardmill", rows_of_ranks=[500, 500], imbalance=0.0),
            entry_of("s7__small_threads_2__shardmill"),
            entry_of("memory__epochs_3_threads_2__shardmill", epoch_peak_rss_bytes=[10, 11, 12], decoded_bytes=10**9),
            entry_of("s8__csv_threads_2__shardmill") | {"is_success": False, "failures": ["exit code 1"]},
        ]
        for folder in ("one", "two"):
            write_report(results_with(*entries), tmp_path / folder)
        names = sorted(path.name for path in (tmp_path / "one").iterdir())
        assert names == ["README.md", "memory.svg", "results.json", "s2.svg", "s7.svg"]
        for name in names:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
            assert "someone" not in (tmp_path / "one" / name).read_text()
        page = (tmp_path / "one" / "README.md").read_text()
        assert "**failed**: s8__csv_threads_2__shardmill: exit code 1" in page
        assert "| ranks 2 | shardmill | 500, 500 | 0.0% |" in page

    def test_gate_names_what_became_slower_or_is_missing(self) -> None:
        stored = results_with(
            entry_of("s1__arrow_threads_1__shardmill", rows_per_s=100.0),
            entry_of("s1__arrow_threads_2__shardmill", rows_per_s=100.0),
            entry_of("s1__torch_threads_2__shardmill", rows_per_s=100.0),
            entry_of("s1__arrow_workers_0__torch_dataloader_utils", rows_per_s=100.0),
        )
        now = results_with(
            entry_of("s1__arrow_threads_1__shardmill", rows_per_s=91.0),
            entry_of("s1__arrow_threads_2__shardmill", rows_per_s=89.0),
        )
        found = regressions(now, stored)
        assert [line.split(":")[0] for line in found] == [
            "s1__arrow_threads_2__shardmill",
            "s1__torch_threads_2__shardmill",
        ]
