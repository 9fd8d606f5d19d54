//! Errors of plans.

use crate::Literal;
use crate::lake::Lake;
use crate::predicate::names_zone;
use arrow_schema::{ArrowError, DataType};
use shardmill_errors::ErrorKind;
use shardmill_formats::table::type_name;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    /// The paths exist, but contain no file of the required kind.
    #[error("No {wanted} file in `{paths}`")]
    NoInput { paths: String, wanted: String },
    /// Some of its files are not current, or have deleted rows.
    #[error(
        "`{directory}` is the directory of {} (`{}`): its files also hold rows \
         that were deleted or replaced",
        .lake.table(), .lake.mark()
    )]
    LakeDirectory { directory: String, lake: Lake },
    /// A job would process its rows twice.
    #[error("`{path}` is listed twice")]
    ListedTwice { path: String },
    #[error("`files_per_partition` and `blocksize` exclude each other")]
    TwoPartitionings,
    #[error("`{option}` must be positive")]
    NotPositive { option: &'static str },
    #[error("No column `{column}`; the data has {available}")]
    UnknownColumn { column: String, available: String, hint: Option<String> },
    /// A literal that can never equal a value of its column is an error, not an empty result.
    #[error("{operand} is {}; it cannot be compared with {literal}", type_name(.data_type))]
    LiteralType { operand: String, data_type: DataType, literal: Box<Literal> },
    #[error(
        "{left} is {}; it cannot be compared with {right}, which is {}",
        type_name(.left_type), type_name(.right_type)
    )]
    ColumnTypes { left: String, left_type: DataType, right: String, right_type: DataType },
    #[error("{operand} is {}; `{function}` takes {wanted}", type_name(.data_type))]
    OperandType {
        operand: String,
        data_type: DataType,
        function: &'static str,
        wanted: &'static str,
    },
    /// Two files disagree about a column, and there is no common type.
    #[error(
        "Column `{column}` is {} in `{first}` and {} in `{second}`",
        type_name(.first_type), type_name(.second_type)
    )]
    SchemaConflict {
        column: String,
        first: String,
        first_type: DataType,
        second: String,
        second_type: DataType,
    },
    #[error("`{path}` has two columns named `{column}`")]
    DuplicateColumn { path: String, column: String },
    #[error("Partition key `{key}` is also a column of the files")]
    PartitionColumn { key: String },
    #[error("Partition key `{key}` is twice in `{path}`")]
    PartitionTwice { path: String, key: String },
    #[error("A partition in `{path}` is not valid UTF-8 after URL-decoding")]
    PartitionText { path: String },
    #[error("An integer in `{operand}` is out of range")]
    Overflow { operand: String, source: ArrowError },
    #[error("Failed to evaluate a filter on `{operand}`")]
    Evaluate { operand: String, source: ArrowError },
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::NoInput { .. } => ErrorKind::NotFound,
            Self::UnknownColumn { .. } => ErrorKind::MissingColumn,
            Self::SchemaConflict { .. } | Self::DuplicateColumn { .. } => ErrorKind::Format,
            Self::LiteralType { .. } | Self::ColumnTypes { .. } | Self::OperandType { .. } => {
                ErrorKind::LiteralType
            }
            Self::LakeDirectory { .. }
            | Self::ListedTwice { .. }
            | Self::TwoPartitionings
            | Self::NotPositive { .. }
            | Self::PartitionColumn { .. }
            | Self::PartitionTwice { .. }
            | Self::PartitionText { .. }
            | Self::Overflow { .. }
            | Self::Evaluate { .. } => ErrorKind::Plan,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::LakeDirectory { lake, .. } => Some(match lake {
                Lake::Delta => {
                    "open a version of the table with shardmill.integrations.delta.dataset(path), \
                     or pass the list DeltaTable(path).file_uris(), with partitioning=\"hive\" \
                     if the table has partitions"
                }
                Lake::Iceberg => {
                    "open a snapshot of the table with \
                     shardmill.integrations.iceberg.IcebergTable; files that are listed one by one \
                     are read as they are"
                }
                Lake::Hudi => {
                    "list the files of one version of the table with its library, \
                     and pass their paths; files that are listed one by one are read as they are"
                }
            }),
            Self::UnknownColumn { hint, .. } => hint.as_deref(),
            Self::LiteralType { data_type, literal, .. } => match (data_type, literal.as_ref()) {
                (DataType::Timestamp(_, None), Literal::Timestamp { .. }) => {
                    Some("the column has no time zone; give the time without one")
                }
                (DataType::Timestamp(_, None), Literal::Text(text)) if names_zone(text) => {
                    Some("the column has no time zone; give the time without one")
                }
                (DataType::Timestamp(_, Some(_)), Literal::Timestamp { .. }) => Some(
                    "the column has a time zone; give the time one too, \
                     or write it as a string, which is in UTC",
                ),
                (data_type, Literal::Text(_)) if data_type.is_temporal() => Some(
                    "dates and times are written as ISO 8601, such as '2024-01-31', \
                     '2024-01-31T08:30:00' and '08:30:00'",
                ),
                (data_type, Literal::Text(_)) if data_type.is_numeric() => {
                    Some("the column holds numbers; write the value without quotes")
                }
                (data_type, Literal::Integer(_) | Literal::Unsigned(_) | Literal::Float(_))
                    if data_type.is_string() =>
                {
                    Some("the column holds strings; write the value in quotes")
                }
                (data_type, Literal::Date(_) | Literal::Timestamp { .. })
                    if data_type.is_string() =>
                {
                    Some("the column holds strings; compare it with a string, such as '2024-01-31'")
                }
                (_, Literal::Boolean(_)) => Some(
                    "only a boolean column is a condition by itself; compare others, \
                     such as `x != 0`",
                ),
                _ => None,
            },
            Self::SchemaConflict { .. } => Some(
                "select files of one type by a glob, or write them again with one type; of CSV and \
                 JSONL files, give the types by schema=, and of a TableSource by schema_overrides",
            ),
            Self::Overflow { .. } => Some("multiply a column by 1.0 to compute with floats"),
            _ => None,
        }
    }
}
