"""Column statistics over a bounded sample: nulls, range, a histogram, the most frequent values.

The sample consists of evenly spaced runs of rows, so that only a few blocks of a large data set are
decoded. It reports the number of rows that it covers. Binary columns, which are large, are read in
the first run only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from shardmill.view._cells import scalar_text
from shardmill.view._query import Query
from shardmill.view._session import Opened

SAMPLE_ROWS = 10_000
# As many as histogram bins, so that the histogram of a growing column has no gaps.
_RUNS = 25
_BINARY_ROWS = 64
_TIME_S = 8.0
_BINS = _RUNS
_TOP = 8
_CHARACTERS = 160
#: The number of fields of a struct, and of nested structs, that are examined.
_MOST_FIELDS, _MOST_DEPTH = 100, 4


def figures(opened: Opened, query: Query) -> dict[str, Any]:
    """Return statistics of each column, and the number of sampled rows.

    They are cached while the data set is unchanged.
    """
    return _figures(opened)


@lru_cache(maxsize=1)
def _figures(opened: Opened) -> dict[str, Any]:
    import pyarrow as pa

    schema, total = opened.dataset.schema, len(opened.dataset)
    heavy = [field.name for field in schema if holds_bytes(field.type)]
    light = [name for name in schema.names if name not in heavy]
    batches = list(_sampled(opened, light, total)) if light else []
    samples = {name: [batch.column(at) for batch in batches] for at, name in enumerate(light)}
    if heavy and total:
        batch = opened.subset(heavy).take(range(min(total, _BINARY_ROWS)))
        samples |= {name: [batch.column(at)] for at, name in enumerate(heavy)}
    return {
        "rows": total,
        "sampled": sum(batch.num_rows for batch in batches),
        "columns": [
            column
            for field in schema
            for column in _columns(
                field.name, field, pa.chunked_array(samples.get(field.name, []), field.type)
            )
        ],
    }


def _sampled(opened: Opened, columns: list[str], total: int) -> Iterator[Any]:
    """Yield runs of rows, evenly spaced even if time runs out before all are read."""
    light = opened.subset(columns)
    if total <= SAMPLE_ROWS:
        yield light.take(range(total))
        return
    length = SAMPLE_ROWS // _RUNS
    # Each run is far from the previous ones: the golden ratio fills an interval evenly at any time.
    order = sorted(range(_RUNS), key=lambda run: (run * 0.618033988749895) % 1.0)
    started = time.monotonic()
    for run in order:
        start = run * (total - length) // (_RUNS - 1)
        yield light.take(range(start, start + length))
        if time.monotonic() - started > _TIME_S:
            return


def holds_bytes(data_type: Any) -> bool:
    """Return whether values of a type are, or contain, binary data."""
    if data_type.num_fields:
        return any(holds_bytes(data_type.field(at).type) for at in range(data_type.num_fields))
    return "binary" in str(data_type)


def _columns(name: str, field: Any, values: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the figures of a column, and after a struct those of its fields.

    Fields have their paths as names, and their types.
    """
    import pyarrow.compute as pc
    import pyarrow.types as types

    declared = {"type": str(field.type), "nullable": field.nullable} if depth else {}
    yield {"name": name} | declared | _column(values)
    if not types.is_struct(field.type) or depth == _MOST_DEPTH:
        return
    for at in range(min(field.type.num_fields, _MOST_FIELDS)):
        part = field.type.field(at)
        # In a null struct, all fields are null.
        inner = pc.call_function("struct_field", [values], pc.StructFieldOptions([at]))
        yield from _columns(f"{name}.{part.name}", part, inner, depth + 1)


def _column(values: Any) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    found: dict[str, Any] = {"seen": len(values), "nulls": values.null_count}
    try:
        if types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        data_type = values.type
        name = str(data_type)
        if types.is_boolean(data_type):
            return found | _top(values)
        if (
            types.is_integer(data_type)
            or types.is_floating(data_type)
            or types.is_decimal(data_type)
        ):
            return (
                found | _spread(values.cast(pa.float64(), safe=False), _number_text) | _few(values)
            )
        if types.is_temporal(data_type):
            # Dates, times and durations as integers of their own unit, which a float may not hold.
            whole = pa.int32() if data_type.bit_width == 32 else pa.int64()
            ticks = pa.chunked_array([chunk.view(whole) for chunk in values.chunks], whole)
            return found | _spread(
                ticks, lambda tick: scalar_text(pa.array([int(tick)], whole).view(data_type)[0])
            )
        if name.endswith(("string", "string_view")):
            values = values.cast(pa.large_string())
            found |= _top(values)
            lengths = pc.call_function("utf8_length", [values])
        elif name.startswith(("list<", "large_list<", "fixed_size_list<")):
            lengths = pc.call_function("list_value_length", [values])
        elif "binary" in name and not data_type.num_fields:
            lengths = pc.call_function("binary_length", [values.cast(pa.large_binary())])
        else:
            return found
        return found | {"lengths": _spread(lengths.cast(pa.float64()), _number_text)}
    except pa.ArrowException as error:
        return found | {"note": str(error)[:200]}


def _number_text(number: float) -> str:
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.4g}" if 1e-4 <= abs(number) < 1e6 else f"{number:.4g}"


def _spread(values: Any, text_of: Any) -> dict[str, Any]:
    """Return histogram and bounds of the finite values."""
    import numpy as np

    present = values.drop_null().to_numpy()
    exact = present[np.isfinite(present)]
    found: dict[str, Any] = {"not_finite": int(present.size - exact.size)}
    if not exact.size:
        return found
    middle = (exact.size - 1) // 2
    median = np.partition(exact, middle)[middle]
    bounds = {"low": text_of(exact.min()), "high": text_of(exact.max()), "median": text_of(median)}
    finite = exact.astype(np.float64)
    low, high = float(finite.min()), float(finite.max())
    counts: Any = [finite.size]
    if low < high and math.isfinite(high - low):
        # Integers: at least one per bin.
        is_whole = np.array_equal(finite, np.floor(finite))
        bins = min(_BINS, int(high - low) + 1) if is_whole else _BINS
        # NumPy refuses bins that are narrower than the distance of two floats.
        bins = max(1, min(bins, int((high - low) / math.ulp(max(-low, high)))))
        counts, _ = np.histogram(finite, bins, (low, high))
    return found | bounds | {"histogram": [int(count) for count in counts]}


def _few(values: Any) -> dict[str, Any]:
    """Return the most frequent values of a numeric column that is used for labels."""
    top = _top(values)
    return (
        top
        if top["distinct"] <= 2 * _TOP and values.type.bit_width <= 64
        else {"distinct": top["distinct"]}
    )


def _top(values: Any) -> dict[str, Any]:
    """Return the most frequent values, and the number of distinct values."""
    import numpy as np

    counted = values.drop_null().value_counts()
    counts = counted.field("counts").to_numpy()
    top = []
    for place in np.argsort(-counts, kind="stable")[:_TOP]:
        text = scalar_text(counted.field("values")[int(place)])
        top.append(
            [
                text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…",
                int(counts[place]),
            ]
        )
    return {"distinct": len(counted), "top": top if top and top[0][1] > 1 else []}
