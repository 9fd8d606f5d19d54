"""Runs the chosen entries one after another and writes ``results.json``.

Enters: ``Settings`` and the names to run. Leaves: a session folder with one folder an entry. Called by
``benchmarks.run``. Invariant: ``results.json`` is rewritten after every entry, so that a crash loses one entry at most.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.runner.caches import prepare_caches
from benchmarks.runner.errors import ConfigurationError
from benchmarks.runner.machine import describe_machine, git_commit, versions_of
from benchmarks.runner.processes import run_process
from benchmarks.runner.requirements import unmet_requirements
from benchmarks.runner.settings import Entry, Settings, Step
from benchmarks.runner.templating import Template

# How a data set was made, if its folder says so; hidden, so that no reader takes it for data.
DATASET_RECORD = ".dataset.json"
# Written to environment.json; anything else in the environment is nobody's business.
_RECORDED_VARIABLES = re.compile(r"BENCHMARK_|SHARDMILL_|RAY_|OMP_|PYTHON|CUDA_VISIBLE")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|KEY|CREDENTIAL", re.IGNORECASE)


@dataclass
class Session:
    """One run of a benchmark file."""

    settings: Settings
    folder: Path
    repository: Path
    measure_machine: bool = True
    repeats: int = 1

    def run(self, entries: Sequence[Entry], command_line: Sequence[str]) -> dict[str, Any]:
        """Runs the entries and returns the content of ``results.json``.

        Raises:
            ConfigurationError: If a template is unknown; checked for all entries before the first one starts.
            FileExistsError: If the session folder exists.
        """
        steps = self._needed_steps(entries)
        self.folder.mkdir(parents=True)
        results: dict[str, Any] = {
            "session_name": self.folder.name,
            "started_utc": _now(),
            "command_line": list(command_line),
            "machine": describe_machine(self.folder) if self.measure_machine else {},
            "git": git_commit(self.repository),
            "versions": versions_of(sys.executable),
            "repository": str(self.repository),
            "paths": {name: str(Path(path).absolute()) for name, path in self.settings.paths.items()},
            "caches": self.settings.caches,
            "repeats": self.repeats,
            "datasets": {},
            "entries": [],
            "is_success": False,
        }
        for step in steps:
            print(f"[prepare] {step.name}", file=sys.stderr, flush=True)
            self._prepare(step)
        runs: dict[str, list[dict[str, Any]]] = {entry.name: [] for entry in entries}
        # Round by round, so that a slow minute of the machine does not hit all runs of one entry.
        for round_number in range(1, self.repeats + 1):
            for number, entry in enumerate(entries, start=1):
                print(f"[{number}/{len(entries)}] {entry.name}, run {round_number}", file=sys.stderr, flush=True)
                runs[entry.name].append(self._run_entry(entry, round_number))
                results["entries"] = [_middle(done) for done in runs.values() if done]
                results["datasets"] = self._dataset_records(entries[: max(number, len(results["entries"]))])
                results["is_success"] = all(done["is_success"] for done in results["entries"])
                _write(self.folder / "results.json", results)
        results["finished_utc"] = _now()
        _write(self.folder / "results.json", results)
        return results

    def _needed_steps(self, entries: Sequence[Entry]) -> list[Step]:
        needed: set[Path] = set()
        for entry in entries:
            template = self._template(entry)
            self._command(entry, template)
            needed.update(template.used_datasets)
        steps: list[Step] = []
        for step in reversed(self.settings.prepare):
            template = self._template(step)
            self._command(step, template)
            if step.makes is None or Path(template.fill(step.makes)) in needed:
                steps.insert(0, step)
                needed.update(template.used_datasets)
        return steps

    def _dataset_records(self, entries: Sequence[Entry]) -> dict[str, Any]:
        records: dict[str, Any] = {}
        for entry in entries:
            template = self._template(entry)
            self._command(entry, template)
            for path in template.used_datasets:
                records[str(path)] = _read(path / DATASET_RECORD)
        return records

    def _prepare(self, step: Step) -> None:
        log = self.folder / "prepare" / f"{step.name}.log"
        command = self._command(step, self._template(step))
        environment = self._environment()
        outcome = run_process(command, environment=environment, folder=self.repository, log=log, timeout_s=24 * 3600.0)
        if outcome.exit_code != 0:
            msg = f"prepare step {step.name} ended with code {outcome.exit_code}\nhint: read {log}"
            raise ConfigurationError(msg)

    def _run_entry(self, entry: Entry, round_number: int) -> dict[str, Any]:
        template = self._template(entry, round_number)
        command = self._command(entry, template)
        folder = template.session_entry_dir
        (folder / "scratch").mkdir(parents=True)
        environment = self._environment() | _entry_variables(entry)
        _write(folder / "environment.json", _recorded(environment))
        prepare_caches(self.settings.caches, template.used_datasets)

        started = _now()
        log = folder / "logs" / "stdouterr.log"
        outcome = run_process(
            command, environment=environment, folder=self.repository, log=log, timeout_s=entry.timeout_s
        )
        metrics, failures = _read_metrics(folder)
        # The cluster's processes are only seen from outside; inside, a script knows itself at most.
        metrics |= {
            "process_seconds": outcome.process_seconds,
            "cpu_seconds": outcome.cpu_seconds,
            "peak_rss_bytes": outcome.peak_rss_bytes,
        }
        if outcome.exit_code != 0:
            failures.insert(0, "timed out" if outcome.timed_out else f"exit code {outcome.exit_code}")
        elif entry.check is not None:
            failures += self._check(entry, folder, environment, metrics)
        failures += unmet_requirements(entry.requirements, metrics)
        if metrics.get("is_success") is False and "is_success is false" not in failures:
            failures.append("is_success is false")
        metrics["is_success"] = not failures
        _write(folder / "metrics.json", metrics)
        if entry.delete_scratch:
            shutil.rmtree(folder / "scratch", ignore_errors=True)
        return {
            "name": entry.name,
            "command": command,
            "started_utc": started,
            "exit_code": outcome.exit_code,
            "timed_out": outcome.timed_out,
            "is_success": not failures,
            "failures": failures,
            "process_seconds": outcome.process_seconds,
            "versions": versions_of(command[0]),
            "params": _read(folder / "params.json"),
            "metrics": metrics,
            "sink_data": list(entry.sink_data),
        }

    def _check(self, entry: Entry, folder: Path, environment: dict[str, str], metrics: dict[str, Any]) -> list[str]:
        python = _interpreter(entry.check_python or entry.python, self._template(entry))
        outcome = run_process(
            [python, str(self.repository / str(entry.check)), str(folder)],
            environment=environment,
            folder=self.repository,
            log=folder / "logs" / "check.log",
            timeout_s=entry.timeout_s,
        )
        added = _read(folder / "check.json")
        metrics |= added
        if outcome.exit_code != 0:
            return [str(reason) for reason in added.get("check_failures", [])] or [
                f"check ended with code {outcome.exit_code}"
            ]
        return []

    def _template(self, item: Entry | Step, round_number: int = 1) -> Template:
        name = item.name if round_number == 1 else f"{item.name}__run_{round_number}"
        return Template(self.settings, self.repository, self.folder / name)

    def _command(self, item: Entry | Step, template: Template) -> list[str]:
        return [
            _interpreter(item.python, template),
            str(self.repository / template.fill(item.script)),
            *template.arguments(item.args),
        ]

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        # Scripts are started by path, in several interpreters, and import from this repository.
        below = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{self.repository}{os.pathsep}{below}" if below else str(self.repository)
        return environment


def _middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The run of median wall time, with the times of all runs; it failed if any of them failed."""
    failed = [run for run in runs if not run["is_success"]]
    chosen = failed[0] if failed else sorted(runs, key=lambda run: run["process_seconds"])[(len(runs) - 1) // 2]
    return chosen | {
        "all_process_seconds": [run["process_seconds"] for run in runs],
        # For figures that are no wall time: the run of median wall time need not have their median.
        "all_metrics": [run["metrics"] for run in runs],
    }


def _interpreter(python: str | None, template: Template) -> str:
    if python is None:
        return sys.executable
    filled = template.fill(python)
    # Scripts run in the repository, whatever folder the path was relative to.
    return str(Path(filled).absolute()) if os.sep in filled else filled


def _entry_variables(entry: Entry) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = entry.object_store_size
    variables = {
        "BENCHMARK_OBJECT_STORE_SIZE_BYTES": int(size * memory if size <= 1 else size),
        "BENCHMARK_RAY_NUM_CPUS": entry.ray.num_cpus,
        "BENCHMARK_RAY_NUM_GPUS": entry.ray.num_gpus,
        "BENCHMARK_RAY_ENABLE_OBJECT_SPILLING": str(entry.ray.enable_object_spilling).lower(),
        "BENCHMARK_ENTRY_TIMEOUT_S": int(entry.timeout_s),
    }
    return {name: str(value) for name, value in variables.items() if value is not None}


def _read_metrics(folder: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        return _read(folder / "metrics.json"), []
    except (json.JSONDecodeError, TypeError) as error:
        return {}, [f"metrics.json cannot be read: {error}"]


def _recorded(environment: dict[str, str]) -> dict[str, Any]:
    names = sorted(name for name in environment if _RECORDED_VARIABLES.match(name) and not _SECRET.search(name))
    return {name: environment[name] for name in names}


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _write(path: Path, content: dict[str, Any]) -> None:
    staging = path.with_name(f".{path.name}.partial")
    staging.write_text(json.dumps(content, indent=2) + "\n")
    staging.replace(path)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
