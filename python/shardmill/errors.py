"""Exceptions raised by shardmill.

Each class also derives from the builtin exception that a caller would catch.
"""

from shardmill._native.storage import redacted

__all__ = [
    "AppendModeError",
    "BadRowLimitError",
    "CancelledError",
    "CheckpointBusyError",
    "CheckpointDamagedError",
    "CheckpointMismatchError",
    "ClosedError",
    "CurateError",
    "EngineError",
    "Error",
    "FormatError",
    "IdTypeError",
    "LiteralTypeError",
    "MissingColumnError",
    "NotFoundError",
    "OptionError",
    "OutputExistsError",
    "PermissionDeniedError",
    "PlanError",
    "RecordError",
    "RecordIndexError",
    "RecordKeyError",
    "RowIndexError",
    "StorageError",
    "SupersededError",
    "UnsupportedExpressionError",
]


class Error(Exception):
    """Base class of all errors. Messages say what failed and where, and never contain a secret.

    The hint at the end of the message says what to do.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(arg) if isinstance(arg, str) else arg for arg in args))

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class OptionError(Error, ValueError):
    """An option has an invalid value.

    Change the option that the message names; the hint lists the valid values.
    """


class UnsupportedExpressionError(OptionError, NotImplementedError):
    """A filter of another library contains a part that is not supported.

    Write the filter with ``shardmill.col`` or as text.
    """


class PlanError(Error, ValueError):
    """The work cannot be planned for these paths and options.

    Check that all files have the same format, and that the options apply to it.
    """


class LiteralTypeError(PlanError, TypeError):
    """A filter compares or combines values of incompatible types.

    Give the literal the type of the column, or use a column of another type.
    """


class FormatError(Error, ValueError):
    """Data does not conform to its format.

    Run ``shardmill verify`` on the file. Repair or replace it, or leave it out with
    ``ErrorPolicy(files="skip")``.
    """


class IdTypeError(FormatError, TypeError):
    """Ids have an unsupported type, or another type than the ids they are compared with.

    Use an id column of a type that the message lists, with the same type in all files.
    """


class BadRowLimitError(FormatError):
    """More than ``max_rows`` rows could not be decoded.

    Inspect ``Loader.bad_rows``. Repair the files, or increase ``max_rows``.
    """


class MissingColumnError(FormatError, KeyError):
    """A required column is missing.

    Check the spelling. ``shardmill inspect`` lists the columns.
    """


class RowIndexError(Error, IndexError):
    """A row index is out of range.

    Use an index below ``len()``.
    """


class RecordError(FormatError, RuntimeError):
    """A record file, or one of its chunks, cannot be read or written.

    Run ``shardmill verify`` on the file, and write it again if it is damaged.
    """


class RecordIndexError(RowIndexError, RuntimeError):
    """A record index is out of range. array_record raises a ``RuntimeError`` here.

    Use an index below ``num_records()``.
    """


class RecordKeyError(RowIndexError, ValueError):
    """A data source has no record with this key. array_record raises a ``ValueError`` here.

    Use a key below ``len()`` of the data source.
    """


class ClosedError(Error, RuntimeError):
    """A reader or writer is closed, or belongs to another process.

    Open the file, or start the iteration, again in the process that uses it. After a fork, the
    workers of a ``Transform`` still belong to the parent process.
    """


class SupersededError(Error, RuntimeError):
    """An iterator of a loader was continued after a newer one, ``skip`` or ``load_state_dict``.

    Its batches would not be counted in the state. Use the newest iterator, or a second ``Loader``.
    """


class CheckpointMismatchError(Error, ValueError):
    """A saved state belongs to another data set or another row order.

    Load the state with the data set, filter and options that it was saved with, or start over.
    """


class CheckpointBusyError(Error, RuntimeError):
    """Another process is running the job of this checkpoint, or has taken it over.

    Wait until the other run ends, or stop it.
    """


class CheckpointDamagedError(FormatError):
    """A part of a checkpoint, or an output it refers to, is missing or was modified.

    Run ``shardmill checkpoint repair``.
    """


class StorageError(Error, OSError):
    """Data cannot be read or written.

    Check the path, the disk and the network. The message contains the response of the operating
    system or of the store.
    """


class NotFoundError(StorageError, FileNotFoundError):
    """A path does not exist, or a glob matches no file.

    Check the path or the glob. In a store, check the credentials too: some stores hide objects that
    you may not read.
    """


class PermissionDeniedError(StorageError, PermissionError):
    """The file system or the store denies access.

    Change the permissions or the credentials.
    """


class CurateError(Error, RuntimeError):
    """A curation run was aborted.

    Resolve the error that caused it. With a checkpoint, the next run continues.
    """


class OutputExistsError(CurateError, FileExistsError):
    """The output already exists and must not be replaced.

    Choose another directory, or pass ``mode="overwrite"`` or another mode that the message names.
    """


class AppendModeError(CurateError, NotImplementedError):
    """Appending to an output directory is not supported.

    Write to a new directory, and read both.
    """


class EngineError(Error, RuntimeError):
    """A native thread failed, or the system did not provide what it needs.

    If the message names a resource, such as threads or page-locked memory, use less of it.
    Otherwise this is a bug in shardmill: report it with the message.
    """


class CancelledError(EngineError):
    """The run was cancelled.

    Start the run again.
    """
