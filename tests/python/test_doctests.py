"""Every example in a docstring of the package says the truth."""

import doctest
import importlib
import pkgutil
import sys

import pytest
import shardmill
from breadth import in_one


def modules():
    return [
        name.name
        for name in pkgutil.walk_packages(shardmill.__path__, "shardmill.")
        if "_native" not in name.name
    ]


@pytest.fixture
def other_libraries():
    """An example takes the place of array_record, which other tests compare with."""
    names = [name for name in sys.modules if name.partition(".")[0] == "array_record"]
    kept = {name: sys.modules.pop(name) for name in names}
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "array_record"]:
        del sys.modules[name]
    sys.modules.update(kept)


@in_one("name", ["shardmill", *modules()])
@pytest.mark.usefixtures("other_libraries")
def test_examples_of_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("shardmill"):
            raise
        pytest.skip(f"{error.name} is not installed")
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0
