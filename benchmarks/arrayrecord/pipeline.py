"""The scenario of a training pipeline: Grain over the data source.

Enters: ``Options`` and a ``System``. Leaves: figures by loop. Called by ``measure``. Invariant: Grain is the same for
both sides; only the source differs.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from benchmarks.arrayrecord.measure import Figure, System, WrongRecordsError, check_records, timed
from benchmarks.arrayrecord.options import Options

_SEED = 42
# Grain's own default.
_THREADS = 16
# Elements of an iterator that are compared with those of the data set by index.
_COMPARED = 64


def measure_grain(options: Options, system: System) -> dict[str, Any]:
    """A plain loop over ``MapDataset``, then iterators over the shuffled one without threads and with 16."""
    import grain  # pyright: ignore[reportMissingImports]

    with system.source(options.path) as source:
        dataset = grain.MapDataset.source(source)
        check_records(options, "MapDataset", ((number, dataset[number]) for number in options.sample))
        numbers = options.numbers(options.slow_calls)

        def loop() -> None:
            for number in numbers:
                dataset[number]

        figures = {"MapDataset[i]": Figure(len(numbers), timed(loop)[0])}
        shuffled = dataset.shuffle(_SEED)
        for threads in (0, _THREADS):
            elements = shuffled.to_iter_dataset(grain.ReadOptions(num_threads=threads))
            _compare(elements, shuffled)
            count = min(options.slow_calls, options.records)
            seconds, found = timed(lambda elements=elements, count=count: sum(1 for _ in islice(elements, count)))
            if found != count:
                msg = f"Grain's iterator gave {found:,} of {count:,} records"
                raise WrongRecordsError(msg)
            figures[f"to_iter_dataset, num_threads={threads}"] = Figure(count, seconds)
    return {"figures": figures}


def _compare(elements: Any, shuffled: Any) -> None:
    for number, element in enumerate(islice(elements, min(_COMPARED, len(shuffled)))):
        if element != shuffled[number]:
            msg = f"Grain's iterator gave another element {number} than its data set"
            raise WrongRecordsError(msg)
