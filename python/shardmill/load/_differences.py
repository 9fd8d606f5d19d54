"""What differs between a saved setting and the current one, without the parts that are equal."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from shardmill.load._shown import shortened

#: Longer texts are shown from shortly before their first difference.
_WHOLE_TEXT, _BEFORE, _AFTER = 60, 12, 40


def difference(name: str, saved: Any, current: Any, *, of: str = "") -> str:
    """Return both values of a setting.

    Of a long text, a list or a mapping, return only the parts that differ, by index or name.

    Args:
        name: the setting.
        saved: the value in the state.
        current: the value of this loader.
        of: what the setting belongs to, such as ``"a mixture of "``.
    """
    old, new = _reduced(saved, current)
    return (
        f"the state was saved with {of}{name}={_told(old, new)}, "
        f"this loader has {name}={_told(new, old)}"
    )


def _reduced(saved: Any, current: Any) -> tuple[Any, Any]:
    if isinstance(saved, list) and isinstance(current, list):
        saved, current = dict(enumerate(saved)), dict(enumerate(current))
    if not (isinstance(saved, dict) and isinstance(current, dict)):
        return saved, current
    names = [name for name in {**saved, **current} if saved.get(name) != current.get(name)]
    parts = {name: _reduced(saved.get(name), current.get(name)) for name in names}
    return {name: old for name, (old, _) in parts.items()}, {
        name: new for name, (_, new) in parts.items()
    }


def _told(value: Any, other: Any) -> str:
    if not (isinstance(value, str) and isinstance(other, str) and len(value) > _WHOLE_TEXT):
        return repr(value) if isinstance(value, str) else shortened(value)
    equal = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(value, other, strict=False))
    )
    start, end = max(0, equal - _BEFORE), equal + _AFTER
    return f"{'…' if start else ''}{value[start:end]!r}{'…' if end < len(value) else ''}"
