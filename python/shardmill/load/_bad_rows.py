"""Rows that could not be decoded, and how a loader handles them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shardmill.errors import BadRowLimitError

_CAUSES_SHOWN = 10


@dataclass(frozen=True)
class BadRow:
    """A row that could not be decoded.

    Attributes:
        path: path of the file.
        row: index of the row in that file, 0-based.
        cause: error message of the decoder.
    """

    path: str
    row: int
    cause: str


class Ledger:
    """The bad rows in the batches that one rank received in one epoch.

    Args:
        policy: what happens to a bad row: ``"raise"``, ``"skip"`` or ``"replace"``.
        limit: raise once an epoch has more bad rows than this: a count, or a fraction of the epoch if float.
    """

    def __init__(self, policy: str, limit: float | None) -> None:
        self.policy, self._limit = policy, limit
        self.restart()

    def restart(self) -> None:
        """Start a new epoch, or the same one again."""
        self.rows: list[BadRow] = []
        self._earlier, self._digest = 0, 0

    def emptied(self) -> Ledger:
        """Return a ledger with the same policy and limit, for another pass."""
        return Ledger(self.policy, self._limit)

    def add(self, rows: Iterable[BadRow], rows_of_epoch: int) -> None:
        """Record the bad rows of a batch.

        Raises:
            BadRowLimitError: If the limit would be exceeded. The batch is then not delivered, and its rows are not recorded.
        """
        rows = list(rows)
        limit, count = self._limit, self._earlier + len(self.rows) + len(rows)
        if limit is not None and count > (limit if isinstance(limit, int) else limit * rows_of_epoch):
            first = [*self.rows[:_CAUSES_SHOWN], *rows][:_CAUSES_SHOWN]
            shown = "\n".join(f"  {row.path}, row {row.row}: {row.cause}" for row in first)
            more = count - len(first)
            raise BadRowLimitError(
                f"{count:,} rows of the epoch could not be decoded, and max_rows is {limit}:\n{shown}"
                + (f"\n  and {more:,} more" if more > 0 else "")
            )
        for row in rows:
            self.rows.append(row)
            text = f"{row.row} {row.path}".encode()
            # A sum, so that the order in which ranks and batches find them does not matter.
            self._digest = (self._digest + int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())) % 2**128

    def mark(self) -> tuple[int, int]:
        """Return what ``rewind`` takes to forget the rows of later batches."""
        return len(self.rows), self._digest

    def rewind(self, mark: tuple[int, int]) -> None:
        """Forget the rows that were added after ``mark``."""
        rows, self._digest = mark
        del self.rows[rows:]

    def state(self) -> dict[str, Any]:
        """Return the counters for a state, without the rows themselves."""
        return {"policy": self.policy, "count": self._earlier + len(self.rows), "digest": f"{self._digest:032x}"}

    @staticmethod
    def is_state(state: Any) -> bool:
        """Tell whether ``load`` accepts ``state``."""
        if not isinstance(state, dict):
            return state is None
        count, digest = state.get("count"), state.get("digest")
        is_count = type(count) is int and count >= 0
        return is_count and isinstance(digest, str) and re.fullmatch("[0-9a-f]{32}", digest) is not None

    def load(self, state: dict[str, Any] | None) -> None:
        """Continue counting from ``state``, or from zero without one."""
        self.restart()
        if state is not None:
            self._earlier, self._digest = state["count"], int(state["digest"], 16)
