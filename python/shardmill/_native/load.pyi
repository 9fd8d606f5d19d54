from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, final, type_check_only

from shardmill._native.packing import PackColumns
from shardmill._native.pixels import Images
from shardmill._native.tokens import Tokenizer

__all__ = [
    "ORDER_VERSION",
    "Dataset",
    "OutputConverter",
    "Pass",
    "RecordBatchReader",
    "RowPlan",
    "Sequences",
    "TensorMemory",
    "TokenInput",
    "Tokens",
    "rebuild_mds_index",
    "row_stream",
]

ORDER_VERSION: int

@type_check_only
class TableColumn(Protocol):
    @property
    def id(self) -> int | None: ...
    @property
    def names(self) -> Sequence[str]: ...
    @property
    def default(self) -> Any: ...
    @property
    def parts(self) -> Sequence[TableColumn]: ...

@type_check_only
class TokenFiles(Protocol):
    @property
    def rows(self) -> str: ...
    @property
    def vocab_size(self) -> int | None: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def bos(self) -> int | None: ...
    @property
    def eos(self) -> int | None: ...
    @property
    def row_tokens(self) -> int: ...
    @property
    def counts(self) -> str | None: ...
    @property
    def label_mask_paths(self) -> Any: ...

@type_check_only
class TextOptions(Protocol):
    @property
    def delimiter(self) -> str: ...
    @property
    def quote(self) -> str | None: ...
    @property
    def encoding(self) -> str: ...
    @property
    def nan(self) -> str: ...

@final
class Dataset:
    def __new__(
        cls,
        paths: list[str],
        *,
        format: str | None = None,
        hive: Literal["below", "path"] | None = None,
        filter: dict[str, Any] | None = None,
        schema: Any | None = None,
        text: TextOptions | None = None,
        bad_lines: str = "raise",
        skip_bad_files: bool = False,
        has_pickle_bytes: bool = False,
        ignores_zeros: bool = False,
        token_files: TokenFiles | None = None,
        documents: list[str] | str | None = None,
        sizes: tuple[str, str] | None = None,
        max_decoded_bytes: int | None = None,
        threads: int = 1,
    ) -> Dataset: ...
    @staticmethod
    def of_table(
        schema: Any,
        columns: list[TableColumn],
        files: list[tuple[str, str, list[tuple[int, Any]], list[int]]],
        *,
        filter: dict[str, Any] | None = None,
        threads: int = 1,
    ) -> Dataset: ...
    @staticmethod
    def mixed(
        sources: list[tuple[str, Dataset, list[int]]], *, number_column: str | None = None
    ) -> Dataset: ...
    def with_tokens(self, tokens: Tokens, sources: list[int]) -> Dataset: ...
    def with_sequences(self, sequences: Sequences) -> Dataset: ...
    def with_image_limits(self, tokens: int, patches: int | None) -> Dataset: ...
    def with_images(self, images: Images) -> Dataset: ...
    @property
    def format(self) -> str | None: ...
    def schema(self, columns: list[int]) -> Any: ...
    def disagreement(self, schema: Any) -> str | None: ...
    @property
    def column_names(self) -> list[str]: ...
    def metadata(self, columns: list[int]) -> list[dict[str, str]]: ...
    def column_numbers(self, names: list[str]) -> list[int]: ...
    def list_lengths(self, columns: list[int]) -> dict[str, int]: ...
    def is_floating(self, column: int) -> bool: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def is_remote(self) -> bool: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def files(self) -> list[tuple[str, str, int, int]]: ...
    @property
    def skipped(self) -> list[tuple[str, str]]: ...
    @property
    def left_out(self) -> list[str]: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def file_digests(self) -> list[str]: ...

@final
class OutputConverter:
    def __new__(
        cls,
        dataset: Dataset,
        *,
        columns: list[int],
        form: dict[str, Any],
        is_padded: bool,
        is_filtered: bool,
        is_lent: bool = False,
        has_float_lengths: bool | None = None,
    ) -> OutputConverter: ...
    @staticmethod
    def of_packs(columns: PackColumns, *, kind: str, is_padded: bool) -> OutputConverter: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def schema(self) -> Any: ...
    @property
    def wide_unsigned(self) -> str | None: ...

