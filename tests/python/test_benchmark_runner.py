"""The benchmark runner's rules, and the counts of the generated data set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

# The benchmarks are no part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import run
from benchmarks.mint1t.plan import FULL_SET, is_kept, plan_shards, totals_of
from benchmarks.runner.configuration import expand_environment, load_configuration, merge, remove_disabled
from benchmarks.runner.errors import ConfigurationError, UnknownNameError
from benchmarks.runner.processes import LAUNCH_FAILURE_EXIT_CODE, TIMEOUT_EXIT_CODE, run_process
from benchmarks.runner.requirements import unmet_requirements
from benchmarks.runner.selection import is_selected
from benchmarks.runner.session import Session
from benchmarks.runner.settings import Entry, Requirement, Settings, Step, read_settings
from benchmarks.runner.sinks import send_to_sinks
from benchmarks.runner.templating import Template

REPOSITORY = Path(__file__).resolve().parents[2]
PATHS = {"results_path": "results", "datasets_path": "data", "model_weights_path": "none"}


def minimal(**keys: Any) -> dict[str, Any]:
    return {**PATHS, "entries": [{"name": "one", "script": "one.py"}], **keys}


class TestConfiguration:
    def test_later_file_wins_and_named_items_merge(self, tmp_path: Path) -> None:
        first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
        first.write_text("a: {x: 1, y: 2}\nentries: [{name: one, timeout_s: 1, script: s}, {name: two, script: t}]\n")
        second.write_text("a: {y: 3}\nentries: [{name: two, script: u}, {name: three}, {name: one, timeout_s: 9}]\n")
        assert load_configuration([first, second]) == {
            "a": {"x": 1, "y": 3},
            "entries": [
                {"name": "one", "timeout_s": 9, "script": "s"},
                {"name": "two", "script": "u"},
                {"name": "three"},
            ],
        }

    def test_lists_without_names_are_replaced(self) -> None:
        assert merge({"a": [1, 2]}, {"a": [3]}) == {"a": [3]}

    def test_disabled_mappings_and_null_keys_vanish(self) -> None:
        given = {"a": None, "b": [{"name": "x", "enabled": False}, {"name": "y", "c": None}], "d": {"enabled": False}}
        assert remove_disabled(given) == {"b": [{"name": "y"}]}

    def test_environment_is_expanded_with_defaults(self) -> None:
        found = expand_environment({"a": ["${HOME_OF}/x", "${NOT_SET:-8}"]}, {"HOME_OF": "/h"})
        assert found == {"a": ["/h/x", "8"]}

    def test_unset_variable_is_an_error_that_names_it(self) -> None:
        with pytest.raises(ConfigurationError, match="NOT_SET"):
            expand_environment("${NOT_SET}", {})

    def test_unset_variable_of_a_disabled_entry_is_no_error(self, tmp_path: Path) -> None:
        path = tmp_path / "file.yaml"
        path.write_text("entries: [{name: one, script: '${NOT_SET}', enabled: false}]\n")
        assert load_configuration([path], {}) == {"entries": []}


class TestSettings:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"entris": []}, "entris"),
            ({"entries": [{"name": "one", "script": "s", "timeout": 3}]}, "timeout"),
            ({"entries": [{"name": "one", "script": "s", "ray": {"cpus": 3}}]}, "cpus"),
            ({"datasets": [{"name": "d", "path": "p"}]}, "path"),
            ({"entries": [{"name": "one"}]}, "script"),
            ({"entries": [{"name": "one", "script": "s"}] * 2}, "more than once"),
            ({"datasets": [{"name": "d", "formats": []}] * 2}, "more than once"),
            ({"paths": [{"name": "results_path", "host_path": "p"}]}, "cannot be combined"),
            ({"results_path": 3}, "must be a string"),
            ({"caches": "hot"}, "hot"),
            ({"entries": [{"name": "one", "script": "s", "timeout_s": 0}]}, "positive"),
            ({"entries": [{"name": "one", "script": "s", "ray": {"num_cpus": "two"}}]}, "whole number"),
        ],
    )
    def test_mistake_is_an_error_that_names_it(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            read_settings(minimal(**change))

    def test_missing_path_is_an_error(self) -> None:
        with pytest.raises(ConfigurationError, match="results_path"):
            read_settings({"entries": []})

    def test_entries_inherit_defaults(self) -> None:
        entries = [{"name": "one", "script": "s"}, {"name": "two", "script": "s", "timeout_s": 7}]
        settings = read_settings(minimal(default_timeout_s=5, delete_scratch=False, entries=entries))
        assert [entry.timeout_s for entry in settings.entries] == [5, 7]
        assert not settings.entries[0].delete_scratch
        assert read_settings(minimal()).entries[0].timeout_s == 7200

    def test_anchors_may_live_below_x_keys(self) -> None:
        assert read_settings(minimal(**{"x-shared": {"anything": 1}})).entries[0].name == "one"

    def test_list_of_paths_is_accepted(self) -> None:
        paths = [{"name": "results_path", "host_path": "r"}, {"name": "models", "host_path": "m"}]
        assert read_settings({"paths": paths, "entries": []}).paths == {"results_path": "r", "models": "m"}

    def test_both_shipped_files_are_valid(self) -> None:
        files = [REPOSITORY / "benchmarks" / name for name in ("interleaved_io.yaml", "interleaved_io_80.yaml")]
        for chosen in (files[:1], files):
            settings = read_settings(load_configuration(chosen, {}))
            assert len(settings.entries) == 17
            for entry in settings.entries:
                Template(settings, REPOSITORY, Path("entry")).arguments(entry.args)
        exact = {one.metric: one.exact_value for one in settings.entries[0].requirements}
        assert exact["input_num_rows"] == FULL_SET.rows
        assert exact["output_num_rows"] == FULL_SET.kept_rows


class TestTemplates:
    @pytest.fixture
    def template(self) -> Template:
        datasets = [{"name": "set", "formats": [{"type": "wds", "path": "{datasets_path}/shards"}]}]
        return Template(read_settings(minimal(datasets=datasets)), Path("/repository"), Path("/results/my entry"))

    def test_places_are_filled(self, template: Template) -> None:
        args = "--out={session_entry_dir}/o {curator_repo_dir} --in={dataset:set,wds} '{{literal}}'"
        shards = f"{Path('data').absolute()}/shards"
        assert template.arguments(args) == ["--out=/results/my entry/o", "/repository", f"--in={shards}", "{literal}"]
        assert template.used_datasets == [Path(shards)]

    def test_unknown_place_is_a_value_error(self, template: Template) -> None:
        with pytest.raises(ValueError, match="nowhere"):
            template.fill("{nowhere}")

    @pytest.mark.parametrize("reference", ["{dataset:other,wds}", "{dataset:set,parquet}"])
    def test_unknown_dataset_or_format_is_a_key_error(self, template: Template, reference: str) -> None:
        with pytest.raises(KeyError) as caught:
            template.fill(reference)
        assert isinstance(caught.value, UnknownNameError)


class TestSelection:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            (None, True),
            ("JPEG", True),
            ("jpeg and not shardmill", True),
            ("raw or (pq_to_wds and jpeg)", False),
            ("'wds__jpeg'", True),
            ("not jpeg", False),
        ],
    )
    def test_words_are_matched_in_the_lower_cased_name(self, expression: str | None, expected: bool) -> None:
        assert is_selected(expression, "wds_to_WDS__JPEG__nemo_curator") is expected

    @pytest.mark.parametrize("expression", ["jpeg and", "jpeg + raw", "jpeg or print('x')", "3"])
    def test_anything_else_is_an_error(self, expression: str) -> None:
        with pytest.raises(ConfigurationError):
            is_selected(expression, "jpeg")


class TestRequirements:
    @pytest.mark.parametrize(
        ("requirement", "metrics", "is_met"),
        [
            (Requirement("rows", exact_value=3), {"rows": 3}, True),
            (Requirement("rows", exact_value=3), {"rows": 4}, False),
            (Requirement("rows", exact_value=1), {"rows": True}, False),
            (Requirement("errors", exact_value=0), {"errors": 0}, True),
            (Requirement("speed", min_value=1, max_value=2), {"speed": 2}, True),
            (Requirement("speed", min_value=1), {"speed": 0.5}, False),
            (Requirement("speed", max_value=1), {"speed": float("nan")}, False),
            (Requirement("speed", max_value=1), {}, False),
            (Requirement("speed", max_value=1), {"speed": None}, False),
        ],
    )
    def test_metric_is_judged(self, requirement: Requirement, metrics: dict[str, Any], is_met: bool) -> None:
        assert (unmet_requirements([requirement], metrics) == []) is is_met

    def test_exact_value_and_range_cannot_be_combined(self) -> None:
        with pytest.raises(ConfigurationError):
            Requirement("rows", min_value=1, exact_value=2)
        with pytest.raises(ConfigurationError):
            Requirement("rows")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


class TestProcesses:
    def run(self, tmp_path: Path, program: str, **limits: float) -> Any:
        return run_process(
            [sys.executable, "-c", program],
            environment=dict(os.environ),
            folder=tmp_path,
            log=tmp_path / "log",
            **{"timeout_s": 30.0, **limits},
        )

    def run_out_of_time(self, tmp_path: Path, program: str, ready: Path, **limits: float) -> Any:
        """With as much time as the program needs to make a file, on a machine that is busy."""
        for timeout_s in (1.0, 5.0, 30.0):
            outcome = self.run(tmp_path, program, timeout_s=timeout_s, **limits)
            if ready.exists():
                break
        return outcome

    def test_exit_code_and_output_are_kept(self, tmp_path: Path) -> None:
        outcome = self.run(tmp_path, "import sys; print('to the log'); sys.exit(3)")
        assert (outcome.exit_code, outcome.timed_out) == (3, False)
        assert (tmp_path / "log").read_text() == "to the log\n"

    def test_command_that_cannot_start_is_a_failure(self, tmp_path: Path) -> None:
        outcome = run_process(["./nothing"], environment={}, folder=tmp_path, log=tmp_path / "log", timeout_s=1.0)
        assert outcome.exit_code == LAUNCH_FAILURE_EXIT_CODE

    def test_timeout_kills_the_group_and_children_that_left_it(self, tmp_path: Path) -> None:
        child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        program = (
            "import pathlib, subprocess, sys, time\n"
            f"command = [sys.executable, '-c', {child!r}]\n"
            "stayed = subprocess.Popen(command)\n"
            "left = subprocess.Popen(command, process_group=0)\n"
            "pathlib.Path('unfinished').write_text(f'{stayed.pid} {left.pid}')\n"
            "pathlib.Path('unfinished').rename('pids')\n"
            "time.sleep(60)\n"
        )
        outcome = self.run_out_of_time(tmp_path, program, tmp_path / "pids", grace_s=0.3)
        assert (outcome.exit_code, outcome.timed_out) == (TIMEOUT_EXIT_CODE, True)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        # They sleep for a minute.
        deadline = time.perf_counter() + 20
        while any(map(is_running, pids)) and time.perf_counter() < deadline:
            time.sleep(0.02)
        assert [pid for pid in pids if is_running(pid)] == []

    def test_term_comes_before_kill(self, tmp_path: Path) -> None:
        program = (
            "import pathlib, signal, sys, time\n"
            "def end(*_): pathlib.Path('termed').touch(); sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, end)\n"
            "pathlib.Path('ready').touch()\n"
            "time.sleep(60)\n"
        )
        outcome = self.run_out_of_time(tmp_path, program, tmp_path / "ready", grace_s=30.0)
        assert outcome.exit_code == TIMEOUT_EXIT_CODE
        assert (tmp_path / "termed").exists()

    def test_memory_of_children_counts(self, tmp_path: Path) -> None:
        child = "import time; block = b'x' * 60_000_000; time.sleep(3)"
        outcome = self.run(tmp_path, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])")
        assert outcome.peak_rss_bytes > 60_000_000

    def test_peak_of_a_short_process_is_seen(self, tmp_path: Path) -> None:
        outcome = self.run(tmp_path, "import time; block = b'x' * 300_000_000; time.sleep(3)")
        assert 300_000_000 < outcome.peak_rss_bytes < 400_000_000

    def test_memory_of_the_runner_does_not_count(self, tmp_path: Path) -> None:
        block = b"x" * 300_000_000
        assert self.run(tmp_path, "pass").peak_rss_bytes < 100_000_000
        del block


class TestSession:
    def run(
        self, tmp_path: Path, script: str, *, prepare: tuple[Step, ...] = (), repeats: int = 1, **keys: Any
    ) -> dict[str, Any]:
        (tmp_path / "script.py").write_text(script)
        paths = {name: str(tmp_path / name) for name in PATHS}
        settings = Settings(paths, {"set": {"raw": "{datasets_path}/set"}}, (), prepare)
        folder = tmp_path / "results_path" / "session"
        session = Session(settings, folder, tmp_path, measure_machine=False, repeats=repeats)
        entry = Entry(name="one", script="script.py", **{"args": "{session_entry_dir}", **keys})
        return session.run([entry], ["run"])

    def test_metrics_and_params_reach_the_results_file(self, tmp_path: Path) -> None:
        script = (
            "import json, pathlib, sys\nout = pathlib.Path(sys.argv[1])\n"
            "(out / 'params.json').write_text(json.dumps({'mode': 'x'}))\n"
            "(out / 'metrics.json').write_text(json.dumps({'rows': 3}))\n"
            "(out / 'scratch' / 'big').touch()\nprint('hello')\n"
        )
        results = self.run(tmp_path, script, requirements=(Requirement("rows", exact_value=3),))
        folder = tmp_path / "results_path" / "session"
        assert json.loads((folder / "results.json").read_text()) == results
        assert results["is_success"]
        (entry,) = results["entries"]
        assert (entry["params"], entry["metrics"]["rows"]) == ({"mode": "x"}, 3)
        assert entry["metrics"]["process_seconds"] > 0
        assert (folder / "one" / "logs" / "stdouterr.log").read_text() == "hello\n"
        assert not (folder / "one" / "scratch").exists()

    @pytest.mark.parametrize(
        "script",
        [
            "raise SystemExit(1)",
            "import os; os.abort()",
            "import sys, pathlib; pathlib.Path(sys.argv[1], 'metrics.json').write_text('{\"is_success\": false}')",
            "import sys, pathlib; pathlib.Path(sys.argv[1], 'metrics.json').write_text('{')",
        ],
    )
    def test_failing_script_fails_the_session(self, tmp_path: Path, script: str) -> None:
        results = self.run(tmp_path, script)
        assert not results["is_success"]
        assert results["entries"][0]["failures"]

    def test_unmet_requirement_fails_the_entry(self, tmp_path: Path) -> None:
        results = self.run(tmp_path, "", requirements=(Requirement("rows", exact_value=3),))
        assert results["entries"][0]["failures"] == ["rows is missing"]

    def test_missing_interpreter_fails_the_entry(self, tmp_path: Path) -> None:
        results = self.run(tmp_path, "", python="./no/python")
        assert results["entries"][0]["exit_code"] == LAUNCH_FAILURE_EXIT_CODE
        assert not results["is_success"]

    def test_secrets_are_not_recorded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAY_AUTH_TOKEN", "not for files")
        monkeypatch.setenv("RAY_ADDRESS", "local")
        self.run(tmp_path, "")
        recorded = json.loads((tmp_path / "results_path/session/one/environment.json").read_text())
        assert recorded["RAY_ADDRESS"] == "local"
        assert "RAY_AUTH_TOKEN" not in recorded

    def test_only_steps_whose_dataset_is_used_run(self, tmp_path: Path) -> None:
        touch = "import pathlib, sys; pathlib.Path(sys.argv[1]).parent.mkdir(exist_ok=True, parents=True)\n"
        (tmp_path / "make.py").write_text(touch + "pathlib.Path(sys.argv[1]).write_text('made')")
        used = Step("used", "make.py", "{datasets_path}/set", makes="{dataset:set,raw}")
        unused = Step("unused", "make.py", "{datasets_path}/other", makes="{datasets_path}/other")
        self.run(tmp_path, "", prepare=(used, unused), args="{dataset:set,raw}")
        assert (tmp_path / "datasets_path" / "set").exists()
        assert not (tmp_path / "datasets_path" / "other").exists()

    def test_median_of_repeated_runs_is_reported(self, tmp_path: Path) -> None:
        script = (
            "import json, pathlib, sys, time\nout = pathlib.Path(sys.argv[1])\n"
            "count = len(list(out.parent.glob('one*')))\n"
            "(out / 'metrics.json').write_text(json.dumps({'count': count}))\ntime.sleep([0.3, 0.0, 0.1][count - 1])\n"
        )
        (entry,) = self.run(tmp_path, script, repeats=3)["entries"]
        assert entry["metrics"]["count"] == 3
        assert sorted(entry["all_process_seconds"])[1] == entry["process_seconds"]

    def test_one_failed_run_fails_the_entry(self, tmp_path: Path) -> None:
        script = "import sys; sys.exit('run_2' in sys.argv[1])"
        (entry,) = self.run(tmp_path, script, repeats=3)["entries"]
        assert not entry["is_success"]

    def test_existing_session_is_not_overwritten(self, tmp_path: Path) -> None:
        self.run(tmp_path, "")
        with pytest.raises(FileExistsError):
            self.run(tmp_path, "")


class TestCommandLine:
    @pytest.fixture
    def config(self, tmp_path: Path) -> Path:
        path = tmp_path / "file.yaml"
        script = tmp_path / "script.py"
        script.write_text("import sys; sys.exit(int(sys.argv[1]))")
        entries = [{"name": f"code_{code}", "script": str(script), "args": str(code)} for code in (0, 1)]
        paths = {name: str(tmp_path / name) for name in PATHS}
        path.write_text(json.dumps({**paths, "entries": entries}))
        return path

    def test_list_prints_the_chosen_names(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run.main(["--config", str(config), "--list", "--entries", "not code_0"]) == 0
        assert capsys.readouterr().out == "code_1\n"

    def test_exit_code_tells_success(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("benchmarks.runner.session.describe_machine", lambda _folder: {})
        assert run.main(["--config", str(config), "--session-name", "a", "--entries", "code_0"]) == 0
        assert run.main(["--config", str(config), "--session-name", "b"]) == 1
        assert run.main(["--config", str(config), "--entries", "nothing"]) == 2

    def test_help_needs_no_configuration(self) -> None:
        command = [sys.executable, "-m", "benchmarks.run", "--help"]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        assert "example:" in done.stdout

    def test_unknown_sink_is_a_warning(self, capsys: pytest.CaptureFixture[str]) -> None:
        send_to_sinks([{"name": "carrier pigeon"}], {"entries": []})
        assert "carrier pigeon" in capsys.readouterr().err


class TestPlan:
    def test_full_set_has_the_published_totals(self) -> None:
        plans = plan_shards(80)
        assert len(plans) == 80
        assert totals_of(plans) == FULL_SET
        assert (FULL_SET.samples, FULL_SET.texts, FULL_SET.images) == (6_818, 30_079, 32_886)
        assert (FULL_SET.kept_images, FULL_SET.rows, FULL_SET.kept_rows) == (20_816, 69_783, 57_713)

    def test_first_shards_do_not_depend_on_how_many_are_written(self) -> None:
        full = plan_shards(80)
        assert plan_shards(8) == full[:8]
        assert plan_shards(11) == full[:11]
        head = totals_of(full[:8])
        assert (head.samples, head.images) == (680, 3_234)

    def test_no_sample_loses_all_of_its_content(self) -> None:
        for plan in plan_shards(80):
            for sample in plan.samples:
                assert "t" in sample.order or any(is_kept(*page) for page in sample.pages)
                assert sample.order.count("i") == len(sample.pages) > 0

    def test_bounds_of_the_filter_occur(self) -> None:
        ratios = {
            width / height for plan in plan_shards(8) for sample in plan.samples for width, height in sample.pages
        }
        assert {1.0, 2.0} <= ratios
        assert min(ratios) < 1.0
        assert max(ratios) > 2.0

    def test_sample_ids_are_unique(self) -> None:
        ids = [sample.sample_id for plan in plan_shards(80) for sample in plan.samples]
        assert len(set(ids)) == len(ids)
        assert all(len(one) == 32 and int(one, 16) >= 0 for one in ids)

    def test_other_set_sizes_are_in_proportion(self) -> None:
        assert totals_of(plan_shards(20, of=20)).images == pytest.approx(FULL_SET.images / 4, abs=1)
        with pytest.raises(ValueError, match="81"):
            plan_shards(81)


class TestShards:
    def test_shard_holds_what_was_planned(self, tmp_path: Path) -> None:
        pytest.importorskip("numpy")
        image_module = pytest.importorskip("PIL.Image")
        from benchmarks.mint1t.shards import write_dataset

        record = write_dataset(tmp_path, shards=1, of=1, codec="jpeg", processes=1)
        (path,) = tmp_path.rglob("*.tar")
        (plan,) = plan_shards(1, of=1)
        with tarfile.open(path) as tar:
            members = tar.getmembers()
            names = [f"{sample.sample_id}.{suffix}" for sample in plan.samples for suffix in ("json", "tiff")]
            assert [member.name for member in members] == names
            for sample, member in zip(plan.samples, members[::2], strict=True):
                document = json.load(tar.extractfile(member))  # type: ignore[arg-type]
                assert len(document["texts"]) == len(document["images"]) == len(sample.order)
                filled = ["i" if text is None else "t" for text in document["texts"]]
                assert "".join(filled) == sample.order
                assert [token is not None for token in document["images"]] == [kind == "i" for kind in sample.order]
                assert len(document["image_metadata"]) == len(sample.pages)
                with image_module.open(tar.extractfile(f"{sample.sample_id}.tiff")) as tiff:
                    sizes = []
                    for page in range(tiff.n_frames):
                        tiff.seek(page)
                        sizes.append(tiff.size)
                assert tuple(sizes) == sample.pages
        modified = path.stat().st_mtime_ns
        assert write_dataset(tmp_path, shards=1, of=1, codec="jpeg", processes=1) == record
        assert path.stat().st_mtime_ns == modified
