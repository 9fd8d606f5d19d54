"""What the ranks of a job do in tests of ``MeshLoader``."""

from __future__ import annotations

import json
import random
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

import shardmill as sm
import torch
from shardmill.integrations.torch import MeshLoader
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

#: Options of a `MeshLoader`, with the shape and names of its mesh.
Mesh = tuple[tuple[int, ...], tuple[str, ...]]


@cache
def mesh_of(shape: tuple[int, ...], names: tuple[str, ...] | None) -> DeviceMesh:
    """A mesh over all ranks."""
    return init_device_mesh("cpu", shape, mesh_dim_names=names)


def digest(value: Any) -> Any:
    """Structure, types, shapes, dense strides and bytes of a batch."""
    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        is_meta = value.device.type == "meta"
        content: Any = b"" if is_meta else value.contiguous().reshape(-1).view(torch.uint8).numpy()
        return (
            str(value.dtype),
            tuple(value.shape),
            torch.empty_like(value).stride(),
            crc32(content),
        )
    if isinstance(value, sm.Ragged):
        return kind, *map(digest, (value.values, value.offsets, value.valid))
    if isinstance(value, dict):
        return kind, [(name, digest(part)) for name, part in value.items()]
    if isinstance(value, list | tuple):
        return kind, list(map(digest, value))
    return kind, repr(value)


def loaded(mesh: Mesh, path: str, options: dict[str, Any], **of_mesh: Any) -> MeshLoader:
    """A loader, which is only made where it is read."""
    return MeshLoader(lambda: sm.Loader(path, **options), mesh_of(*mesh), **of_mesh)


def taken(batches: Iterator[Any], most: int | None = None) -> list[Any]:
    """The digests of the next batches."""
    found = []
    for batch in batches:
        found.append(digest(batch))
        if len(found) == most:
            break
    return found


def epoch(mesh: Mesh, path: str, options: dict[str, Any], **of_mesh: Any) -> dict[str, Any]:
    """An epoch, with a state after each batch."""
    loader = loaded(mesh, path, options, **of_mesh)
    found: dict[str, Any] = {"before": loader.state_dict(), "length": len(loader)}
    found["batches"], found["states"], found["ids"] = [], [], []
    for batch in loader:
        found["batches"].append(digest(batch))
        found["states"].append(loader.state_dict())
        ids = batch.get("id") if isinstance(batch, dict) else None
        if isinstance(ids, torch.Tensor) and not ids.is_meta:
            found["ids"] += ids.tolist()
    found["after"], metrics = loader.state_dict(), loader.metrics()
    found["metrics"] = metrics.bytes_read, metrics.batches, metrics.rows, metrics.epoch
    found["reads"] = loader.loader is not None
    loader.close()
    return found


def beside_a_model(mesh: Mesh, path: str, options: dict[str, Any], seed: int) -> list[int]:
    """Sums over the ranks of the replica, which the model makes between batches, while the reader
    is late at random.
    """
    drawn = random.Random(seed)

    def late(batch: Any) -> Any:
        time.sleep(drawn.random() / 200)
        return batch

    loader = loaded(mesh, path, options | {"transform": late})
    model = mesh_of(*mesh)["tp"].get_group()
    sums = []
    for batch in loader:
        total = batch["id"].sum()
        distributed.all_reduce(total, group=model)
        time.sleep(random.Random(seed + distributed.get_rank()).random() / 500)
        sums.append(int(total))
    loader.close()
    return sums


def part(
    mesh: Mesh, path: str, options: dict[str, Any], state: Any, steps: int | None
) -> tuple[list[list[int]], Any]:
    """The ids of the next batches from a state, up to the end of the epoch or after some steps."""
    loader = loaded(mesh, path, options)
    if state is not None:
        loader.load_state_dict(state)
    ids = []
    for batch in loader:
        ids.append(batch["id"].tolist())
        if len(ids) == steps:
            break
    state = loader.state_dict()
    loader.close()
    return ids, state


