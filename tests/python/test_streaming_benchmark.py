"""The streaming benchmark: its rows, its protocols on a small table, its goals and its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("yaml")
pytest.importorskip("matplotlib")

from benchmark_results import results_with

from benchmarks.arrayrecord.rounds import finder, measured_entries
from benchmarks.runner.configuration import load_configuration
from benchmarks.runner.settings import Settings, read_settings
from benchmarks.runner.templating import Template
from benchmarks.streaming import data, fair, mds, plan, shardmill_entry, verbatim
from benchmarks.streaming.goals import MDS, RATES, goals
from benchmarks.streaming.measure import MissingRowsError, System, check_rows, run_entry, timed
from benchmarks.streaming.options import SCENARIOS, Options, parse_options
from benchmarks.streaming.report import write_report
from benchmarks.streaming.sets import SOURCE_SET, Source, labels, texts

REPOSITORY = Path(__file__).parents[2]
ROWS = 400


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("streaming")
    data.main([str(folder), "--rows", str(ROWS), "--sets", SOURCE_SET])
    return folder / SOURCE_SET


def options_of(source: Path, out: Path, scenario: str, *more: str) -> Options:
    return parse_options("test", [f"--out={out}", f"--source={source}", f"--scenario={scenario}", *more])[0]


class TestRows:
    def test_rows_are_as_long_and_as_labelled_as_those_of_the_report(self) -> None:
        made = texts(4_000)
        mean = sum(map(len, made)) / len(made)
        assert 1_200 < mean < 1_370
        assert min(map(len, made)) >= 30
        assert max(map(len, made)) <= 13_000
        foreign = sum(not letter.isascii() for text in made for letter in text) / sum(map(len, made))
        assert 0.0003 < foreign < 0.003
        assert made[:50] == texts(4_000)[:50]
        assert labels(6) == [0, 0, 0, 1, 1, 1]

    def test_source_gives_rows_and_parts(self, source: Path) -> None:
        rows = Source.of(source)
        assert (len(rows), [len(rows.part(number, 3)) for number in range(3)]) == (ROWS, [134, 134, 132])
        assert list(rows) == [row for number in range(3) for row in rows.part(number, 3)]
        assert next(iter(rows)).keys() == {"text", "label"}

    def test_folder_that_is_there_is_kept(self, source: Path) -> None:
        before = (source / "rows.arrow").stat().st_mtime_ns
        data.main([str(source.parent), "--rows", str(ROWS)])
        assert (source / "rows.arrow").stat().st_mtime_ns == before


class Lists:
    """A system in memory."""

    def __init__(self) -> None:
        self.folders: dict[Path, list[Any]] = {}

    def system(self, **changes: Any) -> System:
        def write(rows: Any, out: Path, size_limit: int | None) -> None:
            out.mkdir(parents=True)
            self.folders[out] = list(rows)
            (out / "rows.json").write_text(json.dumps(self.folders[out]))

        def read(folder: Path) -> list[Any]:
            return [row for file in sorted(folder.rglob("rows.json")) for row in json.loads(file.read_text())]

        def batches(folder: Path, workers: int, is_persistent: bool) -> list[Any]:
            return [{"label": [row["label"] for row in read(folder)]}]

        ours = {"write": write, "merge": lambda out, parts: None, "loader": batches}
        ours["rows"] = lambda folder, is_shuffled: read(folder)[:: -1 if is_shuffled else 1]
        return System(version="1", **(ours | changes))


class TestProtocols:
    def test_verbatim_leaves_the_eight_rows_of_the_report(self, source: Path, tmp_path: Path) -> None:
        options = options_of(source, tmp_path, "verbatim")
        assert run_entry(options, Lists().system()) == 0
        figures = json.loads((tmp_path / "metrics.json").read_text())["figures"]
        assert list(figures) == [
            *("write", "parallel write + merge", "read, sequential", "read, shuffled", "read, merged"),
            *("DataLoader, 0 workers", "DataLoader, 2 workers", "DataLoader, 4 workers"),
        ]
        assert all(figure["records"] == ROWS and figure["seconds"] > 0 for figure in figures.values())

    def test_fair_adds_what_only_some_systems_can(self, source: Path, tmp_path: Path) -> None:
        lists = Lists()
        more = {
            "more_writes": {"write, otherwise": lambda rows, out: lists.system().write(rows, out, None)},
            "more_reads": {"read, otherwise": lambda folder: ROWS},
        }
        metrics = fair.measure(options_of(source, tmp_path, "fair"), lists.system(**more))
        assert {"write, otherwise", "read, otherwise", "read, shuffled, cold"} <= set(metrics["figures"])
        assert metrics["start_2_s"] is not None

    def test_row_that_is_missing_is_an_error(self, source: Path, tmp_path: Path) -> None:
        lists = Lists()
        whole = lists.system()
        damaged = lists.system(rows=lambda folder, is_shuffled: whole.rows(folder, is_shuffled)[1:])
        with pytest.raises(MissingRowsError, match="399 rows instead of 400"):
            verbatim.measure(options_of(source, tmp_path / "a", "verbatim"), damaged)
        with pytest.raises(MissingRowsError):
            mds.measure(
                options_of(source, tmp_path / "b", "mds", f"--mds={tmp_path / 'a' / 'scratch' / 'whole'}"), damaged
            )
        with pytest.raises(MissingRowsError, match="0 rows instead of 2"):
            timed(2, lambda: 0)

    def test_rows_in_another_order_are_told_from_other_rows(self, source: Path) -> None:
        rows = list(Source.of(source))
        check_rows(Source.of(source), rows[::-1], in_order=False)
        with pytest.raises(MissingRowsError):
            check_rows(Source.of(source), rows[::-1], in_order=True)
        with pytest.raises(MissingRowsError):
            check_rows(Source.of(source), [*rows[1:], rows[1]], in_order=False)

    def test_plan_and_ceiling_run_small(self, source: Path, tmp_path: Path) -> None:
        ours = shardmill_entry.system()
        more = ("--plan-rows=20000", "--jpeg-bytes=30000000")
        found = plan.measure(options_of(source, tmp_path / "plan", "plan", *more), ours)
        assert (found["plan_rows"], found["plan_ranks"]) == (20_000, 64)
        assert found["amplification"] == 1.0
        assert found["blocks_decoded"] == found["blocks"]
        options = options_of(source, tmp_path / "ceiling", "ceiling")
        assert run_entry(options, ours) == 0

    def test_our_reads_deliver_every_row(self, source: Path, tmp_path: Path) -> None:
        ours = shardmill_entry.system()
        pa.parquet = pytest.importorskip("pyarrow.parquet")
        pa.parquet.write_table(Source.of(source).table, tmp_path / "rows.parquet")
        for is_shuffled in (False, True):
            check_rows(Source.of(source), ours.rows(tmp_path, is_shuffled), in_order=not is_shuffled)
        assert {name: read(tmp_path) for name, read in ours.more_reads.items()} == dict.fromkeys(ours.more_reads, ROWS)
        assert sum(len(batch["label"]) for batch in ours.loader(tmp_path, 0, False)) == ROWS


def settings() -> Settings:
    return read_settings(load_configuration([REPOSITORY / "benchmarks" / "streaming.yaml"], {}))


def test_every_entry_of_the_shipped_file_has_a_valid_command_line() -> None:
    for entry in settings().entries:
        case, protocol, system = entry.name.split("__")
        options, values = parse_options("test", Template(settings(), REPOSITORY, Path("entry")).arguments(entry.args))
        assert (case, options.scenario) == ("imdb", protocol)
        assert protocol in SCENARIOS
        assert values.tool == (system if system in ("mosaicml", "chinidataset") else "shardmill")
        assert (options.mds is not None) == (protocol == "mds")


def whole_session(rate: float = 1e6) -> dict[str, Any]:
    """Every entry of the shipped file but those of ChiniDataset."""
    calls = {
        "verbatim": ["write", "read, sequential", "DataLoader, 0 workers"],
        "fair": [*RATES, "read, merged", *(f"write_rows, transform, {number}" for number in ("1 worker", "2 workers"))],
        "mds": list(MDS),
        "ceiling": ["read, sequential"],
        "plan": [],
    }
    more = {"plan_rows": 1e7, "plan_ranks": 64, "plan_s": 0.02, "plan_bytes": 1e6, "amplification": 1.0, "blocks": 100}
    more |= {"blocks_decoded": 100, "image_bytes": 10**9, "start_0_s": 0.1, "start_2_s": 0.2, "start_4_s": 0.3}
    entries = []
    for entry in settings().entries:
        _, protocol, system = entry.name.split("__")
        if system == "chinidataset":
            continue
        own = rate if system == "shardmill" else 25e3
        rounds = [
            {
                "is_success": True,
                "version": "1",
                "figures": {call: {"records": 100, "seconds": 100 / (own * factor)} for call in calls[protocol]},
                **more,
            }
            for factor in (1, 2, 4)
        ]
        made = {"name": entry.name, "is_success": True, "failures": [], "versions": {"python": "3.11.7"}}
        entries.append(made | {"metrics": rounds[0], "all_metrics": rounds, "params": {}})
    record = {"rows": 25_000, "files": 1, "bytes": 32_000_000}
    return results_with(*entries, datasets={"/home/someone/data/streaming/source": record})


class TestPage:
    def test_shipped_entries_measure_every_goal(self) -> None:
        found = goals(finder(measured_entries(whole_session(), ["shardmill", "mosaicml", "pyarrow"])))
        assert [goal.figure for goal in found if goal.is_met is None] == []
        missed = [goal.figure for goal in found if goal.is_met is False]
        assert missed == ["write_rows with a transform, 2 workers against 1"]

    def test_page_has_both_protocols_and_says_what_was_not_at_hand(self, tmp_path: Path) -> None:
        write_report(whole_session(), tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "| write | 50 K/s | 2 M/s | 40× | 127 K/s | 139 K/s |" in page
        assert "| read, sequential | 50 K/s | 2 M/s | 50 K/s | 40× |" in page
        assert "ChiniDataset was not at hand" in page
        assert "| ChiniDataset |" not in page
        assert "10,000,000 rows in 100 files with open footers, one of 64 ranks, shuffled: 20 ms and 1 MB" in page
        assert "make bench-streaming" in page

    def test_page_does_not_change_between_runs_and_holds_no_folder_of_this_machine(self, tmp_path: Path) -> None:
        for folder in ("one", "two"):
            write_report(whole_session(), tmp_path / folder)
        names = sorted(path.name for path in (tmp_path / "one").iterdir())
        assert names == ["README.md", "fair.svg", "results.json", "verbatim.svg"]
        for name in names:
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
            assert "someone" not in (tmp_path / "one" / name).read_text()

    def test_session_that_measured_nothing_still_has_a_page(self, tmp_path: Path) -> None:
        session = whole_session()
        for entry in session["entries"]:
            entry |= {"is_success": False, "failures": ["exit code 1"]}
        write_report(session, tmp_path)
        assert "**failed**: imdb__fair__shardmill: exit code 1" in (tmp_path / "README.md").read_text()
