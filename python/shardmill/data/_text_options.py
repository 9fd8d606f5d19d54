"""How the text of files is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_kind
from shardmill.errors import OptionError

Encoding = Literal["utf-8", "utf-16", "latin-1", "cp1252"]
NanPolicy = Literal["float", "raise"]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    r"""How the text of CSV and JSONL files is written.

    An option that does not concern the format of the files is an error if it is set.

    Attributes:
        delimiter: of CSV: the ASCII character between two fields, such as ``"\t"``. Files named
            ``.tsv`` are read with ``format="csv"``.
        quote: of CSV: the ASCII character around fields that have delimiters or line ends, which is
            doubled inside of them. ``None``: fields are never quoted.
        encoding: of CSV and JSONL: ``"utf-8"`` with or without a byte order mark, ``"utf-16"``,
            ``"latin-1"`` or ``"cp1252"``, each as Python defines it. Files in other encodings than
            UTF-8 are converted once, into the directory for temporary files.
        nan: of JSONL, and of JSON in WebDataset tars: with ``"float"``, ``NaN``, ``Infinity`` and
            ``-Infinity`` are floats, as Python writes them. With ``"raise"`` they are an error with
            file, line and column; ``ErrorPolicy(lines=…)`` applies to such lines. In CSV, ``NaN``
            is a spelling of null, as with ``pyarrow.csv``.

    Raises:
        ValueError: If ``delimiter`` or ``quote`` is not one ASCII character, both are the same, or
            another option is unknown.

    Examples:
        >>> import shardmill as sm
        >>> with open("prices.csv", "w", encoding="latin-1") as file:
        ...     _ = file.write("name;price\n'café; bar';2.5\n")
        >>> text = sm.TextOptions(delimiter=";", quote="'", encoding="latin-1")
        >>> sm.Dataset("prices.csv", text=text)[0]
        {'name': 'café; bar', 'price': 2.5}
    """

    delimiter: str = ","
    quote: str | None = '"'
    encoding: Encoding = "utf-8"
    nan: NanPolicy = "float"

    def __post_init__(self) -> None:
        for name, value in (("delimiter", self.delimiter), ("quote", self.quote)):
            is_mark = (
                isinstance(value, str)
                and len(value) == 1
                and value.isascii()
                and value not in "\r\n"
            )
            if not is_mark and (name == "delimiter" or value is not None):
                raise OptionError(
                    f"TextOptions.{name} must be one ASCII character, "
                    f"and no line end, not {value!r}"
                )
        if self.delimiter == self.quote:
            raise OptionError(
                f"TextOptions.delimiter and TextOptions.quote are both {self.quote!r}"
            )
        check_fields(TextOptions, vars(self), prefix="TextOptions.")


def checked_text(text: TextOptions | None) -> TextOptions | None:
    """Return ``text``.

    Raises:
        ValueError: If it is not a ``TextOptions``.
    """
    check_kind("text", text, TextOptions, 'sm.TextOptions(delimiter=";")')
    return text
