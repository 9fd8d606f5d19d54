"""The rules of the benchmark runner: what an entry is, what fails it, and what is left of it."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

# The benchmarks are not a part of the installed package.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.measure import make_set, read_options, record_of
from benchmarks.runner import session as sessions
from benchmarks.runner.processes import run_process
from benchmarks.runner.session import Session
from benchmarks.runner.settings import ConfigurationError, Settings, Step, read_settings
from benchmarks.tables import _Options as TableOptions

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted(
    set((REPOSITORY / "benchmarks").glob("*.yaml")) - {REPOSITORY / "benchmarks" / "goals.yaml"}
)
SUCCESS = "write({'is_success': True, 'rows': 3})"
SCRIPT = """
import json, os, pathlib, sys, time
out = pathlib.Path(next(one for one in sys.argv if one.startswith("--out="))[6:])
def write(metrics, name="metrics.json"):
    (out / name).write_text(json.dumps(metrics))
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes modules that an entry or a check can name."""

    monkeypatch.setattr(sessions, "describe_machine", lambda _directory: {})

    def make(name, body):
        # Below the repository's root, which is where modules are looked up.
        directory = tmp_path / "modules"
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.py").write_text(SCRIPT + body)
        (directory / "sitecustomize.py").write_text("")
        return f"{name}"

    monkeypatch.setattr(sessions, "REPOSITORY", tmp_path / "modules")
    return make


def run(tmp_path, *entries, rounds=1, name="session", budget_s=float("inf")):
    settings = Settings(tuple(entries), budget_s=budget_s)
    results = Session(settings, tmp_path / name, rounds).run(entries, "command")
    assert json.loads((tmp_path / name / "results.json").read_text()) == results
    return results["entries"]


def is_running(pid):
    """Whether a process is there for longer than it takes to die."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except OSError:
            return False
        time.sleep(0.05)
    return True


class TestSettings:
    def read(self, tmp_path, text, environment=None):
        path = tmp_path / "file.yaml"
        path.write_text(text)
        return read_settings(path, environment or {})

    def test_matrix_and_systems_become_entries_and_data_sets_are_found(self, tmp_path):
        text = """
            data: ${ROOT:-/default}
            module: m
            args: {runs: 3, data: "{dataset:set_1}"}
            datasets:
              set_1: {path: one, make: {module: maker, args: {rows: 1}}}
              set_2: {path: two, make: {module: maker, args: {of: "{dataset:set_1}"}}}
            systems: {ours: , theirs: {python: there, args: {runs: 1}}}
            entries:
              - name: "s__{n}"
                systems: [ours, theirs]
                matrix: {n: [1, 2]}
                args: {data: "{dataset:set_{n}}", none: null}
        """
        settings = self.read(tmp_path, text, {"ROOT": "/sets"})
        assert [entry.name for entry in settings.entries] == [
            "s__1__ours",
            "s__1__theirs",
            "s__2__ours",
            "s__2__theirs",
        ]
        last = settings.entries[-1]
        assert last.args == {"runs": "1", "data": "/sets/two", "system": "theirs", "scenario": "s"}
        assert (last.python, last.datasets) == ("there", ("set_2",))
        assert settings.makers["set_2"].args == {"out": "/sets/two", "of": "/sets/one"}
        assert self.read(tmp_path, text).paths["set_1"] == Path("/default/one")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("entris: []", "entris"),
            ("{systems: {a: }, entries: [{name: x, systems: [a]}]}", "no module"),
            (
                "{module: m, systems: {a: }, entries: [{name: x, systems: [a, a]}]}",
                "more than once",
            ),
            (
                "{module: m, systems: {a: }, entries: [{name: 'x{y}', systems: [a]}]}",
                "unknown place {y}",
            ),
            ("{module: '${NOT_SET}'}", "NOT_SET"),
        ],
    )
    def test_mistake_is_an_error_that_names_it(self, tmp_path, text, message):
        with pytest.raises(ConfigurationError, match=message):
            self.read(tmp_path, text)

    @pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
    def test_shipped_file_is_read(self, file):
        settings = read_settings(file, {})
        assert settings.entries
        assert {name for entry in settings.entries for name in entry.datasets} <= set(
            settings.paths
        )


