//! What can be wrong with a CSV file.

use crate::limit::TooLarge;
use arrow_schema::{ArrowError, DataType};
use shardmill_storage::Error as StorageError;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A value that its column cannot hold.
    #[error("Line {line} of `{path}`: `{value}` in column `{column}` is no {data_type}")]
    Value { path: String, line: u64, column: String, value: String, data_type: DataType },
    #[error("Line {line} of `{path}`: column `{column}` is not valid UTF-8")]
    InvalidUtf8 { path: String, line: u64, column: String },
    #[error("Line {line} of `{path}` has {found} fields, expected {expected}")]
    FieldCount { path: String, line: u64, found: usize, expected: usize },
    /// The file ends inside of a quoted field.
    #[error("Line {line} of `{path}`: a quoted field is never closed")]
    UnclosedQuote { path: String, line: u64 },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("Line {line} of `{path}`: a record of {len} bytes is too long")]
    RecordTooLong { path: String, line: u64, len: u64 },
    #[error("The header of `{path}` names the column `{column}` twice")]
    DuplicateColumn { path: String, column: String },
    #[error("The header of `{path}` is not valid UTF-8")]
    InvalidHeader { path: String },
    /// Files without a header must agree on the number of columns.
    #[error("`{path}` has {found} columns, the schema has {expected}")]
    ColumnCount { path: String, found: usize, expected: usize },
    #[error("Column `{column}` cannot be {data_type} in a CSV file")]
    UnsupportedType { column: String, data_type: DataType },
    #[error("CSV option `{option}` cannot be {value:?}")]
    InvalidOption { option: &'static str, value: char },
    /// The records are not those that were counted when the file was opened.
    #[error("`{path}` changed after it was opened: {found} rows behind byte {offset}, expected {expected}")]
    Changed { path: String, offset: u64, found: u64, expected: u64 },
    #[error("`{path}` has no column {index}")]
    NoSuchColumn { path: String, index: usize },
    #[error("`{path}` has no block {index}")]
    NoSuchBlock { path: String, index: usize },
    #[error("The rows of `{path}` behind byte {offset} do not make a table: {source}")]
    Arrow {
        path: String,
        offset: u64,
        #[source]
        source: ArrowError,
    },
}

impl Error {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::Value { .. } => Some("give the column another type in `schema`, or choose what happens to bad lines: skip or null"),
            Self::InvalidUtf8 { .. } | Self::InvalidHeader { .. } => Some("convert the file to UTF-8"),
            Self::FieldCount { .. } => Some("check the delimiter and the quoting, or choose what happens to bad lines: skip or null"),
            Self::UnclosedQuote { .. } => Some("the file was cut, or the quote character is another one"),
            Self::ColumnCount { .. } => Some("without a header all files need the same columns"),
            Self::UnsupportedType { .. } => Some("CSV holds scalars only"),
            Self::InvalidOption { .. } => Some("delimiter and quote are two different ASCII characters, neither a line end"),
            Self::Changed { .. } => Some("leave the files alone while they are read"),
            _ => None,
        }
    }
}
