"""Runs the entries of a scenario in turn, round by round.

``results.json`` is written after each, so a session can continue after a crash.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import prepare_caches, record_of, write_json
from benchmarks.runner.machine import WITH_CHANGES, describe_machine, git_commit, versions_of
from benchmarks.runner.processes import run_process
from benchmarks.runner.series import entry_spread
from benchmarks.runner.settings import ConfigurationError, Settings, Step

REPOSITORY = Path(__file__).resolve().parents[2]


#: Limits in seconds for the first round of an entry, with the number of rounds; one round if it
#: takes longer.
_ROUNDS = ((5.0, 5), (10.0, 3), (20.0, 2))
#: An entry with a larger spread is measured once more.
_STEADY = 0.20


@dataclass(frozen=True)
class Session:
    """One run of a benchmark file.

    Attributes:
        directory: Where logs and results go; it must not exist yet.
        rounds: Runs of each entry, and none is repeated; by default as many as its duration allows.
        resume: Continue a session of the same commit in ``directory``: only what is missing or
            failed is run. A session of another commit or of files with changes is replaced.
        replace: As ``resume``, but the chosen entries are measured again.
    """

    settings: Settings
    directory: Path
    rounds: int | None = None
    resume: bool = False
    replace: bool = False

    def run(self, entries: Sequence[Step], command: str) -> dict[str, Any]:
        """Makes the data sets, runs the entries and returns the content of ``results.json``."""
        found = self._found() if self.resume or self.replace else {}
        self.directory.mkdir(parents=True, exist_ok=bool(found))
        names = list(dict.fromkeys(name for entry in entries for name in entry.datasets))
        made: set[str] = set()
        for name in names:
            self._make(name, made)
        chosen = {entry.name for entry in entries} if self.replace else set()
        kept = {name: done for name, done in found.get("entries", {}).items() if name not in chosen}
        sets = found.get("datasets", {}) | {
            name: record_of(self.settings.paths[name]) for name in names
        }
        results: dict[str, Any] = {
            "started_utc": f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
            if self.replace or not found
            else found["started_utc"],
            "command": command,
            "commit": git_commit(REPOSITORY),
            "machine": found.get("machine") or describe_machine(self.directory),
            "datasets": sets,
            "entries": {name: done | {"failures": []} for name, done in kept.items()},
        }
        groups: dict[str, list[Step]] = {}
        for entry in entries:
            groups.setdefault(entry.name.partition("__")[0], []).append(entry)
        for group in groups.values():
            self._measure(group, results)
            self._measure(self._unsteady(group, results), results)
        return results

    def _measure(self, entries: Sequence[Step], results: dict[str, Any]) -> None:
        """Runs what is missing, round by round.

        A slow minute of the machine affects all systems. Every second round is in reverse order: a
        process is slower directly after one that used much memory, and without this it would always
        be the same process.
        """
        number, running = 1, list(entries)
        while running:
            for entry in running if number % 2 else reversed(running):
                fresh = {name: results[name] for name in ("commit", "started_utc")} | {
                    "versions": versions_of(_interpreter(entry.python)),
                    "failures": [],
                    "rounds": [],
                    "seconds": 0.0,
                }
                done = results["entries"].setdefault(entry.name, fresh)
                if len(done["rounds"]) < number:
                    self._run_round(entry, number, done)
                    write_json(self.directory / "results.json", results)
            running = [entry for entry in entries if number < self._wanted(results, entry)]
            number += 1

    def _run_round(self, entry: Step, number: int, done: dict[str, Any]) -> None:
        print(f"[{number}] {entry.name}", file=sys.stderr, flush=True)
        start = time.monotonic()
        failures, metrics = self._run(entry, self.directory / f"{entry.name}__{number}")
        done["seconds"] += time.monotonic() - start
        done["failures"] += failures
        if not failures:
            done["rounds"].append(metrics)
        state = "; ".join(failures) if failures else f"{metrics['process_seconds']:.2f} s"
        print(f"    {state}", file=sys.stderr, flush=True)

    def _wanted(self, results: dict[str, Any], entry: Step) -> int:
        """Rounds of an entry whose first round has been run."""
        done = results["entries"][entry.name]
        if done["failures"] or self.rounds:
            return 0 if done["failures"] else self.rounds or 0
        if self._is_spent(results):
            return 1
        seconds = done["rounds"][0]["process_seconds"]
        return next((rounds for limit, rounds in _ROUNDS if seconds < limit), 1)

    def _is_spent(self, results: dict[str, Any]) -> bool:
        return sum(done["seconds"] for done in results["entries"].values()) > self.settings.budget_s

    def _unsteady(self, entries: Sequence[Step], results: dict[str, Any]) -> list[Step]:
        """The entries to repeat, with their rounds removed.

        They are whole cases, so that the rounds of a ratio are of the same time.
        """
        done = results["entries"]
        cases = set()
        for entry in entries:
            is_first = (
                not done[entry.name].get("is_repeated")
                and not self.rounds
                and not self._is_spent(results)
            )
            if is_first and entry_spread(done[entry.name]["rounds"]) > _STEADY:
                done[entry.name]["is_repeated"] = True
                cases.add(entry.name.rpartition("__")[0])
        again = [entry for entry in entries if entry.name.rpartition("__")[0] in cases]
        for entry in again:
            done[entry.name] |= {"rounds": [], "failures": []}
        return again

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
        command = [
            _interpreter(step.python),
            "-m",
            step.module,
            *(f"--{key}={value}" for key, value in args.items()),
        ]
        # The interpreters of the peers import the package of this checkout.
        environment = {
            **os.environ,
            "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'python'}",
        }
        return run_process(
            command,
            environment=environment,
            directory=REPOSITORY,
            log=log,
            timeout_s=step.timeout_s,
        )


def _interpreter(python: str | None) -> str:
    # Absolute, because modules run in the root of the repository; not resolved, because an
    # environment is a link.
    return str(Path(python).absolute()) if python else sys.executable


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}