class TestProcesses:
    def run(self, tmp_path, program, **more):
        given = {
            "environment": dict(os.environ),
            "directory": tmp_path,
            "log": tmp_path / "log",
            "timeout_s": 30,
        } | more
        return run_process([sys.executable, "-c", program], **given)

    def test_timeout_kills_the_group_and_children_that_left_it(self, tmp_path):
        program = f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True
)
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
time.sleep(60)
"""
        outcome = self.run(tmp_path, program, timeout_s=1.5, grace_s=0.3)
        assert outcome.failure == "timed out"
        assert outcome.process_seconds >= 1.5
        assert not any(is_running(pid) for pid in (tmp_path / "pids").read_text().split())

    def test_process_that_is_left_is_killed(self, tmp_path):
        program = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
time.sleep(0.3)
"""
        assert self.run(tmp_path, program).failure == ""
        assert not is_running((tmp_path / "pid").read_text())

    def test_memory_of_children_counts(self, tmp_path):
        child = "import time; block = b'x' * 100_000_000; time.sleep(1)"
        program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
        assert 100e6 < self.run(tmp_path, program).peak_rss_bytes < 300e6

    def test_command_that_cannot_start_is_a_failure(self, tmp_path):
        given = {"environment": {}, "directory": tmp_path, "log": tmp_path / "log", "timeout_s": 1}
        assert run_process(["/no/such/program"], **given).failure.startswith(
            "cannot start /no/such/program"
        )


