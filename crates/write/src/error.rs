//! Why a file cannot be written.

use arrow_schema::ArrowError;

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
    Parquet(#[from] shardmill_formats::parquet::Error),
    #[error(transparent)]
    Mds(#[from] shardmill_formats::mds::Error),
    #[error(transparent)]
    NoJson(shardmill_formats::jsonl::Unwritable),
    #[error(transparent)]
    NoSample(shardmill_formats::tar::Unwritable),
    #[error("No column `{column}`; there are: {columns}")]
    MissingColumn { column: String, columns: String },
    /// A record is one value.
    #[error("Rows of several columns ({columns}) are no records of ArrayRecord")]
    SeveralColumns { columns: String },
    #[error("Column `{column}` is {data_type}, a record of ArrayRecord is bytes")]
    NoRecords { column: String, data_type: String },
    #[error("Row {row} has a null in column `{column}`, and ArrayRecord has no nulls")]
    NullRecord { column: String, row: u64 },
    #[error("Rows do not have the columns of `{path}`: {source}")]
    Rows {
        path: String,
        #[source]
        source: ArrowError,
    },
    #[error("Rows have other columns than the rows of `{path}` before")]
    OtherColumns { path: String },
    #[error("`{path}` takes rows of columns, no records")]
    OnlyRows { path: String },
    #[error("compression is none, gz or zstd, the latter two also with a level such as zstd:7, not {name:?}")]
    UnknownCompression { name: String },
    #[error("Columns cannot be used: {source}")]
    Columns {
        #[source]
        source: ArrowError,
    },
    #[error("Nothing tells the columns of `{path}`: it has no rows")]
    NoSchema { path: String },
    #[error("The writer of `{path}` was closed, or failed before")]
    Closed { path: String },
    /// Its threads and half of its data are in the other process.
    #[error("The writer of `{path}` was made in another process")]
    Forked { path: String },
}

impl Error {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::ArrayRecord(error) => error.hint(),
            Self::Parquet(error) => error.hint(),
            Self::Mds(error) => error.hint(),
            Self::NoJson(error) => error.hint(),
            Self::NoSample(error) => error.hint(),
            Self::OtherColumns { .. } => Some("columns=[…] picks some of them, in one order"),
            Self::SeveralColumns { .. } => Some("columns=[\"name\"] picks the one whose values become the records"),
            Self::NoRecords { .. } => Some("pick a column of strings or binaries, or make bytes of the row first"),
            Self::NullRecord { .. } => Some("leave such rows out by a filter: sm.col(\"name\").is_valid(), or --filter \"name is not null\""),
            Self::Rows { .. } => Some("give schema=, and rows that have it"),
            Self::NoSchema { .. } => Some("give schema="),
            Self::Forked { .. } => Some("make a writer, with a path of its own, in each process"),
            _ => None,
        }
    }
}
