"""What a format can store of the rows of another, and how both sides are compared afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from shardmill._native import write as _native
from shardmill._terminal import counted
from shardmill._threads import available_cores
from shardmill.data._column_types import mds_encoding
from shardmill.data._type_names import type_name
from shardmill.errors import FormatError, MissingColumnError, OptionError
from shardmill.write._formats import WrittenFormat
from shardmill.write._media import MEDIA_ENCODINGS, MEDIA_FORMATS, Media
from shardmill.write._token_layout import WRITTEN_TOKENS

if TYPE_CHECKING:
    from shardmill.data._token_files import TokenDtype

_OF_WEBDATASET = {"__key__", "__url__", "__local_path__"}

#: Tokens of a row of a file without rows, when it is compared.
_ROW_TOKENS = 1 << 12

#: Type of a WebDataset member by the last part of its extension; others are bytes.
_READ_AS = {
    **dict.fromkeys(("txt", "text", "transcript"), "text"),
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), "integers"),
}


class StreamDigest:
    """A digest of int64 tokens as one stream, however it is cut into batches."""

    def __init__(self) -> None:
        self.rows = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def update(self, batch: Any) -> None:
        """Add the only column of a batch."""
        tokens = batch.column(0)
        if len(tokens):
            start = 8 * tokens.offset
            self._hash.update(memoryview(tokens.buffers()[1])[start : start + 8 * len(tokens)])
            self.rows += len(tokens)

    @property
    def value(self) -> str:
        """32 hexadecimal digits."""
        return self._hash.hexdigest()


class Conversion:
    """The columns of a data set when converted to a format.

    Args:
        dataset: the rows to read.
        format: the format to write.
        encodings: MDS encodings by column, if any were given.
        renames: ``OLD=NEW`` for each column that gets another name.

    Raises:
        ValueError: If the format cannot store a column; nothing was written.
    """

    def __init__(
        self,
        dataset: Any,
        format: WrittenFormat,
        encodings: Mapping[str, str] | None = None,
        renames: Sequence[str] = (),
    ) -> None:
        import pyarrow as pa

        self._pa, self._dataset = pa, dataset
        self._format: WrittenFormat = format
        names = renamed_columns(dataset.schema.names, renames)
        if format in WRITTEN_TOKENS and len(names) == 1:
            # The name that they are read with.
            names = ["tokens"]
        self._renamed = pa.schema(
            [field.with_name(name) for field, name in zip(dataset.schema, names, strict=True)],
            dataset.schema.metadata,
        )
        #: How the written rows differ.
        self.notes: list[str] = []
        new = dict(zip(dataset.schema.names, names, strict=True))
        self._named = {new[name]: mds_encoding(name, of) for name, of in (encodings or {}).items()}
        self._encodings: dict[str, str] = {}
        self._media = self._media_of(dataset, format)
        #: The schema of the rows to write.
        self.schema = self._renamed if self._media is None else self._media.schema
        check = getattr(self, f"_check_{format}", None)
        if check is not None:
            check()
        #: Columns that are compared, with the type that both sides are cast to.
        #: ``None`` compares all as they are.
        self._held = None if format in ("arrayrecord", "parquet") else self._held_types()

    def digest(self) -> _native.RowDigest | StreamDigest:
        """Return the digest of one side, for the columns that ``held`` returns."""
        return StreamDigest() if self._format == "bin" else _native.RowDigest()

    def stored(self, batch: Any, first_row: int) -> Any:
        """Return the rows to write."""
        batch = batch.rename_columns(self._renamed.names)
        return batch if self._media is None else self._media.stored(batch, first_row)

    def _media_of(self, dataset: Any, format: WrittenFormat) -> Media | None:
        if format not in MEDIA_FORMATS:
            return None
        others = [name for name, encoding in self._named.items() if encoding not in MEDIA_ENCODINGS]
        names = list(Media(self._renamed, format, others=others).columns)
        if not names:
            return None
        shown = ", ".join(map(repr, names))
        self.notes.append(f"of the files in {shown}, only the bytes are written, not the paths")
        first = dataset.take([0]) if len(dataset) and format == "mds" else None
        if first is not None:
            first = first.rename_columns(self._renamed.names)
        return Media(self._renamed, format, first, others=others)

    @property
    def encodings(self) -> dict[str, str] | None:
        """Return the encodings of all MDS columns, if any were given."""
        return self._encodings if self._named else None

    def written(self, out: str, files: list[str], dtype: str | None = None) -> Any:
        """Open the data set of the written files.

        Args:
            out: the output.
            files: its files.
            dtype: type of the tokens of files of tokens.
        """
        from shardmill import Dataset, TokenFiles

        if self._format == "megatron":
            return Dataset(files, format="megatron", columns=self.schema.names)
        if self._format == "bin":
            stored = TokenFiles(dtype=cast("TokenDtype", dtype), row_tokens=_ROW_TOKENS)
            return Dataset(files, format="bin", token_files=stored)
        if self._format == "jsonl":
            fields = [
                self._pa.field(field.name, _in_json(self._pa, field.type)) for field in self.schema
            ]
            return Dataset(files, format="jsonl", schema=self._pa.schema(fields))
        return Dataset(out if self._format == "mds" else files, format=self._format)

    def held(self, batch: Any) -> Any:
        """Return the columns that both sides have in common."""
        if self._held is None:
            return batch
        if self._format == "bin":
            # Nothing says where rows end.
            tokens = self._cast(batch.column("tokens"), self._held["tokens"]).flatten()
            return self._pa.RecordBatch.from_arrays([tokens], names=["tokens"])
        # If no file has the extension of a column, the column is not read back.
        arrays = [
            self._cast(batch.column(name), data_type)
            if name in batch.schema.names
            else self._pa.nulls(batch.num_rows, data_type)
            for name, data_type in self._held.items()
        ]
        if not arrays:
            arrays, names = [self._pa.nulls(batch.num_rows)], [""]
        else:
            names = list(self._held)
        return self._pa.RecordBatch.from_arrays(arrays, names=names)

    def _cast(self, array: Any, data_type: Any) -> Any:
        types = self._pa.types
        if isinstance(array.type, self._pa.DictionaryType):
            array = array.dictionary_decode()
        if types.is_binary(data_type) and types.is_integer(array.type):
            array = array.cast(self._pa.string())
        return array if array.type == data_type else array.cast(data_type)

    def _held_types(self) -> dict[str, Any]:
        held = {}
        for field in self.schema:
            if field.name in _OF_WEBDATASET and self._format == "webdataset":
                continue
            if (data_type := self._held_type(field)) is not None:
                held[field.name] = data_type
            else:
                kind = self._encodings.get(field.name, "json").replace("json", "JSON")
                self.notes.append(
                    f"column {field.name!r} is written as {kind}, "
                    "and only the number of rows is compared"
                )
        return held

    def _held_type(self, field: Any) -> Any:
        pa, plain = self._pa, _plain(self._pa, field.type)
        if self._format in WRITTEN_TOKENS:
            return pa.list_(pa.int64())
        if self._format == "webdataset":
            return pa.binary() if _is_scalar(pa, plain) else None
        if self._format == "mds":
            encoding = self._encodings[field.name]
            if encoding == "json" or (encoding.startswith("str_") and field.name in self._named):
                return None
            if field.name in self._named and not (
                encoding == "uint8" and pa.types.is_boolean(plain)
            ):
                # If the encoding does not fit, the writer says so, and a cast to the type of the
                # encoding would fail before.
                return plain
            return {"uint8": pa.uint8(), "bytes": pa.binary()}.get(encoding, plain)
        return plain

    def _check_arrayrecord(self) -> None:
        if len(self.schema) != 1:
            names = ", ".join(self.schema.names)
            raise OptionError(
                f"ArrayRecord has one column; select one of {names} with --column"
                if names
                else "ArrayRecord has one column, but the input has none"
            )

    def _check_jsonl(self) -> None:
        refused = _native.column_without_json(self.schema)
        if refused is not None:
            name, data_type = refused
            raise FormatError(
                f"column {name!r} is {data_type}, and JSON has no such values\n"
                "hint: exclude it with --columns, or write Parquet"
            )

    def _check_mds(self) -> None:
        rest = [field for field in self.schema if field.name not in self._named]
        known = dict(_native.mds_encodings(self._pa.schema(rest))) | self._named
        self._encodings = {name: known[name] for name in self.schema.names}
        self._refuse_nulls()

    def _refuse_nulls(self) -> None:
        from shardmill import col
        from shardmill._native.load import RowPlan
        from shardmill.data._dataset import opened_files

        files, threads = opened_files(self._dataset).native, available_cores()
        # The condition applies to the rows of SRC, so it uses the names in SRC.
        for field, written in zip(self._dataset.schema, self._renamed.names, strict=True):
            if not field.nullable:
                continue
            # In a null struct, all fields are null.
            is_media = self._media is not None and written in self._media.columns
            name = (
                f"{field.name}.bytes"
                if is_media and self._pa.types.is_struct(field.type)
                else field.name
            )
            condition = col(name).is_null()
            if self._dataset.row_filter is not None:
                condition = condition & self._dataset.row_filter
            nulls = RowPlan(files, filter=condition.tree, threads=threads).num_rows
            if nulls:
                raise FormatError(
                    f"column {field.name!r} has {counted(nulls, 'null')}, and MDS has none\n"
                    f'hint: exclude such rows with --filter "{name} is not null", '
                    "or the column with --columns"
                )

    def _check_megatron(self) -> None:
        """Check that there is a column of tokens; the writer checks the others."""
        lists = [
            field.name for field in self._dataset.schema if _is_list_of_integers(self._pa, field)
        ]
        if "tokens" not in self.schema.names:
            raise FormatError(
                f"{self._format} files have the column tokens, and the columns are "
                f"{', '.join(self.schema.names)}\nhint: "
                + (
                    f"--column {lists[0]} selects a column of lists of integers"
                    if lists
                    else "`shardmill tokenize` makes tokens of texts"
                )
            )
        tokens = self._dataset.schema[self.schema.names.index("tokens")]
        if tokens.name not in lists:
            raise FormatError(
                f"column {tokens.name!r} is {type_name(tokens.type)}, "
                "and token files have lists of integers\n"
                "hint: --column selects the column of tokens; `shardmill tokenize` makes one"
            )

    _check_bin = _check_megatron

    def _check_webdataset(self) -> None:
        pa = self._pa
        for field in self.schema:
            name, kind = field.name, field.name.rpartition(".")[2]
            if name in _OF_WEBDATASET:
                continue
            if name.startswith("_") or "/" in name or name != name.lower():
                raise FormatError(
                    f"column {name!r} cannot be the extension of a member\n"
                    "hint: extensions are lower case, have no slash and do not start "
                    "with an underscore; exclude the column with --columns"
                )
            if kind not in ("json", "jsn") and not _is_scalar(pa, _plain(pa, field.type)):
                raise FormatError(
                    f"column {name!r} is {type_name(field.type)}, "
                    "but a WebDataset member must be bytes, a string or an integer\n"
                    'hint: name the column "….json" to write JSON, or exclude it with --columns'
                )
        self._note_lost_types()

    def _note_lost_types(self) -> None:
        """Note columns whose type changes: the type of a member follows from its name."""
        pa, lost = self._pa, dict[str, list[str]]()
        for field in self.schema:
            kind, plain = field.name.rpartition(".")[2], _plain(self._pa, field.type)
            if field.name in _OF_WEBDATASET or kind in ("json", "jsn"):
                continue
            is_text, is_number = pa.types.is_string(plain), pa.types.is_integer(plain)
            read_as = _READ_AS.get(kind, "bytes")
            if read_as != ("text" if is_text else "integers" if is_number else "bytes"):
                lost.setdefault(read_as, []).append(f"{field.name!r} ({type_name(plain)})")
        for read_as, columns in lost.items():
            self.notes.append(
                f"{', '.join(columns)} will be read as {read_as}: "
                "the name of a column is the extension of its members, and readers treat "
                "txt as text, cls and id as integers, json as JSON, and most others as bytes"
            )


def renamed_columns(names: Sequence[str], renames: Sequence[str]) -> list[str]:
    """Return the names of columns after renames such as ``["old=new"]``.

    Each rename refers to the given names.

    Raises:
        ValueError: If a column does not exist or is renamed twice, or if two columns would have one
            name.

    Examples:
        >>> renamed_columns(["a", "b", "c"], ["a=b", "b=a"])
        ['b', 'a', 'c']
    """
    new: dict[str, str] = {}
    for text in renames:
        # A name may contain an equals sign.
        places = [place for place, mark in enumerate(text) if mark == "="]
        old = next((text[:place] for place in places if text[:place] in names), None)
        if old is None:
            if not places:
                raise OptionError(f"--rename {text!r} is not OLD=NEW")
            raise MissingColumnError(
                f"--rename names column {text[: places[0]]!r}; the columns are {', '.join(names)}"
                "\nhint: rename one of these columns, or add the column to --columns"
            )
        if old in new:
            raise OptionError(f"--rename names column {old!r} twice")
        new[old] = text[len(old) + 1 :]
        if not new[old]:
            raise OptionError(f"--rename {text!r} gives no new name")
    renamed = [new.get(name, name) for name in names]
    twice = next((name for place, name in enumerate(renamed) if name in renamed[:place]), None)
    if twice is not None:
        raise OptionError(f"after --rename, two columns are called {twice!r}")
    return renamed


def _is_list_of_integers(pa: Any, field: Any) -> bool:
    """Return whether a column has lists of integers, or empty ones."""
    plain = _plain(pa, field.type)
    if not pa.types.is_list(plain):
        return False
    return pa.types.is_integer(plain.value_type) or pa.types.is_null(plain.value_type)


def _is_scalar(pa: Any, data_type: Any) -> bool:
    types = pa.types
    return types.is_integer(data_type) or types.is_string(data_type) or types.is_binary(data_type)


def _in_json(pa: Any, data_type: Any) -> Any:
    """Return the type to read the values from JSON, which has no half precision."""
    plain = _plain(pa, data_type)
    if pa.types.is_struct(plain):
        return pa.struct([pa.field(field.name, _in_json(pa, field.type)) for field in plain])
    if pa.types.is_list(plain):
        return pa.list_(_in_json(pa, plain.value_type))
    return pa.float32() if pa.types.is_float16(plain) else plain


def _plain(pa: Any, data_type: Any) -> Any:
    """Return the type without details that only concern its layout."""
    types = pa.types
    if types.is_dictionary(data_type):
        return _plain(pa, data_type.value_type)
    if types.is_struct(data_type):
        return pa.struct([pa.field(field.name, _plain(pa, field.type)) for field in data_type])
    if (
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
    ):
        return pa.list_(_plain(pa, data_type.value_type))
    text = str(data_type)
    if text in ("large_string", "string_view"):
        return pa.string()
    if "binary" in text:
        return pa.binary()
    return data_type
