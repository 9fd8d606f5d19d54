"""What each sample of the set holds: texts, pages and their sizes, by arithmetic alone.

Enters: how many shards the whole set has, and a seed. Leaves: one ``ShardPlan`` per shard. The writer and
the tests call it. Invariant: the totals are exact, and the first n shards do not depend on how many are asked for.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MIN_ASPECT_RATIO = 1.0
MAX_ASPECT_RATIO = 2.0

# 86,400 pixels of RGB are 259 kB raw and about 29 kB as JPEG with the texture of pictures.py.
MEAN_PIXELS = 86_400


@dataclass(frozen=True)
class Totals:
    """Counts of a set of samples; ``kept_images`` pass the aspect ratio filter 1.0 to 2.0."""

    samples: int
    texts: int
    images: int
    kept_images: int

    @property
    def rows(self) -> int:
        """Rows that a reader makes: one metadata row a sample, one row a text, one row an image."""
        return self.samples + self.texts + self.images

    @property
    def kept_rows(self) -> int:
        """Rows left after the filter. No sample of this set loses all of its content."""
        return self.samples + self.texts + self.kept_images

    def __sub__(self, other: Totals) -> Totals:
        return Totals(
            self.samples - other.samples,
            self.texts - other.texts,
            self.images - other.images,
            self.kept_images - other.kept_images,
        )


FULL_SET = Totals(samples=6_818, texts=30_079, images=32_886, kept_images=20_816)
FULL_SET_SHARDS = 80

# Quick runs use the first eight shards, so their counts are fixed as well.
HEAD = Totals(samples=680, texts=2_958, images=3_234, kept_images=2_047)
HEAD_SHARDS = 8


@dataclass(frozen=True)
class SamplePlan:
    """One document: ``order`` holds ``"t"`` or ``"i"`` in reading order, ``pages`` the size of each image."""

    sample_id: str
    order: str
    pages: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ShardPlan:
    """The samples of one tar file."""

    index: int
    samples: tuple[SamplePlan, ...]


def plan_shards(shards: int, *, of: int = FULL_SET_SHARDS, seed: int = 0) -> list[ShardPlan]:
    """Returns the first ``shards`` shards of a set of ``of`` shards.

    Args:
        shards: How many shards to return.
        of: How many shards the whole set has. 80 gives the exact published totals; any other number
            gives totals in proportion.
        seed: Another seed gives another set with the same totals.

    Raises:
        ValueError: If there are fewer shards in the set than asked for.
    """
    if not 1 <= shards <= of:
        msg = f"cannot take {shards} shards of a set of {of}"
        raise ValueError(msg)
    groups = (
        [(HEAD_SHARDS, HEAD), (of - HEAD_SHARDS, FULL_SET - HEAD)]
        if of == FULL_SET_SHARDS
        else [(of, _in_proportion(of))]
    )
    plans: list[ShardPlan] = []
    for number, (group_shards, totals) in enumerate(groups):
        if len(plans) >= shards:
            break
        rng = random.Random(f"mint1t {seed} {of} {number}")
        plans += _plan_group(rng, len(plans), group_shards, totals)
    return plans[:shards]


def totals_of(plans: Iterable[ShardPlan]) -> Totals:
    """Counts what the planned samples hold."""
    samples = [sample for plan in plans for sample in plan.samples]
    pages = [page for sample in samples for page in sample.pages]
    return Totals(
        samples=len(samples),
        texts=sum(sample.order.count("t") for sample in samples),
        images=len(pages),
        kept_images=sum(is_kept(width, height) for width, height in pages),
    )


def is_kept(width: int, height: int) -> bool:
    """Whether an image of this size passes the filter; both bounds are inclusive."""
    return MIN_ASPECT_RATIO <= width / height <= MAX_ASPECT_RATIO


def _in_proportion(shards: int) -> Totals:
    def scaled(total: int) -> int:
        return round(total * shards / FULL_SET_SHARDS)

    return Totals(
        scaled(FULL_SET.samples),
        scaled(FULL_SET.texts),
        scaled(FULL_SET.images),
        scaled(FULL_SET.kept_images),
    )


def _plan_group(rng: random.Random, first_index: int, shards: int, totals: Totals) -> list[ShardPlan]:
    samples_per_shard = _share(totals.samples, [0.8 + 0.4 * rng.random() for _ in range(shards)], at_least=1)
    # A tenth of the documents have a single page; the others follow a long tail.
    images = _share(totals.images, [_tail(rng) if rng.random() < 0.9 else 0.0 for _ in range(totals.samples)], 1)
    has_text = [rng.random() >= 0.02 for _ in range(totals.samples)]
    texts = _share_texts(rng, totals.texts, has_text)

    # A document without text keeps its first image, so that no document loses all of its content.
    must_keep = [not text for text in has_text]
    kept = _choose_kept(rng, images, must_keep, totals.kept_images)

    samples = [_plan_sample(rng, texts_count, flags) for texts_count, flags in zip(texts, kept, strict=True)]
    plans = []
    start = 0
    for offset, count in enumerate(samples_per_shard):
        plans.append(ShardPlan(first_index + offset, tuple(samples[start : start + count])))
        start += count
    return plans


def _plan_sample(rng: random.Random, texts: int, kept: Sequence[bool]) -> SamplePlan:
    order = ["t"] * texts + ["i"] * len(kept)
    _shuffle(rng, order)
    pages = tuple(_page_size(rng, is_kept_page) for is_kept_page in kept)
    sample_id = "".join(f"{_below(rng, 1 << 32):08x}" for _ in range(4))
    return SamplePlan(sample_id, "".join(order), pages)


def _share_texts(rng: random.Random, total: int, has_text: Sequence[bool]) -> list[int]:
    weights = [_tail(rng) for text in has_text if text]
    counts = iter(_share(total, weights, at_least=1))
    return [next(counts) if text else 0 for text in has_text]


def _choose_kept(
    rng: random.Random, images: Sequence[int], must_keep: Sequence[bool], kept_total: int
) -> list[list[bool]]:
    flags = [[must and page == 0 for page in range(count)] for count, must in zip(images, must_keep, strict=True)]
    free = [(sample, page) for sample, row in enumerate(flags) for page, is_set in enumerate(row) if not is_set]
    _shuffle(rng, free)
    for sample, page in free[: kept_total - sum(map(sum, flags))]:
        flags[sample][page] = True
    return flags


def _page_size(rng: random.Random, is_kept_page: bool) -> tuple[int, int]:
    ratio_draw, pixels_draw = rng.random(), rng.random()
    if is_kept_page:
        # The bounds themselves are frequent: an inclusive test that is off by one shows in the totals.
        ratio = 1.0 if ratio_draw < 0.04 else 2.0 if ratio_draw < 0.08 else 1.02 + 0.96 * rng.random()
    elif ratio_draw < 0.75:
        ratio = 0.4 + 0.57 * rng.random()
    else:
        ratio = 2.05 + 2.5 * rng.random()
    # Quartic tail from 0.3 to 3.8 times a unit, with a mean of exactly one unit.
    pixels = MEAN_PIXELS * (0.3 + 3.5 * pixels_draw**4)
    height = max(16, round((pixels / ratio) ** 0.5))
    width = round(height * ratio)
    return width, height


def _share(total: int, weights: Sequence[float], at_least: int) -> list[int]:
    """Shares ``total`` by weight with the largest remainder method, so that the sum is exact."""
    spare = total - at_least * len(weights)
    if spare < 0:
        msg = f"cannot share {total} among {len(weights)} with at least {at_least} each"
        raise ValueError(msg)
    weight_sum = sum(weights)
    exact = [spare * weight / weight_sum for weight in weights]
    counts = [at_least + int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda place: (int(exact[place]) - exact[place], place))
    for place in by_remainder[: total - sum(counts)]:
        counts[place] += 1
    return counts


def _tail(rng: random.Random) -> float:
    return 0.25 + 2.0 * rng.random() ** 2


# Only Random.random() is promised to give the same sequence in every Python version.
def _below(rng: random.Random, limit: int) -> int:
    return int(rng.random() * limit)


def _shuffle(rng: random.Random, items: list[Any]) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = _below(rng, last + 1)
        items[last], items[other] = items[other], items[last]
