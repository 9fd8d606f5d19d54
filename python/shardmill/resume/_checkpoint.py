"""The state that a job keeps between runs."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal

from shardmill._choices import check_fields
from shardmill._native import storage
from shardmill._sizes import byte_count
from shardmill.errors import NotFoundError, OptionError
from shardmill.storage._configure import configure_all, refuse_keys, shown
from shardmill.storage._paths import is_remote, path_list, path_of, real, root_of, served_path

NullIds = Literal["raise", "always_process"]
DuplicateIds = Literal["count", "strict"]
ChangedInput = Literal["raise", "reprocess"]
Delivery = Literal["exactly-once", "at-least-once"]


@dataclass(frozen=True)
class Checkpoint:
    """Where a ``shardmill.curate.Pipeline`` records completed splits, to resume a stopped run.

    A run that was killed at any moment, even by a power failure, is resumed by running the same
    pipeline with the same checkpoint: committed splits are kept and not processed again, the others
    are processed. Each row is in the output exactly once. For details, see
    docs/concepts/commit-protocol.md.

    With an ``id_column``, a job over a ``shardmill.curate.TableSource`` also tracks single rows: a
    row whose id was processed by an earlier run is skipped, even if it is now in another file. Rows
    of files that one run found together are not compared with each other.

    Args:
        path: a directory, created if missing. It must not be inside the input or the output.
            Parquet files in it that have the ``id_column`` (such as the checkpoint of a Ray Data
            job) count as ``done``; files named ``*.pending.parquet`` do not. The path of one such
            file is allowed too; the state is then kept in a directory with its name and the suffix
            ``.resume``.
        id_column: name of the id column, or of several columns that form an id. Integers, strings,
            binaries, booleans, dates, times, timestamps, durations and decimals can be ids. Ids are
            equal if type and bytes are equal: ``"7"``, ``"007"`` and ``7`` are three ids. By
            default, the job tracks splits only.
        delete_on_success: remove the checkpoint if every split was committed and nothing was
            quarantined.
        null_ids: ``"raise"`` stops at the first row without an id and reports it;
            ``"always_process"`` processes such a row with its split and never counts it as done.
        duplicate_ids: ``"count"`` processes all rows that share an id in files that one run found
            together. ``"strict"`` rejects the input before processing.
        changed_input: how to handle a file that changed after it was read. ``"raise"`` stops the
            job. ``"reprocess"`` reads the file again: with an ``id_column``, ids that are done are
            skipped; without one, the whole split is run again, and the new output replaces the old
            one. A file of which nothing was committed, or that had quarantined items, may always
            change.
        version: any string. A checkpoint with another version is rejected; change it when your
            functions change.
        done: files or directories with ids that were completed elsewhere; requires an
            ``id_column``.
        memory_bytes: approximate memory for building an index of ids, in bytes or as ``"1GiB"``.
        delivery: the guarantee for a remote ``path``. ``"exactly-once"`` requires conditional puts;
            a store without them is rejected at the start. ``"at-least-once"`` accepts such a store.
            Each row is still in the output once if only one run works on the job at a time. Two
            concurrent runs may not detect each other: both may process the same rows, and one may
            replace the output of the other.
        storage_options: options for the store of a remote ``path``, see
            ``shardmill.storage.configure``.

    Examples:
        >>> from shardmill.resume import Checkpoint
        >>> Checkpoint("state/", id_column="url", version="2")
        Checkpoint(path='state/', id_column='url', version='2')
        >>> Checkpoint("state/", duplicate_ids="strict")
        Traceback (most recent call last):
        ...
        shardmill.errors.OptionError: `duplicate_ids="strict"` needs an `id_column`
    """

    path: str | PathLike[str]
    id_column: str | Sequence[str] | None = None
    _: KW_ONLY
    delete_on_success: bool = False
    null_ids: NullIds = "raise"
    duplicate_ids: DuplicateIds = "count"
    changed_input: ChangedInput = "raise"
    version: str = ""
    done: str | PathLike[str] | Sequence[str | PathLike[str]] = ()
    memory_bytes: int | str = 1 << 30
    delivery: Delivery = "exactly-once"
    storage_options: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | PathLike) or not fspath(self.path):
            raise OptionError(f"`path` must be a directory, not {self.path!r}")
        refuse_keys([fspath(self.path)])
        if self.storage_options is not None:
            configure_all([fspath(self.path)], self.storage_options)
        served = served_path(self.path)
        if served != fspath(self.path):
            object.__setattr__(self, "path", served)
        for name in ("id_column", "done"):
            if isinstance(values := getattr(self, name), Iterator):
                # It can be read only once.
                object.__setattr__(self, name, list(values))
        columns = id_columns(self)
        if not all(isinstance(column, str) and column for column in columns) or (
            self.id_column is not None and not columns
        ):
            raise OptionError(
                f"`id_column` is {self.id_column!r}; it must be a name, or a list of names"
            )
        if len(set(columns)) < len(columns):
            raise OptionError(f"`id_column` names a column twice: {columns}")
        check_fields(Checkpoint, vars(self))
        if not isinstance(self.version, str):
            raise OptionError(f"`version` must be a string, not {self.version!r}")
        object.__setattr__(self, "memory_bytes", byte_count(self.memory_bytes, "memory_bytes"))
        if not all(isinstance(path, str | PathLike) for path in _listed(self.done)):
            raise OptionError(f"`done` must be a path or a list of paths, not {self.done!r}")
        done = done_paths(self)
        refuse_keys(done)
        if not columns and done:
            raise OptionError(
                "`done` needs an `id_column`\nhint: name the column of the files that holds the ids"
            )
        if not columns and self.duplicate_ids == "strict":
            raise OptionError('`duplicate_ids="strict"` needs an `id_column`')
        if not columns and self.null_ids == "always_process":
            raise OptionError('`null_ids="always_process"` needs an `id_column`')

    def __repr__(self) -> str:
        shown_fields = [entry for entry in fields(self) if entry.repr]
        said = (
            entry
            for entry in shown_fields
            if entry.name == "path" or getattr(self, entry.name) != entry.default
        )
        options = ", ".join(f"{entry.name}={getattr(self, entry.name)!r}" for entry in said)
        return f"Checkpoint({options})"

    def __getstate__(self) -> dict[str, Any]:
        # Secrets, and objects that hold secrets, are not pickled.
        return {
            **self.__dict__,
            "storage_options": shown([fspath(self.path)], self.storage_options),
        }

    def relocate(
        self,
        *,
        # Named as `--input`.
        input: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,  # noqa: A002
        output: str | PathLike[str] | None = None,
    ) -> None:
        """Set new paths for the input and output of the job.

        Call it if they were moved separately from the checkpoint. If checkpoint, input and output
        were moved or copied together, in one directory tree, it is not needed. The earlier paths
        are neither read nor written.

        Args:
            input: the new path of the input; for a job with several inputs a list, in the order of
                ``shardmill checkpoint inspect``. Unchanged by default.
            output: the new directory of the outputs. Unchanged by default.

        Raises:
            shardmill.NotFoundError: If the checkpoint, an input or the output does not exist.
            shardmill.CheckpointBusyError: If the job is running.
            shardmill.OptionError: If the number of inputs differs from that of the job, or the
                output is also an input.
        """
        from shardmill._native import journal

        inputs = None if input is None else [real(path) for path in path_list(input)]
        target = None if output is None else real(output)
        for path in inputs or []:
            if (
                not is_remote(path)
                and not glob.glob(path, recursive=True)  # noqa: PTH207 - it is absolute
                and not Path(path).exists()
            ):
                raise NotFoundError(
                    f"The input `{path}` does not exist\nhint: move or copy the input there first"
                )
        if target is not None and not is_remote(target) and not Path(target).is_dir():
            raise NotFoundError(
                f"The output directory `{target}` does not exist\n"
                "hint: move or copy the outputs there first"
            )
        if target is not None and target in (inputs or []):
            raise OptionError(
                f"`{target}` is the input; the outputs of a job need a separate directory"
            )
        roots = None if inputs is None else [root_of(path) for path in inputs]
        journal.relocate(state_directory(self), inputs=roots, output=target)


def checkpoint_of(value: Any) -> Checkpoint:
    """Return a checkpoint from user input: a checkpoint, a path, or a dict of its arguments.

    Raises:
        OptionError: If it is anything else, or has an unknown argument.
    """
    if isinstance(value, Checkpoint):
        return value
    if isinstance(value, str | PathLike):
        return Checkpoint(value)
    if isinstance(value, Mapping):
        known = [entry.name for entry in fields(Checkpoint)]
        if unknown := [name for name in value if name not in known]:
            raise OptionError(
                f"`checkpoint` has no option {unknown[0]!r}; its options are {', '.join(known)}"
            )
        if "path" not in value:
            raise OptionError("`checkpoint` has no `path`")
        return Checkpoint(**value)
    raise OptionError(
        f"`checkpoint` is {value!r}; it must be a Checkpoint, a path or a dict of options"
    )


def state_directory(checkpoint: Checkpoint) -> str:
    """Return the directory of the state: beside the path if that is a file of ids."""
    path = real(checkpoint.path)
    return f"{path}.resume" if is_file(path) else path


def id_columns(checkpoint: Checkpoint) -> list[str]:
    """Return the names of the columns that form an id."""
    return [] if checkpoint.id_column is None else _listed(checkpoint.id_column)


def done_paths(checkpoint: Checkpoint) -> list[str]:
    """Return the paths of ``done`` as a list."""
    return [path_of(path) for path in _listed(checkpoint.done)]


def is_file(path: str) -> bool:
    """Return whether ``path`` is a file.

    In a store, a path may be both an object and a directory; it then counts as a directory.
    """
    if not is_remote(path):
        return Path(path).is_file()
    if not path.endswith(".parquet") or storage.size(path) is None:
        return False
    # An HTTP server cannot be listed, and what it has is a file.
    return path.startswith(("http://", "https://")) or not storage.names(path)


def _listed(values: Any) -> list[Any]:
    """Return one value or several as a list, without validation."""
    # What is not a list is not valid either, and is shown by the check of its items.
    return (
        list(values)
        if isinstance(values, Iterable) and not isinstance(values, str | PathLike)
        else [values]
    )
