"""The remote benchmark: its sets, its clock, its command lines, its goals and its page; some scenarios on a real server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("yaml")
pytest.importorskip("matplotlib")

from benchmark_results import results_with

from benchmarks.arrayrecord.rounds import finder, measured_entries
from benchmarks.loader.sets import DataSet
from benchmarks.remote import data, shardmill_entry
from benchmarks.remote.clock import Pass, WrongRowsError, check, timed_pass
from benchmarks.remote.goals import BESIDE, PATHS, TITLES, goals
from benchmarks.remote.options import Options, parse_options
from benchmarks.remote.report import write_report
from benchmarks.remote.sets import MDS, PLAIN, SMALL, data_sets
from benchmarks.remote.store import BUCKET, Store, started
from benchmarks.runner.configuration import load_configuration
from benchmarks.runner.settings import Settings, read_settings
from benchmarks.runner.templating import Template
from tests.remote.binary import MissingGoError

REPOSITORY = Path(__file__).parents[2]
SHARE = 0.001


class TestSets:
    def test_plain_set_has_the_rows_of_the_others_without_encoding(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = DataSet(PLAIN, (400, 300), 200)
        monkeypatch.setattr(data, "data_sets", lambda share=1.0: data_sets() | {PLAIN: one})
        for _ in range(2):
            data.main([str(tmp_path), "--sets", PLAIN])
        file = pytest.importorskip("pyarrow.parquet").ParquetFile(tmp_path / PLAIN / "part_0000.parquet")
        column = file.metadata.row_group(0).column(1)
        assert (file.metadata.num_row_groups, column.compression) == (2, "UNCOMPRESSED")
        assert not column.has_dictionary_page
        assert file.read().column("row_id").to_pylist() == list(range(400))
        record = json.loads((tmp_path / PLAIN / ".dataset.json").read_text())
        assert (record["rows"], record["files"]) == (700, 2)

    def test_small_share_keeps_several_files(self) -> None:
        assert all(len(one.rows) > 1 for one in data_sets(SHARE).values())


class TestClock:
    def test_pass_counts_batches_and_lists_of_rows(self) -> None:
        table = pa.table({"row_id": pa.array(range(10), pa.int32())})
        found = timed_pass(lambda: table.to_batches(max_chunksize=3), sums=True)
        assert (found.rows, found.id_sum) == (10, 45)
        rows = [[{"row_id": 1}, {"row_id": 2}], [{"row_id": 3}]]
        assert timed_pass(lambda: rows, sums=True).id_sum == 6
        assert timed_pass(lambda: rows, most_batches=1).rows == 2

    def test_row_that_is_missing_or_another_is_an_error(self) -> None:
        one = DataSet("some", (3,), 3)
        check(one, Pass(1, 1.0, 1.0, 0), Pass(2, 1.0, 1.0, 3))
        with pytest.raises(WrongRowsError, match="2 rows instead of 3"):
            check(one, Pass(2, 1.0, 1.0))
        with pytest.raises(WrongRowsError, match="sum up to 4 instead of 3"):
            check(one, Pass(3, 1.0, 1.0, 4))


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    try:
        with started() as store:
            yield store
    except MissingGoError as error:
        pytest.skip(str(error))


class TestStore:
    def test_published_folder_has_no_hidden_files_and_requests_are_counted(self, store: Store, tmp_path: Path) -> None:
        folder = tmp_path / "some"
        folder.mkdir()
        (folder / "a.bin").write_bytes(b"12345")
        (folder / ".hidden").write_bytes(b"1")
        (folder / "manifest.json").write_text("{}")
        assert store.publish(folder) == f"s3://{BUCKET}/some/"
        assert store.objects("some") == [("some/a.bin", 5)]
        store.away(0.001)
        assert store.asked()["requests"] == 0


@pytest.mark.usefixtures("store")
class TestScenarios:
    @pytest.mark.parametrize("scenario", ["opening", "cached", "ranks", "beside", "faults_loader"])
    def test_scenario_runs_small_and_holds_its_rows(
        self, scenario: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = DataSet(SMALL, (500,) * 4, 250)
        # The entry changes both for the processes that it starts.
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(Options, "rows", property(lambda self: one))
        monkeypatch.setattr(data, "data_sets", lambda share=1.0: data_sets() | {SMALL: one})
        if scenario == "cached":
            pytest.importorskip("torch")
        data.main([str(tmp_path), "--sets", SMALL])
        out = tmp_path / "out"
        arguments = [f"--out={out}", f"--data={tmp_path / SMALL}", f"--scenario={scenario}", "--runs=1", "--faults=3"]
        assert shardmill_entry.main([*arguments, "--batch-size=100"]) == 0
        metrics = json.loads((out / "metrics.json").read_text())
        assert metrics["is_success"]
        assert all(figure["seconds"] > 0 for figure in metrics["figures"].values())
        if scenario == "faults_loader":
            assert (metrics["faults"], metrics["lost"], metrics["doubled"], metrics["hangs"]) == (3, 0, 0, 0)


def settings() -> Settings:
    return read_settings(load_configuration([REPOSITORY / "benchmarks" / "remote.yaml"], {}))


def test_every_entry_of_the_shipped_file_has_a_valid_command_line() -> None:
    for entry in settings().entries:
        scenario, setting, system = entry.name.split("__")
        arguments = Template(settings(), REPOSITORY, Path("entry")).arguments(entry.args)
        assert system in TITLES
        if scenario == "curation":
            assert setting in PATHS
            assert f"--system={system}" in arguments
            continue
        tools = ("shardmill", "pyarrow", "torch_dataloader_utils", "mosaicml")
        options = parse_options("test", tools=tools, arguments=arguments)
        assert options.scenario == (f"faults_{setting}" if scenario == "faults" else scenario)
        assert options.tool == system
        if scenario == "beside":
            assert system in ("shardmill", BESIDE[setting])
            assert options.form == (setting if setting != "plain" else "arrow")
            assert (options.data.name == MDS) == (setting == MDS)


def whole_session() -> dict[str, Any]:
    """Every entry of the shipped file; ours takes a twelfth of what others take."""
    entries = []
    for entry in settings().entries:
        scenario, _, system = entry.name.split("__")
        seconds = 1.0 if system == "shardmill" else 12.0
        made = {"name": entry.name, "is_success": True, "failures": [], "versions": {"python": "3.11.7"}, "params": {}}
        metrics = _metrics(scenario, system) | {"is_success": True, "job_s": seconds, "time_taken_s": seconds}
        more = {"records": 1_000_000, "seconds": seconds, "first_batch_s": 0.1, "requests": 7, "in_flight_max": 4}
        metrics["figures"] = dict.fromkeys(metrics["figures"], more)
        entries.append(made | {"metrics": metrics, "all_metrics": [metrics] * 3})
    record = {"rows": 1_000_000, "files": 10, "bytes": 100_000_000}
    shards = {"shards": 2, "of": 80, "codec": "raw", "rows": 1_488}
    places = {"remote/tables": record, "mint1t_raw_2": shards, "mint1t_raw_2_parquet": {"source": shards}}
    return results_with(*entries, datasets={f"/home/someone/data/{name}": made for name, made in places.items()})


def _metrics(scenario: str, system: str) -> dict[str, Any]:
    asked = {"requests": 7, "gets": 6, "bytes_sent": 100, "in_flight_max": 4}
    places = ("local files", "S3", "S3, far away")
    outputs = ("arrow", "torch")
    rates = {"server_rates": {"1 × 4": 2e6}, "server_bytes_per_s": 2e6, "set_bytes": 1_500_000, "row_groups": 10}
    return {
        "reading": {
            "figures": [f"{output}, {place}" for output in outputs for place in places],
            **rates,
            "requests_per_row_group": 1.25,
        },
        "opening": {"figures": ["first batch"], "first_batch_s": 0.3, "whole_s": 2.0, "plain_s": 0.2, "files": 1_000, **asked},
        "cached": {
            "figures": [f"{output}, {place}" for output in outputs for place in ("local files", "cache")],
            "requests": {"arrow": {"first": 10, "later": 0}},
        },
        "ranks": {"figures": ["in order"], "fetched": {"in order": 1.01}, "worst": 1.01},
        "beside": {"figures": ["Loader", "rows"] if system == "shardmill" else ["one", "two"]},
        "curation": {"figures": [], **asked},
        "faults": {"figures": ["job"], "faults": 1_000, "lost": 0, "doubled": 0, "hangs": 0, "kinds": {"cut": 3}, **asked},
    }[scenario]  # fmt: skip


class TestPage:
    def test_shipped_entries_measure_every_goal(self) -> None:
        found = goals(finder(measured_entries(whole_session(), TITLES)))
        assert [goal.figure for goal in found if goal.is_met is not True] == []

    def test_figure_that_was_not_measured_is_never_met(self) -> None:
        found = goals(finder([]))
        assert {goal.is_met for goal in found} == {None}
        assert {goal.measured for goal in found} == {"-"}

    def test_page_shows_shares_factors_and_faults(self, tmp_path: Path) -> None:
        write_report(whole_session(), tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "| arrow, dictionaries and Snappy | S3 | 1 M/s | 2 | 75% | 100% |" in page
        assert "the first batch of 1,000 files: 300 ms and 7 requests; all rows: 2.00 s" in page
        assert "| wds_to_parquet | shardmill | 1.00 | 1.00 | 7 | 0 | 12.0 |" in page
        assert "| a job with a checkpoint | 1,000 | 7 | 1,000,000 | 1.0 | 0 | 0 | 0 |" in page
        assert page.count("2 of 80 interleaved shards, raw pages") == 2
        assert "make bench-remote" in page

    def test_page_does_not_change_between_runs_and_holds_no_folder_of_this_machine(self, tmp_path: Path) -> None:
        for folder in ("one", "two"):
            write_report(whole_session(), tmp_path / folder)
        names = sorted(path.name for path in (tmp_path / "one").iterdir())
        assert names == ["README.md", *sorted(f"beside_{form}.svg" for form in BESIDE), "curation.svg", "results.json"]
        for name in names:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
            assert "someone" not in (tmp_path / "one" / name).read_text()

    def test_session_that_measured_nothing_still_has_a_page(self, tmp_path: Path) -> None:
        session = whole_session()
        for entry in session["entries"]:
            entry |= {"is_success": False, "failures": ["exit code 1"]}
        write_report(session, tmp_path)
        assert "**failed**: ranks__tables__shardmill: exit code 1" in (tmp_path / "README.md").read_text()
