"""The ranks that get equal batches, from a device mesh or as given by the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import distributed
from torch.distributed.device_mesh import DeviceMesh

from shardmill._option_values import index_of, listed
from shardmill.errors import OptionError

#: Dimensions over which data are divided. One of these sets has those of a mesh.
_OF_DATA = (("dp",), ("batch",), ("dp_replicate", "dp_shard"))

_BY_HAND = "pass data_parallel=(rank, size) and replica=group"


@dataclass(frozen=True)
class Replica:
    """The ranks that train one replica of the model together, and get equal batches.

    Attributes:
        rank: data rank of the replica.
        size: number of replicas.
        members: global ranks; the first one reads.
        columns: the columns that middle ranks of a dimension receive; ``None`` for all.
        ends: members that receive all columns.
    """

    rank: int
    size: int
    members: tuple[int, ...]
    columns: frozenset[str] | None = None
    ends: tuple[int, ...] = ()


def replica_of_mesh(
    mesh: Any,
    data: str | Sequence[str] | None,
    columns: Mapping[str, Sequence[str]] | None,
) -> Replica:
    """Return the replica of this process.

    Raises:
        ValueError: If the dimensions over which data are divided are not clear.
    """
    if not isinstance(mesh, DeviceMesh):
        raise OptionError(f"mesh must be a DeviceMesh, not {mesh!r}\nhint: {_BY_HAND}")
    names = mesh.mesh_dim_names or ()
    shown = f"the mesh has {_dimensions(mesh)}"
    over = _data_dimensions(names, data, shown)
    place = mesh.get_coordinate()
    if place is None:
        raise OptionError(f"rank {distributed.get_rank()} is not in the mesh: {shown}")
    # Replicas are the rows of the ranks, with the dimensions of data first.
    order = [*over, *(number for number in range(mesh.ndim) if number not in over)]
    size = prod(mesh.size(number) for number in over)
    rank = 0
    for number in over:
        rank = rank * mesh.size(number) + place[number]
    members = mesh.mesh.permute(order).reshape(size, -1)[rank]
    found = Replica(rank, size, tuple(members.tolist()))
    if columns is None:
        return found
    along, kept = _middle_columns(columns, [names[number] for number in order[len(over) :]], shown)
    number = names.index(along)
    first_and_last = mesh.mesh.new_tensor([0, mesh.size(number) - 1])
    ends = set(mesh.mesh.index_select(number, first_and_last).flatten().tolist())
    if ends.issuperset(found.members):
        return found
    return Replica(
        rank, size, found.members, kept, tuple(one for one in found.members if one in ends)
    )


def replica_of_group(data_parallel: Any, replica: Any) -> Replica:
    """Return the replica of this process, whose members are those of a process group.

    Raises:
        ValueError: If the arguments are not a rank, a size and a group with this process.
    """
    pair = list(data_parallel) if isinstance(data_parallel, Iterable) else []
    numbers = [index_of(value) for value in pair]
    match numbers:
        case [int(rank), int(size)] if 0 <= rank < size:
            pass
        case _:
            raise OptionError(
                "without mesh, data_parallel must be (rank, size) with 0 <= rank < size, not "
                f"{data_parallel!r}\nhint: pass the device mesh of the job as mesh="
            )
    if not isinstance(replica, distributed.ProcessGroup):
        raise OptionError(
            f"replica must be a process group with this rank, not {replica!r}\n"
            "hint: pass the group of the ranks that share their batches"
        )
    return Replica(rank, size, tuple(distributed.get_process_group_ranks(replica)))


def _data_dimensions(names: Sequence[str], data: Any, shown: str) -> list[int]:
    if data is not None:
        asked = [data] if isinstance(data, str) else listed("data", data)
        for name in asked:
            if name not in names:
                raise OptionError(f"data names the dimension {name!r}, but {shown}")
    else:
        found = [[name for name in family if name in names] for family in _OF_DATA]
        readings = [reading for reading in found if reading]
        if len(readings) != 1:
            several = " and ".join(map("/".join, readings))
            problem = f"data may be divided over {several}" if readings else "no dimension of data"
            raise OptionError(
                f"{problem}: {shown}\n"
                f"hint: name the dimensions over which data are divided by data=, or {_BY_HAND}"
            )
        asked = readings[0]
    return [number for number, name in enumerate(names) if name in asked]


def _middle_columns(columns: Any, others: list[str], shown: str) -> tuple[str, frozenset[str]]:
    if not isinstance(columns, Mapping) or len(columns) != 1:
        raise OptionError(
            "columns must map one dimension of the mesh to names of columns, not "
            f"{columns!r}\nhint: write columns={{'pp': ['segment_ids']}}"
        )
    [(along, names)] = columns.items()
    if along not in others:
        raise OptionError(
            f"columns names the dimension {along!r}, which must be one whose ranks get equal "
            f"batches; {shown}"
        )
    return along, frozenset(listed(f"columns[{along!r}]", names))


def _dimensions(mesh: DeviceMesh) -> str:
    names = mesh.mesh_dim_names
    if not names:
        return f"{mesh.ndim} dimensions without names"
    return ", ".join(f"{name}={mesh.size(number)}" for number, name in enumerate(names))
