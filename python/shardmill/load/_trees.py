"""Batches as nodes of the pytrees of torch and JAX.

These otherwise treat an unknown class as a leaf.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from shardmill.load._nested import Batch, Rows, Struct

_CLASSES: tuple[type[Any], ...] = (Batch, Struct, Rows)

_registered: set[str] = set()


def register() -> None:
    """Register the classes of batches with each of these libraries that is imported."""
    for name, part, of_library in (("torch", "utils", _of_torch), ("jax", "tree_util", _of_jax)):
        # A module that is being imported, or stands for one that is missing, has no parts.
        if name not in _registered and hasattr(sys.modules.get(name), part):
            _registered.add(name)
            of_library()


def _of_torch() -> None:
    import torch.utils._pytree as trees  # pyright: ignore[reportMissingImports] - an extra
    from torch import serialization  # pyright: ignore[reportMissingImports] - an extra

    for kind in _CLASSES:
        made = _made(kind)
        key = trees.SequenceKey if kind is Rows else trees.MappingKey
        trees.register_pytree_node(
            kind,
            _parts,
            lambda parts, names, made=made: made(names, parts),
            serialized_type_name=f"shardmill.{kind.__name__}",
            flatten_with_keys_fn=partial(_parts_with_keys, key=key),
        )
    # `torch.load` reads a batch of tensors as it reads a plain dict.
    if hasattr(serialization, "add_safe_globals"):
        serialization.add_safe_globals([*_CLASSES])


def _of_jax() -> None:
    import jax  # pyright: ignore[reportMissingImports] - a user's

    trees = jax.tree_util
    for kind in _CLASSES:
        key = trees.SequenceKey if kind is Rows else trees.DictKey
        with_keys = partial(_parts_with_keys, key=key)
        trees.register_pytree_with_keys(kind, with_keys, _made(kind), _parts)


def _parts(node: Any) -> tuple[list[Any], tuple[Any, ...]]:
    """Return the columns of a batch and their names, or its rows and their indices."""
    return (
        (list(node), tuple(range(len(node))))
        if isinstance(node, list)
        else (list(node.values()), tuple(node))
    )


def _parts_with_keys(
    node: Any, *, key: Callable[[Any], Any]
) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
    parts, names = _parts(node)
    return [(key(name), part) for name, part in zip(names, parts, strict=True)], names


def _made(kind: type[Any]) -> Callable[[tuple[Any, ...], Iterable[Any]], Any]:
    """Return the function that rebuilds a node."""
    if issubclass(kind, list):
        return lambda _names, parts: kind(parts)
    return lambda names, parts: kind(zip(names, parts, strict=True))
