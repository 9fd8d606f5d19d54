//! What can be wrong with a file of JSON Lines.

use crate::limit::TooLarge;
use crate::tar::Compression;
use arrow_schema::{ArrowError, DataType};
use shardmill_storage::Error as StorageError;
use std::io;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("Line {line} of `{path}` is no JSON at byte {column}: {expected}")]
    Syntax { path: String, line: u64, column: usize, expected: &'static str },
    #[error("Line {line} of `{path}` is no object")]
    NotAnObject { path: String, line: u64 },
    /// Between the elements of an array, or in one of them. `offset` is that in the content of the file.
    #[error("The JSON array in `{path}` is not valid at byte {offset} (line {line}): {expected}")]
    Array { path: String, line: u64, offset: u64, expected: &'static str },
    #[error("The array element at byte {offset} (line {line}) of `{path}` is not an object")]
    ElementNotAnObject { path: String, line: u64, offset: u64 },
    /// A value that its column cannot hold.
    #[error("Line {line} of `{path}`: {value} in field `{field}` is no {data_type}")]
    Value { path: String, line: u64, field: String, value: String, data_type: DataType },
    #[error("Line {line} of `{path}`: field `{field}` is not valid UTF-8")]
    InvalidUtf8 { path: String, line: u64, field: String },
    #[error("Line {line} of `{path}` has the field `{field}` twice")]
    DuplicateField { path: String, line: u64, field: String },
    /// Two values of one field whose types have nothing in common.
    #[error("Field `{field}` is {first} in line {first_line} of `{first_path}` and {second} in line {second_line} of `{second_path}`")]
    Conflict { field: String, first: &'static str, first_path: String, first_line: u64, second: &'static str, second_path: String, second_line: u64 },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("Line {line} of `{path}`: {len} bytes are too long for a line")]
    LineTooLong { path: String, line: u64, len: u64 },
    #[error("Field `{field}` cannot be {data_type} in a file of JSON Lines")]
    UnsupportedType { field: String, data_type: DataType },
    /// A stream that is damaged, or ends early.
    #[error("`{path}` cannot be decompressed behind {unpacked} bytes: {source}")]
    Unpack {
        path: String,
        unpacked: u64,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` is compressed by {compression:?}, which cannot be read")]
    Compression { path: String, compression: Compression },
    /// The lines are not those that were counted when the file was opened.
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
            Self::Syntax { .. } | Self::NotAnObject { .. } => {
                Some("each line holds one whole JSON object; `jq -c .` makes such lines. Or choose what happens to bad lines: skip or null")
            }
            Self::Array { .. } => Some("write or fetch the file again; it holds one array, `[{…}, {…}]`, and nothing after it"),
            Self::ElementNotAnObject { .. } => Some("each element is an object. Or choose what happens to bad elements: bad_lines is skip or null"),
            Self::Value { .. } => Some("give the field another type in `schema`, or choose what happens to bad lines: skip or null"),
            Self::Conflict { .. } => Some("make the values of the field alike, or give its type in `schema`"),
            Self::InvalidUtf8 { .. } => Some("convert the file to UTF-8"),
            Self::Unpack { .. } => Some("fetch or write the file again; on_bad_file=\"skip\" leaves such files out"),
            Self::Compression { .. } => Some("decompress it, or compress it by gzip or zstd"),
            Self::Changed { .. } => Some("leave the files alone while they are read"),
            _ => None,
        }
    }
}
