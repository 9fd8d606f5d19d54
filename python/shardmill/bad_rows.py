"""Rows that could not be decoded, and what a loader does about them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shardmill.errors import BadRowLimitError, OptionError

POLICIES = ("raise", "skip", "replace")

_CAUSES_SHOWN = 10


@dataclass(frozen=True)
class BadRow:
    """A row that could not be decoded.

    Attributes:
        path: of the file.
        row: its number in that file, from 0 on.
        cause: what the decoder said.
    """

    path: str
    row: int
    cause: str


class Ledger:
    """The bad rows of the batches that one rank was handed out in one epoch.

    Args:
        policy: what becomes of a bad row: ``"raise"``, ``"skip"`` or ``"replace"``.
        limit: more of them in an epoch are an error: a number, or as a float a part of the rows of the epoch.
    """

    def __init__(self, policy: str, limit: float | None) -> None:
        if policy not in POLICIES:
            raise OptionError(f"on_bad_rows is one of {', '.join(POLICIES)}, not {policy!r}")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0):
            raise OptionError(f"max_bad_rows is a number of rows, or a part of them such as 0.001, not {limit!r}")
        if limit is not None and policy == "raise":
            raise OptionError('max_bad_rows is for on_bad_rows="skip" or "replace": the first bad row is an error else')
        self.policy, self._limit = policy, limit
        self.restart()

    def restart(self) -> None:
        """A new epoch, or the same one anew."""
        self.rows: list[BadRow] = []
        self._earlier, self._digest = 0, 0

    def add(self, rows: Iterable[BadRow], rows_of_epoch: int) -> None:
        """Writes down the bad rows of a batch.

        Raises:
            BadRowLimitError: when there are too many now.
        """
        for row in rows:
            self.rows.append(row)
            text = f"{row.row} {row.path}".encode()
            # A sum: the order in which ranks and batches find them does not matter.
            self._digest = (self._digest + int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())) % 2**128
        limit = self._limit
        if limit is None or len(self.rows) <= (limit if isinstance(limit, int) else limit * rows_of_epoch):
            return
        shown = "\n".join(f"  {row.path}, row {row.row}: {row.cause}" for row in self.rows[:_CAUSES_SHOWN])
        more = len(self.rows) - _CAUSES_SHOWN
        raise BadRowLimitError(
            f"{len(self.rows):,} rows of the epoch could not be decoded, and max_bad_rows is {limit}:\n{shown}"
            + (f"\n  and {more:,} more" if more > 0 else "")
        )

    def state(self) -> dict[str, Any]:
        """Counters for a state: the rows themselves stay out of it."""
        return {"policy": self.policy, "count": self._earlier + len(self.rows), "digest": f"{self._digest:032x}"}

    def load(self, state: Any) -> None:
        """Goes on counting where ``state`` ends; without one, anew."""
        self.restart()
        if isinstance(state, dict) and isinstance(state.get("count"), int) and isinstance(state.get("digest"), str):
            self._earlier, self._digest = state["count"], int(state["digest"], 16)
