"""Coefficients of a cost from measured steps, by least squares without negative values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, product
from typing import TYPE_CHECKING, Any

from shardmill.errors import OptionError

if TYPE_CHECKING:
    import numpy
    import numpy.typing as npt

#: A term that takes a smaller share of the longest step is noise.
_LEAST_SHARE = 1e-6


def fitted(
    terms: Sequence[Mapping[str, float]] | Mapping[str, npt.ArrayLike],
    seconds: npt.ArrayLike,
    names: Sequence[str],
) -> dict[str, float]:
    """Return the seconds of one unit of each term.

    Args:
        terms: the terms of each step, or the values of each term.
        seconds: duration of each step.
        names: the terms that a cost has.

    Raises:
        ValueError: If the measurements do not determine the coefficients.
    """
    import numpy

    times = _values("seconds", seconds)
    columns = {
        name: _values(f"{name} of terms", values) for name, values in _by_term(terms, names).items()
    }
    for name, values in columns.items():
        if len(values) != len(times):
            raise OptionError(
                f"{name} of terms has {len(values)} values and seconds {len(times)}\n"
                "hint: pass one of each for every step"
            )
    used = {name: values for name, values in columns.items() if values.any()}
    if all(numpy.ptp(values) == 0 for values in used.values()):
        raise OptionError(
            "each term has the same value at all steps, so they cannot be distinguished\n"
            "hint: measure steps whose packs hold documents of other lengths"
        )
    scales = {name: values.max() for name, values in used.items()}
    parts = {name: values / scales[name] for name, values in used.items()}
    # A term that never changes is the constant, such as the tokens of packs that are all full.
    if all(numpy.ptp(values) for values in parts.values()):
        parts["a constant"] = numpy.ones(len(times))
    if len(times) < len(parts):
        raise OptionError(
            f"{len(times)} steps do not determine {len(parts)} numbers: {', '.join(parts)}\n"
            "hint: measure more steps; a few hundred average out noise"
        )
    _check_independent(parts)
    shares = _non_negative(numpy.column_stack(list(parts.values())), times)
    shares[shares < _LEAST_SHARE * times.max()] = 0
    found = dict(zip(parts, shares.tolist(), strict=True))
    if not any(found[name] for name in used):
        raise OptionError(
            f"the seconds do not grow with any of {', '.join(used)}\n"
            "hint: wait for the device before the clock is read, as torch.cuda.synchronize() does, "
            "and leave out the first steps"
        )
    return {name: found[name] / scale for name, scale in scales.items()}


def _by_term(terms: Any, names: Sequence[str]) -> Mapping[str, Any]:
    steps = [terms] if isinstance(terms, Mapping) else terms
    if (
        not isinstance(steps, Sequence)
        or not steps
        or not all(isinstance(step, Mapping) for step in steps)
    ):
        raise OptionError(
            "terms must be a dict of terms for each step, or one dict with the values of all "
            f"steps, not {terms!r}"
        )
    for number, step in enumerate(steps):
        for name in step:
            if name not in names:
                raise OptionError(
                    f"terms has {name!r}, and the terms of a cost are {', '.join(names)}"
                )
        if step.keys() != steps[0].keys():
            name = min(step.keys() ^ steps[0].keys())
            raise OptionError(
                f"step {number} of terms differs from the first in {name!r}\n"
                "hint: give each step the same terms; 0 is a value"
            )
    if isinstance(terms, Mapping):
        return terms
    return {name: [step[name] for step in steps] for name in steps[0]}


def _values(name: str, values: Any) -> numpy.ndarray:
    import numpy

    try:
        array = numpy.asarray(values, dtype=numpy.float64)
    except (TypeError, ValueError):
        array = numpy.empty(())
    if array.ndim != 1:
        raise OptionError(f"{name} must be a number for each step, not {values!r}")
    wrong = ~(numpy.isfinite(array) & (array >= 0))
    if wrong.any():
        step = int(wrong.argmax())
        raise OptionError(
            f"{name} must be finite numbers of at least 0, not {array[step]} at step {step}"
        )
    return array


def _check_independent(parts: Mapping[str, numpy.ndarray]) -> None:
    import numpy

    kept: dict[str, numpy.ndarray] = {}
    for name, values in parts.items():
        kept[name] = values
        if numpy.linalg.matrix_rank(numpy.column_stack(list(kept.values())), rtol=1e-9) < len(kept):
            others = ", ".join(list(kept)[:-1])
            raise OptionError(
                f"{name} cannot be distinguished from {others} in these steps\n"
                "hint: measure steps whose packs hold documents of other lengths, or leave out one "
                "of the terms"
            )


def _non_negative(matrix: numpy.ndarray, values: numpy.ndarray) -> numpy.ndarray:
    """Return the non-negative least-squares solution of a matrix with independent columns.

    It is the unconstrained solution for the columns whose coefficients are positive (Lawson and
    Hanson, Solving Least Squares Problems, 1974, chapter 23). A cost has at most seven columns, so
    all sets of columns are tried.
    """
    import numpy

    rotation, triangle = numpy.linalg.qr(matrix)
    target = rotation.T @ values
    best, least = numpy.zeros(matrix.shape[1]), numpy.linalg.norm(target)
    for chosen in product((False, True), repeat=len(best)):
        if not any(chosen):
            continue
        columns = list(compress(range(len(best)), chosen))
        found = numpy.linalg.lstsq(triangle[:, columns], target)[0]
        error = numpy.linalg.norm(triangle[:, columns] @ found - target)
        if error < least and (found >= 0).all():
            best[:], least = 0, error
            best[columns] = found
    return best