@final
class RowPlan:
    def __new__(
        cls, dataset: Dataset, *, filter: dict[str, Any] | None = None, threads: int = 1
    ) -> RowPlan: ...
    def with_dataset(self, dataset: Dataset) -> RowPlan: ...
    @staticmethod
    def mixed(
        dataset: Dataset,
        plans: list[RowPlan],
        *,
        rows: int,
        stages: list[tuple[int, list[int]]],
        is_linear: bool = False,
    ) -> RowPlan: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def rows_of_files(self) -> list[int]: ...
    def counts(self, epoch: int) -> list[int]: ...
    def consumed(self, epoch: int, consumed: int) -> list[int]: ...
    def counts_before(self, epoch: int) -> list[int]: ...
    def reweighted(self, changes: list[tuple[int, list[int]]], before: list[int]) -> RowPlan: ...
    def begun(
        self, consumed: int, share: dict[str, Any]
    ) -> list[tuple[int, tuple[int, int, int, int], int]]: ...
    @property
    def num_places(self) -> int: ...
    @property
    def decoded_bytes(self) -> int: ...
    def ordered(self, *, window_bytes: int | None, seed: int, lanes: int) -> RowPlan: ...
    def steps_left(self, consumed: int, share: dict[str, Any]) -> int: ...
    def batches_left(self, consumed: int, share: dict[str, Any]) -> int: ...
    def end(self, consumed: int, share: dict[str, Any]) -> int: ...
    def start(
        self,
        converter: OutputConverter,
        share: dict[str, Any],
        *,
        epoch: int,
        consumed: int,
        threads: int,
        prefetch_bytes: int,
        stride: int = 1,
        on_bad_rows: str = "raise",
        is_audited: bool = False,
        memory: TensorMemory | None = None,
    ) -> Pass: ...
    def audit(
        self, epoch: int, start: int, end: int, share: dict[str, Any]
    ) -> tuple[int, int, int]: ...
    def explain(
        self, epoch: int, step: int, share: dict[str, Any], columns: list[int]
    ) -> dict[str, Any]: ...
    def row(self, id: int, columns: list[int]) -> list[Any]: ...
    def take(self, ids: list[int], columns: list[int]) -> Any: ...

@final
class Pass:
    def next_superbatch(
        self, stall_seconds: float, on_stall: Any
    ) -> (
        tuple[
            Any,
            list[int],
            list[int],
            list[tuple[int, str, int, str]],
            list[tuple[int, int, int]],
            list[tuple[int, int, int, int, int, int]],
        ]
        | None
    ): ...
    def stop(self) -> None: ...
    def metrics(self) -> dict[str, float]: ...

@final
class TensorMemory:
    def __new__(cls, allocate: Callable[[int], Any]) -> TensorMemory: ...

@final
class RecordBatchReader:
    @classmethod
    def from_arrow(cls, input: Any) -> RecordBatchReader: ...  # noqa: A002 - its name at run time
    @classmethod
    def from_arrow_pycapsule(cls, capsule: Any) -> RecordBatchReader: ...
    @classmethod
    def from_batches(cls, schema: Any, batches: Iterator[Any]) -> RecordBatchReader: ...
    @classmethod
    def from_stream(cls, data: Any) -> RecordBatchReader: ...
    @property
    def schema(self) -> Any: ...
    @property
    def closed(self) -> bool: ...
    def read_all(self) -> Any: ...
    def read_next_batch(self) -> Any: ...
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

def rebuild_mds_index(path: str, *, threads: int = 1) -> tuple[int, int]: ...

@final
class Sequences:
    def __new__(
        cls,
        tokenizer: Tokenizer,
        images: Images | None,
        *,
        bos: int | None,
        eos: int | None,
        separator: list[int],
        block: tuple[int, list[int], list[int], list[list[int]]],
        marker: str | None,
        chats: tuple[Tokens, list[str]] | None,
        tokens: str,
        labels: tuple[str, int, str, bool] | None,
        counts: str,
    ) -> Sequences: ...
    @property
    def outputs(self) -> list[str]: ...

@final
class TokenInput:
    @staticmethod
    def texts(separator: str) -> TokenInput: ...
    @staticmethod
    def chat(
        tokenizer: Tokenizer,
        templates: tuple[str, str | None],
        *,
        now: str | None,
        spans: str,
        template_kwargs: str,
        has_tools: bool,
        has_documents: bool,
        has_images: bool,
    ) -> TokenInput: ...
    @staticmethod
    def completion(chat: TokenInput | None, reason: str) -> TokenInput: ...

@final
class Tokens:
    def __new__(
        cls,
        tokenizer: Tokenizer,
        source: TokenInput,
        *,
        bos: int | None,
        eos: int | None,
        add_special_tokens: bool,
        special_in_text: str | None,
        has_empty_nulls: bool,
        is_lossy: bool,
        max_document_bytes: int,
        labels: tuple[int, bool, bool] | None,
        columns: tuple[str, bool, str | None],
        counts: str | None,
    ) -> Tokens: ...
    @staticmethod
    def of_function(
        function: Callable[[Any], list[Any]],
        *,
        columns: tuple[str, bool, str | None],
        counts: str | None,
    ) -> Tokens: ...

def row_stream(schema: Any, batches: Iterator[Any]) -> RecordBatchReader: ...
