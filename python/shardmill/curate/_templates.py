"""Templates of the pages; all values are escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardmill._extras import package_for

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(directory: str, *, extra: str) -> Environment:
    """Return the templates in a directory of the package. Jinja2 comes with ``extra``.

    Raises:
        ImportError: If Jinja2 is not installed.
    """
    package_for("the page", "jinja2", name="Jinja2", extra=extra)
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("shardmill", directory)
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = lambda value, digits=0: f"{value:,.{digits}f}"
    return made