def recorded(mesh: Mesh, path: str, options: dict[str, Any], below: str, most: int) -> None:
    """Write the ids of each batch with the state after it, and wait for the end of this process."""
    loader = loaded(mesh, path, options)
    with open(f"{below}/{distributed.get_rank()}", "w") as file:
        for batch in loader.steps(most):
            print(json.dumps([batch["id"].tolist(), loader.state_dict()]), file=file, flush=True)
    time.sleep(3600)


def operations(
    mesh: Any, path: str, options: dict[str, Any], calls: list[tuple[str, Any]]
) -> list[Any]:
    """What calls return, of a ``MeshLoader`` or of the ``Loader`` of a data rank, ``mesh``."""
    warnings.simplefilter("ignore")
    if isinstance(mesh[0], int):
        loader: Any = sm.Loader(path, rank=mesh[0], world_size=mesh[1], **options)
    else:
        loader = loaded(mesh, path, options)
    found, states = [], [loader.state_dict()]
    for name, argument in calls:
        if name == "take":
            found.append(taken(iter(loader), argument))
        elif name == "steps":
            found.append(taken(loader.steps(argument[0]), argument[1]))
        elif name == "load":
            loader.load_state_dict(states[argument % len(states)])
        else:
            getattr(loader, name)(argument)
        states.append(loader.state_dict())
        found.append(states[-1])
    if isinstance(loader, MeshLoader):
        loader.close()
    return found


def failure(act: Callable[[], Any]) -> str:
    """The error that a function raises."""
    try:
        act()
    except Exception as error:
        notes = getattr(error, "__notes__", [])
        return "\n".join([f"{type(error).__name__}: {error}", *notes])
    return "nothing"


def failing_pass(mesh: Mesh, path: str, options: dict[str, Any]) -> list[Any]:
    """Two passes that fail: how many batches come before, and the error."""
    loader = loaded(mesh, path, options)
    found: list[Any] = []
    for _ in range(2):
        batches = []
        error = failure(lambda batches=batches: batches.extend(map(digest, loader)))
        found.append((len(batches), error, loader.state_dict()["consumed"]))
    loader.close()
    return found


def permuted(batch: Any) -> Any:
    """A transform whose tensors are views, without and with gaps."""
    images = batch["image"]
    return [{"nchw": images.permute(0, 3, 1, 2), "half": images[:, ::2]}, (3, None, batch["id"])]


class Pair(NamedTuple):
    """A tuple of its own class."""

    first: Any
    second: Any


def of_all_types(batch: Any) -> dict[str, Any]:
    """A transform that returns tensors of many types and shapes, and numbers."""
    ids, types = batch["id"], ("bool", "uint8", "int16", "uint32", "bfloat16", "complex64")
    return {
        **{name: ids.to(getattr(torch, name)) for name in types},
        "float8": ids.to(torch.float32).to(torch.float8_e4m3fn),
        "scalar": ids.sum(),
        "empty": ids[:0].reshape(0, 3),
        "repeated": ids[:1].expand(5),
        "numbers": [1, 2.5, True, None],
        "nested": (Pair(ids, {"x": ids[::2]}), []),
    }


def texts(batch: Any) -> Any:
    """A transform that returns what cannot be sent, after two batches that can."""
    return batch if int(batch["id"][0]) < 32 else {**batch, "name": ["a"]}


def refused(
    shape: tuple[int, ...],
    names: tuple[str, ...] | None,
    path: str,
    options: dict[str, Any],
    of_mesh: dict[str, Any],
) -> str:
    """The error of creating a loader."""
    return failure(
        lambda: MeshLoader(lambda: sm.Loader(path, **options), mesh_of(shape, names), **of_mesh)
    )


def other_order(mesh: Mesh, path: str, options: dict[str, Any], case: str) -> list[str]:
    """Errors of two calls on each rank, of which the last one calls in another order."""
    loader = loaded(mesh, path, options)
    is_last = distributed.get_rank() == distributed.get_world_size() - 1
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    if case == "new pass":
        batches = iter(loader) if is_last else batches
        act: Callable[[], Any] = lambda: next(batches)  # noqa: E731 - one of several
    elif case == "other method":
        act = (lambda: loader.set_epoch(4)) if is_last else (lambda: next(batches))
    else:
        act = lambda: loader.skip(2 + is_last)  # noqa: E731 - one of several
    errors = [failure(act), failure(lambda: next(iter(loader)))]
    loader.close()
    return errors


