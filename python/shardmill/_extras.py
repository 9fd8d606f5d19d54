"""Packages that only some features need."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def package_for(what: str, module: str, *, extra: str, name: str | None = None) -> Any:
    """Return a module that ``what`` requires and ``extra`` installs.

    Raises:
        ImportError: If it is not installed. The hint names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} requires {name or module}\nhint: pip install 'shardmill[{extra}]'"
        ) from error


def pyarrow_for(what: str, *, extra: str = "arrow") -> Any:
    """Return pyarrow, as ``package_for``."""
    return package_for(what, "pyarrow", extra=extra)


def missing_module(
    module: str, *, name: str | None, install: str, shown: str | None = None
) -> ModuleNotFoundError:
    """Return an error for ``module``, which cannot be imported, that says what to install.

    Args:
        module: what cannot be imported.
        name: the module that it needs.
        install: what pip installs.
        shown: how the package is called.
    """
    return ModuleNotFoundError(
        f"{module} needs {shown or name}\nhint: pip install {install}", name=name
    )
