"""Fills the places in braces of an entry's arguments.

Enters: a string with ``{session_entry_dir}``, ``{curator_repo_dir}``, ``{dataset:NAME,TYPE}`` or a path name.
Leaves: the string, and which dataset folders it named. Called by ``session``.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.runner.errors import ConfigurationError, UnknownNameError
from benchmarks.runner.settings import Settings

# ``{{`` and ``}}`` are literal braces.
_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


@dataclass
class Template:
    """Fills templates for one entry and remembers the datasets that it used."""

    settings: Settings
    repository: Path
    session_entry_dir: Path
    used_datasets: list[Path] = field(default_factory=list)

    def arguments(self, args: str) -> list[str]:
        """Returns an argument list; split like a shell does, before filling, so that paths may hold spaces."""
        return [self.fill(argument) for argument in shlex.split(args)]

    def fill(self, text: str) -> str:
        """Returns ``text`` with all places filled.

        Raises:
            ConfigurationError: For a name that is not known.
            UnknownNameError: For an unknown dataset or format.
        """
        return _PLACE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        if name.startswith("dataset:"):
            path = self._dataset(name.removeprefix("dataset:"))
            self.used_datasets.append(Path(path))
            return path
        if name == "session_entry_dir":
            return str(self.session_entry_dir)
        if name == "curator_repo_dir":
            return str(self.repository)
        if name in self.settings.paths:
            return str(Path(self.settings.paths[name]).absolute())
        known = ["session_entry_dir", "curator_repo_dir", "dataset:NAME,TYPE", *self.settings.paths]
        msg = f"unknown template {match[0]}\nhint: known are {', '.join(known)}"
        raise ConfigurationError(msg)

    def _dataset(self, reference: str) -> str:
        name, _, kind = (part.strip() for part in reference.partition(","))
        formats = self.settings.datasets.get(name)
        if formats is None:
            msg = f"unknown dataset {name!r}; known: {', '.join(self.settings.datasets) or 'none'}"
            raise UnknownNameError(msg)
        if kind not in formats:
            msg = f"dataset {name!r} has no format {kind!r}; known: {', '.join(formats)}"
            raise UnknownNameError(msg)
        return self.fill(formats[kind])
