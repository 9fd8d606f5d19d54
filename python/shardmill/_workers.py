"""Worker processes that run a function of the user."""

from __future__ import annotations

from shardmill.errors import EngineError


def worker_died(owner: str) -> EngineError:
    """Return the error for a worker process of ``owner`` that ended without a result."""
    return EngineError(
        f"a worker of {owner} died, or could not start\n"
        'hint: it may have had too little memory; a script that starts workers needs `if __name__ == "__main__":`'
    )
