"""Shards shaped like MINT-1T-PDF: made here, because the real set is tens of gigabytes and not ours to pass on.

The counts are those of the 80 shards of MINT-1T-PDF CC-2024-18 that interleaved pipelines are usually
timed on; the pixels are drawn. ``plan`` says what every sample holds without drawing anything,
``pictures`` draws, ``shards`` writes tar files. Importing this package needs the standard library only.
"""

from benchmarks.mint1t.plan import FULL_SET, Totals, plan_shards, totals_of

__all__ = ["FULL_SET", "Totals", "plan_shards", "totals_of"]
