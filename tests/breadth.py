"""How much a run tests: `make test` a covering part, `make test-all` everything."""

import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

#: `make test-all` sets it.
IS_WHOLE = os.environ.get("SHARDMILL_TESTS") == "all"


def examples(whole: int, quick: int = 10) -> int:
    """The number of examples that are drawn, files that are damaged, processes that are killed."""
    return whole if IS_WHOLE else min(quick, whole)


def sample(values: Sequence[Any], every: int) -> Sequence[Any]:
    """All values, or one in `every` of them."""
    return values if IS_WHOLE else values[::every]


def covering(strength: int, **axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrizes by a product of axes.

    Each combination of values of any `strength` axes is in one of a few cases. The other
    cases are slow.
    """
    names = list(axes)
    cases = list(itertools.product(*(range(len(values)) for values in axes.values())))

    def parts(case: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
        return set(itertools.combinations(enumerate(case), strength))

    missing = set().union(*map(parts, cases))
    quick = set()
    while missing:
        best = max(cases, key=lambda case: len(parts(case) & missing))
        quick.add(best)
        missing -= parts(best)
    chosen = [
        tuple(axes[name][index] for name, index in zip(names, case, strict=True)) for case in cases
    ]
    marks = [() if case in quick else (pytest.mark.slow,) for case in cases]
    return pytest.mark.parametrize(
        names,
        [pytest.param(*values, marks=mark) for values, mark in zip(chosen, marks, strict=True)],
    )


def beginning(number: int, values: Sequence[Any]) -> list[Any]:
    """The values of one parameter. All but the first `number` are slow."""
    return [
        value if index < number else pytest.param(value, marks=pytest.mark.slow)
        for index, value in enumerate(values)
    ]


def in_one(
    names: str, values: Iterable[Any], ids: Callable[[Any], Any] = repr
) -> Callable[..., Any]:
    """Like `pytest.mark.parametrize`, but as one test, which lists the failing cases.

    Each case has its own directory.
    """
    split = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in split]

        def run(**fixtures: Any) -> None:
            failures: list[str] = []
            for number, value in enumerate(values):
                own = dict(fixtures)
                if "tmp_path" in own:
                    own["tmp_path"] = own["tmp_path"] / str(number)
                    own["tmp_path"].mkdir()
                given = dict(zip(split, value if len(split) > 1 else [value], strict=True))
                try:
                    test(**own, **given)
                except pytest.skip.Exception:
                    continue
                except (Exception, pytest.fail.Exception) as error:
                    label = ", ".join(f"{name}={str(ids(one))[:80]}" for name, one in given.items())
                    failures.append(f"{label}: {type(error).__name__}: {error}")
            assert not failures, f"{len(failures)} cases fail:\n" + "\n".join(failures[:20])

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
        return run

    return decorate
