"""Why a request gets no answer."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - it is an answer, not a failure
    """The answer is a status and a sentence.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
