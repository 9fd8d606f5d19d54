"""The public surface is listed, so that a change of it shows in review, and stays within its budget."""

import inspect

import pytest
import shardmill as sm

pytest.importorskip("ray.data.checkpoint")
pytest.importorskip("torch")
pytest.importorskip("grain")
from public_api import SNAPSHOT, surface


def test_surface_is_that_of_the_snapshot() -> None:
    assert surface() == SNAPSHOT.read_text(encoding="utf-8"), f"review the change, then run {SNAPSHOT.stem}.py"


def test_loader_has_at_most_sixteen_parameters() -> None:
    assert len(inspect.signature(sm.Loader).parameters) <= 16


def test_all_exceptions_are_public() -> None:
    from shardmill import errors

    assert {name for name, kind in vars(errors).items() if isinstance(kind, type)} <= set(sm.__all__)
