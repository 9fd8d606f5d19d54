"""The public surface is listed, so that review shows its changes, and stays within its budget."""

import inspect
from contextlib import suppress
from importlib import import_module

import pytest
import shardmill as sm

pytest.importorskip("ray.data.checkpoint")
pytest.importorskip("torch")
pytest.importorskip("grain")
pytest.importorskip("lightning")
pytest.importorskip("trl")
from public_api import MODULES, SNAPSHOT, surface

#: The most parameters of a class or a function that users call.
MOST = 16
#: The signature is that of torch-dataloader-utils: a user of that library changes one import.
#: The limits of a pack, of which images have two, are parameters beside one another.
KEPT = {"create_dataloader", "Packing"}
#: Made by shardmill alone: users read their fields, which are as many as there are facts.
RESULTS = {"LoaderMetrics", "FileInspection"}


def test_surface_is_that_of_the_snapshot() -> None:
    assert surface() == SNAPSHOT.read_text(encoding="utf-8"), (
        f"review the change, then run {SNAPSHOT.stem}.py"
    )


def parameters() -> dict[str, int]:
    """The number of parameters of each public class, function and method."""
    found: dict[str, int] = {}
    for module in map(import_module, MODULES):
        public = {
            name: getattr(module, name)
            for name in getattr(module, "__all__", vars(module))
            if name[0] != "_"
        }
        for name, value in public.items():
            methods = (
                {key: getattr(value, key) for key in dir(value) if key[0] != "_"}
                if isinstance(value, type)
                else {}
            )
            for shown, call in [
                (name, value),
                *((f"{name}.{key}", method) for key, method in methods.items()),
            ]:
                if callable(call) and (getattr(call, "__module__", None) or "").startswith(
                    "shardmill"
                ):
                    # A subclass of a built-in type may have no signature of its own.
                    with suppress(ValueError):
                        found[shown] = max(
                            found.get(shown, 0), len(inspect.signature(call).parameters)
                        )
    return found


def test_class_or_function_has_at_most_sixteen_parameters_besides_those_that_keep_their_signatures() -> (  # noqa: E501
    None
):
    counted = parameters()
    assert {
        "Loader",
        "Loader.explain",
        "Tokenize",
        "Images",
        "WebDatasetSource",
        "merge",
    } <= counted.keys()
    assert {name for name, number in counted.items() if number > MOST} == KEPT | RESULTS


def test_all_exceptions_are_public() -> None:
    from shardmill import errors

    assert {name for name, kind in vars(errors).items() if isinstance(kind, type)} <= set(
        sm.__all__
    )
