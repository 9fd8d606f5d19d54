//! Errors of writers.

use arrow_schema::ArrowError;
use shardmill_errors::ErrorKind;
use std::ops::RangeInclusive;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error(transparent)]
    Engine(#[from] shardmill_engine::Error),
    #[error(transparent)]
    ArrayRecord(#[from] shardmill_formats::arrayrecord::Error),
    #[error(transparent)]
    Parquet(shardmill_formats::parquet::Error),
    #[error(transparent)]
    Mds(#[from] shardmill_formats::mds::Error),
    #[error(transparent)]
    Documents(#[from] shardmill_documents::Error),
    #[error(transparent)]
    NoJson(shardmill_formats::json::Unwritable),
    #[error(transparent)]
    NoSample(shardmill_formats::tar::Unwritable),
    #[error("No column `{column}`; there are: {columns}")]
    MissingColumn { column: String, columns: String },
    /// A record is a single value.
    #[error("Rows of several columns ({columns}) cannot be records of ArrayRecord")]
    SeveralColumns { columns: String },
    #[error("Column `{column}` is {data_type}, and records of ArrayRecord are bytes")]
    NoRecords { column: String, data_type: String },
    #[error("Row {row} has a null in column `{column}`, and ArrayRecord has no nulls")]
    NullRecord { column: String, row: u64 },
    #[error("Token files have no column for {columns}")]
    NoTokenColumn { columns: String, has_tokens: bool },
    #[error("Column `{column}` is {data_type}, and token files have lists of integers")]
    NoTokens { column: String, data_type: String },
    #[error("Row {row} has a null in column `{column}`, and token files have no nulls")]
    NullTokens { column: String, row: u64 },
    #[error(
        "Row {row} has the id {id} at place {place}, but those of {of} are {} to {}",
        range.start(), range.end()
    )]
    OutsideId {
        row: u64,
        place: u64,
        id: i64,
        range: RangeInclusive<i64>,
        /// A type, or the vocabulary.
        of: &'static str,
    },
    #[error("Row {row} has {tokens} tokens, and Megatron-LM counts up to 2147483647")]
    LongRow { row: u64, tokens: u64 },
    #[error("Row {row} has {found}, expected {expected}")]
    OtherSequences { row: u64, found: String, expected: String },
    #[error("`{path}` would have {tokens} tokens, and the header of llm.c counts up to 2147483647")]
    ManyTokens { path: String, tokens: u64 },
    #[error("Rows do not have the columns of `{path}`: {source}")]
    Rows { path: String, source: ArrowError },
    #[error(
        "Rows do not have the columns of `{path}`: column `{column}` is {found} instead of {known}"
    )]
    OtherType { path: String, column: String, found: String, known: String },
    #[error("Rows have other columns than the rows of `{path}` before")]
    OtherColumns { path: String },
    #[error("`{path}` takes rows of columns, not records")]
    OnlyRows { path: String },
    #[error(
        "compression is none, gz or zstd, the latter two also with a level \
         such as zstd:7, not {name:?}"
    )]
    UnknownCompression { name: String },
    #[error("The columns are not valid: {source}")]
    Columns { source: ArrowError },
    #[error("The columns of `{path}` are unknown: it has no rows and no schema")]
    NoSchema { path: String },
    #[error("The writer of `{path}` was closed, or failed before")]
    Closed { path: String },
    /// Its threads and half of its data are in the other process.
    #[error("The writer of `{path}` was made in another process")]
    Forked { path: String },
}

impl From<shardmill_formats::parquet::Error> for Error {
    fn from(error: shardmill_formats::parquet::Error) -> Self {
        error.into_storage().map_or_else(Self::Parquet, Self::Storage)
    }
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::ArrayRecord(error) => error.kind(),
            Self::Parquet(error) => error.kind(),
            Self::Mds(error) => error.kind(),
            Self::Documents(error) => error.kind(),
            Self::NoJson(_) | Self::NoSample(_) => ErrorKind::Format,
            Self::NoRecords { .. }
            | Self::NullRecord { .. }
            | Self::NoTokenColumn { .. }
            | Self::NoTokens { .. }
            | Self::NullTokens { .. }
            | Self::OutsideId { .. }
            | Self::LongRow { .. }
            | Self::OtherSequences { .. }
            | Self::ManyTokens { .. }
            | Self::Rows { .. }
            | Self::Columns { .. }
            | Self::OtherColumns { .. }
            | Self::OtherType { .. } => ErrorKind::Format,
            Self::OnlyRows { .. }
            | Self::UnknownCompression { .. }
            | Self::SeveralColumns { .. }
            | Self::NoSchema { .. } => ErrorKind::Option,
            Self::MissingColumn { .. } => ErrorKind::MissingColumn,
            Self::Closed { .. } | Self::Forked { .. } => ErrorKind::Closed,
        }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::ArrayRecord(error) => error.hint(),
            Self::Parquet(error) => error.hint(),
            Self::Mds(error) => error.hint(),
            Self::Documents(error) => error.hint(),
            Self::NoJson(error) => error.hint(),
            Self::NoSample(error) => error.hint(),
            Self::OtherColumns { .. } => Some("columns=[…] selects some of them, in a fixed order"),
            Self::SeveralColumns { .. } => {
                Some("columns=[\"name\"] selects the one whose values become the records")
            }
            Self::NoRecords { .. } => {
                Some("select a column of strings or binaries, or convert the row to bytes first")
            }
            Self::NullRecord { .. } => Some(
                "leave such rows out with a filter: sm.col(\"name\").is_valid(), \
                 or --filter \"name is not null\"",
            ),
            Self::NoTokenColumn { has_tokens: true, .. } => {
                Some("columns=[\"tokens\"] selects the tokens; the others are not written")
            }
            Self::NoTokenColumn { .. } | Self::NoTokens { .. } => Some(
                "columns=[\"name\"] selects the column of tokens; `shardmill tokenize` makes one",
            ),
            Self::NullTokens { .. } => {
                Some("leave such rows out with a filter, or write an empty list")
            }
            Self::OutsideId { of: "the vocabulary", .. } => {
                Some("vocab_size= is one more than the highest id")
            }
            Self::OutsideId { .. } => {
                Some("TokenLayout.dtype (--stored-dtype) sets a type that holds it")
            }
            Self::LongRow { .. } => Some("divide it into several rows"),
            Self::OtherSequences { .. } => {
                Some("sequence_lengths has the tokens of each sequence of a row, modes its mode")
            }
            Self::ManyTokens { .. } => Some(
                "write to a directory, with a shard_bytes of 4 GiB or less, or without a header",
            ),
            Self::Rows { .. } => Some("set schema=, and pass rows that match it"),
            Self::OtherType { .. } => {
                Some("cast the column of these rows, or set the type of all rows by schema=")
            }
            Self::NoSchema { .. } => Some("give schema=, or write at least one row"),
            Self::Forked { .. } => {
                Some("create a separate writer, with its own path, in each process")
            }
            _ => None,
        }
    }
}
