"""What a job remembers of itself between runs."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Literal, get_args

from shardmill.errors import NotFoundError, OptionError
from shardmill.sizes import byte_count
from shardmill.storage import configure_all, path_of, refuse_keys, served_path, shown

NullIds = Literal["error", "always_process"]
DuplicateIds = Literal["count", "strict"]
ChangedInput = Literal["error", "reprocess"]
Delivery = Literal["exactly-once", "at-least-once"]


@dataclass(frozen=True)
class Checkpoint:
    """Where a :class:`shardmill.curate.Pipeline` notes which splits are done, so that a run that was stopped goes on where it was.

    A run that was killed at any moment, even by a power cut, is repeated with the same pipeline and the same checkpoint: what was
    committed stays and is not done again, what was not is done. Each row is in the output once. docs/concepts/commit-protocol.md says
    how.

    With an ``id_column`` a job over a :class:`shardmill.curate.TableSource` also knows single rows: a row whose id an earlier run has
    processed is skipped, in whatever file it lies now.

    Args:
        path: a folder, made when it is missing; it must not lie in the input or the output. Parquet files in it that hold the
            ``id_column`` (such as the checkpoint of a Ray Data job) count as ``done``; files called ``*.pending.parquet`` do not. A path
            of one such file means the same, with a folder of its name and ``.resume`` beside it.
        id_column: name of the column, or of several that make an id together. Integers, strings, binaries, booleans, dates, times and
            decimals can be ids. Identity is type and bytes: ``"7"``, ``"007"`` and ``7`` are three ids. None: the job knows splits only.
        delete_on_success: remove the checkpoint when every split was committed and nothing was quarantined.
        null_ids: ``"error"`` stops at the first row without an id and names it; ``"always_process"`` processes such a row with its split,
            and never takes it for done.
        duplicate_ids: ``"count"``: rows of one run that share an id are all processed. ``"strict"``: refuse the input before anything is done.
        changed_input: how to handle a file that changed after it was read. ``"error"`` stops the job. ``"reprocess"`` reads the file
            again: with an ``id_column``, ids that are done are skipped; without one, the whole split is run again, and the new output
            replaces the old one. A file of which nothing was committed, or that had quarantined items, may always change.
        version: any string. A checkpoint of another version is refused: change it when your functions change.
        done: files or folders with ids that are done, from elsewhere; needs an ``id_column``.
        memory_bytes: about how much memory building an index of ids may take, in bytes or as ``"1GiB"``.
        delivery: the guarantee for a remote ``path``. ``"exactly-once"`` requires conditional puts; a store without them is refused at
            the start. ``"at-least-once"`` accepts such a store. Each row is still in the output once as long as only one run works on the
            job at a time. Two runs at the same time may not notice each other: both may process the same rows, and one may replace the
            output of the other.
        storage_options: how the store of a remote ``path`` is reached, see :func:`shardmill.storage.configure`.

    Example:
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
    null_ids: NullIds = "error"
    duplicate_ids: DuplicateIds = "count"
    changed_input: ChangedInput = "error"
    version: str = ""
    done: str | PathLike[str] | Sequence[str | PathLike[str]] = ()
    memory_bytes: int | str = 1 << 30
    delivery: Delivery = "exactly-once"
    storage_options: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | PathLike) or not fspath(self.path):
            raise OptionError(f"`path` is {self.path!r}; it must be a folder")
        refuse_keys([fspath(self.path)])
        if self.storage_options is not None:
            configure_all([fspath(self.path)], self.storage_options)
        served = served_path(self.path)
        if served != fspath(self.path):
            object.__setattr__(self, "path", served)
        columns = self.id_columns
        if not all(isinstance(column, str) and column for column in columns) or (
            self.id_column is not None and not columns
        ):
            raise OptionError(f"`id_column` is {self.id_column!r}; it must be a name, or a list of names")
        if len(set(columns)) < len(columns):
            raise OptionError(f"`id_column` names a column twice: {columns}")
        for option, allowed in (
            ("null_ids", NullIds),
            ("duplicate_ids", DuplicateIds),
            ("changed_input", ChangedInput),
            ("delivery", Delivery),
        ):
            if getattr(self, option) not in get_args(allowed):
                raise OptionError(f"`{option}` is {getattr(self, option)!r}; one of {', '.join(get_args(allowed))}")
        if not isinstance(self.version, str):
            raise OptionError(f"`version` is {self.version!r}; it must be a string")
        if not isinstance(self.delete_on_success, bool):
            raise OptionError(f"`delete_on_success` is {self.delete_on_success!r}; it must be True or False")
        object.__setattr__(self, "memory_bytes", byte_count(self.memory_bytes, "memory_bytes"))
        if not all(isinstance(path, str | PathLike) for path in self.done_list()):
            raise OptionError(f"`done` is {self.done!r}; it must be a path or several")
        refuse_keys(self.done_paths)
        if not columns and self.done_paths:
            raise OptionError("`done` needs an `id_column`\nhint: name the column of the files that holds the ids")
        if not columns and self.duplicate_ids == "strict":
            raise OptionError('`duplicate_ids="strict"` needs an `id_column`')

    def __repr__(self) -> str:
        shown_fields = [entry for entry in fields(self) if entry.repr]
        said = (entry for entry in shown_fields if entry.name == "path" or getattr(self, entry.name) != entry.default)
        return f"Checkpoint({', '.join(f'{entry.name}={getattr(self, entry.name)!r}' for entry in said)})"

    def __getstate__(self) -> dict[str, Any]:
        # Secrets do not travel, nor objects that hold some.
        return {**self.__dict__, "storage_options": shown([fspath(self.path)], self.storage_options)}

    def relocate(
        self,
        *,
        input: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,  # noqa: A002 - as `--input`
        output: str | PathLike[str] | None = None,
    ) -> None:
        """Sets the new paths of the input and the output of the job, when they were moved separately from the checkpoint.

        This is not needed if checkpoint, input and output were moved or copied together, in one directory tree.
        Nothing is read from, or written to, the earlier paths.

        Args:
            input: the new path of the input; for a job with several inputs a list, in the order of ``shardmill checkpoint inspect``.
                Unchanged when ``None``.
            output: the new directory of the outputs. Unchanged when ``None``.

        Raises:
            shardmill.NotFoundError: the checkpoint, an input or the output does not exist.
            shardmill.CheckpointBusyError: the job is running.
            shardmill.OptionError: the number of inputs differs from that of the job, or the output is also an input.
        """
        from shardmill._native import journal
        from shardmill.storage import is_remote, path_list, real

        inputs = None if input is None else [real(path) for path in path_list(input)]
        target = None if output is None else real(output)
        for path in inputs or []:
            if not is_remote(path) and not glob.glob(path, recursive=True) and not Path(path).exists():  # noqa: PTH207 - it is absolute
                raise NotFoundError(f"The input `{path}` does not exist\nhint: move or copy the input there first")
        if target is not None and not is_remote(target) and not Path(target).is_dir():
            raise NotFoundError(
                f"The output directory `{target}` does not exist\nhint: move or copy the outputs there first"
            )
        if target is not None and target in (inputs or []):
            raise OptionError(f"`{target}` is the input; the outputs of a job have a directory of their own")
        journal.relocate(real(self.path), inputs=inputs, output=target)

    @property
    def id_columns(self) -> list[str]:
        """The names of the columns that make an id."""
        if self.id_column is None:
            return []
        return [self.id_column] if isinstance(self.id_column, str) else list(self.id_column)

    @property
    def done_paths(self) -> list[str]:
        """The paths of ``done`` as a list."""
        return [path_of(path) for path in self.done_list()]

    def done_list(self) -> list[Any]:
        """``done`` as a list, whatever is in it."""
        return [self.done] if isinstance(self.done, str | PathLike) else list(self.done)

    @classmethod
    def of(cls, value: Any) -> Checkpoint:
        """A checkpoint from what a user may write for one: itself, a path, or a dict of its arguments.

        Raises:
            OptionError: for anything else, and for an argument that does not exist.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str | PathLike):
            return cls(value)
        if isinstance(value, Mapping):
            known = [entry.name for entry in fields(cls)]
            if unknown := [name for name in value if name not in known]:
                raise OptionError(f"`checkpoint` has no option {unknown[0]!r}; its options are {', '.join(known)}")
            if "path" not in value:
                raise OptionError("`checkpoint` names no `path`")
            return cls(**value)
        raise OptionError(f"`checkpoint` is {value!r}; it must be a Checkpoint, a path or a dict of options")
