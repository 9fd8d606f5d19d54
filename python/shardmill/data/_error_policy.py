"""Handling of data that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_kind
from shardmill.errors import OptionError

RowPolicy = Literal["raise", "skip", "replace"]
FilePolicy = Literal["raise", "skip"]
LinePolicy = Literal["raise", "skip", "null"]
PicklePolicy = Literal["raise", "bytes"]


@dataclass(frozen=True, kw_only=True)
class ErrorPolicy:
    """What happens to rows, files, lines and pickles that cannot be read.

    ``files``, ``lines`` and ``pickles`` apply when a ``Dataset`` is opened, ``rows`` and
    ``max_rows`` when a ``Loader`` reads it.

    Attributes:
        rows: ``"raise"`` raises in place of the batch. ``"skip"`` drops the row, which makes its
            batch shorter. ``"replace"`` takes another row, the same one in every run.
            ``Loader.bad_rows`` lists the rows. A filter is evaluated before: a value of its columns
            that cannot be read is an error under every policy.
        max_rows: raise once this rank has seen more bad rows in an epoch than this: a count, or a
            fraction of the epoch if float.
        files: ``"raise"``, or ``"skip"`` to leave out files that cannot be opened;
            ``Dataset.skipped`` lists them. A shard that is in the index of MDS shards, but does not
            exist, is left out too. A path or glob that was given and matches no file is always an
            error.
        lines: of CSV and JSONL files. ``"raise"`` names file and line, ``"skip"`` drops the line.
            ``"null"`` stores a null for a value that does not fit its column, and for all values of
            a JSONL line that is not a valid JSON object. It ignores a field that the inferred
            schema lacks, except if the schema has no fields at all because no line is valid: this
            is an error. Elements of a JSON array are treated as lines. An array that is cut, or
            lacks a comma between two elements, is always an error, because its elements cannot be
            separated.
        pickles: columns of pickles in MDS shards, which are never decoded. ``"raise"`` rejects a
            data set that would return one, and ``"bytes"`` returns the stored bytes.

    Raises:
        ValueError: If a policy is unknown, ``max_rows`` is a float above 1, or it is given and
            ``rows`` is ``"raise"``.

    Examples:
        >>> import shardmill as sm
        >>> sm.ErrorPolicy(rows="skip", max_rows=0.001).files
        'raise'
    """

    rows: RowPolicy = "raise"
    max_rows: float | None = None
    files: FilePolicy = "raise"
    lines: LinePolicy = "raise"
    pickles: PicklePolicy = "raise"

    def __post_init__(self) -> None:
        check_fields(ErrorPolicy, vars(self), prefix="ErrorPolicy.")
        limit = self.max_rows
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, Real) or not float(limit) >= 0
        ):
            raise OptionError(
                "ErrorPolicy.max_rows must be a count of rows, "
                f"or a fraction of them such as 0.001, not {limit!r}"
            )
        if limit is not None and not isinstance(limit, Integral) and limit > 1:
            raise OptionError(
                f"ErrorPolicy.max_rows={limit!r} is a fraction above 1\n"
                "hint: a count of rows is an integer"
            )
        if isinstance(limit, Integral):
            object.__setattr__(self, "max_rows", int(limit))
        if limit is not None and self.rows == "raise":
            raise OptionError(
                'ErrorPolicy.max_rows needs rows="skip" or "replace": with "raise", '
                "the first bad row is an error"
            )


def error_policy(errors: ErrorPolicy | None) -> ErrorPolicy:
    """``errors``, or the default policy.

    Raises:
        ValueError: If it is not an ``ErrorPolicy``.
    """
    check_kind(
        "errors", errors, ErrorPolicy, 'sm.ErrorPolicy(rows="skip"), or choose files= or lines='
    )
    return errors or ErrorPolicy()
