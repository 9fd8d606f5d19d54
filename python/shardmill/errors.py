"""What shardmill raises. Each class is also the builtin that a caller would catch."""

from shardmill._native.storage import redacted


class Error(Exception):
    """Base of all errors of shardmill. The message says what, where, and what to do, and never holds a secret."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(arg) if isinstance(arg, str) else arg for arg in args))

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class OptionError(Error, ValueError):
    """An option has a value that means nothing."""


class UnsupportedExpressionError(OptionError, NotImplementedError):
    """A filter of another library has a part that is not understood here."""


class PlanError(Error, ValueError):
    """The work cannot be planned with these paths and options."""


class LiteralTypeError(PlanError, TypeError):
    """A filter compares a column with a literal of another kind."""


class FormatError(Error, ValueError):
    """Data does not have the form that its format demands."""


class IdTypeError(FormatError, TypeError):
    """Ids are of a type that identifies nothing, or of another one than those they are compared with."""


class BadRowLimitError(FormatError):
    """More rows could not be decoded than the caller allows."""


class MissingColumnError(FormatError, KeyError):
    """A column that is needed is not there."""


class RowIndexError(Error, IndexError):
    """There is no row of this number."""


class RecordError(FormatError, RuntimeError):
    """A file of records, or one of its chunks, cannot be read or written."""


class RecordIndexError(RowIndexError, RuntimeError):
    """A file has no record of this number. array_record raises a ``RuntimeError``."""


class RecordKeyError(RowIndexError, ValueError):
    """A data source has no record of this key. array_record raises a ``ValueError``."""


class ClosedError(Error, RuntimeError):
    """A reader or writer is closed, or belongs to another process."""


class SupersededError(Error, RuntimeError):
    """An iterator of a loader was continued after a newer one was created or a state was loaded; its batches would not be counted."""


class CheckpointMismatchError(Error, ValueError):
    """A saved state belongs to another data set or another order of rows."""


class CheckpointBusyError(Error, RuntimeError):
    """Another process is at work on the job of this checkpoint, or has taken it over."""


class CheckpointDamagedError(FormatError):
    """A part of a checkpoint, or an output that it names, is missing or not what it was."""


class StorageError(Error, OSError):
    """Bytes cannot be read or written."""


class NotFoundError(StorageError, FileNotFoundError):
    """A path, or every file that it could match, is missing."""


class PermissionDeniedError(StorageError, PermissionError):
    """The file system refuses access."""


class CurateError(Error, RuntimeError):
    """A curation run stopped."""


class OutputExistsError(CurateError, FileExistsError):
    """The output is there already and must not be replaced."""


class AppendModeError(CurateError, NotImplementedError):
    """Appending to an output folder is not implemented."""


class EngineError(Error, RuntimeError):
    """A native thread failed."""


class CancelledError(EngineError):
    """The run was stopped before its end."""
