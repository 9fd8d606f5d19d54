//! Errors of text files of records.

use crate::limit::TooLarge;
use crate::table::{arrow_message, type_name};
use crate::tar::Compression;
use arrow_schema::{ArrowError, DataType};
use shardmill_storage::Error as StorageError;
use std::io;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A value that its column cannot hold. Values in structs and lists are
    /// named as `outer.inner[3]`.
    #[error(
        "Line {line} of `{path}`: `{value}` in column `{column}` is not a valid {}",
        type_name(.data_type)
    )]
    Value { path: String, line: u64, column: String, value: String, data_type: DataType },
    /// An inferred float64 would round it, as with `-1` beside 2^64 - 1, or 30 digits.
    #[error(
        "Line {line} of `{path}`: column `{column}` has the integer `{value}`, \
         which double rounds, and no integer type holds all of its values"
    )]
    Rounded { path: String, line: u64, column: String, value: String },
    #[error("Line {line} of `{path}`: column `{column}` is not valid UTF-8")]
    InvalidUtf8 { path: String, line: u64, column: String },
    #[error("Line {line} of `{path}`: a record of {len} bytes is too long")]
    RecordTooLong { path: String, line: u64, len: u64 },
    #[error("Column `{column}` cannot be {} in a {format} file", type_name(.data_type))]
    UnsupportedType { column: String, data_type: DataType, format: &'static str },
    /// The records differ from those counted when the file was opened.
    #[error(
        "`{path}` changed after it was opened: {found} rows after byte {offset}, \
         expected {expected}"
    )]
    Changed { path: String, offset: u64, found: u64, expected: u64 },
    #[error("`{path}` has no column {index}")]
    NoSuchColumn { path: String, index: usize },
    #[error("`{path}` has no block {index}")]
    NoSuchBlock { path: String, index: usize },
    #[error(
        "The rows of `{path}` after byte {offset} cannot be combined into a table: {}",
        arrow_message(.source)
    )]
    Arrow { path: String, offset: u64, source: ArrowError },

    #[error("Line {line} of `{path}` has {found} fields, expected {expected}")]
    FieldCount { path: String, line: u64, found: usize, expected: usize },
    /// The file ends inside of a quoted field.
    #[error("Line {line} of `{path}`: a quoted field is never closed")]
    UnclosedQuote { path: String, line: u64 },
    #[error("The header of `{path}` names the column `{column}` twice")]
    DuplicateColumn { path: String, column: String },
    #[error("The header of `{path}` is not valid UTF-8")]
    InvalidHeader { path: String },
    /// Files without a header must agree on the number of columns.
    #[error("`{path}` has {found} columns, the schema has {expected}")]
    ColumnCount { path: String, found: usize, expected: usize },
    #[error("CSV option `{option}` cannot be {value:?}")]
    InvalidOption { option: &'static str, value: char },

    #[error("Line {line} of `{path}` is not valid JSON at byte {position}: {expected}")]
    Syntax { path: String, line: u64, position: usize, expected: &'static str },
    #[error("Line {line} of `{path}` is not an object")]
    NotAnObject { path: String, line: u64 },
    /// Between the elements of an array, or in one of them. `offset` refers
    /// to the content of the file.
    #[error("The JSON array in `{path}` is not valid at byte {offset} (line {line}): {expected}")]
    Array { path: String, line: u64, offset: u64, expected: &'static str },
    #[error("The array element at byte {offset} (line {line}) of `{path}` is not an object")]
    ElementNotAnObject { path: String, line: u64, offset: u64 },
    #[error("Line {line} of `{path}` has the field `{field}` twice")]
    DuplicateField { path: String, line: u64, field: String },
    /// A field that first appears after the sample that the schema was inferred from, in a file
    /// with too many of them. Named as in [`Error::Value`].
    #[error("Line {line} of `{path}` has the field `{field}`, which the inferred schema lacks")]
    UnknownField { path: String, line: u64, field: String },
    /// Two values of one field without a common type.
    #[error(
        "Field `{field}` is {first} in line {first_line} of `{first_path}` and {second} \
         in line {second_line} of `{second_path}`"
    )]
    Conflict {
        field: String,
        first: &'static str,
        first_path: String,
        first_line: u64,
        second: &'static str,
        second_path: String,
        second_line: u64,
    },
    /// A stream that is damaged, or ends early.
    #[error("`{path}` cannot be decompressed after {unpacked} bytes: {source}")]
    Unpack { path: String, unpacked: u64, source: io::Error },
    /// `offset` counts in the decompressed file.
    #[error("The byte at offset {offset} of `{path}` is not valid {encoding}")]
    Encoding { path: String, encoding: &'static str, offset: u64 },
    #[error("`{path}` is compressed with {compression}, which cannot be read")]
    Compression { path: String, compression: Compression },
}

const ENCODINGS: &str = "name the encoding of the files, \
    such as text=sm.TextOptions(encoding=\"latin-1\"), or convert them to UTF-8";

impl Error {
    /// For a value that does not fit `data_type`. Of integers, an inferred float64 refuses only
    /// those that it would round.
    pub(crate) fn of_value(
        place: (String, u64),
        column: String,
        value: String,
        data_type: DataType,
        is_inferred: bool,
    ) -> Self {
        let (path, line) = place;
        let digits = value.trim_start_matches('-').trim_end_matches('…');
        match is_inferred
            && data_type == DataType::Float64
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            true => Self::Rounded { path, line, column, value },
            false => Self::Value { path, line, column, value, data_type },
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::Value { .. } => Some(
                "give the column another type in `schema`, or drop such lines \
                 by errors=sm.ErrorPolicy(lines=\"skip\")",
            ),
            Self::Rounded { .. } => Some(
                "set its type in `schema`: string keeps the digits, decimal128(38, 0) holds 38 \
                 of them, and double rounds",
            ),
            Self::InvalidUtf8 { .. } | Self::InvalidHeader { .. } | Self::Encoding { .. } => {
                Some(ENCODINGS)
            }
            Self::Changed { .. } => Some("do not change files while they are read"),
            Self::FieldCount { .. } => Some(
                "check the delimiter and the quote of text=sm.TextOptions(…), or drop such lines \
                 by errors=sm.ErrorPolicy(lines=\"skip\")",
            ),
            Self::UnclosedQuote { .. } => Some(
                "the file is truncated, or has other quotes, \
                 which text=sm.TextOptions(quote=…) names",
            ),
            Self::ColumnCount { .. } => Some("without a header all files need the same columns"),
            Self::UnsupportedType { format: "CSV", .. } => {
                Some("CSV has no lists or structs; give the column the type string in `schema`")
            }
            Self::InvalidOption { .. } => {
                Some("delimiter and quote are two different ASCII characters, neither a line end")
            }
            Self::Syntax { .. } | Self::NotAnObject { .. } => Some(
                "each line holds one whole JSON object; `jq -c .` makes such lines. \
                 Or drop such lines by errors=sm.ErrorPolicy(lines=\"skip\")",
            ),
            Self::Array { .. } => Some(
                "write or fetch the file again; it holds one array, `[{…}, {…}]`, \
                 and nothing after it",
            ),
            Self::ElementNotAnObject { .. } => Some(
                "each element is an object. Or drop such elements \
                 by errors=sm.ErrorPolicy(lines=\"skip\")",
            ),
            Self::UnknownField { .. } => Some(
                "give the fields to read in `schema`, which ignores others, or drop such lines \
                 by errors=sm.ErrorPolicy(lines=\"skip\")",
            ),
            Self::Conflict { .. } => Some(
                "give all values of the field the same type, or set its type in `schema`; \
                 as a string, it holds the JSON text of other values",
            ),
            Self::Unpack { .. } => Some(
                "fetch or write the file again; errors=sm.ErrorPolicy(files=\"skip\") \
                 leaves such files out",
            ),
            Self::Compression { .. } => Some("decompress it, or compress it by gzip or zstd"),
            _ => None,
        }
    }
}
