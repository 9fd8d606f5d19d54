//! Why a data set cannot be opened or read.

use arrow_schema::{ArrowError, DataType};
use shardmill_formats::table::TableError;
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(Arc<shardmill_storage::Error>),
    #[error(transparent)]
    Table(Arc<TableError>),
    #[error(transparent)]
    Plan(Arc<shardmill_plan::Error>),
    #[error(transparent)]
    Engine(Arc<shardmill_engine::Error>),
    #[error("No file of a known format in `{paths}`")]
    UnknownFormat { paths: String },
    #[error("`{first}` is {first_format} and `{second}` is {second_format}; a data set has one format")]
    MixedFormats { first: String, first_format: &'static str, second: String, second_format: &'static str },
    /// The name, or the caller, says one format, and the bytes say something else.
    #[error("`{path}` is not a valid {wanted} file: its first bytes look like {found}")]
    WrongContents {
        path: String,
        wanted: &'static str,
        found: &'static str,
        #[source]
        source: Option<Arc<TableError>>,
    },
    /// A file was named, and neither its name nor its bytes tell a format.
    #[error("The format of `{path}` is unknown: its name does not tell, and its first bytes look like {found}")]
    UnknownContents { path: String, found: &'static str },
    /// A directory that MosaicML Streaming wrote as something else than MDS.
    #[error("`{path}` lists {format} shards of MosaicML Streaming, which are not read by their index")]
    TextShards { path: String, format: String },
    #[error("`{path}` has {rows} rows, and the index of its directory lists {samples}")]
    SampleCount { path: String, rows: u64, samples: u64 },
    #[error("`{name}` is no format")]
    NoSuchFormat { name: String },
    /// Two files disagree about a column, and no type holds the values of both.
    #[error("Column `{column}` is {first_type} in `{first}` and {second_type} in `{second}`")]
    SchemaConflict { column: String, first: String, first_type: DataType, second: String, second_type: DataType },
    #[error("Column `{column}` has no value in `{path}`, and its type there allows none")]
    MissingRequired { column: String, path: String },
    #[error("`{path}` has two columns named `{column}`")]
    DuplicateColumn { path: String, column: String },
    #[error("Column {column:?} of `{path}`, or a field in it, has the character NUL in its name")]
    NulInName { path: String, column: String },
    #[error("No column `{column}`; the data has {available}")]
    UnknownColumn { column: String, available: String },
    #[error("Column `{column}` of `{path}` cannot be delivered as {wanted}")]
    Cast {
        path: String,
        column: String,
        wanted: DataType,
        #[source]
        source: Arc<ArrowError>,
    },
    #[error(transparent)]
    Columns(Arc<crate::columns::Error>),
    #[error(transparent)]
    Packing(Arc<crate::packing::Error>),
    /// A null that the output has no place for, with where it stands.
    #[error("Column `{column}` has a null in row {row} of `{path}`, and {data_type} has none outside of Arrow")]
    Null { column: String, path: String, row: u64, data_type: DataType },
    #[error("Column `{column}` has nulls in `{path}`, and {data_type} has none outside of Arrow")]
    KnownNulls { column: String, path: String, data_type: DataType },
    #[error("A column is called `{column}`, which is the name of the marks of padded rows")]
    ReservedColumn { column: String },
    #[error("A column is called `{column}`, which is to be the name of the numbers of the sources")]
    SourceColumn { column: String },
    #[error("There is no row {row}, there are {rows}")]
    NoSuchRow { row: u64, rows: u64 },
    /// Nothing near a bad row can be read either.
    #[error("No row could be read that would replace the bad ones")]
    NoReplacement {
        #[source]
        cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
    #[error("Rows cannot be put together to a batch")]
    Assemble {
        #[source]
        source: Arc<ArrowError>,
    },
}

impl Error {
    pub(crate) fn assemble(source: ArrowError) -> Self {
        Self::Assemble { source: Arc::new(source) }
    }

    /// What a store said, where that is all that is wrong: no file is to blame for it.
    #[must_use]
    pub fn of_store(&self) -> Option<&shardmill_storage::Error> {
        match self {
            Self::Storage(error) => Some(error.as_ref()).filter(|error| !matches!(error, shardmill_storage::Error::ShortRead { .. })),
            Self::Table(error) => error.of_store(),
            _ => None,
        }
    }

    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::Plan(error) => match error.as_ref() {
                shardmill_plan::Error::Storage(error) => error.hint(),
                _ => None,
            },
            Self::Table(error) => error.hint(),
            Self::Columns(error) => error.hint(),
            Self::Packing(error) => error.hint(),
            Self::Null { .. } | Self::KnownNulls { .. } => Some("choose nulls=\"fill\" with fill_values, nulls=\"mask\", or output=\"arrow\""),
            Self::NoReplacement { .. } => Some("run `shardmill verify` on the data"),
            Self::ReservedColumn { .. } => Some("rename it, leave it out by columns=, or choose another tail"),
            Self::SourceColumn { .. } => Some("choose another source_column"),
            Self::NulInName { .. } => Some("Arrow libraries do not accept such a name; write the file again with another one"),
            Self::UnknownFormat { .. } | Self::UnknownContents { .. } => Some("name it by format="),
            Self::WrongContents { .. } => Some("set format= to the format of the file, or fetch the file again"),
            Self::TextShards { .. } => Some("read the csv files as a glob, such as `directory/*.csv`, or write the data as MDS or Parquet"),
            Self::SampleCount { .. } => Some("fetch the directory again: the shard and the index are not of the same version"),
            Self::NoSuchFormat { .. } => Some("one of parquet, orc, csv, json, jsonl, arrayrecord, mds, webdataset"),
            Self::SchemaConflict { .. } => Some("read the files as data sets of their own, or write them again with one type"),
            _ => None,
        }
    }
}

impl From<shardmill_storage::Error> for Error {
    fn from(error: shardmill_storage::Error) -> Self {
        Self::Storage(Arc::new(error))
    }
}

impl From<TableError> for Error {
    fn from(error: TableError) -> Self {
        Self::Table(Arc::new(error))
    }
}

impl From<shardmill_plan::Error> for Error {
    fn from(error: shardmill_plan::Error) -> Self {
        Self::Plan(Arc::new(error))
    }
}

impl From<shardmill_engine::Error> for Error {
    fn from(error: shardmill_engine::Error) -> Self {
        Self::Engine(Arc::new(error))
    }
}

impl From<crate::columns::Error> for Error {
    fn from(error: crate::columns::Error) -> Self {
        Self::Columns(Arc::new(error))
    }
}

impl From<crate::packing::Error> for Error {
    fn from(error: crate::packing::Error) -> Self {
        Self::Packing(Arc::new(error))
    }
}
