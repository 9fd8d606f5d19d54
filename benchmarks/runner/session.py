"""Runs entries round by round and writes ``results.json`` after each, so that a crash loses one entry at most and a session can go on."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import prepare_caches, record_of, write_json
from benchmarks.runner.machine import WITH_CHANGES, describe_machine, git_commit, versions_of
from benchmarks.runner.processes import run_process
from benchmarks.runner.settings import ConfigurationError, Settings, Step

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Session:
    """One run of a benchmark file.

    Attributes:
        directory: Where logs and results go; it must not exist yet.
        resume: Continue a session of the same commit in ``directory``: only what is missing or failed is run. A session of another commit or
            of files with changes is replaced.
    """

    settings: Settings
    directory: Path
    rounds: int = 1
    resume: bool = False

    def run(self, entries: Sequence[Step], command: str) -> dict[str, Any]:
        """Makes the data sets, runs the entries and returns the content of ``results.json``."""
        found = self._found() if self.resume else {}
        self.directory.mkdir(parents=True, exist_ok=bool(found))
        names = list(dict.fromkeys(name for entry in entries for name in entry.datasets))
        made: set[str] = set()
        for name in names:
            self._make(name, made)
        results: dict[str, Any] = {
            "started_utc": found.get("started_utc", f"{datetime.now(UTC):%Y-%m-%d %H:%M}"),
            "command": command,
            "commit": git_commit(REPOSITORY),
            "machine": found.get("machine") or describe_machine(self.directory),
            "rounds": self.rounds,
            "datasets": {name: record_of(self.settings.paths[name]) for name in names},
            "entries": {name: done | {"failures": []} for name, done in found.get("entries", {}).items()},
        }
        # Round by round, so that a slow minute of the machine does not hit all runs of one entry. Every second round is in reverse order: the
        # first process after one that used much memory is slower, and would always be the same one.
        for number in range(1, self.rounds + 1):
            for entry in entries if number % 2 else reversed(entries):
                python = _interpreter(entry.python)
                done = results["entries"].setdefault(
                    entry.name, {"versions": versions_of(python), "failures": [], "rounds": []}
                )
                if len(done["rounds"]) >= number:
                    continue
                print(f"[{number}/{self.rounds}] {entry.name}", file=sys.stderr, flush=True)
                failures, metrics = self._run(entry, self.directory / f"{entry.name}__{number}")
                done["failures"] += failures
                if not failures:
                    done["rounds"].append(metrics)
                state = "; ".join(failures) if failures else f"{metrics['process_seconds']:.2f} s"
                print(f"    {state}", file=sys.stderr, flush=True)
                write_json(self.directory / "results.json", results)
        return results

    def _found(self) -> dict[str, Any]:
        """The results that a session of the same commit left."""
        found = _read(self.directory / "results.json")
        commit = git_commit(REPOSITORY)
        if found and found["commit"] == commit and not commit.endswith(WITH_CHANGES):
            return found
        shutil.rmtree(self.directory, ignore_errors=True)
        return {}

    def _make(self, name: str, made: set[str]) -> None:
        """Makes a data set after those that it is made of; the maker keeps one that is complete."""
        if name in made:
            return
        made.add(name)
        maker = self.settings.makers[name]
        for needed in maker.datasets:
            self._make(needed, made)
        log = self.directory / f"make_{name}.log"
        print(f"[data] {name}", file=sys.stderr, flush=True)
        failure = self._process(maker, maker.args, log).failure
        if failure:
            raise ConfigurationError(f"data set {name}: {failure}; see {log}")

    def _run(self, entry: Step, directory: Path) -> tuple[list[str], dict[str, Any]]:
        """Runs an entry once; returns what is wrong, and its metrics."""
        shutil.rmtree(directory, ignore_errors=True)
        (directory / "scratch").mkdir(parents=True)
        prepare_caches("warm", [self.settings.paths[name] for name in entry.datasets])
        outcome = self._process(entry, {"out": directory, **entry.args}, directory / "log.txt")
        metrics = _read(directory / "metrics.json")
        failures = [outcome.failure] if outcome.failure else []
        if not failures and entry.check:
            check = Step("check", entry.check, {}, entry.python, timeout_s=entry.timeout_s)
            failure = self._process(check, {"out": directory}, directory / "check.txt").failure
            checked = _read(directory / "check.json")
            metrics |= checked
            failures += checked.get("failures") or ([f"check: {failure}"] if failure else [])
        if metrics.get("is_success") is not True:
            failures.append(str(metrics.get("error", "no metrics.json that says is_success")))
        # The processes of a cluster are seen from outside only.
        measured = {name: value for name, value in asdict(outcome).items() if name != "failure"}
        shutil.rmtree(directory / "scratch", ignore_errors=True)
        return failures, metrics | measured

    def _process(self, step: Step, args: Any, log: Path) -> Any:
        command = [_interpreter(step.python), "-m", step.module, *(f"--{key}={value}" for key, value in args.items())]
        # The interpreters of the peers import the package of this checkout.
        environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'python'}"}
        return run_process(command, environment=environment, directory=REPOSITORY, log=log, timeout_s=step.timeout_s)


def _interpreter(python: str | None) -> str:
    # Absolute, because modules run in the root of the repository; not resolved, because an environment is a link.
    return str(Path(python).absolute()) if python else sys.executable


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}
