"""Templates of the pages; all values are escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(directory: str, *, extra: str) -> Environment:
    """Return the templates in a directory of the package. Jinja2 comes with ``extra``.

    Raises:
        ImportError: If Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError(f"the page requires Jinja2\nhint: pip install 'shardmill[{extra}]'") from error
    loader = PackageLoader("shardmill", directory)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["number"] = lambda value, digits=0: f"{value:,.{digits}f}"
    return made
