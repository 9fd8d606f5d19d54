"""Figures of columns over a bounded sample: nulls, spread, a histogram, the most frequent values.

The sample is runs of rows that are spread evenly, so that a few blocks of a large set are decoded and not all of them. It says of itself
how many rows it is of. Bytes, whose columns are large, are looked at in its first run only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

from shardmill.view.cells import scalar_text
from shardmill.view.session import Opened

SAMPLE_ROWS = 10_000
# As many as bins, so that a column that only grows has no gaps in its histogram.
_RUNS = 25
_BINARY_ROWS = 64
_TIME_S = 8.0
_BINS = _RUNS
_TOP = 8
_CHARACTERS = 160


def figures(opened: Opened) -> dict[str, Any]:
    """Of each column, and of how many rows; kept as long as the data set is what it was."""
    if "figures" not in opened.answers:
        opened.answers["figures"] = _figures(opened)
    return opened.answers["figures"]


def _figures(opened: Opened) -> dict[str, Any]:
    import pyarrow as pa

    schema, total = opened.dataset.schema, len(opened.dataset)
    fields = [schema.field(place) for place in range(len(schema.names))]
    heavy = [field.name for field in fields if holds_bytes(field.type)]
    light = [field.name for field in fields if field.name not in heavy]
    batches = list(_sampled(opened, light, total)) if light else []
    sampled = sum(batch.num_rows for batch in batches)
    columns: dict[str, dict[str, Any]] = {}
    for name in light:
        chunks = [batch.column(batch.schema.get_field_index(name)) for batch in batches]
        columns[name] = _column(pa.chunked_array(chunks, schema.field(name).type) if chunks else None)
    if heavy and total:
        batch = opened.take(range(min(total, _BINARY_ROWS)), heavy)
        columns |= {name: _column(pa.chunked_array([batch.column(at)])) for at, name in enumerate(heavy)}
    else:
        columns |= {name: _column(None) for name in heavy}
    return {
        "rows": total,
        "sampled": sampled,
        "columns": [{"name": field.name} | columns[field.name] for field in fields],
    }


def _sampled(opened: Opened, columns: list[str], total: int) -> Iterator[Any]:
    """Runs of rows, spread evenly also when time ends before they do."""
    if total <= SAMPLE_ROWS:
        yield opened.take(range(total), columns)
        return
    length = SAMPLE_ROWS // _RUNS
    # Each next run lies far from those before: the golden section fills a circle evenly at every moment.
    order = sorted(range(_RUNS), key=lambda run: (run * 0.618033988749895) % 1.0)
    started = time.monotonic()
    for run in order:
        start = run * (total - length) // (_RUNS - 1)
        yield opened.take(range(start, start + length), columns)
        if time.monotonic() - started > _TIME_S:
            return


def holds_bytes(data_type: Any) -> bool:
    """Whether values of a type are bytes, or have bytes in them."""
    import pyarrow.types as types

    if types.is_struct(data_type):
        return any(holds_bytes(data_type.field(place).type) for place in range(data_type.num_fields))
    if _is_list(data_type):
        return holds_bytes(data_type.value_type)
    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(is_kind(data_type) for is_kind in kinds)


def _is_list(data_type: Any) -> bool:
    import pyarrow.types as types

    return types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type)


def _is_text(data_type: Any) -> bool:
    import pyarrow.types as types

    return types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type)


def _column(values: Any) -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if values is None:
        return {"seen": 0, "nulls": 0}
    found: dict[str, Any] = {"seen": len(values), "nulls": values.null_count}
    data_type = values.type
    try:
        if types.is_dictionary(data_type):
            values = values.cast(data_type.value_type)
            data_type = values.type
        if types.is_boolean(data_type):
            return found | _top(values)
        if types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type):
            return found | _spread(values.cast(pa.float64(), safe=False), _number_text) | _few(values)
        if types.is_temporal(data_type):
            return found | _spread(_ticks(values), lambda tick: _moment_text(tick, data_type))
        if _is_text(data_type):
            lengths = pc.call_function("utf8_length", [values.cast(pa.large_string())])
            return found | _top(values) | {"lengths": _spread(lengths.cast(pa.float64()), _number_text)}
        if _is_list(data_type):
            lengths = pc.call_function("list_value_length", [values])
            return found | {"lengths": _spread(lengths.cast(pa.float64()), _number_text)}
        if holds_bytes(data_type) and not types.is_struct(data_type):
            lengths = pc.call_function("binary_length", [values.cast(pa.large_binary())])
            return found | {"lengths": _spread(lengths.cast(pa.float64()), _number_text)}
    except pa.ArrowException as error:
        return found | {"note": str(error)[:200]}
    return found


def _ticks(values: Any) -> Any:
    """Dates, times and durations as floats of their own unit."""
    import pyarrow as pa

    whole = pa.int32() if values.type.bit_width == 32 else pa.int64()
    chunks = [chunk.view(whole) for chunk in values.chunks]
    return pa.chunked_array(chunks, whole).cast(pa.float64(), safe=False)


def _moment_text(tick: float, data_type: Any) -> str:
    import pyarrow as pa

    whole = pa.int32() if data_type.bit_width == 32 else pa.int64()
    return scalar_text(pa.array([int(tick)], whole).view(data_type)[0])


def _number_text(number: float) -> str:
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:,.4g}" if 1e-4 <= abs(number) < 1e6 else f"{number:.4g}"


def _spread(values: Any, text_of: Any) -> dict[str, Any]:
    """Histogram and bounds of the finite ones among ``values``."""
    import numpy as np

    present = values.drop_null().to_numpy()
    finite = present[np.isfinite(present)]
    found: dict[str, Any] = {"not_finite": int(present.size - finite.size)}
    if not finite.size:
        return found
    low, high = float(finite.min()), float(finite.max())
    bins = 1 if low == high or not math.isfinite(high - low) else _BINS
    if bins > 1 and np.array_equal(finite, np.floor(finite)):
        # Whole numbers: no bin without one.
        bins = min(bins, int(high - low) + 1)
    counts, _ = np.histogram(finite, bins=bins, range=(low, high) if bins > 1 else None)
    median = float(np.quantile(finite, 0.5, method="lower"))
    return found | {
        "histogram": [int(count) for count in counts] if bins > 1 else [int(finite.size)],
        "low": text_of(low),
        "high": text_of(high),
        "median": text_of(median),
    }


def _few(values: Any) -> dict[str, Any]:
    """The most frequent values of a column of numbers that are used as labels."""
    top = _top(values)
    return top if top["distinct"] <= 2 * _TOP and values.type.bit_width <= 64 else {"distinct": top["distinct"]}


def _top(values: Any) -> dict[str, Any]:
    """The most frequent values, and how many there are."""
    import numpy as np
    import pyarrow as pa

    if _is_text(values.type):
        values = values.cast(pa.large_string())
    counted = values.drop_null().value_counts()
    counts = counted.field("counts").to_numpy()
    top = []
    for place in np.argsort(-counts, kind="stable")[:_TOP]:
        text = scalar_text(counted.field("values")[int(place)])
        top.append([text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…", int(counts[place])])
    return {"distinct": len(counted), "top": top if top and top[0][1] > 1 else []}