def absent(mesh: Mesh, path: str, options: dict[str, Any], timeout: int) -> str:
    """The error of the others if the last rank asks for no batch."""
    loader = loaded(mesh, path, options, timeout=timeout)
    is_last = distributed.get_rank() == distributed.get_world_size() - 1
    error = "" if is_last else failure(lambda: next(iter(loader)))
    distributed.barrier()
    return error


def closed_by_one(mesh: Mesh, path: str, options: dict[str, Any]) -> str:
    """The error of the others if the last rank closes its loader."""
    loader = loaded(mesh, path, options)
    batches = iter(loader)
    next(batches)
    is_last = distributed.get_rank() == distributed.get_world_size() - 1
    error = "" if is_last else failure(lambda: list(batches))
    loader.close()
    return error


def by_group(
    members: list[list[int]], data: list[tuple[int, int]], path: str, options: dict[str, Any]
) -> list[Any]:
    """An epoch, with replicas that are given by hand."""
    groups = [distributed.new_group(ranks) for ranks in members]
    own = next(i for i, ranks in enumerate(members) if distributed.get_rank() in ranks)
    loader = MeshLoader(sm.Loader(path, **options), data_parallel=data[own], replica=groups[own])
    found = taken(iter(loader))
    loader.close()
    return found


def written_to(mesh: Mesh, path: str, options: dict[str, Any]) -> list[int]:
    """The versions of the columns of a batch after one of them is written to."""
    loader = loaded(mesh, path, options)
    batch = next(iter(loader))
    batch["id"].add_(1)
    loader.close()
    return [batch[name]._version for name in ("id", "half")]


def begun(mesh: Mesh, path: str, options: dict[str, Any]) -> str:
    """The error of a loader that has returned a batch."""
    loader = sm.Loader(path, **options)
    next(iter(loader))
    return failure(lambda: MeshLoader(loader, mesh_of(*mesh)))


def superseded(mesh: Mesh, path: str, options: dict[str, Any]) -> list[str]:
    """The errors of an iterator after a newer one, and of a closed loader."""
    loader = loaded(mesh, path, options)
    older = iter(loader)
    next(older)
    next(iter(loader))
    errors = [failure(lambda: next(older))]
    loader.close()
    return [*errors, failure(lambda: iter(loader))]


def weights_on_ranks(
    data: Any, options: dict[str, Any], weights: list[Any], has_group: bool
) -> list[Any]:
    """What a call of ``set_weights`` returns on each rank after three steps, and the next steps."""
    loader = sm.Loader(data, **options)
    taken(loader.steps(3))
    group = distributed.group.WORLD if has_group else None
    found: list[Any] = []
    error = failure(
        lambda: found.append(loader.set_weights(weights[distributed.get_rank()], group=group))
    )
    return [error, found, loader.state_dict(), taken(loader.steps(20))]


def weights_on_a_mesh(mesh: Mesh, data: Any, options: dict[str, Any], weights: Any) -> list[Any]:
    """Steps of one iterator, in which weights are set."""
    loader, group = loaded(mesh, data, options), mesh_of(*mesh)["dp"].get_group()
    found: list[Any] = []
    for step, batch in enumerate(loader.steps(30)):
        found.append(digest(batch))
        if step in (3, 4, 11):
            found.append(loader.set_weights(weights[step % 3], group=group))
            found.append(loader.state_dict())
    unknown = {"x": 1}
    found.append(failure(lambda: loader.set_weights(unknown, group=group)))
    loader.close()
    return found


def weights_in_another_order(mesh: Mesh, data: Any, options: dict[str, Any]) -> str:
    """A rank that sets other weights than its replica."""
    loader = loaded(mesh, data, options)
    weights = {"web": 1, "code": distributed.get_rank()}
    return failure(lambda: loader.set_weights(weights))
