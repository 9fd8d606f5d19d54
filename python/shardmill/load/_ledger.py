"""What a rank received: the bad rows of an epoch, and the audits of its batches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from shardmill.errors import BadRowLimitError, OptionError
from shardmill.load._audit import Audit
from shardmill.load._bad_rows import BadRow

_CAUSES_SHOWN = 10

#: What ``Ledger.rewind`` takes.
Mark = tuple[int, Audit | None, int, int]


class Ledger:
    """The bad rows in the batches of one rank in one epoch, and the audits of all its epochs.

    The batches are those that the rank received.

    Args:
        policy: what happens to a bad row: ``"raise"``, ``"skip"`` or ``"replace"``.
        limit: raise once an epoch has more bad rows than this: a count, or a fraction of the epoch
            if float.
        is_audited: whether checksums of the rows are computed.
    """

    def __init__(self, policy: str, limit: float | None, *, is_audited: bool) -> None:
        self.policy, self._limit, self.is_audited = policy, limit, is_audited
        self.audits: dict[int, Audit] = {}
        self.restart()

    def restart(self) -> None:
        """Forget the bad rows of the epoch."""
        self.rows: list[BadRow] = []
        self._earlier, self._digest = 0, 0

    def begin(self, epoch: int) -> None:
        """Start an epoch, for the first time or again."""
        self.restart()
        self.audits.pop(epoch, None)

    def emptied(self, *, is_audited: bool = False) -> Ledger:
        """Return an empty ledger with the same policy and limit, for a pass of its own.

        It has no audit, unless ``is_audited``.
        """
        return Ledger(self.policy, self._limit, is_audited=is_audited)

    def add(self, notes: Sequence[object], epoch: int, rows_of_epoch: int) -> None:
        """Record the bad rows and the audit of a batch.

        Raises:
            BadRowLimitError: If the limit would be exceeded. The batch is then not delivered, and
                nothing of it is recorded.
        """
        rows = [note for note in notes if isinstance(note, BadRow)]
        limit, count = self._limit, self._earlier + len(self.rows) + len(rows)
        if limit is not None and count > (
            limit if isinstance(limit, int) else limit * rows_of_epoch
        ):
            first = [*self.rows[:_CAUSES_SHOWN], *rows][:_CAUSES_SHOWN]
            shown = "\n".join(f"  {row.path}, row {row.row}: {row.cause}" for row in first)
            more = count - len(first)
            raise BadRowLimitError(
                f"{count:,} rows of the epoch could not be decoded, and max_rows is {limit}:\n"
                f"{shown}" + (f"\n  and {more:,} more" if more > 0 else "")
            )
        for row in rows:
            self.rows.append(row)
            text = f"{row.row} {row.path}".encode()
            # A sum, so that the order in which ranks and batches find them does not matter.
            self._digest = (
                self._digest + int.from_bytes(hashlib.blake2b(text, digest_size=16).digest())
            ) % 2**128
        for note in notes:
            if isinstance(note, Audit):
                self.audits[epoch] = self.audits.get(epoch, Audit()) + note

    def audit(self, epoch: int | None) -> Audit:
        """Return the audit of an epoch, by default of the last one.

        Raises:
            ValueError: If no audits are computed.
        """
        if not self.is_audited:
            raise OptionError(
                "this loader does not compute an audit\n"
                "hint: create it with runtime=sm.Runtime(audit=True)"
            )
        return self.audits.get(max(self.audits, default=0) if epoch is None else epoch, Audit())

    def mark(self, epoch: int) -> Mark:
        """Return what ``rewind`` takes to forget later batches of an epoch."""
        return epoch, self.audits.get(epoch), len(self.rows), self._digest

    def rewind(self, mark: Mark) -> None:
        """Forget what was added after ``mark``."""
        epoch, audit, rows, self._digest = mark
        del self.rows[rows:]
        self.audits.pop(epoch, None)
        if audit is not None:
            self.audits[epoch] = audit

    def state(self) -> dict[str, Any]:
        """Return the counters of bad rows for a state, without the rows themselves.

        Without a policy for bad rows there are none.
        """
        if self.policy == "raise":
            return {}
        count = self._earlier + len(self.rows)
        return {
            "bad_rows": {"policy": self.policy, "count": count, "digest": f"{self._digest:032x}"}
        }

    @staticmethod
    def is_state(state: Any) -> bool:
        """Tell whether ``load`` accepts ``state``."""
        if not isinstance(state, dict):
            return state is None
        count, digest = state.get("count"), state.get("digest")
        is_count = type(count) is int and count >= 0
        return (
            is_count
            and isinstance(digest, str)
            and re.fullmatch("[0-9a-f]{32}", digest) is not None
        )

    def load(self, state: dict[str, Any] | None) -> None:
        """Continue counting from ``state``, or from zero without one. Audits start anew."""
        self.restart()
        self.audits.clear()
        if state is not None:
            self._earlier, self._digest = state["count"], int(state["digest"], 16)
