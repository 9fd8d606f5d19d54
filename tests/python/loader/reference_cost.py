"""The cost of a pack as its definition says, from coefficients of any kind of number."""

from collections.abc import Mapping, Sequence
from typing import Any


def pack_cost(
    cost: Mapping[str, Any], documents: Sequence[int], *, length: int, patches: Sequence[int] = ()
) -> Any:
    """The cost of a pack with these tokens of its documents and patches of its images.

    With coefficients of `units_of` and the saturation of 64 bits, it is the number by which packs
    are ordered.
    """
    pieces = [*documents]
    if cost["count_padding"] and sum(documents) < length:
        pieces.append(length - sum(documents))
    window = cost["window"] or 0
    return (
        cost["token"] * sum(pieces)
        + cost["pair"] * sum(piece**2 for piece in pieces)
        + cost["window_pair"] * sum(piece * min(piece, window) for piece in pieces)
        + cost["patch"] * sum(patches)
        + cost["patch_pair"] * sum(number**2 for number in patches)
        + cost["image"] * len(patches)
    )
