//! What can go wrong with ids and records.

use crate::keys::IdType;
use arrow_schema::{ArrowError, DataType};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error(transparent)]
    Load(#[from] shardmill_load::Error),
    #[error(transparent)]
    Engine(#[from] shardmill_engine::Error),
    #[error("An id is made of no column")]
    NoColumn,
    #[error("No column `{column}` for ids; the data has {available}")]
    MissingColumn { column: String, available: String },
    /// Floats, lists, maps and structs have no usable identity.
    #[error("Ids of column `{column}` are {data_type}, which cannot identify a row")]
    UnsupportedType { column: String, data_type: DataType },
    /// The same value in another type is another id.
    #[error("Ids of column `{column}` are {found} here and {expected} in the index")]
    TypeMismatch { column: String, expected: Box<IdType>, found: Box<IdType> },
    #[error("An id of the index has {expected} columns, {found} were given")]
    ColumnCount { expected: usize, found: usize },
    #[error("The columns of an id have different lengths")]
    Lengths,
    #[error("No file of ids in {paths}")]
    NoFiles { paths: String },
    #[error("Ids cannot be read")]
    Arrow {
        #[source]
        source: ArrowError,
    },
    #[error("`{path}` is no id index")]
    NotAnIndex { path: String },
    #[error("`{path}` is an id index of version {version}, which this program does not know")]
    IndexVersion { path: String, version: u32 },
    #[error("The id index `{path}` is damaged: {reason}")]
    DamagedIndex { path: String, reason: &'static str },
    #[error("The id index `{path}` cannot be written")]
    WriteIndex {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(inner) => inner.hint(),
            Self::Load(inner) => inner.hint(),
            Self::UnsupportedType { .. } => Some("an id is an integer, a string, bytes, a date or time, a decimal or a bool; cast the column"),
            Self::TypeMismatch { .. } => {
                Some("1 and \"1\" are different ids; read the column with the type that the index has, or build the index anew")
            }
            Self::ColumnCount { .. } => Some("give one array for each column of the index, in its order"),
            Self::NotAnIndex { .. } | Self::IndexVersion { .. } | Self::DamagedIndex { .. } => Some("delete it and build it again from its ids"),
            _ => None,
        }
    }
}

impl From<shardmill_plan::Error> for Error {
    fn from(error: shardmill_plan::Error) -> Self {
        Self::Load(error.into())
    }
}

impl From<shardmill_formats::table::TableError> for Error {
    fn from(error: shardmill_formats::table::TableError) -> Self {
        Self::Load(error.into())
    }
}