class TestSession:
    def test_every_round_reaches_the_results_with_what_was_measured_outside(self, tmp_path, module):
        step = Step("one", module("good", SUCCESS), {"rows": "3"})
        (entry,) = run(tmp_path, step, rounds=3).values()
        assert entry["failures"] == []
        assert [one["rows"] for one in entry["rounds"]] == [3, 3, 3]
        assert all(
            one["process_seconds"] > 0 and one["peak_rss_bytes"] > 0 for one in entry["rounds"]
        )
        with pytest.raises(FileExistsError):
            run(tmp_path, step)

    @pytest.mark.parametrize(
        ("body", "failure"),
        [
            ("time.sleep(60)", "timed out"),
            ("sys.exit(3)", "exit code 3"),
            (
                "write({'is_success': False, 'error': 'WrongRowsError: 2 of 3'}); sys.exit(1)",
                "WrongRowsError: 2 of 3",
            ),
            ("write({'rows': 3})", "no metrics.json that says is_success"),
            ("pass", "no metrics.json that says is_success"),
        ],
    )
    def test_entry_fails(self, tmp_path, module, body, failure):
        (entry,) = run(tmp_path, Step("one", module("bad", body), {}, timeout_s=1.0)).values()
        assert failure in entry["failures"]
        assert entry["rounds"] == []

    def test_systems_of_a_scenario_take_turns_and_every_second_round_is_in_reverse_order(
        self, tmp_path, module
    ):
        log = tmp_path / "log"
        body = f"open({str(log)!r}, 'a').write(name + ' '); " + SUCCESS
        names = ["x__1__a", "y__1__a", "x__1__b", "x__2__c"]
        steps = [
            Step(name, module(f"m{place}", f"name = {name!r}; {body}"), {})
            for place, name in enumerate(names)
        ]
        run(tmp_path, *steps, rounds=3)
        x = ["x__1__a", "x__1__b", "x__2__c"]
        assert log.read_text().split() == [*x, *reversed(x), *x, *["y__1__a"] * 3]

    @pytest.fixture
    def script(self, tmp_path, monkeypatch):
        """Entries that take what a list says, round by round, without a process."""
        monkeypatch.setattr(sessions, "describe_machine", lambda _directory: {})
        monkeypatch.setattr(sessions, "git_commit", lambda _repository: "c0ffee")
        runs = {}

        def play(self, entry, directory):
            done = runs.setdefault(entry.name, [])
            seconds, rate = entry.args["rounds"][len(done) % len(entry.args["rounds"])]
            done.append(directory.name)
            return [], {"figures": {"x": {"per_s": rate}}, "process_seconds": seconds}

        monkeypatch.setattr(Session, "_run", play)
        return runs

    @pytest.mark.parametrize(("seconds", "rounds"), [(4.9, 5), (5, 3), (10, 2), (20, 1), (300, 1)])
    def test_long_entry_gets_fewer_rounds(self, tmp_path, script, seconds, rounds):
        (entry,) = run(
            tmp_path, Step("s__1__a", "m", {"rounds": [(seconds, 1)]}), rounds=None
        ).values()
        assert len(entry["rounds"]) == rounds

    def test_entry_gets_one_round_after_the_budget_is_spent(self, tmp_path, script):
        entries = [Step("s__1__a", "m", {"rounds": [(1, 1), (1, 9)]})]
        (entry,) = run(tmp_path, *entries, rounds=None, budget_s=-1).values()
        assert len(entry["rounds"]) == 1

    def test_case_with_an_unsteady_entry_is_measured_once_more_and_the_entry_is_marked(
        self, tmp_path, script
    ):
        steady, unsteady = [(1, 100), (1, 105)], [(1, 100), (1, 160)]
        given = {"s__1__a": unsteady, "s__1__b": steady, "s__2__a": steady}
        found = run(
            tmp_path, *(Step(name, "m", {"rounds": given[name]}) for name in given), rounds=None
        )
        assert {name: len(script[name]) for name in given} == {
            "s__1__a": 10,
            "s__1__b": 10,
            "s__2__a": 5,
        }
        assert {name for name, entry in found.items() if entry.get("is_repeated")} == {"s__1__a"}
        assert all(len(entry["rounds"]) == 5 for entry in found.values())

    def test_replaced_entry_is_measured_again_and_the_others_stay(self, tmp_path, script):
        steps = [Step(name, "m", {"rounds": [(1, 1)]}) for name in ("s__1__a", "s__1__b")]
        settings, directory = Settings(tuple(steps)), tmp_path / "session"
        first = Session(settings, directory, 2).run(steps, "command")
        first["started_utc"] = first["entries"]["s__1__b"]["started_utc"] = "earlier"
        (directory / "results.json").write_text(json.dumps(first))
        found = Session(settings, directory, 2, replace=True).run(steps[:1], "command")["entries"]
        assert {name: len(runs) for name, runs in script.items()} == {"s__1__a": 4, "s__1__b": 2}
        assert {name: len(entry["rounds"]) for name, entry in found.items()} == {
            "s__1__b": 2,
            "s__1__a": 2,
        }
        assert found["s__1__b"]["started_utc"] == "earlier" != found["s__1__a"]["started_utc"]

    def test_resumed_session_runs_what_is_missing_or_failed(self, tmp_path, module, monkeypatch):
        monkeypatch.setattr(sessions, "git_commit", lambda _repository: "c0ffee")
        good = Step("good", module("good", "(out / 'log').touch(); " + SUCCESS), {})
        bad = Step("bad", module("bad", "sys.exit(3)"), {})
        settings = Settings((good, bad))
        first = Session(settings, tmp_path / "session", rounds=1).run([good, bad], "command")
        assert first["entries"]["bad"]["failures"]
        (tmp_path / "session" / "good__1" / "log").unlink()
        module("bad", SUCCESS)
        second = Session(settings, tmp_path / "session", rounds=1, resume=True).run(
            [good, bad], "command"
        )
        assert second["entries"]["good"] == first["entries"]["good"]
        assert second["entries"]["bad"]["failures"] == []
        assert len(second["entries"]["bad"]["rounds"]) == 1
        assert not (tmp_path / "session" / "good__1" / "log").exists()

    @pytest.mark.parametrize("commit", ["decade", "c0ffee with changes"])
    def test_session_of_other_code_is_replaced(self, tmp_path, module, monkeypatch, commit):
        step = Step("good", module("good", SUCCESS), {})
        settings = Settings((step,))
        monkeypatch.setattr(sessions, "git_commit", lambda _repository: "c0ffee")
        Session(settings, tmp_path / "session", rounds=2).run([step], "command")
        monkeypatch.setattr(sessions, "git_commit", lambda _repository: commit)
        results = Session(settings, tmp_path / "session", rounds=1, resume=True).run(
            [step], "command"
        )
        assert results["commit"] == commit
        assert len(results["entries"]["good"]["rounds"]) == 1

    def test_failing_check_fails_the_entry(self, tmp_path, module):
        check = module(
            "check", "write({'failures': ['2 ids are missing']}, 'check.json'); sys.exit(1)"
        )
        (entry,) = run(tmp_path, Step("one", module("good", SUCCESS), {}, check=check)).values()
        assert entry["failures"] == ["2 ids are missing"]

    def test_data_set_is_made_once_before_the_entries_that_use_it(self, tmp_path, module):
        body = "(out / 'log').open('a').write('made '); write({'num_rows': 1}, '.dataset.json')"
        module("maker", "out.mkdir(exist_ok=True)\n" + body)
        used, unused = tmp_path / "used", tmp_path / "unused"
        makers = {
            name: Step(name, "maker", {"out": str(tmp_path / name)}) for name in ("used", "unused")
        }
        entry = Step("one", module("good", SUCCESS), {}, datasets=("used",))
        settings = Settings((entry,), {"used": used, "unused": unused}, makers)
        results = Session(settings, tmp_path / "session").run([entry], "command")
        assert results["datasets"] == {"used": {"num_rows": 1}}
        assert (used / "log").read_text() == "made "
        assert not unused.exists()


def test_complete_data_set_is_kept_and_another_is_replaced(tmp_path):
    def write(directory):
        (directory / "file").write_bytes(b"12345")

    directory = tmp_path / "set"
    assert make_set(directory, {"rows": (1, 2)}, write)
    assert not make_set(directory, {"rows": (1, 2)}, write)
    assert record_of(directory) == {"num_files": 1, "bytes": 5, "rows": [1, 2]}
    assert make_set(directory, {"rows": (3,)}, write)


def test_options_are_read_by_the_types_of_their_fields():
    assert read_options(TableOptions, ["--out=a", "--set=b", "--share=0.5"]) == TableOptions(
        Path("a"), "b", 0.5
    )
    with pytest.raises(SystemExit, match="unknown option --rows=3"):
        read_options(TableOptions, ["--rows=3"])
