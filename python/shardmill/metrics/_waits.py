"""Wait times, as a histogram of fixed size.

Each power of two has eight buckets, so a percentile is accurate to 7 %, and histograms of any
processes can be added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add
from typing import Any

from shardmill.errors import OptionError
from shardmill.metrics._snapshot import Snapshot

_LONGEST_NS = 2**43 - 1
_BUCKETS = 328


class Histogram:
    """Counts of waits by their length in nanoseconds."""

    __slots__ = ("counts", "nanoseconds")

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.nanoseconds = 0

    def add(self, nanoseconds: int) -> None:
        """Count one wait."""
        self.nanoseconds += nanoseconds
        shift = nanoseconds.bit_length() - 4
        if shift <= 0:
            self.counts[nanoseconds] += 1
        elif nanoseconds <= _LONGEST_NS:
            self.counts[(shift << 3) + (nanoseconds >> shift)] += 1
        else:
            self.counts[-1] += 1

    def times(self) -> WaitTimes:
        """Return the waits so far."""
        return WaitTimes(seconds=self.nanoseconds / 1e9, histogram=tuple(self.counts))


@dataclass(frozen=True, kw_only=True)
class WaitTimes(Snapshot):
    """How long the trainer waited for batches.

    ``one + other`` returns the waits of both, for example of two ranks.

    Attributes:
        seconds: total of all waits.
        histogram: number of waits by length; eight buckets for each power of two of nanoseconds.
    """

    seconds: float = 0.0
    histogram: tuple[int, ...] = field(default_factory=lambda: (0,) * _BUCKETS, repr=False)

    @property
    def count(self) -> int:
        """Number of waits."""
        return sum(self.histogram)

    @property
    def p50(self) -> float:
        """Median in seconds."""
        return self.percentile(0.5)

    @property
    def p95(self) -> float:
        """95th percentile in seconds."""
        return self.percentile(0.95)

    @property
    def p99(self) -> float:
        """99th percentile in seconds."""
        return self.percentile(0.99)

    def percentile(self, share: float) -> float:
        """Return the seconds that this share of the waits did not exceed.

        They are accurate to 7 %, and 0 if there are no waits.

        Raises:
            ValueError: If ``share`` is not from 0 to 1.
        """
        if not 0 <= share <= 1:
            raise OptionError(f"share must be from 0 to 1, not {share!r}")
        rank = share * self.count
        for bucket, reached in enumerate(accumulate(self.histogram)):
            if reached >= rank and reached > 0:
                lower, upper = _bounds(bucket)
                return (lower + upper) / 2e9
        return 0.0

    def buckets(self) -> Iterator[tuple[float, int]]:
        """Yield pairs of a bound in seconds, and the number of waits below it.

        The bounds go from about a microsecond to a minute.
        """
        below = list(accumulate(self.histogram))
        for power in range(10, 37):
            yield 2**power / 1e9, below[((power - 3) << 3) + 7]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: the total, the number and percentiles."""
        return {
            "seconds": self.seconds,
            "count": self.count,
            "p50": self.p50,
            "p95": self.p95,
            "p99": self.p99,
        }

    def __add__(self, other: WaitTimes) -> WaitTimes:
        if not isinstance(other, WaitTimes):
            return NotImplemented
        return WaitTimes(
            seconds=self.seconds + other.seconds,
            histogram=tuple(map(add, self.histogram, other.histogram)),
        )


def _bounds(bucket: int) -> tuple[int, int]:
    if bucket < 16:
        return bucket, bucket + 1
    shift, lower = (bucket >> 3) - 1, (bucket & 7) + 8
    return lower << shift, (lower + 1) << shift
