//! Why a plan cannot be made.

use arrow_schema::{ArrowError, DataType};

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    /// The paths exist, but hold no file of the wanted kind.
    #[error("No {wanted} file in `{paths}`")]
    NoInput { paths: String, wanted: String },
    /// A job would process its rows twice.
    #[error("`{path}` is listed twice")]
    ListedTwice { path: String },
    #[error("`files_per_partition` and `blocksize` exclude each other")]
    TwoPartitionings,
    #[error("`{option}` must be positive")]
    NotPositive { option: &'static str },
    #[error("No column `{column}`; the data has {available}")]
    UnknownColumn { column: String, available: String },
    /// A literal that can never equal a value of its column is a mistake, not an empty result.
    #[error("Column `{column}` is {data_type}; it cannot be compared with {literal}")]
    LiteralType { column: String, data_type: DataType, literal: String },
    #[error("Column `{left}` is {left_type} and `{right}` is {right_type}; they cannot be compared")]
    ColumnTypes { left: String, left_type: DataType, right: String, right_type: DataType },
    #[error("Partition key `{key}` is also a column of the files")]
    PartitionColumn { key: String },
    #[error("Partition key `{key}` is twice in `{path}`")]
    PartitionTwice { path: String, key: String },
    #[error("A partition in `{path}` is no UTF-8 once it is URL-decoded")]
    PartitionText { path: String },
    #[error("Failed to evaluate a filter on column `{column}`")]
    Evaluate {
        column: String,
        #[source]
        source: ArrowError,
    },
}
