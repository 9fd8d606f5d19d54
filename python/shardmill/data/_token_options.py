"""Groups of options of a ``shardmill.Tokenize``, each a frozen dataclass that checks its values."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from shardmill._choices import check_fields
from shardmill._option_values import check_filled, whole
from shardmill._sizes import byte_count
from shardmill.data._tokenizer import SpecialInText

LabelKind = Literal["all", "text", "assistant", "completion", "function"]
Unlabelled = Literal["keep", "raise"]
NullTexts = Literal["raise", "fill"]
InvalidBytes = Literal["raise", "replace"]


@dataclass(frozen=True)
class Labels:
    """Which tokens a loss gets as labels, in a list column of their own.

    Labels are the tokens, not shifted, or ``ignore_index``. A token that overlaps labelled text has
    a label. The first label of a row is always ``ignore_index``, except with ``"function"``.

    Attributes:
        kind: ``"all"`` labels all tokens, ``"text"`` the texts of the documents of ``Sequences``,
            ``"assistant"`` what an assistant wrote, ``"completion"`` the completion, and
            ``"function"`` takes the labels from the function that computes the tokens. For
            messages, the completion is the last turn of an assistant: the text that it adds to the
            messages before it with a generation prompt. For a document, it is the last text.
        ignore_index: label of tokens that a loss ignores.
        on_unlabelled: what happens to a row in which all labels are ignored, with ``"assistant"``
            or ``"completion"``. ``"keep"`` delivers it, and the first such row logs a warning;
            ``"raise"`` raises an error that names the file and the row.
        output: name of the column of labels, int64.

    Raises:
        ValueError: If an option is not valid.

    Examples:
        >>> import shardmill as sm
        >>> sm.Labels("assistant", on_unlabelled="raise").ignore_index
        -100
    """

    kind: LabelKind
    _: KW_ONLY
    ignore_index: int = -100
    on_unlabelled: Unlabelled = "keep"
    output: str = "labels"

    def __post_init__(self) -> None:
        check_fields(Labels, vars(self), prefix="Labels.")
        check_filled("Labels.output", self.output)
        object.__setattr__(
            self, "ignore_index", whole("Labels.ignore_index", self.ignore_index, -(2**63))
        )


@dataclass(frozen=True, kw_only=True)
class TextPolicy:
    """How special tokens, nulls, invalid bytes and large texts are treated.

    Attributes:
        special_in_text: what special tokens in a text become. ``"text"`` encodes them like other
            text, ``"id"`` returns their ids, as Hugging Face tokenizers do, and ``"raise"`` raises
            with file and row, as tiktoken does. By default ``"id"`` for messages, whose template
            writes special tokens, and ``"text"`` for all else. For ``tekken.json`` and ``.model``
            files, ``"id"`` is allowed for messages only.
        nulls: what to do with a null: ``"raise"`` raises an error that names the file and the row;
            ``"fill"`` produces a row without tokens.
        invalid: what to do with invalid UTF-8: ``"raise"`` raises an error that names the file, the
            row and the offset; ``"replace"`` substitutes U+FFFD.
        max_document_bytes: maximum size of a text, such as ``"256MiB"``. A larger text raises an
            error. A rendered conversation is also limited to 64 MiB.

    Raises:
        ValueError: If a policy is unknown, or the size is not valid.

    Examples:
        >>> import shardmill as sm
        >>> sm.TextPolicy(nulls="fill", max_document_bytes="1MiB").max_document_bytes
        1048576
    """

    special_in_text: SpecialInText | None = None
    nulls: NullTexts = "raise"
    invalid: InvalidBytes = "raise"
    max_document_bytes: int | str = 256 << 20

    def __post_init__(self) -> None:
        check_fields(TextPolicy, vars(self), prefix="TextPolicy.")
        size = byte_count(self.max_document_bytes, "TextPolicy.max_document_bytes")
        object.__setattr__(self, "max_document_bytes", size)
