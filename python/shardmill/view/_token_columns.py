"""Which columns hold tokens, and of which tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardmill.errors import OptionError

if TYPE_CHECKING:
    from shardmill import Sequences, Tokenize, Tokenizer

#: Names that are taken without being asked for, if they are lists of integers.
_TOKENS = ("tokens", "input_ids")
LABELS = "labels"
#: All of these names.
TOKEN_NAMES = (*_TOKENS, LABELS)


@dataclass(frozen=True)
class TokenColumns:
    """Columns of token ids.

    Attributes:
        tokenizer: it has the texts of the ids; without one, the ids themselves are shown.
        tokens: name of the column of tokens.
        labels: name of the column of labels.
        ignore_index: label of tokens that a loss ignores.
    """

    tokenizer: Tokenizer | None = None
    tokens: str = "tokens"
    labels: str | None = None
    ignore_index: int = -100

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [self.tokens] if self.labels is None else [self.tokens, self.labels]

    @classmethod
    def computed(cls, tokenize: Tokenize | Sequences) -> TokenColumns:
        """Return the columns that a ``Tokenize`` or ``Sequences`` computes."""
        labels = tokenize.labels
        if labels is None:
            return cls(tokenize.tokenizer, tokenize.output)
        return cls(tokenize.tokenizer, tokenize.output, labels.output, labels.ignore_index)

    @classmethod
    def stored(cls, schema: Any, column: str | None = None) -> TokenColumns | None:
        """Return the columns of a data set that contains tokens; None if it does not.

        Args:
            schema: Arrow schema of the data set.
            column: the column of tokens; by default, ``tokens`` or ``input_ids``.
        """
        lists = [field.name for field in schema if _is_list_of_integers(field.type)]
        wanted = _TOKENS if column is None else (column,)
        found = next((name for name in wanted if name in lists), None)
        if found is None:
            return None
        return cls(tokens=found, labels=LABELS if LABELS in lists and found != LABELS else None)

    def check(self, schema: Any) -> None:
        """Check that a data set has these columns, as lists of integers.

        Raises:
            OptionError: If it does not.
        """
        for name in self.names:
            if not _is_list_of_integers(schema.field(name).type):
                raise OptionError(
                    f"column {name!r} is {schema.field(name).type}; "
                    "tokens and labels are lists of integers"
                )


def _is_list_of_integers(data_type: Any) -> bool:
    import pyarrow.types as types

    is_list = (
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
    )
    return is_list and types.is_integer(data_type.value_type)
